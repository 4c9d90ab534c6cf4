//! Batches that nodes pull (design D6; papers, section 1).
//!
//! As *home*, this daemon holds the truth about its spawners' batches and carries out what the batch's manager, a
//! process of its own, decides. As *node*, it asks managers for work: `N_a = P − P_c` tasks at a time.

use super::Core;
use super::Timer;
use super::event::{Action, Program};
use super::flow::Source;
use super::placing::Placing;
use super::spawn::SpawnId;
use super::tasks::Origin;
use pvm_sched::policy::Policy;
use pvm_sched::pulling::{self, Step, Ticket};
use pvm_wire::batch::{Application, BatchId, BatchMsg, Node, Terms};
use pvm_wire::codes::{BATCH_TAG, Sm};
use pvm_wire::{HostIndex, Message, PvmError, Tid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// Managers kept ready for the next batch.
const IDLE_MANAGERS: usize = 2;
/// Queued batches handed out at the same time; younger ones wait.
const QUEUED_AT_ONCE: usize = 8;
/// Managers that may die in a row before a batch is given up.
const MANAGER_TRIES: u32 = 3;
/// Bounds of a node's random wait before it looks again whether it has room.
const RETRY_MS: std::ops::Range<u64> = 20..80;

/// The managers of a home daemon and the batches that wait for one.
#[derive(Debug, Default)]
pub(super) struct Managers {
    /// Enrolled ones, and what each hands out.
    ready: BTreeMap<Tid, Option<SpawnId>>,
    /// Processes started that have not enrolled yet.
    starting: BTreeSet<Tid>,
    waiting: VecDeque<SpawnId>,
    /// The batch each was last told to be done with, and the nodes it may not have told that.
    done: BTreeMap<Tid, (BatchId, BTreeSet<HostIndex>)>,
    deaths: u32,
}

impl Managers {
    /// Enrolled ones and those on their way.
    pub fn counts(&self) -> (usize, usize) {
        (self.ready.len(), self.starting.len())
    }

    /// Batches that wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// A batch that this node may ask for work.
#[derive(Debug)]
pub(super) struct OpenBatch {
    manager: Tid,
    node: pulling::Node,
    /// Its tasks wait for slots.
    queued: bool,
}

/// As home.
impl Core {
    pub(super) fn batch_id(&self, id: SpawnId) -> BatchId {
        BatchId { home: self.config.index, number: id.0 }
    }

    /// Has nodes pull the tasks of a spawn.
    pub(super) fn place_batch(
        &mut self,
        id: SpawnId,
        nodes: Vec<HostIndex>,
        newcomers: bool,
        count: u32,
        policy: Policy,
    ) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        spawn.placing = Some(Placing::new(nodes, newcomers, count, policy));
        self.hand_out(id);
    }

    /// Tasks of a batch wait again.
    pub(super) fn place_more(&mut self, id: SpawnId, count: u32) {
        let manager = self.spawns.get(&id).and_then(|spawn| spawn.placing.as_ref()?.manager);
        match manager {
            Some(manager) => {
                let batch = self.batch_id(id);
                self.send_batch(manager, &BatchMsg::More { batch, count: count.into() });
            }
            None => self.hand_out(id),
        }
    }

    /// Has what waits of a batch handed out, unless its parent has to hear of others first.
    pub(super) fn hand_out(&mut self, id: SpawnId) {
        let placing = self.spawns.get(&id).and_then(|spawn| spawn.placing.as_ref());
        let Some(placing) = placing.filter(|placing| placing.waiting() > 0) else { return };
        match placing.hopeless {
            _ if self.is_held(id) => {}
            Some(error) => self.queue_unplaced(id, error),
            None => self.find_manager(id),
        }
    }

    /// Gives a batch to an idle manager, or starts one.
    fn find_manager(&mut self, id: SpawnId) {
        if !self.managers.waiting.contains(&id) {
            self.managers.waiting.push_back(id);
        }
        let idle = self.managers.ready.iter().find(|(_, batch)| batch.is_none()).map(|(&tid, _)| tid);
        match idle {
            Some(manager) => self.assign_manager(manager),
            None if self.managers.starting.len() < self.servable() => self.start_manager(),
            None => {}
        }
    }

    fn is_queued(&self, id: SpawnId) -> bool {
        self.spawns.get(&id).is_some_and(|spawn| spawn.queue.is_some())
    }

    /// Queued batches that may have a manager beyond those that have one.
    fn queued_servable(&self) -> usize {
        let served = self.managers.ready.values().flatten().filter(|&&id| self.is_queued(id)).count();
        QUEUED_AT_ONCE.saturating_sub(served)
    }

    /// Batches that wait for a manager and may have one now.
    fn servable(&self) -> usize {
        let queued = self.managers.waiting.iter().filter(|&&id| self.is_queued(id)).count();
        self.managers.waiting.len() - queued + queued.min(self.queued_servable())
    }

    /// The next batch for an idle manager: the oldest that may have one.
    fn next_batch(&mut self) -> Option<SpawnId> {
        let room = self.queued_servable() > 0;
        let next = self.managers.waiting.iter().position(|&id| room || !self.is_queued(id))?;
        self.managers.waiting.remove(next)
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
        self.managers.starting.insert(tid);
        let program = Program { manager: true, ..Program::default() };
        self.give_birth(vec![cookie], program);
    }

    /// A manager has enrolled.
    pub(super) fn on_manager_ready(&mut self, manager: Tid) {
        self.managers.starting.remove(&manager);
        self.managers.deaths = 0;
        self.managers.ready.insert(manager, None);
        self.assign_manager(manager);
    }

    /// Gives an idle manager the next batch that waits, or lets it go if there are idle ones enough.
    fn assign_manager(&mut self, manager: Tid) {
        while let Some(id) = self.next_batch() {
            let batch = self.batch_id(id);
            let (nodes, soft, last) = (self.batch_nodes(id), !self.is_queued(id), self.last_given);
            let Some(placing) = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut()) else {
                continue;
            };
            let count = placing.waiting().into();
            if count == 0 {
                continue;
            }
            placing.manager = Some(manager);
            self.managers.ready.insert(manager, Some(id));
            let policy = placing.policy.name().to_owned();
            let own = self.own_application(manager, batch, !soft, &nodes);
            return self
                .send_batch(manager, &BatchMsg::Place { batch, count, nodes, soft, policy, last, own });
        }
        let idle = self.managers.ready.values().filter(|batch| batch.is_none()).count();
        if idle > IDLE_MANAGERS
            && let Some(task) = self.tasks.get(manager)
        {
            self.actions.push(Action::Signal { pid: task.pid, signal: SIGTERM });
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

    pub(super) fn batch_nodes(&self, id: SpawnId) -> Vec<Node> {
        let Some(placing) = self.spawns.get(&id).and_then(|spawn| spawn.placing.as_ref()) else {
            return Vec::new();
        };
        placing.nodes.iter().filter_map(|&host| self.node(host)).collect()
    }

    fn node(&self, host: HostIndex) -> Option<Node> {
        let entry = self.hosts.get(host)?;
        Some(Node { host, capability: entry.capability, limit: entry.task_limit })
    }

    /// The manager has decided: this node gets so many.
    fn on_grant(&mut self, manager: Tid, batch: BatchId, host: HostIndex, n: u64, terms: Option<Terms>) {
        let id = SpawnId(batch.number);
        let reachable = self.is_reachable(host);
        let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
        let Some(placing) = placing.filter(|placing| placing.manager == Some(manager)) else {
            // The batch has been cancelled, or ended otherwise, or never was this manager's.
            return debug!(%manager, ?batch, "a manager hands out what is not its to hand out: ignored");
        };
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        if !reachable || !placing.nodes.contains(&host) {
            // It has not heard yet that the host is gone.
            return self.send_batch(manager, &BatchMsg::More { batch, count: n.into() });
        }
        let ranges = placing.take(host, n);
        placing.count_grant(host, ranges.iter().map(|(_, count)| count).sum(), terms);
        if placing.policy != Policy::ActivePulling {
            self.last_given = host;
        }
        debug!(spawn = id.0, %host, n, ?terms, "granted");
        for (first, count) in ranges {
            self.exec_on(id, host, first, count, Some(batch));
        }
    }

    /// No node is left that could take the rest, or all have as much as they may.
    fn on_no_nodes(&mut self, manager: Tid, batch: BatchId) {
        let id = SpawnId(batch.number);
        let queued = self.is_queued(id);
        let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
        let Some(placing) = placing.filter(|placing| placing.manager == Some(manager)) else { return };
        if queued || placing.nodes.is_empty() {
            return self.fail_items(id, PvmError::NoHost, "no host is left that could run it");
        }
        placing.beyond_limits = true;
        self.place_beyond_limits(id);
    }

    /// What waits of a batch has failed.
    fn fail_items(&mut self, id: SpawnId, error: PvmError, reason: &str) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let (queued, Some(placing)) = (spawn.queue.is_some(), &mut spawn.placing) else { return };
        if queued {
            placing.hopeless = Some(error);
            self.release_manager(id);
            return self.queue_unplaced(id, error);
        }
        for range in placing.take_all() {
            self.refuse_items(id, range, None, error, reason);
        }
    }

    /// Every task of a batch is started or has failed.
    pub(super) fn batch_done(&mut self, id: SpawnId, placing: &Placing) {
        let batch = self.batch_id(id);
        self.managers.waiting.retain(|&waiting| waiting != id);
        match placing.manager {
            Some(manager) => self.free_manager(manager, batch, placing.nodes.clone()),
            // Its manager has died: the nodes must hear it from us.
            None => self.tell_nodes_done(batch, &placing.nodes),
        }
    }

    fn tell_nodes_done(&mut self, batch: BatchId, nodes: &BTreeSet<HostIndex>) {
        for &host in nodes {
            self.send_batch(host.daemon(), &BatchMsg::TasksNo { batch });
        }
    }

    fn has_manager(&self, id: SpawnId) -> bool {
        self.spawns.get(&id).and_then(|spawn| spawn.placing.as_ref()?.manager).is_some()
    }

    /// A queued batch has nothing to hand out for now.
    pub(super) fn release_manager(&mut self, id: SpawnId) {
        let batch = self.batch_id(id);
        self.managers.waiting.retain(|&waiting| waiting != id);
        let Some(placing) = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut()) else { return };
        if let Some(manager) = placing.manager.take() {
            let nodes = placing.nodes.clone();
            self.free_manager(manager, batch, nodes);
        }
    }

    fn free_manager(&mut self, manager: Tid, batch: BatchId, nodes: BTreeSet<HostIndex>) {
        self.send_batch(manager, &BatchMsg::Done { batch });
        self.managers.done.insert(manager, (batch, nodes));
        self.managers.ready.insert(manager, None);
        self.assign_manager(manager);
    }

    /// A manager has died: its batch goes on under another; what was granted stays granted.
    pub(super) fn on_manager_gone(&mut self, manager: Tid) {
        let started = !self.managers.starting.remove(&manager);
        let batch = self.managers.ready.remove(&manager).flatten();
        if let Some((done, nodes)) = self.managers.done.remove(&manager)
            && !self.has_manager(SpawnId(done.number))
        {
            // Who knows whether it still told them.
            self.tell_nodes_done(done, &nodes);
        }
        if let Some(id) = batch {
            info!(%manager, spawn = id.0, "task manager lost: the batch goes on under another");
            let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
            if let Some(placing) = placing {
                placing.manager = None;
                self.hand_out(id);
            }
        } else if !started {
            self.managers.deaths += 1;
            if self.managers.deaths >= MANAGER_TRIES {
                self.on_manager_unavailable("it ends before it has enrolled");
            } else if let Some(&id) = self.managers.waiting.front() {
                self.find_manager(id);
            }
        }
    }

    pub(super) fn on_manager_not_started(&mut self, manager: Tid, reason: &str) {
        self.managers.starting.remove(&manager);
        self.on_manager_unavailable(reason);
    }

    /// No manager can be had: what waits for one has failed.
    fn on_manager_unavailable(&mut self, reason: &str) {
        error!(reason, "no task manager can be started: set PVM_TASK_MANAGER to its path");
        self.managers.deaths = 0;
        let told = format!("no task manager can be started (PVM_TASK_MANAGER): {reason}");
        for id in std::mem::take(&mut self.managers.waiting) {
            self.fail_items(id, PvmError::DSysErr, &told);
        }
    }

    /// Newcomers may help with batches that are not confined to certain hosts.
    pub(super) fn batches_host_added(&mut self, added: &[HostIndex]) {
        let me = self.config.index;
        for &host in added.iter().filter(|&&host| host != me) {
            let Some(node) = self.node(host) else { continue };
            let open = self.spawns.iter_mut().filter_map(|(&id, spawn)| {
                let placing = spawn.placing.as_mut().filter(|placing| placing.newcomers)?;
                placing.nodes.insert(host);
                Some((id, placing.manager?))
            });
            for (id, manager) in open.collect::<Vec<_>>() {
                let batch = self.batch_id(id);
                self.send_batch(manager, &BatchMsg::NodeJoined { batch, node });
            }
        }
    }

    /// A host is out, as a node and as a home. What it had been granted comes back through its unanswered requests.
    pub(super) fn batches_host_gone(&mut self, host: HostIndex) {
        self.open_batches.retain(|batch, _| batch.home != host);
        self.queues_host_gone(host);
        let told = self.spawns.iter_mut().filter_map(|(&id, spawn)| {
            let placing = spawn.placing.as_mut()?;
            placing.nodes.remove(&host).then_some((id, placing.manager?))
        });
        for (id, manager) in told.collect::<Vec<_>>() {
            let batch = self.batch_id(id);
            self.send_batch(manager, &BatchMsg::NodeGone { batch, host });
        }
    }
}

