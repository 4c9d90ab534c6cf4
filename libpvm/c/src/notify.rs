//! `pvm_notify`: notices about exits of tasks, and about hosts and direct routes that are added and deleted.

use super::memory;
use super::state::{Failure, State};
use super::tracepoints::{result, traced};
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::codes::notify;
use pvm_wire::events::{Datum, Event};
use pvm_wire::{PvmError, Tid};
use std::ffi::c_int;

/// Asks for a message with this tag when something happens.
///
/// # Safety
/// There are `count` ids at `tids`, except for kinds that have none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_notify(what: c_int, tag: c_int, count: c_int, tids: *const c_int) -> c_int {
    let kind = what & !notify::CANCEL;
    let has_list = matches!(kind, notify::TASK_EXIT | notify::HOST_DELETE | notify::ROUTE_DELETE);
    // SAFETY: NULL, or `count` numbers.
    let tids = if has_list { unsafe { memory::numbers(tids, count) } } else { Ok(Vec::new()) };
    let listed = tids.as_ref().map_or(Vec::new(), Clone::clone);
    traced(
        "pvm_notify",
        Event::Notify,
        |_, event| {
            event.int(Datum::NE, what).int(Datum::NMC, tag).ints(Datum::NTL, &listed);
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let tids = tids?;
            check(state, kind, tag, count, &tids)?;
            let cancel = what & notify::CANCEL != 0;
            match kind {
                // Routes are the engine's: no daemon knows of them.
                notify::ROUTE_ADD => {
                    let context = state.context;
                    state.engine()?.notify_route_add(context, tag, if cancel { 0 } else { count });
                }
                notify::ROUTE_DELETE => {
                    let (context, tids): (_, Vec<Tid>) =
                        (state.context, tids.into_iter().map(Tid::from_raw).collect());
                    state.engine()?.notify_route_delete(context, tag, &tids, cancel);
                }
                _ => request(state, kind, cancel, tag, count, tids)?,
            }
            Ok(0)
        },
    )
}

fn check(state: &State, kind: c_int, tag: c_int, count: c_int, tids: &[c_int]) -> Result<(), Failure> {
    if tag < 0 && state.settings.resv_tids == 0 {
        return Err(PvmError::BadParam.into());
    }
    match kind {
        notify::TASK_EXIT | notify::ROUTE_DELETE if count >= 1 => {
            tids.iter().try_for_each(|&tid| state.check_task(tid))
        }
        notify::HOST_DELETE if count >= 1 => Ok(()),
        notify::HOST_ADD | notify::ROUTE_ADD => Ok(()),
        _ => Err(PvmError::BadParam.into()),
    }
}

fn request(
    state: &mut State,
    what: c_int,
    cancel: bool,
    tag: c_int,
    count: c_int,
    mut tids: Vec<c_int>,
) -> Result<(), Failure> {
    let (context, own) = (state.context, state.tid()?.raw());
    let mut count = count;
    if what == notify::TASK_EXIT {
        let before = tids.len();
        tids.retain(|&tid| tid != own);
        for _ in tids.len()..before {
            own_exit(state, cancel, context, tag)?;
        }
        if tids.is_empty() {
            return Ok(());
        }
        count = tids.len() as c_int;
    }
    let request = NotifyRequest { what, cancel, context, tag, count, tids };
    Ok(state.engine()?.send_request(&request)?)
}

/// The daemon cannot notify a task of its own exit; `pvm_exit` does. A cancelled notice is sent at once.
fn own_exit(state: &mut State, cancel: bool, context: c_int, tag: c_int) -> Result<(), Failure> {
    if !cancel {
        state.own_exit_notifies.push((context, tag));
        return Ok(());
    }
    let Some(index) = state.own_exit_notifies.iter().position(|&known| known == (context, tag)) else {
        return Ok(());
    };
    state.own_exit_notifies.remove(index);
    let body = BodyWriter::new().int(state.tid()?.raw()).finish();
    state.arrive_locally(context, tag, body)
}
