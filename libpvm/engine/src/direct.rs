//! Direct routes: how they are requested, granted and closed.
//!
//! A task asks with a request by the daemon, which has the address from which it will call. The other answers, in any call in which it
//! receives, with the address at which it listens; the first calls. If both ask at once, the request of the one with the lower id stands
//! and the other answers. A refusal is remembered, and messages go by the daemon as before. A program that wants routes (`PvmRoute` 3)
//! waits for the answer; without that the library asks by itself ([`super::automatic`]), and messages go by the daemon meanwhile. A
//! granted route that is not called is given up after [`UNCALLED`].
//!
//! Messages keep their order ([`super::order`]): each task counts what it sends by the daemon since the request, or its grant, and the
//! number is the first message on the route. Only the original library, which counts nothing, can overtake itself there.

use super::meeting::{Address, Caller, Listener};
use super::order;
use super::peers::{Asked, Calling, Granted, Peer};
use super::route::{Outgoing, PeerLibrary, Route};
use super::seal::{self, Offer, Seal};
use super::{Engine, Payload, xdr_header};
use crate::Result;
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::sharing::Meet;
use pvm_wire::codes::{CONTEXT_TC, EXTENSION_MAGIC, EXTENSION_VERSION, TASK_PROTOCOL, Tc, notify};
use pvm_wire::{Message, MessageHeader, Tid};
use rustix::io::Errno;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Time limit for a connection to another host.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the call after a grant. A task may first compute for long, and its system may try to connect for long where a firewall drops
/// that: Linux for 127 s, unless it is told otherwise. Until then this task looks for the call whenever something has come.
pub(super) const UNCALLED: Duration = Duration::from_secs(600);

/// The value of `PvmRoute` with which a task neither requests nor grants routes.
pub(super) const DONT_ROUTE: i32 = 1;

/// The value of `PvmRoute` with which a task grants routes, and asks for them by itself.
pub(super) const ALLOW_DIRECT: i32 = 2;

/// The value of `PvmRoute` with which a task requests routes.
pub(super) const ROUTE_DIRECT: i32 = 3;

/// Marks the following fields as an extension, which only libraries of this version read.
fn add_extension(body: BodyWriter) -> BodyWriter {
    body.int(EXTENSION_MAGIC).int(EXTENSION_VERSION)
}

/// The number of a request of this library is repeated in the answer.
fn add_number(answer: BodyWriter, number: Option<i32>) -> BodyWriter {
    match number {
        Some(number) => add_extension(answer).int(number),
        None => answer,
    }
}

fn has_extension(body: &mut BodyReader<'_>) -> bool {
    body.int() == Ok(EXTENSION_MAGIC) && body.int() == Ok(EXTENSION_VERSION)
}

/// Whether a route is sealed.
enum Sealing {
    /// The network is trusted, or the other's library cannot seal.
    Without,
    /// With this seal; the peer gets its half by this answer.
    With(Box<Seal>, Vec<u8>),
    /// The offer is invalid.
    Impossible,
}

impl Engine {
    /// Whether a route to this task has to be requested before the next message.
    pub(super) fn wants_route(&mut self, dst: Tid, header: &MessageHeader) -> bool {
        let own = self.tid();
        self.options.route == ROUTE_DIRECT
            && (dst.is_task() && dst != own && own.is_task())
            && header.context != CONTEXT_TC
            && self.peers.get(dst).is_none()
            && self.neighbours.find(dst).is_none()
            && self.may_be_direct(dst)
    }

    /// Requests a route and waits until it is open or refused; serves the requests of other tasks meanwhile.
    pub(super) fn ask_for_route(&mut self, dst: Tid) -> Result<()> {
        if self.is_full() {
            return Ok(());
        }
        if self.may_share_with(dst) {
            self.ask_to_meet(dst)?;
        }
        for message in self.route_request(dst, true) {
            self.send_by_daemon(message.dst, message.header, Payload::Parts(&[&message.body]))?;
        }
        while let Some(Peer::Asked(..) | Peer::Calling(..)) = self.peers.get(dst) {
            let deadline = self.call_deadline(dst);
            if self.is_full() || deadline.is_some_and(|end| end <= Instant::now()) {
                self.peers.set(dst, Peer::Refused);
            } else {
                self.take_in(deadline)?;
            }
        }
        Ok(())
    }

