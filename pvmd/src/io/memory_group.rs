//! Limits of memory by control groups: one group for each task whose memory is limited, which the task enters before it becomes its program.
//!
//! The system counts what all processes of the task have together, wherever in it that lies, and kills when that is more than the limit.
//! Of version 2 where that has the controller, else of version 1 (Linux's cgroup-v2.rst and cgroup-v1/memory.rst).

use crate::io::control_group::{self, Delegation, Hierarchy, make, put};
use crate::io::family::Mark;
use crate::io::process::begun;
use pvmd_core::event::Cookie;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const CONTROLLER: &str = "memory";
/// Then the daemon's mark, and the task.
const GROUP: &str = "pvm-memory-";
/// Attempts to move all processes out of a group while others enter it.
const ATTEMPTS: usize = 64;

/// The files of a group in which the versions differ.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    limit: &'static str,
    /// The file that limits swap, and whether its limit is for memory and swap together. It is missing without swap accounting.
    swap: (&'static str, bool),
    /// The file with the number of killed processes, in a line `oom_kill N`.
    kills: &'static str,
    /// Makes the system kill all processes of the group, not one of them.
    kill_all: Option<&'static str>,
}

const VERSION_2: Files = Files {
    limit: "memory.max",
    swap: ("memory.swap.max", false),
    kills: "memory.events",
    kill_all: Some("memory.oom.group"),
};

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    swap: ("memory.memsw.limit_in_bytes", true),
    kills: "memory.oom_control",
    kill_all: None,
};

/// The groups of a daemon's tasks.
#[derive(Debug)]
pub struct MemoryGroups {
    above: PathBuf,
    files: Files,
    mark: Mark,
}

impl MemoryGroups {
    /// Where this user may make such groups; else the reason why not.
    pub fn delegated(mark: Mark) -> Result<Self, String> {
        let (above, files) = match of_version_2() {
            Ok(above) => (above, VERSION_2),
            Err(reason) => (of_version_1().ok_or(reason)?, VERSION_1),
        };
        let groups = Self { above, files, mark };
        groups.sweep();
        let told = |error| format!("no control groups can be made in {}: {error}", groups.above.display());
        let trial = groups.path("trial");
        groups.limit(&trial, u64::from(u32::MAX)).map_err(told)?;
        fs::remove_dir(&trial).map_err(told)?;
        Ok(groups)
    }

    /// Makes a task's group; its file, by which a process enters.
    pub fn make(&self, task: Cookie, bytes: u64) -> io::Result<File> {
        let group = self.path(task.0);
        self.limit(&group, bytes)?;
        OpenOptions::new().write(true).open(group.join("cgroup.procs"))
    }

    /// The limit of a task of which the system has killed processes, as they had more.
    pub fn exceeded(&self, task: Cookie) -> Option<u64> {
        let group = self.path(task.0);
        let kills = fs::read_to_string(group.join(self.files.kills)).ok()?;
        let kills: u64 = kills.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())?;
        let limit = fs::read_to_string(group.join(self.files.limit)).ok()?;
        limit.trim().parse().ok().filter(|_| kills > 0)
    }

    /// Removes a task's group; false while processes are in it.
    pub fn remove(&self, task: Cookie) -> bool {
        !matches!(fs::remove_dir(self.path(task.0)), Err(error) if error.kind() == ErrorKind::ResourceBusy)
    }

    fn limit(&self, group: &Path, bytes: u64) -> io::Result<()> {
        make(group)?;
        put(&group.join(self.files.limit), &bytes.to_string())?;
        let (swap, is_sum) = self.files.swap;
        match put(&group.join(swap), &(if is_sum { bytes } else { 0 }).to_string()) {
            Err(error) if !is_missing(&error) => return Err(error),
            _ => {}
        }
        self.files.kill_all.map_or(Ok(()), |file| put(&group.join(file), "1"))
    }

    fn path(&self, task: impl Display) -> PathBuf {
        self.above.join(format!("{GROUP}{}:{task}", self.mark))
    }

    /// Removes the groups of all tasks of this daemon; false while processes are in some.
    pub fn remove_all(&self) -> bool {
        let own = format!("{GROUP}{}:", self.mark);
        self.remove_where(|name| name.starts_with(&own))
    }

    /// Removes the groups of daemons that were killed.
    fn sweep(&self) {
        self.remove_where(|name| owner(name).is_some_and(|owner| !is_there(owner)));
    }

    fn remove_where(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let entries = fs::read_dir(&self.above).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
        groups.filter(|group| fs::remove_dir(group.path()).is_err()).count() == 0
    }
}

