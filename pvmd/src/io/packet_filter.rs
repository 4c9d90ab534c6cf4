//! Keeps packets from quinn to which it would answer although they come from nobody that a daemon has to do with.
//!
//! What opens a connection is the only kind of packet that an endpoint answers without knowing its sender. An endpoint that
//! only calls others answers it by a stateless reset; one that is called answers what it cannot use by a list of versions, or by closing
//! what was never open. Each answer tells a stranger that a daemon is here.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock};

/// Set in the first byte of packets that have a version and a type: those of handshakes.
const LONG: u8 = 0x80;
/// Where the type is, in the first byte of these.
const TYPE: u8 = 0x30;
/// The type of packets that open a connection.
const INITIAL: u8 = 0x00;
/// The first byte of a packet of a later handshake, which is dropped if its connection is unknown.
const HANDSHAKE: u8 = 0xe0;
/// The only version that daemons speak: that of RFC 9000.
const VERSION: [u8; 4] = [0, 0, 0, 1];
/// Least bytes of the connection id in the first packet of a connection (RFC 9000, 7.2).
const FIRST_ID_LEAST: u8 = 8;

/// Whose packets are answered.
#[derive(Debug)]
pub enum PacketFilter {
    /// Anybody's that can be the first packet of a connection.
    Called,
    /// Those of daemons that this one calls, by address.
    Calling(RwLock<HashSet<SocketAddr>>),
}

impl PacketFilter {
    /// For an endpoint that calls others.
    pub fn calling() -> Self {
        Self::Calling(RwLock::default())
    }

    /// This daemon is about to be called back from there.
    pub fn expect(&self, address: SocketAddr) {
        if let Self::Calling(expected) = self {
            expected.write().unwrap_or_else(PoisonError::into_inner).insert(canonical(address));
        }
    }

    /// Spoils those packets of one sender, of `stride` bytes each, that must not be answered.
    pub fn apply(&self, from: SocketAddr, packets: &mut [u8], stride: usize) {
        for packet in packets.chunks_mut(stride.max(1)) {
            // Nearly all packets end here.
            if packet.first().is_some_and(|first| first & LONG != 0) && !self.admits(from, packet) {
                spoil(packet);
            }
        }
    }

    fn admits(&self, from: SocketAddr, packet: &[u8]) -> bool {
        let [first, version @ .., id_length] = packet.first_chunk::<6>().copied().unwrap_or_default();
        match self {
            Self::Calling(expected) => {
                first & TYPE != INITIAL
                    || expected.read().unwrap_or_else(PoisonError::into_inner).contains(&canonical(from))
            }
            Self::Called => version == VERSION && (first & TYPE != INITIAL || id_length >= FIRST_ID_LEAST),
        }
    }
}

/// A socket of both families shows IPv4 addresses as IPv6 ones.
fn canonical(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = address.ip().to_canonical();
    SocketAddr::new(ip, address.port())
}

/// Becomes a packet of a connection that does not exist.
fn spoil(packet: &mut [u8]) {
    if let Some((first, rest)) = packet.split_first_mut() {
        *first = HANDSHAKE;
        let length = rest.len().min(VERSION.len());
        rest[..length].copy_from_slice(&VERSION[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: ([u8; 4], u16) = ([127, 0, 0, 1], 9);

    fn initial(version: u32, id_length: u8) -> Vec<u8> {
        let mut packet = vec![0xc3];
        packet.extend(version.to_be_bytes());
        packet.push(id_length);
        packet.resize(1200, 7);
        packet
    }

    fn passes(filter: &PacketFilter, packet: &[u8]) -> bool {
        let mut seen = packet.to_vec();
        filter.apply(FROM.into(), &mut seen, packet.len());
        assert!(seen == packet || seen.is_empty() || seen[0] == HANDSHAKE);
        seen == packet
    }

    #[test]
    fn who_calls_hears_first_packets_of_those_called_only() {
        let filter = PacketFilter::calling();
        assert!(!passes(&filter, &initial(1, 8)));
        assert!(passes(&filter, &[0x43; 100]), "short headers are quinn's business");
        filter.expect(FROM.into());
        assert!(passes(&filter, &initial(1, 8)));
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:9".parse().unwrap();
        let mut packet = initial(1, 8);
        filter.apply(mapped, &mut packet, 1200);
        assert_eq!(packet, initial(1, 8));
    }

    #[test]
    fn who_is_called_hears_what_can_be_a_first_packet() {
        let filter = PacketFilter::Called;
        assert!(passes(&filter, &initial(1, 8)));
        assert!(!passes(&filter, &initial(1, 7)), "quinn would close the connection");
        assert!(!passes(&filter, &initial(0x0a0a_0a0a, 8)), "quinn would list its versions");
        for short in 1..6 {
            passes(&filter, &initial(1, 8)[..short]);
        }
        assert!(passes(&filter, &[]));
    }

    #[test]
    fn of_many_packets_the_wrong_ones_are_spoilt() {
        let mut packets = [initial(1, 8), initial(2, 8), initial(1, 8)].concat();
        PacketFilter::Called.apply(FROM.into(), &mut packets, 1200);
        let spoilt = packets.chunks(1200).map(|packet| packet[0] == HANDSHAKE);
        assert!(spoilt.eq([false, true, false]));
    }
}
