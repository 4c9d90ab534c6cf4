//! The tasks of this host that share memory with this one.
//!
//! A task shares its memory when it sends to the same task of its host a second time, or has received from one. The sender asks its
//! daemon to introduce the two. The daemon sends each the descriptors of the other's memory; each that can map it confirms this to
//! the other (`Known`), once it has read to its end the direct route of one that has moved to this host. Until then messages go by the
//! daemon; no task waits. Then the sender opens a ring, and sends its place by the daemon (`Ring`), behind all earlier messages.
//!
//! A sender that leaves the ring writes that into the ring, and sends its next messages by the daemon. A receiver reads all
//! rings before it handles messages from the daemon. To return to the ring, the sender sends another `Ring`; the receiver, which has
//! read that the ring was left, waits for it.

mod list;
mod moves;

use super::lending::Borrower;
use super::settings::Settings;
use super::spinner::Spinner;
use bytes::{Bytes, BytesMut};
use list::{List, place_of};
use pvm_shm::ring::{self, IN_LINE, Place, Reader, Record, Writer};
use pvm_shm::{Mapping, Memory, Outbox, bell};
use pvm_wire::held::SHORT;
use pvm_wire::tuned::{RECEIVE_POOL, RING_TURN, RINGS_LISTED_FROM};
use pvm_wire::{Body, Message, MessageHeader, Tid};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The state of the ring to a neighbour.
#[derive(Debug)]
pub(super) enum RingState {
    /// The neighbour has not confirmed that it has mapped this task's memory.
    Unmapped,
    /// It has; there is no ring yet.
    Mapped,
    /// Messages go on this ring.
    Open(Writer),
    /// Messages went on this ring, and now go by the daemon.
    Left(Writer),
}

/// A task that shares memory with this one.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) tid: Tid,
    pub(super) ring_state: RingState,
    /// It was told that this task has mapped its memory, and may open a ring.
    is_told: bool,
    memory: Arc<Mapping>,
    bell: OwnedFd,
    reader: Option<Reader>,
    /// The reader has found that the ring was left.
    is_left: bool,
}

/// When to ask again for a task that was not introduced.
#[derive(Debug, Clone, Copy)]
struct Asked {
    sent: u32,
    next: u32,
}

/// A message that a neighbour has put into the ring itself: to be copied, or read, before the next is asked for.
#[derive(Debug)]
pub struct Near<'a> {
    /// The sender.
    pub src: Tid,
    /// The record in the ring.
    pub found: ring::Near,
    /// The memory in which it lies.
    pub memory: &'a Arc<Mapping>,
}

impl Near<'_> {
    /// The body in [`IN_LINE`] bytes, if it is not longer.
    #[inline(always)]
    pub fn line(&self) -> Option<&[u8; IN_LINE]> {
        (self.found.length <= IN_LINE).then_some(&self.found.first)
    }
}

/// This task's memory, and its neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// The daemon passes on shared memory, and sharing has not failed.
    are_possible: bool,
    /// A task of this host has sent a message by the daemon.
    is_addressed: bool,
    own: Option<Own>,
    /// Bytes of shared memory that this task may fill.
    own_max: u64,
    /// Readable when the bell has rung or the daemon's socket is readable: programs poll it. Made when it is first asked for.
    front: OnceLock<Option<OwnedFd>>,
    table: Vec<Neighbour>,
    /// If this task has many rings: which to look at.
    list: Option<List>,
    /// Where this task lists itself with others.
    place: u32,
    last: usize,
    asked: HashMap<Tid, Asked>,
    spinner: Arc<Spinner>,
    held: Arc<AtomicUsize>,
    /// How often this task has woken others since it last looked at its sockets for that.
    rung: u32,
    /// The neighbour whose ring is read, and the number of messages taken from it in its turn.
    turn: usize,
    taken_in_turn: usize,
    pool: BytesMut,
    /// The program polls the descriptors itself.
    is_watched: AtomicBool,
    /// Readable while the library holds messages that the program has not seen, for a program that polls descriptors itself.
    unseen: OnceLock<OwnedFd>,
    /// Whether it is readable.
    is_unseen: AtomicBool,
    /// Sockets of direct routes, for which a task spins, too.
    sockets: Vec<Arc<OwnedFd>>,
}

