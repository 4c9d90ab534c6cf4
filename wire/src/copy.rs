//! Copying that takes the same time wherever the bytes lie.
//!
//! The C library copies two thousand bytes and more by one instruction of the processor, `rep movsb`. Some processors (measured on AMD's
//! Zen 3) take up to thirty times as long for that if the bytes go 1 to 31 bytes further within a page than where they come from;
//! an array of `malloc`'s and a message behind a header lie like that. Less than that many bytes are copied by other
//! instructions, at the same speed as the one on its good days. So what is longer is copied in pieces.

use crate::tuned::{COPY_PIECE, COPY_WHOLE_FROM};
use bytes::BufMut;

/// The length in bytes of the pieces in which `length` bytes are best copied, one behind the other.
#[inline]
pub fn piece(length: usize) -> usize {
    if length < COPY_WHOLE_FROM { COPY_PIECE } else { length }
}

/// Copies as [`slice::copy_from_slice`] does.
///
/// # Panics
/// If the two are not of one length.
///
/// ```
/// let mut to = [0; 5000];
/// pvm_wire::copy::copy(&[7; 5000], &mut to);
/// assert_eq!(to, [7; 5000]);
/// ```
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "what is copied has a place of its length");
    let length = piece(from.len());
    for (from, to) in from.chunks(length).zip(to.chunks_mut(length)) {
        to.copy_from_slice(from);
    }
}

/// Copies to the end of a buffer.
#[inline]
pub fn append(from: &[u8], to: &mut impl BufMut) {
    from.chunks(piece(from.len())).for_each(|piece| to.put_slice(piece));
}

/// A copy.
pub fn copied<T: Copy>(from: &[T]) -> Vec<T> {
    let length = piece(size_of_val(from)) / size_of::<T>().max(1);
    let mut copy = Vec::with_capacity(from.len());
    from.chunks(length.max(1)).for_each(|piece| copy.extend_from_slice(piece));
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_once() {
        let from: Vec<u8> = (0..=COPY_WHOLE_FROM).map(|n| (n % 251) as u8).collect();
        for length in [
            0,
            1,
            COPY_PIECE - 1,
            COPY_PIECE,
            COPY_PIECE + 1,
            3 * COPY_PIECE + 7,
            COPY_WHOLE_FROM - 1,
            COPY_WHOLE_FROM,
            COPY_WHOLE_FROM + 1,
        ] {
            let from = &from[..length];
            assert_eq!(copied(from), from);
            let wide: Vec<[u8; 3]> = from.as_chunks().0.to_vec();
            assert_eq!(copied(&wide), wide);
            let mut to = vec![0; length];
            copy(from, &mut to);
            assert_eq!(to, from);
            append(from, &mut to);
            assert_eq!(to, [from, from].concat());
        }
    }
}
