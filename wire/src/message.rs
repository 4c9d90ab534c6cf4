//! Whole messages, cut into fragments and put together again.

use crate::copy::{append, copied};
use crate::encoding::{LOCAL_WORD, XDR_WORD};
use crate::error::PvmError;
use crate::header::{EOM, FragmentHeader, MessageHeader, SOM};
use crate::held::Body;
use crate::limits::PARTIAL_MESSAGES_MAX;
use crate::runs;
use crate::tid::Tid;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::HashMap;

/// A message: header, body, and between whom.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// Sender.
    pub src: Tid,
    /// Receiver.
    pub dst: Tid,
    /// Encoding, tag, context, wait id.
    pub header: MessageHeader,
    /// The encoded data.
    pub body: Body,
}

/// Bytes of the headers that PVM reserves in each fragment buffer, whether first or not.
pub const FRAGMENT_OVERHEAD: usize = FragmentHeader::SIZE + MessageHeader::SIZE;

impl Message {
    /// The message as fragments of at most `fragment_size` bytes, headers included.
    pub fn fragments(&self, fragment_size: usize) -> impl Iterator<Item = (FragmentHeader, Bytes)> + '_ {
        let capacity = fragment_size.saturating_sub(FRAGMENT_OVERHEAD).max(1);
        let count = self.body.len().div_ceil(capacity).max(1);
        (0..count).map(move |i| {
            let piece = self.body.slice(i * capacity..((i + 1) * capacity).min(self.body.len()));
            let first = i == 0;
            let data = if first { self.with_header(&piece) } else { piece };
            let flags = if first { SOM } else { 0 } | if i + 1 == count { EOM } else { 0 };
            (FragmentHeader { dst: self.dst, src: self.src, length: data.len() as u32, flags }, data)
        })
    }

    /// The whole message in stream form, fragment after fragment.
    pub fn encode(&self, fragment_size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + self.body.len() / 64 + FRAGMENT_OVERHEAD);
        for (header, data) in self.fragments(fragment_size) {
            out.extend_from_slice(&header.encode());
            append(&data, &mut out);
        }
        out
    }

    /// The message with its body converted, if that was left to its receiver. One whose runs do not describe it stays
    /// what it is, which nobody can read.
    pub fn into_encoded(mut self) -> Result<Self, PvmError> {
        if self.header.encoding == LOCAL_WORD
            && let Some(found) = runs::split(self.header.checksum, &self.body)
        {
            let (mut body, upper) = found.to_xdr(&self.body)?;
            body.extend(upper.encode());
            (self.header.encoding, self.header.checksum) = (XDR_WORD, upper.word());
            self.body = body.into();
        }
        Ok(self)
    }

    fn with_header(&self, piece: &[u8]) -> Bytes {
        let mut data = BytesMut::with_capacity(MessageHeader::SIZE + piece.len());
        data.extend_from_slice(&self.header.encode());
        append(piece, &mut data);
        data.freeze()
    }
}

/// Why a fragment cannot be part of any message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// A first fragment too short for the message header.
    #[error("first fragment of {0} bytes is too short for a message header")]
    NoHeader(usize),
    /// A message longer than the limit.
    #[error("message exceeds the limit of {0} bytes")]
    TooLong(usize),
    /// Too many messages under way at once.
    #[error("more than {PARTIAL_MESSAGES_MAX} messages under way at once")]
    TooMany,
}

/// What came of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assembled {
    /// More is to come.
    Partial,
    /// A message is complete.
    Whole(Message),
    /// A continuation of nothing: dropped, to be logged.
    Stray,
}

/// Puts the fragments of one connection together, per source: those of different sources may interleave.
#[derive(Debug)]
pub struct Reassembler {
    limit: usize,
    partial: HashMap<Tid, (Tid, MessageHeader, Vec<u8>)>,
}

