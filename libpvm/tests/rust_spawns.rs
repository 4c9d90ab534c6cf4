//! Plain spawns at their bounds: many parents, deep families, and nothing that stays of what has ended.
//!
//! `PVM_QUEUE_TASKS=10000 cargo test --release -p libpvm --test rust_spawns -- --nocapture` tries the numbers that are promised.

#[allow(dead_code, reason = "other programs use the rest")]
#[path = "../c/tests/c_support/mod.rs"]
mod c_support;
mod rust_support;

use c_support::Library;
use pvm_tests::process;
use pvm3::{Pack, PvmError, Scope, Task, Tid};
use rust_support::{Test, daemon_pid, me, with_our_daemon, with_parent};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("nothing_stays_of_what_has_ended", nothing_stays_of_what_has_ended),
    ("many_parents_at_once", many_parents_at_once),
    ("a_deep_family", a_deep_family),
    ("arguments_beyond_the_systems_limit", arguments_beyond_the_systems_limit),
    ("a_task_uses_the_channel_it_inherits", a_task_uses_the_channel_it_inherits),
    ("another_enrols_in_its_place", another_enrols_in_its_place),
    ("a_task_names_its_team", a_task_names_its_team),
    ("a_program_in_c_names_its_team", a_program_in_c_names_its_team),
];

const ROLES: &[Test] = &[
    ("brief", brief),
    ("parent", parent),
    ("descendant", descendant),
    ("inheritor", inheritor),
    ("helper", helper),
    ("member", member),
];

/// Tag of what children tell their parents.
const HERE: i32 = 1;
const GENERATIONS: u32 = 50;
/// Tasks of one spawn whose ids the daemon lends to the spawner instead of sending them (4 bytes each, from 16 KiB on).
const LONG_ANSWER: usize = 5000;
const PARENTS: usize = 200;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

fn send_number(task: &mut Task, to: Tid, number: u32) {
    let mut pack = Pack::new();
    pack.put_one(number).unwrap();
    task.send(to, HERE, &pack).unwrap();
}

fn received(task: &mut Task, from: impl Into<pvm3::Source>) -> u32 {
    let message = task.recv_timeout(from, HERE, LIMIT).unwrap();
    message.expect("word of a child in time").get_one().unwrap()
}

fn brief() {
    let (mut task, parent) = with_parent();
    send_number(&mut task, parent, 1);
    task.exit().unwrap();
}

/// Spawns as many others do at the same time.
fn parent() {
    let mut task = Task::enrol().unwrap();
    let children = task.spawn(me()).args(["role", "brief"]).count(2).start().unwrap();
    let number = children.tids.iter().map(|&child| received(&mut task, child)).sum();
    let parent = task.parent().unwrap();
    send_number(&mut task, parent, number);
    task.exit().unwrap();
}

/// Has descendants down to the last generation, and says how many.
fn descendant() {
    let mut task = Task::enrol().unwrap();
    let generation: u32 = std::env::var("GENERATION").unwrap().parse().unwrap();
    let parent = task.parent().unwrap();
    let below = if generation < GENERATIONS { below(&mut task, generation + 1) } else { 0 };
    send_number(&mut task, parent, below + 1);
    task.exit().unwrap();
}

fn below(task: &mut Task, generation: u32) -> u32 {
    let spawn = task.spawn(me()).args(["role", "descendant"]).env("GENERATION", generation.to_string());
    let child = spawn.start().unwrap().tids[0];
    received(task, child)
}

fn a_deep_family() {
    let Some(mut task) = with_our_daemon() else { return };
    assert_eq!(below(&mut task, 1), GENERATIONS);
}

fn many_parents_at_once() {
    let Some(mut task) = with_our_daemon() else { return };
    let parents = task.spawn(me()).args(["role", "parent"]).count(PARENTS).start().unwrap();
    assert_eq!((parents.tids.len(), parents.failed.len()), (PARENTS, 0));
    let heard: u32 = parents.tids.iter().map(|&parent| received(&mut task, parent)).sum();
    assert_eq!(heard as usize, 2 * PARENTS);
}

