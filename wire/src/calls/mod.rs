//! What a task asks of its daemon, and what the daemon answers: one type per request, and its bytes in one place.
//!
//! The layouts of `TM_` messages are PVM 3.4.6's (reference, section 4.6); those of [`Tmx`](crate::codes::Tmx) are this
//! system's own. A body is a sequence of fields, in the order of a type's declaration unless its documentation says
//! otherwise. A field is an XDR integer, or a string as `pvm_pkstr` writes it; a list is preceded by its length.
//!
//! The answer to a request that failed is a negative number, one of [`PvmError`]'s codes; a daemon of this system may put
//! the reason behind it, as a string.

pub mod certificate;
pub mod enrolment;
pub mod hosts;
pub mod jobs;
pub mod loads;
pub mod mailbox;
pub mod moves;
pub mod nested;
pub mod notify;
pub mod owner;
pub mod roles;
pub mod sharing;
pub mod spawn;
pub mod state;
pub mod tasks;
pub mod turns;

use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codec;
use crate::codes::CONTEXT_TM;
use crate::encoding::XDR_WORD;
use crate::error::PvmError;
use crate::header::MessageHeader;
use crate::limits::STRINGS_MAX;
use crate::message::Message;
use crate::tid::Tid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};

/// A message from a task to its daemon.
pub trait Request: Field {
    /// The message's tag.
    const TAG: i32;
    /// The message's context.
    const CONTEXT: i32 = CONTEXT_TM;

    /// The body.
    fn encode(&self) -> Vec<u8> {
        self.write(BodyWriter::new()).finish()
    }

    /// The message to a daemon that carries it.
    fn message(&self, wait_id: i32) -> Message {
        let (tag, context) = (Self::TAG, Self::CONTEXT);
        let header = MessageHeader { encoding: XDR_WORD, tag, context, wait_id, checksum: 0 };
        Message { src: Tid::ANY, dst: Tid::MY_DAEMON, header, body: self.encode().into() }
    }

    /// The request in a body. What stands behind it is ignored, as PVM does.
    fn decode(body: &[u8]) -> Result<Self, BodyError> {
        Self::read(&mut BodyReader::new(body))
    }
}

/// A request that is answered.
pub trait Call: Request {
    /// What the answer has if all went well. Its first number is not negative.
    type Reply: Field;
    /// A number that stands before the reply, if one does.
    const STATUS: Option<i32> = None;

    /// What was asked for, for messages about an error.
    fn subject(&self) -> String;

    /// The body of the answer.
    fn encode_reply(reply: &Self::Reply) -> Vec<u8> {
        let body = Self::STATUS.into_iter().fold(BodyWriter::new(), BodyWriter::int);
        reply.write(body).finish()
    }

    /// The answer in a body: the reply, or the error in its place.
    fn decode_answer(body: &[u8]) -> Result<Answer<Self>, BodyError> {
        let mut reader = BodyReader::new(body);
        let mut ahead = reader;
        if let Ok(code @ ..0) = ahead.int() {
            let reason = ahead.str().unwrap_or_default().to_owned();
            return Ok(Err(CallError { code, reason }));
        }
        if Self::STATUS.is_some() {
            reader.int()?;
        }
        Self::Reply::read(&mut reader).map(Ok)
    }
}

/// The answer to a [`Call`].
pub type Answer<C> = Result<<C as Call>::Reply, CallError>;

/// The error that is answered in place of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// One of [`PvmError`]'s codes, or any other negative number that the daemon or the resource manager has chosen.
    pub code: i32,
    /// What happened, for people; empty if nothing was said.
    pub reason: String,
}

impl CallError {
    /// The body of the answer.
    pub fn encode(&self) -> Vec<u8> {
        let body = BodyWriter::new().int(self.code);
        if self.reason.is_empty() { body } else { body.str(&self.reason) }.finish()
    }

    /// The error that the code stands for.
    pub fn error(&self) -> PvmError {
        PvmError::from_code(self.code).unwrap_or(PvmError::DSysErr)
    }
}

impl From<PvmError> for CallError {
    fn from(error: PvmError) -> Self {
        Self { code: error.code(), reason: String::new() }
    }
}

/// A part of a body.
pub trait Field: Sized {
    /// The fewest bytes it can take, by which the lengths of lists are checked.
    const LEAST: usize = 4;
    /// Most of these in a list.
    const MOST: usize = usize::MAX;

    /// Appends it.
    fn write(&self, body: BodyWriter) -> BodyWriter;
    /// Reads it.
    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError>;
}

