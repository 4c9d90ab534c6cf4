//! Messages between tasks of one host in shared memory, on every daemon there is; the original's hands no memory over.

mod rust_support;

use pvm3::{Any, Pack, Routing, Task, Tid};
use rust_support::{Test, check_numbered, kill, numbered, process_of, spawn, with_parent};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("order_across_routes", order_across_routes),
    ("multicasts_share_a_body", multicasts_share_a_body),
    ("floods_are_answered", floods_are_answered),
    ("last_words_of_the_killed", last_words_of_the_killed),
    ("nothing_is_shared_before_it_is_of_use", nothing_is_shared_before_it_is_of_use),
    ("polls_keep_the_order_of_tags", polls_keep_the_order_of_tags),
];

const ROLES: &[Test] = &[
    ("checker", checker),
    ("drain", drain),
    ("speaker", speaker),
    ("stranger", stranger),
    ("worker", worker),
];

/// Tags of the tests' messages.
const WORK: i32 = 1;
const DONE: i32 = 2;
const ENDED: i32 = 3;
const READY: i32 = 4;

/// Time limit of one step, generous for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Messages that are numbered.
const COUNT: i32 = 3000;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// Messages of a flood, and floods.
const FLOOD: usize = 64;
const FLOODS: usize = 3000;

/// Takes floods, and answers each.
fn drain() {
    let (mut task, parent) = with_parent();
    for _ in 0..FLOODS {
        (0..FLOOD).for_each(|_| assert_eq!(task.recv(parent, WORK).unwrap().len(), 1024));
        task.send(parent, DONE, &Pack::new()).unwrap();
    }
}

/// Answers each job with a word that it is done, then that it is ready.
fn worker() {
    let (mut task, parent) = with_parent();
    while task.recv(parent, WORK).unwrap().get_one::<i32>().unwrap() != 0 {
        task.send(parent, DONE, &Pack::new()).unwrap();
        task.send(parent, READY, &Pack::new()).unwrap();
    }
}

fn polls_keep_the_order_of_tags() {
    type Poll = fn(&mut Task, i32) -> Option<Tid>;
    let polls: [Poll; 4] = [
        |task, tag| task.try_recv(Any, tag).unwrap().map(|message| message.source()),
        |task, tag| {
            let found = task.probe(Any, tag).unwrap()?.source();
            Some(task.recv(found, tag).unwrap().source())
        },
        |task, tag| task.recv_timeout(Any, tag, Duration::ZERO).unwrap().map(|message| message.source()),
        |task, tag| {
            let found = task.recv_timeout(Any, tag, Duration::from_micros(200)).unwrap();
            found.map(|message| message.source())
        },
    ];
    let mut task = Task::enrol().unwrap();
    let workers = spawn(&mut task, "worker", 5);
    let job = |more: i32| {
        let mut pack = Pack::new();
        pack.put_one(more).unwrap();
        pack
    };
    for poll in polls {
        let mut waiting = std::collections::HashMap::<Tid, i32>::new();
        let (mut ready, mut early) = (0, 0);
        task.multicast(&workers, WORK, &job(1)).unwrap();
        while ready < COUNT || waiting.values().any(|&count| count != 0) {
            if let Some(worker) = poll(&mut task, READY) {
                let count = waiting.entry(worker).or_default();
                early += i32::from(*count == 0);
                (*count, ready) = (*count - 1, ready + 1);
                if ready + 5 <= COUNT {
                    task.send(worker, WORK, &job(1)).unwrap();
                }
            }
            if let Some(worker) = poll(&mut task, DONE) {
                *waiting.entry(worker).or_default() += 1;
            }
        }
        assert!(early <= COUNT / 100, "{early} of {COUNT}");
    }
    task.multicast(&workers, WORK, &job(0)).unwrap();
}

/// Both sleep now and then, with any part of the ring read.
fn floods_are_answered() {
    let mut task = Task::enrol().unwrap();
    let peer = spawn(&mut task, "drain", 1)[0];
    let floods = if task.daemon_is_ours() { FLOODS } else { return };
    let mut pack = Pack::raw();
    pack.put(&[7_u8; 1024]).unwrap();
    for _ in 0..floods {
        (0..FLOOD).for_each(|_| task.send(peer, WORK, &pack).unwrap());
        let answer = task.recv_timeout(peer, DONE, LIMIT).unwrap();
        assert!(answer.is_some(), "a message is slept through");
    }
}

