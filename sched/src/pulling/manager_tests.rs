use super::Decision::{Grant, NoNodes, TasksHave, TasksNo};
use super::*;
use proptest::prelude::*;

fn nodes(capabilities: &[u32]) -> Vec<Candidate<u32>> {
    let node = |(host, &c)| Candidate { host, capability: f64::from(c), limit: 4096 };
    (1..).zip(capabilities).map(node).collect()
}

fn by_soft_rule(host: u32, n: u64) -> Decision<u32> {
    Grant { host, n, terms: None }
}

/// The grant that an application is expected to lead to, as its terms.
fn granted(decisions: &[Decision<u32>]) -> Terms {
    match decisions.first() {
        Some(Grant { terms: Some(terms), n, .. }) if *n == terms.n => *terms,
        _ => panic!("{decisions:?}"),
    }
}

#[test]
fn a_batch_from_the_first_word_to_the_last() {
    let mut manager = Manager::new();
    assert_eq!(manager.place(12, nodes(&[1000, 3000]), false), [TasksHave(1), TasksHave(2)]);
    let terms = granted(&manager.on_apply(1, 100, 1000.0));
    assert_eq!(terms, Terms { n_a: 100, t_c: 12, n_c: 2, c_i: 1000.0, c_a: 2000.0, n: 3 });
    // Node 2 is the last of the round; its share would be 13, so it gets what is left.
    let decisions = manager.on_apply(2, 100, 3000.0);
    assert_eq!(granted(&decisions), Terms { n_a: 100, t_c: 9, n_c: 1, c_i: 3000.0, c_a: 2000.0, n: 9 });
    assert_eq!(decisions[1..], [TasksNo(1), TasksNo(2)]);
    assert_eq!(manager.remaining(), 0);
    assert_eq!(manager.granted().collect::<Vec<_>>(), [(1, 3), (2, 9)]);
    assert_eq!(manager.done(), []);
}

#[test]
fn a_new_round_begins_when_all_have_applied() {
    let mut manager = Manager::new();
    manager.place(100, nodes(&[1, 1]), false);
    let n_c = |manager: &mut Manager<u32>, host| granted(&manager.on_apply(host, 4, 1.0)).n_c;
    assert_eq!(n_c(&mut manager, 1), 2);
    assert_eq!(n_c(&mut manager, 1), 2, "again in the same round: the other, and the applicant");
    assert_eq!(n_c(&mut manager, 2), 1);
    assert_eq!(n_c(&mut manager, 2), 2, "a new round");
    assert_eq!(n_c(&mut manager, 1), 1);
    assert_eq!(manager.remaining(), 80);
}

#[test]
fn the_nearest_node_does_not_take_all_by_asking_often() {
    let mut manager = Manager::new();
    manager.place(4, nodes(&[1, 1, 1]), false);
    assert_eq!(granted(&manager.on_apply(1, 8, 1.0)).n, 1);
    assert_eq!(manager.on_apply(1, 7, 1.0), [], "what is left is the others' part");
    assert_eq!(granted(&manager.on_apply(2, 8, 1.0)).n, 1);
    assert_eq!(granted(&manager.on_apply(3, 8, 1.0)).n, 2);
    assert_eq!(manager.remaining(), 0);
}

#[test]
fn tasks_that_others_cannot_take_go_to_waiting_nodes() {
    let mut manager = Manager::new();
    manager.place(20, nodes(&[1, 1]), false);
    assert_eq!(granted(&manager.on_apply(1, 8, 1.0)).n, 8);
    assert_eq!(granted(&manager.on_apply(1, 8, 1.0)).n, 2, "10 are the other's part");
    assert_eq!(manager.on_apply(1, 6, 1.0), []);
    assert_eq!(
        granted(&manager.on_apply(2, 0, 1.0)).n,
        5,
        "T_c / N_c, of the 10 that the other has no room for"
    );
    assert_eq!(granted(&manager.on_apply(1, 1, 1.0)).n, 1);

    let mut manager = Manager::new();
    manager.place(20, nodes(&[1, 1]), false);
    manager.on_apply(1, 10, 1.0);
    assert_eq!(manager.on_apply(1, 10, 1.0), []);
    assert_eq!(granted(&manager.node_gone(2)).n, 10);
}

