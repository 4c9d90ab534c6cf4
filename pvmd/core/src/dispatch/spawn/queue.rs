//! As home: queued batches.

use crate::Core;
use crate::addresses::{PeerTo, QueryId, ReplyTo, SpawnId, Waiter};
use crate::flow::Source;
use crate::pending::Query;
use crate::spawn::SIGTERM;
use crate::spawn::home::{Demand, Kind, Spawn};
use crate::spawn::queue::{Counts, Fate, Queue, REMEMBERED};
use crate::spawn::state::{Event, State};
use crate::tasks::Task;
use pvm_wire::batch::BatchId;
use pvm_wire::calls::spawn::{BatchList, Batches};
use pvm_wire::daemon::{DaemonMsg, PeerReply, PeerRequest};
use pvm_wire::output::OutputEvent;
use pvm_wire::queue::{BatchEvent, BatchRecord, QueueRequest};
use pvm_wire::spawn::flags;
use pvm_wire::tid::LOCAL_MAX;
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeMap;
use tracing::{debug, info};

/// As home.
impl Core {
    /// A task asks for a queued batch.
    pub(crate) fn on_queue(&mut self, parent: Tid, to: ReplyTo, mut request: QueueRequest) {
        let demand @ Demand { count, .. } = match self.demand(&request.spawn) {
            Ok(demand) => demand,
            Err(error) => return self.reply_error(to, error),
        };
        let Some(name) = self.free_batch_id() else {
            return self.reply_error(to, PvmError::OutOfRes);
        };
        request.spawn.flags |= flags::QUEUED;
        let queue = Queue::new(name, &request, count);
        let id = self.home.next_id();
        self.home.queues.ids.insert(name, id);
        self.reply_to::<QueueRequest>(to, &name);
        self.begin_spawn(id, parent, request.spawn, Kind::Queue(queue), demand);
    }

    /// An id that no other batch of the whole machine has.
    fn free_batch_id(&mut self) -> Option<i32> {
        let base = self.config.index;
        (0..LOCAL_MAX).find_map(|_| {
            self.home.queues.next = self.home.queues.next % LOCAL_MAX + 1;
            let id = base.task(self.home.queues.next).raw();
            (!self.home.queues.ids.contains_key(&id)).then_some(id)
        })
    }

    /// A host has started tasks of a queued batch, or could not.
    pub(crate) fn queue_started(&mut self, host: HostIndex, id: SpawnId, first: u32, results: &[i32]) {
        for (number, &result) in (first..).zip(results) {
            if result <= 0 {
                self.queue_concluded(id, number, Tid::NONE, host, Fate::Lost(result));
                continue;
            }
            let tid = Tid::from_raw(result);
            let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
            let (output, spawner, parent) = (spawn.request.output, spawn.spawner, spawn.parent());
            let (trace, is_cancelled) = (spawn.request.trace, spawn.state() == State::Cancelled);
            let Some(queue) = spawn.queue_mut() else { return };
            let early = queue.early.remove(&number);
            queue.running.insert(number, tid);
            self.trace_spawned(trace, tid, parent);
            self.send_output(Source::Daemon, output, tid, OutputEvent::Spawned(spawner.raw()));
            self.tell_parent(id, BatchEvent::Started { number, tid });
            match early {
                Some((_, status)) => self.on_batch_task_ended(id, number, tid, status),
                None if is_cancelled => self.signal(tid, SIGTERM),
                None => {}
            }
        }
        self.queue_settled(id);
    }

    /// A host says that a task of a queued batch has ended.
    pub(crate) fn on_batch_task_ended(&mut self, id: SpawnId, number: u32, tid: Tid, status: i32) {
        let Some(queue) = self.home.spawns.get_mut(&id).and_then(Spawn::queue_mut) else { return };
        if queue.running.get(&number) == Some(&tid) {
            queue.running.remove(&number);
            if let Some(host) = tid.host() {
                self.queue_concluded(id, number, tid, host, Fate::Ended(status));
            }
            self.queue_settled(id);
        } else {
            queue.early.insert(number, (tid, status));
        }
    }

    fn queue_concluded(&mut self, id: SpawnId, number: u32, tid: Tid, host: HostIndex, fate: Fate) {
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        let is_cancelled = spawn.state() == State::Cancelled;
        let Some(queue) = spawn.queue_mut() else { return };
        let (event, again) = queue.conclude(number, tid, fate, is_cancelled);
        debug!(batch = format!("{:x}", queue.id), ?event, "a task of a queued batch");
        if again {
            spawn.placing.try_again(number, host);
        }
        self.tell_parent(id, event);
        if again {
            self.hand_out(id, 1);
        }
    }

    /// What waits of a queued batch fails, as fast as the parent takes the notices.
    pub(crate) fn fail_waiting(&mut self, id: SpawnId, error: PvmError) {
        while !self.is_held(id) {
            let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
            let Some(number) = spawn.placing.give_up() else {
                self.step(id, Event::NothingWaits);
                break;
            };
            let Some(queue) = spawn.queue_mut() else { return };
            queue.count.failed += 1;
            self.tell_parent(id, BatchEvent::Failed { number, tid: Tid::NONE, code: error.code() });
        }
        self.queue_settled(id);
    }

    /// A batch is cancelled: this number of its tasks will not start.
    pub(crate) fn queue_cancelled(&mut self, id: SpawnId, count: u32) {
        let Some(queue) = self.home.spawns.get_mut(&id).and_then(Spawn::queue_mut) else { return };
        queue.count.cancelled += count;
        self.queue_settled(id);
    }

