//! Queued batches: spawns that return at once, and whose tasks start as there is room for them.

use crate::receive::Received;
use crate::spawn::{Spawn, describe_request};
use crate::task::Task;
use crate::tracing::code;
use pvm_engine::{Error, Result};
use pvm_wire::PvmError;
use pvm_wire::calls::spawn::{Batches, CancelBatch};
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::queue::{BatchEvent, BatchRecord, PolicyTally, QueueRequest};
use pvm_wire::spawn::flags;

/// A queued batch to be started.
///
/// Each host runs as many tasks of queued batches at a time as it has slots (`PVM_TASK_SLOTS`, one per core); the others wait.
/// Its parent can ask for notices of each start and exit. It has to receive them: while 1024 are waiting, no more of its tasks are started.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let batch = task.spawn("worker").count(10_000).queued().notices(7).restarts(2).start()?;
/// loop {
///     match task.recv(pvm3::Tid::MY_DAEMON, 7)?.get_batch_event()? {
///         (_, pvm3::BatchEvent::Done { done, failed, .. }) => break println!("{done} done, {failed} failed"),
///         (_, event) => println!("batch {batch:x}: {event:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is queued before `start`"]
pub struct Queued<'a> {
    spawn: Spawn<'a>,
    request: QueueRequest,
}

impl<'a> Spawn<'a> {
    /// Makes this a queued batch: [`Queued::start`] returns at once, and the tasks start as hosts have free slots.
    pub fn queued(self) -> Queued<'a> {
        Queued { spawn: self, request: QueueRequest { tag: -1, ..QueueRequest::default() } }
    }
}

impl Queued<'_> {
    /// Asks for notices of each start and exit, as messages with this tag in the current context
    /// ([`Received::get_batch_event`]). While 1024 of them wait to be received, no more tasks are started.
    pub fn notices(mut self, tag: i32) -> Self {
        self.request.tag = tag;
        self
    }

    /// How often a failed task is started again, if possible on another host; 0 if not called. A task has failed if it cannot be started, exits
    /// with another status than 0 or by a signal, or if its host is lost.
    pub fn restarts(mut self, restarts: u32) -> Self {
        self.request.restarts = i32::try_from(restarts).unwrap_or(i32::MAX);
        self
    }

    /// Queues the batch and returns its id, a number that no other batch of the virtual machine has.
    ///
    /// [`PvmError::BadParam`]: no tasks, or an unknown policy. [`PvmError::OutOfRes`]: too many tasks.
    pub fn start(self) -> Result<i32> {
        let Self { spawn, mut request } = self;
        let (task, spawn) = spawn.into_request()?;
        request.context = task.engine.context();
        request.spawn = spawn;
        let entry = |event: &mut Writer| describe_request(event, &request.spawn, flags::QUEUED);
        let tell_queued = |event: &mut Writer, queued: &Result<i32>| {
            event.int(Datum::CC, code(queued, |&batch| batch)).ints(Datum::STL, &[]);
        };
        task.traced(Event::Spawn, entry, tell_queued, |task| task.engine.call(&request))
    }
}

/// Batches under way.
impl Task {
    /// Cancels a queued batch: waiting tasks are dropped, running ones get SIGTERM. [`PvmError::NotFound`]: there is no such batch.
    pub fn cancel_batch(&mut self, batch: i32) -> Result<()> {
        self.engine.call(&CancelBatch { batch })
    }

    /// The virtual machine's batches: those being placed, those queued, and the last 16 of each host that are complete.
    pub fn batches(&mut self) -> Result<Vec<BatchRecord>> {
        Ok(self.engine.call(&Batches {})?.batches)
    }

    /// What placement policies have cost on each host since its daemon began: batches, tasks and messages. Policies that were not used
    /// are not listed.
    pub fn policy_tallies(&mut self) -> Result<Vec<PolicyTally>> {
        Ok(self.engine.call(&Batches {})?.policies)
    }
}

impl Received {
    /// Reads a notice of a queued batch: its id, and what has happened. [`PvmError::BadMsg`], [`PvmError::NoData`]: the message is no such notice.
    pub fn get_batch_event(&mut self) -> Result<(i32, BatchEvent)> {
        let mut ints = [0; 5];
        self.get_into(&mut ints)?;
        BatchEvent::from_ints(ints)
            .ok_or_else(|| Error::new(PvmError::BadMsg, "the message is no notice of a queued batch"))
    }
}
