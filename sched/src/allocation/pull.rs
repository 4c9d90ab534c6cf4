//! Active pulling behind the same interface: each batch has its [`Manager`], and each host a [`Node`] for it, as they run live.

use super::{Machines, Policy, Request, Step};
use crate::placement::Candidate;
use crate::pulling::{Decision, Manager, Node, Step as Said};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Hosts are of equal capability, and are told of each batch in random order. Tasks for which no host has room wait until one has
/// drained; which it reports at once, so that nobody's wait is of account.
#[derive(Clone, Debug)]
pub struct Pull {
    /// `P`, each host's threshold.
    threshold: u64,
    /// Batches with tasks left.
    batches: VecDeque<Batch>,
    /// Hosts that do not apply.
    away: BTreeSet<usize>,
}

/// A batch, and what each host knows of it.
#[derive(Clone, Debug)]
struct Batch {
    request: u64,
    manager: Manager<usize>,
    nodes: Vec<Node>,
    /// Tasks that the manager has given up, as there was no host.
    given_up: u64,
}

/// What follows from one event.
struct Round<'a> {
    machines: &'a mut dyn Machines,
    /// Processes that hosts have been given in it.
    given: BTreeMap<usize, u64>,
    steps: Vec<Step>,
}

impl<'a> Round<'a> {
    fn new(machines: &'a mut dyn Machines) -> Self {
        Self { machines, given: BTreeMap::new(), steps: Vec::new() }
    }

    /// `P_c`.
    fn load(&self, host: usize) -> u64 {
        u64::from(self.machines.own_load(host)) + self.given.get(&host).copied().unwrap_or_default()
    }
}

impl Batch {
    /// Delivers what the manager and the nodes have to say until all is said.
    fn run(&mut self, threshold: u64, decisions: Vec<Decision<usize>>, round: &mut Round<'_>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            let (host, said) = match decision {
                Decision::TasksHave(host) => {
                    (host, self.nodes[host].tasks_have(threshold, round.load(host), Duration::ZERO))
                }
                Decision::Grant { host, n, .. } => {
                    *round.given.entry(host).or_default() += n;
                    let start = Step::Start { request: self.request, host };
                    round.steps.extend(std::iter::repeat_n(start, n as usize));
                    (host, self.nodes[host].tasks_given(threshold, round.load(host), Duration::ZERO))
                }
                Decision::TasksNo(host) => {
                    self.nodes[host].tasks_no();
                    (host, Said::Stay)
                }
                Decision::NoNodes { rest } => {
                    self.given_up += rest;
                    continue;
                }
            };
            round.machines.send(1);
            decisions.extend(self.answer(host, said, round));
        }
    }

    /// What a node says, and what the manager decides upon it.
    fn answer(&mut self, host: usize, said: Said, round: &mut Round<'_>) -> Vec<Decision<usize>> {
        let (Said::Apply { n_a } | Said::Decline { n_a, .. }) = said else { return Vec::new() };
        round.machines.send(1);
        self.manager.on_apply(host, n_a, 1.0)
    }

    fn is_over(&self) -> bool {
        self.manager.remaining() == 0 && self.given_up == 0
    }
}

fn candidate(host: usize) -> Candidate<usize> {
    Candidate { host, capability: 1.0, limit: u64::MAX }
}

impl Pull {
    /// With this threshold.
    pub fn new(threshold: u64) -> Self {
        Self { threshold, batches: VecDeque::new(), away: BTreeSet::new() }
    }
}

impl Default for Pull {
    /// One task to a processor.
    fn default() -> Self {
        Self::new(1)
    }
}

impl Policy for Pull {
    fn name(&self) -> &'static str {
        "active pulling"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        let hosts = machines.count();
        let nodes = (0..hosts).filter(|host| !self.away.contains(host)).map(candidate);
        let mut batch = Batch {
            request: request.id,
            manager: Manager::new(),
            nodes: vec![Node::new(); hosts],
            given_up: 0,
        };
        let mut decisions = batch.manager.place(request.count.into(), nodes, false);
        for at in (1..decisions.len()).rev() {
            decisions.swap(at, machines.random(at + 1));
        }
        let mut round = Round::new(machines);
        batch.run(self.threshold, decisions, &mut round);
        if !batch.is_over() {
            self.batches.push_back(batch);
        }
        round.steps
    }

    /// The host has room: it applies to the batches in their order.
    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let mut round = Round::new(machines);
        for batch in &mut self.batches {
            let said = batch.nodes[host].room(self.threshold, round.load(host));
            let decisions = batch.answer(host, said, &mut round);
            batch.run(self.threshold, decisions, &mut round);
        }
        self.batches.retain(|batch| !batch.is_over());
        round.steps
    }

    /// Every host has been heard of when it leaves, so that no other waits for what it says, and nothing is granted.
    fn left(&mut self, host: usize, machines: &mut dyn Machines) {
        self.away.insert(host);
        let mut round = Round::new(machines);
        for batch in &mut self.batches {
            batch.nodes[host] = Node::new();
            let decisions = batch.manager.node_gone(host);
            batch.run(self.threshold, decisions, &mut round);
        }
        debug_assert!(round.steps.is_empty());
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.away.remove(&host);
        let mut round = Round::new(machines);
        for batch in &mut self.batches {
            let mut decisions = batch.manager.node_joined(candidate(host));
            decisions.extend(batch.manager.more(std::mem::take(&mut batch.given_up)));
            batch.run(self.threshold, decisions, &mut round);
        }
        self.batches.retain(|batch| !batch.is_over());
        round.steps
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn hosts_with_room_share_a_batch() {
        let mut bench = Bench::new(&[0, 0, 4, 0]);
        let mut hosts = bench.create(&mut Pull::new(4), 1, 0, 9);
        hosts.sort_unstable();
        assert!(!hosts.contains(&2), "it is full");
        assert_eq!(hosts.len(), 9);
        assert!(bench.loads.iter().all(|&load| load <= 4), "{:?}", bench.loads);
        // Every host is told that tasks wait, answers, and is told that none are left; each grant has its application.
        assert!((4 * 3 + 3..=4 * 3 + 9 * 2).contains(&bench.messages), "{}", bench.messages);
    }

    #[test]
    fn the_rest_waits_for_a_host_to_drain() {
        let mut bench = Bench::new(&[0, 0]);
        let mut policy = Pull::new(1);
        assert_eq!(bench.create(&mut policy, 1, 0, 3).len(), 2);
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [0; 0]);
        assert_eq!(bench.end(&mut policy, 1), [Step::Start { request: 1, host: 1 }]);
        assert_eq!(bench.end(&mut policy, 0), [Step::Start { request: 2, host: 0 }]);
        assert_eq!(bench.end(&mut policy, 0), []);
    }
}