/// Bytes of numbered messages behind their numbers.
const LENGTHS: [usize; 7] = [0, 7, 100, 900, 1000, 5000, 70_000];

/// Takes numbered messages until all have come, and says so.
fn checker() {
    let (mut task, parent) = with_parent();
    task.send(parent, WORK, &Pack::new()).unwrap();
    for number in 0..COUNT {
        let mut message = task.recv(parent, WORK).unwrap();
        check_numbered(&mut message, number);
    }
    task.send(parent, DONE, &Pack::new()).unwrap();
    task.exit().unwrap();
}

fn order_across_routes() {
    let mut task = Task::enrol().unwrap();
    let child = spawn(&mut task, "checker", 1)[0];
    task.recv(child, WORK).unwrap();
    for number in 0..COUNT {
        if number == 40 {
            wait_until_met(&mut task, child);
        }
        if number % 100 == 50 {
            let routing = if number % 200 == 50 { Routing::ByDaemon } else { Routing::AllowDirect };
            task.set_routing(routing);
            task.poll().unwrap();
        }
        task.send(child, WORK, &numbered(number, &LENGTHS)).unwrap();
    }
    task.recv(child, DONE).unwrap();
}

/// Two tasks that share memory after some messages do so as soon as both have been told, if there is somebody to tell them.
fn wait_until_met(task: &mut Task, child: Tid) {
    let end = Instant::now() + LIMIT;
    while task.daemon_is_ours() {
        task.poll().unwrap();
        task.send(child, DONE, &Pack::new()).unwrap();
        if task.direct_routes() == [child] {
            return;
        }
        assert!(Instant::now() < end, "they do not share memory");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(task.direct_routes().is_empty());
}

fn multicasts_share_a_body() {
    let mut task = Task::enrol().unwrap();
    let children = spawn(&mut task, "checker", 3);
    for _ in &children {
        task.recv(Any, WORK).unwrap();
    }
    for number in 0..COUNT {
        task.multicast(&children, WORK, &numbered(number, &LENGTHS)).unwrap();
    }
    for _ in &children {
        task.recv(Any, DONE).unwrap();
    }
}

/// Pieces of memory that this process shares or is given.
fn pieces() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().map_while(Result::ok);
    let names = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    names.filter(|name| name.to_string_lossy().contains("memfd:pvm")).count()
}

/// Says how much it shares before it has heard anything, and behind.
fn stranger() {
    let (mut task, parent) = with_parent();
    let say = |task: &mut Task| {
        let mut pack = Pack::new();
        pack.put_one(pieces() as i32).unwrap();
        task.send(parent, DONE, &pack).unwrap();
    };
    say(&mut task);
    task.recv(parent, WORK).unwrap();
    say(&mut task);
}

fn nothing_is_shared_before_it_is_of_use() {
    let mut task = Task::enrol().unwrap();
    let child = spawn(&mut task, "stranger", 1)[0];
    assert_eq!(task.recv(child, DONE).unwrap().get_one::<i32>().unwrap(), 0);
    task.send(child, WORK, &Pack::new()).unwrap();
    let expected = i32::from(task.daemon_is_ours());
    assert_eq!(task.recv(child, DONE).unwrap().get_one::<i32>().unwrap(), expected);
}

/// Sends numbered messages and is killed meanwhile.
fn speaker() {
    let (mut task, parent) = with_parent();
    for number in 0..COUNT / 3 {
        task.send(parent, WORK, &numbered(number, &LENGTHS)).unwrap();
    }
    task.recv(parent, DONE).unwrap();
}

fn last_words_of_the_killed() {
    let mut task = Task::enrol().unwrap();
    for round in 0..5 {
        let child = spawn(&mut task, "speaker", 1)[0];
        task.notify_exit(&[child], ENDED).unwrap();
        let pid = process_of(&mut task, child);
        let mut next = 0;
        loop {
            let mut message = task.recv(Any, Any).unwrap();
            if message.tag() == ENDED {
                break;
            }
            check_numbered(&mut message, next);
            if next == 300 + 37 * round {
                kill(pid);
            }
            next += 1;
        }
        assert!(task.try_recv(child, WORK).unwrap().is_none(), "a word behind the notice");
    }
}
