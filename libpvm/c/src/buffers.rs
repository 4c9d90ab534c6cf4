//! The message buffers of `pvm_initsend`, the pack calls and the receive calls.

use pvm_engine::Error;
use pvm_engine::Packed;
use pvm_engine::incoming::{self, Incoming};
use pvm_engine::{Near, Payload};
use pvm_wire::encoding::{IN_PLACE_WORD, TRACE_WORD};
use pvm_wire::{Element, Encoding, Message, MessageHeader, PvmError, Tid, Upper, element};

/// The style of a trace message, `PvmDataTrace`.
const TRACE_STYLE: i32 = 4;

/// How a buffer's body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One of the three styles a message can have.
    Plain(Encoding),
    /// A trace message: XDR, with a word for the type before each item.
    Trace,
    /// In a format that only hosts like the sender's can read.
    Alien(u32),
}

impl Default for Format {
    fn default() -> Self {
        Self::Plain(Encoding::Xdr)
    }
}

impl Format {
    /// The format with this style number of `pvm_initsend`.
    #[inline]
    pub fn from_style(style: i32) -> Result<Self, PvmError> {
        match style {
            TRACE_STYLE => Ok(Self::Trace),
            _ => Encoding::from_style(style).map(Self::Plain).ok_or(PvmError::BadParam),
        }
    }

    /// The format in word 0 of a message header.
    #[inline]
    pub fn from_word(word: u32) -> Self {
        match Encoding::of_word(word) {
            _ if word == TRACE_WORD => Self::Trace,
            _ if word == IN_PLACE_WORD => Self::Plain(Encoding::InPlace),
            Some(encoding) => Self::Plain(encoding),
            None => Self::Alien(word),
        }
    }

    /// Word 0 of the message header.
    #[inline]
    pub fn word(self) -> u32 {
        match self {
            Self::Plain(encoding) => encoding.word(),
            Self::Trace => TRACE_WORD,
            Self::Alien(word) => word,
        }
    }

    /// The word as `pvm_getminfo` shows it.
    pub fn shown(self) -> u32 {
        if self == Self::Plain(Encoding::InPlace) { IN_PLACE_WORD } else { self.word() }
    }

    /// How the body is written and read; `None` cannot be read.
    pub fn encoding(self) -> Option<Encoding> {
        match self {
            Self::Plain(encoding) => Some(encoding),
            Self::Trace => Some(Encoding::Xdr),
            Self::Alien(_) => None,
        }
    }
}

/// Memory of the program that is read when the message is sent (`PvmDataInPlace`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlacePart {
    /// Its address. Only the interface to C may make a pointer of it.
    pub address: usize,
    /// Its length, bytes.
    pub length: usize,
}

#[derive(Debug, Default)]
enum Content {
    /// Packed here, in this host's format.
    #[default]
    Packed,
    /// Encoded, to be written and read.
    Encoded(Vec<u8>, Upper),
    /// Received, to be read.
    Received(Incoming),
}

/// A message being packed, or one that was received.
#[derive(Debug, Default)]
pub struct Buffer {
    /// How the body is encoded.
    pub format: Format,
    /// The fields of the header that programs see, besides the encoding.
    pub info: Info,
    /// Whether it is a copy of a message that was not received yet.
    pub waiting: bool,
    content: Content,
    packed: Packed,
    parts: Vec<InPlacePart>,
    position: usize,
}

/// The header's fields as `pvm_getminfo` and `pvm_setminfo` show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Context.
    pub context: i32,
    /// Tag.
    pub tag: i32,
    /// Wait id.
    pub wait_id: i32,
    /// Checksum.
    pub checksum: i32,
    /// Sender.
    pub src: i32,
    /// Receiver.
    pub dst: i32,
}

impl Buffer {
    /// An empty message.
    pub fn new(format: Format) -> Self {
        let mut buffer = Self::default();
        buffer.renew(format);
        buffer
    }

