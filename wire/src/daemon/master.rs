//! What hosts say to the master, and the master to hosts.

use super::RequestId;
use super::moves::Attempt;
use crate::blob::Blob;
use crate::host_table::{HostEntry, HostTable};
use crate::jobs::{JobAnswer, JobCall, JobId, JobSent, Stamp, TaskOrder, TaskReport};
use crate::tid::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a host asks for a place, and what it has earned (policy `bidding`). The unit is a thousandth of the price of a host that has one task
/// for each slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The price of the next place.
    pub price: u64,
    /// What was paid for the last one.
    pub last: u64,
    /// Places sold.
    pub sold: u64,
    /// What was paid for all of them.
    pub income: u64,
}

/// What hosts say to the master. A host keeps it until the master has heard it, and says it again to the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToMaster {
    /// Asks for something; answered by a `Reply` with the same id.
    Request {
        /// Pairs the two.
        id: RequestId,
        /// What.
        what: MasterRequest,
    },
    /// The answer to a request is not wanted any more.
    Withdraw {
        /// Which.
        id: RequestId,
    },
    /// This host knows the hosts of a table.
    TableAck {
        /// Of the table.
        serial: u64,
        /// Slots of the host, for tasks of jobs.
        slots: u32,
        /// When jobs were written to its disk, if they ever were.
        saved: Option<Stamp>,
    },
    /// Answers `SendSavedJobs`: the jobs that this host has on disk, piece by piece.
    SavedJobs {
        /// When they were written; `None`: they cannot be read.
        stamp: Option<Stamp>,
        /// A piece.
        jobs: Vec<Blob>,
        /// Whether another follows.
        more: bool,
    },
    /// A task of a parallel job is about to start, and is a member of the job's group.
    JoinGroup {
        /// The task, of the sender's host.
        tid: Tid,
        /// The group.
        name: String,
        /// Its instance there.
        instance: u32,
    },
    /// What has happened to tasks of jobs that this host was given.
    TaskReports {
        /// In order.
        reports: Vec<TaskReport>,
    },
    /// What tasks of parallel jobs have sent to other hosts since this was said last.
    JobTraffic {
        /// By job and host.
        sent: Vec<JobSent>,
    },
    /// What a place on this host costs, for the public list.
    Offer(Offer),
    /// Answers `MeasureLink`.
    LinkMeasured {
        /// The other host.
        to: HostIndex,
        /// Bits per second; `None`: it is no member.
        bandwidth: Option<u64>,
    },
    /// A neighbour says nothing, and may be lost.
    HostSilent {
        /// Which.
        host: HostIndex,
    },
    /// The link to another host broke, or cannot be made.
    LinkLost {
        /// To which.
        host: HostIndex,
        /// Whether it is proved that the other daemon has ended.
        has_ended: bool,
        /// Why, for the log.
        reason: String,
    },
    /// A watched task has ended.
    TaskGone {
        /// The task.
        tid: Tid,
    },
    /// Answers a `Ping`.
    Pong {
        /// Which.
        id: u64,
    },
    /// A task's message to the keeper of groups.
    Keeper {
        /// The task.
        from: Tid,
        /// The message's context.
        context: i32,
        /// Its tag.
        tag: i32,
        /// Its body.
        body: Blob,
    },
    /// Answers `StartDaemon`.
    DaemonStarted {
        /// Of which host.
        host: HostIndex,
        /// The daemon's line, or why there is none.
        answer: Result<String, String>,
    },
    /// A task of this host is to move.
    MoveBegins {
        /// Which, and which time.
        attempt: Attempt,
        /// Where to.
        to: HostIndex,
    },
    /// It does not move.
    MoveEnds(Attempt),
    /// A task that moves can live here from now on.
    Arrived {
        /// Which, and which time.
        attempt: Attempt,
        /// The hosts that keep what is for it.
        hosts: Vec<HostIndex>,
    },
    /// A task has ended that had moved.
    MovedTaskGone {
        /// Which.
        tid: Tid,
    },
    /// End the virtual machine.
    Halt,
}

