//! Where a job's tasks go, and what is kept free for the first rigid job that waits (EASY backfilling).

use super::clusters::Placing;
use super::queue::Dividing;
use crate::placement::{Portion, blocks, proportional};
use crate::pulling::{application, mean_capability, share};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Slots of hosts, by host.
pub(super) type Slots<H> = BTreeMap<H, u32>;

/// What the first rigid job that does not fit is waiting for.
#[derive(Debug)]
pub(super) struct Reservation<H> {
    /// When there is room for it at the latest.
    pub at: u64,
    /// Slots that it leaves then, of the hosts that it may run on.
    extra: Slots<H>,
}

impl<H: Copy + Ord> Reservation<H> {
    /// For a job that is placed so, when `free` is free now on the hosts that it may run on, and more after `ends`, which are in the order
    /// of time. `None` if there is not enough even then.
    pub fn new(
        mut free: Slots<H>,
        placing: &Placing<H>,
        ends: impl Iterator<Item = (u64, H, u32)>,
    ) -> Option<Self> {
        let (mut rooms, each) = (placing.rooms(&free), placing.each());
        let mut at = 0;
        for (end, host, slots) in ends {
            // All that ends by then.
            if end > at && placing.fits(&rooms) {
                break;
            }
            let Some(free) = free.get_mut(&host) else { continue };
            let before = *free / each;
            *free = free.saturating_add(slots);
            rooms[placing.site(host)] += u64::from(*free / each - before);
            at = end;
        }
        for (host, count) in placing.place(&free)? {
            if let Some(free) = free.get_mut(&host) {
                *free -= count * each;
            }
        }
        Some(Self { at, extra: free })
    }

    /// The job cannot use these slots: others may.
    pub fn leaving(mut self, slots: &Slots<H>) -> Self {
        for (host, slots) in slots {
            *self.extra.entry(*host).or_default() += slots;
        }
        self
    }

    /// What of a host's free slots a task may use that ends at a time at the latest.
    pub fn leaves(&self, host: H, free: u32, end: u64) -> u32 {
        if end <= self.at { free } else { self.extra.get(&host).map_or(free, |&extra| free.min(extra)) }
    }

    /// A task that ends then has been started with these slots.
    pub fn take(&mut self, host: H, slots: u32, end: u64) {
        if end > self.at
            && let Some(extra) = self.extra.get_mut(&host)
        {
            *extra = extra.saturating_sub(slots);
        }
    }
}

/// Places all tasks of a rigid job on as few hosts as can be, or none.
pub(super) fn together<H: Copy + Ord>(free: &Slots<H>, width: u32, each: u32) -> Option<Vec<(H, u32)>> {
    let mut rooms: Vec<(H, u32)> = free.iter().map(|(&host, &free)| (host, free / each.max(1))).collect();
    rooms.sort_by_key(|&(host, room)| (Reverse(room), host));
    let (mut left, mut parts) = (width, Vec::new());
    for (host, room) in rooms {
        let part = room.min(left);
        if part > 0 {
            parts.push((host, part));
            left -= part;
        }
    }
    (left == 0).then_some(parts)
}

/// A host that takes part in a division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<H> {
    pub host: H,
    pub capability: f64,
    /// Tasks for which it has room, `P − P_c`.
    pub room: u32,
    /// How long a task would take there, relative to the other hosts.
    pub stretch: f64,
}

/// Divides `count` tasks among hosts, none of which is given more than its room, until all are given or no host has room. `last` is the
/// host that was given tasks last, for those that take turns; the parts are in the order in which tasks are given out.
pub(super) fn divided<H: Copy + Ord>(
    how: Dividing,
    count: u32,
    parts: Vec<Part<H>>,
    last: Option<H>,
) -> Vec<(H, u32)> {
    match how {
        Dividing::Pulling => pulled(count, parts),
        Dividing::InTurn => in_turn(count, parts, last),
        Dividing::Proportional => in_proportion(count, &parts, |part| part.capability),
        Dividing::LightlyLoaded => in_proportion(count, &parts, |part| part.stretch.recip()),
    }
}

