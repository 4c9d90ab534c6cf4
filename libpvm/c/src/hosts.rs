//! Adding and removing hosts.

use super::memory::{store_all, texts};
use super::state::Failure;
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
    // SAFETY: as promised.
    let names = unsafe { texts(names, count) };
    let listed = names.as_ref().map_or(Vec::new(), Clone::clone);
    traced(
        "pvm_addhosts",
        Event::Addhosts,
        |_, event| {
            event.texts(Datum::HNL, listed.iter().map(String::as_str));
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let hosts = checked(names)?;
            let asked = hosts.len();
            let found = state.ask(&AddHosts { hosts })?.hosts;
            let found = one_for_each(asked, found.iter().map(|host| host.tid).collect())?;
            // SAFETY: there is one status for each name.
            unsafe { store_all(statuses, &found) };
            Ok(found.iter().filter(|&&status| status >= 0).count() as c_int)
        },
    )
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
    // SAFETY: as promised.
    let names = unsafe { texts(names, count) };
    let listed = names.as_ref().map_or(Vec::new(), Clone::clone);
    traced(
        "pvm_delhosts",
        Event::Delhosts,
        |_, event| {
            event.texts(Datum::HNL, listed.iter().map(String::as_str));
        },
        result(Datum::CC),
        |state| {
            state.engine()?;
            let names = checked(names)?;
            let asked = names.len();
            let found = one_for_each(asked, state.ask(&DeleteHosts { names })?)?;
            // SAFETY: there is one status for each name.
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
