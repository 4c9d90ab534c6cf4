//! Six ways to find a processor for a new process, and active pulling, behind one interface.
//!
//! A. S. Tanenbaum, *Distributed Operating Systems*, section 4.3.4.
//!
//! | source | here |
//! |---|---|
//! | graph-theoretic, deterministic | [`graph::partition`] |
//! | centralised, up-down | [`UpDown`] |
//! | hierarchical (MICROS) | [`Hierarchical`] |
//! | sender-initiated, distributed, heuristic | [`SenderInitiated`] |
//! | receiver-initiated | [`ReceiverInitiated`] |
//! | bidding | [`Bidding`], [`bidding::choose`], [`bidding::Auction`] |
//! | active pulling ([`crate::pulling`]) | [`Pull`] |
//!
//! A [`Policy`] gets requests, ends and the time, asks about loads through [`Machines`], and answers with [`Step`]s.
//! Hosts are numbers from 0 on here: there may be a hundred thousand of them.

pub mod bidding;
pub mod graph;
mod hierarchy;
mod probing;
mod pull;
mod set;
mod updown;

pub use bidding::Bidding;
pub use graph::GraphTheoretic;
pub use hierarchy::{Hierarchical, Repair};
pub use probing::{History, ReceiverInitiated, SenderInitiated};
pub use pull::Pull;
pub use updown::{UpDown, Usage};

use std::fmt::Debug;

/// Processes to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number, for the answer.
    pub id: u64,
    /// The host they are created on.
    pub origin: usize,
    /// How many.
    pub count: u32,
}

/// A decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One process of a request goes to a host.
    Start {
        /// The request.
        request: u64,
        /// The host.
        host: usize,
    },
    /// A process that waits on one host goes to another.
    Take {
        /// It waits here, and may have ended or started meanwhile: then nothing happens.
        from: usize,
        /// Here it runs.
        to: usize,
    },
}

/// The machines, as far as a policy may ask about them.
pub trait Machines {
    /// How many there are.
    fn count(&self) -> usize;
    /// The processes on a host: a question by message, and its answer. `None` if it is away and there is no answer.
    fn probe(&mut self, host: usize) -> Option<u32>;
    /// The processes on a host, as it knows itself, without a message.
    fn own_load(&self, host: usize) -> u32;
    /// So many messages are sent.
    fn send(&mut self, messages: u64);
    /// A random number below `below`, which is at least 1.
    fn random(&mut self, below: usize) -> usize;
    /// Now, in milliseconds.
    fn now(&self) -> u64;
}

/// A processor allocation algorithm.
///
/// Each process of each request gets exactly one [`Step::Start`], at once or later.
pub trait Policy: Debug {
    /// Its name, as a person chooses it.
    fn name(&self) -> &'static str;
    /// Processes are created.
    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step>;
    /// A process has ended on a host, and is no longer in its load.
    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step>;
    /// How long after its last chance a host wants to be called by [`timer`](Self::timer), in milliseconds.
    fn interval(&self) -> Option<u64> {
        None
    }
    /// A fixed time has gone by on a host.
    fn timer(&mut self, _host: usize, _machines: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
    /// A host has failed, or its owner is back: it has no processes any more, and takes none. Nothing of what it had has
    /// ended; its creator creates it again.
    fn left(&mut self, _host: usize, _machines: &mut dyn Machines) {}
    /// A host that had left takes processes again, and has none yet.
    fn returned(&mut self, _host: usize, _machines: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
}

/// The baseline of the algorithms: a process runs where it was created.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Policy for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn created(&mut self, request: Request, _: &mut dyn Machines) -> Vec<Step> {
        here(&request).collect()
    }

