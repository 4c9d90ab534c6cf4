//! The messages that were received from the system and not by a call: one queue for the program's calls and the library's own, in C and in Rust.
//!
//! Reading a socket brings many messages at once, but the program sees them one by one, as with the original: a call that only polls
//! takes in at most one message that no call has seen before. Otherwise a program that polls for two tags in turn would find the second of two
//! messages before the first. [`Inbox::see_next`] moves that boundary.
//!
//! Each message has a number, in the order of arrival. A [`Search`] knows the last one it has looked at. So other calls can receive messages
//! while it waits, as signal handlers do.

use super::Wait;
use super::reach::Reach;
use pvm_wire::{Message, MessageHeader, group};
use std::collections::VecDeque;

/// A message in the queue.
#[derive(Debug)]
pub struct Arrived {
    number: u64,
    /// The message.
    pub message: Message,
    /// The id of the buffer with the program's copy of it. In the C interface a message has a buffer before it is received if a function
    /// of the program looks at it, or `pvm_probe` finds it.
    pub buffer: Option<i32>,
}

impl Arrived {
    /// Its place in the order of arrival.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A message that waits, for another queue.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) message: Message,
    /// Calls of the program have looked at it.
    pub(super) is_seen: bool,
    /// It is kept apart, for group calls.
    pub(super) is_of_members: bool,
}

/// The position of a call in the queue.
#[derive(Debug, Default)]
pub struct Search {
    looked_at: u64,
    reach: Reach,
}

impl Search {
    /// The search of a call that waits this long; see [`Reach::of`].
    #[inline]
    pub(super) fn new(wait: Wait, hides_unseen: bool) -> Self {
        Self { looked_at: 0, reach: Reach::of(wait, hides_unseen) }
    }

    /// A message is seen for the first time. If this call may not look at it, the next one will.
    #[inline]
    pub fn meet(&mut self, arrived: &Arrived) {
        if !self.reach.admits(arrived.message.src) {
            self.looked_at = arrived.number;
        }
    }

    /// Whether the call need not read any more messages.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.reach.is_over()
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct Inbox {
    /// In the order of their numbers.
    queue: VecDeque<Arrived>,
    /// Messages between members of groups; before the first group call there are none, and messages in their context are the program's.
    members: Option<VecDeque<Arrived>>,
    /// The number of the last message that came.
    last: u64,
    /// The number of the last message that the program's calls have looked at.
    seen: u64,
    /// Messages for the library that arrived before the enrolment was complete.
    pub(super) early: Vec<Message>,
    /// Answers of the built-in handlers, to be sent when no other message is half sent.
    pub(super) deferred: VecDeque<Message>,
    held: usize,
    limit: usize,
    /// Notices of queued batches that the program has taken and that were not reported to the daemon.
    pub(super) notices: u32,
}

impl Inbox {
    /// Empty; reads no more when it holds this many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            members: None,
            last: 0,
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

    /// Bytes of unread messages.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether the program has nothing to receive.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The number of the last message that came.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Whether there are messages that the program has not seen.
    #[inline]
    pub(super) fn has_unseen(&self) -> bool {
        self.queue.back().is_some_and(|arrived| arrived.number > self.seen)
    }

    /// How many there are.
    pub(super) fn unseen(&self) -> usize {
        self.queue.len() - behind(&self.queue, self.seen)
    }

    /// Adds a message.
    pub(super) fn add(&mut self, message: Message) {
        self.held += message.body.len();
        self.last += 1;
        let is_members = is_of_members(&message.header);
        let arrived = Arrived { number: self.last, message, buffer: None };
        match &mut self.members {
            Some(members) if is_members => members.push_back(arrived),
            _ => self.queue.push_back(arrived),
        }
    }

    /// Whether there are messages between members.
    pub(super) fn has_of_members(&self) -> bool {
        self.members.as_ref().is_none_or(|members| !members.is_empty())
    }

    /// Whether there are messages between members behind this one.
    pub(super) fn has_of_members_behind(&self, number: u64) -> bool {
        let last = self.members.as_ref().and_then(VecDeque::back);
        last.is_some_and(|last| last.number > number)
    }

    /// From now on messages between members are kept apart. Those that the program was shown already stay its own.
    pub(super) fn keep_members(&mut self) {
        if self.members.is_none() {
            let is_members =
                |arrived: &Arrived| arrived.buffer.is_none() && is_of_members(&arrived.message.header);
            let (members, queue) = std::mem::take(&mut self.queue).into_iter().partition(is_members);
            (self.members, self.queue) = (Some(members), queue);
        }
    }

    /// Marks one more message as seen.
    #[inline]
    pub(super) fn see_next(&mut self) -> Option<&Arrived> {
        let next = self.queue.get(behind(&self.queue, self.seen))?;
        self.seen = next.number;
        Some(next)
    }

