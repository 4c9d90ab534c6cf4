//! The tasks of this host, and their connections.

use super::addresses::{ExecId, ReplyTo, TeamId};
use super::contexts::Contexts;
use super::event::{ConnId, Cookie};
use super::flow::Flow;
use super::jobs::JobTask;
use super::output::OutputStream;
use super::places::Places;
use super::spans;
use super::spawn::Placed;
use bytes::Bytes;
use pvm_wire::batch::BatchId;
use pvm_wire::calls::enrolment::Introduction;
use pvm_wire::calls::tasks::TaskRecord;
use pvm_wire::coscheduling::Sent;
use pvm_wire::daemon::Attempt;
use pvm_wire::limits::REQUEST_MAX;
use pvm_wire::spawn::{Sink, SpawnRequest, flags};
use pvm_wire::tid::LOCAL_MAX;
use pvm_wire::turn_rules::TurnRule;
use pvm_wire::{FragmentHeader, HostIndex, Reassembler, Tid, codes::task_flags};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The last local part a task can have: the one after it is the keeper of groups'.
const LAST: u32 = LOCAL_MAX - 1;

/// Whose process a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Ours: its end is the end of our child.
    Child,
    /// The tasker's: its end is what the tasker says, or the end of its connection.
    Tasker,
    /// Somebody else's: its end is the end of its connection.
    Itself,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Child => "started by this daemon",
            Self::Tasker => "started by the tasker",
            Self::Itself => "started elsewhere",
        })
    }
}

/// Whether a task can move to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Movability {
    Fixed,
    /// Its program has said how its state is saved.
    Movable,
}

/// A task, from the moment its process is asked for.
#[derive(Debug)]
pub(super) struct Task {
    pub tid: Tid,
    /// By what it is known when it enrols; `None` for a task that nobody announced.
    pub cookie: Option<Cookie>,
    /// 0 until known.
    pub pid: i32,
    /// As the task sees it: 0 none, or `PvmParentNotSet`.
    pub parent: i32,
    pub conn: Option<ConnId>,
    /// The channel that its process has inherited, until it enrols: it may do so in its last moment.
    pub channel: Option<ConnId>,
    /// It has enrolled (perhaps left again): its cookie is used up.
    pub enrolled: bool,
    /// What `wait` said of its process, which has ended; what it had sent is still being read.
    pub ended: Option<i32>,
    /// The last signal that was sent to it through the virtual machine.
    pub signalled: Option<i32>,
    /// With whom it wants to run.
    pub team: TeamId,
    /// Whose process it is, and so what its end is.
    pub origin: Origin,
    /// It was sent a signal that ends it: its family ends with it, which has this cookie.
    pub condemned: Option<Cookie>,
    /// Tasks whose processes it starts itself; without it, they might stay announced for ever.
    pub adopted: Vec<Tid>,
    /// A task manager: in no list, in no count.
    pub manager: bool,
    /// Its library is this system's.
    pub extended: bool,
    pub movability: Movability,
    /// It is to take the place of a task that moves here: in no list.
    pub succeeds: Option<Attempt>,
    /// What it was started as, if a spawn has started it.
    pub started_as: Option<Arc<SpawnRequest>>,
    pub output: Sink,
    pub trace: Sink,
    /// Flags of the spawn.
    pub spawn_flags: i32,
    /// The policy of its spawns that name none, if it has one of its own.
    pub policy: String,
    /// How its team takes turns, if the queue of its job says it.
    pub turns: Option<TurnRule>,
    /// The host with which it ends.
    pub tied_to: Option<HostIndex>,
    /// Program, as it was asked for.
    pub name: OsString,
    /// It was placed by agents.
    pub placed: Option<Placed>,
    /// What is to be reported of it.
    pub report: Report,
    /// Fragments for it from before it enrolled.
    pub backlog: VecDeque<(FragmentHeader, Bytes)>,
    /// Bytes on their way to it, headers included.
    pub queued: usize,
    /// Tasks of this host that share memory with it.
    pub neighbours: BTreeSet<Tid>,
    /// What it says of itself when it is asked.
    pub activity: Activity,
}

