//! The mailbox, TM_DB (reference, section 7.2): named messages that the virtual machine keeps.
//!
//! Every body begins with int operation, int task, str class, int index, int flags; what an operation does not need is 0.
//!
//! | request | operation | index, flags | behind them | answer |
//! |---|---|---|---|---|
//! | [`Put`] | 1 | index or -1, flags | a [`Nested`] message | int index |
//! | [`Remove`] | 2 | index, 0 | | int index |
//! | [`Get`] | 3 | index, flags | | [`Found`]: int index, a [`Nested`] message |
//! | [`Names`] | 4 | 0, 0 | | int 0, int n, n × [`Class`] |
//! | [`Reset`] | 5 | index or -1, whether tasks are ended | int n, n × int task | int 0 |

use super::nested::Nested;
use super::{Field, Request, answers, fields};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::Tm;
use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::ops::BitOr;

/// The class of tasks that a reset spares.
pub const NO_RESET_CLASS: &str = "###_PVM_NO_RESET_###";

/// How an entry is put, or got. Bits that a call has no use for have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flags(i32);

impl Flags {
    /// Put: the only entry of its name, which nobody else may replace or remove, and which goes when its owner ends. Get: the
    /// entry with this index, now.
    pub const DEFAULT: Self = Self(0);
    /// Put: the entry stays when its owner ends.
    pub const PERSISTENT: Self = Self(1);
    /// Put: the name may have several entries, and this one gets an index that is free.
    pub const MULTI_INSTANCE: Self = Self(2);
    /// Put: every task may replace and remove the entry.
    pub const OVERWRITABLE: Self = Self(4);
    /// Get: the first entry with this index or a greater one.
    pub const FIRST_AVAILABLE: Self = Self(8);
    /// Get: the entry is removed.
    pub const READ_AND_DELETE: Self = Self(16);
    /// Get: if there is no such entry, wait for it.
    pub const WAIT_FOR_INFO: Self = Self(32);

    /// Put: at this index, or with [`Self::MULTI_INSTANCE`] at the first free one from it on; `None` if it is above
    /// [`Self::INDEX_MAX`].
    pub const fn direct_index(index: u32) -> Option<Self> {
        if index <= Self::INDEX_MAX { Some(Self((index as i32) << Self::INDEX_SHIFT)) } else { None }
    }

    /// The greatest index that flags can carry.
    pub const INDEX_MAX: u32 = i32::MAX as u32 >> Self::INDEX_SHIFT;
    const INDEX_SHIFT: u32 = 10;

    /// The flags as C programs hold them.
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// The flags as C programs hold them.
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// Whether all of these are among them.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The index that a put asks for.
    pub const fn wanted_index(self) -> i32 {
        if self.0 < 0 { 0 } else { self.0 >> Self::INDEX_SHIFT }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Field for Flags {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        body.int(self.0)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        reader.int().map(Self)
    }
}

/// Numbers of the operations.
mod number {
    pub const PUT: i32 = 1;
    pub const REMOVE: i32 = 2;
    pub const GET: i32 = 3;
    pub const NAMES: i32 = 4;
    pub const RESET: i32 = 5;
}

/// Leave a message under a name. Answered by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The caller.
    pub tid: Tid,
    /// The name.
    pub class: OsString,
    /// The index, of which no entry is replaced that may have others by its name; -1 for that which the flags ask for.
    pub index: i32,
    /// How.
    pub flags: Flags,
    /// What.
    pub message: Nested,
}

/// Remove an entry. Answered by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remove {
    /// The caller.
    pub tid: Tid,
    /// The entry's name.
    pub class: OsString,
    /// Its index.
    pub index: i32,
}

/// Get an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The caller.
    pub tid: Tid,
    /// The entry's name.
    pub class: OsString,
    /// Its index; to the daemon of this system -1 is the first.
    pub index: i32,
    /// How.
    pub flags: Flags,
}

/// List entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The caller.
    pub tid: Tid,
    /// What must occur in their names; `*` stands for anything, `\*` for a star.
    pub pattern: OsString,
}

/// Remove what tasks that are gone have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The caller.
    pub tid: Tid,
    /// Entries of this name; of all, if empty.
    pub class: OsString,
    /// The one with this index; all, if -1.
    pub index: i32,
    /// Whether the other tasks are being ended, so that what they will leave is to go with them.
    pub kill: bool,
    /// Tasks that are not ended.
    pub keep: Vec<Tid>,
}

answers! {
    Put => i32, |call| entry("the mailbox entry", &call.class, call.index);
    Remove => i32, |call| entry("the mailbox entry", &call.class, call.index);
    Get => Found, |call| entry("the mailbox entry", &call.class, call.index);
    Names => 0, Vec<Class>, |_| "the list of mailbox entries";
    Reset => 0, (), |_| "the reset of the mailbox";
}

