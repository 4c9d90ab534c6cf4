//! Starts of jobs, live and simulated: how far apart, and in which order.

use super::jobs::NAME;
use crate::jobs::Seen;
use anyhow::{Context, Result};
use pvm_sched::queues::Queue;
use pvm_sim::jobs::{Order, Times, simulate};
use pvm_sim::report::{Plot, Point, Series, Table, number};
use serde::Serialize;

/// The rounds of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// Its name.
    pub name: &'static str,
    /// The end of its picture's name.
    pub word: &'static str,
    /// What was found in each.
    pub rounds: Vec<Round>,
}

/// A workload on daemons, and simulated with the same submissions.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Its jobs, in the order of their submission.
    pub jobs: Vec<Pair>,
    /// Milliseconds by which rigid jobs took longer than their tasks, in the median: starts, and reports of ends.
    pub overhead: u64,
}

/// A job. Times are milliseconds since the first submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// When it was submitted.
    pub submitted: u64,
    /// When its first task started on daemons,
    pub live: u64,
    /// in the simulator,
    pub simulated: u64,
    /// and in the simulator with the run times that daemons had.
    pub measured: u64,
}

/// Simulates what was seen.
pub fn compare(hosts: &[u32], queues: &[Queue], orders: &[Order], seen: &[Seen]) -> Result<Round> {
    let first = seen.first().context("no jobs")?.submitted;
    let with = |run: &dyn Fn(&Order, &Seen) -> u64| -> Result<Vec<Times>> {
        let orders = orders.iter().zip(seen).map(|(order, seen)| {
            let run = run(order, seen);
            Order { submit: seen.submitted - first, run, ..*order }
        });
        Ok(simulate(hosts, queues, &orders.collect::<Vec<_>>())?)
    };
    let more = |order: &Order, seen: &Seen| (seen.ended - seen.started).saturating_sub(order.run);
    let rigid = orders.iter().zip(seen).filter(|(order, _)| !order.is_array);
    let mut overheads: Vec<u64> = rigid.map(|(order, seen)| more(order, seen)).collect();
    overheads.sort_unstable();
    let overhead = overheads.get(overheads.len() / 2).copied().unwrap_or(0);
    let simulated = with(&|order, _| order.run)?;
    // An array's record does not tell how long each of its tasks ran.
    let measured =
        with(&|order, seen| order.run + if order.is_array { overhead } else { more(order, seen) })?;
    let pair = |((seen, simulated), measured): ((&Seen, &Times), &Times)| Pair {
        submitted: seen.submitted - first,
        live: seen.started - first,
        simulated: simulated.started,
        measured: measured.started,
    };
    let jobs = seen.iter().zip(&simulated).zip(&measured).map(pair).collect();
    Ok(Round { jobs, overhead })
}

impl Round {
    /// Pairs of jobs of which one starts before the other on daemons, and behind it in the simulator.
    fn crossings(&self, simulated: fn(&Pair) -> u64) -> usize {
        let crosses = |(a, b): (&Pair, &Pair)| {
            let (live, other) = (a.live.cmp(&b.live), simulated(a).cmp(&simulated(b)));
            live.is_ne() && other.is_ne() && live != other
        };
        let pairs = (0..self.jobs.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.filter(|&(a, b)| crosses((&self.jobs[a], &self.jobs[b]))).count()
    }

    /// The mean wait, in seconds.
    fn wait(&self, started: fn(&Pair) -> u64) -> f64 {
        let sum: u64 = self.jobs.iter().map(|job| started(job).saturating_sub(job.submitted)).sum();
        sum as f64 / 1000.0 / self.jobs.len().max(1) as f64
    }

    /// By how much starts are apart, in milliseconds, the nearest first.
    fn apart(&self, simulated: fn(&Pair) -> u64) -> Vec<u64> {
        let mut apart: Vec<u64> = self.jobs.iter().map(|job| job.live.abs_diff(simulated(job))).collect();
        apart.sort_unstable();
        apart
    }
}

const HEAD: [&str; 11] = [
    "workload",
    "jobs",
    "a run takes longer by, ms",
    "live, s",
    "simulated, s",
    "runs as measured, s",
    "pairs in another order",
    "runs as measured",
    "apart, ms: median",
    "nine of ten",
    "most",
];

impl Trace {
    /// A row for each round.
    pub fn table(traces: &[Self]) -> Table {
        let title =
            "Mean waiting times of jobs, and how far apart starts are on daemons and in the simulator";
        let mut table = Table::new(NAME, title, &HEAD);
        for (trace, round) in
            traces.iter().flat_map(|trace| trace.rounds.iter().map(move |round| (trace, round)))
        {
            let apart = round.apart(|job| job.simulated);
            let at = |part: usize| apart.get((apart.len() * part / 10).min(apart.len().saturating_sub(1)));
            let waits: [fn(&Pair) -> u64; 3] = [|job| job.live, |job| job.simulated, |job| job.measured];
            let crossings: [fn(&Pair) -> u64; 2] = [|job| job.simulated, |job| job.measured];
            let own = [trace.name.to_owned(), round.jobs.len().to_string(), round.overhead.to_string()];
            let own = own.into_iter().chain(waits.map(|wait| number(round.wait(wait))));
            let own = own.chain(crossings.map(|simulated| round.crossings(simulated).to_string()));
            table.row(own.chain([5, 9, 10].map(|part| at(part).map_or(String::new(), u64::to_string))));
        }
        table
    }

