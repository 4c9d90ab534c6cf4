//! TM_NOTIFY (`pvm_notify`): int what (and 256 to take it back), int context, int tag, int count, count × int tid. For hosts
//! that join no tids follow. It is not answered, and its message is in context 0.

use super::{Field, Request};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::{Tm, notify};
use crate::tid::Tid;

/// Tell the caller when something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyRequest {
    /// [`notify`], without the cancel bit.
    pub what: i32,
    /// Whether a notify set before is taken back.
    pub cancel: bool,
    /// Context of the message that will tell.
    pub context: i32,
    /// Tag of the message that will tell.
    pub tag: i32,
    /// For hosts added: how many times, -1 for ever, 0 not any more. Else the number of `tids`.
    pub count: i32,
    /// The tasks or hosts concerned.
    pub tids: Vec<i32>,
}

impl NotifyRequest {
    /// Tell the caller of the end of one task or host.
    pub fn of_one(what: i32, context: i32, tag: i32, tid: Tid) -> Self {
        Self { what, cancel: false, context, tag, count: 1, tids: vec![tid.raw()] }
    }
}

impl Request for NotifyRequest {
    const TAG: i32 = Tm::Notify.tag();
    const CONTEXT: i32 = 0;
}

impl Field for NotifyRequest {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        let what = self.what + if self.cancel { notify::CANCEL } else { 0 };
        body.ints([what, self.context, self.tag, self.count]).ints(self.tids.iter().copied())
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let raw = reader.int()?;
        let what = raw & !notify::CANCEL;
        let (context, tag, mut ahead) = (reader.int()?, reader.int()?, *reader);
        let count = ahead.int()?;
        let tids = if what == notify::HOST_ADD { Vec::new() } else { Field::read(reader)? };
        Ok(Self { what, cancel: raw & notify::CANCEL != 0, context, tag, count, tids })
    }
}
