//! The virtual machine: its hosts and its tasks.

use crate::task::{Task, check_task};
use crate::tracing::{code, nothing, status};
use pvm_engine::{Error, Result};
use pvm_wire::calls::certificate::Certify;
use pvm_wire::calls::hosts::{
    AddHosts, Adding, Additions, Clock, Config, DeleteHosts, Halt, HostClock, HostList, HostRecord,
    HostStatus, StartUp,
};
use pvm_wire::calls::owner::Owner;
use pvm_wire::calls::state::Dump;
use pvm_wire::calls::tasks::{Adopt, Adopted, ListTasks, SendSignal, TaskList, TaskRecord, TaskStatus};
use pvm_wire::calls::turns::{History, Rows, Turns};
use pvm_wire::certificate::{CertificateRequest, Certified};
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::coscheduling::{TurnHistory, TurnsReport};
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::owner::{OwnerSaid, OwnerState};
use pvm_wire::rows::RowsReport;
use pvm_wire::{PvmError, Tid};
use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

/// How often a clock is read, to find out how far it is ahead.
const CLOCK_TRIES: usize = 5;

/// A host of the virtual machine.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let total: i32 = task.hosts()?.iter().map(|host| host.speed).sum();
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: String,
    /// Its speed; 1000 is the usual one.
    pub speed: i32,
    /// Its native data format: hosts with the same number read each other's raw messages.
    pub signature: u32,
}

/// Why a host could not be added.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for failure in task.add_hosts(&["node7"])?.into_iter().filter_map(Result::err) {
///     eprintln!("{}: {} ({})", failure.name, failure.reason, failure.code.name());
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct HostFailure {
    /// The host as it was asked for.
    pub name: String,
    /// PVM's code.
    pub code: PvmError,
    /// What happened, as text.
    pub reason: String,
}

/// How far a clock is ahead of another.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for host in task.hosts()? {
///     let ahead = task.clock_ahead(host.tid)?;
///     println!("{}: {} ± {} µs", host.name, ahead.micros, ahead.error);
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAhead {
    /// Microseconds; negative if it is behind.
    pub micros: i64,
    /// By how many microseconds that may be wrong: half the time that asking took.
    pub error: i64,
}

/// Which tasks to list.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::Scope;
///
/// let all = task.tasks(Scope::All)?;
/// let here = task.tasks(Scope::Host(all[0].host))?;
/// assert!(here.len() <= all.len());
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All tasks of the virtual machine.
    All,
    /// Those of this host.
    Host(Tid),
    /// This one.
    Task(Tid),
}

/// A task of the virtual machine, as it is listed.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for other in task.tasks(pvm3::Scope::All)? {
///     println!("{} {} {}", other.tid, other.pid, other.name.display());
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Its id.
    pub tid: Tid,
    /// The task that spawned it.
    pub parent: Option<Tid>,
    /// Its host's id.
    pub host: Tid,
    /// Bits of [`pvm_wire::codes::task_flags`].
    pub flags: i32,
    /// Its program, empty if not known.
    pub name: OsString,
    /// Its process id.
    pub pid: i32,
}

/// The state of a host.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// if task.host_status("node1")? != pvm3::HostState::Running {
///     println!("node1 is not there");
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// It runs.
    Running,
    /// The virtual machine has no host of this name.
    Unknown,
    /// It does not answer.
    Failed,
}

/// Asking about the machine and changing it.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// for host in task.hosts()? {
///     println!("{} {} {}", host.tid, host.name, host.arch);
/// }
/// for added in task.add_hosts(&["node1", "node2 sp=2000"])? {
///     if let Err(failure) = added {
///         eprintln!("{failure}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
impl Task {
    /// The hosts, in the order in which they joined.
    pub fn hosts(&mut self) -> Result<Vec<HostInfo>> {
        let tell = |event: &mut Writer, list: &Result<HostList>| {
            let (hosts, formats) =
                list.as_ref().map_or((0, 0), |list| (list.hosts.len() as i32, list.formats));
            event.int(Datum::NH, hosts).int(Datum::NA, formats).int(Datum::CC, code(list, |_| 0));
        };
        let list = self.traced(Event::Config, nothing, tell, |task| task.engine.call(&Config {}))?;
        Ok(list.hosts.into_iter().map(HostInfo::from).collect())
    }

