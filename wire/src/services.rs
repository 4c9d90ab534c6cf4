//! What daemons and the tasks that stand in for them say to each other: a resource manager, which decides where tasks and
//! hosts go, and a tasker, which starts a host's tasks (reference, section 4.8).

use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::calls::Field;
use crate::calls::roles::TracerTerms;
use crate::spawn::{Sink, SpawnRequest};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Start tasks here (`SM_EXEC`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// Parent, as the tasks see it.
    pub parent: i32,
    /// What to start; its `place` is empty.
    pub spawn: SpawnRequest,
    /// Number of the first of them in the whole spawn.
    pub first: i32,
    /// Tasks of the whole spawn.
    pub total: i32,
}

impl ExecRequest {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let spawn = &self.spawn;
        let mut body = BodyWriter::new().int(self.parent).str(&spawn.file).int(spawn.flags).int(spawn.count);
        push_strings(&mut body, &spawn.args);
        let mut body = spawn.trace.write(spawn.output.write(body));
        push_strings(&mut body, &spawn.env);
        body.int(self.first).int(self.total).finish()
    }

    /// The request in a body. The two numbers at the end may be missing: nothing depends on them.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let parent = reader.int()?;
        let spawn = SpawnRequest {
            file: reader.os_str()?.to_owned(),
            flags: reader.int()?,
            place: OsString::new(),
            count: reader.int()?,
            args: reader.os_strings()?,
            output: Sink::read(&mut reader)?,
            trace: Sink::read(&mut reader)?,
            env: reader.os_strings()?,
            ..SpawnRequest::default()
        };
        let mut number = || if reader.rest().is_empty() { Ok(0) } else { reader.int() };
        Ok(Self { parent, spawn, first: number()?, total: number()? })
    }
}

/// Start this task (`SM_STTASK`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartTask {
    /// Its id.
    pub tid: Tid,
    /// Flags of the spawn.
    pub flags: i32,
    /// The program's path.
    pub path: OsString,
    /// Arguments, the program's name not among them.
    pub args: Vec<OsString>,
    /// Its `PVMEPID`, by which the daemon knows it when it enrols.
    pub cookie: i32,
    /// The rest of the environment, `NAME=value`.
    pub env: Vec<OsString>,
    /// Its number in the spawn, from 0.
    pub instance: i32,
    /// Tasks of the spawn on this host.
    pub here: i32,
    /// Tasks of the spawn on all hosts.
    pub total: i32,
}

impl StartTask {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = BodyWriter::new().int(self.tid.raw()).int(self.flags).str(&self.path);
        body.push_int(self.args.len() as i32 + 1);
        body.push_str(&self.path);
        for arg in &self.args {
            body.push_str(arg);
        }
        body.push_int(self.env.len() as i32 + 1);
        body.push_str(format!("PVMEPID={}", self.cookie));
        for entry in &self.env {
            body.push_str(entry);
        }
        body.int(self.instance).int(self.here).int(self.total).finish()
    }

    /// The order in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let (tid, flags) = (Tid::from_raw(reader.int()?), reader.int()?);
        let (path, mut args, mut env) =
            (reader.os_str()?.to_owned(), reader.os_strings()?, reader.os_strings()?);
        let is_cookie = |entry: &OsString| entry.as_bytes().starts_with(b"PVMEPID=");
        let cookie = env.iter().position(is_cookie).map(|index| env.remove(index));
        let cookie = cookie.and_then(|entry| entry.to_str()?.split_once('=')?.1.parse().ok());
        // The first one is the program's name.
        args.drain(..args.len().min(1));
        let (instance, here, total) = (reader.int()?, reader.int()?, reader.int()?);
        Ok(Self { tid, flags, path, args, cookie: cookie.unwrap_or(0), env, instance, here, total })
    }
}

/// A task has ended (`SM_TASKX`), said by a daemon to the resource manager or by a tasker to its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskEnded {
    /// Which.
    pub tid: Tid,
    /// How, as `wait` gives it.
    pub status: i32,
}

impl TaskEnded {
    /// The body. The times that it spent are not known here: 0.
    pub fn encode(&self) -> Vec<u8> {
        BodyWriter::new().int(self.tid.raw()).int(self.status).ints([0; 4]).finish()
    }

    /// The news in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        Ok(Self { tid: Tid::from_raw(reader.int()?), status: reader.int()? })
    }
}

/// A daemon that a hoster is to start (one entry of `SM_STHOST`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartHost {
    /// The place it will have.
    pub host: Tid,
    /// `so=`, verbatim.
    pub start_options: String,
    /// `[login@]host`.
    pub target: String,
    /// The command to run there. Its first line of output is the answer.
    pub command: String,
    /// `PVM_VMID`, or empty.
    pub vmid: String,
}

impl StartHost {
    /// The body of `SM_STHOST`.
    pub fn encode_all(hosts: &[Self]) -> Vec<u8> {
        let mut body = BodyWriter::new().int(hosts.len() as i32);
        for host in hosts {
            body.push_int(host.host.raw());
            // The fourth string is a command for Windows.
            for text in [&*host.start_options, &host.target, &host.command, "", &host.vmid] {
                body.push_str(text);
            }
        }
        body.finish()
    }

