//! One queued batch, and the hosts of unequal speed that pull its tasks, or are given them by another policy: what
//! `cargo bench -p benches -- live-pulling` and `live-policies` run on daemons, simulated.
//!
//! [`simulate`] has the state machines that run live (`pvm_sched::task_manager::Machine`, and a `pvm_sched::pulling::Node` per host)
//! and times of messages, starts and tasks ([`Costs`]); of a policy of agents, the agents that run live. [`replay`] has the order in which nodes ask from elsewhere, and no time.

mod agents;
mod execution;
mod model;
mod parties;
mod replay;
mod waits;
mod workload;

pub use model::simulate;
pub use replay::{Exchange, Impossible, replay};
pub use waits::Waits;
pub use workload::{Lengths, Workload};

use crate::engine::Time;

/// How long things take, as they are measured on a computer that is all the hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A message between a task and its daemon, µs.
    pub local: Time,
    /// A message between the daemons of two hosts, µs.
    pub between: Time,
    /// The start and the end of a process, µs.
    pub start: Time,
    /// What starts and tasks share.
    pub processors: Processors,
}

/// The processors of the hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Processors {
    /// All hosts are one computer with this number of processors. Only starts use them, each one of them; tasks sleep, one in each slot.
    OneComputer(usize),
    /// Each host has its own, by its speed and its slots. The tasks there and a start share them equally; starts come one after the
    /// other, and one takes its time if it has a slot of a host of speed 1000 for itself.
    Own {
        /// How long daemons and the task manager wait for them.
        waits: Waits,
    },
}

impl Costs {
    /// The latency of a message between the daemon of the home, which is host 0, and that of a host.
    fn beyond_home(self, host: usize) -> Time {
        if host == 0 { 0 } else { self.between }
    }
}

/// A node has been given tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handout {
    /// The node, from 0 on.
    pub host: usize,
    /// How many.
    pub n: u64,
}

/// The results of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From the call to the last answer of a task, s.
    pub makespan: f64,
    /// How often nodes have asked, those included that had no room.
    pub asks: u64,
    /// Messages of the policy: to the manager and from it, or between agents.
    pub messages: u64,
    /// Those of them that go from one host to another.
    pub between: u64,
    /// The grants, in order.
    pub handouts: Vec<Handout>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvm_sched::policy::Policy;

    const COSTS: Costs =
        Costs { local: 20, between: 100, start: 1500, processors: Processors::OneComputer(2) };

    fn workload(speeds: &[u32], tasks: u64) -> Workload {
        let lengths = Lengths::Exponential;
        Workload { speeds: speeds.to_vec(), slots: 2, tasks, lengths, mean: 100_000, seed: 5 }
    }

    #[test]
    fn more_hosts_are_faster_as_far_as_they_are_fast() {
        let of = |speeds: &[u32]| simulate(&workload(speeds, 200), Policy::ActivePulling, &COSTS, 1).makespan;
        let (one, two, four) = (of(&[1000]), of(&[1000, 1000]), of(&[1000, 1000, 2000, 4000]));
        let work: f64 = (0..200).map(|number| workload(&[1000], 200).time(number, 0).as_secs_f64()).sum();
        assert!((one / (work / 2.0) - 1.0).abs() < 0.1, "{one} {work}");
        assert!((one / two - 2.0).abs() < 0.2 && (one / four - 8.0).abs() < 1.5, "{one} {two} {four}");
    }

    /// Agents that take tasks for those of a spawn, which may not wait, start all at once.
    #[test]
    fn agents_know_that_tasks_of_a_batch_may_wait_for_room() {
        let of = |policy| simulate(&workload(&[4000, 2000, 1000, 1000], 200), policy, &COSTS, 1).makespan;
        let local = of(Policy::Local);
        for policy in [Policy::GraphTheoretic, Policy::Coallocation] {
            assert!(of(policy) < local, "{policy}: {} s, {local} s at home", of(policy));
        }
    }

    #[test]
    fn starts_take_the_processors_of_the_one_computer() {
        let busy = Costs { start: 50_000, ..COSTS };
        let of =
            |costs: &Costs| simulate(&workload(&[4000; 8], 200), Policy::ActivePulling, costs, 1).makespan;
        // 200 starts of 50 ms on two processors.
        assert!(of(&busy) > 5.0 && of(&busy) < 5.5 && of(&COSTS) < 0.6, "{} {}", of(&busy), of(&COSTS));
    }

    proptest! {
        #[test]
        fn every_task_is_handed_out_once(
            speeds in proptest::collection::vec(1..9_u32, 1..9), slots in 1..4_u32, tasks in 1..99_u64, seed: u64,
            policy in proptest::sample::select(&Policy::ALL[..]),
        ) {
            let speeds = speeds.into_iter().map(|speed| speed * 1000).collect();
            let workload = Workload { speeds, slots, tasks, ..workload(&[], 0) };
            let outcome = simulate(&workload, policy, &COSTS, seed);
            prop_assert_eq!(outcome.handouts.iter().map(|handout| handout.n).sum::<u64>(), tasks);
            if !policy.has_agents() {
                prop_assert!(outcome.handouts.iter().all(|handout| handout.n <= slots.into()));
                prop_assert!(outcome.asks >= outcome.handouts.len() as u64);
            }
            prop_assert!(outcome.makespan > 0.0 && outcome.between <= outcome.messages);
            prop_assert!(workload.speeds.len() > 1 || outcome.between == 0);
            prop_assert_eq!(&outcome, &simulate(&workload, policy, &COSTS, seed));
        }
    }
}
