//! Bodies in default encoding that are not converted yet: elements in the host's own format, and of which kind they
//! are, run by run.
//!
//! Between tasks of one host nothing needs to be converted. What a program can see stays as if it were: lengths are
//! those of XDR, and a reader who asks for anything but what was packed gets it from the converted body.

use crate::copy::append;
use crate::element::{self, Element};
use crate::encoding::Encoding;
use crate::error::PvmError;
use crate::upper::Upper;
use std::ops::Range;

/// What elements are made of. Types of one kind have the same bytes in both forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes; XDR pads each call's to four.
    Byte,
    /// Two bytes; XDR extends them to four.
    Short,
    /// Four bytes: integers and floats.
    Word,
    /// Eight bytes: doubles.
    Double,
    /// A signed `long`, of which XDR carries the low half.
    Long,
    /// An unsigned `long`.
    ULong,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Byte, Self::Short, Self::Word, Self::Double, Self::Long, Self::ULong];
    const BITS: u32 = 3;

    /// Bytes of one in the host's format.
    pub const fn native(self) -> usize {
        1 << self.shift()
    }

    /// The same as a power of two, as it does not take a division.
    #[inline(always)]
    const fn shift(self) -> u32 {
        const SHIFTS: [u8; Kind::ALL.len()] = [0, 1, 2, 3, 3, 3];
        SHIFTS[self as usize] as u32
    }

    /// Bytes of `count` elements in XDR, packed by one call.
    #[inline(always)]
    fn xdr(self, count: usize) -> Option<usize> {
        match self {
            Self::Byte => count.checked_next_multiple_of(4),
            Self::Double => count.checked_mul(8),
            Self::Short | Self::Word | Self::Long | Self::ULong => count.checked_mul(4),
        }
    }

    /// What a checksum word says of a body of nothing but elements of this kind.
    fn word(self) -> u32 {
        ALONE | self as u32
    }

    /// The kind of which such a word says so.
    #[inline(always)]
    fn of_word(word: u32) -> Option<Self> {
        let kind = (word & ALONE != 0).then_some(word & !ALONE)?;
        Self::ALL.get(kind as usize).copied()
    }

    /// Whether what one call packed and what the next one does are as one call's.
    fn joins(self, count: usize) -> bool {
        self != Self::Byte || count.is_multiple_of(4)
    }
}

/// In a checksum word: all elements are of one kind, which the rest of the word tells, so no runs are behind them.
const ALONE: u32 = 0x8000_0000;

/// Elements of one kind that stand side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    kind: Kind,
    count: usize,
}

impl Run {
    /// Bytes of the longest encoding: seven bits in each.
    const LONGEST: usize = 10;
    /// So few elements of any kind have lengths that can be told.
    const FEW: usize = 1 << 28;

    /// Writes the run and returns its length.
    fn encode(self, out: &mut [u8; Self::LONGEST]) -> usize {
        let mut word = (self.count as u64) << Kind::BITS | self.kind as u64;
        let mut length = 0;
        while word >= 0x80 {
            out[length] = word as u8 | 0x80;
            word >>= 7;
            length += 1;
        }
        out[length] = word as u8;
        length + 1
    }

    /// The run at the start of these bytes, and its length; `None` if there is none.
    #[inline(always)]
    fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        match *bytes {
            // Most runs are of few elements, and take one byte.
            [word, ..] if word < 0x80 => Self::of_word(word.into()).map(|run| (run, 1)),
            _ => Self::decode_long(bytes),
        }
    }

    fn decode_long(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut word = 0_u64;
        for (index, &byte) in bytes.iter().enumerate().take(Self::LONGEST) {
            let bits = u64::from(byte & 0x7f);
            word |= bits.checked_shl(7 * index as u32).filter(|word| word >> (7 * index) == bits)?;
            if byte < 0x80 {
                return Self::of_word(word).map(|run| (run, index + 1));
            }
        }
        None
    }

    #[inline(always)]
    fn of_word(word: u64) -> Option<Self> {
        let kind = *Kind::ALL.get(word as usize & ((1 << Kind::BITS) - 1))?;
        let count = usize::try_from(word >> Kind::BITS).ok()?;
        (count > 0).then_some(Self { kind, count })
    }
}

