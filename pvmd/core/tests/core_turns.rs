//! What the core tells tasks about turns, and hears from them.

use pvm_wire::HostIndex;
use pvm_wire::Tid;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::enrolment::Enrol;
use pvm_wire::calls::turns::History;
use pvm_wire::calls::turns::{Asleep, Awake, Epoch, JoinTeam, Page};
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::coscheduling::{Turn, TurnHistory};
use pvmd_core::event::{Action, Attachment, ConnId, Cookie};
use pvmd_simulated::process::introduction;
use pvmd_simulated::turns::{Host, SLICE};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn tasks_can_read_whose_turn_it_is_and_the_epoch() {
    let mut h = Host::new(1);
    h.r.ask(h.conn, &Page { direct: true });
    let Action::ShowTurn { turn } = h.r.action() else { panic!("the page says nothing") };
    assert_eq!(turn, Turn::default(), "all run");
    let Action::Send { conn, data, with: Attachment::Page, .. } = h.r.action() else { panic!("no page") };
    assert_eq!(conn, h.conn);
    let head = pvm_wire::MessageHeader::decode(data.first_chunk().unwrap());
    assert_eq!((head.tag, head.context), (Tcx::Page.tag(), CONTEXT_TC));
    let ((a, cookie), _) = (h.start("a", 11), h.start("b", 21));
    for _ in 0..4 {
        h.pass(SLICE);
    }
    let counts: Vec<u32> = h.shown.iter().map(|turn| turn.count).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5]);
    let teams: Vec<u32> = h.shown.iter().map(|turn| turn.team).collect();
    assert!(teams[0] != teams[1] && teams[0] == teams[2] && !teams.contains(&0), "{teams:?}");
    // An epoch that is adopted is seen at once, and that all run again.
    h.message(a, 77);
    assert_eq!(h.shown.last().map(|turn| (turn.count, turn.origin)), Some((77, 2)));
    h.end(cookie, 11);
    assert_eq!(h.shown.last().map(|turn| turn.team), Some(0));
}

#[test]
fn a_task_knows_the_number_of_its_team() {
    let mut h = Host::new(1);
    let _ = h.start("b", 21);
    let (_, cookie) = h.start("a", 11);
    h.r.ask(h.conn, &Page { direct: true });
    while h.r.pending() {
        h.r.action();
    }
    let child = h.r.connect();
    h.r.ask(child, &Enrol { process: introduction(11, cookie.0) });
    let mut numbers = told_numbers(&mut h);
    // A third team, so that turns go on; the task goes to the one that is there.
    let _ = h.start("c", 31);
    h.r.ask(child, &JoinTeam { name: "b".into() });
    numbers.extend(told_numbers(&mut h));
    assert_eq!(numbers, [2, 1], "as teams were made");
}

/// Numbers of teams that tasks are told with the word that turns are taken.
fn told_numbers(h: &mut Host) -> Vec<i32> {
    let mut numbers = Vec::new();
    while h.r.pending() {
        let Action::Send { data, .. } = h.r.action() else { continue };
        let (head, body) = data.split_first_chunk().unwrap();
        if pvm_wire::MessageHeader::decode(head).tag == Tcx::Turns.tag() {
            let mut body = BodyReader::new(body);
            assert_eq!(body.int(), Ok(1));
            numbers.push(body.int().unwrap());
            assert!(body.int().is_ok());
        }
    }
    numbers
}

/// The task whose process this is says what it has been told on a direct route.
fn tell_epoch(h: &mut Host, child: ConnId, src: i32, count: u32) {
    h.r.ask(child, &Epoch { by: Tid::from_raw(src), count, origin: 2 });
    h.look();
}

#[test]
fn an_epoch_on_a_direct_route_counts_as_one_on_a_message() {
    let mut h = Host::new(1);
    let ((_, cookie), _) = (h.start("a", 11), h.start("b", 21));
    let child = h.r.connect();
    h.r.ask(child, &Enrol { process: introduction(11, cookie.0) });
    h.look();
    if h.runs[&11] {
        h.pass(SLICE);
    }
    assert_eq!(h.running(), [21]);
    tell_epoch(&mut h, child, 0x80001, 0);
    assert_eq!(h.running(), [21], "an old one");
    for src in [0x40002, 0x7_c0001, 0] {
        tell_epoch(&mut h, child, src, 100);
        assert_eq!(h.running(), [21], "of nobody elsewhere: {src:#x}");
    }
    tell_epoch(&mut h, child, 0x80001, 100);
    assert_eq!(h.running(), [11]);
    // What a task makes up is paid for.
    let mut had = [0_u32; 2];
    for count in 0..20_000 {
        tell_epoch(&mut h, child, 0x80001, 200 + count * 10);
        had[usize::from(h.runs[&21])] += 1;
        h.pass(Duration::from_millis(1));
    }
    assert!(had[0].abs_diff(had[1]) <= 1000, "{had:?}: more than 5 % apart");
}

