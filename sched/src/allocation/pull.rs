//! Active pulling behind the same interface: each batch has its task manager's [`Machine`], and each host a [`Node`] for it, as they
//! run live.

use super::simulated::{Algorithm, Machines, Request, Step};
use crate::policy;
use crate::pulling::{Node, Step as Said, application};
use crate::task_manager::Machine;
use pvm_wire::batch::{BatchId, BatchMsg, Node as Member};
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Hosts are of equal capability, and get the notice of each batch in random order. Tasks for which no host has room wait until one has
/// drained; it reports that at once, so that waits have no effect. Hosts beyond the most that a virtual machine may have
/// get no tasks.
#[derive(Debug)]
pub struct Pull {
    /// `P`, each host's threshold.
    threshold: u64,
    /// Batches with tasks left.
    batches: VecDeque<Batch>,
    /// Hosts that do not apply.
    away: BTreeSet<usize>,
}

/// A batch as its home knows it, and what each host knows of it.
#[derive(Debug)]
struct Batch {
    id: BatchId,
    manager: Machine,
    nodes: Vec<Node>,
    /// Tasks that no host has been given.
    waiting: u64,
    /// Its home.
    origin: usize,
    /// The manager has given up what waits, as there was no host.
    given_up: bool,
}

/// The decisions after one event.
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

/// Messages of a manager, with their receivers.
type Messages = Vec<(Tid, BatchMsg)>;

impl Batch {
    fn new(request: &Request, hosts: usize) -> Self {
        Self {
            id: BatchId { home: HostIndex::MASTER, number: request.id },
            manager: Machine::default(),
            nodes: vec![Node::new(); hosts],
            waiting: request.count.into(),
            origin: request.origin,
            given_up: false,
        }
    }

    /// Its home speaks to its manager.
    fn tell(&mut self, message: BatchMsg) -> Messages {
        self.manager.on_message(Tid::MY_DAEMON, message)
    }

    fn place(&mut self, nodes: Vec<Member>) -> Messages {
        let (batch, policy) = (self.id, policy::Policy::ActivePulling.name().to_owned());
        let (count, last) = (self.waiting, batch.home);
        self.tell(BatchMsg::Place { batch, count, nodes, soft: false, policy, last, own: None })
    }

    /// Tasks that had been given up are to be placed after all.
    fn again(&mut self) -> Messages {
        let count = if std::mem::take(&mut self.given_up) { self.waiting } else { 0 };
        self.tell(BatchMsg::More { batch: self.id, count })
    }

    /// Delivers the messages of the manager and the nodes until there are none left.
    fn run(&mut self, threshold: u64, messages: Messages, round: &mut Round<'_>) {
        let mut messages = VecDeque::from(messages);
        while let Some((to, message)) = messages.pop_front() {
            let (host, said) = match message {
                BatchMsg::TasksHave { .. } => {
                    let Some(host) = to.host().map(number) else { continue };
                    (host, self.nodes[host].tasks_have(threshold, round.load(host), Duration::ZERO))
                }
                BatchMsg::Grant { host, n, .. } => {
                    let host = number(host);
                    self.waiting -= n;
                    *round.given.entry(host).or_default() += n;
                    let ways = if host == self.origin { 0 } else { 2 };
                    let start = Step { request: self.id.number, host, ways };
                    round.steps.extend(std::iter::repeat_n(start, n as usize));
                    (host, self.nodes[host].tasks_given(threshold, round.load(host), Duration::ZERO))
                }
                BatchMsg::TasksNo { .. } => {
                    let Some(host) = to.host().map(number) else { continue };
                    self.nodes[host].tasks_no();
                    (host, Said::Stay)
                }
                // Of no other kind are a manager's messages.
                _ => {
                    self.given_up = true;
                    continue;
                }
            };
            round.machines.send(1);
            messages.extend(self.answer(threshold, host, said, round));
        }
    }

    /// A node's message, and the manager's decisions.
    fn answer(&mut self, p: u64, host: usize, said: Said, round: &mut Round<'_>) -> Messages {
        let (Said::Apply { n_a } | Said::Decline { n_a, .. }) = said else { return Vec::new() };
        let Some(host_index) = index(host) else { return Vec::new() };
        round.machines.send(1);
        let p_c = round.load(host);
        debug_assert_eq!(n_a, application(p, p_c));
        let (batch, capability) = (self.id, 1.0);
        let apply = BatchMsg::Apply { batch, host: host_index, p, p_c, n_a, capability };
        self.manager.on_message(host_index.daemon(), apply)
    }

    fn is_over(&self) -> bool {
        self.waiting == 0
    }
}

/// Hosts count from 0 here, and from 1 in a virtual machine.
fn index(host: usize) -> Option<HostIndex> {
    HostIndex::new(u32::try_from(host).ok()?.checked_add(1)?)
}

fn number(host: HostIndex) -> usize {
    host.get() as usize - 1
}

fn member(host: usize) -> Option<Member> {
    Some(Member { host: index(host)?, capability: 1.0, limit: u32::MAX })
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

impl Algorithm for Pull {
    fn name(&self) -> &'static str {
        "active pulling"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        let hosts = machines.count();
        let nodes = (0..hosts).filter(|host| !self.away.contains(host)).filter_map(member);
        let mut batch = Batch::new(&request, hosts);
        let mut messages = batch.place(nodes.collect());
        for at in (1..messages.len()).rev() {
            messages.swap(at, machines.random(at + 1));
        }
        let mut round = Round::new(machines);
        batch.run(self.threshold, messages, &mut round);
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
            let messages = batch.answer(self.threshold, host, said, &mut round);
            batch.run(self.threshold, messages, &mut round);
        }
        self.batches.retain(|batch| !batch.is_over());
        round.steps
    }

    /// When a host leaves it counts as having applied, so that no other waits for it, and nothing is granted.
    fn left(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.away.insert(host);
        let mut round = Round::new(machines);
        for batch in &mut self.batches {
            batch.nodes[host] = Node::new();
            let Some(host) = index(host) else { continue };
            let messages = batch.tell(BatchMsg::NodeGone { batch: batch.id, host });
            batch.run(self.threshold, messages, &mut round);
        }
        round.steps
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.away.remove(&host);
        let mut round = Round::new(machines);
        for batch in &mut self.batches {
            let Some(node) = member(host) else { continue };
            let mut messages = batch.tell(BatchMsg::NodeJoined { batch: batch.id, node });
            messages.extend(batch.again());
            batch.run(self.threshold, messages, &mut round);
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
        // Every host gets `TasksHave`, answers, and gets `TasksNo`; each grant has its application.
        assert!((4 * 3 + 3..=4 * 3 + 9 * 2).contains(&bench.messages), "{}", bench.messages);
    }

    #[test]
    fn the_rest_waits_for_a_host_to_drain() {
        let mut bench = Bench::new(&[0, 0]);
        let mut policy = Pull::new(1);
        assert_eq!(bench.create(&mut policy, 1, 0, 3).len(), 2);
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [0; 0]);
        assert_eq!(bench.end(&mut policy, 1), [Step { request: 1, host: 1, ways: 2 }]);
        assert_eq!(bench.end(&mut policy, 0), [Step { request: 2, host: 0, ways: 0 }]);
        assert_eq!(bench.end(&mut policy, 0), []);
    }
}
