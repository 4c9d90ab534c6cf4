//! Use of the processors and the network of this machine, from /proc.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// `USER_HZ`: the unit of times in /proc/<pid>/stat, which is the same on all architectures that the product supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The work of daemons and the network while the machine was idle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Idle {
    /// Processor time of all daemons together, as a percentage of one core.
    pub processor: f64,
    /// UDP datagrams per second that processes of this network sent.
    pub datagrams: f64,
    /// Mean of the daemons' memory (Pss), MiB.
    pub memory: f64,
    /// The memory of the master's daemon, MiB.
    pub master: f64,
}

/// The use up to a moment.
struct Counters {
    /// Processor time of each process that runs, in clock ticks.
    ticks: BTreeMap<i32, u64>,
    /// UDP datagrams sent.
    datagrams: u64,
    time: Instant,
}

impl Idle {
    /// Measures for this time; then the memory, which takes processor time itself. Daemons that exit meanwhile do not count.
    pub fn measure(master: i32, daemons: &[i32], time: Duration) -> Result<Self> {
        let before = Counters::read(daemons)?;
        thread::sleep(time);
        let after = Counters::read(daemons)?;
        let seconds = (after.time - before.time).as_secs_f64();
        let memories: Vec<f64> = daemons.iter().filter_map(|&pid| memory(pid).ok()).collect();
        ensure!(!memories.is_empty(), "the memory of the daemons cannot be read");
        Ok(Self {
            processor: after.ticks_since(&before) as f64 / TICKS_PER_SECOND / seconds * 100.0,
            datagrams: after.datagrams.saturating_sub(before.datagrams) as f64 / seconds,
            memory: memories.iter().sum::<f64>() / memories.len() as f64,
            master: memory(master)?,
        })
    }
}

impl Counters {
    fn read(pids: &[i32]) -> Result<Self> {
        Ok(Self { ticks: ticks_of(pids), datagrams: datagrams()?, time: Instant::now() })
    }

    /// Of the processes that ran at both moments.
    fn ticks_since(&self, before: &Self) -> u64 {
        let used = |(pid, after): (&i32, &u64)| Some(after.saturating_sub(*before.ticks.get(pid)?));
        self.ticks.iter().filter_map(used).sum()
    }
}

/// The processor time of each process that runs, in clock ticks.
fn ticks_of(pids: &[i32]) -> BTreeMap<i32, u64> {
    pids.iter().filter_map(|&pid| Some((pid, ticks(&read(pid, "stat").ok()?)?))).collect()
}

/// Fields 14 and 15 of /proc/<pid>/stat; field 2, the name, may contain blanks and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || words.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The memory of a process, in MiB: shared pages count in proportion.
pub fn memory(pid: i32) -> Result<f64> {
    let text = read(pid, "smaps_rollup")?;
    pss(&text).with_context(|| format!("process {pid} has no Pss"))
}

fn pss(rollup: &str) -> Option<f64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

/// UDP datagrams sent in this network since it exists.
fn datagrams() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/snmp").context("/proc/net/snmp")?;
    out_datagrams(&text).context("/proc/net/snmp has no OutDatagrams")
}

/// A line of names for each protocol, followed by a line of values.
fn out_datagrams(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
    names.zip(values).find(|(name, _)| *name == "OutDatagrams")?.1.parse().ok()
}

fn read(pid: i32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).context(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn values_in_proc_are_read() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 25 17 0 0 20 0 1 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(pss("00400000-7ffc r--p\nRss:  4000 kB\nPss:    2048 kB\nPss_Dirty: 1 kB\n"), Some(2.0));
        let snmp = "Udp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 5 6 7 8\nUdpLite: OutDatagrams\nUdpLite: 1\n";
        assert_eq!(out_datagrams(snmp), Some(8));
    }

    #[test]
    fn missing_values_in_proc_are_none() {
        assert_eq!((ticks("7 (a S 1"), ticks("7 (a) S 1 7")), (None, None));
        assert_eq!((pss("Rss: 1 kB\n"), out_datagrams("Udp: OutDatagrams\n")), (None, None));
    }

    #[test]
    fn a_process_that_computes_uses_a_core_and_memory() {
        let mut child = process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        let pid = child.id() as i32;
        let idle = Idle::measure(pid, &[pid], Duration::from_millis(500));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let idle = idle.expect("it was measured");
        assert!(idle.processor > 5.0 && idle.memory > 0.01, "{idle:?}");
        assert!(Idle::measure(pid, &[pid], Duration::ZERO).is_err(), "it has exited");
    }
}
