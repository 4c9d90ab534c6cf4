//! Jobs of a workload on four hosts: when they start, and when the same scheduler starts them in the simulator.

use super::page::Shown;
use super::trace::{Trace, compare};
use crate::jobs::Seen;
use crate::lab::{self, Programs, Trial};
use crate::program;
use anyhow::{Context, Result, anyhow, ensure};
use pvm_sched::queues::{Limits, Queue};
use pvm_sim::jobs::{Order, scaled};
use pvm_sim::report::Report;
use pvm_sim::workload::{Job, Lublin, Reader};
use pvm_tests::Installation;
use pvm_tests::machine::Plan;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// The word by which it is chosen.
pub const NAME: &str = "live-jobs";

/// The hosts, and the slots of each.
const HOSTS: usize = 4;
const SLOTS: u32 = 8;

/// Milliseconds from the first submission to the last; and with less to do.
const LENGTH: u64 = 120_000;
const SHORT_LENGTH: u64 = 24_000;

/// Jobs of the model, which are as many as those of the log; and with less to do.
const JOBS: usize = 80;
const FEW_JOBS: usize = 30;

/// Rounds at most: each takes as long as its jobs.
const ROUNDS_MAX: usize = 3;

/// Jobs of this part of the length at most, and of a quarter of the slots, start first, as in `pvm sim batch`.
const BRIEF: u64 = 24;

/// Longer than a workload takes.
const LIMIT: Duration = Duration::from_secs(600);

/// A piece of a log.
const LOG: &str = include_str!("../../workloads/hpc2n.swf");
/// As many nodes as count as the slots. The cluster had 240 of them; with fewer, jobs wait.
const LOG_NODES: u32 = 160;

/// The model: its seed, its users, and the load that its jobs offer.
const SEED: u64 = 7;
const USERS: usize = 6;
const LOAD: f64 = 0.8;

/// The name of a workload, a word for it, and its jobs.
type Workload = (&'static str, &'static str, Vec<Order>);

/// The workloads, each on daemons and simulated.
pub fn measure(trial: Trial) -> Result<Vec<Trace>> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    let length = if quick { SHORT_LENGTH } else { LENGTH };
    let workloads = workloads(length, if quick { FEW_JOBS } else { JOBS })?;
    let rounds = rounds.min(if quick { 1 } else { ROUNDS_MAX });
    session.progress.inc_length((workloads.len() * rounds) as u64);
    let mut traces: Vec<Trace> =
        workloads.iter().map(|&(name, word, _)| Trace { name, word, rounds: Vec::new() }).collect();
    for _ in 0..rounds {
        for (trace, (name, _, orders)) in traces.iter_mut().zip(&workloads) {
            session.progress.set_message(format!("{NAME}: {name}"));
            let seen = live(ours, programs, orders, length)?;
            trace.rounds.push(compare(&[SLOTS; HOSTS], &queues(length), orders, &seen)?);
            session.step()?;
        }
    }
    Ok(traces)
}

fn workloads(length: u64, count: usize) -> Result<[Workload; 2]> {
    let log: Vec<Job> = Reader::new(LOG.as_bytes(), false).collect::<Result<_, _>>()?;
    let slots = SLOTS * HOSTS as u32;
    let model: Vec<Job> = Lublin::new(SEED, slots, USERS).offering(LOAD, slots.into()).take(count).collect();
    let log = &log[..count.min(log.len())];
    Ok([
        ("log of HPC2N", "log", scaled(log, LOG_NODES, slots, length)),
        ("Lublin–Feitelson model", "model", scaled(&model, slots, slots, length)),
    ])
}

fn queues(length: u64) -> Vec<Queue> {
    let width = Some(SLOTS * HOSTS as u32 / 4);
    let limits = Limits { time: Some(length / BRIEF), width, ..Limits::default() };
    vec![Queue { priority: 10, limits, ..Queue::open("short") }, Queue::open("long")]
}

