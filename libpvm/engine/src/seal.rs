//! Encryption of direct routes between hosts: third parties cannot read messages, and changes are detected.
//!
//! The two tasks agree on keys by Noise NN (<https://noiseprotocol.org>, revision 34, §7.5), whose two messages travel within
//! their request and answer about the route (`TC_CONREQ`, `TC_CONACK`). These go by the daemons, which authenticate their senders,
//! so that NN, which by itself authenticates nobody, is enough. The route carries records: two bytes of length, then the
//! sealed bytes.

use pvm_wire::tuned::SEALED_AHEAD;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use snow::resolvers::{DefaultResolver, FallbackResolver, RingResolver};
use snow::{Builder, HandshakeState, TransportState};
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// X25519, AES-256-GCM, SHA-256.
const PROTOCOL: &str = "Noise_NN_25519_AESGCM_SHA256";

/// Bytes that sealing adds to a record.
const TAG: usize = 16;

/// Bytes of the length before each record.
const LENGTH: usize = 2;

/// Most that is sealed in one record.
const PLAIN_MAX: usize = u16::MAX as usize - TAG;

/// Longest message of a handshake.
const HANDSHAKE_MAX: usize = 256;

fn builder() -> Option<Builder<'static>> {
    let resolver = FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver));
    Some(Builder::with_resolver(PROTOCOL.parse().ok()?, Box::new(resolver)))
}

fn write_handshake(state: &mut HandshakeState) -> Option<Vec<u8>> {
    let mut message = vec![0; HANDSHAKE_MAX];
    let length = state.write_message(&[], &mut message).ok()?;
    message.truncate(length);
    Some(message)
}

fn read_handshake(state: &mut HandshakeState, message: &[u8]) -> Option<()> {
    state.read_message(message, &mut [0; HANDSHAKE_MAX]).ok().map(drop)
}

/// The half of the keys of the task that asks for a route.
pub(super) struct Offer(Box<HandshakeState>);

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Offer")
    }
}

impl Offer {
    /// A new offer, and the handshake message for the peer.
    pub(super) fn new() -> Option<(Self, Vec<u8>)> {
        let mut state = builder()?.build_initiator().ok()?;
        let message = write_handshake(&mut state)?;
        Some((Self(Box::new(state)), message))
    }

    /// The seal, from the peer's answer.
    pub(super) fn complete(mut self, answer: &[u8]) -> Option<Seal> {
        read_handshake(&mut self.0, answer)?;
        Seal::new(*self.0)
    }
}

/// The seal for an offer, and the answer.
pub(super) fn accept(offer: &[u8]) -> Option<(Seal, Vec<u8>)> {
    let mut state = builder()?.build_responder().ok()?;
    read_handshake(&mut state, offer)?;
    let answer = write_handshake(&mut state)?;
    Some((Seal::new(state)?, answer))
}

/// The keys and buffers of both directions of a route.
pub(super) struct Seal {
    keys: TransportState,
    /// The first `filled` bytes are sealed records, of which the kernel has taken the first `sent`.
    sealed: Vec<u8>,
    filled: usize,
    sent: usize,
    /// Sealed bytes that were received.
    come: Vec<u8>,
    plain: Vec<u8>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seal {{ {} to send, {} to open }}", self.filled - self.sent, self.come.len())
    }
}

impl Seal {
    fn new(state: HandshakeState) -> Option<Self> {
        let keys = state.into_transport_mode().ok()?;
        Some(Self { keys, sealed: Vec::new(), filled: 0, sent: 0, come: Vec::new(), plain: Vec::new() })
    }

    /// Whether the kernel has taken all sealed bytes.
    pub(super) fn is_flushed(&self) -> bool {
        self.sent == self.filled
    }

    /// Seals bytes of these slices if the kernel has taken the last ones, and writes as much as it takes. Returns the number of
    /// bytes that were sealed: the caller must not pass them again.
    pub(super) fn write(&mut self, socket: &OwnedFd, slices: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        let taken = if self.is_flushed() { self.seal(slices)? } else { 0 };
        let rest = [IoSlice::new(&self.sealed[self.sent..self.filled])];
        match sendmsg(socket, &rest, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(count) => self.sent += count,
            // They are sealed, and written with the next call.
            Err(Errno::AGAIN) if taken > 0 => {}
            Err(error) => return Err(error),
        }
        Ok(taken)
    }

    fn seal(&mut self, slices: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        (self.filled, self.sent) = (0, 0);
        let mut taken = 0;
        let mut left = slices.iter().flat_map(|slice| slice.chunks(PLAIN_MAX)).peekable();
        for _ in 0..SEALED_AHEAD {
            let Some(first) = left.next() else { break };
            let fits = |length: usize| move |next: &&[u8]| length + next.len() <= PLAIN_MAX;
            // Most of a long message is sealed from where it lies.
            let mut plain = first;
            if left.peek().is_some_and(|next| fits(first.len())(next)) {
                self.plain.clear();
                self.plain.extend_from_slice(first);
                while let Some(next) = left.next_if(fits(self.plain.len())) {
                    self.plain.extend_from_slice(next);
                }
                plain = &self.plain;
            }
            taken += plain.len();
            self.filled = seal_record(&mut self.keys, plain, &mut self.sealed, self.filled)?;
        }
        Ok(taken)
    }

    /// Reads once, and appends the content of complete records. Returns the number of sealed bytes read; 0 at the end.
    pub(super) fn read(&mut self, socket: &OwnedFd, opened: &mut Vec<u8>) -> rustix::io::Result<usize> {
        self.come.reserve(SEALED_AHEAD * (LENGTH + PLAIN_MAX + TAG));
        let count = rustix::io::read(socket, rustix::buffer::spare_capacity(&mut self.come))?;
        let mut used = 0;
        while let Some((length, rest)) = self.come[used..].split_first_chunk::<LENGTH>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(record) = rest.get(..length) else { break };
            let before = opened.len();
            opened.resize(before + length, 0);
            let plain = self.keys.read_message(record, &mut opened[before..]).map_err(|_| Errno::BADMSG)?;
            opened.truncate(before + plain);
            used += LENGTH + length;
        }
        self.come.drain(..used);
        Ok(count)
    }
}

/// Seals a record behind the first `filled` bytes; the end of the record. The buffer grows to the most that was ever needed.
fn seal_record(
    keys: &mut TransportState,
    plain: &[u8],
    sealed: &mut Vec<u8>,
    filled: usize,
) -> rustix::io::Result<usize> {
    let (begin, length) = (filled + LENGTH, plain.len() + TAG);
    let end = begin + length;
    if sealed.len() < end {
        sealed.resize(end, 0);
    }
    sealed[filled..begin].copy_from_slice(&(length as u16).to_be_bytes());
    keys.write_message(plain, &mut sealed[begin..end]).map_err(|_| Errno::BADMSG)?;
    Ok(end)
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
