//! Batches over the number of hosts.

use super::batch::{Hosts, costs};
use super::comparison::{Comparison, Point};
use crate::lab::Trial;
use anyhow::Result;
use pvm_sched::policy::Policy;
use pvm_sim::pulling::{Costs, Lengths, Outcome, Processors, Workload, simulate};

/// The word by which it is chosen.
pub const NAME: &str = "live-pulling";

/// Numbers of hosts.
const HOSTS: [usize; 4] = [1, 2, 4, 8];
/// With less to do.
const FEW_HOSTS: [usize; 2] = [2, 4];

/// Their speeds, again and again.
const SPEEDS: [u32; 4] = [4000, 2000, 1000, 1000];

const SLOTS: u32 = 2;
const TASKS: u64 = 96;

/// The batches: their name, how unequal their tasks are, and how long on a host of speed 1000, in µs.
const BATCHES: [(&str, Lengths, u64); 3] = [
    ("equal tasks of 100 ms", Lengths::Constant, 100_000),
    ("unequal tasks of 100 ms", Lengths::Exponential, 100_000),
    ("equal tasks of 5 ms", Lengths::Constant, 5_000),
];

fn workload(batch: usize, hosts: usize, seed: u64) -> Workload {
    let (_, lengths, mean) = BATCHES[batch];
    let speeds = SPEEDS.into_iter().cycle().take(hosts).collect();
    Workload { speeds, slots: SLOTS, tasks: TASKS, lengths, mean, seed }
}

/// The result of a run, live or simulated.
#[derive(Clone, Copy, Debug)]
struct Run {
    makespan: f64,
    asks: f64,
}

/// All runs of a batch on one number of hosts.
struct Runs {
    batch: usize,
    hosts: usize,
    live: Vec<Run>,
}

/// Makespans and asks.
pub fn measure(trial: Trial) -> Result<Vec<Comparison>> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    let counts: &[usize] = if quick { &FEW_HOSTS } else { &HOSTS };
    let progress = &session.progress;
    progress.inc_length((counts.len() * BATCHES.len() * rounds) as u64);
    progress.set_message(format!("{NAME}: costs"));
    let [costs, several] = costs(ours, programs)?;
    let mut all = Vec::new();
    for &hosts in counts {
        let machine = Hosts::start(ours, programs, &workload(0, hosts, 0))?;
        // The first batch finds everything cold.
        machine.run(&workload(2, hosts, 0))?;
        let mut runs: Vec<Runs> =
            (0..BATCHES.len()).map(|batch| Runs { batch, hosts, live: Vec::new() }).collect();
        for seed in 1..=rounds as u64 {
            for runs in &mut runs {
                progress.set_message(format!("{NAME}: {}, {hosts} hosts", BATCHES[runs.batch].0));
                let (makespan, recorded) = machine.run(&workload(runs.batch, hosts, seed))?;
                runs.live.push(Run { makespan, asks: recorded.exchanges.len() as f64 / TASKS as f64 });
                session.step()?;
            }
        }
        all.extend(runs);
    }
    all.sort_by_key(|runs| runs.batch);
    let told = told(&costs, &several);
    let free_starts = Costs { start: 0, ..costs };
    let at_a_time = Costs { processors: Processors::OneComputer(TASKS as usize), ..costs };
    let free_messages = Costs { local: 0, between: 0, ..costs };
    let comparison = |name, title, unit, get: fn(&Run) -> f64| Comparison {
        name,
        title,
        unit,
        curve: "batch",
        x: "hosts",
        changes: vec!["no message cost", "no start cost", "start cost of several", "any starts at a time"],
        points: all
            .iter()
            .map(|runs| runs.point(&costs, &[free_messages, free_starts, several, at_a_time], get))
            .collect(),
        costs: told.clone(),
    };
    Ok(vec![
        comparison(NAME, "Makespan of a batch of 96 tasks", "s", |run| run.makespan),
        comparison("live-asks", "How often nodes ask", "asks per task", |run| run.asks),
    ])
}

fn told(costs: &Costs, several: &Costs) -> String {
    let Costs { local, between, start, .. } = costs;
    format!(
        "Measured before: a message between a task and its daemon takes {local} µs, between two daemons {between} µs; the start and the \
         end of a task take {start} µs, of one for each processor at a time {} µs each.",
        several.start
    )
}

impl Runs {
    /// The same batches, simulated.
    fn simulated(&self, costs: &Costs, get: fn(&Run) -> f64) -> Vec<f64> {
        let run = |seed| {
            let Outcome { makespan, asks, .. } =
                simulate(&workload(self.batch, self.hosts, seed), Policy::ActivePulling, costs, seed);
            get(&Run { makespan, asks: asks as f64 / TASKS as f64 })
        };
        (1..=self.live.len() as u64).map(run).collect()
    }

    fn point(&self, costs: &Costs, changed: &[Costs], get: fn(&Run) -> f64) -> Point {
        let live = self.live.iter().map(get).collect();
        let simulated = |costs: &Costs| self.simulated(costs, get);
        Point::new((BATCHES[self.batch].0, self.hosts as f64), live, simulated, costs, changed)
    }
}
