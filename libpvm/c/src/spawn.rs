//! `pvm_spawn`, and the environment that children inherit.

use super::internals::parse_number;
use super::memory::{Text, numbers, os_texts_until_null, store_all};
use super::state::{Failure, State, call};
use super::tracepoints::traced;
use pvm_wire::PvmError;
use pvm_wire::calls::spawn::CancelBatch;
use pvm_wire::events::{Datum, Event};
use pvm_wire::limits::TRAFFIC_PAIRS;
use pvm_wire::queue::QueueRequest;
use pvm_wire::spawn::{Pair, SpawnRequest, flags};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString, c_char, c_int, c_longlong};
use std::os::unix::ffi::OsStrExt;

/// Names of the variables that children inherit, with colons between.
const EXPORT: &str = "PVM_EXPORT";

/// Starts tasks. Returns how many; `tids` has their ids, then the codes of those that could not be started.
///
/// # Safety
/// `args` is NULL or an array of strings that NULL ends, `tids` NULL or room for `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_spawn(
    file: Text<'_>,
    args: *const *const c_char,
    flags: c_int,
    place: Text<'_>,
    count: c_int,
    tids: *mut c_int,
) -> c_int {
    let (file, place) = (file.os_text(), place.os_text_or_empty());
    // SAFETY: NULL, or an array that NULL ends.
    let args = unsafe { os_texts_until_null(args) };
    let (named, placed) =
        (*file.as_ref().unwrap_or(&OsStr::new("")), *place.as_ref().unwrap_or(&OsStr::new("")));
    let started = RefCell::new(Vec::new());
    traced(
        "pvm_spawn",
        Event::Spawn,
        |_, event| {
            event.text(Datum::SE, named).text(Datum::SW, placed);
            event.int(Datum::SF, flags | more_flags()).int(Datum::SC, count);
        },
        |_, event, code| {
            event.int(Datum::CC, code).ints(Datum::STL, &started.borrow());
        },
        |state| {
            state.may_wait()?;
            state.engine()?;
            if count < 1 {
                return Err(PvmError::BadParam.into());
            }
            let request = request(state, file?, args?, flags | more_flags(), place?, count)?;
            if request.flags & flags::QUEUED != 0 {
                return queue(state, request);
            }
            let (good, all) = sorted(state.engine()?.spawn(&request)?.results, count);
            started.borrow_mut().extend(all.iter().take(good as usize));
            // SAFETY: NULL, or room for `count` numbers, and there are no more results.
            unsafe { store_all(tids, &all) };
            Ok(good)
        },
    )
}

/// Flags of every spawn.
fn more_flags() -> c_int {
    std::env::var("PVMTASK").map_or(0, |text| parse_number(&text))
}

fn request(
    state: &mut State,
    file: &OsStr,
    args: Vec<OsString>,
    flags: c_int,
    place: &OsStr,
    count: c_int,
) -> Result<SpawnRequest, Failure> {
    let engine = state.engine()?;
    let traffic = std::mem::take(&mut engine.options_mut().traffic);
    let options = engine.options();
    Ok(SpawnRequest {
        file: file.to_owned(),
        flags,
        place: place.to_owned(),
        count,
        args,
        output: options.child_output,
        trace: options.child_trace,
        env: engine.child_environment(),
        policy: options.policy.clone(),
        traffic,
    })
}

/// Queues a batch; its id.
fn queue(state: &mut State, spawn: SpawnRequest) -> Result<c_int, Failure> {
    let context = state.context;
    let engine = state.engine()?;
    let (tag, restarts) = (engine.options().batch_tag, engine.options().batch_restarts);
    Ok(engine.call(&QueueRequest { context, tag, restarts, spawn })?)
}

/// Cancels a queued batch.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_cancelbatch(batch: c_int) -> c_int {
    call("pvm_cancelbatch", |state| {
        state.engine()?.call(&CancelBatch { batch })?;
        Ok::<_, Failure>(0)
    })
}

