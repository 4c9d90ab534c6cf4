//! Queued batches against a running daemon: what their parent is told, what comes of failures and of a cancellation.
//!
//! `PVM_QUEUE_TASKS=100000 cargo test --release -p libpvm --test rust_queue long -- --nocapture` tries the number that is
//! promised, and says what it took; alone it tries some hundreds.

#[allow(dead_code, reason = "other programs use the rest")]
#[path = "../c/tests/c_support/mod.rs"]
mod c_support;
mod rust_support;

use c_support::Library;
use pvm_tests::{AGENT_POLICIES, process};
use pvm_wire::queue::NOTICES_HIGH;
use pvm3::{BatchEvent, PvmError, Task, Tid};
use rust_support::{Test, daemon_pid, me};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("every_task_starts_and_ends_once", every_task_starts_and_ends_once),
    ("failures_are_made_good_as_often_as_asked", failures_are_made_good_as_often_as_asked),
    ("programs_that_are_not_there", programs_that_are_not_there),
    ("cancelled", cancelled),
    ("two_queues_share_the_slots", two_queues_share_the_slots),
    ("policies", policies),
    ("listed", listed),
    ("from_c", from_c),
    ("a_parent_that_leaves", a_parent_that_leaves),
    ("managers_that_are_killed", managers_that_are_killed),
    ("a_host_that_leaves", a_host_that_leaves),
    ("slots_that_are_taken", slots_that_are_taken),
    ("a_long_queue", a_long_queue),
    ("a_parent_that_does_not_read", a_parent_that_does_not_read),
    ("a_parent_that_reads_other_messages", a_parent_that_reads_other_messages),
];

const ROLES: &[Test] = &[
    ("brief", brief),
    ("failing", || std::process::exit(3)),
    ("sleeper", || std::thread::sleep(Duration::from_secs(60))),
    ("leaver", leaver),
    ("napper", || std::thread::sleep(Duration::from_millis(300))),
];

const NOTICES: i32 = 7;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// Enrols, tells nobody anything, and leaves.
fn brief() {
    Task::enrol().unwrap().exit().unwrap();
}

fn leaver() {
    let mut task = Task::enrol().unwrap();
    let batch = queue(&mut task, "sleeper", 1000, 0).unwrap();
    let parent = task.parent().unwrap();
    let mut pack = pvm3::Pack::new();
    pack.put_one(batch).unwrap();
    task.send(parent, 1, &pack).unwrap();
    task.exit().unwrap();
}

/// A task of our daemon; with the original's there is one thing to see.
fn enrol() -> Option<Task> {
    let mut task = Task::enrol().unwrap();
    if task.daemon_is_ours() {
        return Some(task);
    }
    assert_eq!(queue(&mut task, "brief", 1, 0).unwrap_err().code(), PvmError::NotImpl);
    assert_eq!(task.batches().unwrap_err().code(), PvmError::NotImpl);
    assert_eq!(task.cancel_batch(1).unwrap_err().code(), PvmError::NotImpl);
    None
}

fn queue(task: &mut Task, role: &str, count: usize, restarts: u32) -> pvm3::Result<i32> {
    task.spawn(me()).args(["role", role]).count(count).queued().notices(NOTICES).restarts(restarts).start()
}

fn next(task: &mut Task) -> (i32, BatchEvent) {
    let notice = task.recv_timeout(Tid::MY_DAEMON, NOTICES, LIMIT).unwrap();
    notice.expect("a notice in time").get_batch_event().unwrap()
}

/// All of one batch's notices, the last one excepted, and the last one.
fn to_the_end(task: &mut Task, batch: i32) -> (Vec<BatchEvent>, BatchEvent) {
    let mut events = Vec::new();
    loop {
        let (of, event) = next(task);
        assert_eq!(of, batch);
        if matches!(event, BatchEvent::Done { .. }) {
            assert_eq!(task.try_recv(Tid::MY_DAEMON, NOTICES).unwrap().map(|_| ()), None, "nothing follows");
            return (events, event);
        }
        events.push(event);
    }
}

