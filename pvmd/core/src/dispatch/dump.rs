//! The whole state of a daemon as text, for people who look for what is wrong.

use crate::Core;
use crate::addresses::ReplyTo;
use crate::tasks::Task;
use crate::text::listed;
use pvm_wire::calls::state::Dump;
use std::fmt::{self, Write as _};

impl Core {
    /// Its whole state as text, a line per thing.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_state(&mut text);
        text
    }

    /// A task of this host wants to see it.
    pub(crate) fn on_dump(&mut self, to: ReplyTo) {
        self.reply_to::<Dump>(to, &self.dump());
    }

    fn write_state(&self, out: &mut String) -> fmt::Result {
        let config = &self.config;
        writeln!(
            out,
            "daemon of host {} ({}), up {:.1} s",
            config.index,
            config.name,
            self.now.as_secs_f64()
        )?;
        writeln!(
            out,
            "busy cores {:.2} of {}, task target {}, memory for {} more, task limit {}",
            self.node.load.busy_cores(),
            config.cores,
            config.task_target,
            self.node.memory.room(self.tasks.running()).map_or("any".to_owned(), |more| more.to_string()),
            config.task_limit
        )?;
        match self.hosts.master() {
            Some(master) => writeln!(out, "master: host {master}")?,
            None => writeln!(out, "master: lost")?,
        }
        if let Some(deputy) = &self.deputy {
            let (deputies, configuration) = (listed(deputy.deputies()), deputy.configuration());
            writeln!(out, "deputies: hosts {deputies} (configuration {configuration})")?;
        }
        self.write_hosts(out)?;
        for task in self.tasks.iter() {
            write_task(out, task)?;
        }
        let strangers = self.tasks.conns.iter().filter(|(_, conn)| conn.tid().is_none());
        for (id, conn) in strangers {
            writeln!(out, "connection {} is enrolling: {}", id.0, conn.stage())?;
        }
        self.write_work(out)?;
        self.tasks.flow.write_state(out)?;
        self.notifies.write_state(out)?;
        self.tasks.contexts.write_state(out)?;
        self.teams.write_state(out)?;
        self.out.timers.write_state(out, self.now)?;
        write!(out, "{}", self.census())
    }

    fn write_hosts(&self, out: &mut String) -> fmt::Result {
        for entry in self.hosts.iter() {
            write!(out, "host {} {} {} speed {}", entry.index, entry.name, entry.arch, entry.speed)?;
            match self.hosts.links.get(&entry.index) {
                Some(link) => writeln!(out, ": {}, {} bytes queued", link.stage(), link.queued)?,
                None if entry.index == self.config.index => writeln!(out, ": this one")?,
                None => writeln!(out, ": not linked")?,
            }
        }
        for host in self.hosts.links.keys().filter(|host| !self.hosts.contains(**host)) {
            writeln!(out, "host {host} is linked and no member")?;
        }
        Ok(())
    }

    fn write_work(&self, out: &mut String) -> fmt::Result {
        for (id, summary) in self.home.summaries() {
            writeln!(out, "spawn {} {summary}", id.0)?;
        }
        for (id, open) in self.node.under_way() {
            writeln!(out, "start {}: {open} processes under way", id.0)?;
        }
        for (id, (host, waiter)) in &self.pending.requests {
            let host = host.map_or("the master".to_owned(), |host| format!("host {host}"));
            writeln!(out, "request {} to {host}: {waiter}", id.0)?;
        }
        for batch in self.node.open_batches() {
            writeln!(out, "batch {} of host {} has tasks to give", batch.number, batch.home)?;
        }
        for summary in self.agents.summaries() {
            writeln!(out, "{summary}")?;
        }
        if let Some(adding) = self.master_state().and_then(|master| master.adding()) {
            write!(out, "{adding}")?;
        }
        Ok(())
    }
}

fn write_task(out: &mut String, task: &Task) -> fmt::Result {
    let name = task.shown_name().display();
    write!(out, "task {} pid {} parent {:x} {name}, {}", task.tid, task.pid, task.parent, task.origin)?;
    match task.conn {
        Some(conn) => write!(out, ", connection {}", conn.0)?,
        None if task.enrolled => write!(out, ", left")?,
        None => write!(out, ", not enrolled")?,
    }
    let manager = if task.manager { ", a task manager" } else { "" };
    writeln!(out, ", {} bytes and {} early fragments queued{manager}", task.queued, task.backlog.len())
}