/// By PVM's rule: even blocks from the host on that follows the last one. What a host has no room for goes around again.
fn in_turn<H: Copy + Ord>(count: u32, mut parts: Vec<Part<H>>, last: Option<H>) -> Vec<(H, u32)> {
    parts.sort_by_key(|part| part.host);
    let start = parts.partition_point(|part| last.is_some_and(|last| part.host <= last));
    parts.rotate_left(start);
    let mut given: Vec<(H, u32)> = parts.iter().map(|part| (part.host, 0)).collect();
    let mut left = count;
    loop {
        let with_room = (0..parts.len()).filter(|&at| parts[at].room > 0).take(left as usize);
        let with_room: Vec<usize> = with_room.collect();
        if with_room.is_empty() {
            break;
        }
        let blocks = blocks(left.into(), with_room.len() as u64);
        for (at, block) in with_room.into_iter().zip(blocks) {
            let n = parts[at].room.min(block as u32);
            parts[at].room -= n;
            given[at].1 += n;
            left -= n;
        }
    }
    given.retain(|&(_, n)| n > 0);
    given
}

/// By largest remainder, in the order of hosts.
fn in_proportion<H: Copy + Ord>(
    count: u32,
    parts: &[Part<H>],
    weight: impl Fn(&Part<H>) -> f64,
) -> Vec<(H, u32)> {
    let portion = |part: &Part<H>| Portion { capability: weight(part), has: 0, limit: part.room.into() };
    let given = proportional(count.into(), &parts.iter().map(portion).collect::<Vec<_>>());
    let all = parts.iter().zip(given).map(|(part, n)| (part.host, n as u32));
    all.filter(|&(_, n)| n > 0).collect()
}

