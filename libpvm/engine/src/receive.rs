//! Receiving: what has come waits in a queue until a call takes it.
//!
//! Reading a socket brings many messages at once, but the program sees them one by one, as with the original: a call that only polls takes
//! in at most one message that no call has seen before. Otherwise a program that polls for two tags in turn would find the second of two
//! messages before the first. [`Inbox::seen`] is the boundary.
//!
//! Whatever comes is sorted here, once, for both interfaces: what is for the library itself it deals with ([`Engine::take`]); messages
//! between members of groups wait apart, from the first group call on; all others are the program's. The C interface gives each of the
//! program's messages that a call looks at a buffer, since matching functions and `pvm_probe` name it by its buffer's id: the ids of
//! those that no call has taken are its queue of what was seen.

use super::wait::{self, Waiter};
use super::{Engine, Near, Reach};
use crate::{Error, Result};
use pvm_wire::calls::turns::NoticesTaken;
use pvm_wire::codes::CONTEXT_TC;
use pvm_wire::queue::{NOTICE, NOTICES_AT_ONCE};
use pvm_wire::{Message, MessageHeader, PvmError, Tid, group};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a call waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until one comes.
    Forever,
    /// Not at all: those that calls have seen already, and one more.
    Poll,
    /// This long. If the time is zero, all that has come, as far as [`Reach`] goes.
    For(Duration),
}

impl Wait {
    /// Until when, if not for ever.
    fn deadline(self, past: impl FnOnce() -> Instant) -> Option<Instant> {
        match self {
            Self::Forever => None,
            Self::Poll | Self::For(Duration::ZERO) => Some(past()),
            // A time beyond the clock's end is for ever.
            Self::For(duration) => Instant::now().checked_add(duration),
        }
    }
}

/// Messages received and not yet chosen.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) queue: VecDeque<Message>,
    /// Messages between members of groups; before the first group call there are none, and what comes in their context is the program's.
    members: Option<VecDeque<Message>>,
    /// How many of them, from the front, the program's calls have looked at.
    seen: usize,
    /// What came for the library before it knew which task it is.
    early: Vec<Message>,
    /// Answers of the built-in handlers, to be sent when no other message is half sent.
    pub(super) deferred: VecDeque<Message>,
    held: usize,
    limit: usize,
    /// Notices of queued batches that the program has taken and the daemon has not heard of.
    notices: u32,
}

impl Inbox {
    /// Empty; reads no more when it holds this many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            members: None,
            seen: 0,
            early: Vec::new(),
            deferred: VecDeque::new(),
            held: 0,
            limit,
            notices: 0,
        }
    }

    /// Bytes of unread messages beyond which no more are read.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether such a message is not the program's.
    #[inline]
    pub(super) fn keeps_apart(&self, header: &MessageHeader) -> bool {
        header.context == group::CONTEXT && self.members.is_some()
    }

    /// Sorts a message in.
    pub(super) fn add(&mut self, message: Message) {
        self.held += message.body.len();
        match &mut self.members {
            Some(members) if message.header.context == group::CONTEXT => members.push_back(message),
            _ => self.queue.push_back(message),
        }
    }

    /// From now on messages between members wait apart.
    fn keep_members(&mut self) {
        if self.members.is_none() {
            let is_members = |message: &Message| message.header.context == group::CONTEXT;
            self.seen -= self.queue.iter().take(self.seen).filter(|message| is_members(message)).count();
            let (members, queue) = std::mem::take(&mut self.queue).into_iter().partition(is_members);
            (self.members, self.queue) = (Some(members), queue);
        }
    }

    fn remove(&mut self, index: usize) -> Option<Message> {
        let message = self.queue.remove(index)?;
        self.seen -= usize::from(index < self.seen);
        self.held = self.held.saturating_sub(message.body.len());
        Some(message)
    }

    /// One more message is seen; its index, if there is one.
    fn show_next(&mut self) -> Option<usize> {
        let index = self.seen;
        self.seen = self.queue.len().min(index + 1);
        (index < self.seen).then_some(index)
    }

    /// The index of the first of these that is wanted.
    fn first(&self, among: Range<usize>, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<usize> {
        let found = self.queue.range(among.clone()).position(wanted)?;
        Some(among.start + found)
    }
}

fn is_notice(message: &Message) -> bool {
    message.header.wait_id == NOTICE && message.src == Tid::MY_DAEMON
}

/// Whether there is time left.
fn may_wait(deadline: Option<Instant>) -> bool {
    deadline.is_none_or(|end| end > Instant::now())
}

