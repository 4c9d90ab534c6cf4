//! Message buffers and their ids: what `pvm_initsend`, the pack calls and the receive calls work on.

use bytes::Bytes;
use pvm_wire::encoding::TRACE_WORD;
use pvm_wire::{Element, Encoding, Message, MessageHeader, PvmError, Tid, Upper, element};

/// The style of a trace message, `PvmDataTrace`.
const TRACE_STYLE: i32 = 4;
/// Word 0 that a library knows an in-place message by; it never travels.
const IN_PLACE_WORD: u32 = 0x2000_0000;

/// How a buffer's body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One of the three styles a message can have.
    Plain(Encoding),
    /// A trace message: XDR, with a word before each item that says what it is.
    Trace,
    /// What only the host that wrote it can read.
    Alien(u32),
}

impl Format {
    /// The format with this style number of `pvm_initsend`.
    pub fn from_style(style: i32) -> Result<Self, PvmError> {
        match style {
            TRACE_STYLE => Ok(Self::Trace),
            _ => Encoding::from_style(style).map(Self::Plain).ok_or(PvmError::BadParam),
        }
    }

    /// The format that word 0 of a message header tells.
    pub fn from_word(word: u32) -> Self {
        match Encoding::of_word(word) {
            _ if word == TRACE_WORD => Self::Trace,
            _ if word == IN_PLACE_WORD => Self::Plain(Encoding::InPlace),
            Some(encoding) => Self::Plain(encoding),
            None => Self::Alien(word),
        }
    }

    /// Word 0 of the message header.
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

    /// The length of the body proper in a message with this checksum word, and what stands behind it.
    fn split(self, word: u32, body: &[u8]) -> (usize, Upper) {
        if self == Self::Plain(Encoding::Xdr) {
            Upper::split(word, body)
        } else {
            (body.len(), Upper::default())
        }
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
    /// Where it begins. Only the edge to C may make a pointer of it.
    pub address: usize,
    /// Its length, bytes.
    pub length: usize,
}

#[derive(Debug)]
enum Body {
    Packed(Vec<u8>),
    Received(Bytes),
}

/// A message being packed, or one that was received.
#[derive(Debug)]
pub struct Buffer {
    /// How the body is encoded.
    pub format: Format,
    /// The fields of the header that programs see, besides the encoding.
    pub info: Info,
    /// Whether it waits in the queue of messages that were not received yet.
    pub waiting: bool,
    body: Body,
    upper: Upper,
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
        let body = Body::Packed(Vec::new());
        let (info, upper) = (Info::default(), Upper::default());
        Self { format, info, waiting: false, body, upper, parts: Vec::new(), position: 0 }
    }

    /// A message that came in.
    pub fn received(message: Message) -> Self {
        let Message { src, dst, header, mut body } = message;
        let format = Format::from_word(header.encoding);
        let (length, upper) = format.split(header.checksum, &body);
        body.truncate(length);
        let info = Info {
            context: header.context,
            tag: header.tag,
            wait_id: header.wait_id,
            checksum: if upper.is_empty() { header.checksum as i32 } else { 0 },
            src: src.raw(),
            dst: dst.raw(),
        };
        Self {
            format,
            info,
            waiting: false,
            body: Body::Received(body),
            upper,
            parts: Vec::new(),
            position: 0,
        }
    }

    /// Takes the upper halves of integers from behind a body that was filled in as it came.
    pub fn split_upper(&mut self) {
        let (length, upper) = self.format.split(self.info.checksum as u32, self.body());
        if !upper.is_empty() {
            self.body_mut().truncate(length);
            (self.upper, self.info.checksum) = (upper, 0);
        }
    }

    /// The body, as far as it is held here.
    pub fn body(&self) -> &[u8] {
        match &self.body {
            Body::Packed(bytes) => bytes,
            Body::Received(bytes) => bytes,
        }
    }

    /// The body to write to.
    pub fn body_mut(&mut self) -> &mut Vec<u8> {
        if let Body::Received(bytes) = &self.body {
            self.body = Body::Packed(bytes.to_vec());
        }
        match &mut self.body {
            Body::Packed(bytes) => bytes,
            Body::Received(_) => unreachable!("made writable above"),
        }
    }

