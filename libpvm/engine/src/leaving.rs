//! Leaving direct routes and rings before a task moves: at its own end, and at that of each task with which it has some.
//!
//! The task that moves sends [`Word::Leave`] to each of its neighbours, and to each task with this library to which it has a route or has
//! granted one. The other then leaves its ring and route to this task, opens none, and answers. A ring or a route that is under way
//! when the answer comes is seen by its end. What both send goes by the daemons until the daemon tells where the task lives then, or the
//! task itself says that it stays.
//!
//! The original's library does not know this. A route to a task that has it is closed at this task's end. The other end reads that, and
//! closes, too. Until then this task sends it nothing: messages by the daemons could overtake those that it has not read.

use super::neighbours::RingState;
use super::peers::Peer;
use super::route::Route;
use super::{Engine, xdr_header};
use crate::Result;
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::{Message, Tid};

/// What tasks say to each other about a move: the number in the body of [`Tcx::Leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// The sender is about to move.
    Leave = 0,
    /// Answer: there is no route between the two, nor one under way.
    Left = 1,
    /// Answer: there is one, whose end will be seen.
    Leaving = 2,
    /// The sender stays.
    Stays = 3,
    /// As [`Self::Leave`], and the sender will not call where the receiver waits for that.
    LeaveUncalled = 4,
}

impl Word {
    fn from_int(number: i32) -> Option<Self> {
        [Self::Leave, Self::Left, Self::Leaving, Self::Stays, Self::LeaveUncalled]
            .into_iter()
            .find(|&word| word as i32 == number)
    }
}

impl Engine {
    /// Whether routes and rings to a task may be opened and used.
    #[inline]
    pub(super) fn may_be_direct(&self, tid: Tid) -> bool {
        let may_stay = self.moving.as_ref().is_none_or(|moving| moving.may_route(tid));
        may_stay && !self.places.is_leaving(tid) && !self.peers.is_ending(tid)
    }

    fn say(&mut self, dst: Tid, word: Word) {
        let body = BodyWriter::new().int(word as i32).finish().into();
        let header = xdr_header(Tcx::Leave.tag(), CONTEXT_TC, 0);
        self.inbox.deferred.push_back(Message { src: self.tid(), dst, header, body });
    }

    /// Another task has said something about a move.
    pub(super) fn hear_of_leaving(&mut self, from: Tid, number: i32) {
        if !from.is_task() || from == self.tid() {
            return;
        }
        match Word::from_int(number) {
            Some(word @ (Word::Leave | Word::LeaveUncalled)) => {
                self.places.note_leaving(from);
                if word == Word::LeaveUncalled && matches!(self.peers.get(from), Some(Peer::Granted(_))) {
                    self.drop_peer(from);
                }
                self.leave_for(from);
                self.answer_leaving(from);
            }
            Some(Word::Left) => {
                self.note_answer(from);
                if matches!(self.peers.get(from), Some(Peer::Granted(_))) {
                    // It will not call.
                    self.drop_peer(from);
                }
            }
            Some(Word::Leaving) => self.note_answer(from),
            Some(Word::Stays) => self.places.forget_leaving(from),
            None => {}
        }
    }

    fn note_answer(&mut self, from: Tid) {
        if let Some(moving) = &mut self.moving {
            moving.note_answer(from);
        }
    }

    /// Leaves what there is to a task that is about to move.
    fn leave_for(&mut self, tid: Tid) {
        self.leave_ring(tid);
        match self.peers.get(tid) {
            // It grants none any more.
            Some(Peer::Asked(_)) => self.drop_peer(tid),
            // If that is not possible yet, the other leaves it, which is seen here.
            Some(Peer::Open(_)) => drop(self.leave_route(tid)),
            _ => {}
        }
    }

    /// Tells a task that is about to move whether a route to it is there, or may be.
    pub(super) fn answer_leaving(&mut self, tid: Tid) {
        if self.places.is_leaving(tid) {
            let has_route = !matches!(self.peers.get(tid), None | Some(Peer::Refused));
            self.say(tid, if has_route { Word::Leaving } else { Word::Left });
        }
    }

    /// Leaves the ring to a neighbour, if one is open. One that cannot be left yet is left when something is sent next.
    fn leave_ring(&mut self, tid: Tid) {
        let Some(index) = self.neighbours.find(tid) else { return };
        let Some((outbox, state, _)) = self.neighbours.ring_state(index) else { return };
        match std::mem::replace(state, RingState::Unmapped) {
            RingState::Open(mut ring) => {
                let left = outbox.send_leave(&mut ring).is_ok();
                *state = if left { RingState::Left(ring) } else { RingState::Open(ring) };
                self.neighbours.ring(index);
            }
            other => *state = other,
        }
    }

    /// This task is to move: leaves all routes and rings as far as that is possible now, and tells the others to do the same.
    pub(super) fn withdraw(&mut self) {
        for tid in self.peers.tids() {
            if self.moving.as_ref().is_none_or(|moving| moving.may_route(tid)) {
                continue;
            }
            let is_marked = match self.peers.get(tid) {
                Some(Peer::Open(route) | Peer::Left(route)) => route.is_marked(),
                Some(Peer::Calling(calling)) => calling.route.is_marked(),
                Some(Peer::Granted(granted)) => granted.library.is_some(),
                Some(Peer::Asked(_)) => {
                    // An answer that still comes is ignored.
                    self.drop_peer(tid);
                    continue;
                }
                Some(Peer::Refused) | None => continue,
            };
            if is_marked {
                self.tell_to_leave(tid);
                self.leave_route(tid);
            } else {
                self.close_unmarked(tid);
            }
        }
        // The others open no rings.
        for tid in self.neighbours.told() {
            self.tell_to_leave(tid);
            self.leave_ring(tid);
        }
    }

    fn tell_to_leave(&mut self, tid: Tid) {
        if self.moving.as_mut().is_some_and(|moving| moving.note_told(tid)) {
            let calls = matches!(self.peers.get(tid), Some(Peer::Calling(_) | Peer::Open(_) | Peer::Left(_)));
            self.say(tid, if calls { Word::Leave } else { Word::LeaveUncalled });
        }
    }

    /// Ends this task's direction of a route to a task with another library.
    fn close_unmarked(&mut self, tid: Tid) {
        if let Some(Peer::Open(route)) = self.peers.get(tid) {
            route.end();
            if let Some(Peer::Open(route)) = self.peers.take(tid) {
                self.peers.set(tid, Peer::Left(route));
            }
        }
    }

    /// A route has ended. If this task is to move, it stays until the other host has taken what was sent there.
    pub(super) fn note_unacknowledged(&mut self, tid: Tid) {
        let is_far = !self.is_near(tid);
        if let (Some(moving), Some(route)) = (&mut self.moving, self.peers.inward(tid))
            && is_far
        {
            moving.note_unacknowledged(route.socket());
        }
    }

    /// Before something goes to a task by the daemons: waits until it has read all on a route that was closed here.
    pub(super) fn wait_for_reader(&mut self, dst: Tid) -> Result<()> {
        while self.moving.is_some()
            && matches!(self.peers.get(dst), Some(Peer::Left(route)) if !Route::is_marked(route))
        {
            self.take_in(None)?;
        }
        Ok(())
    }

    /// The task does not move, after all: tells those that were told to leave.
    pub(super) fn return_to(&mut self, told: impl Iterator<Item = Tid>) {
        for tid in told {
            self.say(tid, Word::Stays);
        }
    }
}
