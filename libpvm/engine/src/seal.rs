//! Encryption of direct routes between hosts: third parties cannot read messages, and changes are detected.
//!
//! The two tasks agree on keys by Noise NN (<https://noiseprotocol.org>, revision 34, §7.5), whose two messages travel within
//! their request and answer about the route (`TC_CONREQ`, `TC_CONACK`). These go by the daemons, which authenticate their senders,
//! so that NN, which by itself authenticates nobody, is enough. The route carries records: two bytes of length, then the
//! sealed bytes.

use pvm_wire::copy::append;
use pvm_wire::tuned::{SEALED_AHEAD, SEALED_RECORD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use snow::resolvers::{DefaultResolver, FallbackResolver, RingResolver};
use snow::{Builder, HandshakeState};
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// X25519, AES-256-GCM, SHA-256.
const PROTOCOL: &str = "Noise_NN_25519_AESGCM_SHA256";

/// Bytes that sealing adds to a record.
const TAG: usize = 16;

/// Bytes of the length before each record.
const LENGTH: usize = 2;

/// Longest message of a handshake.
const HANDSHAKE_MAX: usize = 256;

const _: () = assert!(SEALED_RECORD + TAG <= u16::MAX as usize);

/// Bytes to read at a time: what the other end seals ahead.
pub(super) const AHEAD: usize = SEALED_AHEAD * (LENGTH + SEALED_RECORD + TAG);

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

/// The key of one direction, and the number of its next record.
struct Key {
    key: LessSafeKey,
    next: u64,
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Self> {
        let key = UnboundKey::new(&AES_256_GCM, bytes).ok()?;
        Some(Self { key: LessSafeKey::new(key), next: 0 })
    }

    /// The nonce of the next record (Noise, §5.1 and §12.4). None is used twice.
    fn nonce(&mut self) -> rustix::io::Result<Nonce> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or(Errno::BADMSG)?;
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - size_of::<u64>()..].copy_from_slice(&number.to_be_bytes());
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Seals the bytes from `begin` on where they lie, and appends the tag.
    fn seal(&mut self, bytes: &mut Vec<u8>, begin: usize) -> rustix::io::Result<()> {
        let (nonce, plain) = (self.nonce()?, &mut bytes[begin..]);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), plain);
        bytes.extend_from_slice(sealed.map_err(|_| Errno::BADMSG)?.as_ref());
        Ok(())
    }

    /// Opens the sealed bytes from `begin` on, and moves them to the front meanwhile; their number.
    fn open(&mut self, bytes: &mut [u8], begin: usize) -> rustix::io::Result<usize> {
        let nonce = self.nonce()?;
        let opened = self.key.open_within(nonce, Aad::empty(), bytes, begin..);
        opened.map(|plain| plain.len()).map_err(|_| Errno::BADMSG)
    }
}

/// The keys and buffers of both directions of a route.
pub(super) struct Seal {
    ours: Key,
    theirs: Key,
    /// Sealed records, of which the kernel has taken the first `sent` bytes. The memory is used again and again, so that it stays in the
    /// caches.
    sealed: Vec<u8>,
    sent: usize,
    /// The begin of a record whose rest has not come.
    come: Vec<u8>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seal {{ {} to send, {} to open }}", self.sealed.len() - self.sent, self.come.len())
    }
}

impl Seal {
    fn new(mut state: HandshakeState) -> Option<Self> {
        if !state.is_handshake_finished() {
            return None;
        }
        let (first, second) = state.dangerously_get_raw_split();
        let (ours, theirs) = if state.is_initiator() { (first, second) } else { (second, first) };
        let (ours, theirs) = (Key::new(&ours)?, Key::new(&theirs)?);
        Some(Self { ours, theirs, sealed: Vec::new(), sent: 0, come: Vec::new() })
    }

    /// Whether the kernel has taken all sealed bytes.
    pub(super) fn is_flushed(&self) -> bool {
        self.sent == self.sealed.len()
    }

    /// Seals bytes of these slices if the kernel has taken the last ones, and writes as much as it takes. Returns the number of
    /// bytes that were sealed: the caller must not pass them again.
    pub(super) fn write(&mut self, socket: &OwnedFd, slices: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        let taken = if self.is_flushed() { self.seal(slices)? } else { 0 };
        let rest = [IoSlice::new(&self.sealed[self.sent..])];
        match sendmsg(socket, &rest, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(count) => self.sent += count,
            // They are sealed, and written with the next call.
            Err(Errno::AGAIN) if taken > 0 => {}
            Err(error) => return Err(error),
        }
        Ok(taken)
    }

    /// Seals a few records: the receiver opens them while the next ones are sealed.
    fn seal(&mut self, slices: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        self.sealed.clear();
        self.sent = 0;
        let mut taken = 0;
        let mut left = slices.iter().flat_map(|slice| slice.chunks(SEALED_RECORD)).peekable();
        for _ in 0..SEALED_AHEAD {
            let Some(first) = left.next() else { break };
            let length_at = self.sealed.len();
            let begin = length_at + LENGTH;
            self.sealed.extend_from_slice(&[0; LENGTH]);
            append(first, &mut self.sealed);
            let mut length = first.len();
            while let Some(next) = left.next_if(|next| length + next.len() <= SEALED_RECORD) {
                append(next, &mut self.sealed);
                length += next.len();
            }
            self.ours.seal(&mut self.sealed, begin)?;
            let written = ((length + TAG) as u16).to_be_bytes();
            self.sealed[length_at..begin].copy_from_slice(&written);
            taken += length;
        }
        Ok(taken)
    }

    /// Reads once, and appends the content of complete records, which is opened where it is read to. Returns the number of sealed bytes
    /// read; 0 at the end.
    pub(super) fn read(&mut self, socket: &OwnedFd, opened: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let before = opened.len();
        opened.try_reserve_exact(self.wanted()).map_err(|_| Errno::NOMEM)?;
        append(&self.come, opened);
        let (read, end) = match rustix::io::read(socket, rustix::buffer::spare_capacity(opened)) {
            Ok(count) => (Ok(count), self.open(opened, before)),
            Err(error) => (Err(error), Ok(before)),
        };
        opened.truncate(*end.as_ref().unwrap_or(&before));
        end.and(read)
    }

    /// Room for what has come of a record and at least one byte more; for the whole record if its length has come.
    fn wanted(&self) -> usize {
        let length = self.come.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
        (LENGTH + length).max(self.come.len() + 1)
    }

    /// Opens the records from `end` on, and keeps the begin of the last one; the end of what was opened.
    fn open(&mut self, bytes: &mut [u8], mut end: usize) -> rustix::io::Result<usize> {
        let mut used = end;
        while let Some((length, rest)) = bytes[used..].split_first_chunk::<LENGTH>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if rest.len() < length {
                break;
            }
            let record = used + LENGTH..used + LENGTH + length;
            end += self.theirs.open(&mut bytes[end..record.end], record.start - end)?;
            used = record.end;
        }
        self.come.clear();
        append(&bytes[used..], &mut self.come);
        Ok(end)
    }
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
