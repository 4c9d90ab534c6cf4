//! What a task did when, as it reports it to the collector of a timeline (`pvm run --trace`).

use crate::tid::Tid;
use serde::{Deserialize, Serialize};

/// Environment variable with the collector's task id in decimal; without it nothing is recorded.
pub const VARIABLE: &str = "PVM_TRACE";

/// A part of a task's record. Times are nanoseconds since 1970 by the clock of the task's host.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The task's program.
    pub program: String,
    /// When it enrolled.
    pub enrolled: u64,
    /// When it left, in its last report.
    pub left: Option<u64>,
    /// Calls that have ended since the report before, in the order of their ends.
    pub spans: Vec<Span>,
    /// Calls that were not recorded since the report before, because there were too many.
    pub lost: u64,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// What it did.
    pub what: Activity,
}

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// Sent a message.
    Send {
        /// Each receiver, and the number of the message among those of its kind to this receiver.
        to: Vec<(Tid, Number)>,
        /// Its kind.
        kind: Kind,
        /// Length of its body.
        bytes: u64,
    },
    /// Waited for a message and got it.
    Receive {
        /// The sender.
        from: Tid,
        /// The number of the message among those of its kind from this sender.
        number: Number,
        /// Its kind.
        kind: Kind,
        /// Length of its body.
        bytes: u64,
    },
    /// Waited for a message that did not come.
    Wait,
    /// Asked the daemon for something; the tag of the request.
    Request(i32),
    /// Did something with other members of a group; what it sent and waited for meanwhile lies within.
    Group {
        /// What: the call's name without `pvm_`.
        call: String,
        /// The group.
        group: String,
    },
}

/// Counts the messages of one kind from one task to another, from 1; `None` when too many kinds are in use.
pub type Number = Option<u64>;

/// What messages have in common that are taken in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Kind {
    /// Context.
    pub context: i32,
    /// Tag.
    pub tag: i32,
}
