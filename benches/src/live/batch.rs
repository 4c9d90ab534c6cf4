//! Batches on daemons.

use super::quotas::{self, Quotas};
use super::record::{Recorded, VARIABLE};
use crate::lab::{self, Programs};
use crate::program;
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use pvm_sched::policy::Policy;
use pvm_sim::pulling::{Costs, Lengths, Processors, Waits, Workload};
use pvm_sim::stats::median;
use pvm_tests::Installation;
use pvm_tests::machine::{Machine, Plan};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any batch takes.
const LIMIT: Duration = Duration::from_secs(60);

/// How often costs are measured; the medians count.
const TRIES: usize = 5;

/// How often each host is started that shows how long daemons wait.
const STARTS: usize = 2;

/// Tasks of the two batches whose difference gives the cost of a start.
const SHORT: u64 = 20;
const LONG: u64 = 120;

/// Daemons on this computer that are the hosts of a workload.
pub struct Hosts {
    machine: Machine,
    program: PathBuf,
    folder: TempDir,
    // After the machine, which is in them.
    quotas: Option<Quotas>,
}

impl Hosts {
    /// Starts them, with task managers that write down what they do.
    pub fn start(ours: &Installation, programs: Programs, workload: &Workload) -> Result<Self> {
        let folder = TempDir::with_prefix("pvm-pulling-")?;
        let plan = plan(ours, workload).variable("PVM_TASK_MANAGER", programs.manager);
        let plan = plan.variable(VARIABLE, folder.path().join("record"));
        Self::begin(plan, programs, workload, folder)
    }

    /// Starts them as they are. Each takes this number of tasks of a plain spawn before it counts as full.
    pub fn start_plain(
        ours: &Installation,
        programs: Programs,
        workload: &Workload,
        target: u32,
    ) -> Result<Self> {
        let plan = plan(ours, workload).variable("PVM_TASK_TARGET", target.to_string());
        Self::begin(plan, programs, workload, TempDir::with_prefix("pvm-policies-")?)
    }

    /// As [`Self::start_plain`]; each has a control group with as much of the processors as is its speed, in which tasks compute.
    pub fn start_with_quotas(
        ours: &Installation,
        programs: Programs,
        workload: &Workload,
        target: u32,
    ) -> Result<Self> {
        let quotas = Quotas::new(ours, workload).map_err(|reason| anyhow!("no control groups: {reason}"))?;
        let hosts = format!("* via=local ep=@PATH@\n{}", quotas.hostfile(workload));
        let plan = Plan::of(ours).name("h1").hostfile(&hosts).variable("PVM_STARTERS", "1");
        let plan = plan.variable("PVM_TASK_TARGET", target.to_string());
        // The kernel alone decides who runs: tasks stay in the groups of their hosts.
        let plan = plan.variable("PVM_COSCHEDULING", "implicit");
        let first = quotas.first().context("there are no hosts")?;
        let folder = TempDir::with_prefix("pvm-policies-")?;
        let mut hosts =
            first.within(|| Self::begin(plan, programs, workload, folder)).map_err(Error::msg)??;
        hosts.quotas = Some(quotas);
        Ok(hosts)
    }

    fn begin(plan: Plan<'_>, programs: Programs, workload: &Workload, folder: TempDir) -> Result<Self> {
        let machine = lab::start_hosts(plan, workload.speeds.len())?;
        Ok(Self { machine, program: programs.pulling.to_owned(), folder, quotas: None })
    }

    /// Arguments that tell the program of its work.
    fn load(&self, workload: &Workload) -> Vec<String> {
        let cores = self.quotas.as_ref().map(|_| format!("--cores={}", quotas::CORES));
        workload.arguments().into_iter().chain(cores).collect()
    }

    /// The seconds that a batch takes, and what its manager has heard and answered.
    pub fn run(&self, workload: &Workload) -> Result<(f64, Recorded)> {
        let record = self.folder.path().join("record");
        if record.exists() {
            fs::write(&record, "")?;
        }
        let mut command = self.machine.command(&self.program);
        command.arg("batch").arg(self.folder.path().join("numbers")).args(self.load(workload));
        let printed = program::output(&mut command, LIMIT)?;
        let makespan = printed.trim().parse().with_context(|| format!("{printed:?}"))?;
        Ok((makespan, Recorded::read(&record)?))
    }

    /// A batch by a policy.
    pub fn run_by(&self, policy: Policy, workload: &Workload) -> Result<Placed> {
        let mut command = self.machine.command(&self.program);
        command.args(["policy", policy.name()]).arg(self.folder.path().join("numbers"));
        let printed = program::output(command.args(self.load(workload)), LIMIT)?;
        Placed::read(&printed, workload.tasks)
    }

    /// The seconds in which this number of tasks that exit at once is spawned by a policy.
    pub fn spawn_by(&self, policy: Policy, tasks: usize) -> Result<f64> {
        let mut command = self.machine.command(&self.program);
        let printed = program::output(command.args(["spawn", policy.name()]).arg(tasks.to_string()), LIMIT)?;
        printed.trim().parse().with_context(|| format!("{printed:?}"))
    }

    /// The mean seconds until the first host's daemon answers while this number of tasks computes there.
    fn wait_beside(&self, tasks: u32) -> Result<f64> {
        let mut command = self.machine.command(&self.program);
        let printed = program::output(command.args(["turns", &tasks.to_string()]), LIMIT)?;
        printed.trim().parse().with_context(|| format!("{printed:?}"))
    }

