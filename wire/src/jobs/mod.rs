//! Jobs of the machine's queues: what is submitted, what is told of it, and what the master and the hosts say to each other.

mod calls;
mod orders;
mod records;

pub use calls::{JobAnswer, JobCall};
pub use orders::{JobSent, TaskEvent, TaskOrder, TaskReport};
pub use records::{
    ClusterRecord, ClusterShare, Expected, HostCluster, JobRecord, JobState, LentRecord, QueueRecord,
    RunRecord, WantedList, WantedRecord,
};

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
    /// What is known of its run, if it is a parallel program.
    pub expectation: Expectation,
}

/// What is known of the run of a parallel program before it starts, in the terms of the model of co-allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// `BWBN`: bits per second between two of its tasks; 0 for none.
    pub bandwidth: u64,
    /// `T_0`: its run time in the fastest cluster, in milliseconds.
    pub run: Option<u64>,
    /// `T_C`: how much longer it takes, in milliseconds, when it spans clusters whose links are free.
    pub communication: Option<u64>,
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
            expectation: Expectation::default(),
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
