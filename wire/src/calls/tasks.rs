//! Tasks: which there are, how they are, signals, their contexts and sinks.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`ListTasks`], TM_TASK | int where, \[int version\] | int 0, [`TaskList`] |
//! | [`TaskStatus`], TM_PSTAT | int task | int 0 |
//! | [`SendSignal`], TM_SENDSIG | int task, int signal | nothing, before anything is done |
//! | [`Context`], TM_CONTEXT | int context | int context, or 0 |
//! | [`SetSinks`], TM_SETOPT | (int item, str in hexadecimal) to the end | nothing |
//! | [`Multicast`], TM_MCA | int n, n × int task | none |
//! | [`Adopt`], TMX | int context, int tag | int task, int cookie |

use super::{Field, Request, answers, fields, requests};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::{Tm, Tmx};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

requests! {
    /// The tasks of the virtual machine (`pvm_tasks`).
    ListTasks = Tm::Task; {
        /// Those of this host, or this one; all for [`Tid::NONE`].
        which: Tid,
        /// [`EXTENSION_VERSION`](crate::codes::EXTENSION_VERSION), from those who want to know which libraries are this system's.
        version: Option<i32>,
    }

    /// Whether a task runs (`pvm_pstat`).
    TaskStatus = Tm::Pstat; {
        /// The task.
        tid: Tid,
    }

    /// Send a task a signal (`pvm_sendsig`). A task that has ended gets nothing, without an error.
    SendSignal = Tm::SendSig; {
        /// The task.
        tid: Tid,
        /// The signal's number.
        signal: i32,
    }

    /// Make a context, or give one back (`pvm_newcontext`, `pvm_freecontext`).
    Context = Tm::Context; {
        /// The one to give back; 0 for a new one.
        context: i32,
    }

    /// An id for a process that the caller starts itself, whose sink is the caller.
    Adopt = Tmx::Adopt; {
        /// Context of the output of tasks that it spawns.
        context: i32,
        /// Their tag.
        tag: i32,
    }
}

answers! {
    ListTasks => 0, TaskList, |_| "the list of tasks";
    TaskStatus => 0, (), |call| format!("the state of {}", call.tid);
    SendSignal => (), |call| format!("a signal to {}", call.tid);
    Context => i32, |call| match call.context {
        0 => "a new context".to_owned(),
        context => format!("freeing context {context}"),
    };
    Adopt => Adopted, |_| "an id for a process";
    SetSinks => (), |_| "this task's sinks";
}

fields! {
    /// The identity of a process.
    Adopted {
        /// Its id.
        tid: Tid,
        /// What it needs in its environment as `PVMEPID`.
        cookie: i32,
    }
}

/// One task in a [`TaskList`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The task.
    pub tid: Tid,
    /// Its parent, 0 if none.
    pub parent: i32,
    /// Its host's tid.
    pub host: i32,
    /// [`crate::codes::task_flags`].
    pub flags: i32,
    /// Its program, empty if not known.
    pub name: OsString,
    /// Its process.
    pub pid: i32,
}

/// Tasks, one behind the other up to the end of the body: nothing says how many they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskList {
    /// In ascending order.
    pub tasks: Vec<TaskRecord>,
}

impl Field for TaskList {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.tasks.iter().fold(body, |body, task| {
            let body = body.int(task.tid.raw()).int(task.parent).int(task.host).int(task.flags);
            body.str(&task.name).int(task.pid)
        })
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let mut tasks = Vec::new();
        while !reader.rest().is_empty() {
            tasks.push(TaskRecord {
                tid: Tid::read(reader)?,
                parent: reader.int()?,
                host: reader.int()?,
                flags: reader.int()?,
                name: OsString::read(reader)?,
                pid: reader.int()?,
            });
        }
        Ok(Self { tasks })
    }
}

/// Which number of which sink of a task's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum SinkItem {
    /// Who gets the output.
    OutputTid = 1,
    /// In which context.
    OutputContext = 2,
    /// With which tag.
    OutputTag = 3,
    /// Who gets the trace.
    TraceTid = 4,
    /// In which context.
    TraceContext = 5,
    /// With which tag.
    TraceTag = 6,
}

impl SinkItem {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::OutputTid,
        Self::OutputContext,
        Self::OutputTag,
        Self::TraceTid,
        Self::TraceContext,
        Self::TraceTag,
    ];
}

/// Change the caller's own sinks, number by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSinks {
    /// What, and its new value. An item that is not known has no effect.
    pub items: Vec<(Option<SinkItem>, i32)>,
}

impl Request for SetSinks {
    const TAG: i32 = Tm::SetOpt.tag();
}

impl Field for SetSinks {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.items.iter().fold(body, |body, &(item, value)| {
            body.int(item.map_or(0, |item| item as i32)).str(format!("{value:x}"))
        })
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let mut items = Vec::new();
        while !reader.rest().is_empty() {
            let number = reader.int()?;
            let value = u32::from_str_radix(reader.str()?.trim_start_matches("0x"), 16);
            let item = SinkItem::ALL.into_iter().find(|&item| item as i32 == number);
            items.push((item, value.map_err(|_| BodyError::Text)?.cast_signed()));
        }
        Ok(Self { items })
    }
}

/// The receivers of the caller's next message to its multicast address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// In ascending order.
    pub tids: Vec<Tid>,
}

impl Request for Multicast {
    const TAG: i32 = Tm::Mca.tag();
    const CONTEXT: i32 = 0;
}

impl Field for Multicast {
    fn write(&self, body: BodyWriter) -> BodyWriter {
        self.tids.write(body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { tids: Field::read(reader)? })
    }
}
