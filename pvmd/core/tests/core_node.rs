//! A daemon as a node: what it asks of a batch's manager, given its load.

use pvm_wire::batch::{BatchId, BatchMsg};
use pvm_wire::calls::turns::{Receiver, TrafficByHost};
use pvm_wire::codes::BATCH_TAG;
use pvm_wire::daemon::{Blob, DaemonMsg, FromMaster, ToMaster};
use pvm_wire::jobs::{JobId, JobRequest, JobSent, TaskEvent, TaskOrder};
use pvm_wire::{HostIndex, MessageHeader, Tid};
use pvmd_core::event::{Action, Event, Sample};
use pvmd_simulated::daemon::config;
use pvmd_simulated::recorder::{Recorder, host, table};

const BATCH: BatchId = BatchId { home: HostIndex::MASTER, number: 1 };

/// The manager, a task on the master's host.
fn manager() -> Tid {
    HostIndex::MASTER.task(7)
}

/// Host 2, linked to the master. Its P is 4, on 2 cores.
fn node() -> Recorder {
    let mut r = Recorder::with(config(host(2)));
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    r.nothing_else();
    r
}

fn tell(r: &mut Recorder, message: &BatchMsg) {
    r.hear_message(manager(), host(2).daemon(), BATCH_TAG, &message.encode().expect("a body"));
}

/// A batch's number, and `N_a` of the application for its tasks that the node makes.
fn applies(r: &mut Recorder) -> (u64, i64) {
    let Action::SendPeer { message: DaemonMsg::Data { dsts, data, .. }, .. } = r.action() else {
        panic!("an application")
    };
    assert_eq!(dsts, [manager()]);
    match BatchMsg::decode(&data[MessageHeader::SIZE..]).expect("a batch message") {
        BatchMsg::Apply { batch, host: from, n_a, .. } if from == host(2) => (batch.number, n_a),
        other => panic!("{other:?}"),
    }
}

/// `N_a` of the application for tasks of the batch that it makes.
fn asks(r: &mut Recorder) -> i64 {
    let (batch, n_a) = applies(r);
    assert_eq!(batch, BATCH.number);
    n_a
}

/// All that it has done since.
fn drain(r: &mut Recorder) -> Vec<Action> {
    std::iter::from_fn(|| r.pending().then(|| r.action())).collect()
}

/// One of several batches of this home.
fn batch(number: u64) -> BatchId {
    BatchId { number, ..BATCH }
}

#[test]
fn an_idle_node_asks_for_p() {
    let mut r = node();
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!(asks(&mut r), 4);
    r.nothing_else();
}

#[test]
fn what_others_keep_busy_is_no_room() {
    for (busy_cores, n_a) in [(0.0, 4), (0.5, 3), (1.0, 2), (2.0, 0), (64.0, -124), (f64::NAN, 4)] {
        let mut r = node();
        r.feed(Event::Load { busy_cores });
        tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
        assert_eq!(asks(&mut r), n_a, "{busy_cores} cores busy");
    }
}

#[test]
fn a_task_may_keep_a_core_busy_without_counting_twice() {
    let mut r = node();
    r.enrol(100, 0);
    r.feed(Event::Load { busy_cores: 1.0 });
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!(asks(&mut r), 3);
}

#[test]
fn a_full_node_asks_when_others_leave_room() {
    let mut r = node();
    r.feed(Event::Load { busy_cores: 2.0 });
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!(asks(&mut r), 0);
    r.feed(Event::Load { busy_cores: 0.0 });
    assert_eq!(asks(&mut r), 4);
    r.feed(Event::Load { busy_cores: 0.0 });
    r.nothing_else();
}

#[test]
fn a_full_node_looks_again_and_never_twice_at_a_time() {
    let mut r = node();
    r.feed(Event::Load { busy_cores: 2.0 });
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!((asks(&mut r), asks(&mut r)), (0, 0));
    for _ in 0..5 {
        let when = r.core.deadline().expect("a wait");
        let mut applications = 0;
        for action in r.core.handle_timeout(when + std::time::Duration::from_millis(100)) {
            assert!(matches!(action, Action::SendPeer { .. }), "{action:?}");
            applications += 1;
        }
        assert_eq!(applications, 1);
    }
    tell(&mut r, &BatchMsg::TasksNo { batch: BATCH });
    r.core.handle_timeout(r.core.deadline().expect("the last wait"));
    assert_eq!(r.core.deadline(), None);
}

