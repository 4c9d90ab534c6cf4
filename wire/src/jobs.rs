//! Jobs of the machine's queues: what is submitted, what is told of it, and what the master and the hosts say to each other.

use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::str::FromStr;

/// Most tasks of a job.
pub const JOB_TASKS_MAX: u32 = 1_000_000;
/// Environment variables of a job's tasks: the job's number, its name, the task's number, and how many tasks it has.
pub const VARIABLES: [&str; 4] = ["PVM_JOB_ID", "PVM_JOB_NAME", "PVM_JOB_TASK", "PVM_JOB_TASKS"];

/// Environment variable of a parallel job's tasks: the name of the group in which they are members ([`group_of`]).
pub const GROUP_VARIABLE: &str = "PVM_JOB_GROUP";

/// The group of a parallel job: its tasks are members from their start on, each with its number as instance.
pub fn group_of(job: JobId) -> String {
    format!("job.{job}")
}

/// A job's number: from 1 on, and never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.map(Self).ok_or_else(|| format!("{text:?} is no job: jobs have numbers from 1 on"))
    }
}

/// When jobs were written to disk. Of two files of one machine the later one has what has become of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// A number drawn when the first job was submitted. It stays when the machine ends and starts again.
    pub machine: u64,
    /// Counts its starts.
    pub run: u64,
    /// Counts the masters of one start.
    pub reign: u64,
}

impl Stamp {
    /// Whether it is the later one of the same machine.
    pub fn is_later_than(&self, other: &Self) -> bool {
        self.machine == other.machine && (self.run, self.reign) > (other.run, other.reign)
    }
}

/// What is submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Its name, for people.
    pub name: String,
    /// Whose share of the machine it counts to.
    pub user: String,
    /// The queue; the first that takes it if there is none.
    pub queue: Option<String>,
    /// Its tasks.
    pub tasks: Tasks,
    /// What each of them runs.
    pub program: TaskProgram,
    /// Names of hosts that it may run on, in which `*` stands for any text; none: all of the queue's.
    pub hosts: Vec<String>,
    /// Jobs that must have ended well before it may start.
    pub after: Vec<JobId>,
    /// How often a task that fails is started again.
    pub restarts: u32,
    /// Whether it is held at first.
    pub is_held: bool,
    /// The job of another machine that it is.
    pub origin: Option<Origin>,
}

/// A job of another virtual machine, which has lent it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The machine, under its name here.
    pub machine: String,
    /// When the job was submitted there, in milliseconds since 1970: a machine that has lost its jobs counts from 1 again.
    pub submitted: u64,
    /// Its number there.
    pub job: JobId,
}

impl JobRequest {
    /// A single task that runs a program in a folder and fills one slot; its output is discarded.
    pub fn new(
        program: impl Into<OsString>,
        user: impl Into<String>,
        directory: impl Into<OsString>,
    ) -> Self {
        let file = program.into();
        let name = file.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            user: user.into(),
            queue: None,
            tasks: Tasks::Array { first: 0, count: 1, at_once: None },
            program: TaskProgram {
                file,
                args: Vec::new(),
                env: Vec::new(),
                directory: directory.into(),
                output: None,
                slots: 1,
                time: None,
                memory: None,
            },
            hosts: Vec::new(),
            after: Vec::new(),
            restarts: 0,
            is_held: false,
            origin: None,
        }
    }
}

/// The tasks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tasks {
    /// Independent ones, each of which starts when there is room for it.
    Array {
        /// The number of the first.
        first: u32,
        /// How many.
        count: u32,
        /// Most that run at a time; `None`: any number.
        at_once: Option<u32>,
    },
    /// A parallel program: all start at once, or none does.
    Rigid(u32),
}

impl Tasks {
    /// How many.
    pub fn count(self) -> u32 {
        match self {
            Self::Array { count, .. } | Self::Rigid(count) => count,
        }
    }

    /// The number of the first.
    pub fn first(self) -> u32 {
        match self {
            Self::Array { first, .. } => first,
            Self::Rigid(_) => 0,
        }
    }
}

/// What a task runs, and within which limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProgram {
    /// A path, or a name to be found on the host's search path.
    pub file: OsString,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// `NAME=value` entries added to the daemon's environment.
    pub env: Vec<OsString>,
    /// Where it runs; the file for its output is found from there, too.
    pub directory: OsString,
    /// The file that its standard output and error are appended to ([`OutputName`]); `None`: they are discarded.
    pub output: Option<OsString>,
    /// Slots that it fills.
    pub slots: u32,
    /// The longest it may run, in milliseconds.
    pub time: Option<u64>,
    /// The most memory of their own that its processes may have, in bytes: each (`RLIMIT_DATA`, getrlimit(2)), and all together.
    pub memory: Option<u64>,
}

/// The name of a file for a task's output: `%j` stands for the job's number, `%t` for the task's, `%n` for the job's name, `%%` for `%`.
#[derive(Clone, Copy, Debug)]
pub struct OutputName<'a> {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: &'a str,
    /// The task's number.
    pub task: u32,
}