    /// How far this host's clock is ahead of another's: the best of five readings; 0 if the difference is within the error.
    ///
    /// [`PvmError::NoHost`]: there is no such host. [`PvmError::HostFail`]: it is lost.
    pub fn clock_ahead(&mut self, host: Tid) -> Result<ClockAhead> {
        let mut best = (i64::MAX, 0);
        for _ in 0..CLOCK_TRIES {
            let before = now();
            let Clock { seconds, micros } = self.engine.call(&HostClock { host })?;
            let after = now();
            let remote = i64::from(seconds) * 1_000_000 + i64::from(micros);
            best = best.min((after - before, i64::midpoint(before, after) - remote));
        }
        let (trip, micros) = best;
        // One is for what was rounded.
        let error = trip / 2 + 1;
        Ok(ClockAhead { micros: if micros.abs() <= error { 0 } else { micros }, error })
    }

    /// The tasks of the machine or of a host, or one task; none if there is no such task. [`PvmError::NoHost`]: there is no such host.
    pub fn tasks(&mut self, scope: Scope) -> Result<Vec<TaskInfo>> {
        let which = match scope {
            Scope::All => Tid::NONE,
            Scope::Host(tid) | Scope::Task(tid) => tid,
        };
        let tell = |event: &mut Writer| {
            event.int(Datum::TW, which.raw());
        };
        let tell_found = |event: &mut Writer, list: &Result<TaskList>| {
            let count = list.as_ref().map_or(0, |list| list.tasks.len() as i32);
            event.int(Datum::CC, code(list, |_| 0)).int(Datum::TNT, count);
        };
        let ask = |task: &mut Self| task.engine.call(&ListTasks { which, version: None });
        let list = self.traced(Event::Tasks, tell, tell_found, ask)?;
        Ok(list.tasks.into_iter().map(TaskInfo::from).collect())
    }

    /// Adds hosts, each given by a name and options as in a hostfile. Returns a result for each, in the same order.
    ///
    /// [`PvmError::Already`]: other hosts are being added. [`PvmError::BadParam`]: no host, or more than 4095.
    pub fn add_hosts<S: AsRef<str>>(
        &mut self,
        hosts: &[S],
    ) -> Result<Vec<std::result::Result<HostInfo, HostFailure>>> {
        let tell = |event: &mut Writer| {
            event.texts(Datum::HNL, hosts.iter().map(AsRef::as_ref));
        };
        let tell_added = |event: &mut Writer, list: &Result<HostList>| {
            let added = |list: &HostList| list.hosts.iter().filter(|host| host.tid >= 0).count() as i32;
            event.int(Datum::CC, code(list, added));
        };
        let list = self.traced(Event::Addhosts, tell, tell_added, |task| {
            check_count(hosts.len())?;
            task.engine.call(&AddHosts { hosts: owned(hosts) })
        })?;
        let names = hosts.iter().map(|host| first_word(host.as_ref()));
        Ok(host_results(list, names))
    }

    /// Waits until each host of the daemon's hostfile has started or failed, and returns a result for each.
    pub fn start_up(&mut self) -> Result<Vec<std::result::Result<HostInfo, HostFailure>>> {
        let list = self.engine.call(&StartUp {})?;
        Ok(host_results(list, std::iter::empty()))
    }

    /// Progress of the additions of hosts that are under way, by any task or by the hostfile; all numbers are 0 if there are none.
    pub fn additions(&mut self) -> Result<Additions> {
        self.engine.call(&Adding {})
    }

    /// The whole state of this task's daemon as text. The format may change.
    pub fn daemon_state(&mut self) -> Result<String> {
        self.engine.call(&Dump {})
    }

    /// A certificate for a server that this task runs, signed by the authority of the virtual machine, and the certificate of that authority.
    /// It has up to 16 names, each a name of the DNS or an IP address, and the server's public key, a SubjectPublicKeyInfo in DER with a key
    /// on the curve P-256. The private key stays with the task.
    ///
    /// [`PvmError::BadParam`]: no such key, or a name that cannot be had; those that end in `.pvm` are daemons'. [`PvmError::HostFail`]: the
    /// master was lost meanwhile.
    pub fn certify<S: AsRef<str>>(&mut self, names: &[S], key: &[u8]) -> Result<Certified> {
        self.engine.call(&Certify(CertificateRequest { names: owned(names), key: key.to_vec() }))
    }

