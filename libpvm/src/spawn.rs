//! Spawning tasks.

use crate::task::Task;
use crate::tracing::code;
use pvm_engine::{Error, Result};
use pvm_wire::coscheduling::TEAM_VARIABLE;
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::spawn::{Pair, Refusal, SpawnReply, SpawnRequest, entry, flags};
use pvm_wire::{PvmError, Tid};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Tasks to be spawned: what, how many and where.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let workers = task.spawn("worker").args(["--fast"]).count(8).on_arch("LINUX64").start()?;
/// println!("{} started, {} not", workers.tids.len(), workers.failed.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is spawned before `start`"]
pub struct Spawn<'a> {
    task: &'a mut Task,
    request: SpawnRequest,
    directory: Option<PathBuf>,
    count: usize,
}

/// The result of a spawn.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let spawned = task.spawn("worker").count(8).start()?;
/// for refused in &spawned.reasons {
///     eprintln!("{} tasks were not started: {}", refused.count, refused.reason);
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Spawned {
    /// The tasks that were started.
    pub tids: Vec<Tid>,
    /// Why the others were not.
    pub failed: Vec<PvmError>,
    /// The reasons as text: one entry per reason and host. Empty with the original's daemon, which does not report them.
    pub reasons: Vec<Refused>,
    /// Name of the placement policy that has chosen their hosts. Empty if a host was given, and with the original's daemon.
    pub policy: String,
}

/// Why tasks were not started: one reason, on one host.
///
/// ```
/// let reason = "worker: no such file on node1".to_owned();
/// let refused = pvm3::Refused { host: None, code: pvm3::PvmError::NoFile, count: 2, reason };
/// assert_eq!(refused.code.name(), "PvmNoFile");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The host that could not start them; `None` if no host was asked.
    pub host: Option<Tid>,
    /// PVM's code.
    pub code: PvmError,
    /// How many tasks.
    pub count: u32,
    /// The reason.
    pub reason: String,
}

impl Task {
    /// Begins a spawn of one task; [`Spawn::start`] carries it out. A program without a slash is looked up on the
    /// daemons' search path.
    pub fn spawn(&mut self, program: impl Into<OsString>) -> Spawn<'_> {
        let request = SpawnRequest { file: program.into(), ..SpawnRequest::default() };
        Spawn { task: self, request, directory: None, count: 1 }
    }
}

