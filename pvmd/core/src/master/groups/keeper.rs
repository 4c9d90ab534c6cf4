//! The keeper of all groups: what a request leads to.

use super::group::{Gathered, Group, Told};
use pvm_wire::body::BodyWriter;
use pvm_wire::group::{Key, Notice, Passed, Request, tag};
use pvm_wire::{PvmError, Tid};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// Most groups.
const GROUPS_MAX: usize = 65_536;
/// Most members of all groups together.
const MEMBERS_MAX: usize = 1_048_576;
/// Longest name, bytes.
const NAME_MAX: usize = 1024;
/// Most bytes of names together, so that a list of all fits into one answer.
const NAMES_MAX: usize = 8 * 1024 * 1024;

/// A message of the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub to: Vec<Tid>,
    pub tag: i32,
    pub body: Vec<u8>,
}

/// All groups of the virtual machine.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Keeper {
    groups: BTreeMap<OsString, Group>,
    /// The groups of each member.
    memberships: BTreeMap<Tid, BTreeSet<OsString>>,
    members: usize,
    names: usize,
    /// The last epoch that was begun, whatever the group: none comes twice.
    epoch: i32,
}

impl Keeper {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Carries out a request of a task.
    pub fn handle(&mut self, from: Tid, tag: i32, body: &[u8]) -> Vec<Answer> {
        let request = Request::decode(tag, body);
        match request {
            Request::Join(name, ours) => {
                let code = self.join(name, from, ours);
                self.after_change(name, answer(from, tag, int(code)), code.is_ok())
            }
            Request::Leave(name) => self.leave(name, from),
            Request::Barrier(name, count) | Request::BarrierV(name, count) => {
                self.arrive(Gathered::Barrier, name, from, count, tag)
            }
            Request::Static(name, count) => self.arrive(Gathered::Freeze, name, from, count, tag),
            Request::View(name, has_ledger) => self.view(name, from, has_ledger),
            Request::Passed(key, passed) => self.note_passed(from, key, passed),
            Request::Other => Vec::new(),
            Request::Dump => {
                self.dump();
                Vec::new()
            }
            Request::List => vec![answer(from, tag, self.list())],
            _ => vec![answer(from, tag, self.look_up(request))],
        }
    }

    /// A task has ended.
    pub fn task_gone(&mut self, tid: Tid) -> Vec<Answer> {
        let mut answers = Vec::new();
        for name in self.memberships.remove(&tid).unwrap_or_default() {
            answers.extend(self.lose(&name, tid, true));
        }
        answers
    }

    /// A task lives elsewhere: its groups have changed.
    pub fn task_moved(&mut self, tid: Tid) -> Vec<Answer> {
        let names = self.memberships.get(&tid).cloned().unwrap_or_default();
        names.iter().flat_map(|name| self.changed(name)).collect()
    }

    /// The members of which this is true.
    pub fn members_where(&self, which: impl Fn(Tid) -> bool) -> Vec<Tid> {
        self.memberships.keys().copied().filter(|&tid| which(tid)).collect()
    }

    /// Whether the task is in any group.
    pub fn has(&self, tid: Tid) -> bool {
        self.memberships.contains_key(&tid)
    }

    fn group(&self, name: &OsStr) -> Result<&Group, PvmError> {
        check_name(name)?;
        self.groups.get(name).ok_or(PvmError::NoGroup)
    }

    fn group_mut(&mut self, name: &OsStr) -> Result<&mut Group, PvmError> {
        check_name(name)?;
        self.groups.get_mut(name).ok_or(PvmError::NoGroup)
    }

    /// A task is made a member under this instance, unless that cannot be: it finds then that it is none.
    pub fn enter(&mut self, name: &OsStr, tid: Tid, instance: u32) -> Vec<Answer> {
        match self.take_in(name, tid, |group| group.enter(tid, instance)) {
            Ok(_) => self.changed(name),
            Err(_) => Vec::new(),
        }
    }

    fn join(&mut self, name: &OsStr, tid: Tid, ours: bool) -> Result<i32, PvmError> {
        self.take_in(name, tid, |group| group.join(tid, ours))
    }

