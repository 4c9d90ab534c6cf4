//! Processes of this machine, found by what their environment says.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process as /proc shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its command line, words joined by blanks.
    pub command: String,
}

/// All processes whose environment mentions `marker`, a unique text (the folder of a test).
/// Zombies have no environment and do not count.
pub fn with_environment(marker: &Path) -> Vec<Process> {
    let marker = marker.as_os_str().as_encoded_bytes();
    all()
        .into_iter()
        .filter(|process| read(process.pid, "environ").is_some_and(|e| contains(&e, marker)))
        .collect()
}

/// The children of a process.
pub fn children(parent: i32) -> Vec<Process> {
    all().into_iter().filter(|process| parent_of(process.pid) == Some(parent)).collect()
}

/// Whether the process exists and is no zombie.
pub fn is_alive(pid: i32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Sends a signal; whether there was such a process.
pub fn signal(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// The UDP ports that a process has open in its own network.
pub fn udp_ports(pid: i32) -> Vec<u16> {
    udp_sockets(pid).into_iter().map(|(_, port)| port).collect()
}

/// The addresses, in the kernel's hexadecimal digits, and ports of these.
pub fn udp_sockets(pid: i32) -> Vec<(String, u16)> {
    let inodes = socket_inodes(pid);
    ["udp", "udp6"]
        .iter()
        .filter_map(|table| read(pid, &format!("net/{table}")))
        .flat_map(|table| udp_rows(&String::from_utf8_lossy(&table)))
        .filter(|(_, inode)| inodes.contains(inode))
        .map(|(socket, _)| socket)
        .collect()
}

/// The lines of /proc/net/udp as ((local address, local port), inode).
fn udp_rows(table: &str) -> Vec<((String, u16), u64)> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (address, port) = words.get(1)?.rsplit_once(':')?;
            let port = u16::from_str_radix(port, 16).ok()?;
            Some(((address.to_owned(), port), words.get(9)?.parse().ok()?))
        })
        .collect()
}

fn socket_inodes(pid: i32) -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(|pid| Process { pid, command: command_line(pid) })
        .collect()
}

fn command_line(pid: i32) -> String {
    let bytes = read(pid, "cmdline").unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
}

fn parent_of(pid: i32) -> Option<i32> {
    state_and_parent(pid).map(|(_, parent)| parent)
}

/// Field 3 and 4 of /proc/<pid>/stat; field 2, the name, may itself hold blanks and parentheses.
fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = String::from_utf8_lossy(&read(pid, "stat")?).into_owned();
    let mut words = stat.rsplit(')').next()?.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn read(pid: i32, file: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/{file}")).ok()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
