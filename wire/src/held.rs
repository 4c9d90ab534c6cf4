//! A message's body as it is held in memory.

use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, RangeBounds};

/// Longest body that is held in place, bytes.
pub const SHORT: usize = 62;

/// Bytes that a ring between tasks hands over at once.
pub const LINE: usize = 32;

/// A body, never changed: a short one in place, without memory of its own; a longer one shared by all its copies.
#[derive(Clone)]
pub enum Body {
    /// Its length and bytes.
    Short(u8, [u8; SHORT]),
    /// Memory that it shares, whoever's that is.
    Shared(Bytes),
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
        if let Self::Short(held, place) = self {
            *held = length.min(LINE) as u8;
            place[..LINE].copy_from_slice(bytes);
        } else {
            *self = Self::of_line(length, *bytes);
        }
    }

    /// Lets go of memory that others could use.
    #[inline]
    pub fn let_go(&mut self) {
        if let Self::Shared(_) = self {
            *self = Self::new();
        }
    }

    /// A copy of these bytes.
    pub fn copy_from_slice(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT {
            return Self::Shared(Bytes::copy_from_slice(bytes));
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
        }
    }

    /// A part, which shares the memory if there is any.
    ///
    /// # Panics
    /// As slices do, if the range is outside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Bytes {
        match self {
            Self::Short(..) => Bytes::copy_from_slice(self).slice(range),
            Self::Shared(bytes) => bytes.slice(range),
        }
    }

    /// The body as shared memory.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Short(..) => Bytes::copy_from_slice(&self),
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

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length).min(SHORT)],
            Self::Shared(bytes) => bytes,
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
    fn a_body_takes_a_cache_line() {
        assert_eq!(size_of::<Body>(), 64);
    }
}