    fn take_in(
        &mut self,
        name: &OsStr,
        tid: Tid,
        join: impl FnOnce(&mut Group) -> Result<i32, PvmError>,
    ) -> Result<i32, PvmError> {
        check_name(name)?;
        let new = !self.groups.contains_key(name);
        let names = if new { self.names + name.len() } else { self.names };
        let full = self.members >= MEMBERS_MAX || new && self.groups.len() >= GROUPS_MAX;
        if full || names > NAMES_MAX || name.len() > NAME_MAX {
            return Err(PvmError::OutOfRes);
        }
        let instance = match self.groups.entry(name.to_owned()) {
            Entry::Occupied(group) => join(group.into_mut())?,
            Entry::Vacant(place) => {
                let mut group = Group::new(0);
                let instance = join(&mut group)?;
                place.insert(group);
                instance
            }
        };
        (self.names, self.members) = (names, self.members + 1);
        self.memberships.entry(tid).or_default().insert(name.to_owned());
        Ok(instance)
    }

    fn leave(&mut self, name: &OsStr, tid: Tid) -> Vec<Answer> {
        let member = self.group(name).and_then(|group| group.instance(tid));
        let mut answers = vec![answer(tid, tag::LEAVE, int(member.map(|_| 0)))];
        if member.is_ok() {
            if let Entry::Occupied(mut groups) = self.memberships.entry(tid) {
                groups.get_mut().remove(name);
                if groups.get().is_empty() {
                    groups.remove();
                }
            }
            answers.splice(0..0, self.lose(name, tid, false));
        }
        answers
    }

    /// Takes a member out of a group; the last one takes the group along.
    fn lose(&mut self, name: &OsStr, tid: Tid, died: bool) -> Vec<Answer> {
        let Some(group) = self.groups.get_mut(name).filter(|group| group.has(tid)) else { return Vec::new() };
        let told = group.lose(tid, died);
        group.note_way();
        self.members -= 1;
        let asked = group.finish_closing();
        if group.len() == 0 {
            self.groups.remove(name);
            self.names -= name.len();
        }
        let mut answers = self.changed(name);
        answers.extend(asked.into_iter().flat_map(|tid| self.view(name, tid, false)));
        for (kind, told) in told {
            answers.extend(self.tell(kind, name, told));
        }
        answers
    }

    fn view(&mut self, name: &OsStr, by: Tid, has_ledger: bool) -> Vec<Answer> {
        let group = match self.group_mut(name) {
            Ok(group) => group,
            Err(error) => return vec![answer(by, tag::VIEW, int(Err(error)))],
        };
        let may_agree = has_ledger && group.note_ledger(by);
        let mut answers = if may_agree { self.changed(name) } else { Vec::new() };
        let view = self.groups.get_mut(name).and_then(|group| group.view(by));
        answers.extend(view.map(|view| answer(by, tag::VIEW, view.encode())));
        answers
    }

    /// A member, or its daemon in its place, says how many barriers it has passed in one of its groups.
    fn note_passed(&mut self, by: Tid, key: Key, passed: Option<Passed>) -> Vec<Answer> {
        let names = self.memberships.get(&by);
        let Some(name) = names.and_then(|names| names.iter().find(|name| Key::of(name) == key)).cloned()
        else {
            return Vec::new();
        };
        let Some(group) = self.groups.get_mut(&name) else { return Vec::new() };
        group.note_passed(by, passed);
        let asked = group.finish_closing();
        asked.into_iter().flat_map(|tid| self.view(&name, tid, false)).collect()
    }

    fn arrive(&mut self, kind: Gathered, name: &OsStr, tid: Tid, count: i32, tag: i32) -> Vec<Answer> {
        let group = match self.group_mut(name) {
            Ok(group) => group,
            Err(error) => return vec![answer(tid, tag, int(Err(error)))],
        };
        let before = group.barriers_by_members();
        let arrived = group.arrive(kind, tid, count, tag == tag::BARRIERV);
        group.note_way();
        let of_all = !group.arrived().is_empty();
        let changed = of_all || group.has_settled_anew() || group.barriers_by_members() != before;
        let mut answers = if changed { self.changed(name) } else { Vec::new() };
        match arrived {
            Ok(None) => {}
            Ok(Some(told)) => answers.extend(self.tell(kind, name, told)),
            Err(error) => answers.push(answer(tid, tag, int(Err(error)))),
        }
        answers
    }

    /// A gathering is over.
    fn tell(&self, kind: Gathered, name: &OsStr, (to, outcome): Told) -> Vec<Answer> {
        let tag = if kind == Gathered::Barrier { tag::BARRIER } else { tag::STATIC };
        let mut body = int(outcome);
        if let (Gathered::Freeze, Ok(_), Some(group)) = (kind, outcome, self.groups.get(name)) {
            body.extend(group.state(name, false).finish());
        }
        vec![Answer { to, tag, body }]
    }