    /// Whether data are read from the program's memory when the message is sent.
    pub fn is_in_place(&self) -> bool {
        self.format == Format::Plain(Encoding::InPlace)
    }

    /// The in-place parts.
    pub fn parts(&self) -> &[InPlacePart] {
        &self.parts
    }

    /// Appends a part of the program's memory.
    pub fn push_part(&mut self, part: InPlacePart) {
        self.parts.push(part);
    }

    /// Encoded length in bytes, as `pvm_bufinfo` tells it: in-place data are not encoded before they are sent.
    pub fn length(&self) -> usize {
        self.body().len()
    }

    /// The message header to send it with.
    pub fn header(&self) -> MessageHeader {
        MessageHeader {
            encoding: self.format.word(),
            tag: self.info.tag,
            context: self.info.context,
            wait_id: self.info.wait_id,
            checksum: self.upper.word(),
        }
    }

    /// What of its integers the body itself does not carry.
    pub fn upper(&self) -> &Upper {
        &self.upper
    }

    /// Appends the body of another buffer in the same encoding.
    pub fn append_body(&mut self, body: &[u8], upper: &Upper) -> Result<(), PvmError> {
        self.upper.append(self.body().len(), upper)?;
        self.body_mut().extend_from_slice(body);
        Ok(())
    }

    /// Begins reading anew.
    pub fn rewind(&mut self) {
        self.position = 0;
    }

    /// Bytes not yet read.
    pub fn rest(&self) -> &[u8] {
        &self.body()[self.position.min(self.body().len())..]
    }

    /// Appends elements in the buffer's encoding, which is not in-place.
    pub fn pack<T: Element>(
        &mut self,
        elements: impl ExactSizeIterator<Item = T> + Clone,
    ) -> Result<(), PvmError> {
        let encoding = self.format.encoding().unwrap_or(Encoding::Raw);
        if self.format == Format::Plain(Encoding::Xdr) {
            self.upper.note(self.body().len(), elements.clone())?;
        }
        element::pack(self.body_mut(), encoding, elements)
    }

    /// Appends bytes that are in the buffer's encoding already; XDR gets its padding.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), PvmError> {
        let xdr = self.format.encoding() == Some(Encoding::Xdr);
        let body = self.body_mut();
        body.try_reserve(bytes.len().saturating_add(3)).map_err(|_| PvmError::NoMem)?;
        body.extend_from_slice(bytes);
        if xdr {
            body.resize(body.len().next_multiple_of(4), 0);
        }
        Ok(())
    }

    /// Appends a string.
    pub fn pack_str(&mut self, text: &[u8]) -> Result<(), PvmError> {
        let encoding = self.format.encoding().unwrap_or(Encoding::Raw);
        element::pack_str(self.body_mut(), encoding, text)
    }

    /// Hands the next elements to `sink`.
    pub fn unpack<T: Element>(
        &mut self,
        count: usize,
        mut sink: impl FnMut(usize, T),
    ) -> Result<(), PvmError> {
        let (encoding, mut position) = (self.readable(), self.position);
        let (start, upper) = (position, &self.upper);
        let sink = |index, low: T| sink(index, upper.complete(start + index * T::XDR, low));
        let result = element::unpack(self.body(), &mut position, encoding, count, sink);
        self.position = position;
        result
    }

    /// Takes up to `length` bytes as they came, with their padding; fewer only at the end of the message.
    pub fn take(&mut self, length: usize) -> &[u8] {
        let start = self.position.min(self.body().len());
        let end = start.saturating_add(length).min(self.body().len());
        let xdr = self.format.encoding() == Some(Encoding::Xdr);
        let padded = if xdr { length.next_multiple_of(4) } else { length };
        self.position = start.saturating_add(padded).min(self.body().len());
        &self.body()[start..end]
    }

    /// The next integer.
    pub fn unpack_int(&mut self) -> Result<i32, PvmError> {
        let mut value = 0;
        self.unpack(1, |_, v| value = v)?;
        Ok(value)
    }

    /// The next string, without its NUL.
    pub fn unpack_str(&mut self) -> Result<&[u8], PvmError> {
        let (encoding, mut position) = (self.readable(), self.position);
        if element::unpack_str(self.body(), &mut position, encoding).is_err() {
            self.position = position;
            return Err(if encoding.is_none() { PvmError::BadMsg } else { PvmError::NoData });
        }
        let start = std::mem::replace(&mut self.position, position);
        let mut again = start;
        element::unpack_str(self.body(), &mut again, encoding)
    }

    /// How to read the body. In-place data are with the program, so there is nothing to read.
    fn readable(&self) -> Option<Encoding> {
        match self.format {
            Format::Plain(Encoding::InPlace) => Some(Encoding::Raw),
            format => format.encoding(),
        }
    }
}

