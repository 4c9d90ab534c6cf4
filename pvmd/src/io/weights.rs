//! Turns by the weights of control groups (version 2), one for each task that has been held, below the daemon's own.
//!
//! A task moves once, as the kernel lets everybody wait for that; a turn is then a word written to a file. What the task starts is in its
//! group, too. A task that has a group already, because its memory is limited, takes its turns in that.

use crate::io::control_group::{self, Delegation, OTHERS, make, put};
use crate::io::dispatcher::Dispatcher;
use crate::io::memory_group;
use crate::io::process;
use pvm_wire::tuned::DAEMON_NICE;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// With the process's id and when it began.
const TASK: &str = "pvm-task-";
/// Processes can be started as fast as they are moved; nobody does that for ever.
const ATTEMPTS: usize = 64;
/// The kernel's default, and the least (`cpu.weight` in the kernel's cgroup-v2.rst).
const WEIGHTS: [&str; 2] = ["100", "1"];

/// Held tasks are in groups that run when no other wants to.
#[derive(Debug)]
pub struct Weights {
    delegation: Delegation,
    /// Those of tasks that have been held.
    groups: BTreeMap<i32, PathBuf>,
}

impl Weights {
    /// In this process's group, if processors can be handed on there.
    pub fn delegated() -> Result<Self, String> {
        Ok(Self { delegation: Delegation::of("cpu")?, groups: BTreeMap::new() })
    }

    /// Where a process's group is, or would be. An id may be somebody else's before the group is gone.
    fn place_of(&self, pid: i32) -> io::Result<PathBuf> {
        let begun = process::begun(pid).ok_or(Errno::SRCH)?;
        let limited = control_group::unified_group_of(pid).as_deref().and_then(memory_group::name_of);
        let name = limited.unwrap_or_else(|| format!("{TASK}{pid}-{begun}"));
        Ok(self.delegation.above().join(name))
    }

    /// Makes a group and moves a process into it.
    fn admit(&mut self, pid: i32) -> io::Result<PathBuf> {
        let group = self.place_of(pid)?;
        for _ in 0..ATTEMPTS {
            match self.move_into(&group, pid) {
                // Somebody is in the group above, who has come since it was empty.
                Err(error) if is(&error, Errno::OPNOTSUPP) => self.delegation.take_back()?,
                // Or came before it handed anything on, or is about to end there.
                Err(error) if is(&error, Errno::BUSY) => std::thread::yield_now(),
                Err(error) => {
                    let _ = fs::remove_dir(&group);
                    return Err(error);
                }
                Ok(()) => {
                    self.groups.insert(pid, group.clone());
                    return Ok(group);
                }
            }
        }
        Err(ErrorKind::ResourceBusy.into())
    }

    fn move_into(&self, group: &Path, pid: i32) -> io::Result<()> {
        if !self.delegation.is_handed_on() {
            self.sweep();
            self.delegation.hand_on()?;
        }
        make(group)?;
        put(&group.join("cgroup.procs"), &pid.to_string())
    }

    /// Removes what daemons have left that could not do it themselves; who has processes stays.
    fn sweep(&self) {
        for entry in fs::read_dir(self.delegation.above()).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(TASK)) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

impl Dispatcher for Weights {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn hold(&mut self, pid: i32) -> io::Result<()> {
        let group = match self.groups.get(&pid) {
            Some(group) => group,
            None => &self.admit(pid)?,
        };
        set(group, true)
    }

    fn free(&mut self, pid: i32) -> io::Result<()> {
        match self.groups.get(&pid) {
            Some(group) => set(group, false),
            // A daemon did this that is no more.
            None => set(&self.place_of(pid)?, false),
        }
    }

    /// Groups go before groups by their own weights, whatever those do that are in them.
    fn be_prompt(&mut self, wanted: bool) -> io::Result<()> {
        match put(
            &self.delegation.above().join(OTHERS).join("cpu.weight.nice"),
            &(if wanted { -DAEMON_NICE } else { 0 }).to_string(),
        ) {
            // This daemon is in the root.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn forget(&mut self, pid: i32) {
        if let Some(group) = self.groups.remove(&pid) {
            // What it has started may still be there.
            let _ = fs::remove_dir(group);
        }
    }
}

/// Whether a group's tasks run only when no other group wants to.
fn set(group: &Path, waits: bool) -> io::Result<()> {
    match put(&group.join("cpu.idle"), if waits { "1" } else { "0" }) {
        // Before Linux 5.15.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            put(&group.join("cpu.weight"), WEIGHTS[usize::from(waits)])
        }
        done => done,
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
