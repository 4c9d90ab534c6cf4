//! Registering as a part of the system: hoster, tasker, resource manager, tracer.

use super::config::push_host;
use super::mailbox;
use super::memory::{CList, HostInfo, store, text};
use super::state::{Outcome, State};
use super::tracepoints::{nothing, result, traced};
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::roles::{
    BecomeHoster, BecomeManager, BecomeTasker, BecomeTracer, ManagerReply, TracerTerms,
};
use pvm_wire::calls::{Call, Field};
use pvm_wire::events::{Datum, Event};
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

/// Takes a role, or gives it back if this task has it: as the request says that `request` makes. The mailbox shows this task's id and
/// `details`.
fn toggle<C: Call<Reply = ()>>(
    state: &mut State,
    kind: Kind,
    request: impl FnOnce(bool) -> C,
    details: impl FnOnce(BodyWriter) -> BodyWriter,
) -> Outcome {
    let held = state.roles.iter().position(|role| role.kind == kind);
    let answer = state.order(&request(held.is_none()))?;
    if let Some(held) = held {
        let role = state.roles.remove(held);
        mailbox::remove(state, kind.class(), role.index)?;
    } else {
        let index = mailbox::register(state, kind.class(), details)?;
        state.roles.push(Role { kind, index });
    }
    Ok(answer)
}

/// Registers this task as the one that starts daemons on new hosts; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_hoster() -> c_int {
    traced("pvm_reg_hoster", Event::RegHoster, nothing, result(Datum::CC), |state| {
        toggle(state, Kind::Hoster, |register| BecomeHoster { register }, |tid| tid)
    })
}

/// Registers this task as the one that starts this host's tasks; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_tasker() -> c_int {
    traced("pvm_reg_tasker", Event::RegTasker, nothing, result(Datum::CC), |state| {
        toggle(state, Kind::Tasker, |register| BecomeTasker { register }, |tid| tid)
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
            let mask = mask?.to_owned();
            let terms =
                TracerTerms { trace_context, trace_tag, output_context, output_tag, mask, buffer, options };
            let shown = terms.clone();
            let request = |register: bool| BecomeTracer { terms: register.then_some(terms) };
            toggle(state, Kind::Tracer, request, |tid| shown.write(tid))
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
        let ManagerReply { before, master } = state.ask(&BecomeManager {})?;
        let mut list = CList::default();
        push_host(&mut list, &master);
        state.lists.manager_host = list;
        state.engine()?.ask_daemon_only();
        mailbox::register(state, MANAGER_CLASS, |tid| tid)?;
        // SAFETY: as promised.
        unsafe { store(host, state.lists.manager_host.array()) };
        Ok(before.raw())
    })
}
