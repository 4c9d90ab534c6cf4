//! On which hosts a group's members are. No header declares these calls; programs that use them do so themselves.

use super::groups::ask;
use super::memory::{CList, os_text, store};
use super::state::{Failure, Told, locked};
use super::{errors, handlers};
use pvm_wire::body::BodyReader;
use pvm_wire::group::Request;
use pvm_wire::{PvmError, Tid};
use std::ffi::{c_char, c_int};

/// Members on one host, of how many hosts, and the lowest tid among them: -1 if there is none.
///
/// # Safety
/// `group` is NULL or a C string, the others are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_grphostinfo(
    group: *const c_char,
    host: c_int,
    coordinator: *mut c_int,
    members: *mut c_int,
    hosts: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    let group = unsafe { os_text(group) };
    report("pvm_grphostinfo", || {
        let answer = ask(Request::HostChar(group?, Tid::from_raw(host)))?;
        let mut reader = BodyReader::new(&answer.body);
        let (count, here, first) = (checked(reader.int()?)?, reader.int()?, reader.int()?);
        // SAFETY: as promised.
        unsafe {
            store(hosts, count);
            store(members, here);
            store(coordinator, first);
        }
        Ok(())
    })
}

/// The members on each host and the lowest tid among them, in arrays that stand until the next call.
///
/// # Safety
/// `group` is NULL or a C string, the others are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_grpvhostinfo(
    group: *const c_char,
    coordinators: *mut *mut c_int,
    members: *mut *mut c_int,
    hosts: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    let group = unsafe { os_text(group) };
    report("pvm_grpvhostinfo", || {
        let answer = ask(Request::HostCharV(group?))?;
        let mut reader = BodyReader::new(&answer.body);
        let count = checked(reader.int()?)?;
        let length = usize::try_from(count).map_err(|_| PvmError::BadMsg)?;
        let (here, first) = (reader.ints(length)?, reader.ints(length)?);
        locked(|state| {
            let lists = &mut state.lists;
            (lists.group_members, lists.coordinators) = (CList::of(here), CList::of(first));
            // SAFETY: as promised.
            unsafe {
                store(hosts, count);
                store(members, lists.group_members.array());
                store(coordinators, lists.coordinators.array());
            }
            Ok(())
        })
    })
}

/// A negative first number is the server's refusal.
fn checked(count: c_int) -> Result<c_int, Failure> {
    if count < 0 { Err(Failure::code(count)) } else { Ok(count) }
}

/// As with other group calls, `pvm_errno` tells the caller, and nothing is printed.
fn report(name: &str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let outcome = body();
    handlers::run_due();
    errors::finish(name, outcome.map(|()| 0).map_err(|failure| Failure { told: Told::Errno, ..failure }))
}
