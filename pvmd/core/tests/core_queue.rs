//! The core alone: queued batches in their home, from the request to the last notice.

use pvm_wire::batch::{BatchId, BatchMsg};
use pvm_wire::body::BodyReader;
use pvm_wire::calls::Request;
use pvm_wire::calls::spawn::{BatchList, Batches, CancelBatch};
use pvm_wire::calls::turns::NoticesTaken;
use pvm_wire::codes::{BATCH_TAG, Tm};
use pvm_wire::daemon::{DaemonMsg, PeerReply, PeerRequest};
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::queue::{
    BatchDecision, BatchEvent, DECISIONS_KEPT, NOTICES_HIGH, PolicyMessages, QueueRequest,
};
use pvm_wire::spawn::{POLICY_VARIABLE, SpawnRequest, entry, flags};
use pvm_wire::{HostIndex, PvmError, Tid};
use pvmd_core::event::{Action, ConnId, Cookie, Event};
use pvmd_simulated::recorder::{Recorder, anywhere, host};
use std::time::Duration;

/// Context and tag of the notices.
const NOTICES: (i32, i32) = (5, 77);
const OWN: HostIndex = HostIndex::MASTER;

/// A home with a parent, and all that it has said since a test looked last.
struct Home {
    r: Recorder,
    parent: ConnId,
    /// The connection and the process of the manager that was started last.
    manager: (ConnId, Cookie),
    managers: i32,
    notices: Vec<BatchEvent>,
    /// To managers.
    said: Vec<BatchMsg>,
    starts: Vec<Cookie>,
    signals: Vec<i32>,
    /// To the parent, other than notices: the integers of each.
    answers: Vec<Vec<i32>>,
    /// To other daemons.
    told: Vec<DaemonMsg>,
    /// Whether managers can be started.
    has_managers: bool,
}

impl Home {
    fn new() -> Self {
        let mut r = Recorder::master();
        let (parent, _) = r.enrol(200, 0);
        r.nothing_else();
        let manager = (ConnId(0), Cookie(0));
        let (notices, said, starts, signals, answers, told) = Default::default();
        Self {
            r,
            parent,
            manager,
            managers: 0,
            notices,
            said,
            starts,
            signals,
            answers,
            told,
            has_managers: true,
        }
    }

    /// A home that is no node of its batches: host 2 is.
    fn with_node() -> Self {
        let mut home = Self::new();
        home.r.add_host(home.parent, 2);
        home
    }

    fn feed(&mut self, event: Event) {
        self.r.feed(event);
        self.settle();
    }

