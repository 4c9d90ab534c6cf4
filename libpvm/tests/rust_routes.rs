//! Direct routes between tasks, on every daemon there is, with tasks of this library and of the original.

#[path = "rust_routes/originals.rs"]
mod originals;
mod rust_support;

use pvm3::{Any, Pack, Routing, Task, Tid};
use rust_support::{Test, add_hosts, kill, me, process_of, spawn, spawn_on, with_parent};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("route_is_asked_for_and_granted", route_is_asked_for_and_granted),
    ("route_is_refused", route_is_refused),
    ("route_comes_and_goes", route_comes_and_goes),
    ("messages_to_oneself", messages_to_oneself),
    ("crossed_requests", crossed_requests),
    ("order_while_routes_open", order_while_routes_open),
    ("order_of_multicasts", order_of_multicasts),
    ("last_words_come_before_the_notice", last_words_come_before_the_notice),
    ("floods_both_ways", floods_both_ways),
    ("peer_killed_before_it_answers", peer_killed_before_it_answers),
    ("peer_killed_in_a_send", peer_killed_in_a_send),
    ("grants_to_the_dead_are_forgotten", grants_to_the_dead_are_forgotten),
    ("many_tasks", many_tasks),
    ("between_hosts", between_hosts),
    ("a_full_queue", a_full_queue),
    ("original_asks", originals::original_asks),
    ("original_grants", originals::original_grants),
    ("original_crosses", originals::original_crosses),
    ("original_elsewhere", originals::original_elsewhere),
];

const ROLES: &[Test] = &[
    ("echo", echo),
    ("refuser", refuser),
    ("crosser", crosser),
    ("counter", counter),
    ("speaker", speaker),
    ("flooder", flooder),
    ("deaf", deaf),
    ("tired", tired),
    ("asker", asker),
    ("member", member),
    ("hoarder", hoarder),
    ("partner", originals::partner),
];

/// Tags of the tests' messages.
const WORK: i32 = 1;
const DONE: i32 = 2;
const ADDED: i32 = 3;
const DELETED: i32 = 4;
const ENDED: i32 = 5;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// A task that asks for direct routes.
fn direct() -> Task {
    let mut task = Task::enrol().unwrap();
    assert_eq!(task.set_routing(Routing::Direct), Routing::AllowDirect);
    task
}

fn number(value: i32) -> Pack {
    let mut pack = Pack::new();
    pack.put_one(value).unwrap();
    pack
}

fn bytes(size: usize, value: u8) -> Pack {
    let mut pack = Pack::raw();
    pack.put(&vec![value; size]).unwrap();
    pack
}

/// What there is in PVM's folder.
fn names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(pvm3::tmp_dir()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Time limit of one step, generous for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn wait_until(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until nothing is in PVM's folder but what was before.
fn wait_for_names(before: &BTreeSet<String>) {
    wait_until(|| names() == *before);
    assert_eq!(names(), *before, "something is left behind");
}

/// Somebody who kills a task's process after a while, while this task is in a call.
struct Killer {
    thread: std::thread::JoinHandle<()>,
    begins: Arc<AtomicBool>,
}

impl Killer {
    fn of(task: &mut Task, tid: Tid) -> Self {
        let pid = process_of(task, tid);
        let begins = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&begins);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            noted.store(true, Ordering::SeqCst);
            kill(pid);
        });
        Self { thread, begins }
    }

    /// Whether the task may be dead.
    fn has_begun(&self) -> bool {
        self.begins.load(Ordering::SeqCst)
    }
}

/// Sends back what it gets until that is empty.
fn echo() {
    let (mut task, parent) = with_parent();
    loop {
        let mut message = task.recv(parent, WORK).unwrap();
        let mut pack = Pack::raw();
        pack.put(message.body().unwrap()).unwrap();
        task.send(parent, WORK, &pack).unwrap();
        if message.is_empty() {
            return task.exit().unwrap();
        }
    }
}

fn echoes(task: &mut Task, peer: Tid, sizes: &[usize]) {
    for (&size, value) in sizes.iter().zip(1..) {
        task.send(peer, WORK, &bytes(size, value)).unwrap();
        let mut back = task.recv(peer, WORK).unwrap();
        assert!(back.body().unwrap()[..] == vec![value; size], "{size} bytes come back as others");
    }
}

