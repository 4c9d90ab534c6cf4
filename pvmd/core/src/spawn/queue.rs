//! Queued batches: spawns that return at once, whose tasks start as nodes have room for them.
//!
//! A queued batch is a [`Spawn`] that nodes pull as any other; its tasks are followed to their ends, since those make room, may
//! have to be made good by another start, and are told to the parent.

use super::SIGTERM;
use super::home::Home;
use super::progress::{Kind, Spawn};
use super::request::{complete_environment, demand};
use super::state::{Event, State};
use crate::addresses::{PeerTo, ReplyTo, SpawnId};
use crate::decision::Decision;
use crate::effect::Effect;
use pvm_wire::batch::BatchId;
use pvm_wire::daemon::PeerReply;
use pvm_wire::queue::{BatchEvent, BatchRecord, QueueRequest};
use pvm_wire::spawn::flags;
use pvm_wire::tid::LOCAL_MAX;
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::{BTreeMap, VecDeque};
use tracing::{debug, info};

/// Batches that have ended and are still listed.
const REMEMBERED: usize = 16;

/// What makes a spawn a queued batch.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its id, as programs see it.
    pub id: i32,
    /// Context and tag of the parent's notices.
    pub notices: Option<(i32, i32)>,
    /// Starts that a task may have beyond the first.
    pub restarts: u32,
    /// Starts beyond the first so far, of those tasks that had any.
    pub tries: BTreeMap<u32, u32>,
    pub running: BTreeMap<u32, Tid>,
    /// Ends of tasks whose start is not known here yet.
    pub early: BTreeMap<u32, (Tid, Fate)>,
    pub total: u32,
    pub count: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub done: u32,
    pub failed: u32,
    pub cancelled: u32,
    pub restarts: u32,
}

/// How a task of a queued batch came to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// What `wait` said.
    Ended(i32),
    /// It could not be started, or its host was lost: an error code.
    Lost(i32),
    /// It has left the host to its owner: what `wait` said.
    Left(i32),
}

impl Fate {
    /// Of a task whose process has ended.
    pub fn of(status: i32, leaves: bool) -> Self {
        if leaves { Self::Left(status) } else { Self::Ended(status) }
    }
}

/// The queued batches of a home, by the ids that programs see, and those that have ended last.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub ids: BTreeMap<i32, SpawnId>,
    pub next: u32,
    ended: VecDeque<(SpawnId, BatchRecord)>,
}

impl Queues {
    /// An id that no other batch of the whole machine has.
    fn free_id(&mut self, home: HostIndex) -> Option<i32> {
        (0..LOCAL_MAX).find_map(|_| {
            self.next = self.next % LOCAL_MAX + 1;
            let id = home.task(self.next).raw();
            (!self.ids.contains_key(&id)).then_some(id)
        })
    }

    /// Keeps a batch that has ended in the list for a while.
    fn remember(&mut self, id: SpawnId, record: BatchRecord) {
        if self.ended.len() >= REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, record));
    }

    /// Those that have ended last.
    pub fn ended(&self) -> impl Iterator<Item = &BatchRecord> {
        self.ended.iter().map(|(_, record)| record)
    }

    /// One of those.
    pub fn ended_mut(&mut self, id: SpawnId) -> Option<&mut BatchRecord> {
        self.ended.iter_mut().find(|(ended, _)| *ended == id).map(|(_, record)| record)
    }
}

impl Queue {
    pub fn new(id: i32, request: &QueueRequest, total: u32) -> Self {
        Self {
            id,
            notices: (request.tag >= 0).then_some((request.context, request.tag)),
            restarts: u32::try_from(request.restarts).unwrap_or(0),
            tries: BTreeMap::new(),
            running: BTreeMap::new(),
            early: BTreeMap::new(),
            total,
            count: Counts::default(),
        }
    }

    pub fn over(&self) -> u32 {
        self.count.done + self.count.failed + self.count.cancelled
    }

    /// In a few words, for people.
    pub fn summary(&self) -> String {
        let Counts { done, failed, cancelled, .. } = self.count;
        let running = self.running.len();
        format!(
            "queued as {:x}: {running} running, {done} done, {failed} failed, {cancelled} cancelled",
            self.id
        )
    }

    /// Takes note of how a task came to its end; what its parent is told, and whether it waits again.
    pub fn conclude(&mut self, number: u32, tid: Tid, fate: Fate, is_cancelled: bool) -> (BatchEvent, bool) {
        let (Fate::Ended(status) | Fate::Lost(status) | Fate::Left(status)) = fate;
        let well = matches!(fate, Fate::Ended(0) | Fate::Left(0));
        if !well && !is_cancelled && self.may_try_again(number, fate) {
            return (BatchEvent::Again { number, tid, status }, true);
        }
        self.tries.remove(&number);
        match well {
            true => self.count.done += 1,
            false if is_cancelled => self.count.cancelled += 1,
            false => self.count.failed += 1,
        }
        let event = match fate {
            Fate::Ended(status) | Fate::Left(status) => BatchEvent::Ended { number, tid, status },
            Fate::Lost(code) => BatchEvent::Failed { number, tid, code },
        };
        (event, false)
    }

