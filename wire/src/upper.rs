//! The upper halves of 64-bit integers in XDR.
//!
//! PVM's XDR carries the low 32 bits of a `long`, and loses the others. Here a message keeps that form, which any
//! libpvm3 reads; behind it stand the upper halves that the low ones do not tell. The message header's checksum word,
//! which is 0 otherwise, says how many bytes these are, so that this library finds and removes them, and the original
//! does not notice more than a longer message.

use crate::element::Element;
use crate::error::PvmError;

/// Ends the upper halves, so that a checksum of a library that computes them is not taken for their length.
const END: [u8; 8] = *b"PVMupper";
/// Bytes of an entry: where in the body, and what.
const ENTRY: usize = 8;

/// The upper halves of the integers in one body, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upper {
    /// In the order of their positions.
    entries: Vec<(u32, u32)>,
}

impl Upper {
    /// None.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes what XDR does not carry of these elements, the first of which will stand at `position` of the body.
    pub fn note<T: Element>(
        &mut self,
        position: usize,
        elements: impl Iterator<Item = T>,
    ) -> Result<(), PvmError> {
        for (index, upper) in elements.enumerate().filter_map(|(i, element)| Some((i, element.upper()?))) {
            let place = index.checked_mul(T::XDR).and_then(|offset| offset.checked_add(position));
            let place = place.and_then(|place| u32::try_from(place).ok()).ok_or(PvmError::Overflow)?;
            self.entries.push((place, upper));
        }
        Ok(())
    }

    /// The element that was packed at this position, of which XDR has carried `low`.
    pub fn complete<T: Element>(&self, position: usize, low: T) -> T {
        let found = self.entries.binary_search_by_key(&position, |&(place, _)| place as usize);
        found.map_or(low, |index| low.with_upper(self.entries[index].1))
    }

    /// Takes over those of a body that is appended at `position`.
    pub fn append(&mut self, position: usize, other: &Self) -> Result<(), PvmError> {
        for &(place, upper) in &other.entries {
            let place = u32::try_from(position + place as usize).map_err(|_| PvmError::Overflow)?;
            self.entries.push((place, upper));
        }
        Ok(())
    }

    /// What stands behind the body: nothing, if there are none.
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let words = self.entries.iter().flat_map(|&(place, upper)| [place, upper]);
        words.flat_map(u32::to_be_bytes).chain(END).collect()
    }

    /// Length of [`Self::encode`]: the message header's checksum word.
    pub fn word(&self) -> u32 {
        if self.is_empty() { 0 } else { (self.entries.len() * ENTRY + END.len()) as u32 }
    }

    /// Finds them behind a body whose header has this checksum word: the length of the body proper, and they.
    pub fn split(word: u32, body: &[u8]) -> (usize, Self) {
        Self::decode(word as usize, body).unwrap_or((body.len(), Self::default()))
    }

    fn decode(length: usize, body: &[u8]) -> Option<(usize, Self)> {
        let end = body.len().checked_sub(length).filter(|_| length > END.len())?;
        let entries = body[end..].strip_suffix(&END)?;
        let (entries, []) = entries.as_chunks::<4>() else { return None };
        let (entries, []) = entries.as_chunks::<2>() else { return None };
        let entries: Vec<_> = entries
            .iter()
            .map(|&[place, upper]| (u32::from_be_bytes(place), u32::from_be_bytes(upper)))
            .collect();
        let sorted = entries.is_sorted_by(|a, b| a.0 < b.0);
        (sorted && entries.last()?.0 as usize + 4 <= end).then_some((end, Self { entries }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, element};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost(small in prop::collection::vec(any::<i32>(), 0..5), values: Vec<i64>, unsigned: Vec<u64>) {
            let (mut body, mut upper) = (Vec::new(), Upper::default());
            element::pack(&mut body, Encoding::Xdr, small.iter().copied()).unwrap();
            upper.note(body.len(), values.iter().copied()).unwrap();
            element::pack(&mut body, Encoding::Xdr, values.iter().copied()).unwrap();
            upper.note(body.len(), unsigned.iter().copied()).unwrap();
            element::pack(&mut body, Encoding::Xdr, unsigned.iter().copied()).unwrap();
            let packed = [&body[..], &upper.encode()].concat();
            prop_assert_eq!(packed.len(), body.len() + upper.word() as usize);
            let (length, found) = Upper::split(upper.word(), &packed);
            prop_assert_eq!((length, &found), (body.len(), &upper));
            let mut position = 4 * small.len();
            let start = position;
            let (mut back, mut unsigned_back) = (Vec::new(), Vec::new());
            let sink = |i, low: i64| back.push(found.complete(start + 4 * i, low));
            element::unpack(&packed[..length], &mut position, Some(Encoding::Xdr), values.len(), sink).unwrap();
            let start = position;
            let sink = |i, low: u64| unsigned_back.push(found.complete(start + 4 * i, low));
            element::unpack(&packed[..length], &mut position, Some(Encoding::Xdr), unsigned.len(), sink).unwrap();
            prop_assert_eq!((back, unsigned_back), (values, unsigned));
        }

        #[test]
        fn no_bytes_make_it_panic(word: u32, short in 0..64_u32, mut body: Vec<u8>) {
            body.extend(END);
            let _ = (Upper::split(word, &body), Upper::split(short, &body));
        }
    }

    #[test]
    fn what_fits_adds_nothing() {
        let mut upper = Upper::default();
        upper.note(0, [-1_i64, i64::from(i32::MIN), 7].into_iter()).unwrap();
        upper.note(12, [u64::from(u32::MAX)].into_iter()).unwrap();
        upper.note(16, [1.5_f64].into_iter()).unwrap();
        assert_eq!((upper.encode(), upper.word()), (Vec::new(), 0));
    }

    #[test]
    fn a_checksum_is_not_taken_for_a_length() {
        let body = [7; 64];
        assert_eq!(Upper::split(16, &body), (64, Upper::default()));
    }
}