    fn ended(&mut self, _: usize, _: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
}

/// All processes of a request where they were created.
fn here(request: &Request) -> impl Iterator<Item = Step> + use<> {
    let step = Step::Start { request: request.id, host: request.origin };
    std::iter::repeat_n(step, request.count as usize)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Machines for tests: loads that the test sets and the steps change.

    use super::{Machines, Policy, Request, Step};

    pub struct Bench {
        pub loads: Vec<u32>,
        pub away: Vec<usize>,
        pub messages: u64,
        pub now: u64,
        pub random: u64,
    }

    impl Bench {
        pub fn new(loads: &[u32]) -> Self {
            Self { loads: loads.to_vec(), away: Vec::new(), messages: 0, now: 0, random: 1 }
        }

        /// Carries out the steps; returns the hosts on which processes were started.
        pub fn apply(&mut self, steps: &[Step]) -> Vec<usize> {
            let mut started = Vec::new();
            for &step in steps {
                match step {
                    Step::Start { host, .. } => {
                        self.loads[host] += 1;
                        started.push(host);
                    }
                    Step::Take { from, to } => {
                        self.loads[from] -= 1;
                        self.loads[to] += 1;
                    }
                }
            }
            started
        }

        pub fn create(&mut self, policy: &mut dyn Policy, id: u64, origin: usize, count: u32) -> Vec<usize> {
            let steps = policy.created(Request { id, origin, count }, self);
            self.apply(&steps)
        }

        pub fn end(&mut self, policy: &mut dyn Policy, host: usize) -> Vec<Step> {
            self.loads[host] -= 1;
            let steps = policy.ended(host, self);
            self.apply(&steps);
            steps
        }

        /// A host leaves: how many processes it had.
        pub fn leave(&mut self, policy: &mut dyn Policy, host: usize) -> u32 {
            self.away.push(host);
            let lost = std::mem::take(&mut self.loads[host]);
            policy.left(host, self);
            lost
        }

        pub fn come_back(&mut self, policy: &mut dyn Policy, host: usize) -> Vec<Step> {
            self.away.retain(|&other| other != host);
            let steps = policy.returned(host, self);
            self.apply(&steps);
            steps
        }
    }

    impl Machines for Bench {
        fn count(&self) -> usize {
            self.loads.len()
        }
        fn probe(&mut self, host: usize) -> Option<u32> {
            self.messages += 2;
            (!self.away.contains(&host)).then(|| self.loads[host])
        }
        fn own_load(&self, host: usize) -> u32 {
            self.loads[host]
        }
        fn send(&mut self, messages: u64) {
            self.messages += messages;
        }
        fn random(&mut self, below: usize) -> usize {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) as usize % below
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
    use proptest::prelude::*;

    fn policies(hosts: usize) -> Vec<Box<dyn Policy>> {
        vec![
            Box::new(Local),
            Box::new(SenderInitiated::default()),
            Box::new(ReceiverInitiated::default()),
            Box::new(Bidding::new(hosts)),
            Box::new(UpDown::new(hosts)),
            Box::new(Hierarchical::new(hosts, 3)),
            Box::new(GraphTheoretic),
            Box::new(Pull::default()),
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
                let starts = |steps: &[Step]| steps.iter().filter(|step| matches!(step, Step::Start { .. })).count();
                for (id, &(kind, host, count)) in (0..).zip(&steps) {
                    bench.now += 500;
                    let host = host % hosts;
                    let is_away = bench.away.contains(&host);
                    match kind {
                        0 if !is_away => {
                            created += count as usize;
                            started += bench.create(policy.as_mut(), id, host, count).len();
                        }
                        1 if bench.loads[host] > 0 => started += starts(&bench.end(policy.as_mut(), host)),
                        // Host 0 stays, and creates again what the others lose.
                        2 if !is_away && host > 0 => {
                            let lost = bench.leave(policy.as_mut(), host);
                            created += lost as usize;
                            if lost > 0 {
                                started += bench.create(policy.as_mut(), 1000 + id, 0, lost).len();
                            }
                        }
                        3 if is_away => started += starts(&bench.come_back(policy.as_mut(), host)),
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
                    started += starts(&bench.end(policy.as_mut(), host));
                }
                prop_assert_eq!(started, created, "{}", policy.name());
            }
        }
    }
}
