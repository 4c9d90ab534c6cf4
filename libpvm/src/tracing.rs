//! PVM's trace events in the Rust API: calls are recorded for the task's tracer as those of the C interface are.

use crate::notes::{self, Note};
use crate::receive::{Received, Source, Tag};
use crate::task::Task;
use pvm_engine::{Error, Result};
use pvm_wire::calls::tasks::{SetSinks, SinkItem};
use pvm_wire::events::{Datum, ENTRY, EXIT, Event, Writer};
use pvm_wire::spawn::Sink;
use pvm_wire::{PvmError, Tid};

/// How detailed the reports to a tracer are (`PvmTraceOptions`).
///
/// ```
/// let terms = pvm3::Traced { mode: pvm3::TraceMode::Count, mask: pvm3::TraceMask::ALL, ..Default::default() };
/// # let _ = terms;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    /// Each event with all its data.
    Full = 1,
    /// At the end, how often each function was called and how long that took.
    Time = 2,
    /// At the end, how often each function was called.
    Count = 3,
}

/// Which events are traced (`pvm_settmask`).
///
/// ```
/// use pvm3::{TraceEvent, TraceMask};
///
/// let mask = TraceMask::NONE.with(TraceEvent::Send).with(TraceEvent::Recv);
/// assert!(mask.has(TraceEvent::Send) && !mask.has(TraceEvent::Spawn));
/// assert_eq!(mask.to_string().len(), 35);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceMask(u128);

impl TraceMask {
    /// No event.
    pub const NONE: Self = Self(0);
    /// Every event.
    pub const ALL: Self = Self((1 << EVENTS) - 1);

    /// This event, too.
    #[must_use]
    pub const fn with(self, event: Event) -> Self {
        Self(self.0 | 1 << event as u32)
    }

    /// Whether an event is traced.
    pub const fn has(self, event: Event) -> bool {
        self.0 & (1 << event as u32) != 0
    }
}

/// Number of events.
const EVENTS: usize = pvm_wire::events::EVENTS.len();

/// As PVM writes it: four events in each character above `@`.
impl std::fmt::Display for TraceMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = |character: u32| self.0.checked_shr(4 * character).unwrap_or(0) as u8 & 0xf;
        (0..pvm_engine::TRACE_MASK_LENGTH as u32)
            .try_for_each(|character| write!(f, "{}", char::from(b'@' + bits(character))))
    }
}

/// Reports of calls to a tracer.
///
/// Packing and unpacking are reported with the next event of the task's own, up to 65536 calls between two of them.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::{TraceEvent, TraceMask, TraceMode};
///
/// // The children report what they send and receive to this task.
/// let me = task.tid();
/// task.trace_children(me, 99, TraceMask::NONE.with(TraceEvent::Send).with(TraceEvent::Recv), TraceMode::Full)?;
/// task.spawn("worker").start()?;
/// let mut reader = pvm3::EventReader::default();
/// loop {
///     let (events, end) = reader.read(task.recv(pvm3::Any, 99)?.body()?);
///     for event in events {
///         println!("{} {:?}", event.name, event.data);
///     }
///     end.expect("a trace message");
/// }
/// # }
/// ```
impl Task {
    /// Tasks that this one spawns from now on report these events (`PvmTraceTid` and the other options of children) to `to`: this task,
    /// or the tracer of this task. Another one is [`PvmError::BadParam`].
    pub fn trace_children(&mut self, to: Tid, tag: i32, mask: TraceMask, mode: TraceMode) -> Result<()> {
        let (context, own) = (self.engine.context(), self.engine.options().own_trace);
        let sink = Sink { tid: to.raw(), context, tag };
        if to != self.tid() && sink != own {
            let text = format!("children trace to their parent or to its own tracer, not to {to}");
            return Err(Error::new(PvmError::BadParam, text));
        }
        let options = self.engine.options_mut();
        options.child_trace = sink;
        options.child_trace_mask = mask.to_string();
        options.child_trace_options = mode as i32;
        Ok(())
    }

