//! Receiving: messages wait in the [`Inbox`] until a call takes them.
//!
//! Each message is dispatched here, for both interfaces: the library handles its own ([`Engine::take`]); messages
//! between members of groups are kept apart, from the first group call on; all others are the program's.

use super::groups::Look;
use super::inbox::{Arrived, Inbox, Search};
use super::wait::{self, Waiter};
use super::{Engine, Near, Spinner};
use crate::{Error, Result};
use pvm_wire::calls::turns::NoticesTaken;
use pvm_wire::codes::CONTEXT_TC;
use pvm_wire::queue::{NOTICE, NOTICES_AT_ONCE};
use pvm_wire::{Message, MessageHeader, PvmError, Tid, group};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a call waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until one comes.
    Forever,
    /// Not at all: those that calls have seen already, and one more.
    Poll,
    /// This long. If the time is zero, a call takes messages that have arrived, as far as such calls look.
    For(Duration),
}

impl Wait {
    /// The deadline, if there is one.
    fn deadline(self, past: impl FnOnce() -> Instant) -> Option<Instant> {
        match self {
            Self::Forever => None,
            Self::Poll | Self::For(Duration::ZERO) => Some(past()),
            // A time beyond the clock's end is for ever.
            Self::For(duration) => Instant::now().checked_add(duration),
        }
    }
}

fn is_notice(message: &Message) -> bool {
    message.header.wait_id == NOTICE && message.src == Tid::MY_DAEMON
}

