//! Which parts of a segment are in use. Only its owner knows; nothing of this is in the segment itself.

/// Blocks are powers of two, from this one on.
const SMALLEST: u32 = 10;

/// A block that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    at: u64,
    /// The system still keeps its pages for us.
    warm: bool,
}

/// A buddy system that puts blocks together only when it must, so that what was freed last is used next, while it is in
/// the cache.
#[derive(Debug)]
pub struct Arena {
    end: u64,
    /// From here on nothing was ever used.
    fresh: u64,
    free: Vec<Vec<Free>>,
    used: u64,
    warm: u64,
}

/// The power of two of a block of so many bytes.
pub fn order_of(length: u64) -> u32 {
    length.max(1 << SMALLEST).checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros)
}

impl Arena {
    /// All from `start` to `end`.
    pub fn new(start: u64, end: u64) -> Self {
        Self { end, fresh: start, free: vec![Vec::new(); u64::BITS as usize], used: 0, warm: 0 }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that are free and were given back warm.
    pub fn warm(&self) -> u64 {
        self.warm
    }

    /// A block of 2^`order` bytes, aligned to its size.
    pub fn take(&mut self, order: u32) -> Option<u64> {
        let at = self.take_free(order).or_else(|| self.take_fresh(order)).or_else(|| {
            self.join();
            self.take_free(order)
        })?;
        self.used += 1 << order;
        Some(at)
    }

    /// Gives a block back, with its pages or, if not `warm`, without.
    pub fn give(&mut self, at: u64, order: u32, warm: bool) {
        self.used = self.used.saturating_sub(1 << order);
        self.warm += if warm { 1 << order } else { 0 };
        self.free[order as usize].push(Free { at, warm });
    }

    fn take_free(&mut self, order: u32) -> Option<u64> {
        let found = (order..u64::BITS).find(|&order| !self.free[order as usize].is_empty())?;
        let Free { at, warm } = self.free[found as usize].pop()?;
        for half in order..found {
            self.free[half as usize].push(Free { at: at + (1 << half), warm });
        }
        self.warm -= if warm { 1 << order } else { 0 };
        Some(at)
    }

    fn take_fresh(&mut self, order: u32) -> Option<u64> {
        let size = 1_u64.checked_shl(order)?;
        let at = self.fresh.checked_next_multiple_of(size)?;
        let end = at.checked_add(size).filter(|&end| end <= self.end)?;
        // What is skipped for the alignment is not lost.
        while self.fresh < at {
            let order = self.fresh.trailing_zeros();
            self.free[order as usize].push(Free { at: self.fresh, warm: false });
            self.fresh += 1 << order;
        }
        self.fresh = end;
        Some(at)
    }

    /// Puts free neighbours together, as far as it goes.
    fn join(&mut self) {
        for order in SMALLEST..u64::BITS - 1 {
            let size = 1_u64 << order;
            let mut blocks = std::mem::take(&mut self.free[order as usize]);
            blocks.sort_unstable();
            let mut index = 0;
            while let Some(&first) = blocks.get(index) {
                let second = blocks.get(index + 1).filter(|second| second.at == first.at + size);
                if let Some(second) = second.filter(|_| first.at & size == 0) {
                    // Half warm counts as cold.
                    let warm = first.warm && second.warm;
                    self.warm -= if first.warm == second.warm { 0 } else { size };
                    self.free[order as usize + 1].push(Free { at: first.at, warm });
                    index += 2;
                } else {
                    self.free[order as usize].push(first);
                    index += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_freed_last_is_used_next() {
        let mut arena = Arena::new(4096, 1 << 20);
        let (first, second) = (arena.take(12).unwrap(), arena.take(12).unwrap());
        arena.give(first, 12, true);
        arena.give(second, 12, false);
        assert_eq!((arena.take(12), arena.take(12)), (Some(second), Some(first)));
    }

    #[test]
    fn all_of_it_can_be_used_again_as_one() {
        let mut arena = Arena::new(4096, 1 << 20);
        let blocks: Vec<u64> = std::iter::from_fn(|| arena.take(10)).collect();
        assert_eq!(blocks.len(), (1 << 10) - 4);
        assert_eq!(arena.take(19), None);
        for at in blocks {
            arena.give(at, 10, true);
        }
        assert_eq!(arena.take(19), Some(1 << 19));
        assert_eq!(arena.take(20), None);
        assert_eq!((arena.used(), arena.warm()), (1 << 19, (1 << 19) - 4096));
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!([1, 1024, 1025, 1 << 32].map(order_of), [10, 10, 11, 32]);
        assert_eq!(order_of(u64::MAX), 64);
        assert_eq!(Arena::new(0, 1 << 20).take(64), None);
    }

    #[test]
    fn no_two_blocks_overlap() {
        let mut arena = Arena::new(4096, 1 << 22);
        let (mut used, mut seed): (BTreeMap<u64, u32>, u64) = (BTreeMap::new(), 1);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (order, pick) = (10 + (seed >> 60) as u32 % 8, (seed >> 33) as usize);
            if pick % 2 == 0 && !used.is_empty() {
                let at = *used.keys().nth(pick % used.len()).unwrap();
                arena.give(at, used.remove(&at).unwrap(), pick % 4 == 0);
            } else if let Some(at) = arena.take(order) {
                assert!(at % (1 << order) == 0 && at >= 4096 && at + (1 << order) <= 1 << 22);
                used.insert(at, order);
            }
            let mut end = 0;
            for (&at, order) in &used {
                assert!(at >= end);
                end = at + (1 << order);
            }
            assert_eq!(arena.used(), used.values().map(|order| 1 << order).sum::<u64>());
        }
    }
}
