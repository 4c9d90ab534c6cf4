//! The mailbox of the virtual machine: named messages that tasks leave for each other. Only the master keeps one.
//!
//! It is handed the bodies of `TM_DB` requests and gives those of the answers, so it knows nothing of hosts and
//! connections: a waiting request is a ticket of the caller's kind.

mod pattern;

use pvm_wire::body::{BodyError, BodyWriter};
use pvm_wire::calls::mailbox::{self as calls, Flags, Found, Get, Operation, Put, Remove, Reset};
use pvm_wire::calls::nested::Nested;
use pvm_wire::calls::{Call, CallError};
use pvm_wire::daemon::Offer;
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::{HostIndex, Message, MessageHeader, PvmError, Tid, group};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// The class of what places on hosts cost.
const OFFERS: &str = "pvm.prices";

/// Most bytes of class names together, so that a list of all fits into one answer.
const NAMES_MAX: usize = 8 * 1024 * 1024;
/// Longest name of a class that may be waited for, bytes.
const WAITED_CLASS_MAX: usize = 4096;
/// Most gets that wait for a put.
const WAITERS_MAX: usize = 65_536;

/// The mailbox; `T` is what answers are addressed to.
#[derive(Debug, Serialize, Deserialize)]
pub struct Mailbox<T> {
    classes: BTreeMap<OsString, Class>,
    /// Gets that wait, by class, in order of arrival.
    waiters: BTreeMap<OsString, Vec<Waiter<T>>>,
    classes_made: u64,
    used: Used,
    /// Most entries, and most bytes of messages together.
    entries_max: usize,
    bytes_max: usize,
}

/// What counts towards the bounds.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Used {
    entries: usize,
    bytes: usize,
    names: usize,
    waiters: usize,
}

/// What a request leads to.
#[derive(Debug)]
pub struct Outcome<T> {
    /// Answers, in order: to the request, and to those that waited for it.
    pub answers: Vec<(T, Vec<u8>)>,
    /// A task that has come to own an entry: its end must be told by [`Mailbox::owner_gone`].
    pub watch: Option<Tid>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Class {
    /// Counts up with the making of classes.
    number: u64,
    entries: BTreeMap<i32, Entry>,
    /// All indices below are taken.
    dense: i32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    owner: Tid,
    flags: Flags,
    /// Goes with its owner though it is persistent, since a reset ends the owner.
    doomed: bool,
    /// It is a host's own, which does not count towards the bounds.
    is_offer: bool,
    message: Nested,
}

#[derive(Debug, Serialize, Deserialize)]
struct Waiter<T> {
    wanted: Wanted,
    ticket: T,
}

/// What a get asks for within a class.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Wanted {
    by: Tid,
    index: i32,
    first_available: bool,
    delete: bool,
}

impl<T> Mailbox<T> {
    /// An empty one with these bounds.
    pub fn new(entries_max: usize, bytes_max: usize) -> Self {
        let (classes, waiters) = (BTreeMap::new(), BTreeMap::new());
        Self { classes, waiters, classes_made: 0, used: Used::default(), entries_max, bytes_max }
    }

    /// A mailbox in which tasks find the keeper of groups, as they find the original's group server. The entry is the
    /// keeper's own, so nobody can take it away, and no list shows it.
    pub fn with_keeper(entries_max: usize, bytes_max: usize) -> Self {
        let keeper = group::keeper();
        let header = MessageHeader { encoding: XDR_WORD, ..MessageHeader::default() };
        let body = BodyWriter::new().int(keeper.raw()).finish().into();
        let message = Nested::new(&Message { src: keeper, dst: Tid::NONE, header, body });
        let mut mailbox = Self::new(entries_max, bytes_max);
        let entry = Entry { owner: keeper, flags: Flags::DEFAULT, doomed: false, is_offer: false, message };
        let class = mailbox.classes.entry(group::CLASS.into()).or_default();
        class.insert(0, entry);
        mailbox
    }

    /// Carries out the request in `body`, made by the task `from`.
    pub fn handle(&mut self, from: Tid, body: &[u8], ticket: T) -> Result<Outcome<T>, BodyError> {
        let operation = Operation::decode(body)?;
        // A reset ends tasks, so it comes from a console on behalf of none in particular.
        if operation.tid() != from && !matches!(operation, Operation::Reset(_)) {
            return Ok(Outcome::error(ticket, PvmError::Denied));
        }
        Ok(self.carry_out(operation, ticket))
    }