impl Engine {
    /// Takes a message out of the queue for the program, waiting for one that is wanted; `None` when the time is over.
    pub fn receive(
        &mut self,
        wait: Wait,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<Message>> {
        let index = self.find_unseen(wait, wanted)?;
        let message = self.remove(index);
        if self.neighbours.is_watched() {
            self.neighbours.show_unseen(self.inbox.seen < self.inbox.queue.len());
        }
        Ok(message)
    }

    /// As [`Engine::receive`], for the library's own calls: among all that has come, whether the program has seen it or not.
    pub fn fetch(&mut self, wait: Wait, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let deadline = wait.deadline(|| self.past());
        self.wait_for(0, deadline, wanted)
    }

    /// The next message as [`Engine::receive`] with [`Wait::Poll`] gives it, for those who go on to wait: the system is only asked once after each
    /// wait, as what neighbours write can be seen without it.
    #[inline]
    pub fn receive_ready(&mut self) -> Result<Option<Message>> {
        if !self.inbox.queue.is_empty() {
            return self.receive(Wait::Poll, &mut |_| true);
        }
        if let Some(message) = self.next_of_rings()? {
            return Ok(Some(message));
        }
        if self.neighbours.len() == 0 || self.neighbours.spinner().is_sleep_over() || self.is_full() {
            let message = self.receive(Wait::Poll, &mut |_| true)?;
            if message.is_some() {
                self.neighbours.spinner().end_sleep();
            }
            return Ok(message);
        }
        Ok(None)
    }

    /// The next message that a neighbour has written, if it lies in the ring and is `wanted`, nothing comes before it, and nobody records.
    #[inline(always)]
    pub fn next_near(&mut self, wanted: impl FnOnce(Tid, &MessageHeader) -> bool) -> Option<Near<'_>> {
        if self.recorder.is_some() || !self.inbox.queue.is_empty() || !self.may_go_on() {
            return None;
        }
        // What libraries say to each other is sorted elsewhere.
        let is_programs = |header: &MessageHeader| header.context < group::CONTEXT;
        let near = self.neighbours.next_near(|src, header| is_programs(header) && wanted(src, header))?;
        self.turns = self.turns.wrapping_add(1);
        Some(near)
    }

    fn past(&self) -> Instant {
        *self.past.get_or_init(Instant::now)
    }

    /// A copy of the message that [`Engine::receive`] with [`Wait::Poll`] would take; it stays in the queue.
    pub fn peek(&mut self, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let index = self.find_unseen(Wait::Poll, wanted)?;
        Ok(index.and_then(|index| self.inbox.queue.get(index)).cloned())
    }

    /// Puts a message into this task's own queue.
    pub fn inject(&mut self, message: Message) {
        self.inbox.add(message);
    }

    /// From now on messages between members of groups are those of group calls.
    pub fn keep_members(&mut self) {
        self.inbox.keep_members();
    }

