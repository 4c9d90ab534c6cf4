//! Groups in the Rust API: tasks that meet, reduce, gather and scatter, and members that leave and die.

mod rust_support;

use pvm3::{Any, Complex64, Pack, PvmError, Task};
use rust_support::{Test, spawn, with_parent};
use std::process::ExitCode;

const TESTS: &[Test] = &[
    ("membership", membership),
    ("wrong_names_and_numbers", wrong_names_and_numbers),
    ("meeting_and_computing", meeting_and_computing),
    ("a_member_dies", a_member_dies),
    ("late_members_are_waited_for", late_members_are_waited_for),
    ("messages_between_members_are_nobodys", messages_between_members_are_nobodys),
];

const ROLES: &[Test] = &[("member", member), ("sleeper", sleeper), ("walker", walker)];

/// Members besides the test itself: enough for trees.
const OTHERS: usize = 10;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// The code of the error that a call must give.
fn code<T: std::fmt::Debug>(result: pvm3::Result<T>) -> PvmError {
    result.unwrap_err().code()
}

fn membership() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    let mut group = task.group("one");
    assert_eq!(code(group.size()), PvmError::NoGroup);
    assert_eq!(group.join().unwrap(), 0);
    assert_eq!(code(group.join()), PvmError::DupGroup);
    assert_eq!((group.size().unwrap(), group.tid(0).unwrap(), group.instance_of(me).unwrap()), (1, me, 0));
    assert_eq!(group.members().unwrap(), [me]);
    assert_eq!(code(group.tid(1)), PvmError::NoInst);
    group.barrier(1).unwrap();
    group.barrier_of_all().unwrap();
    assert_eq!(code(group.broadcast(1, &Pack::new())), PvmError::NoInst);
    group.freeze(1).unwrap();
    assert_eq!(code(group.freeze(1)), PvmError::DupGroup);
    group.leave().unwrap();
    assert_eq!(code(group.leave()), PvmError::NoGroup);
}

fn wrong_names_and_numbers() {
    let mut task = Task::enrol().unwrap();
    assert_eq!(code(task.group("").join()), PvmError::NullGroup);
    assert_eq!(code(task.group("none").barrier(2)), PvmError::NoGroup);
    let mut group = task.group("g");
    group.join().unwrap();
    assert_eq!(code(group.barrier(usize::MAX)), PvmError::BadParam);
    assert_eq!(code(group.sum(-1, 0, &mut [1])), PvmError::BadParam);
    assert_eq!(code(group.sum(1, 5, &mut [1])), PvmError::NoInst);
    assert_eq!(code(group.gather(1, 1, &[1])), PvmError::NoInst);
    assert_eq!(code(group.scatter::<i32>(1, 0, Some(&[1]), 2)), PvmError::BadParam);
    assert_eq!(code(group.scatter::<i32>(1, 0, Some(&[1]), usize::MAX)), PvmError::BadParam);
    assert_eq!(group.scatter(1, 0, Some(&[1, 2]), 2).unwrap(), [1, 2]);
    assert_eq!(group.gather(1, 0, &[1.5, 2.5]).unwrap().unwrap(), [1.5, 2.5]);
}

/// What every member does, the test too.
fn compute(task: &mut Task) {
    let all = OTHERS + 1;
    let mut group = task.group("many");
    let instance = group.join().unwrap();
    group.barrier(all).unwrap();
    for round in 0..20 {
        if round % 2 == 0 { group.barrier_of_all().unwrap() } else { group.barrier(all).unwrap() }
    }
    let total: i32 = (0..all as i32).sum();
    for root in 0..all {
        let mut values = [instance as i32, 1];
        group.sum(1, root, &mut values).unwrap();
        assert!(instance != root || values == [total, all as i32], "{values:?}");
        let mut extremes = [instance as f64, -(instance as f64)];
        group.max(2, root, &mut extremes[..1]).unwrap();
        group.min(3, root, &mut extremes[1..]).unwrap();
        let extremes = extremes.map(|value| value as i32);
        assert!(instance != root || extremes == [OTHERS as i32, -(OTHERS as i32)], "{extremes:?}");
    }
    let mut product = [2_i64];
    group.product(4, 3, &mut product).unwrap();
    assert!(instance != 3 || product == [1 << all]);
    let mut complex = [Complex64 { re: 1.0, im: instance as f64 }];
    let add = |x: Complex64, y: Complex64| Complex64 { re: x.re + y.re, im: x.im + y.im };
    group.reduce(5, 0, &mut complex, add).unwrap();
    assert!(instance != 0 || complex == [Complex64 { re: all as f64, im: f64::from(total) }]);
    let gathered = group.gather(6, 2, &[instance as u8, 7]).unwrap();
    assert_eq!(gathered.is_some(), instance == 2);
    let tripled: Option<Vec<u8>> = gathered.map(|all| all.iter().map(|value| value * 3).collect());
    let back = group.scatter(7, 2, tripled.as_deref(), 2).unwrap();
    assert_eq!(back, [instance as u8 * 3, 21]);
    group.barrier_of_all().unwrap();
}

