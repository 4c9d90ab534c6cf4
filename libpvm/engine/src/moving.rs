//! A task that is to move to another host, until it has gone.
//!
//! The daemon tells of the successor, the process that is to go on ([`super::succession`]). From then on the task leaves its direct
//! routes and rings ([`super::leaving`]), and goes on as before. In a call in which it can move ([`Engine::can_move`]) the program's state
//! is saved, and [`Engine::depart`] sends it to the successor. Then the daemon gives all that was ever sent to the task ([`Freeze`]), which
//! goes along with what the library knows. Then the task waits: its connection ends when the successor has its place; or the daemon says
//! that the task stays, and nothing has changed.

use super::direct::DONT_ROUTE;
use super::luggage::{Cutter, Luggage, Part};
use super::route_ends::are_acknowledged_in_time;
use super::{Engine, Payload, xdr_header};
use crate::{Error, Result};
use pvm_wire::body::{BodyError, BodyReader};
use pvm_wire::calls::Request;
use pvm_wire::calls::moves::{Freeze, Movable, Move, StayHere};
use pvm_wire::codes::{CONTEXT_TC, CONTEXT_TM, Tcx};
use pvm_wire::{Message, PvmError, Tid};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Least length in bytes of a program's state that is sent on a direct route. Shorter states are sent by the daemons.
const LONG: usize = 256 << 10;

/// When a program whose state is in use is asked again.
const BUSY: Duration = Duration::from_millis(20);

/// What a program's state is when it is to be saved.
#[derive(Debug)]
pub enum Saved {
    /// These bytes.
    State(Vec<u8>),
    /// In use: to be asked for again.
    InUse,
    /// It cannot be saved, and why.
    Failed(String),
}

/// The function that saves a program's state.
pub type Saver = Box<dyn FnMut() -> Saved + Send>;

/// Whether and how the program's state can be saved.
#[derive(Default)]
pub(super) struct Saving {
    is_possible: bool,
    saver: Option<Saver>,
}

impl fmt::Debug for Saving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saving").field("is_possible", &self.is_possible).finish_non_exhaustive()
    }
}

/// What became of an attempt to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Departure {
    /// Not yet: something has come between.
    NotYet,
    /// The task does not move, and goes on.
    Stays,
    /// The successor is the task now. This process has to end, with status 0.
    Gone,
}

/// A move under way.
#[derive(Debug)]
pub(super) struct Moving {
    successor: Tid,
    /// The tasks that were told to leave, and whether each has answered.
    told: BTreeMap<Tid, bool>,
    /// The sockets of routes that have ended, of which other hosts may not have taken all that was sent there.
    unacknowledged: Vec<Arc<OwnedFd>>,
    /// The daemon was asked to keep what is sent to this task.
    is_frozen: bool,
}

impl Moving {
    fn to(successor: Tid) -> Self {
        Self { successor, told: BTreeMap::new(), unacknowledged: Vec::new(), is_frozen: false }
    }

    /// Whether routes to a task may be opened.
    #[inline]
    pub(super) fn may_route(&self, tid: Tid) -> bool {
        tid == self.successor
    }

    /// Whether all that was sent to this task has come, or is to come.
    #[inline]
    pub(super) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// A route to another host has ended.
    pub(super) fn note_unacknowledged(&mut self, socket: Arc<OwnedFd>) {
        self.unacknowledged.push(socket);
    }

    /// A task is to be told to leave; whether it was not told before.
    pub(super) fn note_told(&mut self, tid: Tid) -> bool {
        let is_new = !self.told.contains_key(&tid);
        if is_new {
            self.told.insert(tid, false);
        }
        is_new
    }

    /// It has answered.
    pub(super) fn note_answer(&mut self, tid: Tid) {
        if let Some(answered) = self.told.get_mut(&tid) {
            *answered = true;
        }
    }

    /// It has ended.
    pub(super) fn forget(&mut self, tid: Tid) {
        self.told.remove(&tid);
    }
}

