//! Direct routes that tasks of two hosts make by themselves: programs see nothing of them but the speed.

mod rust_support;

use pvm3::{Any, Pack, Received, Routing, Task, Tid};
use rust_support::{Test, me, with_hosts, with_parent};
use rustix::event::{PollFd, PollFlags, poll};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("messages_keep_their_order_while_a_route_opens", messages_keep_their_order_while_a_route_opens),
    ("multicasts_and_messages_keep_their_order", multicasts_and_messages_keep_their_order),
    ("a_task_that_exits_delivers_what_it_has_sent", a_task_that_exits_delivers_what_it_has_sent),
    ("the_least_used_routes_make_room", the_least_used_routes_make_room),
    ("a_program_that_polls_sees_what_comes", a_program_that_polls_sees_what_comes),
    ("routes_can_be_refused", routes_can_be_refused),
];

const ROLES: &[Test] =
    &[("talker", talker), ("listener", listener), ("quitter", quitter), ("echo", echo), ("late", late)];

const FIRST: i32 = 1;
const LAST: i32 = 2;
const ENDED: i32 = 3;
const AGAIN: i32 = 4;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

fn far(task: &mut Task, role: &str, count: usize, direct: &str) -> Vec<Tid> {
    let spawn = task.spawn(me()).args(["role", role]).count(count).on_host("far").env("PVM_DIRECT", direct);
    let tids = spawn.start().unwrap().tids;
    assert_eq!(tids.len(), count);
    tids
}

fn numbered(number: i32, size: usize) -> Pack {
    let mut pack = Pack::new();
    pack.put_one(number).unwrap().put(&vec![number as u8; size]).unwrap();
    pack
}

fn number_of(message: &mut Received) -> i32 {
    message.get_one().unwrap()
}

/// Numbers for both, from the first message on, and no pause between them.
const FLOOD: i32 = 3000;

fn flood(task: &mut Task, peer: Tid) {
    for number in 0..FLOOD {
        // Some long ones: they are still on their way when the route opens.
        let size = if number % 7 == 0 { 20_000 } else { 4 };
        task.send(peer, FIRST, &numbered(number, size)).unwrap();
    }
    for number in 0..FLOOD {
        assert_eq!(number_of(&mut task.recv(peer, FIRST).unwrap()), number);
    }
}

fn messages_keep_their_order_while_a_route_opens() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    for peer in far(&mut task, "talker", 3, "1") {
        flood(&mut task, peer);
        // On a busy computer a route may take longer than that.
        let end = Instant::now() + LIMIT;
        while !task.direct_routes().contains(&peer) {
            assert!(Instant::now() < end, "no route");
            task.send(peer, AGAIN, &Pack::new()).unwrap();
            flood(&mut task, peer);
        }
        task.send(peer, LAST, &Pack::new()).unwrap();
    }
    task.exit().unwrap();
}

fn talker() {
    let (mut task, parent) = with_parent();
    flood(&mut task, parent);
    while task.recv(parent, Any).unwrap().tag() == AGAIN {
        flood(&mut task, parent);
    }
    task.exit().unwrap();
}

/// Messages to each, and to all.
fn multicasts_and_messages_keep_their_order() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let listeners = far(&mut task, "listener", 3, "1");
    let end = Instant::now() + LIMIT;
    while task.direct_routes().len() < listeners.len() {
        assert!(Instant::now() < end, "no routes");
        for &listener in &listeners {
            task.send(listener, LAST + 1, &Pack::new()).unwrap();
            task.recv(listener, Any).unwrap();
        }
    }
    for number in 0..600 {
        // By the routes, by the daemons, or to each alone.
        let size = if number % 3 == 0 { 100_000 } else { 10 };
        let pack = numbered(number, size);
        if number % 2 == 0 {
            task.multicast(&listeners, FIRST, &pack).unwrap();
        } else {
            for &listener in &listeners {
                task.send(listener, FIRST, &pack).unwrap();
            }
        }
    }
    task.multicast(&listeners, LAST, &Pack::new()).unwrap();
    for _ in &listeners {
        assert_eq!(number_of(&mut task.recv(Any, LAST).unwrap()), 600);
    }
    task.exit().unwrap();
}

/// Counts messages in their order, and tells how many there were.
fn listener() {
    let (mut task, parent) = with_parent();
    let mut count = 0;
    loop {
        let mut message = task.recv(parent, Any).unwrap();
        match message.tag() {
            FIRST => {
                assert_eq!(number_of(&mut message), count);
                count += 1;
            }
            LAST => break,
            _ => task.send(parent, LAST + 1, &Pack::new()).unwrap(),
        }
    }
    task.send(parent, LAST, &numbered(count, 0)).unwrap();
    task.exit().unwrap();
}

