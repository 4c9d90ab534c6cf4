//! The body of a message that has come, as it is read.

use crate::engine::Near;
use pvm_shm::{Mapping, Memory};
use pvm_wire::encoding::{LOCAL_WORD, XDR_WORD};
use pvm_wire::held::KEPT;
use pvm_wire::runs::{self, Found};
use pvm_wire::{Body, Cursor, Element, Encoding, MessageHeader, PvmError, Upper, element};

/// A body that has come.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    body: Body,
    upper: Upper,
    /// What is known of a body that is not converted.
    local: Option<Found>,
    position: usize,
}

impl Incoming {
    /// Nothing at all.
    pub const fn nothing() -> Self {
        Self { body: Body::new(), upper: Upper::new(), local: None, position: 0 }
    }

    /// The body of a message with this header, which becomes what a program may see of it.
    #[inline(always)]
    pub fn new(header: &mut MessageHeader, body: Body) -> Self {
        let mut incoming = Self { body, ..Self::default() };
        incoming.begin(header);
        incoming
    }

    /// Becomes the body of a message with this header, as [`Self::new`].
    #[inline]
    pub fn renew(&mut self, header: &mut MessageHeader, body: Body) {
        self.body = body;
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

    /// Its parts are passed one by one, as a message that is passed by reference has to lie in memory.
    #[inline(never)]
    fn hold(&mut self, memory: &Mapping, at: u64, length: usize) {
        debug_assert!(length <= KEPT, "longer bodies are not in rings");
        self.body.hold(length, |place| memory.read(at, place));
    }

    /// Bytes of memory that it keeps.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.body.capacity()
    }

    /// Lets go of memory that others could use; nothing of what is left is to be read.
    #[inline]
    pub fn let_go(&mut self) {
        self.body.let_go();
        if !self.upper.is_empty() {
            self.upper = Upper::default();
        }
    }

    #[inline(always)]
    fn begin(&mut self, header: &mut MessageHeader) {
        (self.local, self.position) = (None, 0);
        match header.encoding {
            LOCAL_WORD => {
                if let Some(found) = runs::split(header.checksum, &self.body) {
                    (header.encoding, header.checksum) = (XDR_WORD, 0);
                    self.local = Some(found);
                }
            }
            XDR_WORD if header.checksum != 0 => self.split_upper(header),
            _ => {}
        }
    }

    #[inline(never)]
    fn split_upper(&mut self, header: &mut MessageHeader) {
        let (length, upper) = Upper::split(header.checksum, &self.body);
        if !upper.is_empty() {
            self.body.truncate(length);
            (self.upper, header.checksum) = (upper, 0);
        }
    }

    /// Whether others may have the memory that it lies in.
    pub fn is_long(&self) -> bool {
        self.body.len() > KEPT
    }

    /// Copies it into memory that nobody else has.
    pub fn take_out(&mut self) {
        self.body = Body::copy_from_slice(&self.body);
    }

    /// Encoded length, bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.local.map_or(self.body.len(), |local| local.xdr)
    }

    /// The encoded body and the upper halves of its integers, which a body that came unconverted is converted for.
    pub fn encoded(&mut self) -> Result<(&[u8], &Upper), PvmError> {
        self.convert()?;
        Ok((&self.body, &self.upper))
    }

    /// Bytes of the encoded body that were read, or could not be.
    pub fn position(&self) -> usize {
        self.local.map_or(self.position, |local| local.cursor.position())
    }

    /// Goes back to the first element.
    #[inline]
    pub fn rewind(&mut self) {
        self.position = 0;
        if let Some(local) = &mut self.local {
            local.cursor = Cursor::default();
        }
    }

    /// The next elements, as they are in this host's memory, if that is how they came.
    #[inline(always)]
    pub fn take_native<T: Element>(&mut self, count: usize) -> Option<&[u8]> {
        let (body, local) = (&self.body, self.local.as_mut()?);
        let range = local.cursor.take::<T>(|| body.get(local.native..).unwrap_or_default(), count)?;
        body.get(range)
    }

    /// The next elements of a body in this host's format, if there are so many.
    #[inline(always)]
    pub fn take_raw<T: Element>(&mut self, count: usize) -> Option<&[u8]> {
        let end = count.checked_mul(T::NATIVE).and_then(|length| self.position.checked_add(length))?;
        let bytes = self.body.get(self.position..end).filter(|_| self.local.is_none())?;
        self.position = end;
        Some(bytes)
    }

    /// The next elements, as they are in this host's memory, if that is how they are in a body of this encoding.
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
        unpack(&self.body, &self.upper, &mut self.position, encoding, count, sink)
    }

    /// The next string, without its NUL.
    pub fn unpack_str(&mut self, encoding: Option<Encoding>) -> Result<&[u8], PvmError> {
        let Some(local) = self.local else {
            return element::unpack_str(&self.body, &mut self.position, encoding);
        };
        if let Some(range) = self.take_text() {
            return Ok(&self.body[range]);
        }
        // Whatever was read of it is read anew.
        self.local = Some(local);
        self.convert()?;
        element::unpack_str(&self.body, &mut self.position, encoding)
    }

    /// Where the next string stands in a body that is not converted, if it is one.
    fn take_text(&mut self) -> Option<std::ops::Range<usize>> {
        let length = i32::from_ne_bytes(*self.take_native::<i32>(1)?.first_chunk()?);
        let local = self.local.as_mut()?;
        let (elements, runs) = self.body.split_at(local.native.min(self.body.len()));
        let range = local.cursor.take::<u8>(|| runs, usize::try_from(length).ok()?)?;
        let text = elements.get(range.clone())?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Some(range.start..range.start + end)
    }

    /// Makes the body what it would be, had it come converted.
    fn convert(&mut self) -> Result<(), PvmError> {
        let Some(local) = self.local else { return Ok(()) };
        let (elements, runs) = self.body.split_at(local.native.min(self.body.len()));
        let (body, upper) = runs::to_xdr(elements, runs)?;
        (self.body, self.upper, self.local) = (body.into(), upper, None);
        self.position = local.cursor.position();
        Ok(())
    }

    /// Encoded bytes that were not read.
    pub fn left(&self) -> usize {
        self.len().saturating_sub(self.position())
    }

    /// Takes up to `length` bytes of the encoded body as they are, and passes over `padded`; fewer only at its end.
    pub fn take_encoded(&mut self, length: usize, padded: usize) -> Result<&[u8], PvmError> {
        self.convert()?;
        let (range, position) = extent(self.body.len(), self.position, length, padded);
        self.position = position;
        Ok(&self.body[range])
    }
}

/// The next `length` of `size` bytes from `position` on, as far as they go, and where what follows them begins.
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
