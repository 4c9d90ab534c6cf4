//! The allocator of a segment. Its state is private to the segment's owner, not in the segment itself.

use pvm_wire::tuned::{BLOCK_ROTATED_LEAST, BLOCK_ROTATED_MOST, BLOCK_ROTATION, BLOCK_ROTATION_AFTER};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Blocks are powers of two, from this one on.
const SMALLEST: u32 = 10;

/// Bytes of a page, the system's unit of memory.
const PAGE: u64 = 4096;

/// Blocks of these powers of two, which a core's second-level cache holds, are used in rotation if many are taken.
const BY_TURNS: RangeInclusive<u32> = BLOCK_ROTATED_LEAST..=BLOCK_ROTATED_MOST;

/// A block that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    at: u64,
    /// Bytes whose pages are resident.
    resident: u64,
    /// The clock when it was freed.
    age: u64,
}

/// A block that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where it begins.
    pub at: u64,
    /// Bytes from there on that may be resident, or soon will be.
    pub touched: u64,
}

/// A buddy system that puts blocks together only when it must, so that what was freed last is used next, while it is in
/// the cache; of sizes of which many are taken, what was freed first.
#[derive(Debug)]
pub struct Arena {
    end: u64,
    /// From here on memory was never used.
    fresh: u64,
    free: Vec<VecDeque<Free>>,
    taken: [u32; u64::BITS as usize],
    round: u64,
    used: u64,
    resident: u64,
    /// A clock that advances by the bytes that are taken, and by one when a block is freed.
    clock: u64,
}

/// The power of two of a block of `length` bytes.
pub fn order_of(length: u64) -> u32 {
    length.max(1 << SMALLEST).checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros)
}

/// Bytes of memory that a body of this length takes in a block of its own: pages, or the block if that is less.
pub fn extent_of(length: u64) -> u64 {
    let size = 1_u64.checked_shl(order_of(length)).unwrap_or(u64::MAX);
    length.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX).min(size)
}