fn entry(what: &str, class: &OsStr, index: i32) -> String {
    let class = class.display();
    if index < 0 { format!("{what} {class}") } else { format!("{what} {class}, index {index}") }
}

fields! {
    /// An entry that was got.
    Found {
        /// Its index.
        index: i32,
        /// Its message.
        message: Nested,
    }

    /// The entries of one name.
    Class {
        /// The name.
        name: OsString,
        /// The entries, by ascending index.
        entries: Vec<Entry>,
    }

    /// An entry, as it is listed.
    Entry {
        /// Its index.
        index: i32,
        /// Its owner; [`Tid::NONE`] if that has ended.
        owner: Tid,
        /// How it was put.
        flags: Flags,
    }

    /// What every request begins with.
    Head {
        /// What is asked for.
        operation: i32,
        /// The caller.
        tid: Tid,
        /// The name.
        class: OsString,
        /// The index.
        index: i32,
        /// The flags.
        flags: i32,
    }
}

impl Head {
    /// The head of a request for this operation.
    fn of(operation: i32, reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let head = Self::read(reader)?;
        if head.operation == operation { Ok(head) } else { Err(BodyError::Length(head.operation)) }
    }
}

fn write_head(
    body: BodyWriter,
    operation: i32,
    tid: Tid,
    class: &OsStr,
    [index, flags]: [i32; 2],
) -> BodyWriter {
    body.int(operation).int(tid.raw()).str(class).int(index).int(flags)
}

impl Request for Put {
    const TAG: i32 = Tm::Db.tag();
}

impl Field for Put {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        let numbers = [self.index, self.flags.bits()];
        self.message.write(write_head(body, number::PUT, self.tid, &self.class, numbers))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let Head { tid, class, index, flags, .. } = Head::of(number::PUT, reader)?;
        Ok(Self { tid, class, index, flags: Flags(flags), message: Field::read(reader)? })
    }
}

impl Request for Remove {
    const TAG: i32 = Tm::Db.tag();
}

impl Field for Remove {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_head(body, number::REMOVE, self.tid, &self.class, [self.index, 0])
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let Head { tid, class, index, .. } = Head::of(number::REMOVE, reader)?;
        Ok(Self { tid, class, index })
    }
}

impl Request for Get {
    const TAG: i32 = Tm::Db.tag();
}

impl Field for Get {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_head(body, number::GET, self.tid, &self.class, [self.index, self.flags.bits()])
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let Head { tid, class, index, flags, .. } = Head::of(number::GET, reader)?;
        Ok(Self { tid, class, index, flags: Flags(flags) })
    }
}

impl Request for Names {
    const TAG: i32 = Tm::Db.tag();
}

impl Field for Names {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_head(body, number::NAMES, self.tid, &self.pattern, [0, 0])
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let Head { tid, class, .. } = Head::of(number::NAMES, reader)?;
        Ok(Self { tid, pattern: class })
    }
}

impl Request for Reset {
    const TAG: i32 = Tm::Db.tag();
}

impl Field for Reset {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        let numbers = [self.index, i32::from(self.kill)];
        self.keep.write(write_head(body, number::RESET, self.tid, &self.class, numbers))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let Head { tid, class, index, flags, .. } = Head::of(number::RESET, reader)?;
        Ok(Self { tid, class, index, kill: flags != 0, keep: Field::read(reader)? })
    }
}

/// Any request to the mailbox, as its keeper reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Leave a message.
    Put(Put),
    /// Remove an entry.
    Remove(Remove),
    /// Get an entry.
    Get(Get),
    /// List entries.
    Names(Names),
    /// Remove what is left of tasks that are gone.
    Reset(Reset),
}

impl Operation {
    /// The request in a body.
    pub fn decode(body: &[u8]) -> Result<Self, BodyError> {
        match BodyReader::new(body).int()? {
            number::PUT => Put::decode(body).map(Self::Put),
            number::REMOVE => Remove::decode(body).map(Self::Remove),
            number::GET => Get::decode(body).map(Self::Get),
            number::NAMES => Names::decode(body).map(Self::Names),
            number::RESET => Reset::decode(body).map(Self::Reset),
            unknown => Err(BodyError::Length(unknown)),
        }
    }

    /// The task that asks.
    pub fn tid(&self) -> Tid {
        match self {
            Self::Put(Put { tid, .. })
            | Self::Remove(Remove { tid, .. })
            | Self::Get(Get { tid, .. })
            | Self::Names(Names { tid, .. })
            | Self::Reset(Reset { tid, .. }) => *tid,
        }
    }
}