#[test]
fn a_firm_batch_waits_for_room() {
    let mut manager = Manager::new();
    manager.place(6, nodes(&[1, 1]), false);
    for _ in 0..5 {
        assert_eq!(manager.on_apply(1, 0, 1.0), []);
        assert_eq!(manager.on_apply(2, -7, 1.0), []);
    }
    assert_eq!(granted(&manager.on_apply(2, 1, 1.0)).n, 1);
    assert_eq!(manager.remaining(), 5);
}

#[test]
fn a_node_that_is_full_for_long_does_not_stretch_rounds() {
    let mut manager = Manager::new();
    manager.place(96, nodes(&[1, 1, 1]), false);
    // It may have room in a moment: its part waits for it.
    assert_eq!(manager.on_apply(3, 0, 1.0), []);
    assert_eq!(granted(&manager.on_apply(1, 100, 1.0)).n, 32);
    assert_eq!(manager.on_apply(3, -1, 1.0), []);
    // The round ends without it: half of what is left, then the rest, instead of a half again and again.
    assert_eq!(granted(&manager.on_apply(2, 20, 1.0)).n, 20);
    assert_eq!(granted(&manager.on_apply(1, 100, 1.0)).n_c, 2);
    assert_eq!(granted(&manager.on_apply(2, 100, 1.0)).n, 22);
    assert_eq!(manager.remaining(), 0);

    // As soon as it has room, it counts again.
    manager.place(96, nodes(&[1, 1]), false);
    assert_eq!(manager.on_apply(1, 0, 1.0), []);
    assert_eq!(manager.on_apply(1, 0, 1.0), []);
    assert_eq!(granted(&manager.on_apply(2, 16, 1.0)).n_c, 1);
    assert_eq!(granted(&manager.on_apply(1, 10, 1.0)).n_c, 2);
    assert_eq!(granted(&manager.on_apply(1, 10, 1.0)).n_c, 2);
}

#[test]
fn a_soft_batch_hands_out_the_rest_when_all_have_declined() {
    let mut manager = Manager::new();
    manager.place(12, nodes(&[1000, 2000, 3000]), true);
    assert_eq!(granted(&manager.on_apply(1, 3, 1000.0)).n, 2);
    assert_eq!(manager.on_apply(1, 0, 1000.0), []);
    assert_eq!(manager.on_apply(2, 0, 2000.0), []);
    // A grant in between: who declined before may have drained since.
    assert_eq!(granted(&manager.on_apply(3, 1, 3000.0)).n, 1);
    assert_eq!(manager.on_apply(3, 0, 3000.0), []);
    assert_eq!(manager.on_apply(2, -1, 2000.0), []);
    let rest = [by_soft_rule(2, 4), by_soft_rule(3, 5), TasksNo(1), TasksNo(2), TasksNo(3)];
    assert_eq!(manager.on_apply(1, -2, 1000.0), rest, "totals are 2, 4, 6");
}

#[test]
fn a_node_without_others_is_asked_once() {
    let mut manager = Manager::new();
    let all = |terms: Terms, n| Grant { host: 1, n, terms: Some(terms) };
    let asked = |n_a, t_c, n| Terms { n_a, t_c, n_c: 1, c_i: 1000.0, c_a: 1000.0, n };
    manager.place(16, nodes(&[1000]), true);
    assert_eq!(manager.on_apply(1, 7, 1000.0), [all(asked(7, 16, 7), 16), TasksNo(1)]);
    // What comes back has nowhere else to go.
    assert_eq!(manager.more(5), [TasksHave(1), by_soft_rule(1, 5), TasksNo(1)]);

    // The last of several, too, as soon as it has been heard of.
    manager.place(10, nodes(&[1000, 1000]), true);
    assert_eq!(manager.node_gone(2), []);
    assert_eq!(manager.on_apply(1, 4, 1000.0), [all(asked(4, 10, 4), 10), TasksNo(1)]);
    manager.place(10, nodes(&[1000, 1000]), true);
    assert_eq!(granted(&manager.on_apply(1, 2, 1000.0)).n, 2);
    assert_eq!(manager.node_gone(2), [by_soft_rule(1, 8), TasksNo(1)]);

    // Up to its limit.
    manager.place(16, [Candidate { host: 1, capability: 1000.0, limit: 10 }], true);
    let rest = [all(asked(7, 16, 7), 10), NoNodes { rest: 6 }, TasksNo(1)];
    assert_eq!(manager.on_apply(1, 7, 1000.0), rest);

    // Unless tasks wait for room.
    manager.place(16, nodes(&[1000]), false);
    assert_eq!(manager.on_apply(1, 7, 1000.0), [all(asked(7, 16, 7), 7)]);
}

