//! As home: the dialogue with task managers, which hand out what waits of spawns (design D6).

use crate::Core;
use crate::addresses::SpawnId;
use crate::event::{Action, Program};
use crate::spawn::SIGTERM;
use crate::spawn::managers::{IDLE_MANAGERS, MANAGER_TRIES};
use crate::spawn::state::Event;
use crate::tasks::Origin;
use pvm_sched::policy::Policy;
use pvm_sched::pulling;
use pvm_wire::batch::{Application, BatchId, BatchMsg, Node, Terms};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeSet;
use tracing::{debug, error, info};

impl Core {
    pub(crate) fn batch_id(&self, id: SpawnId) -> BatchId {
        BatchId { home: self.config.index, number: id.0 }
    }

    /// Gives a batch to an idle manager, or starts one.
    pub(crate) fn find_manager(&mut self, id: SpawnId) {
        if !self.home.managers.waiting.contains(&id) {
            self.home.managers.waiting.push_back(id);
        }
        match self.home.managers.idle.first().copied() {
            Some(manager) => self.assign_manager(manager),
            None if self.home.managers.starting.len() < self.home.servable() => self.start_manager(),
            None => {}
        }
    }

    fn start_manager(&mut self) {
        let announced = self.announce(|task| {
            task.origin = Origin::Child;
            task.manager = true;
            task.name = "pvm-task-manager".into();
        });
        let Some((tid, cookie)) = announced else {
            return self.on_manager_unavailable("all task ids are in use");
        };
        self.home.managers.starting.insert(tid);
        let program = Program { manager: true, ..Program::default() };
        self.start_processes(vec![cookie], program);
    }

    /// A manager has enrolled.
    pub(crate) fn on_manager_ready(&mut self, manager: Tid) {
        self.home.managers.starting.remove(&manager);
        self.home.managers.deaths = 0;
        self.home.managers.idle.insert(manager);
        self.assign_manager(manager);
    }

    /// Gives an idle manager the next batch that waits, or lets it go if there are idle ones enough.
    fn assign_manager(&mut self, manager: Tid) {
        while let Some(id) = self.home.next_batch() {
            let batch = self.batch_id(id);
            let (nodes, soft, last) = (self.batch_nodes(id), !self.home.is_queued(id), self.home.last_given);
            let Some(placing) = self.home.spawns.get_mut(&id).map(|spawn| &mut spawn.placing) else {
                continue;
            };
            let (count, policy) = (placing.waiting().into(), placing.policy.name().to_owned());
            placing.is_open = true;
            self.step(id, Event::Assigned(manager));
            self.home.managers.idle.remove(&manager);
            let own = self.own_application(manager, batch, !soft, &nodes);
            return self
                .send_batch(manager, &BatchMsg::Place { batch, count, nodes, soft, policy, last, own });
        }
        if self.home.managers.idle.len() > IDLE_MANAGERS
            && let Some(task) = self.tasks.get(manager)
        {
            self.out.act(Action::Signal { pid: task.pid, signal: SIGTERM });
        }
    }

    /// What this host asks for as one of the nodes, without being told first that tasks wait: that would be two more messages
    /// before the first task of a batch can start.
    fn own_application(
        &mut self,
        manager: Tid,
        batch: BatchId,
        queued: bool,
        nodes: &[Node],
    ) -> Option<Application> {
        nodes.iter().find(|node| node.host == self.config.index)?;
        self.open_batch(manager, batch, queued);
        self.asks(batch, pulling::Node::tasks_have)
    }

    pub(crate) fn batch_nodes(&self, id: SpawnId) -> Vec<Node> {
        let Some(spawn) = self.home.spawns.get(&id) else { return Vec::new() };
        spawn.placing.nodes.iter().filter_map(|&host| self.node(host)).collect()
    }

    fn node(&self, host: HostIndex) -> Option<Node> {
        let entry = self.hosts.get(host)?;
        Some(Node { host, capability: entry.capability, limit: entry.task_limit })
    }

    /// The manager has decided how many this node gets.
    pub(crate) fn on_grant(
        &mut self,
        manager: Tid,
        batch: BatchId,
        host: HostIndex,
        n: u64,
        terms: Option<Terms>,
    ) {
        let id = SpawnId(batch.number);
        let reachable = self.hosts.is_reachable(host);
        let spawn = self.home.spawns.get_mut(&id).filter(|spawn| spawn.state().manager() == Some(manager));
        let Some(placing) = spawn.map(|spawn| &mut spawn.placing) else {
            // The batch has been cancelled, or ended otherwise, or never was this manager's.
            return debug!(%manager, ?batch, "a manager hands out what is not its to hand out: ignored");
        };
        // The manager reads in order: it has told the nodes of all batches before this one.
        self.home.managers.done.remove(&manager);
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        if !reachable || !placing.nodes.contains(&host) {
            // It has not heard yet that the host is gone.
            return self.send_batch(manager, &BatchMsg::More { batch, count: n.into() });
        }
        let ranges = placing.take(host, n);
        placing.count_grant(host, ranges.iter().map(|(_, count)| count).sum(), terms);
        if placing.policy != Policy::ActivePulling {
            self.home.last_given = host;
        }
        debug!(spawn = id.0, %host, n, ?terms, "granted");
        for (first, count) in ranges {
            self.exec_on(id, host, first, count, Some(batch));
        }
    }

