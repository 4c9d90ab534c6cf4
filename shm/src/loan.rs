//! Places in a segment that another task has sent, checked once on receipt.

use crate::memory::Memory;
use pvm_wire::Lent;
use pvm_wire::limits::MESSAGE_MAX;
use std::fmt;

/// Bytes of a flag.
const FLAG: u64 = 4;

/// A place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(u64);

impl Offset {
    /// The place `at`, if it is a multiple of `alignment` and `length` bytes from there on are inside.
    #[inline]
    pub fn within(memory: &impl Memory, at: u64, length: u64, alignment: u64) -> Result<Self, OutOfBounds> {
        let fits = at.is_multiple_of(alignment) && memory.has(at, length);
        if fits { Ok(Self(at)) } else { Err(OutOfBounds) }
    }

    /// A place from the arena, or behind one that was checked.
    #[inline]
    pub(crate) const fn trusted(at: u64) -> Self {
        Self(at)
    }

    /// Bytes from the segment's start.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A place outside the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shared memory has no such place")
    }
}

impl std::error::Error for OutOfBounds {}

/// A body in its sender's segment, and the flag by which the receiver gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    body: Offset,
    length: usize,
    flag: Offset,
}

impl Loan {
    /// The memory that a sender lends, if all of it is in its segment.
    #[inline]
    pub fn new(memory: &impl Memory, lent: Lent) -> Result<Self, OutOfBounds> {
        let body = Offset::within(memory, lent.at, lent.length.into(), 1)?;
        let flag = Offset::within(memory, lent.flag, FLAG, FLAG)?;
        let length = lent.length as usize;
        if length > MESSAGE_MAX { Err(OutOfBounds) } else { Ok(Self { body, length, flag }) }
    }

    /// Where the body is.
    #[inline]
    pub fn body(&self) -> Offset {
        self.body
    }

    /// Bytes of the body.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Releases the memory: the sender may use it again.
    #[inline]
    pub fn release(&self, memory: &impl Memory) {
        memory.store(self.flag.get(), 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::heap::Heap;

    #[test]
    fn only_what_lies_inside_is_a_loan() {
        let memory = Heap::new(8192);
        let lent = Lent { at: 4090, length: 4102, flag: 8188 };
        let loan = Loan::new(&memory, lent).unwrap();
        assert_eq!((loan.body().get(), loan.length(), memory.load(8188)), (4090, 4102, 0));
        loan.release(&memory);
        assert_eq!(memory.load(8188), 1);
        for wrong in [
            Lent { at: 4091, ..lent },
            Lent { at: u64::MAX, length: 2, ..lent },
            Lent { length: u32::MAX, ..lent },
            Lent { flag: 8192, ..lent },
            Lent { flag: 2, ..lent },
            Lent { flag: u64::MAX, ..lent },
        ] {
            assert_eq!(Loan::new(&memory, wrong), Err(OutOfBounds), "{wrong:?}");
        }
    }

    #[test]
    fn a_place_is_aligned_and_has_its_length() {
        let memory = Heap::new(8192);
        let within = |at, length, alignment| Offset::within(&memory, at, length, alignment).map(Offset::get);
        assert_eq!((within(64, 8128, 64), within(8192, 0, 1)), (Ok(64), Ok(8192)));
        for (at, length, alignment) in [(64, 8129, 64), (32, 8, 64), (u64::MAX, 2, 1)] {
            assert_eq!(within(at, length, alignment), Err(OutOfBounds));
        }
    }
}