#[test]
fn limits_bound_the_soft_rule_and_what_is_left_is_given_up() {
    let mut manager = Manager::new();
    let node = |host, limit| Candidate { host, capability: 1.0, limit };
    manager.place(100, [node(1, 10), node(2, 5)], true);
    manager.on_apply(1, 0, 1.0);
    let decisions = manager.on_apply(2, 0, 1.0);
    let expected = [by_soft_rule(1, 10), by_soft_rule(2, 5), NoNodes { rest: 85 }, TasksNo(1), TasksNo(2)];
    assert_eq!(decisions, expected);
}

#[test]
fn without_nodes_the_batch_is_given_up() {
    for soft in [false, true] {
        let mut manager = Manager::<u32>::new();
        assert_eq!(manager.place(5, [], soft), [NoNodes { rest: 5 }]);
        assert_eq!(manager.more(2), [NoNodes { rest: 2 }]);
        manager.place(5, nodes(&[1, 1]), soft);
        assert_eq!(manager.node_gone(1), []);
        assert_eq!(manager.node_gone(2), [NoNodes { rest: 5 }]);
        assert_eq!(manager.node_gone(2), [], "told twice");
        assert_eq!(manager.node_joined(nodes(&[1])[0]), [], "too late");
    }
}

#[test]
fn batches_of_none_and_of_one() {
    let mut manager = Manager::new();
    assert_eq!(manager.place(0, nodes(&[1, 1]), true), []);
    assert_eq!(manager.done(), []);
    manager.place(1, nodes(&[1, 1_000_000]), true);
    let decisions = manager.on_apply(1, 4, 1.0);
    assert_eq!(granted(&decisions).n, 1);
    assert_eq!(decisions[1..], [TasksNo(1), TasksNo(2)]);
}

#[test]
fn a_node_that_dies_between_applying_and_starting() {
    let mut manager = Manager::new();
    manager.place(10, nodes(&[1, 1]), false);
    assert_eq!(granted(&manager.on_apply(1, 10, 1.0)).n, 5);
    assert_eq!(manager.node_gone(1), []);
    assert_eq!(manager.more(5), [], "the other knows already that tasks wait");
    assert_eq!(manager.on_apply(1, 5, 1.0), [TasksNo(1)], "a late word of the dead");
    let decisions = manager.on_apply(2, 20, 1.0);
    assert_eq!(granted(&decisions), Terms { n_a: 20, t_c: 10, n_c: 1, c_i: 1.0, c_a: 1.0, n: 10 });
    assert_eq!(decisions[1..], [TasksNo(2)]);
}

#[test]
fn a_death_can_complete_the_round_of_refusals() {
    let mut manager = Manager::new();
    manager.place(4, nodes(&[1, 1, 1]), true);
    manager.on_apply(1, 0, 1.0);
    manager.on_apply(2, 0, 1.0);
    assert_eq!(manager.node_gone(3), [by_soft_rule(1, 2), by_soft_rule(2, 2), TasksNo(1), TasksNo(2)]);
}

#[test]
fn a_newcomer_takes_part() {
    let mut manager = Manager::new();
    manager.place(9, nodes(&[1, 1]), true);
    manager.on_apply(1, 0, 1.0);
    let newcomer = Candidate { host: 3, capability: 4.0, limit: 10 };
    assert_eq!(manager.node_joined(newcomer), [TasksHave(3)]);
    assert_eq!(manager.node_joined(newcomer), [], "it has been told");
    assert_eq!(manager.on_apply(2, 0, 1.0), [], "the newcomer has not declined");
    let terms = granted(&manager.on_apply(3, 4, 4.0));
    assert_eq!((terms.n_c, terms.c_a.to_bits(), terms.n), (3, 2.0_f64.to_bits(), 4));
}

#[test]
fn tasks_that_come_back_after_the_end_open_it_again() {
    let mut manager = Manager::new();
    manager.place(2, nodes(&[1, 1]), false);
    manager.on_apply(1, 1, 1.0);
    manager.on_apply(2, 1, 1.0);
    assert_eq!(manager.on_apply(1, 3, 1.0), [TasksNo(1)], "it asked before it heard that none are left");
    assert_eq!(manager.on_apply(2, 0, 1.0), [TasksNo(2)]);
    assert_eq!(manager.more(1), [TasksHave(1), TasksHave(2)]);
    assert_eq!(granted(&manager.on_apply(2, 3, 1.0)).n, 1);
}

