//! Queued batches: spawns that return at once, and whose tasks start as there is room for them.

use crate::error::{Error, Result};
use crate::receive::Received;
use crate::spawn::Spawn;
use crate::task::Task;
use pvm_wire::PvmError;
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::Tmx;
use pvm_wire::queue::{BatchEvent, BatchRecord, QueueRequest, decode_batches};

/// A queued batch to be started.
///
/// Each host runs as many tasks of queued batches at a time as it has slots (`PVM_TASK_SLOTS`, one per core); the others wait.
/// While the batch runs, its parent is told what becomes of each task, if it asks for that. It has to take those notices: 1024 that it
/// has not taken hold its batches back.
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
    /// Queues the tasks: the call returns at once, and they start as there is room for them.
    pub fn queued(self) -> Queued<'a> {
        Queued { spawn: self, request: QueueRequest { tag: -1, ..QueueRequest::default() } }
    }
}

impl Queued<'_> {
    /// Asks for notices of each start and end, as messages with this tag in the current context
    /// ([`Received::get_batch_event`]). While 1024 of them wait to be received, no more tasks are started.
    pub fn notices(mut self, tag: i32) -> Self {
        self.request.tag = tag;
        self
    }

    /// How often a task is started again that cannot be started, ends with an error or by a signal, or whose host is lost; if
    /// possible on another host. 0 if not called.
    pub fn restarts(mut self, restarts: u32) -> Self {
        self.request.restarts = i32::try_from(restarts).unwrap_or(i32::MAX);
        self
    }

    /// Queues the batch and returns its id, a number that no other batch of the virtual machine has.
    pub fn start(self) -> Result<i32> {
        let Self { spawn, mut request } = self;
        let (task, spawn) = spawn.into_request()?;
        request.context = task.engine.context();
        request.spawn = spawn;
        task.engine.queue_batch(&request)
    }
}

/// What becomes of batches.
impl Task {
    /// Cancels a queued batch: what waits is not started any more, what runs is ended (SIGTERM).
    pub fn cancel_batch(&mut self, batch: i32) -> Result<()> {
        self.engine.cancel_batch(batch)
    }

    /// The virtual machine's batches: those in placement, those queued, and the last ones that have ended.
    pub fn batches(&mut self) -> Result<Vec<BatchRecord>> {
        self.engine.require_ours()?;
        let answer = self.engine.request(Tmx::Batches.tag(), Vec::new())?;
        let mut reader = BodyReader::new(&answer);
        crate::error::check(reader.int()?, "the list of batches")?;
        let unreadable = |error| Error::new(PvmError::DSysErr, format!("the list of batches: {error}"));
        decode_batches(reader.rest()).map_err(unreadable)
    }
}

impl Received {
    /// The notice of a queued batch that this message is: the batch, and what has happened.
    pub fn get_batch_event(&mut self) -> Result<(i32, BatchEvent)> {
        let mut ints = [0; 5];
        self.get_into(&mut ints)?;
        BatchEvent::from_ints(ints)
            .ok_or_else(|| Error::new(PvmError::BadMsg, "the message is no notice of a queued batch"))
    }
}

impl crate::engine::Engine {
    /// Queues a batch; its id.
    pub fn queue_batch(&mut self, request: &QueueRequest) -> Result<i32> {
        self.require_ours()?;
        let what = format!("queueing {}", request.spawn.file.display());
        let answer = self.request(Tmx::Queue.tag(), request.encode())?;
        checked(&mut BodyReader::new(&answer), &what)
    }

    /// Cancels a queued batch.
    pub fn cancel_batch(&mut self, batch: i32) -> Result<()> {
        self.require_ours()?;
        let answer = self.request(Tmx::CancelBatch.tag(), BodyWriter::new().int(batch).finish())?;
        checked(&mut BodyReader::new(&answer), &format!("cancelling batch {batch:x}")).map(drop)
    }

    /// What the original's daemon cannot do.
    pub(crate) fn require_ours(&self) -> Result<()> {
        if self.daemon_is_ours() {
            return Ok(());
        }
        Err(Error::new(PvmError::NotImpl, "the daemon here is the original PVM's, which cannot do this"))
    }
}

/// The first number of an answer. If it is an error's code, the reason may stand behind.
pub(crate) fn checked(reader: &mut BodyReader<'_>, what: &str) -> Result<i32> {
    let value = reader.int()?;
    pvm_wire::error::check(value).map_err(|code| match reader.str() {
        Ok(reason) => Error::new(code, format!("{what}: {reason}")),
        Err(_) => Error::new(code, format!("{what}: {code}")),
    })
}
