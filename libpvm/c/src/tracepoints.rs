//! PVM's own tracing: an event when a program enters a function and one when it leaves it, for the task's tracer.
//!
//! Most functions are traced by [`traced`], the frame of a call with what its events tell. For a task without a
//! tracer that is one comparison.

use super::memory::TimeVal;
use super::state::{Outcome, State, call, locked};
use super::{internals, mailbox};
use pvm_engine::Payload;
use pvm_wire::events::{Datum, ENTRY, EVENTS, EXIT, Event, Head, Writer};
use pvm_wire::spawn::Sink;
use pvm_wire::{Encoding, MessageHeader};
use std::ffi::c_int;

/// `PvmTraceFull`: each event with all its data.
const FULL: c_int = 1;
/// `PvmTraceTime`: at the end, how often each function was called and how long it took.
const TIME: c_int = 2;
/// `PvmTraceCount`: at the end, how often.
const COUNT: c_int = 3;
/// A trace message is sent when it has so many bytes, whatever the program asks for.
const MESSAGE_MAX: usize = 1 << 20;
/// `PvmAllowDirect`.
const ALLOW_DIRECT: c_int = 2;

/// What this task has told its tracer, and what it will tell.
#[derive(Debug, Default)]
pub struct Tracer {
    /// To whom the descriptions went.
    sink: Sink,
    described: Vec<i32>,
    waiting: Option<Writer>,
    tallies: Vec<Tally>,
}

/// How often a function was called, and how long that took, microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: i32,
    since: i64,
    total: i64,
}

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
    if is_traced(state, event) {
        record(state, event, ENTRY, fill);
    }
}