    /// How long each job waits, in the first round.
    pub fn plot(&self) -> Plot {
        let jobs = self.rounds.first().map_or(&[][..], |round| &round.jobs);
        let series = |name: &str, started: fn(&Pair) -> u64| Series {
            name: name.to_owned(),
            points: (1..)
                .zip(jobs)
                .map(|(place, job)| Point {
                    x: f64::from(place),
                    y: started(job).saturating_sub(job.submitted) as f64 / 1000.0,
                    half: 0.0,
                })
                .collect(),
        };
        Plot {
            name: format!("{NAME}-{}", self.word),
            title: format!("Waiting times, {}", self.name),
            x: "job, in the order of submission".to_owned(),
            y: "s".to_owned(),
            series: vec![series("live", |job| job.live), series("simulated", |job| job.simulated)],
            ..Plot::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(place: usize, submitted: u64, started: u64, ended: u64) -> Seen {
        Seen {
            place,
            id: place as u64 + 1,
            queue: "all".to_owned(),
            is_done: true,
            submitted,
            started,
            ended,
        }
    }

    fn order(run: u64, width: u32) -> Order {
        Order { submit: 0, run, time: run + 1000, width, is_array: false, user: 0 }
    }

    fn round() -> Round {
        // Two jobs that need everything, and one of the first's end.
        let orders = [order(1000, 2), order(500, 2), order(500, 2)];
        let seen = [seen(0, 5000, 5001, 6021), seen(1, 5100, 6022, 6532), seen(2, 5200, 6533, 7043)];
        compare(&[2], &[Queue::open("all")], &orders, &seen).expect("admitted")
    }

    #[test]
    fn the_simulator_has_the_submissions_of_the_daemons() {
        let Round { jobs, overhead } = round();
        assert_eq!(overhead, 10);
        assert_eq!(jobs[1], Pair { submitted: 100, live: 1022, simulated: 1000, measured: 1020 });
        assert_eq!(jobs[2], Pair { submitted: 200, live: 1533, simulated: 1500, measured: 1530 });
    }

    #[test]
    fn a_row_tells_waits_crossings_and_distances() {
        let mut round = round();
        let table = Trace::table(&[Trace { name: "log", word: "log", rounds: vec![round.clone()] }]);
        let row = ["log", "3", "10", "0.7520", "0.7333", "0.7500", "0", "0", "22", "33", "33"];
        assert_eq!(table.rows[0], row);
        round.jobs[1].simulated = 1501;
        assert_eq!((round.crossings(|job| job.simulated), round.crossings(|job| job.measured)), (1, 0));
        // What starts in one decision has no order.
        round.jobs[1].simulated = 1500;
        assert_eq!(round.crossings(|job| job.simulated), 0);
    }

    #[test]
    fn each_workload_has_a_plot() {
        let plot = Trace { name: "Lublin–Feitelson model", word: "model", rounds: vec![round()] }.plot();
        assert_eq!(plot.name, "live-jobs-model");
        assert!(plot.svg().expect("drawn").contains("live"));
    }
}
