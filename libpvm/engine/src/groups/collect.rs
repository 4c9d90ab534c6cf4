//! Gathering and scattering: arrays of all members become one of the root's, or the other way round.
//!
//! With a member of the original's library the messages are the original's. Each element travels once.

use super::mark::{self, Call, Elements, Mark};
use super::port::Port;
use super::reduce::Part;
use super::{Client, check_name};
use crate::Result;
use pvm_wire::group::{View, tag as tags};
use pvm_wire::{Encoding, Message, PvmError, Tid};
use std::ffi::OsStr;
use std::sync::Arc;

/// The members, the place of this task among them, and the format of their messages.
struct Roster<'a> {
    name: &'a OsStr,
    members: Members<'a>,
    own: usize,
    root: usize,
    /// An instance is missing.
    gap: bool,
    /// The program's tag.
    tag: i32,
}

/// Members by instance, and how they exchange elements.
enum Members<'a> {
    /// All have this system's library.
    Ours(Mark<'a>, Arc<View>),
    /// In the original's format.
    Originals(Vec<Tid>),
}

impl Roster<'_> {
    fn len(&self) -> usize {
        match &self.members {
            Members::Ours(_, view) => view.members.len(),
            Members::Originals(tids) => tids.len(),
        }
    }

    fn tid(&self, place: usize) -> Tid {
        match &self.members {
            Members::Ours(_, view) => view.members[place].1,
            Members::Originals(tids) => tids[place],
        }
    }

    fn part<'m>(&self, message: &'m Message) -> Result<Part<'m>> {
        match &self.members {
            Members::Ours(..) => mark::elements(message),
            Members::Originals(_) => Ok(Part::of(message)),
        }
    }

    /// No elements, if an instance is missing.
    fn check<T>(&self, elements: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.gap { Err(PvmError::NoInst.into()) } else { elements() }
    }
}

impl<P: Port> Client<'_, P> {
    /// The root is handed the elements of each instance: `None` stands for its own.
    pub fn gather<'e>(
        &mut self,
        name: &OsStr,
        tag: i32,
        root: i32,
        pack: &dyn Fn(Encoding) -> Result<Elements<'e>>,
        take: &mut dyn FnMut(usize, Option<Part<'_>>) -> Result<()>,
    ) -> Result<()> {
        check_name(name)?;
        let call = Call { what: tags::GATHERED, tag, root };
        self.recorded("gather", name, |client| client.gather_parts(name, call, pack, take))
    }

    fn gather_parts<'e>(
        &mut self,
        name: &OsStr,
        call: Call,
        pack: &dyn Fn(Encoding) -> Result<Elements<'e>>,
        take: &mut dyn FnMut(usize, Option<Part<'_>>) -> Result<()>,
    ) -> Result<()> {
        let roster = self.roster(name, call)?;
        if roster.own != roster.root {
            return self.send_elements(&roster, roster.root, |encoding| roster.check(|| pack(encoding)));
        }
        self.may_receive(&roster)?;
        let mut outcome = Ok(());
        for instance in 0..roster.len() {
            // After a failure the others' messages are still received, or the next call would receive them.
            let taken = if instance == roster.root {
                take(instance, None)
            } else {
                let message = self.receive_elements(&roster, instance)?;
                roster.part(&message).and_then(|part| take(instance, Some(part)))
            };
            outcome = outcome.and(taken);
        }
        outcome
    }

    /// Each member is handed its elements of the root's: `None` stands for the root's own.
    pub fn scatter<'e>(
        &mut self,
        name: &OsStr,
        tag: i32,
        root: i32,
        pack: &dyn Fn(usize, Encoding) -> Result<Elements<'e>>,
        take: &mut dyn FnMut(usize, Option<Part<'_>>) -> Result<()>,
    ) -> Result<()> {
        check_name(name)?;
        let call = Call { what: tags::SCATTERED, tag, root };
        self.recorded("scatter", name, |client| client.scatter_parts(name, call, pack, take))
    }

    fn scatter_parts<'e>(
        &mut self,
        name: &OsStr,
        call: Call,
        pack: &dyn Fn(usize, Encoding) -> Result<Elements<'e>>,
        take: &mut dyn FnMut(usize, Option<Part<'_>>) -> Result<()>,
    ) -> Result<()> {
        let roster = self.roster(name, call)?;
        if roster.own != roster.root {
            self.may_receive(&roster)?;
            let message = self.receive_elements(&roster, roster.root)?;
            return take(roster.own, Some(roster.part(&message)?));
        }
        let mut outcome = roster.check(|| Ok(()));
        for instance in (0..roster.len()).filter(|&instance| instance != roster.root) {
            let pack = |encoding| roster.check(|| pack(instance, encoding));
            let sent = self.send_elements(&roster, instance, pack);
            outcome = outcome.and(sent);
        }
        outcome.and_then(|()| take(roster.own, None))
    }

    fn roster<'n>(&mut self, name: &'n OsStr, call: Call) -> Result<Roster<'n>> {
        if !self.server()?.ours {
            return self.roster_of_originals(name, call);
        }
        let (view, own) = (self.view(name)?, self.own()?);
        let place = view.members.iter().position(|&(_, tid)| tid == own).ok_or(PvmError::NotInGroup)?;
        let is_root = |&(instance, _): &(i32, Tid)| instance == call.root;
        let root = view.members.iter().position(is_root).ok_or(PvmError::NoInst)?;
        let gap = view.has_gap();
        let members = if view.ours {
            Members::Ours(Mark::new(name, call, &view, own), view)
        } else if gap {
            return Err(PvmError::NoInst.into());
        } else {
            Members::Originals(view.members.iter().map(|&(_, tid)| tid).collect())
        };
        Ok(Roster { name, members, own: place, root, gap, tag: call.tag })
    }

    /// With the original's group server.
    fn roster_of_originals<'n>(&mut self, name: &'n OsStr, call: Call) -> Result<Roster<'n>> {
        let own = self.own()?;
        self.own_instance(name)?;
        let tids = self.members_without_gap(name)?;
        let own = tids.iter().position(|&tid| tid == own).ok_or(PvmError::NotInGroup)?;
        let root =
            usize::try_from(call.root).ok().filter(|&root| root < tids.len()).ok_or(PvmError::NoInst)?;
        Ok(Roster { name, members: Members::Originals(tids), own, root, gap: false, tag: call.tag })
    }

    /// Sends elements to a member. A member with this system's library gets a failure, too.
    fn send_elements<'e>(
        &mut self,
        roster: &Roster<'_>,
        to: usize,
        elements: impl FnOnce(Encoding) -> Result<Elements<'e>>,
    ) -> Result<()> {
        let to = roster.tid(to);
        match &roster.members {
            Members::Ours(mark, _) => self.send_marked(to, mark, elements),
            Members::Originals(_) => self.port.send(to, roster.tag, &elements(Encoding::Xdr)?),
        }
    }

    fn may_receive(&mut self, roster: &Roster<'_>) -> Result<()> {
        let Members::Ours(mark, view) = &roster.members else { return Ok(()) };
        self.may_receive_marked(mark, view)?;
        roster.check(|| Ok(())).map_err(|error| self.give_up(mark, view, error))
    }

    fn receive_elements(&mut self, roster: &Roster<'_>, from: usize) -> Result<Message> {
        let from = roster.tid(from);
        match &roster.members {
            Members::Ours(mark, view) => {
                let received = self.receive_marked(from, mark, view);
                received.map_err(|error| self.give_up(mark, view, error))
            }
            Members::Originals(_) => self.receive_from_member(roster.name, from, roster.tag, true),
        }
    }
}
