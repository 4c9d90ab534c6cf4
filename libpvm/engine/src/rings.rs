//! Sending to neighbours and receiving from them: see [`super::neighbours`].

use super::direct::{DONT_ROUTE, ROUTE_DIRECT};
use super::neighbours::RingState;
use super::peers::Peer;
use super::route::Route;
use super::spinner::Spinner;
use super::{Engine, Form, Payload, xdr_header};
use crate::{Error, Result};
use pvm_shm::ring::Writer;
use pvm_shm::{Outbox, Parcel, SendError};
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::calls::sharing::{Meet, Share};
use pvm_wire::calls::turns::Activity;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::coscheduling::Sent;
use pvm_wire::tuned::{RING_TURN, ROOM_NAP, SOCKETS_EVERY};
use pvm_wire::{Body, Message, MessageHeader, PvmError, Tid};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

impl Engine {
    /// Passes this task's memory to the daemon, unless that was done. A task that sends one message and exits does not need it:
    /// a task shares memory when it sends to a task of this host again, or has received from one.
    pub(super) fn share(&mut self) {
        if !self.neighbours.are_offered() {
            return;
        }
        let Some(own) = self.neighbours.make_own() else { return self.neighbours.decline() };
        let message = self.as_message(&Share {});
        let Some(route) = &mut self.route else { return };
        let descriptors = [own.outbox.segment().fd(), own.bell.as_fd()];
        match route.send_descriptors(&message.encode(self.options.fragment_size), &descriptors) {
            Ok(true) => self.neighbours.begin(own),
            // The socket is full: next time.
            Ok(false) => {}
            Err(_) => self.neighbours.decline(),
        }
    }

    /// The spinner, for waits that do not hold the engine.
    #[inline]
    pub fn spinner(&self) -> &Arc<Spinner> {
        self.neighbours.spinner()
    }

    /// Announces that this task will sleep at its descriptors; `false` if it must not, because a message has arrived.
    pub fn doze(&self) -> bool {
        self.neighbours.doze()
    }

    /// Where this task sleeps: all sockets, and the bell, if tasks of this host can ring.
    pub fn beds(&self) -> (Vec<BorrowedFd<'_>>, Option<BorrowedFd<'_>>) {
        let daemon = self.route.as_ref().map(Route::fd);
        let peers = self.peers.sockets().map(|(_, fd, _)| fd);
        let timers = self.ends.timers().map(|(_, fd)| fd);
        (daemon.into_iter().chain(peers).chain(timers).collect(), self.neighbours.bell())
    }

    /// The sleep is over, by the bell or something else. Only what else there is has to be asked for.
    pub fn wake(&self, is_rung: bool, is_else: bool) {
        self.neighbours.wake();
        if is_else || self.neighbours.is_watched() {
            self.neighbours.spinner().end_sleep();
        } else if is_rung {
            self.neighbours.clear_bell();
        }
    }

    /// From now on the program polls the descriptors itself.
    pub fn keep_bell(&self) {
        self.neighbours.keep_bell();
    }

    /// Puts a message on the ring to a neighbour; `false` if it has to go another way. A body that has to be in a block is
    /// left there in `parcel`, for other receivers.
    pub(super) fn send_by_ring(
        &mut self,
        dst: Tid,
        header: MessageHeader,
        payload: Payload<'_>,
        parcel: &mut Option<Parcel>,
    ) -> Result<bool> {
        if !self.neighbours.are_possible() || !self.is_ringable(dst, &header) {
            return Ok(false);
        }
        let form = payload.for_shared(header);
        let length = form.len();
        let fits = u32::try_from(length).is_ok();
        let index = match self.neighbours.find(dst) {
            Some(index) if fits && self.may_use_ring(dst) && self.neighbours.is_open(index) => index,
            // A ring that is open is left before this message goes another way.
            Some(_) => match self.open_or_leave_ring(dst, fits)? {
                Some(index) => index,
                None => return Ok(false),
            },
            None => {
                self.consider_meeting(dst)?;
                return Ok(false);
            }
        };
        self.publish(index, &form, payload, parcel).map_err(|error| {
            Error::new(PvmError::NoMem, format!("a message of {length} bytes is not sent: {error}"))
        })?;
        self.neighbours.ring(index);
        Ok(true)
    }