    /// The request for a route, and that for a notice of the other's end; none if no socket can be made.
    pub(super) fn route_request(&mut self, dst: Tid, is_waited_for: bool) -> Vec<Message> {
        if self.is_near(dst) {
            self.peers.note_near();
        }
        let caller = if self.is_near(dst) { Caller::local() } else { Caller::remote(self.host_address()) };
        let Ok(caller) = caller else {
            self.peers.set(dst, Peer::Refused);
            return Vec::new();
        };
        let mut question = BodyWriter::new().int(TASK_PROTOCOL).str(caller.address().to_string());
        let number = self.new_wait_id();
        if self.may_share_with(dst) {
            question = add_extension(question).int(number);
        }
        let mut offer = None;
        if !self.is_near(dst)
            && let Some((ours, handshake)) = Offer::new()
        {
            question = add_extension(question).int(number).int(self.identity.signature.cast_signed());
            question = question.int(i32::from(self.trusts_network()));
            question = question.int(handshake.len() as i32).bytes(&handshake);
            question = question.int(i32::from(!is_waited_for));
            offer = Some(ours);
        }
        self.peers.set(dst, Peer::Asked(Asked { number, caller, offer, is_waited_for, sent: 0 }));
        vec![self.to_library(dst, Tc::ConReq, question.finish()), self.watch(dst)]
    }

    /// The deadline of a call. The wait for an answer has none: it ends with the answer, or with the other task.
    fn call_deadline(&self, dst: Tid) -> Option<Instant> {
        match self.peers.get(dst) {
            Some(Peer::Calling(calling)) => Some(calling.deadline),
            _ => None,
        }
    }

    /// Another task asks for a route (`TC_CONREQ`).
    pub(super) fn handle_route_request(
        &mut self,
        asker: Tid,
        body: &mut BodyReader<'_>,
    ) -> std::result::Result<(), BodyError> {
        let (version, address) = (body.int()?, Address::parse(body.str()?));
        let own = self.tid();
        if !asker.is_task() || asker == own {
            return Ok(());
        }
        let asked = match self.peers.get(asker) {
            Some(Peer::Asked(..)) => true,
            Some(Peer::Calling(..)) => return Ok(()),
            _ => false,
        };
        if asked && own < asker {
            return Ok(());
        }
        let is_ours = has_extension(body);
        let number = if is_ours { Some(body.int()?) } else { None };
        let shares = is_ours && self.may_share_with(asker);
        if shares && self.may_be_direct(asker) && self.neighbours.find(asker).is_none() {
            self.defer_request(&Meet { other: asker });
        }
        let library =
            if is_ours && !self.is_near(asker) { Some(self.peer_library(body.int()?)) } else { None };
        let sealing = if library.is_some() { self.sealing(body)? } else { Sealing::Without };
        let is_automatic = library.is_some() && body.int()? != 0;
        let address = address.filter(|_| {
            version == TASK_PROTOCOL
                && !shares
                && !matches!(sealing, Sealing::Impossible)
                && self.may_grant(asker, is_automatic)
        });
        let listener = address.and_then(|from| Listener::new(from, self.host_address()).ok());
        let answer = if let Some(listener) = listener {
            self.grant(asker, (listener, number), library, sealing, is_automatic)
        } else {
            if asked {
                self.peers.set(asker, Peer::Refused);
            }
            add_number(BodyWriter::new().int(TASK_PROTOCOL).int(1).str(""), number)
        };
        let answer = self.to_library(asker, Tc::ConAck, answer.finish());
        self.inbox.deferred.push_back(answer);
        Ok(())
    }

