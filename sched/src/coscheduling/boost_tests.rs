use super::*;
use proptest::prelude::*;

const SLICE: Duration = Duration::from_millis(100);

fn node(job: char) -> Node<char> {
    let mut node = Node::new(2 * SLICE);
    node.dispatch(Some(job));
    node
}

#[test]
fn a_greater_epoch_switches_and_is_adopted() {
    let mut node = node('B');
    assert_eq!(node.arrived('A', Epoch::new(3), false), Arrival::Switch);
    assert_eq!((node.running(), node.epoch()), (Some('A'), Epoch::new(3)));
    assert_eq!(node.arrived('B', Epoch::new(2), false), Arrival::Old);
    assert_eq!(node.arrived('B', Epoch::new(3), false), Arrival::Old, "equal is not greater");
    assert_eq!(node.arrived('A', Epoch::new(5), false), Arrival::Runs);
    assert_eq!(node.epoch(), Epoch::new(5));
    node.slice_ended(Some('B'));
    assert_eq!((node.running(), node.epoch()), (Some('B'), Epoch::new(6)));
}

/// The source's conflict: A runs on node 1, B on node 2, and each sends to its other half at once.
#[test]
fn in_the_conflict_exactly_one_job_is_coscheduled() {
    for (first, second) in [(1, 0), (0, 1), (7, 3)] {
        let (mut one, mut two) = (node('B'), node('B'));
        (0..first).for_each(|_| one.slice_ended(Some('A')));
        one.dispatch(Some('A'));
        (0..second).for_each(|_| two.slice_ended(Some('B')));
        let (from_one, from_two) = (one.epoch(), two.epoch());
        let answers = [one.arrived('B', from_two, false), two.arrived('A', from_one, false)];
        assert_eq!(answers.iter().filter(|&&answer| answer == Arrival::Switch).count(), 1);
        assert_eq!(one.running(), two.running());
        // Messages that were on their way do not pull it back.
        assert_ne!(one.arrived('B', from_two, false), Arrival::Switch);
        assert_ne!(two.arrived('B', from_two, false), Arrival::Switch);
    }
}

#[test]
fn a_new_job_spreads_over_all_nodes() {
    let mut nodes: Vec<Node<char>> = (0..8).map(|_| node('B')).collect();
    nodes[0].slice_ended(Some('A'));
    for to in 1..8 {
        let epoch = nodes[to - 1].epoch();
        let old = nodes[to].epoch();
        assert_eq!(nodes[to].arrived('A', epoch, false), Arrival::Switch);
        assert_eq!(nodes[to - 1].arrived('B', old, false), Arrival::Old);
    }
    assert!(nodes.iter().all(|node| node.running() == Some('A')));
}

/// Two jobs on one node, one of them flooded with messages of ever greater epochs, from itself and from accomplices.
#[test]
fn a_job_that_floods_itself_gains_nothing() {
    for from_here in [true, false] {
        let mut node = node('B');
        let mut used = [Duration::ZERO; 2];
        let tick = Duration::from_millis(1);
        for ms in 0..20_000_u64 {
            if ms % 100 == 0 {
                let next = if node.running() == Some('A') { 'B' } else { 'A' };
                node.slice_ended(Some(next));
            }
            node.arrived('A', node.epoch().next(0), from_here);
            node.charge(tick);
            used[usize::from(node.running() == Some('B'))] += tick;
        }
        assert!(used[0] <= used[1] + 3 * SLICE, "{used:?}");
    }
}

#[test]
fn a_newcomer_does_not_claim_the_past() {
    let mut node = node('B');
    node.charge(100 * SLICE);
    node.slice_ended(Some('A'));
    node.charge(3 * SLICE);
    node.slice_ended(Some('B'));
    assert_eq!(node.arrived('A', Epoch::new(9), false), Arrival::Unfair);
    node.forget('B');
    assert_eq!(node.running(), None);
    assert_eq!(node.arrived('A', Epoch::new(9), false), Arrival::Switch);
}

