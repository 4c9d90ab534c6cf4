//! As home: the task managers, which hand out what waits of spawns, and the spawns that wait in line for one (design D6).
//!
//! The home daemon holds the truth about its spawners' batches, and carries out what a batch's manager, a process of its own,
//! decides.

use super::home::Home;
use super::progress::Spawn;
use super::state::Event;
use crate::addresses::SpawnId;
use crate::decision::Decision;
use crate::effect::{Effect, Placement};
use pvm_sched::policy::Policy;
use pvm_wire::batch::{BatchId, BatchMsg, Node, Terms};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tracing::{debug, error, info};

/// Managers kept ready for the next batch.
const IDLE_MANAGERS: usize = 2;
/// Queued batches handed out at the same time; younger ones wait.
const QUEUED_AT_ONCE: usize = 8;
/// Managers that may die in a row before a batch is given up.
const MANAGER_TRIES: u32 = 3;

/// The managers of a home daemon and the batches that wait for one.
#[derive(Debug, Default)]
pub(crate) struct Managers {
    /// Enrolled ones that hand out nothing.
    pub idle: BTreeSet<Tid>,
    /// Processes started that have not enrolled yet.
    pub starting: BTreeSet<Tid>,
    /// Processes that are about to be started.
    pub ordered: usize,
    /// Spawns in line for one.
    pub waiting: VecDeque<SpawnId>,
    /// The batches each was told to be done with since it last handed out tasks, and the nodes it may not have told that.
    pub done: BTreeMap<Tid, Vec<(BatchId, BTreeSet<HostIndex>)>>,
    pub deaths: u32,
}

/// Managers come and go.
impl Home {
    /// Managers that have enrolled, and those on their way.
    pub fn manager_counts(&self) -> (usize, usize) {
        let busy = self.spawns.values().filter(|spawn| spawn.state().manager().is_some()).count();
        (self.managers.idle.len() + busy, self.managers.starting.len())
    }

    /// Gives a batch to an idle manager, or has one started.
    pub(super) fn find_manager(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        if !self.managers.waiting.contains(&id) {
            self.managers.waiting.push_back(id);
        }
        match self.managers.idle.first().copied() {
            Some(manager) => self.assign_manager(manager, at),
            None if self.managers.starting.len() + self.managers.ordered < self.servable() => {
                self.managers.ordered += 1;
                at.out.push(Effect::StartManager);
            }
            None => {}
        }
    }

    /// The process of a manager is being started.
    pub fn manager_starting(&mut self, manager: Tid) {
        self.managers.ordered -= 1;
        self.managers.starting.insert(manager);
    }

    /// There is no task id for a manager.
    pub fn no_manager(&mut self, at: &mut Decision<'_>) {
        self.managers.ordered -= 1;
        self.on_manager_unavailable("all task ids are in use", at);
    }

    /// A manager has enrolled.
    pub fn on_manager_ready(&mut self, manager: Tid, at: &mut Decision<'_>) {
        self.managers.starting.remove(&manager);
        self.managers.deaths = 0;
        self.managers.idle.insert(manager);
        self.assign_manager(manager, at);
    }

    /// Gives an idle manager the next batch that waits, or lets it go if there are idle ones enough.
    fn assign_manager(&mut self, manager: Tid, at: &mut Decision<'_>) {
        while let Some(id) = self.next_batch() {
            let (batch, nodes, last) = (self.batch_id(id), self.batch_nodes(id, at), self.last_given);
            let Some(spawn) = self.spawns.get_mut(&id) else { continue };
            let (count, policy) = (spawn.placing.waiting().into(), spawn.placing.policy);
            let queued = spawn.queue().is_some();
            spawn.placing.is_open = true;
            self.step(id, Event::Assigned(manager), at);
            self.managers.idle.remove(&manager);
            let placement = Placement { batch, count, nodes, queued, policy, last };
            return at.out.push(Effect::Place(manager, placement));
        }
        if self.managers.idle.len() > IDLE_MANAGERS {
            at.out.push(Effect::EndManager(manager));
        }
    }

    /// A manager has died: its batch goes on under another; what was granted stays granted.
    pub fn on_manager_gone(&mut self, manager: Tid, at: &mut Decision<'_>) {
        let started = !self.managers.starting.remove(&manager);
        self.managers.idle.remove(&manager);
        for (done, nodes) in self.managers.done.remove(&manager).unwrap_or_default() {
            let spawn = self.spawns.get(&SpawnId(done.number));
            // The manager may have died before it told the nodes.
            if spawn.is_none_or(|spawn| spawn.state().manager().is_none()) {
                tell_nodes_done(done, &nodes, at);
            }
        }
        if let Some(id) = self.managed_by(manager) {
            info!(%manager, spawn = id.0, "task manager lost: the batch goes on under another");
            self.step(id, Event::ManagerGone, at);
            self.hand_out(id, 0, at);
        } else if !started {
            self.managers.deaths += 1;
            if self.managers.deaths >= MANAGER_TRIES {
                self.on_manager_unavailable("it ends before it has enrolled", at);
            } else if let Some(&id) = self.managers.waiting.front() {
                self.find_manager(id, at);
            }
        }
    }

