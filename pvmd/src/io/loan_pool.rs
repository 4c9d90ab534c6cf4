//! Long bodies that tasks read where the daemon has put them, in memory that it shares with them.
//!
//! Pieces of a message are put together there as they come. What goes by the task's socket in their place is one fragment, when
//! the last has come, that says where the body lies: so it keeps its place among the others. Where there is no room
//! for a body, or it outgrows what was set aside for it, its pieces go by the socket.

use crate::io::descriptors::Shared;
use bytes::Bytes;
use pvm_shm::{Outbox, Packing, Parcel};
use pvm_wire::copy::copied;
use pvm_wire::header::{EOM, LENT, SOM};
use pvm_wire::limits::PIECE_MAX;
use pvm_wire::tuned::{DRAFT_GROWTH, DRAFT_ROOM};
use pvm_wire::{FragmentHeader, Lent, MessageHeader, Tid};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tracing::info;

/// Messages to one task that are put together at the same time. More go by the socket.
const PARTS: usize = 8;

/// Bodies of one piece that are kept for further receivers.
const KEPT: usize = 4;

/// The daemon's memory, made when a task first wants to read it.
#[derive(Clone, Debug, Default)]
pub struct LoanPool {
    memory: Arc<Mutex<Option<Memory>>>,
    limit: u64,
}

/// The memory, and the bodies in it that further receivers of a multicast are lent, too.
#[derive(Debug)]
struct Memory {
    outbox: Outbox,
    drafts: Vec<Weak<Draft>>,
    /// Bodies that have come in one piece, with that piece.
    whole: VecDeque<(Bytes, Parcel)>,
}

impl LoanPool {
    /// Beyond half of `limit` bytes nothing more is lent.
    pub fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Memory) -> Option<T>) -> Option<T> {
        locked(&self.memory).as_mut().and_then(act)
    }

    /// What tasks are given to read there.
    pub fn descriptor(&self) -> Option<Shared> {
        let mut memory = locked(&self.memory);
        if memory.is_none() {
            *memory = Outbox::new(self.limit)
                .inspect_err(|error| info!(%error, "no memory is shared with tasks"))
                .map(|outbox| Memory { outbox, drafts: Vec::new(), whole: VecDeque::new() })
                .ok();
        }
        let own = memory.as_ref()?.outbox.segment().fd().try_clone_to_owned().ok()?;
        Some(Arc::new([own]))
    }
}

impl Memory {
    /// Lends a body that has come in one piece.
    fn lend_whole(&mut self, to: Tid, piece: &Bytes) -> Option<Lent> {
        let body = body_of(piece)?;
        if body.len() < Lent::LEAST || !self.outbox.may_lend(to, body.len()) {
            return None;
        }
        if let Some((_, parcel)) = self.whole.iter().find(|(of, _)| is_same(of, piece)) {
            return self.outbox.lend(to, parcel).ok();
        }
        let parcel = self.outbox.pack(&[body]).ok()?;
        let lent = self.outbox.lend(to, &parcel).ok();
        if self.whole.len() == KEPT {
            self.whole.pop_front();
        }
        self.whole.push_back((piece.clone(), parcel));
        lent
    }

    /// The draft of a message that begins with this piece.
    fn draft(&mut self, to: Tid, piece: &Bytes) -> Option<Arc<Draft>> {
        if !self.outbox.may_lend(to, body_of(piece)?.len()) {
            return None;
        }
        self.drafts.retain(|draft| draft.strong_count() > 0);
        let begun = self.drafts.iter().filter_map(Weak::upgrade).find(|draft| is_same(&draft.first, piece));
        begun.or_else(|| {
            let packing = self.outbox.draft(DRAFT_ROOM)?;
            let body = Mutex::new(Growing { packing, room: DRAFT_ROOM });
            let draft = Arc::new(Draft { first: piece.clone(), body });
            self.drafts.push(Arc::downgrade(&draft));
            Some(draft)
        })
    }
}

/// A body of which not all has come. It is put together once for all receivers of the message.
#[derive(Debug)]
struct Draft {
    /// The piece with which the message begins. By its place in memory the receivers of a multicast find the draft: they get the same bytes,
    /// and no other message is there as long as they are kept.
    first: Bytes,
    body: Mutex<Growing>,
}

#[derive(Debug)]
struct Growing {
    packing: Packing,
    room: u64,
}

impl Growing {
    /// Appends to the body, and moves it where there is more room if need be; `false` if there is none.
    fn append(&mut self, bytes: &[u8], loan_pool: &LoanPool) -> bool {
        let fits = self.packing.reserve(bytes.len()) || self.widen(bytes.len(), loan_pool);
        if fits {
            self.packing.extend(bytes);
        }
        fits
    }

    fn widen(&mut self, more: usize, loan_pool: &LoanPool) -> bool {
        let room = self.room.saturating_mul(DRAFT_GROWTH);
        let Some(mut packing) = loan_pool.with(|memory| memory.outbox.draft(room)) else { return false };
        if !packing.reserve(self.packing.as_slice().len() + more) {
            return false;
        }
        packing.extend(self.packing.as_slice());
        (self.packing, self.room) = (packing, room);
        true
    }
}

