//! What daemons and task managers say to each other while a batch is placed (papers, section 1; design D6).
//!
//! Each message is bincode in the body of an ordinary PVM message with the tag [`crate::codes::BATCH_TAG`]. The
//! *home* daemon (the spawner's) holds the truth about a batch; the manager decides how many tasks each node gets.

use crate::codec::{self, CodecError};
use crate::tid::HostIndex;
use serde::{Deserialize, Serialize};

/// Names a batch within its home daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId {
    /// The spawner's host.
    pub home: HostIndex,
    /// Counts up per home.
    pub number: u64,
}

/// A node that may be given tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The node.
    pub host: HostIndex,
    /// `C_i`; 1000 is a reference core.
    pub capability: f64,
    /// Most tasks of this batch it may be given by the soft rule.
    pub limit: u32,
}

/// The quantities of the formula at one grant, for the trace (papers, section 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// `P`, the node's threshold.
    pub p: u64,
    /// `P_c`, what filled the node when it asked.
    pub p_c: u64,
    /// `N_a = P − P_c`, what the node asked for.
    pub n_a: i64,
    /// `T_c`, tasks still to be placed.
    pub t_c: u64,
    /// `N_c`, nodes that had not applied in this round.
    pub n_c: u64,
    /// `C_i`, the node's capability.
    pub c_i: f64,
    /// `C_A`, the mean capability.
    pub c_a: f64,
}

/// What a node says when it asks for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// `P`.
    pub p: u64,
    /// `P_c`.
    pub p_c: u64,
    /// `N_a = P − P_c`.
    pub n_a: i64,
}

/// A message about a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BatchMsg {
    /// Home → manager: place this batch.
    Place {
        /// The batch.
        batch: BatchId,
        /// Tasks to place.
        count: u64,
        /// Nodes that are told.
        nodes: Vec<Node>,
        /// Whether `P` gives way when all nodes have declined.
        soft: bool,
        /// Name of the policy.
        policy: String,
        /// The host that was given tasks last, for policies that go on from there.
        last: HostIndex,
        /// What the home, if it is one of the nodes, asks for: it knows that tasks wait, and is not told.
        own: Option<Application>,
    },
    /// Home → manager: these came back (their host died before starting them).
    More {
        /// The batch.
        batch: BatchId,
        /// Tasks to place again.
        count: u64,
    },
    /// Home → manager: a host joined.
    NodeJoined {
        /// The batch.
        batch: BatchId,
        /// The newcomer.
        node: Node,
    },
    /// Home → manager: a host left.
    NodeGone {
        /// The batch.
        batch: BatchId,
        /// Who.
        host: HostIndex,
    },
    /// Home → manager: every task of the batch is started or failed; the manager is idle again.
    Done {
        /// The batch.
        batch: BatchId,
    },
    /// Manager → node: tasks wait (`DM_TASKSHAVE`).
    TasksHave {
        /// The batch.
        batch: BatchId,
        /// Whether they wait until there is room: the node's slots count, not its task target.
        queued: bool,
    },
    /// Manager → node: none are left (`DM_TASKSNO`).
    TasksNo {
        /// The batch.
        batch: BatchId,
    },
    /// Node → manager: I take up to `n_a`; 0 or less declines for now.
    Apply {
        /// The batch.
        batch: BatchId,
        /// The node.
        host: HostIndex,
        /// `P`.
        p: u64,
        /// `P_c`.
        p_c: u64,
        /// `N_a = P − P_c`.
        n_a: i64,
        /// `C_i`.
        capability: f64,
    },
    /// Manager → home: give this node a number of tasks.
    Grant {
        /// The batch.
        batch: BatchId,
        /// The node.
        host: HostIndex,
        /// `N`.
        n: u64,
        /// What `N` was computed from, beyond which there may be what the soft rule adds; `None` if all is by that.
        terms: Option<Terms>,
    },
    /// Manager → home: no node is left that could take the rest.
    NoNodes {
        /// The batch.
        batch: BatchId,
    },
}

impl BatchMsg {
    /// The batch that it is about.
    pub fn batch(&self) -> BatchId {
        match *self {
            Self::Place { batch, .. }
            | Self::More { batch, .. }
            | Self::NodeJoined { batch, .. }
            | Self::NodeGone { batch, .. }
            | Self::Done { batch }
            | Self::TasksHave { batch, .. }
            | Self::TasksNo { batch }
            | Self::Apply { batch, .. }
            | Self::Grant { batch, .. }
            | Self::NoNodes { batch } => batch,
        }
    }

    /// The body of the PVM message.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self)
    }

    /// The message in a body.
    pub fn decode(body: &[u8]) -> Result<Self, CodecError> {
        codec::decode(body)
    }
}
