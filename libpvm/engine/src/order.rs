//! The order of what one task sends by two ways: by the daemons, and on its direct route.
//!
//! The sender writes a *mark* on the route for each message that it sends by the daemons instead, before what it sends on the route after
//! it. The first message on a route is a mark, too: for all messages by the daemons since the route was asked for or granted. The receiver
//! passes a message by the daemons at its mark, whichever of the two comes first. At the route's end all that has come by the daemons passes.
//!
//! Messages between libraries pass at once. Libraries that may not know this, as the original, write no marks; only the first message on
//! their routes can be one. Their messages by the daemons are never held back.

use super::xdr_header;
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::{CONTEXT_TC, Tc};
use pvm_wire::{Message, Tid};
use std::collections::VecDeque;

/// Messages of one sender, as far as they wait for others.
#[derive(Debug)]
pub(super) struct Order {
    state: State,
    /// The sender writes a mark for each message by the daemons.
    marks_all: bool,
    /// Messages by the daemons that have no mark yet.
    early: VecDeque<Message>,
    /// What has come on the route behind marks whose messages have not come.
    late: VecDeque<OnRoute>,
    /// Bytes of both.
    held: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing can be on the route. `come` messages have come by the daemons.
    Waiting { come: u32 },
    /// The first mark is to come next. `come` messages had come by the daemons before the route was open.
    Open { come: u32 },
    /// Marked messages that have not come.
    Marked { missing: u32 },
    /// The route is broken: what was sent on it last may be lost, and with it the marks of messages by the daemons. Marked messages that have not
    /// come; others wait for the sender's word.
    Broken { missing: u32 },
    /// Nothing more comes on the route. Marked messages that have not come.
    Ended { missing: u32 },
}

#[derive(Debug)]
enum OnRoute {
    Message(Message),
    Mark(u32),
}

/// The mark for this number of messages.
pub(super) fn mark(src: Tid, dst: Tid, count: u32) -> Message {
    let body = BodyWriter::new().int(count.cast_signed()).finish();
    Message { src, dst, header: xdr_header(Tc::Noop.tag(), CONTEXT_TC, 0), body: body.into() }
}

fn marked(message: &Message) -> Option<u32> {
    let is_mark = message.header.context == CONTEXT_TC && message.header.tag == Tc::Noop.tag();
    let count = || BodyReader::new(&message.body).int().unwrap_or(0);
    is_mark.then(|| u32::try_from(count()).unwrap_or(0))
}

impl Order {
    /// Of a sender whose route will open, and which writes marks for all messages if `marks_all`.
    pub(super) fn new(marks_all: bool) -> Self {
        Self {
            state: State::Waiting { come: 0 },
            marks_all,
            early: VecDeque::new(),
            late: VecDeque::new(),
            held: 0,
        }
    }

    /// The route is open.
    pub(super) fn open(&mut self) {
        if let State::Waiting { come } = self.state {
            self.state = State::Open { come };
        }
    }

    /// Whether the first mark has come: the sender has opened the route, too, and holds back what comes by the daemons without a mark.
    pub(super) fn has_first_mark(&self) -> bool {
        matches!(self.state, State::Marked { .. })
    }

