//! A ring for the messages of one task to one other: a chain of chunks of cache lines in the sender's segment.
//!
//! A record begins with its number, which is stored last: a receiver that finds the number it waits for can read the rest.
//! A message of up to [`INLINE_MAX`] bytes lies in consecutive lines, a longer one in a block whose place the record has.
//! The last record of a chunk has the place of the next chunk. So a receiver that does not read never stops the ring. When it
//! has left a chunk it marks the chunk's first line, and the sender can use it again.
//!
//! A line could have any number from an earlier use, as parts of messages were there. So the line behind a record gets none
//! before the record is published: it is not read earlier.

use crate::loan::{Loan, Offset, OutOfBounds};
pub use crate::memory::IN_LINE;
use crate::memory::{HEAD, LINE, Memory};
use pvm_wire::held::KEPT;
use pvm_wire::tuned::{RING_CHUNK_LINES, RING_FIRST_CHUNK_LINES, RING_NEAR_LINES, RING_SHORT_LINES};
use pvm_wire::{Lent, MessageHeader};
use std::collections::VecDeque;
use std::fmt;

/// The longest body that lies in the ring itself, bytes: 2 KiB of elements, and their types.
pub const INLINE_MAX: usize = KEPT;

/// The last line has no room left.
const _: () = assert!((INLINE_MAX as u64 + BODY).is_multiple_of(LINE));

/// Where in a record the body begins, and how much of it the first line has.
const BODY: u64 = HEAD as u64 + 4;
/// Where in a record its length is.
const LENGTH: u64 = BODY - 4;

/// Kinds of records.
const INLINE: u32 = 1;
const BLOCK: u32 = 2;
const LINK: u32 = 3;
const LEAVE: u32 = 4;

/// Bytes of a ring's first chunk, and of all others.
pub const FIRST_CHUNK: u64 = RING_FIRST_CHUNK_LINES as u64 * LINE;
/// See [`FIRST_CHUNK`].
pub const CHUNK: u64 = RING_CHUNK_LINES as u64 * LINE;

/// Where a message's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the ring: to be copied before the next record is read.
    Inline {
        /// Where it begins.
        at: Offset,
        /// Its length, at most [`INLINE_MAX`].
        length: usize,
    },
    /// In a block, until it is given back.
    Block(Loan),
}

/// A message in the ring, as [`Reader::peek`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// Its header.
    pub header: MessageHeader,
    /// Where its body begins.
    pub at: Offset,
    /// The body's length.
    pub length: usize,
    /// The first bytes of the body, and what is behind a shorter one.
    pub first: [u8; IN_LINE],
}

/// The content of a record, as its reader gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A message.
    Message(MessageHeader, Place),
    /// The next message comes another way.
    Leave,
}

/// Why a message was not sent. Nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The segment has no room now.
    NoRoom,
    /// No segment has room for it, or it does not lie in the ring.
    TooLong,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "there is no room in the shared memory",
            Self::TooLong => "the message is too long for the shared memory",
        })
    }
}

impl std::error::Error for SendError {}

/// A sender's violation of the protocol. Nothing more can be received from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// A record of no known kind.
    UnknownKind(u32),
    /// A body that is too long for the ring.
    TooLong,
    /// A body, a flag or a chunk that is not in the segment.
    OutOfBounds,
    /// A chunk that ends without a link.
    NoLink,
}

impl From<OutOfBounds> for ReceiveError {
    fn from(_: OutOfBounds) -> Self {
        Self::OutOfBounds
    }
}

/// The words of a record after its number.
#[derive(Clone, Copy, Default)]
struct Head {
    kind: u32,
    header: MessageHeader,
    length: u32,
    places: [u64; 2],
}

