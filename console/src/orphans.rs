//! Ends processes whose parents have exited: a private machine leaves none behind.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Grace period before they are killed.
const GRACE: Duration = Duration::from_secs(1);

/// Makes this process the parent of all its descendants that lose theirs.
pub fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Ends every child of this process, and those that become its children meanwhile.
pub fn end() {
    let deadline = Instant::now() + GRACE;
    let mut signal = Signal::TERM;
    loop {
        // The children of each ended child become this process's.
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // It may be gone by now.
            let _ = kill_process(child, signal);
        }
        std::thread::sleep(Duration::from_millis(10));
        if Instant::now() >= deadline {
            signal = Signal::KILL;
        }
        // Nothing survives this; a process that the kernel cannot end must not hold us.
        if Instant::now() >= deadline + GRACE {
            return;
        }
    }
}

fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| parent(pid) == Some(own)).filter_map(Pid::from_raw).collect()
}

fn parent(pid: i32) -> Option<i32> {
    parent_field(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The parent in a line of `/proc/<pid>/stat`: the second field after the name, which may hold anything.
fn parent_field(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_follows_the_name() {
        assert_eq!(parent_field("12 (a) b) 3 (c) S 77 12 12"), Some(77));
        assert_eq!(parent_field("12 (a"), None);
        assert_eq!(
            parent(getpid().as_raw_nonzero().get()),
            rustix::process::getppid().map(|p| p.as_raw_nonzero().get())
        );
    }
}
