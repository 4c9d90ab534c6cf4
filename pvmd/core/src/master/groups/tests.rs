use super::keeper::{Answer, Keeper};
use proptest::prelude::*;
use pvm_wire::body::BodyReader;
use pvm_wire::group::{Key, Passed, Request, View, tag};
use pvm_wire::{PvmError, Tid};
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// The name of a group.
fn g() -> &'static OsStr {
    OsStr::new("g")
}

fn tid(n: i32) -> Tid {
    Tid::from_raw(0x40000 + n)
}

fn ask(keeper: &mut Keeper, n: i32, request: Request<'_>) -> Vec<Answer> {
    keeper.handle(tid(n), request.tag(), &request.encode())
}

fn first(body: &[u8]) -> i32 {
    BodyReader::new(body).int().expect("a number")
}

/// The one number that answers.
fn number(keeper: &mut Keeper, n: i32, request: Request<'_>) -> i32 {
    let answers = ask(keeper, n, request);
    let own = answers.last().expect("an answer");
    assert_eq!((&own.to[..], own.tag), (&[tid(n)][..], request.tag()));
    first(&own.body)
}

fn joined(keeper: &mut Keeper, group: &str, tids: std::ops::Range<i32>) {
    for n in tids {
        assert!(number(keeper, n, Request::Join(OsStr::new(group), true)) >= 0);
    }
}

/// A keeper of one group with these members.
fn group_of(tids: std::ops::Range<i32>) -> Keeper {
    let mut keeper = Keeper::default();
    joined(&mut keeper, "g", tids);
    keeper
}

/// The receivers of the first answer, and its number.
fn told_all(told: &[Answer]) -> (&[Tid], i32) {
    (&told[0].to, first(&told[0].body))
}

/// They meet, after which they may agree on barriers among themselves.
fn met(keeper: &mut Keeper, tids: std::ops::Range<i32>) {
    let count = tids.len() as i32;
    let last = tids.map(|n| ask(keeper, n, Request::Barrier(g(), count))).last().expect("somebody");
    assert_eq!(first(&last.last().expect("an answer").body), count);
}

/// The answers to a request for a view.
fn ask_view(keeper: &mut Keeper, n: i32) -> Vec<Answer> {
    ask(keeper, n, Request::View(g(), true))
}

fn read_view(answer: &Answer) -> View {
    assert_eq!(answer.tag, tag::VIEW);
    View::decode(&answer.body).expect("well-formed").expect("a view")
}

fn view(keeper: &mut Keeper, n: i32) -> View {
    read_view(ask_view(keeper, n).last().expect("an answer"))
}

/// They have views, and meet, after which they may agree on barriers among themselves.
fn agreeing(tids: std::ops::Range<i32>) -> Keeper {
    let mut keeper = group_of(tids.clone());
    tids.clone().for_each(|n| drop(view(&mut keeper, n)));
    met(&mut keeper, tids);
    keeper
}

/// The daemon of a member has delivered the notice of a change; how many barriers the member had passed in which epoch.
fn passed(keeper: &mut Keeper, n: i32, passed: Option<(i32, i32)>) -> Vec<Answer> {
    let group = Key::of(g());
    ask(keeper, n, Request::Passed(group, passed.map(|(epoch, turn)| Passed { group, epoch, turn })))
}

#[test]
fn the_lowest_free_instance_is_given() {
    let mut keeper = group_of(1..5);
    assert_eq!(number(&mut keeper, 2, Request::Leave(g())), 0);
    assert_eq!(keeper.task_gone(tid(3)), []);
    assert_eq!(number(&mut keeper, 9, Request::GetTid(g(), 1)), PvmError::NoInst.code());
    assert_eq!(number(&mut keeper, 9, Request::Join(g(), false)), 1);
    assert_eq!(number(&mut keeper, 2, Request::Join(g(), false)), 2);
    assert_eq!(number(&mut keeper, 2, Request::Join(g(), false)), PvmError::DupGroup.code());
    assert_eq!(number(&mut keeper, 8, Request::GetInst(g(), tid(4))), 3);
}

#[test]
fn the_last_member_takes_the_group_along() {
    let mut keeper = group_of(1..3);
    number(&mut keeper, 1, Request::Leave(g()));
    keeper.task_gone(tid(2));
    assert_eq!(number(&mut keeper, 1, Request::GSize(g())), PvmError::NoGroup.code());
    assert!(keeper.is_empty());
}

