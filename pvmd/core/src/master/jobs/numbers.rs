//! Numbers of tasks, as ranges: an array of a million tasks takes no more room than one of ten.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Numbers {
    /// The first of each range, and the one behind its last.
    ranges: BTreeMap<u32, u32>,
    count: u32,
}

impl Numbers {
    /// These numbers, from the first on.
    pub fn range(first: u32, count: u32) -> Self {
        let ranges =
            if count > 0 { BTreeMap::from([(first, first.saturating_add(count))]) } else { BTreeMap::new() };
        Self { ranges, count }
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    /// Takes the smallest ones, at most `count`, as first and count.
    pub fn take(&mut self, count: u32) -> Vec<(u32, u32)> {
        let (mut left, mut taken) = (count, Vec::new());
        while left > 0
            && let Some((first, end)) = self.ranges.pop_first()
        {
            let part = left.min(end - first);
            if first + part < end {
                self.ranges.insert(first + part, end);
            }
            taken.push((first, part));
            left -= part;
        }
        self.count -= count - left;
        taken
    }

    /// Adds a number that is not among them.
    pub fn insert(&mut self, number: u32) {
        let before = self.ranges.range(..=number).next_back().map(|(&first, &end)| (first, end));
        let first = before.filter(|(_, end)| *end == number).map_or(number, |(first, _)| first);
        let end = self.ranges.remove(&(number + 1)).unwrap_or(number + 1);
        self.ranges.insert(first, end);
        self.count += 1;
    }

    /// Empties it.
    pub fn clear(&mut self) -> u32 {
        self.ranges.clear();
        std::mem::take(&mut self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_meet_again() {
        let mut numbers = Numbers::range(1, 10);
        assert_eq!(numbers.take(4), [(1, 4)]);
        for number in [2, 4, 1] {
            numbers.insert(number);
        }
        assert_eq!((numbers.ranges.len(), numbers.len()), (2, 9));
        assert_eq!(numbers.take(3), [(1, 2), (4, 1)]);
        assert_eq!((numbers.clear(), numbers.take(1)), (6, vec![]));
        assert_eq!(Numbers::range(5, 0), Numbers::default());
    }

    proptest! {
        #[test]
        fn as_a_plain_set(steps in proptest::collection::vec((any::<bool>(), 0..12_u32), 0..60)) {
            let mut plain: BTreeSet<u32> = (0..12).collect();
            let mut numbers = Numbers::range(0, 12);
            for (takes, n) in steps {
                if takes {
                    let taken: Vec<u32> = numbers.take(n).into_iter().flat_map(|(first, count)| first..first + count).collect();
                    let expected: Vec<u32> = plain.iter().copied().take(n as usize).collect();
                    plain.retain(|number| !expected.contains(number));
                    prop_assert_eq!(taken, expected);
                } else if plain.insert(n) {
                    numbers.insert(n);
                }
                prop_assert_eq!(numbers.len() as usize, plain.len());
            }
        }
    }
}
