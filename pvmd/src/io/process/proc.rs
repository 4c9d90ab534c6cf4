//! What the kernel tells about processes in `/proc`.

use super::sys::{cpu_time, ticks_per_second};
use rustix::io::Errno;
use std::io::{self, Read};
use std::time::Duration;

/// More than the kernel says of a process in any of the files that are read here.
const TOLD_MAX: usize = 16 << 10;

/// The threads of a process. Each is one more link of their folder, besides the two that every folder has: most processes have one
/// thread, and of those it is not looked which.
pub(super) fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let folder = format!("/proc/{pid}/task");
    let links = rustix::fs::stat(&folder).map_err(|_| Errno::SRCH)?.st_nlink;
    if links == 3 {
        return Ok(vec![pid]);
    }
    let entries = std::fs::read_dir(folder).map_err(|_| Errno::SRCH)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// What the kernel says in a file of its own, in one piece.
fn told(file: &str) -> Option<String> {
    let mut text = vec![0; TOLD_MAX];
    let length = std::fs::File::open(file).ok()?.read(&mut text).ok()?;
    text.truncate(length);
    String::from_utf8(text).ok()
}

/// CPU time that a process has used, and how long its threads wanted a processor and had none.
pub fn times(pid: i32) -> (Duration, Duration) {
    let waits = threads(pid).unwrap_or_default().into_iter().filter_map(|thread| {
        let told = told(&format!("/proc/{pid}/task/{thread}/schedstat"))?;
        told.split_ascii_whitespace().nth(1)?.parse().ok()
    });
    (cpu_time(pid), Duration::from_nanos(waits.fold(0, u64::saturating_add)))
}

/// How often the first thread of a process has gone to sleep by itself; 0 if it is not there.
pub fn sleeps(pid: i32) -> u64 {
    let status = told(&format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// When a process began, in the kernel's ticks; by which it is told from another that has its id later.
pub fn begun(pid: i32) -> Option<u64> {
    stat(pid)?.get(19).copied()
}

/// The parent of a process, and when it began.
pub fn parent_and_begin(pid: i32) -> Option<(i32, u64)> {
    let fields = stat(pid)?;
    Some((i32::try_from(*fields.get(1)?).ok()?, *fields.get(19)?))
}

/// CPU time that a process and those that it has waited for have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// That of its threads.
    pub own: Duration,
    /// That of its children which have ended, and of those that these have waited for.
    pub children: Duration,
}

/// What a process has used, in the kernel's ticks; `None` if it is not there.
pub fn cpu_use(pid: i32) -> Option<CpuUse> {
    let fields = stat(pid)?;
    let times = fields.get(11..15)?;
    let time = |ticks: &[u64]| {
        let ticks = ticks.iter().fold(0, |sum: u64, &ticks| sum.saturating_add(ticks));
        Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second())
    };
    Some(CpuUse { own: time(&times[..2]), children: time(&times[2..]) })
}

/// Flag of a process that runs no program of its own yet (`PF_FORKNOEXEC` of the kernel's sched.h).
const NO_PROGRAM_YET: u64 = 0x40;

/// Whether this process has made another that does not run its program yet.
pub fn is_being_started(pid: i32) -> bool {
    let own = u64::from(std::process::id());
    stat(pid).is_some_and(|fields| {
        fields.get(1) == Some(&own) && fields.get(6).is_some_and(|flags| flags & NO_PROGRAM_YET != 0)
    })
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T'))
}

/// A process's limit of locks, by which it may be marked ([`super::mark_by_limit`]); `None` if there is none.
pub fn limit_of_locks(pid: i32) -> Option<u64> {
    let limits = told(&format!("/proc/{pid}/limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes of a process's memory that no other has, with what is swapped out; 0 if it has ended.
pub fn own_memory(pid: i32) -> u64 {
    let status = told(&format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    ["RssAnon:", "VmSwap:"].iter().filter_map(|name| kilobytes(name)).sum::<u64>() * 1024
}

/// The mean of the memory that these processes have of their own, in bytes; `None` if all have ended.
pub fn mean_memory(pids: &[i32]) -> Option<u64> {
    let live = pids.iter().map(|&pid| own_memory(pid)).filter(|&bytes| bytes > 0);
    let (sum, count) = live.fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1));
    (count > 0).then(|| sum / count)
}

/// The fields behind its name in what the kernel says of a process; 0 for what is no number.
fn stat(pid: i32) -> Option<Vec<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have blanks.
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}
