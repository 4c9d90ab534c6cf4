//! Direct routes between tasks of this library and of the original.

use super::{DELETED, DONE, ENDED, WORK, direct, names, number, rust_support, spawn};
use pvm3::{Any, Pack, Routing, Task, Tid};
use std::collections::BTreeSet;

const HELLO: i32 = 6;

/// Compiles the C task that uses the original library; `None` where there is none.
fn original_task(task: &mut Task, mode: &str, host: Option<&str>) -> Option<Tid> {
    let program = pvm3::tmp_dir().join("route_peer");
    rust_support::compile_for_original("route_peer.c", &program)?;
    let spawn = task.spawn(program.to_str().unwrap()).args([mode]);
    let spawn = if let Some(host) = host { spawn.on_host(host) } else { spawn };
    Some(spawn.start().unwrap().tids[0])
}

/// Exchanges numbers of growing messages with the C task, in its rhythm.
fn play(task: &mut Task, peer: Tid) {
    for round in 0..60 {
        let size = round * round * 30;
        let values: Vec<i32> = (0..size).map(|value| value + round).collect();
        let mut pack = Pack::new();
        pack.put_one(size).unwrap().put(&values).unwrap();
        task.send(peer, WORK, &pack).unwrap();
        let mut back = task.recv(peer, WORK).unwrap();
        assert_eq!(back.get_one::<i32>().unwrap(), size);
        assert!(back.get::<i32>(size as usize).unwrap() == values, "round {round}");
    }
}

fn finish(task: &mut Task, peer: Tid, before: &BTreeSet<String>) {
    assert_eq!(task.direct_routes(), [peer]);
    task.notify_exit(&[peer], ENDED).unwrap();
    let mut done = task.recv(peer, DONE).unwrap();
    assert_eq!(done.get_one::<i32>().unwrap(), 2, "descriptors of the original's task");
    task.recv(Any, ENDED).unwrap();
    let mut after = names();
    after.remove("route_peer");
    assert_eq!(after, *before, "something is left behind");
}

pub fn original_asks() {
    let mut task = Task::enrol().unwrap();
    let before = names();
    let Some(peer) = original_task(&mut task, "asks", None) else { return };
    task.recv(peer, HELLO).unwrap();
    assert_eq!(task.direct_routes(), [peer]);
    play(&mut task, peer);
    finish(&mut task, peer, &before);
}

pub fn original_grants() {
    let mut task = direct();
    let before = names();
    let Some(peer) = original_task(&mut task, "grants", None) else { return };
    play(&mut task, peer);
    finish(&mut task, peer, &before);
}

/// The same over TCP.
pub fn original_elsewhere() {
    let mut task = direct();
    if !task.daemon_is_ours() {
        println!("several hosts are not tried with the original daemon");
        return;
    }
    task.add_hosts(&["near via=local"]).unwrap()[0].as_ref().unwrap();
    let before = names();
    for (mode, routing) in
        [("grants", Routing::Direct), ("asks", Routing::AllowDirect), ("asks", Routing::Direct)]
    {
        task.set_routing(routing);
        let Some(peer) = original_task(&mut task, mode, Some("near")) else { return };
        if routing == Routing::AllowDirect {
            task.recv(peer, HELLO).unwrap();
        }
        play(&mut task, peer);
        finish(&mut task, peer, &before);
        task.notify_route_delete(&[peer], DELETED).unwrap();
        task.recv(Any, DELETED).unwrap();
    }
}

/// Plays with the task of which its parent tells.
pub fn partner() {
    let mut task = direct();
    let parent = task.parent().unwrap();
    let peer = task.recv(parent, HELLO).unwrap().get_tid().unwrap();
    play(&mut task, peer);
    task.recv(peer, HELLO).unwrap();
    assert_eq!(task.direct_routes(), [peer]);
    task.recv(peer, DONE).unwrap();
    task.send(parent, DONE, &Pack::new()).unwrap();
    task.exit().unwrap();
}

/// Both ask at once; now the one, now the other has the lower id.
pub fn original_crosses() {
    let mut task = direct();
    let before = names();
    let Some(peer) = original_task(&mut task, "asks", None) else { return };
    play(&mut task, peer);
    task.recv(peer, HELLO).unwrap();
    finish(&mut task, peer, &before);
    task.set_routing(Routing::AllowDirect);
    for _ in 0..5 {
        let Some(original) = original_task(&mut task, "told", None) else { return };
        let ours = spawn(&mut task, "partner", 1)[0];
        assert!(original < ours);
        task.notify_exit(&[original], ENDED).unwrap();
        task.send(original, HELLO, &number(ours.raw())).unwrap();
        task.send(ours, HELLO, &number(original.raw())).unwrap();
        task.recv(ours, DONE).unwrap();
        task.recv(Any, ENDED).unwrap();
    }
}
