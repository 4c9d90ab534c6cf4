//! Direct routes: how they are requested, granted and closed.
//!
//! A task that wants one (`PvmRoute` 3) sends a request by the daemon, with the address from which it will call, and waits. The
//! other answers, in any call in which it receives, with the address at which it listens; the first calls. If both ask at once,
//! the one with the lower id goes on waiting and the other answers. A refusal is remembered, and messages go by the
//! daemon as before.
//!
//! Messages keep their order. Those that the asking task sent earlier arrive before its request. Those that the other sends
//! by the daemon after its grant are counted, and the number is the first message on the route: the reader
//! holds back the following messages until that many have arrived. Only the original library, which announces nothing and
//! waits for nothing, can overtake itself there.

use super::meeting::{Address, Caller, Listener};
use super::peers::{Peer, announcement};
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
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The value of `PvmRoute` with which a task neither requests nor grants routes.
pub(super) const DONT_ROUTE: i32 = 1;

/// The value of `PvmRoute` with which a task requests routes.
pub(super) const ROUTE_DIRECT: i32 = 3;

/// Marks the following fields as an extension, which only libraries of this version read.
fn add_extension(body: BodyWriter) -> BodyWriter {
    body.int(EXTENSION_MAGIC).int(EXTENSION_VERSION)
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
    }

    /// Requests a route and waits until it is open or refused; serves the requests of other tasks meanwhile.
    pub(super) fn ask_for_route(&mut self, dst: Tid) -> Result<()> {
        if self.is_full() {
            return Ok(());
        }
        let caller =
            if self.is_neighbour(dst) { Caller::local() } else { Caller::remote(self.host_address()) };
        let Ok(caller) = caller else {
            self.peers.set(dst, Peer::Refused);
            return Ok(());
        };
        let mut question = BodyWriter::new().int(TASK_PROTOCOL).str(caller.address().to_string());
        if self.may_share_with(dst) {
            self.ask_to_meet(dst)?;
            question = add_extension(question);
        }
        let mut offer = None;
        if !self.is_neighbour(dst)
            && let Some((ours, handshake)) = Offer::new()
        {
            question = add_extension(question).int(self.identity.signature.cast_signed());
            question =
                question.int(i32::from(self.trusts_network())).int(handshake.len() as i32).bytes(&handshake);
            offer = Some(ours);
        }
        self.peers.set(dst, Peer::Asked(caller, offer));
        let (question, watch) = (self.to_library(dst, Tc::ConReq, question.finish()), self.watch(dst));
        self.send_by_daemon(question.dst, question.header, Payload::Parts(&[&question.body]))?;
        self.send_by_daemon(watch.dst, watch.header, Payload::Parts(&[&watch.body]))?;
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

    /// The deadline of a call. The wait for an answer has none: it ends with the answer, or with the other task.
    fn call_deadline(&self, dst: Tid) -> Option<Instant> {
        match self.peers.get(dst) {
            Some(Peer::Calling(_, deadline)) => Some(*deadline),
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
        let shares = is_ours && self.may_share_with(asker);
        if shares && self.neighbours.find(asker).is_none() {
            self.defer_request(&Meet { other: asker });
        }
        let address =
            address.filter(|_| version == TASK_PROTOCOL && self.options.route != DONT_ROUTE && !shares);
        let library =
            if is_ours && !self.is_neighbour(asker) { Some(self.peer_library(body.int()?)) } else { None };
        let sealing = if library.is_some() { self.sealing(body)? } else { Sealing::Without };
        let address = address.filter(|_| !matches!(sealing, Sealing::Impossible));
        let listener = address.and_then(|from| Listener::new(from, self.host_address()).ok());
        let answer = BodyWriter::new().int(TASK_PROTOCOL);
        let answer = if let Some(listener) = listener {
            let mut answer = answer.int(0).str(listener.address().to_string());
            let (seal, handshake) = match sealing {
                Sealing::With(ours, handshake) => (Some(*ours), handshake),
                Sealing::Without | Sealing::Impossible => (None, Vec::new()),
            };
            if library.is_some() {
                answer = add_extension(answer).int(self.identity.signature.cast_signed());
                answer = answer.int(handshake.len() as i32).bytes(&handshake);
            }
            // A peer that still used an older route would not ask.
            self.lose_route(asker);
            let fd = listener.fd().as_raw_fd();
            self.peers.set(asker, Peer::Granted(listener, 0, seal, library));
            // As PVM does, so that programs which poll descriptors themselves get this one, too.
            self.report_route_added(asker, fd);
            let watch = self.watch(asker);
            self.inbox.deferred.push_back(watch);
            answer
        } else {
            if asked {
                self.peers.set(asker, Peer::Refused);
            }
            answer.int(1).str("")
        };
        let answer = self.to_library(asker, Tc::ConAck, answer.finish());
        self.inbox.deferred.push_back(answer);
        Ok(())
    }

    /// Another task has answered (`TC_CONACK`).
    pub(super) fn handle_route_answer(
        &mut self,
        from: Tid,
        body: &mut BodyReader<'_>,
    ) -> std::result::Result<(), BodyError> {
        if !matches!(self.peers.get(from), Some(Peer::Asked(..))) {
            return Ok(());
        }
        let Some(Peer::Asked(caller, offer)) = self.peers.set(from, Peer::Refused) else { return Ok(()) };
        let (version, denied, address) = (body.int()?, body.int()?, Address::parse(body.str()?));
        let Some(address) = address.filter(|_| version == TASK_PROTOCOL && denied == 0) else {
            return Ok(());
        };
        let library = if has_extension(body) { Some(self.peer_library(body.int()?)) } else { None };
        let handshake = if library.is_some() { body.count(1)? } else { 0 };
        let seal = match offer.filter(|_| handshake > 0) {
            Some(offer) => {
                let Some(seal) = offer.complete(body.bytes(handshake)?) else { return Ok(()) };
                Some(seal)
            }
            None => None,
        };
        if let Ok(socket) = caller.call(&address) {
            let library = library.filter(|_| !self.is_neighbour(from));
            let route = Route::direct(socket, self.inbox.limit(), from, seal).with_library(library);
            self.peers.expect_both_ways(from);
            self.peers.set(from, Peer::Calling(route, Instant::now() + CALL_TIMEOUT));
            self.check_call(from);
        }
        Ok(())
    }

    /// A task with which a route was under way has ended (`TC_TASKEXIT`). An open one is read to its end.
    pub(super) fn end_negotiation(&mut self, tid: Tid) {
        self.lose_neighbour(tid);
        match self.peers.get(tid) {
            Some(Peer::Asked(..)) => drop(self.peers.set(tid, Peer::Refused)),
            Some(Peer::Granted(..)) => drop(self.peers.remove(tid)),
            Some(Peer::Open(route)) => route.enable_keepalive(),
            _ => {}
        }
    }

    /// Checks whether a call is connected.
    pub(super) fn check_call(&mut self, tid: Tid) {
        let Some(Peer::Calling(route, _)) = self.peers.get(tid) else { return };
        let stands = match rustix::net::getpeername(route.fd()) {
            Ok(_) => true,
            Err(Errno::NOTCONN) if matches!(rustix::net::sockopt::socket_error(route.fd()), Ok(Ok(()))) => {
                return;
            }
            Err(_) => false,
        };
        if let Some(Peer::Calling(route, _)) = self.peers.set(tid, Peer::Refused)
            && stands
        {
            self.open(tid, route);
        }
    }

    /// Accepts the connection of the task that was granted a route, if it has called.
    pub(super) fn accept_route(&mut self, tid: Tid) {
        let Some(Peer::Granted(listener, sent, seal, library)) = self.peers.get_mut(tid) else { return };
        let Some(socket) = listener.accept() else { return };
        let (seal, sent, library) = (seal.take(), *sent, *library);
        let mut route = Route::direct(socket, self.inbox.limit(), tid, seal).with_library(library);
        // A new socket takes these few bytes at once, or it is broken.
        if sent == 0 || self.announce(&mut route, tid, sent).is_some() {
            self.open(tid, route);
        } else {
            self.peers.remove(tid);
        }
    }

    fn announce(&self, route: &mut Route, tid: Tid, sent: i32) -> Option<()> {
        let message = announcement(self.tid(), tid, sent);
        let parts: [&[u8]; 1] = [&message.body];
        let mut outgoing =
            Outgoing::new(message.src, message.dst, message.header, &parts, self.options.fragment_size)
                .ok()?;
        (outgoing.write(route).ok()? && outgoing.is_done()).then_some(())
    }

    fn open(&mut self, tid: Tid, route: Route) {
        let fd = route.fd().as_raw_fd();
        self.peers.set(tid, Peer::Open(route));
        self.neighbours.spin_at(self.peers.open_sockets());
        self.report_route_added(tid, fd);
    }

    /// A route is broken: takes the messages that have arrived on it, and forgets it.
    pub(super) fn lose_route(&mut self, tid: Tid) {
        self.read_route(tid, true);
        self.forget_route(tid);
    }

    /// Forgets a route that was open; the next message goes by the daemon, or on a new one.
    pub(super) fn forget_route(&mut self, tid: Tid) {
        if self.peers.route(tid).is_some() {
            self.peers.remove(tid);
            self.neighbours.spin_at(self.peers.open_sockets());
            self.report_route_deleted(tid);
        }
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
    }

    /// Whether the two tasks can share memory, if the other's library is this system's.
    fn may_share_with(&self, tid: Tid) -> bool {
        self.is_neighbour(tid) && self.neighbours.are_possible()
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

    fn is_neighbour(&self, tid: Tid) -> bool {
        self.tid().host() == tid.host()
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
