//! Where answers go, and what waits for the answer of another daemon.

use super::event::ConnId;
use pvm_wire::coscheduling::Turn;
use pvm_wire::daemon::{Attempt, RequestId};
use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The task of this host that made a request, and how the request was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyTo {
    pub conn: ConnId,
    pub tag: i32,
    pub context: i32,
    pub wait_id: i32,
}

/// The daemon that made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerTo {
    pub host: HostIndex,
    pub id: RequestId,
}

/// The resource manager that made a request, and how the request was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceTo {
    pub tid: Tid,
    pub context: i32,
    pub wait_id: i32,
}

/// A spawn within its home daemon; also the number of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpawnId(pub u64);

/// Tasks of a spawn: `count` of them, from number `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub spawn: SpawnId,
    pub first: u32,
    pub count: u32,
}

/// An operation that starts processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecId(pub u64);

/// A team, within one daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TeamId(pub u32);

impl TeamId {
    /// As tasks know it.
    pub fn number(self) -> u32 {
        Turn::number(self.0)
    }
}

/// A list that is gathered from several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueryId(pub u64);

/// What an answer of another daemon is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Mstat(ReplyTo),
    Turns(ReplyTo),
    Pstat(ReplyTo),
    HostSync(ReplyTo),
    Adding(ReplyTo),
    Rows(ReplyTo),
    Move(ReplyTo),
    Owner(ReplyTo),
    Certificate(ReplyTo),
    AddHosts(ReplyTo),
    DeleteHosts(ReplyTo),
    Mailbox(ReplyTo),
    Jobs(ReplyTo),
    /// The resource manager, for hosts it adds.
    ServiceAdd(ServiceTo),
    Tasks {
        query: QueryId,
        /// Flags that the asker does not know.
        hidden: i32,
    },
    Batches(QueryId),
    CancelBatch(ReplyTo),
    /// A host that has lost the master, of which is asked whether it lives.
    MasterLost(HostIndex),
    /// The host that has room for this task, which leaves.
    Room(Tid),
    /// The start of a task's successor.
    Succeed(Attempt),
    /// The start of tasks.
    Exec(Part),
}

impl fmt::Display for Waiter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Mstat(_) => "state of the host",
            Self::Turns(_) => "turns of teams",
            Self::Pstat(_) => "state of a task",
            Self::HostSync(_) => "its clock",
            Self::Adding(_) => "the hosts that are being added",
            Self::Owner(_) => "its owner",
            Self::Move(_) => "the move of a task",
            Self::Room(_) => "room for a task",
            Self::Succeed(_) => "the successor of a task",
            Self::Rows(_) => "the rows of the matrix",
            Self::Certificate(_) => "a certificate",
            Self::AddHosts(_) | Self::ServiceAdd(_) => "hosts to be added",
            Self::DeleteHosts(_) => "hosts to be deleted",
            Self::Mailbox(_) => "mailbox",
            Self::Jobs(_) => "jobs",
            Self::Tasks { .. } => "its tasks",
            Self::Batches(_) => "its batches",
            Self::CancelBatch(_) => "a batch to be cancelled",
            Self::MasterLost(other) => {
                return write!(out, "does the master live that host {other} has lost?");
            }
            Self::Exec(Part { spawn, first, count }) => {
                return write!(out, "start {count} tasks of spawn {}, from number {first}", spawn.0);
            }
        };
        out.write_str(what)
    }
}
