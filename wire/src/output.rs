//! What collectors of tasks' output are sent (TC_OUTPUT), typed.

use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes;
use crate::tid::Tid;

/// A frame of a task's output (TC_OUTPUT): `what` is the text, or one of [`codes::output`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFrame {
    /// The task whose output it is.
    pub tid: Tid,
    /// What happened.
    pub what: OutputEvent,
}

/// What an [`OutputFrame`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// The task wrote this.
    Text(Vec<u8>),
    /// There will be no more.
    Eof,
    /// The task was spawned by this parent.
    Spawned(i32),
    /// The task was started for this parent.
    Started(i32),
}

impl OutputFrame {
    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let body = BodyWriter::new().int(self.tid.raw());
        match &self.what {
            OutputEvent::Text(text) => body.int(text.len() as i32).bytes(text),
            OutputEvent::Eof => body.int(codes::output::EOF),
            OutputEvent::Spawned(parent) => body.int(codes::output::SPAWN).int(*parent),
            OutputEvent::Started(parent) => body.int(codes::output::NEW).int(*parent),
        }
        .finish()
    }

    /// The frame in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        let mut reader = BodyReader::new(body);
        let tid = Tid::from_raw(reader.int()?);
        let what = match reader.int()? {
            codes::output::EOF => OutputEvent::Eof,
            codes::output::SPAWN => OutputEvent::Spawned(reader.int()?),
            codes::output::NEW => OutputEvent::Started(reader.int()?),
            length if length > 0 => OutputEvent::Text(reader.bytes(length as usize)?.to_vec()),
            other => return Err(BodyError::Length(other)),
        };
        Ok(Self { tid, what })
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
