//! Jobs, queues and clusters, as they are listed.

use super::{JobId, Origin, Tasks};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobState {
    /// Its user holds it.
    Held,
    /// It waits.
    Waiting,
    /// Some of its tasks run.
    Running,
    /// All its tasks have ended well.
    Done,
    /// Some of its tasks have failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Another machine has it.
    Lent,
}

impl JobState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lent => "lent",
        }
    }

    /// What is said of a job in this state.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Held => "is held",
            Self::Waiting => "waits",
            Self::Running => "runs",
            Self::Done => "has ended well",
            Self::Failed => "has failed",
            Self::Cancelled => "was cancelled",
            Self::Lent => "is lent to another machine",
        }
    }

    /// Whether nothing more happens to it.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A job, as it is listed. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its number.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Its queue.
    pub queue: String,
    /// How far it is.
    pub state: JobState,
    /// What it waits for, or why it has failed; empty if there is nothing to be said.
    pub reason: String,
    /// Its tasks.
    pub tasks: Tasks,
    /// Slots of each.
    pub slots: u32,
    /// What it runs.
    pub command: Vec<OsString>,
    /// Where.
    pub directory: OsString,
    /// Tasks that wait.
    pub waiting: u32,
    /// Tasks that run, or were given to a host.
    pub running: u32,
    /// Tasks that ended well.
    pub done: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks that were cancelled.
    pub cancelled: u32,
    /// Starts beyond the first of a task.
    pub restarts: u32,
    /// Hosts on which tasks run or have run.
    pub hosts: Vec<String>,
    /// When it was submitted.
    pub submitted: u64,
    /// When its first task started.
    pub started: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// CPU time of its tasks that have ended, in microseconds.
    pub cpu: u64,
    /// The most memory that one of them has used, in bytes.
    pub memory: u64,
    /// What `wait` said of the last task that failed.
    pub status: i32,
    /// Where it is lent to.
    pub lent: Option<LentRecord>,
    /// Where it comes from.
    pub origin: Option<Origin>,
    /// Whether another machine may have it now.
    pub may_be_lent: bool,
    /// Where it runs and when it ends by the model of co-allocation, if it is a parallel program.
    pub run: RunRecord,
}

/// The last run of a parallel program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The clusters of the hosts that it has or had, and its tasks there; none before it starts.
    pub clusters: Vec<ClusterShare>,
    /// When it ends by the model, in milliseconds since 1970; `None`: its run time is not known.
    pub predicted: Option<u64>,
    /// Bits per second between two of its tasks, as its submission or earlier runs of its program say.
    pub bandwidth: u64,
    /// The same, measured, while it spans clusters; `None`: it has not been.
    pub measured: Option<u64>,
}

/// Tasks in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterShare {
    /// The cluster; `None`: the hosts without one.
    pub cluster: Option<String>,
    /// How many.
    pub tasks: u32,
}

/// Where a job is lent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentRecord {
    /// The machine.
    pub peer: String,
    /// The job's number there, if it is known.
    pub number: Option<JobId>,
    /// Whether it is to be cancelled there.
    pub is_cancelled: bool,
}

/// A queue, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// Its hosts; none: all.
    pub hosts: Vec<String>,
    /// Its properties and limits, as the file has them: name and value.
    pub limits: Vec<(String, String)>,
    /// Whether it starts jobs at this time of the week.
    pub is_open: bool,
    /// Jobs that wait.
    pub waiting: u32,
    /// Slots in use.
    pub running: u32,
}

/// A cluster of hosts that share a link to all others (`cluster=` of the hostfile), as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCluster {
    /// Its name; `None`: the hosts without a cluster.
    pub name: Option<String>,
    /// Names of its hosts that are in the machine.
    pub hosts: Vec<String>,
    /// Their slots.
    pub slots: u32,
    /// Those that are free.
    pub free: u32,
    /// `h`: how much longer a task takes than in the fastest cluster.
    pub factor: f64,
    /// Bandwidth of its link, in bits per second, if it is known.
    pub bandwidth: Option<u64>,
    /// Whether it was measured, as the hostfile does not say it.
    pub is_bandwidth_measured: bool,
    /// What running jobs ask of the link, in bits per second: of each what the model says, or what was measured if that is more.
    pub demand: f64,
    /// What tasks of these jobs have sent over the link lately, in bits per second: the greater one of both directions.
    pub measured: f64,
    /// `CF`, the bandwidth divided by the demand, if there are both. Below 1 the link is congested.
    pub congestion: Option<f64>,
}

/// A named set of hosts, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Its name.
    pub name: String,
    /// Names of the hosts that have its properties now.
    pub hosts: Vec<String>,
}

/// Tasks of a job that wait for nothing but room on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedRecord {
    /// The job.
    pub job: JobId,
    /// How many of its tasks might start if there were room.
    pub tasks: u32,
    /// Slots of each.
    pub slots: u32,
    /// Whether all start at once, or none.
    pub is_rigid: bool,
}

/// What waits for room on hosts, and the room that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedList {
    /// What waits, in the order of the jobs' numbers.
    pub jobs: Vec<WantedRecord>,
    /// Hosts, and their slots that no task of a job fills.
    pub free: Vec<(String, u32)>,
}

/// Hosts that a program can have added when jobs want them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The program: what it has said before does not count any more.
    pub by: String,
    /// How many; 0: none any more.
    pub hosts: u32,
    /// Slots of each, if they are known.
    pub slots: Option<u32>,
}
