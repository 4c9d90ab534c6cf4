//! A body that is not in the message, but in memory that its sender shares.

use crate::header::{EOM, FragmentHeader, LENT, MessageHeader, SOM};
use crate::tuned::LENT_LEAST;

/// Where a lent body lies, and how its sender gets the memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Where it begins in the sender's segment.
    pub at: u64,
    /// The word there that the receiver sets when it needs the body no more.
    pub flag: u64,
    /// Its length, bytes.
    pub length: u32,
}

impl Lent {
    /// Bytes of the shortest body that is lent. Shorter ones are copied.
    pub const LEAST: usize = LENT_LEAST;
    /// Size on the wire, bytes.
    pub const SIZE: usize = 20;

    /// What stands in the body's place.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..8].copy_from_slice(&self.at.to_be_bytes());
        out[8..16].copy_from_slice(&self.flag.to_be_bytes());
        out[16..].copy_from_slice(&self.length.to_be_bytes());
        out
    }

    /// What a fragment that says so has in the body's place, behind the message header; `None` if that cannot be.
    pub fn decode(header: &FragmentHeader, data: &[u8]) -> Option<Self> {
        let (_, place) = data.split_first_chunk::<{ MessageHeader::SIZE }>()?;
        let place: &[u8; Self::SIZE] = place.try_into().ok()?;
        let (at, rest) = place.split_first_chunk()?;
        let (flag, rest) = rest.split_first_chunk()?;
        let length = u32::from_be_bytes(rest.try_into().ok()?);
        let lent = Self { at: u64::from_be_bytes(*at), flag: u64::from_be_bytes(*flag), length };
        (header.flags == SOM | EOM | LENT).then_some(lent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tid::Tid;

    #[test]
    fn a_place_survives_the_wire_and_nothing_else_is_one() {
        let lent = Lent { at: 1 << 33, flag: 4096, length: 5 };
        let data = [&[0; MessageHeader::SIZE][..], &lent.encode()].concat();
        let header = |flags| FragmentHeader { dst: Tid::ANY, src: Tid::ANY, length: 52, flags };
        assert_eq!(Lent::decode(&header(SOM | EOM | LENT), &data), Some(lent));
        for flags in [SOM | EOM, SOM | LENT, EOM | LENT, LENT] {
            assert_eq!(Lent::decode(&header(flags), &data), None);
        }
        for length in 0..data.len() {
            assert_eq!(Lent::decode(&header(SOM | EOM | LENT), &data[..length]), None);
        }
        let long = [&data[..], &[0]].concat();
        assert_eq!(Lent::decode(&header(SOM | EOM | LENT), &long), None);
    }
}