fn route_is_asked_for_and_granted() {
    let mut task = direct();
    let before = names();
    let peer = spawn(&mut task, "echo", 1)[0];
    assert_eq!(task.direct_routes(), []);
    echoes(&mut task, peer, &[1, 4032, 4033, 100_000, 3_000_000]);
    assert_eq!(task.direct_routes(), [peer]);
    assert_eq!(task.fds().len(), 2);
    task.send(peer, WORK, &Pack::new()).unwrap();
    task.notify_route_delete(&[peer], DELETED).unwrap();
    assert_eq!(task.recv(Any, DELETED).unwrap().get_tid().unwrap(), peer);
    assert!(task.recv(peer, WORK).unwrap().is_empty(), "what it sent before it left has come");
    assert_eq!((task.direct_routes(), task.fds().len()), (vec![], 1));
    task.send(peer, WORK, &Pack::new()).unwrap();
    assert_eq!(task.direct_routes(), [], "nobody is there to grant one");
    wait_for_names(&before);
}

fn refuser() {
    let mut task = Task::enrol().unwrap();
    task.set_routing(Routing::ByDaemon);
    let parent = task.parent().unwrap();
    for value in 0..100 {
        assert_eq!(task.recv(parent, WORK).unwrap().get_one::<i32>().unwrap(), value);
        task.send(parent, WORK, &number(-value)).unwrap();
    }
    assert_eq!(task.direct_routes(), []);
    task.exit().unwrap();
}

fn route_is_refused() {
    let mut task = direct();
    let peer = spawn(&mut task, "refuser", 1)[0];
    for value in 0..100 {
        task.send(peer, WORK, &number(value)).unwrap();
        assert_eq!(task.recv(peer, WORK).unwrap().get_one::<i32>().unwrap(), -value);
        assert_eq!(task.direct_routes(), []);
    }
}

fn route_comes_and_goes() {
    let mut task = direct();
    task.notify_route_add(ADDED).unwrap();
    let peers = spawn(&mut task, "echo", 3);
    for &peer in &peers {
        task.notify_route_delete(&[peer], DELETED).unwrap();
        let mut gone = task.recv(Tid::MY_DAEMON, DELETED).unwrap();
        assert_eq!(
            (gone.get_tid().unwrap(), gone.get_one::<i32>().unwrap()),
            (peer, -1),
            "there is none yet"
        );
        echoes(&mut task, peer, &[10]);
        let mut added = task.recv(Tid::MY_DAEMON, ADDED).unwrap();
        assert_eq!((added.get_tid().unwrap(), added.get_one::<i32>().unwrap() > 2), (peer, true));
    }
    task.notify_route_delete(&peers, DELETED).unwrap();
    assert!(task.try_recv(Any, DELETED).unwrap().is_none());
    task.cancel_notify_route_delete(&peers[..1], DELETED).unwrap();
    assert_eq!(task.recv(Any, DELETED).unwrap().get_tid().unwrap(), peers[0], "taken back, it comes at once");
    for &peer in &peers {
        task.send(peer, WORK, &Pack::new()).unwrap();
    }
    let mut gone = [(); 2].map(|()| task.recv(Any, DELETED).unwrap().get_tid().unwrap());
    gone.sort_unstable();
    assert_eq!(gone, peers[1..]);
    task.cancel_notify_route_add(ADDED).unwrap();
    let other = spawn(&mut task, "echo", 1)[0];
    echoes(&mut task, other, &[10]);
    assert!(task.try_recv(Any, ADDED).unwrap().is_none());
}

fn messages_to_oneself() {
    let mut task = direct();
    let me = task.tid();
    for value in 0..10 {
        task.send(me, WORK, &number(value)).unwrap();
    }
    for value in 0..10 {
        assert_eq!(task.recv(me, WORK).unwrap().get_one::<i32>().unwrap(), value);
    }
    assert_eq!(task.direct_routes(), []);
}

/// Numbered messages before and after both ask each other for a route at the same moment.
fn crosser() {
    let mut task = Task::enrol().unwrap();
    let (parent, me) = (task.parent().unwrap(), task.tid());
    let siblings = task.siblings().unwrap();
    let peer = *siblings.iter().find(|&&tid| tid != me).unwrap();
    exchange(&mut task, peer);
    task.send(parent, DONE, &number(i32::from(task.direct_routes() == [peer]))).unwrap();
    task.exit().unwrap();
}