    /// Entries that tasks have left, and gets that wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.used.entries, self.used.waiters)
    }

    /// What a place on a host costs: an entry of the host's daemon, with the host's number as its index. The answers to those that waited for
    /// it. It goes with the host, and does not count towards the bounds.
    pub fn post(&mut self, host: HostIndex, name: &str, offer: Offer) -> Vec<(T, Vec<u8>)> {
        let owner = host.daemon();
        let number = |amount: u64| i32::try_from(amount).unwrap_or(i32::MAX);
        let Offer { price, last, sold, income } = offer;
        let body = BodyWriter::new().str(name).int(number(price)).int(number(last)).int(number(sold));
        let body = body.rest(&(income as f64).to_be_bytes()).finish().into();
        let header = MessageHeader { encoding: XDR_WORD, ..MessageHeader::default() };
        let message = Nested::new(&Message { src: owner, dst: Tid::NONE, header, body });
        self.drop_entry(OFFERS.as_ref(), host.get().cast_signed());
        let class = self.class(OFFERS.as_ref());
        let entry = Entry { owner, flags: Flags::DEFAULT, doomed: false, is_offer: true, message };
        class.insert(host.get().cast_signed(), entry);
        self.serve_waiters(OFFERS.as_ref())
    }

    /// A task that owned entries has ended.
    pub fn owner_gone(&mut self, owner: Tid) {
        self.hosts_tasks_gone(|tid| tid == owner);
    }

    /// The tasks of which this is true have ended. The keeper of groups never does, whatever is said of its host.
    pub fn hosts_tasks_gone(&mut self, gone: impl Fn(Tid) -> bool) {
        let ended = |owner| owner != Tid::NONE && owner != group::keeper() && gone(owner);
        self.retain(|entry| {
            let orphaned = ended(entry.owner);
            if orphaned {
                entry.owner = Tid::NONE;
            }
            !orphaned || (entry.flags.contains(Flags::PERSISTENT) && !entry.doomed)
        });
    }

    /// Those of which this is true do not wait any more.
    pub fn forget_waiters(&mut self, forget: impl Fn(&T) -> bool) {
        for waiters in self.waiters.values_mut() {
            waiters.retain(|waiter| !forget(&waiter.ticket));
        }
        self.waiters.retain(|_, waiters| !waiters.is_empty());
        self.used.waiters = self.waiters.values().map(Vec::len).sum();
    }

    fn carry_out(&mut self, operation: Operation, ticket: T) -> Outcome<T> {
        match operation {
            Operation::Put(put) => self.put(put, ticket),
            Operation::Get(get) => self.get(&get, ticket),
            Operation::Remove(remove) => Outcome::of::<Remove>(ticket, self.remove(&remove)),
            Operation::Names(names) => Outcome::of::<calls::Names>(ticket, Ok(self.names(&names.pattern))),
            Operation::Reset(reset) => {
                self.reset(&reset);
                Outcome::of::<Reset>(ticket, Ok(()))
            }
        }
    }

    fn put(&mut self, put: Put, ticket: T) -> Outcome<T> {
        let index = match self.slot_of(&put).and_then(|index| self.check_room(&put, index)) {
            Ok(index) => index,
            Err(error) => return Outcome::error(ticket, error),
        };
        self.used.bytes += put.message.bytes().len();
        let class = self.class(&put.class);
        let Put { tid: owner, flags, message, .. } = put;
        let entry = Entry { owner, flags, doomed: false, is_offer: false, message };
        match class.insert(index, entry) {
            Some(old) => self.used.bytes -= old.message.bytes().len(),
            None => self.used.entries += 1,
        }
        let mut answers = vec![(ticket, Put::encode_reply(&index))];
        answers.extend(self.serve_waiters(&put.class));
        Outcome { answers, watch: Some(put.tid) }
    }

    /// The class of this name, which is made if there is none.
    fn class(&mut self, name: &OsStr) -> &mut Class {
        self.classes.entry(name.to_owned()).or_insert_with(|| {
            self.classes_made += 1;
            self.used.names += name.len();
            Class { number: self.classes_made, ..Class::default() }
        })
    }

    /// The index that a put is to have.
    fn slot_of(&self, put: &Put) -> Result<i32, PvmError> {
        if put.class.is_empty() || put.class.len() > NAMES_MAX {
            return Err(PvmError::BadParam);
        }
        let (explicit, multi) = (put.index >= 0, put.flags.contains(Flags::MULTI_INSTANCE));
        let wanted = if explicit { put.index } else { put.flags.wanted_index() };
        let Some(class) = self.classes.get(&put.class) else { return Ok(wanted) };
        if multi && !explicit {
            return class.free_from(wanted).ok_or(PvmError::OutOfRes);
        }
        match class.entries.get(&wanted) {
            // As `pvm_insert` of PVM 3.3 has it: nothing is replaced.
            Some(_) if multi => Err(PvmError::Denied),
            Some(entry) if !entry.yields_to(put.tid) => Err(PvmError::Denied),
            _ => Ok(wanted),
        }
    }

    fn check_room(&self, put: &Put, index: i32) -> Result<i32, PvmError> {
        let class = self.classes.get(&put.class);
        let replaced = class.and_then(|class| class.entries.get(&index));
        let freed = replaced.map_or(0, |entry| entry.message.bytes().len());
        let name = if class.is_some() { 0 } else { put.class.len() };
        if replaced.is_none() && self.used.entries >= self.entries_max || self.used.names + name > NAMES_MAX {
            return Err(PvmError::OutOfRes);
        }
        if self.used.bytes - freed + put.message.bytes().len() > self.bytes_max {
            return Err(PvmError::NoMem);
        }
        Ok(index)
    }

    fn get(&mut self, get: &Get, ticket: T) -> Outcome<T> {
        let wanted = Wanted {
            by: get.tid,
            index: get.index,
            // `pvm_lookup` of PVM 3.3 asks for "the first" by −1.
            first_available: get.flags.contains(Flags::FIRST_AVAILABLE) || get.index < 0,
            delete: get.flags.contains(Flags::READ_AND_DELETE),
        };
        match self.take(&get.class, wanted) {
            Some(found) => Outcome::of::<Get>(ticket, found),
            None if get.flags.contains(Flags::WAIT_FOR_INFO) => {
                self.wait(&get.class, Waiter { wanted, ticket })
            }
            None => Outcome::error(ticket, PvmError::NotFound),
        }
    }

    fn wait(&mut self, class: &OsStr, waiter: Waiter<T>) -> Outcome<T> {
        if self.used.waiters >= WAITERS_MAX || class.len() > WAITED_CLASS_MAX {
            return Outcome::error(waiter.ticket, PvmError::OutOfRes);
        }
        self.used.waiters += 1;
        self.waiters.entry(class.to_owned()).or_default().push(waiter);
        Outcome { answers: Vec::new(), watch: None }
    }

    /// What there is of what is wanted; `None` if there is nothing of it.
    fn take(&mut self, class: &OsStr, wanted: Wanted) -> Option<Result<Found, PvmError>> {
        let entries = &self.classes.get(class)?.entries;
        let (&index, entry) = if wanted.first_available {
            entries.range(wanted.index..).next()?
        } else {
            entries.get_key_value(&wanted.index)?
        };
        if wanted.delete && !entry.yields_to(wanted.by) {
            return Some(Err(PvmError::Denied));
        }
        let found = Found { index, message: entry.message.clone() };
        if wanted.delete {
            self.drop_entry(class, index);
        }
        Some(Ok(found))
    }

    /// A put has come: it may be what others wait for.
    fn serve_waiters(&mut self, class: &OsStr) -> Vec<(T, Vec<u8>)> {
        let (mut answers, mut left) = (Vec::new(), Vec::new());
        let Some(waiters) = self.waiters.remove(class) else { return answers };
        for waiter in waiters {
            match self.take(class, waiter.wanted) {
                Some(found) => answers.extend(Outcome::of::<Get>(waiter.ticket, found).answers),
                None => left.push(waiter),
            }
        }
        self.used.waiters -= answers.len();
        if !left.is_empty() {
            self.waiters.insert(class.to_owned(), left);
        }
        answers
    }

    fn remove(&mut self, remove: &Remove) -> Result<i32, PvmError> {
        let entry = self.classes.get(&remove.class).and_then(|class| class.entries.get(&remove.index));
        if !entry.ok_or(PvmError::NotFound)?.yields_to(remove.tid) {
            return Err(PvmError::Denied);
        }
        self.drop_entry(&remove.class, remove.index);
        Ok(remove.index)
    }

    fn drop_entry(&mut self, name: &OsStr, index: i32) {
        let Some(class) = self.classes.get_mut(name) else { return };
        if let Some(entry) = class.entries.remove(&index) {
            class.dense = class.dense.min(index);
            if !entry.is_offer {
                self.used.entries -= 1;
                self.used.bytes -= entry.message.bytes().len();
            }
        }
        if class.entries.is_empty() {
            self.classes.remove(name);
            self.used.names -= name.len();
        }
    }

    /// Drops the entries of which `keep` is not true.
    fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        let mut dropped = Vec::new();
        for (name, class) in &mut self.classes {
            let gone = class.entries.iter_mut().filter_map(|(&index, entry)| (!keep(entry)).then_some(index));
            dropped.extend(gone.map(|index| (name.clone(), index)));
        }
        for (name, index) in dropped {
            self.drop_entry(&name, index);
        }
    }

    /// All classes that the pattern matches, in the order of their making.
    fn names(&self, pattern: &OsStr) -> Vec<calls::Class> {
        let shown = |class: &Class| class.entries.values().any(|entry| entry.owner != group::keeper());
        let chosen = |(name, class): &(&OsString, &Class)| shown(class) && pattern::matches(pattern, name);
        let mut classes: Vec<_> = self.classes.iter().filter(chosen).collect();
        classes.sort_by_key(|(_, class)| class.number);
        let entry =
            |(&index, entry): (&i32, &Entry)| calls::Entry { index, owner: entry.owner, flags: entry.flags };
        let listed = |(name, class): (&OsString, &Class)| calls::Class {
            name: name.clone(),
            entries: class.entries.iter().map(entry).collect(),
        };
        classes.into_iter().map(listed).collect()
    }

    /// Drops what tasks that are gone have left; if tasks are being ended, what those leave will go with them.
    fn reset(&mut self, reset: &Reset) {
        let Reset { class, index, kill, keep, .. } = reset;
        let keep: BTreeSet<Tid> = keep.iter().copied().collect();
        let mut orphans = Vec::new();
        let chosen = self.classes.iter_mut().filter(|(name, _)| class.is_empty() || *name == class);
        for (name, chosen) in chosen {
            for (&at, entry) in chosen.entries.iter_mut().filter(|(at, _)| *index < 0 || *at == index) {
                if entry.owner == Tid::NONE {
                    orphans.push((name.clone(), at));
                } else {
                    entry.doomed |= *kill && !keep.contains(&entry.owner);
                }
            }
        }
        for (name, at) in orphans {
            self.drop_entry(&name, at);
        }
    }
}

impl Class {
    fn insert(&mut self, index: i32, entry: Entry) -> Option<Entry> {
        if index == self.dense {
            self.dense = self.dense.saturating_add(1);
        }
        self.entries.insert(index, entry)
    }

    /// The smallest free index that is not below `wanted`.
    fn free_from(&self, wanted: i32) -> Option<i32> {
        let mut free = wanted.max(self.dense);
        for &taken in self.entries.range(free..).map(|(index, _)| index) {
            if taken > free {
                break;
            }
            free = taken.checked_add(1)?;
        }
        Some(free)
    }
}

impl Entry {
    /// Whether this task may replace or delete it.
    fn yields_to(&self, tid: Tid) -> bool {
        self.owner == tid || self.flags.contains(Flags::OVERWRITABLE)
    }
}

impl<T> Outcome<T> {
    fn of<C: Call>(ticket: T, answer: Result<C::Reply, PvmError>) -> Self {
        match answer {
            Ok(reply) => Self { answers: vec![(ticket, C::encode_reply(&reply))], watch: None },
            Err(error) => Self::error(ticket, error),
        }
    }

    fn error(ticket: T, error: PvmError) -> Self {
        Self { answers: vec![(ticket, CallError::from(error).encode())], watch: None }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
