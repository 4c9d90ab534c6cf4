//! Queued batches: what a task asks for, what it is told while the batch runs, and how a batch is listed.

use crate::batch::Terms;
use crate::body::BodyWriter;
use crate::spawn::SpawnRequest;
use crate::tid::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// The body of [`crate::codes::Tmx::Queue`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QueueRequest {
    /// Context of the notices.
    pub context: i32,
    /// Tag of the notices; negative if there are to be none.
    pub tag: i32,
    /// How often a task that fails is started again.
    pub restarts: i32,
    /// The tasks.
    pub spawn: SpawnRequest,
}

/// Wait id of the notices of queued batches, by which a library knows what it has to count.
pub const NOTICE: i32 = -1;

/// Notices that a task has been sent and has not taken, from which on its batches start no more tasks.
pub const NOTICES_HIGH: u32 = 1024;

/// Notices of which so few are left that its batches go on.
pub const NOTICES_LOW: u32 = NOTICES_HIGH / 2;

/// Notices that a library lets its program take before it says so to its daemon.
pub const NOTICES_AT_ONCE: u32 = NOTICES_HIGH / 8;

/// What the parent of a queued batch is told, as a message of five integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEvent {
    /// A task runs.
    Started {
        /// Its number in the batch, from 0 on.
        number: u32,
        /// Its id.
        tid: Tid,
    },
    /// A task has ended for good.
    Ended {
        /// Its number.
        number: u32,
        /// Its id.
        tid: Tid,
        /// What `wait` said of it: 0 if all is well.
        status: i32,
    },
    /// A task has failed, and waits to be started again.
    Again {
        /// Its number.
        number: u32,
        /// What its id was; [`Tid::NONE`] if it was not even started.
        tid: Tid,
        /// What `wait` said of it, or an error code.
        status: i32,
    },
    /// A task could not be started, or its host was lost, for good.
    Failed {
        /// Its number.
        number: u32,
        /// What its id was; [`Tid::NONE`] if it was not even started.
        tid: Tid,
        /// Why.
        code: i32,
    },
    /// Every task of the batch has ended; nothing follows.
    Done {
        /// Tasks that ended well.
        done: u32,
        /// Tasks that failed.
        failed: u32,
        /// Tasks that were cancelled.
        cancelled: u32,
    },
}

impl BatchEvent {
    /// The message's body, for a batch.
    pub fn encode(self, batch: i32) -> Vec<u8> {
        let (kind, number, tid, value) = match self {
            Self::Started { number, tid } => (1, number, tid.raw(), 0),
            Self::Ended { number, tid, status } => (2, number, tid.raw(), status),
            Self::Again { number, tid, status } => (3, number, tid.raw(), status),
            Self::Failed { number, tid, code } => (4, number, tid.raw(), code),
            Self::Done { done, failed, cancelled } => (5, done, failed as i32, cancelled as i32),
        };
        BodyWriter::new().ints([kind, batch, number as i32, tid, value]).finish()
    }

    /// The batch and the event that five integers stand for.
    pub fn from_ints([kind, batch, number, tid, value]: [i32; 5]) -> Option<(i32, Self)> {
        let (done, number, id) = (number as u32, number as u32, Tid::from_raw(tid));
        let event = match kind {
            1 => Self::Started { number, tid: id },
            2 => Self::Ended { number, tid: id, status: value },
            3 => Self::Again { number, tid: id, status: value },
            4 => Self::Failed { number, tid: id, code: value },
            5 => Self::Done { done, failed: tid as u32, cancelled: value as u32 },
            _ => return None,
        };
        Some((batch, event))
    }
}

/// What a node has been given of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeTally {
    /// The node.
    pub host: HostIndex,
    /// How often it was given tasks.
    pub exchanges: u64,
    /// Tasks given to it in all: the sum of `N`.
    pub given: u64,
    /// The quantities of the last exchange that went by the formula.
    pub last: Option<Terms>,
}

/// Decisions of a batch that its record has: the latest.
pub const DECISIONS_KEPT: usize = 32;

/// Tasks of a batch that a policy gave to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchDecision {
    /// Microseconds since the batch was asked for.
    pub after: u64,
    /// The node.
    pub host: HostIndex,
    /// Tasks.
    pub count: u32,
}

/// Messages of a placement policy.
///
/// Of active pulling and of the policies that divide a batch these are what home, task manager and nodes say to each other of the
/// batch. Of policies of agents they are what agents say to each other. Orders to start tasks, and their answers, do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyMessages {
    /// From one host to another.
    pub between_hosts: u64,
    /// Between processes of one host, the batch's home.
    pub at_home: u64,
}

impl PolicyMessages {
    /// Both.
    pub fn all(self) -> u64 {
        self.between_hosts.saturating_add(self.at_home)
    }

    /// Counts more.
    pub fn add(&mut self, more: Self) {
        self.between_hosts = self.between_hosts.saturating_add(more.between_hosts);
        self.at_home = self.at_home.saturating_add(more.at_home);
    }
}

/// What a placement policy has cost on a host since its daemon began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyTally {
    /// The host.
    pub host: HostIndex,
    /// Name of the policy.
    pub policy: String,
    /// Batches and spawns of tasks of this host that the policy has placed.
    pub batches: u64,
    /// Their tasks that it has given to nodes.
    pub given: u64,
    /// Messages. A policy's sum over all hosts has each message once: of agents a host counts what it sends, else the home counts all.
    pub messages: PolicyMessages,
}

/// A batch, as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchRecord {
    /// Its id; 0 if it is a plain spawn.
    pub id: i32,
    /// Who asked for it.
    pub parent: Tid,
    /// Its program.
    pub file: OsString,
    /// The policy that places it.
    pub policy: String,
    /// Tasks in all.
    pub total: u32,
    /// Tasks that no node has been given.
    pub waiting: u32,
    /// Tasks that run.
    pub running: u32,
    /// Tasks that ended well; of a plain spawn, those that were started.
    pub done: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks that were cancelled.
    pub cancelled: u32,
    /// Starts beyond the first of a task.
    pub restarts: u32,
    /// The nodes that have been given something.
    pub nodes: Vec<NodeTally>,
    /// What its placement has cost so far, as far as its home knows: of agents, what the home's has said and heard for it.
    pub messages: PolicyMessages,
    /// Its last decisions, the oldest first, at most [`DECISIONS_KEPT`].
    pub decisions: Vec<BatchDecision>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::BodyReader;

    #[test]
    fn events_survive_the_wire() {
        let (number, tid) = (70_000, Tid::from_bits(0x40003));
        for event in [
            BatchEvent::Started { number, tid },
            BatchEvent::Ended { number, tid, status: 256 },
            BatchEvent::Again { number, tid, status: 9 },
            BatchEvent::Failed { number, tid: Tid::NONE, code: -7 },
            BatchEvent::Done { done: 5, failed: 6, cancelled: 7 },
        ] {
            let body = event.encode(0x40001);
            let ints = BodyReader::new(&body).ints(5).unwrap().try_into().unwrap();
            assert_eq!(BatchEvent::from_ints(ints), Some((0x40001, event)));
        }
        assert_eq!(BatchEvent::from_ints([6, 0, 0, 0, 0]), None);
    }
}