    /// Whether a request is granted.
    fn may_grant(&mut self, asker: Tid, is_automatic: bool) -> bool {
        match self.options.route {
            DONT_ROUTE => false,
            _ if !self.may_be_direct(asker) => false,
            // A route that this task has left has to be read to its end first.
            _ if matches!(self.peers.get(asker), Some(Peer::Left(_))) => false,
            ALLOW_DIRECT if is_automatic => self.takes_automatic_routes() && self.makes_room_for_route(),
            _ => true,
        }
    }

    /// Grants a route: the answer.
    fn grant(
        &mut self,
        asker: Tid,
        (listener, number): (Listener, Option<i32>),
        library: Option<PeerLibrary>,
        sealing: Sealing,
        is_automatic: bool,
    ) -> BodyWriter {
        let answer = BodyWriter::new().int(TASK_PROTOCOL).int(0).str(listener.address().to_string());
        let mut answer = add_number(answer, number);
        let (seal, handshake) = match sealing {
            Sealing::With(ours, handshake) => (Some(*ours), handshake),
            Sealing::Without | Sealing::Impossible => (None, Vec::new()),
        };
        if library.is_some() {
            answer = answer.int(self.identity.signature.cast_signed());
            answer = answer.int(handshake.len() as i32).bytes(&handshake);
        }
        // A peer that still used an older route would not ask.
        self.lose_route(asker);
        let is_hidden = is_automatic && self.options.route == ALLOW_DIRECT;
        let fd = listener.fd().as_raw_fd();
        if library.is_some() {
            self.peers.expect_both_ways(asker, true);
        }
        if self.is_near(asker) {
            self.peers.note_near();
        }
        let until = Instant::now() + UNCALLED;
        let granted = Granted { listener, seal, library, is_hidden, sent: 0, until };
        self.peers.set(asker, Peer::Granted(Box::new(granted)));
        if is_hidden {
            self.show_hidden(asker);
        } else {
            // As PVM does, so that programs which poll descriptors themselves get this one, too.
            self.report_route_added(asker, fd);
        }
        let watch = self.watch(asker);
        self.inbox.deferred.push_back(watch);
        answer
    }

    /// Another task has answered (`TC_CONACK`).
    pub(super) fn handle_route_answer(
        &mut self,
        from: Tid,
        body: &mut BodyReader<'_>,
    ) -> std::result::Result<(), BodyError> {
        let (version, denied, address) = (body.int()?, body.int()?, Address::parse(body.str()?));
        let is_ours = has_extension(body);
        let number = if is_ours { Some(body.int()?) } else { None };
        let is_answer = |asked: &Asked| number.is_none_or(|number| number == asked.number);
        if !matches!(self.peers.get(from), Some(Peer::Asked(asked)) if is_answer(asked)) {
            return Ok(());
        }
        let Some(Peer::Asked(asked)) = self.peers.set(from, Peer::Refused) else { return Ok(()) };
        let Some(address) = address.filter(|_| version == TASK_PROTOCOL && denied == 0) else {
            return Ok(());
        };
        let has_library = is_ours && !body.rest().is_empty();
        let library = if has_library { Some(self.peer_library(body.int()?)) } else { None };
        let handshake = if library.is_some() { body.count(1)? } else { 0 };
        let seal = match asked.offer.filter(|_| handshake > 0) {
            Some(offer) => {
                let Some(seal) = offer.complete(body.bytes(handshake)?) else { return Ok(()) };
                Some(seal)
            }
            None => None,
        };
        let is_automatic = !asked.is_waited_for && self.options.route != ROUTE_DIRECT;
        let is_safe = library.is_some() && (seal.is_some() || self.trusts_network());
        if is_automatic && (!is_safe || self.options.route == DONT_ROUTE) {
            return Ok(());
        }
        if let Ok(socket) = asked.caller.call(&address) {
            let library = library.filter(|_| !self.is_near(from));
            let mut route = Route::direct(socket, self.inbox.limit(), from, seal).with_library(library);
            route.hide(is_automatic);
            self.peers.expect_both_ways(from, library.is_some());
            let deadline = Instant::now() + CALL_TIMEOUT;
            self.peers.set(from, Peer::Calling(Calling { route, deadline, sent: asked.sent }));
            if is_automatic {
                self.show_hidden(from);
            }
            self.check_call(from);
        }
        Ok(())
    }