/// What the daemon remembers of turns from a number on.
fn history(h: &mut Host, since: u64) -> TurnHistory {
    h.r.ask(h.conn, &History { host: HostIndex::MASTER.host_tid(), since });
    h.r.reply::<History>(h.conn).unwrap()
}

#[test]
fn turns_are_remembered_with_what_was_refused() {
    let mut h = Host::new(1);
    assert_eq!(history(&mut h, 0), TurnHistory::default(), "nobody takes turns");
    let ((a, _), (b, cookie)) = (h.start("a", 11), h.start("b", 21));
    h.pass(SLICE);
    let waiting = if h.runs[&11] { b } else { a };
    h.message(waiting, 0);
    h.message(waiting, 0);
    h.pass(SLICE / 2);
    h.message(waiting, 40);
    h.pass(SLICE / 2);
    let told = history(&mut h, 0);
    let spans: Vec<_> =
        told.spans.iter().map(|span| (span.end - span.begin, span.epoch, span.origin, span.old)).collect();
    let (whole, half) = (SLICE.as_nanos() as u64, SLICE.as_nanos() as u64 / 2);
    assert_eq!(spans, [(whole, 1, 1, 0), (half, 2, 1, 2), (half, 40, 2, 0)]);
    let teams: Vec<_> = told.spans.iter().map(|span| span.team.as_deref().unwrap()).collect();
    assert!(teams[0] == teams[2] && teams[0] != teams[1], "{teams:?}");
    assert!(told.spans.windows(2).all(|two| two[0].end == two[1].begin));
    // What is asked for again goes on where it was; when turns have ended nothing more comes.
    h.pass(SLICE / 4);
    let more = history(&mut h, told.next);
    assert_eq!((more.spans.len(), more.spans[0].begin, more.spans[0].epoch), (1, told.spans[2].end, 40));
    h.end(cookie, 21);
    let end = history(&mut h, more.next);
    h.pass(SLICE);
    assert!(history(&mut h, end.next).spans.is_empty());
}

#[test]
fn each_turn_has_what_teams_have_used_in_it() {
    let mut h = Host::new(1);
    h.leaves_rest = true;
    let ((a, _), (b, cookie)) = (h.start("a", 11), h.start("b", 21));
    h.spend([(11, SLICE)]);
    let first = history(&mut h, 0);
    assert_eq!(first.spans.len(), 2, "of the second nothing is known yet");
    assert!(first.spans[0].uses.iter().all(|team| team.name == "a") && first.spans[1].uses.is_empty());
    let (running, (waiting, pid)) = if h.runs[&11] { ("a", (b, 21)) } else { ("b", (a, 11)) };
    // Half a slice later a message brings the other, and the daemon has worked for it.
    let half = SLICE / 2;
    let used = h.used.get_or_insert_default();
    *used.entry(if pid == 11 { 21 } else { 11 }).or_default() += half * 3 / 4;
    *used.entry(pid).or_default() += half / 8;
    h.waits.insert(pid, half / 2);
    h.r.pass(half);
    h.own = half / 8;
    h.message(waiting, 1000);
    let other = if running == "a" { "b" } else { "a" };
    h.spend([(pid, SLICE)]);
    h.pass(SLICE);
    let told = history(&mut h, first.next);
    let micros = |time: Duration| time.as_micros() as u64;
    let use_of = |span: usize, name: &str| {
        let team = told.spans[span].uses.iter().find(|team| team.name == name)?;
        Some((team.used, team.overhead, team.waited))
    };
    assert_eq!(told.spans[0].team.as_deref(), Some(running));
    assert_eq!(use_of(0, running), Some((micros(half * 3 / 4), 0, 0)));
    let (used, overhead, waited) = use_of(0, other).unwrap();
    assert_eq!((used, waited), (micros(half / 8), micros(half / 2)));
    assert!(
        overhead > 0 && overhead < micros(half / 8),
        "the daemon has answered this task, too: {overhead}"
    );
    assert_eq!(told.spans[1].team.as_deref(), Some(other));
    assert_eq!((use_of(1, other), use_of(1, running)), (Some((micros(SLICE), 0, 0)), None));
    let boosted: Vec<bool> = told.spans.iter().map(|span| span.is_boosted).collect();
    assert_eq!(boosted[..3], [false, true, false]);
    h.end(cookie, 21);
}

