//! Barriers.
//!
//! On each host one member is the leader, to which the others there report their arrival. The leaders then exchange messages in rounds:
//! in round `k` each sends to the leader `2^k` places behind it and receives from the one `2^k` places before, so after `log2` of their
//! number each knows that all have arrived (Hensgen, Finkel and Manber's dissemination barrier). Each releases the members of its host.
//!
//! All this holds for one view of the group. If the group changes meanwhile, some members may have learned that all have arrived, and
//! others may wait for messages that never come. So each member writes in its ledger ([`pvm_shm::ledger`]) that it passes the
//! barrier. Its daemon closes the ledger when the group changes; the keeper then learns from the ledgers whether any member has
//! passed, and says so in the next view. If one has, all had arrived: those who wait pass as well. If not, they begin anew in the new
//! view. So no member passes a barrier that another member, which lives on, does not pass. Members that share
//! memory also agree on a gate there in this way, which they use for the following barriers.

use super::port::Port;
use super::tree::Tree;
use super::views::outdates;
use super::{Client, check_name, marked, read_mark};
use crate::{Error, Result};
use pvm_shm::Mapping;
use pvm_wire::body::BodyReader;
use pvm_wire::group::{Request, View, next_turn, tag};
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
            if waiting_for.is_some_and(|turn| view.turn != turn) {
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
            let has_passed = self.synchronize(&Place { name, view: &view, rank, tree })?;
            // The only one again: it is changed in its place.
            drop(view);
            if has_passed {
                if let Some(view) = self.groups.views.get_mut(name) {
                    let view = Arc::make_mut(view);
                    view.turn = next_turn(view.turn);
                }
                return Ok(());
            }
        }
        self.ask_number(Request::Barrier(name, count)).map(drop)
    }

    /// Carries out a barrier of all members of a view; `false` if the group has changed meanwhile.
    fn synchronize(&mut self, place: &Place<'_>) -> Result<bool> {
        let is_one_host = place.tree.leaders().len() == 1;
        let memory = if is_one_host { self.port.reach(place.tid(0)) } else { None };
        let met = match place.tree.leader_above(place.rank) {
            Some(leader) => self.meet_leader(place, leader, memory.as_ref())?,
            None => self.lead(place, memory.as_ref())?,
        };
        let Some(gate) = met else { return Ok(false) };
        if let Some(memory) = memory.filter(|_| gate != [0; 2]) {
            let at = u64::from(gate[0] as u32) << 32 | u64::from(gate[1] as u32);
            self.note_gate(place.name, place.view, memory, at, place.rank == 0);
        }
        Ok(true)
    }

    /// Arrives at the leader of this host, which says where the gate is; `None` if the group has changed.
    fn meet_leader(
        &mut self,
        place: &Place<'_>,
        leader: usize,
        memory: Option<&Arc<Mapping>>,
    ) -> Result<Option<[i32; 2]>> {
        self.send_step(place, leader, tag::ARRIVED, [i32::from(memory.is_some()), 0])?;
        let gate = self.receive_step(place, leader, tag::RELEASED)?;
        Ok(gate.filter(|_| self.pass_or_forget(place)))
    }

    /// Meets the members of this host and the other leaders, and releases the members; where the gate is, if there is one. `None` if
    /// the group has changed.
    fn lead(&mut self, place: &Place<'_>, memory: Option<&Arc<Mapping>>) -> Result<Option<[i32; 2]>> {
        let mut can_all_reach = memory.is_some();
        for member in place.tree.members_here(place.rank) {
            let Some([can_reach, _]) = self.receive_step(place, member, tag::ARRIVED)? else {
                return Ok(None);
            };
            can_all_reach &= can_reach != 0;
        }
        for (next, previous) in place.tree.rounds(place.rank) {
            self.send_step(place, next, tag::ARRIVED, [0; 2])?;
            if self.receive_step(place, previous, tag::ARRIVED)?.is_none() {
                return Ok(None);
            }
        }
        if !self.pass_or_forget(place) {
            return Ok(None);
        }
        let size = place.view.members.len();
        let gate = if can_all_reach { self.open_gate(place.name, size) } else { None };
        let gate = gate.map_or([0; 2], |at| [(at >> 32) as i32, at as i32]);
        for member in place.tree.members_here(place.rank) {
            self.send_step(place, member, tag::RELEASED, gate)?;
        }
        Ok(Some(gate))
    }

    fn pass_or_forget(&mut self, place: &Place<'_>) -> bool {
        let passes = self.pass(place.name, place.view);
        if !passes {
            self.groups.views.remove(place.name);
        }
        passes
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
        let message = match self.port.look_spinning(&mut |message| is_step(message))? {
            Some(message) => Some(message),
            None => self.wait(self.until(), &mut wanted)?,
        };
        let message = message.ok_or_else(|| Error::new(PvmError::SysErr, "the barrier took too long"))?;
        if message.header.tag == what {
            let mut rest = BodyReader::new(read_mark(&message.body).map_or(&[], |(_, _, rest)| rest));
            return Ok(Some([(); 2].map(|()| rest.int().unwrap_or(0))));
        }
        self.forget_view(&message.body);
        Ok(None)
    }
}