/// What the master says to hosts. It keeps it until the host has heard it, and the next master says it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromMaster {
    /// Answers a `Request`.
    Reply {
        /// Pairs the two.
        id: RequestId,
        /// What came of it.
        what: MasterReply,
    },
    /// These hosts are to be members; acknowledge.
    TableUpdate {
        /// Counts up per change.
        serial: u64,
        /// The members, for a newcomer; nobody for others.
        members: HostTable,
        /// The newcomers.
        added: HostTable,
        /// For a newcomer: where tasks live that have moved.
        moved: Vec<(Tid, HostIndex)>,
    },
    /// The hosts of the last table are members now.
    TableCommit {
        /// Of the table.
        serial: u64,
    },
    /// A host is out.
    HostGone {
        /// Which.
        host: HostIndex,
        /// Why, for the log.
        reason: String,
    },
    /// Tell when this task ends; at once if it is not there.
    WatchTask {
        /// The task, of the receiver's host.
        tid: Tid,
    },
    /// Answer, when all that was said before has been passed on to tasks.
    Ping {
        /// Pairs question and answer.
        id: u64,
    },
    /// A message of the keeper of groups.
    Keeper {
        /// The tasks of the receiver's host that it is for.
        to: Vec<Tid>,
        /// Its context.
        context: i32,
        /// Its tag.
        tag: i32,
        /// Its body.
        body: Blob,
    },
    /// Start a daemon on another host, which waits there for the master.
    StartDaemon {
        /// The host.
        host: HostIndex,
        /// The program that reaches it, and its arguments.
        command: Vec<String>,
        /// How long that may take.
        timeout: Duration,
    },
    /// Run tasks of a job.
    RunTasks(Box<TaskOrder>),
    /// End some tasks of a job; those that have not started are given back.
    StopTasks {
        /// Which job.
        job: JobId,
        /// The tasks' numbers.
        tasks: Vec<u32>,
    },
    /// End the tasks of a job, and start no more of those that were given.
    EndTasks {
        /// Which.
        job: JobId,
    },
    /// Measure how much can be sent to another host per second. One host at a time is told to.
    MeasureLink {
        /// The other host.
        to: HostIndex,
    },
    /// Send the jobs that are on disk there.
    SendSavedJobs,
    /// A task may begin to move.
    MoveBegun(Attempt),
    /// A task does not move.
    MoveRefused(Attempt),
    /// A task has moved.
    Moved {
        /// Which, and which time.
        attempt: Attempt,
        /// Where it lives now.
        to: HostIndex,
    },
    /// A task that had moved has ended: its id means nothing any more.
    MovedTaskGone {
        /// Which.
        tid: Tid,
    },
    /// The deputies: the hosts that hold the master's state, the master among them.
    Deputies {
        /// By ascending index.
        hosts: Vec<HostIndex>,
    },
}

/// What the master is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MasterRequest {
    /// Add these hosts (strings as in a hostfile).
    AddHosts {
        /// One per host.
        hosts: Vec<String>,
    },
    /// Delete these hosts.
    DeleteHosts {
        /// Their names; `.` means the asking task's host.
        names: Vec<String>,
    },
    /// An operation on the mailbox (body of TM_DB).
    Mailbox {
        /// The task that asks.
        from: Tid,
        /// The body of TM_DB.
        body: Blob,
    },
    /// A call to the queues.
    Jobs(JobCall),
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MasterReply {
    /// To `AddHosts`: per host its entry, or an error code and the reason.
    Added {
        /// In order.
        results: Result<Vec<AddResult>, i32>,
    },
    /// To `DeleteHosts`: per name 0 or an error code.
    Deleted {
        /// In order.
        results: Vec<i32>,
    },
    /// To `Mailbox`: the body of the answer to TM_DB.
    Mailbox {
        /// The body.
        body: Blob,
    },
    /// To `Jobs`.
    Jobs(JobAnswer),
}

/// What became of one host that was to be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AddResult {
    /// It is a member.
    Added(HostEntry),
    /// It is not.
    Failed {
        /// Its name, as far as it could be read.
        name: String,
        /// PVM's error code.
        code: i32,
        /// What happened, for people.
        reason: String,
    },
}
