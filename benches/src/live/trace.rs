//! Starts of jobs, live and simulated: how far apart, and in which order.

use super::jobs::NAME;
use crate::jobs::Seen;
use anyhow::{Context, Result};
use pvm_sched::queues::Queue;
use pvm_sim::jobs::{Ends, Order, Times, simulate};
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
    /// What the simulator does when tasks end one by one, within twice that time: a run for each seed.
    pub one_by_one: Vec<Run>,
    /// Jobs that daemons have started when none of these runs does.
    pub alone: usize,
}

/// A simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The mean wait, in seconds.
    pub wait: f64,
    /// Pairs in another order than on daemons.
    pub crossings: usize,
}

/// A job. Times are milliseconds since the first submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// When it was submitted.
    pub submitted: u64,
    /// When its first task started on daemons,
    pub live: u64,
    /// and in the simulator.
    pub simulated: u64,
}

/// Runs in which tasks end one by one.
const SEEDS: u64 = 200;
/// Milliseconds between two starts that count as one.
const NEAR: u64 = 100;

/// Simulates what was seen.
pub fn compare(hosts: &[u32], queues: &[Queue], orders: &[Order], seen: &[Seen]) -> Result<Round> {
    let first = seen.first().context("no jobs")?.submitted;
    let both = orders.iter().zip(seen);
    let submitted = both.clone().map(|(order, seen)| Order { submit: seen.submitted - first, ..*order });
    let submitted: Vec<Order> = submitted.collect();
    let rigid = both.filter(|(order, _)| !order.is_array);
    let mut overheads: Vec<u64> =
        rigid.map(|(order, seen)| (seen.ended - seen.started).saturating_sub(order.run)).collect();
    overheads.sort_unstable();
    let overhead = overheads.get(overheads.len() / 2).copied().unwrap_or(0);
    let simulated = |ends| -> Result<Vec<Pair>> {
        let times = simulate(hosts, queues, &submitted, ends)?;
        let pair = |(seen, times): (&Seen, &Times)| Pair {
            submitted: seen.submitted - first,
            live: seen.started - first,
            simulated: times.started,
        };
        Ok(seen.iter().zip(&times).map(pair).collect())
    };
    let runs = (1..=SEEDS).map(|seed| simulated(Ends::OneByOne { late: 2 * overhead, seed }));
    let runs: Vec<Vec<Pair>> = runs.collect::<Result<_>>()?;
    let is_alone = |place: &usize| runs.iter().all(|run| run[*place].distance() > NEAR);
    let told = |run: &Vec<Pair>| Run { wait: wait(run, |job| job.simulated), crossings: crossings(run) };
    Ok(Round {
        jobs: simulated(Ends::Together)?,
        overhead,
        one_by_one: runs.iter().map(told).collect(),
        alone: (0..seen.len()).filter(is_alone).count(),
    })
}

impl Pair {
    /// By how much the starts are apart.
    fn distance(&self) -> u64 {
        self.live.abs_diff(self.simulated)
    }
}

