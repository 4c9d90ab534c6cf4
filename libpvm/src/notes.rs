//! Trace events of calls without access to the task: packing and unpacking are methods of messages.
//!
//! Such calls are noted with their times, and the task records them before the next event of its own. Without a tracer
//! this costs one comparison per call.

use pvm_engine::Result;
use pvm_wire::events::{Datum, Event, Writer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most notes between two events of the task's own. Later calls are dropped.
const NOTES_MAX: usize = 1 << 16;

/// A call that was made.
#[derive(Debug)]
pub struct Note {
    pub event: Event,
    pub subject: Subject,
    /// When it began and ended, since 1970.
    pub times: [Duration; 2],
    /// The return value of C's function.
    pub code: i32,
}

/// The subject of a call.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// Values of the program: where, and how many.
    Array { address: usize, count: usize },
    /// A string of the program.
    Text { address: usize },
    /// The task that has spawned this one.
    Parent,
}

/// Whether a task of this process has a tracer.
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

static NOTES: Mutex<Vec<Note>> = Mutex::new(Vec::new());

fn notes() -> MutexGuard<'static, Vec<Note>> {
    // No panic can leave the list half changed.
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call that may fail, and notes it.
#[inline(always)]
pub fn noted<T>(
    event: Event,
    subject: impl FnOnce(Option<&T>) -> Subject,
    call: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !ARE_TAKEN.load(Ordering::Relaxed) {
        return call();
    }
    let begun = now();
    let result = call();
    let code = result.as_ref().map_or_else(|error| error.code().code(), |_| 0);
    note(event, subject(result.as_ref().ok()), begun, code);
    result
}

/// Notes a call that has begun at this time.
#[cold]
#[inline(never)]
pub fn note(event: Event, subject: Subject, begun: Duration, code: i32) {
    let mut notes = notes();
    if notes.len() < NOTES_MAX {
        notes.push(Note { event, subject, times: [begun, now()], code });
    }
}

/// Takes the notes; from now on calls are noted.
#[cold]
pub fn take() -> Vec<Note> {
    ARE_TAKEN.store(true, Ordering::Relaxed);
    std::mem::take(&mut *notes())
}

/// The task that takes the notes leaves the virtual machine.
pub fn end() {
    if ARE_TAKEN.swap(false, Ordering::Relaxed) {
        notes().clear();
    }
}

/// Whether calls are noted.
#[inline]
pub fn are_taken() -> bool {
    ARE_TAKEN.load(Ordering::Relaxed)
}

/// The time of day.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Note {
    /// Writes the data of the event that marks the start of the call.
    pub fn begin(&self, event: &mut Writer) {
        match self.subject {
            Subject::Array { address, count } => {
                event
                    .long(Datum::PDA, address as i64)
                    .int(Datum::PC, i32::try_from(count).unwrap_or(i32::MAX));
                event.int(Datum::PSD, 1);
            }
            Subject::Text { address } => {
                event.long(Datum::PDA, address as i64);
            }
            Subject::Parent => {}
        }
    }

    /// Writes the data of the event at the end of the call.
    pub fn end(&self, event: &mut Writer) {
        let datum = if matches!(self.subject, Subject::Parent) { Datum::PT } else { Datum::CC };
        event.int(datum, self.code);
    }
}
