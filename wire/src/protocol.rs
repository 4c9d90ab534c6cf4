//! Bodies of the task–daemon protocol (TDPROTOCOL 1318), typed: the library writes what the daemon reads, and back.
//!
//! The two handshake messages end in fields that the original ignores, by which this system's library and daemon
//! recognise each other ([`codes::EXTENSION_MAGIC`]).

use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::calls::Field;
use crate::codes;
use crate::spawn::Sink;
use crate::tid::Tid;
use std::ffi::{OsStr, OsString};

/// TM_CONNECT: the first half of the enrolment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The library's protocol version.
    pub version: i32,
    /// File into which the daemon writes a byte, to prove that it may. A daemon and a library of this system need none.
    pub auth_file: String,
    /// Version of the extensions, if the library is this system's.
    pub extension: Option<i32>,
}

/// The answer to TM_CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectReply {
    /// The daemon's protocol version.
    pub version: i32,
    /// Whether the task may go on.
    pub accepted: bool,
    /// File into which the task writes a byte, to prove that it may. Empty between parts of this system.
    pub auth_file: String,
    /// Version of the extensions, if the daemon is this system's.
    pub extension: Option<i32>,
}

fn write_extension(body: BodyWriter, extension: Option<i32>) -> BodyWriter {
    match extension {
        Some(version) => body.int(codes::EXTENSION_MAGIC).int(version),
        None => body,
    }
}

fn read_extension(reader: &mut BodyReader<'_>) -> Option<i32> {
    (reader.int().ok()? == codes::EXTENSION_MAGIC).then(|| reader.int().ok())?
}

impl ConnectRequest {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        write_extension(BodyWriter::new().int(self.version).str(&self.auth_file), self.extension).finish()
    }

    /// The request in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let (version, auth_file) = (reader.int()?, reader.str()?.to_owned());
        Ok(Self { version, auth_file, extension: read_extension(&mut reader) })
    }
}

impl ConnectReply {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let body = BodyWriter::new().int(self.version).int(i32::from(self.accepted)).str(&self.auth_file);
        write_extension(body, self.extension).finish()
    }

    /// The reply in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let (version, accepted) = (reader.int()?, reader.int()? != 0);
        let auth_file = reader.str()?.to_owned();
        Ok(Self { version, accepted, auth_file, extension: read_extension(&mut reader) })
    }
}

/// TM_CONN2: the second half of the enrolment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrolRequest {
    /// The task's process id.
    pub pid: i32,
    /// `PVMEPID`, or 0: which spawned process this is.
    pub cookie: i32,
    /// A name to show in task lists, if the program set one.
    pub name: Option<OsString>,
}

impl EnrolRequest {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let body = BodyWriter::new().int(self.pid).int(self.cookie);
        match &self.name {
            Some(name) => body.str(name),
            None => body,
        }
        .finish()
    }

    /// The request in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let (pid, cookie) = (reader.int()?, reader.int()?);
        Ok(Self { pid, cookie, name: reader.os_str().ok().map(OsStr::to_owned) })
    }
}

/// The answer to TM_CONN2, and without its first field to TM_GETOPT.
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
}

impl EnrolReply {
    /// The body of the answer to TM_CONN2.
    pub fn encode(&self) -> Vec<u8> {
        self.write(BodyWriter::new().int(1)).finish()
    }

    /// The body of the answer to TM_GETOPT.
    pub fn encode_options(&self) -> Vec<u8> {
        self.write(BodyWriter::new()).finish()
    }

    fn write(&self, body: BodyWriter) -> BodyWriter {
        let body = body.int(self.tid.raw()).int(self.parent);
        let body = self
            .trace
            .write(self.output.write(body))
            .int(self.fragment_size)
            .int(self.signature as i32)
            .str(&self.address)
            .int(self.scheduler);
        if !self.private_network && self.wake_time == 0 {
            return body;
        }
        body.int(codes::EXTENSION_MAGIC)
            .int(i32::from(self.private_network))
            .int(self.wake_time.cast_signed())
    }

    /// The answer in a body; `None` is a refusal.
    pub fn decode(body: &[u8]) -> Result<Option<Self>, BodyError> {
        let mut reader = BodyReader::new(body);
        if reader.int()? <= 0 {
            return Ok(None);
        }
        let mut reply = Self {
            tid: Tid::from_raw(reader.int()?),
            parent: reader.int()?,
            output: Sink::read(&mut reader)?,
            trace: Sink::read(&mut reader)?,
            fragment_size: reader.int()?,
            signature: reader.int()? as u32,
            address: reader.str()?.to_owned(),
            scheduler: reader.int().unwrap_or(0),
            private_network: false,
            wake_time: 0,
        };
        if reader.int() == Ok(codes::EXTENSION_MAGIC) {
            reply.private_network = reader.int() == Ok(1);
            reply.wake_time = reader.int().map_or(0, i32::cast_unsigned);
        }
        Ok(Some(reply))
    }
}

/// A frame of a task's output (TC_OUTPUT): `what` is the text, or one of [`codes::output`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFrame {
    /// The task whose output it is.
    pub tid: Tid,
    /// What happened.
    pub what: OutputEvent,
}

/// What an [`OutputFrame`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// The task wrote this.
    Text(Vec<u8>),
    /// There will be no more.
    Eof,
    /// The task was spawned by this parent.
    Spawned(i32),
    /// The task was started for this parent.
    Started(i32),
}

impl OutputFrame {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let body = BodyWriter::new().int(self.tid.raw());
        match &self.what {
            OutputEvent::Text(text) => body.int(text.len() as i32).bytes(text),
            OutputEvent::Eof => body.int(codes::output::EOF),
            OutputEvent::Spawned(parent) => body.int(codes::output::SPAWN).int(*parent),
            OutputEvent::Started(parent) => body.int(codes::output::NEW).int(*parent),
        }
        .finish()
    }

    /// The frame in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let tid = Tid::from_raw(reader.int()?);
        let what = match reader.int()? {
            codes::output::EOF => OutputEvent::Eof,
            codes::output::SPAWN => OutputEvent::Spawned(reader.int()?),
            codes::output::NEW => OutputEvent::Started(reader.int()?),
            length if length > 0 => OutputEvent::Text(reader.bytes(length as usize)?.to_vec()),
            other => return Err(BodyError::Length(other)),
        };
        Ok(Self { tid, what })
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
