//! The memory of a task's segment, which sent messages and packed bodies share.
//!
//! A body is packed where its receivers will read it ([`Packing`]), so that sending it copies nothing. Until the last of them
//! releases it, it is not written again: more elements for a body that is on its way are packed into a copy.

use crate::arena::{Arena, Taken, order_of};
use crate::bell::BELL_SIZE;
use crate::deliveries::Deliveries;
use crate::mapping::{Area, Mapping, Segment};
use crate::memory::Memory;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Address space of a segment. Memory is used only where something was written.
pub const SEGMENT_SIZE: u64 = 1 << 34;

/// Room behind a packed body for bytes that are added when it is sent.
const TAIL: u64 = 64;

/// The store into which this process packs.
static CURRENT: Mutex<Weak<Store>> = Mutex::new(Weak::new());

/// A segment, and its allocator.
#[derive(Debug)]
pub struct Store {
    segment: Segment,
    limit: u64,
    books: Mutex<Books>,
    /// Bytes on their way, readable without opening the books.
    used: AtomicU64,
    deliveries: Mutex<Deliveries>,
}

#[derive(Debug)]
struct Books {
    arena: Arena,
    /// Bytes of blocks that are packed into, or could be sent again.
    packed: u64,
    /// The task has left. Sent messages are still read, so no memory is reused.
    is_closed: bool,
}

/// The books, opened; the values that can be read without opening are updated when they are closed.
struct OpenBooks<'a> {
    books: MutexGuard<'a, Books>,
    used: &'a AtomicU64,
}

impl Deref for OpenBooks<'_> {
    type Target = Books;

    fn deref(&self) -> &Books {
        &self.books
    }
}

impl DerefMut for OpenBooks<'_> {
    fn deref_mut(&mut self) -> &mut Books {
        &mut self.books
    }
}

impl Drop for OpenBooks<'_> {
    fn drop(&mut self) {
        self.used.store(self.books.arena.used().saturating_sub(self.books.packed), Ordering::Relaxed);
    }
}

impl Store {
    pub(crate) fn new(limit: u64) -> rustix::io::Result<Arc<Self>> {
        let segment = Segment::new(SEGMENT_SIZE)?;
        let arena = Arena::new(BELL_SIZE, SEGMENT_SIZE, limit / 64);
        let books = Mutex::new(Books { arena, packed: 0, is_closed: false });
        Ok(Arc::new(Self { segment, limit, books, used: AtomicU64::new(0), deliveries: Mutex::default() }))
    }

    /// From now on this process packs here.
    pub(crate) fn make_current(self: &Arc<Self>) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(self);
    }

    fn current() -> Option<Arc<Self>> {
        CURRENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    pub(crate) fn memory(&self) -> &Arc<Mapping> {
        self.segment.mapping()
    }

    /// Bytes on their way to others, and of the rings.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more may be sent now.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.used() <= self.limit / 2
    }

    /// From now on no memory is reused.
    pub(crate) fn close(&self) {
        self.books().is_closed = true;
        // Blocks keep the store.
        self.deliveries().clear();
    }

    /// Blocks on their way. The books can be opened while they are locked, not the other way round.
    pub(crate) fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn books(&self) -> OpenBooks<'_> {
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        OpenBooks { books, used: &self.used }
    }

    /// The books, if this process may still write.
    fn open_books(&self) -> Option<OpenBooks<'_>> {
        // A forked child has a copy of them, and would write where its parent does.
        if self.memory().is_foreign() {
            return None;
        }
        let books = self.books();
        (!books.is_closed).then_some(books)
    }

    /// Memory that is given back with [`Self::give`].
    pub(crate) fn take(&self, length: u64) -> Option<u64> {
        Some(self.open_books()?.arena.take(length)?.at)
    }

    /// Gives memory back, as much as was asked for: a power of two.
    pub(crate) fn give(&self, at: u64, length: u64) {
        self.give_back(Taken { at, touched: length }, order_of(length));
    }

    /// Free memory beyond an eighth of the limit goes back to the system, that which was not used for the longest time first.
    fn give_back(&self, block: Taken, order: u32) {
        let Some(mut books) = self.open_books() else { return };
        books.arena.give(block, order);
        while books.arena.resident() > self.limit / 8 {
            let Some((at, length)) = books.arena.release_oldest() else { return };
            self.memory().give_back(at, length);
        }
    }

    /// A block to be written to, and sent.
    pub(crate) fn block(self: &Arc<Self>, length: u64) -> Option<Block> {
        let taken = self.open_books()?.arena.take(length)?;
        Some(self.block_of(taken, length))
    }

    /// A block to be packed into, at first of `length` bytes; `None` if enough is packed already.
    fn packing_block(self: &Arc<Self>, length: u64, room: u64) -> Option<Block> {
        if !self.memory().is_foreign() {
            // The last block has been read by now, if there was an answer: it is in the cache, other free memory is not.
            self.deliveries().reclaim_some(&**self.memory());
        }
        let mut books = self.open_books()?;
        if books.packed.checked_add(length)? > self.limit / 4 {
            return None;
        }
        let taken = books.arena.take_wide(length, room)?;
        books.packed += taken.touched;
        drop(books);
        Some(self.block_of(taken, room))
    }

    fn block_of(self: &Arc<Self>, taken: Taken, length: u64) -> Block {
        let order = order_of(length);
        let area = Area::new(self.memory().clone(), taken.at, 1 << order);
        Block { store: self.clone(), area, order, touched: taken.touched }
    }
}

