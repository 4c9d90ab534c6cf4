//! The tasks with which this one has direct routes, or might have.

use super::meeting::{Caller, Listener};
use super::route::{PeerLibrary, Route};
use super::seal::{Offer, Seal};
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::coscheduling::Turn;
use pvm_wire::{Message, Tid};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// The state of a direct route to another task. Without an entry neither task has asked for one.
#[derive(Debug)]
pub(super) enum Peer {
    /// There will be none, and this task does not ask again.
    Refused,
    /// This task has asked and waits for the answer; over a network it has offered to seal.
    Asked(Caller, Option<Offer>),
    /// The other has granted; the connection is under way until that time.
    Calling(Route, Instant),
    /// This task has granted; the other will call. Meanwhile messages go by the daemon: the number counts them. The route will have
    /// this seal, and other properties if the peer's library is this one.
    Granted(Listener, i32, Option<Seal>, Option<PeerLibrary>),
    /// Messages go this way.
    Open(Route),
}

/// Order between the messages that a peer has sent by the daemon since its grant, and those it sends on the route.
#[derive(Debug, Default)]
struct Gate {
    come: i32,
    needed: i32,
    waiting: Vec<Message>,
}

/// The direct routes of this task.
#[derive(Debug, Default)]
pub(super) struct Peers {
    table: BTreeMap<Tid, Peer>,
    gates: HashMap<Tid, Gate>,
}

impl Peers {
    /// Where a route stands.
    #[inline]
    pub(super) fn get(&self, tid: Tid) -> Option<&Peer> {
        self.table.get(&tid)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, tid: Tid) -> Option<&mut Peer> {
        self.table.get_mut(&tid)
    }

    /// Notes where a route stands, and gives what was before.
    pub(super) fn set(&mut self, tid: Tid, peer: Peer) -> Option<Peer> {
        self.table.insert(tid, peer)
    }

    /// Forgets a route.
    pub(super) fn remove(&mut self, tid: Tid) -> Option<Peer> {
        if self.gates.get(&tid).is_some_and(|gate| gate.needed == 0) {
            self.gates.remove(&tid);
        }
        self.table.remove(&tid)
    }

    /// The open route to a task.
    pub(super) fn route(&self, tid: Tid) -> Option<&Route> {
        match self.table.get(&tid) {
            Some(Peer::Open(route)) => Some(route),
            _ => None,
        }
    }

    /// Whether this epoch has to be sent on the open route to a task; from then on it counts as sent.
    pub(super) fn must_send_epoch(&mut self, tid: Tid, epoch: Turn) -> bool {
        match self.table.get_mut(&tid) {
            Some(Peer::Open(route)) => route.must_send_epoch(epoch),
            _ => false,
        }
    }

    /// The tasks whose sockets have to be polled, with the socket, and whether it is polled for writing.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (Tid, BorrowedFd<'_>, bool)> {
        self.table.iter().filter_map(|(&tid, peer)| match peer {
            Peer::Refused | Peer::Asked(..) => None,
            Peer::Calling(route, _) => Some((tid, route.fd(), true)),
            Peer::Granted(listener, ..) => Some((tid, listener.fd(), false)),
            Peer::Open(route) => Some((tid, route.fd(), false)),
        })
    }

    /// The sockets of open routes.
    pub(super) fn open_sockets(&self) -> Vec<Arc<OwnedFd>> {
        let open = self.table.values().filter_map(|peer| match peer {
            Peer::Open(route) => Some(route.socket()),
            _ => None,
        });
        open.collect()
    }

    /// The tasks with an entry.
    pub(super) fn tids(&self) -> Vec<Tid> {
        self.table.keys().copied().collect()
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of messages that have not come whole or have to wait for others.
    pub(super) fn held(&self) -> usize {
        let routes = self.table.values().filter_map(|peer| match peer {
            Peer::Open(route) => Some(route.partial()),
            _ => None,
        });
        let waiting = self.gates.values().flat_map(|gate| &gate.waiting).map(|message| message.body.len());
        routes.sum::<usize>() + waiting.sum::<usize>()
    }

    /// A message to this task leaves by the daemon. After a grant the other has to know how many there are.
    pub(super) fn count_sent(&mut self, message_to: Tid, is_grant: bool) {
        if let Some(Peer::Granted(_, sent, ..)) = self.table.get_mut(&message_to) {
            *sent = if is_grant { 0 } else { sent.saturating_add(1) };
        }
    }

    /// The other has granted a route: what it sends by the daemon from now on comes before what it sends there.
    pub(super) fn expect_both_ways(&mut self, tid: Tid) {
        self.gates.insert(tid, Gate::default());
    }

    /// A message of `src` has arrived by the daemon: returns the messages on its route that waited for it.
    pub(super) fn count_received(&mut self, src: Tid) -> Vec<Message> {
        let Some(gate) = self.gates.get_mut(&src) else { return Vec::new() };
        gate.come = gate.come.saturating_add(1);
        if gate.needed == 0 || gate.come < gate.needed {
            return Vec::new();
        }
        self.gates.remove(&src).map_or_else(Vec::new, |gate| gate.waiting)
    }

    /// Returns a message from a route, unless messages by the daemon have to arrive before it.
    pub(super) fn pass(&mut self, message: Message) -> Option<Message> {
        let Some(gate) = self.gates.get_mut(&message.src) else { return Some(message) };
        if gate.needed == 0 {
            gate.needed = announced(&message);
            if gate.come >= gate.needed {
                self.gates.remove(&message.src);
                return Some(message);
            }
            return None;
        }
        gate.waiting.push(message);
        None
    }
}