/// Chooses the policy that places what this task spawns from now on; NULL or an empty name for the machine's.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_setpolicy(name: Text<'_>) -> c_int {
    let name = name.os_text_or_empty();
    call("pvm_setpolicy", |state| {
        let name = name?.to_str().ok_or(PvmError::BadParam)?;
        name.clone_into(&mut state.engine()?.options_mut().policy);
        Ok::<_, Failure>(0)
    })
}

/// `struct pvmtraffic` of pvm3x.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TrafficOfPair {
    a: c_int,
    b: c_int,
    amount: c_longlong,
}

impl TrafficOfPair {
    fn as_pair(&self) -> Result<Pair, Failure> {
        let bad = |_| Failure::from(PvmError::BadParam);
        let (a, b) = (u32::try_from(self.a).map_err(bad)?, u32::try_from(self.b).map_err(bad)?);
        Ok(Pair { a, b, traffic: u64::try_from(self.amount).map_err(bad)? })
    }
}

/// How much the tasks of the next spawn talk to each other.
///
/// # Safety
/// `pairs` is NULL or an array of `count` pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_settraffic(count: c_int, pairs: *const TrafficOfPair) -> c_int {
    call("pvm_settraffic", |state| {
        if usize::try_from(count).is_ok_and(|count| count > TRAFFIC_PAIRS) {
            return Err(PvmError::BadParam.into());
        }
        // SAFETY: NULL, or an array of this length.
        let pairs = unsafe { numbers(pairs, count) }?;
        let pairs = pairs.iter().map(TrafficOfPair::as_pair).collect::<Result<_, _>>()?;
        state.engine()?.options_mut().traffic = pairs;
        Ok::<_, Failure>(0)
    })
}

/// Names this task's team: tasks that want to run at the same time. What it spawns from now on is of that team, too.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_jointeam(name: Text<'_>) -> c_int {
    let name = name.os_text();
    call("pvm_jointeam", |state| {
        state.engine()?.join_team(name?.to_str().ok_or(PvmError::BadParam)?)?;
        Ok::<_, Failure>(0)
    })
}

/// The good tids in their order, then the codes; never more than were asked for.
fn sorted(mut results: Vec<c_int>, count: c_int) -> (c_int, Vec<c_int>) {
    results.truncate(usize::try_from(count).unwrap_or(0));
    let good = results.iter().filter(|&&tid| tid > 0).count();
    results.sort_by_key(|&tid| tid <= 0);
    (good as c_int, results)
}

/// Adds a name to what children inherit of the environment.
///
/// # Safety
/// No other thread reads or writes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_export(name: Text<'_>) -> c_int {
    let name = name.os_text();
    call("pvm_export", |_| {
        let name = name?;
        let mut names = exported();
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
            // SAFETY: no other thread uses the environment during the call.
            unsafe { std::env::set_var(EXPORT, names.join(OsStr::new(":"))) };
        }
        Ok(0)
    })
}

/// Removes a name from what children inherit.
///
/// # Safety
/// No other thread reads or writes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_unexport(name: Text<'_>) -> c_int {
    let name = name.os_text();
    call("pvm_unexport", |_| {
        let name = name?;
        let mut names = exported();
        names.retain(|known| known != name);
        if std::env::var_os(EXPORT).is_some() {
            // SAFETY: no other thread uses the environment during the call.
            unsafe { std::env::set_var(EXPORT, names.join(OsStr::new(":"))) };
        }
        Ok(0)
    })
}

fn exported() -> Vec<OsString> {
    let names = std::env::var_os(EXPORT).unwrap_or_default();
    let names = names.as_bytes().split(|&byte| byte == b':').map(OsStr::from_bytes);
    names.filter(|name| !name.is_empty()).map(OsStr::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::sorted;

    #[test]
    fn good_tids_come_first_in_their_order() {
        assert_eq!(sorted(vec![5, -7, 3, -6, 9], 5), (3, vec![5, 3, 9, -7, -6]));
        assert_eq!(sorted(vec![5, 3], 1), (1, vec![5]));
    }
}
