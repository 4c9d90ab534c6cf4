//! The body of a received message, as it is read.

use crate::Near;
use pvm_shm::{Mapping, Memory, Offset, View};
use pvm_wire::copy::copy;
use pvm_wire::encoding::{LOCAL_WORD, XDR_WORD};
use pvm_wire::held::KEPT;
use pvm_wire::runs::{self, Found};
use pvm_wire::{Body, Cursor, Element, Encoding, MessageHeader, PvmError, Upper, element};

/// A received body.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    body: Body,
    /// Its place in the ring, if it is read there.
    view: Option<View>,
    upper: Upper,
    /// The reading state of a body that is not converted.
    local: Option<(Found, Cursor)>,
    position: usize,
}

impl Incoming {
    /// No body.
    pub const fn nothing() -> Self {
        Self { body: Body::new(), view: None, upper: Upper::new(), local: None, position: 0 }
    }

    /// The body of a message with this header, which becomes the header that programs see.
    #[inline(always)]
    pub fn new(header: &mut MessageHeader, body: Body) -> Self {
        let mut incoming = Self { body, ..Self::default() };
        incoming.begin(header);
        incoming
    }

    /// Replaces the body by that of a message with this header, as [`Self::new`].
    #[inline]
    pub fn renew(&mut self, header: &mut MessageHeader, body: Body) {
        (self.body, self.view) = (body, None);
        self.begin(header);
    }

    /// The same, of a message from a ring.
    #[inline(always)]
    pub fn renew_near(&mut self, header: &mut MessageHeader, near: &Near<'_>) {
        match near.line() {
            Some(line) => self.body.hold_line(near.found.length, line),
            None => self.hold(near.memory, near.found.at, near.found.length),
        }
        self.begin(header);
    }

    /// As [`Self::renew_near`], but a body of several lines stays in the ring: until [`Self::settle`], which has to come before
    /// anything else is read from the ring.
    #[inline(always)]
    pub fn renew_in_ring(&mut self, header: &mut MessageHeader, near: &Near<'_>) {
        match near.line() {
            Some(line) => {
                self.body.hold_line(near.found.length, line);
                View::close(&mut self.view);
            }
            None => View::open(&mut self.view, near.memory, near.found.at, near.found.length),
        }
        if !self.upper.is_empty() {
            self.upper = Upper::default();
        }
        self.begin(header);
    }

    /// Copies a body that lies in a ring, so that the ring can be read further.
    #[inline(never)]
    pub fn settle(&mut self) {
        if let Some(bytes) = self.view.take().as_ref().and_then(View::bytes) {
            self.body.hold(bytes.len(), |place| copy(bytes, place));
        }
    }