    pub fn on_manager_not_started(&mut self, manager: Tid, reason: &str, at: &mut Decision<'_>) {
        self.managers.starting.remove(&manager);
        self.on_manager_unavailable(reason, at);
    }

    /// No manager can be had: what waits for one has failed.
    fn on_manager_unavailable(&mut self, reason: &str, at: &mut Decision<'_>) {
        error!(reason, "no task manager can be started: set PVM_TASK_MANAGER to its path");
        self.managers.deaths = 0;
        let told = format!("no task manager can be started (PVM_TASK_MANAGER): {reason}");
        for id in std::mem::take(&mut self.managers.waiting) {
            self.unplaceable(id, PvmError::DSysErr, &told, at);
        }
    }

    /// A spawn waits in line no more.
    pub(super) fn leave_line(&mut self, id: SpawnId) {
        self.managers.waiting.retain(|&waiting| waiting != id);
    }

    /// The spawn that this manager hands out.
    fn managed_by(&self, manager: Tid) -> Option<SpawnId> {
        let is_its = |(_, spawn): &(&SpawnId, &Spawn)| spawn.state().manager() == Some(manager);
        self.spawns.iter().find(is_its).map(|(&id, _)| id)
    }

    /// Queued batches that may have a manager beyond those that have one.
    fn queued_servable(&self) -> usize {
        let queued = self.spawns.values().filter(|spawn| spawn.queue().is_some());
        QUEUED_AT_ONCE.saturating_sub(queued.filter(|spawn| spawn.state().manager().is_some()).count())
    }

    /// Batches that wait for a manager and may have one now.
    fn servable(&self) -> usize {
        let waiting = &self.managers.waiting;
        let queued = waiting.iter().filter(|&&id| self.is_queued(id)).count();
        waiting.len() - queued + queued.min(self.queued_servable())
    }

    /// The next batch for an idle manager: the oldest that may have one.
    fn next_batch(&mut self) -> Option<SpawnId> {
        let room = self.queued_servable() > 0;
        let next = self.managers.waiting.iter().position(|&id| room || !self.is_queued(id))?;
        self.managers.waiting.remove(next)
    }
}

/// The dialogue with them.
impl Home {
    /// The manager has decided how many this node gets.
    pub fn on_grant(
        &mut self,
        manager: Tid,
        batch: BatchId,
        host: HostIndex,
        n: u64,
        terms: Option<Terms>,
        at: &mut Decision<'_>,
    ) {
        let id = SpawnId(batch.number);
        let spawn = self.spawns.get_mut(&id).filter(|spawn| spawn.state().manager() == Some(manager));
        let Some(spawn) = spawn else {
            // The batch has been cancelled, or ended otherwise, or never was this manager's.
            return debug!(%manager, ?batch, "a manager hands out what is not its to hand out: ignored");
        };
        // The manager reads in order: it has told the nodes of all batches before this one.
        self.managers.done.remove(&manager);
        let (n, placing) = (u32::try_from(n).unwrap_or(u32::MAX), &mut spawn.placing);
        let is_candidate = placing.nodes.contains(&host);
        if !is_candidate {
            // It has left since, or its owner is there. Without this the manager would hand out the same tasks to the same host for ever.
            at.out.send_batch(manager, BatchMsg::NodeGone { batch, host });
        }
        if !is_candidate || !at.hosts.is_reachable(host) {
            return at.out.send_batch(manager, BatchMsg::More { batch, count: n.into() });
        }
        let ranges = placing.take(host, n);
        let given = ranges.iter().map(|(_, count)| count).sum();
        placing.count_grant(host, given, terms, at.now);
        self.costs.given(placing.policy, given);
        if placing.policy != Policy::ActivePulling {
            self.last_given = host;
        }
        if placing.policy == Policy::LightlyLoaded {
            self.lightly.given(host, n, at.loads);
        }
        debug!(spawn = id.0, %host, n, ?terms, "granted");
        for range in ranges {
            spawn.order(id, host, range, Some(batch), at.out);
        }
    }

