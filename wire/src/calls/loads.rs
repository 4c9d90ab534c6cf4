//! The loads of hosts. The answer is a list of [`LoadRecord`] in bincode, behind int 0.

use super::{Field, answers, read_value, requests, write_value};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::Tmx;
use crate::loads::LoadRecord;

requests! {
    /// Asks for the loads of all hosts, as far as the caller's daemon knows them.
    ListLoads = Tmx::Loads; {}
}

answers! {
    ListLoads => 0, LoadList, |_| "the loads of hosts";
}

/// The loads of all hosts, in the order of the host table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadList(pub Vec<LoadRecord>);

impl Field for LoadList {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_value(&self.0, body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        read_value(reader).map(Self)
    }
}
