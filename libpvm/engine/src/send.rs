//! Sending, to one and to many. While a socket takes nothing more the task reads all of them, so that tasks that send
//! to each other never wait for each other.

use super::peers::Peer;
use super::route::{Outgoing, Route};
use super::{Engine, Payload};
use crate::{Error, Result};
use pvm_wire::calls::tasks::Multicast;
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::limits::{FRAGMENT_SIZE, PIECE_MAX};
use pvm_wire::tuned::{MULTICAST_ROUTES_MAX, MULTICAST_SPARED, SOCKETS_EVERY};
use pvm_wire::{MessageHeader, PvmError, Tid, group};

/// The bits of the number of sent messages that are all set when a task that sends looks at its sockets: one that writes into rings
/// at each 1024th message, as one that reads there; others at each 64th.
const LOOK_NEAR: u64 = SOCKETS_EVERY as u64 - 1;
const LOOK_FAR: u64 = 63;

const _: () = assert!((SOCKETS_EVERY as u64).is_power_of_two());

impl Engine {
    /// Sends a message. Returns when all is with the kernel.
    pub fn send(&mut self, dst: Tid, header: MessageHeader, payload: Payload<'_>) -> Result<()> {
        if self.send_at_once(dst, header, payload) {
            return Ok(());
        }
        if self.sent.messages & LOOK_FAR == LOOK_FAR || self.neighbours.is_look_due() {
            self.look_at_sockets();
        }
        let begun = self.begin_span();
        self.send_whole(dst, header, payload)?;
        self.count_sent(dst, payload.len());
        if begun.is_some() {
            self.record_send(begun, &[dst], &header, payload);
        }
        self.send_deferred();
        Ok(())
    }

    /// [`Self::send`] by a ring that the message can be put into itself, if nothing else is to be done besides: `false` otherwise.
    #[inline(always)]
    pub fn send_at_once(&mut self, dst: Tid, header: MessageHeader, payload: Payload<'_>) -> bool {
        let is_quiet = self.recorder.is_none() && self.sent.messages & LOOK_NEAR != LOOK_NEAR;
        let is_due = self.neighbours.is_look_due() || self.has_deferred();
        let is_sent = is_quiet && !is_due && self.send_near(dst, header, payload);
        if is_sent {
            self.count_sent(dst, payload.len());
        }
        is_sent
    }

    /// Sends one message to several tasks; to each once, and not to this one. Direct routes that are open are used.
    pub fn multicast(&mut self, dsts: &[Tid], header: MessageHeader, payload: Payload<'_>) -> Result<()> {
        if let &[dst] = dsts
            && dst != self.tid()
            && self.send_at_once(dst, header, payload)
        {
            return Ok(());
        }
        let begun = self.begin_span();
        let mut dsts = dsts.to_vec();
        dsts.sort_unstable();
        dsts.dedup();
        dsts.retain(|&dst| dst != self.tid());
        let spared = self.spared(&dsts, payload.len());
        let direct: Vec<Tid> =
            dsts.iter().copied().filter(|dst| spared.binary_search(dst).is_err()).collect();
        let mut rest = self.multicast_directly(&direct, header, payload)?;
        rest.extend(&spared);
        if self.moving.is_some() {
            rest.iter().try_for_each(|&dst| self.wait_for_reader(dst))?;
        }
        if !rest.is_empty() {
            let form = payload.for_socket(header)?;
            rest.iter().try_for_each(|&dst| self.check_uppers(dst, &form.header))?;
            // The receivers wait for what is marked: nothing but the daemon's end prevents it from here on.
            spared.iter().try_for_each(|&dst| self.mark_on_route(dst))?;
            let message = self.as_message(&Multicast { tids: rest.clone() });
            self.send_by_daemon(message.dst, message.header, Payload::Parts(&[&message.body]))?;
            for &dst in &rest {
                self.peers.count_sent(dst, false, &header);
            }
            self.send_by_daemon(self.tid().multicast(), header, payload)?;
            self.consider_routes(&rest, &header, payload.len());
        }
        self.count_multicast(&dsts, payload.len());
        self.record_send(begun, &dsts, &header, payload);
        self.send_deferred();
        Ok(())
    }