impl OutputName<'_> {
    /// The name for a pattern.
    pub fn of(&self, pattern: &OsStr) -> OsString {
        let mut name = Vec::with_capacity(pattern.len());
        let mut bytes = pattern.as_bytes().iter();
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                name.push(byte);
                continue;
            }
            match bytes.next() {
                Some(b'j') => name.extend(self.job.to_string().bytes()),
                Some(b't') => name.extend(self.task.to_string().bytes()),
                Some(b'n') => name.extend(self.name.bytes()),
                Some(b'%') | None => name.push(b'%'),
                Some(&other) => name.extend([b'%', other]),
            }
        }
        OsString::from_vec(name)
    }
}

/// What a task, or the console, asks of the queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobCall {
    /// Take this job; answered by [`JobAnswer::Submitted`] when it is on disk.
    Submit(Box<JobRequest>),
    /// These jobs. The answer has as many as it has room for, at least one: [`JobCall::rest`] asks for the others.
    List(Vec<JobId>),
    /// The jobs that have not ended and have numbers above this one.
    Live {
        /// The number.
        above: JobId,
    },
    /// The jobs that have ended, the latest first.
    History {
        /// How many of the latest are left out.
        skip: u32,
        /// How many, at most.
        most: u32,
    },
    /// As `List`, when all of these have ended.
    Wait(Vec<JobId>),
    /// End these. Answered by [`JobAnswer::Changed`], as the next two.
    Cancel(Vec<JobId>),
    /// Start nothing more of these.
    Hold(Vec<JobId>),
    /// Start them again.
    Release(Vec<JobId>),
    /// The queues.
    Queues,
    /// Read the file of queues again; answered as `Queues`.
    Reload,
    /// The clusters.
    Clusters,
    /// Lend a job to another machine: it does not run here any more. Answered by `Lent` when that is on disk.
    Lend {
        /// The job.
        job: JobId,
        /// The machine's name here.
        peer: String,
    },
    /// The number of a lent job there.
    NoteLent {
        /// The job.
        job: JobId,
        /// Its number there.
        number: JobId,
    },
    /// A lent job has ended there, or was not taken.
    GiveBack {
        /// The job.
        job: JobId,
        /// How it has ended, if it has.
        record: Option<Box<JobRecord>>,
    },
    /// How many slots are free that no job waits for.
    Room,
    /// The jobs that are lent to a machine, and the first that may be.
    Exchange {
        /// The machine.
        peer: String,
    },
}

impl JobCall {
    /// The call for these jobs; without any for all that have not ended.
    pub fn list(ids: Vec<JobId>) -> Self {
        if ids.is_empty() { Self::Live { above: JobId(0) } } else { Self::List(ids) }
    }

    /// The call for the rest of what was asked for, when these have been told and there is more.
    #[must_use]
    pub fn rest(self, told: &[JobRecord]) -> Self {
        match self {
            Self::List(mut ids) | Self::Wait(mut ids) => {
                ids.drain(..told.len().min(ids.len()));
                Self::List(ids)
            }
            Self::Live { above } => Self::Live { above: told.last().map_or(above, |job| job.id) },
            Self::History { skip, most } => {
                let count = told.len() as u32;
                Self::History { skip: skip.saturating_add(count), most: most.saturating_sub(count) }
            }
            other => other,
        }
    }

    /// Asks for jobs until all are told. `None`: an answer is of another kind.
    ///
    /// # Errors
    ///
    /// Those of `ask`.
    pub fn all_jobs<E>(
        mut self,
        mut ask: impl FnMut(Self) -> Result<JobAnswer, E>,
    ) -> Result<Option<Vec<JobRecord>>, E> {
        let mut all = Vec::new();
        loop {
            let JobAnswer::Jobs { jobs, more } = ask(self.clone())? else { return Ok(None) };
            // An answer without any would be followed by the same for ever.
            let more = more && !jobs.is_empty();
            self = self.rest(&jobs);
            all.extend(jobs);
            if !more {
                return Ok(Some(all));
            }
        }
    }
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobAnswer {
    /// It waits, or runs, under this number.
    Submitted(JobId),
    /// Jobs.
    Jobs {
        /// In the order in which they were asked for.
        jobs: Vec<JobRecord>,
        /// Whether there are more, for which there was no room.
        more: bool,
    },
    /// Per job whether anything has changed, or why it cannot.
    Changed(Vec<Result<bool, String>>),
    /// Queues.
    Queues(Vec<QueueRecord>),
    /// Clusters.
    Clusters(Vec<ClusterRecord>),
    /// The job that was lent.
    Lent(Box<JobRequest>),
    /// Free slots.
    Room(u32),
    /// The call is refused: the reason.
    Refused(String),
}

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

/// A named set of hosts, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Its name.
    pub name: String,
    /// Names of the hosts that have its properties now.
    pub hosts: Vec<String>,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names() {
        let name = OutputName { job: JobId(7), name: "sweep", task: 12 };
        let of = |pattern: &str| name.of(OsStr::new(pattern)).into_string().unwrap();
        assert_eq!(of("out/%n-%j.%t"), "out/sweep-7.12");
        assert_eq!(of("100%%-%x%"), "100%-%x%");
    }

    #[test]
    fn job_numbers() {
        assert_eq!("17".parse(), Ok(JobId(17)));
        for wrong in ["0", "-1", "x", "", "1.5"] {
            assert!(wrong.parse::<JobId>().is_err_and(|error| error.contains("is no job")), "{wrong}");
        }
    }
}