    /// Puts a message into the ring itself, to the neighbour of the last message; `false` if it has to take the long path.
    #[inline(always)]
    pub(super) fn send_near(&mut self, dst: Tid, header: MessageHeader, payload: Payload<'_>) -> bool {
        let may = header.context != CONTEXT_TC && self.options.route != DONT_ROUTE && !self.peers.are_near();
        match payload.for_near(header) {
            Some((header, parts)) if may => self.neighbours.send_near(dst, header, parts),
            _ => false,
        }
    }

    /// Whether messages go to a task by a direct route, or will soon.
    #[inline]
    fn has_route(&self, dst: Tid) -> bool {
        !matches!(self.peers.get(dst), None | Some(Peer::Refused))
    }

    /// Whether messages may go on a ring to a neighbour. That changes with whatever comes from the daemon.
    #[inline]
    fn may_use_ring(&self, dst: Tid) -> bool {
        self.options.route != DONT_ROUTE && !self.has_route(dst) && self.may_be_direct(dst)
    }

    /// A message goes to a task of this host that is no neighbour: asks to meet it if that is worth while.
    #[cold]
    fn consider_meeting(&mut self, dst: Tid) -> Result<()> {
        if !self.has_route(dst) && self.may_be_direct(dst) && self.neighbours.count_sent(dst) {
            self.share();
            self.ask_to_meet(dst)?;
        }
        Ok(())
    }

    /// Opens the ring to a neighbour as soon as there is room, or leaves it; the neighbour's index, if messages go on the ring.
    #[cold]
    fn open_or_leave_ring(&mut self, dst: Tid, fits: bool) -> Result<Option<usize>> {
        self.wait_for_room()?;
        let stay = fits && self.may_use_ring(dst);
        if !self.set_ring_use(dst, stay)? {
            return Ok(None);
        }
        // A neighbour that is not found has exited meanwhile: the daemon will not find it either.
        Ok(self.neighbours.find(dst))
    }

    #[inline]
    fn publish(
        &mut self,
        index: usize,
        form: &Form<'_>,
        payload: Payload<'_>,
        parcel: &mut Option<Parcel>,
    ) -> std::result::Result<(), SendError> {
        let Some((outbox, RingState::Open(ring), to)) = self.neighbours.ring_state(index) else {
            return Err(SendError::NoRoom);
        };
        if Outbox::is_inline(form.len()) {
            return outbox.send_copy(ring, form.header, form.parts());
        }
        publish_block((outbox, ring, to), form, payload, parcel)
    }

    /// Messages between libraries go by the daemon.
    #[inline]
    fn is_ringable(&self, dst: Tid, header: &MessageHeader) -> bool {
        dst.is_task() && self.is_near(dst) && dst != self.tid() && header.context != CONTEXT_TC
    }

    pub(super) fn ask_to_meet(&mut self, dst: Tid) -> Result<()> {
        let message = self.as_message(&Meet { other: dst });
        self.send_by_daemon(message.dst, message.header, Payload::Parts(&[&message.body]))
    }

    /// Waits until others have taken enough of what this task has sent, and receives meanwhile.
    fn wait_for_room(&mut self) -> Result<()> {
        while self.neighbours.own().is_some_and(|own| !own.outbox.has_room()) {
            if self.is_full() {
                std::thread::sleep(ROOM_NAP);
            } else {
                self.take_in(Some(Instant::now() + ROOM_NAP))?;
            }
        }
        Ok(())
    }

