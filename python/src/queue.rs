//! Queued batches: what becomes of them.

use crate::task::Task;
use pvm3::{BatchDecision, BatchRecord};
use pyo3::prelude::*;

/// An event of a queued batch, for its parent.
#[pyclass(module = "pvm", frozen, get_all)]
pub struct BatchEvent {
    /// The batch.
    batch: i32,
    /// `"started"`, `"ended"`, `"again"` (it has failed and waits to be started again), `"failed"` (for good) or `"done"` (all have ended,
    /// nothing follows).
    kind: &'static str,
    /// The task's number in the batch, from 0 on.
    number: Option<u32>,
    /// The task's id; `None` if it was not even started.
    tid: Option<i32>,
    /// Its status from `wait` (see `os.waitstatus_to_exitcode`), or an error code.
    status: Option<i32>,
    /// With `"done"`: tasks that ended well, that failed, that were cancelled.
    totals: Option<(u32, u32, u32)>,
}

impl BatchEvent {
    pub fn new(batch: i32, event: pvm3::BatchEvent) -> Self {
        use pvm3::BatchEvent as Event;
        let of_task = |kind, number, tid: pvm3::Tid, status| Self {
            batch,
            kind,
            number: Some(number),
            tid: (tid != pvm3::Tid::NONE).then_some(tid.raw()),
            status,
            totals: None,
        };
        match event {
            Event::Started { number, tid } => of_task("started", number, tid, None),
            Event::Ended { number, tid, status } => of_task("ended", number, tid, Some(status)),
            Event::Again { number, tid, status } => of_task("again", number, tid, Some(status)),
            Event::Failed { number, tid, code } => of_task("failed", number, tid, Some(code)),
            Event::Done { done, failed, cancelled } => Self {
                batch,
                kind: "done",
                number: None,
                tid: None,
                status: None,
                totals: Some((done, failed, cancelled)),
            },
        }
    }
}

#[pymethods]
impl BatchEvent {
    fn __repr__(&self) -> String {
        let Self { batch, kind, number, totals, .. } = self;
        match (number, totals) {
            (Some(number), _) => format!("<pvm.BatchEvent: task {number} of batch {batch:x}: {kind}>"),
            (None, totals) => format!("<pvm.BatchEvent: batch {batch:x}: {kind} {totals:?}>"),
        }
    }
}

/// A batch, as it is listed.
#[pyclass(module = "pvm", frozen, get_all)]
pub struct Batch {
    /// Its id; 0 if it is a plain spawn.
    id: i32,
    /// The task that asked for it.
    parent: i32,
    /// Its program.
    program: String,
    /// The policy that places it.
    policy: String,
    /// Tasks in all.
    total: u32,
    /// Tasks that no host has been given.
    waiting: u32,
    /// Tasks that run.
    running: u32,
    /// Tasks that ended well.
    done: u32,
    /// Tasks that failed.
    failed: u32,
    /// Tasks that were cancelled.
    cancelled: u32,
    /// Starts beyond the first of a task.
    restarts: u32,
    /// Messages of the policy for this batch from one host to another, as far as its home knows.
    messages_between_hosts: u64,
    /// The same between processes of its home's host.
    messages_at_home: u64,
    /// The last decisions: seconds since the batch was asked for, id of the host's daemon, number of tasks.
    decisions: Vec<(f64, i32, u32)>,
}

impl From<BatchRecord> for Batch {
    fn from(record: BatchRecord) -> Self {
        Self {
            id: record.id,
            parent: record.parent.raw(),
            program: record.file.to_string_lossy().into_owned(),
            policy: record.policy,
            total: record.total,
            waiting: record.waiting,
            running: record.running,
            done: record.done,
            failed: record.failed,
            cancelled: record.cancelled,
            restarts: record.restarts,
            messages_between_hosts: record.messages.between_hosts,
            messages_at_home: record.messages.at_home,
            decisions: record.decisions.iter().map(decision).collect(),
        }
    }
}

fn decision(decision: &BatchDecision) -> (f64, i32, u32) {
    (decision.after as f64 / 1e6, decision.host.host_tid().raw(), decision.count)
}

#[pymethods]
impl Task {
    /// Cancels a queued batch: what waits is not started any more, what runs is ended (SIGTERM).
    fn cancel_batch(&self, py: Python<'_>, batch: i32) -> PyResult<()> {
        self.handle.call(py, |task| task.cancel_batch(batch))
    }

    /// The virtual machine's batches: those in placement, those queued, and the last ones that have ended.
    fn batches(&self, py: Python<'_>) -> PyResult<Vec<Batch>> {
        let batches = self.handle.call(py, pvm3::Task::batches)?;
        Ok(batches.into_iter().map(Batch::from).collect())
    }
}
