//! Jobs of a trace or a model, made so small that daemons can run them.

use crate::workload::Job;
use serde::{Deserialize, Serialize};

/// Each job with such a number is an array, the others are rigid.
pub const ARRAYS: usize = 3;

/// The shortest run: with shorter ones a host is given more than it has slots for.
const SHORTEST: u64 = 250;
/// The longest, as a part of the time within which jobs are submitted: a few long ones would make a workload take several times as long.
const LONGEST_PART: u64 = 4;
/// By which the time limit exceeds the estimate at least: a start takes time, too.
const MARGIN: u64 = 1000;

/// A job. Times are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// When it is submitted.
    pub submit: u64,
    /// How long each task runs.
    pub run: u64,
    /// The longest that each may run.
    pub time: u64,
    /// Tasks, of one slot each.
    pub width: u32,
    /// Whether they are independent; else they start together.
    pub is_array: bool,
    /// Whose it is.
    pub user: usize,
}

/// Jobs for `nodes` nodes, submitted within `length` milliseconds and for `slots` slots: all times are divided by the same number, all
/// widths by another. Very short and very long runs are cut.
pub fn scaled(jobs: &[Job], nodes: u32, slots: u32, length: u64) -> Vec<Order> {
    let first = jobs.first().map_or(0.0, |job| job.submit);
    let span = jobs.last().map_or(1.0, |job| job.submit - first).max(1.0);
    let milliseconds = |seconds: f64| libm::round(seconds / span * length as f64) as u64;
    let order = |(place, job): (usize, &Job)| {
        let width = f64::from(job.width) * f64::from(slots) / f64::from(nodes.max(1));
        let run = milliseconds(job.run).clamp(SHORTEST, (length / LONGEST_PART).max(SHORTEST));
        Order {
            submit: milliseconds(job.submit - first),
            run,
            time: milliseconds(job.estimate).max(run) + MARGIN,
            width: (libm::round(width) as u32).clamp(1, slots),
            is_array: place % ARRAYS == ARRAYS - 1,
            user: job.user,
        }
    };
    jobs.iter().enumerate().map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_widths_keep_their_proportions() {
        let job = |submit, run, width| Job { submit, run, estimate: 2.0 * run, width, user: 3 };
        let jobs = [job(1000.0, 100.0, 60), job(1500.0, 1.0, 1), job(2000.0, 5e6, 500)];
        let orders = scaled(&jobs, 240, 32, 10_000);
        let first = Order { submit: 0, run: 1000, time: 3000, width: 8, is_array: false, user: 3 };
        assert_eq!(orders[0], first);
        assert_eq!((orders[1].submit, orders[1].run, orders[1].width), (5000, SHORTEST, 1));
        assert_eq!((orders[2].run, orders[2].width, orders[2].is_array), (2500, 32, true));
        assert!(scaled(&[], 1, 1, 1).is_empty());
    }
}