impl Arena {
    /// All from `start` to `end`. What is used by turns is not more than `most` bytes, and a block of each size.
    pub fn new(start: u64, end: u64, most: u64) -> Self {
        let free = vec![VecDeque::new(); u64::BITS as usize];
        let (taken, round) = ([0; u64::BITS as usize], BLOCK_ROTATION.min(most));
        Self { end, fresh: start, free, taken, round, used: 0, resident: 0, clock: 0 }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that are free and resident.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// A block for `length` bytes, aligned to its size, which is a power of two.
    pub fn take(&mut self, length: u64) -> Option<Taken> {
        self.take_wide(length, length)
    }

    /// A block with room for more than is used at first.
    pub fn take_wide(&mut self, length: u64, room: u64) -> Option<Taken> {
        let order = order_of(room.max(length));
        let in_turn = if BY_TURNS.contains(&order) { self.take_in_turn(order) } else { None };
        let found =
            in_turn.or_else(|| self.take_free(order)).or_else(|| self.take_fresh(order)).or_else(|| {
                self.join();
                self.take_free(order)
            })?;
        let touched = extent_of(length).max(found.resident);
        self.used += touched;
        self.clock += touched;
        Some(Taken { at: found.at, touched })
    }

    /// More of a block is used than was known when it was taken.
    pub fn widen(&mut self, more: u64) {
        self.used += more;
    }

    /// Gives the block of `length` bytes back, `touched` of which are resident.
    pub fn give(&mut self, block: Taken, order: u32) {
        self.used = self.used.saturating_sub(block.touched);
        self.resident += block.touched;
        self.clock += 1;
        self.free[order as usize].push_back(Free { at: block.at, resident: block.touched, age: self.clock });
    }

    /// The free memory that was not used for the longest time: its place and size. It does not count as resident any more.
    pub fn release_oldest(&mut self) -> Option<(u64, u64)> {
        let resident = self.free.iter_mut().flatten().filter(|free| free.resident > 0);
        let oldest = resident.min_by_key(|free| free.age)?;
        self.resident -= oldest.resident;
        Some((oldest.at, std::mem::take(&mut oldest.resident)))
    }

    /// The block of this size that was freed first, if that is long ago, else one that was never used; `None` if few are taken.
    fn take_in_turn(&mut self, order: u32) -> Option<Free> {
        let taken = &mut self.taken[order as usize];
        *taken = taken.saturating_add(1);
        if *taken <= BLOCK_ROTATION_AFTER {
            return None;
        }
        let free = &mut self.free[order as usize];
        if free.front().is_none_or(|first| self.clock - first.age < self.round) {
            return self.take_fresh(order);
        }
        let first = free.pop_front()?;
        self.resident -= first.resident;
        Some(first)
    }

    fn take_free(&mut self, order: u32) -> Option<Free> {
        let found = (order..u64::BITS).find(|&order| !self.free[order as usize].is_empty())?;
        let mut free = self.free[found as usize].pop_back()?;
        for half in (order..found).rev() {
            let size = 1 << half;
            let rest = Free { at: free.at + size, resident: free.resident.saturating_sub(size), ..free };
            self.free[half as usize].push_back(rest);
            free.resident = free.resident.min(size);
        }
        self.resident -= free.resident;
        Some(free)
    }

    fn take_fresh(&mut self, order: u32) -> Option<Free> {
        let size = 1_u64.checked_shl(order)?;
        let at = self.fresh.checked_next_multiple_of(size)?;
        let end = at.checked_add(size).filter(|&end| end <= self.end)?;
        // Memory that is skipped for the alignment becomes free blocks.
        while self.fresh < at {
            let order = self.fresh.trailing_zeros();
            self.free[order as usize].push_back(Free { at: self.fresh, resident: 0, age: 0 });
            self.fresh += 1 << order;
        }
        self.fresh = end;
        Some(Free { at, resident: 0, age: 0 })
    }

    /// Joins free neighbours as far as possible.
    fn join(&mut self) {
        for order in SMALLEST..u64::BITS - 1 {
            let size = 1_u64 << order;
            let mut blocks = Vec::from(std::mem::take(&mut self.free[order as usize]));
            blocks.sort_unstable();
            let mut index = 0;
            while let Some(&first) = blocks.get(index) {
                let second = blocks.get(index + 1).filter(|second| second.at == first.at + size);
                if let Some(second) = second.filter(|_| first.at & size == 0) {
                    let both = Free {
                        resident: first.resident + second.resident,
                        age: first.age.max(second.age),
                        ..first
                    };
                    self.free[order as usize + 1].push_back(both);
                    index += 2;
                } else {
                    self.free[order as usize].push_back(first);
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

    fn at(taken: Option<Taken>) -> Option<u64> {
        taken.map(|taken| taken.at)
    }

    #[test]
    fn the_block_freed_last_is_used_next() {
        let mut arena = Arena::new(4096, 1 << 20, BLOCK_ROTATION);
        let (first, second) = (arena.take(4096).unwrap(), arena.take(4096).unwrap());
        arena.give(first, 12);
        arena.give(second, 12);
        assert_eq!((arena.take(4096), arena.take(4096)), (Some(second), Some(first)));
    }

    #[test]
    fn under_load_the_block_freed_first_is_used_next() {
        for (length, most) in [
            (16_000, BLOCK_ROTATION),
            (65_600, BLOCK_ROTATION),
            (300_000, BLOCK_ROTATION),
            (65_600, BLOCK_ROTATION / 4),
        ] {
            let mut arena = Arena::new(4096, 1 << 34, most);
            let (mut last, extent) = (BTreeMap::new(), extent_of(length));
            for round in 0..10_000_u64 {
                let taken = arena.take(length).unwrap();
                let before = last.insert(taken.at, round);
                if round > 1000 {
                    let written = (round - before.expect("no more memory is used")) * extent;
                    assert!((most..most + 2 * extent).contains(&written), "{written} bytes in between");
                }
                arena.give(taken, order_of(length));
            }
            assert!(last.len() as u64 * extent < most + 2 * extent);
        }
        // Of all sizes together.
        let mut arena = Arena::new(4096, 1 << 34, BLOCK_ROTATION);
        for round in 0..10_000_u64 {
            let order = 11 + (round % 10) as u32;
            let taken = arena.take(1 << order).unwrap();
            arena.give(taken, order);
        }
        assert!(
            (BLOCK_ROTATION..BLOCK_ROTATION + (1 << 22)).contains(&arena.resident()),
            "{}",
            arena.resident()
        );
        let mut arena = Arena::new(4096, 1 << 34, BLOCK_ROTATION);
        for _ in 0..BLOCK_ROTATION_AFTER {
            let taken = arena.take(65_600).unwrap();
            assert_eq!(taken.at, 1 << 17, "who takes few keeps little");
            arena.give(taken, 17);
        }
    }

    #[test]
    fn blocks_freed_first_are_released_first() {
        let mut arena = Arena::new(4096, 1 << 20, BLOCK_ROTATION);
        let (first, second) = (arena.take(4096).unwrap(), arena.take(40_000).unwrap());
        assert_eq!((first.touched, second.touched, arena.used()), (4096, 40_960, 45_056));
        arena.give(first, 12);
        arena.give(second, 16);
        assert_eq!((arena.used(), arena.resident()), (0, 45_056));
        assert_eq!(arena.release_oldest(), Some((first.at, 4096)));
        assert_eq!(arena.release_oldest(), Some((second.at, 40_960)));
        assert_eq!((arena.release_oldest(), arena.resident()), (None, 0));
    }

    #[test]
    fn memory_that_a_block_has_had_is_counted_while_it_is_used_again() {
        let mut arena = Arena::new(0, 1 << 20, BLOCK_ROTATION);
        let long = arena.take(60_000).unwrap();
        arena.give(long, 16);
        let short = arena.take(35_000).unwrap();
        assert_eq!((short, arena.resident(), arena.used()), (long, 0, 61_440));
        arena.give(short, 16);
        let half = arena.take(30_000).unwrap();
        assert_eq!((half.at, half.touched, arena.resident()), (long.at, 32_768, 61_440 - 32_768));
    }

    #[test]
    fn all_of_it_can_be_used_again_as_one() {
        let mut arena = Arena::new(4096, 1 << 20, BLOCK_ROTATION);
        let blocks: Vec<Taken> = std::iter::from_fn(|| arena.take(1)).collect();
        assert_eq!(blocks.len(), (1 << 10) - 4);
        assert_eq!(arena.take(1 << 19), None);
        for block in blocks {
            arena.give(block, 10);
        }
        assert_eq!(at(arena.take(1 << 19)), Some(1 << 19));
        assert_eq!(arena.take(1 << 20), None);
        assert_eq!((arena.used(), arena.resident()), (1 << 19, (1 << 19) - 4096));
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!([1, 1024, 1025, 1 << 32].map(order_of), [10, 10, 11, 32]);
        assert_eq!(order_of(u64::MAX), 64);
        assert_eq!([1, 1025, 4097, 5 << 20].map(extent_of), [1024, 2048, 8192, 5 << 20]);
        assert_eq!(Arena::new(0, 1 << 20, BLOCK_ROTATION).take(u64::MAX), None);
    }

    #[test]
    fn no_two_blocks_overlap() {
        let mut arena = Arena::new(4096, 1 << 22, BLOCK_ROTATION);
        let (mut used, mut seed): (BTreeMap<u64, (u32, u64)>, u64) = (BTreeMap::new(), 1);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (length, pick) = (1 << 10 << ((seed >> 60) as u32 % 8), (seed >> 33) as usize);
            if pick % 2 == 0 && !used.is_empty() {
                let at = *used.keys().nth(pick % used.len()).unwrap();
                let (order, touched) = used.remove(&at).unwrap();
                arena.give(Taken { at, touched }, order);
                if pick % 4 == 0 {
                    arena.release_oldest().unwrap();
                }
            } else if let Some(Taken { at, touched }) = arena.take(length) {
                let size = 1_u64 << order_of(length);
                assert!(at % size == 0 && at >= 4096 && at + size <= 1 << 22 && touched <= size);
                used.insert(at, (order_of(length), touched));
            }
            let mut end = 0;
            for (&at, (order, _)) in &used {
                assert!(at >= end);
                end = at + (1 << order);
            }
            assert_eq!(arena.used(), used.values().map(|(_, touched)| touched).sum::<u64>());
        }
    }
}