#[test]
fn the_end_reaches_who_still_believes_in_tasks() {
    let mut manager = Manager::new();
    manager.place(5, nodes(&[1, 1]), false);
    assert_eq!(manager.done(), [TasksNo(1), TasksNo(2)]);
    assert_eq!(manager.on_apply(1, 3, 1.0), [TasksNo(1)]);
    assert_eq!(manager.remaining(), 0);
    assert_eq!(manager.place(1, nodes(&[1]), false), [TasksHave(1)], "and it can place another batch");
}

#[test]
fn garbage_and_enormous_numbers() {
    let mut manager = Manager::new();
    let node = |host, capability| Candidate { host, capability, limit: u64::MAX };
    manager.place(u64::MAX, [node(1, f64::NAN), node(2, -3.0)], false);
    assert_eq!(granted(&manager.on_apply(1, 7, f64::INFINITY)).n, 7);
    assert_eq!(granted(&manager.on_apply(2, i64::MAX, 0.0)).n, i64::MAX as u64);
    assert_eq!(manager.more(u64::MAX), []);
    assert_eq!(manager.remaining(), u64::MAX);
    assert_eq!(manager.on_apply(1, i64::MIN, f64::NAN), []);
}

#[derive(Clone, Debug)]
enum Input {
    Apply(u32, i64, f64),
    Joined(u32, f64, u64),
    Gone(u32),
    More(u64),
}

fn input() -> impl Strategy<Value = Input> {
    let c = || prop_oneof![9 => 1.0..5000.0_f64, 1 => proptest::num::f64::ANY];
    prop_oneof![
        8 => (0..8_u32, -3..20_i64, c()).prop_map(|(host, n_a, c)| Input::Apply(host, n_a, c)),
        1 => (0..8_u32, c(), 0..50_u64).prop_map(|(host, c, limit)| Input::Joined(host, c, limit)),
        1 => (0..8_u32).prop_map(Input::Gone),
        1 => (0..20_u64).prop_map(Input::More),
    ]
}

proptest! {
    /// Whatever happens in whatever order: every task is placed, given up, or still to be placed; a node that has
    /// declined or has not been told gets nothing by the formula; whoever was told is told the end, once.
    #[test]
    fn the_promise_holds(
        count in 0..200_u64,
        soft: bool,
        capabilities in proptest::collection::vec(1..5000_u32, 0..6),
        inputs in proptest::collection::vec(input(), 0..80),
    ) {
        let mut manager = Manager::new();
        let mut members: BTreeSet<u32> = nodes(&capabilities).iter().map(|node| node.host).collect();
        let mut told = BTreeSet::new();
        let mut asked = BTreeMap::new();
        let (mut wanted, mut settled) = (count, 0);
        let mut decisions = manager.place(count, nodes(&capabilities), soft);
        for input in inputs {
            for &decision in &decisions {
                match decision {
                    TasksHave(host) => prop_assert!(members.contains(&host) && told.insert(host)),
                    TasksNo(host) => _ = told.remove(&host),
                    Grant { host, n, terms } => {
                        prop_assert!(n >= 1 && members.contains(&host) && (soft || terms.is_some()));
                        // By the formula no more than was asked for, and once for each time; more only where there is no other node.
                        if let Some(terms) = terms {
                            prop_assert!(asked.remove(&host).is_some_and(|room| terms.n <= room));
                            prop_assert!(n == terms.n || (n > terms.n && soft && members.len() == 1));
                        }
                        settled += n;
                    }
                    NoNodes { rest } => {
                        prop_assert!(rest > 0 && (soft || members.is_empty()));
                        settled += rest;
                    }
                }
            }
            prop_assert_eq!(settled + manager.remaining(), wanted);
            prop_assert_eq!(&told, if manager.remaining() > 0 { &members } else { const { &BTreeSet::new() } });
            decisions = match input {
                Input::Apply(host, n_a, c) => {
                    asked.insert(host, n_a.max(0) as u64);
                    manager.on_apply(host, n_a, c)
                }
                Input::Joined(host, capability, limit) => {
                    members.insert(host);
                    manager.node_joined(Candidate { host, capability, limit })
                }
                Input::Gone(host) => {
                    members.remove(&host);
                    told.remove(&host);
                    manager.node_gone(host)
                }
                Input::More(count) => {
                    wanted += count;
                    manager.more(count)
                }
            };
        }
    }
}
