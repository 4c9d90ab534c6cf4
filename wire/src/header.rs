//! The two headers of PVM's task streams: 16 bytes per fragment, 32 more in the first fragment of a message.

use crate::tid::Tid;

/// Flag: first fragment of a message (it carries the message header).
pub const SOM: u8 = 1;
/// Flag: last fragment of a message.
pub const EOM: u8 = 2;
/// Flag, between a task and its daemon if both are this system's: the whole message's body lies in memory that the sender
/// shares, and a [`crate::Lent`] in its place.
pub const LENT: u8 = 0x40;

/// What precedes every fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    /// Receiver.
    pub dst: Tid,
    /// Sender; the daemon overwrites it with the connection's own id.
    pub src: Tid,
    /// Bytes that follow, the message header of a first fragment included.
    pub length: u32,
    /// [`SOM`] and [`EOM`]; [`LENT`].
    pub flags: u8,
}

impl FragmentHeader {
    /// Size on the wire, bytes.
    pub const SIZE: usize = 16;

    /// The bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..4].copy_from_slice(&self.dst.bits().to_be_bytes());
        out[4..8].copy_from_slice(&self.src.bits().to_be_bytes());
        out[8..12].copy_from_slice(&self.length.to_be_bytes());
        out[12] = self.flags;
        out
    }

    /// The header in these bytes; flags other than these are the original daemon's business and dropped.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            dst: Tid::from_bits(be32(bytes, 0)),
            src: Tid::from_bits(be32(bytes, 4)),
            length: be32(bytes, 8),
            flags: bytes[12] & (SOM | EOM | LENT),
        }
    }

    /// Whether this is the first fragment of a message.
    pub fn is_first(&self) -> bool {
        self.flags & SOM != 0
    }

    /// Whether this is the last fragment of a message.
    pub fn is_last(&self) -> bool {
        self.flags & EOM != 0
    }
}

/// What stands at the start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MessageHeader {
    /// How the body is encoded: [`crate::encoding`].
    pub encoding: u32,
    /// The message's tag.
    pub tag: i32,
    /// The context in which it was sent.
    pub context: i32,
    /// Carried from end to end; pairs requests and replies.
    pub wait_id: i32,
    /// 0, unless a library was built with checksums.
    pub checksum: u32,
}

impl MessageHeader {
    /// Size on the wire, bytes.
    pub const SIZE: usize = 32;

    /// The bytes. The three words that PVM never writes are 0 here.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..4].copy_from_slice(&self.encoding.to_be_bytes());
        out[4..8].copy_from_slice(&self.tag.to_be_bytes());
        out[8..12].copy_from_slice(&self.context.to_be_bytes());
        out[16..20].copy_from_slice(&self.wait_id.to_be_bytes());
        out[20..24].copy_from_slice(&self.checksum.to_be_bytes());
        out
    }

    /// The header in these bytes.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            encoding: be32(bytes, 0),
            tag: be32(bytes, 4) as i32,
            context: be32(bytes, 8) as i32,
            wait_id: be32(bytes, 16) as i32,
            checksum: be32(bytes, 20),
        }
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_request_of_a_real_task() {
        // Recorded from libpvm 3.4.6 (reference, section 4.2).
        let bytes = *b"\x80\0\0\0\xff\xff\xff\xff\0\0\0\x28\x03\0\0\0";
        let header = FragmentHeader::decode(&bytes);
        assert_eq!(
            header,
            FragmentHeader { dst: Tid::MY_DAEMON, src: Tid::ANY, length: 0x28, flags: SOM | EOM }
        );
        assert_eq!(header.encode(), bytes);
    }

    proptest! {
        #[test]
        fn headers_survive_the_wire(fragment: [u8; 16], message: [u8; 32]) {
            let f = FragmentHeader::decode(&fragment);
            prop_assert_eq!(FragmentHeader::decode(&f.encode()), f);
            let m = MessageHeader::decode(&message);
            prop_assert_eq!(MessageHeader::decode(&m.encode()), m);
        }
    }
}