    /// A retired buffer becomes an empty message, with the same memory.
    #[inline(always)]
    pub fn renew(&mut self, format: Format) {
        (self.format, self.info) = (format, Info::default());
        if !matches!(self.content, Content::Packed) {
            self.content = Content::Packed;
        }
        match format {
            Format::Trace => self.content = Content::Encoded(Vec::new(), Upper::default()),
            Format::Plain(Encoding::Xdr) => self.packed.begin(Encoding::Xdr),
            Format::Plain(_) | Format::Alien(_) => self.packed.begin(Encoding::Raw),
        }
    }

    /// Drops everything except the memory for the next message.
    #[inline(always)]
    pub fn retire(&mut self) {
        match &mut self.content {
            Content::Packed => {}
            Content::Encoded(..) => self.content = Content::Packed,
            Content::Received(incoming) => incoming.release(),
        }
        self.packed.clear();
        self.parts.clear();
        (self.waiting, self.position) = (false, 0);
    }

    /// Drops that memory, too.
    pub fn shrink(&mut self) {
        (self.packed, self.content) = (Packed::default(), Content::Packed);
    }

    /// Bytes of that memory.
    #[inline]
    pub fn capacity(&self) -> usize {
        let kept = if let Content::Received(incoming) = &self.content { incoming.capacity() } else { 0 };
        self.packed.capacity() + kept
    }

    /// A message with this body.
    pub fn encoded_as(format: Format, body: Vec<u8>) -> Self {
        let content = Content::Encoded(body, Upper::default());
        Self { content, ..Self::new(format) }
    }

    /// A retired buffer becomes a received message.
    pub fn receive(&mut self, message: Message) {
        let Message { src, dst, mut header, body } = message;
        match &mut self.content {
            Content::Received(incoming) => incoming.renew(&mut header, body),
            content => *content = Content::Received(Incoming::new(&mut header, body)),
        }
        self.set_header(src, dst, &header);
    }

    /// The same, of a message from a ring, where it may stay until [`Self::settle`].
    #[inline(always)]
    pub fn receive_near(&mut self, near: &Near<'_>, dst: Tid) {
        let (src, mut header) = (near.src, near.found.header);
        if !matches!(self.content, Content::Received(_)) {
            self.content = Content::Received(Incoming::nothing());
        }
        if let Content::Received(incoming) = &mut self.content {
            incoming.renew_in_ring(&mut header, near);
        }
        self.parts.clear();
        self.set_header(src, dst, &header);
    }

    /// Whether it is a received message that keeps no memory of others.
    #[inline(always)]
    pub fn is_short_received(&self) -> bool {
        matches!(&self.content, Content::Received(incoming) if incoming.is_own())
    }

    /// Copies a received message out of the ring, if it is there.
    pub fn settle(&mut self) {
        if let Content::Received(incoming) = &mut self.content {
            incoming.settle();
        }
    }

    /// Copies the header's fields.
    #[inline(always)]
    pub fn set_header(&mut self, src: Tid, dst: Tid, header: &MessageHeader) {
        self.format = Format::from_word(header.encoding);
        self.info = Info {
            context: header.context,
            tag: header.tag,
            wait_id: header.wait_id,
            checksum: header.checksum as i32,
            src: src.raw(),
            dst: dst.raw(),
        };
    }

    /// Empties a received message, which may lie in its sender's memory.
    pub fn lose_received(&mut self) {
        if matches!(self.content, Content::Received(_)) {
            self.content = Content::default();
        }
    }

    /// Splits the upper halves of integers from a body that was read from another message.
    pub fn split_upper(&mut self) {
        let Content::Encoded(body, upper) = &mut self.content else { return };
        if self.format == Format::Plain(Encoding::Xdr) {
            let (length, found) = Upper::split(self.info.checksum as u32, body);
            if !found.is_empty() {
                body.truncate(length);
                (*upper, self.info.checksum) = (found, 0);
            }
        }
    }

