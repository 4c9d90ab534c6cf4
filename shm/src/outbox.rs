//! What a task has sent and others have not taken yet: its segment, the rings in it and the blocks they point to.

use crate::mapping::{Mapping, Segment};
use crate::memory::{LINE, Memory};
use crate::ring::{CHUNK, FIRST_CHUNK, INLINE_MAX, Writer};
use crate::store::{Block, Packing, Store};
use pvm_wire::{Lent, MessageHeader, Tid};
use std::sync::Arc;

const FLAG_PAGE: u64 = 4096;
const GATE_PAGE: u64 = 4096;

/// So many bytes at most are lent to one receiver at a time, unless it is a single body.
const LENT_MAX: u64 = 16 << 20;

/// The most pages of gates: groups that change for ever do not take more and more memory.
const GATE_PAGES_MAX: usize = 64;

/// A body in a block, to be sent to any number of receivers.
#[derive(Clone, Debug)]
pub struct Parcel {
    block: Arc<Block>,
    length: u32,
}

/// A task's segment and what is in it.
#[derive(Debug)]
pub struct Outbox {
    store: Arc<Store>,
    gates: Vec<u64>,
    gate_pages: usize,
}

impl Outbox {
    /// An empty one, into which this process packs from now on. Beyond half of `limit` bytes nothing more is accepted, but a
    /// single message may have any length.
    pub fn new(limit: u64) -> rustix::io::Result<Self> {
        let store = Store::new(limit)?;
        store.make_current();
        Ok(Self { store, gates: Vec::new(), gate_pages: 0 })
    }

    /// The segment.
    pub fn segment(&self) -> &Segment {
        self.store.segment()
    }

    /// The segment's memory.
    #[inline]
    pub fn memory(&self) -> &Arc<Mapping> {
        self.store.memory()
    }

    /// Bytes in use, without what is packed and could be sent.
    #[inline]
    pub fn used(&self) -> u64 {
        self.store.used()
    }

