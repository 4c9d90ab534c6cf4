//! Groups of tasks: the calls of members, with the daemon or the original's group server as keeper.
//!
//! On this system's daemon members whose libraries are all of this system agree on barriers and reduce among
//! themselves. With a member of the original's library, or on the original's daemon, everything goes
//! the original's way.

mod barrier;
mod collect;
mod gate;
mod mark;
mod port;
mod reduce;
mod server;
#[cfg(test)]
mod steps_tests;
mod tree;
mod views;

pub use gate::Passage;
pub use mark::Elements;
pub use port::{Look, Notices, Port, Until, encoded, header};
pub use reduce::{Operand, Part};

use crate::Result;
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::group::{Request, View};
use pvm_wire::{Message, PvmError, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Instant;

/// The group server, as one task has found it.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Its id.
    pub tid: Tid,
    ours: bool,
    found_by: Tid,
}

/// A task's state of groups, kept between calls.
#[derive(Debug, Default)]
pub struct Groups {
    server: Option<Server>,
    views: BTreeMap<OsString, Arc<View>>,
    /// Where members meet in shared memory.
    gates: BTreeMap<OsString, gate::Meeting>,
    /// In which calls of which groups this task gave up on what other members say, and since when all had met then.
    given_up: BTreeMap<OsString, (i32, BTreeSet<mark::Call>)>,
}

impl Groups {
    /// The group server, if it is known.
    pub fn server(&self) -> Option<Tid> {
        self.server.map(|server| server.tid)
    }
}

impl Groups {
    /// The other members of a group of which `own` is one, if they are known: notices of changes have been looked for.
    pub fn others_than(&self, own: Tid, name: &OsStr) -> Option<impl Iterator<Item = Tid>> {
        let server = self.server.filter(|server| server.ours && server.found_by == own);
        let view = server.and_then(|_| self.views.get(name)).filter(|view| view.has(own))?.clone();
        if view.members.len() < 2 {
            return None;
        }
        let others = (0..view.members.len()).map(move |place| view.members[place].1);
        Some(others.filter(move |&tid| tid != own))
    }
}

/// A task that makes a group call.
pub struct Client<'a, P> {
    port: &'a mut P,
    groups: &'a mut Groups,
    deadline: Option<Instant>,
    own: Option<Tid>,
}

impl<'a, P: Port> Client<'a, P> {
    /// A call that waits for the server until the deadline, if there is one.
    pub fn new(port: &'a mut P, groups: &'a mut Groups, deadline: Option<Instant>) -> Self {
        Self { port, groups, deadline, own: None }
    }

    /// This task.
    fn own(&mut self) -> Result<Tid> {
        match self.own {
            Some(own) => Ok(own),
            None => Ok(*self.own.insert(self.port.tid()?)),
        }
    }

    fn until(&self) -> Until {
        self.deadline.map_or(Until::Forever, Until::Time)
    }

    /// Makes a call that `pvm run --trace` shows as such.
    fn recorded<T>(
        &mut self,
        call: &str,
        group: &OsStr,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let begun = self.port.record(|engine| engine.begin_span()).flatten();
        let result = body(self);
        if begun.is_some() {
            self.port.record(|engine| engine.record_group(begun, call, group));
        }
        result
    }

    /// Waits for a message, which `pvm run --trace` shows.
    fn wait(&mut self, until: Until, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let begun = self.port.record(|engine| {
            engine.report_before_wait();
            engine.begin_span()
        });
        let message = self.port.wait(until, wanted)?;
        if let Some(begun @ Some(_)) = begun {
            self.port.record(|engine| match &message {
                Some(message) => {
                    engine.record_receive(begun, message.src, &message.header, message.body.len());
                }
                None => engine.record_wait(begun),
            });
        }
        Ok(message)
    }

    /// Joins and returns the instance.
    pub fn join(&mut self, name: &OsStr) -> Result<i32> {
        check_name(name)?;
        self.forget(name);
        self.recorded("joingroup", name, |client| client.ask_number(Request::Join(name, true)))
    }

    /// Leaves.
    pub fn leave(&mut self, name: &OsStr) -> Result<()> {
        check_name(name)?;
        self.forget(name);
        if self.server()?.ours {
            self.report_passed(name)?;
        }
        self.recorded("lvgroup", name, |client| client.ask_number(Request::Leave(name)).map(drop))
    }

