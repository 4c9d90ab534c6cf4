//! The sending side of a task: its segment, the rings in it and the blocks they point to.

use crate::loan::Offset;
use crate::mapping::{Mapping, Segment};
use crate::memory::{LINE, Memory};
use crate::ring::{CHUNK, FIRST_CHUNK, INLINE_MAX, SendError, Writer};
use crate::store::{Block, Packing, Store};
use pvm_wire::{Lent, MessageHeader, Tid};
use std::sync::Arc;

const FLAG_PAGE: u64 = 4096;
const GATE_PAGE: u64 = 4096;

/// Most bytes that are lent to one receiver at a time, except for a single body.
const LENT_MAX: u64 = 16 << 20;

/// Most pages of gates: groups that keep changing must not take more and more memory.
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
    /// An empty outbox, into which this process packs from now on. Beyond half of `limit` bytes nothing more is accepted, but a
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

    /// Whether more may be sent now.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if !self.store.has_room() {
            self.reclaim();
        }
        self.store.has_room()
    }

    /// A new ring and its place.
    pub fn open_ring(&mut self) -> Result<(Writer, Offset), SendError> {
        let at = self.store.take(FIRST_CHUNK).ok_or(SendError::NoRoom)?;
        Ok((Writer::new(&**self.memory(), at), Offset::trusted(at)))
    }

    /// A ring's receiver has exited: messages to it are not needed any more.
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

    /// Sends a small message, whose body is copied.
    #[inline]
    pub fn send_copy(
        &mut self,
        ring: &mut Writer,
        header: MessageHeader,
        parts: &[&[u8]],
    ) -> Result<(), SendError> {
        let sent = ring.send(&**self.memory(), header, parts, || self.store.take(CHUNK));
        self.reclaim_chunks(ring);
        sent
    }

    /// As [`Self::send_copy`], if no memory has to be reclaimed or allocated for it; whether it was sent.
    #[inline(always)]
    pub fn try_send_copy(&self, ring: &mut Writer, header: MessageHeader, parts: [&[u8]; 2]) -> bool {
        self.store.has_room() && ring.try_send(&**self.memory(), header, parts)
    }

    /// Whether a message of this length lies in the ring itself.
    #[inline]
    pub fn is_inline(length: usize) -> bool {
        length <= INLINE_MAX
    }

    /// Copies a body into a block.
    pub fn pack(&mut self, parts: &[&[u8]]) -> Result<Parcel, SendError> {
        let length = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()));
        let length = length.and_then(|length| u32::try_from(length).ok()).ok_or(SendError::TooLong)?;
        self.store.deliveries().reclaim_some(&**self.memory());
        let mut block = self.store.block(length.into()).ok_or(SendError::NoRoom)?;
        let mut offset = 0;
        for part in parts {
            block.write(offset, part);
            offset += part.len() as u64;
        }
        Ok(Parcel { block: Arc::new(block), length })
    }

    /// A body that was packed in this segment, with these bytes behind it; `None` if it has to be copied.
    pub fn adopt(&mut self, packing: &Packing, tail: &[u8]) -> Option<Parcel> {
        let (block, length) = packing.parcel(&self.store, tail)?;
        self.store.deliveries().reclaim_some(&**self.memory());
        Some(Parcel { block, length: u32::try_from(length).ok()? })
    }

    /// Sends a body in a block.
    pub fn send_parcel(
        &mut self,
        ring: &mut Writer,
        header: MessageHeader,
        to: Tid,
        parcel: &Parcel,
    ) -> Result<(), SendError> {
        let lent = self.offer(parcel)?;
        let sent = ring.send_block(&**self.memory(), header, lent, || self.store.take(CHUNK));
        // Only now, so that the receiver reads meanwhile.
        match sent {
            Ok(()) => self.store.deliveries().begin(to, lent.flag, (parcel.block.clone(), parcel.length)),
            Err(_) => self.store.deliveries().add_flags([lent.flag].into_iter()),
        }
        self.reclaim_chunks(ring);
        sent
    }

    /// Lends a body in a block to a receiver that gets its place on another way.
    pub fn lend(&mut self, to: Tid, parcel: &Parcel) -> Result<Lent, SendError> {
        let lent = self.offer(parcel)?;
        self.store.deliveries().begin(to, lent.flag, (parcel.block.clone(), parcel.length));
        Ok(lent)
    }

    /// The place of a body in a block, with a flag by which its receiver releases it.
    fn offer(&mut self, parcel: &Parcel) -> Result<Lent, SendError> {
        let flag = self.take_flag().ok_or(SendError::NoRoom)?;
        Ok(Lent { at: parcel.block.at(), flag, length: parcel.length })
    }

    /// Whether a body of this length may be lent: not too many bytes are with that receiver already.
    pub fn may_lend(&mut self, to: Tid, length: usize) -> bool {
        if !self.has_room() {
            return false;
        }
        let mut deliveries = self.store.deliveries();
        let is_much = |lent: u64| lent > 0 && lent.saturating_add(length as u64) > LENT_MAX;
        if is_much(deliveries.under_way_to(to)) {
            deliveries.reclaim_all(&**self.store.memory());
        }
        !is_much(deliveries.under_way_to(to))
    }

    /// An empty body that can grow to `length` bytes where it is; `None` if there is no room.
    pub fn draft(&mut self, most: u64) -> Option<Packing> {
        Packing::growing(&self.store, most).filter(|_| self.store.has_room())
    }

    /// A place for a gate, in a line of its own. It is never used for anything else; `None` if there are enough.
    pub fn take_gate(&mut self) -> Option<Offset> {
        if self.gates.is_empty() && self.gate_pages < GATE_PAGES_MAX {
            let page = self.store.take(GATE_PAGE)?;
            self.gate_pages += 1;
            self.gates.extend((0..GATE_PAGE / LINE).rev().map(|index| page + LINE * index));
        }
        self.gates.pop().map(Offset::trusted)
    }

    /// Writes into the ring that the next message comes on another way.
    pub fn send_leave(&mut self, ring: &mut Writer) -> Result<(), SendError> {
        ring.send_leave(&**self.memory(), || self.store.take(CHUNK))
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
    fn reclaim_chunks(&mut self, ring: &mut Writer) {
        while let Some((at, size)) = ring.reclaim(&**self.memory()) {
            self.store.give(at, size);
        }
    }

    /// Reclaims all blocks that receivers have released.
    pub fn reclaim(&mut self) {
        self.store.deliveries().reclaim_all(&**self.memory());
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // Receivers may still read sent messages.
        self.store.close();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "outbox_tests.rs"]
mod tests;
