//! `pvm_setopt` and `pvm_getopt`.

use super::mailbox;
use super::output;
use super::state::{Outcome, State};
use super::tracepoints::{self, argument, result, traced};
use pvm_wire::PvmError;
use pvm_wire::calls::mailbox::NO_RESET_CLASS;
use pvm_wire::calls::tasks::{SetSinks, SinkItem};
use pvm_wire::events::{Datum, Event};
use pvm_wire::limits::{FRAGMENT_SIZE, FRAGMENT_SIZE_RANGE};
use pvm_wire::spawn::Sink;
use std::ffi::c_int;
use std::mem::replace;

/// The options' numbers in `pvm3.h`.
mod number {
    pub const ROUTE: i32 = 1;
    pub const DEBUG_MASK: i32 = 2;
    pub const AUTO_ERR: i32 = 3;
    pub const OUTPUT_TID: i32 = 4;
    pub const OUTPUT_CODE: i32 = 5;
    pub const TRACE_TID: i32 = 6;
    pub const TRACE_CODE: i32 = 7;
    pub const TRACE_BUFFER: i32 = 8;
    pub const TRACE_OPTIONS: i32 = 9;
    pub const FRAG_SIZE: i32 = 10;
    pub const RESV_TIDS: i32 = 11;
    pub const SELF_OUTPUT_TID: i32 = 12;
    pub const SELF_OUTPUT_CODE: i32 = 13;
    pub const SELF_TRACE_TID: i32 = 14;
    pub const SELF_TRACE_CODE: i32 = 15;
    pub const SELF_TRACE_BUFFER: i32 = 16;
    pub const SELF_TRACE_OPTIONS: i32 = 17;
    pub const SHOW_TIDS: i32 = 18;
    pub const POLL_TYPE: i32 = 19;
    pub const POLL_TIME: i32 = 20;
    pub const OUTPUT_CONTEXT: i32 = 21;
    pub const TRACE_CONTEXT: i32 = 22;
    pub const SELF_OUTPUT_CONTEXT: i32 = 23;
    pub const SELF_TRACE_CONTEXT: i32 = 24;
    pub const NO_RESET: i32 = 25;
    pub const BATCH_CODE: i32 = 1001;
    pub const BATCH_RESTARTS: i32 = 1002;
}

/// The sink of an option, and which of its three numbers the option is.
#[derive(Clone, Copy)]
struct SinkOption {
    own: bool,
    trace: bool,
    field: Field,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Tid,
    Context,
    Tag,
}

impl SinkOption {
    fn of(what: c_int) -> Option<Self> {
        use Field::{Context, Tag, Tid};
        let (own, trace, field) = match what {
            number::OUTPUT_TID => (false, false, Tid),
            number::OUTPUT_CODE => (false, false, Tag),
            number::OUTPUT_CONTEXT => (false, false, Context),
            number::TRACE_TID => (false, true, Tid),
            number::TRACE_CODE => (false, true, Tag),
            number::TRACE_CONTEXT => (false, true, Context),
            number::SELF_OUTPUT_TID => (true, false, Tid),
            number::SELF_OUTPUT_CODE => (true, false, Tag),
            number::SELF_OUTPUT_CONTEXT => (true, false, Context),
            number::SELF_TRACE_TID => (true, true, Tid),
            number::SELF_TRACE_CODE => (true, true, Tag),
            number::SELF_TRACE_CONTEXT => (true, true, Context),
            _ => return None,
        };
        Some(Self { own, trace, field })
    }

    /// The daemon's name for it.
    fn item(self) -> SinkItem {
        match (self.trace, self.field) {
            (false, Field::Tid) => SinkItem::OutputTid,
            (false, Field::Context) => SinkItem::OutputContext,
            (false, Field::Tag) => SinkItem::OutputTag,
            (true, Field::Tid) => SinkItem::TraceTid,
            (true, Field::Context) => SinkItem::TraceContext,
            (true, Field::Tag) => SinkItem::TraceTag,
        }
    }
}

