//! The core and teams that take turns.

mod recorder;

use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::{CONTEXT_TC, CONTEXT_TM, Tcx, Tm, Tmx};
use pvm_wire::coscheduling::{Turn, TurnHistory};
use pvm_wire::daemon::{Blob, DaemonMsg};
use pvm_wire::header::{EOM, SOM};
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{HostIndex, Tid};
use pvmd::core::Config;
use pvmd::core::event::{Action, ConnId, Cookie, Event};
use recorder::{Recorder, config, host};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

const SLICE: Duration = Duration::from_millis(50);

/// A daemon, and who runs there as far as it has said.
struct Host {
    r: Recorder,
    conn: ConnId,
    /// Whether each process may run, by its id.
    runs: BTreeMap<i32, bool>,
    /// What other daemons were told, turns apart.
    told: Vec<DaemonMsg>,
    /// What tasks were told about turns.
    turns: Vec<i32>,
    /// What the page has said.
    shown: Vec<Turn>,
    /// CPU time of each process; without it, all that there is, and turns cost their time.
    used: Option<BTreeMap<i32, Duration>>,
    /// Whether those who are held use what the others leave.
    leaves_rest: bool,
}

impl Host {
    fn new(cores: u32) -> Self {
        let mut r = Recorder::with(Config { slice: Some(SLICE), cores, ..config(HostIndex::MASTER) });
        let (conn, _) = r.enrol(100, 0);
        r.add_host(conn, 2);
        Self {
            r,
            conn,
            runs: BTreeMap::new(),
            told: Vec::new(),
            turns: Vec::new(),
            shown: Vec::new(),
            used: None,
            leaves_rest: false,
        }
    }

    /// Starts one task of a team.
    fn start(&mut self, team: &str, pid: i32) -> (Tid, Cookie) {
        let request = SpawnRequest {
            file: "prog".into(),
            flags: flags::HOST,
            place: ".".into(),
            count: 1,
            env: vec![format!("PVM_TEAM={team}").into()],
            ..SpawnRequest::default()
        };
        self.r.request(self.conn, Tm::Spawn, &request.encode());
        let Action::Start { cookies, program } = self.r.next() else { panic!("not a start") };
        assert!(program.env.contains(&format!("PVM_TEAM={team}").into()));
        self.runs.insert(pid, true);
        self.r.feed(Event::ProcessStarted { cookie: cookies[0], result: Ok((pid, "/bin/prog".into())) });
        let tid = self.look().expect("an answer to the spawn");
        (tid, cookies[0])
    }

