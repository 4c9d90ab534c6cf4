//! What every way of a message promises, asked of each in turn: shared memory, a direct route, the direct route that a task makes to another
//! host by itself, our daemon's stream, and the original's.
//!
//! Messages of one task to another arrive in the order of sending, whole, of any size; the end of a task comes behind its last
//! message; what a receiver does not read stops its sender, or fails with `PvmNoMem`, and nothing that was accepted is lost.

mod rust_support;

use pvm3::{Any, Pack, PvmError, Received, Routing, Source, Task, Tid};
use rust_support::{Test, add_hosts, kill, me, process_of};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A way of messages, which a pair of tasks takes if the daemon allows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Ring,
    Direct,
    /// To another host, without being asked for. The original's daemon knows nothing of it.
    Automatic,
    Daemon,
}

const WAYS: [(&str, Way); 4] =
    [("ring", Way::Ring), ("direct", Way::Direct), ("automatic", Way::Automatic), ("daemon", Way::Daemon)];

const TESTS: &[Test] = &[
    ("order_and_sizes_by_ring", || try_by("ring", "order_and_sizes")),
    ("order_and_sizes_by_direct_route", || try_by("direct", "order_and_sizes")),
    ("order_and_sizes_by_automatic_route", || try_by("automatic", "order_and_sizes")),
    ("order_and_sizes_by_daemon", || try_by("daemon", "order_and_sizes")),
    ("both_send_at_once_by_ring", || try_by("ring", "both_send_at_once")),
    ("both_send_at_once_by_direct_route", || try_by("direct", "both_send_at_once")),
    ("both_send_at_once_by_automatic_route", || try_by("automatic", "both_send_at_once")),
    ("both_send_at_once_by_daemon", || try_by("daemon", "both_send_at_once")),
    ("the_end_comes_last_by_ring", || try_by("ring", "the_end_comes_last")),
    ("the_end_comes_last_by_direct_route", || try_by("direct", "the_end_comes_last")),
    ("the_end_comes_last_by_automatic_route", || try_by("automatic", "the_end_comes_last")),
    ("the_end_comes_last_by_daemon", || try_by("daemon", "the_end_comes_last")),
    ("what_is_not_read_stops_the_sender_by_ring", || try_by("ring", "what_is_not_read_stops_the_sender")),
    ("what_is_not_read_stops_the_sender_by_direct_route", || {
        try_by("direct", "what_is_not_read_stops_the_sender");
    }),
    ("what_is_not_read_stops_the_sender_by_automatic_route", || {
        try_by("automatic", "what_is_not_read_stops_the_sender");
    }),
    ("what_is_not_read_stops_the_sender_by_daemon", || {
        try_by("daemon", "what_is_not_read_stops_the_sender");
    }),
    ("what_is_cut_off_is_dropped_by_ring", || try_by("ring", "what_is_cut_off_is_dropped")),
    ("what_is_cut_off_is_dropped_by_direct_route", || try_by("direct", "what_is_cut_off_is_dropped")),
    ("what_is_cut_off_is_dropped_by_automatic_route", || try_by("automatic", "what_is_cut_off_is_dropped")),
    ("what_is_cut_off_is_dropped_by_daemon", || try_by("daemon", "what_is_cut_off_is_dropped")),
    ("multicasts_open_a_route_by_themselves", || try_by("automatic", "multicasts_make_a_route")),
];

const ROLES: &[Test] = &[
    ("order_and_sizes", order_and_sizes),
    ("both_send_at_once", both_send_at_once),
    ("the_end_comes_last", the_end_comes_last),
    ("what_is_not_read_stops_the_sender", what_is_not_read_stops_the_sender),
    ("what_is_cut_off_is_dropped", what_is_cut_off_is_dropped),
    ("multicasts_make_a_route", multicasts_make_a_route),
    ("multicaster", multicaster),
    ("echo", echo),
    ("talker", talker),
    ("sleeper", sleeper),
    ("cut", cut),
];

const WARM: i32 = 1;
const DONE: i32 = 2;
const ENDED: i32 = 3;
/// Tags of numbered messages begin here.
const FIRST: i32 = 100;

/// In the message itself, in a line of a ring, in a fragment, in several, in blocks.
const SIZES: [usize; 16] =
    [0, 1, 8, 31, 32, 33, 63, 64, 1000, 4031, 4032, 4033, 32_768, 65_537, 1_000_000, 5_000_000];

const LIMIT: Duration = Duration::from_secs(60);
/// What a receiver takes in unread, bytes.
const QUEUE_MAX: &str = "4000000";

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// Runs a body in a process that goes this way.
fn try_by(way: &str, body: &str) {
    let memory = if way == "ring" { "1" } else { "0" };
    if way == "automatic" && !is_ours() {
        return;
    }
    let mut command = Command::new(me());
    command.args(["role", body, way]).env("PVM_SHM", memory);
    assert!(command.status().unwrap().success(), "{body} by {way}");
}

