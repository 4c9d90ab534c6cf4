//! Barriers.
//!
//! Members report their arrival up a tree; the member at the top asks the keeper whether the group is still as in the view that
//! all of them have. If so the barrier is complete, and the release goes down the tree. If the
//! group changes meanwhile, the keeper notifies every member that has a view of it, and all waiting members begin anew with a new
//! view. Since only the keeper decides, and numbers the barriers, no member passes one that others do not pass. Members that share
//! memory also agree on a gate there in this way, which they use for the following barriers.

use super::port::Port;
use super::tree::Tree;
use super::views::outdates;
use super::{Client, check_name, marked, read_mark};
use crate::{Error, Result};
use pvm_wire::body::BodyReader;
use pvm_wire::group::{Request, View, tag};
use pvm_wire::{Message, PvmError, Tid};
use std::ffi::OsStr;
use std::sync::Arc;

/// One member's part of a barrier.
struct Place<'a> {
    name: &'a OsStr,
    view: &'a View,
    rank: usize,
    tree: Tree,
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
    /// Waits until `count` members have called it; -1 is all.
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
            match self.pass_gate(name, &view)? {
                Some(true) => return Ok(()),
                // The group may have changed: the next round gets the new view.
                Some(false) => continue,
                None => {}
            }
            waiting_for = Some(view.turn);
            let own = self.own()?;
            let rank = view.members.iter().position(|&(_, tid)| tid == own).ok_or(PvmError::NotInGroup)?;
            let tree = Tree::new(view.members.iter().map(|&(_, tid)| tid), 0);
            if self.synchronize(&Place { name, view: &view, rank, tree })? {
                if let Some(view) = self.groups.views.get_mut(name) {
                    let view = Arc::make_mut(view);
                    view.turn = view.turn.wrapping_add(1);
                }
                return Ok(());
            }
        }
        self.ask_number(Request::Barrier(name, count)).map(drop)
    }

    /// Carries out a barrier of all members of a view; `false` if the group has changed meanwhile.
    fn synchronize(&mut self, place: &Place<'_>) -> Result<bool> {
        let size = place.view.members.len();
        let mut memory = self.port.reach(place.tid(0));
        for child in place.tree.children(place.rank) {
            let Some([can_reach, _]) = self.receive_step(place, child, tag::ARRIVED)? else {
                return Ok(false);
            };
            memory = memory.filter(|_| can_reach != 0);
        }
        let gate = match place.tree.parent(place.rank) {
            Some(parent) => {
                self.send_step(place, parent, tag::ARRIVED, [i32::from(memory.is_some()), 0])?;
                let Some(gate) = self.receive_step(place, parent, tag::RELEASED)? else { return Ok(false) };
                gate
            }
            None if self.claim(place)? => {
                let gate = memory.as_ref().and_then(|_| self.open_gate(place.name, size));
                gate.map_or([0; 2], |at| [(at >> 32) as i32, at as i32])
            }
            None => return Ok(false),
        };
        // Other hosts first, and of them the largest subtrees.
        for child in place.tree.children(place.rank).into_iter().rev() {
            self.send_step(place, child, tag::RELEASED, gate)?;
        }
        if let Some(memory) = memory.filter(|_| gate != [0; 2]) {
            let at = u64::from(gate[0] as u32) << 32 | u64::from(gate[1] as u32);
            self.note_gate(place.name, place.view, memory, at, place.rank == 0);
        }
        Ok(true)
    }

    fn claim(&mut self, place: &Place<'_>) -> Result<bool> {
        let [epoch, turn] = place.mark();
        let valid = self.ask_number(Request::Claim(place.name, epoch, turn))? == 1;
        if !valid {
            self.groups.views.remove(place.name);
        }
        Ok(valid)
    }

    fn send_step(&mut self, place: &Place<'_>, rank: usize, tag: i32, about_gate: [i32; 2]) -> Result<()> {
        let body = marked(place.name, place.mark()).ints(about_gate).finish();
        self.port.send(place.tid(rank), tag, &body)
    }

    /// Waits for a member's message, and returns what it says about the gate: whether it can be reached, or where it is. `None`
    /// if the group changes before that.
    fn receive_step(&mut self, place: &Place<'_>, rank: usize, what: i32) -> Result<Option<[i32; 2]>> {
        let keeper = self.server()?.tid;
        let is_step = |message: &Message| {
            let (src, tag) = (message.src, message.header.tag);
            let mark = read_mark(&message.body).filter(|_| src == place.tid(rank) && tag == what);
            mark.is_some_and(|(name, mark, _)| name == place.name && mark == place.mark())
        };
        let mut wanted =
            |message: &Message| is_step(message) || outdates(message, keeper, place.name, place.view);
        let message = self.wait(self.until(), &mut wanted)?;
        let message = message.ok_or_else(|| Error::new(PvmError::SysErr, "the barrier took too long"))?;
        if message.header.tag == what {
            let mut rest = BodyReader::new(read_mark(&message.body).map_or(&[], |(_, _, rest)| rest));
            return Ok(Some([(); 2].map(|()| rest.int().unwrap_or(0))));
        }
        self.forget_view(&message.body);
        Ok(None)
    }
}