fn meeting_and_computing() {
    let mut task = Task::enrol().unwrap();
    let others = spawn(&mut task, "member", OTHERS);
    compute(&mut task);
    let mut group = task.group("many");
    group.broadcast(20, Pack::new().put_one(5).unwrap()).unwrap();
    for _ in &others {
        assert_eq!(task.recv(Any, 21).unwrap().get_one::<i32>().unwrap(), 10);
    }
}

fn member() {
    let mut task = Task::enrol().unwrap();
    compute(&mut task);
    let parent = task.parent().unwrap();
    let heard = task.recv(parent, 20).unwrap().get_one::<i32>().unwrap();
    task.send(parent, 21, Pack::new().put_one(heard * 2).unwrap()).unwrap();
    task.exit().unwrap();
}

fn sleeper() {
    let mut task = Task::enrol().unwrap();
    task.group("mortal").join().unwrap();
    let parent = task.parent().unwrap();
    task.send(parent, 30, &Pack::new()).unwrap();
    // It never comes to any barrier.
    let _ = task.recv(Any, 31);
}

fn a_member_dies() {
    let mut task = Task::enrol().unwrap();
    task.group("mortal").join().unwrap();
    let ours = task.daemon_is_ours();
    let sleepers = spawn(&mut task, "sleeper", 2);
    for _ in &sleepers {
        task.recv(Any, 30).unwrap();
    }
    assert_eq!(task.group("mortal").size().unwrap(), 3);
    let victim = task.group("mortal").tid(1).unwrap();
    task.notify_exit(&[victim], 32).unwrap();
    task.kill(victim).unwrap();
    task.recv(Any, 32).unwrap();
    // The group's keeper and this task get the notice in any order.
    while task.group("mortal").size().unwrap() == 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(code(task.group("mortal").tid(1)), PvmError::NoInst);
    assert_eq!(code(task.group("mortal").gather(33, 0, &[1])), PvmError::NoInst);
    if ours {
        assert_eq!(code(task.group("mortal").barrier(3)), PvmError::NoInst);
        // The reduction waits for the third member, which dies instead.
        let third = task.group("mortal").tid(2).unwrap();
        task.kill(third).unwrap();
        let mut values = [1];
        if let Err(error) = task.group("mortal").sum(34, 0, &mut values) {
            assert_eq!(error.code(), PvmError::NoInst);
        }
    }
    let next = spawn(&mut task, "sleeper", 1);
    task.recv(next[0], 30).unwrap();
    assert_eq!(task.group("mortal").instance_of(next[0]).unwrap(), 1);
}

/// Meets others again and again, and tells its parent how it went, until it goes wrong.
fn walker() {
    let (mut task, parent) = with_parent();
    task.group("walkers").join().unwrap();
    loop {
        let code = task.group("walkers").barrier(4).err().map_or(0, |error| error.code().code());
        task.send(parent, 40, Pack::new().put_one(code).unwrap()).unwrap();
        if code != 0 {
            break;
        }
    }
    task.exit().unwrap();
}

fn late_members_are_waited_for() {
    let mut task = Task::enrol().unwrap();
    task.group("walkers").join().unwrap();
    let others = spawn(&mut task, "walker", 3);
    let hear = |task: &mut Task| task.recv(Any, 40).unwrap().get_one::<i32>().unwrap();
    // At first they do not know each other; in the end they meet in shared memory, if they can. Long waits are not at the gate.
    for round in 0..60 {
        let pause = if round < 40 { 0 } else { round % 3 * 40 };
        std::thread::sleep(std::time::Duration::from_millis(pause));
        assert!(task.try_recv(Any, 40).unwrap().is_none(), "nobody passes before all are there");
        task.group("walkers").barrier(4).unwrap();
        assert_eq!([(); 3].map(|()| hear(&mut task)), [0; 3]);
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    if task.daemon_is_ours() {
        task.kill(others[0]).unwrap();
        assert_eq!([(); 2].map(|()| hear(&mut task)), [PvmError::NoInst.code(); 2]);
    } else {
        for tid in others {
            task.kill(tid).unwrap();
        }
    }
}

fn messages_between_members_are_nobodys() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    task.group("quiet").join().unwrap();
    task.send_message(me, 77, 0x7fffc, vec![]).unwrap();
    task.set_context(-1);
    assert!(task.try_recv(Any, Any).unwrap().is_none());
    assert!(task.probe(Any, Any).unwrap().is_none());
    task.set_context(0x7fffc);
    let probed = std::iter::repeat_with(|| task.probe(Any, 77).unwrap()).flatten().next().unwrap();
    assert_eq!(probed.tag(), 77);
    assert!(task.probe(Any, 78).unwrap().is_none());
    assert_eq!(task.recv(Any, Any).unwrap().tag(), 77);
}
