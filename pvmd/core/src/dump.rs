//! The whole state of a daemon as text, for people who look for what is wrong.

use super::flow::Source;
use super::pending::Waiter;
use super::tasks::{Origin, ReplyTo, Task};
use super::{Core, Timer};
use pvm_sched::coscheduling;
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
    pub(super) fn on_dump(&mut self, to: ReplyTo) {
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
            "busy cores {:.2} of {}, task target {}, task limit {}",
            self.load.busy_cores(),
            config.cores,
            config.task_target,
            config.task_limit
        )?;
        self.write_hosts(out)?;
        for task in self.tasks.iter() {
            write_task(out, task)?;
        }
        let strangers = self.conns.iter().filter(|(_, conn)| conn.tid().is_none());
        for (id, conn) in strangers {
            writeln!(out, "connection {} is enrolling: {}", id.0, conn.stage())?;
        }
        self.write_work(out)?;
        self.flow.write_state(out)?;
        self.notifies.write_state(out)?;
        self.contexts.write_state(out)?;
        self.write_turns(out)?;
        for (&(when, _), timer) in &self.timers {
            writeln!(out, "in {:.3} s: {timer}", when.saturating_sub(self.now).as_secs_f64())?;
        }
        write!(out, "{}", self.census())
    }

    fn write_hosts(&self, out: &mut String) -> fmt::Result {
        for entry in self.hosts.iter() {
            write!(out, "host {} {} {} speed {}", entry.index, entry.name, entry.arch, entry.speed)?;
            match self.links.get(&entry.index) {
                Some(link) => writeln!(out, ": linked, {} bytes queued", link.queued)?,
                None if entry.index == self.config.index => writeln!(out, ": this one")?,
                None => writeln!(out, ": not linked")?,
            }
        }
        for host in self.links.keys().filter(|host| !self.hosts.contains(**host)) {
            writeln!(out, "host {host} is linked and no member")?;
        }
        Ok(())
    }

    fn write_work(&self, out: &mut String) -> fmt::Result {
        for (id, spawn) in &self.spawns {
            writeln!(out, "spawn {} {}", id.0, spawn.summary())?;
        }
        for (id, exec) in &self.execs {
            writeln!(out, "start {}: {} processes under way", id.0, exec.under_way())?;
        }
        for (id, (host, waiter)) in &self.pending {
            writeln!(out, "request {} to host {host}: {waiter}", id.0)?;
        }
        for batch in self.open_batches.keys() {
            writeln!(out, "batch {} of host {} has tasks to give", batch.number, batch.home)?;
        }
        if let Some(adding) = &self.adding {
            write!(out, "{adding}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Timer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(batch, _) => {
                write!(out, "look for room for batch {} of host {}", batch.number, batch.home)
            }
            Self::Hoster(host) => write!(out, "time limit of the hoster for host {host}"),
            Self::Departure(host) => write!(out, "time limit for the end of host {host}"),
            Self::LastWords(tid) => write!(out, "close the connection of {tid}, whose process has ended"),
            Self::Coscheduling(coscheduling::Timer::SliceEnd(number)) => write!(out, "end of slice {number}"),
            Self::Coscheduling(coscheduling::Timer::Look(number)) => write!(out, "review of slice {number}"),
        }
    }
}

impl fmt::Display for Waiter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Mstat(_) => "state of the host",
            Self::Turns(_) => "turns of teams",
            Self::Pstat(_) => "state of a task",
            Self::HostSync(_) => "its clock",
            Self::AddHosts(_) | Self::ServiceAdd(_) => "hosts to be added",
            Self::DeleteHosts(_) => "hosts to be deleted",
            Self::Mailbox(_) => "mailbox",
            Self::Tasks(_) => "its tasks",
            Self::Batches(_) => "its batches",
            Self::CancelBatch(_) => "a batch to be cancelled",
            Self::GroupNotice(_) => "change of a group",
            Self::LostLink(other) => return write!(out, "is its link to host {other} lost?"),
            Self::Exec { spawn, first, count } => {
                return write!(out, "start {count} tasks of spawn {}, from number {first}", spawn.0);
            }
        };
        out.write_str(what)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Child => "started by this daemon",
            Self::Tasker => "started by the tasker",
            Self::Itself => "started elsewhere",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conn(conn) => write!(out, "connection {}", conn.0),
            Self::Output(cookie) => write!(out, "the output of child {}", cookie.0),
            Self::Host(host) => write!(out, "host {host}"),
            Self::Daemon => out.write_str("this daemon"),
        }
    }
}

/// One after the other.
pub(super) fn listed<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
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
