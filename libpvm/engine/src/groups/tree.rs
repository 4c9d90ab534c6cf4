//! Senders and receivers in a call of all members: a binomial tree over their ranks, rank 0 at its top.
//!
//! A message down the tree takes one step; a member sends one message per step. So after `k` steps up to `2^k` members
//! know what rank 0 knows, and the other way round.

/// The one above `rank`; `None` for rank 0.
pub fn parent(rank: usize) -> Option<usize> {
    // Without its lowest bit.
    (rank > 0).then(|| rank & (rank - 1))
}

/// Those directly below `rank` among `size`, nearest first: the order in which they are ready when all is gathered.
pub fn children(rank: usize, size: usize) -> Vec<usize> {
    let bits = if rank == 0 { usize::BITS } else { rank.trailing_zeros() };
    (0..bits).map(|bit| rank | 1 << bit).take_while(|&child| child < size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each rank has all that is below it, if everyone receives one message per step.
    fn gathered(rank: usize, size: usize) -> usize {
        children(rank, size).into_iter().fold(0, |busy, child| busy.max(gathered(child, size)) + 1)
    }

    /// When the last rank below this one knows it, if everyone sends one message per step, the farthest child first.
    fn spread(rank: usize, size: usize, knows: usize) -> usize {
        let sent = children(rank, size).into_iter().rev().enumerate();
        sent.map(|(number, child)| spread(child, size, knows + number + 1)).max().unwrap_or(knows)
    }

    fn log2_up(size: usize) -> usize {
        size.next_power_of_two().trailing_zeros() as usize
    }

    #[test]
    fn every_rank_has_one_place_in_the_tree() {
        for size in 1..=512 {
            let mut seen = vec![0; size];
            for rank in 0..size {
                for child in children(rank, size) {
                    assert_eq!(parent(child), Some(rank));
                    seen[child] += 1;
                }
            }
            assert_eq!(seen[0], 0);
            assert!(seen[1..].iter().all(|&count| count == 1), "{size}: {seen:?}");
        }
    }

    #[test]
    fn the_steps_grow_with_the_logarithm() {
        for size in 1..=512 {
            assert_eq!(gathered(0, size), log2_up(size), "up, {size} members");
            assert_eq!(spread(0, size, 0), log2_up(size), "down, {size} members");
        }
        assert_eq!((gathered(0, 512), spread(0, 512, 0)), (9, 9));
    }
}
