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
    tids: Vec<Tid>,
    own: usize,
    root: usize,
    /// An instance is missing.
    gap: bool,
    /// If all have this system's library.
    ours: Option<(Mark<'a>, Arc<View>)>,
    /// The program's tag.
    tag: i32,
}

impl Roster<'_> {
    fn part<'m>(&self, message: &'m Message) -> Result<Part<'m>> {
        if self.ours.is_some() { mark::elements(message) } else { Ok(Part::of(message)) }
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
        for instance in 0..roster.tids.len() {
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
        for instance in (0..roster.tids.len()).filter(|&instance| instance != roster.root) {
            let pack = |encoding| roster.check(|| pack(instance, encoding));
            let sent = self.send_elements(&roster, instance, pack);
            outcome = outcome.and(sent);
        }
        outcome.and_then(|()| take(roster.own, None))
    }

    fn roster<'n>(&mut self, name: &'n OsStr, call: Call) -> Result<Roster<'n>> {
        let own = self.own()?;
        let (members, ours): (Vec<(i32, Tid)>, _) = if self.server()?.ours {
            let view = self.view(name)?;
            let mark = Mark::new(name, call, &view, own);
            (view.members.clone(), Some((mark, view)))
        } else {
            self.own_instance(name)?;
            ((0..).zip(self.members_without_gap(name)?).collect(), None)
        };
        let own = members.iter().position(|&(_, tid)| tid == own).ok_or(PvmError::NotInGroup)?;
        let root = members.iter().position(|&(instance, _)| instance == call.root).ok_or(PvmError::NoInst)?;
        let tids = members.into_iter().map(|(_, tid)| tid).collect();
        let gap = ours.as_ref().is_some_and(|(_, view)| view.has_gap());
        let ours = ours.filter(|(_, view)| view.ours);
        if gap && ours.is_none() {
            return Err(PvmError::NoInst.into());
        }
        Ok(Roster { name, tids, own, root, gap, ours, tag: call.tag })
    }

    /// Sends elements to a member. A member with this system's library gets a failure, too.
    fn send_elements<'e>(
        &mut self,
        roster: &Roster<'_>,
        to: usize,
        elements: impl FnOnce(Encoding) -> Result<Elements<'e>>,
    ) -> Result<()> {
        let to = roster.tids[to];
        match &roster.ours {
            Some((mark, _)) => self.send_marked(to, mark, elements),
            None => self.port.send(to, roster.tag, &elements(Encoding::Xdr)?),
        }
    }

    fn may_receive(&mut self, roster: &Roster<'_>) -> Result<()> {
        let Some((mark, view)) = &roster.ours else { return Ok(()) };
        self.may_receive_marked(mark, view)?;
        roster.check(|| Ok(())).map_err(|error| self.give_up(mark, view, error))
    }

    fn receive_elements(&mut self, roster: &Roster<'_>, from: usize) -> Result<Message> {
        let from = roster.tids[from];
        match &roster.ours {
            Some((mark, view)) => {
                let received = self.receive_marked(from, mark, view);
                received.map_err(|error| self.give_up(mark, view, error))
            }
            None => self.receive_from_member(roster.name, from, roster.tag, true),
        }
    }
}