/// Two nodes whose slices end at the same moment make the same count of different switches.
#[test]
fn of_equal_counts_that_of_the_greater_node_prevails() {
    let named = |name| Node::new(2 * SLICE).named(name);
    let (mut one, mut two) = (named(1), named(2));
    one.slice_ended(Some('A'));
    two.slice_ended(Some('B'));
    let (from_one, from_two) = (one.epoch(), two.epoch());
    assert_eq!(from_one.count, from_two.count);
    assert_eq!(one.arrived('B', from_two, false), Arrival::Switch);
    assert_eq!(two.arrived('A', from_one, false), Arrival::Old);
    assert_eq!((one.running(), two.running()), (Some('B'), Some('B')));
    assert_eq!(one.arrived('A', one.epoch(), false), Arrival::Old, "the same epoch is not greater");
}

#[test]
fn after_the_greatest_count_comes_zero() {
    let mut node = node('B');
    assert_eq!(node.arrived('A', Epoch::new(u64::MAX >> 1), false), Arrival::Switch);
    assert_eq!(node.arrived('B', Epoch::new(u64::MAX - 1), false), Arrival::Switch);
    (0..3).for_each(|_| node.slice_ended(Some('A')));
    assert_eq!(node.epoch().count, 1);
    assert_eq!(node.arrived('B', Epoch::new(u64::MAX), false), Arrival::Old);
    assert_eq!(node.arrived('B', Epoch::new(2), false), Arrival::Switch);
}

#[test]
fn a_node_that_joins_follows_those_that_are_there() {
    let (mut old, mut newcomer) = (node('A'), node('B'));
    (0..1000).for_each(|_| old.slice_ended(Some('A')));
    assert_eq!(old.arrived('B', newcomer.epoch(), false), Arrival::Old);
    assert_eq!(newcomer.arrived('A', old.epoch(), false), Arrival::Switch);
    assert_eq!(newcomer.epoch(), old.epoch());
}

#[test]
fn boosts_are_paid_from_the_share() {
    let mut node = node('B');
    node.charge(SLICE / 2);
    assert_eq!(node.arrived('A', Epoch::new(1), false), Arrival::Switch);
    node.charge(2 * SLICE);
    assert_eq!(node.counters().boost, 2 * SLICE);
    let jobs = ['A', 'B'];
    let mut turns = String::new();
    for _ in 0..5 {
        let next = node.turn(&jobs, |_| true);
        node.slice_ended(next);
        node.charge(SLICE);
        turns.extend(next);
    }
    assert_eq!(turns, "BBABA");
    assert_eq!(node.counters().boost, 2 * SLICE, "slices are no boosts");
    assert_eq!(node.turn(&jobs, |job| job == 'A'), Some('A'));
    assert_eq!(node.turn(&[], |_| true), None);
}

#[test]
fn a_job_that_has_slept_does_not_claim_all_that_time() {
    let mut node = node('B');
    node.slice_ended(Some('A'));
    node.charge(1000 * SLICE);
    node.forget_savings();
    assert_eq!(node.account('B'), (1000 - 2 * BOOST_SAVINGS) * SLICE);
    node.slice_ended(Some('B'));
    node.charge(2 * SLICE);
    node.forget_savings();
    assert_eq!(node.account('A'), 1000 * SLICE);
}

proptest! {
    /// A node's epoch never falls, and a switch happens exactly if the message's epoch was greater and it was fair.
    #[test]
    fn epochs_never_fall(steps in proptest::collection::vec((0..4_u8, 0..4_u32, 0..30_u64), 0..200)) {
        let mut node = Node::new(SLICE);
        for (kind, job, number) in steps {
            let (epoch, running) = (node.epoch(), node.running());
            match kind {
                0 => node.slice_ended(Some(job)),
                1 => node.charge(Duration::from_millis(number * 10)),
                _ => {
                    let answer = node.arrived(job, Epoch::new(number), false);
                    let switched = running != Some(job) && node.running() == Some(job);
                    prop_assert_eq!(answer == Arrival::Switch, switched);
                    prop_assert!(!switched || (number > epoch.count && node.epoch() == Epoch::new(number)));
                    prop_assert!(switched || node.running() == running);
                }
            }
            prop_assert!(!epoch.is_after(node.epoch()));
        }
    }
}