/// What a task has said of itself last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// How long it spins before it sleeps.
    pub spin: Option<Duration>,
    /// What it has sent. What tasks with the original's library send by this daemon is counted here.
    pub sent: Sent,
    /// It has been asked, and has not answered.
    pub is_asked: bool,
}

/// What is still to be reported of a task to where it was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It was not ordered, or its order wants to know no more.
    Nothing,
    /// Its start, to the order of which it is this one; and then its end, if it is of a queued batch.
    Start { exec: ExecId, number: usize, item: Option<Item> },
    /// Its end, to the home of its queued batch.
    End(Item),
    /// As before: it ends so that it can begin again on another host.
    Leaving(Item),
    /// Its start and its end, to the master: it is of a job.
    Job(JobTask),
}

/// A task of a queued batch, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub batch: BatchId,
    pub number: u32,
}

impl Report {
    /// The queued batch that it is of.
    pub fn item(self) -> Option<Item> {
        match self {
            Self::Nothing | Self::Job(_) => None,
            Self::Start { item, .. } => item,
            Self::End(item) | Self::Leaving(item) => Some(item),
        }
    }

    /// The job's task that it is.
    pub fn job(self) -> Option<JobTask> {
        let Self::Job(task) = self else { return None };
        Some(task)
    }

    /// Its fate is about to be reported to its order, if that waits for it.
    pub fn take_start(&mut self) -> Option<(ExecId, usize)> {
        let Self::Start { exec, number, item } = *self else { return None };
        *self = item.map_or(Self::Nothing, Self::End);
        Some((exec, number))
    }
}

impl Task {
    /// Its program's name, for people.
    pub fn shown_name(&self) -> &OsStr {
        if self.name.is_empty() { OsStr::new("-") } else { &self.name }
    }

    pub fn record(&self, host: HostIndex) -> TaskRecord {
        let mut flags = 0;
        if self.origin == Origin::Child {
            flags |= task_flags::FORKED;
        }
        if self.conn.is_some() {
            flags |= task_flags::CONNECTED;
        }
        if self.extended {
            flags |= task_flags::EXTENDED;
        }
        TaskRecord {
            tid: self.tid,
            parent: self.parent.max(0),
            host: host.host_tid().raw(),
            flags,
            name: self.name.clone(),
            pid: self.pid,
        }
    }

    /// Whether it is in lists: managers are not, nor what is to take the place of a task.
    pub fn is_shown(&self) -> bool {
        !self.manager && self.succeeds.is_none()
    }

    /// Whether it takes turns with others.
    pub fn takes_turns(&self) -> bool {
        self.can_be_held() && self.turns != Some(TurnRule::None)
    }

    /// Whether it can be held: our own children can, as a program that was started from a shell is not ours to stop.
    pub fn can_be_held(&self) -> bool {
        self.origin == Origin::Child && !self.manager && self.pid > 1 && self.ended.is_none()
    }

    /// Whether the matrix may move it, as far as the task is concerned: not if its spawner has named the host. Those of jobs begin again elsewhere
    /// instead.
    pub fn can_be_gathered(&self) -> bool {
        let is_free = self.spawn_flags & flags::HOST == 0 && self.report.job().is_none();
        is_free && self.movability == Movability::Movable && self.can_be_held()
    }

    /// Whether messages to it can still be received: not after it has left the machine.
    pub fn listens(&self) -> bool {
        self.conn.is_some() || !self.enrolled
    }
}

/// The tasks by their ids and cookies, and what belongs to them.
#[derive(Debug)]
pub(super) struct Tasks {
    host: HostIndex,
    by_tid: BTreeMap<Tid, Task>,
    by_cookie: BTreeMap<Cookie, Tid>,
    next_local: u32,
    next_cookie: i32,
    /// How many are task managers.
    managers: usize,
    pub conns: BTreeMap<ConnId, Conn>,
    pub outputs: BTreeMap<Cookie, OutputStream>,
    pub flow: Flow,
    pub contexts: Contexts,
}

impl Tasks {
    pub fn new(host: HostIndex) -> Self {
        // Cookies must differ from process ids; PVM's tasker uses the same range.
        Self {
            host,
            by_tid: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            next_local: 1,
            next_cookie: 10_000_000,
            managers: 0,
            conns: BTreeMap::new(),
            outputs: BTreeMap::new(),
            flow: Flow::default(),
            contexts: Contexts::new(host),
        }
    }