    /// The orders in such a body.
    pub fn decode_all(body: &[u8]) -> Result<Vec<Self>, BodyError> {
        let mut reader = BodyReader::new(body);
        let count = reader.count(24)?;
        let one = |reader: &mut BodyReader<'_>| {
            let host = Tid::from_raw(reader.int()?);
            let mut text = || reader.str().map(str::to_owned);
            let (start_options, target, command) = (text()?, text()?, text()?);
            text()?;
            Ok(Self { host, start_options, target, command, vmid: text()? })
        };
        (0..count).map(|_| one(&mut reader)).collect()
    }
}

/// The body of `SM_STHOSTACK`, see [`decode_started_hosts`].
pub fn encode_started_hosts(hosts: &[(Tid, String)]) -> Vec<u8> {
    let body = BodyWriter::new().int(hosts.len() as i32);
    hosts.iter().fold(body, |body, (host, line)| body.int(host.raw()).str(line)).finish()
}

/// The body of `SM_STHOSTACK`: for each host what its command has printed, or the name of an error.
pub fn decode_started_hosts(body: &[u8]) -> Result<Vec<(Tid, String)>, BodyError> {
    let mut reader = BodyReader::new(body);
    let count = reader.count(8)?;
    (0..count).map(|_| Ok((Tid::from_raw(reader.int()?), reader.str()?.to_owned()))).collect()
}

fn push_strings(body: &mut BodyWriter, strings: &[OsString]) {
    body.push_int(strings.len() as i32);
    for text in strings {
        body.push_str(text);
    }
}

/// The task that gets the trace and output of tasks that have no other receiver (`pvm_reg_tracer`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracer {
    /// Where trace goes.
    pub trace: Sink,
    /// Where output goes.
    pub output: Sink,
    /// Which events tasks tell.
    pub mask: String,
    /// How much they gather, bytes.
    pub buffer: i32,
    /// How much they tell.
    pub options: i32,
}

impl Tracer {
    /// This task, on these terms.
    pub fn new(tid: Tid, terms: TracerTerms) -> Self {
        let sink = |context, tag| Sink { tid: tid.raw(), context, tag };
        Self {
            trace: sink(terms.trace_context, terms.trace_tag),
            output: sink(terms.output_context, terms.output_tag),
            mask: terms.mask,
            buffer: terms.buffer,
            options: terms.options,
        }
    }

    /// The task.
    pub fn tid(&self) -> Tid {
        Tid::from_raw(self.trace.tid)
    }

    /// What spawned tasks find in their environment.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("PVMTMASK", self.mask.clone()),
            ("PVMTRCBUF", self.buffer.to_string()),
            ("PVMTRCOPT", self.options.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_start_survives_the_wire() {
        let spawn = SpawnRequest {
            file: "prog".into(),
            flags: 64,
            count: 3,
            args: vec![OsString::from_vec(b"caf\xe9".to_vec()), OsString::new()],
            output: Sink { tid: 1, context: 2, tag: 3 },
            env: vec!["A=b".into()],
            ..SpawnRequest::default()
        };
        let request = ExecRequest { parent: 0x40001, spawn, first: 2, total: 9 };
        let body = request.encode();
        assert_eq!(ExecRequest::decode(&body), Ok(request.clone()));
        let short = ExecRequest { first: 0, total: 0, ..request };
        assert_eq!(ExecRequest::decode(&body[..body.len() - 8]), Ok(short));
    }

    #[test]
    fn a_tasker_gets_the_program_as_its_first_argument_and_the_cookie_as_its_first_variable() {
        let task = StartTask {
            tid: Tid::from_bits(0x40002),
            flags: 0,
            path: "/bin/p".into(),
            args: vec!["x".into()],
            cookie: 10_000_001,
            env: vec!["A=b".into()],
            instance: 0,
            here: 1,
            total: 2,
        };
        let body = task.encode();
        assert_eq!(StartTask::decode(&body), Ok(task));
        let mut reader = BodyReader::new(&body);
        assert_eq!((reader.int(), reader.int(), reader.str()), (Ok(0x40002), Ok(0), Ok("/bin/p")));
        assert_eq!(reader.strings(), Ok(vec!["/bin/p".to_owned(), "x".to_owned()]));
        assert_eq!(reader.strings(), Ok(vec!["PVMEPID=10000001".to_owned(), "A=b".to_owned()]));
        assert_eq!(reader.ints(3), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn a_hosters_orders_and_answers_survive_the_wire() {
        let order = StartHost {
            host: Tid::from_bits(0x80000),
            start_options: "pw".to_owned(),
            target: "me@there".to_owned(),
            command: "pvmd -s".to_owned(),
            vmid: String::new(),
        };
        let orders = [order.clone(), StartHost { host: Tid::from_bits(0xc0000), ..order }];
        assert_eq!(StartHost::decode_all(&StartHost::encode_all(&orders)), Ok(orders.to_vec()));
        let lines = vec![(Tid::from_bits(0x80000), "PvmCantStart".to_owned())];
        assert_eq!(decode_started_hosts(&encode_started_hosts(&lines)), Ok(lines));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ExecRequest::decode(&body);
            let _ = TaskEnded::decode(&body);
            let _ = StartTask::decode(&body);
            let _ = StartHost::decode_all(&body);
            let _ = decode_started_hosts(&body);
        }
    }
}
