//! Registering as a part of the system: hoster, tasker, resource manager, tracer.

use super::config::push_host;
use super::mailbox;
use super::memory::{CList, HostInfo, store, text};
use super::state::{Failure, Outcome, State};
use super::tracepoints::{nothing, result, traced};
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::Tm;
use pvm_wire::events::{Datum, Event};
use pvm_wire::protocol::HostRecord;
use std::ffi::{c_char, c_int};

/// A role that this task plays, and where the mailbox says so.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    kind: Kind,
    index: c_int,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hoster,
    Tasker,
    Tracer,
}

impl Kind {
    fn tag(self) -> c_int {
        match self {
            Self::Hoster => Tm::Hoster.tag(),
            Self::Tasker => Tm::Tasker.tag(),
            Self::Tracer => Tm::Tracer.tag(),
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Hoster => "###_PVM_HOSTER_###",
            Self::Tasker => "###_PVM_TASKER_###",
            Self::Tracer => mailbox::TRACER_CLASS,
        }
    }
}

/// The class of resource managers.
const MANAGER_CLASS: &str = "###_PVM_RM_###";

/// Takes a role, or gives it back if this task has it.
fn toggle(
    state: &mut State,
    kind: Kind,
    details: impl FnOnce(BodyWriter) -> BodyWriter,
    put_entry: impl FnOnce(&mut State, &str) -> Outcome,
) -> Outcome {
    let held = state.roles.iter().position(|role| role.kind == kind);
    let Some(held) = held else {
        let body = details(BodyWriter::new().int(1)).finish();
        let answer = state.request_code(kind.tag(), body)?;
        let index = put_entry(state, kind.class())?;
        state.roles.push(Role { kind, index });
        return Ok(answer);
    };
    let answer = state.request_code(kind.tag(), BodyWriter::new().int(0).finish())?;
    let role = state.roles.remove(held);
    mailbox::remove(state, kind.class(), role.index)?;
    Ok(answer)
}

/// Registers this task as the one that starts daemons on new hosts; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_hoster() -> c_int {
    traced("pvm_reg_hoster", Event::RegHoster, nothing, result(Datum::CC), |state| {
        let tid = state.tid()?.raw();
        toggle(state, Kind::Hoster, |body| body, |state, class| mailbox::put_numbers(state, class, &[tid]))
    })
}

/// Registers this task as the one that starts this host's tasks; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_tasker() -> c_int {
    traced("pvm_reg_tasker", Event::RegTasker, nothing, result(Datum::CC), |state| {
        let tid = state.tid()?.raw();
        toggle(state, Kind::Tasker, |body| body, |state, class| mailbox::put_numbers(state, class, &[tid]))
    })
}

/// Registers this task as the one that gets the trace and output of tasks; a second call takes that back.
///
/// # Safety
/// `mask` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_reg_tracer(
    trace_context: c_int,
    trace_tag: c_int,
    output_context: c_int,
    output_tag: c_int,
    mask: *const c_char,
    buffer: c_int,
    options: c_int,
) -> c_int {
    // SAFETY: as promised.
    let mask = unsafe { text(mask) };
    let named = mask.as_ref().map_or("", |mask| *mask);
    traced(
        "pvm_reg_tracer",
        Event::RegTracer,
        |_, event| {
            event.int(Datum::TRC, trace_context).int(Datum::TRT, trace_tag);
            event.int(Datum::TRX, output_context).int(Datum::TRO, output_tag);
            event.text(Datum::TRM, named).int(Datum::TRB, buffer).int(Datum::TRL, options);
        },
        result(Datum::CC),
        |state| {
            let (mask, tid) = (mask?, state.tid()?.raw());
            let numbers = [trace_context, trace_tag, output_context, output_tag];
            let details = |body: BodyWriter| body.ints(numbers).str(mask).int(buffer).int(options);
            let sinks = [tid, trace_context, trace_tag, output_context, output_tag];
            toggle(state, Kind::Tracer, details, |state, class| {
                mailbox::put_tracer(state, class, &sinks, mask, [buffer, options])
            })
        },
    )
}

/// Registers this task as the resource manager, to which requests go instead of to the daemons. Returns the tid of
/// the one before; `host` has the host of the machine's master.
///
/// # Safety
/// `host` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_reg_rm(host: *mut *mut HostInfo) -> c_int {
    traced("pvm_reg_rm", Event::RegRm, nothing, result(Datum::CC), |state| {
        let answer = state.request(Tm::Sched.tag(), Vec::new())?;
        let mut reader = BodyReader::new(&answer);
        let before = reader.int()?;
        if before < 0 {
            return Err(Failure::code(before));
        }
        let record = HostRecord {
            tid: reader.int()?,
            name: reader.str()?.to_owned(),
            arch: reader.str()?.to_owned(),
            speed: reader.int()?,
            signature: reader.int()? as u32,
        };
        let mut list = CList::default();
        push_host(&mut list, &record);
        state.lists.manager_host = list;
        state.engine()?.ask_daemon_only();
        let tid = state.tid()?.raw();
        mailbox::put_numbers(state, MANAGER_CLASS, &[tid])?;
        // SAFETY: as promised.
        unsafe { store(host, state.lists.manager_host.array()) };
        Ok(before)
    })
}