fn field(sink: &mut Sink, field: Field) -> &mut c_int {
    match field {
        Field::Tid => &mut sink.tid,
        Field::Context => &mut sink.context,
        Field::Tag => &mut sink.tag,
    }
}

/// The value of an option.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_getopt(what: c_int) -> c_int {
    traced("pvm_getopt", Event::Getopt, argument(Datum::OPT, what), result(Datum::OPV), |state| {
        get(state, what)
    })
}

fn get(state: &mut State, what: c_int) -> Outcome {
    let settings = &state.settings;
    let options = state.engine.as_ref().map(pvm_engine::Engine::options);
    if let Some(option) = SinkOption::of(what) {
        let Some(options) = options else { return Ok(0) };
        let mut sink = match (option.own, option.trace) {
            (false, false) => options.child_output,
            (false, true) => options.child_trace,
            (true, false) => options.own_output,
            (true, true) => options.own_trace,
        };
        return Ok(*field(&mut sink, option.field));
    }
    Ok(match what {
        number::ROUTE => settings.route,
        number::DEBUG_MASK => settings.debug_mask,
        number::AUTO_ERR => settings.auto_err,
        number::RESV_TIDS => settings.resv_tids,
        number::SHOW_TIDS => output::show_tids(),
        number::FRAG_SIZE => options.map_or(FRAGMENT_SIZE, |options| options.fragment_size) as c_int,
        number::TRACE_BUFFER => options.map_or(0, |options| options.child_trace_buffer),
        number::TRACE_OPTIONS => options.map_or(0, |options| options.child_trace_options),
        number::SELF_TRACE_BUFFER => options.map_or(0, |options| options.own_trace_buffer),
        number::SELF_TRACE_OPTIONS => options.map_or(0, |options| options.own_trace_options),
        number::BATCH_CODE => options.map_or(-1, |options| options.batch_tag),
        number::BATCH_RESTARTS => options.map_or(0, |options| options.batch_restarts),
        number::NO_RESET => c_int::from(state.no_reset.is_some()),
        _ => return Err(PvmError::BadParam.into()),
    })
}

/// Sets an option and returns the value before.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_setopt(what: c_int, value: c_int) -> c_int {
    traced(
        "pvm_setopt",
        Event::Setopt,
        |_, event| {
            event.int(Datum::OPT, what).int(Datum::OPV, value);
        },
        result(Datum::OPV),
        |state| match what {
            number::POLL_TYPE
            | number::POLL_TIME
            | number::SELF_OUTPUT_CONTEXT
            | number::SELF_TRACE_CONTEXT => Err(PvmError::NotImpl.into()),
            number::NO_RESET => set_no_reset(state, value),
            _ => match SinkOption::of(what) {
                Some(option) if option.own => set_own_sink(state, option, value),
                Some(option) => set_child_sink(state, option, value),
                None => set_plain(state, what, value),
            },
        },
    )
}

fn within(value: c_int, range: std::ops::RangeInclusive<c_int>) -> Result<c_int, PvmError> {
    if range.contains(&value) { Ok(value) } else { Err(PvmError::BadParam) }
}

