//! Readings of CPU use: what each team's processes have done since the last one, and what the daemon has done for them.

use super::ProcessId;
use pvm_wire::tuned::FRAGMENT_COST;
use std::collections::BTreeMap;
use std::time::Duration;

/// The work of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// CPU time of all its threads.
    pub time: Duration,
    /// Voluntary context switches of its first thread.
    pub sleeps: u64,
    /// For how long its threads have waited for a processor.
    pub waits: Duration,
}

/// The kernel's values of the processes that were asked for.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The work of each since its start, in the order in which they were asked for.
    pub work: Vec<Work>,
    /// CPU time of the daemon since the last reading.
    pub own: Duration,
    /// Whether processes that are held use what the others leave.
    pub leaves_rest: bool,
}

/// The CPU use of a team while teams took turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// CPU time of its processes.
    pub time: Duration,
    /// The daemon's CPU time that went into its messages.
    pub overhead: Duration,
    /// For how long its processes have waited for a processor.
    pub waits: Duration,
}

impl Use {
    /// The additions since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            overhead: self.overhead.saturating_sub(before.overhead),
            waits: self.waits.saturating_sub(before.waits),
        }
    }
}

/// Turns readings of counters into what was done between two of them.
#[derive(Clone, Debug)]
pub struct Meter<T> {
    /// Each process at the last reading.
    seen: BTreeMap<ProcessId, Work>,
    /// The processes of the reading that is under way.
    asked: Vec<(T, ProcessId)>,
    /// The daemon's work for each team since the last reading, and for tasks that take no turns.
    carried: BTreeMap<Option<T>, u64>,
    /// When it was last read.
    read: Duration,
    has_read: bool,
}

impl<T: Copy + Ord> Meter<T> {
    /// Nothing has been read yet.
    pub fn new(now: Duration) -> Self {
        Self {
            seen: BTreeMap::new(),
            asked: Vec::new(),
            carried: BTreeMap::new(),
            read: now,
            has_read: false,
        }
    }

    /// A reading of these processes begins.
    pub fn ask(&mut self, processes: impl Iterator<Item = (T, ProcessId)>) -> Vec<ProcessId> {
        self.asked = processes.collect();
        self.asked.iter().map(|&(_, pid)| pid).collect()
    }

    /// Whether a reading is under way.
    pub fn is_read(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether there has been a reading.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// A process takes no turns any more.
    pub fn forget(&mut self, pid: ProcessId) {
        self.seen.remove(&pid);
    }

    /// A team has no tasks any more: no account is charged for its overhead.
    pub fn forget_team(&mut self, team: T) {
        if let Some(bytes) = self.carried.remove(&Some(team)) {
            let carried = self.carried.entry(None).or_default();
            *carried = carried.saturating_add(bytes);
        }
    }

    /// The time since the last reading; the next is counted from now.
    pub fn elapsed(&mut self, now: Duration) -> Duration {
        now.saturating_sub(std::mem::replace(&mut self.read, now))
    }

    /// The work of each process since the last reading, at most `most`. `None` after the first one.
    pub fn used(&mut self, work: Vec<Work>, most: Duration) -> Option<Vec<(T, Work)>> {
        let asked = std::mem::take(&mut self.asked);
        let before = std::mem::take(&mut self.seen);
        let used = asked.iter().zip(&work).map(|(&(team, pid), work)| {
            let before = before.get(&pid).copied().unwrap_or_default();
            let time = work.time.saturating_sub(before.time).min(most);
            let waits = work.waits.saturating_sub(before.waits).min(most);
            (team, Work { time, sleeps: work.sleeps.saturating_sub(before.sleeps), waits })
        });
        let used = used.collect();
        self.seen = asked.iter().map(|&(_, pid)| pid).zip(work).collect();
        std::mem::replace(&mut self.has_read, true).then_some(used)
    }

    /// The daemon has passed on a fragment of this many bytes.
    pub fn carry(&mut self, team: Option<T>, bytes: usize) {
        let carried = self.carried.entry(team).or_default();
        *carried = carried.saturating_add(FRAGMENT_COST.saturating_add(bytes as u64));
    }

    /// Divides the time that the daemon has used since the last reading among the teams that it has worked for.
    pub fn overhead(&mut self, own: Duration) -> Vec<(T, Duration)> {
        let carried = std::mem::take(&mut self.carried);
        let all: f64 = carried.values().map(|&part| part as f64).sum();
        let parts = carried.into_iter().filter_map(|(team, part)| Some((team?, part)));
        parts.map(|(team, part)| (team, own.mul_f64(part as f64 / all))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn work(time: u32, sleeps: u64, waits: u32) -> Work {
        Work { time: time * MS, sleeps, waits: waits * MS }
    }

    #[test]
    fn a_reading_is_what_has_been_done_since_the_last_one() {
        let mut meter = Meter::new(Duration::ZERO);
        let read = |meter: &mut Meter<char>, work: Vec<Work>| {
            assert_eq!(meter.ask([('A', 1), ('B', 2)].into_iter()), [1, 2]);
            assert!(meter.is_read());
            meter.used(work, 50 * MS)
        };
        assert_eq!(read(&mut meter, vec![work(500, 9, 3), work(0, 0, 0)]), None, "before, nobody knows when");
        let used = read(&mut meter, vec![work(520, 10, 4), work(90, 1, 80)]);
        assert_eq!(used, Some(vec![('A', work(20, 1, 1)), ('B', work(50, 1, 50))]), "no more than there was");
        meter.forget(1);
        let used = read(&mut meter, vec![work(7, 1, 0), work(60, 0, 80)]);
        assert_eq!(used, Some(vec![('A', work(7, 1, 0)), ('B', work(0, 0, 0))]), "a process id used again");
        assert!(!meter.is_read() && meter.has_read());
        assert_eq!(
            (meter.elapsed(3 * MS), meter.elapsed(5 * MS), meter.elapsed(MS)),
            (3 * MS, 2 * MS, Duration::ZERO)
        );
    }

    #[test]
    fn the_daemons_time_is_divided_by_fragments_and_bytes() {
        let mut meter = Meter::new(Duration::ZERO);
        meter.carry(Some('A'), 0);
        meter.carry(Some('B'), FRAGMENT_COST as usize);
        meter.carry(None, 0);
        assert_eq!(meter.overhead(40 * MS), [('A', 10 * MS), ('B', 20 * MS)]);
        assert_eq!(meter.overhead(40 * MS), [], "it is paid for once");
        meter.carry(Some('A'), 0);
        meter.carry(Some('B'), 0);
        meter.forget_team('B');
        assert_eq!(meter.overhead(40 * MS), [('A', 20 * MS)], "nobody pays for a team that is gone");
        meter.carry(Some('A'), usize::MAX);
        meter.carry(Some('A'), usize::MAX);
        assert_eq!(meter.overhead(40 * MS), [('A', 40 * MS)]);
    }
}
