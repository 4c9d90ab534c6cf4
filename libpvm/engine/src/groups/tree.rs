//! Senders and receivers in a call of all members. On each host one member is the leader, to which the others there send; the leaders form a
//! binomial tree, with the leader that the call is about at its top. So one message goes between two hosts, and none waits for another
//! on its own host: where members are more than processors, a member that waits for others before it sends costs a context switch.
//!
//! A message down the tree of leaders takes one step; a leader sends one message per step. So after `k` steps up to `2^k` leaders
//! know what the top knows, and the other way round.

use pvm_wire::Tid;
use std::collections::BTreeMap;

/// The one above `rank`; `None` for rank 0.
fn parent(rank: usize) -> Option<usize> {
    // Without its lowest bit.
    (rank > 0).then(|| rank & (rank - 1))
}

/// Those directly below `rank` among `size`, nearest first: the order in which they are ready when all is gathered.
fn children(rank: usize, size: usize) -> impl DoubleEndedIterator<Item = usize> {
    let bits = if rank == 0 { usize::BITS } else { rank.trailing_zeros() };
    let count = (0..bits).take_while(|&bit| rank | 1 << bit < size).count() as u32;
    (0..count).map(move |bit| rank | 1 << bit)
}

/// The tree over the places of tasks in a list.
#[derive(Debug)]
pub struct Tree {
    /// The leader of each place's host, as a rank among the leaders.
    rank_of: Vec<usize>,
    /// The places of the leaders, the top first.
    leaders: Vec<usize>,
}

impl Tree {
    /// The tree with the task at the place `top` at its top.
    pub fn new(tids: impl ExactSizeIterator<Item = Tid> + Clone, top: usize) -> Self {
        let mut leaders = vec![top];
        let top_host = tids.clone().nth(top).map(Tid::to_host);
        let mut ranks: BTreeMap<_, _> = top_host.map(|host| (host, 0)).into_iter().collect();
        // From the top on, so that not always the same hosts are near it.
        let size = tids.len();
        let all = tids.clone().enumerate().cycle().skip(top).take(size);
        for (place, tid) in all {
            ranks.entry(tid.to_host()).or_insert_with(|| {
                leaders.push(place);
                leaders.len() - 1
            });
        }
        let rank_of = tids.map(|tid| ranks.get(&tid.to_host()).copied().unwrap_or(0)).collect();
        Self { rank_of, leaders }
    }

    fn leads(&self, place: usize) -> Option<usize> {
        let &rank = self.rank_of.get(place)?;
        (self.leaders.get(rank) == Some(&place)).then_some(rank)
    }

    /// The places of the leaders.
    pub fn leaders(&self) -> &[usize] {
        &self.leaders
    }

    /// The leader of this place's host, unless it leads itself.
    pub fn leader_above(&self, place: usize) -> Option<usize> {
        let &rank = self.rank_of.get(place)?;
        self.leaders.get(rank).copied().filter(|&leader| leader != place)
    }

    /// The other places of a leader's host.
    pub fn members_here(&self, leader: usize) -> impl Iterator<Item = usize> {
        let own = self.rank_of.get(leader);
        let all = self.rank_of.iter().enumerate();
        all.filter(move |&(place, rank)| Some(rank) == own && place != leader).map(|(place, _)| place)
    }

    /// The rounds in which leaders hear of all others: to which leader this one sends in each, and from which it receives.
    pub fn rounds(&self, leader: usize) -> impl Iterator<Item = (usize, usize)> {
        let (own, count) = (self.rank_of.get(leader).copied().unwrap_or(0), self.leaders.len());
        let distances =
            (0..usize::BITS).map(|round| 1 << round).take_while(move |&distance| distance < count);
        distances.map(move |distance| {
            let (next, previous) = ((own + distance) % count, (own + count - distance) % count);
            (self.leaders[next], self.leaders[previous])
        })
    }

    /// The place above this one; `None` for the top.
    pub fn parent(&self, place: usize) -> Option<usize> {
        let above = match self.leads(place) {
            Some(rank) => parent(rank)?,
            None => *self.rank_of.get(place)?,
        };
        self.leaders.get(above).copied()
    }

    /// Whether there are any below this one.
    pub fn has_children(&self, place: usize) -> bool {
        self.leads(place).is_some_and(|rank| {
            let here = self.rank_of.iter().filter(|&&of| of == rank).take(2).count();
            here > 1 || children(rank, self.leaders.len()).next().is_some()
        })
    }

    /// The places directly below this one: those of its host, then other leaders, nearest first.
    pub fn children(&self, place: usize) -> Vec<usize> {
        let Some(own) = self.leads(place) else { return Vec::new() };
        let here = self.rank_of.iter().enumerate().filter(|&(other, &rank)| rank == own && other != place);
        let leaders = children(own, self.leaders.len()).filter_map(|rank| self.leaders.get(rank).copied());
        here.map(|(other, _)| other).chain(leaders).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::HostIndex;

    /// When each rank has all that is below it, if everyone receives one message per step.
    fn gathered(rank: usize, size: usize) -> usize {
        children(rank, size).fold(0, |busy, child| busy.max(gathered(child, size)) + 1)
    }

    /// When the last rank below this one knows it, if everyone sends one message per step, the farthest child first.
    fn spread(rank: usize, size: usize, knows: usize) -> usize {
        let sent = children(rank, size).rev().enumerate();
        sent.map(|(number, child)| spread(child, size, knows + number + 1)).max().unwrap_or(knows)
    }

    fn log2_up(size: usize) -> usize {
        size.next_power_of_two().trailing_zeros() as usize
    }

    /// This number of tasks, on the hosts in turn.
    fn tasks(size: usize, hosts: usize) -> impl ExactSizeIterator<Item = Tid> + Clone {
        (0..size).map(move |place| {
            HostIndex::new((place % hosts + 1) as u32).unwrap().task((place / hosts + 1) as u32)
        })
    }

    #[test]
    fn every_place_is_once_in_the_tree() {
        for (size, hosts) in [(1, 1), (2, 1), (64, 1), (5, 2), (64, 3), (100, 7), (512, 512)] {
            for top in [0, size / 3, size - 1] {
                let tree = Tree::new(tasks(size, hosts), top);
                let mut seen = vec![0; size];
                for place in 0..size {
                    for child in tree.children(place) {
                        assert_eq!(tree.parent(child), Some(place));
                        seen[child] += 1;
                    }
                }
                assert_eq!((seen[top], tree.parent(top)), (0, None));
                seen[top] = 1;
                assert!(seen.iter().all(|&count| count == 1), "{size} on {hosts}: {seen:?}");
            }
        }
    }

    #[test]
    fn one_message_goes_to_each_other_host() {
        for top in 0..12 {
            let (tids, tree) = (tasks(12, 4).collect::<Vec<_>>(), Tree::new(tasks(12, 4), top));
            let links = (0..12).filter_map(|place| Some((place, tree.parent(place)?)));
            let between = links.filter(|&(a, b)| tids[a].to_host() != tids[b].to_host());
            assert_eq!(between.count(), 3);
            assert!(tree.children(top).len() >= 2 + 2, "its own host's, and leaders");
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
