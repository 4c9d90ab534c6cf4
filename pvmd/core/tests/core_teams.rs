//! The core and teams that take turns.

use pvm_wire::Tid;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::Enrol;
use pvm_wire::calls::turns::Turns;
use pvm_wire::calls::turns::{Activity, JoinTeam, Waiting};
use pvm_wire::codes::{CONTEXT_TC, Tcx, Tmx};
use pvm_wire::coscheduling::{Sent, TaskReport, TurnsReport};
use pvm_wire::daemon::DaemonMsg;
use pvmd_core::event::{Action, Event};
use pvmd_simulated::process::introduction;
use pvmd_simulated::recorder::host;
use pvmd_simulated::turns::{Host, SLICE};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn teams_take_turns_as_long_as_there_are_several() {
    let mut h = Host::new(1);
    let _ = h.start("a", 11);
    let (_, second) = h.start("a", 12);
    assert_eq!(h.running(), [11, 12]);
    assert_eq!(h.r.core.deadline(), None, "one team has the host to itself");
    let (_, b) = h.start("b", 21);
    assert_eq!(h.running().len() % 3, if h.runs[&21] { 1 } else { 2 });
    let mut had = [0, 0];
    for _ in 0..10 {
        had[usize::from(h.runs[&21])] += 1;
        assert_eq!(h.runs[&11], !h.runs[&21]);
        assert_eq!(h.runs[&11], h.runs[&12]);
        h.pass(SLICE);
    }
    assert_eq!(had, [5, 5]);
    assert_eq!(h.turns, [1, 1], "the task that has enrolled is told that they begin, and by what means");
    h.end(second, 12);
    h.end(b, 21);
    assert_eq!(h.running(), [11]);
    assert_eq!(h.turns, [1, 1, 0]);
    h.pass(SLICE);
    assert_eq!(h.running(), [11]);
    assert_eq!(h.r.core.deadline(), None);
}

#[test]
fn with_cores_enough_there_is_nothing_to_do() {
    let mut h = Host::new(4);
    for (team, pid) in [("a", 11), ("b", 12), ("c", 13), ("d", 14)] {
        let _ = h.start(team, pid);
    }
    assert_eq!(h.running().len(), 4);
    let _ = h.start("d", 15);
    // Three teams of one fit beside each other; with the team of two there is room for two of them.
    for _ in 0..8 {
        assert_eq!(h.running().len(), if h.runs[&14] { 4 } else { 3 });
        h.pass(SLICE);
    }
}

#[test]
fn a_message_brings_its_team_if_its_epoch_is_greater() {
    let mut h = Host::new(1);
    let ((a, _), (b, _)) = (h.start("a", 11), h.start("b", 21));
    let (waiting, pid) = if h.runs[&11] { (b, 21) } else { (a, 11) };
    h.message(waiting, 0);
    assert!(!h.runs[&pid], "an old message is delivered and no more");
    h.message(waiting, 7);
    assert_eq!(h.running(), [pid]);
    // A whole slice from now on; the other's messages are older.
    h.pass(SLICE.checked_sub(Duration::from_millis(1)).unwrap());
    let other = if waiting == a { b } else { a };
    h.message(other, 6);
    assert_eq!(h.running(), [pid]);
    h.pass(Duration::from_millis(1));
    assert_ne!(h.running(), [pid]);
    // What leaves from now on has this host's epoch, told once.
    h.r.say(h.conn, Tid::from_bits(0x80001), 5, 0, b"data");
    h.r.say(h.conn, Tid::from_bits(0x80001), 5, 0, b"data");
    h.look();
    assert_eq!(h.told[0], DaemonMsg::Epoch { epoch: Some((8, 1)) });
    assert!(matches!(h.told[1..], [DaemonMsg::Data { .. }, DaemonMsg::Data { .. }]), "{:?}", h.told);
}