    /// What has left its host to the owner has not failed.
    fn may_try_again(&mut self, number: u32, fate: Fate) -> bool {
        if matches!(fate, Fate::Left(_)) {
            self.count.restarts += 1;
            return true;
        }
        if self.tries.get(&number).copied().unwrap_or(0) >= self.restarts {
            return false;
        }
        *self.tries.entry(number).or_default() += 1;
        self.count.restarts += 1;
        true
    }
}

impl Home {
    /// A task of this team asks for a queued batch.
    pub fn on_queue(
        &mut self,
        parent: Tid,
        to: ReplyTo,
        mut request: QueueRequest,
        team: &str,
        at: &mut Decision<'_>,
    ) {
        let demand = match demand(&request.spawn, at.config.policy) {
            Ok(demand) => demand,
            Err(error) => return at.out.refuse(to, error),
        };
        let Some(name) = self.queues.free_id(at.config.index) else {
            return at.out.refuse(to, PvmError::OutOfRes);
        };
        request.spawn.flags |= flags::QUEUED | if request.restarts > 0 { flags::RESTARTS } else { 0 };
        complete_environment(&mut request.spawn, team);
        let queue = Queue::new(name, &request, demand.count);
        let id = self.next_id();
        self.queues.ids.insert(name, id);
        self.notices.entry(parent).or_default();
        at.out.reply::<QueueRequest>(to, &name);
        self.begin(id, parent, request.spawn, Kind::Queue(queue), demand, at);
    }

    /// A host has started tasks of a queued batch, or could not.
    pub(super) fn queued_started(
        &mut self,
        host: HostIndex,
        id: SpawnId,
        first: u32,
        results: &[i32],
        at: &mut Decision<'_>,
    ) {
        for (number, &result) in (first..).zip(results) {
            if result <= 0 {
                self.task_concluded(id, number, Tid::NONE, host, Fate::Lost(result), at);
                continue;
            }
            let tid = Tid::from_raw(result);
            let Some(spawn) = self.spawns.get_mut(&id) else { return };
            let (started, is_cancelled) = (spawn.started(tid), spawn.state() == State::Cancelled);
            let Some(queue) = spawn.queue_mut() else { return };
            let early = queue.early.remove(&number);
            queue.running.insert(number, tid);
            at.out.push(Effect::ReportStart(started));
            self.tell_parent(id, BatchEvent::Started { number, tid }, at);
            match early {
                Some((_, fate)) => self.task_ended(id, number, tid, fate, at),
                None if is_cancelled => at.out.push(Effect::Signal(tid, SIGTERM)),
                None => {}
            }
        }
        self.queue_settled(id, at);
    }

    /// A host reports the end of a task of a queued batch.
    pub fn on_task_ended(
        &mut self,
        batch: BatchId,
        number: u32,
        tid: Tid,
        fate: Fate,
        at: &mut Decision<'_>,
    ) {
        if batch.home == at.config.index {
            self.task_ended(SpawnId(batch.number), number, tid, fate, at);
        }
    }

    fn task_ended(&mut self, id: SpawnId, number: u32, tid: Tid, fate: Fate, at: &mut Decision<'_>) {
        let Some(queue) = self.spawns.get_mut(&id).and_then(Spawn::queue_mut) else { return };
        if queue.running.get(&number) == Some(&tid) {
            queue.running.remove(&number);
            if let Some(host) = at.hosts.place(tid) {
                self.task_concluded(id, number, tid, host, fate, at);
            }
            self.queue_settled(id, at);
        } else {
            queue.early.insert(number, (tid, fate));
        }
    }

