//! Starting tasks: the spawner's side (where, how many, what came of it) and the side of the host that runs them.

use super::Core;
use super::event::{Action, Cookie, Program};
use super::flow::Source;
use super::pending::{PeerTo, Waiter};
use super::placing::Placing;
use super::queue::Queue;
use super::refusals::Refusals;
use super::services::ServiceTo;
use super::tasks::{ExecId, Origin, ReplyTo};
use super::teams;
use pvm_sched::placement::{Portion, proportional};
use pvm_wire::batch::{BatchId, Node};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::Sm;
use pvm_wire::coscheduling::TEAM_VARIABLE;
use pvm_wire::daemon::{PeerReply, PeerRequest};
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::protocol::{OutputEvent, encode_counted};
use pvm_wire::spawn::{Refusal, SpawnReply, SpawnRequest, entry, flags};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tracing::{debug, info};

/// Names a spawn within its home daemon; also the number of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpawnId(pub u64);

/// A spawn under way, in the spawner's daemon.
#[derive(Debug)]
pub(super) struct Spawn {
    /// Who waits for the tids; nobody if it is queued.
    to: Option<ReplyTo>,
    pub spawner: Tid,
    pub request: SpawnRequest,
    /// Per task its tid or an error code, once known.
    results: Vec<Option<i32>>,
    /// Tasks whose fate is not known.
    open: usize,
    /// Why some were not started.
    refusals: Refusals,
    /// If nodes pull its tasks.
    pub placing: Option<Placing>,
    /// If it returned at once.
    pub queue: Option<Queue>,
}

/// Tasks being started here for some spawn.
#[derive(Debug)]
pub(super) struct Exec {
    to: ExecTo,
    batch: Option<BatchId>,
    results: Vec<Option<i32>>,
    open: usize,
    refusals: Refusals,
    /// What the tasker is told, if there is one.
    pub handed: Option<Handed>,
    /// What waits until the tasks before it run.
    rest: Option<Box<Rest>>,
}

/// Tasks of an order beyond those that may be here at a time: the first may have ended when the last of those has been started.
#[derive(Debug)]
struct Rest {
    /// The number of the next, in the order.
    next: usize,
    /// The number in the spawn of the order's first.
    first: u32,
    parent: i32,
    spawn: SpawnRequest,
}

impl Spawn {
    fn new(to: Option<ReplyTo>, spawner: Tid, request: SpawnRequest, count: usize) -> Self {
        let (results, refusals) = (vec![None; count], Refusals::default());
        Self { to, spawner, request, results, open: count, refusals, placing: None, queue: None }
    }

    /// A spawn that has returned already.
    pub fn queued(spawner: Tid, request: SpawnRequest, queue: Queue) -> Self {
        Self { queue: Some(queue), ..Self::new(None, spawner, request, 0) }
    }

    /// Tasks that were started.
    pub fn started(&self) -> usize {
        self.results.iter().flatten().filter(|&&result| result > 0).count()
    }

    /// Tasks that could not be started.
    pub fn failed(&self) -> usize {
        self.results.iter().flatten().filter(|&&result| result <= 0).count()
    }

    /// In a line, for people.
    pub fn summary(&self) -> String {
        let (all, file) = (self.results.len(), self.request.file.display());
        let placing = self.placing.as_ref().map_or("pinned".to_owned(), Placing::summary);
        if let Some(queue) = &self.queue {
            return format!("by {} × {file}: {placing}, {}", self.spawner, queue.summary());
        }
        format!("by {} of {all} × {file}: {} open, {placing}", self.spawner, self.open)
    }
}

impl Exec {
    /// Processes whose fate is not known.
    pub fn under_way(&self) -> usize {
        self.open
    }
}

/// Who hears what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExecTo {
    /// The daemon that asked.
    Peer(PeerTo),
    /// The resource manager.
    Service(ServiceTo),
}

/// Tasks that a tasker is to start.
#[derive(Debug)]
pub(super) struct Handed {
    /// Number of the first in the spawn.
    pub first: u32,
    /// How many here.
    pub count: u32,
    /// What they are.
    pub spawn: SpawnRequest,
}