fn sleep(h: &mut Host, conn: ConnId, sleeps: bool) {
    if sleeps {
        h.r.ask(conn, &Asleep {});
    } else {
        h.r.ask(conn, &Awake {});
    }
    h.look();
}

#[test]
fn where_others_are_stopped_a_team_that_sleeps_lends_its_slot_at_once_and_has_it_back_at_once() {
    let mut h = Host::new(1);
    let ((_, first), (_, second)) = (h.start("a", 11), h.start("a", 12));
    let (_, third) = h.start("b", 21);
    let [first, second, other] =
        [(11, first), (12, second), (21, third)].map(|(pid, cookie)| h.enrol(pid, cookie));
    h.r.ask(h.conn, &Page { direct: true });
    h.r.action();
    h.r.action();
    if h.runs[&21] {
        h.pass(SLICE);
    }
    assert_eq!(h.running(), [11, 12]);
    let shown = h.shown.len();
    sleep(&mut h, first, true);
    assert_eq!(h.running(), [11, 12], "one of them has something to do");
    sleep(&mut h, second, true);
    assert_eq!(h.running(), [11, 12, 21]);
    sleep(&mut h, first, false);
    assert_eq!(h.running(), [11, 12], "it has its turn");
    sleep(&mut h, first, true);
    sleep(&mut h, other, true);
    assert_eq!(h.running(), [11, 12, 21], "all sleep, and whoever wakes runs");
    sleep(&mut h, other, false);
    sleep(&mut h, second, false);
    assert_eq!(h.running(), [11, 12]);
    assert_eq!(h.shown.len(), shown, "nobody else's turn has come meanwhile");
    // It pays for what it has used: who slept has the next turn, too.
    sleep(&mut h, second, true);
    for _ in 0..5 {
        h.pass(SLICE);
        assert_eq!(h.running(), [11, 12, 21]);
    }
    sleep(&mut h, second, false);
    assert_eq!(h.running(), [11, 12]);
    h.end(third, 21);
    assert_eq!(h.running(), [11, 12]);
}

/// Two teams of one, of which one sleeps half of the time.
#[test]
fn what_a_team_lends_the_others_pay_for() {
    let mut h = Host::new(1);
    let ((_, first), _) = (h.start("a", 11), h.start("b", 21));
    let first = h.enrol(11, first);
    let step = SLICE / 10;
    let mut had = [0_u32; 2];
    for round in 0..4000 {
        let sleeps = round % 2 == 1 && h.runs[&11];
        if sleeps {
            sleep(&mut h, first, true);
        }
        had[usize::from(sleeps || !h.runs[&11])] += 1;
        h.pass(step);
        if sleeps {
            sleep(&mut h, first, false);
        }
    }
    assert!(had[0].abs_diff(had[1]) <= 4000 / 10, "{had:?}");
}

#[test]
fn what_a_team_uses_before_its_first_turn_is_paid_for() {
    let mut h = Host::new(1);
    let (_, first) = h.start("a", 11);
    let first = h.enrol(11, first);
    let _ = h.start("b", 21);
    assert_eq!(h.running(), [11]);
    h.pass(SLICE / 50);
    sleep(&mut h, first, true);
    h.pass(SLICE);
    sleep(&mut h, first, false);
    assert_eq!(h.running(), [11], "it has used less");
}

/// Turns of a team that computes, beside one for which the daemon has as much to do as it computes itself.
fn turns_beside_one_with_errands(slices: u32, message_to: impl Fn(Tid, Tid) -> Tid) -> u32 {
    let mut h = Host::new(1);
    h.leaves_rest = true;
    let ((talks, _), (computes, _)) = (h.start("a", 11), h.start("b", 21));
    let mut turns = 0;
    for _ in 0..slices {
        let talks_now = h.running() == [11];
        let (pid, work) = if talks_now { (11, SLICE / 2) } else { (21, SLICE) };
        if talks_now {
            h.message(message_to(talks, computes), 0);
            h.own = SLICE / 2;
        }
        turns += u32::from(!talks_now);
        h.spend([(pid, work)]);
    }
    turns
}

