//! Parallel jobs over three clusters that are joined by slow links: makespan and utilisation by each strategy of co-allocation.

mod exchanges;
mod machines;
pub mod orders;
mod predict;
mod report;

use crate::lab::Trial;
use anyhow::{Context, Result};
use machines::{Clusters, Slots};
use orders::{Ended, Order, orders, slots};
use predict::{Model, Times, framed, predict};
use pvm_sched::coallocation::Strategy;
use pvm_sim::stats::Measured;
use pvm_tests::Installation;
use serde::Serialize;
use std::path::Path;

/// The word by which it is chosen.
pub const NAME: &str = "live-coallocation";

/// Bandwidths between two tasks, in scaled Mbit/s; and with less to do.
const BWBN: [f64; 4] = [1.0, 20.0, 80.0, 200.0];
const LITTLE_BWBN: [f64; 2] = [1.0, 200.0];

/// Jobs, and for how many milliseconds they keep all clusters busy at least; and with less to do.
const JOBS: usize = 100;
const FEW_JOBS: usize = 20;
const BUSY: f64 = 10_000.0;
const SHORT_BUSY: f64 = 3_000.0;

/// Rounds at most: each takes a quarter of an hour.
const ROUNDS_MAX: usize = 3;

/// What has become of all jobs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcome {
    /// From the first submission to the last end, in seconds.
    pub makespan: f64,
    /// Part of the slots that had a task, until then.
    pub utilisation: f64,
    /// Part of the jobs that spanned clusters.
    pub spanning: f64,
}

/// A strategy with a bandwidth.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The strategy.
    #[serde(skip)]
    pub strategy: Strategy,
    /// Its name.
    pub name: &'static str,
    /// `BWBN` in scaled Mbit/s; `None`: nothing crosses a link.
    pub bwbn: Option<f64>,
    /// A round each.
    pub live: Vec<Outcome>,
    /// How long jobs that spanned clusters ran, over the time by the model in the daemon: a round each, with a value for each job.
    pub stretch: Vec<Vec<f64>>,
    /// The same of jobs that stayed in one cluster.
    pub local: Vec<Vec<f64>>,
    /// By the scheduler of the daemons, in a simulation of the same jobs.
    pub simulated: Vec<Outcome>,
    /// The same, when jobs take longer by the time that starts and ends take on daemons, and tasks end one by one.
    pub late: Vec<Outcome>,
    /// That, if jobs use links only while they exchange messages.
    pub exchanges: Vec<Outcome>,
    /// The makespan in `pvm sim coallocation`, in seconds.
    pub framed: Vec<f64>,
}

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// Strategy by strategy.
    pub points: Vec<Point>,
    /// How many jobs there were.
    pub jobs: usize,
    /// Milliseconds by which jobs in one cluster took longer than their work, in the median: a round each.
    pub late: Vec<f64>,
}

impl Outcome {
    fn of(times: &[Times], orders: &[Order]) -> Self {
        let begin = times.iter().map(|times| times.submitted).min().unwrap_or(0);
        let end = times.iter().map(|times| times.ended).max().unwrap_or(0);
        let used =
            |(times, order): (&Times, &Order)| (times.ended - times.started) as f64 * f64::from(order.width);
        let makespan = (end - begin).max(1) as f64;
        Self {
            makespan: makespan / 1000.0,
            utilisation: times.iter().zip(orders).map(used).sum::<f64>() / (makespan * f64::from(slots())),
            spanning: times.iter().filter(|times| times.spans).count() as f64 / times.len().max(1) as f64,
        }
    }
}

/// All strategies.
fn points(bwbn: &[f64]) -> Vec<Point> {
    let mut points = Vec::new();
    for strategy in Strategy::ALL {
        // Where nothing crosses a link, or for nothing, one bandwidth is as good as another.
        let crosses = strategy.spans() && strategy.has_network();
        for &bwbn in if crosses { bwbn } else { &bwbn[..1] } {
            points.push(Point {
                strategy,
                name: strategy.name(),
                bwbn: crosses.then_some(bwbn),
                live: Vec::new(),
                stretch: Vec::new(),
                local: Vec::new(),
                simulated: Vec::new(),
                late: Vec::new(),
                exchanges: Vec::new(),
                framed: Vec::new(),
            });
        }
    }
    points
}