/// The runs of a body under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// All, if there are several.
    encoded: Encoded,
    /// The last, and where it is among those, if it is.
    last: Option<(Run, usize)>,
    native: usize,
    xdr: usize,
}

impl Runs {
    /// Notes elements that one call packs.
    #[inline(always)]
    pub fn push<T: Element>(&mut self, count: usize) -> Result<(), PvmError> {
        let count = count.checked_mul(T::UNITS).ok_or(PvmError::NoMem)?;
        if count == 0 {
            return Ok(());
        }
        let kind = T::KIND;
        // Most messages are of one call.
        if self.last.is_none() && count < Run::FEW {
            self.last = Some((Run { kind, count }, 0));
            self.native = count * kind.native();
            self.xdr = if kind == Kind::Byte { count.next_multiple_of(4) } else { count * T::XDR / T::UNITS };
            return Ok(());
        }
        self.join(kind, count)
    }

    fn join(&mut self, kind: Kind, count: usize) -> Result<(), PvmError> {
        let native = count.checked_mul(kind.native()).and_then(|bytes| self.native.checked_add(bytes));
        let xdr = kind.xdr(count).and_then(|bytes| self.xdr.checked_add(bytes));
        let (native, xdr) = (native.ok_or(PvmError::NoMem)?, xdr.ok_or(PvmError::NoMem)?);
        let (run, start) = match self.last {
            Some((last, start)) if last.kind == kind && kind.joins(last.count) => {
                (Run { kind, count: last.count + count }, start)
            }
            Some((first, _)) if self.encoded.len() == 0 => {
                self.encoded.write(0, first);
                (Run { kind, count }, self.encoded.len())
            }
            _ => (Run { kind, count }, self.encoded.len()),
        };
        if self.encoded.len() > 0 {
            self.encoded.write(start, run);
        }
        (self.last, self.native, self.xdr) = (Some((run, start)), native, xdr);
        Ok(())
    }

    /// The one run there is.
    #[inline(always)]
    fn only(&self) -> Option<Run> {
        let (run, _) = self.last?;
        (self.encoded.len() == 0).then_some(run)
    }

    /// What the checksum word says of them.
    #[inline(always)]
    pub fn word(&self) -> u32 {
        // Each run describes at least one byte, and most many, so their length fits.
        self.only().map_or(self.encoded.len() as u32, |run| run.kind.word())
    }

    /// The body that they describe, converted: see [`Found::to_xdr`].
    pub fn to_xdr(&self, native: &[u8]) -> Result<(Vec<u8>, Upper), PvmError> {
        match self.only() {
            Some(run) => one_to_xdr(native, run),
            None => to_xdr(native, self.as_bytes()),
        }
    }

    /// Forgets them, keeping the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.encoded.clear();
        (self.last, self.native, self.xdr) = (None, 0, 0);
    }

    /// Their bytes, which stand behind the elements, if there are several.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.encoded.as_slice()
    }

    /// Whether the body is the same in XDR: nothing but bytes, as many as need no padding.
    #[inline]
    pub fn are_alike(&self) -> bool {
        self.native == self.xdr
            && self.encoded.len() == 0
            && self.last.is_none_or(|(run, _)| run.kind == Kind::Byte)
    }

    /// Length of the body in the host's format.
    #[inline]
    pub fn native_length(&self) -> usize {
        self.native
    }

    /// Length of the body in XDR.
    #[inline]
    pub fn xdr_length(&self) -> usize {
        self.xdr
    }
}

/// Bytes of short lists of runs, which most are.
const FEW: usize = 22;

/// Bytes that need no memory of their own while they are few.
#[derive(Clone, Debug)]
enum Encoded {
    Few(u8, [u8; FEW]),
    Many(Vec<u8>),
}