/// Enrols twice, perhaps behind a program of its own, and tells the ids that they had, and how many sockets it had the first time.
fn inheritor() {
    let helper = std::env::var_os("HELPED").map_or(0, |_| {
        let helper = Command::new(me()).args(["role", "helper"]).output().unwrap();
        String::from_utf8(helper.stdout).unwrap().trim().parse().unwrap()
    });
    let first = Task::enrol().unwrap();
    let mut pack = Pack::new();
    pack.put(&[helper, first.tid().raw(), sockets(), first.parent().map_or(0, Tid::raw)]).unwrap();
    first.exit().unwrap();
    let mut second = Task::enrol().unwrap();
    pack.put_one(second.tid().raw()).unwrap();
    let parent = Tid::from_raw(std::env::var("PARENT").unwrap().parse().unwrap());
    second.send(parent, HERE, &pack).unwrap();
    second.exit().unwrap();
}

fn helper() {
    println!("{}", Task::enrol().unwrap().tid().raw());
}

/// Sockets that this process has open.
fn sockets() -> i32 {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count() as i32
}

/// A inheritor's id as its parent knows it, and what it tells: its helper's, its own, its sockets, its parent and its second id.
fn bear(task: &mut Task, helped: bool) -> (i32, [i32; 5]) {
    let parent = task.tid().raw().to_string();
    let spawn = task.spawn(me()).args(["role", "inheritor"]).env("PARENT", parent);
    let spawn = if helped { spawn.env("HELPED", "1") } else { spawn };
    let child = spawn.start().unwrap().tids[0];
    let mut message = task.recv_timeout(pvm3::Any, HERE, LIMIT).unwrap().expect("word of a child in time");
    let told: Vec<i32> = message.get(5).unwrap();
    (child.raw(), told.try_into().unwrap())
}

fn a_task_uses_the_channel_it_inherits() {
    let Some(mut task) = with_our_daemon() else { return };
    let (known, [_, first, sockets, parent, second]) = bear(&mut task, false);
    assert_eq!((first, parent), (known, task.tid().raw()));
    assert_eq!(sockets, 1, "it has made no other connection");
    assert_ne!(second, known);
}

fn another_enrols_in_its_place() {
    let Some(mut task) = with_our_daemon() else { return };
    let (known, [helper, first, _, parent, second]) = bear(&mut task, true);
    assert_eq!((helper, parent), (known, 0));
    assert!(first != known && second != known && second != first);
}

/// Names the team in which it is to be.
fn member() {
    let (mut task, parent) = with_parent();
    send_number(
        &mut task,
        parent,
        u32::from(std::env::var("PVM_TEAM").is_ok_and(|team| team == "orchestra")),
    );
    task.exit().unwrap();
}

fn a_task_names_its_team() {
    let Some(mut task) = with_our_daemon() else {
        let mut task = Task::enrol().unwrap();
        return assert_eq!(task.join_team("orchestra").unwrap_err().code(), PvmError::NotImpl);
    };
    for (team, expected) in [(None, 1), (Some("orchestra"), 1), (Some("choir"), 0)] {
        task.join_team("orchestra").unwrap();
        let spawn = task.spawn(me()).args(["role", "member"]);
        let spawned = team.into_iter().fold(spawn, pvm3::Spawn::team).start().unwrap();
        assert_eq!(received(&mut task, spawned.tids[0]), expected, "{team:?}");
    }
    assert_eq!(task.join_team("").unwrap_err().code(), PvmError::BadParam);
}