/// Memory for a body. It is given back to the store when it is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    store: Arc<Store>,
    area: Area,
    order: u32,
    touched: u64,
}

impl Block {
    /// Where it begins.
    pub(crate) fn at(&self) -> u64 {
        self.area.at()
    }

    /// Writes into memory that is not read yet.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.area.write(offset, bytes);
    }

    /// Grows the used part to `length` bytes, while it is packed into; `false` if it cannot.
    fn widen(&mut self, length: u64) -> bool {
        if length > 1 << self.order {
            return false;
        }
        let more = crate::arena::extent_of(length).saturating_sub(self.touched);
        if more > 0 {
            let Some(mut books) = self.store.open_books() else { return false };
            if books.packed + more > self.store.limit / 4 {
                return false;
            }
            books.arena.widen(more);
            books.packed += more;
            self.touched += more;
        }
        true
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let taken = Taken { at: self.area.at(), touched: self.touched };
        self.store.give_back(taken, self.order);
    }
}

/// A body that is packed where its receivers will read it.
pub struct Packing {
    block: Arc<Block>,
    length: u64,
}

impl Packing {
    /// An empty body with room for `length` bytes; `None` if this process shares no memory, or has packed too much.
    pub fn new(room: usize) -> Option<Self> {
        Self::within(&Store::current()?, room)
    }

    pub(crate) fn within(store: &Arc<Store>, room: usize) -> Option<Self> {
        let room = u64::try_from(room).ok()?.checked_add(TAIL)?;
        Some(Self { block: Arc::new(store.packing_block(room, room)?), length: 0 })
    }

    /// An empty body that can grow to `length` bytes where it is.
    pub(crate) fn growing(store: &Arc<Store>, most: u64) -> Option<Self> {
        Some(Self { block: Arc::new(store.packing_block(TAIL, most.checked_add(TAIL)?)?), length: 0 })
    }

    /// Makes room for `more` bytes; `false` if there is none, or the body is on its way.
    pub fn reserve(&mut self, more: usize) -> bool {
        let wanted = self.length.saturating_add(more as u64).saturating_add(TAIL);
        Arc::get_mut(&mut self.block)
            .is_some_and(|block| !block.store.memory().is_foreign() && block.widen(wanted))
    }

    /// Appends bytes for which there is room.
    pub fn extend(&mut self, bytes: &[u8]) {
        if let Some(block) = Arc::get_mut(&mut self.block) {
            block.write(self.length, bytes);
            self.length += bytes.len() as u64;
        }
    }

    /// The appended bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.block.area.bytes(self.length as usize)
    }

    /// The block, with these bytes behind the appended ones; `None` if they have no room, or it is not in this store.
    pub(crate) fn parcel(&self, store: &Arc<Store>, tail: &[u8]) -> Option<(Arc<Block>, u64)> {
        let length = self.length + tail.len() as u64;
        if !Arc::ptr_eq(&self.block.store, store) || length > self.block.touched {
            return None;
        }
        // On its way already, it has the same bytes there: it is not appended to any more.
        if Arc::strong_count(&self.block) == 1 {
            store.memory().write(self.block.at() + self.length, tail);
        }
        Some((self.block.clone(), length))
    }
}

impl Drop for Packing {
    fn drop(&mut self) {
        // From now on a block that is on its way counts as a delivery only.
        if let Some(mut books) = self.block.store.open_books() {
            books.packed = books.packed.saturating_sub(self.block.touched);
        }
    }
}

impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packing").field("at", &self.block.at()).field("length", &self.length).finish()
    }
}