/// Exchanges 200 numbered messages with a task that does the same, half way with the wish for a route.
fn exchange(task: &mut Task, peer: Tid) {
    let mut expected = 0;
    for value in 0..200 {
        if value == 20 {
            task.set_routing(Routing::Direct);
        }
        task.send(peer, WORK, &number(value)).unwrap();
        while value % 7 == 0 && expected < value {
            assert_eq!(task.recv(peer, WORK).unwrap().get_one::<i32>().unwrap(), expected);
            expected += 1;
        }
    }
    for value in expected..200 {
        assert_eq!(task.recv(peer, WORK).unwrap().get_one::<i32>().unwrap(), value);
    }
}

fn crossed_requests() {
    let mut task = Task::enrol().unwrap();
    let before = names();
    for _ in 0..8 {
        let pairs: Vec<_> = (0..3).flat_map(|_| spawn(&mut task, "crosser", 2)).collect();
        for tid in pairs {
            assert_eq!(task.recv(tid, DONE).unwrap().get_one::<i32>().unwrap(), 1, "{tid} has no route");
        }
    }
    wait_for_names(&before);
}

/// How many numbers a counter sends.
const COUNT: i32 = 4000;

/// Sends its parent numbers without a pause; the parent asks for a route meanwhile. If it is slow, it is waited for half way.
fn counter() {
    let (mut task, parent) = with_parent();
    let mut value = 0;
    while value < COUNT {
        for _ in 0..10 {
            task.send(parent, WORK, &number(value)).unwrap();
            value += 1;
        }
        task.poll().unwrap();
        if value == COUNT / 2 {
            task.recv(parent, WORK).unwrap();
        }
    }
    task.send(parent, DONE, &number(task.direct_routes().len() as i32)).unwrap();
    task.exit().unwrap();
}

/// Takes a counter's numbers and opens a route to it after some.
fn count(task: &mut Task, peer: Tid, before: i32) {
    let expect = |task: &mut Task, value| {
        let found = task.recv(peer, WORK).unwrap().get_one::<i32>().unwrap();
        assert_eq!(found, value, "numbers change places with a route after {before}");
    };
    task.set_routing(Routing::AllowDirect);
    (0..before).for_each(|value| expect(task, value));
    task.set_routing(Routing::Direct);
    task.send(peer, WORK, &Pack::new()).unwrap();
    (before..COUNT).for_each(|value| expect(task, value));
    // If the counter has asked for the route first, it opens after the send above, and may have ended by now. The counter knows of it.
    assert_eq!(task.recv(peer, DONE).unwrap().get_one::<i32>().unwrap(), 1);
}

fn order_while_routes_open() {
    let mut task = Task::enrol().unwrap();
    task.notify_route_add(ADDED).unwrap();
    for round in 0..24 {
        let peer = spawn(&mut task, "counter", 1)[0];
        count(&mut task, peer, round * 9);
    }
    let mut routes = 0;
    while task.try_recv(Any, ADDED).unwrap().is_some() {
        routes += 1;
    }
    assert_eq!(routes, 24);
}

fn order_of_multicasts() {
    let mut task = direct();
    let peers = spawn(&mut task, "echo", 3);
    task.multicast(&peers, WORK, &bytes(3, 9)).unwrap();
    assert_eq!(task.direct_routes(), [], "a multicast asks for no routes");
    echoes(&mut task, peers[0], &[]);
    for value in 1..100 {
        for &peer in &peers[..2] {
            task.send(peer, WORK, &bytes(5, value)).unwrap();
        }
        task.multicast(&peers, WORK, &bytes(70_000, value)).unwrap();
    }
    assert_eq!(task.direct_routes(), peers[..2]);
    for &peer in &peers {
        assert_eq!(task.recv(peer, WORK).unwrap().body().unwrap()[..], [9; 3]);
        for value in 1..100 {
            if peer != peers[2] {
                assert!(task.recv(peer, WORK).unwrap().body().unwrap()[..] == [value; 5]);
            }
            assert!(task.recv(peer, WORK).unwrap().body().unwrap()[..] == vec![value; 70_000]);
        }
    }
}

/// Speaks on a route and leaves.
fn speaker() {
    let mut task = direct();
    let parent = task.parent().unwrap();
    task.send(parent, WORK, &number(1)).unwrap();
    task.recv(parent, WORK).unwrap();
    for value in 2..6 {
        task.send(parent, WORK, &number(value)).unwrap();
    }
    // Unread messages do not destroy what it has sent.
    std::thread::sleep(Duration::from_millis(5));
    task.exit().unwrap();
}

