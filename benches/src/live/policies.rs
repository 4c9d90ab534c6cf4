//! A batch by every policy, on daemons in control groups of unequal share, and simulated.

use super::batch::{Hosts, Placed, costs_with_quotas};
use super::comparison::{Comparison, Point};
use super::page::Shown;
use super::quotas::Quotas;
use crate::lab::Trial;
use anyhow::Result;
use pvm_sched::policy::Policy;
use pvm_sim::pulling::{Costs, Lengths, Processors, Waits, Workload, simulate};
use pvm_sim::report::number;
use pvm_sim::stats::Measured;
use pvm_tests::peers;

/// The word by which it is chosen.
pub const NAME: &str = "live-policies";

/// Simulations of each batch.
const CHOICES: u64 = 15;

/// The comparison of messages.
const MESSAGES: &str = "live-policy-messages";

/// The columns of the table of both.
const COLUMNS: [&str; 5] = [
    "policy",
    "makespan live, s",
    "makespan simulated, s",
    "messages per task live",
    "messages per task simulated",
];

/// Numbers of hosts.
const HOSTS: [usize; 2] = [4, 8];
/// With less to do.
const FEW_HOSTS: [usize; 1] = [4];

/// Their speeds, again and again.
const SPEEDS: [u32; 4] = [4000, 2000, 1000, 1000];

const SLOTS: u32 = 2;

fn workload(hosts: usize, seed: u64) -> Workload {
    let speeds = SPEEDS.into_iter().cycle().take(hosts).collect();
    Workload { speeds, slots: SLOTS, tasks: 96, lengths: Lengths::Exponential, mean: 500_000, seed }
}

/// Makespans and messages of all policies on the most hosts, as one table.
pub fn shown(found: &[Comparison]) -> Option<Shown> {
    let of = |name| found.iter().find(|comparison| comparison.name == name);
    let (makespans, messages) = (of(NAME)?, of(MESSAGES)?);
    let most = makespans.points.iter().map(|point| point.x).max_by(f64::total_cmp)?;
    let median =
        |values: &[f64]| Measured::of(values).map_or_else(String::new, |summary| number(summary.median));
    let row = |(makespan, messages): (&Point, &Point)| {
        let values = [&makespan.live, &makespan.simulated, &messages.live, &messages.simulated];
        let values = values.map(|values| median(values));
        std::iter::once(makespan.curve.to_owned()).chain(values).collect()
    };
    let both = makespans.points.iter().zip(&messages.points).filter(|(makespan, _)| makespan.x >= most);
    Some(Shown {
        name: "live-policies-together",
        title: "Each policy on daemons and simulated",
        unit: "as the column says",
        command: "cargo bench -p benches -- live-policies --docs",
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: both.map(row).collect(),
        ratios: vec![[COLUMNS[1], COLUMNS[2]], [COLUMNS[3], COLUMNS[4]]],
        note: format!("{most} hosts in control groups of unequal share."),
        ..Shown::default()
    })
}

/// All runs of a policy on one number of hosts.
struct Runs {
    policy: Policy,
    hosts: usize,
    live: Vec<Placed>,
}

/// Makespans and messages. Nothing where they cannot be measured.
pub fn measure(trial: Trial) -> Result<Vec<Comparison>> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    if let Err(reason) = Quotas::new(ours, &workload(1, 0)) {
        peers::unchecked("hosts of unequal share", &reason);
        return Ok(Vec::new());
    }
    let counts: &[usize] = if quick { &FEW_HOSTS } else { &HOSTS };
    let progress = &session.progress;
    progress.inc_length((counts.len() * Policy::ALL.len() * rounds) as u64);
    progress.set_message(format!("{NAME}: costs"));
    let mut speeds = SPEEDS.to_vec();
    speeds.dedup();
    let costs = costs_with_quotas(ours, programs, SLOTS, &speeds)?;
    let none = |policy| counts.iter().map(move |&hosts| Runs { policy, hosts, live: Vec::new() });
    let mut all: Vec<Runs> = Policy::ALL.into_iter().flat_map(none).collect();
    for seed in 1..=rounds as u64 {
        // What a policy has left behind, such as hosts that go on asking, is gone before the next one has its turn.
        for runs in &mut all {
            progress.set_message(format!("{NAME}: {}, {} hosts", runs.policy, runs.hosts));
            let workload = workload(runs.hosts, seed);
            let machine = Hosts::start_with_quotas(ours, programs, &workload, SLOTS)?;
            runs.live.push(machine.run_by(runs.policy, &workload)?);
            session.step()?;
        }
    }
    let free_messages = Costs { local: 0, between: 0, ..costs };
    let free_starts = Costs { start: 0, ..costs };
    let at_once = Costs { processors: Processors::Own { waits: Waits::default() }, ..costs };
    let comparison = |name, title, unit, get: fn(&Placed) -> f64| Comparison {
        name,
        title,
        unit,
        curve: "policy",
        x: "hosts",
        changes: vec!["no message cost", "no start cost", "daemons at once"],
        points: all
            .iter()
            .map(|runs| runs.point(&costs, &[free_messages, free_starts, at_once], get))
            .collect(),
        costs: told(&costs),
    };
    Ok(vec![
        comparison(NAME, "Makespan of a batch of 96 unequal tasks", "s", |placed| placed.makespan),
        comparison(MESSAGES, "Messages between hosts for each task", "messages", |placed| placed.between),
    ])
}

fn told(costs: &Costs) -> String {
    let Costs { local, between, start, processors } = costs;
    let Waits(waits) = match processors {
        Processors::Own { waits } => *waits,
        Processors::OneComputer(_) => Waits::default(),
    };
    let waits = waits.map(|wait| number(wait / 1000.0)).join(", ");
    format!(
        "Measured before: a message between a task and its daemon takes {local} µs, between two daemons {between} µs; all that a task \
         costs but its work takes {start} µs of a slot of a host of speed 1000; a daemon waits {waits} ms for a processor beside {:?} tasks \
         that compute.",
        Waits::BESIDE
    )
}

impl Runs {
    /// The same batches, simulated, each with several random choices of nodes and agents.
    fn simulated(&self, costs: &Costs, get: fn(&Placed) -> f64) -> Vec<f64> {
        let run = |(seed, choices)| {
            let workload = workload(self.hosts, seed);
            let outcome = simulate(&workload, self.policy, costs, choices);
            let each = |messages: u64| messages as f64 / workload.tasks as f64;
            let at_home = each(outcome.messages - outcome.between);
            get(&Placed { makespan: outcome.makespan, between: each(outcome.between), at_home })
        };
        let seeds = 1..=self.live.len() as u64;
        seeds.flat_map(|seed| (0..CHOICES).map(move |choices| (seed, choices))).map(run).collect()
    }

    fn point(&self, costs: &Costs, changed: &[Costs], get: fn(&Placed) -> f64) -> Point {
        let live = self.live.iter().map(get).collect();
        let simulated = |costs: &Costs| self.simulated(costs, get);
        Point::new((self.policy.name(), self.hosts as f64), live, simulated, costs, changed)
    }
}