    /// The first message that the program has seen, that this search has not looked at, and that is wanted.
    #[inline]
    pub(super) fn find(&self, search: &mut Search, mut wanted: impl FnMut(&Arrived) -> bool) -> Option<u64> {
        let fresh = self.queue.range(behind(&self.queue, search.looked_at)..);
        let mut seen = fresh.take_while(|arrived| arrived.number <= self.seen);
        let found = seen.find(|arrived| wanted(arrived)).map(|arrived| arrived.number);
        search.looked_at = found.unwrap_or(self.seen).max(search.looked_at);
        found
    }

    /// The first message behind this one that is wanted, seen or not.
    pub(super) fn first_behind(&self, number: u64, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<u64> {
        first_of(&self.queue, number, wanted)
    }

    /// The same, of messages between members.
    pub(super) fn first_of_members(
        &self,
        number: u64,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Option<u64> {
        first_of(self.members.as_ref()?, number, wanted)
    }

    /// The message with this number, between members or not.
    pub(super) fn get(&self, number: u64) -> Option<&Arrived> {
        let mut queues = self.members.iter().chain(std::iter::once(&self.queue));
        queues.find_map(|queue| queue.get(index_of(queue, number)?))
    }

    /// The program's message with this number, to set the buffer of its copy.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Arrived> {
        let index = index_of(&self.queue, number)?;
        self.queue.get_mut(index)
    }

    /// Takes the message with this number out.
    #[inline]
    pub(super) fn take(&mut self, number: u64) -> Option<Arrived> {
        let arrived = take_of(&mut self.queue, number)
            .or_else(|| self.members.as_mut().and_then(|members| take_of(members, number)))?;
        self.held = self.held.saturating_sub(arrived.message.body.len());
        Some(arrived)
    }

    /// Copies of all messages, in the order of their arrival.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let apart = self.members.iter().flatten().map(|arrived| (arrived, true));
        let mut all: Vec<_> = apart.chain(self.queue.iter().map(|arrived| (arrived, false))).collect();
        all.sort_unstable_by_key(|(arrived, _)| arrived.number);
        all.into_iter().map(|(arrived, is_of_members)| Waiting {
            message: arrived.message.clone(),
            is_seen: arrived.number <= self.seen,
            is_of_members,
        })
    }

    /// Whether messages between members are kept apart.
    pub(super) fn keeps_members(&self) -> bool {
        self.members.is_some()
    }

    /// Goes on with the messages of another queue, before those that are here.
    pub(super) fn resume(&mut self, waiting: Vec<Waiting>, keeps_members: bool) {
        let later: Vec<_> =
            std::mem::take(&mut self.queue).into_iter().map(|arrived| arrived.message).collect();
        (self.last, self.seen, self.held) = (0, 0, 0);
        self.members = keeps_members.then(VecDeque::new);
        for Waiting { message, is_seen, is_of_members } in waiting {
            self.held += message.body.len();
            self.last += 1;
            let arrived = Arrived { number: self.last, message, buffer: None };
            match &mut self.members {
                Some(members) if is_of_members => members.push_back(arrived),
                _ => {
                    if is_seen {
                        self.seen = self.last;
                    }
                    self.queue.push_back(arrived);
                }
            }
        }
        for message in later {
            self.add(message);
        }
    }

