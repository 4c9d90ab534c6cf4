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
    state(pid).is_some()
}

/// Whether the process is stopped.
pub fn is_stopped(pid: i32) -> bool {
    state(pid) == Some('T')
}

/// The state as `ps` shows it: R, S, T, …; nothing for a process that has ended.
pub fn state(pid: i32) -> Option<char> {
    stat(pid, 0)?.chars().next().filter(|&state| state != 'Z')
}

/// A field of `/proc/PID/stat`, counted from the state (proc_pid_stat(5), field 3): the name before it may hold blanks and parentheses.
pub fn stat(pid: i32, field: usize) -> Option<String> {
    let stat = text(pid, "stat")?;
    stat.rsplit(')').next()?.split_whitespace().nth(field).map(str::to_owned)
}

/// The value of a field, by name, in `/proc/PID/status` or a file of the same form.
pub fn field(pid: i32, file: &str, name: &str) -> Option<String> {
    let text = text(pid, file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// The same for an amount of memory, kB.
pub fn kilobytes(pid: i32, file: &str, name: &str) -> Option<u64> {
    field(pid, file, name)?.strip_suffix(" kB")?.parse().ok()
}

/// A variable of the environment with which the process began.
pub fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = text(pid, "environ")?;
    let value = environment.split('\0').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.to_owned())
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
        .filter_map(|table| text(pid, &format!("net/{table}")))
        .flat_map(|table| udp_rows(&table))
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
    text(pid, "cmdline").unwrap_or_default().trim_end_matches('\0').replace('\0', " ")
}

fn parent_of(pid: i32) -> Option<i32> {
    stat(pid, 1)?.parse().ok()
}

fn text(pid: i32, file: &str) -> Option<String> {
    read(pid, file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn read(pid: i32, file: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/{file}")).ok()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
