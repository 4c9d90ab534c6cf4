//! A simulated process: what its library reads and writes.

use bytes::Bytes;
use pvm_task_manager::machine::Machine;
use pvm_wire::calls::Request;
use pvm_wire::calls::enrolment::{Conn2, Connect, Extension, Introduction};
use pvm_wire::codes::{EXTENSION_VERSION, TASK_PROTOCOL};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, HostIndex, Message, MessageHeader, Reassembler, Tid};
use pvmd_core::event::{ConnId, Cookie, Work};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Names a process in the whole machine.
pub type ProcId = u64;

/// How far a process is with a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moving {
    /// It does not move.
    No,
    /// It was told to go to this successor, and goes on until it can.
    Told(Tid),
    /// It waits to be frozen, or is.
    Frozen(Tid),
    /// It is a successor.
    Succeeds,
}

impl Moving {
    /// Whether it does what it is told to.
    pub fn goes_on(self) -> bool {
        matches!(self, Self::No | Self::Told(_))
    }
}

/// What a process does.
pub enum Role {
    /// It enrols, and does what it is told to.
    Task,
    /// It never enrols.
    Silent,
    /// It is a task manager.
    Manager(Machine),
}

/// A process of a simulated machine.
// Each of the flags is a fact of its own.
#[allow(clippy::struct_excessive_bools)]
pub struct Process {
    /// Where it runs.
    pub host: HostIndex,
    /// By which its daemon knows it, if its daemon has started it.
    pub cookie: Option<Cookie>,
    /// What it does.
    pub role: Role,
    /// Its connection to its daemon.
    pub conn: Option<ConnId>,
    /// Its id, once it has enrolled.
    pub tid: Option<Tid>,
    /// It does not read.
    pub stopped: bool,
    /// It has asked to leave.
    pub leaving: bool,
    /// It has ended.
    pub dead: bool,
    /// As a task that moves, or that is to take the place of one.
    pub moving: Moving,
    /// The tasks that it shares memory with.
    pub(crate) neighbours: BTreeSet<Tid>,
    pub(crate) pid: i32,
    /// Written to the daemon and not read by it.
    pub(crate) out: VecDeque<(FragmentHeader, Bytes)>,
    /// Written by the daemon and not read, and the bytes of that.
    pub(crate) inbox: VecDeque<(FragmentHeader, Bytes)>,
    pub(crate) waiting: usize,
    /// Its daemon does not read.
    pub(crate) paused: bool,
    /// It waits for its turn, and is stopped meanwhile.
    pub(crate) held: bool,
    /// It is held, as the owner of its host is there.
    pub(crate) yields: bool,
    /// What the kernel says that it has done, and when that was.
    pub(crate) work: (Work, Duration),
    /// What `wait` will say of it.
    pub(crate) status: i32,
    /// A look at `out`, and one at `inbox`, is due.
    pub(crate) read_due: bool,
    pub(crate) hear_due: bool,
    pub(crate) incoming: Reassembler,
}

impl Process {
    pub(crate) fn new(host: HostIndex, pid: i32, cookie: Option<Cookie>, role: Role) -> Self {
        Self {
            host,
            cookie,
            role,
            conn: None,
            tid: None,
            stopped: false,
            leaving: false,
            dead: false,
            moving: Moving::No,
            neighbours: BTreeSet::new(),
            pid,
            out: VecDeque::new(),
            inbox: VecDeque::new(),
            waiting: 0,
            paused: false,
            held: false,
            yields: false,
            work: (Work::default(), Duration::ZERO),
            status: 0,
            read_due: false,
            hear_due: false,
            incoming: Reassembler::new(1 << 26),
        }
    }

    /// Whether it is a task that can be told to do something.
    pub fn is_at_work(&self) -> bool {
        !self.dead
            && !self.leaving
            && self.tid.is_some()
            && self.moving.goes_on()
            && matches!(self.role, Role::Task)
    }

    /// Whether it is the life of the task that has its id: one that is frozen waits for the decision where the task lives.
    pub(crate) fn lives_as_its_task(&self) -> bool {
        !self.dead && self.tid.is_some() && self.moving.goes_on()
    }

    /// Whether it is a task manager.
    pub fn is_manager(&self) -> bool {
        matches!(self.role, Role::Manager(_))
    }

    /// Whether it reads what comes.
    pub(crate) fn is_running(&self) -> bool {
        !self.stopped && !self.held && !self.yields
    }

    /// Whether its daemon reads what it writes. The end of one that has hung up is looked for in any case.
    pub(crate) fn is_read(&self) -> bool {
        !self.paused || self.dead
    }

    /// The first thing a library says.
    pub(crate) fn hello() -> Message {
        connect(Some(EXTENSION_VERSION)).message(1)
    }

    /// The second.
    pub(crate) fn enrolment(&self) -> Message {
        let cookie = self.cookie.map_or(0, |cookie| cookie.0);
        Conn2 { process: introduction(self.pid, cookie) }.message(2)
    }

    /// Takes a fragment; a message if it is the last of one.
    pub(crate) fn hear(&mut self, header: &FragmentHeader, data: Bytes) -> Result<Option<Message>, String> {
        self.waiting -= data.len();
        match self.incoming.push(header, data) {
            Ok(Assembled::Whole(message)) => Ok(Some(message)),
            Ok(Assembled::Partial) => Ok(None),
            Ok(Assembled::Stray) => Err(format!("{:?} hears a continuation of nothing", self.tid)),
            Err(error) => Err(format!("{:?} hears nonsense: {error}", self.tid)),
        }
    }
}

/// The first request of a library with these extensions.
pub fn connect(extension: Option<i32>) -> Connect {
    Connect { version: TASK_PROTOCOL, auth_file: "/tmp/auth".into(), extension: Extension(extension) }
}

/// A process without a name that enrols.
pub fn introduction(pid: i32, cookie: i32) -> Introduction {
    Introduction { pid, cookie, name: None }
}

/// A message to a task or daemon.
pub fn message(dst: Tid, context: i32, tag: i32, body: Vec<u8>) -> Message {
    let header = MessageHeader { encoding: XDR_WORD, tag, context, ..MessageHeader::default() };
    Message { src: Tid::ANY, dst, header, body: body.into() }
}