/// A function is left.
#[cold]
pub fn leave(
    state: &mut State,
    event: Event,
    code: c_int,
    fill: impl FnOnce(&mut State, &mut Writer, c_int),
) {
    if is_traced(state, event) {
        record(state, event, EXIT, |state, event| fill(state, event, code));
    }
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

/// A task that was not spawned finds in the mailbox what its tracer wants to know.
pub fn learn(state: &mut State) {
    let complete = ["PVMTMASK", "PVMTRCBUF", "PVMTRCOPT"].iter().all(|name| std::env::var_os(name).is_some());
    let traced = |state: &State| state.engine.as_ref().map(|engine| engine.options().own_trace);
    if complete || traced(state).is_none_or(|sink| sink.receiver().is_none()) {
        return;
    }
    let Ok((sink, mask, [buffer, mode])) = mailbox::tracer(state) else { return };
    if let Some(engine) = &mut state.engine
        && engine.options().own_trace == sink
    {
        let options = engine.options_mut();
        if mask.len() == options.own_trace_mask.len() {
            options.own_trace_mask.clone_from(&mask);
            options.child_trace_mask = mask;
        }
        (options.own_trace_buffer, options.child_trace_buffer) = (buffer, buffer);
        (options.own_trace_options, options.child_trace_options) = (mode, mode);
    }
}

/// Whether nobody is told of a call that begins or ends now, as with most tasks.
#[inline]
pub fn is_quiet(state: &State) -> bool {
    match &state.engine {
        Some(engine) => engine.options().own_trace.tid <= 0,
        None => !state.traced_from_start,
    }
}

/// Whether this task has a tracer that wants this event.
fn is_traced(state: &State, event: Event) -> bool {
    state.engine.as_ref().is_some_and(|engine| {
        let options = engine.options();
        let tracer = options.own_trace.tid;
        tracer > 0 && tracer != engine.tid().raw() && event.is_in(&options.own_trace_mask)
    })
}

fn record(state: &mut State, event: Event, phase: i32, fill: impl FnOnce(&mut State, &mut Writer)) {
    let Some(engine) = &state.engine else { return };
    let (options, tid) = (engine.options(), engine.tid().raw());
    let (mode, size, sink) = (options.own_trace_options, options.own_trace_buffer, options.own_trace);
    let now = internals::now();
    if sink != state.tracer.sink {
        state.tracer = Tracer { sink, ..Tracer::default() };
    }
    match mode {
        FULL => {
            let mut writer = state.tracer.waiting.take().unwrap_or_else(|| Writer::new(size != 0));
            let describes = state.tracer.describes(event.number() | phase);
            writer.begin(event, phase, head(now, tid), describes);
            fill(state, &mut writer);
            writer.end();
            let limit = usize::try_from(size).unwrap_or(0).min(MESSAGE_MAX);
            let is_full = writer.len() >= limit;
            state.tracer.waiting = Some(writer);
            if is_full {
                flush(state);
            }
        }
        TIME | COUNT => state.tracer.count(event, phase, micros(now)),
        _ => {}
    }
}

fn head(now: TimeVal, tid: c_int) -> Head {
    Head { seconds: now.seconds as i32, micros: now.micros as i32, tid }
}

fn micros(time: TimeVal) -> i64 {
    time.seconds * 1_000_000 + time.micros
}

impl Tracer {
    /// Whether this event has not been described yet, and is now.
    fn describes(&mut self, event: i32) -> bool {
        let new = !self.described.contains(&event);
        if new {
            self.described.push(event);
        }
        new
    }

    fn count(&mut self, event: Event, phase: i32, now: i64) {
        self.tallies.resize(EVENTS.len(), Tally::default());
        let tally = &mut self.tallies[event as usize];
        if phase == ENTRY {
            tally.count = tally.count.saturating_add(1);
            tally.since = now;
        } else {
            tally.total += now - tally.since;
        }
    }

    /// The one event that tells all tallies.
    fn summary(&mut self, mode: c_int, head: Head) -> Writer {
        let tallies = std::mem::take(&mut self.tallies);
        let called: Vec<(&str, Tally)> = EVENTS
            .iter()
            .zip(tallies)
            .filter(|(_, tally)| tally.count > 0)
            .map(|(name, tally)| (name.to_str().unwrap_or_default(), tally))
            .collect();
        let numbers = |number: fn(&Tally) -> i64| -> Vec<i32> {
            called.iter().map(|(_, tally)| number(tally) as i32).collect()
        };
        let mut writer = Writer::new(false);
        writer.begin(if mode == TIME { Event::Timing } else { Event::Profiling }, 0, head, true);
        writer.int(Datum::VCT, called.len() as i32).texts(Datum::VID, called.iter().map(|(name, _)| *name));
        if mode == TIME {
            writer.ints(Datum::TGS, &numbers(|tally| tally.total.div_euclid(1_000_000)));
            writer.ints(Datum::TGU, &numbers(|tally| tally.total.rem_euclid(1_000_000)));
        }
        writer.ints(Datum::PRF, &numbers(|tally| tally.count.into())).end();
        writer
    }
}

/// Sends what waits to be sent to the tracer.
pub fn flush(state: &mut State) {
    let Some(engine) = &mut state.engine else { return };
    let (mode, sink, tid) = (engine.options().own_trace_options, engine.options().own_trace, engine.tid());
    let tracer = &mut state.tracer;
    let message = match mode {
        FULL => tracer.waiting.take(),
        TIME | COUNT => {
            (!tracer.tallies.is_empty()).then(|| tracer.summary(mode, head(internals::now(), tid.raw())))
        }
        _ => None,
    };
    let (Some(message), Some(receiver)) = (message, sink.receiver()) else { return };
    let header = MessageHeader {
        encoding: Encoding::Xdr.word(),
        tag: sink.tag,
        context: sink.context,
        wait_id: 0,
        checksum: 0,
    };
    let route = engine.options().route;
    // Trace messages open no routes.
    engine.options_mut().route = route.min(ALLOW_DIRECT);
    // Tracing is no reason for a program to fail; a lost daemon is seen by the next call.
    let _ = engine.send(receiver, header, Payload::Parts(&[&message.finish()]));
    engine.options_mut().route = route;
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::body::BodyReader;

    #[test]
    fn an_event_is_described_once() {
        let mut tracer = Tracer::default();
        assert!(tracer.describes(ENTRY) && tracer.describes(EXIT) && !tracer.describes(ENTRY));
    }

    #[test]
    fn tallies_are_told_in_one_event() {
        let mut tracer = Tracer::default();
        for (event, phase, now) in [
            (Event::Send, ENTRY, 100),
            (Event::Send, EXIT, 2_000_150),
            (Event::Recv, ENTRY, 3_000_000),
            (Event::Recv, EXIT, 3_000_010),
            (Event::Send, ENTRY, 4_000_000),
            (Event::Send, EXIT, 4_000_050),
        ] {
            tracer.count(event, phase, now);
        }
        let body = tracer.summary(TIME, Head { seconds: 1, micros: 2, tid: 3 }).finish();
        let mut reader = BodyReader::new(&body);
        assert_eq!(reader.ints(2).unwrap(), [-5, Event::Timing.number()]);
        assert_eq!(reader.str().unwrap(), "timing");
        reader.ints(9).unwrap();
        assert_eq!(reader.ints(3).unwrap()[2], 2, "two functions");
        reader.ints(3).unwrap();
        assert_eq!((reader.str().unwrap(), reader.str().unwrap()), ("recv", "send"));
        let mut numbers = || reader.ints(5).unwrap()[3..].to_vec();
        assert_eq!([numbers(), numbers(), numbers()], [[0, 2], [10, 100], [1, 2]]);
        assert_eq!(reader.int().unwrap(), -6);
        assert!(tracer.tallies.is_empty());
    }
}
