//! Hosts and tasks of the machine. Lists come one item at each call, round and round.

use super::{Length, Number, TEXT_MAX, answer, fill, named, number, numbers, text};
use crate::memory::{HostInfo, Out, TaskInfo, TimeVal, store};
use crate::{config, daemon, hosts};
use pvm_wire::PvmError;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

numbers! {
    /// `pvm_halt`.
    pvmfhalt_() = config::pvm_halt;
}

named! {
    TEXT_MAX;
    /// `pvm_archcode`.
    pvmfarchcode_(text) = config::pvm_archcode;
    /// `pvm_mstat`.
    pvmfmstat_(text) = config::pvm_mstat;
}

type ManyHosts = unsafe extern "C" fn(*const *const c_char, c_int, *mut c_int) -> c_int;

/// The status of the one host, or the error of the whole call.
unsafe fn one_host(call: ManyHosts, host: *const c_char, length: Length) -> Result<c_int, PvmError> {
    // SAFETY: a CHARACTER argument.
    let host = unsafe { text(host, length) }?;
    let (names, mut status) = ([host.as_ptr()], 0);
    // SAFETY: one string, and room for one status.
    let code = unsafe { call(names.as_ptr(), 1, &raw mut status) };
    Ok(if code < 0 { code } else { status })
}

/// `pvm_addhosts` for one host; `info` is its status.
///
/// # Safety
/// `host` is a CHARACTER argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfaddhost_(host: *const c_char, info: Out<'_, c_int>, length: Length) {
    // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
    unsafe { answer(info, || one_host(hosts::pvm_addhosts, host, length)) };
}

/// `pvm_delhosts` for one host; `info` is its status.
///
/// # Safety
/// `host` is a CHARACTER argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfdelhost_(host: *const c_char, info: Out<'_, c_int>, length: Length) {
    // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
    unsafe { answer(info, || one_host(hosts::pvm_delhosts, host, length)) };
}

/// `pvm_hostsync`, times as seconds and microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn pvmfhostsync_(
    host: Number<'_>,
    clock_seconds: Out<'_, c_int>,
    clock_micros: Out<'_, c_int>,
    ahead_seconds: Out<'_, c_int>,
    ahead_micros: Out<'_, c_int>,
    info: Out<'_, c_int>,
) {
    let mut clock = TimeVal { seconds: 0, micros: 0 };
    let mut ahead = clock;
    answer(info, || {
        let code = config::pvm_hostsync(host.get()?, (&mut clock).into(), (&mut ahead).into());
        clock_seconds.set(clock.seconds as c_int);
        clock_micros.set(clock.micros as c_int);
        ahead_seconds.set(ahead.seconds as c_int);
        ahead_micros.set(ahead.micros as c_int);
        Ok(code)
    });
}

/// `pvm_start_pvmd`, the daemon's arguments in one string.
///
/// # Safety
/// `args` is a CHARACTER argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfstartpvmd_(
    args: *const c_char,
    block: Number<'_>,
    info: Out<'_, c_int>,
    length: Length,
) {
    // SAFETY: a CHARACTER argument: NULL, or as many characters as its length says.
    unsafe {
        answer(info, || {
            let (args, block) = (text(args, length)?, block.get()?);
            let words = args.as_bytes().split(|&byte| byte == b' ').filter(|word| !word.is_empty());
            let words: Vec<CString> = words.filter_map(|word| CString::new(word).ok()).collect();
            let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
            Ok(daemon::pvm_start_pvmd(pointers.len() as c_int, pointers.as_ptr(), block))
        });
    }
}

/// A list that is handed out item by item.
struct Round<T> {
    items: Vec<T>,
    next: usize,
}

impl<T> Round<T> {
    const fn new() -> Self {
        Self { items: Vec::new(), next: 0 }
    }

    /// Whether a new list is needed: at the first call, at the end, and if the program restarts it.
    fn is_over(&self, restart: bool) -> bool {
        restart || self.next >= self.items.len()
    }

    fn set(&mut self, items: Vec<T>) {
        *self = Self { items, next: 0 };
    }

    fn take(&mut self) -> Option<&T> {
        let item = self.items.get(self.next)?;
        self.next += 1;
        Some(item)
    }
}

/// A host, its strings copied.
struct Host {
    tid: c_int,
    name: CString,
    arch: CString,
    speed: c_int,
}

