//! A spawn under way: what it asks for, and what is known of its tasks.

use super::placing::Placing;
use super::queue::{Counts, Queue};
use super::refusals::Refusals;
use super::state::{Effect, Event, State};
use crate::addresses::ReplyTo;
use pvm_sched::policy::Policy;
use pvm_wire::queue::BatchRecord;
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{PvmError, Tid};

/// A spawn under way, in the spawner's daemon.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) spawner: Tid,
    pub(crate) request: SpawnRequest,
    state: State,
    pub(crate) kind: Kind,
    /// Its tasks that wait.
    pub(crate) placing: Placing,
}

/// What becomes of a spawn's tasks after their start.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The spawner waits for their tids, and no more is done for them.
    Call(Call),
    /// The spawner was answered at once; they are followed to their ends.
    Queue(Queue),
}

/// The answer to a spawner, as far as it is known.
#[derive(Debug)]
pub(crate) struct Call {
    pub to: ReplyTo,
    /// Per task its tid or an error code, once known.
    pub results: Vec<Option<i32>>,
    /// Tasks whose fate is not known.
    pub open: usize,
    /// Why some were not started.
    pub refusals: Refusals,
}

impl Call {
    pub fn new(to: ReplyTo, count: u32) -> Self {
        let results = vec![None; count as usize];
        Self { to, open: results.len(), results, refusals: Refusals::default() }
    }

    /// The fate of some tasks is known.
    pub fn resolve(&mut self, first: u32, results: &[i32]) {
        for (slot, &result) in self.results.iter_mut().skip(first as usize).zip(results) {
            if slot.replace(result).is_none() {
                self.open -= 1;
            }
        }
    }

    /// Tasks that were started, and those that could not be.
    pub fn counts(&self) -> (usize, usize) {
        let known = self.results.iter().flatten();
        let started = known.clone().filter(|&&result| result > 0).count();
        (started, known.count() - started)
    }
}

impl Spawn {
    pub fn new(spawner: Tid, request: SpawnRequest, state: State, kind: Kind, placing: Placing) -> Self {
        Self { spawner, request, state, kind, placing }
    }

    /// Something has happened to it; what follows.
    pub fn step<'a>(&mut self, event: Event<'a>) -> Vec<Effect<'a>> {
        let (state, effects) = self.state.next(event);
        self.state = state;
        effects
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn call_mut(&mut self) -> Option<&mut Call> {
        match &mut self.kind {
            Kind::Call(call) => Some(call),
            Kind::Queue(_) => None,
        }
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        match &self.kind {
            Kind::Queue(queue) => Some(queue),
            Kind::Call(_) => None,
        }
    }

    pub(crate) fn queue_mut(&mut self) -> Option<&mut Queue> {
        match &mut self.kind {
            Kind::Queue(queue) => Some(queue),
            Kind::Call(_) => None,
        }
    }

    /// In a line, for people.
    pub fn summary(&self) -> String {
        let (by, count, file) = (self.spawner, self.request.count, self.request.file.display());
        let (waiting, nodes) = (self.placing.waiting(), self.placing.nodes.len());
        let placing = match self.state {
            State::Pinned => "pinned".to_owned(),
            state => format!("{waiting} not assigned, {nodes} nodes, {state}"),
        };
        match &self.kind {
            Kind::Queue(queue) => format!("by {by} × {file}: {placing}, {}", queue.summary()),
            Kind::Call(call) => format!("by {by} of {count} × {file}: {} open, {placing}", call.open),
        }
    }

    /// As it is listed; nothing if its tasks are confined to one host, so that nothing is placed.
    pub fn record(&self, machine: Policy) -> Option<BatchRecord> {
        if self.state() == State::Pinned {
            return None;
        }
        let policy = &self.request.policy;
        let (id, running, count) = match &self.kind {
            Kind::Queue(queue) => (queue.id, queue.running.len(), queue.count),
            Kind::Call(call) => {
                let (started, failed) = call.counts();
                (0, 0, Counts { done: started as u32, failed: failed as u32, ..Counts::default() })
            }
        };
        Some(BatchRecord {
            id,
            parent: self.spawner,
            file: self.request.file.clone(),
            policy: if policy.is_empty() { machine.name().to_owned() } else { policy.clone() },
            total: u32::try_from(self.request.count).unwrap_or(0),
            waiting: self.placing.waiting(),
            running: running as u32,
            done: count.done,
            failed: count.failed,
            cancelled: count.cancelled,
            restarts: count.restarts,
            nodes: self.placing.tallies(),
            messages: self.placing.messages,
            decisions: self.placing.decisions.list(),
        })
    }

    /// The parent as the tasks see it.
    pub(crate) fn parent(&self) -> i32 {
        let hidden = self.request.flags & flags::NO_SPAWN_PARENT != 0;
        if hidden { PvmError::ParentNotSet.code() } else { self.spawner.raw() }
    }
}
