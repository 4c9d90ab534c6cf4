//! The message buffers of a program by their ids, and the current ones.

use super::buffers::{Buffer, Format};
use pvm_engine::Near;
use pvm_wire::{Encoding, Message, PvmError, Tid};

/// Memory that freed buffers keep for the next ones, bytes, all together.
const SPARE_MAX: usize = 16 << 20;

/// All buffers by id, and which of them are current.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The buffer with id n is at n − 1.
    slots: Vec<Slot>,
    free: Vec<i32>,
    send: i32,
    /// A small buffer that was freed, and is the next to be packed into; or 0. Its memory is not counted as spare.
    next_send: i32,
    receive: i32,
    /// The buffer that has last received a message from a ring; the message may still be there.
    near: i32,
    spare: usize,
}

/// A slot for a buffer. A freed buffer keeps its memory for the next one.
#[derive(Debug)]
struct Slot {
    is_used: bool,
    buffer: Buffer,
}

impl Buffers {
    /// Makes an empty buffer and gives it an id.
    #[inline(always)]
    pub fn make(&mut self, format: Format) -> Result<i32, PvmError> {
        let id = if self.next_send == 0 { self.claim() } else { self.claim_next_send() }?;
        self.get(id)?.renew(format);
        Ok(id)
    }

    /// Makes a buffer of a received message.
    pub fn receive(&mut self, message: Message) -> Result<i32, PvmError> {
        let id = self.claim()?;
        self.get(id)?.receive(message);
        Ok(id)
    }

    /// A receive call begins: frees the message received before, or keeps its buffer for the next one from a ring.
    #[inline(always)]
    pub fn begin_receive(&mut self) -> Result<(), PvmError> {
        let stays = self.find(self.receive).is_some_and(|buffer| buffer.is_short_received());
        if stays { Ok(()) } else { self.free(self.receive) }
    }

    /// A message from a ring becomes the one to unpack from, in the buffer of the one before.
    #[inline(always)]
    pub fn receive_near(&mut self, near: &Near<'_>, dst: Tid) -> Option<i32> {
        let id = match self.receive {
            0 => self.claim().ok()?,
            id => id,
        };
        if id != self.near {
            self.settle();
        }
        self.slot(id)?.buffer.receive_near(near, dst);
        (self.receive, self.near) = (id, id);
        Some(id)
    }

    /// A message from a block becomes the one to unpack from, and the one before is freed. Gives the message back if there is no buffer
    /// for it.
    #[inline]
    pub fn receive_block(&mut self, message: Message) -> Result<i32, Message> {
        // The buffer of the message before may have been kept for one from a ring.
        let _ = self.free(self.receive);
        let Ok(id) = self.claim() else { return Err(message) };
        let Some(slot) = self.slot(id) else { return Err(message) };
        slot.buffer.receive(message);
        self.receive = id;
        Ok(id)
    }

    /// Copies a message out of its ring before the ring is read further: the sender may write there again.
    #[inline(always)]
    pub fn settle(&mut self) {
        if self.near != 0 {
            self.settle_near();
        }
    }

    #[inline(never)]
    fn settle_near(&mut self) {
        let id = std::mem::take(&mut self.near);
        if let Some(slot) = self.slot(id) {
            slot.buffer.settle();
        }
    }

    /// Frees the buffer to pack into, and makes an empty one of the one freed before. `None` if that is not enough, and then
    /// nothing is done. Ids alternate, so that a program that frees a buffer twice does not free the one it packs into.
    #[inline(always)]
    pub fn renew_sending(&mut self, encoding: Encoding) -> Option<i32> {
        let ids = [index_of(self.send), index_of(self.next_send)];
        let [old, new] = self.slots.get_disjoint_mut(ids).ok()?;
        let is_as_in_memory = matches!(encoding, Encoding::Xdr | Encoding::Raw);
        if !is_as_in_memory || !old.is_used || !old.buffer.retire_few() {
            return None;
        }
        new.buffer.renew_few(encoding);
        (old.is_used, new.is_used) = (false, true);
        std::mem::swap(&mut self.send, &mut self.next_send);
        Some(self.send)
    }

    /// Keeps a buffer and gives it an id.
    pub fn insert(&mut self, buffer: Buffer) -> Result<i32, PvmError> {
        let id = self.claim()?;
        *self.get(id)? = buffer;
        Ok(id)
    }

    /// A slot for a buffer, with a small id, from 1, which is reused after it was freed.
    #[inline(always)]
    fn claim(&mut self) -> Result<i32, PvmError> {
        let Some(id) = self.free.pop() else { return self.claim_next_send() };
        let slot = self.slot(id).ok_or(PvmError::NoMem)?;
        slot.is_used = true;
        let memory = slot.buffer.capacity();
        self.spare = self.spare.saturating_sub(memory);
        Ok(id)
    }

