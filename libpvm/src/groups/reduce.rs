//! Reductions: the arrays of all members become one, at the member called root.

use super::port::{Port, Until};
use super::views::outdates;
use super::{Client, check_name, marked, read_mark, server, tree};
use crate::error::{Error, Result};
use pvm_wire::group::{View, tag as tags};
use pvm_wire::{Encoding, Message, PvmError, Tid};
use std::collections::BTreeSet;

/// The elements that a message carries.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// How they are encoded; `None` cannot be read.
    pub encoding: Option<Encoding>,
    /// The encoded elements.
    pub data: &'a [u8],
}

impl<'a> Part<'a> {
    /// A whole message.
    pub fn of(message: &'a Message) -> Self {
        Self { encoding: Encoding::of_word(message.header.encoding), data: &message.body }
    }
}

/// The array of one member, into which others' are reduced.
pub(crate) trait Operand {
    /// The elements in XDR.
    fn pack(&self) -> Result<Vec<u8>>;
    /// Reduces others into these.
    fn fold(&mut self, other: Part<'_>) -> Result<()>;
    /// Takes others in their place.
    fn replace(&mut self, other: Part<'_>) -> Result<()>;
}

/// A reduction among members, as one of them sees it.
struct Place<'a> {
    name: &'a str,
    tag: i32,
    view: View,
    /// Where the root stands among the members: it is rank 0.
    top: usize,
}

impl Place<'_> {
    fn tid(&self, rank: usize) -> Tid {
        self.view.members[(rank + self.top) % self.view.members.len()].1
    }
}

impl<P: Port> Client<'_, P> {
    /// Reduces the arrays of all members; the root has the result.
    pub fn reduce(&mut self, name: &str, tag: i32, root: i32, operand: &mut dyn Operand) -> Result<()> {
        check_name(name)?;
        if self.server()?.ours {
            let view = self.view(name)?;
            let own = self.port.tid()?;
            let position =
                view.members.iter().position(|&(_, tid)| tid == own).ok_or(PvmError::NotInGroup)?;
            let top = view.members.iter().position(|&(instance, _)| instance == root);
            let top = top.ok_or(PvmError::NoInst)?;
            if view.ours {
                let size = view.members.len();
                let rank = (position + size - top) % size;
                return self.reduce_along_tree(&Place { name, tag, view, top }, rank, operand);
            }
        }
        self.reduce_by_hosts(name, tag, root, operand)
    }

    fn reduce_along_tree(&mut self, place: &Place<'_>, rank: usize, operand: &mut dyn Operand) -> Result<()> {
        let mut outcome = Ok(());
        for child in tree::children(rank, place.view.members.len()) {
            // After a failure the others are heard all the same, or they would be heard by the next reduction.
            let folded = self.fold_child(place, place.tid(child), operand, outcome.is_ok());
            outcome = outcome.and(folded);
        }
        if let Some(parent) = tree::parent(rank) {
            let code = outcome.as_ref().err().map_or(0, |error: &Error| error.code().code());
            let mut body = marked(place.name, [place.tag, code]).finish();
            if outcome.is_ok() {
                body.extend(operand.pack()?);
            }
            self.port.send(place.tid(parent), tags::REDUCED, &body)?;
        }
        outcome
    }

    fn fold_child(
        &mut self,
        place: &Place<'_>,
        child: Tid,
        operand: &mut dyn Operand,
        fold: bool,
    ) -> Result<()> {
        let message = self.hear_child(place, child)?;
        let (_, [_, code], data) = read_mark(&message.body).ok_or(PvmError::BadMsg)?;
        server::check(code)?;
        if fold { operand.fold(Part { data, ..Part::of(&message) }) } else { Ok(()) }
    }

    /// What a member below has reduced. If it is no longer in the group, nothing will come.
    fn hear_child(&mut self, place: &Place<'_>, child: Tid) -> Result<Message> {
        let keeper = self.server()?.tid;
        let said = |message: &Message| {
            let mark = read_mark(&message.body)
                .filter(|_| message.src == child && message.header.tag == tags::REDUCED);
            mark.is_some_and(|(name, [tag, _], _)| name == place.name && tag == place.tag)
        };
        let mut known = place.view.clone();
        loop {
            let mut wanted =
                |message: &Message| said(message) || outdates(message, keeper, place.name, &known);
            let message = self.port.wait(self.until(), &mut wanted)?.ok_or_else(too_long)?;
            if message.header.tag == tags::REDUCED {
                return Ok(message);
            }
            self.forget_view(&message.body);
            known = self.view(place.name)?;
            if !known.members.iter().any(|&(_, tid)| tid == child) {
                // What it said before it left is here by now, since the keeper learned of it later.
                let last = self.port.wait(Until::Now, &mut |message| said(message))?;
                return last.ok_or_else(|| PvmError::NoInst.into());
            }
        }
    }

    /// The original's way: on each host the lowest member reduces, and the root reduces what these send. The original
    /// takes what comes first, here each member is heard by name: what one sends early for its next reduction waits.
    fn reduce_by_hosts(&mut self, name: &str, tag: i32, root: i32, operand: &mut dyn Operand) -> Result<()> {
        let own = self.port.tid()?;
        self.own_instance(name)?;
        let root = self.tid_of(name, root)?;
        let members: BTreeSet<Tid> = self.members(name)?.into_iter().collect();
        let here = members.iter().copied().filter(|tid| tid.to_host() == own.to_host());
        let here: Vec<Tid> = here.collect();
        let coordinator = here.first().copied().unwrap_or(own);
        if coordinator == own {
            for &member in here.iter().filter(|&&member| member != own) {
                let message = self.hear_member(member, tag)?;
                operand.fold(Part::of(&message))?;
            }
        }
        let next = if coordinator == own { root } else { coordinator };
        if next != own {
            self.port.send(next, tag, &operand.pack()?)?;
        }
        if root == own {
            if coordinator != own {
                // These elements are among what it sends.
                let message = self.hear_member(coordinator, tag)?;
                operand.replace(Part::of(&message))?;
            }
            let mut hosts = BTreeSet::from([own.to_host()]);
            for &member in members.iter().filter(|member| hosts.insert(member.to_host())) {
                let message = self.hear_member(member, tag)?;
                operand.fold(Part::of(&message))?;
            }
        }
        Ok(())
    }
}

fn too_long() -> Error {
    Error::new(PvmError::SysErr, "the other members took too long")
}