/// The last part of a group's path, if the group is a task's whose memory is limited.
pub fn name_of(group: &str) -> Option<String> {
    let name = group.rsplit('/').next()?;
    owner(name).map(|_| name.to_owned())
}

/// The process that has made a group of this name, and when it began ([`Mark`]).
fn owner(name: &str) -> Option<(i32, u64)> {
    let (mark, _) = name.strip_prefix(GROUP)?.split_once(':')?;
    let (pid, begin) = mark.split_once('-')?;
    Some((pid.parse().ok()?, begin.parse().ok()?))
}

fn is_there((pid, begin): (i32, u64)) -> bool {
    begun(pid) == Some(begin)
}

fn of_version_2() -> Result<PathBuf, String> {
    let delegation = Delegation::of(CONTROLLER)?;
    for _ in 0..ATTEMPTS {
        match delegation.hand_on() {
            // A process has entered the group since it was emptied.
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                std::thread::yield_now();
            }
            Err(error) => return Err(format!("{}: {error}", delegation.above().display())),
            Ok(()) => return Ok(delegation.above().to_path_buf()),
        }
    }
    Err(format!("{}: processes come into it all the time", delegation.above().display()))
}

fn of_version_1() -> Option<PathBuf> {
    let own = control_group::place(Hierarchy::With(CONTROLLER))?.own;
    access(&own, Access::WRITE_OK).ok().map(|()| own)
}

/// Whether a file is not there, and cannot be made.
fn is_missing(error: &io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(above: &Path, files: Files) -> MemoryGroups {
        MemoryGroups { above: above.to_path_buf(), files, mark: Mark::of("7-100") }
    }

    /// A group as the kernel makes it, with these files.
    fn made(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
        let group = folder.join("pvm-memory-7-100:5");
        fs::create_dir(&group).unwrap();
        for (name, text) in files {
            fs::write(group.join(name), text).unwrap();
        }
        group
    }

    fn read(group: &Path, file: &str) -> String {
        fs::read_to_string(group.join(file)).unwrap()
    }

    #[test]
    fn version_2_has_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let empty = ["memory.max", "memory.swap.max", "memory.oom.group", "cgroup.procs"];
        let group = made(folder.path(), &empty.map(|name| (name, "")));
        fs::write(group.join("memory.events"), "max 9\noom 1\noom_kill 0\noom_group_kill 0\n").unwrap();
        let groups = groups(folder.path(), VERSION_2);
        groups.make(Cookie(5), 4096).unwrap();
        let written = ["memory.max", "memory.swap.max", "memory.oom.group"].map(|file| read(&group, file));
        assert_eq!(written, ["4096", "0", "1"]);
        assert_eq!(groups.exceeded(Cookie(5)), None);
        fs::write(group.join("memory.events"), "max 9\noom 1\noom_kill 2\n").unwrap();
        assert_eq!(groups.exceeded(Cookie(5)), Some(4096));
        assert_eq!(groups.exceeded(Cookie(6)), None, "it has no group");
    }

    #[test]
    fn version_1_has_others_and_may_count_no_swap() {
        let folder = tempfile::tempdir().unwrap();
        let group = made(folder.path(), &[("memory.limit_in_bytes", ""), ("cgroup.procs", "")]);
        let groups = groups(folder.path(), VERSION_1);
        groups.make(Cookie(5), 4096).unwrap();
        assert_eq!(read(&group, "memory.limit_in_bytes"), "4096");
        assert!(!group.join("memory.memsw.limit_in_bytes").exists());
        fs::write(group.join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n").unwrap();
        assert_eq!(groups.exceeded(Cookie(5)), Some(4096));
    }

    #[test]
    fn groups_of_daemons_that_are_gone_go() {
        let folder = tempfile::tempdir().unwrap();
        let own = Mark::own();
        let names =
            ["pvm-memory-2147483646-1:5", &format!("pvm-memory-{own}:6"), "pvm-memory-x", "pvm-task-1-1"];
        for name in names {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        groups(folder.path(), VERSION_2).sweep();
        assert_eq!(names.map(|name| folder.path().join(name).exists()), [false, true, true, true]);
    }

    #[test]
    fn a_group_is_known_by_its_name() {
        assert_eq!(name_of("/user.slice/a/pvm-memory-7-100:5").as_deref(), Some("pvm-memory-7-100:5"));
        assert_eq!(name_of("/user.slice/pvm-memory-7-100:5/inner"), None);
        assert_eq!(name_of("/pvm-task-7-100"), None);
    }
}