    /// The received bytes.
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        bytes_of(self.view.as_ref(), &self.body)
    }

    /// Its parts are passed one by one, as a message that is passed by reference has to lie in memory.
    #[inline(never)]
    fn hold(&mut self, memory: &Mapping, at: Offset, length: usize) {
        debug_assert!(length <= KEPT, "longer bodies are not in rings");
        self.body.hold(length, |place| memory.read(at.get(), place));
    }

    /// Bytes of its memory.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.body.capacity()
    }

    /// Releases memory that others could use; the body must not be read any more.
    #[inline]
    pub fn release(&mut self) {
        self.body.let_go();
        View::close(&mut self.view);
        if !self.upper.is_empty() {
            self.upper = Upper::default();
        }
    }

    #[inline(always)]
    fn begin(&mut self, header: &mut MessageHeader) {
        (self.local, self.position) = (None, 0);
        match header.encoding {
            LOCAL_WORD => {
                if let Some(found) = runs::split(header.checksum, self.bytes()) {
                    (header.encoding, header.checksum) = (XDR_WORD, 0);
                    self.local = Some((found, found.cursor()));
                }
            }
            XDR_WORD if header.checksum != 0 => header.checksum = self.split_upper(header.checksum),
            _ => {}
        }
    }

    /// Takes off the upper halves that this checksum word announces behind the body; returns the remaining word.
    // By value and out of line, so that the caller's header stays in registers.
    #[inline(never)]
    fn split_upper(&mut self, word: u32) -> u32 {
        let (length, upper) = Upper::split(word, self.bytes());
        if upper.is_empty() {
            return word;
        }
        self.settle();
        self.body.truncate(length);
        self.upper = upper;
        0
    }

    /// Whether it lies in private memory or in the ring.
    #[inline(always)]
    pub fn is_own(&self) -> bool {
        matches!(self.body, Body::Short(..) | Body::Kept(..))
    }

    /// Whether the body may be in others' memory.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.bytes().len() > KEPT
    }

    /// Copies it into private memory.
    #[inline]
    pub fn take_out(&mut self) {
        self.body = Body::copy_from_slice(self.bytes());
        self.view = None;
    }

    /// Encoded length, bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.local.map_or(self.bytes().len(), |(found, _)| found.xdr)
    }

    /// The encoded body and the upper halves of its integers, which a body that came unconverted is converted for.
    #[inline]
    pub fn encoded(&mut self) -> Result<(&[u8], &Upper), PvmError> {
        self.convert()?;
        Ok((bytes_of(self.view.as_ref(), &self.body), &self.upper))
    }

    /// Bytes of the encoded body that were read, or could not be.
    #[inline]
    pub fn position(&self) -> usize {
        self.local.map_or(self.position, |(_, cursor)| cursor.position())
    }

    /// Goes back to the first element.
    #[inline]
    pub fn rewind(&mut self) {
        self.position = 0;
        if let Some((found, cursor)) = &mut self.local {
            *cursor = found.cursor();
        }
    }

    /// The next elements in this host's format, if they were received in it.
    #[inline(always)]
    pub fn take_native<T: Element>(&mut self, count: usize) -> Option<&[u8]> {
        let (body, (found, cursor)) = (bytes_of(self.view.as_ref(), &self.body), self.local.as_mut()?);
        let range = cursor.take::<T>(|| body.get(found.native..).unwrap_or_default(), count)?;
        body.get(range)
    }

    /// The next elements of a body in this host's format, if there are `count`.
    #[inline(always)]
    pub fn take_raw<T: Element>(&mut self, count: usize) -> Option<&[u8]> {
        let end = count.checked_mul(T::NATIVE).and_then(|length| self.position.checked_add(length))?;
        let bytes = bytes_of(self.view.as_ref(), &self.body).get(self.position..end);
        let bytes = bytes.filter(|_| self.local.is_none())?;
        self.position = end;
        Some(bytes)
    }

    /// The next elements in this host's format, if a body of this encoding has it.
    #[inline(always)]
    pub fn take_as_is<T: Element>(&mut self, encoding: u32, count: usize) -> Option<&[u8]> {
        if self.local.is_some() {
            self.take_native::<T>(count)
        } else {
            Encoding::of_word(encoding)
                .filter(|&is| is == Encoding::Raw)
                .and_then(|_| self.take_raw::<T>(count))
        }
    }

    /// Hands the next elements to `sink`.
    pub fn unpack<T: Element>(
        &mut self,
        encoding: Option<Encoding>,
        count: usize,
        mut sink: impl FnMut(usize, T),
    ) -> Result<(), PvmError> {
        if let Some(bytes) = self.take_native::<T>(count) {
            bytes
                .chunks_exact(T::NATIVE)
                .map(T::get_native)
                .enumerate()
                .for_each(|(i, value)| sink(i, value));
            return Ok(());
        }
        self.convert()?;
        let body = bytes_of(self.view.as_ref(), &self.body);
        unpack(body, &self.upper, &mut self.position, encoding, count, sink)
    }

    /// The next string, without its NUL.
    pub fn unpack_str(&mut self, encoding: Option<Encoding>) -> Result<&[u8], PvmError> {
        if let Some(local) = self.local {
            if let Some(range) = self.take_text() {
                return self.bytes().get(range).ok_or(PvmError::NoData);
            }
            // A part of it may have been read before.
            self.local = Some(local);
            self.convert()?;
        }
        element::unpack_str(bytes_of(self.view.as_ref(), &self.body), &mut self.position, encoding)
    }

    /// The place of the next string in a body that is not converted, if there is a string.
    fn take_text(&mut self) -> Option<std::ops::Range<usize>> {
        let length = i32::from_ne_bytes(*self.take_native::<i32>(1)?.first_chunk()?);
        let (body, (found, cursor)) = (bytes_of(self.view.as_ref(), &self.body), self.local.as_mut()?);
        let (elements, runs) = body.split_at(found.native.min(body.len()));
        let range = cursor.take::<u8>(|| runs, usize::try_from(length).ok()?)?;
        let text = elements.get(range.clone())?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Some(range.start..range.start + end)
    }

    /// Converts the body to XDR.
    fn convert(&mut self) -> Result<(), PvmError> {
        let Some((found, cursor)) = self.local else { return Ok(()) };
        let (body, upper) = found.to_xdr(self.bytes())?;
        (self.body, self.view, self.upper, self.local) = (body.into(), None, upper, None);
        self.position = cursor.position();
        Ok(())
    }

    /// Encoded bytes that were not read.
    #[inline]
    pub fn left(&self) -> usize {
        self.len().saturating_sub(self.position())
    }

    /// Takes up to `length` bytes of the encoded body, and skips to `padded`; fewer only at its end.
    pub fn take_encoded(&mut self, length: usize, padded: usize) -> Result<&[u8], PvmError> {
        self.convert()?;
        let body = bytes_of(self.view.as_ref(), &self.body);
        let (range, position) = extent(body.len(), self.position, length, padded);
        self.position = position;
        Ok(&body[range])
    }
}

/// The received bytes, of which `view` are those that are still in a ring.
#[inline(always)]
fn bytes_of<'a>(view: Option<&'a View>, body: &'a Body) -> &'a [u8] {
    view.and_then(View::bytes).unwrap_or(body)
}

/// The next `length` of `size` bytes from `position` on, as far as they go, and the begin of the next item.
pub fn extent(size: usize, position: usize, length: usize, padded: usize) -> (std::ops::Range<usize>, usize) {
    let start = position.min(size);
    (start..start.saturating_add(length).min(size), start.saturating_add(padded).min(size))
}

/// Hands the next elements of an encoded body to `sink`.
pub fn unpack<T: Element>(
    body: &[u8],
    upper: &Upper,
    position: &mut usize,
    encoding: Option<Encoding>,
    count: usize,
    mut sink: impl FnMut(usize, T),
) -> Result<(), PvmError> {
    if upper.is_empty() {
        return element::unpack(body, position, encoding, count, sink);
    }
    let start = *position;
    let sink = |index, low: T| sink(index, upper.complete(start + index * T::XDR, low));
    element::unpack(body, position, encoding, count, sink)
}
