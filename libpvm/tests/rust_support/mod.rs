//! A machine for each test, and the test program run again as one of its tasks.
#![allow(dead_code, reason = "each program uses a part")]

use pvm_tests::machine::Plan;
use pvm_tests::programs::{self, Linking};
use pvm_tests::{Installation, Program, process};
use pvm3::{Pack, Received, Scope, Task, Tid};
use rustix::process::Signal;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// A test: its name, and what its process does as a task of a machine of its own.
pub type Test = (&'static str, fn());

/// Longest a test may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The longest if it is asked for more than usual.
const LONG_LIMIT: Duration = Duration::from_secs(3600);
/// How many tasks are queued, if not the usual number.
pub const QUEUE_TASKS: &str = "PVM_QUEUE_TASKS";
/// Settings of the tests themselves, which every task is given, and where cargo has its files, by which tasks build C libraries.
const OF_TESTS: [&str; 5] = [QUEUE_TASKS, "PVM_TEST_SECONDS", "PVM_TEST_TASKS", "PVM_TEST_FULL", "HOME"];

/// What is tried first with this project's daemon: with one of another version everything falls back, and would pass.
const SAME_VERSION: &str = "same_version";

/// The PVMs whose daemons are tried: Debian's original, and this project's own.
fn daemons() -> Vec<Installation> {
    Installation::debian().into_iter().chain(Installation::built()).collect()
}

/// Compiles a C program of this folder against the original PVM; `None` (with a line that says so) if that cannot be.
pub fn compile_for_original(source: &str, program: &Path) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rust_support").join(source);
    programs::compile(&source, program, &Installation::debian()?, Linking::Shared)
}

/// The path of this program.
pub fn me() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// This task, and the one that spawned it.
pub fn with_parent() -> (Task, Tid) {
    let task = Task::enrol().unwrap();
    let parent = task.parent().unwrap();
    (task, parent)
}

/// This task; `None` (with a line that says so) with the original's daemon, for what only this system's does.
pub fn with_our_daemon() -> Option<Task> {
    let task = Task::enrol().unwrap();
    if !task.daemon_is_ours() {
        println!("this is not tried with the original daemon");
        return None;
    }
    Some(task)
}

/// This task, in a machine with these hosts besides its own; `None` with the original's daemon, with which no other can be started here.
pub fn with_hosts(hosts: &[&str]) -> Option<Task> {
    let mut task = with_our_daemon()?;
    add_hosts(&mut task, hosts);
    Some(task)
}

/// Adds hosts, all of them.
pub fn add_hosts(task: &mut Task, hosts: &[&str]) {
    task.add_hosts(hosts).unwrap().into_iter().for_each(|host| drop(host.unwrap()));
}

/// The process of the daemon.
pub fn daemon_pid() -> i32 {
    std::env::var("PVM_TEST_DAEMON_PID").unwrap().parse().unwrap()
}

/// The process of a task.
pub fn process_of(task: &mut Task, tid: Tid) -> i32 {
    task.tasks(Scope::Task(tid)).unwrap()[0].pid
}

/// Kills a process.
pub fn kill(pid: i32) {
    assert!(process::signal(pid, Signal::KILL));
}

/// Spawns this program in a role.
pub fn spawn(task: &mut Task, role: &str, count: usize) -> Vec<Tid> {
    let spawned = task.spawn(me()).args(["role", role]).count(count).start().unwrap();
    assert_eq!((spawned.tids.len(), spawned.failed.len()), (count, 0));
    spawned.tids
}

/// Spawns this program in a role on a host.
pub fn spawn_on(task: &mut Task, role: &str, host: &str) -> Tid {
    task.spawn(me()).args(["role", role]).on_host(host).start().unwrap().tids[0]
}

/// A number, and as many bytes as the length says whose turn it is.
pub fn numbered(number: i32, lengths: &[usize]) -> Pack {
    let length = lengths[number as usize % lengths.len()];
    let mut pack = Pack::raw();
    pack.put_one(number).unwrap().put(&vec![number as u8; length]).unwrap();
    pack
}