#[test]
fn a_barrier_of_those_who_cannot_come_any_more_fails() {
    let mut keeper = group_of(1..4);
    assert_eq!(ask(&mut keeper, 1, Request::Barrier(g(), 3)), []);
    let told = keeper.task_gone(tid(3));
    assert_eq!(told.len(), 1);
    assert_eq!(told_all(&told), (&[tid(1)][..], PvmError::NoInst.code()));
    assert_eq!(number(&mut keeper, 2, Request::Barrier(g(), 3)), PvmError::NoInst.code());
    // Another takes its place.
    assert_eq!(number(&mut keeper, 7, Request::Join(g(), true)), 2);
    assert_eq!(ask(&mut keeper, 1, Request::Barrier(g(), 3)), []);
    assert_eq!(ask(&mut keeper, 2, Request::Barrier(g(), 3)), []);
    let told = ask(&mut keeper, 7, Request::Barrier(g(), 3));
    assert_eq!(told_all(&told), (&[tid(1), tid(2), tid(7)][..], 3));
}

#[test]
fn who_has_arrived_and_died_is_counted() {
    let mut keeper = group_of(1..4);
    assert_eq!(ask(&mut keeper, 1, Request::Barrier(g(), 3)), []);
    assert_eq!(keeper.task_gone(tid(1)), []);
    assert_eq!(ask(&mut keeper, 2, Request::Barrier(g(), 3)), []);
    assert_eq!(first(&ask(&mut keeper, 3, Request::Barrier(g(), 3))[0].body), 3);
}

#[test]
fn a_barrier_of_all_does_not_wait_for_the_dead() {
    let mut keeper = group_of(1..4);
    ask(&mut keeper, 1, Request::Barrier(g(), -1));
    ask(&mut keeper, 2, Request::Barrier(g(), -1));
    let told = keeper.task_gone(tid(3));
    assert_eq!(told_all(&told), (&[tid(1), tid(2)][..], 2));
}

#[test]
fn a_barrier_of_all_is_for_those_who_are_there() {
    let mut keeper = group_of(1..4);
    ask(&mut keeper, 1, Request::Barrier(g(), -1));
    joined(&mut keeper, "g", 4..5);
    ask(&mut keeper, 2, Request::Barrier(g(), -1));
    assert_eq!(number(&mut keeper, 3, Request::Barrier(g(), 3)), PvmError::Mismatch.code());
    assert_eq!(ask(&mut keeper, 4, Request::Barrier(g(), 4)), []);
    let told = ask(&mut keeper, 3, Request::Leave(g()));
    assert_eq!(told_all(&told), (&[tid(1), tid(2), tid(4)][..], 3));
    // Those who gave a number wait for one that may come back.
    ask(&mut keeper, 1, Request::Barrier(g(), 3));
    ask(&mut keeper, 2, Request::Barrier(g(), 3));
    assert_eq!(ask(&mut keeper, 4, Request::Leave(g())).len(), 1);
    joined(&mut keeper, "g", 4..5);
    assert_eq!(first(&ask(&mut keeper, 4, Request::Barrier(g(), 3))[0].body), 3);
}

#[test]
fn a_barrier_of_nobody_is_refused_and_leaves_nothing_behind() {
    let mut keeper = group_of(1..2);
    for count in [0, -2, i32::MIN] {
        assert_eq!(number(&mut keeper, 1, Request::Barrier(g(), count)), PvmError::Mismatch.code());
    }
    assert_eq!(number(&mut keeper, 1, Request::Barrier(g(), 1)), 1);
}

#[test]
fn a_static_group_that_loses_a_member_is_dead() {
    let mut keeper = group_of(1..4);
    for n in 1..4 {
        ask(&mut keeper, n, Request::Static(g(), 3));
    }
    assert_eq!(number(&mut keeper, 9, Request::Join(g(), true)), PvmError::NotInGroup.code());
    assert_eq!(number(&mut keeper, 1, Request::Static(g(), 3)), PvmError::DupGroup.code());
    assert_eq!(ask(&mut keeper, 1, Request::Barrier(g(), 3)), []);
    let told = keeper.task_gone(tid(2));
    assert_eq!(told_all(&told), (&[tid(1)][..], PvmError::NoGroup.code()));
    assert_eq!(number(&mut keeper, 1, Request::Barrier(g(), 2)), PvmError::NoGroup.code());
    assert_eq!(number(&mut keeper, 9, Request::Join(g(), true)), PvmError::NotInGroup.code());
}