    /// The encoded body, without in-place data, and the upper halves of its integers.
    pub fn encoded(&mut self) -> Result<(&[u8], &Upper), PvmError> {
        match &mut self.content {
            Content::Packed => self.packed.encoded(),
            Content::Encoded(body, upper) => Ok((body, upper)),
            Content::Received(incoming) => incoming.encoded(),
        }
    }

    /// The encoded body to write to, and the upper halves of its integers.
    fn encoded_mut(&mut self) -> Result<(&mut Vec<u8>, &mut Upper), PvmError> {
        let (body, upper) = match &mut self.content {
            Content::Encoded(..) => (Vec::new(), Upper::default()),
            Content::Packed => std::mem::take(&mut self.packed).into_encoded()?,
            Content::Received(incoming) => {
                self.position = incoming.position();
                let (body, upper) = incoming.encoded()?;
                (body.to_vec(), upper.clone())
            }
        };
        if !matches!(self.content, Content::Encoded(..)) {
            self.content = Content::Encoded(body, upper);
        }
        match &mut self.content {
            Content::Encoded(body, upper) => Ok((body, upper)),
            Content::Packed | Content::Received(_) => unreachable!("made writable above"),
        }
    }

    /// Whether data are read from the program's memory when the message is sent.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.format == Format::Plain(Encoding::InPlace)
    }

    /// The in-place parts.
    #[inline]
    pub fn parts(&self) -> &[InPlacePart] {
        &self.parts
    }

    /// Appends a part of the program's memory.
    pub fn push_part(&mut self, part: InPlacePart) {
        self.parts.push(part);
    }

    /// Encoded length in bytes, as `pvm_bufinfo` returns it: in-place data are not encoded before they are sent.
    pub fn length(&self) -> usize {
        match &self.content {
            Content::Packed => self.packed.len(),
            Content::Encoded(body, _) => body.len(),
            Content::Received(incoming) => incoming.len(),
        }
    }

    /// The message to send, which is not in-place: its header and its content.
    #[inline]
    pub fn outgoing<T>(
        &mut self,
        send: impl FnOnce(MessageHeader, Payload<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let header = self.header();
        if matches!(self.content, Content::Packed) {
            return send(header, Payload::Packed(&self.packed));
        }
        let (body, upper) = self.encoded()?;
        if upper.is_empty() {
            return send(header, Payload::Parts(&[body]));
        }
        send(MessageHeader { checksum: upper.word(), ..header }, Payload::Parts(&[body, &upper.encode()]))
    }

    /// The message header to send it with.
    #[inline]
    pub fn header(&self) -> MessageHeader {
        MessageHeader {
            encoding: self.format.word(),
            tag: self.info.tag,
            context: self.info.context,
            wait_id: self.info.wait_id,
            checksum: 0,
        }
    }

    /// Appends the body of another buffer in the same encoding.
    pub fn append_body(&mut self, body: &[u8], upper: &Upper) -> Result<(), PvmError> {
        let (own, own_upper) = self.encoded_mut()?;
        own_upper.append(own.len(), upper)?;
        own.extend_from_slice(body);
        Ok(())
    }

    /// Begins reading anew.
    #[inline]
    pub fn rewind(&mut self) {
        self.position = 0;
        if let Content::Received(incoming) = &mut self.content {
            incoming.rewind();
        }
    }

    /// Bytes not yet read.
    pub fn left(&self) -> usize {
        match &self.content {
            Content::Received(incoming) => incoming.left(),
            Content::Packed | Content::Encoded(..) => self.length().saturating_sub(self.position),
        }
    }

    /// Appends elements, which are not in-place.
    pub fn pack<T: Element>(
        &mut self,
        elements: impl ExactSizeIterator<Item = T> + Clone,
    ) -> Result<(), PvmError> {
        if matches!(self.content, Content::Packed) {
            return self.packed.pack_each(elements);
        }
        let (format, encoding) = (self.format, self.encoding());
        let (body, upper) = self.encoded_mut()?;
        if format == Format::Plain(Encoding::Xdr) {
            upper.note(body.len(), elements.clone())?;
        }
        element::pack(body, encoding, elements)
    }

    /// Appends elements, which are not in-place, given as the bytes they are in memory.
    #[inline(always)]
    pub fn pack_bytes<T: Element>(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        match self.content {
            Content::Packed => self.packed.pack_bytes::<T>(bytes),
            _ => self.pack(bytes.chunks_exact(T::NATIVE).map(T::get_native)),
        }
    }

    /// As [`Self::pack_bytes`], if a copy is enough; otherwise `false`, and nothing is packed.
    #[inline(always)]
    pub fn pack_few<T: Element>(&mut self, bytes: &[u8]) -> bool {
        let is_plain = matches!(self.format, Format::Plain(Encoding::Xdr | Encoding::Raw));
        is_plain && matches!(self.content, Content::Packed) && self.packed.pack_few::<T>(bytes)
    }

    /// The packed elements, if the buffer contains nothing else.
    #[inline(always)]
    pub fn packed(&self) -> Option<&Packed> {
        (matches!(self.content, Content::Packed) && !self.is_in_place()).then_some(&self.packed)
    }

    /// As [`Self::retire`], for a short packed message; `false` for another one, and then nothing is done.
    #[inline(always)]
    pub fn retire_few(&mut self) -> bool {
        let retires = matches!(self.content, Content::Packed) && self.packed.clear_few();
        if retires {
            self.parts.clear();
            self.position = 0;
        }
        retires
    }

    /// Whether a short message was packed here, or can be: [`Self::renew_few`].
    #[inline(always)]
    pub fn is_small(&self) -> bool {
        matches!(self.content, Content::Packed) && self.packed.is_small()
    }

    /// As [`Self::renew`], of a retired buffer that is [`Self::is_small`], in an encoding that is packed as it lies in memory.
    #[inline(always)]
    pub fn renew_few(&mut self, encoding: Encoding) {
        (self.format, self.info) = (Format::Plain(encoding), Info::default());
        self.packed.begin(encoding);
    }

    /// Appends a string.
    pub fn pack_str(&mut self, text: &[u8]) -> Result<(), PvmError> {
        if self.is_in_place() {
            return Err(PvmError::NotImpl);
        }
        let encoding = self.encoding();
        match self.content {
            Content::Packed => self.packed.pack_str(text),
            _ => element::pack_str(self.encoded_mut()?.0, encoding, text),
        }
    }

    /// How the body is written.
    fn encoding(&self) -> Encoding {
        self.format.encoding().unwrap_or(Encoding::Raw)
    }

    /// The next elements in this host's format, if they were received in it.
    #[inline(always)]
    pub fn take_native<T: Element>(&mut self, count: usize) -> Option<&[u8]> {
        if let Content::Received(incoming) = &mut self.content {
            incoming.take_native::<T>(count)
        } else {
            None
        }
    }

    /// The next elements in this host's format, if a copy is enough; otherwise nothing is done.
    #[inline(always)]
    pub fn take_few<T: Element>(&mut self, count: usize) -> Option<&[u8]> {
        let Content::Received(incoming) = &mut self.content else { return None };
        match self.format {
            Format::Plain(Encoding::Xdr) => incoming.take_native::<T>(count),
            Format::Plain(Encoding::Raw) => incoming.take_raw::<T>(count),
            _ => None,
        }
    }

    /// Hands the next elements to `sink`.
    pub fn unpack<T: Element>(&mut self, count: usize, sink: impl FnMut(usize, T)) -> Result<(), PvmError> {
        let (encoding, mut position) = (self.readable(), self.position);
        if let Content::Received(incoming) = &mut self.content {
            return incoming.unpack(encoding, count, sink);
        }
        let (body, upper) = self.encoded()?;
        let result = incoming::unpack(body, upper, &mut position, encoding, count, sink);
        self.position = position;
        result
    }

    /// Takes up to `length` received bytes, with their padding; fewer only at the end of the message.
    pub fn take(&mut self, length: usize) -> Result<&[u8], PvmError> {
        let xdr = self.format.encoding() == Some(Encoding::Xdr);
        let padded = if xdr { length.next_multiple_of(4) } else { length };
        let body = match &mut self.content {
            Content::Received(incoming) => return incoming.take_encoded(length, padded),
            Content::Packed => self.packed.encoded()?.0,
            Content::Encoded(body, _) => body,
        };
        let (range, position) = incoming::extent(body.len(), self.position, length, padded);
        self.position = position;
        Ok(&body[range])
    }

    /// The next integer.
    pub fn unpack_int(&mut self) -> Result<i32, PvmError> {
        let mut value = 0;
        self.unpack(1, |_, v| value = v)?;
        Ok(value)
    }

    /// The next string, without its NUL.
    pub fn unpack_str(&mut self) -> Result<&[u8], PvmError> {
        let encoding = self.readable();
        let failure = if encoding.is_none() { PvmError::BadMsg } else { PvmError::NoData };
        let Self { content, packed, position, .. } = self;
        let found = match content {
            Content::Received(incoming) => incoming.unpack_str(encoding),
            Content::Packed => element::unpack_str(packed.encoded()?.0, position, encoding),
            Content::Encoded(body, _) => element::unpack_str(body, position, encoding),
        };
        found.map_err(|_| failure)
    }

    /// How to read the body. In-place data are with the program, so there is nothing to read.
    fn readable(&self) -> Option<Encoding> {
        match self.format {
            Format::Plain(Encoding::InPlace) => Some(Encoding::Raw),
            format => format.encoding(),
        }
    }
}

