//! All that can happen to a daemon, and all that it can do: the whole boundary between the core and its driver.

use crate::config::SavedState;
use crate::hostfile::HostSpec;
use bytes::Bytes;
use pvm_sched::queues::Configuration;
use pvm_wire::certificate::{CertificateRequest, Certified};
use pvm_wire::coscheduling::Turn;
use pvm_wire::daemon::{Blob, DaemonMsg, HostEntry, RequestId};
use pvm_wire::group::{Key, Passed};
use pvm_wire::jobs::Stamp;
use pvm_wire::owner::Held;
use pvm_wire::slave::Fingerprint;
use pvm_wire::{FragmentHeader, HostIndex, PvmError, Tid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitStatus;
use std::time::Duration;

pub use pvm_sched::coscheduling::Work;

/// Time since an origin of the driver's choosing; only differences mean anything.
pub type Now = Duration;

/// Names a task's connection. The driver counts up and never reuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnId(pub u64);

/// Names a process that the core asked for; goes into its environment as `PVMEPID`, by which it is known when it enrols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub i32);

/// Names one operation that adds hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AddId(pub u64);

/// A host's load besides that of its cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Processes that run or want to: the kernel's averages over 1, 5 and 15 minutes.
    pub run_queue: [f64; 3],
    /// Memory of the host, in bytes.
    pub memory: u64,
    /// Memory that a new program can have, in bytes.
    pub free: u64,
    /// Users that own a terminal.
    pub users: u16,
    /// When a terminal last had input, in seconds since 1970.
    pub input: Option<u64>,
    /// By how many seconds local clocks are ahead of universal time.
    pub local_time: i32,
}

