//! How busy the cores are that this daemon may use.
//!
//! They are all cores of the computer, those that a batch system or `taskset` leaves it, or as much as the quota of a control group
//! (cgroups(7)) allows. What others do elsewhere on the computer takes nothing from this host.

use crate::io::control_group::{self, Hierarchy, Place};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sysinfo::System;

/// The cores and the quota of this process when it began to read.
pub struct BusyCores {
    allowed: CpuSet,
    group: Option<Counted>,
}

/// The group whose quota bounds this daemon, and its use as last read.
struct Counted {
    group: Bounded,
    read: (Instant, Duration),
}

/// A control group with a quota.
#[derive(Clone, Debug, PartialEq)]
struct Bounded {
    /// Cores that its processes may use together.
    cores: f64,
    /// The file with the CPU time that they have used.
    usage: Usage,
}

/// Where and how the CPU time stands that a group has used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Usage {
    /// `cpu.stat` of version 2, in a line `usage_usec N`.
    Lines(PathBuf),
    /// `cpuacct.usage` of version 1, in nanoseconds.
    Nanoseconds(PathBuf),
}

impl BusyCores {
    /// Those that it has now. The system counts from its last refresh on.
    pub fn of_this_process() -> rustix::io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let group = bounded().filter(|group| group.cores < f64::from(allowed.count()));
        let group =
            group.and_then(|group| Some(Counted { read: (Instant::now(), group.usage.read()?), group }));
        Ok(Self { allowed, group })
    }

    /// Busy cores since the last reading.
    pub fn read(&mut self, system: &mut System) -> f64 {
        system.refresh_cpu_usage();
        let allowed = system.cpus().iter().filter(|core| self.may_use(core.name()));
        let (cores, busy) = allowed
            .fold((0.0, 0.0), |(cores, busy), core| (cores + 1.0, busy + f64::from(core.usage()) / 100.0));
        match self.group.as_mut().and_then(Counted::read) {
            Some((quota, own)) => of_quota(quota, own, (cores, busy)),
            None => busy,
        }
    }

    /// A core as `/proc/stat` names it.
    fn may_use(&self, name: &str) -> bool {
        let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
        number.is_some_and(|number: usize| number < CpuSet::MAX_CPU && self.allowed.is_set(number))
    }
}

/// Of the cores of a quota: what the group uses, and what others take of it because they leave less.
fn of_quota(quota: f64, own: f64, (cores, busy): (f64, f64)) -> f64 {
    let others = (busy - own).max(0.0);
    own + (others - (cores - quota).max(0.0)).max(0.0)
}

impl Counted {
    /// The quota, and the cores that the group has used since the last reading.
    fn read(&mut self) -> Option<(f64, f64)> {
        let (now, used) = (Instant::now(), self.group.usage.read()?);
        let (at, before) = std::mem::replace(&mut self.read, (now, used));
        let seconds = now.duration_since(at).as_secs_f64();
        (seconds > 0.0).then(|| (self.group.cores, used.saturating_sub(before).as_secs_f64() / seconds))
    }
}

impl Usage {
    fn read(&self) -> Option<Duration> {
        match self {
            Self::Lines(file) => {
                let text = fs::read_to_string(file).ok()?;
                let number = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                Some(Duration::from_micros(number.parse().ok()?))
            }
            Self::Nanoseconds(file) => {
                Some(Duration::from_nanos(fs::read_to_string(file).ok()?.trim().parse().ok()?))
            }
        }
    }
}

/// The tightest quota of this process's control group and those above, of either version.
fn bounded() -> Option<Bounded> {
    let unified = control_group::place(Hierarchy::Unified).and_then(|place| of_version_2(&place));
    let [cpu, used] = ["cpu", "cpuacct"].map(|name| control_group::place(Hierarchy::With(name)));
    let first = cpu.zip(used).and_then(|(cpu, used)| of_version_1(&cpu, &used));
    unified.into_iter().chain(first).min_by(|a, b| a.cores.total_cmp(&b.cores))
}

fn of_version_2(place: &Place) -> Option<Bounded> {
    tightest(place, |group| {
        let text = fs::read_to_string(group.join("cpu.max")).ok()?;
        let (quota, period) = text.trim().split_once(' ')?;
        let cores = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
        Some(Bounded { cores, usage: Usage::Lines(group.join("cpu.stat")) })
    })
}

