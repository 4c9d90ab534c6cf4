//! How a process becomes a task, and leaves.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`Connect`], TM_CONNECT | int version, str file, \[extension\] | [`ConnectReply`]: int version, int accepted, str file, \[extension\] |
//! | [`Conn2`], TM_CONN2 | [`Introduction`]: int pid, int cookie, \[str name\] | [`Admission`]: int 1, [`EnrolReply`]; or int 0 |
//! | [`Enrol`], TMX | [`Introduction`] | [`Admission`] |
//! | [`ChannelEnrol`], TMX | [`Introduction`] | none: an [`Admission`] lay in the channel ([`crate::channel`]) |
//! | [`Exit`], TM_EXIT | – | nothing |
//! | [`GetOptions`], TM_GETOPT | – | [`EnrolReply`] |
//!
//! The extension is [`EXTENSION_MAGIC`] and a version. By it this system's library and daemon recognise each other, and the original
//! ignores it.

use super::{Field, answers, fields, requests};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::{EXTENSION_MAGIC, Tm, Tmx};
use crate::spawn::Sink;
use crate::tid::Tid;
use std::ffi::OsString;

/// Version of this system's extensions, at the end of a body; none of a library or daemon of another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension(pub Option<i32>);

impl Field for Extension {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.0.iter().fold(body, |body, &version| body.int(EXTENSION_MAGIC).int(version))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let is_ours = reader.int() == Ok(EXTENSION_MAGIC);
        Ok(Self(is_ours.then(|| reader.int().ok()).flatten()))
    }
}

requests! {
    /// The first half of the enrolment.
    Connect = Tm::Connect; {
        /// The library's protocol version.
        version: i32,
        /// File into which the daemon writes a byte, to prove that it may. A daemon and a library of this system need none.
        auth_file: String,
        /// Version of the library's extensions.
        extension: Extension,
    }

    /// The second half of the enrolment.
    Conn2 = Tm::Conn2; {
        /// Who enrols.
        process: Introduction,
    }

    /// The whole enrolment at once, with a daemon that is known to be this system's.
    Enrol = Tmx::Enrol; {
        /// Who enrols.
        process: Introduction,
    }

    /// The process that inherited a channel has read it, and is there.
    ChannelEnrol = Tmx::ChannelEnrol; {
        /// Who it is.
        process: Introduction,
    }

    /// The caller leaves; its daemon then closes the connection.
    Exit = Tm::Exit; {}

    /// What the task was told at its enrolment.
    GetOptions = Tm::GetOpt; {}
}

answers! {
    Connect => ConnectReply, |_| "a connection";
    Conn2 => Admission, |_| "an enrolment";
    Enrol => Admission, |_| "an enrolment";
    Exit => (), |_| "the end of this task";
    GetOptions => EnrolReply, |_| "this task's options";
}

fields! {
    /// The answer to [`Connect`].
    ConnectReply {
        /// The daemon's protocol version.
        version: i32,
        /// Whether the task may go on.
        accepted: bool,
        /// File into which the task writes a byte, to prove that it may. Empty between parts of this system.
        auth_file: String,
        /// Version of the daemon's extensions.
        extension: Extension,
    }
}

/// Which process enrols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Its process id.
    pub pid: i32,
    /// `PVMEPID`, or 0: which spawned process this is.
    pub cookie: i32,
    /// A name to show in task lists, if the program set one.
    pub name: Option<OsString>,
}

impl Field for Introduction {
    const LEAST: usize = 8;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.name.write(body.int(self.pid).int(self.cookie))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { pid: reader.int()?, cookie: reader.int()?, name: OsString::read(reader).ok() })
    }
}

/// The answer to an enrolment; `None` is a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission(pub Option<EnrolReply>);

impl Field for Admission {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.0.write(body.int(i32::from(self.0.is_some())))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let is_granted = reader.int()? > 0;
        is_granted.then(|| EnrolReply::read(reader)).transpose().map(Self)
    }
}

/// What a task is told at its enrolment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrolReply {
    /// The task's id.
    pub tid: Tid,
    /// Its parent: 0 if nobody spawned it.
    pub parent: i32,
    /// Where its output goes.
    pub output: Sink,
    /// Where its trace goes.
    pub trace: Sink,
    /// Largest fragment to send, bytes, headers included.
    pub fragment_size: i32,
    /// The daemon's data signature.
    pub signature: u32,
    /// The daemon's address as `%08x:%04x`; tasks bind direct TCP routes to its IP.
    pub address: String,
    /// The resource manager: 0 if none.
    pub scheduler: i32,
    /// Whether the hostfile says of this host that its network is private; only our daemon says that.
    pub private_network: bool,
    /// What it takes to wake a process here, ns; 0 if the daemon does not say.
    pub wake_time: u32,
    /// The task whose place the process is to take: it is a successor.
    pub succeeds: Option<Tid>,
}

impl Field for EnrolReply {
    const LEAST: usize = 44;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        let body = self.trace.write(self.output.write(body.int(self.tid.raw()).int(self.parent)));
        let body = body.int(self.fragment_size).int(self.signature.cast_signed());
        let body = body.str(&self.address).int(self.scheduler);
        if !self.private_network && self.wake_time == 0 && self.succeeds.is_none() {
            return body;
        }
        let body = self.wake_time.write(self.private_network.write(body.int(EXTENSION_MAGIC)));
        self.succeeds.iter().fold(body, |body, tid| body.int(tid.raw()))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let mut reply = Self {
            tid: Tid::read(reader)?,
            parent: reader.int()?,
            output: Sink::read(reader)?,
            trace: Sink::read(reader)?,
            fragment_size: reader.int()?,
            signature: u32::read(reader)?,
            address: String::read(reader)?,
            scheduler: reader.int().unwrap_or(0),
            private_network: false,
            wake_time: 0,
            succeeds: None,
        };
        if reader.int() == Ok(EXTENSION_MAGIC) {
            reply.private_network = reader.int() == Ok(1);
            reply.wake_time = u32::read(reader).unwrap_or(0);
            reply.succeeds = Tid::read(reader).ok();
        }
        Ok(reply)
    }
}
