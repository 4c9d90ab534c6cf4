//! Requests to the mailbox, as the bodies of `TM_DB` have them.

use memchr::memmem;
use pvm_wire::Tid;
use pvm_wire::body::{BodyError, BodyReader};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Longest name of a class that may be waited for, bytes.
pub(super) const WAITED_CLASS_MAX: usize = 4096;

/// A request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub operation: Operation<'a>,
    /// The task on whose behalf.
    pub tid: Tid,
    /// The class, or a pattern of classes.
    pub class: &'a OsStr,
    pub index: i32,
    pub flags: i32,
}

/// What is asked for.
#[derive(Debug)]
pub(super) enum Operation<'a> {
    /// Leave this message, in the form of `pvm_pkmesg`.
    Put(&'a [u8]),
    Remove,
    Get,
    Names,
    /// Clean up; the flags say whether tasks are being ended.
    Reset(Reset),
    Unknown,
}

/// The rest of a reset.
#[derive(Debug)]
pub(super) struct Reset {
    /// Tasks that are not ended.
    pub keep: BTreeSet<Tid>,
}

impl<'a> Request<'a> {
    pub fn decode(body: &'a [u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let operation = reader.int()?;
        let tid = Tid::from_raw(reader.int()?);
        let class = reader.os_str()?;
        let (index, flags) = (reader.int()?, reader.int()?);
        let operation = match operation {
            1 => Operation::Put(packed_message(&reader)?),
            2 => Operation::Remove,
            3 => Operation::Get,
            4 => Operation::Names,
            5 => {
                let count = reader.count(4)?;
                Operation::Reset(Reset { keep: reader.ints(count)?.into_iter().map(Tid::from_raw).collect() })
            }
            _ => Operation::Unknown,
        };
        Ok(Self { operation, tid, class, index, flags })
    }
}

/// The rest of the body, if it has the form of a packed message: whoever gets it must be able to read it.
fn packed_message<'a>(reader: &BodyReader<'a>) -> Result<&'a [u8], BodyError> {
    const HEADER_INTS: usize = 8;
    let message = reader.rest();
    let mut fields = *reader;
    fields.ints(HEADER_INTS)?;
    while !fields.rest().is_empty() {
        let length = fields.count(1)?;
        fields.bytes(length)?;
    }
    Ok(message)
}

/// Whether the pattern occurs in the name: `*` stands for anything, `\*` for a star.
pub(super) fn matches(pattern: &OsStr, name: &OsStr) -> bool {
    let mut rest = name.as_bytes();
    pieces(pattern.as_bytes()).iter().all(|piece| match memmem::find(rest, piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// What stands between the stars of a pattern.
fn pieces(pattern: &[u8]) -> Vec<Vec<u8>> {
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    let mut bytes = pattern.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'*' => pieces.push(std::mem::take(&mut piece)),
            b'\\' if bytes.next_if_eq(&b'*').is_some() => piece.push(b'*'),
            other => piece.push(other),
        }
    }
    pieces.push(piece);
    pieces
}