/// `where` of a spawn, split at its first colon: host or architecture, and directory.
fn split_place(place: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let mut parts = place.as_bytes().splitn(2, |&byte| byte == b':').map(OsStr::from_bytes);
    (parts.next().unwrap_or_default(), parts.next())
}

impl Core {
    /// TM_SPAWN.
    pub(super) fn on_spawn(&mut self, spawner: Tid, to: ReplyTo, request: SpawnRequest) {
        let count = match usize::try_from(request.count) {
            Ok(count @ 1..=BATCH_MAX) => count,
            Ok(0) | Err(_) => return self.reply_int(to, PvmError::BadParam.code()),
            Ok(_) => return self.reply_int(to, PvmError::OutOfRes.code()),
        };
        debug!(count, file = %request.file.display(), place = %request.place.display(), "spawns");
        let policy = match self.policy_of(&request.policy) {
            Ok(policy) => policy,
            Err(reason) => {
                return self.reply(to, BodyWriter::new().int(PvmError::NotFound.code()).str(reason).finish());
            }
        };
        let pinned = request.flags & (flags::HOST | flags::HOST_COMPLEMENT) == flags::HOST;
        let newcomers = request.flags & (flags::HOST | flags::ARCH) == 0;
        let id = SpawnId(self.next_id());
        let nowhere = no_host_for(&request);
        let hosts = self.begin_spawn(id, Spawn::new(Some(to), spawner, request, count));
        match hosts[..] {
            [] => self.refuse_items(id, (0, count as u32), None, PvmError::NoHost, &nowhere),
            [host] if pinned => self.exec_on(id, host, 0, count as u32, None),
            _ => self.place_batch(id, hosts, newcomers, count as u32, policy),
        }
    }

    /// Writes a spawn down; the hosts it may use.
    pub(super) fn begin_spawn(&mut self, id: SpawnId, mut spawn: Spawn) -> Vec<HostIndex> {
        let request = &mut spawn.request;
        let hosts = self.chosen_hosts(request);
        if let (_, Some(directory)) = split_place(&request.place) {
            let entry = entry("PVMSPAWNWD", directory);
            request.env.push(entry);
        }
        if teams::named_in(&request.env).is_none() {
            request.env.push(entry(TEAM_VARIABLE, self.team_name(spawn.spawner)));
        }
        self.spawns.insert(id, spawn);
        hosts
    }

    /// The hosts a spawn may use (reference, section 5.1).
    fn chosen_hosts(&self, request: &SpawnRequest) -> Vec<HostIndex> {
        let (place, _) = split_place(&request.place);
        let own = self.hosts.get(self.config.index).map(|entry| OsStr::new(&entry.name));
        let name = if place == "." { own.unwrap_or(place) } else { place };
        let complement = request.flags & flags::HOST_COMPLEMENT != 0;
        self.hosts
            .iter()
            .filter(|entry| {
                let chosen = match request.flags {
                    f if f & flags::HOST != 0 => name == &*entry.name,
                    f if f & flags::ARCH != 0 => place == &*entry.arch,
                    _ => true,
                };
                chosen != complement
            })
            .map(|entry| entry.index)
            .collect()
    }

