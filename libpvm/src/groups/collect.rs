//! Gathering and scattering: arrays of all members become one of the root's, or the other way round.
//!
//! The messages are the original's, so members of both libraries can do it together. Each element travels once.

use super::port::Port;
use super::reduce::Part;
use super::{Client, check_name};
use crate::error::{Error, Result};
use pvm_wire::{Message, PvmError, Tid};

/// The members, and which of them this task is.
struct Roster {
    tids: Vec<Tid>,
    own: usize,
}

impl<P: Port> Client<'_, P> {
    /// The root is handed the elements of each instance: `None` stands for its own.
    pub fn gather(
        &mut self,
        name: &str,
        tag: i32,
        root: i32,
        pack: &dyn Fn() -> Result<Vec<u8>>,
        take: &mut dyn FnMut(usize, Option<Part<'_>>) -> Result<()>,
    ) -> Result<()> {
        let roster = self.roster(name)?;
        let root = instance(&roster, root)?;
        if roster.own != root {
            return self.port.send(roster.tids[root], tag, &pack()?);
        }
        for (instance, &tid) in roster.tids.iter().enumerate() {
            if instance == root {
                take(instance, None)?;
            } else {
                let message = self.hear_member(tid, tag)?;
                take(instance, Some(Part::of(&message)))?;
            }
        }
        Ok(())
    }

    /// Each member is handed its elements of the root's: `None` stands for the root's own.
    pub fn scatter(
        &mut self,
        name: &str,
        tag: i32,
        root: i32,
        pack: &dyn Fn(usize) -> Result<Vec<u8>>,
        take: &mut dyn FnMut(usize, Option<Part<'_>>) -> Result<()>,
    ) -> Result<()> {
        let roster = self.roster(name)?;
        let root = instance(&roster, root)?;
        if roster.own != root {
            let message = self.hear_member(roster.tids[root], tag)?;
            return take(roster.own, Some(Part::of(&message)));
        }
        for (instance, &tid) in roster.tids.iter().enumerate() {
            if instance != root {
                self.port.send(tid, tag, &pack(instance)?)?;
            }
        }
        take(root, None)
    }

    fn roster(&mut self, name: &str) -> Result<Roster> {
        check_name(name)?;
        let tids: Vec<Tid> = if self.server()?.ours {
            let view = self.view(name)?;
            self.check_member(view.members.iter().map(|&(_, tid)| tid))?;
            if view.members.last().is_some_and(|&(last, _)| last as usize + 1 != view.members.len()) {
                return Err(PvmError::NoInst.into());
            }
            view.members.into_iter().map(|(_, tid)| tid).collect()
        } else {
            self.own_instance(name)?;
            self.members_without_gap(name)?
        };
        let own = self.check_member(tids.iter().copied())?;
        Ok(Roster { tids, own })
    }

    fn check_member(&mut self, mut tids: impl Iterator<Item = Tid>) -> Result<usize> {
        let own = self.port.tid()?;
        Ok(tids.position(|tid| tid == own).ok_or(PvmError::NotInGroup)?)
    }

    /// What a member has sent with this tag.
    pub fn hear_member(&mut self, tid: Tid, tag: i32) -> Result<Message> {
        let mut wanted = |message: &Message| message.src == tid && message.header.tag == tag;
        let message = self.port.wait(self.until(), &mut wanted)?;
        message.ok_or_else(|| Error::new(PvmError::SysErr, "the other members took too long"))
    }
}

fn instance(roster: &Roster, instance: i32) -> Result<usize> {
    let index = usize::try_from(instance).ok().filter(|&index| index < roster.tids.len());
    Ok(index.ok_or(PvmError::NoInst)?)
}
