//! A batch by every policy, on daemons and simulated.

use super::batch::{Hosts, Placed, costs};
use super::comparison::{Comparison, Point};
use super::pulling::told;
use crate::lab::Programs;
use crate::part::Session;
use crate::stats::Summary;
use anyhow::Result;
use pvm_sched::policy::Policy;
use pvm_sim::pulling::{Costs, Lengths, Workload, simulate};
use pvm_tests::Installation;

/// The word by which it is chosen.
pub const NAME: &str = "live-policies";

/// Numbers of hosts.
const HOSTS: [usize; 2] = [4, 8];
/// With less to do.
const FEW_HOSTS: [usize; 1] = [4];

/// Their speeds, again and again.
const SPEEDS: [u32; 4] = [4000, 2000, 1000, 1000];

/// Tasks that a host counts as room for in a plain spawn; here there are none.
const TARGET: u32 = 2;

fn workload(hosts: usize, seed: u64) -> Workload {
    let speeds = SPEEDS.into_iter().cycle().take(hosts).collect();
    Workload { speeds, slots: 2, tasks: 96, lengths: Lengths::Exponential, mean: 200_000, seed }
}

/// All runs of a policy on one number of hosts.
struct Runs {
    policy: Policy,
    hosts: usize,
    live: Vec<Placed>,
}

/// Makespans and messages.
pub fn measure(
    ours: &Installation,
    programs: Programs,
    (rounds, quick): (usize, bool),
    session: &Session,
) -> Result<Vec<Comparison>> {
    let counts: &[usize] = if quick { &FEW_HOSTS } else { &HOSTS };
    let progress = &session.progress;
    progress.inc_length((counts.len() * Policy::ALL.len() * rounds) as u64);
    progress.set_message(format!("{NAME}: costs"));
    let [costs, several] = costs(ours, programs)?;
    let none = |policy| counts.iter().map(move |&hosts| Runs { policy, hosts, live: Vec::new() });
    let mut all: Vec<Runs> = Policy::ALL.into_iter().flat_map(none).collect();
    for seed in 1..=rounds as u64 {
        // What a policy has left behind, such as hosts that go on asking, is gone before the next one has its turn.
        for runs in &mut all {
            progress.set_message(format!("{NAME}: {}, {} hosts", runs.policy, runs.hosts));
            let workload = workload(runs.hosts, seed);
            let machine = Hosts::start_plain(ours, programs, &workload, TARGET)?;
            runs.live.push(machine.run_by(runs.policy, &workload)?);
            session.step()?;
        }
    }
    let free_messages = Costs { local: 0, between: 0, ..costs };
    let comparison = |name, title, unit, get: fn(&Placed) -> f64| Comparison {
        name,
        title,
        unit,
        curve: "policy",
        x: "hosts",
        changes: vec!["no message cost", "start cost of several"],
        points: all.iter().map(|runs| runs.point(&costs, &[free_messages, several], get)).collect(),
        costs: told(&costs, &several),
    };
    Ok(vec![
        comparison(NAME, "Makespan of a batch of 96 unequal tasks", "s", |placed| placed.makespan),
        comparison("live-policy-messages", "Messages between hosts for each task", "messages", |placed| {
            placed.between
        }),
    ])
}

impl Runs {
    /// The same batches, simulated.
    fn simulated(&self, costs: &Costs, get: fn(&Placed) -> f64) -> Vec<f64> {
        let run = |seed| {
            let workload = workload(self.hosts, seed);
            let outcome = simulate(&workload, self.policy, costs, seed);
            let each = |messages: u64| messages as f64 / workload.tasks as f64;
            let at_home = each(outcome.messages - outcome.between);
            get(&Placed { makespan: outcome.makespan, between: each(outcome.between), at_home })
        };
        (1..=self.live.len() as u64).map(run).collect()
    }

    fn point(&self, costs: &Costs, changed: &[Costs], get: fn(&Placed) -> f64) -> Point {
        let median = |costs| Summary::of(&self.simulated(costs, get)).map_or(0.0, |summary| summary.median);
        Point {
            curve: self.policy.name(),
            x: self.hosts as f64,
            live: self.live.iter().map(get).collect(),
            simulated: self.simulated(costs, get),
            changed: changed.iter().map(median).collect(),
        }
    }
}