    /// Has a host start some of a spawn's tasks.
    pub(super) fn exec_on(
        &mut self,
        id: SpawnId,
        host: HostIndex,
        first: u32,
        count: u32,
        batch: Option<BatchId>,
    ) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        let parent = parent_of(spawn);
        let what = PeerRequest::Exec { batch, count, first, parent, spawn: spawn.request.clone() };
        self.ask(host, what, Waiter::Exec { spawn: id, first, count });
    }

    /// A host has started (or failed to start) what it was told to.
    pub(super) fn on_started(
        &mut self,
        from: HostIndex,
        id: SpawnId,
        first: u32,
        count: u32,
        results: &[i32],
        refusals: Vec<Refusal>,
    ) {
        if let Some(spawn) = self.spawns.get_mut(&id) {
            spawn.refusals.hear(from, refusals);
        }
        let mut results: Vec<i32> = results.iter().copied().take(count as usize).collect();
        results.resize(count as usize, PvmError::DSysErr.code());
        debug!(spawn = id.0, host = %from, first, count, "tasks started");
        if self.spawns.get(&id).is_some_and(|spawn| spawn.queue.is_some()) {
            return self.queue_started(from, id, first, &results);
        }
        self.resolve_items(id, first, &results);
    }

    /// A host has died while it started tasks: tasks of a batch are placed again, pinned ones have failed.
    pub(super) fn on_exec_lost(&mut self, host: HostIndex, id: SpawnId, first: u32, count: u32) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        if spawn.queue.is_some() {
            return self.queue_given_back(id, first, count);
        }
        let Some(placing) = &mut spawn.placing else {
            let reason = "the host was lost while it started tasks";
            return self.refuse_items(id, (first, count), Some(host), PvmError::HostFail, reason);
        };
        info!(spawn = id.0, %host, count, "tasks of a lost host are placed again");
        placing.give_back(first, count);
        self.place_more(id, count);
    }

    /// A range of a spawn's tasks (first, count) is not started.
    pub(super) fn refuse_items(
        &mut self,
        id: SpawnId,
        (first, count): (u32, u32),
        host: Option<HostIndex>,
        error: PvmError,
        reason: &str,
    ) {
        if let Some(spawn) = self.spawns.get_mut(&id) {
            spawn.refusals.note(host, error, count, reason);
        }
        self.resolve_items(id, first, &vec![error.code(); count as usize]);
    }

    /// The fate of some tasks of a spawn is known.
    pub(super) fn resolve_items(&mut self, id: SpawnId, first: u32, results: &[i32]) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        for (slot, &result) in spawn.results.iter_mut().skip(first as usize).zip(results) {
            if slot.replace(result).is_none() {
                spawn.open -= 1;
            }
        }
        if spawn.open == 0 {
            self.finish_spawn(id);
        } else {
            self.place_beyond_limits(id);
        }
    }

    /// Once all others of a spawn are settled, those that no host's limit allows are divided all the same: they take the places
    /// of what has ended meanwhile. For what finds none the hosts say so.
    pub(super) fn place_beyond_limits(&mut self, id: SpawnId) {
        let (batch, nodes) = (self.batch_id(id), self.batch_nodes(id));
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let Some(placing) = spawn.placing.as_mut().filter(|placing| placing.beyond_limits) else { return };
        let waiting = placing.waiting();
        if waiting == 0 || spawn.open != waiting as usize {
            return;
        }
        let portion = |node: &Node| Portion { capability: node.capability, has: 0, limit: u64::MAX };
        let parts = proportional(waiting.into(), &nodes.iter().map(portion).collect::<Vec<_>>());
        let mut orders = Vec::new();
        for (node, n) in nodes.iter().zip(parts) {
            orders.extend(placing.take(node.host, n as u32).into_iter().map(|range| (node.host, range)));
        }
        for (host, (first, count)) in orders {
            self.exec_on(id, host, first, count, Some(batch));
        }
    }

    fn finish_spawn(&mut self, id: SpawnId) {
        let Some(spawn) = self.spawns.remove(&id) else { return };
        let parent = parent_of(&spawn);
        let mut results: Vec<i32> = spawn.results.into_iter().flatten().collect();
        // The good ones first, in their order.
        results.sort_by_key(|result| *result < 0);
        // All at the end: a sink that has seen the end of some tasks must not take them for all, and by now it has been told
        // of every start.
        for &tid in results.iter().filter(|tid| **tid > 0) {
            let event = OutputEvent::Spawned(spawn.spawner.raw());
            self.trace_spawned(spawn.request.trace, Tid::from_raw(tid), parent);
            self.send_output(Source::Daemon, spawn.request.output, Tid::from_raw(tid), event);
        }
        if let Some(to) = spawn.to {
            let refusals = spawn.refusals.into_list();
            self.reply(to, SpawnReply { results, refusals }.encode());
        }
        if let Some(placing) = spawn.placing {
            self.batch_done(id, &placing);
        }
    }

    /// Another daemon (or this one) has us start tasks.
    pub(super) fn on_exec(
        &mut self,
        to: ExecTo,
        batch: Option<BatchId>,
        count: u32,
        first: u32,
        parent: i32,
        mut spawn: SpawnRequest,
    ) {
        self.offer_to_tracer(&mut spawn);
        let count = (count as usize).min(BATCH_MAX);
        let id = ExecId(self.next_id());
        debug!(?to, ?batch, first, count, file = %spawn.file.display(), "asked to start tasks");
        let handed = self.services.tasker.is_some().then(|| Handed {
            first,
            count: count as u32,
            spawn: spawn.clone(),
        });
        let (results, refusals) = (vec![None; count], Refusals::default());
        self.execs.insert(id, Exec { to, batch, results, open: count, refusals, handed, rest: None });
        if count == 0 {
            return self.finish_exec(id);
        }
        self.start_some(id, Rest { next: 0, first, parent, spawn });
    }

    /// Starts as many tasks of an order as there is room for; if there is none, nothing waits.
    fn start_some(&mut self, id: ExecId, mut rest: Rest) {
        let Some((batch, count)) = self.execs.get(&id).map(|exec| (exec.batch, exec.results.len())) else {
            return;
        };
        let room = (self.config.task_limit as usize).saturating_sub(self.running());
        let end = count.min(rest.next.saturating_add(room));
        let cookies = self.announce_some(id, batch, &rest, end);
        let by_tasker = self.services.tasker.is_some();
        let waits = !by_tasker && !cookies.is_empty();
        let refused = if waits { count } else { rest.next + cookies.len() }..count;
        rest.next += cookies.len();
        if !cookies.is_empty() {
            let program = program(&rest.spawn);
            if by_tasker {
                self.actions.push(Action::Locate { cookies, program });
            } else {
                self.give_birth(cookies, program);
            }
        }
        if waits
            && rest.next < count
            && let Some(exec) = self.execs.get_mut(&id)
        {
            exec.rest = Some(Box::new(rest));
        }
        let limit = self.config.task_limit;
        for number in refused {
            let reason = format!("no room for another task: it may have {limit} (PVM_TASK_LIMIT)");
            self.exec_result(id, number, Err((PvmError::OutOfRes, reason)));
        }
    }

    /// Makes the records of an order's next tasks, up to a number.
    fn announce_some(&mut self, id: ExecId, batch: Option<BatchId>, rest: &Rest, end: usize) -> Vec<Cookie> {
        let spawn = &rest.spawn;
        let (by_tasker, queued) = (self.services.tasker.is_some(), spawn.flags & flags::QUEUED != 0);
        let team = self.team_of_child(&spawn.env, rest.parent);
        let mut cookies = Vec::new();
        for number in rest.next..end {
            let announced = self.announce(|task| {
                task.parent = rest.parent;
                task.origin = if by_tasker { Origin::Tasker } else { Origin::Child };
                task.output = spawn.output;
                task.trace = spawn.trace;
                task.spawn_flags = spawn.flags;
                task.name.clone_from(&spawn.file);
                task.exec = Some((id, number));
                task.item = batch.filter(|_| queued).map(|batch| (batch, rest.first + number as u32));
            });
            let Some((tid, cookie)) = announced else { break };
            if let Some(team) = &team {
                self.enlist(tid, team);
            }
            cookies.push(cookie);
        }
        cookies
    }

    /// The driver has started a process, or could not.
    pub(super) fn on_process_started(
        &mut self,
        cookie: Cookie,
        result: Result<(i32, String), (PvmError, String)>,
    ) {
        let Some(tid) = self.tasks.by_cookie(cookie) else {
            // Its record is gone already: what was started for it must not stay.
            if let Ok((pid, _)) = result {
                self.actions.push(Action::Signal { pid, signal: SIGKILL });
            }
            return;
        };
        let Some(task) = self.tasks.get_mut(tid) else { return };
        match result {
            Ok((pid, path)) => {
                if task.conn.is_some() && task.pid != pid {
                    // What has enrolled meanwhile is a child of what was started.
                    task.origin = Origin::Itself;
                } else {
                    task.pid = pid;
                }
                let exec = task.exec.take();
                debug!(%tid, pid, path, "task started");
                self.join_team(tid);
                self.trace_started(tid);
                self.observed_begin(tid);
                self.output_started(cookie);
                if let Some((exec, number)) = exec {
                    self.exec_result(exec, number, Ok(tid));
                }
            }
            Err((error, reason)) => {
                let (exec, manager) = (task.exec.take(), task.manager);
                info!(%tid, file = %task.name.display(), error = error.name(), reason, "task not started");
                self.outputs.remove(&cookie);
                if let Some(task) = self.tasks.remove(tid) {
                    self.teams.dismiss(task.team);
                }
                if manager {
                    self.on_manager_not_started(tid, &reason);
                }
                if let Some((exec, number)) = exec {
                    self.exec_result(exec, number, Err((error, reason)));
                }
            }
        }
    }

    pub(super) fn exec_result(&mut self, id: ExecId, number: usize, result: Result<Tid, (PvmError, String)>) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let result = match result {
            Ok(tid) => tid.raw(),
            Err((error, reason)) => {
                exec.refusals.note(Some(self.config.index), error, 1, &reason);
                error.code()
            }
        };
        if let Some(slot @ None) = exec.results.get_mut(number) {
            *slot = Some(result);
            exec.open -= 1;
        }
        let waiting = exec.rest.as_ref().map_or(0, |rest| exec.results.len() - rest.next);
        if exec.open == 0 {
            self.finish_exec(id);
        } else if exec.open == waiting
            && let Some(rest) = exec.rest.take()
        {
            self.start_some(id, *rest);
        }
    }

    fn finish_exec(&mut self, id: ExecId) {
        let Some(exec) = self.execs.remove(&id) else { return };
        let results: Vec<i32> = exec.results.into_iter().flatten().collect();
        match exec.to {
            ExecTo::Peer(to) => {
                let refusals = exec.refusals.into_list();
                self.answer(to, PeerReply::Started { results, refusals });
            }
            ExecTo::Service(to) => {
                let body = encode_counted(Ok((results.len() as i32, &results)));
                self.answer_service(to, Sm::ExecAck, body);
            }
        }
        if let Some(batch) = exec.batch {
            self.apply_again(batch);
        }
    }
}