#[test]
fn a_team_pays_for_what_the_daemon_does_for_it() {
    assert_eq!(turns_beside_one_with_errands(30, |talks, _| talks), 15);
    // Who is sent to pays, and for messages of somebody who takes no turns nobody does. One half is as much as the other then
    // uses, so the other never is behind.
    assert_eq!(turns_beside_one_with_errands(30, |_, computes| computes), 1);
    assert_eq!(turns_beside_one_with_errands(30, |_, _| Tid::from_bits(0x40001)), 10);
}

/// Work for half of each slice, in many pieces or in one.
const BRIEF: (Duration, u64) = (Duration::from_millis(25), 200);
const COMPUTES: (Duration, u64) = (Duration::from_millis(25), 0);

/// Lets two teams of one work for so long in each slice, and sleep so often, for a while, and something else happen in each; who
/// runs at the ends of slices.
fn after_work(
    leaves_rest: bool,
    work: [(Duration, u64); 2],
    mut more: impl FnMut(&mut Host, [(Tid, Cookie); 2]),
) -> Vec<Vec<i32>> {
    let mut h = Host::among(3, 1);
    h.leaves_rest = leaves_rest;
    h.used = Some(BTreeMap::new());
    let pids = [11, 21];
    let started = [h.start("a", pids[0]), h.start("b", pids[1])];
    let slices = (0..12).map(|_| {
        more(&mut h, started);
        for (pid, (time, sleeps)) in pids.into_iter().zip(work) {
            // Whoever is stopped does nothing.
            if leaves_rest || h.runs[&pid] {
                *h.used.get_or_insert_default().entry(pid).or_default() += time;
                *h.sleeps.entry(pid).or_default() += sleeps;
            }
        }
        h.pass(SLICE);
        h.running()
    });
    slices.collect()
}

#[test]
fn where_all_sleep_again_at_once_the_kernel_decides() {
    for leaves_rest in [true, false] {
        let slices = after_work(leaves_rest, [BRIEF, BRIEF], |_, _| {});
        assert!(slices[2..].iter().all(|running| *running == [11, 21]), "{slices:?}");
        let slices = after_work(leaves_rest, [COMPUTES, COMPUTES], |_, _| {});
        assert!(slices[4..].iter().all(|running| running.len() == 1), "{slices:?}");
    }
}

/// Whether turns are taken where the first team sleeps again at once and the second computes.
fn takes_turns_beside_one_that_computes(more: impl FnMut(&mut Host, [(Tid, Cookie); 2])) -> bool {
    let slices = after_work(true, [BRIEF, COMPUTES], more);
    let all_run =
        slices[4..].iter().filter(|running| [11, 21].iter().all(|pid| running.contains(pid))).count();
    assert!(all_run == 0 || all_run == slices.len() - 4, "{slices:?}");
    all_run == 0
}

#[test]
fn where_one_computes_by_itself_the_kernel_decides_unless_another_waits_for_several_hosts() {
    assert!(!takes_turns_beside_one_that_computes(|_, _| {}));
    assert!(!takes_turns_beside_one_that_computes(|h, [(brief, _), _]| h.message(brief, 0)));
    assert!(takes_turns_beside_one_that_computes(|h, [(brief, _), _]| {
        h.message(brief, 0);
        h.message_from(3, brief);
    }));
    // Who computes, and is waited for elsewhere.
    assert!(takes_turns_beside_one_that_computes(|h, [_, (computes, _)]| h.message(computes, 0)));
}

#[test]
fn who_sleeps_at_once_and_has_more_than_its_part_is_held_to_it() {
    let own = |part: u32| {
        takes_turns_beside_one_that_computes(move |h, [(brief, _), _]| {
            h.message(brief, 0);
            h.own = SLICE / part;
        })
    };
    assert!(!own(100) && own(5));
}

#[test]
fn teams_of_several_take_turns_if_one_computes() {
    let mut several = false;
    assert!(takes_turns_beside_one_that_computes(|h, _| {
        if !std::mem::replace(&mut several, true) {
            let _ = h.start("a", 12);
        }
    }));
}

#[test]
fn who_computes_and_sends_on_direct_routes_takes_turns() {
    let mut goes_direct = false;
    assert!(takes_turns_beside_one_that_computes(|h, [_, (_, cookie)]| {
        if !std::mem::replace(&mut goes_direct, true) {
            let conn = h.enrol(21, cookie);
            h.r.ask(conn, &Page { direct: true });
            h.look();
        }
    }));
}