    /// Takes a message between members that has come and is wanted.
    pub fn take_of_members(&mut self, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Message> {
        let members = self.inbox.members.as_mut()?;
        let message = members.iter().position(wanted).and_then(|index| members.remove(index))?;
        self.inbox.held = self.inbox.held.saturating_sub(message.body.len());
        Some(message)
    }

    /// The same, waiting for it; each message is shown to `wanted` once. `None` when the time is over.
    pub fn fetch_of_members(
        &mut self,
        wait: Wait,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<Message>> {
        self.keep_members();
        let deadline = wait.deadline(|| self.past());
        let mut shown = 0;
        loop {
            let mut index = 0;
            let mut fresh = |message: &Message| {
                index += 1;
                index > shown && wanted(message)
            };
            if let Some(message) = self.take_of_members(&mut fresh) {
                return Ok(Some(message));
            }
            shown = index;
            let count = |inbox: &Inbox| inbox.members.as_ref().map_or(0, VecDeque::len);
            if !self.take_one()? && !self.take_in(deadline)? && count(&self.inbox) == shown {
                return Ok(None);
            }
        }
    }

    /// Takes in what has come, without waiting.
    pub fn poll(&mut self) -> Result<()> {
        self.take_early();
        while self.read_all_ready()? {}
        self.neighbours.settle();
        self.send_deferred();
        Ok(())
    }

    /// Takes a message at index `start` of the queue or behind.
    pub(super) fn wait_for(
        &mut self,
        start: usize,
        deadline: Option<Instant>,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<Message>> {
        let index = self.find(start, deadline, wanted)?;
        Ok(self.remove(index))
    }

    fn remove(&mut self, index: Option<usize>) -> Option<Message> {
        let message = self.inbox.remove(index?);
        if message.as_ref().is_some_and(is_notice) {
            self.count_notice();
        }
        message
    }

    /// The program has taken a notice of a queued batch. Its daemon starts no more tasks before it has heard of enough of them.
    #[cold]
    fn count_notice(&mut self) {
        self.inbox.notices += 1;
        if self.inbox.notices >= NOTICES_AT_ONCE {
            let taken = std::mem::take(&mut self.inbox.notices);
            self.tell_later(&NoticesTaken { count: taken });
            self.send_deferred();
        }
    }

    /// The index of a message that is wanted: among those that calls have seen, then among those that follow, one by one.
    fn find_unseen(&mut self, wait: Wait, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<usize>> {
        if let Some(index) = self.inbox.first(0..self.inbox.seen, wanted) {
            return Ok(Some(index));
        }
        let deadline = wait.deadline(|| self.past());
        let mut reach = Reach::of(wait, self.neighbours.hides_unseen());
        loop {
            while let Some(index) = self.inbox.show_next() {
                if reach.admits(self.inbox.queue[index].src) && wanted(&self.inbox.queue[index]) {
                    return Ok(Some(index));
                }
                if reach.is_over() {
                    return Ok(None);
                }
            }
            if !self.take_one()? && !self.take_in(deadline)? && self.inbox.seen == self.inbox.queue.len() {
                return Ok(None);
            }
        }
    }

    /// The index of a message that is wanted; each message is shown to it once.
    fn find(
        &mut self,
        start: usize,
        deadline: Option<Instant>,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<usize>> {
        let mut shown = start;
        loop {
            if let Some(index) = self.inbox.first(shown..self.inbox.queue.len(), wanted) {
                return Ok(Some(index));
            }
            shown = self.inbox.queue.len();
            if self.take_one()? {
                continue;
            }
            if !self.take_in(deadline)? && self.inbox.queue.len() == shown {
                return Ok(None);
            }
        }
    }

    /// Takes one message of a neighbour, so that the next ones can be taken where they lie; none while anything is to be
    /// sent first.
    fn take_one(&mut self) -> Result<bool> {
        Ok(!self.has_deferred() && self.take_some(1)?)
    }

    /// Waits for something to come and takes it in; `false` when the time is over.
    pub(super) fn take_in(&mut self, deadline: Option<Instant>) -> Result<bool> {
        let early = self.take_early();
        self.send_deferred();
        if early {
            return Ok(true);
        }
        let came = self.take_some(usize::MAX)?
            || may_wait(deadline)
                && self.spin(deadline)
                && (self.take_some(usize::MAX)? || self.read_all_ready()?)
            || self.read_now()?
            || (may_wait(deadline) || self.has_more_sockets()) && self.sleep(deadline)?;
        self.neighbours.settle();
        self.send_deferred();
        Ok(came)
    }

    /// Whether something may come elsewhere than from the daemon.
    fn has_more_sockets(&self) -> bool {
        !self.peers.is_empty() || self.neighbours.bell().is_some()
    }

    /// Waits at the descriptors, and reads what has come.
    fn sleep(&mut self, deadline: Option<Instant>) -> Result<bool> {
        if may_wait(deadline) { wait::sleep(self, deadline) } else { self.await_input(deadline) }
    }

    /// Deals with what is for the library itself, and queues the rest.
    pub(super) fn take(&mut self, message: Message) {
        if self.tid() == Tid::ANY && message.header.context == CONTEXT_TC {
            self.inbox.early.push(message);
        } else if !self.handle(&message) {
            self.inject(message);
        }
    }

    /// Deals with what came before the enrolment's end, in the first call after it, when options are set; whether
    /// there was anything.
    fn take_early(&mut self) -> bool {
        if self.tid() == Tid::ANY || self.inbox.early.is_empty() {
            return false;
        }
        for message in std::mem::take(&mut self.inbox.early) {
            self.take(message);
        }
        true
    }

    /// Whether no more may be read before the program takes what has come.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.inbox.held.saturating_add(self.peers.held()) > self.inbox.limit
    }

    /// Why a call fails then.
    pub(super) fn check_room(&self) -> Result<()> {
        if !self.is_full() {
            return Ok(());
        }
        let text = format!(
            "more than {} bytes of received messages wait unread (PVM_QUEUE_MAX_BYTES)",
            self.inbox.limit
        );
        Err(Error::new(PvmError::NoMem, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(tags: &[i32]) -> Inbox {
        let message = |&tag: &i32| Message {
            src: Tid::from_raw(0x40001),
            dst: Tid::from_raw(0x40002),
            header: MessageHeader { tag, ..MessageHeader::default() },
            body: pvm_wire::Body::new(),
        };
        Inbox { queue: tags.iter().map(message).collect(), ..Inbox::new(usize::MAX) }
    }

    #[test]
    fn the_first_that_is_wanted_is_found() {
        let inbox = inbox(&[1, 2, 3, 2]);
        let mut wanted = |message: &Message| message.header.tag == 2;
        assert_eq!(inbox.first(0..4, &mut wanted), Some(1));
        assert_eq!(inbox.first(2..4, &mut wanted), Some(3));
        assert_eq!(inbox.first(2..3, &mut wanted), None);
    }

    #[test]
    fn messages_are_shown_one_by_one_and_stay_seen() {
        let mut inbox = inbox(&[1, 2, 3]);
        assert_eq!([inbox.show_next(), inbox.show_next()], [Some(0), Some(1)]);
        inbox.remove(0).unwrap();
        // What the library takes for itself is not what the program has seen.
        assert_eq!((inbox.seen, inbox.remove(1).map(|message| message.header.tag)), (1, Some(3)));
        assert_eq!((inbox.show_next(), inbox.seen), (None, 1));
    }
}