    /// From now on this task and tasks that it spawns report these events to another (`PvmSelfTraceTid` and the other options).
    pub fn trace_to(&mut self, to: Tid, tag: i32, mask: TraceMask, mode: TraceMode) -> Result<()> {
        crate::task::check_task(to)?;
        self.engine.flush_trace();
        let sink = Sink { tid: to.raw(), context: self.engine.context(), tag };
        let item = |item, value| (Some(item), value);
        self.engine.call(&SetSinks {
            items: vec![
                item(SinkItem::TraceTid, sink.tid),
                item(SinkItem::TraceContext, sink.context),
                item(SinkItem::TraceTag, sink.tag),
            ],
        })?;
        let options = self.engine.options_mut();
        (options.own_trace, options.child_trace) = (sink, sink);
        (options.own_trace_mask, options.child_trace_mask) = (mask.to_string(), mask.to_string());
        (options.own_trace_options, options.child_trace_options) = (mode as i32, mode as i32);
        Ok(())
    }

    /// Collects up to this many bytes of events before reporting them (`PvmSelfTraceBuffer`); so do tasks that it spawns from now on.
    pub fn set_trace_buffer(&mut self, bytes: usize) -> Result<()> {
        let bytes = i32::try_from(bytes).map_err(|_| PvmError::BadParam)?;
        self.engine.flush_trace();
        let options = self.engine.options_mut();
        (options.own_trace_buffer, options.child_trace_buffer) = (bytes, bytes);
        Ok(())
    }

    /// Reports an event of the program's own, a name and numbers, if this task has a tracer and its mask includes such events.
    pub fn trace_event(&mut self, name: &str, numbers: &[i32]) {
        if !self.engine.is_quiet() {
            self.record(Event::UserDefined, 0, |event| {
                event.text(Datum::PSG, name).ints(Datum::OPV, numbers);
            });
        }
    }

    /// Makes a traced call: `entry` adds data to its first event, `exit` to its second one, which knows the result.
    #[inline]
    pub(crate) fn traced<T>(
        &mut self,
        event: Event,
        entry: impl FnOnce(&mut Writer),
        exit: impl FnOnce(&mut Writer, &Result<T>),
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !self.engine.is_quiet() {
            self.record(event, ENTRY, entry);
        }
        let result = body(self);
        if !self.engine.is_quiet() {
            self.record(event, EXIT, |event| exit(event, &result));
        }
        result
    }

    /// Tells the tracer of an event, and first of the calls since the last one that messages have made by themselves.
    #[cold]
    pub(crate) fn record(&mut self, event: Event, phase: i32, fill: impl FnOnce(&mut Writer)) {
        for note in notes::take() {
            let Note { event, times: [begun, ended], .. } = note;
            self.engine.trace_at(begun, event, ENTRY, |event| note.begin(event));
            self.engine.trace_at(ended, event, EXIT, |event| note.end(event));
        }
        self.engine.trace(event, phase, fill);
    }
}

/// Nothing besides the head.
pub(crate) fn nothing(_: &mut Writer) {}

/// The return value of C's function: a number that stands for the result, or an error's code.
pub(crate) fn code<T>(result: &Result<T>, number: impl FnOnce(&T) -> i32) -> i32 {
    result.as_ref().map_or_else(|error| error.code().code(), number)
}

/// The code under this name, 0 if all went well.
pub(crate) fn status<T>(datum: Datum) -> impl FnOnce(&mut Writer, &Result<T>) {
    move |event, result| {
        event.int(datum, code(result, |_| 0));
    }
}

/// Writes the sender, tag and context of a wanted message.
pub(crate) fn wanted(event: &mut Writer, from: Source, tag: Tag, context: i32) {
    let from = if let Source::Tid(tid) = from { tid.raw() } else { -1 };
    let tag = if let Tag::Is(tag) = tag { tag } else { -1 };
    event.int(Datum::RST, from).int(Datum::RMC, tag).int(Datum::RCX, context);
}

/// Writes the data of a received message. C's function returns a buffer's id: here it is 1.
pub(crate) fn received(event: &mut Writer, result: &Result<Option<Received>>, context: i32) {
    let found = result.as_ref().ok().and_then(Option::as_ref);
    let (length, tag, src) =
        found.map_or((-1, -1, -1), |found| (found.len() as i32, found.tag(), found.source().raw()));
    let id = code(result, |found| i32::from(found.is_some()));
    event.int(Datum::MB, id).int(Datum::MNB, length).int(Datum::MC, tag);
    event.int(Datum::MCX, context).int(Datum::SRC, src);
}
