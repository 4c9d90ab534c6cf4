//! What daemons ask of each other, and the answers.

use super::moves::Attempt;
use crate::batch::BatchId;
use crate::calls::hosts::Additions;
use crate::calls::tasks::TaskRecord;
use crate::certificate::{CertificateRequest, Certified};
use crate::coscheduling::{TurnHistory, TurnsReport};
use crate::error::PvmError;
use crate::owner::{OwnerSaid, OwnerState};
use crate::queue::{BatchRecord, PolicyTally};
use crate::rows::RowsReport;
use crate::spawn::{Refusal, SpawnRequest};
use crate::tid::{HostIndex, Tid};
use serde::{Deserialize, Serialize};

/// What daemons ask of each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerRequest {
    /// Start `count` tasks.
    Exec {
        /// The batch they belong to, if they came by pulling.
        batch: Option<BatchId>,
        /// How many.
        count: u32,
        /// Number of the first within the spawn.
        first: u32,
        /// Their parent as the children see it.
        parent: i32,
        /// What to start.
        spawn: Box<SpawnRequest>,
    },
    /// Tasks on your host: all, or one.
    Tasks {
        /// Which one.
        only: Option<Tid>,
    },
    /// Does this task exist?
    TaskStatus {
        /// Which.
        tid: Tid,
    },
    /// The batches whose home you are.
    Batches,
    /// Cancel this batch of yours.
    CancelBatch {
        /// Its id.
        id: i32,
    },
    /// How do teams take turns on your host?
    Turns,
    /// What turns have there been on your host?
    History {
        /// Number of the first that matters.
        since: u64,
    },
    /// Are you there? (`pvm_mstat`)
    Ping,
    /// What time is it on your host? (`pvm_hostsync`)
    Clock,
    /// To the master: how far are the hosts that are being added?
    Adding,
    /// To the master: what are the rows of the machine's matrix?
    Rows,
    /// What is known of your host's owner?
    Owner {
        /// What a person says of that first.
        said: Option<OwnerSaid>,
    },
    /// Move a task of yours; answered when it has moved.
    Move {
        /// Which.
        tid: Tid,
        /// Where to; the host that has most room if none is given.
        to: Option<HostIndex>,
    },
    /// To the master: which host has most room for a task that leaves mine?
    Room,
    /// Start the successor of a task that moves to you.
    Succeed {
        /// Which.
        attempt: Attempt,
        /// Its parent as the task sees it.
        parent: i32,
        /// What to start.
        spawn: Box<SpawnRequest>,
    },
    /// To the master: sign this certificate for a server of a task of mine.
    Certify(CertificateRequest),
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerReply {
    /// To `Exec`: per task its tid, or an error code.
    Started {
        /// In order.
        results: Vec<i32>,
        /// Why those with a code were not started.
        refusals: Vec<Refusal>,
        /// None was, as the owner of the host is there.
        has_owner: bool,
    },
    /// To `Tasks`.
    Tasks {
        /// In ascending order.
        tasks: Vec<TaskRecord>,
    },
    /// To `TaskStatus`.
    TaskStatus {
        /// Whether it exists.
        alive: bool,
    },
    /// To `Batches`.
    Batches {
        /// The oldest first.
        batches: Vec<BatchRecord>,
        /// What policies have cost on the host.
        policies: Vec<PolicyTally>,
    },
    /// To `CancelBatch`: 0 or an error code.
    BatchCancelled {
        /// Which.
        code: i32,
    },
    /// To `Turns`.
    Turns {
        /// How.
        report: TurnsReport,
    },
    /// To `History`.
    History {
        /// What there has been.
        history: TurnHistory,
    },
    /// To `Ping`.
    Pong,
    /// To `Adding`.
    Adding {
        /// How far.
        additions: Additions,
    },
    /// To `Owner`.
    Owner {
        /// What is known.
        state: OwnerState,
    },
    /// To `Rows`.
    Rows {
        /// All of them.
        report: RowsReport,
    },
    /// To `Clock`: time of day since 1970, microseconds.
    Clock {
        /// The time.
        microseconds: u64,
    },
    /// To `Move`.
    Moved {
        /// Where the task lives now, or PVM's code and the reason.
        result: Result<HostIndex, (PvmError, String)>,
    },
    /// To `Room`.
    Room {
        /// Which; none if no other host can take a task.
        host: Option<HostIndex>,
    },
    /// To `Certify`.
    Certified {
        /// The certificate, or PVM's code and the reason.
        result: Result<Certified, (PvmError, String)>,
    },
}
