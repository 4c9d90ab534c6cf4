//! The experiments, one module each: a model, settings with the paper's values as defaults, and a report.

pub mod allocation;
pub mod batch;
pub mod coallocation;
pub mod dasic;
pub mod dedicated;
pub mod epochs;

use crate::engine::{Engine, Time, seconds, to_seconds};
use crate::report::{Cell, Point, Series};
use crate::stats::Summary;
use crate::workload::Job;
use indicatif::ProgressBar;
use rayon::prelude::*;

/// How experiments run: the seeds, and the receiver of progress.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The first seed.
    pub seed: u64,
    /// How many, from there on.
    pub seeds: u64,
    /// Moves by one with each run.
    pub progress: ProgressBar,
}

impl Runs {
    /// Runs without a progress bar.
    pub fn quiet(seed: u64, seeds: u64) -> Self {
        Self { seed, seeds, progress: ProgressBar::hidden() }
    }

    /// Simulates every case with every seed, in parallel: the outcomes of each case, in the order of the seeds.
    pub fn all<C: Sync, O: Send>(&self, cases: &[C], simulate: impl Fn(&C, u64) -> O + Sync) -> Vec<Vec<O>> {
        let seeds = self.seeds.max(1);
        self.progress.inc_length(cases.len() as u64 * seeds);
        let one = |run: usize| {
            let seed = self.seed.wrapping_add(run as u64 % seeds);
            let outcome = simulate(&cases[run / seeds as usize], seed);
            self.progress.inc(1);
            outcome
        };
        let mut outcomes =
            (0..cases.len() * seeds as usize).into_par_iter().map(one).collect::<Vec<O>>().into_iter();
        cases.iter().map(|_| outcomes.by_ref().take(seeds as usize).collect()).collect()
    }
}

/// A simulation of jobs on nodes is given up after this many failures without a job that ends.
const IN_VAIN: u32 = 200_000;

/// The nodes that have jobs.
#[derive(Debug, Default)]
struct Busy {
    nodes: u32,
    /// Until when their time is counted.
    until: Time,
    /// Nodes times seconds until then.
    node_seconds: f64,
}

impl Busy {
    fn count(&mut self, now: Time) {
        self.node_seconds += to_seconds(now - self.until) * f64::from(self.nodes);
        self.until = now;
    }
}

/// Plans the event of a job's submission. Whether there is a job.
fn plan_submission<E>(engine: &mut Engine<E>, job: Option<&Job>, event: E) -> bool {
    if let Some(job) = job {
        engine.at(seconds(job.submit), event);
    }
    job.is_some()
}

/// The mean of a measure over the seeds.
fn summary<O>(outcomes: &[O], measure: impl Fn(&O) -> f64) -> Summary {
    outcomes.iter().map(measure).collect()
}

/// A table's cell: what was measured.
fn cell<O>(outcomes: &[O], measure: impl Fn(&O) -> f64) -> Cell {
    summary(outcomes, measure).into()
}

/// A table's cell: a name, or a setting.
fn text(value: &impl ToString) -> Cell {
    Cell::Text(value.to_string())
}

/// A plot's point.
fn point(x: f64, summary: Summary) -> Point {
    Point { x, y: summary.mean(), half: summary.half_width() }
}

/// A curve through the outcomes of those cases that `x` gives a place.
fn series<C, O>(
    name: &str,
    cases: &[C],
    outcomes: &[Vec<O>],
    x: impl Fn(&C) -> Option<f64>,
    measure: impl Fn(&O) -> f64,
) -> Series {
    let points = cases.iter().zip(outcomes);
    let points =
        points.filter_map(|(case, outcomes)| Some(point(x(case)?, summary(outcomes, &measure)))).collect();
    Series { name: name.to_owned(), points }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_the_order_of_cases_and_seeds() {
        let runs = Runs::quiet(10, 3);
        let outcomes = runs.all(&[1, 2], |&case, seed| case * 100 + seed);
        assert_eq!(outcomes, [[110, 111, 112], [210, 211, 212]]);
        assert_eq!(cell(&outcomes[0], |&o| o as f64), "111.0 ±2.484");
        assert_eq!(text(&2.5), "2.5");
        assert_eq!(Runs::quiet(1, 0).all(&[5], |_, seed| seed), [[1]]);
        let curve = series("a", &[1, 2], &outcomes, |&case| (case == 2).then_some(7.0), |&o| o as f64);
        assert_eq!(curve.points.len(), 1);
        assert!((curve.points[0].y - 211.0).abs() < 1e-9);
    }
}