impl Default for Encoded {
    fn default() -> Self {
        Self::Few(0, [0; FEW])
    }
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Encoded {}

impl Encoded {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Few(length, bytes) => &bytes[..usize::from(*length).min(FEW)],
            Self::Many(bytes) => bytes,
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Few(length, _) => usize::from(*length),
            Self::Many(bytes) => bytes.len(),
        }
    }

    #[inline]
    fn clear(&mut self) {
        match self {
            Self::Few(length, _) => *length = 0,
            Self::Many(bytes) => bytes.clear(),
        }
    }

    /// Puts a run in the place of what stands from `start` on.
    #[inline]
    fn write(&mut self, start: usize, run: Run) {
        match self {
            // Most runs are of few elements, and take one byte.
            Self::Few(length, bytes) if run.count < 0x80 >> Kind::BITS && start < FEW => {
                bytes[start] = (run.count << Kind::BITS) as u8 | run.kind as u8;
                *length = start as u8 + 1;
            }
            _ => {
                let mut bytes = [0; Run::LONGEST];
                let length = run.encode(&mut bytes);
                self.replace(start, &bytes[..length]);
            }
        }
    }

    /// Puts these bytes in the place of those from `start` on.
    fn replace(&mut self, start: usize, new: &[u8]) {
        match self {
            Self::Few(length, bytes) if start + new.len() <= FEW => {
                bytes[start..start + new.len()].copy_from_slice(new);
                *length = (start + new.len()) as u8;
            }
            Self::Few(..) => *self = Self::Many([&self.as_slice()[..start], new].concat()),
            Self::Many(bytes) => {
                bytes.truncate(start);
                bytes.extend_from_slice(new);
            }
        }
    }
}

/// What is known of a body that is not converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Length of the elements in the host's format, bytes.
    pub native: usize,
    /// Length of the body in XDR.
    pub xdr: usize,
    /// What all elements are, if that is one kind.
    only: Option<Kind>,
}

/// What a body is made of that came with this checksum word. `None` if that cannot be.
#[inline(always)]
pub fn split(word: u32, body: &[u8]) -> Option<Found> {
    let Some(kind) = Kind::of_word(word) else { return many(word, body) };
    let native = body.len();
    let count = native >> kind.shift();
    let is_whole = count > 0 && count << kind.shift() == native;
    if is_whole { Some(Found { native, xdr: kind.xdr(count)?, only: Some(kind) }) } else { None }
}

impl Found {
    /// To read from the first element on.
    #[inline(always)]
    pub fn cursor(&self) -> Cursor {
        let left = self.only.map_or(0, |kind| self.native >> kind.shift());
        Cursor { next: 0, left, kind: self.only, native: 0, xdr: 0 }
    }

    /// Converts the body: its XDR, and what of its integers that does not carry.
    pub fn to_xdr(&self, body: &[u8]) -> Result<(Vec<u8>, Upper), PvmError> {
        let (elements, runs) = body.split_at(self.native.min(body.len()));
        match self.only {
            Some(kind) => one_to_xdr(elements, Run { kind, count: self.native >> kind.shift() }),
            None => to_xdr(elements, runs),
        }
    }
}

fn one_to_xdr(native: &[u8], run: Run) -> Result<(Vec<u8>, Upper), PvmError> {
    let mut encoded = [0; Run::LONGEST];
    let length = run.encode(&mut encoded);
    to_xdr(native, &encoded[..length])
}

#[inline(never)]
fn many(word: u32, body: &[u8]) -> Option<Found> {
    let native = body.len().checked_sub(word as usize)?;
    let (mut found, mut xdr) = (0_usize, 0_usize);
    let mut rest = &body[native..];
    while !rest.is_empty() {
        let (run, length) = Run::decode(rest)?;
        found = found.checked_add(run.count.checked_mul(run.kind.native())?)?;
        xdr = xdr.checked_add(run.kind.xdr(run.count)?)?;
        rest = &rest[length..];
    }
    (found == native).then_some(Found { native, xdr, only: None })
}