/// Divides `count` tasks among hosts by the formula of active pulling, the least loaded first: each is given
/// `N = min(P − P_c, T_c / N_c · C_i / C_A)`, until all are given or no host has room.
fn pulled<H: Copy + Ord>(count: u32, mut parts: Vec<Part<H>>) -> Vec<(H, u32)> {
    parts.sort_by(|a, b| a.stretch.total_cmp(&b.stretch).then(a.host.cmp(&b.host)));
    let mean = mean_capability(parts.iter().map(|part| part.capability));
    let mut given: BTreeMap<H, u32> = BTreeMap::new();
    let mut left = count;
    while left > 0 && !parts.is_empty() {
        let round = parts.len();
        for (place, part) in parts.iter_mut().enumerate() {
            let n_a = application(part.room.into(), 0);
            let n = share(n_a, left.into(), (round - place) as u64, part.capability, mean) as u32;
            if n > 0 {
                *given.entry(part.host).or_default() += n;
                part.room -= n;
                left -= n;
            }
        }
        parts.retain(|part| part.room > 0);
    }
    given.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(of: &[(char, u32)]) -> Slots<char> {
        of.iter().copied().collect()
    }

    #[test]
    fn a_rigid_job_goes_to_few_hosts() {
        let free = slots(&[('a', 2), ('b', 5), ('c', 4)]);
        assert_eq!(together(&free, 6, 1), Some(vec![('b', 5), ('c', 1)]));
        assert_eq!(together(&free, 5, 2), Some(vec![('b', 2), ('c', 2), ('a', 1)]));
        assert_eq!(together(&free, 6, 2), None);
    }

    #[test]
    fn the_reservation_is_for_the_first_time_at_which_there_is_room() {
        let free = slots(&[('a', 1), ('b', 0)]);
        let ends = [(10, 'b', 2), (20, 'x', 9), (30, 'a', 3), (40, 'b', 9)];
        let reserved =
            Reservation::new(free.clone(), &Placing::on_few_hosts(2, 2), ends.into_iter()).expect("at 30");
        assert_eq!(reserved.at, 30);
        // Of a's 4 slots and b's 2 it takes a's; b's are left, and a host that it cannot use is as free as it is.
        assert_eq!(['a', 'b', 'x'].map(|host| reserved.leaves(host, 7, 31)), [0, 2, 7]);
        assert_eq!(reserved.leaves('a', 7, 30), 7, "it ends in time");
        assert!(Reservation::new(free, &Placing::on_few_hosts(9, 2), ends.into_iter()).is_none());
    }

    #[test]
    fn tasks_are_divided_by_capability_and_room() {
        let part = |host, capability, room| Part { host, capability, room, stretch: 0.0 };
        let twice = vec![part('a', 1000.0, 100), part('b', 2000.0, 100)];
        assert_eq!(pulled(9, twice.clone()), [('a', 3), ('b', 6)]);
        assert_eq!(pulled(200, twice), [('a', 100), ('b', 100)], "no host is given more than its room");
        assert_eq!(
            pulled(1, vec![Part { stretch: 0.5, ..part('a', 1.0, 4) }, part('b', 1.0, 1)]),
            [('b', 1)]
        );
        assert_eq!(pulled(0, vec![part('a', 1.0, 4)]), []);
    }

    #[test]
    fn hosts_take_turns_from_the_one_after_the_last() {
        let part = |host, room| Part { host, capability: 1.0, room, stretch: 1.0 };
        let parts = || vec![part('a', 9), part('b', 9), part('c', 9)];
        assert_eq!(in_turn(2, parts(), None), [('a', 1), ('b', 1)]);
        assert_eq!(in_turn(2, parts(), Some('b')), [('c', 1), ('a', 1)]);
        assert_eq!(in_turn(7, parts(), Some('c')), [('a', 3), ('b', 2), ('c', 2)]);
        let narrow = vec![part('a', 1), part('b', 0), part('c', 9)];
        assert_eq!(in_turn(6, narrow.clone(), Some('x')), [('a', 1), ('c', 5)]);
        assert_eq!(in_turn(60, narrow, None), [('a', 1), ('c', 9)]);
    }

    #[test]
    fn hosts_have_their_share_by_capability_or_by_the_time_of_a_task() {
        let part = |host, capability, stretch| Part { host, capability, room: 8, stretch };
        let parts = || vec![part('a', 1000.0, 1.0), part('b', 3000.0, 3.0)];
        assert_eq!(divided(Dividing::Proportional, 4, parts(), None), [('a', 1), ('b', 3)]);
        assert_eq!(divided(Dividing::LightlyLoaded, 4, parts(), None), [('a', 3), ('b', 1)]);
        assert_eq!(divided(Dividing::Proportional, 14, parts(), None), [('a', 6), ('b', 8)], "b is full");
    }

    const ALL: [Dividing; 4] =
        [Dividing::Pulling, Dividing::InTurn, Dividing::Proportional, Dividing::LightlyLoaded];

    proptest! {
        #[test]
        fn as_many_are_given_as_there_is_room_for(
            count in 0..300_u32,
            rooms in proptest::collection::vec((1..2000_u32, 0..40_u32), 0..12),
            how in proptest::sample::select(&ALL[..]),
            last in proptest::option::of(0..14_usize),
        ) {
            let parts = rooms.iter().enumerate().map(|(host, &(speed, room))| {
                Part { host, capability: speed.into(), room, stretch: f64::from(room % 7 + 1) }
            });
            let given = divided(how, count, parts.collect(), last);
            let room: u32 = rooms.iter().map(|&(_, room)| room).sum();
            prop_assert_eq!(given.iter().map(|&(_, n)| n).sum::<u32>(), count.min(room));
            prop_assert!(given.iter().all(|&(host, n)| (1..=rooms[host].1).contains(&n)));
        }
    }
}