#[test]
fn whoever_has_a_view_is_told_once_that_it_is_old() {
    let mut keeper = agreeing(1..12);
    let old = view(&mut keeper, 4);
    assert!(old.ours && old.barriers && old.members.len() == 11);
    let answers = ask(&mut keeper, 20, Request::Join(g(), false));
    assert_eq!((&answers[0].to[..], answers[0].tag), (&[tid(4)][..], tag::CHANGED));
    assert_eq!(ask(&mut keeper, 21, Request::Join(g(), true)).len(), 1, "nobody has a view any more");
    passed(&mut keeper, 4, None);
    let new = view(&mut keeper, 4);
    assert!(!new.ours && !new.barriers && new.epoch > old.epoch);
}

#[test]
fn there_is_no_view_until_it_is_known_what_all_have_passed() {
    let mut keeper = agreeing(1..5);
    let now = view(&mut keeper, 1);
    assert!(now.barriers && now.turn == 0);
    for n in 2..5 {
        assert_eq!(view(&mut keeper, n), now);
    }
    let told = keeper.task_gone(tid(4));
    assert_eq!((&told[0].to[..], told[0].tag), (&[tid(1), tid(2), tid(3)][..], tag::CHANGED));
    assert_eq!(ask_view(&mut keeper, 1), []);
    assert_eq!(passed(&mut keeper, 1, Some((now.epoch, 7))), []);
    assert_eq!(ask_view(&mut keeper, 9), [], "nor for one that is no member");
    assert_eq!(passed(&mut keeper, 2, Some((now.epoch, 8))), []);
    joined(&mut keeper, "g", 5..6);
    let answers = passed(&mut keeper, 3, None);
    assert_eq!(answers.iter().map(|answer| answer.to[0]).collect::<Vec<_>>(), [tid(1), tid(9)]);
    let next = read_view(&answers[0]);
    assert!(next.turn == 8 && !next.barriers && next.has(tid(5)) && next.epoch > now.epoch);
    assert_eq!(view(&mut keeper, 3).turn, 8);
}

#[test]
fn members_that_end_or_leave_are_not_waited_for_and_what_they_have_passed_counts() {
    for dies in [false, true] {
        let mut keeper = agreeing(1..4);
        let now = [1, 2, 3].map(|n| view(&mut keeper, n))[0].clone();
        // Each says so before it goes.
        assert_eq!(passed(&mut keeper, 3, Some((now.epoch, 4))), []);
        let told = if dies { keeper.task_gone(tid(3)) } else { ask(&mut keeper, 3, Request::Leave(g())) };
        assert_eq!(&told[0].to[..], [tid(1), tid(2)]);
        assert_eq!(passed(&mut keeper, 1, Some((now.epoch, 3))), []);
        assert_eq!(ask_view(&mut keeper, 1), []);
        let answers = keeper.task_gone(tid(2));
        assert_eq!(read_view(&answers[0]).turn, 4);
        keeper.task_gone(tid(1));
        assert!(keeper.is_empty());
    }
}

#[test]
fn what_was_passed_in_older_epochs_or_other_groups_counts_for_nothing() {
    let mut keeper = agreeing(1..3);
    let now = [1, 2].map(|n| view(&mut keeper, n))[0].clone();
    assert_eq!(passed(&mut keeper, 7, Some((now.epoch, 9))), [], "it is no member");
    joined(&mut keeper, "g", 3..4);
    let group = Key::of(OsStr::new("other"));
    assert_eq!(ask(&mut keeper, 1, Request::Passed(group, None)), []);
    assert_eq!(ask_view(&mut keeper, 1), [], "that was another group");
    passed(&mut keeper, 1, Some((now.epoch - 1, 9)));
    passed(&mut keeper, 2, Some((now.epoch + 1, 9)));
    assert_eq!(view(&mut keeper, 2).turn, 0);
}