#[test]
fn queued_tasks_fill_slots_and_others_do_not() {
    let mut r = node();
    r.enrol(100, 0);
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: true });
    assert_eq!(asks(&mut r), 2, "its slots, whatever else runs");
}

#[test]
fn what_others_keep_busy_leaves_a_queue_one_slot() {
    for (busy_cores, n_a) in [(0.0, 2), (1.0, 1), (2.0, 1), (64.0, 1)] {
        let mut r = node();
        r.feed(Event::Load { busy_cores });
        tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: true });
        assert_eq!(asks(&mut r), n_a, "{busy_cores} cores busy");
    }
}

#[test]
fn a_host_without_slots_takes_nothing_from_queues() {
    let mut r = Recorder::with(pvmd_core::Config { slots: 0, ..config(host(2)) });
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: true });
    assert_eq!(asks(&mut r), 0);
}

#[test]
fn room_is_promised_to_one_batch_at_a_time() {
    let mut r = node();
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!(applies(&mut r), (1, 4));
    tell(&mut r, &BatchMsg::TasksHave { batch: batch(2), queued: false });
    assert_eq!(applies(&mut r), (2, 0));
    // The first has no tasks left: what it was asked for is free.
    tell(&mut r, &BatchMsg::TasksNo { batch: BATCH });
    assert_eq!(applies(&mut r), (2, 4));
    r.nothing_else();
}

#[test]
fn a_queue_is_promised_nothing_by_plain_batches() {
    let mut r = node();
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!(applies(&mut r), (1, 4));
    tell(&mut r, &BatchMsg::TasksHave { batch: batch(2), queued: true });
    assert_eq!(applies(&mut r), (2, 2), "its slots");
    tell(&mut r, &BatchMsg::TasksHave { batch: batch(3), queued: false });
    assert_eq!(applies(&mut r), (3, -2), "what queues get runs beside plain tasks");
}