static HOSTS: Mutex<(Round<Host>, c_int)> = Mutex::new((Round::new(), 0));
static TASKS: Mutex<Round<Task>> = Mutex::new(Round::new());

/// `pvm_config`, one host at each call: `info` is then 1. A number of hosts of -1 begins anew.
///
/// # Safety
/// `name` and `arch` are CHARACTER arguments, the others writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmfconfig_(
    count: *mut c_int,
    formats: Out<'_, c_int>,
    tid: Out<'_, c_int>,
    name: *mut c_char,
    arch: *mut c_char,
    speed: Out<'_, c_int>,
    info: Out<'_, c_int>,
    name_length: Length,
    arch_length: Length,
) {
    let mut round = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the count is NULL or a number; CHARACTER arguments have room for as many characters as their lengths say.
    unsafe {
        answer(info, || {
            if round.0.is_over(number(count)? == -1) {
                match all_hosts() {
                    Ok((hosts, found_formats)) => {
                        round.0.set(hosts);
                        round.1 = found_formats;
                    }
                    Err(code) => return Ok(code),
                }
            }
            store(count, round.0.items.len() as c_int);
            formats.set(round.1);
            if let Some(host) = round.0.take() {
                tid.set(host.tid);
                fill(name, name_length, host.name.as_bytes());
                fill(arch, arch_length, host.arch.as_bytes());
                speed.set(host.speed);
            }
            Ok(1)
        });
    }
}

fn all_hosts() -> Result<(Vec<Host>, c_int), c_int> {
    let (mut count, mut formats, mut list) = (0, 0, std::ptr::null_mut::<HostInfo>());
    // SAFETY: three results.
    let code = config::pvm_config((&mut count).into(), (&mut formats).into(), (&mut list).into());
    if code < 0 {
        return Err(code);
    }
    let copy = |index: usize| {
        // SAFETY: the list has `count` hosts, each with its strings, until the next call.
        unsafe {
            let host = &*list.add(index);
            let (name, arch) = (CStr::from_ptr(host.name).into(), CStr::from_ptr(host.arch).into());
            Host { tid: host.tid, name, arch, speed: host.speed }
        }
    };
    Ok(((0..usize::try_from(count).unwrap_or(0)).map(copy).collect(), formats))
}

/// A task, its string copied.
struct Task {
    tid: c_int,
    parent: c_int,
    host: c_int,
    flags: c_int,
    name: CString,
}

/// `pvm_tasks`, one task at each call: `info` is then 1. A number of tasks of -1 begins anew.
///
/// # Safety
/// `name` is a CHARACTER argument, the others numbers, all but the first writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvmftasks_(
    place: Number<'_>,
    count: *mut c_int,
    tid: Out<'_, c_int>,
    parent: Out<'_, c_int>,
    host: Out<'_, c_int>,
    flags: Out<'_, c_int>,
    name: *mut c_char,
    info: Out<'_, c_int>,
    name_length: Length,
) {
    let mut round = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the count is NULL or a number; CHARACTER arguments have room for as many characters as their lengths say.
    unsafe {
        answer(info, || {
            let (place, restart) = (place.get()?, number(count)? == -1);
            if round.is_over(restart) {
                match all_tasks(place) {
                    Ok(tasks) => round.set(tasks),
                    Err(code) => return Ok(code),
                }
            }
            store(count, round.items.len() as c_int);
            let task = round.take().ok_or(PvmError::NoTask)?;
            tid.set(task.tid);
            parent.set(task.parent);
            host.set(task.host);
            flags.set(task.flags);
            fill(name, name_length, task.name.as_bytes());
            Ok(1)
        });
    }
}

fn all_tasks(place: c_int) -> Result<Vec<Task>, c_int> {
    let (mut count, mut list) = (0, std::ptr::null_mut::<TaskInfo>());
    // SAFETY: two results.
    let code = config::pvm_tasks(place, (&mut count).into(), (&mut list).into());
    if code < 0 {
        return Err(code);
    }
    let copy = |index: usize| {
        // SAFETY: the list has `count` tasks, each with its string, until the next call.
        unsafe {
            let task = &*list.add(index);
            let name = CStr::from_ptr(task.name).into();
            Task { tid: task.tid, parent: task.parent, host: task.host, flags: task.flags, name }
        }
    };
    Ok((0..usize::try_from(count).unwrap_or(0)).map(copy).collect())
}