    /// The slot that is kept for the next message to be sent, or a new one.
    #[inline(never)]
    fn claim_next_send(&mut self) -> Result<i32, PvmError> {
        let kept = std::mem::take(&mut self.next_send);
        if let Some(slot) = self.slot(kept) {
            slot.is_used = true;
            return Ok(kept);
        }
        let id = i32::try_from(self.slots.len() + 1).map_err(|_| PvmError::NoMem)?;
        self.slots.push(Slot { is_used: true, buffer: Buffer::default() });
        Ok(id)
    }

    #[inline(always)]
    fn slot(&mut self, id: i32) -> Option<&mut Slot> {
        self.slots.get_mut(index_of(id))
    }

    #[inline(always)]
    fn find(&mut self, id: i32) -> Option<&mut Buffer> {
        self.slot(id).filter(|slot| slot.is_used).map(|slot| &mut slot.buffer)
    }

    /// The buffer with this id.
    #[inline(always)]
    pub fn get(&mut self, id: i32) -> Result<&mut Buffer, PvmError> {
        if id <= 0 {
            return Err(PvmError::BadParam);
        }
        self.find(id).ok_or(PvmError::NoSuchBuf)
    }

    /// Frees a buffer; 0 is no buffer, and no error.
    #[inline]
    pub fn free(&mut self, id: i32) -> Result<(), PvmError> {
        if id == 0 {
            return Ok(());
        }
        if id < 0 {
            return Err(PvmError::BadParam);
        }
        let (left, next_send) = (SPARE_MAX.saturating_sub(self.spare), self.next_send);
        let slot = self.slots.get_mut(index_of(id)).filter(|slot| slot.is_used).ok_or(PvmError::NoSuchBuf)?;
        slot.is_used = false;
        slot.buffer.retire();
        if slot.buffer.capacity() > left {
            slot.buffer.shrink();
        }
        if self.send == id {
            self.send = 0;
        }
        if self.receive == id {
            self.receive = 0;
        }
        if next_send == 0 && slot.buffer.is_small() {
            self.next_send = id;
        } else {
            self.spare += slot.buffer.capacity();
            self.free.push(id);
        }
        Ok(())
    }

    /// The task leaves: from now on senders may reuse the memory of messages that it has received.
    pub fn lose_received(&mut self) {
        let used = self.slots.iter_mut().filter(|slot| slot.is_used);
        used.for_each(|slot| slot.buffer.lose_received());
        self.receive = 0;
    }

    /// The id of the buffer to pack into, or 0.
    #[inline]
    pub fn send_id(&self) -> i32 {
        self.send
    }

    /// The id of the buffer to unpack from, or 0.
    #[inline]
    pub fn receive_id(&self) -> i32 {
        self.receive
    }

    /// The buffer to pack into.
    #[inline]
    pub fn sending(&mut self) -> Result<&mut Buffer, PvmError> {
        self.find(self.send).ok_or(PvmError::NoBuf)
    }

    /// The buffer to unpack from.
    #[inline]
    pub fn receiving(&mut self) -> Result<&mut Buffer, PvmError> {
        self.find(self.receive).ok_or(PvmError::NoBuf)
    }

    /// Makes a buffer (0: none) the one to pack into and returns the id of the one before.
    #[inline(always)]
    pub fn set_send(&mut self, id: i32) -> Result<i32, PvmError> {
        if id != 0 {
            self.get(id)?.rewind();
        }
        if id != 0 && self.receive == id {
            self.receive = 0;
        }
        Ok(std::mem::replace(&mut self.send, id))
    }

    /// Makes these the current buffers again, as far as they still exist; nothing is rewound.
    pub fn reselect(&mut self, send: i32, receive: i32) {
        self.send = if self.find(send).is_some() { send } else { 0 };
        self.receive = if self.find(receive).is_some() { receive } else { 0 };
    }

    /// Makes a buffer (0: none) the one to unpack from and returns the id of the one before.
    #[inline(always)]
    pub fn set_receive(&mut self, id: i32) -> Result<i32, PvmError> {
        if id != 0 {
            self.get(id)?;
        }
        if id != 0 && self.send == id {
            self.send = 0;
        }
        Ok(std::mem::replace(&mut self.receive, id))
    }
}