    fn task_concluded(
        &mut self,
        id: SpawnId,
        number: u32,
        tid: Tid,
        host: HostIndex,
        fate: Fate,
        at: &mut Decision<'_>,
    ) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let is_cancelled = spawn.state() == State::Cancelled;
        let Some(queue) = spawn.queue_mut() else { return };
        let (event, again) = queue.conclude(number, tid, fate, is_cancelled);
        debug!(batch = format!("{:x}", queue.id), ?event, "a task of a queued batch");
        if again {
            spawn.placing.try_again(number, host);
        }
        self.tell_parent(id, event, at);
        if again {
            self.hand_out(id, 1, at);
        }
    }

    /// What waits of a queued batch fails, as fast as the parent takes the notices.
    pub(super) fn fail_waiting(&mut self, id: SpawnId, error: PvmError, at: &mut Decision<'_>) {
        while !self.is_held(id) {
            let Some(spawn) = self.spawns.get_mut(&id) else { return };
            let Some(number) = spawn.placing.give_up() else {
                self.step(id, Event::NothingWaits, at);
                break;
            };
            let Some(queue) = spawn.queue_mut() else { return };
            queue.count.failed += 1;
            self.tell_parent(id, BatchEvent::Failed { number, tid: Tid::NONE, code: error.code() }, at);
        }
        self.queue_settled(id, at);
    }

    /// A batch is cancelled: this number of its tasks will not start.
    pub(super) fn queued_cancelled(&mut self, id: SpawnId, count: u32, at: &mut Decision<'_>) {
        let Some(queue) = self.spawns.get_mut(&id).and_then(Spawn::queue_mut) else { return };
        queue.count.cancelled += count;
        self.queue_settled(id, at);
    }

    /// A host is out, and tasks of queued batches with it.
    pub(super) fn tasks_lost(&mut self, host: HostIndex, at: &mut Decision<'_>) {
        for id in self.queues.ids.values().copied().collect::<Vec<_>>() {
            let Some(queue) = self.spawns.get_mut(&id).and_then(Spawn::queue_mut) else { continue };
            queue.early.retain(|_, (tid, _)| at.hosts.place(*tid) != Some(host));
            let (lost, kept): (BTreeMap<u32, Tid>, _) = std::mem::take(&mut queue.running)
                .into_iter()
                .partition(|(_, tid)| at.hosts.place(*tid) == Some(host));
            queue.running = kept;
            for (number, tid) in lost {
                self.task_concluded(id, number, tid, host, Fate::Lost(PvmError::HostFail.code()), at);
            }
            self.queue_settled(id, at);
        }
    }

    /// Whether a task has queued batches here.
    pub fn has_queues(&self, parent: Tid) -> bool {
        !self.queues_of(parent).is_empty()
    }

    /// The queued batches of a task.
    pub(super) fn queues_of(&self, parent: Tid) -> Vec<SpawnId> {
        let of = |id: &SpawnId| self.spawns.get(id).is_some_and(|spawn| spawn.spawner == parent);
        self.queues.ids.values().copied().filter(of).collect()
    }

    /// A parent has left the machine: nobody could be told, so nothing more of its batches is started. What runs goes on.
    pub fn parent_gone(&mut self, parent: Tid, at: &mut Decision<'_>) {
        self.notices.remove(&parent);
        for id in self.queues_of(parent) {
            self.cancel(id, false, at);
        }
    }

    /// A daemon asks that a batch be cancelled.
    pub fn on_cancel(&mut self, to: PeerTo, batch: i32, at: &mut Decision<'_>) {
        let found = self.queues.ids.get(&batch).copied();
        let code = if found.is_some() { 0 } else { PvmError::NotFound.code() };
        at.out.answer(to, PeerReply::BatchCancelled { code });
        if let Some(id) = found {
            self.cancel(id, true, at);
        }
    }

    /// Starts no more of a batch, and ends what runs if that is wanted.
    fn cancel(&mut self, id: SpawnId, kill: bool, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let waiting = spawn.placing.clear();
        let Some(queue) = spawn.queue_mut() else { return };
        queue.count.cancelled += waiting;
        let running: Vec<Tid> = queue.running.values().copied().collect();
        info!(batch = format!("{:x}", queue.id), running = running.len(), kill, "batch cancelled");
        self.step(id, Event::Cancelled, at);
        for tid in running.into_iter().filter(|_| kill) {
            at.out.push(Effect::Signal(tid, SIGTERM));
        }
        self.queue_settled(id, at);
    }

    /// Something about a queued batch has changed: perhaps it needs no manager for now, perhaps it is over.
    fn queue_settled(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        let (Some(queue), waiting) = (spawn.queue(), spawn.placing.waiting()) else { return };
        let (total, over, running) = (queue.total, queue.over(), queue.running.len() as u32);
        let (name, Counts { done, failed, cancelled, .. }) = (queue.id, queue.count);
        if over + running == total && waiting == 0 {
            self.step(id, Event::NothingWaits, at);
        }
        if over == total {
            self.step(id, Event::Over, at);
            self.tell_parent(id, BatchEvent::Done { done, failed, cancelled }, at);
            self.queues.ids.remove(&name);
            let Some(ended) = self.spawns.remove(&id) else { return };
            self.costs.ended(id, ended.placing.policy);
            if let Some(record) = ended.record(at.config.policy) {
                self.queues.remember(id, record);
            }
        }
    }
}
