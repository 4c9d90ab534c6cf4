//! Queued batches: spawns that return at once, whose tasks start as nodes have room for them.
//!
//! A queued batch is a [`Spawn`](super::Spawn) that nodes pull as any other; its tasks are followed to their ends, since those make room, may
//! have to be made good by another start, and are told to the parent.

use crate::addresses::SpawnId;
use pvm_wire::Tid;
use pvm_wire::queue::{BatchEvent, BatchRecord, QueueRequest};
use std::collections::{BTreeMap, VecDeque};

/// Batches that have ended and are still listed.
pub(crate) const REMEMBERED: usize = 16;

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
    pub early: BTreeMap<u32, (Tid, i32)>,
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
}

/// The queued batches of a home, by the ids that programs see, and those that have ended last.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub ids: BTreeMap<i32, SpawnId>,
    pub next: u32,
    pub ended: VecDeque<BatchRecord>,
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
        let (Fate::Ended(status) | Fate::Lost(status)) = fate;
        let well = matches!(fate, Fate::Ended(0));
        if !well && !is_cancelled && self.may_try_again(number) {
            return (BatchEvent::Again { number, tid, status }, true);
        }
        self.tries.remove(&number);
        match well {
            true => self.count.done += 1,
            false if is_cancelled => self.count.cancelled += 1,
            false => self.count.failed += 1,
        }
        let event = match fate {
            Fate::Ended(status) => BatchEvent::Ended { number, tid, status },
            Fate::Lost(code) => BatchEvent::Failed { number, tid, code },
        };
        (event, false)
    }

    pub fn may_try_again(&mut self, number: u32) -> bool {
        if self.tries.get(&number).copied().unwrap_or(0) >= self.restarts {
            return false;
        }
        *self.tries.entry(number).or_default() += 1;
        self.count.restarts += 1;
        true
    }
}