/// Fails unless a message is that of [`numbered`], whole.
#[track_caller]
pub fn check_numbered(message: &mut Received, number: i32) {
    assert_eq!(message.get_one::<i32>().unwrap(), number);
    let rest: Vec<u8> = message.get(message.len() - 4).unwrap();
    assert!(rest.iter().all(|&byte| byte == number as u8), "{number}");
}

/// Runs this program as a task in the role of a test.
fn run(daemon: &Installation, test: &str) {
    let this = std::env::current_exe().expect("this program");
    let mut plan = Plan::plain(daemon);
    plan = plan.variable("PVM_EXPORT", "PVM_TEST_EXPORTED").variable("PVM_TEST_EXPORTED", "yes");
    plan = plan.variable("PVM_TEST_PROGRAM", daemon.pvmd());
    for name in OF_TESTS {
        plan = std::env::var_os(name).into_iter().fold(plan, |plan, value| plan.variable(name, value));
    }
    // Direct routes of tasks of one host are by sockets only if they share no memory.
    if is_program("rust_routes") {
        plan = plan.variable("PVM_SHM", "0");
    }
    // Bodies are lent to daemons.
    if is_program("rust_lending") {
        plan = plan.variable("PVM_DIRECT", "0");
    }
    // The only means that needs no rights.
    if is_program("rust_turns") {
        plan = plan.variable("PVM_COSCHEDULING", "stop");
    }
    let machine = plan.start();
    let mut command = machine.command(&this);
    command.args(["role", test]).env("PVM_TEST_DAEMON_PID", machine.daemon_pid().to_string());
    let limit = if std::env::var_os(QUEUE_TASKS).is_some() { LONG_LIMIT } else { LIMIT };
    let ended = Program::start(&mut command).end_within(limit);
    print!("{}", ended.stdout);
    eprint!("{}", ended.stderr);
    assert!(ended.status.success(), "ended with {}", ended.status);
}

/// Runs the role named on the command line, or all tests. With arguments: those whose names contain one, or with `--exact` are one.
pub fn main(tests: &[Test], roles: &[Test]) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, name, ..] = &args[..]
        && role == "role"
    {
        if name == SAME_VERSION {
            let daemon = Task::enrol().expect("a daemon");
            assert!(daemon.daemon_is_ours(), "the daemon is of another version: build pvmd again");
            return ExitCode::SUCCESS;
        }
        let all = tests.iter().chain(roles);
        let (_, run) = all.into_iter().find(|(known, _)| known == name).expect("a role that is known");
        run();
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let fits = |name: &str, filter: &str| if has("--exact") { name == filter } else { name.contains(filter) };
    let chosen = |name: &str| filters.is_empty() || filters.iter().any(|filter| fits(name, filter));
    if has("--list") {
        // Nextest also asks for those that are ignored: there are none.
        for (name, _) in tests.iter().filter(|_| !has("--ignored")) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let daemons = daemons();
    let jobs: Vec<(&Installation, &str)> = daemons
        .iter()
        .flat_map(|daemon| {
            let first = daemon.is_ours.then_some(SAME_VERSION);
            let names = tests.iter().map(|(name, _)| *name).filter(|name| chosen(name));
            first.into_iter().chain(names).map(move |name| (daemon, name))
        })
        .collect();
    let (next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((daemon, name)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            let result = catch_unwind(|| run(daemon, name));
            failures.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
            let whose = if daemon.is_ours { "own" } else { "original" };
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("test {name} ({whose} daemon) ... {verdict} ({:.2?})", begun.elapsed());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner();
    println!("{failures} failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many tests run at once, as with the usual harness; one where the tests of a program measure what it shares with others.
fn threads() -> usize {
    if ["rust_turns", "rust_quiet", "rust_memory"].into_iter().any(is_program) {
        return 1;
    }
    let wanted = std::env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
    wanted.or_else(|| available_parallelism().ok()).map_or(1, NonZero::get)
}

fn is_program(name: &str) -> bool {
    std::env::current_exe().is_ok_and(|exe| exe.to_string_lossy().contains(name))
}
