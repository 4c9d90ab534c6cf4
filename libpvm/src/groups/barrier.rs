//! Barriers.
//!
//! Members that agree on one among themselves tell it up the tree; the member at the top asks the keeper whether the
//! group is still what all of them took it for. If so the barrier is complete, and they tell it down the tree. If the
//! group changes meanwhile, the keeper tells everyone who has a view of it, and all who wait begin anew with a new
//! view. Since the keeper alone decides, and numbers the barriers, nobody passes one that others do not pass.

use super::port::Port;
use super::views::outdates;
use super::{Client, check_name, marked, read_mark, tree};
use crate::error::{Error, Result};
use pvm_wire::group::{Request, View, tag};
use pvm_wire::{Message, PvmError, Tid};
use std::ffi::OsStr;

/// A barrier among members, as one of them sees it.
struct Place<'a> {
    name: &'a OsStr,
    view: &'a View,
    rank: usize,
}

impl Place<'_> {
    fn tid(&self, rank: usize) -> Tid {
        self.view.members[rank].1
    }

    fn mark(&self) -> [i32; 2] {
        [self.view.epoch, self.view.turn]
    }
}

impl<P: Port> Client<'_, P> {
    /// Waits until so many members have come here; -1 is all.
    pub fn barrier(&mut self, name: &OsStr, count: i32) -> Result<()> {
        check_name(name)?;
        self.recorded("barrier", name, |client| client.arrive(name, count))
    }

    fn arrive(&mut self, name: &OsStr, count: i32) -> Result<()> {
        let mut waiting_for = None;
        while self.server()?.ours {
            let view = self.view(name)?;
            if waiting_for.is_some_and(|turn| view.turn > turn) {
                return Ok(());
            }
            let all = count == -1 || usize::try_from(count) == Ok(view.members.len());
            if !view.barriers || !all {
                break;
            }
            waiting_for = Some(view.turn);
            let own = self.port.tid()?;
            let rank = view.members.iter().position(|&(_, tid)| tid == own).ok_or(PvmError::NotInGroup)?;
            if self.meet(&Place { name, view: &view, rank })? {
                if let Some(view) = self.groups.views.get_mut(name) {
                    view.turn = view.turn.wrapping_add(1);
                }
                return Ok(());
            }
        }
        self.ask_number(Request::Barrier(name, count)).map(drop)
    }

    /// Meets all members of a view; `false` if the group has changed meanwhile.
    fn meet(&mut self, place: &Place<'_>) -> Result<bool> {
        let size = place.view.members.len();
        for child in tree::children(place.rank, size) {
            if !self.hear(place, child, tag::ARRIVED)? {
                return Ok(false);
            }
        }
        let complete = match tree::parent(place.rank) {
            Some(parent) => {
                self.say(place, parent, tag::ARRIVED)?;
                self.hear(place, parent, tag::RELEASED)?
            }
            None => self.claim(place)?,
        };
        if complete {
            // Those with the most below them first.
            for child in tree::children(place.rank, size).into_iter().rev() {
                self.say(place, child, tag::RELEASED)?;
            }
        }
        Ok(complete)
    }

    fn claim(&mut self, place: &Place<'_>) -> Result<bool> {
        let [epoch, turn] = place.mark();
        let valid = self.ask_number(Request::Claim(place.name, epoch, turn))? == 1;
        if !valid {
            self.groups.views.remove(place.name);
        }
        Ok(valid)
    }

    fn say(&mut self, place: &Place<'_>, rank: usize, tag: i32) -> Result<()> {
        self.port.send(place.tid(rank), tag, &marked(place.name, place.mark()).finish())
    }

    /// Waits for what a member says; `false` if the group changes before that.
    fn hear(&mut self, place: &Place<'_>, rank: usize, what: i32) -> Result<bool> {
        let keeper = self.server()?.tid;
        let said = |message: &Message| {
            let (src, tag) = (message.src, message.header.tag);
            let mark = read_mark(&message.body).filter(|_| src == place.tid(rank) && tag == what);
            mark.is_some_and(|(name, mark, _)| name == place.name && mark == place.mark())
        };
        let mut wanted =
            |message: &Message| said(message) || outdates(message, keeper, place.name, place.view);
        let message = self.wait(self.until(), &mut wanted)?;
        let message = message.ok_or_else(|| Error::new(PvmError::SysErr, "the barrier took too long"))?;
        if message.header.tag == what {
            return Ok(true);
        }
        self.forget_view(&message.body);
        Ok(false)
    }
}
