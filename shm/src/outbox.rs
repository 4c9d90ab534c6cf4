//! What a task has sent and others have not taken yet: its segment, the rings in it and the blocks they point to.

use crate::arena::{Arena, order_of};
use crate::bell::BELL_SIZE;
use crate::mapping::{Mapping, Segment};
use crate::memory::Memory;
use crate::ring::{CHUNK, FIRST_CHUNK, INLINE_MAX, Writer};
use pvm_wire::{MessageHeader, Tid};
use std::sync::Arc;

/// Address space of a segment. Memory is used only where something was written.
pub const SEGMENT_SIZE: u64 = 1 << 34;

const FLAG_PAGE: u64 = 4096;
const PAGE: u64 = 4096;

/// Deliveries that are looked at whenever a block is sent: more than are made, so that none stays long.
const LOOKS: usize = 4;

/// A block on its way to one receiver.
#[derive(Debug)]
struct Delivery {
    to: Tid,
    flag: u64,
    block: usize,
}

#[derive(Debug)]
struct Block {
    at: u64,
    order: u32,
    /// Deliveries, and the sender while it still packs or sends.
    users: u32,
}

/// A body in a block, to be sent to any number of receivers. It must be given back ([`Outbox::release`]).
#[derive(Clone, Copy, Debug)]
#[must_use = "it is given back by hand"]
pub struct Parcel {
    block: usize,
    length: u32,
}

/// A task's segment and what is in it.
#[derive(Debug)]
pub struct Outbox {
    segment: Segment,
    arena: Arena,
    flags: Vec<u64>,
    blocks: Vec<Block>,
    no_blocks: Vec<usize>,
    deliveries: Vec<Delivery>,
    look: usize,
    limit: u64,
}

impl Outbox {
    /// An empty one. Beyond half of `limit` bytes nothing more is accepted, but a single message may have any length.
    pub fn new(limit: u64) -> rustix::io::Result<Self> {
        let segment = Segment::new(SEGMENT_SIZE)?;
        Ok(Self {
            segment,
            arena: Arena::new(BELL_SIZE, SEGMENT_SIZE),
            flags: Vec::new(),
            blocks: Vec::new(),
            no_blocks: Vec::new(),
            deliveries: Vec::new(),
            look: 0,
            limit,
        })
    }

    /// The segment.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The segment's memory.
    pub fn memory(&self) -> &Arc<Mapping> {
        self.segment.mapping()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.arena.used()
    }

    /// Whether anything more may be sent now.
    pub fn has_room(&mut self) -> bool {
        if self.used() > self.limit / 2 {
            self.reclaim_all();
        }
        self.used() <= self.limit / 2
    }

    /// A new ring and its place; `None` if there is no room.
    pub fn open_ring(&mut self) -> Option<(Writer, u64)> {
        let at = self.take(FIRST_CHUNK)?;
        Some((Writer::new(&**self.segment.mapping(), at), at))
    }

    /// A ring's receiver has ended: nothing of what was sent to it is needed.
    pub fn close_ring(&mut self, ring: Writer, receiver: Tid) {
        for (at, size) in ring.into_chunks() {
            self.give(at, order_of(size));
        }
        self.forget(receiver);
    }

    /// Gives back the blocks on their way to a task.
    pub fn forget(&mut self, receiver: Tid) {
        let mut index = 0;
        while index < self.deliveries.len() {
            if self.deliveries[index].to == receiver { self.end_delivery(index) } else { index += 1 }
        }
    }

    /// Sends a small message; `false` if there is no room.
    pub fn send_inline(&mut self, ring: &mut Writer, header: MessageHeader, parts: &[&[u8]]) -> bool {
        let Self { segment, arena, .. } = self;
        let sent = ring.push_inline(&**segment.mapping(), header, parts, || arena.take(order_of(CHUNK)));
        self.take_spares(ring);
        sent
    }

    /// Whether a message of this length lies in the ring itself.
    pub fn is_inline(length: usize) -> bool {
        length <= INLINE_MAX
    }