    /// A new task without process or connection; `None` if all ids are in use.
    pub fn create(&mut self, announced: bool, places: &Places) -> Option<&mut Task> {
        let tid = self.free_tid(places)?;
        let cookie = announced.then(|| self.free_cookie());
        if let Some(cookie) = cookie {
            self.by_cookie.insert(cookie, tid);
        }
        let task = Task {
            tid,
            cookie,
            pid: 0,
            parent: 0,
            conn: None,
            channel: None,
            enrolled: false,
            ended: None,
            signalled: None,
            team: TeamId::default(),
            origin: Origin::Itself,
            condemned: None,
            adopted: Vec::new(),
            manager: false,
            extended: false,
            movability: Movability::Fixed,
            succeeds: None,
            started_as: None,
            output: Sink::default(),
            trace: Sink::default(),
            spawn_flags: 0,
            policy: String::new(),
            turns: None,
            tied_to: None,
            placed: None,
            name: OsString::new(),
            report: Report::Nothing,
            backlog: VecDeque::new(),
            activity: Activity::default(),
            queued: 0,
            neighbours: BTreeSet::new(),
        };
        Some(self.by_tid.entry(tid).or_insert(task))
    }

    /// Makes the record and the output stream of a process that is about to be started or adopted.
    pub fn announce(&mut self, places: &Places, fill: impl FnOnce(&mut Task)) -> Option<(Tid, Cookie)> {
        let task = self.create(true, places)?;
        fill(task);
        let (tid, cookie, is_ours) = (task.tid, task.cookie?, task.origin != Origin::Itself);
        let (stream, is_manager) = (OutputStream::new(tid, task.output, task.parent), task.manager);
        if is_ours {
            self.outputs.insert(cookie, stream);
        }
        self.managers += usize::from(is_manager);
        Some((tid, cookie))
    }

    pub fn get(&self, tid: Tid) -> Option<&Task> {
        self.by_tid.get(&tid)
    }

    pub fn get_mut(&mut self, tid: Tid) -> Option<&mut Task> {
        self.by_tid.get_mut(&tid)
    }

    pub fn by_cookie(&self, cookie: Cookie) -> Option<Tid> {
        self.by_cookie.get(&cookie).copied()
    }

    pub fn remove(&mut self, tid: Tid) -> Option<Task> {
        let task = self.by_tid.remove(&tid)?;
        if let Some(cookie) = task.cookie {
            self.by_cookie.remove(&cookie);
        }
        self.managers -= usize::from(task.manager);
        Some(task)
    }

    /// A process that was to take the place of a task is that task from now on.
    pub fn rename(&mut self, from: Tid, to: Tid) -> Option<&mut Task> {
        let mut task = self.by_tid.remove(&from)?;
        task.tid = to;
        if let Some(cookie) = task.cookie {
            self.by_cookie.insert(cookie, to);
        }
        let conns = task.conn.into_iter().chain(task.channel);
        for conn in conns {
            let Some(conn) = self.conns.get_mut(&conn) else { continue };
            conn.state = match conn.state {
                ConnState::Enrolled(_) => ConnState::Enrolled(to),
                _ => ConnState::Inherited(to),
            };
            conn.span.record("tid", tracing::field::display(to));
        }
        Some(self.by_tid.entry(to).or_insert(task))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.by_tid.values()
    }

    /// `P_c`: programs that run here or are about to.
    pub fn running(&self) -> usize {
        self.by_tid.len() - self.managers
    }

    /// Those of them that fill slots: of queued batches and jobs.
    pub fn queued(&self) -> usize {
        let fills = |report: Report| report.item().is_some() || matches!(report, Report::Job(_));
        self.iter().filter(|task| fills(task.report)).count()
    }

    /// Those of them that fill slots as agents of placement policies count them: the same, and what such agents have placed.
    pub fn filling(&self) -> usize {
        let fills = |report: Report| report.item().is_some() || matches!(report, Report::Job(_));
        self.iter().filter(|task| task.placed.is_some() || fills(task.report)).count()
    }

