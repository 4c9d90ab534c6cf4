//! Batches that nodes pull (design D6; papers, section 1).
//!
//! As *home*, this daemon holds the truth about its spawners' batches and carries out what the batch's manager, a
//! process of its own, decides. As *node*, it asks managers for work: `N_a = P − P_c` tasks at a time.

use super::Core;
use super::Timer;
use super::event::{Action, Program};
use super::flow::Source;
use super::spawn::SpawnId;
use super::tasks::Origin;
use pvm_sched::pulling::{self, Step, Ticket};
use pvm_wire::batch::{BatchId, BatchMsg, Node, Terms};
use pvm_wire::codes::{BATCH_TAG, Sm};
use pvm_wire::{HostIndex, Message, PvmError, Tid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// Managers kept ready for the next batch.
const IDLE_MANAGERS: usize = 2;
/// Managers that may die in a row before a batch is given up.
const MANAGER_TRIES: u32 = 3;
/// Bounds of a node's random wait before it looks again whether it has room.
const RETRY_MS: std::ops::Range<u64> = 20..80;

/// A batch in placement, in its home daemon.
#[derive(Debug)]
pub(super) struct Placing {
    /// Nodes that may be given tasks.
    nodes: BTreeSet<HostIndex>,
    /// Whether hosts that join while it is placed may be given tasks too.
    newcomers: bool,
    /// Ranges (first, count) of tasks that no node has been given.
    unassigned: VecDeque<(u32, u32)>,
    /// The manager that hands it out, unless none is needed or available at the moment.
    manager: Option<Tid>,
}

impl Placing {
    /// Tasks that no node has been given: `T_c`.
    fn waiting(&self) -> u32 {
        self.unassigned.iter().map(|(_, count)| count).sum()
    }

    /// In a few words, for people.
    pub fn summary(&self) -> String {
        let manager = self.manager.map_or("no manager".to_owned(), |tid| format!("manager {tid}"));
        format!("{} not assigned, {} nodes, {manager}", self.waiting(), self.nodes.len())
    }

    /// Takes up to `n` tasks out of those that wait.
    fn take(&mut self, mut n: u32) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        while n > 0
            && let Some((first, count)) = self.unassigned.pop_front()
        {
            let part = count.min(n);
            taken.push((first, part));
            n -= part;
            if part < count {
                self.unassigned.push_front((first + part, count - part));
            }
        }
        taken
    }

    /// Tasks that were given to a host which is gone wait again.
    pub fn give_back(&mut self, first: u32, count: u32) {
        self.unassigned.push_back((first, count));
    }
}

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
}

/// As home.
impl Core {
    fn batch_id(&self, id: SpawnId) -> BatchId {
        BatchId { home: self.config.index, number: id.0 }
    }