/// All buffers by id, and which of them are current.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The buffer with id n is at n − 1.
    slots: Vec<Option<Buffer>>,
    free: Vec<i32>,
    send: i32,
    receive: i32,
}

impl Buffers {
    /// Keeps a buffer and gives it an id: a small one, from 1, used again after it was freed.
    pub fn insert(&mut self, buffer: Buffer) -> Result<i32, PvmError> {
        if let Some(id) = self.free.pop() {
            *self.slot(id).ok_or(PvmError::NoMem)? = Some(buffer);
            return Ok(id);
        }
        self.slots.push(Some(buffer));
        i32::try_from(self.slots.len()).map_err(|_| PvmError::NoMem)
    }

    fn slot(&mut self, id: i32) -> Option<&mut Option<Buffer>> {
        self.slots.get_mut(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    fn find(&mut self, id: i32) -> Option<&mut Buffer> {
        self.slot(id)?.as_mut()
    }

    /// The buffer with this id.
    pub fn get(&mut self, id: i32) -> Result<&mut Buffer, PvmError> {
        if id <= 0 {
            return Err(PvmError::BadParam);
        }
        self.find(id).ok_or(PvmError::NoSuchBuf)
    }

    /// Frees a buffer; 0, which is none, is fine.
    pub fn free(&mut self, id: i32) -> Result<(), PvmError> {
        if id == 0 {
            return Ok(());
        }
        self.remove(id).map(drop)
    }

    /// Takes a buffer out.
    pub fn remove(&mut self, id: i32) -> Result<Buffer, PvmError> {
        self.get(id)?;
        if self.send == id {
            self.send = 0;
        }
        if self.receive == id {
            self.receive = 0;
        }
        self.free.push(id);
        self.slot(id).and_then(Option::take).ok_or(PvmError::NoSuchBuf)
    }

    /// The id of the buffer to pack into, or 0.
    pub fn send_id(&self) -> i32 {
        self.send
    }

    /// The id of the buffer to unpack from, or 0.
    pub fn receive_id(&self) -> i32 {
        self.receive
    }

    /// The buffer to pack into.
    pub fn sending(&mut self) -> Result<&mut Buffer, PvmError> {
        self.find(self.send).ok_or(PvmError::NoBuf)
    }

    /// The buffer to unpack from.
    pub fn receiving(&mut self) -> Result<&mut Buffer, PvmError> {
        self.find(self.receive).ok_or(PvmError::NoBuf)
    }

    /// Makes a buffer (0: none) the one to pack into and returns the id of the one before.
    pub fn set_send(&mut self, id: i32) -> Result<i32, PvmError> {
        if id != 0 {
            self.get(id)?.rewind();
        }
        if id != 0 && self.receive == id {
            self.receive = 0;
        }
        Ok(std::mem::replace(&mut self.send, id))
    }

    /// Makes these the current buffers again, as far as they still exist; nothing is rewound.
    pub fn reselect(&mut self, send: i32, receive: i32) {
        self.send = if self.find(send).is_some() { send } else { 0 };
        self.receive = if self.find(receive).is_some() { receive } else { 0 };
    }

    /// Makes a buffer (0: none) the one to unpack from and returns the id of the one before.
    pub fn set_receive(&mut self, id: i32) -> Result<i32, PvmError> {
        if id != 0 {
            self.get(id)?;
        }
        if id != 0 && self.send == id {
            self.send = 0;
        }
        Ok(std::mem::replace(&mut self.receive, id))
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

    fn buffer() -> Buffer {
        Buffer::new(Format::Plain(Encoding::Xdr))
    }

    #[test]
    fn ids_begin_at_1_and_are_used_again() {
        let mut buffers = Buffers::default();
        assert_eq!(buffers.insert(buffer()), Ok(1));
        assert_eq!(buffers.insert(buffer()), Ok(2));
        assert_eq!(buffers.free(1), Ok(()));
        assert_eq!(buffers.free(1), Err(PvmError::NoSuchBuf));
        assert_eq!(buffers.insert(buffer()), Ok(1));
        assert_eq!(buffers.insert(buffer()), Ok(3));
        assert_eq!((buffers.free(0), buffers.free(-1)), (Ok(()), Err(PvmError::BadParam)));
    }

    #[test]
    fn a_buffer_has_one_role() {
        let mut buffers = Buffers::default();
        let id = buffers.insert(buffer()).unwrap();
        assert_eq!(buffers.set_send(id), Ok(0));
        assert_eq!(buffers.set_receive(id), Ok(0));
        assert_eq!((buffers.send_id(), buffers.receive_id()), (0, id));
        assert_eq!(buffers.set_send(9), Err(PvmError::NoSuchBuf));
        assert_eq!(buffers.set_send(id), Ok(0));
        assert_eq!((buffers.send_id(), buffers.receive_id()), (id, 0));
        buffers.free(id).unwrap();
        assert_eq!(buffers.send_id(), 0);
        assert!(matches!(buffers.sending(), Err(PvmError::NoBuf)));
    }

    #[test]
    fn a_received_message_can_be_appended_to() {
        let message = local_message(Tid::MY_DAEMON, Tid::NONE, 0, 1, vec![0, 0, 0, 7]);
        let mut received = Buffer::received(message);
        received.pack(std::iter::once(8)).unwrap();
        assert_eq!((received.unpack_int(), received.unpack_int()), (Ok(7), Ok(8)));
        assert_eq!(received.unpack_int(), Err(PvmError::NoData));
        received.rewind();
        assert_eq!(received.unpack_int(), Ok(7));
    }

    #[test]
    fn an_alien_message_gives_bytes_only() {
        let mut alien = Buffer::new(Format::from_word(0x1234));
        alien.append(b"abc").unwrap();
        assert_eq!((alien.unpack_int(), alien.unpack_str()), (Err(PvmError::BadMsg), Err(PvmError::BadMsg)));
        assert_eq!(alien.take(9), b"abc");
        assert_eq!(alien.format.word(), 0x1234);
    }

    proptest! {
        #[test]
        fn bytes_are_padded_once_per_call(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            for format in [Format::Plain(Encoding::Xdr), Format::Plain(Encoding::Raw)] {
                let mut buffer = Buffer::new(format);
                for piece in &pieces {
                    buffer.append(piece).unwrap();
                }
                for piece in &pieces {
                    prop_assert_eq!(buffer.take(piece.len()), &piece[..]);
                }
                prop_assert!(buffer.rest().is_empty());
            }
        }

        #[test]
        fn no_calls_make_it_panic(calls in prop::collection::vec((0..6, -2..4), 0..40)) {
            let mut buffers = Buffers::default();
            for (call, id) in calls {
                let _ = match call {
                    0 => buffers.insert(buffer()).map(drop),
                    1 => buffers.free(id),
                    2 => buffers.set_send(id).map(drop),
                    3 => buffers.set_receive(id).map(drop),
                    4 => buffers.sending().and_then(|buffer| buffer.pack_str(b"text")),
                    _ => buffers.receiving().and_then(|buffer| buffer.unpack_str().map(drop)),
                };
                prop_assert!(buffers.send_id() == 0 || buffers.send_id() != buffers.receive_id());
            }
        }
    }
}
