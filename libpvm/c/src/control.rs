//! Identity, the end, and calls about single tasks.

use super::memory::{CList, Out};
use super::state::{Failure, Reporting, State, locked};
use super::tracepoints::{argument, nothing, result, traced};
use super::{errors, handlers, output, tracepoints};
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::tasks::{ListTasks, SendSignal, TaskStatus};
use pvm_wire::events::{Datum, Event};
use pvm_wire::{PvmError, Tid};
use std::ffi::c_int;

/// The signal of `pvm_kill`.
const SIGTERM: c_int = 15;

/// This task's id; enrols if need be.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_mytid() -> c_int {
    traced("pvm_mytid", Event::Mytid, nothing, result(Datum::MT), |state| Ok(state.tid()?.raw()))
}

/// The task that spawned this one.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_parent() -> c_int {
    traced("pvm_parent", Event::Parent, nothing, result(Datum::PT), |state| {
        match state.engine()?.identity().parent {
            0 => Err(Failure::returned(PvmError::NoParent)),
            code if code == PvmError::ParentNotSet.code() => Err(Failure::returned(PvmError::ParentNotSet)),
            tid => Ok(tid),
        }
    })
}

/// The tasks spawned together with this one, itself included.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_siblings(tids: Out<'_, *mut c_int>) -> c_int {
    traced(
        "pvm_siblings",
        Event::Siblings,
        nothing,
        |state, event, _| {
            let known = state.lists.siblings.as_ref().map_or(&[][..], CList::items);
            event.ints(Datum::SIB, known);
        },
        |state| {
            state.may_wait()?;
            state.engine()?;
            if state.lists.siblings.is_none() {
                let found = state.engine()?.siblings()?;
                state.lists.siblings = Some(CList::of(found.into_iter().map(Tid::raw).collect()));
            }
            let list = state.lists.siblings.as_mut().ok_or(PvmError::SysErr)?;
            tids.set(list.array());
            Ok(list.len())
        },
    )
}

/// Leaves the machine, after the output of collected children has ended.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_exit() -> c_int {
    let delivered = locked(|state| {
        state.may_wait()?;
        tracepoints::enter(state, Event::Exit, nothing);
        deliver_own_exit_notices(state)
    });
    handlers::run_due();
    let outcome = delivered.and_then(|()| locked(exit));
    errors::finish("pvm_exit", outcome)
}

/// Delivers the notices of this task's own exit that it has asked for.
fn deliver_own_exit_notices(state: &mut State) -> Result<(), Failure> {
    for (context, tag) in std::mem::take(&mut state.own_exit_notifies) {
        let body = BodyWriter::new().int(state.tid()?.raw()).finish();
        state.arrive_locally(context, tag, body)?;
    }
    Ok(())
}

fn exit(state: &mut State) -> Result<c_int, Failure> {
    tracepoints::flush(state);
    if state.engine.is_some() {
        state.buffers.lose_received();
    }
    let result = match state.engine.as_mut() {
        // A process that is no task has nothing to leave.
        None => Ok(()),
        Some(engine) if !state.collecting => engine.leave(),
        Some(engine) => {
            if engine.collecting() > 0 && output::show_tids() != 0 {
                errors::print(&format!("{}child task(s) still running.  waiting...\n", errors::prefix()));
            }
            engine.exit()
        }
    };
    state.leave();
    state.handlers.clear();
    state.lists.siblings = None;
    result.map(|()| 0).map_err(Into::into)
}

/// Sends a task the signal TERM.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_kill(tid: c_int) -> c_int {
    traced("pvm_kill", Event::Kill, argument(Datum::TT, tid), result(Datum::CC), |state| {
        signal(state, tid, SIGTERM)
    })
}

/// Sends a task a signal.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_sendsig(tid: c_int, number: c_int) -> c_int {
    traced(
        "pvm_sendsig",
        Event::Sendsig,
        |_, event| {
            event.int(Datum::TT, tid).int(Datum::SN, number);
        },
        result(Datum::CC),
        |state| signal(state, tid, number),
    )
}

fn signal(state: &mut State, tid: c_int, number: c_int) -> Result<c_int, Failure> {
    state.engine()?;
    if !Tid::from_raw(tid).is_task() {
        return Err(PvmError::BadParam.into());
    }
    state.order(&SendSignal { tid: Tid::from_raw(tid), signal: number })
}

/// Ends all tasks of the machine but one and those in a list.
pub fn end_all_but(state: &mut State, tid: Tid, spared: &[Tid]) -> Result<(), Failure> {
    for task in state.ask(&ListTasks { which: Tid::NONE, version: None })?.tasks {
        if task.tid != tid && !spared.contains(&task.tid) {
            signal(state, task.tid.raw(), SIGTERM)?;
        }
    }
    Ok(())
}

/// Whether a task runs: 0, or `PvmNoTask`.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_pstat(tid: c_int) -> c_int {
    traced("pvm_pstat", Event::Pstat, argument(Datum::TT, tid), result(Datum::TST), |state| {
        state.engine()?;
        if !Tid::from_raw(tid).is_task() {
            return Err(PvmError::BadParam.into());
        }
        let outcome = state.order(&TaskStatus { tid: Tid::from_raw(tid) });
        expect(&[PvmError::NoTask], Reporting::None, outcome)
    })
}

/// The host of a task, unchecked.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_tidtohost(tid: c_int) -> c_int {
    Tid::from_raw(tid).to_host().raw()
}

/// Sets the reporting of failures with these codes, which are answers that the caller asks for.
pub fn expect(
    codes: &[PvmError],
    reporting: Reporting,
    outcome: Result<c_int, Failure>,
) -> Result<c_int, Failure> {
    outcome.map_err(|failure| {
        let expected = codes.iter().any(|code| code.code() == failure.code);
        if expected { Failure { reporting, ..failure } } else { failure }
    })
}