#[test]
fn a_task_that_waits_tells_whom_it_has_sent_to() {
    let mut h = Host::new(1);
    let _ = (h.start("a", 11), h.start("b", 21));
    let receivers = [0x80001, 0x40002, 0x80000 + 5].map(Tid::from_bits).to_vec();
    h.r.ask(h.conn, &Waiting { receivers });
    h.look();
    let tids = vec![Tid::from_bits(0x80001), Tid::from_bits(0x80005)];
    assert_eq!(h.told, [DaemonMsg::Epoch { epoch: Some((1, 1)) }, DaemonMsg::Waited { tids }]);
}

#[test]
fn such_a_hint_brings_the_team() {
    let mut h = Host::new(1);
    let ((a, _), (b, _)) = (h.start("a", 11), h.start("b", 21));
    let (waiting, pid) = if h.runs[&11] { (b, 21) } else { (a, 11) };
    h.hear(DaemonMsg::Waited { tids: vec![waiting] });
    assert!(!h.runs[&pid]);
    h.hear(DaemonMsg::Epoch { epoch: Some((9, 2)) });
    h.hear(DaemonMsg::Waited { tids: vec![Tid::from_bits(0x40077), waiting] });
    assert_eq!(h.running(), [pid]);
    // Who runs out of turn there brings nobody here.
    h.hear(DaemonMsg::Epoch { epoch: None });
    h.hear(DaemonMsg::Waited { tids: vec![if waiting == a { b } else { a }] });
    assert_eq!(h.running(), [pid]);
}

/// A flood of messages with ever greater epochs, as only a forger could send them.
#[test]
fn a_flooded_team_has_no_more_than_its_share() {
    let mut h = Host::new(1);
    let ((a, _), _) = (h.start("a", 11), h.start("b", 21));
    let mut had = [0_u32; 2];
    for epoch in 0..20_000 {
        h.message(a, epoch * 10);
        had[usize::from(h.runs[&21])] += 1;
        h.pass(Duration::from_millis(1));
    }
    let difference = had[0].abs_diff(had[1]);
    assert!(difference <= 1000, "{had:?}: more than 5 % apart");
}

/// One team wants a part of the processor, the other all that is left.
fn share(part: u32) -> (Host, Duration, Duration, u32) {
    let mut h = Host::new(1);
    (h.used, h.leaves_rest) = (Some(BTreeMap::new()), true);
    let _ = (h.start("waits", 11), h.start("computes", 21));
    let (mut first, mut second, mut turns) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..200 {
        let wanted = if h.runs[&11] { SLICE * part / 100 } else { Duration::ZERO };
        turns += u32::from(h.runs[&11]);
        first += wanted;
        let rest = SLICE.saturating_sub(wanted);
        second += rest;
        h.spend([(11, wanted), (21, rest)]);
    }
    (h, first, second, turns)
}

#[test]
fn where_others_are_stopped_a_team_that_waits_gives_its_slot_up_at_once() {
    let mut h = Host::new(1);
    h.used = Some(BTreeMap::new());
    let _ = (h.start("a", 11), h.start("b", 21));
    let (mut had, mut computed) = ([0_u32; 2], Duration::ZERO);
    // The second always has something to do, the first nothing.
    for _ in 0..1000 {
        let step = SLICE / 50;
        had[usize::from(h.runs[&21])] += 1;
        if h.runs[&21] {
            computed += step;
        }
        h.used = Some([(11, Duration::ZERO), (21, computed)].into());
        h.pass(step);
    }
    assert!(had[1] >= had[0] * 5, "{had:?}");
}

#[test]
fn a_team_that_waits_most_of_the_time_runs_whenever_it_wants() {
    let (_, first, second, turns) = share(10);
    assert!(turns >= 198, "{turns} turns, {first:?} against {second:?}");
}

#[test]
fn teams_that_want_more_than_their_share_have_the_same() {
    for part in [60, 77, 100] {
        let (_, first, second, _) = share(part);
        assert!(first.abs_diff(second) <= SLICE * 4, "{part} %: {first:?} against {second:?}");
    }
}

