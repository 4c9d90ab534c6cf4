//! A decision of the queues' scheduler, by itself.

use pvm_sched::queues::{Demand, Host, Queue, Rules, Scheduler, Width};
use std::hint::black_box;
use std::time::Instant;

/// Decisions of which the median counts.
const TIMES: usize = 201;
/// Users whose jobs take turns.
const USERS: u64 = 10;

/// Seconds that a decision takes by which nothing starts, with as many waiting jobs as the daemon has.
pub fn seconds(jobs: u64) -> f64 {
    let mut scheduler = scheduler(jobs);
    let mut times: Vec<f64> = (0..TIMES as u64)
        .map(|now| {
            let start = Instant::now();
            black_box(scheduler.next(black_box(now)));
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[TIMES / 2]
}

/// One of two slots is in use; all other jobs need both.
fn scheduler(jobs: u64) -> Scheduler<u32> {
    let mut scheduler = Scheduler::new(vec![Queue::open("default")], Rules::default());
    let host = Host {
        name: "h1".to_owned(),
        arch: "LINUX64".to_owned(),
        capability: 1000.0,
        slots: 2,
        cluster: None,
    };
    scheduler.host_joined(1, host);
    let mut submit = |id, width: Width, user: u64| {
        let demand =
            Demand { width, slots: 1, time: None, memory: None, hosts: Vec::new(), bandwidth: 0, home: None };
        let pending = demand.tasks();
        scheduler.submit(id, "default".to_owned(), &format!("user{user}"), demand, pending, 0);
    };
    submit(0, Width::Array { count: 1, at_once: None }, USERS);
    (1..=jobs).for_each(|id| submit(id, Width::Rigid(2), id % USERS));
    scheduler.next(0);
    scheduler
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_runs_and_the_others_wait() {
        let mut scheduler = scheduler(300);
        assert_eq!((scheduler.free(), scheduler.waiting()), (1, 300));
        assert!(scheduler.next(1).is_empty());
        assert!(seconds(300) > 0.0);
    }
}
