//! Control groups that have a part of this machine's processors.

use anyhow::{Context, Result};
use pvm_tests::wait;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

/// Longer than processes that were killed take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where control groups are that have a quota of the processor's time.
const CONTROLLER: &str = "/sys/fs/cgroup/cpu";

/// A control group, which goes when it is dropped.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// A group with this end of its name, which gets `cores` cores; its quota begins anew after `period` microseconds. The kernel has no
    /// quotas below a millisecond.
    pub fn new(name: &str, cores: f64, period: f64) -> Result<Self> {
        let group = Self(Path::new(CONTROLLER).join(format!("pvm-bench-{}-{name}", process::id())));
        fs::create_dir(&group.0).with_context(|| group.0.display().to_string())?;
        group.set("cpu.cfs_period_us", period)?;
        group.set("cpu.cfs_quota_us", period * cores)?;
        // Other programs on this machine take little of it.
        group.set("cpu.shares", 100_000.0)?;
        Ok(group)
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves a process into it.
    pub fn take(&self, pid: i32) -> Result<()> {
        let path = self.0.join("cgroup.procs");
        fs::write(&path, pid.to_string()).with_context(|| path.display().to_string())
    }

    fn set(&self, name: &str, value: f64) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, (value.round() as u64).to_string()).with_context(|| path.display().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that were killed are in it until they have ended.
        let is_gone = || fs::remove_dir(&self.0).ok().or_else(|| (!self.0.exists()).then_some(()));
        if wait::until(PATIENCE, is_gone).is_none() {
            eprintln!("{} is still in use", self.0.display());
        }
    }
}
