//! Long bodies that tasks read where the daemon has put them, in memory that it shares with them.
//!
//! Pieces of a message are put together there as they come. What goes by the task's socket in their place is one fragment, when
//! the last has come, that says where the body lies: so it keeps its place among the others. Where there is no room
//! for a body, or it outgrows what was set aside for it, its pieces go by the socket.

use crate::io::descriptors::Shared;
use bytes::Bytes;
use pvm_shm::{Outbox, Packing};
use pvm_wire::copy::copied;
use pvm_wire::header::{EOM, LENT, SOM};
use pvm_wire::limits::PIECE_MAX;
use pvm_wire::tuned::{DRAFT_GROWTH, DRAFT_ROOM};
use pvm_wire::{FragmentHeader, Lent, MessageHeader, Tid};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::info;

/// Messages to one task that are put together at the same time. More go by the socket.
const DRAFTS: usize = 8;

/// The daemon's memory, made when a task first wants to read it.
#[derive(Clone, Debug, Default)]
pub struct LoanPool {
    outbox: Arc<Mutex<Option<Outbox>>>,
    limit: u64,
}

impl LoanPool {
    /// Beyond half of `limit` bytes nothing more is lent.
    pub fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Outbox) -> Option<T>) -> Option<T> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(act)
    }

    /// What tasks are given to read there.
    pub fn descriptor(&self) -> Option<Shared> {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        if outbox.is_none() {
            *outbox = Outbox::new(self.limit)
                .inspect_err(|error| info!(%error, "no memory is shared with tasks"))
                .ok();
        }
        let own = outbox.as_ref()?.segment().fd().try_clone_to_owned().ok()?;
        Some(Arc::new([own]))
    }
}

/// What is put together for one task.
#[derive(Debug)]
pub struct Lender {
    loan_pool: LoanPool,
    drafts: HashMap<Tid, Draft>,
    to: Option<Tid>,
}

/// A message of which not all has come.
#[derive(Debug)]
struct Draft {
    first: FragmentHeader,
    head: Bytes,
    body: Packing,
    room: u64,
}

impl Lender {
    /// Nothing yet.
    pub fn new(loan_pool: LoanPool) -> Self {
        Self { loan_pool, drafts: HashMap::new(), to: None }
    }

    /// Takes a piece on its way to the task; `write` gets what is to be written now.
    pub fn take(
        &mut self,
        header: FragmentHeader,
        data: Bytes,
        write: &mut impl FnMut(FragmentHeader, Bytes),
    ) {
        let is_first = header.flags & SOM != 0;
        let drafted = if is_first { self.begin(header, &data) } else { self.drafts.remove(&header.src) };
        let Some(mut draft) = drafted else { return write(header, data) };
        let body = if is_first { &data[MessageHeader::SIZE..] } else { &data[..] };
        if !draft.body.reserve(body.len()) && !self.widen(&mut draft, body.len()) {
            draft.spill(0, write);
            return write(header, data);
        }
        draft.body.extend(body);
        if header.flags & EOM == 0 {
            self.drafts.insert(header.src, draft);
        } else if let Some(place) = self.finish(&draft) {
            write(FragmentHeader { flags: SOM | EOM | LENT, length: place.len() as u32, ..header }, place);
        } else {
            draft.spill(EOM, write);
        }
    }

    /// A message begins, and has replaced what the same task has not ended.
    fn begin(&mut self, header: FragmentHeader, data: &Bytes) -> Option<Draft> {
        self.drafts.remove(&header.src);
        self.to = Some(header.dst);
        let length = data.len().checked_sub(MessageHeader::SIZE)?;
        if length < Lent::LEAST && header.flags & EOM != 0 || self.drafts.len() >= DRAFTS {
            return None;
        }
        let room = if header.flags & EOM == 0 { DRAFT_ROOM } else { length as u64 };
        let may = |outbox: &mut Outbox| outbox.may_lend(header.dst, length).then(|| outbox.draft(room))?;
        let body = self.loan_pool.with(may)?;
        Some(Draft { first: header, head: data.slice(..MessageHeader::SIZE), body, room })
    }

    /// Puts a body where it has more room; `false` if there is none.
    fn widen(&self, draft: &mut Draft, more: usize) -> bool {
        let room = draft.room.saturating_mul(DRAFT_GROWTH);
        let Some(mut body) = self.loan_pool.with(|outbox| outbox.draft(room)) else { return false };
        if !body.reserve(draft.body.as_slice().len() + more) {
            return false;
        }
        body.extend(draft.body.as_slice());
        (draft.body, draft.room) = (body, room);
        true
    }

    /// Lends a whole body: the message header, and where the body lies.
    fn finish(&self, draft: &Draft) -> Option<Bytes> {
        let lent = self.loan_pool.with(|outbox| {
            let parcel = outbox.adopt(&draft.body, &[])?;
            outbox.lend(draft.first.dst, &parcel).ok()
        })?;
        Some([&draft.head[..], &lent.encode()].concat().into())
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // Its process has ended, or copied what it keeps.
        if let Some(to) = self.to {
            self.loan_pool.with(|outbox| {
                outbox.forget(to);
                Some(())
            });
        }
    }
}

impl Draft {
    /// Has all that has come written as if it had never been put together; the last piece has these flags.
    fn spill(&self, last: u8, write: &mut impl FnMut(FragmentHeader, Bytes)) {
        let (first, rest) = self.body.as_slice().split_at(self.first_length());
        let mut pieces = rest.chunks(PIECE_MAX).peekable();
        let end = |is_last: bool| if is_last { last } else { 0 };
        let mut write_piece = |flags: u8, data: Bytes| {
            write(FragmentHeader { flags, length: data.len() as u32, ..self.first }, data);
        };
        write_piece(SOM | end(pieces.peek().is_none()), [&self.head[..], first].concat().into());
        while let Some(piece) = pieces.next() {
            write_piece(end(pieces.peek().is_none()), copied(piece).into());
        }
    }

    /// Bytes of the body that go with the message header.
    fn first_length(&self) -> usize {
        self.body.as_slice().len().min(PIECE_MAX - MessageHeader::SIZE)
    }
}

#[cfg(test)]
#[path = "loan_pool_tests.rs"]
mod tests;