    /// How teams of tasks take turns on a host. [`PvmError::NoHost`]: there is no such host.
    pub fn turns(&mut self, host: Tid) -> Result<TurnsReport> {
        self.engine.call(&Turns { host })
    }

    /// The rows of the machine's matrix, by which teams take turns on all hosts at once.
    pub fn rows(&mut self) -> Result<RowsReport> {
        self.engine.call(&Rows {})
    }

    /// What is known of the owner of a host, after it was said whether the owner is there, if anything is. While the owner is there the host is
    /// given no tasks, and those that it has are held. [`PvmError::NoHost`]: there is no such host.
    pub fn owner(&mut self, host: Tid, said: Option<OwnerSaid>) -> Result<OwnerState> {
        self.engine.call(&Owner { host, said: said.map_or(0, OwnerSaid::number) })
    }

    /// The turns that teams had on a host, from the span with this number on. The daemon keeps some thousand spans.
    pub fn turn_history(&mut self, host: Tid, since: u64) -> Result<TurnHistory> {
        self.engine.call(&History { host, since })
    }

    /// Names this task's team: tasks that want to run at the same time. Tasks that it spawns afterwards belong to the team, too. A name has up to
    /// 64 bytes; a longer one, and an empty one, is [`PvmError::BadParam`].
    pub fn join_team(&mut self, name: &str) -> Result<()> {
        self.engine.join_team(name)
    }

    /// Removes hosts by name and kills their tasks. Returns a result for each, in the same order; [`PvmError::NoHost`] for a name that is unknown.
    pub fn delete_hosts<S: AsRef<str>>(
        &mut self,
        hosts: &[S],
    ) -> Result<Vec<std::result::Result<(), PvmError>>> {
        let tell = |event: &mut Writer| {
            event.texts(Datum::HNL, hosts.iter().map(AsRef::as_ref));
        };
        let tell_deleted = |event: &mut Writer, results: &Result<Vec<i32>>| {
            let deleted = |results: &Vec<i32>| results.iter().filter(|&&code| code >= 0).count() as i32;
            event.int(Datum::CC, code(results, deleted));
        };
        let results = self.traced(Event::Delhosts, tell, tell_deleted, |task| {
            check_count(hosts.len())?;
            task.engine.call(&DeleteHosts { names: owned(hosts) })
        })?;
        Ok(results.into_iter().map(|code| pvm_wire::error::check(code).map(drop)).collect())
    }

    /// The state of the host with this name; `.` is this task's own.
    pub fn host_status(&mut self, name: &str) -> Result<HostState> {
        let tell = |event: &mut Writer| {
            event.text(Datum::HN, name);
        };
        let ask = |task: &mut Self| task.engine.call(&HostStatus { name: name.to_owned() });
        match self.traced(Event::Mstat, tell, status(Datum::HS), ask) {
            Ok(()) => Ok(HostState::Running),
            Err(error) if error.code() == PvmError::NoHost => Ok(HostState::Unknown),
            Err(error) if error.code() == PvmError::HostFail => Ok(HostState::Failed),
            Err(error) => Err(error),
        }
    }

    /// Ends the virtual machine. All tasks get SIGTERM, this one included, and SIGKILL a little later.
    pub fn halt(&mut self) -> Result<()> {
        self.traced(Event::Halt, nothing, status(Datum::CC), |task| {
            // There is no answer: the connection ends.
            match task.engine.call(&Halt {}) {
                Err(error) if task.engine.is_enrolled() => Err(error),
                _ => Ok(()),
            }
        })
    }

    /// Sends SIGTERM to a task. A task that has exited gets nothing, and that is no error.
    pub fn kill(&mut self, tid: Tid) -> Result<()> {
        let tell = |event: &mut Writer| {
            event.int(Datum::TT, tid.raw());
        };
        let signal = rustix::process::Signal::TERM.as_raw();
        self.traced(Event::Kill, tell, status(Datum::CC), |task| task.send_signal(tid, signal))
    }

    /// Sends a signal, by its number, to a task. A task that has exited gets nothing, and that is no error.
    pub fn signal(&mut self, tid: Tid, signal: i32) -> Result<()> {
        let tell = |event: &mut Writer| {
            event.int(Datum::TT, tid.raw()).int(Datum::SN, signal);
        };
        self.traced(Event::Sendsig, tell, status(Datum::CC), |task| task.send_signal(tid, signal))
    }