/// What one receiver has got of a draft.
#[derive(Debug)]
struct Part {
    first: FragmentHeader,
    draft: Arc<Draft>,
    taken: usize,
}

impl Part {
    /// Takes the next bytes of the body, which another receiver may have put into the draft already; `false` if they have no room.
    fn take(&mut self, bytes: &[u8], loan_pool: &LoanPool) -> bool {
        let mut body = locked(&self.draft.body);
        let there = body.packing.as_slice().len() - self.taken;
        let fits =
            bytes.get(there..).is_none_or(|missing| missing.is_empty() || body.append(missing, loan_pool));
        if fits {
            self.taken += bytes.len();
        }
        fits
    }

    fn head(&self) -> &[u8] {
        &self.draft.first[..MessageHeader::SIZE]
    }

    /// Lends the whole body.
    fn lend(&self, loan_pool: &LoanPool) -> Option<Lent> {
        let body = locked(&self.draft.body);
        loan_pool.with(|memory| {
            let parcel = memory.outbox.adopt(&body.packing, &[])?;
            memory.outbox.lend(self.first.dst, &parcel).ok()
        })
    }

    /// Has all that has come written as if it had never been put together; the last piece has these flags.
    fn spill(&self, last: u8, write: &mut impl FnMut(FragmentHeader, Bytes)) {
        let body = locked(&self.draft.body);
        let taken = &body.packing.as_slice()[..self.taken];
        let (first, rest) = taken.split_at(self.taken.min(PIECE_MAX - MessageHeader::SIZE));
        let mut pieces = rest.chunks(PIECE_MAX).peekable();
        let end = |is_last: bool| if is_last { last } else { 0 };
        let mut write_piece = |flags: u8, data: Bytes| {
            write(FragmentHeader { flags, length: data.len() as u32, ..self.first }, data);
        };
        write_piece(SOM | end(pieces.peek().is_none()), [self.head(), first].concat().into());
        while let Some(piece) = pieces.next() {
            write_piece(end(pieces.peek().is_none()), copied(piece).into());
        }
    }
}

/// What is put together for one task.
#[derive(Debug)]
pub struct Lender {
    loan_pool: LoanPool,
    parts: HashMap<Tid, Part>,
    to: Option<Tid>,
}

impl Lender {
    /// Nothing yet.
    pub fn new(loan_pool: LoanPool) -> Self {
        Self { loan_pool, parts: HashMap::new(), to: None }
    }

    /// Takes a piece on its way to the task; `write` gets what is to be written now.
    pub fn take(
        &mut self,
        header: FragmentHeader,
        data: Bytes,
        write: &mut impl FnMut(FragmentHeader, Bytes),
    ) {
        if header.flags & SOM != 0 {
            // The message has replaced what the same task has not ended.
            self.parts.remove(&header.src);
            self.to = Some(header.dst);
        }
        if header.flags & (SOM | EOM) == SOM | EOM {
            return match self.loan_pool.with(|memory| memory.lend_whole(header.dst, &data)) {
                Some(lent) => write_lent(header, &data, &lent, write),
                None => write(header, data),
            };
        }
        let Some(mut part) = self.part(header, &data) else { return write(header, data) };
        let bytes = if header.flags & SOM != 0 { &data[MessageHeader::SIZE..] } else { &data[..] };
        if !part.take(bytes, &self.loan_pool) {
            part.spill(0, write);
            return write(header, data);
        }
        if header.flags & EOM == 0 {
            self.parts.insert(header.src, part);
            return;
        }
        match part.lend(&self.loan_pool) {
            Some(lent) => write_lent(header, part.head(), &lent, write),
            None => part.spill(EOM, write),
        }
    }

    /// The part to which a piece belongs; `None` if it is not put together.
    fn part(&mut self, header: FragmentHeader, data: &Bytes) -> Option<Part> {
        if header.flags & SOM == 0 {
            return self.parts.remove(&header.src);
        }
        if self.parts.len() >= PARTS {
            return None;
        }
        let draft = self.loan_pool.with(|memory| memory.draft(header.dst, data))?;
        Some(Part { first: header, draft, taken: 0 })
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // Its process has ended, or copied what it keeps.
        if let Some(to) = self.to {
            self.loan_pool.with(|memory| {
                memory.outbox.forget(to);
                Some(())
            });
        }
    }
}

/// Writes where the body lies behind the message header, with which the piece begins.
fn write_lent(
    header: FragmentHeader,
    piece: &[u8],
    lent: &Lent,
    write: &mut impl FnMut(FragmentHeader, Bytes),
) {
    let place: Bytes = [&piece[..MessageHeader::SIZE], &lent.encode()].concat().into();
    write(FragmentHeader { flags: SOM | EOM | LENT, length: place.len() as u32, ..header }, place);
}

/// The bytes behind the message header.
fn body_of(piece: &Bytes) -> Option<&[u8]> {
    piece.get(MessageHeader::SIZE..)
}

fn is_same(a: &Bytes, b: &Bytes) -> bool {
    (a.as_ptr(), a.len()) == (b.as_ptr(), b.len())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "loan_pool_tests.rs"]
mod tests;