/// What tells of a host's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSign {
    /// A terminal had input this long ago.
    Input {
        /// How long.
        ago: Duration,
    },
    /// Whether a session of the login manager is in use.
    Session(bool),
    /// Whether others' work keeps the host busy.
    Busy(bool),
    /// What the command of the rule says.
    Says(bool),
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A task connected to the task socket (same user, as the socket's credentials show).
    TaskConnected {
        /// Its connection.
        conn: ConnId,
    },
    /// The channel that a process of [`Action::Start`] has inherited can be read. Comes behind `ProcessStarted`.
    ChannelOpen {
        /// The connection.
        conn: ConnId,
        /// Whose.
        cookie: Cookie,
    },
    /// A piece of a message came from a task. A fragment longer than `limits::PIECE_MAX` comes as several pieces: the
    /// first has the whole message header and keeps SOM, the last keeps EOM; `length` is the piece's own.
    Fragment {
        /// From which connection.
        conn: ConnId,
        /// Its header, source field as the task wrote it.
        header: FragmentHeader,
        /// Its data.
        data: Bytes,
    },
    /// A task's connection is closed or broken.
    TaskClosed {
        /// Which.
        conn: ConnId,
        /// Why, unless it was closed in order.
        reason: Option<String>,
    },
    /// How many barriers a task has passed in one of its groups: the answer to [`Action::CloseLedger`], and for each of its groups before
    /// [`Self::TaskClosed`].
    BarriersPassed {
        /// On which connection.
        conn: ConnId,
        /// The group.
        group: Key,
        /// What the task has written, if it has written anything.
        passed: Option<Passed>,
    },
    /// Answer to [`Action::OpenAuth`]: the daemon's own file, or why the task's file could not be written.
    AuthOpened {
        /// For which connection.
        conn: ConnId,
        /// Path of the daemon's file.
        result: Result<String, String>,
    },
    /// Answer to [`Action::CheckAuth`].
    AuthChecked {
        /// For which connection.
        conn: ConnId,
        /// Whether the task had written into the daemon's file.
        proven: bool,
    },
    /// Bytes of earlier [`Action::Send`]s (header and data counted) have been written.
    TaskDrained {
        /// To which connection.
        conn: ConnId,
        /// How many.
        bytes: usize,
    },
    /// A process of [`Action::Start`] runs, or could not be started. Comes before any other event about it.
    ProcessStarted {
        /// Which.
        cookie: Cookie,
        /// Its process id and the path found (for people), or PVM's code (`NoFile`, `OutOfRes`) and the reason.
        result: Result<(i32, String), (PvmError, String)>,
    },
    /// A process wrote to its standard output or error.
    ProcessOutput {
        /// Which.
        cookie: Cookie,
        /// What, at most `limits::OUTPUT_PIECE` bytes.
        data: Bytes,
    },
    /// A process's output has ended.
    ProcessOutputEnd {
        /// Which.
        cookie: Cookie,
    },
    /// Answer to [`Action::Locate`].
    Located {
        /// For which processes.
        cookies: Vec<Cookie>,
        /// The path found and the environment, or PVM's code and the reason.
        result: Result<(OsString, Vec<OsString>), (PvmError, String)>,
    },
    /// A child has ended and was reaped.
    ProcessExited {
        /// Which.
        cookie: Cookie,
        /// How.
        status: ExitStatus,
        /// What it and its children have used.
        used: Used,
    },
    /// A link to another daemon stands in both directions, identities proved.
    PeerLinked {
        /// To which.
        host: HostIndex,
    },
    /// A link asked for by [`Action::Link`] could not be made.
    LinkFailed {
        /// To which.
        host: HostIndex,
        /// Why.
        reason: String,
    },
    /// A daemon said something.
    PeerMessage {
        /// Which.
        host: HostIndex,
        /// What.
        message: DaemonMsg,
    },
    /// A link is broken or silent for too long.
    PeerLost {
        /// To which.
        host: HostIndex,
        /// Why.
        reason: String,
        /// Whether it is proved that the other daemon has ended: its host answers that nobody listens where it did, and it was heard so
        /// lately that it cannot have given up this host before.
        has_ended: bool,
    },
    /// Nothing has come over a link for half of the time after which it is lost, and there is no proof that the other daemon has ended.
    PeerSilent {
        /// To which.
        host: HostIndex,
    },
    /// Bytes of `Data` messages (only their `data` counted) have been taken by the link.
    PeerDrained {
        /// To which host.
        host: HostIndex,
        /// How many.
        bytes: usize,
    },
    /// Answer to [`Action::Resolve`], in the order of the names.
    Resolved {
        /// For which operation.
        add: AddId,
        /// Addresses, or why there is none.
        results: Vec<Result<Found, String>>,
    },
    /// Answer to [`Action::StartHost`].
    HostStarted {
        /// Which host.
        index: HostIndex,
        /// What its daemon said, or why there is none.
        result: Result<StartedHost, StartFailure>,
    },
    /// Answer to [`Action::StartDaemon`].
    DaemonStarted {
        /// Of which host.
        index: HostIndex,
        /// The daemon's line, or why there is none.
        answer: Result<String, String>,
    },
    /// The processes of a task have more memory together than they may.
    OverMemory {
        /// The task.
        cookie: Cookie,
        /// What they may have, in bytes.
        limit: u64,
    },
    /// The host's load was read.
    Load {
        /// Cores that were busy on average since the reading before, with work of any program.
        busy_cores: f64,
    },
    /// Something tells of this host's owner.
    Owner(OwnerSign),
    /// The rest of the host's load was read.
    Sampled(Sample),
    /// The memory of tasks was measured ([`Action::MeasureMemory`]).
    TaskMemory {
        /// The mean of those that run still, in bytes.
        mean: u64,
    },
    /// Answer to [`Action::ReadQueues`].
    QueuesRead {
        /// The queues and clusters of the file, or what is wrong with it.
        result: Result<Configuration, String>,
    },
    /// Answer to [`Action::ReadTimes`].
    Times {
        /// Whose question it was.
        host: HostIndex,
        /// Which.
        id: RequestId,
        /// By what means processes are held.
        means: &'static str,
        /// For how long the daemon spins at present before it sleeps.
        spin: Duration,
        /// CPU time that each process has used, and how long it has wanted a processor and had none, in the order of the question;
        /// zero if it is not there.
        times: Vec<(Duration, Duration)>,
    },
    /// Answer to [`Action::Certify`].
    Certified {
        /// Whose question it was.
        host: HostIndex,
        /// Which.
        id: RequestId,
        /// The certificate, or PVM's code and the reason.
        result: Result<Certified, (PvmError, String)>,
    },
    /// Answer to [`Action::ReadUsage`].
    Usage {
        /// What each process has done so far, in the order of the question; nothing if it is not there.
        work: Vec<Work>,
        /// CPU time that this daemon has used since the answer before, looking left out.
        own: Duration,
        /// Whether held processes use what the others leave.
        leaves_rest: bool,
    },
    /// Answer to [`Action::ReadSaved`].
    SavedRead {
        /// When they were written, and the jobs; `None`: they cannot be read.
        saved: Option<(Stamp, Vec<Blob>)>,
    },
    /// Answer to [`Action::SaveJobs`].
    JobsSaved {
        /// Which.
        serial: u64,
        /// Why it failed, if it did; nothing is written then.
        failure: Option<String>,
    },
    /// The daemon is told to end (a signal).
    Terminate {
        /// By what.
        reason: String,
    },
}