    /// Sends to those that can be reached without the daemon; the rest. Those that share memory share the body, too.
    fn multicast_directly(
        &mut self,
        dsts: &[Tid],
        header: MessageHeader,
        payload: Payload<'_>,
    ) -> Result<Vec<Tid>> {
        let (mut rest, mut parcel, mut result) = (Vec::new(), None, Ok(()));
        // From the next task on, so that tasks that send to each other do not all begin with the same one.
        let own = self.tid();
        let (lower, higher) = dsts.split_at(dsts.partition_point(|&dst| dst < own));
        for &dst in higher.iter().chain(lower) {
            let sent = match self.send_by_ring(dst, header, payload, &mut parcel) {
                Ok(false) => self.send_directly(dst, header, payload),
                sent => sent,
            };
            match sent {
                Ok(true) => {}
                Ok(false) => rest.push(dst),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        result.map(|()| rest)
    }

    /// Reads what has come at the sockets. A task that only sends would not hear else that a receiver is about to move.
    #[cold]
    fn look_at_sockets(&mut self) {
        self.neighbours.look();
        if !self.is_full() {
            // What follows finds a lost daemon, too.
            let _ = self.read_all_ready();
        }
    }

    fn send_whole(&mut self, dst: Tid, header: MessageHeader, payload: Payload<'_>) -> Result<()> {
        if self.send_by_ring(dst, header, payload, &mut None)? {
            return Ok(());
        }
        if self.wants_route(dst, &header) {
            self.ask_for_route(dst)?;
        }
        if self.moving.is_some() {
            self.wait_for_reader(dst)?;
        }
        if self.send_directly(dst, header, payload)? {
            return Ok(());
        }
        self.send_by_daemon(dst, header, payload)?;
        self.consider_route(dst, &header);
        Ok(())
    }

    /// Of the receivers of a multicast, those on other hosts that it reaches by the daemons although they have direct routes: where several are
    /// on one host, a long message crosses the network once. In ascending order, as the receivers are.
    fn spared(&self, dsts: &[Tid], length: usize) -> Vec<Tid> {
        if length < MULTICAST_SPARED || self.peers.is_empty() {
            return Vec::new();
        }
        let shared = self.by_host(dsts).filter(|of| of.len() > 1 && of.iter().all(|&dst| !self.is_near(dst)));
        shared.flatten().copied().filter(|&dst| self.peers.takes_marks(dst)).collect()
    }

    /// A multicast has reached these by the daemons. A route pays where few of them are on a host.
    fn consider_routes(&mut self, dsts: &[Tid], header: &MessageHeader, length: usize) {
        let most = if length < MULTICAST_SPARED { MULTICAST_ROUTES_MAX } else { 1 };
        let few: Vec<Tid> = self.by_host(dsts).filter(|of| of.len() <= most).flatten().copied().collect();
        for dst in few {
            self.consider_route(dst, header);
        }
    }

    /// Receivers by host, where those of a host are side by side.
    fn by_host<'a>(&self, dsts: &'a [Tid]) -> impl Iterator<Item = &'a [Tid]> {
        dsts.chunk_by(|&a, &b| self.host_of(a) == self.host_of(b))
    }

    /// Sends on an open route; `false` if there is none, or it breaks: then the whole message goes by the daemon.
    fn send_directly(&mut self, dst: Tid, header: MessageHeader, payload: Payload<'_>) -> Result<bool> {
        let Some(route) = self.peers.route(dst) else { return Ok(false) };
        // Libraries read messages to each other as XDR.
        let is_programs = header.context < group::CONTEXT;
        let form = if route.has_same_signature() && is_programs {
            payload.for_shared(header)
        } else {
            let form = payload.for_socket(header)?;
            self.check_uppers(dst, &form.header)?;
            form
        };
        let sent = self.send_epoch(dst)? && self.write_directly(dst, form.header, form.parts())?;
        if sent {
            self.peers.note_use(dst, self.sent.messages);
            self.hints.note_receiver(dst);
        }
        Ok(sent)
    }