    /// Does what the core wants done; the task that was spawned, if one was.
    fn look(&mut self) -> Option<Tid> {
        let mut spawned = None;
        while self.r.pending() {
            match self.r.next() {
                Action::Dispatch { pid, runs } => {
                    assert_ne!(self.runs.insert(pid, runs), Some(runs), "said twice of {pid}");
                }
                Action::ReadUsage { pids } => {
                    let of = |pid| match &self.used {
                        None => self.r.now,
                        Some(used) => used.get(pid).copied().unwrap_or_default(),
                    };
                    let times = pids.iter().map(of).collect();
                    self.r.feed(Event::Usage { times, leaves_rest: self.leaves_rest });
                }
                Action::SendPeer { message, .. } if !matches!(message, DaemonMsg::Turns { .. }) => {
                    self.told.push(message);
                }
                Action::ShowTurn { turn } => {
                    assert_ne!(self.shown.last(), Some(&turn), "said twice");
                    self.shown.push(turn);
                }
                Action::Send { data, .. } => {
                    let (head, body) = data.split_first_chunk().unwrap();
                    let head = pvm_wire::MessageHeader::decode(head);
                    let mut body = BodyReader::new(body);
                    if (head.tag, head.context) == (Tcx::Turns.tag(), CONTEXT_TC) {
                        self.turns.push(body.int().unwrap());
                    } else if head.tag == Tm::Spawn.tag() {
                        spawned = Some(Tid::from_raw(body.ints(2).unwrap()[1]));
                    }
                }
                Action::CloseTask { .. }
                | Action::Signal { .. }
                | Action::SendPeer { .. }
                | Action::Enrolled { .. }
                | Action::CheckAuth { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        spawned
    }

    fn pass(&mut self, time: Duration) {
        self.r.pass(time);
        self.look();
    }

    /// A slice in which processes use so much.
    fn spend<const N: usize>(&mut self, used: [(i32, Duration); N]) {
        let times = self.used.get_or_insert_default();
        for (pid, time) in used {
            *times.entry(pid).or_default() += time;
        }
        self.pass(SLICE);
    }

    fn running(&self) -> Vec<i32> {
        self.runs.iter().filter(|(_, runs)| **runs).map(|(&pid, _)| pid).collect()
    }

    /// The other daemon says something.
    fn hear(&mut self, message: DaemonMsg) {
        self.r.feed(Event::PeerMessage { host: host(2), message });
        self.look();
    }

    /// A message for a task comes from the other host, and its epoch.
    fn message(&mut self, dst: Tid, epoch: u64) {
        self.hear(DaemonMsg::Epoch { epoch: Some((epoch, 2)) });
        let data = Blob(pvm_wire::MessageHeader::default().encode().to_vec().into());
        self.hear(DaemonMsg::Data { src: Tid::from_bits(0x80001), dsts: vec![dst], flags: SOM | EOM, data });
    }

    fn end(&mut self, cookie: Cookie, pid: i32) {
        self.runs.remove(&pid);
        self.r.feed(Event::ProcessExited { cookie, status: ExitStatus::from_raw(0) });
        self.look();
    }
}

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
    assert_eq!(h.turns, [1], "the task that has enrolled is told once");
    h.end(second, 12);
    h.end(b, 21);
    assert_eq!(h.running(), [11]);
    assert_eq!(h.turns, [1, 0]);
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
    let body = BodyWriter::new().int(3).ints([0x80001, 0x40002, 0x80000 + 5]).finish();
    h.r.say(h.conn, Tid::MY_DAEMON, Tmx::Waiting.tag(), CONTEXT_TM, &body);
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
    let enrolment = pvm_wire::protocol::EnrolRequest { pid, cookie: cookie.0, name: None };
    h.r.say(child, Tid::MY_DAEMON, Tmx::Enrol.tag(), CONTEXT_TM, &enrolment.encode());
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
    let enrolment = pvm_wire::protocol::EnrolRequest { pid: 11, cookie: cookie.0, name: None };
    h.r.say(child, Tid::MY_DAEMON, Tmx::Enrol.tag(), CONTEXT_TM, &enrolment.encode());
    while h.r.pending() {
        h.r.next();
    }
    for (name, code) in [("", pvm_wire::PvmError::BadParam.code()), ("b", 0)] {
        h.r.say(child, Tid::MY_DAEMON, Tmx::Team.tag(), CONTEXT_TM, &BodyWriter::new().str(name).finish());
        let mut answers = Vec::new();
        while h.r.pending() {
            match h.r.next() {
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
    h.r.say(h.conn, Tid::MY_DAEMON, Tmx::Turns.tag(), CONTEXT_TM, &BodyWriter::new().int(0x40000).finish());
    let Action::ReadTimes { host, id, pids } = h.r.next() else { panic!("nobody looks") };
    assert_eq!(pids, [100, 11, 21]);
    let times = [(0, 0), (5, 15), (6, 0)];
    let times =
        times.map(|(used, waited)| (Duration::from_micros(used), Duration::from_micros(waited))).to_vec();
    h.r.feed(Event::Times { host, id, means: "priorities", times });
    let (_, message) = h.r.message();
    let report = pvm_wire::coscheduling::TurnsReport::decode(&message.body[4..]).unwrap();
    assert_eq!(
        (&*report.means, report.slice, report.is_shared, report.epoch),
        ("priorities", 50_000, true, 2)
    );
    assert_eq!(report.switches, 2);
    let teams: Vec<_> = report.teams.iter().map(|team| (&*team.name, team.runs)).collect();
    assert_eq!(teams, [("a", h.runs[&11]), ("b", h.runs[&21]), ("t40001", true)]);
    assert_eq!((&*report.teams[0].tasks, report.teams[0].waited), (&[(a, 5)][..], 15));
    h.r.say(h.conn, Tid::MY_DAEMON, Tmx::Turns.tag(), CONTEXT_TM, &BodyWriter::new().int(0x7_c0000).finish());
    let (_, message) = h.r.message();
    assert_eq!(BodyReader::new(&message.body).int(), Ok(pvm_wire::PvmError::NoHost.code()));
}

#[test]
fn tasks_can_read_whose_turn_it_is_and_the_epoch() {
    let mut h = Host::new(1);
    h.r.say(h.conn, Tid::MY_DAEMON, Tmx::Page.tag(), CONTEXT_TM, &[]);
    let Action::ShowTurn { turn } = h.r.next() else { panic!("the page says nothing") };
    assert_eq!(turn, Turn::default(), "all run");
    let Action::SendPage { conn, data, .. } = h.r.next() else { panic!("no page") };
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
    h.r.say(h.conn, Tid::MY_DAEMON, Tmx::Page.tag(), CONTEXT_TM, &[]);
    while h.r.pending() {
        h.r.next();
    }
    let child = h.r.connect();
    let enrolment = pvm_wire::protocol::EnrolRequest { pid: 11, cookie: cookie.0, name: None };
    h.r.say(child, Tid::MY_DAEMON, Tmx::Enrol.tag(), CONTEXT_TM, &enrolment.encode());
    let mut numbers = told_numbers(&mut h);
    // A third team, so that turns go on; the task goes to the one that is there.
    let _ = h.start("c", 31);
    h.r.say(child, Tid::MY_DAEMON, Tmx::Team.tag(), CONTEXT_TM, &BodyWriter::new().str("b").finish());
    numbers.extend(told_numbers(&mut h));
    assert_eq!(numbers, [2, 1], "as teams were made");
}

/// Numbers of teams that tasks are told with the word that turns are taken.
fn told_numbers(h: &mut Host) -> Vec<i32> {
    let mut numbers = Vec::new();
    while h.r.pending() {
        let Action::Send { data, .. } = h.r.next() else { continue };
        let (head, body) = data.split_first_chunk().unwrap();
        if pvm_wire::MessageHeader::decode(head).tag == Tcx::Turns.tag() {
            let mut body = BodyReader::new(body);
            assert_eq!(body.int(), Ok(1));
            numbers.push(body.int().unwrap());
        }
    }
    numbers
}

/// The task whose process this is says what it has been told on a direct route.
fn tell_epoch(h: &mut Host, child: ConnId, src: i32, count: u32) {
    let body = BodyWriter::new().int(src).int(count.cast_signed()).int(2).finish();
    h.r.say(child, Tid::MY_DAEMON, Tmx::Epoch.tag(), CONTEXT_TM, &body);
    h.look();
}

#[test]
fn an_epoch_on_a_direct_route_counts_as_one_on_a_message() {
    let mut h = Host::new(1);
    let ((_, cookie), _) = (h.start("a", 11), h.start("b", 21));
    let child = h.r.connect();
    let enrolment = pvm_wire::protocol::EnrolRequest { pid: 11, cookie: cookie.0, name: None };
    h.r.say(child, Tid::MY_DAEMON, Tmx::Enrol.tag(), CONTEXT_TM, &enrolment.encode());
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
    let body = BodyWriter::new().int(0x40000).ints([(since >> 32) as i32, since as i32]).finish();
    h.r.say(h.conn, Tid::MY_DAEMON, Tmx::History.tag(), CONTEXT_TM, &body);
    let (_, message) = h.r.message();
    TurnHistory::decode(&message.body[4..]).unwrap()
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
