//! PVM's own tracing: an event when a program enters a call and one when it leaves it, for the task's tracer.
//!
//! For a task without a tracer that is one comparison a call, [`Engine::is_quiet`].

use super::roles::TRACER_CLASS;
use super::{Engine, Payload, xdr_header};
use crate::Result;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::Field;
use pvm_wire::calls::mailbox::{Flags, Get};
use pvm_wire::calls::roles::TracerTerms;
use pvm_wire::events::{Datum, ENTRY, EVENTS, Event, Head, Writer};
use pvm_wire::spawn::Sink;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `PvmTraceFull`: each event with all its data.
const FULL: i32 = 1;
/// `PvmTraceTime`: at the end, how often each function was called and how long it took.
const TIME: i32 = 2;
/// `PvmTraceCount`: at the end, how often.
const COUNT: i32 = 3;
/// A trace message is sent when it has this many bytes, even if the program has set a larger buffer.
const MESSAGE_MAX: usize = 1 << 20;
/// `PvmAllowDirect`.
const ALLOW_DIRECT: i32 = 2;

/// The events that wait to be sent to the tracer, and what was sent before.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// The tracer that has got the descriptions.
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

impl Engine {
    /// Whether there is no tracer, as with most tasks.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.options.own_trace.tid <= 0
    }

    /// Whether this task has a tracer that wants this event.
    pub fn is_traced(&self, event: Event) -> bool {
        let tracer = self.options.own_trace.tid;
        tracer > 0 && tracer != self.tid().raw() && event.is_in(&self.options.own_trace_mask)
    }

    /// Records that a call begins or ends, if the tracer has asked for that; `fill` adds the event's data.
    #[cold]
    pub fn trace(&mut self, event: Event, phase: i32, fill: impl FnOnce(&mut Writer)) {
        self.trace_at(now(), event, phase, fill);
    }

    /// As [`Engine::trace`], of a call that has begun or ended at this time, since 1970.
    pub fn trace_at(&mut self, time: Duration, event: Event, phase: i32, fill: impl FnOnce(&mut Writer)) {
        if let Some(mut record) = self.begin_event_at(time, event, phase) {
            fill(&mut record);
            self.end_event(record);
        }
    }

    /// The record of an event to be filled and given to [`Engine::end_event`]; `None` if the tracer wants none.
    pub fn begin_event(&mut self, event: Event, phase: i32) -> Option<Writer> {
        self.begin_event_at(now(), event, phase)
    }

    fn begin_event_at(&mut self, now: Duration, event: Event, phase: i32) -> Option<Writer> {
        if !self.is_traced(event) {
            return None;
        }
        let (options, tid) = (&self.options, self.identity.tid.raw());
        let sink = options.own_trace;
        if sink != self.tracer.sink {
            self.tracer = Tracer { sink, ..Tracer::default() };
        }
        match options.own_trace_options {
            FULL => {
                let waiting = self.tracer.waiting.take();
                let mut record = waiting.unwrap_or_else(|| Writer::new(options.own_trace_buffer != 0));
                let describes = self.tracer.describes(event.number() | phase);
                record.begin(event, phase, head(now, tid), describes);
                return Some(record);
            }
            TIME | COUNT => self.tracer.count(event, phase, now.as_micros() as i64),
            _ => {}
        }
        None
    }

    /// The record is complete: it is sent, or waits for more.
    pub fn end_event(&mut self, mut record: Writer) {
        record.end();
        let limit = usize::try_from(self.options.own_trace_buffer).unwrap_or(0).min(MESSAGE_MAX);
        let is_full = record.len() >= limit;
        self.tracer.waiting = Some(record);
        if is_full {
            self.flush_trace();
        }
    }

    /// Sends the waiting events to the tracer.
    pub fn flush_trace(&mut self) {
        let (mode, sink, tid) =
            (self.options.own_trace_options, self.options.own_trace, self.identity.tid.raw());
        let tracer = &mut self.tracer;
        let message = match mode {
            FULL => tracer.waiting.take(),
            TIME | COUNT => (!tracer.tallies.is_empty()).then(|| tracer.summary(mode, head(now(), tid))),
            _ => None,
        };
        let (Some(message), Some(receiver)) = (message, sink.receiver()) else { return };
        let route = self.options.route;
        // Trace messages open no routes.
        self.options.route = route.min(ALLOW_DIRECT);
        // Tracing must not make a program fail; the next call reports a lost daemon.
        let _ =
            self.send(receiver, xdr_header(sink.tag, sink.context, 0), Payload::Parts(&[&message.finish()]));
        self.options.route = route;
    }

    /// A task that was not spawned reads its tracer's terms in the mailbox.
    pub(super) fn query_tracer(&mut self) {
        let complete =
            ["PVMTMASK", "PVMTRCBUF", "PVMTRCOPT"].iter().all(|name| std::env::var_os(name).is_some());
        if complete || self.options.own_trace.receiver().is_none() {
            return;
        }
        // Without terms nothing is traced.
        let Ok((sink, terms)) = self.tracer_terms() else { return };
        let options = &mut self.options;
        if options.own_trace == sink {
            if terms.mask.len() == options.own_trace_mask.len() {
                options.own_trace_mask.clone_from(&terms.mask);
                options.child_trace_mask = terms.mask;
            }
            (options.own_trace_buffer, options.child_trace_buffer) = (terms.buffer, terms.buffer);
            (options.own_trace_options, options.child_trace_options) = (terms.options, terms.options);
        }
    }

    /// The tracer's entry in the mailbox: where to send trace events, and which.
    fn tracer_terms(&mut self) -> Result<(Sink, TracerTerms)> {
        let (tid, class) = (self.tid(), TRACER_CLASS.into());
        let found = self.call(&Get { tid, class, index: 0, flags: Flags::DEFAULT })?;
        let message = found.message.open()?;
        let mut fields = BodyReader::new(&message.body);
        let tid = fields.int()?;
        let terms = TracerTerms::read(&mut fields)?;
        Ok((Sink { tid, context: terms.trace_context, tag: terms.trace_tag }, terms))
    }
}

/// The time of day.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn head(now: Duration, tid: i32) -> Head {
    Head { seconds: now.as_secs() as i32, micros: now.subsec_micros() as i32, tid }
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

    /// The one event with all tallies.
    fn summary(&mut self, mode: i32, head: Head) -> Writer {
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

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::body::BodyReader;
    use pvm_wire::events::EXIT;

    #[test]
    fn an_event_is_described_once() {
        let mut tracer = Tracer::default();
        assert!(tracer.describes(ENTRY) && tracer.describes(EXIT) && !tracer.describes(ENTRY));
    }

    #[test]
    fn tallies_are_sent_in_one_event() {
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