#[test]
fn those_who_wait_for_a_view_of_a_group_that_vanishes_are_told() {
    let mut keeper = agreeing(1..3);
    (1..3).for_each(|n| drop(view(&mut keeper, n)));
    joined(&mut keeper, "g", 3..4);
    assert_eq!(ask_view(&mut keeper, 9), []);
    keeper.task_gone(tid(1));
    keeper.task_gone(tid(3));
    let answers = keeper.task_gone(tid(2));
    assert_eq!((&answers[0].to[..], first(&answers[0].body)), (&[tid(9)][..], PvmError::NoGroup.code()));
    assert!(keeper.is_empty());
}

#[test]
fn one_who_goes_by_the_keeper_takes_all_others_along() {
    let mut keeper = agreeing(1..12);
    assert!(view(&mut keeper, 1).barriers);
    let answers = ask(&mut keeper, 2, Request::Barrier(g(), 11));
    assert_eq!((&answers[0].to[..], answers[0].tag), (&[tid(1)][..], tag::CHANGED));
    passed(&mut keeper, 1, None);
    assert!(!view(&mut keeper, 1).barriers);
    for n in [1, 3, 4, 5, 6, 7, 8, 9, 10] {
        assert_eq!(ask(&mut keeper, n, Request::Barrier(g(), 11)), []);
    }
    let answers = ask(&mut keeper, 11, Request::Barrier(g(), 11));
    assert_eq!(answers[0].tag, tag::CHANGED, "they may agree again");
    assert_eq!((answers[1].to.len(), first(&answers[1].body)), (11, 11));
    assert!(view(&mut keeper, 1).barriers);
}

#[test]
fn those_who_met_last_stay_known_until_all_meet_again() {
    let mut keeper = group_of(1..4);
    assert_eq!(view(&mut keeper, 1).settlers, []);
    met(&mut keeper, 1..4);
    let settlers = |view: &View| -> Vec<(Tid, bool)> {
        view.settlers.iter().map(|settler| (settler.tid, settler.lost)).collect()
    };
    let settled = view(&mut keeper, 1);
    assert_eq!(settlers(&settled), [(tid(1), false), (tid(2), false), (tid(3), false)]);
    assert_eq!(settled.settled, settled.epoch);
    number(&mut keeper, 2, Request::Leave(g()));
    joined(&mut keeper, "g", 2..3);
    let changed = view(&mut keeper, 1);
    assert_eq!(settlers(&changed), [(tid(1), false), (tid(2), true), (tid(3), false)], "though it is back");
    assert!(changed.settled == settled.settled && changed.lacks_some() && !changed.has_gap());
    // Two of three are not all.
    met(&mut keeper, 1..3);
    assert_eq!(view(&mut keeper, 1), changed);
    let answers = ask(&mut keeper, 2, Request::Barrier(g(), 3));
    assert_eq!((&answers[0].to[..], answers[0].tag), (&[tid(1)][..], tag::CHANGED), "it says nothing more");
    ask(&mut keeper, 3, Request::Barrier(g(), 3));
    let waiting = view(&mut keeper, 1);
    assert_eq!(waiting.arrived, [tid(2), tid(3)]);
    assert!(waiting.has(tid(2)) && !waiting.may_speak(tid(2)));
    let answers = ask(&mut keeper, 1, Request::Barrier(g(), 3));
    assert_eq!((&answers[0].to[..], answers[0].tag), (&[tid(1)][..], tag::CHANGED), "before anybody goes on");
    assert_eq!(answers[1].tag, tag::BARRIER);
    let again = view(&mut keeper, 1);
    assert!(again.settled == again.epoch && again.epoch > changed.epoch && !again.lacks_some());
    met(&mut keeper, 1..4);
    let known = |view: View| (view.settled, view.settlers, view.members);
    assert_eq!(known(view(&mut keeper, 1)), known(again), "nothing has changed");
}

#[test]
fn members_agree_if_the_daemons_of_all_can_read_what_they_pass() {
    let mut keeper = group_of(1..3);
    assert!(!view(&mut keeper, 1).barriers, "they have not met");
    met(&mut keeper, 1..3);
    assert!(!view(&mut keeper, 1).barriers, "the other has not said so");
    let answers = ask_view(&mut keeper, 2);
    assert_eq!((&answers[0].to[..], answers[0].tag), (&[tid(1)][..], tag::CHANGED));
    assert!(read_view(&answers[1]).barriers && view(&mut keeper, 1).barriers);
    let elsewhere = 0x40000 + 1;
    joined(&mut keeper, "g", elsewhere..elsewhere + 1);
    (1..3).for_each(|n| drop(passed(&mut keeper, n, None)));
    for n in [1, 2, elsewhere] {
        ask(&mut keeper, n, Request::Barrier(g(), 3));
    }
    let answers = ask(&mut keeper, elsewhere, Request::View(g(), false));
    assert!(!read_view(&answers[0]).barriers);
}

