//! As node: starting tasks that a spawn's home, or the resource manager, orders here.

use super::pulling::OpenBatch;
use super::refusals::Refusals;
use super::split_place;
use crate::addresses::{ExecId, PeerTo, ServiceTo};
use crate::decision::Decision;
use crate::effect::{Effect, Mark};
use crate::event::Program;
use crate::load::HostLoad;
use crate::memory::TaskMemory;
use crate::tasks::Tasks;
use pvm_sched::pulling;
use pvm_wire::batch::BatchId;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::Field;
use pvm_wire::codes::Sm;
use pvm_wire::daemon::{Attempt, PeerReply};
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;

/// What a daemon knows as node, which starts tasks of all homes' spawns.
#[derive(Debug)]
pub(crate) struct Node {
    execs: BTreeMap<ExecId, Exec>,
    /// Orders so far.
    count: u64,
    pub(super) batches: BTreeMap<BatchId, OpenBatch>,
    /// Applications for tasks so far, over all batches.
    pub(super) applications: u64,
    pub load: HostLoad,
    pub memory: TaskMemory,
    random: u64,
}

/// Tasks being started here for some spawn.
#[derive(Debug)]
pub(crate) struct Exec {
    to: ExecTo,
    pub batch: Option<BatchId>,
    /// Per task its tid or an error code, once known.
    results: Vec<Option<i32>>,
    /// Tasks whose fate is not known.
    open: usize,
    refusals: Refusals,
    /// None is started, as the owner of the host is there.
    has_owner: bool,
    stage: Stage,
}

/// How far an order is.
#[derive(Debug)]
enum Stage {
    /// No more processes are to be asked for.
    Begun,
    /// Those beyond the host's limit wait until the ones before them run: the first may have ended when the last of those has been
    /// started.
    Partly(Box<Order>),
    /// A tasker starts them.
    Handed(Box<Order>),
}

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Order {
    /// The number of the next, in the order.
    pub next: usize,
    /// The number in the spawn of the order's first.
    pub first: u32,
    pub parent: i32,
    /// The task whose successor is to be started.
    pub succeeds: Option<Attempt>,
    pub spawn: SpawnRequest,
}

/// The receiver of an order's result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExecTo {
    /// The daemon that asked.
    Peer(PeerTo),
    /// The resource manager.
    Service(ServiceTo),
}

/// Tasks that a tasker is to start.
#[derive(Debug)]
pub(crate) struct Handed<'a> {
    /// Number of the first in the spawn.
    pub first: u32,
    /// How many here.
    pub count: u32,
    /// What they are.
    pub spawn: &'a SpawnRequest,
}

impl Exec {
    /// What a tasker is to start of it.
    pub fn handed(&self) -> Option<Handed<'_>> {
        let Stage::Handed(order) = &self.stage else { return None };
        Some(Handed { first: order.first, count: self.results.len() as u32, spawn: &order.spawn })
    }

    /// Whether all that was begun of it is settled, and there is more.
    fn has_rest(&self) -> bool {
        matches!(&self.stage, Stage::Partly(order) if self.open == self.results.len() - order.next)
    }
}

impl Node {
    pub fn new(seed: u64, task_memory: Option<u64>) -> Self {
        Self {
            execs: BTreeMap::new(),
            count: 0,
            batches: BTreeMap::new(),
            applications: 0,
            load: HostLoad::default(),
            memory: TaskMemory::new(task_memory),
            random: seed | 1,
        }
    }

    /// Another daemon (or this one), or the resource manager, has tasks started here.
    pub fn on_exec(
        &mut self,
        to: ExecTo,
        batch: Option<BatchId>,
        count: u32,
        order: Order,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        self.count += 1;
        let (id, open) = (ExecId(self.count), (count as usize).min(BATCH_MAX));
        let (results, stage) = (vec![None; open], Stage::Partly(Box::new(order)));
        let (refusals, has_owner) = (Refusals::default(), at.owners.is_own_here());
        self.execs.insert(id, Exec { to, batch, results, open, refusals, has_owner, stage });
        if open == 0 {
            self.finish(id, tasks, at);
        } else if has_owner {
            for number in 0..open {
                let reason = "the owner of the host is there (pvm owner)".to_owned();
                self.settle(id, number, Err((PvmError::OutOfRes, reason)), tasks, at);
            }
        } else {
            at.out.push(Effect::StartTasks(id));
        }
    }

