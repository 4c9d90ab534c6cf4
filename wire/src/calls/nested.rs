//! A message inside a message, as `pvm_pkmesg` writes it into one in XDR, and as the mailbox keeps messages (reference,
//! section 2.6): int length, int context, int tag, int wait id, int encoding, int checksum, int source, int destination, then the
//! body in pieces: int length, bytes.

use super::Field;
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::encoding::{DataSignature, IN_PLACE_WORD};
use crate::header::MessageHeader;
use crate::message::Message;
use crate::tid::Tid;
use serde::{Deserialize, Serialize};

/// Bytes of a piece, as long as PVM's own fragments.
pub const PIECE: usize = 4032;

/// Integers before the pieces.
const HEADER_INTS: usize = 8;

/// A message in this form, always the last field of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nested(Vec<u8>);

impl Nested {
    /// Writes a message.
    pub fn new(message: &Message) -> Self {
        let MessageHeader { encoding, tag, context, wait_id, checksum } = message.header;
        let head = [
            message.body.len() as i32,
            context,
            tag,
            wait_id,
            encoding.cast_signed(),
            checksum.cast_signed(),
        ];
        let head = BodyWriter::new().ints(head).int(message.src.raw()).int(message.dst.raw());
        let pieces = message.body.chunks(PIECE);
        Self(pieces.fold(head, |body, piece| body.int(piece.len() as i32).bytes(piece)).finish())
    }

    /// Reads the message. Empty pieces do occur, and in-place data have become plain native data by now.
    pub fn open(&self) -> Result<Message, BodyError> {
        let mut reader = BodyReader::new(&self.0);
        let length = reader.int()?;
        let bad_length = BodyError::Length(length);
        let length = usize::try_from(length).map_err(|_| bad_length)?;
        let header = MessageHeader {
            context: reader.int()?,
            tag: reader.int()?,
            wait_id: reader.int()?,
            encoding: match reader.int()?.cast_unsigned() {
                IN_PLACE_WORD => DataSignature::NATIVE.0,
                word => word,
            },
            checksum: reader.int()?.cast_unsigned(),
        };
        let (src, dst) = (Tid::read(&mut reader)?, Tid::read(&mut reader)?);
        if length > reader.rest().len() {
            return Err(bad_length);
        }
        let mut body = Vec::with_capacity(length);
        while body.len() < length {
            let piece = reader.count(1)?;
            if piece > length - body.len() {
                return Err(bad_length);
            }
            body.extend_from_slice(reader.bytes(piece)?);
        }
        Ok(Message { src, dst, header, body: body.into() })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// It is checked only as far as its receiver needs to read on to its end.
impl Field for Nested {
    const LEAST: usize = 4 * HEADER_INTS;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.rest(&self.0)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let bytes = reader.rest();
        reader.ints(HEADER_INTS)?;
        while !reader.rest().is_empty() {
            let length = reader.count(1)?;
            reader.bytes(length)?;
        }
        Ok(Self(bytes.to_vec()))
    }
}