#[test]
fn where_there_is_time_for_all_nobody_is_held() {
    let mut h = Host::new(1);
    (h.used, h.leaves_rest) = (Some(BTreeMap::new()), true);
    let ((a, _), _) = (h.start("a", 11), h.start("b", 21));
    assert_eq!(h.running().len(), 1);
    for _ in 0..3 {
        h.spend([(11, SLICE / 5), (21, SLICE / 5)]);
        assert_eq!(h.running(), [11, 21]);
    }
    // What comes brings nobody, but its epoch is known.
    h.message(a, 70);
    assert_eq!(h.running(), [11, 21]);
    h.spend([(11, SLICE / 5), (21, SLICE / 2)]);
    assert_eq!(h.running().len(), 1);
    h.r.say(h.conn, Tid::from_bits(0x80001), 5, 0, b"data");
    h.look();
    assert_eq!(h.told[0], DaemonMsg::Epoch { epoch: Some((71, 1)) });
}

/// Programs that are none of ours have most of the processor.
#[test]
fn where_others_leave_little_time_teams_take_turns() {
    let mut h = Host::new(1);
    (h.used, h.leaves_rest) = (Some(BTreeMap::new()), true);
    let _ = (h.start("a", 11), h.start("b", 21));
    let mut had = [0_u32; 2];
    for _ in 0..100 {
        for (pid, had) in [11, 21].into_iter().zip(&mut had) {
            *had += u32::from(h.runs[&pid]);
            let used = if h.runs[&pid] { SLICE / 5 } else { Duration::ZERO };
            *h.waits.entry(pid).or_default() += SLICE.saturating_sub(used);
            *h.used.get_or_insert_default().entry(pid).or_default() += used;
        }
        assert_eq!(h.running().len(), 1);
        h.pass(SLICE);
    }
    assert!(had[0].abs_diff(had[1]) <= 4, "{had:?}");
}

/// Processes that end before it is looked what they have used.
#[test]
fn a_team_of_short_processes_has_no_more_than_its_share() {
    let mut h = Host::new(1);
    (h.used, h.leaves_rest) = (Some(BTreeMap::new()), true);
    let _ = h.start("b", 21);
    let mut had = [0_u32; 2];
    let (_, mut cookie) = h.start("a", 1000);
    for pid in 1001..1401 {
        let (_, next) = h.start("a", pid);
        h.end(std::mem::replace(&mut cookie, next), pid - 1);
        had[usize::from(h.runs[&21])] += 1;
        let used = SLICE / 2;
        if h.runs[&21] { h.spend([(21, used)]) } else { h.pass(used) }
    }
    assert!(had[0] <= had[1] * 3, "{had:?}");
}

#[test]
fn who_waits_for_another_host_says_so_again_in_its_next_turn() {
    let mut h = Host::new(1);
    let ((a, first), (b, second)) = (h.start("a", 11), h.start("b", 21));
    let (running, cookie, pid) = if h.runs[&11] { (a, first, 11) } else { (b, second, 21) };
    let child = h.r.connect();
    h.r.ask(child, &Enrol { process: introduction(pid, cookie.0) });
    h.look();
    let other = Tid::from_bits(0x80001);
    h.r.say(child, other, 5, 0, b"data");
    h.look();
    h.told.clear();
    h.pass(SLICE);
    assert!(h.told.is_empty(), "it is not its turn: {:?}", h.told);
    h.pass(SLICE);
    assert_eq!(h.running(), [pid]);
    assert_eq!(h.told, [DaemonMsg::Epoch { epoch: Some((3, 1)) }, DaemonMsg::Waited { tids: vec![other] }]);
    h.told.clear();
    // An answer: it waits for nobody any more.
    h.message(running, 0);
    h.pass(SLICE);
    h.pass(SLICE);
    assert_eq!(h.running(), [pid]);
    assert!(h.told.is_empty(), "{:?}", h.told);
}

