//! Up-down: a coordinator that gives every owner a fair share (Mutka and Livny).
//!
//! A usage table has an entry per workstation. Processes on others' machines add points each second, requests that are
//! not satisfied subtract, and with neither the score decays to 0. A processor that becomes free goes to the pending
//! request of the owner with the lowest score.

use super::set::HostSet;
use super::{Machines, Policy, Request, Step, here};
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

/// Of a host that runs nothing.
const NOBODY: u32 = u32::MAX;

/// The policy: a host that is busy asks the coordinator for another; one process to a processor.
#[derive(Clone, Debug)]
pub struct UpDown {
    usage: Usage,
    free: HostSet,
    /// The owner of the process on each host: its own, another, or `NOBODY`.
    users: Vec<u32>,
}

impl UpDown {
    /// All hosts are free.
    pub fn new(hosts: usize) -> Self {
        Self { usage: Usage::new(), free: HostSet::full(hosts), users: vec![NOBODY; hosts] }
    }

    /// A host has nothing to do: it goes to the request that waits for it most, or is free.
    fn offer(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let now = machines.now();
        let Some(owner) = self.usage.lowest(now) else {
            self.free.insert(host);
            return Vec::new();
        };
        let Some(request) = self.usage.grant(owner, now) else { return Vec::new() };
        machines.send(1);
        self.grant(owner, host, now);
        vec![Step::Start { request, host }]
    }

    fn grant(&mut self, owner: usize, host: usize, now: u64) {
        self.free.remove(host);
        self.users[host] = owner as u32;
        if owner != host {
            self.usage.acquire(owner, 1, now);
        }
    }

    /// A host's process is there no more.
    fn release(&mut self, host: usize, now: u64) {
        let Some(user) = self.users.get_mut(host) else { return };
        let owner = std::mem::replace(user, NOBODY);
        if owner != NOBODY && owner as usize != host {
            self.usage.release(owner as usize, 1, now);
        }
    }
}

impl Policy for UpDown {
    fn name(&self) -> &'static str {
        "up-down"
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        let now = machines.now();
        if request.origin >= self.users.len() {
            return here(&request).collect();
        }
        let mut steps = Vec::new();
        for _ in 0..request.count {
            let host = if self.free.contains(request.origin) {
                Some(request.origin)
            } else {
                machines.send(1);
                self.free.next(0)
            };
            if let Some(host) = host {
                // The coordinator's answer, or the note that the owner uses its own machine.
                machines.send(1);
                self.grant(request.origin, host, now);
                steps.push(Step::Start { request: request.id, host });
            } else {
                self.usage.wait(request.origin, request.id, now);
            }
        }
        steps
    }

    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let now = machines.now();
        machines.send(1);
        self.release(host, now);
        self.offer(host, machines)
    }

    fn left(&mut self, host: usize, machines: &mut dyn Machines) {
        // The coordinator notices when the host does not answer.
        machines.send(1);
        self.free.remove(host);
        self.release(host, machines.now());
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        machines.send(1);
        self.offer(host, machines)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
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

    #[test]
    fn a_freed_processor_goes_to_the_lowest_score() {
        // Owner 0 has taken all four; then 1 and 0 want more.
        let mut policy = UpDown::new(4);
        let mut bench = Bench::new(&[0; 4]);
        assert_eq!(bench.create(&mut policy, 1, 0, 4), [0, 1, 2, 3]);
        bench.now = 1000;
        assert_eq!(bench.create(&mut policy, 2, 0, 3), [0; 0], "none is free");
        bench.now = 2000;
        assert_eq!(bench.create(&mut policy, 3, 1, 1), [0; 0]);
        bench.now = 3000;
        assert_eq!(bench.end(&mut policy, 3), [Step::Start { request: 3, host: 3 }], "the light user first");
        assert_eq!(bench.end(&mut policy, 2), [Step::Start { request: 2, host: 2 }]);
    }

    #[test]
    fn a_host_that_is_away_is_not_given_and_one_that_returns_is() {
        let mut policy = UpDown::new(3);
        let mut bench = Bench::new(&[0; 3]);
        assert_eq!(bench.create(&mut policy, 1, 0, 2), [0, 1]);
        assert_eq!(bench.leave(&mut policy, 1), 1);
        assert_eq!(bench.leave(&mut policy, 2), 0);
        assert_eq!(bench.create(&mut policy, 1, 0, 1), [0; 0], "no host is left");
        assert_eq!(bench.come_back(&mut policy, 2), [Step::Start { request: 1, host: 2 }]);
        assert_eq!(bench.come_back(&mut policy, 1), []);
        assert_eq!(bench.create(&mut policy, 2, 0, 1), [1]);
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
