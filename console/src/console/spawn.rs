//! The console's `spawn`.

use super::Console;
use super::jobs::Destination;
use crate::commands;
use crate::shell::spawn_options::{self, JobOutput, Place, SpawnCommand};
use crate::shell::tables;
use anyhow::{Context, Result};
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::coscheduling::TEAM_VARIABLE;
use pvm_wire::spawn::Sink;
use pvm3::{Spawn, Spawned};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;

impl Console {
    pub(super) fn spawn(&mut self, args: &[String]) -> Result<String> {
        let command = spawn_options::parse(args)?;
        let destination = destination(&command.output)?;
        let own_tid = self.task.tid().raw();
        let options = self.task.options_mut();
        options.child_trace = Sink::default();
        if let Some(trace) = command.trace.as_ref().map(self::destination).transpose()?.flatten() {
            options.child_trace = Sink { tid: own_tid, context: 0, tag: self.traces.next_number() };
            self.traces.begin(trace);
        }
        let mut text = String::new();
        if destination.is_some() {
            let own = Sink { tid: self.task.tid().raw(), context: CONTEXT_TC, tag: Tc::Output.tag() };
            let before = std::mem::replace(&mut self.task.options_mut().child_output, own);
            let spawned = self.start_tasks(&command);
            self.task.options_mut().child_output = before;
            let spawned = spawned?;
            let _ = writeln!(text, "[{}]", self.jobs.next_number());
            text.push_str(&self.describe(&spawned)?);
            if let Some(destination) = destination {
                self.jobs.begin(destination, command.trace.is_some(), &spawned.tids);
            }
        } else if command.queued {
            let batch = self.spawn_of(&command).queued().start()?;
            let _ = writeln!(text, "batch {batch:x}");
        } else {
            let spawned = self.start_tasks(&command)?;
            text.push_str(&self.describe(&spawned)?);
        }
        Ok(text)
    }

    fn describe(&mut self, spawned: &Spawned) -> Result<String> {
        // Names are of use where something has failed.
        let names =
            if spawned.failed.is_empty() { BTreeMap::new() } else { commands::host_names(&mut self.task)? };
        Ok(tables::spawned(spawned, &names))
    }

    fn start_tasks(&mut self, command: &SpawnCommand) -> pvm3::Result<Spawned> {
        self.spawn_of(command).start()
    }

    fn spawn_of(&mut self, command: &SpawnCommand) -> Spawn<'_> {
        let mut spawn =
            self.task.spawn(&command.file).args(command.args.clone()).count(command.count).without_parent();
        spawn = match &command.place {
            Place::Anywhere => spawn,
            Place::Host(name) => spawn.on_host(name),
            Place::Arch(name) => spawn.on_arch(name),
        };
        if command.complement {
            spawn = spawn.others();
        }
        if command.debug {
            spawn = spawn.debug();
        }
        if let Some(directory) = &command.directory {
            spawn = spawn.directory(directory);
        }
        // Variables of the command take precedence over exported ones.
        let is_said = |name: &str| command.team.is_some() && name == TEAM_VARIABLE;
        for (name, value) in self.environment.for_tasks().into_iter().filter(|(name, _)| !is_said(name)) {
            spawn = spawn.env(&name, &value);
        }
        if let Some(team) = &command.team {
            spawn = spawn.team(team);
        }
        match &command.policy {
            Some(policy) => spawn.policy(policy),
            None => spawn,
        }
    }
}

/// Where the output goes, if it comes here at all.
fn destination(output: &JobOutput) -> Result<Option<Destination>> {
    match output {
        JobOutput::Log => Ok(None),
        JobOutput::Console => Ok(Some(Destination::Console)),
        JobOutput::File { path, append } => {
            let mut options = OpenOptions::new();
            options.create(true).write(true).append(*append).truncate(!append);
            let file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(Some(Destination::File(file)))
        }
    }
}
