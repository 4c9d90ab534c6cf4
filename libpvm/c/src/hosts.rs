//! Adding and removing hosts.

use super::memory::{store_all, texts};
use super::state::{Failure, State};
use super::tracepoints::{result, traced};
use pvm_wire::PvmError;
use pvm_wire::calls::hosts::{AddHosts, DeleteHosts};
use pvm_wire::events::{Datum, Event};
use std::ffi::{c_char, c_int};

/// Most hosts in one request: as many as there are host indices.
const HOSTS_MAX: usize = 4095;

/// Adds hosts. Returns how many; `statuses` has a tid or an error code for each.
///
/// # Safety
/// There are `count` strings at `names`; `statuses` is NULL or has room for as many numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_addhosts(
    names: *const *const c_char,
    count: c_int,
    statuses: *mut c_int,
) -> c_int {
    let add = |state: &mut State, hosts| {
        let found = state.ask(&AddHosts { hosts })?.hosts;
        Ok(found.iter().map(|host| host.tid).collect())
    };
    // SAFETY: NULL, or `count` strings; NULL, or room for as many numbers.
    unsafe { change(("pvm_addhosts", Event::Addhosts), names, count, statuses, add) }
}

/// Removes hosts. Returns how many; `statuses` has 0 or an error code for each.
///
/// # Safety
/// As [`pvm_addhosts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_delhosts(
    names: *const *const c_char,
    count: c_int,
    statuses: *mut c_int,
) -> c_int {
    let delete = |state: &mut State, names| state.ask(&DeleteHosts { names });
    // SAFETY: NULL, or `count` strings; NULL, or room for as many numbers.
    unsafe { change(("pvm_delhosts", Event::Delhosts), names, count, statuses, delete) }
}

/// Makes a request about hosts, with a status for each.
///
/// # Safety
/// As [`pvm_addhosts`].
unsafe fn change(
    (name, event): (&str, Event),
    names: *const *const c_char,
    count: c_int,
    statuses: *mut c_int,
    act: impl FnOnce(&mut State, Vec<String>) -> Result<Vec<c_int>, Failure>,
) -> c_int {
    // SAFETY: NULL, or `count` strings.
    let names = unsafe { texts(names, count) };
    let listed = names.as_ref().map_or(Vec::new(), Clone::clone);
    traced(
        name,
        event,
        |_, event| {
            event.texts(Datum::HNL, listed.iter().map(String::as_str));
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let names = checked(names)?;
            let asked = names.len();
            let found = one_for_each(asked, act(state, names)?)?;
            // SAFETY: NULL, or room for `count` numbers, and there is one for each name.
            unsafe { store_all(statuses, &found) };
            Ok(found.iter().filter(|&&status| status >= 0).count() as c_int)
        },
    )
}

fn checked(names: Result<Vec<String>, Failure>) -> Result<Vec<String>, Failure> {
    let names = names?;
    if names.is_empty() || names.len() > HOSTS_MAX {
        return Err(PvmError::BadParam.into());
    }
    Ok(names)
}

fn one_for_each(asked: usize, statuses: Vec<c_int>) -> Result<Vec<c_int>, Failure> {
    if statuses.len() == asked { Ok(statuses) } else { Err(PvmError::OutOfRes.into()) }
}