fn last_words_come_before_the_notice() {
    let mut task = Task::enrol().unwrap();
    for _ in 0..20 {
        let peers = spawn(&mut task, "speaker", 2);
        task.notify_exit(&peers, ENDED).unwrap();
        for &peer in &peers {
            assert_eq!(task.recv(peer, WORK).unwrap().get_one::<i32>().unwrap(), 1);
            task.send(peer, WORK, &Pack::new()).unwrap();
            task.send(peer, WORK, &Pack::new()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(30));
        let (mut spoken, mut ended) = (0, 0);
        while ended < 2 {
            let mut message = task.recv(Any, Any).unwrap();
            if message.tag() == ENDED {
                let tid = message.get_tid().unwrap();
                assert!(task.try_recv(tid, Any).unwrap().is_none(), "words after the end");
                ended += 1;
            } else {
                spoken += 1;
            }
        }
        assert_eq!(spoken, 8);
    }
}

/// Sends 16 MiB before it receives anything.
fn flood_with(task: &mut Task, peer: Tid) {
    for value in 0..8 {
        task.send(peer, WORK, &bytes(2 << 20, value)).unwrap();
    }
    for value in 0..8 {
        assert!(
            task.recv(peer, WORK).unwrap().body().unwrap()[..] == vec![value; 2 << 20],
            "messages are mixed up"
        );
    }
}

fn flooder() {
    let mut task = direct();
    let parent = task.parent().unwrap();
    flood_with(&mut task, parent);
    task.send(parent, DONE, &number(task.direct_routes().len() as i32)).unwrap();
    task.exit().unwrap();
}

fn floods_both_ways() {
    let mut task = direct();
    let peer = spawn(&mut task, "flooder", 1)[0];
    flood_with(&mut task, peer);
    assert_eq!(task.recv(peer, DONE).unwrap().get_one::<i32>().unwrap(), 1);
}

/// A file that is there from the moment on in which a task hears nothing any more.
fn deafness() -> std::path::PathBuf {
    pvm3::tmp_dir().join("deaf")
}

/// Is in no call any more, until it is killed.
fn receive_nothing() {
    std::fs::write(deafness(), "").unwrap();
    std::thread::sleep(Duration::from_secs(1000));
}

fn wait_until_deaf() {
    wait_until(|| deafness().exists());
    std::fs::remove_file(deafness()).expect("it hears nothing");
}

/// Is there, and hears nothing.
fn deaf() {
    let _task = Task::enrol().unwrap();
    receive_nothing();
}

/// Hears nothing after the first message, which it answers.
fn tired() {
    let (mut task, parent) = with_parent();
    task.recv(parent, WORK).unwrap();
    task.send(parent, WORK, &Pack::new()).unwrap();
    receive_nothing();
}

fn peer_killed_before_it_answers() {
    let mut task = Task::enrol().unwrap();
    let before = names();
    let peer = spawn(&mut task, "deaf", 1)[0];
    wait_until_deaf();
    task.set_routing(Routing::Direct);
    let killer = Killer::of(&mut task, peer);
    task.send(peer, WORK, &number(1)).unwrap();
    assert!(killer.has_begun(), "it waits for the answer, and not for ever");
    task.send(peer, WORK, &number(2)).unwrap();
    assert_eq!(task.direct_routes(), []);
    killer.thread.join().unwrap();
    wait_for_names(&before);
}

fn peer_killed_in_a_send() {
    let mut task = direct();
    let before = names();
    let peer = spawn(&mut task, "tired", 1)[0];
    task.send(peer, WORK, &number(1)).unwrap();
    task.recv(peer, WORK).unwrap();
    wait_until_deaf();
    assert_eq!(task.direct_routes(), [peer]);
    task.notify_route_delete(&[peer], DELETED).unwrap();
    task.notify_exit(&[peer], ENDED).unwrap();
    let killer = Killer::of(&mut task, peer);
    task.send(peer, WORK, &bytes(64 << 20, 7)).unwrap();
    assert!(killer.has_begun(), "nobody has read it");
    assert_eq!(task.recv(Any, DELETED).unwrap().get_tid().unwrap(), peer);
    assert_eq!(task.recv(Any, ENDED).unwrap().get_tid().unwrap(), peer);
    killer.thread.join().unwrap();
    wait_for_names(&before);
    let other = spawn(&mut task, "echo", 1)[0];
    echoes(&mut task, other, &[1000]);
}

/// Asks for a route and is killed before it can use it.
fn asker() {
    let task = direct();
    let parent = task.parent().unwrap();
    let mut task = task;
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        kill(std::process::id() as i32);
    });
    task.send(parent, WORK, &Pack::new()).unwrap();
}