#[test]
fn a_task_changes_its_team() {
    let mut h = Host::new(1);
    let (_, cookie) = h.start("a", 11);
    let _ = h.start("b", 21);
    assert_eq!(h.running().len(), 1);
    let child = h.r.connect();
    h.r.ask(child, &Enrol { process: introduction(11, cookie.0) });
    while h.r.pending() {
        h.r.action();
    }
    for (name, code) in [("", pvm_wire::PvmError::BadParam.code()), ("b", 0)] {
        h.r.ask(child, &JoinTeam { name: name.into() });
        let mut answers = Vec::new();
        while h.r.pending() {
            match h.r.action() {
                Action::Dispatch { pid, runs } => drop(h.runs.insert(pid, runs)),
                Action::Send { data, .. } => {
                    let (head, body) = data.split_first_chunk().unwrap();
                    if pvm_wire::MessageHeader::decode(head).tag == Tmx::Team.tag() {
                        answers.push(BodyReader::new(body).int().unwrap());
                    }
                }
                _ => {}
            }
        }
        assert!(answers.contains(&code), "{answers:?}");
    }
    assert_eq!(h.running(), [11, 21], "one team has the host to itself");
    h.end(cookie, 11);
}

/// A host without turns passes on what it hears: its messages are as young as those that it answers.
#[test]
fn epochs_are_followed_where_no_turns_are_taken() {
    let mut h = Host::new(1);
    let (a, _) = h.start("a", 11);
    h.message(a, 41);
    h.r.say(h.conn, Tid::from_bits(0x80001), 5, 0, b"data");
    h.look();
    assert_eq!(h.told[0], DaemonMsg::Epoch { epoch: Some((41, 2)) });
}

#[test]
fn tasks_are_told_of_turns_elsewhere() {
    let mut h = Host::new(1);
    h.hear(DaemonMsg::Turns { taken: true });
    h.hear(DaemonMsg::Turns { taken: true });
    h.hear(DaemonMsg::Turns { taken: false });
    assert_eq!(h.turns, [1, 0]);
}

#[test]
fn a_task_asks_how_turns_are_taken() {
    let mut h = Host::new(1);
    let ((a, _), _) = (h.start("a", 11), h.start("b", 21));
    h.pass(SLICE);
    h.r.ask(h.conn, &Turns { host: host(1).host_tid() });
    assert!(matches!(h.r.action(), Action::Send { .. }), "the asker is asked for how long it spins");
    let Action::ReadTimes { host, id, pids } = h.r.action() else { panic!("nobody looks") };
    assert_eq!(pids, [100, 11, 21]);
    let times = [(0, 0), (5, 15), (6, 0)];
    let times =
        times.map(|(used, waited)| (Duration::from_micros(used), Duration::from_micros(waited))).to_vec();
    h.r.feed(Event::Times { host, id, means: "priorities", spin: Duration::from_micros(7), times });
    let (_, message) = h.r.message();
    let report = Turns::decode_answer(&message.body).unwrap().unwrap();
    assert_eq!(
        (&*report.means, report.slice, report.is_shared, report.epoch),
        ("priorities", 50_000, true, 2)
    );
    assert_eq!(report.switches, 2);
    let teams: Vec<_> = report.teams.iter().map(|team| (&*team.name, team.runs)).collect();
    assert_eq!(teams, [("a", h.runs[&11]), ("b", h.runs[&21]), ("t40001", true)]);
    let task = TaskReport { tid: a, used: 5, spin: None, sent: Sent::default() };
    assert_eq!((&*report.teams[0].tasks, report.teams[0].waited), (&[task][..], 15));
    assert_eq!((report.far_spin, report.daemon_spin), (report.spin * 5, 7000));
    h.r.ask(h.conn, &Turns { host: Tid::from_bits(0x7_c0000) });
    let (_, message) = h.r.message();
    assert_eq!(BodyReader::new(&message.body).int(), Ok(pvm_wire::PvmError::NoHost.code()));
}

