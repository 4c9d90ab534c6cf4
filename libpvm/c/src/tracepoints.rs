//! Traced calls: an event when a program enters a function and one when it leaves it.
//!
//! Most functions use [`traced`], which makes the call and records its events. For a task without a
//! tracer that is one comparison.

use super::state::{Outcome, State, call, locked};
use pvm_wire::events::{Datum, ENTRY, EXIT, Event, Writer};
use std::ffi::{OsStr, c_int};

/// Makes a traced call: `entry` adds data to its first event, `exit` to its second one, which
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

/// The return value of a call with this outcome.
pub fn code(outcome: &Outcome) -> c_int {
    match outcome {
        Ok(value) => *value,
        Err(failure) => failure.code,
    }
}

/// No data besides the head.
pub fn nothing(_: &mut State, _: &mut Writer) {}

/// An argument of the call under this name, and nothing else.
pub fn argument(datum: Datum, value: c_int) -> impl FnOnce(&mut State, &mut Writer) {
    move |_, event| {
        event.int(datum, value);
    }
}

/// As [`argument`], for a text.
pub fn text_argument(
    datum: Datum,
    text: &(impl AsRef<OsStr> + ?Sized),
) -> impl FnOnce(&mut State, &mut Writer) {
    move |_, event| {
        event.text(datum, text);
    }
}

/// The result of the call under this name.
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
        // The entry itself is an event. If there is no daemon, the call fails with that.
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
    // It fails in a signal handler that interrupts a call of the library; then there is no event.
    let _ = locked(|state| {
        leave(state, event, code(outcome), fill);
        Ok(())
    });
}

/// Whether the environment asks for tracing from the first call on.
pub fn asked_for() -> bool {
    std::env::var("PVMTMASK").is_ok_and(|mask| mask.bytes().any(|bits| bits & 0xf != 0))
}

/// Whether calls are not traced now, as in most tasks.
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