/// What this task shares with its neighbours.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) outbox: Outbox,
    pub(super) bell: OwnedFd,
    limit: u64,
}

impl Own {
    fn new(limit: u64) -> Option<Self> {
        if !pvm_shm::lineage::watch() {
            return None;
        }
        let outbox = Outbox::new(limit).ok()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        Some(Self { outbox, bell, limit })
    }
}

fn add_to(both: &OwnedFd, fd: BorrowedFd<'_>) -> Option<()> {
    epoll::add(both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN).ok()
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            are_possible: false,
            is_addressed: false,
            own: None,
            own_max: 0,
            front: OnceLock::new(),
            table: Vec::new(),
            list: None,
            place: 0,
            last: 0,
            asked: HashMap::new(),
            spinner: Arc::default(),
            held: Arc::default(),
            rung: 0,
            turn: 0,
            taken_in_turn: 0,
            pool: BytesMut::new(),
            is_watched: AtomicBool::new(false),
            unseen: OnceLock::new(),
            is_unseen: AtomicBool::new(false),
            sockets: Vec::new(),
        }
    }
}

impl Neighbours {
    /// With a daemon that passes on shared memory, and its socket.
    pub(super) fn offered(tid: Tid, daemon: Option<Arc<OwnedFd>>, settings: &Settings) -> Self {
        let spinner = daemon.map(Spinner::with_daemon).unwrap_or_default();
        let (are_possible, own_max) = (settings.shares, settings.shared_max);
        Self { are_possible, own_max, place: place_of(tid), spinner: Arc::new(spinner), ..Self::default() }
    }

    /// Whether this task could share memory, and does not yet.
    #[inline]
    pub(super) fn are_offered(&self) -> bool {
        self.are_possible && self.own.is_none()
    }

    /// Makes the memory and the bell to share; `None` if the system refuses.
    pub(super) fn make_own(&self) -> Option<Own> {
        Own::new(self.own_max)
    }

    /// This task shares no memory.
    pub(super) fn decline(&mut self) {
        self.are_possible = false;
    }

    /// The daemon has this task's memory.
    pub(super) fn begin(&mut self, own: Own) {
        let front = self.front.get().and_then(Option::as_ref);
        if front.is_some_and(|front| add_to(front, own.bell.as_fd()).is_none()) {
            // The bell would wake nobody.
            return self.decline();
        }
        self.own = Some(own);
        self.settle();
    }

    /// A task of this host has sent a message by the daemon.
    pub(super) fn note_sender(&mut self) {
        self.is_addressed = true;
    }

    /// Whether a task of this host may want to write into this task's ring, and cannot yet.
    #[inline]
    pub(super) fn are_called_for(&self) -> bool {
        self.is_addressed && self.are_offered()
    }

    /// The memory and the bell that this task shares.
    pub(super) fn own(&mut self) -> Option<&mut Own> {
        self.own.as_mut()
    }

    /// This task's memory, if it shares it.
    pub(super) fn own_memory(&self) -> Option<&Mapping> {
        self.own.as_ref().map(|own| &**own.outbox.memory())
    }

    /// Whether this task shares memory, or will when there is a use for it.
    pub(super) fn are_possible(&self) -> bool {
        self.are_possible
    }