/// What binds a task to its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bonds {
    /// Direct routes that are open, or under way.
    routes: usize,
    /// Rings in either direction.
    rings: usize,
    /// Tasks that were told to leave, and have not answered.
    unanswered: usize,
    /// Messages wait for others that were sent before them, or to be sent.
    is_waited_for: bool,
    /// More messages are unread than are allowed, so that others were not taken in.
    is_full: bool,
}

impl Bonds {
    /// Whether there are none.
    fn are_none(self) -> bool {
        self == Self::default()
    }
}

impl Engine {
    /// From now on this task can move. A program in Rust gives the function that saves its state; for others their interface calls
    /// [`Self::can_move`] and [`Self::depart`].
    pub fn make_movable(&mut self, saver: Option<Saver>) -> Result<()> {
        if self.saving.is_possible {
            return Err(Error::new(PvmError::Already, "this task can move already"));
        }
        self.require_ours()?;
        self.send_daemon_request(&Movable {})?;
        self.saving = Saving { is_possible: true, saver };
        Ok(())
    }

    /// Whether this task can move.
    pub fn is_movable(&self) -> bool {
        self.saving.is_possible
    }

    /// Whether this task is to move.
    #[inline(always)]
    pub fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Asks that a task be moved: to a host, or the one with most room. Returns the host. This task itself moves in the next call in
    /// which it can; whereto is not known then, so the answer is the host that was asked for, or [`Tid::NONE`].
    pub fn move_task(&mut self, tid: Tid, host: Option<Tid>) -> Result<Tid> {
        if !tid.is_task() {
            return Err(Error::not_a_task(tid));
        }
        let host = host.unwrap_or(Tid::NONE);
        let call = Move { tid, host };
        if tid != self.tid() {
            return self.call(&call);
        }
        self.require_ours()?;
        if !self.saving.is_possible {
            return Err(Error::new(
                PvmError::NotImpl,
                "this task cannot move: it has not said what it saves",
            ));
        }
        self.send_daemon_request(&call)?;
        Ok(host)
    }

    /// Whether a message is the daemon's answer to this task's wish to move itself, for which no call waits.
    pub(super) fn is_answer_to_own_move(message: &Message) -> bool {
        let header = &message.header;
        message.src == Tid::MY_DAEMON
            && (header.context, header.tag, header.wait_id) == (CONTEXT_TM, Move::TAG, 0)
    }