pub(super) const SIGKILL: i32 = 9;

fn program(spawn: &SpawnRequest) -> Program {
    Program {
        directory: split_place(&spawn.place).1.map(OsStr::to_owned),
        debug: spawn.flags & flags::DEBUG != 0,
        file: spawn.file.clone(),
        args: spawn.args.clone(),
        env: spawn.env.clone(),
        manager: false,
    }
}

/// Why no host is left for a spawn.
fn no_host_for(request: &SpawnRequest) -> String {
    let place = split_place(&request.place).0.display();
    let (wanted, all_but) = (request.flags, request.flags & flags::HOST_COMPLEMENT != 0);
    match wanted {
        _ if all_but => format!("the virtual machine has no host besides {place}"),
        wanted if wanted & flags::HOST != 0 => format!("the virtual machine has no host {place}"),
        wanted if wanted & flags::ARCH != 0 => {
            format!("the virtual machine has no host of architecture {place}")
        }
        _ => "the virtual machine has no host that could run it".to_owned(),
    }
}

/// The parent as the tasks of a spawn see it.
pub(super) fn parent_of(spawn: &Spawn) -> i32 {
    let hidden = spawn.request.flags & flags::NO_SPAWN_PARENT != 0;
    if hidden { PvmError::ParentNotSet.code() } else { spawn.spawner.raw() }
}