/// As node.
impl Core {
    /// `P_c`: programs running here or about to.
    pub(super) fn running(&self) -> usize {
        self.tasks.len() - self.managers.ready.len() - self.managers.starting.len()
    }

    /// `P_c`: programs running here or about to, and the load from outside in the same measure.
    fn load(&self) -> u64 {
        // A core filled by others leaves no room for its share of P.
        let outside = self.outside() * f64::from(self.config.task_target);
        self.running() as u64 + outside.round() as u64
    }

    /// `P` and `P_c`, as they count for a batch.
    fn filled(&self, batch: BatchId) -> (u64, u64) {
        if !self.open_batches.get(&batch).is_some_and(|open| open.queued) {
            return (self.config.task_target.into(), self.load());
        }
        let p = u64::from(self.config.slots);
        let others = self.open_batches.iter().filter(|&(&id, open)| open.queued && id != batch);
        let promised: u64 = others.map(|(_, open)| open.node.promised()).sum();
        // However busy others keep the host, one task at a time gets its turn: a queue never stands still for good.
        let outside = (self.outside() * p as f64).round() as u64;
        (p, self.queued_here() + promised + outside.min(p.saturating_sub(1)))
    }

    /// The part of the cores that others than tasks keep busy.
    fn outside(&self) -> f64 {
        // Each program may account for one busy core; what is busy beyond that is not ours.
        let busy = (self.busy_cores - self.most_running as f64).max(0.0);
        busy / f64::from(self.config.cores.max(1))
    }