    /// A host is out, and tasks of queued batches with it.
    pub(crate) fn queues_host_gone(&mut self, host: HostIndex) {
        for id in self.home.queues.ids.values().copied().collect::<Vec<_>>() {
            let Some(queue) = self.home.spawns.get_mut(&id).and_then(Spawn::queue_mut) else { continue };
            queue.early.retain(|_, (tid, _)| tid.host() != Some(host));
            let (lost, kept): (BTreeMap<u32, Tid>, _) =
                std::mem::take(&mut queue.running).into_iter().partition(|(_, tid)| tid.host() == Some(host));
            queue.running = kept;
            for (number, tid) in lost {
                self.queue_concluded(id, number, tid, host, Fate::Lost(PvmError::HostFail.code()));
            }
            self.queue_settled(id);
        }
    }

    /// Its parent has left the machine: nobody could be told, so nothing more of its batches is started. What runs goes on.
    pub(crate) fn queues_parent_gone(&mut self, parent: Tid) {
        for id in self.home.queues_of(parent) {
            self.cancel_queue(id, false);
        }
    }

    /// Starts no more of a batch, and ends what runs if that is wanted.
    fn cancel_queue(&mut self, id: SpawnId, kill: bool) {
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        let waiting = spawn.placing.clear();
        let Some(queue) = spawn.queue_mut() else { return };
        queue.count.cancelled += waiting;
        let running: Vec<Tid> = queue.running.values().copied().collect();
        info!(batch = format!("{:x}", queue.id), running = running.len(), kill, "batch cancelled");
        self.step(id, Event::Cancelled);
        for tid in running.into_iter().filter(|_| kill) {
            self.signal(tid, SIGTERM);
        }
        self.queue_settled(id);
    }

    /// Something about a queued batch has changed: perhaps it needs no manager for now, perhaps it is over.
    fn queue_settled(&mut self, id: SpawnId) {
        let Some(spawn) = self.home.spawns.get(&id) else { return };
        let (Some(queue), waiting) = (spawn.queue(), spawn.placing.waiting()) else { return };
        let (total, over, running) = (queue.total, queue.over(), queue.running.len() as u32);
        let (name, policy, count) = (queue.id, self.config.policy, queue.count);
        if over + running == total && waiting == 0 {
            self.step(id, Event::NothingWaits);
        }
        if over == total {
            self.step(id, Event::Over);
            let Counts { done, failed, cancelled, .. } = count;
            self.tell_parent(id, BatchEvent::Done { done, failed, cancelled });
            self.home.queues.ids.remove(&name);
            if let Some(record) = self.home.spawns.remove(&id).and_then(|spawn| spawn.record(policy)) {
                self.remember(record);
            }
        }
    }

    /// Keeps a batch that has ended in the list for a while.
    fn remember(&mut self, record: BatchRecord) {
        if self.home.queues.ended.len() >= REMEMBERED {
            self.home.queues.ended.pop_front();
        }
        self.home.queues.ended.push_back(record);
    }
}

/// As node.
impl Core {
    /// Tasks of queued batches that run here or are about to.
    pub(crate) fn queued_here(&self) -> u64 {
        self.tasks.iter().filter(|task| task.item.is_some()).count() as u64
    }

    /// A task has ended here: its batch's home is told.
    pub(crate) fn tell_home(&mut self, task: &Task, status: i32) {
        // What was not known to be started is told as such.
        if let (Some((batch, number)), None) = (task.item, task.exec) {
            self.tell(batch.home, DaemonMsg::BatchTaskEnded { batch, number, tid: task.tid, status });
        }
    }

    /// A host tells of the end of a task of a queued batch of ours.
    pub(crate) fn on_peer_task_ended(
        &mut self,
        host: HostIndex,
        batch: BatchId,
        number: u32,
        tid: Tid,
        status: i32,
    ) {
        if tid.host() == Some(host) && batch.home == self.config.index {
            self.on_batch_task_ended(SpawnId(batch.number), number, tid, status);
        }
    }
}

/// Listing and cancelling, wherever the batch has its home.
impl Core {
    /// A task wants to know of all batches.
    pub(crate) fn on_list_batches(&mut self, to: ReplyTo) {
        let hosts: Vec<HostIndex> = self.hosts.iter().map(|entry| entry.index).collect();
        let id = self.pending.list_batches(to, &hosts);
        for host in hosts {
            self.ask(host, PeerRequest::Batches, Waiter::Batches(id));
        }
    }

    pub(crate) fn on_batches_part(&mut self, from: HostIndex, id: QueryId, batches: Vec<BatchRecord>) {
        if let Some(Query { to, found, .. }) = self.pending.add_batches(id, from, batches) {
            self.reply_to::<Batches>(to, &BatchList { batches: found });
        }
    }

    /// A task cancels a batch.
    pub(crate) fn on_cancel_batch(&mut self, to: ReplyTo, id: i32) {
        match Tid::from_raw(id).host().filter(|&home| id > 0 && self.hosts.is_reachable(home)) {
            Some(home) => self.ask(home, PeerRequest::CancelBatch { id }, Waiter::CancelBatch(to)),
            None => self.reply_error(to, PvmError::NotFound),
        }
    }

    pub(crate) fn on_peer_cancels_batch(&mut self, to: PeerTo, id: i32) {
        let found = self.home.queues.ids.get(&id).copied();
        let code = if found.is_some() { 0 } else { PvmError::NotFound.code() };
        self.answer(to, PeerReply::BatchCancelled { code });
        if let Some(spawn) = found {
            self.cancel_queue(spawn, true);
        }
    }
}
