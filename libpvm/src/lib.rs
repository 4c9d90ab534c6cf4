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
//!
//! # Errors
//!
//! A call that fails returns an [`Error`]: PVM's code, and a text with the reason. Each call that needs the daemon fails with
//! [`PvmError::SysErr`] if the connection to the daemon is lost ([`Task::is_enrolled`]). An id that names no task and a negative tag are
//! [`PvmError::BadParam`]. The calls below name further codes only.
//!
//! # Units
//!
//! Lengths of messages and buffers are bytes, times are [`Duration`](std::time::Duration)s, unless a name says otherwise (`micros`).
#![forbid(unsafe_code)]

mod group;
mod incidents;
mod jobs;
mod machine;
mod mailbox;
mod moving;
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
/// The error of a call: PVM's code, and the reason as text.
///
/// ```
/// use pvm3::{Error, PvmError};
///
/// let error = Error::new(PvmError::NoHost, "node7 is not in the virtual machine");
/// assert_eq!(error.code(), PvmError::NoHost);
/// assert_eq!(error.to_string(), "node7 is not in the virtual machine");
/// ```
#[doc(inline)]
pub use pvm_engine::Error;
/// The options of a task: [`Task::options_mut`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// task.options_mut().policy = "round-robin".into();
/// assert!(task.options().fragment_size >= 4096);
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_engine::Options;
/// Starts a virtual machine on this host.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// pvm3::start_daemon(&["hostfile"], true)?;
/// let mut task = pvm3::Task::enrol()?;
/// # task.exit()
/// # }
/// ```
///
/// Errors: [`PvmError::CantStart`] if there is no daemon's program, or it does not start; [`PvmError::DupHost`] if a daemon runs here.
#[doc(inline)]
pub use pvm_engine::start_daemon;
/// Output of collected tasks, and what receives it, for instance a closure: [`Task::collect_output`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::{OutputEvent, Tid};
///
/// task.collect_output(Some(Box::new(|tid: Tid, event: OutputEvent| {
///     if let OutputEvent::Bytes(text) = event {
///         print!("[{tid}] {}", String::from_utf8_lossy(&text));
///     }
/// })));
/// task.spawn("worker").start()?;
/// task.wait_for_collected()?;
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_engine::{OutputEvent, OutputSink};
#[doc(inline)]
pub use pvm_engine::{Result, address_file, login_name, tmp_dir};
#[doc(inline)]
pub use pvm_engine::{daemon_program, start_daemon_with};
/// The types of values in messages: [`Pack::put`], [`Received::get`].
///
/// ```
/// fn total<T: pvm3::Element>(message: &mut pvm3::Received, count: usize) -> pvm3::Result<T>
/// where
///     T: std::iter::Sum,
/// {
///     Ok(message.get::<T>(count)?.into_iter().sum())
/// }
/// ```
#[doc(inline)]
pub use pvm_wire::Element;
/// How values are encoded in messages.
///
/// ```
/// use pvm3::{Encoding, Pack};
///
/// assert_eq!(Pack::new().encoding(), Encoding::Xdr);
/// assert_eq!(Pack::raw().encoding(), Encoding::Raw);
/// ```
#[doc(inline)]
pub use pvm_wire::Encoding;
/// A whole message, for programs that serve protocols of their own: [`Task::next_message`], [`Task::send_message`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let message = task.next_message()?;
/// println!("tag {} from {}, {} bytes", message.header.tag, message.src, message.body.len());
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::Message;
/// PVM's error codes.
///
/// ```
/// use pvm3::PvmError;
///
/// assert_eq!(PvmError::from_code(-6), Some(PvmError::NoHost));
/// assert_eq!(PvmError::NoHost.name(), "PvmNoHost");
/// assert_eq!(PvmError::NoHost.to_string(), "No such host");
/// ```
#[doc(inline)]
pub use pvm_wire::PvmError;
/// The id of a task, a host or a daemon.
///
/// ```
/// let tid = pvm3::Tid::from_raw(0x40003);
/// assert_eq!(tid.to_string(), "t40003");
/// assert!(tid.is_task() && !pvm3::Tid::MY_DAEMON.is_task());
/// ```
#[doc(inline)]
pub use pvm_wire::Tid;
/// Progress of additions of hosts: [`Task::additions`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let additions = task.additions()?;
/// println!("{additions:?}");
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::calls::hosts::Additions;
/// Flags of the calls of the mailbox.
///
/// ```
/// use pvm3::MailboxFlags;
///
/// let flags = MailboxFlags::PERSISTENT | MailboxFlags::MULTI_INSTANCE;
/// assert!(flags.contains(MailboxFlags::PERSISTENT));
/// assert_eq!(MailboxFlags::direct_index(7).map(MailboxFlags::wanted_index), Some(7));
/// ```
#[doc(inline)]
pub use pvm_wire::calls::mailbox::Flags as MailboxFlags;
/// A name in the mailbox with its entries, and one of these: [`Task::mailbox_info`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for class in task.mailbox_info("")? {
///     for entry in class.entries {
///         println!("{} {}: of {}", class.name.display(), entry.index, entry.owner);
///     }
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::calls::mailbox::{Class as MailboxClass, Entry as MailboxEntry};
/// The identity of a process that a task starts itself: [`Task::adopt`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let adopted = task.adopt(7)?;
/// std::process::Command::new("./worker").env("PVMEPID", adopted.cookie.to_string()).spawn().expect("it starts");
/// println!("its id will be {}", adopted.tid);
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::calls::tasks::Adopted;
/// A certificate for a server of a task: [`Task::certify`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// # let public_key = Vec::new();
/// let certified = task.certify(&["node1", "10.0.0.1"], &public_key)?;
/// let chain = [certified.certificate, certified.authority];
/// # drop(chain);
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::certificate::Certified;
/// Reading trace messages, as a tracer does.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let mut reader = pvm3::EventReader::default();
/// let (events, end) = reader.read(task.recv(pvm3::Any, 99)?.body()?);
/// for event in &events {
///     println!("{} {:?}", event.name, event.data);
/// }
/// if end.is_err() {
///     println!("the rest of the message cannot be read");
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::event_reader::{EventReader, Told};
/// The events that can be traced: one for each call, and some of the library's own.
///
/// ```
/// use pvm3::{TraceEvent, TraceMask};
///
/// assert!(TraceMask::ALL.has(TraceEvent::Barrier));
/// ```
#[doc(inline)]
pub use pvm_wire::events::Event as TraceEvent;
/// A report of a loss: [`Task::incidents`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::{Incident, signal_of};
///
/// task.report_incidents(false)?;
/// for incident in task.incidents()? {
///     match incident {
///         Incident::HostLost { name, reason, tasks, .. } => println!("{name}: {reason}, {} tasks", tasks.len()),
///         Incident::TaskEnded { tid, status, .. } => println!("{tid}: signal {:?}", signal_of(status)),
///     }
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::incident::Incident;
/// Reads the signal from a status that `wait` has returned.
///
/// ```
/// assert_eq!(pvm3::signal_of(9), Some(9));
/// assert_eq!(pvm3::signal_of(0x100), None); // exit status 1
/// ```
#[doc(inline)]
pub use pvm_wire::incident::signal_of;
/// A job and a queue, as they are listed: [`Task::jobs`], [`Task::queues`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for job in task.jobs(&[])? {
///     println!("{}: {}, {} of {} tasks wait", job.id, job.state.name(), job.waiting, job.tasks.count());
/// }
/// for queue in task.queues()? {
///     println!("{}: {} jobs wait", queue.name, queue.waiting);
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::jobs::{
    ClusterRecord, ClusterShare, HostCluster, JobRecord, JobState, LentRecord, Origin as JobOrigin,
    QueueRecord, RunRecord,
};
/// What is submitted to a queue: [`Task::submit`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::{JobRequest, JobTasks};
///
/// let mut job = JobRequest::new("/home/ann/run.sh", "ann", "/home/ann");
/// job.tasks = JobTasks::Array { first: 1, count: 200, at_once: None };
/// let id = task.submit(job)?;
/// println!("job {id}");
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::jobs::{Expectation, JobId, JobRequest, TaskProgram, Tasks as JobTasks};
/// What waits for room, and hosts that a program can add for it: [`Task::wanted_by_jobs`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// let wanted = task.wanted_by_jobs(None, None)?;
/// let slots: u64 = wanted.jobs.iter().map(|job| u64::from(job.tasks) * u64::from(job.slots)).sum();
/// println!("jobs wait for {slots} slots");
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::jobs::{Expected as ExpectedHosts, WantedList, WantedRecord};
/// How busy a host is: [`Task::loads`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for host in task.loads()? {
///     let Some(load) = host.load else { continue };
///     println!("{}: {:.2} processes want to run", host.host, f64::from(load.run_queue[0]) / 100.0);
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::loads::{LoadRecord, LoadVector};
/// A notice of a queued batch: [`Received::get_batch_event`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::BatchEvent;
///
/// let (batch, event) = task.recv(pvm3::Tid::MY_DAEMON, 7)?.get_batch_event()?;
/// if let BatchEvent::Ended { number, status, .. } = event {
///     println!("batch {batch:x}: task {number} has exited, status {status}");
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::queue::BatchEvent;
/// What placing a batch has cost and which host was given how many tasks when; what policies have cost each host:
/// [`Task::batches`], [`Task::policy_tallies`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for tally in task.policy_tallies()? {
///     println!("{} on host {}: {} messages for {} tasks", tally.policy, tally.host, tally.messages.all(), tally.given);
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::queue::{BatchDecision, PolicyMessages, PolicyTally};
/// A batch as it is listed, and what a host was given of it: [`Task::batches`].
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// for batch in task.batches()? {
///     println!("{:x}: {} of {} tasks wait", batch.id, batch.waiting, batch.total);
///     for node in batch.nodes {
///         println!("  host {} got {}", node.host, node.given);
///     }
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::queue::{BatchRecord, NodeTally};
/// An order for a hoster: see [`Hoster`].
///
/// ```
/// let print = |order: &pvm3::StartHost| println!("{}: {} on {}", order.host, order.command, order.target);
/// # let _ = print;
/// ```
#[doc(inline)]
pub use pvm_wire::services::StartHost;
/// An order for a tasker: see [`Tasker`].
///
/// ```
/// let print = |order: &pvm3::StartTask| println!("{}: {} {:?}", order.tid, order.path.display(), order.args);
/// # let _ = print;
/// ```
#[doc(inline)]
pub use pvm_wire::services::StartTask;
/// News for a resource manager: see [`Managed::Ended`].
///
/// ```
/// let ended = pvm3::TaskEnded { tid: pvm3::Tid::from_raw(0x40002), status: 11 };
/// assert_eq!(pvm3::signal_of(ended.status), Some(11));
/// ```
#[doc(inline)]
pub use pvm_wire::services::TaskEnded;
/// What a resource manager is asked, and answers: see [`Manager`].
///
/// ```
/// use pvm3::{SpawnReply, SpawnRequest};
///
/// let request = SpawnRequest { file: "worker".into(), count: 2, ..SpawnRequest::default() };
/// let refused = vec![pvm3::PvmError::Denied.code(); request.count as usize];
/// let reply = SpawnReply { results: refused, ..SpawnReply::default() };
/// assert_eq!(reply.results, [-8, -8]);
/// ```
#[doc(inline)]
pub use pvm_wire::spawn::{SpawnReply, SpawnRequest};
/// A complex number, as an element of messages.
///
/// ```
/// use pvm3::{Complex32, Complex64};
///
/// let mut pack = pvm3::Pack::new();
/// pack.put(&[Complex32 { re: 1.0, im: 0.0 }])?.put_one(Complex64 { re: 0.0, im: 1.0 })?;
/// assert_eq!(pack.len(), 8 + 16);
/// # Ok::<(), pvm3::Error>(())
/// ```
#[doc(inline)]
pub use pvm_wire::{Complex32, Complex64};
pub use queue::Queued;
pub use receive::{Any, Received, Source, Tag};
pub use routing::Routing;
pub use services::{Asker, Hoster, Managed, Manager, Tasker, Traced, Tracer};
pub use spawn::{Refused, Spawn, Spawned};
pub use task::Task;
pub use tracing::{TraceMask, TraceMode};
