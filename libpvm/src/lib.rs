//! What PVM programs link: this Rust API, and the C and Fortran ABI of PVM 3.4 (`libpvm3.so.3`).
//!
//! A program becomes a task of the virtual machine whose daemon runs on its host, packs values into messages and
//! sends them to other tasks by their ids:
//!
//! ```no_run
//! # fn main() -> pvm3::Result<()> {
//! let mut task = pvm3::Task::enrol()?;
//! if let Some(parent) = task.parent() {
//!     let mut work = task.recv(parent, 1)?;
//!     let count = work.get_one::<i32>()?;
//!     let numbers: Vec<f64> = work.get(count as usize)?;
//!     let mut answer = pvm3::Pack::new();
//!     answer.put_one(numbers.iter().sum::<f64>())?;
//!     task.send(parent, 2, &answer)?;
//! } else {
//!     let workers = task.spawn("my-program").count(4).start()?;
//!     let mut work = pvm3::Pack::new();
//!     work.put_one(3)?.put(&[1.0, 2.0, 3.0])?;
//!     task.multicast(&workers.tids, 1, &work)?;
//!     for _ in &workers.tids {
//!         let sum: f64 = task.recv(pvm3::Any, 2)?.get_one()?;
//!         println!("{sum}");
//!     }
//! }
//! task.exit()
//! # }
//! ```
#![deny(unsafe_code)]

mod daemon;
mod engine;
mod error;
#[allow(unsafe_code)]
mod ffi;
mod groups;
mod incidents;
mod incoming;
mod machine;
mod mailbox;
mod notify;
mod pack;
mod packed;
mod queue;
mod receive;
mod routing;
mod spare;
mod spawn;
mod storage;
mod task;

pub use daemon::{daemon_program, start_daemon, start_daemon_with};
pub use engine::{Options, OutputEvent, OutputSink, address_file, tmp_dir};
pub use error::{Error, Result};
pub use groups::Group;
pub use machine::{ClockAhead, HostFailure, HostInfo, HostState, Scope, TaskInfo};
pub use pack::Pack;
pub use pvm_wire::calls::mailbox::{Class as MailboxClass, Entry as MailboxEntry, Flags as MailboxFlags};
pub use pvm_wire::calls::tasks::Adopted;
pub use pvm_wire::incident::{Incident, signal_of};
pub use pvm_wire::queue::{BatchEvent, BatchRecord, NodeTally};
pub use pvm_wire::{Complex32, Complex64, Element, Encoding, Message, PvmError, Tid};
pub use queue::Queued;
pub use receive::{Any, Received, Source, Tag};
pub use routing::Routing;
pub use spawn::{Refused, Spawn, Spawned};
pub use task::Task;