/// What a task is told when it asks how turns are taken, and how many tasks were asked how long they spin.
fn report(h: &mut Host) -> (TurnsReport, usize) {
    h.r.ask(h.conn, &Turns { host: host(1).host_tid() });
    let mut asked = 0;
    loop {
        match h.r.action() {
            Action::Send { data, .. } => {
                let head = pvm_wire::MessageHeader::decode(data.first_chunk().unwrap());
                if (head.tag, head.context) == (Tcx::Activity.tag(), CONTEXT_TC) {
                    asked += 1;
                } else {
                    return (
                        Turns::decode_answer(&data[pvm_wire::MessageHeader::SIZE..]).unwrap().unwrap(),
                        asked,
                    );
                }
            }
            Action::ReadTimes { host, id, pids } => {
                let times = vec![(Duration::ZERO, Duration::ZERO); pids.len()];
                h.r.feed(Event::Times { host, id, means: "none", spin: Duration::ZERO, times });
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
}

#[test]
fn a_report_asks_tasks_how_long_they_spin_and_what_they_have_sent() {
    let mut h = Host::new(2);
    let (tid, cookie) = h.start("a", 11);
    let told = |report: &TurnsReport| {
        let task = report.teams[0].tasks.iter().find(|task| task.tid == tid).expect("the task");
        (task.spin, task.sent.messages, task.sent.bytes)
    };
    let (before, asked) = report(&mut h);
    assert_eq!((told(&before), asked), ((None, 0, 0), 1), "only the asker has enrolled");
    let conn = h.enrol(11, cookie);
    let (unanswered, asked) = report(&mut h);
    assert_eq!((told(&unanswered), asked), ((None, 0, 0), 1));
    assert_eq!(report(&mut h).1, 0, "who has not answered is not asked again");
    let say = |h: &mut Host, spin: i32| {
        h.r.ask(conn, &Activity { spin, messages: 7, bytes: 1 << 40 });
    };
    say(&mut h, 12_500);
    let (answered, asked) = report(&mut h);
    assert_eq!((told(&answered), asked), ((Some(12_500), 7, 1 << 40), 1));
    say(&mut h, -1);
    assert_eq!(told(&report(&mut h).0).0, Some(0), "there is no such time");
}

/// A host that is suspended wakes hours later; a clock that goes back would be a fault of the system's.
#[test]
fn clocks_that_jump_do_not_change_shares() {
    let mut h = Host::new(1);
    let _ = (h.start("a", 11), h.start("b", 21));
    let hour = Duration::from_secs(3600);
    let shares = |h: &mut Host| {
        let mut had = [0_u32; 2];
        for _ in 0..200 {
            assert_eq!(h.running().len(), 1);
            had[usize::from(h.runs[&21])] += 1;
            h.pass(SLICE);
        }
        assert!(had[0].abs_diff(had[1]) <= 10, "{had:?}");
    };
    shares(&mut h);
    let before = h.running();
    h.pass(hour);
    assert_ne!(h.running(), before, "one turn has ended, and not thousands");
    shares(&mut h);
    h.r.now = h.r.now.saturating_sub(SLICE / 2);
    h.pass(SLICE / 4);
    shares(&mut h);
    h.r.now = h.r.now.saturating_sub(hour);
    h.pass(hour);
    shares(&mut h);
}

#[test]
fn a_host_without_a_past_and_a_younger_one_bring_nobody_and_are_told_the_epoch() {
    let mut h = Host::new(1);
    let ((a, _), (b, _)) = (h.start("a", 11), h.start("b", 21));
    for _ in 0..10 {
        h.pass(SLICE);
    }
    let running = h.running();
    let waiting = if h.runs[&11] { b } else { a };
    // The other has never said an epoch; then that of its third slice.
    h.hear(DaemonMsg::Waited { tids: vec![waiting] });
    assert_eq!(h.running(), running);
    h.message(waiting, 3);
    assert_eq!(h.running(), running);
    h.told.clear();
    h.r.say(h.conn, Tid::from_bits(0x80001), 5, 0, b"data");
    h.look();
    assert_eq!(h.told[0], DaemonMsg::Epoch { epoch: Some((11, 1)) });
    // One that is older than this one brings its teams.
    h.message(waiting, 5000);
    assert_ne!(h.running(), running);
}
