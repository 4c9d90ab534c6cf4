//! Calls to the machine's queues. Their types are [`crate::jobs`]'s: the master and the console use them, too.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`AskJobs`], TMX | a [`JobCall`] in bincode | int 0, a [`JobAnswer`] in bincode |

use super::{Call, Field, Request, read_value, write_value};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::Tmx;
use crate::jobs::{JobAnswer, JobCall};

/// A call to the queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskJobs(pub JobCall);

impl Request for AskJobs {
    const TAG: i32 = Tmx::Jobs.tag();

    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_value(&self.0, body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        read_value(reader).map(Self)
    }
}

impl Call for AskJobs {
    type Reply = JobAnswer;
    const STATUS: Option<i32> = Some(0);

    fn subject(&self) -> String {
        "the queues".to_owned()
    }
}

impl Field for JobAnswer {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_value(self, body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        read_value(reader)
    }
}