/// Makespans and utilisations. Nothing where they cannot be measured.
pub fn measure(trial: Trial) -> Result<Vec<Curves>> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    let (jobs, busy) = if quick { (FEW_JOBS, SHORT_BUSY) } else { (JOBS, BUSY) };
    let mut points = points(if quick { &LITTLE_BWBN } else { &BWBN });
    let rounds = rounds.min(if quick { 1 } else { ROUNDS_MAX });
    session.progress.inc_length((points.len() * rounds) as u64);
    let Some(slots) = Slots::open()? else { return Ok(Vec::new()) };
    let Some(star) = Clusters::star(ours, &slots)? else { return Ok(Vec::new()) };
    let mut late = Vec::new();
    for seed in 1..=rounds as u64 {
        // Each round has other jobs.
        let orders = orders(seed, jobs, busy);
        let mut overheads = Vec::new();
        for point in &mut points {
            let Point { strategy, name, bwbn, .. } = *point;
            let told = bwbn.map_or_else(String::new, |bwbn| format!(", {bwbn} Mbit/s"));
            session.progress.set_message(format!("{NAME}: {name}{told}"));
            let ended = if strategy.has_network() {
                star.run(programs.coallocation, &slots, (strategy, bwbn.unwrap_or(1.0)), &orders)
            } else {
                run_ideal(ours, programs.coallocation, &slots, &orders)
            };
            // A request to stop may be why it has failed.
            session.step()?;
            overheads.extend(point.add(&ended.with_context(|| name)?, &orders));
        }
        let overhead = Measured::of(&overheads).map_or(0.0, |summary| summary.median.max(0.0));
        points.iter_mut().try_for_each(|point| point.simulate((seed, overhead.round() as u64), &orders))?;
        late.push(overhead);
    }
    Ok(vec![Curves { points, jobs, late }])
}

/// The machine is there for this run only.
fn run_ideal(ours: &Installation, program: &Path, slots: &Slots, orders: &[Order]) -> Result<Vec<Ended>> {
    Clusters::ideal(ours, slots)?.run(program, slots, (Strategy::Idea, 0.0), orders)
}

impl Point {
    /// The same round in simulations.
    fn simulate(&mut self, (seed, late): (u64, u64), orders: &[Order]) -> Result<()> {
        let (strategy, bwbn) = (self.strategy, self.bwbn.unwrap_or(1.0));
        let outcome = |model, late| -> Result<Outcome> {
            Ok(Outcome::of(&predict((model, late), strategy, bwbn, orders)?, orders))
        };
        self.simulated.push(outcome(Model::Paper, 0)?);
        self.late.push(outcome(Model::Paper, late)?);
        self.exchanges.push(outcome(Model::Exchanges, late)?);
        self.framed.push(framed(seed, strategy, bwbn, orders)?);
        Ok(())
    }

    /// A round. Milliseconds by which each job in one cluster took longer than its work.
    fn add(&mut self, ended: &[Ended], orders: &[Order]) -> Vec<f64> {
        let times = |ended: &Ended| Times {
            submitted: ended.submitted,
            started: ended.started,
            ended: ended.ended,
            spans: ended.clusters > 1,
        };
        let times: Vec<Times> = ended.iter().map(times).collect();
        self.live.push(Outcome::of(&times, orders));
        let stretch = |ended: &Ended| {
            let predicted = ended.predicted?.checked_sub(ended.started).filter(|&time| time > 0)?;
            Some((ended.ended - ended.started) as f64 / predicted as f64)
        };
        let (spanning, local): (Vec<&Ended>, Vec<&Ended>) =
            ended.iter().partition(|ended| ended.clusters > 1);
        self.stretch.push(spanning.into_iter().filter_map(stretch).collect());
        self.local.push(local.iter().filter_map(|ended| stretch(ended)).collect());
        // On the ideal machine the daemons know of no clusters, and expect all hosts to be of one speed.
        let local = local.iter().filter(|_| self.strategy.has_network());
        local.filter_map(|ended| Some(ended.ended as f64 - ended.predicted? as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_over_links_that_lack_bandwidth_take_longer() {
        let orders = orders(1, JOBS, BUSY);
        let mut points = points(&BWBN);
        for point in &mut points {
            point.simulate((1, 0), &orders).expect("admitted");
        }
        for curve in points.chunks(BWBN.len()).take(4) {
            let [free, .., congested] = curve else { panic!("{curve:?}") };
            assert_eq!(free.name, congested.name);
            assert!(free.simulated[0].makespan < congested.simulated[0].makespan, "{}", free.name);
        }
        let of = |name| points.iter().find(|point| point.name == name).expect("a point").simulated[0];
        assert!(of("SCCA").makespan < of("Idea").makespan);
    }

    #[test]
    fn outcomes_are_of_all_slots() {
        let times = |submitted, started, ended, spans| Times { submitted, started, ended, spans };
        let all = [times(1000, 1500, 2000, true), times(1000, 1000, 3000, false)];
        let order = |width| Order { submit: 0, run: 1, width, home: 0 };
        let outcome = Outcome::of(&all, &[order(18), order(9)]);
        assert!((outcome.makespan - 2.0).abs() < 1e-9 && (outcome.spanning - 0.5).abs() < 1e-9);
        assert!((outcome.utilisation - 0.75).abs() < 1e-9, "{outcome:?}");
    }
}
