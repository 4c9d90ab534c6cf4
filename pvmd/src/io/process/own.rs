//! What this process does about itself when it starts: what it has inherited, and what others can see of its memory.
#![allow(unsafe_code)]

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit};
use std::io;
use tracing::warn;

/// The first descriptor that is neither standard input, output nor error.
const FIRST: libc::c_uint = 3;

/// Closes all descriptors but standard input, output and error. A shell may have left others open, and waits for the end of a pipe,
/// or holds a lock, for as long as the daemon has them.
///
/// To be called before this process has opened anything, as the first thing that it does.
pub fn close_inherited() {
    // SAFETY: two numbers and flags. Nothing in this process owns a descriptor yet.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed != 0 {
        close_listed();
    }
}

/// The same where the kernel has no such call (before Linux 5.9), or a sandbox forbids it.
fn close_listed() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers: Vec<libc::c_int> =
        listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|&number| number >= FIRST as libc::c_int) {
        // SAFETY: a number. Nothing in this process owns a descriptor; that of the folder itself is closed already.
        unsafe { libc::close(number) };
    }
}

/// Has a program that this process becomes by `execve` lose all descriptors from this one on. Async-signal-safe.
pub(super) fn lose_from(first: libc::c_uint) {
    // SAFETY: numbers; it changes flags of descriptors only. Where there is no such call all of this process's own have the flag already.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Has the system neither dump this process's memory, which holds keys, nor show it to other processes of this user.
pub fn hide_memory() {
    // Linux knows the call; a daemon that cannot be hidden still serves.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Marks this process, and what it starts, by a limit that has no other effect (`RLIMIT_LOCKS`); `None` takes a mark away. Where that
/// is not allowed there is no mark. Async-signal-safe.
pub fn mark_by_limit(mark: Option<u64>) {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Locks);
    let _ = rustix::process::setrlimit(Resource::Locks, Rlimit { current: mark.or(maximum), maximum });
}

/// Limits that a daemon changes for itself, as it found them: its tasks have them back.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open files.
    pub open_files: Rlimit,
    /// Bytes of a core dump.
    pub core: Rlimit,
    /// Bytes of memory of its own that a task may have, if that is limited (`RLIMIT_DATA`).
    pub memory: Option<u64>,
}

impl Limits {
    /// This process's.
    pub fn current() -> Self {
        Self {
            open_files: rustix::process::getrlimit(Resource::Nofile),
            core: rustix::process::getrlimit(Resource::Core),
            memory: None,
        }
    }

    /// Raises this process's limit of open files as far as it may go, for a channel, a pipe and a descriptor per task, and has it
    /// write no core dumps; gives the limits that were.
    pub fn change() -> Self {
        let before = Self::current();
        let raised = Rlimit { current: before.open_files.maximum, ..before.open_files };
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
            warn!(%error, "the limit of open files cannot be raised");
        }
        let none = Rlimit { current: Some(0), ..before.core };
        if let Err(error) = rustix::process::setrlimit(Resource::Core, none) {
            warn!(%error, "the limit of core dumps cannot be lowered");
        }
        before
    }

    /// Gives them to this process. Async-signal-safe.
    pub fn take(&self) -> rustix::io::Result<()> {
        rustix::process::setrlimit(Resource::Nofile, self.open_files)?;
        if self.memory.is_some() {
            let limit = Rlimit { current: self.memory, maximum: self.memory };
            rustix::process::setrlimit(Resource::Data, limit)?;
        }
        rustix::process::setrlimit(Resource::Core, self.core)
    }

    /// Gives them to a child.
    pub fn give(&self, child: u32) -> io::Result<()> {
        let child = Pid::from_raw(child as i32).ok_or(io::ErrorKind::InvalidInput)?;
        rustix::process::prlimit(Some(child), Resource::Nofile, self.open_files)?;
        rustix::process::prlimit(Some(child), Resource::Core, self.core)?;
        Ok(())
    }
}
