//! The hosts of a group's members. No header declares these calls; programs that use them do so themselves.

use super::groups::ask;
use super::memory::{CList, Out, Text};
use super::state::{Failure, Reporting, locked};
use super::{errors, handlers};
use pvm_wire::body::BodyReader;
use pvm_wire::group::Request;
use pvm_wire::{PvmError, Tid};
use std::ffi::c_int;

/// Members on one host, of how many hosts, and the lowest tid among them: -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_grphostinfo(
    group: Text<'_>,
    host: c_int,
    coordinator: Out<'_, c_int>,
    members: Out<'_, c_int>,
    hosts: Out<'_, c_int>,
) -> c_int {
    let group = group.os_text();
    report("pvm_grphostinfo", || {
        let answer = ask(Request::HostChar(group?, Tid::from_raw(host)))?;
        let mut reader = BodyReader::new(&answer.body);
        let (count, here, first) = (checked(reader.int()?)?, reader.int()?, reader.int()?);
        hosts.set(count);
        members.set(here);
        coordinator.set(first);
        Ok(())
    })
}

/// The members on each host and the lowest tid among them, in arrays that stand until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_grpvhostinfo(
    group: Text<'_>,
    coordinators: Out<'_, *mut c_int>,
    members: Out<'_, *mut c_int>,
    hosts: Out<'_, c_int>,
) -> c_int {
    let group = group.os_text();
    report("pvm_grpvhostinfo", || {
        let answer = ask(Request::HostCharV(group?))?;
        let mut reader = BodyReader::new(&answer.body);
        let count = checked(reader.int()?)?;
        let length = usize::try_from(count).map_err(|_| PvmError::BadMsg)?;
        let (here, first) = (reader.ints(length)?, reader.ints(length)?);
        locked(|state| {
            let lists = &mut state.lists;
            (lists.group_members, lists.coordinators) = (CList::of(here), CList::of(first));
            hosts.set(count);
            members.set(lists.group_members.array());
            coordinators.set(lists.coordinators.array());
            Ok(())
        })
    })
}

/// A negative first number is the server's refusal.
fn checked(count: c_int) -> Result<c_int, Failure> {
    if count < 0 { Err(Failure::code(count)) } else { Ok(count) }
}

/// As with other group calls, a failure sets `pvm_errno`, and nothing is printed.
fn report(name: &str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let outcome = body();
    handlers::run_due();
    errors::finish(
        name,
        outcome.map(|()| 0).map_err(|failure| Failure { reporting: Reporting::Errno, ..failure }),
    )
}