/// A received message with these contents, for the library's own use.
pub fn local_message(src: Tid, dst: Tid, context: i32, tag: i32, body: Vec<u8>) -> Message {
    let header = MessageHeader { encoding: Encoding::Xdr.word(), tag, context, wait_id: 0, checksum: 0 };
    Message { src, dst, header, body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_received_message_can_be_appended_to() {
        let message = local_message(Tid::MY_DAEMON, Tid::NONE, 0, 1, vec![0, 0, 0, 7]);
        let mut received = Buffer::default();
        received.receive(message);
        received.pack(std::iter::once(8)).unwrap();
        assert_eq!((received.unpack_int(), received.unpack_int()), (Ok(7), Ok(8)));
        assert_eq!(received.unpack_int(), Err(PvmError::NoData));
        received.rewind();
        assert_eq!(received.unpack_int(), Ok(7));
    }

    #[test]
    fn an_alien_message_gives_bytes_only() {
        let mut alien = Buffer::new(Format::from_word(0x1234));
        alien.pack_bytes::<u8>(b"abc").unwrap();
        assert_eq!((alien.unpack_int(), alien.unpack_str()), (Err(PvmError::BadMsg), Err(PvmError::BadMsg)));
        assert_eq!(alien.take(9).unwrap(), b"abc");
        assert_eq!(alien.format.word(), 0x1234);
    }

    proptest! {
        #[test]
        fn bytes_are_padded_once_per_call(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            for format in [Format::Plain(Encoding::Xdr), Format::Plain(Encoding::Raw)] {
                let mut buffer = Buffer::new(format);
                for piece in &pieces {
                    buffer.pack_bytes::<u8>(piece).unwrap();
                }
                for piece in &pieces {
                    prop_assert_eq!(buffer.take(piece.len()).unwrap(), &piece[..]);
                }
                prop_assert!(buffer.left() == 0);
            }
        }
    }
}