    fn send_signal(&mut self, tid: Tid, signal: i32) -> Result<()> {
        check_task(tid)?;
        self.engine.call(&SendSignal { tid, signal })
    }

    /// Whether a task runs. A task whose host is lost does not.
    pub fn is_running(&mut self, tid: Tid) -> Result<bool> {
        let tell = |event: &mut Writer| {
            event.int(Datum::TT, tid.raw());
        };
        let asked = self.traced(Event::Pstat, tell, status(Datum::TST), |task| {
            check_task(tid)?;
            task.engine.call(&TaskStatus { tid })
        });
        match asked {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.code(), PvmError::NoTask | PvmError::HostFail) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks for the identity of a process that this task starts itself with `PVMEPID` set to the cookie. The output of
    /// tasks it spawns comes to this task, in the current context with this tag.
    pub fn adopt(&mut self, tag: i32) -> Result<Adopted> {
        self.engine.call(&Adopt { context: self.engine.context(), tag })
    }

    /// As [`Task::adopt`], and the output goes to the sink of [`Task::collect_output`].
    pub fn adopt_collected(&mut self) -> Result<Adopted> {
        self.engine.call(&Adopt { context: CONTEXT_TC, tag: Tc::Output.tag() })
    }
}

impl From<HostRecord> for HostInfo {
    fn from(record: HostRecord) -> Self {
        Self {
            tid: Tid::from_raw(record.tid),
            name: record.name,
            arch: record.arch,
            speed: record.speed,
            signature: record.signature,
        }
    }
}

impl From<TaskRecord> for TaskInfo {
    fn from(record: TaskRecord) -> Self {
        Self {
            tid: record.tid,
            parent: (record.parent > 0).then_some(Tid::from_raw(record.parent)),
            host: Tid::from_raw(record.host),
            flags: record.flags,
            name: record.name,
            pid: record.pid,
        }
    }
}

/// Joins the records of an answer with the names asked for and the reasons given.
fn host_results<'a>(
    list: HostList,
    names: impl Iterator<Item = &'a str>,
) -> Vec<std::result::Result<HostInfo, HostFailure>> {
    let names = names.map(str::to_owned).chain(std::iter::repeat(String::new()));
    let reasons = list.reasons.into_iter().chain(std::iter::repeat(String::new()));
    let result = |((host, name), reason): ((HostRecord, String), String)| {
        if host.tid >= 0 {
            return Ok(HostInfo::from(host));
        }
        let code = PvmError::from_code(host.tid).unwrap_or(PvmError::DSysErr);
        Err(HostFailure {
            name: if host.name.is_empty() { name } else { host.name },
            code,
            reason: if reason.is_empty() { code.text().to_owned() } else { reason },
        })
    };
    list.hosts.into_iter().zip(names).zip(reasons).map(result).collect()
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn owned<S: AsRef<str>>(texts: &[S]) -> Vec<String> {
    texts.iter().map(|text| text.as_ref().to_owned()).collect()
}

fn first_word(spec: &str) -> &str {
    spec.split_whitespace().next().unwrap_or_default()
}

fn check_count(hosts: usize) -> Result<()> {
    if (1..=4095).contains(&hosts) {
        return Ok(());
    }
    Err(Error::new(PvmError::BadParam, format!("{hosts} hosts are none or too many for one call")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_and_explained() {
        let record = |tid: i32, name: &str| HostRecord {
            tid,
            name: name.to_owned(),
            arch: String::new(),
            speed: 0,
            signature: 0,
        };
        let hosts = vec![record(0x80000, "a"), record(-29, ""), record(-6, "")];
        let reasons = vec![String::new(), "ssh: no route".to_owned()];
        let results = host_results(HostList { formats: 0, hosts, reasons }, ["a", "b", "c"].into_iter());
        assert_eq!(results[0].as_ref().unwrap().tid, Tid::from_raw(0x80000));
        assert_eq!(results[1].as_ref().unwrap_err().to_string(), "b: ssh: no route");
        assert_eq!(results[2].as_ref().unwrap_err().to_string(), "c: No such host");
    }
}