#[test]
fn free_room_goes_to_the_batch_that_has_applied_least_lately() {
    let mut r = node();
    r.feed(Event::Load { busy_cores: 2.0 });
    for number in 1..=3 {
        tell(&mut r, &BatchMsg::TasksHave { batch: batch(number), queued: false });
        assert_eq!(applies(&mut r), (number, 0));
    }
    // Whatever becomes free goes to the three in turn, though the first never has enough.
    let mut turns = Vec::new();
    for _ in 0..6 {
        r.feed(Event::Load { busy_cores: 1.5 });
        let (number, n_a) = applies(&mut r);
        assert_eq!(n_a, 1);
        r.nothing_else();
        turns.push(number);
        r.feed(Event::Load { busy_cores: 2.0 });
        // Another manager asks anew, which makes what it was asked for void.
        tell(&mut r, &BatchMsg::TasksHave { batch: batch(number), queued: false });
        assert_eq!(applies(&mut r), (number, 0));
    }
    assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn memory_bounds_what_a_node_asks_for() {
    let mut r = Recorder::with(pvmd_core::Config { task_memory: Some(1 << 30), ..config(host(2)) });
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    for (free, n_a) in [(9 << 30, 4), (3 << 30, 3), (1, 1)] {
        r.feed(Event::Sampled(Sample { memory: 16 << 30, free, ..Sample::default() }));
        drain(&mut r);
        tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
        assert_eq!(asks(&mut r), n_a, "{free} bytes are free");
    }
}

#[test]
fn what_tasks_have_tells_what_the_next_need() {
    let mut r = node();
    r.enrol(100, 0);
    r.feed(Event::Sampled(Sample { memory: 16 << 30, free: 4 << 30, ..Sample::default() }));
    let is_it = |action: &Action| matches!(action, Action::MeasureMemory { pids } if pids == &[100]);
    assert!(drain(&mut r).iter().any(is_it));
    r.feed(Event::TaskMemory { mean: 2 << 30 });
    tell(&mut r, &BatchMsg::TasksHave { batch: BATCH, queued: false });
    assert_eq!(asks(&mut r), 2);
}

#[test]
fn a_newcomer_tells_the_load_that_it_has_measured_before() {
    let mut r = Recorder::with(config(host(2)));
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    r.feed(Event::Sampled(Sample { memory: 16 << 30, ..Sample::default() }));
    // The master knows no such host yet, and forgets it.
    drain(&mut r);
    let (members, added) = (table(1..=1), table(2..=2));
    r.order(FromMaster::TableUpdate { serial: 1, members, added, moved: Vec::new() });
    r.order(FromMaster::TableCommit { serial: 1 });
    let is_told = |action: &Action| match action {
        Action::SendPeer { host, message: DaemonMsg::Load(load) } => {
            *host == HostIndex::MASTER && load.memory == 16 << 30
        }
        _ => false,
    };
    assert_eq!(drain(&mut r).iter().filter(|action| is_told(action)).count(), 1);
}

/// The next thing told to the master that is no load.
fn reported(r: &mut Recorder) -> ToMaster {
    loop {
        if let Action::SendPeer { message: DaemonMsg::ToMaster { what, .. }, .. } = r.action() {
            return what;
        }
    }
}

#[test]
fn the_master_hears_once_a_second_what_tasks_of_jobs_send_to_other_hosts() {
    let mut r = Recorder::slave();
    let (job, program) = (JobId(7), JobRequest::new("/bin/solve", "ann", "/").program);
    let order =
        TaskOrder { job, name: "solve".into(), count: 4, has_group: true, tasks: vec![(0, 1)], program };
    r.order(FromMaster::RunTasks(Box::new(order)));
    let cookie = std::iter::from_fn(|| r.pending().then(|| r.action())).find_map(|action| match action {
        Action::Start { cookies, .. } => cookies.first().copied(),
        _ => None,
    });
    let cookie = cookie.expect("a start");
    r.started(cookie, 300);
    let ToMaster::TaskReports { reports } = reported(&mut r) else { panic!("no report") };
    assert!(matches!(reports[0].what, TaskEvent::Started { .. }));
    let (task, _) = r.enrol(300, cookie.0);
    let (stranger, _) = r.enrol(400, 0);
    let tell = |r: &mut Recorder, conn, hosts: &[(u32, u64)]| {
        let hosts = hosts.iter().map(|&(to, bytes)| Receiver { tid: host(to).host_tid(), bytes }).collect();
        r.ask(conn, &TrafficByHost { hosts });
    };
    let sent = |bytes| ToMaster::JobTraffic { sent: vec![JobSent { job, to: HostIndex::MASTER, bytes }] };
    // Of this host itself, and of one that is no member, nothing is told, nor what tasks of no job say.
    tell(&mut r, stranger, &[(1, 5)]);
    tell(&mut r, task, &[(1, 1000), (2, 5), (9, 5)]);
    assert_eq!(reported(&mut r), sent(1000));
    drain(&mut r);
    tell(&mut r, task, &[(1, u64::MAX)]);
    tell(&mut r, task, &[(1, 9)]);
    assert!(
        !drain(&mut r)
            .iter()
            .any(|action| matches!(action, Action::SendPeer { message: DaemonMsg::ToMaster { .. }, .. }))
    );
    r.pass(std::time::Duration::from_secs(1));
    assert_eq!(reported(&mut r), sent(u64::MAX));
}

#[test]
fn agents_of_a_policy_that_this_version_does_not_know_are_ignored() {
    let mut r = Recorder::slave();
    for policy in ["by magic", ""] {
        let message = Blob(vec![1, 2, 3].into());
        let message = DaemonMsg::Agent { policy: policy.to_owned(), message, cause: Some(BATCH) };
        r.hear(HostIndex::MASTER, message);
        r.nothing_else();
    }
    r.enrol(100, 0);
}