    /// A task with which a route was under way has ended (`TC_TASKEXIT`). An open one is read to its end.
    pub(super) fn end_negotiation(&mut self, tid: Tid) {
        self.lose_neighbour(tid);
        self.places.forget_leaving(tid);
        if let Some(moving) = &mut self.moving {
            moving.forget(tid);
        }
        match self.peers.get(tid) {
            Some(Peer::Asked(asked)) if asked.is_waited_for => drop(self.peers.set(tid, Peer::Refused)),
            Some(Peer::Open(_) | Peer::Left(_)) => self.expect_end(tid, None),
            Some(Peer::Asked(..) | Peer::Calling(..) | Peer::Granted(..)) => {
                self.forget_route(tid);
                self.automatic.forget(tid);
            }
            Some(Peer::Refused) | None => {
                self.automatic.forget(tid);
                self.peers.forget_order(tid);
            }
        }
    }

    /// Checks whether a call is connected.
    pub(super) fn check_call(&mut self, tid: Tid) {
        let Some(Peer::Calling(calling)) = self.peers.get(tid) else { return };
        let fd = calling.route.fd();
        let failed = match rustix::net::getpeername(fd) {
            Ok(_) => None,
            Err(Errno::NOTCONN) => match rustix::net::sockopt::socket_error(fd) {
                Ok(Ok(())) => return,
                Ok(Err(error)) | Err(error) => Some(error),
            },
            Err(error) => Some(error),
        };
        let Some(Peer::Calling(calling)) = self.peers.set(tid, Peer::Refused) else { return };
        let Calling { mut route, sent, .. } = calling;
        // A new socket takes these few bytes at once, or it is broken.
        if failed.is_none() && (!route.is_marked() || self.write_mark(&mut route, tid, sent).is_some()) {
            return self.open(tid, route);
        }
        if failed == Some(Errno::CONNREFUSED) && route.is_hidden() {
            // The other has given up waiting, and can be reached: it is asked again later.
            self.forget_route(tid);
        }
        self.answer_leaving(tid);
    }

    /// Accepts the connection of the task that was granted a route, if it has called. After the time for that it is not waited for any more.
    pub(super) fn accept_route(&mut self, tid: Tid) {
        let Some(Peer::Granted(granted)) = self.peers.get_mut(tid) else { return };
        let Some(socket) = granted.listener.accept() else {
            if granted.is_over(Instant::now()) {
                self.give_up_call(tid);
            }
            return;
        };
        let (seal, sent, library) = (granted.seal.take(), granted.sent, granted.library);
        let mut route = Route::direct(socket, self.inbox.limit(), tid, seal).with_library(library);
        route.hide(granted.is_hidden);
        // As above.
        let opens = (sent == 0 && !route.is_marked()) || self.write_mark(&mut route, tid, sent).is_some();
        if opens {
            self.open(tid, route);
        } else {
            self.forget_route(tid);
        }
    }

    /// Closes the socket at which a call was waited for. Messages go on by the daemon; a late call is refused, and the other may ask again.
    fn give_up_call(&mut self, tid: Tid) {
        self.forget_route(tid);
        // A task that can be asked only through the same firewall is not worth the wait for its answer.
        self.peers.set(tid, Peer::Refused);
        self.report_route_deleted(tid);
        self.answer_leaving(tid);
    }

    /// Writes a mark for messages by the daemon to a socket that has room; `None` if it has not.
    fn write_mark(&self, route: &mut Route, tid: Tid, count: u32) -> Option<()> {
        let message = order::mark(self.tid(), tid, count);
        let parts: [&[u8]; 1] = [&message.body];
        let mut outgoing =
            Outgoing::new(message.src, message.dst, message.header, &parts, self.options.fragment_size)
                .ok()?;
        (outgoing.write(route).ok()? && outgoing.is_done()).then_some(())
    }

