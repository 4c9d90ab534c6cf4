//! The tasks with which this one has direct routes, or might have.

use super::meeting::{Caller, Listener};
use super::order::Order;
use super::route::{PeerLibrary, Route};
use super::seal::{Offer, Seal};
use pvm_wire::codes::CONTEXT_TC;
use pvm_wire::coscheduling::Turn;
use pvm_wire::{Message, MessageHeader, Tid};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// The state of a direct route to another task. Without an entry neither task has asked for one.
#[derive(Debug)]
pub(super) enum Peer {
    /// There will be none, and this task does not ask again.
    Refused,
    /// This task has asked.
    Asked(Asked),
    /// The other has granted; the connection is under way.
    Calling(Calling),
    /// This task has granted; the other will call. Meanwhile messages go by the daemon.
    Granted(Box<Granted>),
    /// Messages go this way.
    Open(Route),
    /// This task sends by the daemon again, and reads what the other still sends on the route.
    Left(Route),
}

/// A request for a route.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its number: the answer to an earlier request, which has been given up, is none to this one.
    pub(super) number: i32,
    /// The socket that will call.
    pub(super) caller: Caller,
    /// Over a network: the offer to seal.
    pub(super) offer: Option<Offer>,
    /// A call waits for the answer: the program has asked for direct routes.
    pub(super) is_waited_for: bool,
    /// Messages that were sent by the daemon since.
    pub(super) sent: u32,
}

/// A connection under way.
#[derive(Debug)]
pub(super) struct Calling {
    /// The route that it will be.
    pub(super) route: Route,
    /// Until when a call waits for it.
    pub(super) deadline: Instant,
    /// Messages that were sent by the daemon since the request.
    pub(super) sent: u32,
}

/// A route that this task has granted.
#[derive(Debug)]
pub(super) struct Granted {
    /// Where the other will call.
    pub(super) listener: Listener,
    /// The seal the route will have.
    pub(super) seal: Option<Seal>,
    /// The other's library, if it is this one.
    pub(super) library: Option<PeerLibrary>,
    /// The program does not poll the route itself.
    pub(super) is_hidden: bool,
    /// Messages that were sent by the daemon since the grant.
    pub(super) sent: u32,
    /// Until when the other may call.
    pub(super) until: Instant,
}

impl Granted {
    /// Whether the other need not be waited for any more. A connection that is made already would break, with what is on it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until && !self.listener.is_called()
    }
}