/// Whether this is a message of programs. Those between libraries are handled elsewhere.
#[inline(always)]
fn is_programs(header: &MessageHeader) -> bool {
    header.context < group::CONTEXT
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
        let number = self.find_waiting(wait, wanted)?;
        self.show_unseen();
        Ok(number.and_then(|number| self.take_arrived(number)).map(|arrived| arrived.message))
    }

    /// As [`Engine::receive`], for the library's own calls: among all messages in the queue, whether the program has seen them or not.
    pub fn fetch(&mut self, wait: Wait, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let deadline = wait.deadline(|| self.past());
        self.wait_for(0, deadline, wanted)
    }

    /// Begins the search of a call that waits this long.
    #[inline]
    pub fn search(&self, wait: Wait) -> Search {
        Search::new(wait, self.neighbours.hides_unseen())
    }

    /// The number of the first message that the program has seen, that this search has not looked at, and that is wanted.
    #[inline]
    pub fn find(&self, search: &mut Search, wanted: impl FnMut(&Arrived) -> bool) -> Option<u64> {
        self.inbox.find(search, wanted)
    }

    /// Shows the program one more message, if there is one. For a call that will wait the system is asked only once after each wait, as
    /// messages of neighbours are visible without it.
    #[inline]
    pub fn see_next(&mut self, will_wait: bool) -> Result<Option<&Arrived>> {
        self.see_next_until(will_wait, |_| false)
    }

    /// As [`Self::see_next`], but reads no further once there is a message between members behind the number `shown`.
    pub fn see_next_or_member(&mut self, will_wait: bool, shown: u64) -> Result<Option<&Arrived>> {
        self.see_next_until(will_wait, |inbox| inbox.has_of_members_behind(shown))
    }

    #[inline(always)]
    fn see_next_until(
        &mut self,
        will_wait: bool,
        is_enough: impl Fn(&Inbox) -> bool,
    ) -> Result<Option<&Arrived>> {
        if !self.inbox.has_unseen() {
            self.bring_next(will_wait, is_enough)?;
        }
        if self.neighbours.is_watched() {
            self.neighbours.show_unseen(self.inbox.unseen() > 1);
        }
        Ok(self.inbox.see_next())
    }

    /// Reads messages until there is one for the program, or enough.
    fn bring_next(&mut self, will_wait: bool, is_enough: impl Fn(&Inbox) -> bool) -> Result<()> {
        while !self.inbox.has_unseen() && !is_enough(&self.inbox) {
            self.send_deferred();
            if self.take_some(1)? {
                continue;
            }
            let asks = !will_wait
                || self.neighbours.len() == 0
                || self.neighbours.spinner().is_sleep_over()
                || self.is_full();
            let past = self.past();
            if !asks || !self.take_in(Some(past))? {
                return Ok(());
            }
            // There may be more.
            self.neighbours.spinner().end_sleep();
        }
        Ok(())
    }

    /// Makes a descriptor readable if there is a message that the program has not seen, for programs that poll descriptors.
    fn show_unseen(&self) {
        if self.neighbours.is_watched() {
            self.neighbours.show_unseen(self.inbox.has_unseen());
        }
    }

    /// Whether there is no message that the program could receive.
    #[inline(always)]
    pub fn has_none(&self) -> bool {
        self.inbox.is_empty()
    }

    /// The program's message with this number.
    pub fn arrived(&mut self, number: u64) -> Option<&mut Arrived> {
        self.inbox.get_mut(number)
    }

    /// The messages of which the program has a copy: the number of each, and its buffer's id.
    pub fn shown(&self) -> impl Iterator<Item = (u64, i32)> {
        self.inbox.shown()
    }

    /// Takes the message with this number out of the queue.
    pub fn take_arrived(&mut self, number: u64) -> Option<Arrived> {
        let arrived = self.inbox.take(number)?;
        if is_notice(&arrived.message) {
            self.count_notice();
        }
        Some(arrived)
    }

    /// The next message that a neighbour has written, if it lies in the ring and is `wanted`, no message is before it, and calls are not recorded.
    #[inline(always)]
    pub fn next_near(&mut self, wanted: impl FnOnce(Tid, &MessageHeader) -> bool) -> Option<Near<'_>> {
        if !self.may_take_near() {
            return None;
        }
        let near = self.neighbours.next_near(|src, header| is_programs(header) && wanted(src, header))?;
        self.ring_reads = self.ring_reads.wrapping_add(1);
        Some(near)
    }

    /// As [`Self::next_near`], of a message in a block.
    #[inline]
    pub fn next_block(&mut self, wanted: impl FnOnce(Tid, &MessageHeader) -> bool) -> Option<Message> {
        if !self.may_take_near() {
            return None;
        }
        let own = self.tid();
        let message =
            self.neighbours.next_block(own, |src, header| is_programs(header) && wanted(src, header))?;
        self.ring_reads = self.ring_reads.wrapping_add(1);
        Some(message)
    }

    /// Whether messages may be taken past the queue: no message is before them, and calls are not recorded.
    #[inline(always)]
    fn may_take_near(&self) -> bool {
        self.recorder.is_none() && self.moving.is_none() && self.inbox.is_empty() && self.may_go_on()
    }

    /// The spinner, if a call that waits may begin with it: nothing is to be done, or to be sent, before.
    #[inline]
    pub fn spinner_at_once(&self) -> Option<&Arc<Spinner>> {
        (self.may_take_near() && !self.has_deferred()).then(|| self.spinner())
    }

    fn past(&self) -> Instant {
        *self.past.get_or_init(Instant::now)
    }

    /// A copy of the message that [`Engine::receive`] with [`Wait::Poll`] would take; it stays in the queue.
    pub fn peek(&mut self, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let number = self.find_waiting(Wait::Poll, wanted)?;
        self.show_unseen();
        Ok(self.copy_of(number))
    }

    /// As [`Engine::peek`], of the messages between members.
    pub fn peek_of_members(&mut self, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<Message>> {
        let number = self.find_of_members(Wait::Poll, wanted)?;
        Ok(self.copy_of(number))
    }

    fn copy_of(&self, number: Option<u64>) -> Option<Message> {
        Some(self.inbox.get(number?)?.message.clone())
    }

    /// Puts a message into this task's own queue.
    pub fn inject(&mut self, message: Message) {
        self.inbox.add(message);
    }

    /// From now on messages between members of groups are those of group calls.
    pub fn keep_members(&mut self) {
        self.inbox.keep_members();
    }

    /// Takes the first wanted message between members behind the number `shown`, if it is in the queue. Without one, `shown` becomes
    /// the number of the last message.
    pub fn take_of_members(
        &mut self,
        shown: &mut u64,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Option<Message> {
        let Some(number) = self.inbox.first_of_members(*shown, wanted) else {
            *shown = self.inbox.last();
            return None;
        };
        self.take_arrived(number).map(|arrived| arrived.message)
    }

    /// The same, if it is there or on a ring: the system is not asked.
    pub fn look_for_member(
        &mut self,
        shown: &mut u64,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Look> {
        loop {
            if let Some(message) = self.take_of_members(shown, wanted) {
                return Ok(Look::Found(message));
            }
            if !self.take_one()? {
                return Ok(self.spinner_at_once().cloned().map_or(Look::Nothing, Look::Spin));
            }
        }
    }

    /// The same, waiting for it; each message is shown to `wanted` once. `None` when the time is over.
    pub fn fetch_of_members(
        &mut self,
        wait: Wait,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<Message>> {
        let number = self.find_of_members(wait, wanted)?;
        Ok(number.and_then(|number| self.take_arrived(number)).map(|arrived| arrived.message))
    }

    fn find_of_members(
        &mut self,
        wait: Wait,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<u64>> {
        self.keep_members();
        let deadline = wait.deadline(|| self.past());
        self.wait_behind(0, deadline, &mut |inbox, number| inbox.first_of_members(number, wanted))
    }

    /// Reads messages that have arrived, without waiting.
    pub fn poll(&mut self) -> Result<()> {
        self.take_early();
        while self.read_all_ready()? {}
        self.neighbours.settle();
        self.send_deferred();
        Ok(())
    }

    /// Takes a wanted message behind the one with this number.
    pub(super) fn wait_for(
        &mut self,
        number: u64,
        deadline: Option<Instant>,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Result<Option<Message>> {
        let found =
            self.wait_behind(number, deadline, &mut |inbox, number| inbox.first_behind(number, wanted))?;
        Ok(found.and_then(|number| self.take_arrived(number)).map(|arrived| arrived.message))
    }

    /// The program has taken a notice of a queued batch. Its daemon starts no more tasks before it has heard of enough of them.
    #[cold]
    fn count_notice(&mut self) {
        self.inbox.notices += 1;
        if self.inbox.notices >= NOTICES_AT_ONCE {
            let taken = std::mem::take(&mut self.inbox.notices);
            self.defer_request(&NoticesTaken { count: taken });
            self.send_deferred();
        }
    }

    /// The number of a message that is wanted: among those that calls have seen, then among those that follow, one by one.
    fn find_waiting(&mut self, wait: Wait, wanted: &mut dyn FnMut(&Message) -> bool) -> Result<Option<u64>> {
        let mut is_in_use = self.go_if_possible()?;
        let mut search = self.search(wait);
        let mut wanted = |arrived: &Arrived| wanted(&arrived.message);
        if let Some(number) = self.inbox.find(&mut search, &mut wanted) {
            return Ok(Some(number));
        }
        let deadline = wait.deadline(|| self.past());
        loop {
            while let Some(arrived) = self.inbox.see_next() {
                search.meet(arrived);
                if let Some(number) = self.inbox.find(&mut search, &mut wanted) {
                    return Ok(Some(number));
                }
                if search.is_over() {
                    return Ok(None);
                }
            }
            let until = Self::next_attempt(deadline, is_in_use);
            if !self.take_one()? && !self.take_in(until)? && !self.inbox.has_unseen() && until == deadline {
                return Ok(None);
            }
            is_in_use = self.go_if_possible()?;
        }
    }

    /// The number of what `first` finds behind a number in the inbox; each message is shown to it once.
    fn wait_behind(
        &mut self,
        number: u64,
        deadline: Option<Instant>,
        first: &mut dyn FnMut(&Inbox, u64) -> Option<u64>,
    ) -> Result<Option<u64>> {
        let mut shown = number;
        loop {
            if let Some(found) = first(&self.inbox, shown) {
                return Ok(Some(found));
            }
            shown = self.inbox.last();
            if !self.take_one()? && !self.take_in(deadline)? && self.inbox.last() == shown {
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
        // Of what neighbours have written one message, so that the next ones can be taken where they lie.
        let came = self.take_some(1)?
            || may_wait(deadline) && self.spin(deadline) && (self.take_some(1)? || self.read_all_ready()?)
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

    /// Waits at the descriptors, and reads the messages that have arrived.
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

    /// Whether no more may be read before the program takes messages from the queue.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        // One that has stopped sending for a move takes in all that was sent to it.
        let is_frozen = self.moving.as_ref().is_some_and(|moving| moving.is_frozen());
        !is_frozen && self.inbox.held().saturating_add(self.peers.held()) > self.inbox.limit()
    }

    /// Why a call fails then.
    pub(super) fn check_room(&self) -> Result<()> {
        if !self.is_full() {
            return Ok(());
        }
        let text = format!(
            "more than {} bytes of received messages wait unread (PVM_QUEUE_MAX_BYTES)",
            self.inbox.limit()
        );
        Err(Error::new(PvmError::NoMem, text))
    }
}