    /// The messages of which the program has a copy.
    pub(super) fn shown(&self) -> impl Iterator<Item = (u64, i32)> {
        self.queue.iter().filter_map(|arrived| Some((arrived.number, arrived.buffer?)))
    }
}

fn is_of_members(header: &MessageHeader) -> bool {
    header.context == group::CONTEXT
}

/// The index of the first message behind this one.
#[inline]
fn behind(queue: &VecDeque<Arrived>, number: u64) -> usize {
    match queue.back() {
        Some(last) if last.number > number => queue.partition_point(|arrived| arrived.number <= number),
        _ => queue.len(),
    }
}

fn index_of(queue: &VecDeque<Arrived>, number: u64) -> Option<usize> {
    queue.binary_search_by_key(&number, |arrived| arrived.number).ok()
}

#[inline]
fn take_of(queue: &mut VecDeque<Arrived>, number: u64) -> Option<Arrived> {
    let index = index_of(queue, number)?;
    queue.remove(index)
}

fn first_of(queue: &VecDeque<Arrived>, number: u64, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<u64> {
    let mut fresh = queue.range(behind(queue, number)..);
    fresh.find(|arrived| wanted(&arrived.message)).map(|arrived| arrived.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::Tid;

    fn message(tag: i32, context: i32) -> Message {
        Message {
            src: Tid::from_raw(0x40001),
            dst: Tid::from_raw(0x40002),
            header: MessageHeader { tag, context, ..MessageHeader::default() },
            body: vec![0; 8].into(),
        }
    }

    fn inbox(tags: &[i32]) -> Inbox {
        let mut inbox = Inbox::new(usize::MAX);
        for &tag in tags {
            inbox.add(message(tag, 0));
        }
        inbox
    }

    fn tag(inbox: &Inbox, number: Option<u64>) -> Option<i32> {
        Some(inbox.get(number?)?.message.header.tag)
    }

    #[test]
    fn the_first_behind_another_that_is_wanted_is_found() {
        let inbox = inbox(&[1, 2, 3, 2]);
        let mut wanted = |message: &Message| message.header.tag == 2;
        let first = inbox.first_behind(0, &mut wanted);
        assert_eq!(first, Some(2));
        assert_eq!(inbox.first_behind(2, &mut wanted), Some(4));
        assert_eq!(inbox.first_behind(4, &mut wanted), None);
    }

    #[test]
    fn messages_are_seen_one_by_one_and_stay_seen() {
        let mut inbox = inbox(&[1, 2, 3]);
        assert!(inbox.see_next().is_some() && inbox.see_next().is_some() && inbox.has_unseen());
        assert_eq!(inbox.held(), 24);
        // Messages that the library takes for itself were not shown to the program.
        assert!(inbox.take(1).is_some() && inbox.take(3).is_some() && inbox.take(3).is_none());
        assert_eq!((inbox.has_unseen(), inbox.held()), (false, 8));
        assert!(inbox.see_next().is_none());
        inbox.add(message(4, 0));
        assert_eq!(inbox.see_next().map(|arrived| arrived.message.header.tag), Some(4));
    }

    #[test]
    fn another_queue_goes_on_where_one_has_stopped() {
        let mut old = Inbox::new(usize::MAX);
        old.keep_members();
        for tag in 1..=4 {
            old.add(message(tag, if tag == 2 { group::CONTEXT } else { 0 }));
        }
        assert!(old.see_next().is_some());
        let mut new = inbox(&[9]);
        new.resume(old.waiting().collect(), old.keeps_members());
        assert_eq!(new.held(), 40);
        let mut search = Search::default();
        assert_eq!(new.find(&mut search, |_| true), Some(1), "it was seen before");
        assert_eq!(new.find(&mut search, |_| true), None);
        assert_eq!(new.first_of_members(0, &mut |_| true), Some(2));
        let mut rest = Vec::new();
        while let Some(arrived) = new.see_next() {
            rest.push(arrived.message.header.tag);
        }
        assert_eq!(rest, [3, 4, 9]);
    }

    #[test]
    fn a_search_looks_at_each_seen_message_once() {
        let mut inbox = inbox(&[1, 2, 1, 1]);
        while inbox.see_next().is_some() {}
        let mut search = Search::default();
        let ones = |arrived: &Arrived| arrived.message.header.tag == 1;
        let first = inbox.find(&mut search, ones);
        assert_eq!((first, tag(&inbox, first)), (Some(1), Some(1)));
        // As a signal handler does.
        assert!(inbox.take(1).is_some() && inbox.take(3).is_some());
        assert_eq!(inbox.find(&mut search, ones), Some(4));
        assert_eq!(inbox.find(&mut search, ones), None);
        inbox.add(message(1, 0));
        assert_eq!(inbox.find(&mut search, ones), None, "nobody has seen it");
        assert!(inbox.see_next().is_some());
        assert_eq!(inbox.find(&mut search, ones), Some(5));
    }

    #[test]
    fn a_poll_looks_at_one_new_message_and_leaves_the_next_to_the_next_call() {
        let mut inbox = inbox(&[1, 2]);
        let (mut first, mut second) = (Search::new(Wait::Poll, false), Search::new(Wait::Poll, false));
        let mut twos = |arrived: &Arrived| arrived.message.header.tag == 2;
        first.meet(inbox.see_next().unwrap());
        assert_eq!((inbox.find(&mut first, &mut twos), first.is_over()), (None, true));
        assert_eq!((inbox.find(&mut second, &mut twos), second.is_over()), (None, false));
        second.meet(inbox.see_next().unwrap());
        assert_eq!(inbox.find(&mut second, &mut twos), Some(2));
    }

    #[test]
    fn messages_between_members_wait_apart_unless_the_program_was_shown_them() {
        let mut inbox = Inbox::new(usize::MAX);
        for tag in 1..=3 {
            inbox.add(message(tag, if tag < 3 { group::CONTEXT } else { 0 }));
        }
        while inbox.see_next().is_some() {}
        inbox.get_mut(1).unwrap().buffer = Some(7);
        inbox.keep_members();
        inbox.add(message(4, group::CONTEXT));
        assert!(!inbox.has_unseen());
        assert_eq!(inbox.shown().collect::<Vec<_>>(), [(1, 7)]);
        let first = inbox.first_of_members(0, &mut |_| true);
        assert_eq!((first, inbox.first_of_members(2, &mut |_| true)), (Some(2), Some(4)));
        assert!(inbox.has_of_members_behind(3) && !inbox.has_of_members_behind(4));
        assert_eq!(inbox.find(&mut Search::default(), |arrived| arrived.buffer.is_none()), Some(3));
        assert_eq!(inbox.take(4).map(|arrived| arrived.message.header.tag), Some(4));
        assert_eq!(inbox.held(), 24);
    }
}