/// The address of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The address.
    pub address: IpAddr,
    /// Whether it is this host's own.
    pub own: bool,
}

/// What a new daemon says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedHost {
    /// Its architecture.
    pub arch: String,
    /// Its data signature.
    pub signature: u32,
    /// `C_i`; 1000 is a reference core.
    pub capability: f64,
    /// Tasks above which it starts none.
    pub task_limit: u32,
    /// Where it waits for links.
    pub address: SocketAddr,
}

/// Why a host's daemon does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartFailure {
    /// PVM's code: `CantStart`, `BadVersion`, …
    pub error: PvmError,
    /// What happened, with what the starter printed.
    pub reason: String,
    /// Whether another attempt may succeed: the connection failed, not the command that was run over it.
    pub is_passing: bool,
}

/// What a process that has ended and its children have used (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time.
    pub cpu: Duration,
    /// The most memory of one of them, in bytes.
    pub memory: u64,
}

/// A program to start, some number of times.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Program {
    /// A path, or a name to look for on the search path.
    pub file: OsString,
    /// Arguments after the program's name.
    pub args: Vec<OsString>,
    /// `NAME=value` entries over the daemon's own environment. The driver adds `PVMSOCK`, `PVM_ARCH` and `PVMEPID`.
    pub env: Vec<OsString>,
    /// Directory in place of the daemon's working directory.
    pub directory: Option<OsString>,
    /// Start it under the debugger script.
    pub debug: bool,
    /// Whether it is this system's task manager: `file` is ignored, the driver knows where it is.
    pub manager: bool,
    /// What is done with its standard output and error.
    pub output: Output,
    /// Bytes of memory of its own that it may have, if that is limited.
    pub memory: Option<u64>,
}

/// What is done with the standard output and error of a program.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Output {
    /// The core reads it.
    #[default]
    Read,
    /// Nothing.
    Discard,
    /// It is appended to a file, which is made if it is not there, with its folder.
    Append(OsString),
}

