//! Batches on daemons.

use super::record::{Recorded, VARIABLE};
use crate::lab::Programs;
use crate::program;
use anyhow::{Context, Result, ensure};
use pvm_sim::pulling::{Costs, Lengths, Workload};
use pvm_tests::Installation;
use pvm_tests::machine::{Machine, Plan};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any batch takes.
const LIMIT: Duration = Duration::from_secs(60);

/// How often costs are measured; the medians count.
const TRIES: usize = 5;

/// Tasks of the two batches whose difference gives the cost of a start.
const SHORT: u64 = 20;
const LONG: u64 = 120;

/// Daemons on this computer that are the hosts of a workload.
pub struct Hosts {
    machine: Machine,
    program: PathBuf,
    folder: TempDir,
}

impl Hosts {
    /// Starts them.
    pub fn start(ours: &Installation, programs: Programs, workload: &Workload) -> Result<Self> {
        let folder = TempDir::with_prefix("pvm-pulling-")?;
        let hosts = format!("* via=local ep=@PATH@\n{}", workload.hostfile());
        let plan = Plan::of(ours).name("h1").hostfile(&hosts);
        // One after the other, so that they have their numbers in order.
        let plan = plan.variable("PVM_STARTERS", "1").variable("PVM_TASK_MANAGER", programs.manager);
        let plan = plan.variable(VARIABLE, folder.path().join("record"));
        let machine = plan.try_start();
        let machine = machine.map_err(|failure| anyhow::anyhow!("the daemon does not start: {failure:?}"))?;
        machine.console_with_hosts(workload.speeds.len()).quit();
        Ok(Self { machine, program: programs.pulling.to_owned(), folder })
    }

    /// The seconds that a batch takes, and what its manager has heard and answered.
    pub fn run(&self, workload: &Workload) -> Result<(f64, Recorded)> {
        let record = self.folder.path().join("record");
        if record.exists() {
            fs::write(&record, "")?;
        }
        let mut command = self.machine.command(&self.program);
        command.arg("batch").arg(self.folder.path().join("numbers")).args(workload.arguments());
        let printed = program::output(&mut command, LIMIT)?;
        let makespan = printed.trim().parse().with_context(|| format!("{printed:?}"))?;
        Ok((makespan, Recorded::read(&record)?))
    }

    /// The seconds of a message between a task and its daemon, and between tasks on the first two hosts.
    fn messages(&self) -> Result<(f64, f64)> {
        let printed = program::output(self.machine.command(&self.program).args(["messages", "h2"]), LIMIT)?;
        let words: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(words.len() == 2, "{printed:?}");
        Ok((words[0], words[1]))
    }
}

/// What messages and starts cost on this computer, each measured by itself: a start when there is one at a time, and when one host
/// starts as many at a time as there are processors.
pub fn costs(ours: &Installation, programs: Programs) -> Result<[Costs; 2]> {
    let processors = thread::available_parallelism()?.get();
    let two = Hosts::start(ours, programs, &empty(1, 1, 2))?;
    let (mut local, mut far) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let (to_daemon, to_task) = two.messages()?;
        local.push(to_daemon);
        far.push(to_task);
    }
    drop(two);
    let local = median(&local);
    // Each of the two tasks has its daemon.
    let between = median(&far) - 2.0 * local;
    let costs = |slots: usize| -> Result<Costs> {
        // The host asks the manager, which is a task, and hears from it.
        let start = cycle(ours, programs, u32::try_from(slots)?)? - 2.0 * local;
        Ok(Costs { local: micros(local), between: micros(between), start: micros(start), processors })
    };
    Ok([costs(1)?, costs(processors)?])
}

/// Empty tasks.
fn empty(tasks: u64, slots: u32, hosts: usize) -> Workload {
    Workload { speeds: vec![1000; hosts], slots, tasks, lengths: Lengths::Constant, mean: 0, seed: 1 }
}

/// Seconds from the start of an empty task to the start of the next in the same slot, on one host.
fn cycle(ours: &Installation, programs: Programs, slots: u32) -> Result<f64> {
    let one = Hosts::start(ours, programs, &empty(1, slots, 1))?;
    let mut cycles = Vec::new();
    for _ in 0..TRIES {
        let (short, _) = one.run(&empty(SHORT, slots, 1))?;
        let (long, _) = one.run(&empty(LONG, slots, 1))?;
        cycles.push((long - short) / (LONG - SHORT) as f64 * f64::from(slots));
    }
    Ok(median(&cycles))
}

fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6).round() as u64
}

fn median(values: &[f64]) -> f64 {
    crate::stats::Summary::of(values).map_or(0.0, |summary| summary.median)
}