    /// Whether cookies lead to the tasks that have them, ids too, and managers are counted.
    pub fn check(&self) -> Result<(), String> {
        let managers = self.iter().filter(|task| task.manager).count();
        if managers != self.managers {
            return Err(format!("{managers} tasks are managers, and {} are counted", self.managers));
        }
        let announced = self.by_tid.values().filter(|task| task.cookie.is_some()).count();
        let is_found = |(cookie, tid): (&Cookie, &Tid)| {
            self.by_tid.get(tid).is_some_and(|task| task.tid == *tid && task.cookie == Some(*cookie))
        };
        if announced == self.by_cookie.len() && self.by_cookie.iter().all(is_found) {
            Ok(())
        } else {
            Err(format!("{announced} tasks have cookies, and these lead to tasks: {:?}", self.by_cookie))
        }
    }

    /// An id that no task has, wherever it lives.
    fn free_tid(&mut self, places: &Places) -> Option<Tid> {
        (0..LAST).find_map(|_| {
            let tid = self.host.task(self.next_local);
            self.next_local = if self.next_local == LAST { 1 } else { self.next_local + 1 };
            (!self.by_tid.contains_key(&tid) && !places.has(tid)).then_some(tid)
        })
    }

    fn free_cookie(&mut self) -> Cookie {
        loop {
            let cookie = Cookie(self.next_cookie);
            self.next_cookie = self.next_cookie.checked_add(1).unwrap_or(10_000_000);
            if !self.by_cookie.contains_key(&cookie) {
                return cookie;
            }
        }
    }
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum ConnState {
    /// Nothing was received yet.
    Fresh,
    /// The process of this task has inherited it, and has sent nothing yet.
    Inherited(Tid),
    /// TM_CONNECT came; the driver prepares the files.
    Opening(ReplyTo),
    /// Waits for TM_CONN2.
    Opened,
    /// TM_CONN2 came; the driver looks into the file.
    Checking(ReplyTo, Introduction),
    /// A task.
    Enrolled(Tid),
}

/// A task's connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub state: ConnState,
    /// Requests under way, cut into fragments.
    pub requests: Reassembler,
    /// Receivers of the message now being sent to the task's multicast address.
    pub multicast: Vec<Tid>,
    /// Its library is this system's.
    pub extended: bool,
    /// Its descriptors for neighbours have come.
    pub shares: bool,
    /// The tasks that meet it as soon as they have.
    pub callers: BTreeSet<Tid>,
    /// What is logged on its account.
    pub span: tracing::Span,
}

impl Conn {
    pub fn new(id: ConnId) -> Self {
        Self {
            span: spans::of_conn(id),
            state: ConnState::Fresh,
            requests: Reassembler::new(REQUEST_MAX),
            multicast: Vec::new(),
            extended: false,
            shares: false,
            callers: BTreeSet::new(),
        }
    }

    /// How far it is, in a word.
    pub fn stage(&self) -> &'static str {
        match self.state {
            ConnState::Fresh | ConnState::Inherited(_) => "nothing said yet",
            ConnState::Opening(_) => "its file is being made",
            ConnState::Opened => "it is to prove itself",
            ConnState::Checking(..) => "its proof is being looked at",
            ConnState::Enrolled(_) => "enrolled",
        }
    }

    pub fn tid(&self) -> Option<Tid> {
        match self.state {
            ConnState::Enrolled(tid) => Some(tid),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_and_are_not_reused_before_the_wrap() {
        let mut table = Tasks::new(HostIndex::MASTER);
        let first = table.create(true, &Places::default()).unwrap().tid;
        assert_eq!(first.bits(), 0x40001);
        table.remove(first);
        assert_eq!(table.create(false, &Places::default()).unwrap().tid.bits(), 0x40002);
        table.next_local = LAST;
        assert_eq!(table.create(false, &Places::default()).unwrap().tid.local(), LAST);
        assert_eq!(table.create(false, &Places::default()).unwrap().tid.local(), 1);
        assert_eq!(table.create(false, &Places::default()).unwrap().tid.local(), 3, "2 is in use");
    }
}
