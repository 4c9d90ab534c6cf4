//! Turns by the weights of control groups (version 2), one for each task that has been held, below the daemon's own.
//!
//! A task moves once, as the kernel lets everybody wait for that; a turn is then a word written to a file. What the task starts is in its
//! group, too. Below a group that has processes itself there are none with processors of their own (cgroups(7), "no internal processes"
//! rule; the root may): so all that are in the daemon's group first move to one beside the tasks'.

use crate::io::control_group;
use crate::io::dispatcher::Dispatcher;
use crate::io::process;
use pvm_wire::tuned::DAEMON_NICE;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The group of this daemon, and all that are no tasks, or were never held.
const OTHERS: &str = "pvm-others";
/// With the process's id and when it began.
const TASK: &str = "pvm-task-";
/// Processes can be started as fast as they are moved; nobody does that for ever.
const ATTEMPTS: usize = 64;
/// The kernel's default, and the least (`cpu.weight` in the kernel's cgroup-v2.rst).
const WEIGHTS: [&str; 2] = ["100", "1"];

/// Held tasks are in groups that run when no other wants to.
#[derive(Debug)]
pub struct Weights {
    /// Where the groups are.
    above: PathBuf,
    /// Those of tasks that have been held.
    groups: BTreeMap<i32, PathBuf>,
}

impl Weights {
    /// In this process's group, if processors can be handed on there.
    pub fn delegated() -> Result<Self, String> {
        let place = control_group::place().ok_or("there are no control groups of version 2")?;
        let own = place.own;
        let is_moved = own.file_name().is_some_and(|name| name == OTHERS);
        let above = own.parent().filter(|_| is_moved).unwrap_or(&own).to_path_buf();
        if !names_cpu(&above.join("cgroup.controllers")) {
            return Err(format!("the control group {} has no controller \"cpu\"", above.display()));
        }
        for needed in ["", "cgroup.procs", "cgroup.subtree_control"] {
            access(above.join(needed), Access::WRITE_OK).map_err(|error| {
                format!("the control group {} is not delegated to this user: {error}", above.display())
            })?;
        }
        Ok(Self { above, groups: BTreeMap::new() })
    }

    /// Where a process's group is, or would be. An id may be somebody else's before the group is gone.
    fn place_of(&self, pid: i32) -> io::Result<PathBuf> {
        let begun = process::begun(pid).ok_or(Errno::SRCH)?;
        Ok(self.above.join(format!("{TASK}{pid}-{begun}")))
    }

    /// Makes a group and moves a process into it.
    fn admit(&mut self, pid: i32) -> io::Result<PathBuf> {
        let group = self.place_of(pid)?;
        for _ in 0..ATTEMPTS {
            match self.move_into(&group, pid) {
                // Somebody is in the group above, who has come since it was empty.
                Err(error) if is(&error, Errno::OPNOTSUPP) => put(&self.handed_on(), "-cpu")?,
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
        if !names_cpu(&self.handed_on()) {
            self.sweep();
            self.clear()?;
            put(&self.handed_on(), "+cpu")?;
        }
        make(group)?;
        put(&group.join("cgroup.procs"), &pid.to_string())
    }

    /// The controllers that groups below have.
    fn handed_on(&self) -> PathBuf {
        self.above.join("cgroup.subtree_control")
    }

    /// Moves all processes out of the group above, unless it is the root, which has no type.
    fn clear(&self) -> io::Result<()> {
        if !self.above.join("cgroup.type").exists() {
            return Ok(());
        }
        let others = self.above.join(OTHERS);
        make(&others)?;
        for pid in fs::read_to_string(self.above.join("cgroup.procs"))?.lines() {
            match put(&others.join("cgroup.procs"), pid) {
                Err(error) if !is(&error, Errno::SRCH) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what daemons have left that could not do it themselves; who has processes stays.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.above).into_iter().flatten().flatten() {
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
            &self.above.join(OTHERS).join("cpu.weight.nice"),
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

/// Writes a word to a file that the kernel has made.
fn put(file: &Path, word: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(word.as_bytes())
}

fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn names_cpu(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|names| names.split_whitespace().any(|name| name == "cpu"))
}