    fn forget(&mut self, name: &OsStr) {
        self.groups.views.remove(name);
        self.groups.gates.remove(name);
        self.groups.given_up.remove(name);
    }

    /// Number of members.
    pub fn size(&mut self, name: &OsStr) -> Result<i32> {
        check_name(name)?;
        self.ask_number(Request::GSize(name))
    }

    /// The task of an instance.
    pub fn tid_of(&mut self, name: &OsStr, instance: i32) -> Result<Tid> {
        check_name(name)?;
        self.ask_number(Request::GetTid(name, instance)).map(Tid::from_raw)
    }

    /// The instance of a task.
    pub fn instance_of(&mut self, name: &OsStr, tid: Tid) -> Result<i32> {
        check_name(name)?;
        self.ask_number(Request::GetInst(name, tid))
    }

    /// The instance of this task.
    pub fn own_instance(&mut self, name: &OsStr) -> Result<i32> {
        let own = self.own()?;
        self.instance_of(name, own)
    }

    /// All members, as they are now.
    pub fn members(&mut self, name: &OsStr) -> Result<Vec<Tid>> {
        check_name(name)?;
        self.tids(Request::Bcast(name))
    }

    /// All members by instance; there must be no gap.
    fn members_without_gap(&mut self, name: &OsStr) -> Result<Vec<Tid>> {
        check_name(name)?;
        self.tids(Request::TidList(name))
    }

    fn tids(&mut self, request: Request<'_>) -> Result<Vec<Tid>> {
        let answer = self.ask(request)?;
        let mut reader = BodyReader::new(&answer.body);
        let mut head = reader;
        server::check(head.int()?)?;
        let count = reader.count(4)?;
        Ok(reader.ints(count)?.into_iter().map(Tid::from_raw).collect())
    }

    /// Sends, by this function, to all members but this task.
    pub fn broadcast<T>(
        &mut self,
        name: &OsStr,
        send: impl FnOnce(&mut P, Vec<Tid>) -> Result<T>,
    ) -> Result<T> {
        self.recorded("bcast", name, |client| {
            let others = client.others(name)?;
            send(client.port, others)
        })
    }

    /// All members but this task.
    fn others(&mut self, name: &OsStr) -> Result<Vec<Tid>> {
        let own = self.own()?;
        let mut others = self.members_as_known(name, own)?;
        others.retain(|&tid| tid != own);
        if others.is_empty() { Err(PvmError::NoInst.into()) } else { Ok(others) }
    }

    /// All members: a member is notified of every change, so it need not ask.
    fn members_as_known(&mut self, name: &OsStr, own: Tid) -> Result<Vec<Tid>> {
        check_name(name)?;
        if self.server()?.ours {
            let view = self.view(name)?;
            if view.has(own) {
                return Ok(view.members.iter().map(|&(_, tid)| tid).collect());
            }
        }
        self.members(name)
    }

    /// Waits until the group has `count` members, and makes it static. Returns the count.
    pub fn freeze(&mut self, name: &OsStr, count: i32) -> Result<i32> {
        check_name(name)?;
        self.recorded("freezegroup", name, |client| client.ask_number(Request::Static(name, count)))
    }

    /// Has the server write all groups to its log.
    pub fn dump(&mut self) -> Result<()> {
        let server = self.server()?;
        self.port.send(server.tid, Request::Dump.tag(), &Request::Dump.encode())
    }
}

fn check_name(name: &OsStr) -> Result<()> {
    if name.is_empty() { Err(PvmError::NullGroup.into()) } else { Ok(()) }
}

/// The group that a message between members is about.
fn read_name(body: &[u8]) -> Option<&OsStr> {
    BodyReader::new(body).os_str().ok()
}

/// The beginning of a message between members: which group, and two numbers.
fn marked(name: &OsStr, numbers: [i32; 2]) -> BodyWriter {
    BodyWriter::new().str(name).ints(numbers)
}

/// Reads it, and gives the rest.
fn read_mark(body: &[u8]) -> Option<(&OsStr, [i32; 2], &[u8])> {
    let mut reader = BodyReader::new(body);
    let name = reader.os_str().ok()?;
    let numbers = [reader.int().ok()?, reader.int().ok()?];
    Some((name, numbers, reader.rest()))
}