    /// Opens the ring to a neighbour or, if not `stay`, leaves it; whether messages go on the ring now.
    fn set_ring_use(&mut self, dst: Tid, stay: bool) -> Result<bool> {
        let Some(index) = self.neighbours.find(dst) else { return Ok(false) };
        let Some((outbox, state, _)) = self.neighbours.ring_state(index) else { return Ok(false) };
        if stay && matches!(state, RingState::Open(_)) {
            return Ok(true);
        }
        let place = match std::mem::replace(state, RingState::Unmapped) {
            RingState::Open(mut ring) => {
                let left = outbox.send_leave(&mut ring).is_ok();
                *state = if left { RingState::Left(ring) } else { RingState::Open(ring) };
                self.neighbours.ring(index);
                return if left { Ok(false) } else { Err(PvmError::NoMem.into()) };
            }
            RingState::Left(ring) if stay => {
                *state = RingState::Open(ring);
                None
            }
            RingState::Mapped if stay => {
                let Ok((ring, place)) = outbox.open_ring() else {
                    *state = RingState::Mapped;
                    return Ok(false);
                };
                *state = RingState::Open(ring);
                self.report_ring_opened(dst);
                Some(place.get())
            }
            other => {
                *state = other;
                return Ok(false);
            }
        };
        let body = match place {
            Some(at) => BodyWriter::new().int((at >> 32) as i32).int(at as i32).finish(),
            None => BodyWriter::new().finish(),
        };
        self.send_by_daemon(dst, xdr_header(Tcx::Ring.tag(), CONTEXT_TC, 0), Payload::Parts(&[&body]))?;
        // While the socket was full the neighbour may have said that it is about to move: then the ring was left again.
        let state = self.neighbours.find(dst).and_then(|index| self.neighbours.ring_state(index));
        Ok(matches!(state, Some((_, RingState::Open(_), _))))
    }

    /// To a program that has asked for direct routes, a ring is one.
    fn report_ring_opened(&mut self, tid: Tid) {
        if self.options.route == ROUTE_DIRECT
            && let Some(front) = self.fd().map(|fd| fd.as_raw_fd())
        {
            self.report_route_added(tid, front);
        }
    }

    /// Tells a neighbour once that this task has mapped its memory, so that it may open a ring. Not while this task is to move; nor while
    /// there is more to read on the direct route of one that has moved to this host, which a ring would overtake.
    pub(super) fn accept_ring_of(&mut self, dst: Tid) {
        if self.moving.is_some() || self.peers.inward(dst).is_some() || !self.neighbours.note_told(dst) {
            return;
        }
        let header = xdr_header(Tcx::Known.tag(), CONTEXT_TC, 0);
        self.inbox.deferred.push_back(Message { src: self.tid(), dst, header, body: Body::new() });
    }

    /// A neighbour has ended.
    pub(super) fn lose_neighbour(&mut self, tid: Tid) {
        if self.neighbours.remove(tid) {
            self.report_route_deleted(tid);
        }
    }

    /// Takes all messages that neighbours have written by now.
    pub(super) fn drain_rings(&mut self) {
        for index in 0..self.neighbours.len() {
            while let Some(message) = self.neighbours.next(index, self.identity.tid) {
                self.take(message);
            }
        }
    }

    /// Takes up to `most` messages of neighbours, each ring in its turn, and no more than one turn of each; whether there was one.
    pub(super) fn take_rings(&mut self, most: usize) -> bool {
        let (mut turns, mut taken) = (0, 0);
        if self.neighbours.are_listed() {
            let most = most.min(self.neighbours.len().saturating_mul(RING_TURN));
            while taken < most
                && let Some(message) = self.neighbours.next_of_listed(self.identity.tid)
            {
                self.take(message);
                taken += 1;
            }
            return taken > 0;
        }
        while turns < self.neighbours.len() && taken < most {
            let message = self.neighbours.next_in_turn(self.identity.tid);
            turns += usize::from(self.neighbours.is_turn_over());
            if let Some(message) = message {
                self.take(message);
                taken += 1;
            }
        }
        taken > 0
    }

