//! Hosts and tasks of the machine: `pvm_config`, `pvm_tasks` and similar calls.

use super::memory::{CList, HostInfo, Out, TaskInfo, Text, TimeVal, numbers, store_all};
use super::state::{Reporting, call};
use super::tracepoints::{argument, nothing, result, text_argument, traced};
use super::{control, internals};
use pvm_wire::calls::hosts::{Clock, Config, Halt, HostClock, HostRecord, HostStatus, Tickle};
use pvm_wire::calls::tasks::ListTasks;
use pvm_wire::events::{Datum, Event};
use pvm_wire::{PvmError, Tid};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;

/// Most arguments and results of `pvm_tickle`.
const TICKLE_MAX: c_int = 10;

/// Appends a host to a list for C.
pub fn push_host(list: &mut CList<HostInfo>, host: &HostRecord) {
    let (name, arch) = (list.text(&host.name), list.text(&host.arch));
    list.push(HostInfo { tid: host.tid, name, arch, speed: host.speed, signature: host.signature as c_int });
}

/// The hosts of the machine, and the number of their data formats.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_config(
    count: Out<'_, c_int>,
    formats: Out<'_, c_int>,
    array: Out<'_, *mut HostInfo>,
) -> c_int {
    let totals = Cell::new((0, 0));
    traced(
        "pvm_config",
        Event::Config,
        nothing,
        |_, event, code| {
            let (hosts, formats) = totals.get();
            event.int(Datum::NH, hosts).int(Datum::NA, formats).int(Datum::CC, code);
        },
        |state| {
            let found = state.ask(&Config {})?;
            totals.set((found.hosts.len() as c_int, found.formats));
            // The list of an earlier call stays valid if the caller asks for no list.
            if array.is_wanted() {
                let mut list = CList::default();
                found.hosts.iter().for_each(|host| push_host(&mut list, host));
                state.lists.hosts = list;
            }
            count.set(found.hosts.len() as c_int);
            formats.set(found.formats);
            array.set(state.lists.hosts.array());
            Ok(0)
        },
    )
}

/// The data signature of the first host with this architecture.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_archcode(arch: Text<'_>) -> c_int {
    let entry = text_argument(Datum::AN, arch.text().unwrap_or_default());
    traced("pvm_archcode", Event::Archcode, entry, result(Datum::AC), |state| {
        let arch = arch.text()?;
        let found = state.ask(&Config {})?;
        let host = found.hosts.iter().find(|host| host.arch == arch).ok_or(PvmError::NotFound)?;
        Ok(host.signature as c_int)
    })
}

/// The tasks of the machine (0), of a host or with this id.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_tasks(place: c_int, count: Out<'_, c_int>, array: Out<'_, *mut TaskInfo>) -> c_int {
    traced(
        "pvm_tasks",
        Event::Tasks,
        argument(Datum::TW, place),
        |state, event, code| {
            event.int(Datum::CC, code).int(Datum::TNT, state.lists.tasks.len());
        },
        |state| {
            let found = state.ask(&ListTasks { which: Tid::from_raw(place), version: None })?;
            let mut list = CList::default();
            for task in found.tasks {
                let name = list.text(&task.name);
                let (tid, parent, host) = (task.tid.raw(), task.parent, task.host);
                list.push(TaskInfo { tid, parent, host, flags: task.flags, name, pid: task.pid });
            }
            state.lists.tasks = list;
            count.set(state.lists.tasks.len());
            array.set(state.lists.tasks.array());
            Ok(0)
        },
    )
}

/// Whether a host is in the machine and answers: 0, or an error code.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_mstat(host: Text<'_>) -> c_int {
    let entry = text_argument(Datum::HN, host.text().unwrap_or_default());
    traced("pvm_mstat", Event::Mstat, entry, result(Datum::HS), |state| {
        state.engine()?;
        let host = host.text()?;
        if host.is_empty() {
            return Err(PvmError::BadParam.into());
        }
        let outcome = state.order(&HostStatus { name: host.to_owned() });
        control::expect(&[PvmError::NoHost, PvmError::HostFail], Reporting::None, outcome)
    })
}

/// A host's time of day, and how far this host's is ahead of it.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_hostsync(host: c_int, clock: Out<'_, TimeVal>, ahead: Out<'_, TimeVal>) -> c_int {
    call("pvm_hostsync", |state| {
        let before = internals::now();
        let Clock { seconds, micros } = state.ask(&HostClock { host: Tid::from_raw(host) })?;
        let after = internals::now();
        let remote = TimeVal { seconds: i64::from(seconds), micros: i64::from(micros) };
        clock.set(remote);
        ahead.set(difference(before, after, remote));
        Ok(0)
    })
}

/// The mean of two times minus a third one; microseconds from 0 to 999999.
fn difference(before: TimeVal, after: TimeVal, remote: TimeVal) -> TimeVal {
    let micros = |time: TimeVal| time.seconds * 1_000_000 + time.micros;
    let difference = i64::midpoint(micros(before), micros(after)) - micros(remote);
    TimeVal { seconds: difference.div_euclid(1_000_000), micros: difference.rem_euclid(1_000_000) }
}

/// Asks this host's daemon for one of its services for developers.
///
/// # Safety
/// There are `count` numbers at `args`; `results` is NULL or has room for ten; `found` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvm_tickle(
    count: c_int,
    args: *const c_int,
    found: Out<'_, c_int>,
    results: *mut c_int,
) -> c_int {
    // SAFETY: NULL, or `count` numbers.
    let args =
        if (1..=TICKLE_MAX).contains(&count) { unsafe { numbers(args, count) } } else { Ok(Vec::new()) };
    let listed = args.as_ref().map_or(Vec::new(), Clone::clone);
    let answered = RefCell::new(Vec::new());
    traced(
        "pvm_tickle",
        Event::Tickle,
        |_, event| {
            event.ints(Datum::TA, &listed);
        },
        |_, event, code| {
            event.int(Datum::CC, code).ints(Datum::TR, &answered.borrow());
        },
        |state| {
            let args = args?;
            if args.is_empty() {
                return Err(PvmError::BadParam.into());
            }
            let mut values = state.ask(&Tickle { args })?;
            values.truncate(TICKLE_MAX as usize);
            // SAFETY: NULL, or room for as many numbers as the most that an answer has.
            unsafe {
                found.set(values.len() as c_int);
                store_all(results, &values);
            }
            if !results.is_null() {
                answered.replace(values);
            }
            Ok(0)
        },
    )
}

/// Stops the whole machine.
#[unsafe(no_mangle)]
pub extern "C" fn pvm_halt() -> c_int {
    traced("pvm_halt", Event::Halt, nothing, result(Datum::CC), |state| {
        state.may_wait()?;
        // There is no answer: the connection ends with the daemon, as requested.
        let halted = state.engine()?.call(&Halt {});
        match halted {
            Err(error) if error.code() != PvmError::SysErr => Err(error.into()),
            _ => {
                state.leave();
                Ok(0)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_difference_has_positive_microseconds() {
        let at = |seconds, micros| TimeVal { seconds, micros };
        assert_eq!(difference(at(5, 0), at(5, 2), at(5, 2)), at(-1, 999_999));
        assert_eq!(difference(at(9, 0), at(11, 0), at(5, 500_000)), at(4, 500_000));
    }
}