/// Nothing: the call has been carried out, and that is all.
impl Field for () {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body
    }

    fn read(_: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(())
    }
}

impl Field for i32 {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(*self)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        reader.int()
    }
}

impl Field for u32 {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(self.cast_signed())
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        reader.int().map(i32::cast_unsigned)
    }
}

/// The upper half first.
impl Field for u64 {
    const LEAST: usize = 8;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.ints([(self >> 32) as i32, *self as i32])
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let (upper, lower) = (u32::read(reader)?, u32::read(reader)?);
        Ok(Self::from(upper) << 32 | Self::from(lower))
    }
}

/// 1 or 0; any number but 0 is read as true.
impl Field for bool {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(i32::from(*self))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(reader.int()? != 0)
    }
}

impl Field for Tid {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(self.raw())
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        reader.int().map(Self::from_raw)
    }
}

impl Field for String {
    const MOST: usize = STRINGS_MAX;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.str(self)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        reader.str().map(str::to_owned)
    }
}

impl Field for OsString {
    const MOST: usize = STRINGS_MAX;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.str(self)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        reader.os_str().map(OsStr::to_owned)
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.iter().fold(body.int(self.len() as i32), |body, field| field.write(body))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let count = reader.count(T::LEAST)?;
        if count > T::MOST {
            return Err(BodyError::Length(count as i32));
        }
        (0..count).map(|_| T::read(reader)).collect()
    }
}

/// A field at the end of a body, which others than this system's library and daemon leave out and do not read.
impl<T: Field> Field for Option<T> {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.iter().fold(body, |body, field| field.write(body))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        if reader.rest().is_empty() { Ok(None) } else { T::read(reader).map(Some) }
    }
}

/// Appends a value of this system's own, in bincode: the last field of a body. It has been read from such bytes, or has nothing in it
/// that they could not express.
fn write_value<T: Serialize>(value: &T, body: BodyWriter) -> BodyWriter {
    body.rest(&codec::encode(value).unwrap_or_default())
}

/// Reads such a value.
fn read_value<T: DeserializeOwned>(reader: &BodyReader<'_>) -> Result<T, BodyError> {
    codec::decode(reader.rest()).map_err(|_| BodyError::Value)
}

/// Declares types whose bodies are their fields in order.
macro_rules! fields {
    ($($(#[$meta:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$of_field])* pub $field: $type),* }

        impl $crate::calls::Field for $name {
            const LEAST: usize = 0 $(+ <$type as $crate::calls::Field>::LEAST)*;

            fn write(&self, body: $crate::body::BodyWriter) -> $crate::body::BodyWriter {
                $(let body = $crate::calls::Field::write(&self.$field, body);)*
                body
            }

            fn read(
                _reader: &mut $crate::body::BodyReader<'_>,
            ) -> Result<Self, $crate::body::BodyError> {
                Ok(Self { $($field: $crate::calls::Field::read(_reader)?),* })
            }
        }
    )* };
}

/// Types whose bodies are their values in bincode, the last field of a body.
macro_rules! values {
    ($($name:ident),*) => { $(
        impl $crate::calls::Field for $name {
            const LEAST: usize = 0;

            fn write(&self, body: $crate::body::BodyWriter) -> $crate::body::BodyWriter {
                $crate::calls::write_value(self, body)
            }

            fn read(reader: &mut $crate::body::BodyReader<'_>) -> Result<Self, $crate::body::BodyError> {
                $crate::calls::read_value(reader)
            }
        }
    )* };
}

/// Declares requests with their tags, which are [`fields!`].
macro_rules! requests {
    ($($(#[$meta:meta])* $name:ident = $tag:expr; { $($fields:tt)* })*) => { $(
        $crate::calls::fields! { $(#[$meta])* $name { $($fields)* } }

        impl $crate::calls::Request for $name {
            const TAG: i32 = $tag.tag();
        }
    )* };
}

/// Declares what a request is answered with: a reply, perhaps behind a number that says that nothing failed.
macro_rules! answers {
    ($($name:ident => $($status:literal,)? $reply:ty, |$call:pat_param| $subject:expr;)*) => { $(
        impl $crate::calls::Call for $name {
            type Reply = $reply;
            $(const STATUS: Option<i32> = Some($status);)?

            fn subject(&self) -> String {
                let $call = self;
                $subject.into()
            }
        }
    )* };
}

use {answers, fields, requests, values};

#[cfg(test)]
mod tests;
