//! Registering as a part of the system: hoster, tasker, resource manager, tracer.

use super::config::push_host;
use super::memory::{CList, HostInfo, Out, Text};
use super::state::{Outcome, State};
use super::tracepoints::{nothing, result, traced};
use pvm_engine::Role;
use pvm_wire::calls::roles::{ManagerReply, TracerTerms};
use pvm_wire::events::{Datum, Event};
use std::ffi::c_int;

/// Takes a role, or gives it back if this task has it.
fn toggle(state: &mut State, role: &Role) -> Outcome {
    state.may_wait()?;
    state.engine()?.toggle_role(role)?;
    Ok(0)
}

/// Registers this task as the one that starts daemons on new hosts; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_hoster() -> c_int {
    traced("pvm_reg_hoster", Event::RegHoster, nothing, result(Datum::CC), |state| {
        toggle(state, &Role::Hoster)
    })
}

/// Registers this task as the one that starts this host's tasks; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_tasker() -> c_int {
    traced("pvm_reg_tasker", Event::RegTasker, nothing, result(Datum::CC), |state| {
        toggle(state, &Role::Tasker)
    })
}

/// Registers this task as the one that gets the trace and output of tasks; a second call takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_tracer(
    trace_context: c_int,
    trace_tag: c_int,
    output_context: c_int,
    output_tag: c_int,
    mask: Text<'_>,
    buffer: c_int,
    options: c_int,
) -> c_int {
    let named = mask.text().unwrap_or_default();
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
            let mask = mask.text()?.to_owned();
            let terms =
                TracerTerms { trace_context, trace_tag, output_context, output_tag, mask, buffer, options };
            toggle(state, &Role::Tracer(terms))
        },
    )
}

/// Registers this task as the resource manager, to which requests go instead of to the daemons. Returns the tid of
/// the one before; `host` has the host of the machine's master.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_reg_rm(host: Out<'_, *mut HostInfo>) -> c_int {
    traced("pvm_reg_rm", Event::RegRm, nothing, result(Datum::CC), |state| {
        state.may_wait()?;
        let ManagerReply { before, master } = state.engine()?.become_manager()?;
        let mut list = CList::default();
        push_host(&mut list, &master);
        state.lists.manager_host = list;
        host.set(state.lists.manager_host.array());
        Ok(before.raw())
    })
}
