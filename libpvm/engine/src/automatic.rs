//! Automatic routes: direct routes for which this task asks by itself, with tasks of other hosts to which it sends again.
//!
//! The task first asks its daemon which library the other has: only this one keeps the order where a route opens while messages are
//! sent, and seals what it sends. Nothing waits: neither for that answer nor for the route.
//!
//! A task has no more than [`AUTOMATIC_ROUTES`]. One more replaces the one that was used least lately, if that has not been used for long.
//!
//! The program does not see these routes. If it polls the descriptors itself, their sockets are behind the first one.

use super::Engine;
use super::direct::ALLOW_DIRECT;
use super::peers::Peer;
use crate::Result;
use pvm_wire::calls::tasks::ListTasks;
use pvm_wire::calls::{Call, Request};
use pvm_wire::codes::{CONTEXT_TC, EXTENSION_VERSION, task_flags};
use pvm_wire::limits::AUTOMATIC_ROUTES;
use pvm_wire::{Message, MessageHeader, Tid};
use std::collections::HashMap;

/// The message from which on a task has a use for a route.
const FIRST_USE: u32 = 2;

/// A route may be replaced when this task has sent this number of messages since the route was last used. A route that has ended is asked
/// for again after the same number of messages to its task.
const UNUSED: u32 = 1024;

/// Most tasks without a route whose messages are counted. At one more all counts begin anew: their routes open later.
const USES_MAX: usize = 4096;

/// Candidates for a route.
#[derive(Debug, Default)]
pub(super) struct Automatic {
    uses: HashMap<Tid, Use>,
    /// Questions to the daemon about libraries, by their wait ids.
    questions: HashMap<i32, Tid>,
}

/// Messages to a task without a route.
#[derive(Debug, Clone, Copy)]
struct Use {
    sent: u32,
    /// At how many a route is asked for.
    next: u32,
}

impl Automatic {
    /// Counts a message by the daemon; whether a route is to be asked for now. Where none comes of it, it is asked for again after twice as
    /// many.
    fn count(&mut self, dst: Tid) -> bool {
        if self.uses.len() >= USES_MAX {
            self.uses.clear();
        }
        let used = self.uses.entry(dst).or_insert(Use { sent: 0, next: FIRST_USE });
        used.sent = used.sent.saturating_add(1);
        let is_now = used.sent >= used.next;
        if is_now {
            used.next = used.next.saturating_mul(2);
        }
        is_now
    }

    /// A route has ended, or will not open: it is not asked for again soon.
    pub(super) fn postpone(&mut self, tid: Tid) {
        self.uses.insert(tid, Use { sent: 0, next: UNUSED });
    }

    /// A task has ended.
    pub(super) fn forget(&mut self, tid: Tid) {
        self.uses.remove(&tid);
    }
}

impl Engine {
    /// A message goes by the daemon: asks for a route if that is worth while.
    pub(super) fn consider_route(&mut self, dst: Tid, header: &MessageHeader) {
        let is_candidate = self.options.route == ALLOW_DIRECT
            && (dst.is_task() && !self.is_near(dst) && self.tid().is_task())
            && header.context != CONTEXT_TC
            && self.peers.get(dst).is_none()
            && self.may_be_direct(dst);
        if is_candidate && self.takes_automatic_routes() && self.automatic.count(dst) {
            let wait_id = self.new_wait_id();
            self.automatic.questions.insert(wait_id, dst);
            let question = ListTasks { which: dst, version: Some(EXTENSION_VERSION) };
            let message = Message { src: self.tid(), ..question.message(wait_id) };
            self.inbox.deferred.push_back(message);
        }
    }

    /// Whether routes that the program does not see are possible: not if the program would miss what comes there.
    pub(super) fn takes_automatic_routes(&self) -> bool {
        self.direct && self.daemon_is_ours() && self.neighbours.shows_all()
    }

    /// The daemon's answer about a library; `false` if it is something else.
    pub(super) fn hear_of_library(&mut self, message: &Message) -> bool {
        let wait_id = message.header.wait_id;
        if message.src != Tid::MY_DAEMON || message.header.tag != ListTasks::TAG {
            return false;
        }
        let Some(dst) = self.automatic.questions.remove(&wait_id) else { return false };
        let Ok(Ok(list)) = ListTasks::decode_answer(&message.body) else { return true };
        let flags = list.tasks.iter().find(|record| record.tid == dst).map_or(0, |record| record.flags);
        let is_original = flags & (task_flags::EXTENDED | task_flags::CONNECTED) == task_flags::CONNECTED;
        if self.peers.get(dst).is_some() || self.is_near(dst) || !self.may_be_direct(dst) {
            // The other was faster, or has moved to this host, or one of the two is to move.
        } else if is_original {
            self.peers.set(dst, Peer::Refused);
        } else if flags & task_flags::EXTENDED != 0 && self.makes_room_for_route() {
            let requests = self.route_request(dst, false);
            self.inbox.deferred.extend(requests);
        }
        true
    }

    /// Leaves a route that was not used for long if there are as many as may be; whether there is room for one more.
    pub(super) fn makes_room_for_route(&mut self) -> bool {
        if self.peers.hidden() < AUTOMATIC_ROUTES {
            return true;
        }
        let now = self.sent.messages;
        let hidden = self.peers.open_routes().filter(|(_, route)| route.is_hidden());
        let unused = hidden.map(|(tid, route)| (route.used_at(), tid)).min();
        let Some((used, tid)) = unused else { return true };
        now.saturating_sub(used) >= u64::from(UNUSED) && self.leave_route(tid)
    }

    /// Sends by the daemon from now on, and reads what the other has sent on the route; `false` if that is not possible yet.
    pub(super) fn leave_route(&mut self, tid: Tid) -> bool {
        if !self.peers.takes_marks(tid) {
            return false;
        }
        if let Some(Peer::Open(route)) = self.peers.take(tid) {
            route.end();
            self.peers.set(tid, Peer::Left(route));
        }
        true
    }

    /// Marks the next message by the daemon on the route to its receiver. Where the route breaks, that message needs no mark.
    pub(super) fn mark_on_route(&mut self, dst: Tid) -> Result<()> {
        let mark = super::order::mark(self.tid(), dst, 1);
        self.write_directly(dst, mark.header, &[&mark.body]).map(drop)
    }

    /// The program polls the descriptors itself: the sockets of a route that it does not see are behind the first one.
    pub(super) fn show_hidden(&self, tid: Tid) {
        for (of, fd, _) in self.peers.sockets().filter(|&(of, ..)| of == tid) {
            if self.peers.is_hidden(of) {
                self.neighbours.add_behind_front(fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Tid = Tid::from_bits(0x80001);

    #[test]
    fn a_route_is_asked_for_with_the_second_message_and_less_often_then() {
        let mut automatic = Automatic::default();
        let asked: Vec<u32> = (1..=40).filter(|_| automatic.count(OTHER)).collect();
        assert_eq!(asked, [2, 4, 8, 16, 32]);
        automatic.postpone(OTHER);
        assert!(
            (1..UNUSED).all(|_| !automatic.count(OTHER)),
            "a route that has ended is not made again at once"
        );
        assert!(automatic.count(OTHER));
    }

    #[test]
    fn tasks_that_are_sent_to_once_take_no_memory_for_ever() {
        let mut automatic = Automatic::default();
        for number in 0..100_000 {
            assert!(!automatic.count(Tid::from_bits(0x80000 + number)));
            assert!(automatic.uses.len() <= USES_MAX);
        }
    }
}