    /// As [`Self::take_rings`] while there is room for messages; now and then the sockets have their turn first.
    pub(super) fn take_some(&mut self, most: usize) -> Result<bool> {
        if self.neighbours.len() == 0 || self.is_full() || !self.take_rings(most) {
            return Ok(false);
        }
        self.ring_reads = self.ring_reads.wrapping_add(1);
        if self.ring_reads.is_multiple_of(SOCKETS_EVERY) {
            self.read_all_ready()?;
        }
        Ok(true)
    }

    /// Whether the next message of a neighbour can be taken before the sockets have their turn.
    #[inline]
    pub(super) fn may_go_on(&self) -> bool {
        !self.ring_reads.wrapping_add(1).is_multiple_of(SOCKETS_EVERY)
    }

    /// Spins for what neighbours may write, or others on direct routes, unless the daemon's answer is waited for.
    pub(super) fn spin(&self, deadline: Option<Instant>) -> bool {
        !self.asking && !self.is_full() && self.neighbours.spinner().spin(deadline)
    }

    /// Deals with a message about shared memory.
    pub(super) fn serve_neighbour(
        &mut self,
        kind: Tcx,
        message: &Message,
    ) -> std::result::Result<(), BodyError> {
        let mut reader = BodyReader::new(&message.body);
        match kind {
            Tcx::Neighbour if message.src.is_daemon() => {
                let descriptors = self.route.as_mut().and_then(Route::take_descriptors);
                let tid = Tid::from_raw(reader.int()?);
                if tid == Tid::MY_DAEMON {
                    self.meet_daemon(&descriptors.unwrap_or_default());
                } else if self.neighbours.add(tid, descriptors.unwrap_or_default()) {
                    self.accept_ring_of(tid);
                }
            }
            Tcx::Turns if message.src.is_daemon() => {
                let (taken, team, reports_sleep) = (reader.int()? != 0, reader.int()?, reader.int()? != 0);
                self.hints.set(taken, team.cast_unsigned(), reports_sleep);
            }
            Tcx::Page if message.src.is_daemon() => {
                let descriptors = self.route.as_mut().and_then(Route::take_descriptors);
                self.hints.set_page(&descriptors.unwrap_or_default());
            }
            Tcx::Activity if message.src.is_daemon() => {
                let spin = self.neighbours.spinner().in_force().as_nanos();
                let spin = i32::try_from(spin).unwrap_or(i32::MAX);
                let Sent { messages, bytes } = self.sent;
                self.defer_request(&Activity { spin, messages, bytes });
            }
            Tcx::Neighbour | Tcx::Turns | Tcx::Page | Tcx::Activity => {}
            Tcx::RouteLost => self.hear_of_lost_route(message.src, !message.body.is_empty()),
            Tcx::Move | Tcx::Stay | Tcx::Moved | Tcx::Luggage | Tcx::Leave => {
                self.serve_move(kind, message)?;
            }
            Tcx::Epoch => self.receive_epoch(message.src, reader.int()?, reader.int()?),
            Tcx::Known => self.neighbours.note_mapped(message.src),
            Tcx::Ring => {
                let place = if message.body.is_empty() {
                    None
                } else {
                    Some(u64::from(reader.int()? as u32) << 32 | u64::from(reader.int()? as u32))
                };
                self.neighbours.open(message.src, place);
                // The next message of the daemon may be the notice of the sender's exit.
                self.drain_rings();
            }
        }
        Ok(())
    }
}

/// Publishes a message that lies in a block, which is left in `parcel`.
fn publish_block(
    (outbox, ring, to): (&mut Outbox, &mut Writer, Tid),
    form: &Form<'_>,
    payload: Payload<'_>,
    parcel: &mut Option<Parcel>,
) -> std::result::Result<(), SendError> {
    let parcel = match parcel {
        Some(parcel) => parcel,
        None => {
            parcel.insert(match payload.packing().and_then(|(packing, tail)| outbox.adopt(packing, tail)) {
                Some(adopted) => adopted,
                None => outbox.pack(form.parts())?,
            })
        }
    };
    outbox.send_parcel(ring, form.header, to, parcel)
}
