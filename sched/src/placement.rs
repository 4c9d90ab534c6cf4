//! Dividing a number of tasks among nodes at once.
//!
//! A policy implements [`Placement`]. [`RoundRobin`] is PVM's own rule, used where the caller has confined the tasks to
//! certain hosts, and as the thing to compare with; [`Proportional`] divides by capability.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// The largest capability that counts, ten thousand reference cores; what is above it counts as this.
pub const MAX_CAPABILITY: f64 = 1e7;

/// A node that may be given tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<H> {
    /// The node.
    pub host: H,
    /// `C_i`, its processing capability; 1000 is a reference core.
    pub capability: f64,
    /// The most tasks it may be given without having asked for them.
    pub limit: u64,
}

/// A policy by which tasks are divided among nodes.
///
/// A policy may keep state from one call to the next, such as a cursor; what it decides depends on nothing but that and
/// its arguments.
pub trait Placement<H>: Debug {
    /// The policy's name, as a person chooses it.
    fn name(&self) -> &'static str;

    /// Divides `count` tasks: how many each host gets, in the order in which consecutive tasks are given out.
    ///
    /// No host appears twice or with 0. The numbers add up to `count`, or to less if there are no candidates or their
    /// limits do not allow more.
    fn place(&mut self, count: u64, candidates: &[Candidate<H>]) -> Vec<(H, u64)>;
}

/// PVM's rule: consecutive blocks, as even as can be, starting where the last spawn stopped.
///
/// PVM 3.4 gives each task to the current host and adds nh, the number of hosts used, to an accumulator; each time that
/// reaches the number of tasks, the number is subtracted and the next host is current. Capability, load and limit are
/// ignored. The cursor is the daemon's: all its spawns share it, and it starts behind the daemon's own host.
#[derive(Clone, Debug)]
pub struct RoundRobin<H> {
    /// The host that was given tasks last.
    last: H,
}

impl<H> RoundRobin<H> {
    /// The rule as the daemon of host `own` applies it.
    pub fn new(own: H) -> Self {
        Self { last: own }
    }
}

impl<H: Copy + Ord + Debug> Placement<H> for RoundRobin<H> {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn place(&mut self, count: u64, candidates: &[Candidate<H>]) -> Vec<(H, u64)> {
        let mut hosts: Vec<H> = candidates.iter().map(|candidate| candidate.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let start = hosts.partition_point(|&host| host <= self.last);
        hosts.rotate_left(start);
        hosts.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        if let Some(&last) = hosts.last() {
            self.last = last;
        }
        blocks(count, hosts.len() as u64).zip(hosts).map(|(size, host)| (host, size)).collect()
    }
}

/// The block sizes of PVM's accumulator rule. Block j ends with task k, the first at which `k·nh ≥ (j + 1)·count`.
pub(crate) fn blocks(count: u64, nh: u64) -> impl Iterator<Item = u64> {
    let end = move |block: u64| (u128::from(block) * u128::from(count)).div_ceil(u128::from(nh)) as u64;
    (0..nh).map(move |block| end(block + 1) - end(block))
}

/// Division in proportion to capability, by largest remainder, within each node's limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proportional;

impl<H: Copy + Ord + Debug> Placement<H> for Proportional {
    fn name(&self) -> &'static str {
        "proportional"
    }

    fn place(&mut self, count: u64, candidates: &[Candidate<H>]) -> Vec<(H, u64)> {
        let unique: BTreeMap<H, Portion> = candidates
            .iter()
            .map(|node| (node.host, Portion { capability: node.capability, has: 0, limit: node.limit }))
            .collect();
        let portions: Vec<Portion> = unique.values().copied().collect();
        let hosts = unique.into_keys();
        hosts.zip(proportional(count, &portions)).filter(|&(_, n)| n > 0).collect()
    }
}

/// A node's part of a batch, to be brought nearer to its share by [`proportional`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// `C_i`.
    pub capability: f64,
    /// Tasks of the batch that it has been given already.
    pub has: u64,
    /// The most it may have in the end. It keeps what it has, even if that is more.
    pub limit: u64,
}