/// The quota and the use may be in different hierarchies; this process has to be in the same group of both.
fn of_version_1(cpu: &Place, used: &Place) -> Option<Bounded> {
    tightest(cpu, |group| {
        let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<f64>().ok();
        let cores = number("cpu.cfs_quota_us")? / number("cpu.cfs_period_us")?;
        let same = used.root.join(group.strip_prefix(&cpu.root).ok()?);
        let usage = Usage::Nanoseconds(same.join("cpuacct.usage"));
        used.own.starts_with(&same).then_some(Bounded { cores, usage })
    })
}

fn tightest(place: &Place, of: impl Fn(&Path) -> Option<Bounded>) -> Option<Bounded> {
    let groups = place.own.ancestors().take_while(|group| group.starts_with(&place.root));
    // No quota is -1 in version 1.
    let bounded = groups.filter_map(of).filter(|group| group.cores.is_finite() && group.cores > 0.0);
    bounded.min_by(|a, b| a.cores.total_cmp(&b.cores))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Files below a folder, with what stands in them.
    fn files(of: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in of {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        folder
    }

    fn place(root: &Path, own: &str) -> Place {
        Place { root: root.to_owned(), own: root.join(own) }
    }

    #[test]
    fn others_count_as_far_as_they_leave_less_than_the_quota() {
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(is_near(of_quota(2.0, 0.5, (8.0, 6.0)), 0.5), "they leave 2.5 cores");
        assert!(is_near(of_quota(2.0, 0.5, (8.0, 8.0)), 2.0), "they leave half a core");
        assert!(is_near(of_quota(2.0, 0.5, (8.0, 0.4)), 0.5), "the two are not read at the same instant");
        assert!(is_near(of_quota(4.0, 1.0, (2.0, 1.5)), 1.5), "more than there are cores");
    }

    #[test]
    fn the_tightest_quota_bounds() {
        let of = [
            ("cpu.max", "max 100000\n"),
            ("a/cpu.max", "150000 100000\n"),
            ("a/cpu.stat", "usage_usec 250000\nuser_usec 1\n"),
            ("a/b/cpu.max", "max 100000\n"),
        ];
        let folder = files(&of);
        let found = of_version_2(&place(folder.path(), "a/b")).expect("a quota");
        assert_eq!(found, Bounded { cores: 1.5, usage: Usage::Lines(folder.path().join("a/cpu.stat")) });
        assert_eq!(found.usage.read(), Some(Duration::from_millis(250)));
        assert_eq!(of_version_2(&place(folder.path(), "")), None);
    }

    #[test]
    fn version_1_counts_in_the_same_group() {
        let period = ("cpu/a/cpu.cfs_period_us", "20000\n");
        let of = [("cpu/a/cpu.cfs_quota_us", "5000\n"), period, ("used/a/cpuacct.usage", "7000\n")];
        let folder = files(&of);
        let [cpu, used] = ["cpu", "used"].map(|name| folder.path().join(name));
        let found = of_version_1(&place(&cpu, "a"), &place(&used, "a")).expect("a quota");
        assert!((found.cores - 0.25).abs() < 1e-9);
        assert_eq!(found.usage.read(), Some(Duration::from_micros(7)));
        assert_eq!(of_version_1(&place(&cpu, "a"), &place(&used, "")), None, "it is elsewhere there");
        fs::write(cpu.join("a/cpu.cfs_quota_us"), "-1\n").expect("written");
        assert_eq!(of_version_1(&place(&cpu, "a"), &place(&used, "a")), None, "no quota");
    }

    #[test]
    fn cores_are_counted_that_this_process_may_use() {
        let mut system = System::new().expect("this computer tells");
        system.refresh_cpu_usage();
        let mut busy = BusyCores::of_this_process().expect("the kernel tells");
        std::thread::sleep(Duration::from_millis(300));
        let (found, allowed) = (busy.read(&mut system), f64::from(busy.allowed.count()));
        assert!((0.0..=allowed + 0.1).contains(&found), "{found} of {allowed}");
    }
}
