//! Control groups as most machines have them: with the controller `cpu` in version 2.

use crate::peers::unchecked;
use crate::wait;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A control group of version 2 with its own weight, and whatever is made below it; gone when this is.
#[derive(Debug)]
pub struct CpuGroup {
    path: PathBuf,
    /// The groups' root, if it was this that let groups have processors.
    enabled: Option<PathBuf>,
    /// Dropped last.
    _moved: Option<Moved>,
}

/// The controller was in version 1, and goes back there.
#[derive(Debug)]
struct Moved {
    mount: PathBuf,
    options: String,
}

impl CpuGroup {
    /// Makes a group; if that is not possible, prints what is not checked.
    #[track_caller]
    pub fn new(name: &str, check: &str) -> Option<Self> {
        let made = mount_of("cgroup2", |_| true).ok_or("there are no control groups of version 2".to_owned());
        match made.and_then(|(root, _)| Self::below_root(&root, name)) {
            Ok(group) => Some(group),
            Err(reason) => {
                unchecked(check, &reason);
                None
            }
        }
    }

    fn below_root(root: &Path, name: &str) -> Result<Self, String> {
        let moved = if has_cpu(&root.join("cgroup.controllers")) { None } else { Some(Moved::new(root)?) };
        let handed_on = root.join("cgroup.subtree_control");
        let enabled = (!has_cpu(&handed_on)).then(|| root.to_path_buf());
        let (path, told) = (root.join(name), |error: io::Error| format!("{}: {error}", root.display()));
        if enabled.is_some() {
            fs::write(&handed_on, "+cpu").map_err(told)?;
        }
        let group = Self { path, enabled, _moved: moved };
        fs::create_dir_all(&group.path).map_err(told)?;
        // A small share: other programs disturb this group little, and are disturbed little.
        fs::write(group.path.join("cpu.weight"), "300").map_err(told)?;
        Ok(group)
    }

    /// Moves a process into the group.
    pub fn admit(&self, pid: i32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("the process is moved");
    }

    /// Whether processes are in the group itself.
    pub fn has_processes(&self) -> bool {
        fs::read_to_string(self.path.join("cgroup.procs")).is_ok_and(|pids| !pids.is_empty())
    }

    /// The content of a file of a group below.
    pub fn word(&self, group: &str, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.path.join(group).join(file)).ok()?.trim().to_owned())
    }

    /// The names of the groups below.
    pub fn below(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let is_gone = || {
            for name in self.below() {
                let _ = fs::remove_dir(self.path.join(name));
            }
            fs::remove_dir(&self.path).ok().or_else(|| (!self.path.exists()).then_some(()))
        };
        if wait::until(wait::PATIENCE, is_gone).is_none() {
            eprintln!("{} is still in use", self.path.display());
        }
        if let Some(root) = &self.enabled {
            let _ = fs::write(root.join("cgroup.subtree_control"), "-cpu");
        }
    }
}

impl Moved {
    /// From a mount of version 1, which keeps its other controllers, or gets an unused one.
    fn new(root: &Path) -> Result<Self, String> {
        let has = |options: &str| options.split(',').any(|option| option == "cpu");
        let (mount, options) = mount_of("cgroup", has).ok_or("no controller \"cpu\" is mounted")?;
        let known = fs::read_to_string("/proc/cgroups").unwrap_or_default();
        let known: Vec<Vec<&str>> = known.lines().map(|line| line.split_whitespace().collect()).collect();
        let is_known = |option: &&str| known.iter().any(|row| row.first() == Some(option));
        let own: Vec<&str> = options.split(',').filter(is_known).collect();
        let mut others: Vec<&str> = own.iter().copied().filter(|name| *name != "cpu").collect();
        if others.is_empty() {
            let unused = known.iter().find(|row| row.get(1) == Some(&"0") && row.get(3) == Some(&"1"));
            others.push(unused.ok_or("no other controller can take its place")?[0]);
        }
        let moved = Self { mount, options: own.join(",") };
        moved.remount(&others.join(","))?;
        if has_cpu(&root.join("cgroup.controllers")) {
            Ok(moved)
        } else {
            Err("it stays in version 1".into())
        }
    }

    fn remount(&self, controllers: &str) -> Result<(), String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "cgroup", "-o", &format!("remount,{controllers}"), "cgroup"]).arg(&self.mount);
        let output = mount.output().map_err(|error| format!("mount: {error}"))?;
        let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(said()) }
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        if wait::until(wait::PATIENCE, || self.remount(&self.options).ok()).is_none() {
            eprintln!("{} is without its controller", self.mount.display());
        }
    }
}

/// The groups of tasks whose memory is limited, on this machine; `None` if no group has the controller.
pub fn of_limited_tasks() -> Option<Vec<PathBuf>> {
    let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
    let unified = mount_of("cgroup2", |_| true).map(|(root, _)| root);
    let unified = unified.filter(|root| {
        let names = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        names.split_whitespace().any(|name| name == "memory")
    });
    let root = unified.or_else(|| mount_of("cgroup", has_memory).map(|(root, _)| root))?;
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(group) = open.pop() {
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in below {
            let is_tasks = entry.file_name().to_str().is_some_and(|name| name.starts_with("pvm-memory-"));
            if is_tasks { &mut found } else { &mut open }.push(entry.path());
        }
    }
    Some(found)
}

/// Where a file system of this type is mounted, with options that are wanted.
fn mount_of(kind: &str, wanted: impl Fn(&str) -> bool) -> Option<(PathBuf, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[_, at, its_kind, options, ..] = &fields[..] else { return None };
        (its_kind == kind && wanted(options)).then(|| (at.into(), options.to_owned()))
    })
}

fn has_cpu(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|names| names.split_whitespace().any(|name| name == "cpu"))
}