/// Pairs of jobs of which one starts before the other on daemons, and behind it in the simulator. What starts by one decision has no
/// order.
fn crossings(jobs: &[Pair]) -> usize {
    let crosses = |(a, b): (&Pair, &Pair)| {
        let (live, other) = (a.live.cmp(&b.live), a.simulated.cmp(&b.simulated));
        live.is_ne() && other.is_ne() && live != other
    };
    let pairs = (0..jobs.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.filter(|&(a, b)| crosses((&jobs[a], &jobs[b]))).count()
}

/// The mean wait, in seconds.
fn wait(jobs: &[Pair], started: fn(&Pair) -> u64) -> f64 {
    let sum: u64 = jobs.iter().map(|job| started(job).saturating_sub(job.submitted)).sum();
    sum as f64 / 1000.0 / jobs.len().max(1) as f64
}

impl Round {
    /// How far apart starts are, in milliseconds: the median, nine of ten, and the most.
    fn apart(&self) -> [u64; 3] {
        let mut apart: Vec<u64> = self.jobs.iter().map(Pair::distance).collect();
        apart.sort_unstable();
        let last = apart.len().saturating_sub(1);
        [5, 9, 10].map(|part| apart.get((apart.len() * part / 10).min(last)).copied().unwrap_or(0))
    }

    /// The mean waits when tasks end one by one: the least and the greatest but for one of twenty each, and the median.
    fn waits(&self) -> [f64; 3] {
        let mut waits: Vec<f64> = self.one_by_one.iter().map(|run| run.wait).collect();
        waits.sort_by(f64::total_cmp);
        let last = waits.len().saturating_sub(1);
        [1, 10, 19].map(|part| waits.get((waits.len() * part / 20).min(last)).copied().unwrap_or(0.0))
    }

    fn row(&self, name: &str) -> [String; 12] {
        let [least, middle, most] = self.waits();
        let fewest = self.one_by_one.iter().map(|run| run.crossings).min().unwrap_or(0);
        let [median, nine, all] = self.apart();
        [
            name.to_owned(),
            self.jobs.len().to_string(),
            self.overhead.to_string(),
            number(wait(&self.jobs, |job| job.live)),
            number(wait(&self.jobs, |job| job.simulated)),
            format!("{median}, {nine}, {all}"),
            crossings(&self.jobs).to_string(),
            number(middle),
            number(least),
            number(most),
            fewest.to_string(),
            self.alone.to_string(),
        ]
    }
}

const HEAD: [&str; 12] = [
    "workload",
    "jobs",
    "a run takes longer by, ms",
    "live, s",
    "simulated, s",
    "apart, ms: median, nine of ten, most",
    "pairs in another order",
    "ends one by one, s",
    "from",
    "to",
    "fewest pairs in another order",
    "starts of no such run",
];

impl Trace {
    /// A row for each round.
    pub fn table(traces: &[Self]) -> Table {
        let title =
            "Mean waiting times of jobs, and how far apart starts are on daemons and in the simulator";
        let mut table = Table::new(NAME, title, &HEAD);
        for trace in traces {
            trace.rounds.iter().for_each(|round| table.row(round.row(trace.name)));
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
        let (name, title) = (format!("{NAME}-{}", self.word), format!("Waiting times, {}", self.name));
        let curves = vec![series("live", |job| job.live), series("simulated", |job| job.simulated)];
        Plot::new(&name, &title, ("job, in the order of submission", "s"), curves)
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
        let Round { jobs, overhead, one_by_one, alone } = round();
        assert_eq!(overhead, 10);
        assert_eq!(jobs[1], Pair { submitted: 100, live: 1022, simulated: 1000 });
        assert_eq!(jobs[2], Pair { submitted: 200, live: 1533, simulated: 1500 });
        assert_eq!((one_by_one.len() as u64, alone), (SEEDS, 0));
        assert!(one_by_one.iter().all(|run| run.wait >= 0.7333 && run.wait < 0.78 && run.crossings == 0));
    }

    #[test]
    fn a_row_tells_waits_crossings_and_distances() {
        let mut round = round();
        let table = Trace::table(&[Trace { name: "log", word: "log", rounds: vec![round.clone()] }]);
        assert_eq!(table.rows[0][..7], ["log", "3", "10", "0.7520", "0.7333", "22, 33, 33", "0"]);
        assert_eq!(table.rows[0][10..], ["0", "0"]);
        round.jobs[1].simulated = 1501;
        assert_eq!(crossings(&round.jobs), 1);
        // What starts in one decision has no order.
        round.jobs[1].simulated = 1500;
        assert_eq!(crossings(&round.jobs), 0);
    }

    #[test]
    fn each_workload_has_a_plot() {
        let plot = Trace { name: "Lublin–Feitelson model", word: "model", rounds: vec![round()] }.plot();
        assert_eq!(plot.name, "live-jobs-model");
        assert!(plot.svg().expect("drawn").contains("live"));
    }
}