    /// Readable when a neighbour has rung.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.own.as_ref().map(|own| own.bell.as_fd())
    }

    /// Readable when the bell has rung, the daemon's socket is readable, or the library holds messages that the program has not seen.
    pub(super) fn front<'a>(&'a self, daemon: BorrowedFd<'a>) -> BorrowedFd<'a> {
        let make = || {
            let both = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
            let unseen = self.unseen.get().map(AsFd::as_fd);
            [Some(daemon), self.bell(), unseen].into_iter().flatten().try_for_each(|fd| add_to(&both, fd))?;
            Some(both)
        };
        let both = if self.are_possible { self.front.get_or_init(make).as_ref() } else { None };
        both.map_or(daemon, AsFd::as_fd)
    }

    /// Whether there is something that is readable for all that comes in, [`Self::front`].
    pub(super) fn have_front(&self) -> bool {
        self.are_possible && self.front.get().is_some_and(Option::is_some)
    }

    /// Makes the front readable when this is.
    pub(super) fn add_behind_front(&self, fd: BorrowedFd<'_>) {
        if let Some(front) = self.front.get().and_then(Option::as_ref) {
            // Where it is there already, or there is no room: a program that polls the front learns of it with the next that comes.
            let _ = add_to(front, fd);
        }
    }

    /// Whether a program that polls the descriptors itself can be shown what comes at sockets that it does not know.
    pub(super) fn shows_all(&self) -> bool {
        self.are_possible || !self.is_watched()
    }

    /// The messages that this task has sent and others have not taken.
    pub(super) fn own_outbox(&mut self) -> Option<&mut Outbox> {
        self.own.as_mut().map(|own| &mut own.outbox)
    }

    /// The daemon's memory, of which this task keeps no more than of its neighbours'.
    pub(super) fn borrower(&self, descriptor: &OwnedFd) -> Option<Borrower> {
        Borrower::new(descriptor, self.held.clone(), (self.own.as_ref()?.limit / 4) as usize)
    }

    /// Where records are expected.
    #[inline]
    pub(super) fn spinner(&self) -> &Arc<Spinner> {
        &self.spinner
    }

    /// The index of a task.
    #[inline]
    pub(super) fn find(&mut self, tid: Tid) -> Option<usize> {
        if self.table.get(self.last).is_none_or(|neighbour| neighbour.tid != tid) {
            self.last = self.table.binary_search_by_key(&tid, |neighbour| neighbour.tid).ok()?;
        }
        Some(self.last)
    }

    /// A neighbour's memory.
    pub(super) fn memory(&mut self, tid: Tid) -> Option<Arc<Mapping>> {
        let index = self.find(tid)?;
        self.table.get(index).map(|neighbour| neighbour.memory.clone())
    }

    /// The state of the ring to a neighbour, with this task's memory.
    #[inline]
    pub(super) fn ring_state(&mut self, index: usize) -> Option<(&mut Outbox, &mut RingState, Tid)> {
        let neighbour = self.table.get_mut(index)?;
        Some((&mut self.own.as_mut()?.outbox, &mut neighbour.ring_state, neighbour.tid))
    }

    /// Whether messages to a neighbour are on a ring, and there is room for more.
    #[inline]
    pub(super) fn is_open(&mut self, index: usize) -> bool {
        let is_on =
            self.table.get(index).is_some_and(|neighbour| matches!(neighbour.ring_state, RingState::Open(_)));
        is_on && self.own.as_mut().is_some_and(|own| own.outbox.has_room())
    }

    /// A message leaves by the daemon for a task of this host that is no neighbour: whether to ask for it now. Not for the first
    /// message, which may be the only one.
    pub(super) fn count_sent(&mut self, tid: Tid) -> bool {
        let asked = self.asked.entry(tid).or_insert(Asked { sent: 0, next: 2 });
        asked.sent = asked.sent.saturating_add(1);
        let now = asked.sent >= asked.next;
        if now {
            asked.next = asked.next.saturating_mul(2);
        }
        now
    }

    /// A task shares its memory; whether it could be mapped.
    pub(super) fn add(&mut self, tid: Tid, descriptors: Vec<OwnedFd>) -> bool {
        let Ok([segment, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else { return false };
        let Err(index) = self.table.binary_search_by_key(&tid, |neighbour| neighbour.tid) else {
            return false;
        };
        let Ok(memory) = Mapping::new(segment.as_fd()) else { return false };
        let (ring_state, memory) = (RingState::Unmapped, Arc::new(memory));
        let neighbour =
            Neighbour { tid, ring_state, is_told: false, memory, bell, reader: None, is_left: false };
        self.table.insert(index, neighbour);
        self.asked.remove(&tid);
        self.renew_spinner();
        true
    }

    /// A neighbour has confirmed that it has mapped this task's memory.
    pub(super) fn note_mapped(&mut self, tid: Tid) {
        if let Some(index) = self.find(tid)
            && let Some(neighbour) = self.table.get_mut(index)
            && matches!(neighbour.ring_state, RingState::Unmapped)
        {
            neighbour.ring_state = RingState::Mapped;
        }
    }

    /// A neighbour's next messages are on its ring, which begins at `place`; without one the ring that was left continues.
    pub(super) fn open(&mut self, tid: Tid, place: Option<u64>) {
        let Some(index) = self.find(tid) else { return };
        let Some(neighbour) = self.table.get_mut(index) else { return };
        match place {
            Some(at) if neighbour.reader.is_none() => {
                neighbour.reader = Reader::new(&*neighbour.memory, at).ok();
            }
            Some(_) => {}
            None => neighbour.is_left = false,
        }
        self.renew_spinner();
    }

    /// A task has exited; whether a ring was open to it.
    pub(super) fn remove(&mut self, tid: Tid) -> bool {
        self.asked.remove(&tid);
        let Some(index) = self.find(tid) else { return false };
        let neighbour = self.table.remove(index);
        let was_open = matches!(neighbour.ring_state, RingState::Open(_));
        if let Some(own) = &mut self.own {
            match neighbour.ring_state {
                RingState::Open(ring) | RingState::Left(ring) => own.outbox.close_ring(ring, tid),
                RingState::Unmapped | RingState::Mapped => {}
            }
        }
        self.renew_spinner();
        was_open
    }

    /// Wakes a neighbour to which something was published, if it sleeps.
    #[inline]
    pub(super) fn ring(&mut self, index: usize) {
        if let Some(neighbour) = self.table.get(index)
            && bell::must_ring(&*neighbour.memory, self.place)
        {
            self.rung += 1;
            ring_at(neighbour.bell.as_fd());
        }
    }

    /// Writes a message into the ring itself, to the neighbour that was found last, and wakes it if it sleeps; `false` if `tid` is
    /// another one, or the message has to take the long path.
    #[inline(always)]
    pub(super) fn send_near(&mut self, tid: Tid, header: MessageHeader, parts: [&[u8]; 2]) -> bool {
        let (Some(own), Some(neighbour)) = (&self.own, self.table.get_mut(self.last)) else { return false };
        let RingState::Open(ring) = &mut neighbour.ring_state else { return false };
        let sent = neighbour.tid == tid && own.outbox.try_send_copy(ring, header, parts);
        if sent && bell::must_ring(&*neighbour.memory, self.place) {
            self.rung += 1;
            ring_at(neighbour.bell.as_fd());
        }
        sent
    }

    /// Number of neighbours.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The tasks to which a ring is open.
    pub(super) fn reached(&self) -> impl Iterator<Item = Tid> {
        let open = self.table.iter().filter(|neighbour| matches!(neighbour.ring_state, RingState::Open(_)));
        open.map(|neighbour| neighbour.tid)
    }

    /// This task is about to sleep: `false` if a message has arrived.
    pub(super) fn doze(&self) -> bool {
        let Some(own) = &self.own else { return true };
        bell::doze(&**own.outbox.memory(), self.list.is_some());
        let has_ready = self.list.as_ref().is_some_and(|list| list.has_ready(&self.table));
        if has_ready || self.spinner.is_ready() {
            self.wake();
            return false;
        }
        true
    }

    /// This task is awake.
    pub(super) fn wake(&self) {
        if let Some(own) = &self.own
            && !self.is_watched()
        {
            bell::wake(&**own.outbox.memory(), self.list.is_some());
        }
    }

    /// Resets the bell.
    pub(super) fn clear_bell(&self) {
        if let Some(own) = &self.own {
            // Fails if the bell had not rung, which is no error.
            let _ = rustix::io::read(&own.bell, &mut [0; 8]);
        }
    }

    /// From now on senders always ring the bell.
    pub(super) fn keep_bell(&self) {
        if !self.is_watched.swap(true, Ordering::Relaxed) && self.are_possible {
            self.watch_unseen();
        }
        self.settle();
    }

    fn watch_unseen(&self) {
        let Ok(unseen) = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) else { return };
        let front = self.front.get().and_then(Option::as_ref);
        if front.is_none_or(|front| add_to(front, unseen.as_fd()).is_some()) {
            // No other thread sets it.
            let _ = self.unseen.set(unseen);
        }
    }

    /// Whether a program that polls the descriptors itself would not see that the library holds messages.
    #[inline]
    pub(super) fn hides_unseen(&self) -> bool {
        self.is_watched() && !(self.are_possible && self.unseen.get().is_some())
    }

    /// Whether the library holds messages that the program has not seen.
    pub(super) fn show_unseen(&self, is_unseen: bool) {
        if let Some(unseen) = self.unseen.get()
            && self.is_unseen.swap(is_unseen, Ordering::Relaxed) != is_unseen
        {
            if is_unseen {
                ring_at(unseen.as_fd());
            } else {
                // It was readable.
                let _ = rustix::io::read(unseen, &mut [0; 8]);
            }
        }
    }

    /// Whether the program polls the descriptors itself.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Sets the bell so that a program which polls it wakes for messages that are there or arrive.
    pub(super) fn settle(&self) {
        if self.is_watched()
            && !self.doze()
            && let Some(bell) = self.bell()
        {
            ring_at(bell);
        }
    }

    /// The next message on the ring whose turn it is, if it lies there and is `wanted`, and does not end the turn.
    #[inline(always)]
    pub(super) fn next_near(&mut self, wanted: impl FnOnce(Tid, &MessageHeader) -> bool) -> Option<Near<'_>> {
        if self.list.is_some() {
            self.turn = self.next_listed()?;
        }
        let ends_turn = self.ends_turn();
        let neighbour = self.table.get_mut(self.turn).filter(|neighbour| !neighbour.is_left)?;
        let reader = neighbour.reader.as_mut()?;
        let found = match reader.peek(&*neighbour.memory) {
            None if reader.follow_link(&*neighbour.memory) => {
                // A spinner that looks into the old chunk would miss the record.
                self.spinner.advance(self.turn, reader);
                reader.peek(&*neighbour.memory)?
            }
            found => found?,
        };
        if ends_turn || !wanted(neighbour.tid, &found.header) {
            return None;
        }
        reader.pass(&*neighbour.memory, &found);
        self.taken_in_turn += 1;
        self.spinner.advance(self.turn, reader);
        Some(Near { src: neighbour.tid, found, memory: &neighbour.memory })
    }

    /// Whether the next message ends the turn of its ring; with one neighbour it never ends.
    #[inline(always)]
    fn ends_turn(&self) -> bool {
        self.taken_in_turn + 1 >= RING_TURN && self.table.len() > 1
    }

    /// As [`Self::next_near`], of a message in a block.
    #[inline]
    pub(super) fn next_block(
        &mut self,
        own: Tid,
        wanted: impl FnOnce(Tid, &MessageHeader) -> bool,
    ) -> Option<Message> {
        let neighbour = self.table.get(self.turn).filter(|neighbour| !neighbour.is_left)?;
        let header = neighbour.reader.as_ref()?.peek_block(&*neighbour.memory)?;
        if self.list.is_some() || self.ends_turn() || !wanted(neighbour.tid, &header) {
            return None;
        }
        self.taken_in_turn += 1;
        self.next(self.turn, own)
    }

    /// The next message on the ring whose turn it is; `None` ends the turn, as many messages do.
    #[inline]
    pub(super) fn next_in_turn(&mut self, own: Tid) -> Option<Message> {
        let index = self.turn.min(self.table.len().checked_sub(1)?);
        let message = self.next(index, own);
        self.taken_in_turn += 1;
        if message.is_none() || self.taken_in_turn >= RING_TURN {
            self.taken_in_turn = 0;
            self.turn = if index + 1 < self.table.len() { index + 1 } else { 0 };
        }
        message
    }

    /// The next ring with a message, of those whose senders are listed.
    #[cold]
    fn next_listed(&mut self) -> Option<usize> {
        let own = self.own.as_ref()?.outbox.memory();
        self.list.as_mut()?.next(&self.table, own)
    }

    /// Whether senders list themselves.
    pub(super) fn are_listed(&self) -> bool {
        self.list.is_some()
    }

    /// The next message of a sender that is listed; after many of one it is another's turn.
    pub(super) fn next_of_listed(&mut self, own: Tid) -> Option<Message> {
        loop {
            let index = self.next_listed()?;
            // What this finds may change the list: a ring that is left, or whose sender violates the protocol, is taken off before.
            let was_turn = index == self.turn;
            self.turn = index;
            self.taken_in_turn = if was_turn { self.taken_in_turn + 1 } else { 1 };
            if let Some(list) = &mut self.list {
                list.pass(index, self.taken_in_turn >= RING_TURN);
            }
            if self.taken_in_turn >= RING_TURN {
                self.taken_in_turn = 0;
            }
            if let Some(message) = self.next(index, own) {
                return Some(message);
            }
            if let Some(list) = &mut self.list {
                list.drop(index);
            }
        }
    }

    /// Whether the last message, or that there was none, has ended a ring's turn.
    pub(super) fn is_turn_over(&self) -> bool {
        self.taken_in_turn == 0
    }

    /// The next message on a neighbour's ring.
    #[inline]
    pub(super) fn next(&mut self, index: usize, own: Tid) -> Option<Message> {
        let neighbour = self.table.get_mut(index).filter(|neighbour| !neighbour.is_left)?;
        let reader = neighbour.reader.as_mut()?;
        let record = reader.receive(&*neighbour.memory);
        let (src, memory) = (neighbour.tid, &neighbour.memory);
        let (header, place) = match record {
            Ok(Some(Record::Message(header, place))) => (header, place),
            Ok(Some(Record::Leave)) => {
                neighbour.is_left = true;
                self.spinner.advance(index, &Reader::nothing());
                return None;
            }
            Ok(None) => {
                // The writer may have gone on to another chunk: a spinner that looks into the old one would miss the record.
                self.spinner.advance(index, reader);
                return None;
            }
            Err(_) => {
                // The ring of a neighbour that violates the protocol is not read any more.
                neighbour.reader = None;
                self.renew_spinner();
                return None;
            }
        };
        self.spinner.advance(index, reader);
        let body = match place {
            Place::Inline { at, length } => copy(&mut self.pool, &**memory, at.get(), length),
            Place::Block(loan) => {
                let body = pvm_shm::Body::new(memory.clone(), loan, self.held.clone());
                // This task never keeps so much of its neighbours' memory that they cannot go on sending.
                let most = self.own.as_ref().map_or(0, |own| own.limit / 4) as usize;
                if self.held.load(Ordering::Relaxed) <= most {
                    Bytes::from_owner(body).into()
                } else {
                    Body::copy_from_slice(body.as_ref())
                }
            }
        };
        Some(Message { src, dst: own, header, body })
    }

    fn renew_spinner(&mut self) {
        // One cursor per neighbour, so that indices agree; the cursor of a ring that is not read never matches.
        let rings = self.table.iter().map(|neighbour| {
            let nothing = Reader::nothing();
            let reader = neighbour.reader.filter(|_| !neighbour.is_left);
            (neighbour.memory.clone(), reader.unwrap_or(nothing))
        });
        let memory = self.own.as_ref().map(|own| own.outbox.memory().clone());
        let readers = self.table.iter().filter(|neighbour| neighbour.reader.is_some()).count();
        let list = memory.filter(|_| readers >= RINGS_LISTED_FROM);
        self.spinner = Arc::new(self.spinner.renew(rings, list.clone(), &self.sockets));
        let was_listed = self.list.is_some();
        self.list = list.is_some().then(|| List::of(&self.table));
        if was_listed != self.list.is_some() {
            self.wake();
            self.settle();
        }
    }

    /// These direct routes are open.
    pub(super) fn spin_at(&mut self, sockets: Vec<Arc<OwnedFd>>) {
        self.sockets = sockets;
        self.renew_spinner();
    }
}

#[cold]
fn ring_at(bell: BorrowedFd<'_>) {
    // Fails only if the counter is at its maximum, which wakes the task, too.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Copies a small body; the pool's memory is reused once nothing refers to it.
fn copy(pool: &mut BytesMut, memory: &impl Memory, at: u64, length: usize) -> Body {
    if length <= SHORT {
        let mut held = [0; SHORT];
        if length <= IN_LINE {
            // A copy of constant size is a few instructions.
            memory.read(at, &mut held[..IN_LINE]);
            return Body::Short(length as u8, held);
        }
        memory.read(at, &mut held[..length]);
        return Body::Short(length as u8, held);
    }
    if pool.capacity() - pool.len() < length {
        pool.reserve(RECEIVE_POOL);
    }
    pool.resize(length, 0);
    memory.read(at, pool);
    pool.split().freeze().into()
}
