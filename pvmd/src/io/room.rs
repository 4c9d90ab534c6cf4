//! How many tasks this machine has room for: the default of `PVM_TASK_LIMIT`.

use crate::io::control_group::{self, Hierarchy, Place};
use pvm_wire::tid::LOCAL_MAX;
use rustix::process::Resource;
use std::fs;
use std::path::Path;

/// Open files that a task takes in its daemon: connection, output, process, shared memory, bell.
const FILES: u64 = 5;
/// Open files that the daemon has for other things: hosts, logs, tasks that are about to enrol.
const OWN_FILES: u64 = 256;
/// Memory of a task that does nothing; its daemon's part of it is small.
const MEMORY: u64 = 1 << 20;
/// A limit so low that it keeps out what the machine is there for is none.
const LEAST: u64 = 16;

/// What this machine and its settings have of what tasks need; no number where there is no bound.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// `ulimit -Hn`.
    files: Option<u64>,
    /// Processes: of the system, the user and the control groups.
    processes: Option<u64>,
    /// Bytes: of the system and the control groups.
    memory: Option<u64>,
}

/// Tasks that this host has room for, if they do next to nothing.
pub fn tasks() -> u32 {
    let files = rustix::process::getrlimit(Resource::Nofile).maximum;
    let users = rustix::process::getrlimit(Resource::Nproc).current;
    let threads = || number(Path::new("/proc/sys/kernel/threads-max"));
    let processes = [users, number(Path::new("/proc/sys/kernel/pid_max")), threads(), of_groups("pids.max")];
    let memory = [total_memory(), of_groups("memory.max")];
    let least = |bounds: &[Option<u64>]| bounds.iter().flatten().min().copied();
    room(Bounds { files, processes: least(&processes), memory: least(&memory) })
}

fn room(bounds: Bounds) -> u32 {
    let files = bounds.files.map(|files| files.saturating_sub(OWN_FILES) / FILES);
    // Others have processes, too.
    let processes = bounds.processes.map(|processes| processes / 2);
    let memory = bounds.memory.map(|bytes| bytes / MEMORY);
    let most = u64::from(LOCAL_MAX) - 1;
    let room = [files, processes, memory].into_iter().flatten().fold(most, u64::min);
    room.max(LEAST) as u32
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Bytes of memory of the whole machine.
fn total_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.saturating_mul(1024))
}

/// The tightest of this process's control group (of version 2) and those around it.
fn of_groups(file: &str) -> Option<u64> {
    let Place { root, own } = control_group::place(Hierarchy::Unified)?;
    own.ancestors().take_while(|group| group.starts_with(&root)).filter_map(|g| number(&g.join(file))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shortest_bounds() {
        let usual = Bounds { files: Some(524_288), processes: Some(95_000), memory: Some(16 << 30) };
        assert_eq!(room(usual), 16_384);
        assert_eq!(room(Bounds { memory: Some(1 << 40), ..usual }), 47_500);
        assert_eq!(room(Bounds { files: Some(1024), ..usual }), 153);
        assert_eq!(room(Bounds::default()), 262_142, "the layout of task ids");
        assert_eq!(room(Bounds { files: Some(100), ..usual }), 16);
    }

    #[test]
    fn this_machine_has_room() {
        assert!((16..=262_142).contains(&tasks()));
        assert!(total_memory().is_some());
    }
}