    /// How busy the cores of this host are, whoever keeps them busy.
    pub(super) fn on_load(&mut self, busy_cores: f64) {
        self.busy_cores = if busy_cores.is_finite() { busy_cores } else { 0.0 };
        let running = self.running();
        self.most_running = std::mem::replace(&mut self.peak_running, running).max(running);
        self.on_room();
    }

    /// Tasks of a batch wait, says this manager.
    fn open_batch(&mut self, manager: Tid, batch: BatchId, queued: bool) {
        let fresh = || OpenBatch { manager, node: pulling::Node::new(), queued };
        self.open_batches.entry(batch).or_insert_with(fresh).manager = manager;
    }

    /// Lets the node look at its load, and tells the manager what it wants.
    fn look(&mut self, batch: BatchId, look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step) {
        let Some(Application { p, p_c, n_a }) = self.asks(batch, look) else { return };
        let Some(manager) = self.open_batches.get(&batch).map(|open| open.manager) else { return };
        let host = self.config.index;
        // Before the table has come there are no batches of others.
        let capability = self.hosts.get(host).map_or(self.config.capability, |entry| entry.capability);
        self.send_batch(manager, &BatchMsg::Apply { batch, host, p, p_c, n_a, capability });
    }

    /// What the node asks for when it has looked at its load, if anything.
    fn asks(
        &mut self,
        batch: BatchId,
        look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step,
    ) -> Option<Application> {
        let (p, p_c) = self.filled(batch);
        let wait = Duration::from_millis(self.random(RETRY_MS));
        let open = self.open_batches.get_mut(&batch)?;
        let n_a = match look(&mut open.node, p, p_c, wait) {
            Step::Apply { n_a } => n_a,
            Step::Decline { n_a, wait, ticket } => {
                self.set_timer(wait, Timer::Retry(batch, ticket));
                n_a
            }
            Step::Stay => return None,
        };
        Some(Application { p, p_c, n_a })
    }