    /// Whether nothing waits, nor will.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Ended { missing: 0 } && self.late.is_empty()
    }

    /// Whether the route is broken, and the sender has not said that it knows.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken { .. })
    }

    /// Whether messages may be lost that the sender has put on the route, if this is broken. A sender whose first mark has not come has most
    /// likely put none there: a task that exits before it accepts a connection breaks it.
    pub(super) fn may_have_lost(&self) -> bool {
        self.marks_all && self.has_first_mark()
    }

    /// Whether messages are still missing of a route that has ended, or is broken. Another route would lose their order.
    pub(super) fn is_ending(&self) -> bool {
        self.is_broken() || matches!(self.state, State::Ended { .. }) && !self.is_over()
    }

    /// Whether nothing waits now.
    pub(super) fn holds_nothing(&self) -> bool {
        self.early.is_empty() && self.late.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// A message has come by the daemons; what passes now is appended.
    pub(super) fn by_daemon(&mut self, message: Message, passed: &mut Vec<Message>) {
        if self.marks_all && message.header.context == CONTEXT_TC {
            return passed.push(message);
        }
        match &mut self.state {
            State::Marked { missing: 0 } | State::Broken { missing: 0 } | State::Open { .. }
                if self.marks_all =>
            {
                self.held += message.body.len();
                return self.early.push_back(message);
            }
            State::Waiting { come } | State::Open { come } => *come = come.saturating_add(1),
            State::Marked { missing } | State::Broken { missing } | State::Ended { missing } => {
                *missing = missing.saturating_sub(1);
            }
        }
        passed.push(message);
        self.advance(passed);
    }

    /// A message has come on the route.
    pub(super) fn on_route(&mut self, message: Message, passed: &mut Vec<Message>) {
        let mark = marked(&message);
        match (self.state, mark) {
            (State::Waiting { come } | State::Open { come }, mark) => {
                let missing = mark.unwrap_or(0).saturating_sub(come);
                self.state = State::Marked { missing };
                if mark.is_none() {
                    self.hold(message);
                }
            }
            (_, Some(count)) if self.marks_all => self.late.push_back(OnRoute::Mark(count)),
            _ => self.hold(message),
        }
        self.advance(passed);
    }

    fn hold(&mut self, message: Message) {
        self.held += message.body.len();
        self.late.push_back(OnRoute::Message(message));
    }

    /// Marked messages that have not come.
    fn missing(&self) -> u32 {
        match self.state {
            State::Marked { missing } | State::Broken { missing } | State::Ended { missing } => missing,
            State::Waiting { .. } | State::Open { .. } => 0,
        }
    }

    /// The route is broken.
    pub(super) fn break_off(&mut self) {
        self.state = State::Broken { missing: self.missing() };
    }

    /// The route has ended, or the sender knows that it is broken.
    pub(super) fn end(&mut self, passed: &mut Vec<Message>) {
        self.state = State::Ended { missing: self.missing() };
        self.advance(passed);
    }

    /// Passes what waits for nothing any more.
    fn advance(&mut self, passed: &mut Vec<Message>) {
        let is_ended = matches!(self.state, State::Ended { .. });
        while let State::Marked { missing } | State::Broken { missing } | State::Ended { missing } =
            &mut self.state
        {
            if *missing > 0 {
                let Some(message) = self.early.pop_front() else { return };
                *missing -= 1;
                self.held -= message.body.len();
                passed.push(message);
            } else {
                match self.late.pop_front() {
                    Some(OnRoute::Message(message)) => {
                        self.held -= message.body.len();
                        passed.push(message);
                    }
                    Some(OnRoute::Mark(count)) => *missing = count,
                    None => break,
                }
            }
        }
        if is_ended {
            passed.extend(self.early.drain(..));
            self.held = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvm_wire::{Body, MessageHeader};

    const THEM: Tid = Tid::from_bits(0x40002);

    fn numbered(tag: i32) -> Message {
        let header = MessageHeader { tag, ..MessageHeader::default() };
        Message { src: THEM, dst: Tid::from_bits(0x80001), header, body: Body::copy_from_slice(b"four") }
    }

    fn marks(count: u32) -> Message {
        mark(THEM, Tid::from_bits(0x80001), count)
    }

    fn tags(messages: &[Message]) -> Vec<i32> {
        messages.iter().map(|message| message.header.tag).collect()
    }

    #[test]
    fn a_route_of_a_library_that_marks_nothing_holds_nothing_back() {
        let mut order = Order::new(false);
        let mut passed = Vec::new();
        order.by_daemon(numbered(1), &mut passed);
        order.open();
        order.by_daemon(numbered(2), &mut passed);
        order.on_route(numbered(3), &mut passed);
        order.by_daemon(numbered(4), &mut passed);
        // Only the first message can be a mark.
        order.on_route(marks(9), &mut passed);
        order.on_route(numbered(5), &mut passed);
        assert_eq!(tags(&passed), [1, 2, 3, 4, Tc::Noop.tag(), 5]);
    }

    #[test]
    fn the_first_mark_of_any_library_counts() {
        let mut order = Order::new(false);
        let mut passed = Vec::new();
        order.by_daemon(numbered(1), &mut passed);
        order.open();
        order.on_route(marks(3), &mut passed);
        order.on_route(numbered(4), &mut passed);
        assert_eq!(order.held(), 4);
        order.by_daemon(numbered(2), &mut passed);
        order.end(&mut passed);
        assert_eq!(tags(&passed), [1, 2], "one is missing, although the route has ended");
        assert!(!order.is_over() && order.is_ending());
        order.by_daemon(numbered(3), &mut passed);
        assert_eq!(tags(&passed), [1, 2, 3, 4]);
        assert!(order.is_over() && !order.is_ending() && order.held() == 0);
    }

    #[test]
    fn messages_between_libraries_pass_at_once() {
        let mut order = Order::new(true);
        order.open();
        let mut passed = Vec::new();
        order.by_daemon(numbered(1), &mut passed);
        assert!(passed.is_empty());
        let header = xdr_header(Tc::ConAck.tag(), CONTEXT_TC, 0);
        order.by_daemon(Message { header, ..numbered(0) }, &mut passed);
        assert_eq!(passed.len(), 1);
        order.end(&mut passed);
        assert_eq!(passed.len(), 2);
    }

    #[test]
    fn what_follows_a_break_waits_for_the_senders_word() {
        let mut order = Order::new(true);
        let mut passed = Vec::new();
        order.open();
        order.on_route(marks(0), &mut passed);
        order.on_route(marks(1), &mut passed);
        order.on_route(numbered(2), &mut passed);
        order.break_off();
        order.by_daemon(numbered(1), &mut passed);
        order.by_daemon(numbered(4), &mut passed);
        assert_eq!(tags(&passed), [1, 2], "3 may have been on the route");
        assert!(order.is_ending() && !order.holds_nothing());
        order.end(&mut passed);
        assert_eq!(tags(&passed), [1, 2, 4]);
        assert!(order.is_over() && order.held() == 0);
    }

    /// The two ways to a receiver, each a queue.
    #[derive(Default)]
    struct Ways {
        daemon: VecDeque<Message>,
        route: VecDeque<Message>,
    }

    proptest! {
        /// Messages before the route is open, then by either way, then after the sender has left the route: whatever the speed of the
        /// two, they pass in the order in which they were sent.
        #[test]
        fn messages_pass_in_their_order(
            before in 0..5_i32,
            come in 0..5_usize,
            ways in proptest::collection::vec(any::<bool>(), 0..20),
            after in 0..5_i32,
            speed in proptest::collection::vec(any::<bool>(), 0..60),
        ) {
            let mut sent = Ways::default();
            let mut order = Order::new(true);
            let mut passed = Vec::new();
            sent.daemon.extend((0..before).map(numbered));
            // Some come before the route is open.
            for _ in 0..come {
                if let Some(message) = sent.daemon.pop_front() {
                    order.by_daemon(message, &mut passed);
                }
            }
            order.open();
            sent.route.push_back(marks(before.cast_unsigned()));
            let mut last = before;
            for by_daemon in ways {
                if by_daemon {
                    sent.route.push_back(marks(1));
                    sent.daemon.push_back(numbered(last));
                } else {
                    sent.route.push_back(numbered(last));
                }
                last += 1;
            }
            sent.daemon.extend((last..last + after).map(numbered));
            let mut speed = speed.into_iter();
            while !sent.route.is_empty() || !sent.daemon.is_empty() {
                let first = speed.next().unwrap_or(true);
                if first && let Some(message) = sent.route.pop_front() {
                    order.on_route(message, &mut passed);
                    if sent.route.is_empty() {
                        order.end(&mut passed);
                    }
                } else if let Some(message) = sent.daemon.pop_front() {
                    order.by_daemon(message, &mut passed);
                }
            }
            prop_assert_eq!(tags(&passed), (0..last + after).collect::<Vec<_>>());
            prop_assert!(order.is_over() && order.held() == 0);
        }
    }
}