    /// Copies a body into a block; `None` if there is no room, or it is too long for any.
    pub fn pack(&mut self, parts: &[&[u8]]) -> Option<Parcel> {
        let length = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()))?;
        let parcel = self.reserve(length)?;
        let mut at = self.blocks[parcel.block].at;
        for part in parts {
            self.segment.mapping().write(at, part);
            at += part.len() as u64;
        }
        Some(parcel)
    }

    fn reserve(&mut self, length: usize) -> Option<Parcel> {
        let length = u32::try_from(length).ok()?;
        self.look_at_some();
        let order = order_of(length.into());
        let at = self.take(length.into())?;
        let block = Block { at, order, users: 1 };
        let index = if let Some(index) = self.no_blocks.pop() {
            self.blocks[index] = block;
            index
        } else {
            self.blocks.push(block);
            self.blocks.len() - 1
        };
        Some(Parcel { block: index, length })
    }

    /// Sends a body in a block; `false` if there is no room.
    pub fn send_parcel(&mut self, ring: &mut Writer, header: MessageHeader, to: Tid, parcel: Parcel) -> bool {
        let Some(flag) = self.take_flag() else { return false };
        let Self { segment, arena, .. } = self;
        let place = (self.blocks[parcel.block].at, parcel.length);
        if !ring.push_block(&**segment.mapping(), header, place, flag, || arena.take(order_of(CHUNK))) {
            self.flags.push(flag);
            return false;
        }
        self.deliveries.push(Delivery { to, flag, block: parcel.block });
        self.blocks[parcel.block].users += 1;
        self.take_spares(ring);
        true
    }

    /// Says on the ring that the next message comes another way; `false` if there is no room.
    pub fn send_leave(&mut self, ring: &mut Writer) -> bool {
        let Self { segment, arena, .. } = self;
        ring.push_leave(&**segment.mapping(), || arena.take(order_of(CHUNK)))
    }

    /// The sender needs the body no more.
    pub fn release(&mut self, parcel: Parcel) {
        self.drop_user(parcel.block);
    }

    fn take_flag(&mut self) -> Option<u64> {
        if self.flags.is_empty() {
            let page = self.take(FLAG_PAGE)?;
            self.flags.extend((0..FLAG_PAGE / 4).rev().map(|index| page + 4 * index));
        }
        let flag = self.flags.pop()?;
        self.memory().store(flag, 0);
        Some(flag)
    }

    fn take_spares(&mut self, ring: &mut Writer) {
        while let Some((at, size)) = ring.take_spare(&**self.segment.mapping()) {
            self.give(at, order_of(size));
        }
    }

    /// Looks at a few deliveries, the last first: it is the one whose memory is in the cache.
    fn look_at_some(&mut self) {
        if let Some(last) = self.deliveries.len().checked_sub(1) {
            self.end_if_taken(last);
        }
        for _ in 0..LOOKS.min(self.deliveries.len()) {
            if self.look >= self.deliveries.len() {
                self.look = 0;
            }
            if !self.end_if_taken(self.look) {
                self.look += 1;
            }
        }
    }

    /// Takes back all that receivers need no more.
    pub fn reclaim_all(&mut self) {
        let mut index = 0;
        while index < self.deliveries.len() {
            if !self.end_if_taken(index) {
                index += 1;
            }
        }
    }

    fn end_if_taken(&mut self, index: usize) -> bool {
        let taken = self.deliveries.get(index).is_some_and(|delivery| self.memory().load(delivery.flag) != 0);
        if taken {
            self.end_delivery(index);
        }
        taken
    }

    fn end_delivery(&mut self, index: usize) {
        let delivery = self.deliveries.swap_remove(index);
        self.flags.push(delivery.flag);
        self.drop_user(delivery.block);
    }

    fn drop_user(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        block.users = block.users.saturating_sub(1);
        if block.users == 0 {
            let (at, order) = (block.at, block.order);
            self.no_blocks.push(index);
            self.give(at, order);
        }
    }

    fn take(&mut self, length: u64) -> Option<u64> {
        self.arena.take(order_of(length))
    }

    /// Free memory beyond an eighth of the limit goes back to the system.
    fn give(&mut self, at: u64, order: u32) {
        let size = 1_u64 << order;
        let warm = size < PAGE || self.arena.warm() + size <= self.limit / 8;
        if !warm {
            self.memory().give_back(at, size);
        }
        self.arena.give(at, order, warm);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "outbox_tests.rs"]
mod tests;