/// It has read nothing of what it is sent, and its parent nothing of what it has sent, as it exits.
fn a_task_that_exits_delivers_what_it_has_sent() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    for _ in 0..5 {
        let quitter = far(&mut task, "quitter", 1, "1")[0];
        task.notify_exit(&[quitter], ENDED).unwrap();
        while task.direct_routes().is_empty() {
            task.send(quitter, FIRST, &Pack::new()).unwrap();
            task.recv(quitter, FIRST).unwrap();
        }
        task.send(quitter, LAST, &Pack::new()).unwrap();
        for _ in 0..100 {
            task.send(quitter, LAST + 1, &numbered(0, 1000)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        for number in 0..8 {
            let mut message = task.recv(Any, Any).unwrap();
            assert_eq!((message.source(), number_of(&mut message)), (quitter, number));
        }
        assert_eq!(task.recv(Any, Any).unwrap().tag(), ENDED);
    }
    task.exit().unwrap();
}

fn quitter() {
    let (mut task, parent) = with_parent();
    while task.recv(parent, Any).unwrap().tag() == FIRST {
        task.send(parent, FIRST, &Pack::new()).unwrap();
    }
    for number in 0..8 {
        task.send(parent, FIRST, &numbered(number, 200_000)).unwrap();
    }
    task.exit().unwrap();
}

/// Answers what comes, until it is told to stop.
fn echo() {
    let (mut task, parent) = with_parent();
    loop {
        let mut message = task.recv(parent, Any).unwrap();
        if message.tag() == LAST {
            break;
        }
        let mut pack = Pack::new();
        pack.put(message.body().unwrap()).unwrap();
        task.send(parent, FIRST, &pack).unwrap();
    }
    task.exit().unwrap();
}

/// As many as have routes, and then as many others, and the first again: no message is lost or late.
fn the_least_used_routes_make_room() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let most = pvm_wire::limits::AUTOMATIC_ROUTES;
    let all = far(&mut task, "echo", most + 6, "1");
    let (first, others) = all.split_at(most);
    let ask = |task: &mut Task, peer: Tid, number: i32| {
        task.send(peer, FIRST, &numbered(number, 100)).unwrap();
        task.recv(peer, FIRST).unwrap();
    };
    for round in 0..4 {
        for &peer in first {
            ask(&mut task, peer, round);
        }
    }
    assert_eq!(task.direct_routes().len(), most);
    // The others have their routes when the first have not been used for long.
    for round in 0..1000 {
        for &peer in others {
            ask(&mut task, peer, round);
        }
    }
    let routes = task.direct_routes();
    assert!(routes.len() <= most, "{} routes", routes.len());
    assert!(others.iter().all(|peer| routes.contains(peer)), "{routes:?} of {others:?}");
    for round in 0..4 {
        for &peer in first {
            ask(&mut task, peer, round);
        }
    }
    for &peer in &all {
        task.send(peer, LAST, &Pack::new()).unwrap();
    }
    task.exit().unwrap();
}

/// Waits at the descriptors that it got at its start, as programs with a loop of their own do.
fn a_program_that_polls_sees_what_comes() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let before: Vec<_> = task.fds().iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
    let late = far(&mut task, "late", 1, "1")[0];
    for _ in 0..10 {
        task.send(late, FIRST, &Pack::new()).unwrap();
        loop {
            if let Some(message) = task.try_recv(late, Any).unwrap() {
                assert_eq!(message.tag(), FIRST);
                break;
            }
            let fds = task.fds();
            assert_eq!(fds.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect::<Vec<_>>(), before);
            let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            let limit = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
            assert!(poll(&mut polled, Some(&limit)).unwrap() > 0, "nothing comes");
        }
    }
    assert_eq!(task.direct_routes(), [late]);
    task.send(late, LAST, &Pack::new()).unwrap();
    task.exit().unwrap();
}

/// Answers after a while.
fn late() {
    let (mut task, parent) = with_parent();
    while task.recv(parent, Any).unwrap().tag() == FIRST {
        std::thread::sleep(Duration::from_millis(20));
        task.send(parent, FIRST, &Pack::new()).unwrap();
    }
    task.exit().unwrap();
}

/// A setting of either side, or the option of one, is enough.
fn routes_can_be_refused() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let deaf = far(&mut task, "echo", 1, "0")[0];
    for number in 0..100 {
        task.send(deaf, FIRST, &numbered(number, 10)).unwrap();
        task.recv(deaf, FIRST).unwrap();
    }
    assert_eq!(task.direct_routes(), []);
    task.set_routing(Routing::ByDaemon);
    let echo = far(&mut task, "echo", 1, "1")[0];
    for number in 0..100 {
        task.send(echo, FIRST, &numbered(number, 10)).unwrap();
        task.recv(echo, FIRST).unwrap();
    }
    assert_eq!(task.direct_routes(), []);
    for peer in [deaf, echo] {
        task.send(peer, LAST, &Pack::new()).unwrap();
    }
    task.exit().unwrap();
}