/// Descriptors that go with a fragment to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// None.
    Nothing,
    /// Those that have come from this other connection.
    Shared(ConnId),
    /// The page's.
    Page,
    /// That of this daemon's memory, if the task's own can be read from now on.
    Memory,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Write a fragment to a task. `TaskDrained` reports its bytes, header included, when they are written.
    Send {
        /// To which connection.
        conn: ConnId,
        /// Its header.
        header: FragmentHeader,
        /// Its data.
        data: Bytes,
        /// What goes with it.
        with: Attachment,
    },
    /// Lend long bodies to a task.
    LendTo {
        /// On which connection.
        conn: ConnId,
    },
    /// Say this on the page that tasks can read.
    ShowTurn {
        /// What it says from now on.
        turn: Turn,
    },
    /// Count on that page that tasks of this host were notified of a change of a group.
    CountGroupChange,
    /// Let a task pass no more barriers in views of this group that are older than this epoch, and say what it has passed
    /// ([`Event::BarriersPassed`]).
    CloseLedger {
        /// On which connection.
        conn: ConnId,
        /// The group.
        group: Key,
        /// Its epoch from now on.
        epoch: i32,
    },
    /// Stop reading from a task: its receivers are slow.
    PauseReading {
        /// From which connection.
        conn: ConnId,
    },
    /// Read from a task again.
    ResumeReading {
        /// From which connection.
        conn: ConnId,
    },
    /// The connection belongs to an enrolled task now: fragments of any length are taken from it.
    Enrolled {
        /// Which.
        conn: ConnId,
    },
    /// Stop reading a process's output: its receiver is slow.
    PauseOutput {
        /// Of which process.
        cookie: Cookie,
    },
    /// Read a process's output again.
    ResumeOutput {
        /// Of which process.
        cookie: Cookie,
    },
    /// Close a connection once all that was sent is written. No `TaskClosed` follows.
    CloseTask {
        /// Which.
        conn: ConnId,
    },
    /// Write a byte into the task's file and make one of our own (PVM's handshake); answered by `AuthOpened`.
    OpenAuth {
        /// For which connection.
        conn: ConnId,
        /// The task's file.
        task_file: String,
    },
    /// See whether the task wrote into our file, and remove it; answered by `AuthChecked`.
    CheckAuth {
        /// For which connection.
        conn: ConnId,
    },
    /// Start a program once per cookie, in order; at the first failure the rest fail alike. Answered by
    /// `ProcessStarted` for each.
    Start {
        /// The processes.
        cookies: Vec<Cookie>,
        /// What each finds in the channel to this daemon that it inherits, in their order.
        greetings: Vec<Vec<u8>>,
        /// What each runs.
        program: Program,
    },
    /// Find a program that somebody else is to start, and say in what environment; answered by `Located`.
    Locate {
        /// The processes it is for.
        cookies: Vec<Cookie>,
        /// What they run.
        program: Program,
    },
    /// Measure the memory that these processes have of their own; [`Event::TaskMemory`] follows if one of them runs still.
    MeasureMemory {
        /// The processes of some tasks.
        pids: Vec<i32>,
    },
    /// Send a signal to a process.
    Signal {
        /// Which.
        pid: i32,
        /// Which signal; numbers the system does not know are ignored.
        signal: i32,
    },
    /// End what a task has started, which has ended by a signal of this daemon.
    EndFamily {
        /// The task's.
        cookie: Cookie,
        /// Processes that are tasks in their own right, which go on.
        spared: Vec<i32>,
    },
    /// Let a child run, or keep it from running as long as others of this host's tasks want to. All run at first.
    Dispatch {
        /// Which.
        pid: i32,
        /// Whether it may.
        runs: bool,
    },
    /// Hold all processes of all tasks, those that have begun since the last time, too.
    HoldTasks {
        /// Processes of this daemon that are no tasks.
        spared: Vec<i32>,
        /// How.
        held: Held,
    },
    /// Let all go on that are held so.
    LetTasksGo,
    /// Read how much CPU time processes have used; answered by `Times`.
    ReadTimes {
        /// The daemon that asks.
        host: HostIndex,
        /// Its request.
        id: RequestId,
        /// The processes.
        pids: Vec<i32>,
    },
    /// As the master: sign a certificate with the machine's authority; answered by `Certified`.
    Certify {
        /// The daemon that asks.
        host: HostIndex,
        /// Its request.
        id: RequestId,
        /// For what. Names and the length of the key are checked, the key is not.
        request: CertificateRequest,
    },
    /// Read how much CPU time those have used that take turns; answered by `Usage`.
    ReadUsage {
        /// The processes.
        pids: Vec<i32>,
    },
    /// Make a link to this daemon; answered by `PeerLinked` or `LinkFailed`.
    Link {
        /// Its entry in the host table; `address` is set.
        entry: HostEntry,
    },
    /// Close a link, after what was sent. No `PeerLost` follows.
    Unlink {
        /// To which.
        host: HostIndex,
    },
    /// Check a link at intervals that are longer by this factor. The time after which the link is lost is longer by the same factor.
    Watch {
        /// To which.
        host: HostIndex,
        /// The factor; 1 when the link is made.
        pace: u32,
    },
    /// Say something to a daemon. If it is `Data`, `PeerDrained` reports its bytes when the link has taken them.
    SendPeer {
        /// To which.
        host: HostIndex,
        /// What.
        message: DaemonMsg,
    },
    /// Find the addresses of these names; answered by `Resolved`.
    Resolve {
        /// For which operation.
        add: AddId,
        /// The names, at most 4095.
        names: Vec<String>,
    },
    /// Start a daemon on another host (`via=ssh`) or beside this one (`via=local`); answered by `HostStarted`. The
    /// driver mints the certificate and bounds the time. Several run at once.
    StartHost {
        /// Its place in the host table.
        index: HostIndex,
        /// Its line of the hostfile, defaults filled in.
        spec: HostSpec,
        /// Where it can be reached; it binds to it if it is a loopback address.
        address: IpAddr,
    },
    /// On behalf of the master: start a daemon on another host that waits there for the master; answered by `DaemonStarted`.
    StartDaemon {
        /// The host's place in the host table.
        index: HostIndex,
        /// The program that reaches the host, and its arguments.
        command: Vec<String>,
        /// How long it may take.
        timeout: Duration,
    },
    /// Give its configuration to a daemon that a hoster or another host has started; answered by `HostStarted`.
    Introduce {
        /// Its place in the host table.
        index: HostIndex,
        /// Its line of the hostfile, defaults filled in.
        spec: HostSpec,
        /// Where it waits.
        address: SocketAddr,
        /// By which it is known.
        fingerprint: Fingerprint,
    },
    /// Give up starting a host: kill the starter if it runs.
    AbandonHost {
        /// Which.
        index: HostIndex,
    },
    /// This host is the master from now on: it starts daemons on other hosts.
    BecomeMaster {
        /// The machine's certificate authority, with its key.
        authority: Blob,
        /// `PVM_VMID` of the machine.
        vmid: Option<String>,
    },
    /// Read the file of queues again; answered by `QueuesRead`.
    ReadQueues {
        /// The names of clusters of hosts.
        clusters: BTreeSet<String>,
    },
    /// Write jobs to disk, all of them or none; answered by `JobsSaved`. One is under way at a time.
    SaveJobs {
        /// Its number.
        serial: u64,
        /// Jobs by their numbers: as they are now, or `None` for those that are forgotten.
        changes: Vec<(u64, Option<Blob>)>,
        /// What is said of the machine beside them.
        state: SavedState,
    },
    /// Read the jobs that are on this host's disk; answered by `SavedRead`.
    ReadSaved,
    /// All hosts of the hostfile have been started or have failed: these, each with the reason.
    StartedUp {
        /// A line each.
        failures: Vec<String>,
    },
    /// Write a line of uncollected task output to the log.
    LogOutput {
        /// Whose.
        tid: Tid,
        /// The line, without its newline.
        line: String,
    },
    /// Remove the log at the end: nothing in it is wanted.
    DiscardLog,
    /// End: signal the children, flush the links, remove socket and address file, exit.
    Exit {
        /// Why, for the log.
        reason: String,
    },
}