/// The same as a file.
fn file(length: u64) -> String {
    let queue = |queue: &Queue| {
        let time =
            queue.limits.time.map_or(String::new(), |time| format!("max-time = \"{}s\"\n", time / 1000));
        let width = queue.limits.width.map_or(String::new(), |width| format!("max-width = {width}\n"));
        format!("[[queue]]\nname = {:?}\npriority = {}\n{time}{width}\n", queue.name, queue.priority)
    };
    queues(length).iter().map(queue).collect()
}

/// What daemons do.
fn live(ours: &Installation, programs: Programs, orders: &[Order], length: u64) -> Result<Vec<Seen>> {
    let folder = TempDir::with_prefix("pvm-live-jobs-")?;
    let [queues, jobs] = ["queues.toml", "orders.json"].map(|name| folder.path().join(name));
    fs::write(&queues, file(length))?;
    fs::write(&jobs, serde_json::to_string(orders)?)?;
    let line = |host| format!("h{host} sp=1000 slots={SLOTS}\n");
    let hosts: String = (1..=HOSTS).map(line).collect();
    let plan = Plan::of(ours).name("h1").hostfile(&format!("* via=local ep=@PATH@\n{hosts}"));
    let plan = plan.variable("PVM_QUEUES", &queues).variable("PVM_STATE", folder.path());
    let machine = lab::start_hosts(plan, HOSTS)?;
    let mut command = machine.command(programs.jobs);
    command.arg("trace").args([folder.path(), Path::new(&jobs)]);
    let printed = program::output(&mut command, LIMIT)?;
    let mut seen: Vec<Seen> = serde_json::from_str(&printed).context(printed.clone())?;
    seen.sort_by_key(|seen| seen.place);
    ensure!(seen.len() == orders.len(), "{} of {} jobs have ended", seen.len(), orders.len());
    if let Some(bad) = seen.iter().find(|seen| !seen.is_done) {
        return Err(anyhow!("job {} has not ended well: {:?}", bad.id, orders[bad.place]));
    }
    Ok(seen)
}

/// As it is printed: the table, and a plot of each workload.
pub fn report(traces: &[Trace]) -> Report {
    Report {
        tables: vec![Trace::table(traces)],
        plots: traces.iter().map(Trace::plot).collect(),
        ..Report::default()
    }
}

/// As the page has it.
pub fn shown(traces: &[Trace]) -> Shown {
    let table = Trace::table(traces);
    Shown {
        name: NAME,
        title: "Jobs on four hosts of eight slots",
        command: "cargo bench -p benches -- live-jobs --docs",
        spread: Some("A row for each round".to_owned()),
        columns: table.head,
        rows: table.rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect(),
        ratios: vec![["live, s", "simulated, s"]],
        plots: traces.iter().map(Trace::plot).collect(),
        ..Shown::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_sim::jobs::{Ends, simulate};

    #[test]
    fn workloads_keep_the_hosts_busy_and_make_jobs_wait() {
        for (name, _, orders) in workloads(LENGTH, JOBS).expect("workloads") {
            let times =
                simulate(&[SLOTS; HOSTS], &queues(LENGTH), &orders, Ends::Together).expect("admitted");
            let waits = times.iter().zip(&orders).map(|(times, order)| times.started - order.submit);
            let (mean, end) = (waits.sum::<u64>() / JOBS as u64, times.iter().map(|times| times.ended).max());
            let users: std::collections::BTreeSet<usize> = orders.iter().map(|order| order.user).collect();
            assert!(users.len() >= 4, "{name}");
            assert!(
                (1000..40_000).contains(&mean) && end.is_some_and(|end| end < 240_000),
                "{name}: {mean} {end:?}"
            );
        }
    }

    #[test]
    fn the_file_has_the_queues() {
        let text = "[[queue]]\nname = \"short\"\npriority = 10\nmax-time = \"5s\"\nmax-width = 8\n\n\
                    [[queue]]\nname = \"long\"\npriority = 0\n\n";
        assert_eq!(file(LENGTH), text);
    }
}
