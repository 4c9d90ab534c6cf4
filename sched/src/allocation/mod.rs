//! Six ways to find a processor for a new process, and active pulling.
//!
//! A. S. Tanenbaum, *Distributed Operating Systems*, section 4.3.4.
//!
//! | source | here |
//! |---|---|
//! | graph-theoretic, deterministic | [`GraphTheoretic`], with [`partition::partition`] |
//! | centralised, up-down | [`UpDown`], with its table [`Usage`] |
//! | hierarchical (MICROS) | [`Hierarchical`] |
//! | sender-initiated, distributed, heuristic | [`SenderInitiated`] |
//! | receiver-initiated | [`ReceiverInitiated`] |
//! | bidding | [`Bidding`] |
//! | active pulling ([`crate::pulling`]) | [`Managed`] |
//! | co-allocation over clusters (Zhang Weizhe and others) | [`Layers`] |
//!
//! The six and the baseline [`Local`] are [agents](agent::Agent), one on each host, which know only what they hear in messages: daemons
//! and the simulator ([`Agents`]) drive the same ones. [`Managed`] puts the policies that a task manager carries out behind the same
//! interface, for the simulator. Hosts are numbers here: there may be a hundred thousand of them.

pub mod agent;
pub mod bidding;
mod census;
mod clusters;
mod graph;
mod hierarchy;
mod layers;
mod local;
mod managed;
pub mod partition;
mod promises;
pub mod receiver;
pub mod sender;
mod simulated;
mod till;
mod tree;
pub mod updown;
mod usage;

pub use bidding::Bidding;
pub use clusters::Clusters;
pub use graph::GraphTheoretic;
pub use hierarchy::Hierarchical;
pub use layers::Layers;
pub use local::Local;
pub use managed::Managed;
pub use receiver::ReceiverInitiated;
pub use sender::SenderInitiated;
pub use simulated::{Agents, Algorithm, Machines, Request, Step};
pub use updown::UpDown;
pub use usage::Usage;

#[cfg(test)]
pub(crate) mod testing {
    //! Machines for tests: loads that the test sets and the steps change.

    use super::agent::{Action, Agent, Event, Randomness, Scene};
    use super::{Algorithm, Machines, Request, Step};

    /// What an agent does about an event, in a scene of these properties.
    pub fn hear<A: Agent>(
        agent: &mut A,
        place: (usize, usize),
        load: (u32, u32),
        hosts: &[usize],
        now: u64,
        event: Event<A::Message>,
    ) -> Vec<Action<A::Message>> {
        let mut random = Randomness::new(1);
        let mut scene = Scene::new(place, load, hosts, now, &mut random);
        agent.on(event, &mut scene);
        scene.into_actions()
    }

    pub struct Bench {
        pub loads: Vec<u32>,
        pub away: Vec<usize>,
        pub messages: u64,
        pub now: u64,
    }

    impl Bench {
        pub fn new(loads: &[u32]) -> Self {
            Self { loads: loads.to_vec(), away: Vec::new(), messages: 0, now: 0 }
        }

        /// Carries out the steps; returns the hosts on which processes were started.
        pub fn apply(&mut self, steps: &[Step]) -> Vec<usize> {
            let mut started = Vec::new();
            for &step in steps {
                self.loads[step.host] += 1;
                started.push(step.host);
            }
            started
        }

        pub fn create(
            &mut self,
            policy: &mut dyn Algorithm,
            id: u64,
            origin: usize,
            count: u32,
        ) -> Vec<usize> {
            let steps = policy.created(Request { id, origin, count }, self);
            self.apply(&steps)
        }

        pub fn end(&mut self, policy: &mut dyn Algorithm, host: usize) -> Vec<Step> {
            self.loads[host] -= 1;
            let steps = policy.ended(host, self);
            self.apply(&steps);
            steps
        }

        /// A host leaves: how many processes it had, and the number of those that are started in consequence.
        pub fn leave(&mut self, policy: &mut dyn Algorithm, host: usize) -> (u32, usize) {
            self.away.push(host);
            let lost = std::mem::take(&mut self.loads[host]);
            let steps = policy.left(host, self);
            (lost, self.apply(&steps).len())
        }

        pub fn come_back(&mut self, policy: &mut dyn Algorithm, host: usize) -> Vec<Step> {
            self.away.retain(|&other| other != host);
            let steps = policy.returned(host, self);
            self.apply(&steps);
            steps
        }
    }

    impl Machines for Bench {
        fn send(&mut self, messages: u64) {
            self.messages += messages;
        }
        fn now(&self) -> u64 {
            self.now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Bench;
    use super::*;
    use crate::policy::Policy;
    use proptest::prelude::*;

    fn policies(hosts: usize) -> Vec<Box<dyn Algorithm>> {
        vec![
            Box::new(Agents::new("local", hosts, None, Local::default)),
            Box::new(Agents::new("sender-initiated", hosts, None, SenderInitiated::default)),
            Box::new(Agents::new("receiver-initiated", hosts, None, || {
                ReceiverInitiated::default().unasked()
            })),
            Box::new(Agents::new("bidding", hosts, None, Bidding::new)),
            Box::new(Agents::new("up-down", hosts, None, UpDown::new)),
            Box::new(Agents::new("hierarchical", hosts, None, || Hierarchical::new(3, 2).staying())),
            Box::new(Agents::new("graph-theoretic", hosts, None, GraphTheoretic::default)),
            Box::new(
                Agents::new("coallocation", hosts, None, Layers::new).within(Clusters::blocks(hosts, 3, 2)),
            ),
            Box::new(Agents::new("active pulling", hosts, None, || Managed::new(Policy::ActivePulling))),
            Box::new(Agents::new("proportional", hosts, None, || Managed::new(Policy::Proportional))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// In all cases each process is started once, on a host that is present, and in the end all are.
        #[test]
        fn no_process_is_lost_or_started_twice(hosts in 1..20_usize, steps in proptest::collection::vec((0..5_u8, 0..1000_usize, 1..9_u32), 1..80)) {
            for mut policy in policies(hosts) {
                let mut bench = Bench::new(&vec![0; hosts]);
                let mut created = 0;
                let mut started = 0;
                                for (id, &(kind, host, count)) in (0..).zip(&steps) {
                    bench.now += 500;
                    let host = host % hosts;
                    let is_away = bench.away.contains(&host);
                    match kind {
                        0 if !is_away => {
                            created += count as usize;
                            started += bench.create(policy.as_mut(), id, host, count).len();
                        }
                        1 if bench.loads[host] > 0 => started += bench.end(policy.as_mut(), host).len(),
                        // Host 0 stays, and creates again what the others lose.
                        2 if !is_away && host > 0 => {
                            let (lost, elsewhere) = bench.leave(policy.as_mut(), host);
                            started += elsewhere;
                            created += lost as usize;
                            if lost > 0 {
                                started += bench.create(policy.as_mut(), 1000 + id, 0, lost).len();
                            }
                        }
                        3 if is_away => started += bench.come_back(policy.as_mut(), host).len(),
                        _ if !is_away => {
                            let steps = policy.timer(host, &mut bench);
                            started += bench.apply(&steps).len();
                        }
                        _ => {}
                    }
                    prop_assert!(started <= created, "{}", policy.name());
                    prop_assert!(bench.away.iter().all(|&host| bench.loads[host] == 0), "{}", policy.name());
                }
                // As processes end, those that wait are started.
                while let Some(host) = bench.loads.iter().position(|&load| load > 0) {
                    started += bench.end(policy.as_mut(), host).len();
                }
                prop_assert_eq!(started, created, "{}", policy.name());
            }
        }
    }
}