fn set_plain(state: &mut State, what: c_int, value: c_int) -> Outcome {
    let settings = &mut state.settings;
    let old = match what {
        number::ROUTE => replace(&mut settings.route, within(value, 1..=3)?),
        number::DEBUG_MASK => replace(&mut settings.debug_mask, value),
        number::AUTO_ERR => replace(&mut settings.auto_err, value),
        number::RESV_TIDS => replace(&mut settings.resv_tids, value),
        number::SHOW_TIDS => output::set_show_tids(value),
        number::FRAG_SIZE => return set_fragment_size(state, value),
        number::TRACE_BUFFER => replace(&mut state.engine()?.options_mut().child_trace_buffer, value),
        number::SELF_TRACE_BUFFER => {
            tracepoints::flush(state);
            replace(&mut state.engine()?.options_mut().own_trace_buffer, value)
        }
        number::TRACE_OPTIONS => {
            let value = within(value, 1..=3)?;
            replace(&mut state.engine()?.options_mut().child_trace_options, value)
        }
        number::SELF_TRACE_OPTIONS => {
            tracepoints::flush(state);
            let value = within(value, 1..=3)?;
            replace(&mut state.engine()?.options_mut().own_trace_options, value)
        }
        number::BATCH_CODE => replace(&mut state.engine()?.options_mut().batch_tag, value),
        number::BATCH_RESTARTS => {
            let value = within(value, 0..=c_int::MAX)?;
            replace(&mut state.engine()?.options_mut().batch_restarts, value)
        }
        _ => return Err(PvmError::BadParam.into()),
    };
    let settings = state.settings.clone();
    if let Some(engine) = &mut state.engine {
        settings.copy_to(engine);
    }
    Ok(old)
}

fn set_fragment_size(state: &mut State, value: c_int) -> Outcome {
    let size = usize::try_from(value).ok().filter(|size| FRAGMENT_SIZE_RANGE.contains(size));
    let size = size.ok_or(PvmError::BadParam)?;
    // Before the enrolment it has no effect, as in PVM: the daemon's answer brings the size.
    let Some(engine) = &mut state.engine else { return Ok(FRAGMENT_SIZE as c_int) };
    Ok(replace(&mut engine.options_mut().fragment_size, size) as c_int)
}

/// Output of children may go nowhere, to this task, or to this task's own sink under the same tag and context.
fn set_child_sink(state: &mut State, option: SinkOption, value: c_int) -> Outcome {
    let own_tid = state.tid()?.raw();
    let options = state.engine()?.options_mut();
    let (mut own, child) = if option.trace {
        (options.own_trace, &mut options.child_trace)
    } else {
        (options.own_output, &mut options.child_output)
    };
    let allowed = match option.field {
        Field::Tid => value == 0 || value == own_tid || (value == own.tid && child.tag == own.tag),
        field_kind => child.tid == 0 || child.tid == own_tid || value == *field(&mut own, field_kind),
    };
    if !allowed {
        return Err(PvmError::BadParam.into());
    }
    Ok(replace(field(child, option.field), value))
}

/// This task's own sink is set by the daemon; children inherit it.
fn set_own_sink(state: &mut State, option: SinkOption, value: c_int) -> Outcome {
    let options = state.engine()?.options();
    let mut sink = if option.trace { options.own_trace } else { options.own_output };
    let tid = sink.tid;
    let old = replace(field(&mut sink, option.field), value);
    let needs_daemon = tid > 0 || (option.field == Field::Tid && value > 0);
    if option.field == Field::Tag && tid <= 0 {
        return Err(PvmError::BadParam.into());
    }
    if needs_daemon {
        state.ask(&SetSinks { items: vec![(Some(option.item()), value)] })?;
    }
    let options = state.engine()?.options_mut();
    if option.trace {
        (options.own_trace, options.child_trace) = (sink, sink);
    } else {
        (options.own_output, options.child_output) = (sink, sink);
    }
    Ok(old)
}

/// Whether a reset of the machine spares this task.
fn set_no_reset(state: &mut State, value: c_int) -> Outcome {
    if state.engine.is_none() {
        return Err(PvmError::BadParam.into());
    }
    let old = c_int::from(state.no_reset.is_some());
    match (state.no_reset, value != 0) {
        (None, true) => {
            state.may_wait()?;
            let index = state.engine()?.register(NO_RESET_CLASS, |tid| tid)?;
            state.no_reset = Some(index);
        }
        (Some(index), false) => {
            mailbox::remove(state, NO_RESET_CLASS, index)?;
            state.no_reset = None;
        }
        _ => {}
    }
    Ok(old)
}