/// Where the buffer with this id is, if it is one.
#[inline(always)]
fn index_of(id: i32) -> usize {
    id.cast_unsigned().wrapping_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvm_shm::ring::Reader;
    use pvm_shm::{Memory, Outbox};
    use pvm_wire::MessageHeader;
    use std::sync::Arc;

    fn buffer() -> Buffer {
        Buffer::new(Format::Plain(Encoding::Xdr))
    }

    #[test]
    fn ids_begin_at_1_and_are_used_again() {
        let mut buffers = Buffers::default();
        assert_eq!(buffers.insert(buffer()), Ok(1));
        assert_eq!(buffers.insert(buffer()), Ok(2));
        assert_eq!(buffers.free(1), Ok(()));
        assert_eq!(buffers.free(1), Err(PvmError::NoSuchBuf));
        assert_eq!(buffers.insert(buffer()), Ok(1));
        assert_eq!(buffers.insert(buffer()), Ok(3));
        assert_eq!((buffers.free(0), buffers.free(-1)), (Ok(()), Err(PvmError::BadParam)));
    }

    #[test]
    fn a_buffer_has_one_role() {
        let mut buffers = Buffers::default();
        let id = buffers.insert(buffer()).unwrap();
        assert_eq!(buffers.set_send(id), Ok(0));
        assert_eq!(buffers.set_receive(id), Ok(0));
        assert_eq!((buffers.send_id(), buffers.receive_id()), (0, id));
        assert_eq!(buffers.set_send(9), Err(PvmError::NoSuchBuf));
        assert_eq!(buffers.set_send(id), Ok(0));
        assert_eq!((buffers.send_id(), buffers.receive_id()), (id, 0));
        buffers.free(id).unwrap();
        assert_eq!(buffers.send_id(), 0);
        assert!(matches!(buffers.sending(), Err(PvmError::NoBuf)));
    }

    #[test]
    fn the_id_of_the_message_before_frees_nothing() {
        let mut buffers = Buffers::default();
        let format = Format::Plain(Encoding::Raw);
        for _ in 0..2 {
            let id = buffers.make(format).unwrap();
            let old = buffers.set_send(id).unwrap();
            buffers.free(old).unwrap();
        }
        for _ in 0..4 {
            let before = buffers.send_id();
            let id = buffers.renew_sending(Encoding::Raw).unwrap();
            buffers.sending().unwrap().pack_str(b"text").unwrap();
            assert_eq!(buffers.free(before), Err(PvmError::NoSuchBuf));
            assert_eq!((buffers.send_id(), buffers.sending().unwrap().length()), (id, 9));
        }
        assert_eq!(buffers.renew_sending(Encoding::InPlace), None);
    }

    #[test]
    fn messages_from_rings_have_buffers_even_if_none_was_freed() {
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let mut buffers = Buffers::default();
        let mut receive = |buffers: &mut Buffers, length: usize| {
            let header = MessageHeader { encoding: Encoding::Raw.word(), ..MessageHeader::default() };
            let (mut ring, at) = outbox.open_ring().unwrap();
            outbox.send_copy(&mut ring, header, &[&vec![length as u8; length]]).unwrap();
            let memory = outbox.memory();
            let found = Reader::new(&**memory, at.get()).unwrap().peek(&**memory).unwrap();
            let near = Near { src: Tid::MY_DAEMON, found, memory };
            buffers.receive_near(&near, Tid::NONE).unwrap()
        };
        // A message has the body it was sent with, not one of its buffer's earlier message.
        for length in [0, 4, 32, 33, 63, 200, 5, 100] {
            let kept = receive(&mut buffers, length);
            assert_eq!(buffers.set_receive(0), Ok(kept));
            receive(&mut buffers, 63 - length.min(63));
            let freed = receive(&mut buffers, length);
            assert_eq!(buffers.receive_id(), freed);
            for id in [kept, freed] {
                let body = buffers.get(id).unwrap().encoded().unwrap().0.to_vec();
                assert_eq!(body, vec![length as u8; length], "{length} bytes in buffer {id}");
            }
            buffers.free(freed).unwrap();
        }
    }

    #[test]
    fn a_message_from_a_block_takes_the_place_of_the_one_before() {
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let (mut ring, at) = outbox.open_ring().unwrap();
        let header = MessageHeader { encoding: Encoding::Raw.word(), ..MessageHeader::default() };
        outbox.send_copy(&mut ring, header, &[&[1; 4]]).unwrap();
        let memory = outbox.memory();
        let found = Reader::new(&**memory, at.get()).unwrap().peek(&**memory).unwrap();
        let near = Near { src: Tid::MY_DAEMON, found, memory };
        let mut buffers = Buffers::default();
        let short = buffers.receive_near(&near, Tid::NONE).unwrap();
        for byte in [2, 3] {
            // As calls begin: the buffer of a short message stays, that of a long one is freed.
            buffers.begin_receive().unwrap();
            let message =
                Message { header, body: vec![byte; 5000].into(), src: Tid::MY_DAEMON, dst: Tid::NONE };
            let id = buffers.receive_block(message).unwrap();
            assert_eq!((id, buffers.receive_id()), (short, short), "no buffer is lost");
            assert_eq!(buffers.get(id).unwrap().encoded().unwrap().0, vec![byte; 5000]);
        }
        assert_eq!(buffers.slots.len(), 1);
    }

    #[test]
    fn a_message_in_a_ring_is_copied_before_the_ring_is_reused() {
        let mut outbox = Outbox::new(1 << 20).unwrap();
        let (mut ring, at) = outbox.open_ring().unwrap();
        let header = MessageHeader { encoding: Encoding::Raw.word(), ..MessageHeader::default() };
        let mut buffers = Buffers::default();
        let mut reader = Reader::new(&**outbox.memory(), at.get()).unwrap();
        let mut receive = |buffers: &mut Buffers, byte| {
            outbox.send_copy(&mut ring, header, &[&[byte; 100]]).unwrap();
            let memory = outbox.memory();
            let found = reader.peek(&**memory).unwrap();
            reader.pass(&**memory, &found);
            let near = Near { src: Tid::MY_DAEMON, found, memory };
            let id = buffers.receive_near(&near, Tid::NONE).unwrap();
            (id, memory.clone(), found.at.get())
        };
        let (first, memory, at) = receive(&mut buffers, 1);
        // Another message is received while this one is in the ring.
        buffers.set_receive(0).unwrap();
        let (second, _, _) = receive(&mut buffers, 2);
        memory.write(at, &[9; 100]);
        assert_eq!(buffers.get(first).unwrap().take_few::<u8>(100), Some(&[1; 100][..]));
        assert_eq!(buffers.get(second).unwrap().take_few::<u8>(60), Some(&[2; 60][..]));
        buffers.settle();
        assert_eq!(buffers.get(second).unwrap().take_few::<u8>(40), Some(&[2; 40][..]));
        assert_eq!(Arc::strong_count(&memory), 2, "nobody needs the ring any more");
    }

    proptest! {
        #[test]
        fn a_send_buffer_is_renewed_as_by_all_steps(calls in prop::collection::vec((0..6, 0..5), 0..60)) {
            let format = Format::Plain(Encoding::Xdr);
            let whole = |buffers: &mut Buffers| {
                let id = buffers.make(format)?;
                let old = buffers.set_send(id)?;
                buffers.free(old).map(|()| id)
            };
            let (mut short, mut long) = (Buffers::default(), Buffers::default());
            for (call, id) in calls {
                let run = |buffers: &mut Buffers, is_short: bool| match call {
                    0..3 if is_short => {
                        buffers.renew_sending(Encoding::Xdr).map_or_else(|| whole(buffers), Ok)
                    }
                    0..3 => whole(buffers),
                    3 => buffers.free(id).map(|()| 0),
                    4 => buffers.sending().and_then(|buffer| buffer.pack_str(b"text")).map(|()| 0),
                    _ => buffers.set_receive(id),
                };
                prop_assert_eq!(run(&mut short, true), run(&mut long, false));
                prop_assert_eq!((short.send_id(), short.receive_id()), (long.send_id(), long.receive_id()));
                prop_assert_eq!((short.spare, &short.free), (long.spare, &long.free));
                prop_assert_eq!(short.next_send, long.next_send);
                let lengths = |buffers: &Buffers| -> Vec<_> {
                    buffers.slots.iter().map(|slot| (slot.is_used, slot.buffer.length())).collect()
                };
                prop_assert_eq!(lengths(&short), lengths(&long));
            }
        }

        #[test]
        fn no_calls_make_it_panic(calls in prop::collection::vec((0..6, -2..4), 0..40)) {
            let mut buffers = Buffers::default();
            for (call, id) in calls {
                let _ = match call {
                    0 => buffers.insert(buffer()).map(drop),
                    1 => buffers.free(id),
                    2 => buffers.set_send(id).map(drop),
                    3 => buffers.set_receive(id).map(drop),
                    4 => buffers.sending().and_then(|buffer| buffer.pack_str(b"text")),
                    _ => buffers.receiving().and_then(|buffer| buffer.unpack_str().map(drop)),
                };
                prop_assert!(buffers.send_id() == 0 || buffers.send_id() != buffers.receive_id());
            }
        }
    }
}