impl Reassembler {
    /// Takes messages of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, partial: HashMap::new() }
    }

    /// Takes one fragment. A new start replaces an unfinished message of the same source.
    pub fn push(&mut self, header: &FragmentHeader, mut data: Bytes) -> Result<Assembled, FragmentError> {
        if header.is_first() {
            let Some(head) = data.first_chunk::<{ MessageHeader::SIZE }>() else {
                return Err(FragmentError::NoHeader(data.len()));
            };
            let message_header = MessageHeader::decode(head);
            data.advance(MessageHeader::SIZE);
            self.check(data.len())?;
            if header.is_last() {
                self.partial.remove(&header.src);
                return Ok(Assembled::Whole(Message {
                    src: header.src,
                    dst: header.dst,
                    header: message_header,
                    body: data.into(),
                }));
            }
            if self.partial.len() >= PARTIAL_MESSAGES_MAX {
                return Err(FragmentError::TooMany);
            }
            self.partial.insert(header.src, (header.dst, message_header, copied(&data)));
            return Ok(Assembled::Partial);
        }
        let limit = self.limit;
        let Some((dst, message_header, body)) = self.partial.get_mut(&header.src) else {
            return Ok(Assembled::Stray);
        };
        if body.len() + data.len() > limit {
            return Err(FragmentError::TooLong(limit));
        }
        append(&data, body);
        if !header.is_last() {
            return Ok(Assembled::Partial);
        }
        let message = Message {
            src: header.src,
            dst: *dst,
            header: *message_header,
            body: std::mem::take(body).into(),
        };
        self.partial.remove(&header.src);
        Ok(Assembled::Whole(message))
    }

    /// The body of a source's unfinished message, for up to `more` bytes to be read into it without another copy.
    pub fn body_for(&mut self, src: Tid, more: usize) -> Result<Option<&mut Vec<u8>>, FragmentError> {
        let limit = self.limit;
        let Some((_, _, body)) = self.partial.get_mut(&src) else { return Ok(None) };
        if body.len().saturating_add(more) > limit {
            return Err(FragmentError::TooLong(limit));
        }
        Ok(Some(body))
    }

    /// Messages that have begun and not ended.
    pub fn len(&self) -> usize {
        self.partial.len()
    }

    /// Whether no message has begun and not ended.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Forgets what a source has begun.
    pub fn forget(&mut self, src: Tid) {
        self.partial.remove(&src);
    }

    /// What has begun and not ended: to be gone on with elsewhere. Each body is what has come of it.
    pub fn begun(&self) -> Vec<Message> {
        let each = |(&src, (dst, header, body)): (&Tid, &(Tid, MessageHeader, Vec<u8>))| Message {
            src,
            dst: *dst,
            header: *header,
            body: body.clone().into(),
        };
        self.partial.iter().map(each).collect()
    }

    /// Goes on with a message that has begun elsewhere, of which this has come.
    pub fn resume(&mut self, begun: &Message) -> Result<(), FragmentError> {
        self.check(begun.body.len())?;
        if self.partial.len() >= PARTIAL_MESSAGES_MAX {
            return Err(FragmentError::TooMany);
        }
        self.partial.insert(begun.src, (begun.dst, begun.header, begun.body.to_vec()));
        Ok(())
    }

    /// Whether a body may be so long.
    pub fn check(&self, length: usize) -> Result<(), FragmentError> {
        if length > self.limit { Err(FragmentError::TooLong(self.limit)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(src: u32, body: Vec<u8>) -> Message {
        let header = MessageHeader { tag: 7, ..MessageHeader::default() };
        Message { src: Tid::from_bits(src), dst: Tid::from_bits(0x40001), header, body: body.into() }
    }

    proptest! {
        #[test]
        fn messages_survive_cutting_and_interleaving(
            a in prop::collection::vec(any::<u8>(), 0..300),
            b in prop::collection::vec(any::<u8>(), 0..300),
            size in 49_usize..120,
        ) {
            let (a, b) = (message(1, a), message(2, b));
            let mut queues = [a.fragments(size).collect::<Vec<_>>(), b.fragments(size).collect::<Vec<_>>()];
            let mut reassembler = Reassembler::new(1000);
            let mut whole = Vec::new();
            while queues.iter().any(|queue| !queue.is_empty()) {
                for queue in &mut queues {
                    if queue.is_empty() { continue; }
                    let (header, data) = queue.remove(0);
                    prop_assert_eq!(header.length as usize, data.len());
                    prop_assert!(data.len() + FragmentHeader::SIZE <= size);
                    if let Assembled::Whole(message) = reassembler.push(&header, data).unwrap() {
                        whole.push(message);
                    }
                }
            }
            whole.sort_by_key(|message| message.src);
            prop_assert_eq!(whole, vec![a, b]);
        }
    }

    #[test]
    fn what_was_not_converted_is_converted_where_it_must_be() {
        let mut runs = runs::Runs::default();
        runs.push::<i64>(1).unwrap();
        let mut local = message(1, (-1_i64 << 32).to_ne_bytes().to_vec());
        (local.header.encoding, local.header.checksum) = (LOCAL_WORD, runs.word());
        let converted = local.clone().into_encoded().unwrap();
        assert_eq!(converted.header, MessageHeader { encoding: XDR_WORD, checksum: 16, ..local.header });
        assert_eq!(crate::Upper::split(16, &converted.body).0, 4);
        assert_eq!(converted.clone().into_encoded(), Ok(converted));
        local.header.checksum = 2;
        assert_eq!(local.clone().into_encoded(), Ok(local));
    }

    #[test]
    fn an_empty_message_is_one_fragment_of_32_bytes() {
        let empty = message(1, vec![]);
        let fragments: Vec<_> = empty.fragments(4080).collect();
        assert_eq!(fragments.len(), 1);
        assert_eq!((fragments[0].0.flags, fragments[0].0.length), (SOM | EOM, 32));
    }

    #[test]
    fn what_has_begun_is_gone_on_with_elsewhere() {
        let whole = message(1, (0..200).collect());
        let fragments: Vec<_> = whole.fragments(100).collect();
        let (first, rest) = fragments.split_at(2);
        let mut here = Reassembler::new(1000);
        for (header, data) in first {
            assert_eq!(here.push(header, data.clone()), Ok(Assembled::Partial));
        }
        let mut there = Reassembler::new(1000);
        for begun in here.begun() {
            there.resume(&begun).unwrap();
        }
        let last = rest.iter().map(|(header, data)| there.push(header, data.clone()).unwrap()).last();
        assert_eq!(last, Some(Assembled::Whole(whole.clone())));
        assert_eq!(Reassembler::new(10).resume(&whole), Err(FragmentError::TooLong(10)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut reassembler = Reassembler::new(10);
        let header = FragmentHeader { dst: Tid::NONE, src: Tid::NONE, length: 3, flags: SOM | EOM };
        assert_eq!(reassembler.push(&header, Bytes::from_static(b"abc")), Err(FragmentError::NoHeader(3)));
        let stray = FragmentHeader { flags: EOM, ..header };
        assert_eq!(reassembler.push(&stray, Bytes::from_static(b"abc")), Ok(Assembled::Stray));
        let long = Bytes::from(vec![0; 43]);
        assert_eq!(reassembler.push(&header, long), Err(FragmentError::TooLong(10)));
    }
}