    fn after_change(&mut self, name: &OsStr, last: Answer, changed: bool) -> Vec<Answer> {
        let mut answers = if changed { self.changed(name) } else { Vec::new() };
        answers.push(last);
        answers
    }

    /// A group has changed: its members with a view are told.
    fn changed(&mut self, name: &OsStr) -> Vec<Answer> {
        self.epoch = self.epoch.wrapping_add(1);
        let epoch = self.epoch;
        let Some(group) = self.groups.get_mut(name) else { return Vec::new() };
        let (to, is_closing) = group.change(epoch);
        let asked = group.finish_closing();
        let mut answers: Vec<_> = asked.into_iter().flat_map(|tid| self.view(name, tid, false)).collect();
        if !to.is_empty() {
            let body = Notice { name, epoch, is_closing }.encode();
            answers.push(Answer { to, tag: tag::CHANGED, body });
        }
        answers
    }

    /// Questions that change nothing.
    fn look_up(&self, request: Request<'_>) -> Vec<u8> {
        match request {
            Request::Bcast(name) => self.tids(name, self.group(name).map(|group| group.members().collect())),
            Request::TidList(name) => self.tids(name, self.group(name).and_then(Group::members_without_gap)),
            Request::GetInst(name, tid) => {
                self.with_state(name, self.group(name).and_then(|group| group.instance_or_next(tid)))
            }
            Request::GetTid(name, instance) => {
                let tid = self.group(name).and_then(|group| group.tid(instance));
                self.with_state(name, tid.map(Tid::raw))
            }
            Request::GSize(name) => self.with_state(name, self.group(name).map(|group| group.len() as i32)),
            Request::HostChar(name, host) => self.host_char(name, host),
            Request::HostCharV(name) => {
                let (counts, coordinators) = self.group(name).map(Group::hosts).unwrap_or_default();
                let writer = BodyWriter::new().int(counts.len() as i32).ints(counts).ints(coordinators);
                self.followed_by_state(writer, name, true)
            }
            _ => int(Err(PvmError::BadParam)),
        }
    }

    fn host_char(&self, name: &OsStr, host: Tid) -> Vec<u8> {
        let found = self.group(name).ok().and_then(|group| {
            let (count, coordinator) = group.on_host(host);
            coordinator
                .filter(|_| host.is_host())
                .map(|tid| [group.hosts().0.len() as i32, count as i32, tid.raw()])
        });
        let writer = BodyWriter::new().ints(found.unwrap_or([0, 0, -1]));
        self.followed_by_state(writer, name, true)
    }

    fn tids(&self, name: &OsStr, tids: Result<Vec<Tid>, PvmError>) -> Vec<u8> {
        match tids {
            Err(error) => int(Err(error)),
            Ok(tids) => {
                let raw = tids.iter().map(|tid| tid.raw());
                self.followed_by_state(BodyWriter::new().int(tids.len() as i32).ints(raw), name, false)
            }
        }
    }

    fn with_state(&self, name: &OsStr, number: Result<i32, PvmError>) -> Vec<u8> {
        let number = number.unwrap_or_else(PvmError::code);
        self.followed_by_state(BodyWriter::new().int(number), name, false)
    }

    fn followed_by_state(&self, writer: BodyWriter, name: &OsStr, of_hosts: bool) -> Vec<u8> {
        let none = || BodyWriter::new().int(pvm_wire::group::state::DYNAMIC);
        let state = self.groups.get(name).map_or_else(none, |group| group.state(name, of_hosts));
        [writer.finish(), state.finish()].concat()
    }

    fn list(&self) -> Vec<u8> {
        let writer = BodyWriter::new().int(self.groups.len() as i32);
        self.groups.iter().fold(writer, |writer, (name, group)| group.listed(writer, name)).finish()
    }

    fn dump(&self) {
        for (name, group) in &self.groups {
            let members: Vec<String> = group.members().map(|tid| tid.to_string()).collect();
            tracing::info!(group = %name.display(), members = members.join(" "), "group");
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.memberships.is_empty() && self.members == 0 && self.names == 0
    }
}

fn check_name(name: &OsStr) -> Result<(), PvmError> {
    if name.is_empty() { Err(PvmError::NullGroup) } else { Ok(()) }
}

fn answer(to: Tid, tag: i32, body: Vec<u8>) -> Answer {
    Answer { to: vec![to], tag, body }
}

fn int(value: Result<i32, PvmError>) -> Vec<u8> {
    value.unwrap_or_else(PvmError::code).to_be_bytes().to_vec()
}
