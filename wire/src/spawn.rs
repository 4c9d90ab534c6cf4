//! What a spawn asks for: flags, the request, the sinks of the new tasks' output.

use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::calls::Field;
use crate::limits::TRAFFIC_PAIRS;
use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Bits of `pvm_spawn`'s flag argument.
pub mod flags {
    /// `where` names a host; `.` is the spawner's own.
    pub const HOST: i32 = 1;
    /// `where` names an architecture.
    pub const ARCH: i32 = 2;
    /// Start under the debugger script.
    pub const DEBUG: i32 = 4;
    /// No effect, as in PVM.
    pub const TRACE: i32 = 8;
    /// No effect on workstations, as in PVM.
    pub const MPP_FRONT: i32 = 16;
    /// The complement of the hosts chosen so far.
    pub const HOST_COMPLEMENT: i32 = 32;
    /// The children are not told who spawned them.
    pub const NO_SPAWN_PARENT: i32 = 64;
    /// The tasks wait until there is room for them. Not PVM's.
    pub const QUEUED: i32 = 128;
    /// The tasks end when the host of the task that spawns them is lost. Not PVM's.
    pub const TIED: i32 = 256;
    /// The tasks may end and begin again. Not PVM's.
    pub const RESTARTS: i32 = 512;
}

/// Where a task's output or trace goes: a task, and how the messages to it are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sink {
    /// The receiving task; 0 or negative is nobody.
    pub tid: i32,
    /// Context of the messages.
    pub context: i32,
    /// Tag of the messages.
    pub tag: i32,
}

impl Sink {
    /// The receiver, if there is one.
    pub fn receiver(&self) -> Option<Tid> {
        (self.tid > 0).then_some(Tid::from_raw(self.tid))
    }
}

impl Field for Sink {
    const LEAST: usize = 12;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(self.tid).int(self.context).int(self.tag)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { tid: reader.int()?, context: reader.int()?, tag: reader.int()? })
    }
}

/// Environment variable of tasks that count what they send to whom.
pub const TRAFFIC_VARIABLE: &str = "PVM_COUNT_TRAFFIC";
/// Environment variable of tasks that count what they send to which other hosts.
pub const NETWORK_VARIABLE: &str = "PVM_COUNT_NETWORK";

/// Two tasks of a spawn that talk to each other, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The number of one of them; tasks count from 0.
    pub a: u32,
    /// The number of the other.
    pub b: u32,
    /// Units of traffic, any, the same for all pairs of a spawn: bytes, if they were counted.
    pub traffic: u64,
}

impl Field for Pair {
    const LEAST: usize = 16;
    const MOST: usize = TRAFFIC_PAIRS;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.traffic.write(self.b.write(self.a.write(body)))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { a: Field::read(reader)?, b: Field::read(reader)?, traffic: Field::read(reader)? })
    }
}

/// The body of TM_SPAWN. What only files and processes give a meaning to is of any bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// Program: a path, or a name to be found on the daemon's search path.
    pub file: OsString,
    /// Bits of [`flags`].
    pub flags: i32,
    /// Host, architecture or `:directory`, as the flags say.
    pub place: OsString,
    /// How many tasks.
    pub count: i32,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Sink of the tasks' output.
    pub output: Sink,
    /// Sink of the tasks' trace.
    pub trace: Sink,
    /// `NAME=value` entries added to the daemon's environment.
    pub env: Vec<OsString>,
    /// Name of the policy that places them; empty for the machine's. Not PVM's.
    pub policy: String,
    /// How much its tasks are expected to talk to each other, for the policy `graph-theoretic`. Not PVM's.
    pub traffic: Vec<Pair>,
}

/// Why some tasks of a spawn were not started: one reason, on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The host's tid; 0 if it was no host's doing.
    pub host: i32,
    /// PVM's code.
    pub code: i32,
    /// How many tasks.
    pub count: u32,
    /// What happened, for people.
    pub reason: String,
}

/// The answer to TM_SPAWN.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SpawnReply {
    /// Per task its tid, or an error code.
    pub results: Vec<i32>,
    /// Why those with a code were not started, as far as it is known. Not PVM's.
    pub refusals: Vec<Refusal>,
    /// Name of the policy that has placed them; empty if their host was given. Not PVM's.
    pub policy: String,
}

/// Environment variable with the policy of a task's spawns that name none: set for tasks of the jobs of a queue that has a policy, and for
/// what these spawn.
pub const POLICY_VARIABLE: &str = "PVM_SPAWN_POLICY";

/// An entry of an environment.
pub fn entry(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> OsString {
    [name.as_ref(), OsStr::new("="), value.as_ref()].into_iter().collect()
}

/// Name and value of an entry of an environment, if it is one.
pub fn split_entry(entry: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let mut parts = entry.as_bytes().splitn(2, |&byte| byte == b'=').map(OsStr::from_bytes);
    let (name, value) = (parts.next()?, parts.next()?);
    (!name.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_split_at_their_first_equals_sign() {
        let split = |text| split_entry(OsStr::from_bytes(text));
        let value = OsStr::from_bytes(b"b=\xff");
        assert_eq!(split(b"A=b=\xff"), Some((OsStr::new("A"), value)));
        assert_eq!(split_entry(&entry("A", value)), Some((OsStr::new("A"), value)));
        assert_eq!((split(b"A"), split(b"=b"), split(b"")), (None, None, None));
    }
}
