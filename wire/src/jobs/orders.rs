//! What the master and the hosts say to each other of the tasks of jobs.

use super::{JobId, TaskProgram};
use crate::tid::{HostIndex, Tid};
use serde::{Deserialize, Serialize};

/// What the master has a host run: tasks of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Tasks of the job in all.
    pub count: u32,
    /// Whether they are members of a group.
    pub has_group: bool,
    /// The numbers of those that are to run here, as first and count.
    pub tasks: Vec<(u32, u32)>,
    /// What they run.
    pub program: TaskProgram,
}

/// What a host tells the master of a task that it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The job.
    pub job: JobId,
    /// The task's number.
    pub task: u32,
    /// What has happened.
    pub what: TaskEvent,
}

/// What the tasks of a job on the sender's host have sent to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSent {
    /// The job.
    pub job: JobId,
    /// The other host.
    pub to: HostIndex,
    /// Bytes of the messages' bodies.
    pub bytes: u64,
}

/// What happens to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskEvent {
    /// It runs.
    Started {
        /// Its id.
        tid: Tid,
    },
    /// It has ended.
    Ended {
        /// What `wait` said of it.
        status: i32,
        /// How long it ran, in milliseconds.
        ran: u64,
        /// CPU time, in microseconds.
        cpu: u64,
        /// The most memory, in bytes.
        memory: u64,
        /// The limit that it was above, for people.
        limit: Option<String>,
    },
    /// It could not be started.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// It had not started when its job was cancelled.
    Returned,
}
