//! What daemons say to each other about tasks that move.
//!
//! The host that a task leaves begins an *attempt*: it asks the next host for a successor, the master for its consent, and all hosts to keep what
//! is for the task. Each host answers behind all that it has sent to the task. Then the next host has the task, if the master says so.

use crate::batch::BatchId;
use crate::blob::Blob;
use crate::calls::notify::NotifyRequest;
use crate::spawn::Sink;
use crate::tid::{HostIndex, Tid};
use serde::{Deserialize, Serialize};

/// One attempt to move a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The task.
    pub tid: Tid,
    /// The host that it leaves.
    pub from: HostIndex,
    /// Counts the attempts of that host.
    pub number: u64,
}

/// What is said about an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MoveMsg {
    /// To the host that it leaves: the successor has enrolled.
    Ready {
        /// Its id until it is the task.
        successor: Tid,
    },
    /// To all: keep what is for the task, and what this host says after this.
    Hold {
        /// Where it goes.
        to: HostIndex,
    },
    /// To the host that it leaves: all that the sender's host had for it has gone there.
    Held,
    /// To all: the task stays.
    Release,
    /// To the next host: nothing for the task is on its way any more.
    Frozen {
        /// What the daemon knows of it.
        luggage: Box<Luggage>,
        /// The hosts that keep what is for it.
        hosts: Vec<HostIndex>,
    },
    /// To the next host, when the task has moved: a piece of what the old host has kept for it.
    Kept {
        /// Sender.
        src: Tid,
        /// First, last: [`crate::header`].
        flags: u8,
        /// The fragment's data.
        data: Blob,
    },
    /// Nothing more was kept.
    KeptAll {
        /// What the daemon knew of the task last; nothing if the process had ended before.
        luggage: Option<Box<Luggage>>,
    },
    /// To the host that it leaves: the successor has ended.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// What a daemon knows of a task, and the next one has to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Luggage {
    /// Its parent as the task sees it.
    pub parent: i32,
    /// Sink of its output.
    pub output: Sink,
    /// Sink of its trace.
    pub trace: Sink,
    /// The host with which it ends.
    pub tied_to: Option<HostIndex>,
    /// The queued batch that it is of, and its number there.
    pub item: Option<(BatchId, u32)>,
    /// What it has subscribed to.
    pub subscriptions: Vec<Subscription>,
    /// It is told of incidents; whether of every end.
    pub observes: Option<bool>,
    /// The master wants to know when it ends.
    pub watched: bool,
}

/// A subscription of a task (`pvm_notify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// To what: [`crate::codes::notify`].
    pub what: i32,
    /// Context of the message.
    pub context: i32,
    /// Its tag.
    pub tag: i32,
    /// Times left, for new hosts.
    pub count: i32,
    /// Which task or host, for ends.
    pub tid: i32,
}

impl Subscription {
    /// The request that leads to it.
    pub fn request(&self) -> NotifyRequest {
        let &Self { what, context, tag, count, tid } = self;
        NotifyRequest { what, cancel: false, context, tag, count, tids: vec![tid] }
    }
}