    /// Carries out what is to be done: managers start and enrol, all else is written down.
    fn settle(&mut self) {
        while self.r.pending() {
            match self.r.action() {
                Action::Send { conn, header, data, .. } => {
                    let bytes = pvm_wire::FragmentHeader::SIZE + data.len();
                    self.r.feed(Event::TaskDrained { conn, bytes });
                    let mut message = pvm_wire::Reassembler::new(1 << 20);
                    let pvm_wire::message::Assembled::Whole(message) = message.push(&header, data).unwrap()
                    else {
                        panic!("of several fragments");
                    };
                    self.hear(conn, &message);
                }
                Action::Start { cookies, program, .. } if program.manager => self.start_manager(cookies[0]),
                Action::Start { cookies, .. } => self.starts.extend(cookies),
                Action::Signal { pid, .. } => self.signals.push(pid),
                Action::SendPeer { message, .. } => self.told.push(message),
                Action::CloseTask { .. } | Action::EndFamily { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn hear(&mut self, conn: ConnId, message: &pvm_wire::Message) {
        let ints = || BodyReader::new(&message.body).ints(message.body.len() / 4).expect("integers");
        if conn != self.parent {
            self.said.push(BatchMsg::decode(&message.body).expect("a batch message"));
        } else if (message.header.context, message.header.tag) == NOTICES {
            let ints = ints().try_into().expect("five integers");
            self.notices.push(BatchEvent::from_ints(ints).expect("a notice").1);
        } else {
            self.answers.push(ints());
        }
    }

    fn start_manager(&mut self, cookie: Cookie) {
        if !self.has_managers {
            return self
                .r
                .feed(Event::ProcessStarted { cookie, result: Err((PvmError::NoFile, "none".into())) });
        }
        self.managers += 1;
        let pid = 300 + self.managers;
        self.r.feed(Event::ProcessStarted { cookie, result: Ok((pid, "manager".into())) });
        assert!(!self.r.pending());
        self.manager = (self.r.enrol(pid, cookie.0).0, cookie);
    }

    /// The parent queues this number of tasks, each with this number of restarts.
    fn queue(&mut self, count: i32, restarts: i32, spawn: SpawnRequest) -> i32 {
        let spawn = SpawnRequest { file: "program".into(), count, ..spawn };
        let request = QueueRequest { context: NOTICES.0, tag: NOTICES.1, restarts, spawn };
        self.ask(&request);
        self.answers.remove(0)[0]
    }

    /// The same, and the manager is asked to place the tasks: the batch as its parent knows it, and as daemons do.
    fn batch(&mut self, count: i32, restarts: i32) -> (i32, BatchId) {
        let id = self.queue(count, restarts, SpawnRequest::default());
        (id, self.placed(count as u64))
    }

    fn ask(&mut self, request: &impl Request) {
        self.r.ask(self.parent, request);
        self.settle();
    }

    /// The manager decides.
    fn decide(&mut self, message: &BatchMsg) {
        self.r.say(self.manager.0, OWN.daemon(), BATCH_TAG, 0, &message.encode().expect("a body"));
        self.settle();
    }

    fn grant(&mut self, batch: BatchId, host: HostIndex, n: u64) {
        self.decide(&BatchMsg::Grant { batch, host, n, terms: None });
    }

    /// The batches of the machine, and what policies have cost. Other hosts have none.
    fn list(&mut self) -> BatchList {
        self.r.ask(self.parent, &Batches {});
        let DaemonMsg::Request { id, what: PeerRequest::Batches } = self.r.told() else {
            panic!("host 2 is not asked")
        };
        let what = PeerReply::Batches { batches: Vec::new(), policies: Vec::new() };
        self.r.answers(host(2), id, what);
        self.r.reply::<Batches>(self.parent).expect("the batches")
    }

    /// How many tasks the manager was asked to place; the batch.
    fn placed(&mut self, expected: u64) -> BatchId {
        match self.said.remove(0) {
            BatchMsg::Place { batch, count, soft: false, .. } if count == expected => batch,
            other => panic!("{other:?}"),
        }
    }

    /// The oldest process that was asked for runs; its task.
    fn started(&mut self, pid: i32) -> Cookie {
        let cookie = self.starts.remove(0);
        self.feed(Event::ProcessStarted { cookie, result: Ok((pid, "/bin/program".into())) });
        cookie
    }

    fn ended(&mut self, cookie: Cookie, status: i32) {
        self.r.ended(cookie, status);
        self.settle();
    }

    /// Host 2 answers an order.
    fn replies(&mut self, id: pvm_wire::daemon::RequestId, what: PeerReply) {
        self.r.answers(host(2), id, what);
        self.settle();
    }

    fn manager_dies(&mut self) {
        let (conn, cookie) = self.manager;
        self.feed(Event::TaskClosed { conn, reason: None });
        self.ended(cookie, 9);
    }

    fn notices(&mut self) -> Vec<BatchEvent> {
        std::mem::take(&mut self.notices)
    }

    #[track_caller]
    fn nothing_is_left(&mut self) {
        let census = self.r.core.census();
        let left = (census.spawns, census.waiting_batches, census.open_batches, census.pending);
        assert_eq!(left, (0, 0, 0, 0));
        assert_eq!(self.said.iter().filter(|said| matches!(said, BatchMsg::Place { .. })).count(), 0);
    }
}

fn tids(notices: &[BatchEvent]) -> Vec<(u32, Tid)> {
    let started = |notice: &BatchEvent| match *notice {
        BatchEvent::Started { number, tid } => Some((number, tid)),
        _ => None,
    };
    notices.iter().filter_map(started).collect()
}

#[test]
fn what_is_asked_for_badly_is_refused_by_both_calls_alike() {
    let bad = [
        (0, "", PvmError::BadParam),
        (-1, "", PvmError::BadParam),
        (BATCH_MAX as i32 + 1, "", PvmError::OutOfRes),
        (1, "by magic", PvmError::NotFound),
    ];
    for (count, policy, error) in bad {
        let mut home = Home::new();
        let spawn = SpawnRequest { policy: policy.into(), ..anywhere(count) };
        assert_eq!(home.queue(count, 0, spawn.clone()), error.code());
        home.r.ask(home.parent, &spawn);
        assert_eq!(home.r.answer(home.parent, Tm::Spawn)[0], error.code());
        home.nothing_is_left();
    }
}

#[test]
fn a_batch_is_told_of_from_its_first_start_to_its_end() {
    let mut home = Home::new();
    let (id, batch) = home.batch(3, 0);
    assert!(id > 0);
    home.grant(batch, OWN, 2);
    let first = home.started(400);
    let second = home.started(401);
    let running = tids(&home.notices());
    assert_eq!(running.iter().map(|run| run.0).collect::<Vec<_>>(), [0, 1]);
    home.ended(first, 0);
    assert_eq!(home.notices(), [BatchEvent::Ended { number: 0, tid: running[0].1, status: 0 }]);
    home.grant(batch, OWN, 1);
    let third = home.started(402);
    assert_eq!(home.said.last(), Some(&BatchMsg::Done { batch }), "nothing is left to hand out");
    home.decide(&BatchMsg::TasksNo { batch });
    home.notices();
    home.ended(second, 3 << 8);
    home.ended(third, 0);
    let notices = home.notices();
    assert_eq!(notices.last(), Some(&BatchEvent::Done { done: 2, failed: 1, cancelled: 0 }));
    assert_eq!(notices.len(), 3);
    home.nothing_is_left();
}

#[test]
fn a_task_that_fails_is_placed_again_as_often_as_it_may() {
    let mut home = Home::new();
    let (_, batch) = home.batch(1, 1);
    home.grant(batch, OWN, 1);
    let cookie = home.started(400);
    home.decide(&BatchMsg::TasksNo { batch });
    home.said.clear();
    home.notices();
    home.ended(cookie, 9);
    let [BatchEvent::Again { number: 0, status: 9, .. }] = home.notices()[..] else { panic!("not again") };
    assert_eq!(home.placed(1), batch, "it was released, and has a manager again");
    home.grant(batch, OWN, 1);
    let cookie = home.started(401);
    home.ended(cookie, 9);
    let notices = home.notices();
    assert_eq!(notices[2..], [BatchEvent::Done { done: 0, failed: 1, cancelled: 0 }]);
    home.decide(&BatchMsg::TasksNo { batch });
    home.nothing_is_left();
}

#[test]
fn a_cancelled_batch_ends_what_runs_and_what_is_being_started() {
    let mut home = Home::new();
    let (id, batch) = home.batch(5, 3);
    home.grant(batch, OWN, 2);
    let first = home.started(400);
    let second = home.starts[0];
    home.notices();
    home.ask(&CancelBatch { batch: id });
    assert_eq!(
        (home.answers.remove(0), home.signals.len()),
        (vec![0], 0),
        "the start of both is not known yet"
    );
    home.grant(batch, OWN, 3);
    assert_eq!(home.starts, [second], "nothing more is started");
    home.started(401);
    assert_eq!(home.signals, [400, 401]);
    home.ended(first, 15);
    home.ended(second, 15);
    home.decide(&BatchMsg::TasksNo { batch });
    assert_eq!(home.notices().last(), Some(&BatchEvent::Done { done: 0, failed: 0, cancelled: 5 }));
    home.ask(&CancelBatch { batch: id });
    assert_eq!(home.answers.remove(0), [PvmError::NotFound.code()]);
    home.nothing_is_left();
}

#[test]
fn a_batch_that_no_node_can_take_fails_as_fast_as_its_notices_are_taken() {
    let mut home = Home::new();
    let (_, batch) = home.batch(3000, 0);
    home.decide(&BatchMsg::NoNodes { batch });
    home.decide(&BatchMsg::TasksNo { batch });
    let lost = |number| BatchEvent::Failed { number, tid: Tid::NONE, code: PvmError::NoHost.code() };
    let notices = home.notices();
    assert_eq!(notices.len(), NOTICES_HIGH as usize);
    assert!((0..).zip(&notices).all(|(number, notice)| *notice == lost(number)));
    let mut rest = Vec::new();
    while home.r.core.census().spawns > 0 {
        home.ask(&NoticesTaken { count: NOTICES_HIGH });
        assert!(!home.notices.is_empty(), "the batch stands still");
        rest.extend(home.notices());
    }
    assert_eq!(rest.last(), Some(&BatchEvent::Done { done: 0, failed: 3000, cancelled: 0 }));
    assert_eq!(notices.len() + rest.len(), 3001);
    home.nothing_is_left();
}

#[test]
fn without_a_manager_a_batch_fails_and_a_spawn_says_why() {
    let mut home = Home::new();
    home.has_managers = false;
    home.queue(2, 1, SpawnRequest::default());
    let notices = home.notices();
    assert_eq!(notices.len(), 3);
    assert_eq!(notices[2], BatchEvent::Done { done: 0, failed: 2, cancelled: 0 });
    let spawn = anywhere(2);
    home.r.ask(home.parent, &spawn);
    let Action::Start { cookies, .. } = home.r.action() else { panic!("not a manager's start") };
    home.r.feed(Event::ProcessStarted { cookie: cookies[0], result: Err((PvmError::NoFile, "none".into())) });
    let (to, message) = home.r.message();
    assert_eq!(to, home.parent);
    let said = String::from_utf8_lossy(&message.body).into_owned();
    assert!(said.contains("no task manager can be started"), "{said}");
    home.nothing_is_left();
}

#[test]
fn nodes_hear_that_a_batch_is_over_whose_manager_died_when_nothing_waited() {
    let mut home = Home::new();
    let (_, batch) = home.batch(1, 0);
    home.grant(batch, OWN, 1);
    home.manager_dies();
    let cookie = home.started(400);
    home.ended(cookie, 0);
    assert_eq!(home.notices().last(), Some(&BatchEvent::Done { done: 1, failed: 0, cancelled: 0 }));
    home.nothing_is_left();
}

#[test]
fn a_batch_goes_on_under_another_manager() {
    let mut home = Home::new();
    let (_, batch) = home.batch(2, 0);
    home.grant(batch, OWN, 1);
    home.manager_dies();
    assert_eq!((home.managers, home.placed(1)), (2, batch));
    home.grant(batch, OWN, 1);
    for pid in [400, 401] {
        let cookie = home.started(pid);
        home.ended(cookie, 0);
    }
    home.decide(&BatchMsg::TasksNo { batch });
    assert_eq!(home.notices().last(), Some(&BatchEvent::Done { done: 2, failed: 0, cancelled: 0 }));
    home.nothing_is_left();
}

/// The number of the oldest order to another host, and how many tasks it is of.
fn order(home: &mut Home) -> (pvm_wire::daemon::RequestId, u32) {
    match home.told.remove(0) {
        DaemonMsg::Request { id, what: PeerRequest::Exec { count, .. } } => (id, count),
        other => panic!("not an order: {other:?}"),
    }
}

fn started_on(results: &[i32]) -> PeerReply {
    PeerReply::Started { results: results.to_vec(), refusals: vec![], has_owner: false }
}

#[test]
fn what_a_host_leaves_to_its_owner_is_placed_again_and_uses_no_restart() {
    let mut home = Home::with_node();
    let (_, batch) = home.batch(1, 1);
    // The host does not even start it.
    home.grant(batch, host(2), 1);
    let (request, 1) = order(&mut home) else { panic!("another order") };
    home.replies(request, PeerReply::Started { results: vec![], refusals: vec![], has_owner: true });
    assert!(home.notices().is_empty());
    // The host may be the only one: it is not asked again at once.
    assert!(!home.said.contains(&BatchMsg::More { batch, count: 1 }));
    home.r.pass(Duration::from_millis(250));
    home.settle();
    assert!(home.said.contains(&BatchMsg::More { batch, count: 1 }), "{:?}", home.said);
    let mut local = 0;
    // It leaves twice, fails once, which is made good by its only restart, and fails again.
    for leaves in [true, true, false, false] {
        local += 1;
        let tid = host(2).task(local);
        home.grant(batch, host(2), 1);
        let (request, 1) = order(&mut home) else { panic!("another order") };
        home.replies(request, started_on(&[tid.raw()]));
        home.notices();
        let message = DaemonMsg::BatchTaskEnded { batch, number: 0, tid, status: 15, leaves };
        home.r.hear(host(2), message);
        home.settle();
        let again = BatchEvent::Again { number: 0, tid, status: 15 };
        let ended = BatchEvent::Ended { number: 0, tid, status: 15 };
        assert_eq!(home.notices()[0], if local < 4 { again } else { ended });
    }
    home.decide(&BatchMsg::TasksNo { batch });
    home.said.clear();
    home.nothing_is_left();
}

#[test]
fn a_spawn_on_a_host_with_its_owner_is_refused_and_elsewhere_succeeds() {
    let mut home = Home::with_node();
    let spawn = anywhere(1);
    let pinned = SpawnRequest { place: "node2".into(), flags: flags::HOST, ..spawn.clone() };
    home.ask(&pinned);
    let (request, 1) = order(&mut home) else { panic!("another order") };
    let has_owner = || PeerReply::Started { results: vec![], refusals: vec![], has_owner: true };
    home.replies(request, has_owner());
    assert_eq!(home.answers.remove(0)[..2], [1, PvmError::OutOfRes.code()]);
    home.ask(&spawn);
    let BatchMsg::Place { batch, .. } = home.said.remove(0) else { panic!("not to be placed") };
    home.grant(batch, host(2), 1);
    let (request, 1) = order(&mut home) else { panic!("another order") };
    home.replies(request, has_owner());
    assert!(home.answers.is_empty());
    home.grant(batch, OWN, 1);
    home.started(400);
    assert!(home.answers.remove(0)[1] > 0);
    home.decide(&BatchMsg::TasksNo { batch });
    home.nothing_is_left();
}

#[test]
fn what_a_lost_host_was_given_is_placed_again_unless_the_batch_is_cancelled() {
    for cancelled in [false, true] {
        let mut home = Home::with_node();
        let (id, batch) = home.batch(3, 0);
        home.grant(batch, host(2), 2);
        let (request, 2) = order(&mut home) else { panic!("another order") };
        let result = host(2).task(1).raw();
        home.replies(request, started_on(&[result]));
        let notices = home.notices();
        let none = BatchEvent::Failed { number: 1, tid: Tid::NONE, code: PvmError::DSysErr.code() };
        assert_eq!(notices, [BatchEvent::Started { number: 0, tid: host(2).task(1) }, none]);
        home.grant(batch, host(2), 1);
        order(&mut home);
        if cancelled {
            home.ask(&CancelBatch { batch: id });
        }
        home.said.clear();
        home.feed(Event::PeerLost { host: host(2), reason: "a cable".into(), has_ended: false });
        home.decide(&BatchMsg::TasksNo { batch });
        let lost = BatchEvent::Failed { number: 0, tid: host(2).task(1), code: PvmError::HostFail.code() };
        if cancelled {
            assert_eq!(home.notices(), [lost, BatchEvent::Done { done: 0, failed: 1, cancelled: 2 }]);
        } else {
            assert_eq!(home.notices(), [lost]);
            assert!(home.said.contains(&BatchMsg::More { batch, count: 1 }), "{:?}", home.said);
            home.decide(&BatchMsg::NoNodes { batch });
            assert_eq!(home.notices().last(), Some(&BatchEvent::Done { done: 0, failed: 3, cancelled: 0 }));
        }
        home.nothing_is_left();
    }
}

#[test]
fn a_parent_that_leaves_has_nothing_more_started() {
    let mut home = Home::new();
    let (_, batch) = home.batch(4, 2);
    home.grant(batch, OWN, 1);
    let cookie = home.started(400);
    home.feed(Event::TaskClosed { conn: home.parent, reason: None });
    assert!(home.signals.is_empty(), "what runs goes on");
    home.decide(&BatchMsg::TasksNo { batch });
    home.ended(cookie, 0);
    home.nothing_is_left();
}

#[test]
fn eight_batches_at_a_time_have_managers_and_a_spawn_does_not_wait_for_them() {
    let mut home = Home::new();
    for _ in 0..9 {
        home.queue(1, 0, SpawnRequest::default());
    }
    assert_eq!((home.managers, home.r.core.census().waiting_batches), (8, 1));
    let spawn = anywhere(1);
    home.ask(&spawn);
    assert_eq!((home.managers, home.r.core.census().waiting_batches), (9, 1));
    assert!(matches!(home.said.last(), Some(BatchMsg::Place { soft: true, .. })));
}

#[test]
fn a_pinned_spawn_fails_with_its_host() {
    let mut home = Home::with_node();
    let spawn = SpawnRequest { place: "node2".into(), flags: flags::HOST, ..anywhere(2) };
    home.ask(&spawn);
    assert_eq!(order(&mut home).1, 2);
    home.feed(Event::PeerLost { host: host(2), reason: "a cable".into(), has_ended: false });
    assert_eq!(home.answers.remove(0)[..3], [2, PvmError::HostFail.code(), PvmError::HostFail.code()]);
    assert_eq!(home.managers, 0);
    home.nothing_is_left();
}

/// What host 2 says to the manager of a batch.
fn applies(home: &mut Home, batch: BatchId, manager: Tid) {
    let asks = BatchMsg::Apply { batch, host: host(2), p: 4, p_c: 0, n_a: 4, capability: 1000.0 }
        .encode()
        .expect("a body");
    home.r.hear_message(host(2).daemon(), manager, BATCH_TAG, &asks);
    home.settle();
}

#[test]
fn a_batch_tells_what_its_placement_has_cost_and_who_was_given_what_when() {
    let mut home = Home::with_node();
    let (id, batch) = home.batch(2, 0);
    // The manager is the second task of this host.
    let manager = OWN.task(2);
    let to_node = |home: &mut Home, message: BatchMsg| {
        home.r.say(home.manager.0, host(2).daemon(), BATCH_TAG, 0, &message.encode().expect("a body"));
        home.settle();
    };
    to_node(&mut home, BatchMsg::TasksHave { batch, queued: true });
    applies(&mut home, batch, manager);
    home.r.pass(Duration::from_millis(3));
    home.settle();
    home.grant(batch, OWN, 2);
    let list = home.list();
    let [record] = &list.batches[..] else { panic!("{list:?}") };
    assert_eq!((record.id, record.nodes[0].given), (id, 2));
    // Placed and granted here; offered to host 2, which has applied.
    assert_eq!(record.messages, PolicyMessages { between_hosts: 2, at_home: 2 });
    assert_eq!(record.decisions, [BatchDecision { after: 3000, host: OWN, count: 2 }]);

    for pid in [500, 501] {
        let cookie = home.started(pid);
        home.ended(cookie, 0);
    }
    // The batch is over, and its manager says so to the nodes.
    to_node(&mut home, BatchMsg::TasksNo { batch });
    let list = home.list();
    // Besides the two: what the manager has heard since on its own host.
    let is_from_far =
        |said: &&BatchMsg| matches!(said, BatchMsg::Apply { host: from, .. } if *from == host(2));
    let heard = home.said.iter().filter(|said| !is_from_far(said)).count() as u64;
    assert!(home.said.contains(&BatchMsg::Done { batch }), "{:?}", home.said);
    assert_eq!(list.batches[0].messages, PolicyMessages { between_hosts: 3, at_home: 2 + heard });
    let [tally] = &list.policies[..] else { panic!("{list:?}") };
    assert_eq!((&tally.policy[..], tally.host, tally.batches, tally.given), ("active-pulling", OWN, 1, 2));
    assert_eq!(tally.messages, list.batches[0].messages, "it was the only batch");
}

#[test]
fn only_the_last_decisions_of_a_batch_are_kept_and_no_task_but_a_manager_counts() {
    let mut home = Home::with_node();
    let (_, batch) = home.batch(DECISIONS_KEPT as i32 + 5, 0);
    for _ in 0..DECISIONS_KEPT + 5 {
        home.grant(batch, host(2), 1);
    }
    let grant = BatchMsg::Grant { batch, host: OWN, n: 1, terms: None }.encode().expect("a body");
    home.r.say(home.parent, OWN.daemon(), BATCH_TAG, 0, &grant);
    home.settle();
    home.told.clear();
    let record = home.list().batches.remove(0);
    assert_eq!(record.decisions.len(), DECISIONS_KEPT);
    assert!(record.decisions.iter().all(|decision| (decision.host, decision.count) == (host(2), 1)));
    assert_eq!(record.messages, PolicyMessages { between_hosts: 0, at_home: DECISIONS_KEPT as u64 + 6 });
}

/// A task of a batch, whose own spawns are to be placed by this policy.
fn child_with_policy(home: &mut Home, policy: &str) -> ConnId {
    let env = vec![entry(POLICY_VARIABLE, policy)];
    home.queue(1, 0, SpawnRequest { env, ..SpawnRequest::default() });
    let batch = home.placed(1);
    home.grant(batch, OWN, 1);
    let cookie = home.started(600);
    let (child, _) = home.r.enrol(600, cookie.0);
    home.r.nothing_else();
    child
}

#[test]
fn spawns_of_a_task_that_has_a_policy_of_its_own_have_it_unless_they_name_one() {
    let mut home = Home::new();
    let child = child_with_policy(&mut home, "round-robin");
    for (named, placed_by) in [("", "round-robin"), ("proportional", "proportional")] {
        let spawn = SpawnRequest { policy: named.into(), ..anywhere(1) };
        home.r.ask(child, &spawn);
        home.settle();
        let placed = home.said.iter().rev().find_map(|said| match said {
            BatchMsg::Place { policy, .. } => Some(&policy[..]),
            _ => None,
        });
        assert_eq!(placed, Some(placed_by));
    }
}

#[test]
fn a_task_whose_policy_does_not_exist_is_told_so_when_it_spawns() {
    let mut home = Home::new();
    let child = child_with_policy(&mut home, "by magic");
    home.r.ask(child, &anywhere(1));
    let refused = home.r.reply::<SpawnRequest>(child).expect_err("there is no such policy");
    assert_eq!(refused.code, PvmError::NotFound.code());
    assert!(refused.reason.contains("unknown policy \"by magic\"; choose one of"), "{}", refused.reason);
}
