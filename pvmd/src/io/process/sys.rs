//! Calls of the kernel for which there is no safe function: scheduling classes, clocks and signals of processes.
#![allow(unsafe_code)]

use pvmd_core::event::Used;
use rustix::process::Signal;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Waits for a process by its descriptor, or for what else a descriptor tells.
pub fn watch(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what it is wrapped in, which keeps it open as long as it is registered.
    Ok(unsafe { AsyncFd::register(process) }?)
}

/// The class, and with it whether the thread hands on what it has to those it makes.
pub(super) fn class_and_flag(thread: i32) -> Option<i32> {
    // SAFETY: only asks; no memory is passed.
    let class = unsafe { libc::sched_getscheduler(thread) };
    (class >= 0).then_some(class)
}

/// Reaps a process that has ended, by its descriptor: what `wait` says of it, and what it and its children have used. `None` if it
/// has not ended.
pub(super) fn reap(process: BorrowedFd<'_>) -> io::Result<Option<(i32, Used)>> {
    // SAFETY: zeros are a value of each of its fields.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: zeros are a value of each of its fields.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    let (kind, options) = (libc::P_PIDFD, libc::WEXITED | libc::WNOHANG);
    // The C library's function has no room for what was used (waitid(2)).
    // SAFETY: valid pointers to memory that the call writes and that outlives it; the descriptor is open.
    let result = unsafe {
        libc::syscall(libc::SYS_waitid, kind, process.as_raw_fd(), &raw mut info, options, &raw mut used)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it, with zeros if there is nothing to be said.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let status = if info.si_code == libc::CLD_EXITED { status << 8 } else { status };
    let time = |time: libc::timeval| {
        let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
        Duration::from_micros(micros.unsigned_abs())
    };
    let memory = used.ru_maxrss.unsigned_abs().saturating_mul(1024);
    Ok((pid != 0).then(|| (status, Used { cpu: time(used.ru_utime) + time(used.ru_stime), memory })))
}

/// Puts a thread into a scheduling class; one that has ended needs none.
pub(super) fn set_class(thread: i32, class: i32) -> io::Result<()> {
    // Not everybody may take the flag back (sched(7)).
    let class = class | class_and_flag(thread).unwrap_or(0) & libc::SCHED_RESET_ON_FORK;
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: a valid pointer to parameters that outlive the call.
    if unsafe { libc::sched_setscheduler(thread, class, &raw const parameters) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // It has ended meanwhile.
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        error => Err(error),
    }
}

/// How the kernel treats this thread.
pub(super) fn scheduling() -> io::Result<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: a number or a bit pattern of zeros is a value of each of its fields.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer to memory of the size given, which the call writes and which outlives it; 0 is this thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    attributes.size = size;
    Ok(attributes)
}

pub(super) fn set_scheduling(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: a valid pointer to memory of the size it states, which outlives the call.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Signals that ask to end have no effect on this process any more.
pub fn ignore_endings() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: installs no handler; the default action of these signals is replaced by none.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// No process has a greater id (the kernel's `PID_MAX_LIMIT`). Greater numbers are other clocks.
const PID_MOST: i32 = 1 << 22;

/// CPU time that a process and its threads have used; zero if it is not there.
pub fn cpu_time(pid: i32) -> Duration {
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: a valid pointer to an id that outlives the call, which writes it.
    if !(1..=PID_MOST).contains(&pid) || unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return Duration::ZERO;
    }
    // SAFETY: a valid pointer to a time that outlives the call, which writes it.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    seconds.ok().zip(nanos.ok()).map_or(Duration::ZERO, |(seconds, nanos)| Duration::new(seconds, nanos))
}

/// The kernel's ticks in a second, as `/proc` counts.
pub(super) fn ticks_per_second() -> u64 {
    // SAFETY: only asks; no memory is passed.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}

/// The signal of this number.
pub(super) fn named(signal: i32) -> Option<Signal> {
    if let Some(signal) = Signal::from_named_raw(signal) {
        return Some(signal);
    }
    if !(34..=64).contains(&signal) {
        return None;
    }
    // SAFETY: 34 to 64 are the real-time signals that the C library leaves to applications (signal(7)).
    Some(unsafe { Signal::from_raw_unchecked(signal) })
}
