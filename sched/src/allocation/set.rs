//! A set of hosts that stays in the caches: what is searched in it is searched for every process.

const BITS: usize = u64::BITS as usize;

/// A set of numbers below a fixed one. A bit for each number, and above that, level by level, a bit for each word with
/// a bit in it: a hundred thousand hosts need 13 KB, and each question reads a word or two of each of three levels.
#[derive(Clone, Debug)]
pub(super) struct HostSet {
    hosts: usize,
    /// From the hosts up to the level of one word.
    levels: Vec<Vec<u64>>,
}

impl HostSet {
    /// All numbers below this one.
    pub(super) fn full(hosts: usize) -> Self {
        let mut levels = Vec::new();
        let mut below = hosts;
        while levels.is_empty() || below > 1 {
            let mut words = vec![u64::MAX; below / BITS];
            let rest = below % BITS;
            if rest > 0 {
                words.push((1 << rest) - 1);
            }
            below = words.len();
            levels.push(words);
        }
        Self { hosts, levels }
    }

    pub(super) fn contains(&self, host: usize) -> bool {
        self.levels[0].get(host / BITS).is_some_and(|word| word >> (host % BITS) & 1 > 0)
    }

    /// Says whether it was not in yet. A number that is too large does not get in.
    pub(super) fn insert(&mut self, host: usize) -> bool {
        if host >= self.hosts || self.contains(host) {
            return false;
        }
        let mut number = host;
        for level in &mut self.levels {
            let word = &mut level[number / BITS];
            let was_empty = *word == 0;
            *word |= 1 << (number % BITS);
            if !was_empty {
                break;
            }
            number /= BITS;
        }
        true
    }

    /// Says whether it was in.
    pub(super) fn remove(&mut self, host: usize) -> bool {
        if !self.contains(host) {
            return false;
        }
        let mut number = host;
        for level in &mut self.levels {
            let word = &mut level[number / BITS];
            *word &= !(1 << (number % BITS));
            if *word > 0 {
                break;
            }
            number /= BITS;
        }
        true
    }

    /// The least that is in, from this number on.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut from = from;
        for (up, level) in self.levels.iter().enumerate() {
            let word = *level.get(from / BITS)?;
            let rest = word & u64::MAX << (from % BITS);
            if rest > 0 {
                let found = from / BITS * BITS + rest.trailing_zeros() as usize;
                return Some(self.least_below(up, found));
            }
            from = from / BITS + 1;
        }
        None
    }

    /// The least host below a bit of some level that is set.
    fn least_below(&self, level: usize, bit: usize) -> usize {
        self.levels[..level]
            .iter()
            .rev()
            .fold(bit, |bit, words| bit * BITS + words[bit].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn none_and_one() {
        let mut none = HostSet::full(0);
        assert_eq!(
            (none.next(0), none.insert(0), none.contains(0), none.remove(0)),
            (None, false, false, false)
        );
        let mut one = HostSet::full(1);
        assert_eq!((one.next(0), one.next(1), one.remove(0), one.next(0)), (Some(0), None, true, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Sizes around one word, a word of words, and three levels.
        #[test]
        fn it_is_a_set(
            size in prop_oneof![1..130_usize, 4090..4100_usize, 262_140..262_150_usize],
            steps in proptest::collection::vec((0..4_u8, any::<prop::sample::Index>()), 1..200),
            clear in any::<bool>(),
        ) {
            let (mut set, mut expected) = (HostSet::full(size), (0..size).collect::<BTreeSet<_>>());
            if clear {
                (0..size).for_each(|host| assert!(set.remove(host)));
                expected.clear();
            }
            for (kind, index) in steps {
                // Two beyond the end, too; and nearby ones again and again.
                let host = index.index(size + 2) / if kind == 3 { 1 + size / 8 } else { 1 };
                match kind {
                    0 => prop_assert_eq!(set.remove(host), expected.remove(&host)),
                    1 => prop_assert_eq!(set.next(host), expected.range(host..).next().copied()),
                    _ => prop_assert_eq!(set.insert(host), host < size && expected.insert(host)),
                }
                prop_assert_eq!(set.contains(host), expected.contains(&host));
            }
            let all: Vec<usize> = std::iter::successors(set.next(0), |&host| set.next(host + 1)).collect();
            prop_assert_eq!(all, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