impl Spawn<'_> {
    /// Appends arguments.
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.request.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Appends an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.request.args.push(arg.into());
        self
    }

    /// How many tasks (1 if not called).
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Only on the host of this name; `.` is this task's own.
    pub fn on_host(mut self, name: &str) -> Self {
        self.request.flags |= flags::HOST;
        self.request.place = name.into();
        self
    }

    /// Only on hosts of this architecture.
    pub fn on_arch(mut self, arch: &str) -> Self {
        self.request.flags |= flags::ARCH;
        self.request.place = arch.into();
        self
    }

    /// On all hosts except those chosen so far.
    pub fn others(mut self) -> Self {
        self.request.flags |= flags::HOST_COMPLEMENT;
        self
    }

    /// In this directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Under the debugger.
    pub fn debug(mut self) -> Self {
        self.request.flags |= flags::DEBUG;
        self
    }

    /// Without a parent: [`Task::parent`] is `None` in the tasks.
    pub fn without_parent(mut self) -> Self {
        self.request.flags |= flags::NO_SPAWN_PARENT;
        self
    }

    /// Ending when the host of this task is lost: they get SIGTERM there. Without it they go on.
    pub fn tied(mut self) -> Self {
        self.request.flags |= flags::TIED;
        self
    }

    /// With this variable in the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.request.env.push(entry(name, value));
        self
    }

    /// Placed by the policy of this name instead of the machine's.
    pub fn policy(mut self, name: &str) -> Self {
        name.clone_into(&mut self.request.policy);
        self
    }

    /// Tells the policy `graph-theoretic` how much tasks talk to each other: the numbers of two tasks, counted from 0, and their traffic
    /// in any unit. Without it the policy goes by what it has counted when the program was last spawned with as many tasks.
    ///
    /// ```no_run
    /// # fn spawn(task: &mut pvm3::Task) -> Result<(), pvm3::Error> {
    /// // Two pairs: each comes to a host of its own, or both to the same.
    /// let workers = task.spawn("worker").count(4).policy("graph-theoretic").traffic([(0, 2, 10), (1, 3, 10)]).start()?;
    /// # Ok(()) }
    /// ```
    pub fn traffic(mut self, pairs: impl IntoIterator<Item = (u32, u32, u64)>) -> Self {
        let pairs = pairs.into_iter().map(|(a, b, traffic)| Pair { a, b, traffic });
        self.request.traffic.extend(pairs);
        self
    }

    /// As members of this team: tasks that want to run at the same time. Without it they are of this task's own team.
    pub fn team(self, name: &str) -> Self {
        self.env(TEAM_VARIABLE, name)
    }

    /// Spawns, and returns when each task has been started or has failed. Tasks that could not be started are no error of the call:
    /// see [`Spawned::failed`]. [`PvmError::BadParam`]: no tasks, or [traffic](Self::traffic) of tasks that there are not. [`PvmError::NotFound`]: an unknown policy.
    pub fn start(self) -> Result<Spawned> {
        let (task, request) = self.into_request()?;
        let entry = |event: &mut Writer| describe_request(event, &request, 0);
        let exit = |event: &mut Writer, started: &Result<Spawned>| {
            let tids = started.as_ref().map_or(&[][..], |started| &started.tids);
            let tids: Vec<i32> = tids.iter().map(|tid| tid.raw()).collect();
            event.int(Datum::CC, code(started, |_| tids.len() as i32)).ints(Datum::STL, &tids);
        };
        task.traced(Event::Spawn, entry, exit, |task| Ok(sort(task.engine.spawn(&request)?)))
    }
}

impl<'a> Spawn<'a> {
    /// The request to the daemon, with everything that children inherit.
    pub(crate) fn into_request(self) -> Result<(&'a mut Task, SpawnRequest)> {
        let Self { task, mut request, directory, count } = self;
        request.count = i32::try_from(count)
            .ok()
            .filter(|&count| count > 0)
            .ok_or_else(|| Error::new(PvmError::BadParam, format!("cannot spawn {count} tasks at once")))?;
        if let Some(directory) = directory {
            request.place.push(":");
            request.place.push(directory);
        }
        request.output = task.engine.options().child_output;
        request.trace = task.engine.options().child_trace;
        let mut env = task.engine.child_environment();
        env.append(&mut request.env);
        request.env = env;
        Ok((task, request))
    }
}

/// Writes the data of a spawn, with these additional flags, into a trace event.
pub(crate) fn describe_request(event: &mut Writer, request: &SpawnRequest, flags: i32) {
    event.text(Datum::SE, &request.file).text(Datum::SW, &request.place);
    event.int(Datum::SF, request.flags | flags).int(Datum::SC, request.count);
}

/// Separates tids from error codes.
fn sort(reply: SpawnReply) -> Spawned {
    let (good, bad): (Vec<i32>, Vec<i32>) = reply.results.iter().partition(|&&result| result > 0);
    let error = |code| PvmError::from_code(code).unwrap_or(PvmError::DSysErr);
    let refused = |refusal: Refusal| Refused {
        host: (refusal.host > 0).then_some(Tid::from_raw(refusal.host)),
        code: error(refusal.code),
        count: refusal.count,
        reason: refusal.reason,
    };
    Spawned {
        tids: good.into_iter().map(Tid::from_raw).collect(),
        failed: bad.into_iter().map(error).collect(),
        reasons: reply.refusals.into_iter().map(refused).collect(),
        policy: reply.policy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tids_and_codes_are_separated() {
        let spawned =
            sort(SpawnReply { results: vec![0x40002, -7, 0x40003, -9999], ..SpawnReply::default() });
        assert_eq!(spawned.tids, [Tid::from_raw(0x40002), Tid::from_raw(0x40003)]);
        assert_eq!(spawned.failed, [PvmError::NoFile, PvmError::DSysErr]);
    }
}