    fn open(&mut self, tid: Tid, route: Route) {
        let (fd, is_hidden) = (route.fd().as_raw_fd(), route.is_hidden());
        if !self.is_near(tid) {
            route.keep_alive();
        }
        self.peers.set(tid, Peer::Open(route));
        self.neighbours.spin_at(self.peers.open_sockets());
        if is_hidden {
            self.show_hidden(tid);
        } else {
            self.report_route_added(tid, fd);
        }
    }

    /// Forgets a route that has ended, or will not open; the next message goes by the daemon, or on a new one.
    pub(super) fn forget_route(&mut self, tid: Tid) {
        let was_open = self.peers.inward(tid).is_some();
        let passed = self.peers.remove(tid);
        self.follow_end(tid, was_open, passed);
    }

    /// A route is there no more; these messages need not wait any longer.
    pub(super) fn follow_end(&mut self, tid: Tid, was_open: bool, passed: Vec<Message>) {
        for message in passed {
            self.take(message);
        }
        self.automatic.postpone(tid);
        if let Some(notices) = self.ends.take(tid) {
            self.automatic.forget(tid);
            self.peers.forget_order(tid);
            for notice in notices {
                self.take(notice);
            }
        }
        if was_open {
            self.neighbours.spin_at(self.peers.open_sockets());
            self.report_route_deleted(tid);
        }
        self.accept_ring_of(tid);
    }

    /// Closes all routes as this task leaves. Everything is read first: TCP would drop sent bytes if received ones were unread.
    pub(super) fn close_routes(&mut self) {
        self.drain_rings();
        self.neighbours = super::neighbours::Neighbours::default();
        for tid in self.peers.tids() {
            if let Some(route) = self.peers.route(tid) {
                route.end();
                self.read_route(tid, true);
            }
        }
        self.peers = super::Peers::default();
        (self.automatic, self.ends) = Default::default();
    }

    /// Whether the two tasks can share memory, if the other's library is this system's.
    fn may_share_with(&self, tid: Tid) -> bool {
        self.is_near(tid) && self.neighbours.are_possible()
    }

    /// The library of a task on another host with this data signature.
    fn peer_library(&self, signature: i32) -> PeerLibrary {
        PeerLibrary { same_signature: signature == self.identity.signature.cast_signed() }
    }

    /// Whether the network is private: other machines can neither read nor change messages between hosts that declare this.
    fn trusts_network(&self) -> bool {
        self.identity.private_network || self.host_address().is_loopback()
    }

    /// The seal for the offer in a request. If both hosts trust the network there is none.
    fn sealing(&self, body: &mut BodyReader<'_>) -> std::result::Result<Sealing, BodyError> {
        let trusts = body.int()? != 0;
        let length = body.count(1)?;
        let offer = body.bytes(length)?;
        if trusts && self.trusts_network() {
            return Ok(Sealing::Without);
        }
        Ok(seal::accept(offer)
            .map_or(Sealing::Impossible, |(seal, handshake)| Sealing::With(Box::new(seal), handshake)))
    }

    fn host_address(&self) -> Ipv4Addr {
        match Address::parse(&self.identity.address) {
            Some(Address::Ip(address)) => *address.ip(),
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    fn to_library(&self, dst: Tid, kind: Tc, body: Vec<u8>) -> Message {
        Message { src: self.tid(), dst, header: xdr_header(kind.tag(), CONTEXT_TC, 0), body: body.into() }
    }

    /// The request for a notice of a task's exit.
    fn watch(&self, tid: Tid) -> Message {
        let tag = Tc::TaskExit.tag();
        self.as_message(&NotifyRequest::of_one(notify::TASK_EXIT, CONTEXT_TC, tag, tid))
    }
}
