//! The frame of a call that is traced: an event when a program enters a function and one when it leaves it.
//!
//! Most functions are traced by [`traced`], the frame of a call with what its events tell. For a task without a
//! tracer that is one comparison.

use super::state::{Outcome, State, call, locked};
use pvm_wire::events::{Datum, ENTRY, EXIT, Event, Writer};
use std::ffi::c_int;

/// The frame of a call that is traced: `entry` adds what its first event tells, `exit` what its second one does, which
/// knows the result.
#[inline(always)]
pub fn traced(
    name: &str,
    event: Event,
    entry: impl FnOnce(&mut State, &mut Writer),
    exit: impl FnOnce(&mut State, &mut Writer, c_int),
    body: impl FnOnce(&mut State) -> Outcome,
) -> c_int {
    call(name, move |state| {
        if !is_quiet(state) {
            enter(state, event, entry);
        }
        let outcome = body(state);
        if !is_quiet(state) {
            leave(state, event, code(&outcome), exit);
        }
        outcome
    })
}

/// What a call returns in this case.
pub fn code(outcome: &Outcome) -> c_int {
    match outcome {
        Ok(value) => *value,
        Err(failure) => failure.code,
    }
}

/// Nothing besides the head.
pub fn nothing(_: &mut State, _: &mut Writer) {}

/// An argument of the call under this name, and nothing else.
pub fn argument(datum: Datum, value: c_int) -> impl FnOnce(&mut State, &mut Writer) {
    move |_, event| {
        event.int(datum, value);
    }
}

/// The result under this name, and nothing else.
pub fn result(datum: Datum) -> impl FnOnce(&mut State, &mut Writer, c_int) {
    move |_, event, code| {
        event.int(datum, code);
    }
}

/// A function is entered.
#[cold]
pub fn enter(state: &mut State, event: Event, fill: impl FnOnce(&mut State, &mut Writer)) {
    let enrols = !matches!(event, Event::Getopt | Event::Setopt);
    if enrols && state.engine.is_none() && std::mem::take(&mut state.traced_from_start) {
        // The entry itself is an event. If there is no daemon, the call will say so.
        let _ = state.engine();
    }
    record(state, event, ENTRY, fill);
}

/// A function is left.
#[cold]
pub fn leave(
    state: &mut State,
    event: Event,
    code: c_int,
    fill: impl FnOnce(&mut State, &mut Writer, c_int),
) {
    record(state, event, EXIT, |state, event| fill(state, event, code));
}

/// [`leave`], for functions that wait with nothing locked.
pub fn leave_unlocked(event: Event, outcome: &Outcome, fill: impl FnOnce(&mut State, &mut Writer, c_int)) {
    // It fails in a signal handler that interrupts a call of the library; then the event is missing.
    let _ = locked(|state| {
        leave(state, event, code(outcome), fill);
        Ok(())
    });
}

/// Whether the environment says that a task is traced from its first call on.
pub fn asked_for() -> bool {
    std::env::var("PVMTMASK").is_ok_and(|mask| mask.bytes().any(|bits| bits & 0xf != 0))
}

/// Whether nobody is told of a call that begins or ends now, as with most tasks.
#[inline]
pub fn is_quiet(state: &State) -> bool {
    match &state.engine {
        Some(engine) => engine.is_quiet(),
        None => !state.traced_from_start,
    }
}

fn record(state: &mut State, event: Event, phase: i32, fill: impl FnOnce(&mut State, &mut Writer)) {
    let Some(mut record) = state.engine.as_mut().and_then(|engine| engine.begin_event(event, phase)) else {
        return;
    };
    fill(state, &mut record);
    if let Some(engine) = &mut state.engine {
        engine.end_event(record);
    }
}

/// Sends what waits to be sent to the tracer.
pub fn flush(state: &mut State) {
    if let Some(engine) = &mut state.engine {
        engine.flush_trace();
    }
}
