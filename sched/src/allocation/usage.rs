//! The usage table of the up-down algorithm (Mutka and Livny).
//!
//! It has an entry per workstation. Processes on others' machines add points each second, requests that are not satisfied subtract, and
//! with neither the score decays to 0. A processor that becomes free goes to the pending request of the owner with the lowest score.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Points that a second of use of one processor adds. Scores are counted in thousandths, times in milliseconds.
const PENALTY: i64 = 10;
/// Points that a second of waiting subtracts, however many requests wait.
const CREDIT: i64 = 10;
/// Points by which a second with neither brings a score nearer to 0.
const DECAY: i64 = 5;

/// An owner's line in the usage table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entry {
    /// The score at `since`.
    score: i64,
    since: u64,
    /// Processors in use that are not the owner's.
    using: u32,
    /// Requests that wait.
    pending: VecDeque<u64>,
}

impl Entry {
    /// Points per millisecond, in thousandths of a point; 0 also for one that decays.
    fn rate(&self) -> i64 {
        i64::from(self.using) * PENALTY - if self.pending.is_empty() { 0 } else { CREDIT }
    }

    fn score(&self, now: u64) -> i64 {
        let time = now.saturating_sub(self.since).min(1 << 40) as i64;
        if self.using == 0 && self.pending.is_empty() {
            self.score.signum() * (self.score.abs() - DECAY * time).max(0)
        } else {
            self.score.saturating_add(self.rate().saturating_mul(time))
        }
    }

    fn settle(&mut self, now: u64) {
        self.score = self.score(now);
        self.since = now;
    }
}

/// The usage table. An owner is a number from 0 on; a request a number of the caller's.
///
/// Also the batch queues' fair share ([`crate::queues`]): there an owner is a user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    entries: Vec<Entry>,
    /// Those with pending requests, by the line on which their score runs: all with the same number in use move alike,
    /// so the order within a line holds while time goes by. Line: (using, score at time 0, owner).
    lines: std::collections::BTreeMap<u32, BTreeSet<(i64, usize)>>,
}

impl Usage {
    /// A table without points.
    pub fn new() -> Self {
        Self::default()
    }

    /// An owner's score, in thousandths of a point.
    pub fn score(&self, owner: usize, now: u64) -> i64 {
        self.entries.get(owner).map_or(0, |entry| entry.score(now))
    }

    /// A request that cannot be granted now.
    pub fn wait(&mut self, owner: usize, request: u64, now: u64) {
        self.change(owner, now, |entry| entry.pending.push_back(request));
    }

    /// The owner withdraws what it has pending of a request.
    pub fn withdraw(&mut self, owner: usize, request: u64, now: u64) {
        self.change(owner, now, |entry| entry.pending.retain(|&other| other != request));
    }

    /// The owner uses more processors.
    pub fn acquire(&mut self, owner: usize, processors: u32, now: u64) {
        self.change(owner, now, |entry| entry.using = entry.using.saturating_add(processors));
    }

    /// The owner uses fewer processors.
    pub fn release(&mut self, owner: usize, processors: u32, now: u64) {
        self.change(owner, now, |entry| entry.using = entry.using.saturating_sub(processors));
    }

    /// The owner whose pending request is next: the lowest score, of equal ones the first.
    pub fn lowest(&self, now: u64) -> Option<usize> {
        let firsts = self.lines.values().filter_map(BTreeSet::first);
        firsts.map(|&(_, owner)| (self.score(owner, now), owner)).min().map(|(_, owner)| owner)
    }

    /// The owner's oldest pending request, which is looked at but stays.
    pub fn next(&self, owner: usize) -> Option<u64> {
        self.entries.get(owner)?.pending.front().copied()
    }

    /// Takes the owner's oldest pending request.
    pub fn grant(&mut self, owner: usize, now: u64) -> Option<u64> {
        let mut request = None;
        self.change(owner, now, |entry| request = entry.pending.pop_front());
        request
    }

    fn change(&mut self, owner: usize, now: u64, change: impl FnOnce(&mut Entry)) {
        if self.entries.len() <= owner {
            self.entries.resize(owner + 1, Entry::default());
        }
        self.unlist(owner);
        self.entries[owner].settle(now);
        change(&mut self.entries[owner]);
        let entry = &self.entries[owner];
        if !entry.pending.is_empty() {
            let at_zero = entry.score.saturating_sub(entry.rate().saturating_mul(now.min(1 << 40) as i64));
            self.lines.entry(entry.using).or_default().insert((at_zero, owner));
        }
    }

    fn unlist(&mut self, owner: usize) {
        let entry = &self.entries[owner];
        if entry.pending.is_empty() {
            return;
        }
        let at_zero =
            entry.score.saturating_sub(entry.rate().saturating_mul(entry.since.min(1 << 40) as i64));
        if let Some(line) = self.lines.get_mut(&entry.using) {
            line.remove(&(at_zero, owner));
            if line.is_empty() {
                self.lines.remove(&entry.using);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scores_go_up_and_down() {
        let mut usage = Usage::new();
        usage.acquire(0, 1, 0);
        assert_eq!(usage.score(0, 3000), 30_000, "3 seconds at 10 points");
        usage.acquire(0, 1, 3000);
        assert_eq!(usage.score(0, 4000), 50_000);
        usage.wait(0, 7, 4000);
        assert_eq!(usage.score(0, 5000), 60_000, "two in use, one waits");
        usage.release(0, 1, 5000);
        usage.release(0, 1, 5000);
        assert_eq!(usage.score(0, 6000), 50_000);
        assert_eq!(usage.grant(0, 6000), Some(7));
        assert_eq!(usage.score(0, 7000), 45_000, "with neither it decays");
        assert_eq!(usage.score(0, 1_000_000), 0, "and gets to 0, not beyond");
        usage.wait(1, 8, 0);
        usage.grant(1, 1000);
        assert_eq!(usage.score(1, 1000), -10_000);
        assert_eq!(usage.score(1, 2000), -5000, "from below as well");
        assert_eq!(usage.score(9, 0), 0);
    }

    proptest! {
        /// The lines find the same owner as looking at all.
        #[test]
        fn lowest_is_lowest(steps in proptest::collection::vec((0..4_u8, 0..6_usize, 0..3000_u64), 0..80)) {
            let (mut usage, mut now) = (Usage::new(), 0);
            let mut pending = [0; 6];
            for (kind, owner, pause) in steps {
                now += pause;
                match kind {
                    0 => usage.acquire(owner, 1, now),
                    1 => usage.release(owner, 1, now),
                    2 => { usage.wait(owner, 1, now); pending[owner] += 1; }
                    _ => if usage.grant(owner, now).is_some() { pending[owner] -= 1; },
                }
                let naive = (0..6).filter(|&owner| pending[owner] > 0).min_by_key(|&owner| (usage.score(owner, now), owner));
                let found = usage.lowest(now);
                prop_assert_eq!(found.map(|owner| usage.score(owner, now)), naive.map(|owner| usage.score(owner, now)));
                prop_assert!(found.is_none_or(|owner| pending[owner] > 0));
            }
        }
    }
}
