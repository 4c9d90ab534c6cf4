//! As home of spawns: the table of them, and what changes the state of each.

use super::costs::Costs;
use super::lightly::Lightly;
use super::managers::Managers;
use super::notices::Notices;
use super::progress::Spawn;
use super::queue::Queues;
use super::state::{Effect, Event, State};
use super::traffic::{Report, Traffic};
use crate::addresses::SpawnId;
use crate::decision::Decision;
use pvm_sched::placement::{Portion, proportional};
use pvm_sched::policy::Policy;
use pvm_wire::batch::{BatchId, Node};
use pvm_wire::queue::BatchRecord;
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeMap;

/// What a daemon knows as home of its tasks' spawns.
#[derive(Debug)]
pub(crate) struct Home {
    pub(super) own: HostIndex,
    pub(super) spawns: BTreeMap<SpawnId, Spawn>,
    /// Spawns so far.
    count: u64,
    pub(super) queues: Queues,
    pub(super) managers: Managers,
    /// Host that a divided batch was given to last.
    pub(super) last_given: HostIndex,
    pub(super) lightly: Lightly,
    /// Notices of queued batches, by the parents that have to take them.
    pub(super) notices: BTreeMap<Tid, Notices>,
    pub(super) traffic: Traffic,
    pub(super) costs: Costs,
}

impl Home {
    pub fn new(own: HostIndex) -> Self {
        Self {
            own,
            spawns: BTreeMap::new(),
            count: 0,
            queues: Queues::default(),
            managers: Managers::default(),
            last_given: own,
            lightly: Lightly::default(),
            notices: BTreeMap::new(),
            traffic: Traffic::default(),
            costs: Costs::default(),
        }
    }

    /// The batches of this home, those that have ended first. `machine` is the policy of those that name none.
    pub fn records(&self, machine: Policy) -> Vec<BatchRecord> {
        let live = self.spawns.values().filter_map(|spawn| spawn.record(machine));
        self.queues.ended().cloned().chain(live).collect()
    }

    /// A line for each spawn under way, for people.
    pub fn summaries(&self) -> impl Iterator<Item = (SpawnId, String)> {
        self.spawns.iter().map(|(&id, spawn)| (id, spawn.summary()))
    }

    /// Spawns under way, and those of them that wait for a manager.
    pub fn counts(&self) -> (usize, usize) {
        (self.spawns.len(), self.managers.waiting.len())
    }

    /// A task of a spawn of this home says what it has sent.
    pub fn on_traffic(&mut self, report: Report) {
        self.traffic.report(report);
    }

    pub(super) fn next_id(&mut self) -> SpawnId {
        self.count += 1;
        SpawnId(self.count)
    }

    pub(super) fn batch_id(&self, id: SpawnId) -> BatchId {
        BatchId { home: self.own, number: id.0 }
    }

    /// Newcomers may help with batches that are not confined to certain hosts.
    pub fn hosts_added(&mut self, added: &[HostIndex], at: &mut Decision<'_>) {
        let own = self.own;
        for &host in added.iter().filter(|&&host| host != own) {
            self.node_joined(host, at);
        }
    }

    /// A host is out. What it had been granted comes back through its unanswered requests.
    pub fn host_gone(&mut self, host: HostIndex, at: &mut Decision<'_>) {
        self.tasks_lost(host, at);
        self.lightly.host_gone(host);
        self.node_gone(host, at);
    }
}

/// What changes a spawn's state, and what follows.
impl Home {
    /// Something has happened to a spawn.
    pub(super) fn step(&mut self, id: SpawnId, event: Event<'_>, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        for effect in spawn.step(event) {
            match effect {
                Effect::FindManager => self.find_manager(id, at),
                Effect::LeaveLine => self.leave_line(id),
                Effect::Free(manager) => self.free_manager(manager, id, at),
                Effect::TellMore(manager, more) => self.tell_more(manager, id, more, at),
                Effect::Divide => self.divide(id, at),
                Effect::TellAgents(more) => self.tell_agents(id, more, at),
                Effect::DismissAgents => self.dismiss_agents(id, at),
                Effect::DivideNow => self.divide_now(id, at),
                Effect::Refuse { error, reason } => self.refuse_waiting(id, error, reason, at),
                Effect::Fail(error) => self.fail_waiting(id, error, at),
                Effect::CloseNodes => self.close_nodes(id, at),
            }
        }
    }

    /// Has the waiting tasks handed out, `more` of them new, unless the parent has to take its notices first.
    pub(super) fn hand_out(&mut self, id: SpawnId, more: u32, at: &mut Decision<'_>) {
        let Some(placing) = self.spawns.get(&id).map(|spawn| &spawn.placing) else { return };
        let has_agents = placing.policy.has_agents();
        if placing.waiting() > 0 && !self.is_held(id) {
            let event = if has_agents { Event::AgentsWanted { more } } else { Event::TasksWait { more } };
            self.step(id, event, at);
        }
    }

    /// What waits cannot be placed.
    pub(super) fn unplaceable(&mut self, id: SpawnId, error: PvmError, reason: &str, at: &mut Decision<'_>) {
        let event =
            if self.is_queued(id) { Event::Hopeless(error) } else { Event::Unplaceable { error, reason } };
        self.step(id, event, at);
    }

    pub(super) fn is_queued(&self, id: SpawnId) -> bool {
        self.spawns.get(&id).is_some_and(|spawn| spawn.queue().is_some())
    }

    /// Tasks that no host's limit allows are divided all the same: they take the places of what has ended meanwhile. For what
    /// finds none the hosts say so.
    fn divide(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let waiting = spawn.placing.waiting() as usize;
        if spawn.call_mut().is_some_and(|call| call.open == waiting) {
            self.divide_now(id, at);
        }
    }

    /// Divides what waits of a spawn in proportion to capability and whatever room there is. Tasks of a queued batch wait for room, but
    /// one at a time gets its turn, or a batch might stand still for good.
    fn divide_now(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let (batch, mut nodes) = (self.batch_id(id), self.batch_nodes(id, at));
        // What goes to a host that cannot be reached comes back at once.
        nodes.retain(|node| at.hosts.is_reachable(node.host));
        if !nodes.is_empty() && self.is_queued(id) {
            nodes.retain(|node| !at.owners.is_here(node.host));
            if nodes.is_empty() {
                // It waits until an owner leaves.
                return;
            }
        }
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let waiting = match (spawn.placing.waiting(), spawn.queue()) {
            (waiting, Some(queue)) => waiting.min(u32::from(queue.total == queue.over() + waiting)),
            (waiting, None) => waiting,
        };
        if waiting == 0 {
            return;
        }
        if nodes.is_empty() {
            return self.unplaceable(id, PvmError::NoHost, "no host is left that could run it", at);
        }
        let portion = |node: &Node| Portion { capability: node.capability, has: 0, limit: u64::MAX };
        let parts = proportional(waiting.into(), &nodes.iter().map(portion).collect::<Vec<_>>());
        for (node, n) in nodes.iter().zip(parts) {
            let ranges = spawn.placing.take(node.host, n as u32);
            if !ranges.is_empty() {
                spawn.placing.count_grant(node.host, n as u32, None, at.now);
                self.costs.given(spawn.placing.policy, n as u32);
            }
            for range in ranges {
                spawn.order(id, node.host, range, Some(batch), at.out);
            }
        }
        if spawn.state() == State::Placed {
            self.dismiss_agents(id, at);
            self.tell_agents(id, None, at);
        }
    }
}