    /// No node is left that could take the rest, or all have as much as they may.
    pub fn on_no_nodes(&mut self, manager: Tid, batch: BatchId, at: &mut Decision<'_>) {
        let id = SpawnId(batch.number);
        let spawn = self.spawns.get(&id).filter(|spawn| spawn.state().manager() == Some(manager));
        let Some(spawn) = spawn else { return };
        if spawn.queue().is_some() || spawn.placing.nodes.is_empty() {
            self.unplaceable(id, PvmError::NoHost, "no host is left that could run it", at);
        } else {
            self.step(id, Event::LimitsReached, at);
        }
    }

    /// More tasks of a batch wait than its manager knows of.
    pub(super) fn tell_more(&mut self, manager: Tid, id: SpawnId, count: u32, at: &mut Decision<'_>) {
        if count > 0 {
            let batch = self.batch_id(id);
            at.out.send_batch(manager, BatchMsg::More { batch, count: count.into() });
        }
    }

    /// A manager has no more to do with a spawn, and tells the nodes so.
    pub(super) fn free_manager(&mut self, manager: Tid, id: SpawnId, at: &mut Decision<'_>) {
        let batch = self.batch_id(id);
        let Some(placing) = self.spawns.get_mut(&id).map(|spawn| &mut spawn.placing) else { return };
        placing.is_open = false;
        let nodes = placing.nodes.clone();
        at.out.send_batch(manager, BatchMsg::Done { batch });
        self.managers.done.entry(manager).or_default().push((batch, nodes));
        self.managers.idle.insert(manager);
        self.assign_manager(manager, at);
    }

    /// The manager that told nodes that tasks wait has died: they hear from this daemon that none do.
    pub(super) fn close_nodes(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let batch = self.batch_id(id);
        let Some(placing) = self.spawns.get_mut(&id).map(|spawn| &mut spawn.placing) else { return };
        if std::mem::take(&mut placing.is_open) {
            tell_nodes_done(batch, &placing.nodes, at);
        }
    }

    /// A host may be given tasks of batches that are not confined to certain hosts.
    pub(super) fn node_joined(&mut self, host: HostIndex, at: &mut Decision<'_>) {
        let node = |policy| self.node(host, policy, at);
        let (Some(plain), Some(lightly)) = (node(Policy::ActivePulling), node(Policy::LightlyLoaded)) else {
            return;
        };
        let home = at.config.index;
        for (&id, spawn) in &mut self.spawns {
            let manager = spawn.state().manager();
            if !spawn.placing.newcomers {
                continue;
            }
            spawn.placing.nodes.insert(host);
            if let Some(manager) = manager {
                let batch = BatchId { home, number: id.0 };
                let node = if spawn.placing.policy == Policy::LightlyLoaded { lightly } else { plain };
                at.out.send_batch(manager, BatchMsg::NodeJoined { batch, node });
            }
        }
    }

    /// A host can be given nothing any more.
    pub fn node_gone(&mut self, host: HostIndex, at: &mut Decision<'_>) {
        let home = at.config.index;
        for (&id, spawn) in &mut self.spawns {
            let manager = spawn.state().manager();
            if let (true, Some(manager)) = (spawn.placing.nodes.remove(&host), manager) {
                let batch = BatchId { home, number: id.0 };
                at.out.send_batch(manager, BatchMsg::NodeGone { batch, host });
            }
        }
    }

    pub(super) fn batch_nodes(&self, id: SpawnId, at: &Decision<'_>) -> Vec<Node> {
        let Some(spawn) = self.spawns.get(&id) else { return Vec::new() };
        let policy = spawn.placing.policy;
        let node = |&host| self.node(host, policy, at);
        let is_free = |host: &&HostIndex| !at.owners.is_here(**host);
        let free: Vec<Node> = spawn.placing.nodes.iter().filter(is_free).filter_map(node).collect();
        // Where all owners are there, a host says why it starts nothing.
        if free.is_empty() { spawn.placing.nodes.iter().filter_map(node).collect() } else { free }
    }

    fn node(&self, host: HostIndex, policy: Policy, at: &Decision<'_>) -> Option<Node> {
        let entry = at.hosts.get(host)?;
        let capability = match policy {
            Policy::LightlyLoaded => entry.capability / (self.lightly.run_queue(host, at.loads) + 1.0),
            _ => entry.capability,
        };
        Some(Node { host, capability, limit: entry.task_limit })
    }
}

fn tell_nodes_done(batch: BatchId, nodes: &BTreeSet<HostIndex>, at: &mut Decision<'_>) {
    for &host in nodes {
        at.out.send_batch(host.daemon(), BatchMsg::TasksNo { batch });
    }
}
