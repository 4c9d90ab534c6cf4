//! Which threads run before which: the idle class for tasks that wait for their turn, and short turns for the daemon meanwhile.

use super::proc::threads;
use super::sys::{class_and_flag, scheduling, set_class, set_scheduling};
use pvm_wire::tuned::{DAEMON_NICE, SHORT_TURN};
use std::io;

/// Times that a process's threads are looked through.
const LOOKS: usize = 8;

/// Puts all threads of a process into the class that runs when a core has nothing else to do, or takes them back. Threads
/// that have chosen a class of their own stay there.
pub fn set_idle_class(pid: i32, is_idle: bool) -> io::Result<()> {
    let (from, to) =
        if is_idle { (libc::SCHED_OTHER, libc::SCHED_IDLE) } else { (libc::SCHED_IDLE, libc::SCHED_OTHER) };
    // A thread that is made meanwhile has its maker's class: who finds nothing more to change has found all.
    // Nobody who makes threads faster than that keeps the daemon busy with them.
    for _ in 0..LOOKS {
        let mut has_changed = false;
        for thread in threads(pid)? {
            if class_of(thread) == Some(from) {
                set_class(thread, to)?;
                has_changed = true;
            }
        }
        if !has_changed {
            break;
        }
    }
    Ok(())
}

/// Whether a thread that was put into the idle class can be taken back: tried with one of this process.
pub fn may_change_class() -> bool {
    let attempt = || {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        set_class(thread, libc::SCHED_IDLE).and_then(|()| set_class(thread, libc::SCHED_OTHER)).is_ok()
    };
    std::thread::spawn(attempt).join().unwrap_or(false)
}

/// The class of a thread.
pub fn class_of(thread: i32) -> Option<i32> {
    class_and_flag(thread).map(|class| class & !libc::SCHED_RESET_ON_FORK)
}

/// This thread runs as soon as it has something to do, also where others compute.
#[derive(Debug)]
#[must_use]
pub struct Prompt {
    /// Its nice value before.
    nice: i32,
}

impl Prompt {
    /// Short turns let it interrupt those who have long ones, from Linux 6.12 on; older ones ignore it. Its nice value is
    /// lowered if that is allowed (`CAP_SYS_NICE`, `RLIMIT_NICE`) and nobody has chosen another. What it starts is as if it
    /// had never been prompt.
    pub fn begin() -> io::Result<Self> {
        let mut attributes = scheduling()?;
        let nice = attributes.sched_nice;
        attributes.sched_runtime = SHORT_TURN.as_nanos() as u64;
        if nice >= 0 {
            // Less than 0 would become 0 by this.
            attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        }
        if nice == 0 {
            attributes.sched_nice = -DAEMON_NICE;
        }
        if set_scheduling(&attributes).is_err() {
            attributes.sched_nice = nice;
            set_scheduling(&attributes)?;
        }
        Ok(Self { nice })
    }

    /// It has turns like anybody's again.
    pub fn end(self) -> io::Result<()> {
        // What it hands on stays so: not everybody may change that back (sched(7)).
        let mut attributes = scheduling()?;
        attributes.sched_runtime = 0;
        attributes.sched_nice = self.nice;
        set_scheduling(&attributes)
    }
}