impl Head {
    /// As it stands in a line from its second word on, but for the body or its place.
    #[inline(always)]
    fn words(&self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        let header = &self.header;
        let words = [
            self.kind,
            header.encoding,
            header.tag as u32,
            header.context as u32,
            header.wait_id as u32,
            header.checksum,
            self.length,
        ];
        for (slot, word) in out.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    fn write(&self, memory: &impl Memory, line: u64) {
        memory.write(line + 4, &self.words());
        memory.write(line + BODY, &self.places[0].to_ne_bytes());
        memory.write(line + BODY + 8, &self.places[1].to_ne_bytes());
    }

    #[inline(always)]
    fn decode(line: &[u8; LINE as usize - 4]) -> Self {
        let word = |index: usize| {
            u32::from_ne_bytes([
                line[4 * index],
                line[4 * index + 1],
                line[4 * index + 2],
                line[4 * index + 3],
            ])
        };

        let header = MessageHeader {
            encoding: word(1),
            tag: word(2) as i32,
            context: word(3) as i32,
            wait_id: word(4) as i32,
            checksum: word(5),
        };
        let places = [place_at(line, 28), place_at(line, 36)];
        Self { kind: word(0), header, length: word(6), places }
    }
}

#[inline]
fn place_at(line: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&line[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

/// Numbers of records: 0 is none.
#[inline]
fn after(number: u32) -> u32 {
    number.checked_add(1).unwrap_or(1)
}

/// A chunk, as its sender knows it.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: u64,
    lines: u32,
    /// Before this line nothing is left of longer messages of an earlier use that could look like a number.
    clean_to: u32,
    /// The same for the next use, as far as it is prepared.
    clean_next: u32,
}

impl Chunk {
    fn new(at: u64, lines: u32) -> Self {
        Self { at, lines, clean_to: 0, clean_next: lines }
    }
}

/// The sender's end.
#[derive(Debug)]
pub struct Writer {
    /// The chunk that it writes to.
    chunk: Chunk,
    /// The chunks before, which may still be read.
    before: VecDeque<Chunk>,
    next: u32,
    number: u32,
    /// The last record of the chunk before, which is published behind the first one of this chunk, so that a reader that follows it finds that record.
    link: Option<(u64, u32)>,
}

impl Writer {
    /// A ring whose first chunk is these [`FIRST_CHUNK`] bytes. Its place is what the [`Reader`] has to know.
    pub fn new(memory: &impl Memory, at: u64) -> Self {
        let chunk = Chunk::new(at, RING_FIRST_CHUNK_LINES);
        begin(memory, &chunk);
        Self { chunk, before: VecDeque::new(), next: 1, number: 1, link: None }
    }

    /// Sends a message whose parts are together at most [`INLINE_MAX`] bytes. `more` gives the place of another [`CHUNK`] bytes, if there
    /// is one.
    #[inline]
    pub fn send(
        &mut self,
        memory: &impl Memory,
        header: MessageHeader,
        parts: &[&[u8]],
        more: impl FnOnce() -> Option<u64>,
    ) -> Result<(), SendError> {
        let length = parts.iter().map(|part| part.len()).sum();
        if length > INLINE_MAX {
            return Err(SendError::TooLong);
        }
        self.make_room(memory, lines_of(length), more)?;
        self.put(memory, header, parts, length);
        Ok(())
    }

    /// As [`Self::send`], if the two chunks in use have room; whether it was sent.
    #[inline(always)]
    pub fn try_send(&mut self, memory: &impl Memory, header: MessageHeader, parts: [&[u8]; 2]) -> bool {
        let length = parts[0].len() + parts[1].len();
        let lines = lines_of(length);
        let fits =
            length <= INLINE_MAX && (self.is_near(lines) || self.turn_back(memory) || self.has_room(lines));
        if fits {
            self.put(memory, header, &parts, length);
        }
        fits
    }

    /// Publishes a message of this length, for which there is room.
    #[inline(always)]
    fn put(&mut self, memory: &impl Memory, header: MessageHeader, parts: &[&[u8]], length: usize) {
        let head = Head { kind: INLINE, header, length: length as u32, places: [0; 2] };
        if length <= IN_LINE {
            memory.write_line(self.here(), &head.words(), parts);
            self.publish(memory, 1);
            memory.prefetch_write(self.here());
        } else {
            match *parts {
                [one] => self.put_several(memory, &head.words(), [one, &[]]),
                [first, second] => self.put_several(memory, &head.words(), [first, second]),
                _ => self.put_several(memory, &head.words(), [&parts.concat(), &[]]),
            }
        }
    }

    #[inline(never)]
    fn put_several(&mut self, memory: &impl Memory, head: &[u8; HEAD], parts: [&[u8]; 2]) {
        let lines = lines_of(parts[0].len() + parts[1].len());
        self.chunk.clean_next = self.chunk.clean_next.min(self.next + 1);
        memory.write_lines(self.here(), head, parts);
        self.publish(memory, lines);
        self.prefetch_lines(memory, lines);
    }

    /// Prefetches the lines of the next message, if it is like the last one, while the receiver reads that.
    #[inline(always)]
    fn prefetch_lines(&self, memory: &impl Memory, lines: u32) {
        let mut first = self.here();
        if !self.is_near(lines) {
            memory.prefetch_write(first);
            match self.before.front() {
                Some(chunk) if can_be_reused(memory, chunk) => first = chunk.at,
                _ if self.has_room(lines) => {}
                _ => return,
            }
        }
        let called = u64::from(lines) + 1;
        for line in 0..called {
            memory.prefetch_write(first + line * LINE);
        }
    }

    /// Sends a message that lies in a block; otherwise like [`Self::send`].
    pub fn send_block(
        &mut self,
        memory: &impl Memory,
        header: MessageHeader,
        Lent { at, flag, length }: Lent,
        more: impl FnOnce() -> Option<u64>,
    ) -> Result<(), SendError> {
        self.send_head(memory, Head { kind: BLOCK, header, length, places: [at, flag] }, more)
    }

    /// Writes that the next message comes on another way; otherwise like [`Self::send`].
    pub fn send_leave(
        &mut self,
        memory: &impl Memory,
        more: impl FnOnce() -> Option<u64>,
    ) -> Result<(), SendError> {
        self.send_head(memory, Head { kind: LEAVE, ..Head::default() }, more)
    }

    fn send_head(
        &mut self,
        memory: &impl Memory,
        head: Head,
        more: impl FnOnce() -> Option<u64>,
    ) -> Result<(), SendError> {
        self.make_room(memory, 1, more)?;
        head.write(memory, self.here());
        self.publish(memory, 1);
        Ok(())
    }

    /// A chunk that the receiver has left and that is not needed soon: its place and size.
    #[inline]
    pub fn reclaim(&mut self, memory: &impl Memory) -> Option<(u64, u64)> {
        let spare = self.before.len() > 1 && self.before.front().is_some_and(|chunk| is_left(memory, chunk));
        let chunk = if spare { self.before.pop_front() } else { None };
        chunk.map(|chunk| (chunk.at, u64::from(chunk.lines) * LINE))
    }

    /// All chunks, when the ring is not used any more: places and sizes.
    pub fn into_chunks(self) -> impl Iterator<Item = (u64, u64)> {
        self.before.into_iter().chain([self.chunk]).map(|chunk| (chunk.at, u64::from(chunk.lines) * LINE))
    }

    #[inline]
    fn here(&self) -> u64 {
        self.chunk.at + u64::from(self.next) * LINE
    }

    #[inline]
    fn publish(&mut self, memory: &impl Memory, lines: u32) {
        let here = self.here();
        self.next += lines;
        if self.next >= self.chunk.clean_to {
            memory.store(self.here(), 0);
            self.chunk.clean_to = self.next + 1;
        }
        memory.store(here, self.number);
        self.number = after(self.number);
        if let Some((at, number)) = self.link.take() {
            memory.store(at, number);
        }
    }

    /// Moves to another chunk unless the record and a link behind it have room in this one. The record has to follow.
    #[inline]
    fn make_room(
        &mut self,
        memory: &impl Memory,
        lines: u32,
        more: impl FnOnce() -> Option<u64>,
    ) -> Result<(), SendError> {
        if self.has_room(lines) || self.next_chunk(memory, more) { Ok(()) } else { Err(SendError::NoRoom) }
    }

    /// Whether the chunk has room for `lines` lines and a link behind them.
    #[inline]
    fn has_room(&self, lines: u32) -> bool {
        self.next + lines < self.chunk.lines
    }

    /// Whether `lines` lines have room here, and it is not better to turn back before.
    #[inline]
    fn is_near(&self, lines: u32) -> bool {
        let end =
            if lines <= RING_SHORT_LINES { self.chunk.lines.min(RING_NEAR_LINES) } else { self.chunk.lines };
        self.next + lines < end
    }

    /// Returns to the chunk before, if it is the only other one, and the receiver has left it.
    #[cold]
    fn turn_back(&mut self, memory: &impl Memory) -> bool {
        self.before.len() == 1 && self.next_chunk(memory, || None)
    }

    fn next_chunk(&mut self, memory: &impl Memory, more: impl FnOnce() -> Option<u64>) -> bool {
        let left = self.before.front().copied().filter(|chunk| can_be_reused(memory, chunk));
        let chunk = if let Some(chunk) = left {
            self.before.pop_front();
            chunk
        } else {
            let Some(at) = more() else { return false };
            Chunk::new(at, RING_CHUNK_LINES)
        };
        begin(memory, &chunk);
        let head = Head { kind: LINK, length: chunk.lines, places: [chunk.at, 0], ..Head::default() };
        head.write(memory, self.here());
        self.link = Some((self.here(), self.number));
        self.number = after(self.number);
        self.chunk.clean_to = self.chunk.clean_to.min(self.chunk.clean_next);
        self.chunk.clean_next = self.chunk.lines;
        self.before.push_back(std::mem::replace(&mut self.chunk, chunk));
        self.next = 1;
        true
    }
}

#[inline]
fn lines_of(length: usize) -> u32 {
    (length as u64 + BODY).div_ceil(LINE) as u32
}

/// Resets a chunk: its reader has not left it, and its first record is not there yet.
fn begin(memory: &impl Memory, chunk: &Chunk) {
    memory.store(chunk.at, 0);
    memory.store(chunk.at + LINE, 0);
}

fn can_be_reused(memory: &impl Memory, chunk: &Chunk) -> bool {
    chunk.lines == RING_CHUNK_LINES && is_left(memory, chunk)
}

fn is_left(memory: &impl Memory, chunk: &Chunk) -> bool {
    memory.load(chunk.at) != 0
}

/// Prefetches the lines of a record, if it is a message: they are in the cache by the time they are copied.
#[inline(always)]
pub fn prefetch_record(memory: &impl Memory, at: u64) {
    let length = memory.load(at + LENGTH) as usize;
    if length > IN_LINE && length <= INLINE_MAX {
        (1..u64::from(lines_of(length))).for_each(|line| memory.prefetch_read(at + line * LINE));
    }
}

/// The receiver's end.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    at: u64,
    lines: u32,
    next: u32,
    number: u32,
}

impl Reader {
    /// A ring whose first chunk is at this place, as announced by its sender.
    pub fn new(memory: &impl Memory, at: u64) -> Result<Self, OutOfBounds> {
        let at = Offset::within(memory, at, FIRST_CHUNK, LINE)?.get();
        Ok(Self { at, lines: RING_FIRST_CHUNK_LINES, next: 1, number: 1 })
    }

