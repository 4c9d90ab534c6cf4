//! The waiting queue of algorithm 1, which starts each job that fits and skips one that does not.
//!
//! Finding the next that fits takes a number of steps that grows with the logarithm of the queue's length, so that a
//! long queue of wide jobs costs nothing. Memory grows with the jobs that wait.

/// A job's place in a [`Line`]. Later jobs have greater ones. Valid until the next [`Line::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(usize);

/// Jobs in the order of their arrival, each with a width.
///
/// A complete binary tree over the places: each inner vertex has the least width below it.
#[derive(Clone, Debug)]
pub struct Line<T> {
    items: Vec<Option<T>>,
    /// The root is 1, the children of v are 2v and 2v + 1; the leaves are the upper half.
    least: Vec<u32>,
    waiting: usize,
}

/// The width of an empty place. Nothing that wide is ever looked for.
const NOBODY: u32 = u32::MAX;

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { items: Vec::new(), least: vec![NOBODY; 2], waiting: 0 }
    }
}

impl<T> Line<T> {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Another job joins. The greatest width there is counts as one less.
    pub fn push(&mut self, width: u32, item: T) {
        if self.items.len() == self.leaves() {
            self.renew();
        }
        self.items.push(Some(item));
        self.waiting += 1;
        self.set(self.items.len() - 1, width.min(NOBODY - 1));
    }

    /// The first job at `from` or later, or in the whole line, that is no wider than `limit`.
    pub fn first_fitting(&self, from: Option<Position>, limit: u32) -> Option<Position> {
        let limit = limit.min(NOBODY - 1);
        let leaves = self.leaves();
        let start = from.map_or(0, |position| position.0);
        if start >= leaves {
            return None;
        }
        // Up to the first subtree to the right that has one, then down to its first.
        let mut vertex = start + leaves;
        while self.least[vertex] > limit {
            while vertex % 2 == 1 {
                vertex /= 2;
                if vertex == 0 {
                    return None;
                }
            }
            vertex += 1;
        }
        while vertex < leaves {
            vertex *= 2;
            vertex += usize::from(self.least[vertex] > limit);
        }
        Some(Position(vertex - leaves))
    }

    /// A job, and how wide it is.
    pub fn get(&self, position: Position) -> Option<(u32, &T)> {
        let item = self.items.get(position.0)?.as_ref()?;
        Some((self.least[self.leaves() + position.0], item))
    }

    /// A job leaves the line.
    pub fn remove(&mut self, position: Position) -> Option<T> {
        let item = self.items.get_mut(position.0)?.take()?;
        self.waiting -= 1;
        self.set(position.0, NOBODY);
        Some(item)
    }

    /// All that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Position, u32, &T)> {
        let leaves = self.leaves();
        let places = self.items.iter().enumerate();
        places.filter_map(move |(at, item)| Some((Position(at), self.least[leaves + at], item.as_ref()?)))
    }

    fn leaves(&self) -> usize {
        self.least.len() / 2
    }

    fn set(&mut self, place: usize, width: u32) {
        let mut vertex = self.leaves() + place;
        self.least[vertex] = width;
        while vertex > 1 {
            vertex /= 2;
            self.least[vertex] = self.least[2 * vertex].min(self.least[2 * vertex + 1]);
        }
    }

    /// Closes the gaps, and makes room for as many again.
    fn renew(&mut self) {
        let leaves = self.leaves();
        let widths: Vec<u32> = (0..self.items.len())
            .filter(|&at| self.items[at].is_some())
            .map(|at| self.least[leaves + at])
            .collect();
        self.items.retain(Option::is_some);
        let leaves = (2 * widths.len()).next_power_of_two().max(1);
        self.least = vec![NOBODY; 2 * leaves];
        self.least[leaves..leaves + widths.len()].copy_from_slice(&widths);
        for vertex in (1..leaves).rev() {
            self.least[vertex] = self.least[2 * vertex].min(self.least[2 * vertex + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_line() {
        let mut line: Line<u8> = Line::new();
        assert_eq!(line.first_fitting(None, u32::MAX), None);
        assert_eq!(line.first_fitting(Some(Position(7)), u32::MAX), None);
        assert_eq!(line.remove(Position(0)), None);
        assert!(line.get(Position(0)).is_none());
        assert!(line.is_empty());
    }

    #[test]
    fn memory_follows_those_that_wait() {
        let mut line = Line::new();
        for i in 0..100_000_u32 {
            line.push(i % 7, i);
            if i >= 10 {
                let first = line.first_fitting(None, u32::MAX).expect("eleven wait");
                assert_eq!(line.remove(first), Some(i - 10));
            }
        }
        assert_eq!(line.len(), 10);
        assert!(line.least.len() <= 128, "{}", line.least.len());
    }

    proptest! {
        #[test]
        fn equals_a_plain_list(steps in proptest::collection::vec((0..3_u8, 0..20_u32), 0..300)) {
            let mut line = Line::new();
            let mut plain: Vec<(u32, u32)> = Vec::new();
            for (number, (kind, width)) in (0_u32..).zip(steps) {
                if kind < 2 {
                    line.push(width, number);
                    plain.push((width, number));
                }
                let found = line.first_fitting(None, width);
                let expected = plain.iter().position(|&(w, _)| w <= width);
                prop_assert_eq!(found.and_then(|at| line.get(at)).map(|(w, &n)| (w, n)), expected.map(|at| plain[at]));
                // The next after it, as a walk along the queue looks for it.
                let next = found.and_then(|at| line.first_fitting(Some(Position(at.0 + 1)), width));
                let after = expected.and_then(|at| plain[at + 1..].iter().find(|&&(w, _)| w <= width));
                prop_assert_eq!(next.and_then(|at| line.get(at)).map(|(w, &n)| (w, n)), after.copied());
                if kind == 2 && let (Some(at), Some(index)) = (found, expected) {
                    prop_assert_eq!(line.remove(at), Some(plain.remove(index).1));
                }
                let listed: Vec<(u32, u32)> = line.iter().map(|(_, w, &n)| (w, n)).collect();
                prop_assert_eq!(&listed, &plain);
                prop_assert_eq!(line.len(), plain.len());
            }
        }
    }
}