    /// The tasks that were asked for run: there may be room for more.
    pub(super) fn apply_again(&mut self, batch: BatchId) {
        self.look(batch, pulling::Node::tasks_given);
    }

    /// The random wait is over.
    pub(super) fn on_retry(&mut self, batch: BatchId, ticket: Ticket) {
        self.look(batch, |node, p, p_c, wait| node.retry(ticket, p, p_c, wait));
    }

    /// There may be room again: a task has ended here, or others leave more to us.
    pub(super) fn on_room(&mut self) {
        for batch in self.open_batches.keys().copied().collect::<Vec<_>>() {
            self.look(batch, |node, p, p_c, _| node.room(p, p_c));
        }
    }
}

/// Between the two.
impl Core {
    fn send_batch(&mut self, to: Tid, message: &BatchMsg) {
        match message.encode() {
            Ok(body) if to == self.config.index.daemon() => {
                let message = Message { src: to, dst: to, body: body.into(), ..Message::default() };
                self.on_batch_message(&message);
            }
            Ok(body) => self.send_message(Source::Daemon, to, 0, BATCH_TAG, body),
            Err(error) => error!(%error, "batch message lost"),
        }
    }

    /// A message to this daemon that is not a task's request.
    pub(super) fn on_system_message(&mut self, message: &Message) {
        if message.header.tag == BATCH_TAG {
            self.on_batch_message(message);
        } else if let Some(what) = Sm::from_tag(message.header.tag) {
            self.on_service_message(what, message);
        } else {
            debug!(src = %message.src, tag = message.header.tag, "message to this daemon dropped");
        }
    }

    fn on_batch_message(&mut self, message: &Message) {
        let src = message.src;
        match BatchMsg::decode(&message.body) {
            // Only the home host's manager (or daemon) speaks for a batch.
            Ok(BatchMsg::TasksHave { batch, queued }) if src.host() == Some(batch.home) => {
                self.open_batch(src, batch, queued);
                self.look(batch, pulling::Node::tasks_have);
            }
            Ok(BatchMsg::TasksNo { batch }) if src.host() == Some(batch.home) => {
                // One that has been relieved may be late.
                let from = |open: &OpenBatch| open.manager == src || src.is_daemon();
                if self.open_batches.get(&batch).is_some_and(from) {
                    self.open_batches.remove(&batch);
                }
            }
            Ok(BatchMsg::Grant { batch, host, n, terms }) => self.on_grant(src, batch, host, n, terms),
            Ok(BatchMsg::NoNodes { batch }) => self.on_no_nodes(src, batch),
            Ok(other) => warn!(%src, ?other, "batch message out of place: ignored"),
            Err(error) => warn!(%src, %error, "batch message that cannot be read: ignored"),
        }
    }
}

pub(super) const SIGTERM: i32 = 15;
