//! Control groups that have a part of this machine's processors: slow hosts, and containers.

use crate::wait;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// Where control groups are that have a quota of the processors' time, and where their use is counted.
const CONTROLLERS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"];

/// A control group of version 1, which goes when it is dropped.
#[derive(Debug)]
pub struct Quota([PathBuf; 2]);

impl Quota {
    /// A group with this end of its name, which gets `cores` cores; its quota begins anew after `period` microseconds. The kernel has no
    /// quotas below a millisecond.
    pub fn new(name: &str, cores: f64, period: f64) -> Result<Self, String> {
        let name = format!("pvm-quota-{}-{name}", process::id());
        let group = Self(CONTROLLERS.map(|controller| Path::new(controller).join(&name)));
        for path in &group.0 {
            // Both controllers may be in one hierarchy.
            match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(told(path, &error)),
                _ => {}
            }
        }
        group.set("cpu.cfs_period_us", period)?;
        group.set("cpu.cfs_quota_us", period * cores)?;
        // Other programs on this machine take little of it.
        group.set("cpu.shares", 100_000.0)?;
        Ok(group)
    }

    /// The folder of its quota.
    pub fn path(&self) -> &Path {
        &self.0[0]
    }

    /// Moves a process into it. Its children begin there.
    pub fn take(&self, pid: i32) -> Result<(), String> {
        self.doors().iter().try_for_each(|door| put(door, &pid.to_string()))
    }

    /// The files that take processes which enter by themselves.
    pub fn doors(&self) -> [PathBuf; 2] {
        self.0.each_ref().map(|group| group.join("cgroup.procs"))
    }

    /// Does something as a process of this group.
    pub fn within<T>(&self, something: impl FnOnce() -> T) -> Result<T, String> {
        let own = process::id().cast_signed();
        let before = of_this_process()?;
        self.take(own)?;
        let done = something();
        before.iter().try_for_each(|group| put(&group.join("cgroup.procs"), &own.to_string()))?;
        Ok(done)
    }

    fn set(&self, name: &str, value: f64) -> Result<(), String> {
        put(&self.path().join(name), &(value.round() as u64).to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Processes that were killed are in it until they have ended.
        for path in &self.0 {
            let is_gone = || fs::remove_dir(path).ok().or_else(|| (!path.exists()).then_some(()));
            if wait::until(wait::PATIENCE, is_gone).is_none() {
                eprintln!("{} is still in use", path.display());
            }
        }
    }
}

/// The groups of this process.
fn of_this_process() -> Result<[PathBuf; 2], String> {
    let file = Path::new("/proc/self/cgroup");
    let groups = fs::read_to_string(file).map_err(|error| told(file, &error))?;
    let own = CONTROLLERS.map(|controller| {
        let name = controller.rsplit('/').next().unwrap_or_default();
        let of =
            |line: &&str| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|own| own == name));
        let path = groups.lines().find(of).and_then(|line| line.splitn(3, ':').nth(2)).unwrap_or_default();
        Path::new(controller).join(path.trim_start_matches('/'))
    });
    Ok(own)
}

fn put(file: &Path, word: &str) -> Result<(), String> {
    fs::write(file, word).map_err(|error| told(file, &error))
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