    /// A reader that never finds anything.
    pub fn nothing() -> Self {
        Self { at: u64::MAX - LINE, lines: 0, next: 0, number: 1 }
    }

    /// The place of the next record's number, and the number.
    #[inline]
    pub fn awaited(&self) -> (u64, u32) {
        (self.at + u64::from(self.next) * LINE, self.number)
    }

    /// Whether there is a record.
    #[inline]
    pub fn is_ready(&self, memory: &impl Memory) -> bool {
        let (at, number) = self.awaited();
        memory.load(at) == number
    }

    /// The head of the next record, its place, and the line behind the head.
    #[inline(always)]
    fn head(&self, memory: &impl Memory) -> Option<(u64, Head, [u8; IN_LINE])> {
        let (here, number) = self.awaited();
        if memory.load(here) != number {
            return None;
        }
        prefetch_record(memory, here);
        let line = memory.read_line(here);
        Some((here, Head::decode(&line), *line.last_chunk()?))
    }

    /// The next record if it is a message in the ring, and not the last in its chunk. It stays the next until it is passed.
    #[inline(always)]
    pub fn peek(&self, memory: &impl Memory) -> Option<Near> {
        let (here, head, first) = self.head(memory)?;
        let length = head.length as usize;
        let is_near =
            head.kind == INLINE && length <= INLINE_MAX && self.next + lines_of(length) < self.lines;
        is_near.then_some(Near { header: head.header, at: body_of(here), length, first })
    }