/// Divides `count` more tasks so that the totals are as near to proportion to capability as can be, given that nothing
/// is taken back and no limit is passed: how many more each gets, in the order of `portions`.
///
/// Fractions go by largest remainder; of equal remainders the first wins. The result adds up to `count` unless the
/// limits are too low for that.
pub fn proportional(count: u64, portions: &[Portion]) -> Vec<u64> {
    let mut shares: Vec<Share> = portions.iter().map(Share::new).collect();
    let wanted = u128::from(count) + shares.iter().map(|share| share.low).sum::<u128>();
    let total = wanted.min(shares.iter().map(|share| share.high).sum());
    let (rest, weights) = settle_bounds(&mut shares, total);
    divide(&mut shares, rest, weights);
    shares.iter().map(|share| (share.total.unwrap_or(share.low) - share.low) as u64).collect()
}

/// A node in the division. Integers, so that nothing is lost to rounding however large the batch.
struct Share {
    weight: u128,
    low: u128,
    high: u128,
    /// Its total, once that is known.
    total: Option<u128>,
}

impl Share {
    fn new(portion: &Portion) -> Self {
        let low = u128::from(portion.has);
        // A thousandth of the unit is the finest difference that counts.
        let weight = (sane_capability(portion.capability) * 1000.0).round().max(1.0) as u128;
        Self { weight, low, high: low.max(u128::from(portion.limit)), total: None }
    }

    /// What its proportional total, `rest · weight / weights`, lacks or has in excess of its bounds; times `weights`.
    fn violation(&self, rest: u128, weights: u128) -> i128 {
        let quota = rest * self.weight;
        let bounded = quota.clamp(self.low * weights, self.high * weights);
        bounded as i128 - quota as i128
    }
}

/// Fixes the totals of those whose proportional total is out of bounds, until the rest can be divided freely. Says how
/// many tasks, and what sum of weights, the others have.
///
/// If the nodes below their lower bound lack more than the others have above their upper bounds, raising them can only
/// lower the others' part, so no raised node can come to be too low again: they are fixed. Otherwise the reverse.
fn settle_bounds(shares: &mut [Share], total: u128) -> (u128, u128) {
    loop {
        let fixed: u128 = shares.iter().filter_map(|share| share.total).sum();
        let rest = total.saturating_sub(fixed);
        let weights: u128 = shares.iter().filter(|s| s.total.is_none()).map(|s| s.weight).sum();
        let open = || shares.iter().filter(|share| share.total.is_none());
        let balance: i128 = open().map(|share| share.violation(rest, weights)).sum();
        if open().all(|share| share.violation(rest, weights) == 0) {
            return (rest, weights);
        }
        for share in shares.iter_mut().filter(|share| share.total.is_none()) {
            let violation = share.violation(rest, weights);
            if violation > 0 && balance >= 0 {
                share.total = Some(share.low);
            } else if violation < 0 && balance <= 0 {
                share.total = Some(share.high);
            }
        }
    }
}

/// Largest remainder: everyone gets the whole part of the quota, those with the largest fractions one more.
fn divide(shares: &mut [Share], rest: u128, weights: u128) {
    let mut left = rest;
    let mut remainders = Vec::new();
    for (index, share) in shares.iter_mut().enumerate().filter(|(_, share)| share.total.is_none()) {
        let quota = rest * share.weight;
        share.total = Some(quota / weights);
        left -= quota / weights;
        remainders.push((quota % weights, index));
    }
    remainders.sort_by_key(|&(remainder, index)| (std::cmp::Reverse(remainder), index));
    // There are fewer tasks left than fractions above 0, and a host with a fraction is below its upper bound.
    for (_, index) in remainders.into_iter().take(left as usize) {
        shares[index].total = shares[index].total.map(|total| total + 1);
    }
}

/// A capability to compute with: what is not a positive number counts as 1, and there is an upper end.
pub fn sane_capability(c: f64) -> f64 {
    if c.is_finite() && c > 0.0 { c.min(MAX_CAPABILITY) } else { 1.0 }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
