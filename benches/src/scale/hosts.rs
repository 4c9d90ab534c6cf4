//! A virtual machine whose hosts are all on this computer, with default settings.

use super::usage::Idle;
use crate::lab;
use crate::program;
use anyhow::{Context, Result};
use pvm_tests::Installation;
use pvm_tests::machine::{Machine, Plan};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// More than a start takes that succeeds. Each host has 60 s.
const START_LIMIT: Duration = Duration::from_secs(120);
/// `PVM_VMID` of the master; those of other hosts begin with it.
const VMID: &str = "m";
/// More than any other operation takes.
const LIMIT: Duration = Duration::from_secs(120);

/// The machine, and the program that measures in it.
pub struct Hosts<'p> {
    machine: Machine,
    program: &'p Path,
    started: Instant,
}

/// Seconds of a change of what the master keeps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// An entry is put into the mailbox.
    pub entry: f64,
    /// A task joins a group.
    pub member: f64,
    /// A host is added.
    pub host: f64,
}

/// How the start of the hosts went.
#[derive(Debug)]
pub struct Start {
    /// Hosts in the virtual machine afterwards.
    pub up: usize,
    /// Seconds until all hosts had started or failed.
    pub seconds: f64,
    /// The reasons of failures, as the daemon gives them.
    pub reasons: Vec<String>,
}

impl<'p> Hosts<'p> {
    /// Starts the master, which starts the others. `deputies` is the setting `PVM_DEPUTIES`, if it is not the default.
    pub fn start(ours: &Installation, program: &'p Path, count: usize, deputies: Option<u8>) -> Result<Self> {
        let started = Instant::now();
        let plan = Plan::of(ours).local_hosts(count).without("PVM_TASK_TARGET").variable("PVM_VMID", VMID);
        let plan = match deputies {
            Some(deputies) => plan.variable("PVM_DEPUTIES", deputies.to_string()),
            None => plan,
        };
        Ok(Self { machine: lab::start(plan)?, program, started })
    }

    /// Waits until all hosts have started or failed.
    pub fn await_start(&self) -> Result<Start> {
        let reasons = self.run(&["start-up"], START_LIMIT);
        let seconds = self.started.elapsed().as_secs_f64();
        let reasons = match reasons {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) => vec![format!("the start of the hosts: {error:#}")],
        };
        Ok(Start { up: self.count()?, seconds, reasons })
    }

    /// Hosts in the virtual machine now.
    pub fn count(&self) -> Result<usize> {
        let text = self.run(&["hosts"], LIMIT)?;
        text.trim().parse().with_context(|| format!("{text:?} is no number of hosts"))
    }

    /// The daemons' use of the processors and the network while the machine is idle.
    pub fn idle(&self, time: Duration) -> Result<Idle> {
        let master = self.machine.daemon_pid();
        Idle::measure(master, &[&[master][..], &self.slaves()].concat(), time)
    }

    /// Two spawns of a task per host: for each the number of hosts that got tasks, and the seconds of the call.
    pub fn spawn(&self, tasks: usize) -> Result<[(usize, f64); 2]> {
        let text = self.run(&["spawn", &tasks.to_string()], LIMIT)?;
        two_spawns(&text).with_context(|| format!("{text:?} is no result of two spawns"))
    }

    /// Kills the daemon of a host; the seconds until each notice of a lost host.
    pub fn lose(&self) -> Result<Vec<f64>> {
        let slaves = self.slaves();
        let victim = slaves.get(slaves.len() / 2).context("there is no other host than the master")?;
        let text = self.run(&["loss", &victim.to_string()], LIMIT)?;
        let notices: Result<Vec<f64>, _> = text.lines().map(str::parse).collect();
        notices.with_context(|| format!("{text:?} is no list of notices"))
    }

    /// Changes what the master keeps.
    pub fn change(&self) -> Result<Changes> {
        let text = self.run(&["changes"], LIMIT)?;
        Changes::parse(&text).with_context(|| format!("{text:?} is no result of three changes"))
    }

    /// Kills the master's daemon; the seconds until a request of a task on the last host is answered by its successor.
    pub fn lose_master(&self, last: usize) -> Result<f64> {
        let master = self.machine.daemon_pid().to_string();
        let mut command = self.machine.command(self.program);
        command.args(["succession", &master]).env("PVM_VMID", format!("{VMID}.h{last}"));
        let text = program::output(&mut command, LIMIT)?;
        text.trim().parse().with_context(|| format!("{text:?} is no time"))
    }

    fn slaves(&self) -> Vec<i32> {
        self.machine.slave_daemons().into_iter().map(|daemon| daemon.pid).collect()
    }

    fn run(&self, words: &[&str], limit: Duration) -> Result<String> {
        program::output(self.machine.command(self.program).args(words), limit)
    }
}

impl Changes {
    fn parse(text: &str) -> Option<Self> {
        let times: Vec<f64> = text.lines().map(|line| line.parse().ok()).collect::<Option<_>>()?;
        let [entry, member, host] = times[..] else { return None };
        Some(Self { entry, member, host })
    }
}

/// A line for each spawn.
fn two_spawns(text: &str) -> Option<[(usize, f64); 2]> {
    let line = |line: &str| {
        let (hosts, seconds) = line.split_once(' ')?;
        Some((hosts.parse().ok()?, seconds.parse().ok()?))
    };
    let spawns: Vec<_> = text.lines().map(line).collect::<Option<_>>()?;
    spawns.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_two_spawns() {
        assert_eq!(two_spawns("8 0.5\n7 0.25\n"), Some([(8, 0.5), (7, 0.25)]));
        for text in ["", "8 0.5\n", "8 0.5\n8 x\n", "8\n8 0.5\n", "8 1\n8 1\n8 1\n"] {
            assert_eq!(two_spawns(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_lines_of_three_changes() {
        assert_eq!(Changes::parse("0.5\n0.25\n2\n"), Some(Changes { entry: 0.5, member: 0.25, host: 2.0 }));
        for text in ["", "1\n2\n", "1\n2\nx\n", "1\n2\n3\n4\n"] {
            assert_eq!(Changes::parse(text), None, "{text:?}");
        }
    }
}
