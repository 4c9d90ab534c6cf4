//! Where this process stands among the control groups of version 2 (cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

/// The root of all groups that can be seen here, and this process's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the groups' file system is mounted.
    pub root: PathBuf,
    /// This process's group, at the root or below it.
    pub own: PathBuf,
}

/// This process's place; `None` where there are no such groups, or its own cannot be seen.
pub fn place() -> Option<Place> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    find(&groups, &mounts)
}

/// From what cgroups(7) and proc(5) say stands in the two files.
fn find(groups: &str, mounts: &str) -> Option<Place> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (shown, at) = (fields.next()?, Path::new(fields.next()?));
        let is_ours = system.split(' ').next() == Some("cgroup2");
        let below = Path::new(own).strip_prefix(shown).ok().filter(|_| is_ours)?;
        // Joined with nothing it would end in a slash.
        let own = if below.as_os_str().is_empty() { at.to_path_buf() } else { at.join(below) };
        Some(Place { root: at.to_path_buf(), own })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "23 28 0:21 / /proc rw,nosuid - proc proc rw\n\
        30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const BOTH: &str = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn found(groups: &str, mounts: &str) -> Option<String> {
        find(groups, mounts).map(|place| place.own.display().to_string())
    }

    #[test]
    fn the_own_group_is_below_the_mount() {
        assert_eq!(found("0::/user.slice/a.scope\n", UNIFIED).unwrap(), "/sys/fs/cgroup/user.slice/a.scope");
        assert_eq!(found("1:cpu:/x\n0::/\n", BOTH).unwrap(), "/sys/fs/cgroup/unified");
        // A part of the groups is all that a container is shown.
        let container = UNIFIED.replace("0:26 / ", "0:26 /machine.slice/c1 ");
        assert_eq!(found("0::/machine.slice/c1/job\n", &container).unwrap(), "/sys/fs/cgroup/job");
        assert_eq!(found("0::/elsewhere\n", &container), None);
    }

    #[test]
    fn there_need_be_none() {
        assert_eq!(found("1:cpu:/\n", UNIFIED), None);
        assert_eq!(found("0::/\n", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"), None);
        assert_eq!(found("", ""), None);
    }
}