/// The first message on a route after `count` messages by the daemon: its receiver waits for them. The original
/// takes it as the wake-up that it is there.
pub(super) fn announcement(src: Tid, dst: Tid, count: i32) -> Message {
    let body = BodyWriter::new().int(count).finish();
    Message { src, dst, header: super::xdr_header(Tc::Noop.tag(), CONTEXT_TC, 0), body: body.into() }
}

fn announced(message: &Message) -> i32 {
    let is_noop = message.header.context == CONTEXT_TC && message.header.tag == Tc::Noop.tag();
    if is_noop { BodyReader::new(&message.body).int().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::{Body, MessageHeader};

    const THEM: Tid = Tid::from_bits(0x40002);

    fn numbered(tag: i32) -> Message {
        let header = MessageHeader { tag, ..MessageHeader::default() };
        Message { src: THEM, dst: Tid::from_bits(0x40001), header, body: Body::copy_from_slice(b"four") }
    }

    fn announce(count: i32) -> Message {
        announcement(THEM, Tid::from_bits(0x40001), count)
    }

    fn tags(messages: &[Message]) -> Vec<i32> {
        messages.iter().map(|message| message.header.tag).collect()
    }

    #[test]
    fn messages_by_the_daemon_come_first() {
        let mut peers = Peers::default();
        peers.expect_both_ways(THEM);
        assert!(peers.count_received(THEM).is_empty());
        assert_eq!(peers.pass(announce(3)), None);
        assert_eq!(peers.pass(numbered(4)), None);
        assert_eq!(peers.held(), 4);
        assert!(peers.count_received(THEM).is_empty());
        assert_eq!(peers.pass(numbered(5)), None);
        assert_eq!(tags(&peers.count_received(THEM)), [4, 5]);
        assert_eq!(tags(&[peers.pass(numbered(6)).unwrap()]), [6]);
        assert_eq!(peers.held(), 0);
    }

    #[test]
    fn messages_that_have_arrived_are_not_waited_for() {
        let mut peers = Peers::default();
        peers.expect_both_ways(THEM);
        assert!(peers.count_received(THEM).is_empty() && peers.count_received(THEM).is_empty());
        // The announcement does no harm if it reaches the program.
        assert!(peers.pass(announce(2)).is_some());
        assert!(peers.pass(numbered(3)).is_some());
    }

    #[test]
    fn a_peer_that_announces_nothing_is_not_waited_for() {
        let mut peers = Peers::default();
        peers.expect_both_ways(THEM);
        assert!(peers.pass(numbered(1)).is_some());
        assert!(peers.count_received(THEM).is_empty());
        // Only the first message on a route announces something.
        assert!(peers.pass(announce(9)).is_some());
        assert!(peers.pass(numbered(2)).is_some());
    }

    #[test]
    fn messages_after_a_route_has_closed_are_still_waited_for() {
        let mut peers = Peers::default();
        peers.expect_both_ways(THEM);
        assert_eq!(peers.pass(announce(1)), None);
        assert_eq!(peers.pass(numbered(2)), None);
        peers.remove(THEM);
        assert_eq!(tags(&peers.count_received(THEM)), [2]);
    }
}