    /// Writes a whole message to an open route; `false` if there is none, or it breaks.
    pub(super) fn write_directly(
        &mut self,
        dst: Tid,
        header: MessageHeader,
        parts: &[&[u8]],
    ) -> Result<bool> {
        let longest = self.peers.route(dst).and_then(Route::fragment_max);
        let fragment_size = longest.filter(|_| !self.is_fragment_size_chosen());
        let fragment_size = fragment_size.unwrap_or_else(|| self.fragment_size());
        let mut outgoing = Outgoing::new(self.tid(), dst, header, parts, fragment_size)?;
        while !outgoing.is_done() {
            let Some(Peer::Open(route)) = self.peers.get_mut(dst) else { return Ok(false) };
            match outgoing.write(route) {
                Ok(true) => {}
                Ok(false) => self.read_until_writable(dst)?,
                Err(_) => {
                    self.lose_route(dst);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Few long fragments are less work for our daemon than many short ones. A size that the program has set takes precedence.
    fn fragment_size(&self) -> usize {
        let is_free = !self.is_fragment_size_chosen() && self.daemon_is_ours();
        if is_free { PIECE_MAX } else { self.options.fragment_size }
    }

    fn is_fragment_size_chosen(&self) -> bool {
        self.options.fragment_size != FRAGMENT_SIZE
    }

    pub(super) fn send_by_daemon(
        &mut self,
        dst: Tid,
        header: MessageHeader,
        payload: Payload<'_>,
    ) -> Result<()> {
        let sent = self.write_to_daemon(dst, header, payload);
        if sent.as_ref().is_err_and(|error| error.code() == PvmError::SysErr) {
            self.lose();
        }
        sent
    }

    /// As [`Self::send_by_daemon`], but a broken connection stays, so that what came before it broke can be read.
    fn write_to_daemon(&mut self, dst: Tid, header: MessageHeader, payload: Payload<'_>) -> Result<()> {
        let begins =
            header.context == CONTEXT_TC && [Tc::ConAck.tag(), Tc::ConReq.tag()].contains(&header.tag);
        self.peers.count_sent(dst, begins, &header);
        let form = payload.for_socket(header)?;
        self.check_uppers(dst, &form.header)?;
        let place = self.lend(dst, &form, payload).map(|lent| lent.encode());
        let mut outgoing = match &place {
            Some(place) => {
                Outgoing::new(self.tid(), dst, form.header, &[place], self.fragment_size())?.lent()
            }
            None => Outgoing::new(self.tid(), dst, form.header, form.parts(), self.fragment_size())?,
        };
        while !outgoing.is_done() {
            let route = self.route.as_mut().ok_or_else(Error::lost)?;
            if !outgoing.write(route)?
                && let Err(error) = self.read_until_writable(Tid::MY_DAEMON)
            {
                // Nothing else can follow half a message.
                self.lose();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Beyond the queue's limit nothing is read: the others wait until this task takes what it has.
    fn read_until_writable(&mut self, sending_to: Tid) -> Result<()> {
        let ready = self.wait_ready(Some(sending_to), None)?;
        self.read(&ready)
    }

    /// Sends what handlers answered while a message was on its way out. Nobody waits for whether it goes: a daemon that
    /// has hung up, as after an exit, is noticed behind its last words. Whether all went.
    #[inline]
    pub(super) fn send_deferred(&mut self) -> bool {
        !self.has_deferred() || self.send_all_deferred()
    }

    #[inline]
    pub(super) fn has_deferred(&self) -> bool {
        !self.inbox.deferred.is_empty() || self.neighbours.are_called_for()
    }

    #[cold]
    fn send_all_deferred(&mut self) -> bool {
        if self.neighbours.are_called_for() {
            self.share();
        }
        while let Some(message) = self.inbox.deferred.pop_front() {
            let sent = self.write_to_daemon(message.dst, message.header, Payload::Parts(&[&message.body]));
            if sent.is_err() {
                self.inbox.deferred.clear();
                return false;
            }
        }
        true
    }
}
