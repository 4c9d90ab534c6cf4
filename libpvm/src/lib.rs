//! PVM for Rust programs. The C and the Fortran interface are a library of their own (`libpvm3.so.3`).
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
#![forbid(unsafe_code)]

mod group;
mod incidents;
mod machine;
mod mailbox;
mod notes;
mod notify;
mod pack;
mod queue;
mod receive;
mod routing;
mod services;
mod spare;
mod spawn;
mod task;
mod tracing;

pub use group::Group;
pub use machine::{ClockAhead, HostFailure, HostInfo, HostState, Scope, TaskInfo};
pub use pack::Pack;
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// pvm3::start_daemon(&["hostfile"], true)?;
/// let mut task = pvm3::Task::enrol()?;
/// # task.exit()
/// # }
/// ```
pub use pvm_engine::start_daemon;
pub use pvm_engine::{Error, Options, OutputEvent, OutputSink, Result, address_file, tmp_dir};
pub use pvm_engine::{daemon_program, start_daemon_with};
pub use pvm_wire::calls::hosts::Additions;
pub use pvm_wire::calls::mailbox::{Class as MailboxClass, Entry as MailboxEntry, Flags as MailboxFlags};
pub use pvm_wire::calls::tasks::Adopted;
pub use pvm_wire::event_reader::{EventReader, Told};
pub use pvm_wire::events::Event as TraceEvent;
pub use pvm_wire::incident::{Incident, signal_of};
pub use pvm_wire::queue::{BatchEvent, BatchRecord, NodeTally};
pub use pvm_wire::services::{StartHost, StartTask, TaskEnded};
pub use pvm_wire::spawn::{SpawnReply, SpawnRequest};
pub use pvm_wire::{Complex32, Complex64, Element, Encoding, Message, PvmError, Tid};
pub use queue::Queued;
pub use receive::{Any, Received, Source, Tag};
pub use routing::Routing;
pub use services::{Asker, Hoster, Managed, Manager, Tasker, Traced, Tracer};
pub use spawn::{Refused, Spawn, Spawned};
pub use task::Task;
pub use tracing::{TraceMask, TraceMode};
