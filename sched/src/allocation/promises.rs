//! Processors that a host has set aside for processes of others which have not come yet.

use super::agent::Scene;
use std::collections::{BTreeMap, VecDeque};

/// A process that has not come for this time does not come, in milliseconds: its program could not be started, for instance.
pub const LIFE: u64 = 5000;

/// Processors set aside.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    /// When they were promised, by the home of the process.
    since: BTreeMap<usize, VecDeque<u64>>,
}

impl Promises {
    /// A processor is set aside for a process of this home.
    pub fn add(&mut self, home: usize, now: u64) {
        self.since.entry(home).or_default().push_back(now);
    }

    /// Processes of this home have come, or will not.
    pub fn settle(&mut self, home: usize, count: u32) {
        take_first(&mut self.since, home, count);
    }

    /// A home is gone.
    pub fn gone(&mut self, home: usize) {
        self.since.remove(&home);
    }

    /// Processes that may still come.
    pub fn count(&self, now: u64) -> u32 {
        let is_alive = |since: &&u64| now.saturating_sub(**since) < LIFE;
        self.since.values().flatten().filter(is_alive).count() as u32
    }

    /// Processors of a host that are neither used nor promised.
    pub fn left<M>(&self, scene: &Scene<'_, M>) -> u32 {
        scene.free().saturating_sub(self.count(scene.now))
    }

    /// Those that were promised under this number.
    pub fn count_of(&self, home: usize, now: u64) -> u32 {
        let since = self.since.get(&home).into_iter().flatten();
        since.filter(|&&since| now.saturating_sub(since) < LIFE).count() as u32
    }

    /// The homes whose processes do not come, which are forgotten.
    pub fn take_overdue(&mut self, now: u64) -> Vec<usize> {
        let mut overdue = Vec::new();
        for (&home, since) in &mut self.since {
            let late = since.iter().take_while(|&&since| now.saturating_sub(since) >= LIFE).count();
            since.drain(..late);
            overdue.extend(std::iter::repeat_n(home, late));
        }
        self.since.retain(|_, since| !since.is_empty());
        overdue
    }
}

/// Removes the first `count` entries of a home, or all if it has fewer.
pub(super) fn take_first(entries: &mut BTreeMap<usize, VecDeque<u64>>, home: usize, count: u32) {
    if let Some(of_home) = entries.get_mut(&home) {
        of_home.drain(..of_home.len().min(count as usize));
        if of_home.is_empty() {
            entries.remove(&home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_is_promised_for_a_while_only() {
        let mut promises = Promises::default();
        promises.add(1, 0);
        promises.add(1, 1000);
        promises.add(2, 1000);
        assert_eq!((promises.count(2000), promises.count(5500), promises.count(6000)), (3, 2, 0));
        promises.settle(2, 5);
        assert_eq!(promises.take_overdue(5500), [1]);
        assert_eq!(promises.count(5500), 1);
        promises.gone(1);
        assert_eq!(promises.count(5500), 0);
    }
}