    /// Whether anything more may be sent now.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if !self.store.has_room() {
            self.reclaim_all();
        }
        self.store.has_room()
    }

    /// A new ring and its place; `None` if there is no room.
    pub fn open_ring(&mut self) -> Option<(Writer, u64)> {
        let at = self.store.take(FIRST_CHUNK)?;
        Some((Writer::new(&**self.memory(), at), at))
    }

    /// A ring's receiver has ended: nothing of what was sent to it is needed.
    pub fn close_ring(&mut self, ring: Writer, receiver: Tid) {
        for (at, size) in ring.into_chunks() {
            self.store.give(at, size);
        }
        self.forget(receiver);
    }

    /// Gives back the blocks on their way to a task.
    pub fn forget(&mut self, receiver: Tid) {
        self.store.deliveries().forget(receiver);
    }

    /// Sends a small message; `false` if there is no room.
    #[inline]
    pub fn send_inline(&mut self, ring: &mut Writer, header: MessageHeader, parts: &[&[u8]]) -> bool {
        let sent = ring.push_inline(&**self.memory(), header, parts, || self.store.take(CHUNK));
        self.take_spares(ring);
        sent
    }

    /// As [`Self::send_inline`], if nothing stands in the way: `false` otherwise.
    #[inline(always)]
    pub fn send_here(&self, ring: &mut Writer, header: MessageHeader, parts: [&[u8]; 2]) -> bool {
        self.store.has_room() && ring.push_here(&**self.memory(), header, parts)
    }

    /// Whether a message of this length lies in the ring itself.
    #[inline]
    pub fn is_inline(length: usize) -> bool {
        length <= INLINE_MAX
    }

    /// Copies a body into a block; `None` if there is no room, or it is too long for any.
    pub fn pack(&mut self, parts: &[&[u8]]) -> Option<Parcel> {
        let length = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()))?;
        let length = u32::try_from(length).ok()?;
        self.store.deliveries().look_at_some(&**self.memory());
        let mut block = self.store.block(length.into())?;
        let mut offset = 0;
        for part in parts {
            block.write(offset, part);
            offset += part.len() as u64;
        }
        Some(Parcel { block: Arc::new(block), length })
    }

    /// A body that was packed in this segment, with these bytes behind it; `None` if it has to be copied.
    pub fn adopt(&mut self, packing: &Packing, tail: &[u8]) -> Option<Parcel> {
        let (block, length) = packing.parcel(&self.store, tail)?;
        self.store.deliveries().look_at_some(&**self.memory());
        Some(Parcel { block, length: u32::try_from(length).ok()? })
    }

    /// Sends a body in a block; `false` if there is no room.
    pub fn send_parcel(
        &mut self,
        ring: &mut Writer,
        header: MessageHeader,
        to: Tid,
        parcel: &Parcel,
    ) -> bool {
        let Some(flag) = self.take_flag() else { return false };
        let place = (parcel.block.at(), parcel.length);
        if !ring.push_block(&**self.memory(), header, place, flag, || self.store.take(CHUNK)) {
            self.store.deliveries().add_flags([flag].into_iter());
            return false;
        }
        self.store.deliveries().begin(to, flag, (parcel.block.clone(), parcel.length));
        self.take_spares(ring);
        true
    }

    /// Lends a body in a block to somebody who is told of it elsewhere; `None` if there is no room.
    pub fn lend(&mut self, to: Tid, parcel: &Parcel) -> Option<Lent> {
        let flag = self.take_flag()?;
        self.store.deliveries().begin(to, flag, (parcel.block.clone(), parcel.length));
        Some(Lent { at: parcel.block.at(), flag, length: parcel.length })
    }

    /// Whether a body of this length may be lent: not too many bytes are with that receiver already.
    pub fn may_lend(&mut self, to: Tid, length: usize) -> bool {
        if !self.has_room() {
            return false;
        }
        let mut deliveries = self.store.deliveries();
        let is_much = |lent: u64| lent > 0 && lent.saturating_add(length as u64) > LENT_MAX;
        if is_much(deliveries.under_way_to(to)) {
            deliveries.look_at_all(&**self.store.memory());
        }
        !is_much(deliveries.under_way_to(to))
    }

    /// An empty body that can grow to so many bytes where it is; `None` if there is no room.
    pub fn draft(&mut self, most: u64) -> Option<Packing> {
        Packing::growing(&self.store, most).filter(|_| self.store.has_room())
    }

    /// A place for a gate, in a line of its own. It is never used for anything else; `None` if there are enough.
    pub fn take_gate(&mut self) -> Option<u64> {
        if self.gates.is_empty() && self.gate_pages < GATE_PAGES_MAX {
            let page = self.store.take(GATE_PAGE)?;
            self.gate_pages += 1;
            self.gates.extend((0..GATE_PAGE / LINE).rev().map(|index| page + LINE * index));
        }
        self.gates.pop()
    }

    /// Says on the ring that the next message comes another way; `false` if there is no room.
    pub fn send_leave(&mut self, ring: &mut Writer) -> bool {
        ring.push_leave(&**self.memory(), || self.store.take(CHUNK))
    }

    fn take_flag(&mut self) -> Option<u64> {
        let mut deliveries = self.store.deliveries();
        let flag = deliveries.take_flag().or_else(|| {
            let page = self.store.take(FLAG_PAGE)?;
            deliveries.add_flags((0..FLAG_PAGE / 4).rev().map(|index| page + 4 * index));
            deliveries.take_flag()
        })?;
        self.memory().store(flag, 0);
        Some(flag)
    }

    #[inline]
    fn take_spares(&mut self, ring: &mut Writer) {
        while let Some((at, size)) = ring.take_spare(&**self.memory()) {
            self.store.give(at, size);
        }
    }

    /// Takes back all that receivers need no more.
    pub fn reclaim_all(&mut self) {
        self.store.deliveries().look_at_all(&**self.memory());
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // Others may still read what was sent.
        self.store.close();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "outbox_tests.rs"]
mod tests;