fn grants_to_the_dead_are_forgotten() {
    let mut task = Task::enrol().unwrap();
    let before = names();
    let peers = spawn(&mut task, "asker", 5);
    task.notify_exit(&peers, ENDED).unwrap();
    // Nothing is granted in a sleep; the requests are found when their senders are dead.
    std::thread::sleep(Duration::from_millis(600));
    for _ in &peers {
        task.recv(Any, ENDED).unwrap();
    }
    wait_until(|| task.poll().is_ok() && task.fds().len() == 1);
    assert_eq!(task.fds().len(), 1, "grants stay");
    wait_for_names(&before);
}

/// Talks to everybody in its list.
fn member() {
    let mut task = direct();
    let (parent, me) = (task.parent().unwrap(), task.tid());
    let group: Vec<Tid> = task.recv(parent, WORK).unwrap().get_value().unwrap();
    let others: Vec<Tid> = group.into_iter().filter(|&tid| tid != me).collect();
    for value in 0..3 {
        for &other in &others {
            task.send(other, WORK, &number(value)).unwrap();
        }
    }
    for &other in &others {
        for value in 0..3 {
            assert_eq!(task.recv(other, WORK).unwrap().get_one::<i32>().unwrap(), value);
        }
    }
    let routes = task.direct_routes();
    assert_eq!(routes.into_iter().collect::<BTreeSet<_>>(), others.into_iter().collect());
    task.send(parent, DONE, &Pack::new()).unwrap();
    // Leaving would close routes on which others still look for theirs.
    task.recv(parent, DONE).unwrap();
    task.exit().unwrap();
}

fn many_tasks() {
    let mut task = Task::enrol().unwrap();
    let before = names();
    let tids = spawn(&mut task, "member", 200);
    for group in tids.chunks(16) {
        let mut list = Pack::new();
        list.put_value(&group).unwrap();
        task.multicast(group, WORK, &list).unwrap();
    }
    for &tid in &tids {
        task.recv(tid, DONE).unwrap();
    }
    task.notify_exit(&tids, ENDED).unwrap();
    task.multicast(&tids, DONE, &Pack::new()).unwrap();
    for _ in &tids {
        task.recv(Any, ENDED).unwrap();
    }
    wait_for_names(&before);
}

fn between_hosts() {
    let mut task = direct();
    if !task.daemon_is_ours() {
        println!("several hosts are not tried with the original daemon");
        return;
    }
    add_hosts(&mut task, &["near via=local", "far via=local"]);
    for host in ["near", "far"] {
        let peer = spawn_on(&mut task, "echo", host);
        echoes(&mut task, peer, &[1, 4033, 3_000_000]);
        assert_eq!(task.direct_routes(), [peer]);
        task.notify_route_delete(&[peer], DELETED).unwrap();
        task.send(peer, WORK, &Pack::new()).unwrap();
        assert!(task.recv(peer, WORK).unwrap().is_empty());
        assert_eq!(task.recv(Any, DELETED).unwrap().get_tid().unwrap(), peer);
        let peer = spawn_on(&mut task, "flooder", host);
        flood_with(&mut task, peer);
        assert_eq!(task.recv(peer, DONE).unwrap().get_one::<i32>().unwrap(), 1);
        task.notify_route_delete(&[peer], DELETED).unwrap();
        task.recv(Any, DELETED).unwrap();
    }
    for (round, host) in ["near", "far", "near", "far"].into_iter().enumerate() {
        let peer = spawn_on(&mut task, "counter", host);
        count(&mut task, peer, round as i32 * 10);
    }
}

/// Has little room for messages that it does not want yet.
fn hoarder() {
    let (mut task, parent) = with_parent();
    task.send(parent, DONE, &Pack::new()).unwrap();
    let error = task.recv(parent, DONE).unwrap_err();
    assert_eq!(error.code(), pvm3::PvmError::NoMem);
    for value in 0..40 {
        assert!(task.recv(parent, WORK).unwrap().body().unwrap()[..] == vec![value; 30_000]);
    }
    task.send(parent, DONE, &Pack::new()).unwrap();
}

fn a_full_queue() {
    let mut task = direct();
    let spawn = task.spawn(me()).args(["role", "hoarder"]).env("PVM_QUEUE_MAX_BYTES", "100000");
    let peer = spawn.start().unwrap().tids[0];
    task.recv(peer, DONE).unwrap();
    for value in 0..40 {
        task.send(peer, WORK, &bytes(30_000, value)).unwrap();
    }
    assert_eq!(task.direct_routes(), [peer]);
    task.recv(peer, DONE).unwrap();
}
