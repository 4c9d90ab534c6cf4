use super::*;
use proptest::prelude::*;

fn hosts(of: &[u32]) -> Vec<Candidate<u32>> {
    of.iter().map(|&host| Candidate { host, capability: 1000.0, limit: 4096 }).collect()
}

fn sizes(count: u64, nh: u64) -> Vec<u64> {
    blocks(count, nh).collect()
}

#[test]
fn blocks_are_those_of_pvm() {
    assert_eq!(sizes(4, 3), [2, 1, 1]);
    assert_eq!(sizes(5, 3), [2, 2, 1]);
    assert_eq!(sizes(7, 3), [3, 2, 2]);
    assert_eq!(sizes(0, 0), [0; 0]);
}

#[test]
fn the_cursor_starts_behind_the_own_host_and_is_shared_by_all_spawns() {
    let mut rule = RoundRobin::new(1);
    let three = hosts(&[1, 2, 3]);
    assert_eq!(rule.place(4, &three), [(2, 2), (3, 1), (1, 1)]);
    assert_eq!(rule.place(1, &three), [(2, 1)]);
    assert_eq!(rule.place(2, &three), [(3, 1), (1, 1)]);
    assert_eq!(rule.place(2, &hosts(&[3])), [(3, 2)]);
    // Hosts that are not in the set are skipped, and the order in which they are named does not matter.
    assert_eq!(rule.place(3, &hosts(&[4, 2, 1])), [(4, 1), (1, 1), (2, 1)]);
}

#[test]
fn nothing_to_place_or_nowhere_to_place_it() {
    let mut rule = RoundRobin::new(1);
    assert_eq!(rule.place(0, &hosts(&[1, 2])), []);
    assert_eq!(rule.place(5, &[]), []);
    assert_eq!(rule.place(1, &hosts(&[1, 2])), [(2, 1)], "neither moved the cursor");
    assert_eq!(Proportional.place(5, &hosts(&[])), []);
    assert_eq!(Proportional.place(0, &hosts(&[1])), []);
}

#[test]
fn proportion_follows_capability_and_stays_within_limits() {
    let node = |host, capability, limit| Candidate { host, capability, limit };
    let nodes = [node('a', 1000.0, 100), node('b', 2000.0, 100), node('c', 3000.0, 100)];
    assert_eq!(Proportional.place(12, &nodes), [('a', 2), ('b', 4), ('c', 6)]);
    assert_eq!(Proportional.place(4, &nodes), [('a', 1), ('b', 1), ('c', 2)]);
    let nodes = [node('a', 1000.0, 100), node('b', 2000.0, 100), node('c', 3000.0, 3)];
    assert_eq!(Proportional.place(12, &nodes), [('a', 3), ('b', 6), ('c', 3)]);
    assert_eq!(Proportional.place(1000, &nodes), [('a', 100), ('b', 100), ('c', 3)]);
}

#[test]
fn running_tasks_count_towards_a_nodes_share() {
    let has = |has| Portion { capability: 1000.0, has, limit: 100 };
    assert_eq!(proportional(6, &[has(4), has(0), has(2)]), [0, 4, 2]);
    assert_eq!(proportional(4, &[has(9), has(1), has(0)]), [0, 2, 2], "one has too much: the others share");
    assert_eq!(proportional(3, &[has(200)]), [0], "over its limit: keeps what it has");
    assert_eq!(proportional(3, &[]), [0; 0]);
}

#[test]
fn capabilities_that_make_no_sense() {
    for garbage in [0.0, -0.0, -5.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(sane_capability(garbage).to_bits(), 1.0_f64.to_bits());
    }
    assert_eq!(sane_capability(1e300).to_bits(), MAX_CAPABILITY.to_bits());
    assert_eq!(sane_capability(1.5).to_bits(), 1.5_f64.to_bits());
}

#[test]
fn enormous_numbers_are_divided_exactly() {
    let of = |capability| Portion { capability, has: u64::MAX, limit: u64::MAX };
    assert_eq!(proportional(u64::MAX, &[of(1.0), of(f64::MAX)]), [0, 0]);
    let of = |capability| Portion { capability, has: 0, limit: u64::MAX };
    let divided = proportional(u64::MAX, &vec![of(1e9); 4096]);
    assert_eq!(divided.iter().map(|&n| u128::from(n)).sum::<u128>(), u64::MAX.into());
    let mut rule = RoundRobin::new(0);
    let placed = rule.place(u64::MAX, &hosts(&[1, 2, 3]));
    assert_eq!(placed.iter().map(|&(_, n)| n).collect::<Vec<_>>(), [u64::MAX / 3; 3]);
}

fn portions() -> impl Strategy<Value = Vec<Portion>> {
    let portion = (1..20_u32, 0..60_u64, 0..120_u64);
    let portion =
        portion.prop_map(|(c, has, limit)| Portion { capability: f64::from(c) * 250.0, has, limit });
    proptest::collection::vec(portion, 1..12)
}

proptest! {
    #[test]
    fn blocks_equal_the_accumulator(count in 1..500_u64, hosts in 1..60_u64) {
        let nh = hosts.min(count);
        let mut naive = vec![0; nh as usize];
        let (mut host, mut accumulator) = (0, 0);
        for _ in 0..count {
            naive[host] += 1;
            accumulator += nh;
            if accumulator >= count {
                accumulator -= count;
                host += 1;
            }
        }
        prop_assert_eq!(sizes(count, nh), naive);
    }

    #[test]
    fn round_robin_places_all_evenly(count in 1..10_000_u64, set in proptest::collection::btree_set(1..50_u32, 1..20), own in 1..50_u32) {
        let candidates = hosts(&set.iter().copied().collect::<Vec<_>>());
        let placed = RoundRobin::new(own).place(count, &candidates);
        prop_assert_eq!(placed.iter().map(|&(_, n)| n).sum::<u64>(), count);
        prop_assert_eq!(placed.len() as u64, count.min(set.len() as u64));
        let (least, most) = (placed.iter().map(|p| p.1).min(), placed.iter().map(|p| p.1).max());
        prop_assert!(most.unwrap() - least.unwrap() <= 1);
    }

    #[test]
    fn proportional_places_all_that_limits_allow(count in 0..2_000_u64, portions in portions()) {
        let given = proportional(count, &portions);
        let room: u64 = portions.iter().map(|p| p.limit.saturating_sub(p.has)).sum();
        prop_assert_eq!(given.iter().sum::<u64>(), count.min(room));
        for (n, p) in given.iter().zip(&portions) {
            prop_assert!(*n == 0 || p.has + n <= p.limit);
        }
    }

    /// No task given could go to another node that may have it and would be relatively emptier with it by more than
    /// the rounding: for each pair, the giver's total is within one of proportion.
    #[test]
    fn totals_are_as_near_to_proportion_as_can_be(count in 0..2_000_u64, portions in portions()) {
        let given = proportional(count, &portions);
        let total = |i: usize| (portions[i].has + given[i]) as f64;
        for i in (0..portions.len()).filter(|&i| given[i] > 0) {
            for j in (0..portions.len()).filter(|&j| portions[j].has + given[j] < portions[j].limit) {
                let (c_i, c_j) = (portions[i].capability, portions[j].capability);
                prop_assert!((total(i) - 1.0) / c_i < (total(j) + 1.0) / c_j + 1e-9, "{i} and {j}: {given:?}");
            }
        }
    }
}
