//! The order in which jobs that wait are looked at.
//!
//! Higher priority first, where waiting counts, too, if the queue says so (aging). Of equal priority, the jobs of the user with the
//! lowest score in the table of up-down (Mutka and Livny; *Scheduling parallel jobs on clusters*, section 21.5), of equal scores
//! those of the user who uses fewer slots, then the oldest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A queue and a user, by their numbers.
pub(super) type Owner = (usize, usize);

/// What decides; the greatest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub priority: i64,
    pub score: Reverse<i64>,
    pub using: Reverse<u32>,
    pub job: Reverse<u64>,
}

/// All that wait, each owner's in the order of their numbers: an older job of one owner never ranks behind a younger one.
#[derive(Debug)]
pub(super) struct Line<'a> {
    waiting: &'a BTreeMap<Owner, BTreeSet<u64>>,
    first: BinaryHeap<(Rank, Owner)>,
}

impl<'a> Line<'a> {
    pub fn new(
        waiting: &'a BTreeMap<Owner, BTreeSet<u64>>,
        rank: &mut impl FnMut(Owner, u64) -> Rank,
    ) -> Self {
        let firsts = waiting.iter().filter_map(|(&owner, jobs)| Some((owner, *jobs.first()?)));
        Self { waiting, first: firsts.map(|(owner, job)| (rank(owner, job), owner)).collect() }
    }

    /// The next job, and whose it is.
    pub fn next(&mut self) -> Option<(Owner, u64)> {
        let (Rank { job: Reverse(job), .. }, owner) = self.first.pop()?;
        Some((owner, job))
    }

    /// The owner's jobs behind this one may be next, too.
    pub fn go_on(&mut self, owner: Owner, job: u64, rank: &mut impl FnMut(Owner, u64) -> Rank) {
        let behind = self.waiting.get(&owner).and_then(|jobs| jobs.range(job + 1..).next());
        if let Some(&next) = behind {
            self.first.push((rank(owner, next), owner));
        }
    }
}