/// Whether the daemon is this system's.
fn is_ours() -> bool {
    let task = Task::enrol().unwrap();
    let is_ours = task.daemon_is_ours();
    task.exit().unwrap();
    is_ours
}

/// The way that this process was told to go: the word behind its role.
fn way() -> Way {
    let name = std::env::args().nth(3).unwrap();
    WAYS.iter().find(|(known, _)| *known == name).unwrap().1
}

fn enrol() -> Task {
    let mut task = Task::enrol().unwrap();
    task.set_routing(match way() {
        Way::Ring | Way::Automatic => Routing::AllowDirect,
        Way::Direct => Routing::Direct,
        Way::Daemon => Routing::ByDaemon,
    });
    task
}

/// A partner, to whom messages go that way from now on.
fn partner(task: &mut Task, role: &str) -> Tid {
    let name = WAYS.iter().find(|(_, known)| *known == way()).unwrap().0;
    let memory = if way() == Way::Ring { "1" } else { "0" };
    if way() == Way::Automatic {
        add_hosts(task, &["far via=local"]);
    }
    let spawn = task.spawn(me()).args(["role", role, name]);
    let spawn = if way() == Way::Automatic { spawn.on_host("far") } else { spawn };
    let spawn = spawn.env("PVM_SHM", memory);
    // Only sleepers have a low bound: others read messages while they send.
    let spawn = if role == "sleeper" { spawn.env("PVM_QUEUE_MAX_BYTES", QUEUE_MAX) } else { spawn };
    let peer = spawn.start().unwrap().tids[0];
    let is_there = |task: &Task| task.direct_routes() == [peer];
    let end = Instant::now() + LIMIT;
    loop {
        task.send(peer, WARM, &Pack::new()).unwrap();
        task.recv(peer, WARM).unwrap();
        let is_reached = match way() {
            // With the original's daemon there is no shared memory: its stream is what is left.
            Way::Ring if task.daemon_is_ours() => is_there(task),
            Way::Direct | Way::Automatic => is_there(task),
            Way::Ring | Way::Daemon => task.direct_routes().is_empty(),
        };
        if is_reached {
            return peer;
        }
        assert!(Instant::now() < end, "no such way");
    }
}

/// Answers until the way is found.
fn answer_warm(task: &mut Task) -> (Tid, Received) {
    let parent = task.parent().unwrap();
    loop {
        let message = task.recv(parent, Any).unwrap();
        if message.tag() != WARM {
            return (parent, message);
        }
        task.send(parent, WARM, &Pack::new()).unwrap();
    }
}

fn numbered(number: i32, size: usize) -> Pack {
    let mut pack = Pack::raw();
    let bytes: Vec<u8> = (0..size).map(|index| (index as i32 ^ number) as u8).collect();
    pack.put_one(size as i64).unwrap().put(&bytes).unwrap();
    pack
}

/// A numbered message is whole, or it is none.
fn check(mut message: Received, number: i32) {
    assert_eq!(message.tag(), FIRST + number);
    let size = message.get_one::<i64>().unwrap() as usize;
    let bytes: Vec<u8> = message.get(size).unwrap();
    assert_eq!(message.len(), size + 8);
    let wrong = bytes.iter().enumerate().position(|(index, &byte)| byte != (index as i32 ^ number) as u8);
    assert_eq!(wrong, None, "{size} bytes");
}

/// Checks messages that are numbered from here on, until one has this tag; how far they go.
fn check_until(task: &mut Task, from: impl Into<Source> + Copy, last: i32, mut number: i32) -> i32 {
    loop {
        let message = task.recv(from, Any).unwrap();
        if message.tag() == last {
            return number;
        }
        check(message, number);
        number += 1;
    }
}

/// Sends back what it gets, until that has another tag.
fn echo() {
    let mut task = enrol();
    let (parent, mut message) = answer_warm(&mut task);
    while message.tag() != DONE {
        let mut pack = Pack::raw();
        pack.put(message.body().unwrap()).unwrap();
        task.send(parent, message.tag(), &pack).unwrap();
        message = task.recv(parent, Any).unwrap();
    }
    task.exit().unwrap();
}

fn order_and_sizes() {
    let mut task = enrol();
    let peer = partner(&mut task, "echo");
    // Long ones and short ones behind them: none passes another.
    for short in SIZES.into_iter().take(3) {
        let sizes: Vec<usize> = SIZES.into_iter().flat_map(|size| [size, short, 4]).collect();
        for (&size, number) in sizes.iter().zip(0..) {
            task.send(peer, FIRST + number, &numbered(number, size)).unwrap();
        }
        for number in 0..sizes.len() as i32 {
            check(task.recv(peer, Any).unwrap(), number);
        }
    }
    task.send(peer, DONE, &Pack::new()).unwrap();
    task.exit().unwrap();
}

