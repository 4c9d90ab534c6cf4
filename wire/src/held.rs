//! A message's body as it is held in memory.

use crate::copy::copied;
use crate::tuned::RING_BODY_LINES;
use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, RangeBounds};

/// Longest body that is held in place, bytes.
pub const SHORT: usize = 62;

/// Bytes that a ring between tasks hands over at once.
pub const LINE: usize = 32;

/// Bytes of memory that a body keeps for the next one that is put there. As many as fill lines of a ring behind a head.
pub const KEPT: usize = 32 + RING_BODY_LINES * 64;

/// A body: a short one in place, without memory of its own; a longer one shared by all its copies, or in memory that is kept.
#[derive(Clone)]
pub enum Body {
    /// Its length and bytes.
    Short(u8, [u8; SHORT]),
    /// Memory that it shares, whoever's that is.
    Shared(Bytes),
    /// Its length, and memory that is its own.
    Kept(u32, Box<[u8; KEPT]>),
}

impl Body {
    /// An empty body.
    pub const fn new() -> Self {
        Self::Short(0, [0; SHORT])
    }

    /// A body of the first `length` of these bytes, in place.
    #[inline(always)]
    pub fn of_line(length: usize, bytes: [u8; LINE]) -> Self {
        let mut held = [0; SHORT];
        held[..LINE].copy_from_slice(&bytes);
        Self::Short(length.min(LINE) as u8, held)
    }

    /// Becomes the body of the first `length` of these bytes.
    #[inline(always)]
    pub fn hold_line(&mut self, length: usize, bytes: &[u8; LINE]) {
        match self {
            Self::Short(held, place) => {
                *held = length.min(LINE) as u8;
                place[..LINE].copy_from_slice(bytes);
            }
            Self::Kept(held, place) => {
                *held = length.min(LINE) as u32;
                place[..LINE].copy_from_slice(bytes);
            }
            Self::Shared(_) => *self = Self::of_line(length, *bytes),
        }
    }

    /// Becomes a body of at most [`KEPT`] bytes, which `fill` writes, in memory that it goes on to keep.
    #[inline]
    pub fn hold(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) {
        if !matches!(self, Self::Kept(..)) {
            *self = Self::Kept(0, Box::new([0; KEPT]));
        }
        let Self::Kept(held, place) = self else { return };
        let length = length.min(KEPT);
        *held = length as u32;
        fill(&mut place[..length]);
    }

    /// Bytes of memory that it keeps.
    #[inline]
    pub fn capacity(&self) -> usize {
        if let Self::Kept(..) = self { KEPT } else { 0 }
    }

    /// Lets go of memory that others could use; nothing is left to be read.
    #[inline]
    pub fn let_go(&mut self) {
        match self {
            Self::Short(held, _) => *held = 0,
            Self::Kept(held, _) => *held = 0,
            Self::Shared(_) => *self = Self::new(),
        }
    }

    /// A copy of these bytes.
    pub fn copy_from_slice(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT {
            return Self::Shared(copied(bytes).into());
        }
        let mut held = [0; SHORT];
        held[..bytes.len()].copy_from_slice(bytes);
        Self::Short(bytes.len() as u8, held)
    }

    /// Drops what is behind the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        match self {
            Self::Short(held, _) => *held = length.min(usize::from(*held)) as u8,
            Self::Shared(bytes) => bytes.truncate(length),
            Self::Kept(held, _) => *held = length.min(*held as usize) as u32,
        }
    }

    /// A part, which shares the memory if there is any.
    ///
    /// # Panics
    /// As slices do, if the range is outside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Bytes {
        match self {
            Self::Short(..) | Self::Kept(..) => Bytes::copy_from_slice(self).slice(range),
            Self::Shared(bytes) => bytes.slice(range),
        }
    }

    /// The body as shared memory.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Short(..) | Self::Kept(..) => Bytes::copy_from_slice(&self),
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Body {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length).min(SHORT)],
            Self::Shared(bytes) => bytes,
            Self::Kept(length, bytes) => &bytes[..(*length as usize).min(KEPT)],
        }
    }
}

impl AsRef<[u8]> for Body {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Body {}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Shared(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Shared(bytes.into())
    }
}

impl From<Body> for Bytes {
    fn from(body: Body) -> Self {
        body.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn however_it_is_held_it_is_the_same(bytes in prop::collection::vec(any::<u8>(), 0..130), cut in 0..130_usize) {
            let (mut copied, mut shared) = (Body::copy_from_slice(&bytes), Body::from(bytes.clone()));
            prop_assert_eq!(&copied[..], &bytes[..]);
            prop_assert_eq!(&copied, &shared);
            let mut kept = shared.clone();
            kept.hold(bytes.len(), |place| place.copy_from_slice(&bytes));
            prop_assert_eq!(&kept, &shared);
            prop_assert_eq!(kept.clone().into_bytes(), shared.clone().into_bytes());
            kept.truncate(cut);
            prop_assert_eq!(&kept[..], &bytes[..cut.min(bytes.len())]);
            let middle = bytes.len() / 3..bytes.len() / 2;
            prop_assert_eq!(&copied.slice(middle.clone())[..], &bytes[middle.clone()]);
            prop_assert_eq!(copied.slice(middle.clone()), shared.slice(middle));
            copied.truncate(cut);
            shared.truncate(cut);
            prop_assert_eq!(&copied[..], &bytes[..cut.min(bytes.len())]);
            prop_assert_eq!(copied.into_bytes(), shared.into_bytes());
        }
    }

    #[test]
    fn what_is_held_next_takes_the_place_of_what_was_before() {
        for mut body in [Body::new(), Body::from(vec![1; 100])] {
            for length in [0, 5, LINE] {
                body.hold_line(length, &[2; LINE]);
                assert_eq!(body[..], [2; LINE][..length]);
                body.hold(KEPT, |place| place.fill(3));
                assert_eq!((&body[..], body.capacity()), (&[3; KEPT][..], KEPT));
            }
            body.let_go();
            assert!(body.is_empty());
        }
    }

    #[test]
    fn a_body_takes_a_cache_line() {
        assert_eq!(size_of::<Body>(), 64);
    }
}