    /// The seconds of a message between a task and its daemon, and between tasks on the first two hosts.
    fn messages(&self) -> Result<(f64, f64)> {
        let mut command = self.machine.command(&self.program);
        // By the daemons, as the messages of policies go.
        let printed = program::output(command.args(["messages", "h2"]).env("PVM_DIRECT", "0"), LIMIT)?;
        let words: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(words.len() == 2, "{printed:?}");
        Ok((words[0], words[1]))
    }
}

/// Local daemons, one after the other, so that they have their numbers in order.
fn plan<'a>(ours: &'a Installation, workload: &Workload) -> Plan<'a> {
    let hosts = format!("* via=local ep=@PATH@\n{}", workload.hostfile());
    Plan::of(ours).name("h1").hostfile(&hosts).variable("PVM_STARTERS", "1")
}

/// What a batch has taken that a policy has placed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Seconds from the call to the last answer.
    pub makespan: f64,
    /// Messages of the policy from one host to another, for each task.
    pub between: f64,
    /// The same between processes of the home's host.
    pub at_home: f64,
}

impl Placed {
    fn read(printed: &str, tasks: u64) -> Result<Self> {
        let words: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let &[makespan, between, at_home] = &words[..] else { bail!("{printed:?}") };
        let each = |messages: f64| messages / tasks.max(1) as f64;
        Ok(Self { makespan, between: each(between), at_home: each(at_home) })
    }
}

/// What messages and starts cost on this computer, each measured by itself: a start when there is one at a time, and when one host
/// starts as many at a time as there are processors.
pub fn costs(ours: &Installation, programs: Programs) -> Result<[Costs; 2]> {
    let count = thread::available_parallelism()?.get();
    let (local, between) = messages(ours, programs)?;
    let costs = |slots: usize| -> Result<Costs> {
        let one = Hosts::start(ours, programs, &empty(1, u32::try_from(slots)?, 1))?;
        // The host asks the manager, which is a task, and hears from it.
        let run = |workload: &Workload| Ok(one.run(workload)?.0);
        let start = cycle(u32::try_from(slots)?, run)? - 2.0 * local;
        let processors = Processors::OneComputer(count);
        Ok(Costs { local: micros(local), between: micros(between), start: micros(start), processors })
    };
    Ok([costs(1)?, costs(count)?])
}

/// The same for hosts with quotas: all that a task costs but its work, as the time of a slot of a host of speed 1000, and how long
/// daemons of hosts of these speeds wait for the processor while tasks compute there.
pub fn costs_with_quotas(
    ours: &Installation,
    programs: Programs,
    slots: u32,
    speeds: &[u32],
) -> Result<Costs> {
    let (local, between) = messages(ours, programs)?;
    let one = Hosts::start_with_quotas(ours, programs, &empty(1, slots, 1), slots)?;
    let run = |workload: &Workload| Ok(one.run_by(Policy::ActivePulling, workload)?.makespan);
    let start = micros(cycle(slots, run)?);
    drop(one);
    let waits = waits(ours, programs, slots, speeds)?;
    Ok(Costs { local: micros(local), between: micros(between), start, processors: Processors::Own { waits } })
}

/// Means over hosts of these speeds, each started several times: where the kernel has put the tasks decides more than the speed does.
fn waits(ours: &Installation, programs: Programs, slots: u32, speeds: &[u32]) -> Result<Waits> {
    let mut sums = [0.0; Waits::BESIDE.len()];
    for speed in speeds.repeat(STARTS) {
        let workload = Workload { speeds: vec![speed], ..empty(1, slots, 1) };
        let host = Hosts::start_with_quotas(ours, programs, &workload, slots)?;
        for (sum, tasks) in sums.iter_mut().zip(Waits::BESIDE) {
            *sum += host.wait_beside(tasks)? * 1e6;
        }
    }
    let count = speeds.len() * STARTS;
    Ok(Waits(sums.map(|sum| sum / count.max(1) as f64)))
}

/// The seconds of a message between a task and its daemon, and between two daemons.
fn messages(ours: &Installation, programs: Programs) -> Result<(f64, f64)> {
    let two = Hosts::start(ours, programs, &empty(1, 1, 2))?;
    let (mut local, mut far) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let (to_daemon, to_task) = two.messages()?;
        local.push(to_daemon);
        far.push(to_task);
    }
    let local = median(&local);
    // Each of the two tasks has its daemon.
    Ok((local, median(&far) - 2.0 * local))
}

/// Empty tasks.
fn empty(tasks: u64, slots: u32, hosts: usize) -> Workload {
    Workload { speeds: vec![1000; hosts], slots, tasks, lengths: Lengths::Constant, mean: 0, seed: 1 }
}

/// Seconds from the start of an empty task to the start of the next in the same slot, on one host that runs batches like this.
fn cycle(slots: u32, run: impl Fn(&Workload) -> Result<f64>) -> Result<f64> {
    let mut cycles = Vec::new();
    for _ in 0..TRIES {
        let (short, long) = (run(&empty(SHORT, slots, 1))?, run(&empty(LONG, slots, 1))?);
        cycles.push((long - short) / (LONG - SHORT) as f64 * f64::from(slots));
    }
    Ok(median(&cycles))
}

fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_counted_for_each_task() {
        let placed = Placed::read("0.5 40 10\n", 20).expect("read");
        assert_eq!(placed, Placed { makespan: 0.5, between: 2.0, at_home: 0.5 });
        for text in ["", "0.5 40", "0.5 40 10 1", "0.5 x 10"] {
            assert!(Placed::read(text, 20).is_err(), "{text}");
        }
    }
}
