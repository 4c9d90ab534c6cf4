//! A simulated process: what its library reads and writes.

use bytes::Bytes;
use pvm_task_manager::machine::Machine;
use pvm_wire::calls::Request;
use pvm_wire::calls::enrolment::{Conn2, Connect, Extension, Introduction};
use pvm_wire::codes::{CONTEXT_TM, EXTENSION_VERSION, TASK_PROTOCOL, Tm};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, HostIndex, Message, MessageHeader, Reassembler, Tid};
use pvmd_core::event::{ConnId, Cookie, Work};
use std::collections::VecDeque;
use std::time::Duration;

/// Tag of the programs' own messages.
pub const USER: i32 = 1;
/// Tags of notifies are above this.
pub const NOTIFY: i32 = 1000;
/// Context of notices of queued batches.
pub const NOTICE: i32 = 7;

/// Names a process in the whole simulation.
pub type ProcId = u64;

pub enum Role {
    /// Enrols and does what the plan says.
    Task,
    /// Never enrols.
    Silent,
    /// A task manager.
    Manager(Machine),
}

// Each of the flags is a fact of its own.
#[allow(clippy::struct_excessive_bools)]
pub struct Process {
    pub host: HostIndex,
    pub pid: i32,
    /// By which its daemon knows it, if its daemon has started it.
    pub cookie: Option<Cookie>,
    pub role: Role,
    pub conn: Option<ConnId>,
    pub tid: Option<Tid>,
    /// Written to the daemon and not read by it.
    pub out: VecDeque<(FragmentHeader, Bytes)>,
    /// Written by the daemon and not read.
    pub inbox: VecDeque<(FragmentHeader, Bytes)>,
    /// Its daemon does not read.
    pub paused: bool,
    /// It does not read.
    pub stopped: bool,
    /// It waits for its turn, and is stopped meanwhile.
    pub held: bool,
    /// What the kernel says that it has done, and when that was.
    pub work: (Work, Duration),
    /// It has asked to leave.
    pub leaving: bool,
    pub dead: bool,
    /// What `wait` will say of it.
    pub status: i32,
    /// It is of a queued batch.
    pub queued: bool,
    /// A look at `out`, and one at `inbox`, is due.
    pub read_due: bool,
    pub hear_due: bool,
    incoming: Reassembler,
}

impl Process {
    pub fn new(host: HostIndex, pid: i32, cookie: Option<Cookie>, role: Role) -> Self {
        Self {
            host,
            pid,
            cookie,
            role,
            conn: None,
            tid: None,
            out: VecDeque::new(),
            inbox: VecDeque::new(),
            paused: false,
            stopped: false,
            held: false,
            work: (Work::default(), Duration::ZERO),
            leaving: false,
            dead: false,
            status: 0,
            queued: false,
            read_due: false,
            hear_due: false,
            incoming: Reassembler::new(1 << 26),
        }
    }

    /// Whether it is a task that can be told to do something.
    pub fn is_at_work(&self) -> bool {
        !self.dead && !self.leaving && self.tid.is_some() && matches!(self.role, Role::Task)
    }

    /// Whether it reads what comes.
    pub fn is_running(&self) -> bool {
        !self.stopped && !self.held
    }

    /// Whether its daemon reads what it writes. The end of one that has hung up is looked for in any case.
    pub fn is_read(&self) -> bool {
        !self.paused || self.dead
    }

    /// The first thing a library says.
    pub fn hello() -> Message {
        let request = Connect {
            version: TASK_PROTOCOL,
            auth_file: "/tmp/auth".into(),
            extension: Extension(Some(EXTENSION_VERSION)),
        };
        request_message(Tm::Connect, 1, request.encode())
    }

    /// The second.
    pub fn enrolment(&self) -> Message {
        let cookie = self.cookie.map_or(0, |cookie| cookie.0);
        let request = Conn2 { process: Introduction { pid: self.pid, cookie, name: None } };
        request_message(Tm::Conn2, 2, request.encode())
    }

    /// Takes a fragment; a message if it is the last of one.
    pub fn hear(&mut self, header: &FragmentHeader, data: Bytes) -> Result<Option<Message>, String> {
        match self.incoming.push(header, data) {
            Ok(Assembled::Whole(message)) => Ok(Some(message)),
            Ok(Assembled::Partial) => Ok(None),
            Ok(Assembled::Stray) => Err(format!("{:?} hears a continuation of nothing", self.tid)),
            Err(error) => Err(format!("{:?} hears nonsense: {error}", self.tid)),
        }
    }
}

/// A request to the daemon.
pub fn request_message(request: Tm, wait_id: i32, body: Vec<u8>) -> Message {
    tagged_request(request.tag(), wait_id, body)
}

/// As [`request_message`], for a request that the original does not have, too.
pub fn tagged_request(tag: i32, wait_id: i32, body: Vec<u8>) -> Message {
    let header =
        MessageHeader { encoding: XDR_WORD, tag, context: CONTEXT_TM, wait_id, ..MessageHeader::default() };
    Message { src: Tid::ANY, dst: Tid::MY_DAEMON, header, body: body.into() }
}

/// A message to a task or daemon.
pub fn message(dst: Tid, context: i32, tag: i32, body: Vec<u8>) -> Message {
    let header = MessageHeader { encoding: XDR_WORD, tag, context, ..MessageHeader::default() };
    Message { src: Tid::ANY, dst, header, body: body.into() }
}