    /// Has nodes pull the tasks of a spawn.
    pub(super) fn place_batch(&mut self, id: SpawnId, nodes: Vec<HostIndex>, newcomers: bool, count: u32) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        spawn.placing = Some(Placing {
            nodes: nodes.into_iter().collect(),
            newcomers,
            unassigned: VecDeque::from([(0, count)]),
            manager: None,
        });
        self.find_manager(id);
    }

    /// Tasks of a batch wait again.
    pub(super) fn place_more(&mut self, id: SpawnId, count: u32) {
        let manager = self.spawns.get(&id).and_then(|spawn| spawn.placing.as_ref()?.manager);
        match manager {
            Some(manager) => {
                let batch = self.batch_id(id);
                self.send_batch(manager, &BatchMsg::More { batch, count: count.into() });
            }
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
            None if self.managers.starting.len() < self.managers.waiting.len() => self.start_manager(),
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
        self.managers.starting.insert(tid);
        let program = Program { manager: true, ..Program::default() };
        self.actions.push(Action::Start { cookies: vec![cookie], program });
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
        while let Some(id) = self.managers.waiting.pop_front() {
            let batch = self.batch_id(id);
            let nodes = self.batch_nodes(id);
            let Some(placing) = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut()) else {
                continue;
            };
            let count = placing.waiting().into();
            if count == 0 {
                continue;
            }
            placing.manager = Some(manager);
            self.managers.ready.insert(manager, Some(id));
            return self.send_batch(manager, &BatchMsg::Place { batch, count, nodes, soft: true });
        }
        let idle = self.managers.ready.values().filter(|batch| batch.is_none()).count();
        if idle > IDLE_MANAGERS
            && let Some(task) = self.tasks.get(manager)
        {
            self.actions.push(Action::Signal { pid: task.pid, signal: SIGTERM });
        }
    }

    fn batch_nodes(&self, id: SpawnId) -> Vec<Node> {
        let Some(placing) = self.spawns.get(&id).and_then(|spawn| spawn.placing.as_ref()) else {
            return Vec::new();
        };
        placing.nodes.iter().filter_map(|&host| self.node(host)).collect()
    }

    fn node(&self, host: HostIndex) -> Option<Node> {
        let entry = self.hosts.get(host)?;
        Some(Node { host, capability: entry.capability, limit: self.config.task_limit })
    }

    /// The manager has decided: this node gets so many.
    fn on_grant(&mut self, manager: Tid, batch: BatchId, host: HostIndex, n: u64, terms: Option<Terms>) {
        let id = SpawnId(batch.number);
        let reachable = self.is_reachable(host);
        let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
        let Some(placing) = placing.filter(|placing| placing.manager == Some(manager)) else {
            return warn!(%manager, ?batch, "a manager hands out what is not its to hand out: ignored");
        };
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        if !reachable || !placing.nodes.contains(&host) {
            // It has not heard yet that the host is gone.
            return self.send_batch(manager, &BatchMsg::More { batch, count: n.into() });
        }
        let ranges = placing.take(n);
        debug!(spawn = id.0, %host, n, ?terms, "granted");
        for (first, count) in ranges {
            self.exec_on(id, host, first, count, Some(batch));
        }
    }

    /// No node is left that could take the rest.
    fn on_no_nodes(&mut self, manager: Tid, batch: BatchId) {
        let id = SpawnId(batch.number);
        let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
        if let Some(placing) = placing.filter(|placing| placing.manager == Some(manager)) {
            let rest = std::mem::take(&mut placing.unassigned);
            self.fail_items(id, rest, PvmError::NoHost);
        }
    }

    fn fail_items(&mut self, id: SpawnId, ranges: VecDeque<(u32, u32)>, error: PvmError) {
        for (first, count) in ranges {
            self.resolve_items(id, first, &vec![error.code(); count as usize]);
        }
    }

    /// Every task of a batch is started or has failed.
    pub(super) fn batch_done(&mut self, id: SpawnId, placing: &Placing) {
        let batch = self.batch_id(id);
        self.managers.waiting.retain(|&waiting| waiting != id);
        match placing.manager {
            Some(manager) => {
                self.send_batch(manager, &BatchMsg::Done { batch });
                self.managers.done.insert(manager, (batch, placing.nodes.clone()));
                self.managers.ready.insert(manager, None);
                self.assign_manager(manager);
            }
            // Its manager has died: the nodes must hear it from us.
            None => self.tell_nodes_done(batch, &placing.nodes),
        }
    }

    fn tell_nodes_done(&mut self, batch: BatchId, nodes: &BTreeSet<HostIndex>) {
        for &host in nodes {
            self.send_batch(host.daemon(), &BatchMsg::TasksNo { batch });
        }
    }

    /// A manager has died: its batch goes on under another; what was granted stays granted.
    pub(super) fn on_manager_gone(&mut self, manager: Tid) {
        let started = !self.managers.starting.remove(&manager);
        let batch = self.managers.ready.remove(&manager).flatten();
        if let Some((done, nodes)) = self.managers.done.remove(&manager) {
            // Who knows whether it still told them.
            self.tell_nodes_done(done, &nodes);
        }
        if let Some(id) = batch {
            info!(%manager, spawn = id.0, "task manager lost: the batch goes on under another");
            let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
            if let Some(placing) = placing {
                placing.manager = None;
                if placing.waiting() > 0 {
                    self.find_manager(id);
                }
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
        for id in std::mem::take(&mut self.managers.waiting) {
            let placing = self.spawns.get_mut(&id).and_then(|spawn| spawn.placing.as_mut());
            if let Some(placing) = placing {
                let rest = std::mem::take(&mut placing.unassigned);
                self.fail_items(id, rest, PvmError::DSysErr);
            }
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
        let running = self.running() as f64;
        let cores = f64::from(self.config.cores.max(1));
        // Each program may account for one busy core; what is busy beyond that is not ours. A core filled by others leaves
        // no room for its share of P.
        let outside = (self.busy_cores - running).max(0.0) * f64::from(self.config.task_target) / cores;
        (running + outside.round()) as u64
    }

    /// How busy the cores of this host are, whoever keeps them busy.
    pub(super) fn on_load(&mut self, busy_cores: f64) {
        self.busy_cores = if busy_cores.is_finite() { busy_cores } else { 0.0 };
        self.on_room();
    }

    /// Lets the node look at its load, and tells the manager what it wants.
    fn look(&mut self, batch: BatchId, look: impl FnOnce(&mut pulling::Node, u64, u64, Duration) -> Step) {
        let (p, p_c) = (self.config.task_target.into(), self.load());
        let wait = Duration::from_millis(self.random(RETRY_MS));
        let Some(open) = self.open_batches.get_mut(&batch) else { return };
        let manager = open.manager;
        let n_a = match look(&mut open.node, p, p_c, wait) {
            Step::Apply { n_a } => n_a,
            Step::Decline { n_a, wait, ticket } => {
                self.set_timer(wait, Timer::Retry(batch, ticket));
                n_a
            }
            Step::Stay => return,
        };
        let (host, capability) = (self.config.index, self.config.capability);
        self.send_batch(manager, &BatchMsg::Apply { batch, host, n_a, capability });
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
            Ok(BatchMsg::TasksHave { batch }) if src.host() == Some(batch.home) => {
                let open = self.open_batches.entry(batch);
                open.or_insert_with(|| OpenBatch { manager: src, node: pulling::Node::new() }).manager = src;
                self.look(batch, pulling::Node::tasks_have);
            }
            Ok(BatchMsg::TasksNo { batch }) if src.host() == Some(batch.home) => {
                self.open_batches.remove(&batch);
            }
            Ok(BatchMsg::Grant { batch, host, n, terms }) => self.on_grant(src, batch, host, n, terms),
            Ok(BatchMsg::NoNodes { batch }) => self.on_no_nodes(src, batch),
            Ok(other) => warn!(%src, ?other, "batch message out of place: ignored"),
            Err(error) => warn!(%src, %error, "batch message that cannot be read: ignored"),
        }
    }
}

pub(super) const SIGTERM: i32 = 15;
