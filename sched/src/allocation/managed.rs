//! Policies that a task manager carries out, behind the interface of agents: each request has its manager's [`Machine`], and each host a
//! [`Node`] for it, as they run live.

use super::agent::{Agent, Event, Scene};
use crate::policy::Policy;
use crate::pulling::{Node, Step};
use crate::task_manager::Machine;
use pvm_wire::batch::{BatchId, BatchMsg, Node as Member};
use pvm_wire::{HostIndex, Tid};
use std::collections::BTreeMap;
use std::time::Duration;

/// A host's part of a policy that a task manager carries out. Hosts are of equal capability, and get the notice of each request in random
/// order. Processes for which no host has room wait until one has drained; it reports that at once, so that waits have no effect. Hosts
/// beyond the most that a virtual machine may have get no processes.
#[derive(Debug)]
pub struct Managed {
    policy: Policy,
    /// Requests of this home with processes that wait.
    batches: BTreeMap<u64, Batch>,
    /// What this host knows of requests, its own and those of others.
    nodes: BTreeMap<BatchId, Node>,
}

#[derive(Debug)]
struct Batch {
    id: BatchId,
    manager: Machine,
    /// Processes that no host has been given.
    waiting: u64,
    /// The manager has given up what waits, as there was no host.
    given_up: bool,
}

/// Messages of a manager, with their receivers.
type Messages = Vec<(Tid, BatchMsg)>;