    /// No node is left that could take the rest, or all have as much as they may.
    pub(crate) fn on_no_nodes(&mut self, manager: Tid, batch: BatchId) {
        let id = SpawnId(batch.number);
        let spawn = self.home.spawns.get(&id).filter(|spawn| spawn.state().manager() == Some(manager));
        let Some(spawn) = spawn else { return };
        if spawn.queue().is_some() || spawn.placing.nodes.is_empty() {
            self.unplaceable(id, PvmError::NoHost, "no host is left that could run it");
        } else {
            self.step(id, Event::LimitsReached);
        }
    }

    /// More tasks of a batch wait than its manager knows of.
    pub(crate) fn tell_more(&mut self, manager: Tid, id: SpawnId, count: u32) {
        if count > 0 {
            let batch = self.batch_id(id);
            self.send_batch(manager, &BatchMsg::More { batch, count: count.into() });
        }
    }

    fn tell_nodes_done(&mut self, batch: BatchId, nodes: &BTreeSet<HostIndex>) {
        for &host in nodes {
            self.send_batch(host.daemon(), &BatchMsg::TasksNo { batch });
        }
    }

    /// A spawn waits in line no more.
    pub(crate) fn leave_line(&mut self, id: SpawnId) {
        self.home.managers.waiting.retain(|&waiting| waiting != id);
    }

    /// A manager has no more to do with a spawn, and tells the nodes so.
    pub(crate) fn free_manager(&mut self, manager: Tid, id: SpawnId) {
        let batch = self.batch_id(id);
        let Some(placing) = self.home.spawns.get_mut(&id).map(|spawn| &mut spawn.placing) else { return };
        placing.is_open = false;
        let nodes = placing.nodes.clone();
        self.send_batch(manager, &BatchMsg::Done { batch });
        self.home.managers.done.entry(manager).or_default().push((batch, nodes));
        self.home.managers.idle.insert(manager);
        self.assign_manager(manager);
    }

    /// The manager that told nodes that tasks wait has died: they hear from this daemon that none do.
    pub(crate) fn close_nodes(&mut self, id: SpawnId) {
        let batch = self.batch_id(id);
        let Some(placing) = self.home.spawns.get_mut(&id).map(|spawn| &mut spawn.placing) else { return };
        if std::mem::take(&mut placing.is_open) {
            let nodes = placing.nodes.clone();
            self.tell_nodes_done(batch, &nodes);
        }
    }

    /// A manager has died: its batch goes on under another; what was granted stays granted.
    pub(crate) fn on_manager_gone(&mut self, manager: Tid) {
        let started = !self.home.managers.starting.remove(&manager);
        self.home.managers.idle.remove(&manager);
        for (done, nodes) in self.home.managers.done.remove(&manager).unwrap_or_default() {
            // The manager may have died before it told the nodes.
            if !self.home.has_manager(SpawnId(done.number)) {
                self.tell_nodes_done(done, &nodes);
            }
        }
        if let Some(id) = self.home.managed_by(manager) {
            info!(%manager, spawn = id.0, "task manager lost: the batch goes on under another");
            self.step(id, Event::ManagerGone);
            self.hand_out(id, 0);
        } else if !started {
            self.home.managers.deaths += 1;
            if self.home.managers.deaths >= MANAGER_TRIES {
                self.on_manager_unavailable("it ends before it has enrolled");
            } else if let Some(&id) = self.home.managers.waiting.front() {
                self.find_manager(id);
            }
        }
    }

    pub(crate) fn on_manager_not_started(&mut self, manager: Tid, reason: &str) {
        self.home.managers.starting.remove(&manager);
        self.on_manager_unavailable(reason);
    }

    /// No manager can be had: what waits for one has failed.
    fn on_manager_unavailable(&mut self, reason: &str) {
        error!(reason, "no task manager can be started: set PVM_TASK_MANAGER to its path");
        self.home.managers.deaths = 0;
        let told = format!("no task manager can be started (PVM_TASK_MANAGER): {reason}");
        for id in std::mem::take(&mut self.home.managers.waiting) {
            self.unplaceable(id, PvmError::DSysErr, &told);
        }
    }

    /// Newcomers may help with batches that are not confined to certain hosts.
    pub(crate) fn batches_host_added(&mut self, added: &[HostIndex]) {
        let me = self.config.index;
        for &host in added.iter().filter(|&&host| host != me) {
            let Some(node) = self.node(host) else { continue };
            let open = self.home.spawns.iter_mut().filter_map(|(&id, spawn)| {
                let manager = spawn.state().manager();
                let placing = Some(&mut spawn.placing).filter(|placing| placing.newcomers)?;
                placing.nodes.insert(host);
                Some((id, manager?))
            });
            for (id, manager) in open.collect::<Vec<_>>() {
                let batch = self.batch_id(id);
                self.send_batch(manager, &BatchMsg::NodeJoined { batch, node });
            }
        }
    }

    /// A host is out, as a node and as a home. What it had been granted comes back through its unanswered requests.
    pub(crate) fn batches_host_gone(&mut self, host: HostIndex) {
        self.node.batches.retain(|batch, _| batch.home != host);
        self.queues_host_gone(host);
        let told = self.home.spawns.iter_mut().filter_map(|(&id, spawn)| {
            let manager = spawn.state().manager();
            spawn.placing.nodes.remove(&host).then_some((id, manager?))
        });
        for (id, manager) in told.collect::<Vec<_>>() {
            let batch = self.batch_id(id);
            self.send_batch(manager, &BatchMsg::NodeGone { batch, host });
        }
    }
}