#[test]
fn names_and_numbers_are_bounded() {
    let mut keeper = Keeper::default();
    assert_eq!(number(&mut keeper, 1, Request::Join(OsStr::new(""), true)), PvmError::NullGroup.code());
    assert_eq!(
        number(&mut keeper, 1, Request::Join(OsStr::new(&"x".repeat(5000)), true)),
        PvmError::OutOfRes.code()
    );
    assert!(keeper.is_empty());
}

/// What a member or a passer-by may do.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Leave,
    Die,
    Barrier(i32),
    Freeze(i32),
}

fn steps() -> impl Strategy<Value = Vec<(i32, Step)>> {
    let step = prop_oneof![
        4 => Just(Step::Join),
        2 => Just(Step::Leave),
        1 => Just(Step::Die),
        4 => (-1..5_i32).prop_map(Step::Barrier),
        1 => (1..4_i32).prop_map(Step::Freeze),
    ];
    prop::collection::vec((1..6_i32, step), 0..60)
}

proptest! {
    /// Instances are the lowest free ones, whatever happens; when all are gone nothing is left.
    #[test]
    fn members_are_kept_as_a_table_would(steps in steps()) {
        let mut keeper = Keeper::default();
        let mut table: BTreeMap<i32, i32> = BTreeMap::new();
        for (n, step) in steps {
            match step {
                Step::Join => {
                    let code = number(&mut keeper, n, Request::Join(g(), true));
                    if code >= 0 {
                        let lowest = (0..9).find(|i| !table.values().any(|taken| taken == i));
                        prop_assert_eq!(Some(code), lowest);
                        prop_assert!(table.insert(n, code).is_none());
                    }
                }
                Step::Leave => {
                    let code = number(&mut keeper, n, Request::Leave(g()));
                    prop_assert_eq!(code == 0, table.remove(&n).is_some());
                }
                Step::Die => {
                    keeper.task_gone(tid(n));
                    table.remove(&n);
                }
                Step::Barrier(count) => {
                    ask(&mut keeper, n, Request::Barrier(g(), count));
                }
                Step::Freeze(count) => {
                    ask(&mut keeper, n, Request::Static(g(), count));
                }
            }
            let size = number(&mut keeper, 99, Request::GSize(g()));
            prop_assert_eq!(size.max(0) as usize, table.len());
            for (&n, &instance) in &table {
                prop_assert_eq!(number(&mut keeper, 99, Request::GetTid(g(), instance)), tid(n).raw());
            }
        }
        for n in 1..6 {
            keeper.task_gone(tid(n));
        }
        prop_assert!(keeper.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic(
        requests in prop::collection::vec((1..4_i32, 0..20_i32, prop::collection::vec(any::<u8>(), 0..40)), 0..40),
    ) {
        let mut keeper = Keeper::default();
        joined(&mut keeper, "g", 1..3);
        for (n, tag, bytes) in requests {
            keeper.handle(tid(n), tag, &bytes);
            keeper.handle(tid(n), tag::VIEW + tag, &bytes);
        }
    }
}

#[test]
fn tasks_of_a_parallel_job_are_members_under_their_numbers() {
    let mut keeper = Keeper::default();
    for (n, instance) in [(7, 2), (8, 0), (9, 1)] {
        assert_eq!(keeper.enter(g(), tid(n), instance), []);
        assert_eq!(number(&mut keeper, n, Request::GetInst(g(), tid(n))), instance as i32);
    }
    assert_eq!(number(&mut keeper, 1, Request::GSize(g())), 3);
    // What cannot be is left out.
    assert_eq!(keeper.enter(g(), tid(9), 5), []);
    assert_eq!(keeper.enter(g(), tid(4), 2), []);
    assert_eq!(keeper.enter(g(), tid(5), u32::MAX), []);
    assert_eq!(number(&mut keeper, 1, Request::GSize(g())), 3);
    met(&mut keeper, 7..10);
    for n in 7..10 {
        keeper.task_gone(tid(n));
    }
    assert_eq!(keeper.len(), 0);
}