impl Managed {
    /// By a policy that is none of agents.
    pub fn new(policy: Policy) -> Self {
        Self { policy, batches: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    fn created(&mut self, request: u64, count: u32, scene: &mut Scene<'_, BatchMsg>) {
        let Some(home) = index(scene.own) else { return };
        let id = BatchId { home, number: request };
        if let Some(batch) = self.batches.get_mut(&request) {
            batch.waiting += u64::from(count);
            let messages = batch.tell(BatchMsg::More { batch: id, count: count.into() });
            return self.pass(request, messages, scene);
        }
        let (count, nodes) = (u64::from(count), scene.hosts.iter().copied().filter_map(member).collect());
        let mut batch = Batch { id, manager: Machine::default(), waiting: count, given_up: false };
        let policy = self.policy.name().to_owned();
        let place = BatchMsg::Place { batch: id, count, nodes, soft: false, policy, last: home, own: None };
        let mut messages = batch.tell(place);
        for at in (1..messages.len()).rev() {
            messages.swap(at, scene.random(at + 1));
        }
        self.batches.insert(request, batch);
        self.pass(request, messages, scene);
    }

    /// Carries out what a request's manager says.
    fn pass(&mut self, request: u64, messages: Messages, scene: &mut Scene<'_, BatchMsg>) {
        let Some(batch) = self.batches.get_mut(&request) else { return };
        for (to, message) in messages {
            match message {
                BatchMsg::Grant { host, n, .. } => {
                    batch.waiting = batch.waiting.saturating_sub(n);
                    scene.start(request, number(host), n as u32);
                }
                BatchMsg::TasksHave { .. } | BatchMsg::TasksNo { .. } => {
                    if let Some(host) = to.host() {
                        scene.send(number(host), message);
                    }
                }
                // Of no other kind are a manager's messages.
                _ => {
                    batch.given_up = true;
                    scene.no_room(request);
                }
            }
        }
        if batch.waiting == 0 {
            self.batches.remove(&request);
        }
    }

    /// Another host's agent, or this one, speaks: a manager to a node, or a node to a manager.
    fn heard(&mut self, from: usize, message: BatchMsg, scene: &mut Scene<'_, BatchMsg>) {
        match message {
            BatchMsg::TasksHave { batch, .. } => {
                let (p, p_c) = self.room(batch, scene);
                let node = self.nodes.entry(batch).or_default();
                let step = node.tasks_have(p, p_c, Duration::ZERO);
                answer(batch, step, (p, p_c), scene);
            }
            BatchMsg::TasksNo { batch } => _ = self.nodes.remove(&batch),
            BatchMsg::Apply { batch, host, .. } if number(host) == from => {
                match self.batches.get_mut(&batch.number) {
                    Some(home) => {
                        let messages = home.manager.on_message(host.daemon(), message);
                        self.pass(batch.number, messages, scene);
                    }
                    None => scene.send(from, BatchMsg::TasksNo { batch }),
                }
            }
            _ => {}
        }
    }

    /// `P` and `P_c` as a batch sees them: what has been applied for elsewhere counts as running.
    fn room(&self, batch: BatchId, scene: &Scene<'_, BatchMsg>) -> (u64, u64) {
        let others = self.nodes.iter().filter(|(other, _)| **other != batch);
        let promised: u64 = others.map(|(_, node)| node.promised()).sum();
        (scene.room.into(), u64::from(scene.load) + promised)
    }

    /// Has the nodes of this host that wait for room apply, or the one that has been given processes.
    fn look(&mut self, given: Option<BatchId>, scene: &mut Scene<'_, BatchMsg>) {
        let all: Vec<BatchId> = given.map_or_else(|| self.nodes.keys().copied().collect(), |one| vec![one]);
        for batch in all {
            let (p, p_c) = self.room(batch, scene);
            let Some(node) = self.nodes.get_mut(&batch) else { continue };
            let step = match given {
                Some(_) => node.tasks_given(p, p_c, Duration::ZERO),
                None => node.room(p, p_c),
            };
            answer(batch, step, (p, p_c), scene);
        }
    }

    /// Has the managers of this home hear of a host.
    fn tell_all(&mut self, host: usize, is_gone: bool, scene: &mut Scene<'_, BatchMsg>) {
        let (Some(host), Some(node)) = (index(host), member(host)) else { return };
        for request in self.batches.keys().copied().collect::<Vec<_>>() {
            let Some(batch) = self.batches.get_mut(&request) else { continue };
            let id = batch.id;
            let mut messages = if is_gone {
                batch.tell(BatchMsg::NodeGone { batch: id, host })
            } else {
                batch.tell(BatchMsg::NodeJoined { batch: id, node })
            };
            if !is_gone && std::mem::take(&mut batch.given_up) {
                messages.extend(batch.tell(BatchMsg::More { batch: id, count: batch.waiting }));
            }
            self.pass(request, messages, scene);
        }
    }

    fn dropped(&mut self, request: u64, scene: &mut Scene<'_, BatchMsg>) {
        if let Some(batch) = self.batches.get_mut(&request) {
            let messages = batch.tell(BatchMsg::Done { batch: batch.id });
            self.pass(request, messages, scene);
            self.batches.remove(&request);
        }
    }
}

impl Batch {
    /// Its home speaks to its manager.
    fn tell(&mut self, message: BatchMsg) -> Messages {
        self.manager.on_message(Tid::MY_DAEMON, message)
    }
}

/// Sends what a node says to its manager.
fn answer(batch: BatchId, step: Step, (p, p_c): (u64, u64), scene: &mut Scene<'_, BatchMsg>) {
    let (Step::Apply { n_a } | Step::Decline { n_a, .. }) = step else { return };
    if let Some(host) = index(scene.own) {
        scene.send(number(batch.home), BatchMsg::Apply { batch, host, p, p_c, n_a, capability: 1.0 });
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

impl Agent for Managed {
    type Message = BatchMsg;

    fn on(&mut self, event: Event<BatchMsg>, scene: &mut Scene<'_, BatchMsg>) {
        match event {
            Event::Created { request, count } => self.created(request, count, scene),
            Event::Dropped { request } => self.dropped(request, scene),
            Event::Heard { from, message } => self.heard(from, message, scene),
            Event::Began { home, request, placed: true, .. } => {
                let given = index(home).map(|home| BatchId { home, number: request });
                self.look(given, scene);
            }
            Event::Ended { .. } | Event::Load => self.look(None, scene),
            Event::Joined(host) => self.tell_all(host, false, scene),
            Event::Gone(host) => {
                self.nodes.retain(|batch, _| number(batch.home) != host);
                self.tell_all(host, true, scene);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Agents, Step};
    use super::super::testing::Bench;
    use super::*;

    fn pulling(hosts: usize) -> Agents<Managed> {
        Agents::new("active pulling", hosts, None, || Managed::new(Policy::ActivePulling))
    }

    #[test]
    fn hosts_with_room_share_a_batch() {
        let mut bench = Bench::new(&[0; 6]);
        let mut policy = pulling(6);
        // One of the first two is busy.
        let busy = bench.create(&mut policy, 1, 0, 1)[0];
        let before = bench.messages;
        let mut hosts = bench.create(&mut policy, 2, 0, 5);
        hosts.sort_unstable();
        hosts.dedup();
        assert!(hosts.len() == 5 && !hosts.contains(&busy), "it is full: {hosts:?}");
        assert!(bench.loads.iter().all(|&load| load == 1), "{:?}", bench.loads);
        // Each of the five others gets `TasksHave`, applies or declines, is given one, declines, and gets `TasksNo`.
        assert!((5 * 3..=5 * 5).contains(&(bench.messages - before)), "{}", bench.messages - before);
    }

    #[test]
    fn the_rest_waits_for_a_host_to_drain() {
        let mut bench = Bench::new(&[0, 0]);
        let mut policy = pulling(2);
        assert_eq!(bench.create(&mut policy, 1, 0, 3).len(), 2);
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [0; 0]);
        assert_eq!(bench.end(&mut policy, 1), [Step { request: 1, host: 1, ways: 1 }]);
        assert_eq!(bench.end(&mut policy, 0), [Step { request: 2, host: 0, ways: 0 }]);
        assert_eq!(bench.end(&mut policy, 0), []);
    }

    #[test]
    fn batches_that_are_divided_at_once_run_behind_the_same_interface() {
        let mut bench = Bench::new(&[0; 4]);
        let mut policy = Agents::new("round-robin", 4, None, || Managed::new(Policy::RoundRobin));
        let mut hosts = bench.create(&mut policy, 1, 2, 4);
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 1, 2, 3]);
    }
}
