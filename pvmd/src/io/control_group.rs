//! Control groups (cgroups(7)): where this process stands among them, and what it may divide.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file system of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// That of version 2.
    Unified,
    /// That of version 1 with this controller.
    With(&'static str),
}

/// The root of all groups that can be seen here, and this process's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the groups' file system is mounted.
    pub root: PathBuf,
    /// This process's group, at the root or below it.
    pub own: PathBuf,
}

/// This process's place in a hierarchy; `None` where there is no such hierarchy, or its own group cannot be seen.
pub fn place(hierarchy: Hierarchy) -> Option<Place> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    find(hierarchy, &groups, &mounts)
}

/// From what cgroups(7) and proc(5) say stands in the two files.
fn find(hierarchy: Hierarchy, groups: &str, mounts: &str) -> Option<Place> {
    let own = groups.lines().find_map(|line| own_group(hierarchy, line))?;
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (shown, at) = (fields.next()?, Path::new(fields.next()?));
        let below = Path::new(own).strip_prefix(shown).ok().filter(|_| is_mounted(hierarchy, system))?;
        // Joined with nothing it would end in a slash.
        let own = if below.as_os_str().is_empty() { at.to_path_buf() } else { at.join(below) };
        Some(Place { root: at.to_path_buf(), own })
    })
}

/// The group that a line of `/proc/PID/cgroup` names, if it is about this hierarchy.
fn own_group(hierarchy: Hierarchy, line: &str) -> Option<&str> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    let is_it = match hierarchy {
        Hierarchy::Unified => number == "0" && controllers.is_empty(),
        Hierarchy::With(controller) => controllers.split(',').any(|name| name == controller),
    };
    is_it.then_some(group)
}

/// Whether a mount (its type, source and options) shows this hierarchy.
fn is_mounted(hierarchy: Hierarchy, system: &str) -> bool {
    let mut fields = system.split(' ');
    let (kind, options) = (fields.next(), fields.nth(1).unwrap_or_default());
    match hierarchy {
        Hierarchy::Unified => kind == Some("cgroup2"),
        Hierarchy::With(controller) => {
            kind == Some("cgroup") && options.split(',').any(|option| option == controller)
        }
    }
}

/// The group of version 2 that another process is in, as the kernel names it.
pub fn unified_group_of(pid: i32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups.lines().find_map(|line| own_group(Hierarchy::Unified, line)).map(str::to_owned)
}

/// The group of this daemon, and of all that are no tasks, when the group above has handed on a controller.
pub const OTHERS: &str = "pvm-others";

/// A group of version 2 below which this user may make groups that have a controller.
///
/// Below a group that has processes itself there are none that have one (cgroups(7), "no internal processes" rule; the root may): so all
/// that are in the daemon's group first move to one beside the tasks' groups.
#[derive(Debug)]
pub struct Delegation {
    above: PathBuf,
    controller: &'static str,
}

impl Delegation {
    /// This process's group, or the one above if the process has moved down.
    pub fn of(controller: &'static str) -> Result<Self, String> {
        let place = place(Hierarchy::Unified).ok_or("there are no control groups of version 2")?;
        let own = place.own;
        let is_moved = own.file_name().is_some_and(|name| name == OTHERS);
        let above = own.parent().filter(|_| is_moved).unwrap_or(&own).to_path_buf();
        if !names(&above.join("cgroup.controllers"), controller) {
            return Err(format!("the control group {} has no controller \"{controller}\"", above.display()));
        }
        for needed in ["", "cgroup.procs", "cgroup.subtree_control"] {
            access(above.join(needed), Access::WRITE_OK).map_err(|error| {
                format!("the control group {} is not delegated to this user: {error}", above.display())
            })?;
        }
        Ok(Self { above, controller })
    }

    /// Where the groups are made.
    pub fn above(&self) -> &Path {
        &self.above
    }

    /// Lets groups below have the controller.
    pub fn hand_on(&self) -> io::Result<()> {
        if self.is_handed_on() {
            return Ok(());
        }
        self.clear()?;
        put(&self.handed_on(), &format!("+{}", self.controller))
    }

    /// Whether groups below have the controller.
    pub fn is_handed_on(&self) -> bool {
        names(&self.handed_on(), self.controller)
    }

    /// Takes the controller back.
    pub fn take_back(&self) -> io::Result<()> {
        put(&self.handed_on(), &format!("-{}", self.controller))
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
                Err(error) if error.raw_os_error() != Some(Errno::SRCH.raw_os_error()) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes a word to a file that the kernel has made.
pub fn put(file: &Path, word: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(word.as_bytes())
}

/// Makes a group, if it is not there.
pub fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn names(file: &Path, controller: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|names| names.split_whitespace().any(|name| name == controller))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "23 28 0:21 / /proc rw,nosuid - proc proc rw\n\
        30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const BOTH: &str = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn found(hierarchy: Hierarchy, groups: &str, mounts: &str) -> Option<String> {
        find(hierarchy, groups, mounts).map(|place| place.own.display().to_string())
    }

    fn unified(groups: &str, mounts: &str) -> Option<String> {
        found(Hierarchy::Unified, groups, mounts)
    }

    #[test]
    fn the_own_group_is_below_the_mount() {
        assert_eq!(
            unified("0::/user.slice/a.scope\n", UNIFIED).unwrap(),
            "/sys/fs/cgroup/user.slice/a.scope"
        );
        assert_eq!(unified("1:cpu:/x\n0::/\n", BOTH).unwrap(), "/sys/fs/cgroup/unified");
        // A part of the groups is all that a container is shown.
        let container = UNIFIED.replace("0:26 / ", "0:26 /machine.slice/c1 ");
        assert_eq!(unified("0::/machine.slice/c1/job\n", &container).unwrap(), "/sys/fs/cgroup/job");
        assert_eq!(unified("0::/elsewhere\n", &container), None);
    }

    #[test]
    fn a_controller_of_version_1_has_a_place_of_its_own() {
        let groups = "4:cpu,cpuacct:/x\n3:memory:/a:b\n0::/\n";
        let memory = Hierarchy::With("memory");
        assert_eq!(found(memory, groups, BOTH).unwrap(), "/sys/fs/cgroup/memory/a:b");
        assert_eq!(found(Hierarchy::With("cpu"), groups, BOTH).unwrap(), "/sys/fs/cgroup/cpu/x");
        assert_eq!(found(memory, groups, UNIFIED), None);
        assert_eq!(found(memory, "0::/\n", BOTH), None);
    }

    #[test]
    fn there_need_be_none() {
        assert_eq!(unified("1:cpu:/\n", UNIFIED), None);
        assert_eq!(unified("0::/\n", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"), None);
        assert_eq!(unified("", ""), None);
    }
}