    /// The host of the task that has spawned an order's tasks, as far as it is known.
    pub fn home_of(&self, id: ExecId) -> Option<HostIndex> {
        let exec = self.execs.get(&id)?;
        match exec.to {
            ExecTo::Peer(PeerTo { host, .. }) => Some(host),
            ExecTo::Service(_) => exec.batch.map(|batch| batch.home),
        }
    }

    /// The next tasks of an order, if they may be started now: the batch they are of, what they are, and up to which number there is
    /// room.
    pub fn take_order(&mut self, id: ExecId, room: usize) -> Option<(Option<BatchId>, Box<Order>, usize)> {
        let exec = self.execs.get_mut(&id).filter(|exec| exec.has_rest())?;
        let Stage::Partly(order) = std::mem::replace(&mut exec.stage, Stage::Begun) else { return None };
        let end = exec.results.len().min(order.next.saturating_add(room));
        Some((exec.batch, order, end))
    }

    /// This number of an order's next tasks has been begun, by a tasker if there is one; if none could be, nothing waits.
    pub fn begun(
        &mut self,
        id: ExecId,
        (mut order, count): (Box<Order>, usize),
        by_tasker: bool,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        order.next += count;
        let (next, total) = (order.next, exec.results.len());
        let rest_waits = !by_tasker && count > 0;
        exec.stage = match order {
            order if by_tasker => Stage::Handed(order),
            order if rest_waits && next < total => Stage::Partly(order),
            _ => Stage::Begun,
        };
        let limit = at.config.task_limit;
        for number in if rest_waits { total } else { next }..total {
            let reason = format!("no room for another task: it may have {limit} (PVM_TASK_LIMIT)");
            self.settle(id, number, Err((PvmError::OutOfRes, reason)), tasks, at);
        }
    }

    /// The fate of one of an order's tasks is known.
    pub fn settle(
        &mut self,
        id: ExecId,
        number: usize,
        result: Result<Tid, (PvmError, String)>,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let result = match result {
            Ok(tid) => tid.raw(),
            Err((error, reason)) => {
                exec.refusals.note(Some(at.config.index), error, 1, &reason);
                error.code()
            }
        };
        if let Some(slot @ None) = exec.results.get_mut(number) {
            *slot = Some(result);
            exec.open -= 1;
        }
        if exec.open == 0 {
            self.finish(id, tasks, at);
        } else if exec.has_rest() {
            at.out.push(Effect::StartTasks(id));
        }
    }

    fn finish(&mut self, id: ExecId, tasks: &Tasks, at: &mut Decision<'_>) {
        let Some(exec) = self.execs.remove(&id) else { return };
        let results: Vec<i32> = exec.results.into_iter().flatten().collect();
        match exec.to {
            ExecTo::Peer(to) => {
                let refusals = exec.refusals.into_list();
                at.out.answer(to, PeerReply::Started { results, refusals, has_owner: exec.has_owner });
            }
            ExecTo::Service(to) => {
                at.out.send(to.tid, Mark::answer(to, Sm::ExecAck), results.write(BodyWriter::new()).finish());
            }
        }
        if let Some(batch) = exec.batch {
            self.look(batch, tasks, at, pulling::Node::tasks_given);
        }
    }

    pub fn exec(&self, id: ExecId) -> Option<&Exec> {
        self.execs.get(&id)
    }

    /// Orders, each with the number of processes whose fate is not known.
    pub fn under_way(&self) -> impl ExactSizeIterator<Item = (ExecId, usize)> {
        self.execs.iter().map(|(&id, exec)| (id, exec.open))
    }

    /// The next number of the seeded sequence within the range (xorshift64*).
    pub(super) fn random(&mut self, range: Range<u64>) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        range.start + self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) % (range.end - range.start).max(1)
    }
}

pub(crate) fn program(spawn: &SpawnRequest) -> Program {
    Program {
        directory: split_place(&spawn.place).1.map(OsStr::to_owned),
        debug: spawn.flags & flags::DEBUG != 0,
        file: spawn.file.clone(),
        args: spawn.args.clone(),
        env: spawn.env.clone(),
        ..Program::default()
    }
}