/// Converts a body: its XDR, and what of its integers that does not carry. Nothing is lost of a body whose runs
/// [`split`] has accepted, or [`Runs`] has counted.
fn to_xdr(native: &[u8], runs: &[u8]) -> Result<(Vec<u8>, Upper), PvmError> {
    let (mut out, mut upper) = (Vec::new(), Upper::default());
    let (mut rest, mut runs) = (native, runs);
    out.try_reserve(native.len().saturating_add(4)).map_err(|_| PvmError::NoMem)?;
    while let Some((run, length)) = Run::decode(runs) {
        runs = &runs[length..];
        let bytes = run.count.saturating_mul(run.kind.native()).min(rest.len());
        let (elements, after) = rest.split_at(bytes);
        rest = after;
        match run.kind {
            Kind::Byte => {
                append(elements, &mut out);
                out.resize(out.len().next_multiple_of(4), 0);
                Ok(())
            }
            Kind::Short => convert::<i16>(elements, &mut out, &mut upper),
            Kind::Word => convert::<u32>(elements, &mut out, &mut upper),
            Kind::Double => convert::<f64>(elements, &mut out, &mut upper),
            Kind::Long => convert::<i64>(elements, &mut out, &mut upper),
            Kind::ULong => convert::<u64>(elements, &mut out, &mut upper),
        }?;
    }
    Ok((out, upper))
}

fn convert<T: Element>(bytes: &[u8], out: &mut Vec<u8>, upper: &mut Upper) -> Result<(), PvmError> {
    let elements = bytes.chunks_exact(T::NATIVE).map(T::get_native);
    upper.note(out.len(), elements.clone())?;
    element::pack(out, Encoding::Xdr, elements)
}

/// How far a body in the host's format has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Where the next run is described.
    next: usize,
    /// What is left of the one at hand.
    left: usize,
    kind: Option<Kind>,
    native: usize,
    xdr: usize,
}

impl Cursor {
    /// Where elements stand that were packed as they are asked for now, in the host's format; they are passed over.
    /// With `None` the reader has to go on in XDR, from [`Self::position`].
    #[inline(always)]
    pub fn take<'a, T: Element>(
        &mut self,
        runs: impl FnOnce() -> &'a [u8],
        count: usize,
    ) -> Option<Range<usize>> {
        let count = count.checked_mul(T::UNITS)?;
        if self.left == 0 && count > 0 {
            let mut at = self.at_next_run(runs())?;
            let taken = at.take_here::<T>(count)?;
            *self = at;
            return Some(taken);
        }
        self.take_here::<T>(count)
    }

    /// The same, of the run at hand. Field by field: what was stored by halves has not come to the cache yet, and is not loaded
    /// whole before it has.
    #[inline(always)]
    fn take_here<T: Element>(&mut self, count: usize) -> Option<Range<usize>> {
        if count > self.left || count > 0 && self.kind != Some(T::KIND) {
            return None;
        }
        // Each call that reads bytes passes over the padding of those it has read.
        let passed = if T::KIND == Kind::Byte { count.next_multiple_of(4).min(self.left) } else { count };
        let start = self.native;
        self.left -= passed;
        self.native += passed * T::KIND.native();
        // No more than there is, so neither is what it takes.
        self.xdr +=
            if T::KIND == Kind::Byte { passed.next_multiple_of(4) } else { passed * T::XDR / T::UNITS };
        Some(start..start + count * T::KIND.native())
    }

    /// At the start of the next run.
    #[inline(never)]
    fn at_next_run(&self, runs: &[u8]) -> Option<Self> {
        let (run, length) = Run::decode(runs.get(self.next..)?)?;
        Some(Self { next: self.next + length, left: run.count, kind: Some(run.kind), ..*self })
    }

    /// How many bytes of XDR have been read.
    #[inline]
    pub fn position(&self) -> usize {
        self.xdr
    }
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