fn a_program_in_c_names_its_team() {
    let Some(mut task) = with_our_daemon() else { return };
    let Some(program) = c_support::compile("team.c", Library::Static, &pvm3::tmp_dir()) else { return };
    let mut command = Command::new(program);
    let mut program = command.arg("orchestra").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let bad = PvmError::BadParam.code();
    assert_eq!(said, format!("{bad} {bad} {bad} 0\n"));
    let host = task.tid().host().unwrap().daemon();
    let teams = task.turns(host).unwrap().teams;
    assert!(teams.iter().any(|team| team.name == "orchestra" && team.tasks.len() == 1), "{teams:?}");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

fn arguments_beyond_the_systems_limit() {
    let Some(mut task) = with_our_daemon() else { return };
    let too_much = "x".repeat(1 << 20);
    let spawned = task.spawn(me()).args(["role", "brief", &too_much]).count(3).start().unwrap();
    assert_eq!((spawned.tids, spawned.failed), (vec![], vec![PvmError::Overflow; 3]));
    let spawned = task.spawn(me()).args(["role", "brief"]).env("MUCH", &too_much).start().unwrap();
    assert_eq!(spawned.failed, [PvmError::Overflow]);
    let much = "x".repeat(100_000);
    let spawned = task.spawn(me()).args(["role", "brief"]).env("MUCH", &much).count(3).start().unwrap();
    assert_eq!(spawned.tids.iter().map(|&child| received(&mut task, child)).sum::<u32>(), 3);
}

/// What the daemon holds: open files by kind, children that nobody has waited for, resident memory in kB.
type Holdings = (BTreeMap<String, usize>, usize, u64);

fn holdings() -> Holdings {
    let daemon = daemon_pid();
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for file in std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().flatten() {
        let Ok(target) = std::fs::read_link(file.path()) else { continue };
        let kind = target.to_string_lossy().split(':').next().unwrap_or_default().to_owned();
        *files.entry(kind).or_default() += 1;
    }
    let zombies = process::children(daemon)
        .into_iter()
        .filter(|child| process::stat(child.pid, 0).as_deref() == Some("Z"));
    let memory = process::kilobytes(daemon, "status", "VmRSS").unwrap();
    (files, zombies.count(), memory)
}

/// What the daemon holds once no other task is left.
fn holdings_alone(task: &mut Task) -> Holdings {
    let end = Instant::now() + LIMIT;
    let mut last: Option<Holdings> = None;
    while Instant::now() < end {
        if task.tasks(Scope::All).unwrap().len() == 1 {
            let now = holdings();
            // Two looks that see the same: what is being closed is closed.
            if now.1 == 0 && last.as_ref().is_some_and(|(files, ..)| *files == now.0) {
                return now;
            }
            last = Some(now);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("tasks or their processes stay: {last:?}");
}

fn run(task: &mut Task, count: usize) {
    let spawned = task.spawn(me()).args(["role", "brief"]).count(count).start().unwrap();
    assert_eq!((spawned.tids.len(), spawned.failed.len()), (count, 0));
    for child in spawned.tids {
        assert_eq!(received(task, child), 1);
    }
}

fn nothing_stays_of_what_has_ended() {
    let Some(mut task) = with_our_daemon() else { return };
    let count = std::env::var(rust_support::QUEUE_TASKS).map_or(200, |count| count.parse().unwrap());
    // Managers stay, and so does what is made once: for long answers, too.
    run(&mut task, count.min(LONG_ANSWER));
    for _ in 0..10 {
        run(&mut task, 1);
    }
    let before = holdings_alone(&mut task);
    let start = Instant::now();
    // If that is more than the host has room for at a time, the rest takes the places of those that have ended.
    run(&mut task, count);
    let between = Instant::now();
    for _ in 0..count {
        run(&mut task, 1);
    }
    let (many, single) = (between - start, between.elapsed());
    let after = holdings_alone(&mut task);
    println!("{count} tasks in one spawn: {many:.1?}; in {count} spawns: {single:.1?}");
    println!("before {before:?}, after {after:?} (files, zombies, kB)");
    assert_eq!((&after.0, after.1), (&before.0, before.1));
    assert!(after.2 < before.2 + 16 * 1024, "{} kB of memory stay", after.2 - before.2);
}