    /// The header of the next record if it is a message in a block.
    #[inline(always)]
    pub fn peek_block(&self, memory: &impl Memory) -> Option<MessageHeader> {
        let (_, head, _) = self.head(memory)?;
        (head.kind == BLOCK).then_some(head.header)
    }

    /// Passes what [`Self::peek`] has found.
    #[inline(always)]
    pub fn pass(&mut self, memory: &impl Memory, found: &Near) {
        let lines = lines_of(found.length);
        self.number = after(self.number);
        self.next += lines;
        if self.next + lines >= self.lines {
            // The chunk will be left soon.
            memory.prefetch_write(self.at);
        }
    }

    /// Receives the next record.
    #[inline]
    pub fn receive(&mut self, memory: &impl Memory) -> Result<Option<Record>, ReceiveError> {
        while let Some((here, head, _)) = self.head(memory) {
            self.number = after(self.number);
            let (lines, record) = match head.kind {
                LINK => {
                    self.follow(memory, head)?;
                    continue;
                }
                INLINE => {
                    let length = head.length as usize;
                    if length > INLINE_MAX {
                        return Err(ReceiveError::TooLong);
                    }
                    let place = Place::Inline { at: body_of(here), length };
                    (lines_of(length), Record::Message(head.header, place))
                }
                BLOCK => {
                    let [at, flag] = head.places;
                    let loan = Loan::new(memory, Lent { at, flag, length: head.length })?;
                    (1, Record::Message(head.header, Place::Block(loan)))
                }
                LEAVE => (1, Record::Leave),
                kind => return Err(ReceiveError::UnknownKind(kind)),
            };
            // Behind every record there is room for a link.
            self.next += lines;
            return if self.next < self.lines { Ok(Some(record)) } else { Err(ReceiveError::NoLink) };
        }
        Ok(None)
    }

    /// Follows a link to the next chunk, if that is the next record; whether it was.
    #[inline]
    pub fn follow_link(&mut self, memory: &impl Memory) -> bool {
        self.is_ready(memory) && self.follow_ready(memory)
    }

    #[cold]
    fn follow_ready(&mut self, memory: &impl Memory) -> bool {
        let Some((_, head, _)) = self.head(memory) else { return false };
        let is_followed = head.kind == LINK && self.follow(memory, head).is_ok();
        if is_followed {
            self.number = after(self.number);
        }
        is_followed
    }

    fn follow(&mut self, memory: &impl Memory, head: Head) -> Result<(), ReceiveError> {
        if head.length != RING_CHUNK_LINES {
            return Err(ReceiveError::OutOfBounds);
        }
        let at = Offset::within(memory, head.places[0], CHUNK, LINE)?;
        memory.store(self.at, 1);
        (self.at, self.lines, self.next) = (at.get(), head.length, 1);
        Ok(())
    }
}

/// Where the body begins of a record whose line is inside.
#[inline(always)]
fn body_of(line: u64) -> Offset {
    Offset::trusted(line + BODY)
}

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
mod tests;