/// The direct routes of this task.
#[derive(Debug, Default)]
pub(super) struct Peers {
    table: BTreeMap<Tid, Peer>,
    orders: HashMap<Tid, Order>,
    /// Bytes of messages that have not come whole or have to wait for others.
    held: usize,
    /// A task of this host has been among them.
    are_near: bool,
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
        if matches!(peer, Peer::Open(_))
            && let Some(order) = self.orders.get_mut(&tid)
        {
            order.open();
        }
        self.table.insert(tid, peer)
    }

    /// Forgets a route, and gives the messages that need not wait any more.
    pub(super) fn remove(&mut self, tid: Tid) -> Vec<Message> {
        self.table.remove(&tid);
        self.end_order(tid)
    }

    fn end_order(&mut self, tid: Tid) -> Vec<Message> {
        let mut passed = Vec::new();
        if let Some(order) = self.orders.get_mut(&tid) {
            order.end(&mut passed);
            if order.is_over() {
                self.orders.remove(&tid);
            }
        }
        self.count_held();
        passed
    }

    /// Forgets a route that is broken. Gives the messages that need not wait any more; others wait for what the other end says.
    pub(super) fn break_off(&mut self, tid: Tid) -> Vec<Message> {
        if !self.orders.get(&tid).is_some_and(Order::may_have_lost) {
            return self.remove(tid);
        }
        self.table.remove(&tid);
        if let Some(order) = self.orders.get_mut(&tid) {
            order.break_off();
        }
        self.count_held();
        Vec::new()
    }

    /// What comes from a task whose route is broken need not wait any more: the messages that have waited.
    pub(super) fn end_broken(&mut self, tid: Tid) -> Vec<Message> {
        if self.orders.get(&tid).is_none_or(|order| !order.is_broken()) {
            return Vec::new();
        }
        self.end_order(tid)
    }

    /// The same without what waits for it: the route goes on in another state.
    pub(super) fn take(&mut self, tid: Tid) -> Option<Peer> {
        self.table.remove(&tid)
    }

    /// The open route to a task.
    pub(super) fn route(&self, tid: Tid) -> Option<&Route> {
        match self.table.get(&tid) {
            Some(Peer::Open(route)) => Some(route),
            _ => None,
        }
    }

    /// The open route to a task is used, after this number of sent messages.
    pub(super) fn note_use(&mut self, tid: Tid, sent: u64) {
        if let Some(Peer::Open(route)) = self.table.get_mut(&tid) {
            route.note_use(sent);
        }
    }

    /// The route on which messages of a task come.
    pub(super) fn inward(&mut self, tid: Tid) -> Option<&mut Route> {
        match self.table.get_mut(&tid) {
            Some(Peer::Open(route) | Peer::Left(route)) => Some(route),
            _ => None,
        }
    }

    /// The open routes.
    pub(super) fn open_routes(&self) -> impl Iterator<Item = (Tid, &Route)> {
        self.table.iter().filter_map(|(&tid, peer)| match peer {
            Peer::Open(route) => Some((tid, route)),
            _ => None,
        })
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
            Peer::Calling(calling) => Some((tid, calling.route.fd(), true)),
            Peer::Granted(granted) => Some((tid, granted.listener.fd(), false)),
            Peer::Open(route) | Peer::Left(route) => Some((tid, route.fd(), false)),
        })
    }

    /// The sockets that are not polled by the program itself.
    pub(super) fn hidden_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets().filter(|&(tid, ..)| self.is_hidden(tid)).map(|(_, fd, _)| fd)
    }

    /// Whether the program does not poll the route to a task itself.
    pub(super) fn is_hidden(&self, tid: Tid) -> bool {
        match self.table.get(&tid) {
            Some(Peer::Granted(granted)) => granted.is_hidden,
            Some(Peer::Calling(Calling { route, .. }) | Peer::Open(route) | Peer::Left(route)) => {
                route.is_hidden()
            }
            _ => false,
        }
    }

    /// How many routes there are, or will be, that the program does not poll itself.
    pub(super) fn hidden(&self) -> usize {
        let is_hidden = |(tid, peer): &(&Tid, &Peer)| match peer {
            Peer::Asked(asked) => !asked.is_waited_for,
            _ => self.is_hidden(**tid),
        };
        self.table.iter().filter(is_hidden).count()
    }

    /// The sockets of open routes.
    pub(super) fn open_sockets(&self) -> Vec<Arc<OwnedFd>> {
        self.open_routes().map(|(_, route)| route.socket()).collect()
    }

    /// The tasks with an entry.
    pub(super) fn tids(&self) -> Vec<Tid> {
        self.table.keys().copied().collect()
    }

    /// Whether messages are still to come that a task has sent before its last route ended.
    pub(super) fn is_ending(&self, tid: Tid) -> bool {
        self.orders.get(&tid).is_some_and(Order::is_ending)
    }

    /// The tasks with which there are routes, or may be soon.
    pub(super) fn bound(&self) -> impl Iterator<Item = Tid> {
        self.table.iter().filter(|(_, peer)| !matches!(peer, Peer::Refused)).map(|(&tid, _)| tid)
    }

    /// Whether no message that has come waits for others.
    pub(super) fn hold_nothing(&self) -> bool {
        self.orders.values().all(Order::holds_nothing)
    }

    /// Whether a task of this host may be among them.
    #[inline]
    pub(super) fn are_near(&self) -> bool {
        self.are_near
    }

    /// A task of this host will be among them.
    pub(super) fn note_near(&mut self) {
        self.are_near = true;
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of messages that have not come whole or have to wait for others.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Counts them again: something has been read, or let pass.
    pub(super) fn count_held(&mut self) {
        let routes = self.table.values().map(|peer| match peer {
            Peer::Open(route) | Peer::Left(route) => route.partial(),
            _ => 0,
        });
        self.held = routes.sum::<usize>() + self.orders.values().map(Order::held).sum::<usize>();
    }

    /// A message to this task leaves by the daemon. Where a route is to open the other has to know how many there are from the request or
    /// the grant on. Libraries of this version do not count what is between them.
    pub(super) fn count_sent(&mut self, message_to: Tid, begins: bool, header: &MessageHeader) {
        let (sent, counts_all) = match self.table.get_mut(&message_to) {
            Some(Peer::Asked(asked)) => (&mut asked.sent, false),
            Some(Peer::Calling(calling)) => (&mut calling.sent, false),
            Some(Peer::Granted(granted)) => (&mut granted.sent, granted.library.is_none()),
            _ => return,
        };
        if begins {
            *sent = 0;
        } else if counts_all || header.context != CONTEXT_TC {
            *sent = sent.saturating_add(1);
        }
    }

    /// A route from this task will open. What it sends by the daemon from now on comes before what it sends there; its library marks
    /// all of that, if it is this one.
    pub(super) fn expect_both_ways(&mut self, tid: Tid, marks_all: bool) {
        self.orders.insert(tid, Order::new(marks_all));
    }

    /// Whether this task may send by the daemon although a route is open: the other end has opened it, too, as its first mark has come.
    pub(super) fn takes_marks(&self, tid: Tid) -> bool {
        self.route(tid).is_some_and(Route::is_marked)
            && self.orders.get(&tid).is_some_and(Order::has_first_mark)
    }

    /// A message has come by the daemon; what passes now is appended.
    pub(super) fn by_daemon(&mut self, message: Message, passed: &mut Vec<Message>) {
        let src = message.src;
        let Some(order) = self.orders.get_mut(&src) else { return passed.push(message) };
        order.by_daemon(message, passed);
        if order.is_over() {
            self.orders.remove(&src);
        }
        self.count_held();
    }

    /// A task has ended, and all has come that it has sent by the daemon.
    pub(super) fn forget_order(&mut self, tid: Tid) {
        self.orders.remove(&tid);
        self.count_held();
    }

    /// A message has come on a route; what passes now is appended.
    pub(super) fn on_route(&mut self, message: Message, passed: &mut Vec<Message>) {
        match self.orders.get_mut(&message.src) {
            Some(order) => order.on_route(message, passed),
            None => passed.push(message),
        }
    }
}