fn slots() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

fn every_task_starts_and_ends_once() {
    let Some(mut task) = enrol() else { return };
    let batch = queue(&mut task, "brief", 40, 0).unwrap();
    let (events, done) = to_the_end(&mut task, batch);
    assert_eq!(done, BatchEvent::Done { done: 40, failed: 0, cancelled: 0 });
    let (mut running, mut seen) = (BTreeMap::new(), Vec::new());
    for event in events {
        match event {
            BatchEvent::Started { number, tid } => assert_eq!(running.insert(number, tid), None),
            BatchEvent::Ended { number, tid, status: 0 } => {
                assert_eq!(running.remove(&number), Some(tid));
                seen.push(number);
            }
            other => panic!("{other:?}"),
        }
        assert!(running.len() <= slots(), "{running:?}");
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

fn failures_are_made_good_as_often_as_asked() {
    let Some(mut task) = enrol() else { return };
    let batch = queue(&mut task, "failing", 3, 2).unwrap();
    let (events, done) = to_the_end(&mut task, batch);
    assert_eq!(done, BatchEvent::Done { done: 0, failed: 3, cancelled: 0 });
    let count = |which: fn(&BatchEvent) -> bool| events.iter().filter(|&event| which(event)).count();
    assert_eq!(count(|event| matches!(event, BatchEvent::Started { .. })), 9);
    assert_eq!(count(|event| matches!(event, BatchEvent::Again { status: 0x300, .. })), 6);
    assert_eq!(count(|event| matches!(event, BatchEvent::Ended { status: 0x300, .. })), 3);
    assert_eq!(events.len(), 18);
}

fn programs_that_are_not_there() {
    let Some(mut task) = enrol() else { return };
    let batch =
        task.spawn("/no/such/program").count(5).queued().notices(NOTICES).restarts(1).start().unwrap();
    let (events, done) = to_the_end(&mut task, batch);
    assert_eq!(done, BatchEvent::Done { done: 0, failed: 5, cancelled: 0 });
    let (code, tid) = (PvmError::NoFile.code(), Tid::NONE);
    let failed = |event: &&BatchEvent| matches!(**event, BatchEvent::Failed { tid: t, code: c, .. } if (t, c) == (tid, code));
    assert_eq!((events.iter().filter(failed).count(), events.len()), (5, 10), "{events:?}");

    let nowhere =
        task.spawn(me()).on_host("no.such.host").count(2).queued().notices(NOTICES).start().unwrap();
    let (events, done) = to_the_end(&mut task, nowhere);
    assert_eq!(done, BatchEvent::Done { done: 0, failed: 2, cancelled: 0 });
    assert_eq!(events.len(), 2);
    for count in [0, 262_144] {
        assert!(queue(&mut task, "brief", count, 0).is_err());
    }
}

fn cancelled() {
    let Some(mut task) = enrol() else { return };
    let batch = queue(&mut task, "sleeper", 1000, 5).unwrap();
    let BatchEvent::Started { .. } = next(&mut task).1 else { panic!("not a start") };
    task.cancel_batch(batch).unwrap();
    let (_, done) = to_the_end(&mut task, batch);
    assert_eq!(done, BatchEvent::Done { done: 0, failed: 0, cancelled: 1000 });
    for unknown in [batch, 0, -1, i32::MAX] {
        assert_eq!(task.cancel_batch(unknown).unwrap_err().code(), PvmError::NotFound, "{unknown}");
    }
}

fn two_queues_share_the_slots() {
    let Some(mut task) = enrol() else { return };
    let batches = [queue(&mut task, "brief", 30, 0).unwrap(), queue(&mut task, "brief", 30, 0).unwrap()];
    let (mut running, mut ended) = (0, Vec::new());
    while ended.len() < 2 {
        match next(&mut task) {
            (_, BatchEvent::Started { .. }) => running += 1,
            (_, BatchEvent::Ended { status: 0, .. }) => running -= 1,
            (batch, BatchEvent::Done { done: 30, failed: 0, cancelled: 0 }) => ended.push(batch),
            other => panic!("{other:?}"),
        }
        assert!(running <= slots(), "{running}");
    }
    ended.sort_unstable();
    assert_eq!(ended, batches);
}

fn policies() {
    let Some(mut task) = enrol() else { return };
    let policies = ["active-pulling", "round-robin", "proportional", "lightly-loaded"];
    for policy in policies.into_iter().chain(AGENT_POLICIES) {
        let spawned = task.spawn(me()).args(["role", "brief"]).count(4).policy(policy).start().unwrap();
        assert_eq!((spawned.tids.len(), spawned.failed.len()), (4, 0), "{policy}");
        assert_eq!(spawned.policy, policy);
        let queued =
            task.spawn(me()).args(["role", "brief"]).count(9).policy(policy).queued().notices(NOTICES);
        let batch = queued.start().unwrap();
        let (_, done) = to_the_end(&mut task, batch);
        assert_eq!(done, BatchEvent::Done { done: 9, failed: 0, cancelled: 0 }, "{policy}");
    }
    let names = "unknown policy \"fifo\"; choose one of active-pulling, round-robin, proportional, lightly-loaded, local, sender-initiated, receiver-initiated, bidding, up-down, hierarchical, graph-theoretic, coallocation";
    let plain = task.spawn("x").policy("fifo").start().unwrap_err();
    let queued = task.spawn("x").policy("fifo").queued().start().unwrap_err();
    for error in [plain, queued] {
        assert_eq!(error.code(), PvmError::NotFound);
        assert!(error.to_string().ends_with(names), "{error}");
    }
}

fn listed() {
    let Some(mut task) = enrol() else { return };
    let batch = queue(&mut task, "sleeper", 50, 0).unwrap();
    for _ in 0..slots() {
        let BatchEvent::Started { .. } = next(&mut task).1 else { panic!("not a start") };
    }
    let slots = slots() as u32;
    let record = task.batches().unwrap().into_iter().find(|record| record.id == batch).expect("it is listed");
    assert_eq!((record.total, record.running, record.waiting), (50, slots, 50 - slots));
    assert_eq!((record.parent, &*record.policy), (task.tid(), "active-pulling"));
    let node = record.nodes[0];
    assert_eq!((node.given, record.nodes.len()), (slots.into(), 1));
    let last = node.last.expect("it went by the formula");
    assert_eq!((last.p, last.n_c, last.c_i.to_bits()), (slots.into(), 1, last.c_a.to_bits()));
    task.cancel_batch(batch).unwrap();
    to_the_end(&mut task, batch);
    let record = task.batches().unwrap().into_iter().find(|record| record.id == batch).expect("it still is");
    assert_eq!((record.cancelled, record.running, record.waiting), (50, 0, 0));
}

/// The C interface, if there is a compiler.
fn from_c() {
    let Some(_) = enrol() else { return };
    let Some(program) = c_support::compile("queue.c", Library::Static, &pvm3::tmp_dir()) else { return };
    let output = Command::new(program).arg(me()).arg("7").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (bad, unknown) = (PvmError::BadParam.code(), PvmError::NotFound.code());
    let expected = format!(
        "code -1, restarts 0, {bad}, policy 0, {unknown}, 0\n7 started, 7 ended, 7 done, 0 failed, 0 cancelled\n\
         it is the batch\ncancel {unknown}\n"
    );
    assert_eq!(said, expected, "{output:?}");
}

fn a_parent_that_leaves() {
    let Some(mut task) = enrol() else { return };
    let leaver = task.spawn(me()).args(["role", "leaver"]).start().unwrap().tids[0];
    let batch: i32 = task.recv(leaver, 1).unwrap().get_one().unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        let listed = task.batches().unwrap();
        let record = listed.iter().find(|record| record.id == batch).expect("it is listed");
        if record.waiting == 0 {
            assert!(record.cancelled >= 1000 - slots() as u32, "{record:?}");
            break;
        }
        assert!(Instant::now() < end, "{record:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// If the manager is killed at any step of a batch, another one continues it, and nothing is done twice.
fn managers_that_are_killed() {
    let Some(mut task) = enrol() else { return };
    let batch = queue(&mut task, "brief", 60, 0).unwrap();
    let (mut starts, mut ends) = (vec![0; 60], vec![0; 60]);
    loop {
        match next(&mut task).1 {
            BatchEvent::Started { number, .. } => {
                starts[number as usize] += 1;
                if number % 6 == 0 {
                    for manager in managers() {
                        process::signal(manager, Signal::KILL);
                    }
                }
            }
            BatchEvent::Ended { number, status: 0, .. } => ends[number as usize] += 1,
            BatchEvent::Done { done: 60, failed: 0, cancelled: 0 } => break,
            other => panic!("batch {batch:x}: {other:?}"),
        }
    }
    assert_eq!((starts, ends), (vec![1; 60], vec![1; 60]));
}

/// Tasks that are lost with their host are started again elsewhere.
fn a_host_that_leaves() {
    let Some(mut task) = enrol() else { return };
    let added = task.add_hosts(&["near via=local", "far via=local"]).unwrap();
    let lost = added[1].as_ref().unwrap().tid;
    let batch = queue(&mut task, "napper", 8 * slots(), 1).unwrap();
    let (mut again, mut there, mut ended) = (0, 0, Vec::new());
    loop {
        match next(&mut task).1 {
            BatchEvent::Started { tid, .. } if tid.to_host() == lost => {
                there += 1;
                if there == 1 {
                    assert_eq!(task.delete_hosts(&["far"]).unwrap(), [Ok(())]);
                }
            }
            BatchEvent::Started { .. } => {}
            BatchEvent::Ended { number, status: 0, .. } => ended.push(number),
            BatchEvent::Again { .. } => again += 1,
            BatchEvent::Done { failed: 0, cancelled: 0, .. } => break,
            other => panic!("batch {batch:x}: {other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..8 * slots() as u32).collect::<Vec<_>>());
    assert!(there > 0 && again <= there, "{again} of {there} were started again");
}

/// While no host has a slot, tasks wait, and can be cancelled.
fn slots_that_are_taken() {
    let Some(mut task) = enrol() else { return };
    let full = queue(&mut task, "sleeper", slots(), 0).unwrap();
    for _ in 0..slots() {
        let BatchEvent::Started { .. } = next(&mut task).1 else { panic!("not a start") };
    }
    let batch = queue(&mut task, "brief", 10, 0).unwrap();
    let nothing = task.recv_timeout(Tid::MY_DAEMON, NOTICES, Duration::from_millis(300)).unwrap();
    assert!(nothing.is_none(), "there is no slot");
    task.cancel_batch(batch).unwrap();
    let (events, done) = to_the_end(&mut task, batch);
    assert_eq!((events, done), (vec![], BatchEvent::Done { done: 0, failed: 0, cancelled: 10 }));
    task.cancel_batch(full).unwrap();
    to_the_end(&mut task, full);
}

/// Processes of task managers.
fn managers() -> Vec<i32> {
    let is_manager = |pid: &i32| {
        process::field(*pid, "status", "Name").is_some_and(|name| name.starts_with("pvm-task-manag"))
    };
    process::children(daemon_pid()).iter().map(|child| child.pid).filter(is_manager).collect()
}

/// Resident memory of the daemon and of its task managers, kB.
fn memory() -> (u64, u64) {
    let resident = |pid| process::kilobytes(pid, "status", "VmRSS").unwrap_or(0);
    (resident(daemon_pid()), managers().into_iter().map(resident).sum())
}

fn a_long_queue() {
    let Some(mut task) = enrol() else { return };
    let count = std::env::var(rust_support::QUEUE_TASKS).map_or(300, |count| count.parse().unwrap());
    let start = Instant::now();
    let batch = queue(&mut task, "brief", count, 0).unwrap();
    let queued = start.elapsed();
    let record = task.batches().unwrap().into_iter().find(|record| record.id == batch).expect("it is listed");
    assert!(record.waiting > 0, "the call waits: {record:?}");
    let (mut ended, mut early, mut peak) = (0, (0, 0), (0, 0));
    loop {
        match next(&mut task).1 {
            BatchEvent::Started { .. } => {}
            BatchEvent::Ended { status: 0, .. } => ended += 1,
            BatchEvent::Done { done, failed: 0, cancelled: 0 } if done == count as u32 => break,
            other => panic!("{other:?}"),
        }
        if ended == count / 10 {
            early = memory();
        }
        if ended % (count / 20).max(1) == 0 {
            let now = memory();
            peak = (peak.0.max(now.0), peak.1.max(now.1));
        }
    }
    let took = start.elapsed();
    let rate = count as f64 / took.as_secs_f64();
    println!("batch {batch:x} of {count} tasks: queued in {queued:?}, over in {took:.1?}, {rate:.0} tasks/s");
    println!("daemon and managers: {early:?} kB after a tenth, {peak:?} kB at most");
    assert!(peak.0 < early.0 + 8192 && peak.1 < early.1 + 8192, "memory grows: {early:?} to {peak:?} kB");
}

/// Waits until a batch is held back by its parent's notices, of which each task has `notices`, and all that were started have
/// ended; gives how many these are.
fn started_at_last(task: &mut Task, batch: i32, notices: u32) -> u32 {
    let end = Instant::now() + LIMIT;
    loop {
        let listed = task.batches().unwrap();
        let record = listed.iter().find(|record| record.id == batch).expect("it is listed");
        let started = record.total - record.waiting;
        if started == record.done + record.failed && started * notices >= NOTICES_HIGH {
            return started;
        }
        assert!(Instant::now() < end, "{record:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The most tasks that are started for a parent with nothing but notices: each has two.
fn most_untaken() -> u32 {
    NOTICES_HIGH / 2 + slots() as u32
}

/// However long a queue is, it waits for a parent that sleeps, and goes on to its end when that takes its notices.
fn a_parent_that_does_not_read() {
    let Some(mut task) = enrol() else { return };
    let early = memory().0;
    let program = task.spawn(me()).on_host("no.such.host").count(100_000).queued().notices(NOTICES);
    let batch = program.start().unwrap();
    let ended = started_at_last(&mut task, batch, 1);
    assert_eq!(ended, NOTICES_HIGH, "tasks that failed; no notice was taken");
    let BatchEvent::Done { failed: 100_000, .. } = to_the_end(&mut task, batch).1 else {
        panic!("not the end")
    };
    let late = memory().0;
    assert!(late < early + 8192, "{early} to {late} kB");
}

/// Notices that the library has read and the program has not count, too.
fn a_parent_that_reads_other_messages() {
    let Some(mut task) = enrol() else { return };
    let count = std::env::var(rust_support::QUEUE_TASKS).map_or(650, |count| count.parse().unwrap());
    let batch = queue(&mut task, "brief", count, 0).unwrap();
    let started = started_at_last(&mut task, batch, 2);
    assert!((NOTICES_HIGH / 2..=most_untaken()).contains(&started), "{started} tasks were started");
    let early = memory().0;
    assert!(task.recv_timeout(Tid::ANY, NOTICES + 1, Duration::from_secs(2)).unwrap().is_none());
    assert_eq!(started_at_last(&mut task, batch, 2), started, "nothing was taken");
    let (events, done) = to_the_end(&mut task, batch);
    assert_eq!(done, BatchEvent::Done { done: count as u32, failed: 0, cancelled: 0 });
    assert_eq!(events.len(), 2 * count);
    let late = memory().0;
    assert!(late < early + 8192, "{early} to {late} kB");
}
