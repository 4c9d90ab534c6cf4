//! Jobs of the queues, and the hosts that run them: what `cargo bench -p benches -- live-jobs` submits to daemons, simulated.
//!
//! [`simulate`] has the scheduler that daemons have (`pvm_sched::queues`). Nothing else takes time, or tasks end a little late.

mod workload;

pub use workload::{ARRAYS, Order, scaled};

use crate::engine::{Engine, Time};
use crate::random::Random;
use pvm_sched::queues::{Demand, Host, LOOK, Queue, Refusal, Rules, Scheduler, Width};

/// Microseconds in a millisecond.
const MILLISECOND: Time = 1000;

/// When the first task of a job started, and the last one ended, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The start.
    pub started: u64,
    /// The end.
    pub ended: u64,
}

enum Event {
    Submit(usize),
    /// Tasks of a job that have started together end.
    End(usize, Vec<(usize, u32)>),
    /// A decision is due although nothing has happened.
    Look,
}

/// How tasks end that have started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// When they have run for as long as they are to.
    Together,
    /// Each later by up to this time in milliseconds, by chance: what daemons start one after the other, and report so.
    OneByOne {
        /// Milliseconds.
        late: u64,
        /// The seed.
        seed: u64,
    },
}

/// Runs jobs on hosts with `slots` slots each. All that happens at one time is followed by one decision.
///
/// # Errors
/// A job that no queue takes.
pub fn simulate(
    hosts: &[u32],
    queues: &[Queue],
    orders: &[Order],
    ends: Ends,
) -> Result<Vec<Times>, Refusal> {
    let mut scheduler = Scheduler::new(queues.to_vec(), Rules::default());
    for (number, &slots) in hosts.iter().enumerate() {
        let name = format!("h{}", number + 1);
        scheduler.host_joined(
            number,
            Host { name, arch: String::new(), capability: 1000.0, slots, cluster: None },
        );
    }
    let mut engine = Engine::new();
    for (place, order) in orders.iter().enumerate() {
        engine.at(order.submit * MILLISECOND, Event::Submit(place));
    }
    let mut times = vec![Times::default(); orders.len()];
    let mut has_started = vec![false; orders.len()];
    let mut looks = false;
    let mut late = Late::new(ends);
    while let Some(event) = engine.next_event() {
        let now = engine.now() / MILLISECOND;
        match event {
            Event::Submit(place) => submit(&mut scheduler, place, &orders[place], now)?,
            Event::Look => looks = false,
            Event::End(place, parts) => {
                times[place].ended = now;
                for (host, count) in parts {
                    (0..count).for_each(|_| {
                        scheduler.task_ended(place as u64, host, Some(orders[place].run), false, now);
                    });
                }
            }
        }
        if engine.is_next_later() {
            for start in scheduler.next(now) {
                let place = start.job as usize;
                // An array starts with the first of its tasks.
                if !std::mem::replace(&mut has_started[place], true) {
                    times[place].started = now;
                }
                for (more, parts) in late.split(start.parts) {
                    engine.after((orders[place].run + more) * MILLISECOND, Event::End(place, parts));
                }
            }
            if scheduler.waiting() > 0 && !std::mem::replace(&mut looks, true) {
                engine.after(LOOK.as_micros() as Time, Event::Look);
            }
        }
    }
    Ok(times)
}

/// By how much tasks end late.
struct Late(Option<(u64, Random)>);

impl Late {
    fn new(ends: Ends) -> Self {
        Self(match ends {
            Ends::Together => None,
            Ends::OneByOne { late, seed } => Some((late, Random::part(seed, 22))),
        })
    }

    /// Tasks that end at the same time, with the milliseconds by which they are late.
    fn split(&mut self, parts: Vec<(usize, u32)>) -> Vec<(u64, Vec<(usize, u32)>)> {
        let Some((late, random)) = &mut self.0 else { return vec![(0, parts)] };
        let each = parts.into_iter().flat_map(|(host, count)| (0..count).map(move |_| (host, 1)));
        each.map(|one| (random.below(*late as usize + 1) as u64, vec![one])).collect()
    }
}

fn submit(scheduler: &mut Scheduler<usize>, place: usize, order: &Order, now: u64) -> Result<(), Refusal> {
    let width = if order.is_array {
        Width::Array { count: order.width, at_once: None }
    } else {
        Width::Rigid(order.width)
    };
    let demand = Demand {
        width,
        slots: 1,
        time: Some(order.time),
        memory: None,
        hosts: Vec::new(),
        bandwidth: 0,
        home: None,
    };
    let user = format!("user{}", order.user);
    let (queue, demand) = scheduler.admit(None, &user, &demand)?;
    scheduler.submit(place as u64, queue, &user, demand, order.width, now);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(submit: u64, run: u64, width: u32) -> Order {
        Order { submit, run, time: run, width, is_array: false, user: 0 }
    }

    fn starts(hosts: &[u32], orders: &[Order]) -> Vec<u64> {
        let times = simulate(hosts, &[Queue::open("default")], orders, Ends::Together).expect("admitted");
        times.iter().map(|times| times.started).collect()
    }

    #[test]
    fn a_job_that_fits_passes_one_that_does_not_if_it_ends_in_time() {
        let first = order(1, 1000, 3);
        let wide = order(2, 1000, 4);
        assert_eq!(starts(&[2, 2], &[first, wide, order(3, 900, 1)]), [1, 1001, 3]);
        assert_eq!(starts(&[2, 2], &[first, wide, order(3, 1100, 1)]), [1, 1001, 2001]);
    }

    #[test]
    fn tasks_of_an_array_start_one_by_one_and_the_job_ends_with_the_last() {
        let array = Order { is_array: true, ..order(1, 1000, 5) };
        let times = simulate(&[2], &[Queue::open("default")], &[array, order(2, 1000, 1)], Ends::Together)
            .expect("admitted");
        assert_eq!(times[0], Times { started: 1, ended: 3001 });
        assert_eq!(times[1].started, 2001);
    }

    #[test]
    fn what_no_queue_takes_is_an_error() {
        assert!(simulate(&[2], &[Queue::open("default")], &[order(1, 1, 3)], Ends::Together).is_err());
    }

    #[test]
    fn ends_of_one_time_are_followed_by_one_decision() {
        // Both slots are free again when the next is chosen, so the older job starts.
        let orders = [order(1, 1000, 1), order(1, 1000, 1), order(2, 1000, 2), order(3, 1000, 1)];
        assert_eq!(starts(&[2], &orders), [1, 1, 1001, 2001]);
    }

    #[test]
    fn tasks_of_an_array_that_end_one_by_one_make_room_one_by_one_and_those_of_a_parallel_job_do_not() {
        // The wide job needs both slots. Between the two ends one is free, for which the short job is short enough.
        for is_array in [true, false] {
            let first = Order { time: 5000, is_array, ..order(1, 1000, 2) };
            let orders = [first, order(2, 500, 2), Order { time: 900, ..order(3, 400, 1) }];
            assert_eq!(starts(&[2], &orders), [1, 1001, 1501]);
            let is_passed = |seed| {
                let ends = Ends::OneByOne { late: 20, seed };
                let times = simulate(&[2], &[Queue::open("default")], &orders, ends).expect("admitted");
                assert!((1001..=1021).contains(&times[0].ended), "{times:?}");
                times[2].started < times[1].started
            };
            assert_eq!((1..20).any(is_passed), is_array);
        }
    }
}