/// Two tasks that do nothing but multicast to each other.
fn multicasts_make_a_route() {
    let mut task = enrol();
    add_hosts(&mut task, &["far via=local"]);
    let spawn = task.spawn(me()).args(["role", "multicaster", "automatic"]).on_host("far");
    let peer = spawn.env("PVM_SHM", "0").start().unwrap().tids[0];
    let end = Instant::now() + LIMIT;
    while task.direct_routes() != [peer] {
        assert!(Instant::now() < end, "no route");
        task.multicast(&[peer], WARM, &Pack::new()).unwrap();
        task.recv(peer, WARM).unwrap();
    }
    task.multicast(&[peer], DONE, &Pack::new()).unwrap();
    task.exit().unwrap();
}

fn multicaster() {
    let mut task = enrol();
    let parent = task.parent().unwrap();
    while task.recv(parent, Any).unwrap().tag() != DONE {
        task.multicast(&[parent], WARM, &Pack::new()).unwrap();
    }
    task.exit().unwrap();
}

/// Sends as much as its parent does, and receives only then.
fn talker() {
    let mut task = enrol();
    let (parent, message) = answer_warm(&mut task);
    assert_eq!(message.tag(), DONE);
    talk(&mut task, parent);
    task.exit().unwrap();
}

fn talk(task: &mut Task, peer: Tid) {
    for number in 0..100 {
        task.send(peer, FIRST + number, &numbered(number, 20_000)).unwrap();
    }
    for number in 0..100 {
        check(task.recv(peer, Any).unwrap(), number);
    }
}

fn both_send_at_once() {
    let mut task = enrol();
    let peer = partner(&mut task, "talker");
    task.send(peer, DONE, &Pack::new()).unwrap();
    talk(&mut task, peer);
    task.exit().unwrap();
}

fn the_end_comes_last() {
    let mut task = enrol();
    let peer = partner(&mut task, "echo");
    task.notify_exit(&[peer], ENDED).unwrap();
    for number in 0..20 {
        task.send(peer, FIRST + number, &numbered(number, 10_000)).unwrap();
    }
    task.send(peer, DONE, &Pack::new()).unwrap();
    for number in 0..20 {
        check(task.recv(Any, Any).unwrap(), number);
    }
    assert_eq!(task.recv(Any, Any).unwrap().tag(), ENDED);
    // Nobody is there any more, and that is no error.
    task.send(peer, WARM, &numbered(0, 100_000)).unwrap();
    assert_eq!(task.direct_routes(), []);
    task.exit().unwrap();
}

/// Reads nothing for a while, then all, and tells how many there were.
fn sleeper() {
    let mut task = enrol();
    let (parent, message) = answer_warm(&mut task);
    assert_eq!(message.tag(), DONE);
    std::thread::sleep(Duration::from_secs(1));
    let count = check_until(&mut task, parent, DONE, 0);
    let mut pack = Pack::new();
    pack.put_one(count).unwrap();
    task.send(parent, DONE, &pack).unwrap();
    task.exit().unwrap();
}

fn what_is_not_read_stops_the_sender() {
    let mut task = enrol();
    let peer = partner(&mut task, "sleeper");
    task.send(peer, DONE, &Pack::new()).unwrap();
    let mut accepted = 0;
    for _ in 0..60 {
        match task.send(peer, FIRST + accepted, &numbered(accepted, 500_000)) {
            Ok(()) => accepted += 1,
            Err(error) => assert_eq!(error.code(), PvmError::NoMem, "{error}"),
        }
    }
    assert!(accepted > 0);
    let end = Instant::now() + LIMIT;
    while let Err(error) = task.send(peer, DONE, &Pack::new()) {
        assert!(error.code() == PvmError::NoMem && Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(task.recv(peer, DONE).unwrap().get_one::<i32>().unwrap(), accepted);
    task.exit().unwrap();
}

/// Sends a short message, then long ones until it is killed.
fn cut() {
    let mut task = enrol();
    let (parent, message) = answer_warm(&mut task);
    assert_eq!(message.tag(), DONE);
    for number in 0..10_000 {
        let size = if number == 0 { 10 } else { 3_000_000 };
        while task.send(parent, FIRST + number, &numbered(number, size)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn what_is_cut_off_is_dropped() {
    let mut task = enrol();
    let peer = partner(&mut task, "cut");
    let process = process_of(&mut task, peer);
    task.notify_exit(&[peer], ENDED).unwrap();
    task.send(peer, DONE, &Pack::new()).unwrap();
    check(task.recv(peer, Any).unwrap(), 0);
    check(task.recv(peer, Any).unwrap(), 1);
    // Its current message stays incomplete.
    kill(process);
    check_until(&mut task, Any, ENDED, 2);
    assert!(task.try_recv(Any, Any).unwrap().is_none(), "nothing comes behind its end");
    task.exit().unwrap();
}