    /// Deals with a message about moves.
    pub(super) fn serve_move(&mut self, kind: Tcx, message: &Message) -> std::result::Result<(), BodyError> {
        let mut reader = BodyReader::new(&message.body);
        match kind {
            Tcx::Leave => self.hear_of_leaving(message.src, reader.int()?),
            Tcx::Luggage => self.take_luggage(message),
            _ if !message.src.is_daemon() => {}
            Tcx::Move => self.begin_move(Tid::from_raw(reader.int()?)),
            Tcx::Stay => self.stay(),
            Tcx::Moved => {
                let (tid, host) = (Tid::from_raw(reader.int()?), Tid::from_raw(reader.int()?));
                self.note_place(tid, host.host());
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_move(&mut self, successor: Tid) {
        // A program that goes on here says again what it saves. The task moves then.
        if !self.saving.is_possible && !self.has_yet_to_take_state() {
            return self.defer_request(&StayHere { reason: "its program has not said what it saves".into() });
        }
        if !self.roles.is_empty() || self.is_manager {
            let reason = "it does a part of the daemons' work".into();
            return self.defer_request(&StayHere { reason });
        }
        match &mut self.moving {
            Some(moving) => (moving.successor, moving.is_frozen) = (successor, false),
            None => self.moving = Some(Box::new(Moving::to(successor))),
        }
        self.withdraw();
    }

    /// The move is off.
    fn stay(&mut self) {
        let Some(moving) = self.moving.take() else { return };
        self.return_to(moving.told.into_keys());
        for tid in self.neighbours.tids() {
            self.accept_ring_of(tid);
        }
    }

    /// This task gives the move up.
    pub fn refuse_to_move(&mut self, reason: impl Into<String>) {
        if self.moving.is_some() {
            self.defer_request(&StayHere { reason: reason.into() });
            self.stay();
            self.send_deferred();
        }
    }

    fn bonds(&self) -> Bonds {
        let Some(moving) = &self.moving else { return Bonds::default() };
        Bonds {
            routes: self.peers.bound().filter(|&tid| !moving.may_route(tid)).count(),
            rings: self.neighbours.open_rings(),
            unanswered: moving.told.values().filter(|&&answered| !answered).count(),
            is_waited_for: !self.peers.hold_nothing() || self.has_deferred(),
            is_full: self.is_full(),
        }
    }

    /// Whether this task is to move, and nothing binds it any more. Leaves what can be left by now.
    pub fn can_move(&mut self) -> bool {
        if self.moving.as_ref().is_none_or(|moving| moving.is_frozen) {
            return false;
        }
        self.withdraw();
        self.send_deferred();
        self.moving.is_some() && self.bonds().are_none()
    }

    /// In a call in which a program in Rust can move: moves if that is due and possible now. The process ends then. Whether the
    /// program's state is in use, so that another attempt is worth while soon.
    #[inline]
    pub fn go_if_possible(&mut self) -> Result<bool> {
        if self.moving.is_none() { Ok(false) } else { self.try_to_go() }
    }

    #[cold]
    fn try_to_go(&mut self) -> Result<bool> {
        if self.saving.saver.is_none() || !self.can_move() {
            return Ok(false);
        }
        let Some(mut saver) = self.saving.saver.take() else { return Ok(false) };
        let saved = saver();
        self.saving.saver = Some(saver);
        match saved {
            Saved::InUse => return Ok(true),
            Saved::Failed(reason) => self.refuse_to_move(reason),
            Saved::State(program) => {
                if self.depart(&Luggage { program, interface: Vec::new() })? == Departure::Gone {
                    // What cannot be written now could not have been written later.
                    let _ = std::io::stdout().flush();
                    std::process::exit(0);
                }
            }
        }
        Ok(false)
    }

    /// A place where the task can move if that is due, although it waits for nothing: takes in what has come, and goes.
    pub fn move_here(&mut self) -> Result<()> {
        if !self.is_full() {
            self.poll()?;
        }
        self.go_if_possible().map(drop)
    }

    /// Until when a call waits before it tries to move again.
    pub(super) fn next_attempt(deadline: Option<Instant>, is_in_use: bool) -> Option<Instant> {
        if !is_in_use {
            return deadline;
        }
        let soon = Instant::now() + BUSY;
        Some(deadline.map_or(soon, |deadline| deadline.min(soon)))
    }

    /// Moves, with what the program has saved since [`Self::can_move`] said that it can. Fails only if the daemon is lost.
    pub fn depart(&mut self, luggage: &Luggage) -> Result<Departure> {
        if !self.can_move() {
            return Ok(if self.moving.is_some() { Departure::NotYet } else { Departure::Stays });
        }
        let Some(successor) = self.moving.as_ref().map(|moving| moving.successor) else {
            return Ok(Departure::Stays);
        };
        match self.hand_over(successor, luggage) {
            Ok(()) => Ok(self.wait_for_word(successor)),
            Err(_) if !self.is_enrolled() => Err(Error::lost()),
            Err(error) => {
                self.refuse_to_move(error.to_string());
                Ok(Departure::Stays)
            }
        }
    }

    /// Sends everything to the successor; stops if the daemon says meanwhile that the task stays.
    fn hand_over(&mut self, successor: Tid, luggage: &Luggage) -> Result<()> {
        let is_far = !self.is_near(successor) && self.options.route != DONT_ROUTE;
        if is_far && luggage.program.len() >= LONG && self.peers.get(successor).is_none() {
            self.ask_for_route(successor)?;
        }
        let mut cutter = Cutter::default();
        let by_route = self.peers.route(successor).is_some();
        for (part, bytes) in [(Part::Program, &luggage.program), (Part::Interface, &luggage.interface)] {
            self.send_part((successor, by_route), &mut cutter, (part, bytes), false)?;
        }
        // This host may be lost once the task has left it, and with it what the system has yet to deliver.
        let unacknowledged = self.moving.as_mut().map(|moving| std::mem::take(&mut moving.unacknowledged));
        if !are_acknowledged_in_time(&unacknowledged.unwrap_or_default()) {
            return Err(Error::new(
                PvmError::SysErr,
                "another host has not taken in time what this task has sent there",
            ));
        }
        self.close_gates();
        self.flush_trace();
        self.report_so_far();
        let Some(moving) = self.moving.as_mut().filter(|moving| moving.successor == successor) else {
            return Ok(());
        };
        moving.is_frozen = true;
        self.call(&Freeze {})?;
        if !self.is_frozen_for(successor) {
            // The daemon may have taken this for part of a later move, which has to begin anew.
            self.refuse_to_move("an earlier move has ended just now");
            return Ok(());
        }
        // Nothing comes any more.
        self.drain_rings();
        self.send_deferred();
        if !self.bonds().are_none() || self.route.as_ref().is_some_and(|route| !route.is_between_fragments())
        {
            return Err(Error::new(PvmError::SysErr, "something has come that binds it to its host"));
        }
        let own = self.pack_own()?;
        self.send_part((successor, by_route), &mut cutter, (Part::Engine, &own), true)
    }

    fn send_part(
        &mut self,
        (successor, by_route): (Tid, bool),
        cutter: &mut Cutter,
        (part, bytes): (Part, &[u8]),
        is_last: bool,
    ) -> Result<()> {
        let header = xdr_header(Tcx::Luggage.tag(), CONTEXT_TC, 0);
        for piece in cutter.cut(part, bytes, is_last) {
            if self.moving.as_ref().is_none_or(|moving| moving.successor != successor) {
                break;
            }
            if !by_route {
                self.send_by_daemon(successor, header, Payload::Parts(&piece.parts()))?;
            } else if !self.write_directly(successor, header, &piece.parts())? {
                return Err(Error::new(PvmError::SysErr, "the direct route to its new host has broken"));
            }
        }
        Ok(())
    }

    /// Whether the daemon keeps what is for this task until this successor has its place.
    fn is_frozen_for(&self, successor: Tid) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.is_frozen && moving.successor == successor)
    }

    /// The successor has everything: waits until it has this task's place, or the task stays.
    fn wait_for_word(&mut self, successor: Tid) -> Departure {
        while self.is_frozen_for(successor) {
            match self.take_in(None) {
                Ok(_) => {}
                Err(_) if !self.is_enrolled() => return Departure::Gone,
                Err(error) => self.refuse_to_move(error.to_string()),
            }
        }
        Departure::Stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_goes_when_nothing_binds_it() {
        let free = Bonds::default();
        assert!(free.are_none());
        for bound in [
            Bonds { routes: 1, ..free },
            Bonds { rings: 1, ..free },
            Bonds { unanswered: 1, ..free },
            Bonds { is_waited_for: true, ..free },
            Bonds { is_full: true, ..free },
        ] {
            assert!(!bound.are_none(), "{bound:?}");
        }
    }

    #[test]
    fn each_task_is_told_once() {
        let [one, other] = [Tid::from_raw(0x40001), Tid::from_raw(0x40002)];
        let mut moving = Moving::to(Tid::from_raw(0x80001));
        assert!(moving.note_told(one) && !moving.note_told(one));
        moving.note_answer(one);
        moving.note_answer(other);
        assert_eq!(moving.told.into_iter().collect::<Vec<_>>(), [(one, true)]);
    }

    #[test]
    fn a_program_whose_state_is_in_use_is_asked_again_soon() {
        let soon = Engine::next_attempt(None, true).unwrap();
        assert!(soon <= Instant::now() + BUSY);
        assert_eq!(Engine::next_attempt(None, false), None);
        let past = Instant::now();
        assert_eq!(Engine::next_attempt(Some(past), true), Some(past));
    }
}
