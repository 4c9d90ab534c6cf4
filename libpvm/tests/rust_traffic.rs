//! The policy that cuts the graph of a spawn's tasks: tasks that talk to each other come to the same host, as the spawner says or as was
//! counted when the program ran last.

mod rust_support;

use pvm3::{Any, Pack, PvmError, Scope, Task, Tid};
use rust_support::{Test, me, with_hosts, with_parent};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("tasks_are_placed_by_the_traffic_that_the_spawner_names", named),
    ("tasks_are_placed_by_the_traffic_that_was_counted", counted),
    ("traffic_of_tasks_that_there_are_not_is_an_error", wrong),
];

const ROLES: &[Test] = &[("crowd", crowd), ("brief", brief)];

const GRAPH: &str = "graph-theoretic";
const TASKS: usize = 6;
const MESSAGE: i32 = 1;
const START: i32 = 2;
const DONE: i32 = 3;
/// What other programs do on this computer is load of all hosts: it takes a quiet moment to see the rule.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// This task, in a machine where two hosts have room for three tasks each.
fn enrol() -> Option<Task> {
    with_hosts(&["first via=local slots=3", "second via=local slots=3"])
}

/// Whether tasks with even numbers are on one host, and those with odd ones on another.
fn is_cut_by_parity(tids: &[Tid]) -> bool {
    let place = |number: usize| tids[number].host();
    (2..TASKS).all(|number| place(number) == place(number % 2)) && place(0) != place(1)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until only this task is left.
fn alone(task: &mut Task) {
    until("all others end", || task.tasks(Scope::All).unwrap().len() == 1);
}

fn named() {
    let Some(mut task) = enrol() else { return };
    let pairs = (0..TASKS as u32).flat_map(|a| (0..a).map(move |b| (a, b)));
    let pairs: Vec<(u32, u32, u64)> = pairs.filter(|(a, b)| a % 2 == b % 2).map(|(a, b)| (a, b, 7)).collect();
    until("even and odd tasks have a host each", || {
        let spawn = task.spawn(me()).args(["role", "brief"]).count(TASKS).policy(GRAPH);
        let spawned = spawn.traffic(pairs.iter().copied()).start().unwrap();
        assert_eq!((spawned.tids.len(), &*spawned.policy), (TASKS, GRAPH));
        alone(&mut task);
        is_cut_by_parity(&spawned.tids)
    });
    task.exit().unwrap();
}

/// Before anything is known, tasks with consecutive numbers are together.
fn counted() {
    let Some(mut task) = enrol() else { return };
    let mut first = Vec::new();
    until("even and odd tasks have a host each", || {
        let spawn = task.spawn(me()).args(["role", "crowd"]).count(TASKS).policy(GRAPH);
        let tids = spawn.start().unwrap().tids;
        assert_eq!(tids.len(), TASKS);
        let mut all = Pack::new();
        all.put(&tids.iter().map(|tid| tid.raw()).collect::<Vec<i32>>()).unwrap();
        task.multicast(&tids, START, &all).unwrap();
        for _ in &tids {
            task.recv(Any, DONE).unwrap();
        }
        alone(&mut task);
        first.push(is_cut_by_parity(&tids));
        is_cut_by_parity(&tids)
    });
    assert!(!first[0], "the first run had no traffic to go by");
    // Another number of tasks is another program.
    let fewer = task.spawn(me()).args(["role", "brief"]).count(2).policy(GRAPH).start().unwrap();
    assert_eq!(fewer.tids.len(), 2);
    task.exit().unwrap();
}

/// Talks to those whose numbers are even, or odd, as its own is.
fn crowd() {
    let (mut task, parent) = with_parent();

    let tids: Vec<i32> = task.recv(parent, START).unwrap().get(TASKS).unwrap();
    let own = tids.iter().position(|&tid| tid == task.tid().raw()).expect("it is one of them");
    let others: Vec<Tid> = (0..TASKS)
        .filter(|&number| number != own && number % 2 == own % 2)
        .map(|number| Tid::from_raw(tids[number]))
        .collect();
    let mut pack = Pack::new();
    pack.put(&[0_u8; 1000]).unwrap();
    for _ in 0..20 {
        for &other in &others {
            task.send(other, MESSAGE, &pack).unwrap();
        }
        for &other in &others {
            task.recv(other, MESSAGE).unwrap();
        }
    }
    task.send(parent, DONE, &Pack::new()).unwrap();
    task.exit().unwrap();
}

fn brief() {
    Task::enrol().unwrap().exit().unwrap();
}

fn wrong() {
    let Some(mut task) = enrol() else { return };
    for pair in [(0, 2, 1), (u32::MAX, 0, 1), (1, 1, 1)] {
        let error = task.spawn(me()).args(["role", "brief"]).count(2).policy(GRAPH).traffic([pair]).start();
        let error = error.unwrap_err();
        assert_eq!(error.code(), PvmError::BadParam);
        let (a, b, _) = pair;
        let text =
            format!("the traffic names tasks {a} and {b}: of 2 tasks it must name two, counted from 0");
        assert!(error.to_string().ends_with(&text), "{error}");
    }
    task.exit().unwrap();
}
