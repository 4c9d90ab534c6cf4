//! Teams of tasks that take turns on a host: real processes, and what their daemons tell each other.

#[allow(dead_code, reason = "other programs use the rest")]
#[path = "../c/tests/c_support/mod.rs"]
mod c_support;
mod rust_support;

use c_support::Library;
use pvm_tests::process::{is_stopped, state};
use pvm3::{Any, Pack, Routing, Task, Tid};
use rust_support::{Test, me, process_of, with_hosts, with_our_daemon};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("epochs_arrive_on_direct_routes", || epochs_arrive("direct_talker")),
    ("epochs_arrive_by_daemons", || epochs_arrive("talker")),
    ("a_team_that_sleeps_lends_its_slot", a_team_that_sleeps_lends_its_slot),
    ("a_team_of_c_programs_lends_its_slot", a_team_of_c_programs_lends_its_slot),
    ("stopped_tasks_get_their_messages", stopped_tasks_get_their_messages),
    ("a_task_that_leaves_is_resumed", a_task_that_leaves_is_resumed),
    ("tasks_say_how_long_they_spin", tasks_say_how_long_they_spin),
];

const ROLES: &[Test] = &[
    ("busy", busy),
    ("talker", || talk(Routing::ByDaemon)),
    ("direct_talker", || talk(Routing::Direct)),
    ("listener", listener),
    ("echo", echo),
    ("leaver", leaver),
];

/// Tags of the tests' messages.
const WORK: i32 = 1;
const DONE: i32 = 2;
const ENDED: i32 = 3;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// How long the other host may take to hear of some slices.
const LIMIT: Duration = Duration::from_secs(100);

/// Computes for ever.
fn busy() {
    let _task = Task::enrol().unwrap();
    loop {
        std::hint::spin_loop();
    }
}

/// Sends again and again, and never waits: of what goes on a direct route its daemon hears nothing.
fn talk(routing: Routing) {
    let mut task = Task::enrol().unwrap();
    task.set_routing(routing);
    let parent = task.parent().unwrap();
    let listener = task.recv(parent, WORK).unwrap().get_tid().unwrap();
    task.send(listener, WORK, &Pack::new()).unwrap();
    assert_eq!(task.direct_routes().contains(&listener), routing == Routing::Direct);
    if routing == Routing::Direct {
        // A route to the parent would have to be waited for, and a task that waits tells its daemon to which tasks it has sent.
        task.set_routing(Routing::AllowDirect);
    }
    task.send(parent, DONE, &Pack::new()).unwrap();
    loop {
        task.send(listener, WORK, &Pack::new()).unwrap();
        assert!(task.try_recv(Any, DONE).unwrap().is_none());
        let end = Instant::now() + Duration::from_micros(200);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

/// Hears what it is sent.
fn listener() {
    let mut task = Task::enrol().unwrap();
    while task.recv(Any, WORK).is_ok() {}
}

fn start(task: &mut Task, role: &str, count: usize, team: &str, host: &str) -> Vec<Tid> {
    let spawn = task.spawn(me()).args(["role", role]).count(count).team(team).on_host(host);
    let spawned = spawn.start().unwrap();
    assert_eq!(spawned.tids.len(), count);
    spawned.tids
}

fn epochs_arrive(role: &str) {
    let Some((mut task, far)) = with_host("far via=local") else { return };
    let listener = start(&mut task, "listener", 1, "talks", "far")[0];
    let talker = start(&mut task, role, 1, "talks", "localhost")[0];
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for team in 1..cores.max(2) {
        let _ = start(&mut task, "busy", 2, &team.to_string(), "localhost");
    }
    let mut whom = Pack::new();
    whom.put_tid(listener).unwrap();
    task.send(talker, WORK, &whom).unwrap();
    task.recv(talker, DONE).unwrap();
    // What has gone by the daemons by now has brought an epoch; slices that begin later are only known on the route.
    let before = task.turns(far).unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        let now = task.turns(far).unwrap();
        assert!(!now.is_shared, "one task has the other host to itself");
        if now.adopted >= before.adopted + 3 && now.epoch > before.epoch {
            return;
        }
        assert!(Instant::now() < end, "{} epochs adopted, then {}", before.adopted, now.adopted);
        thread::sleep(Duration::from_millis(50));
    }
}

/// Answers every message, and waits for the next.
fn echo() {
    let mut task = Task::enrol().unwrap();
    while let Ok(message) = task.recv(Any, WORK) {
        task.send(message.source(), DONE, &Pack::new()).unwrap();
    }
}

/// Two tasks that exchange messages, one that waits and has had none, and one that computes.
fn tasks_say_how_long_they_spin() {
    let Some(mut task) = with_our_daemon() else { return };
    let here = task.tid().to_host();
    let mut start = |role| start(&mut task, role, 1, role, "localhost")[0];
    let (echo, silent, busy) = (start("echo"), start("listener"), start("busy"));
    let end = Instant::now() + LIMIT;
    loop {
        for _ in 0..1000 {
            task.send(echo, WORK, &Pack::new()).unwrap();
            task.recv(echo, DONE).unwrap();
        }
        let report = task.turns(here).unwrap();
        let told = |tid: Tid| {
            let task = report.teams.iter().flat_map(|team| &team.tasks).find(|task| task.tid == tid);
            task.expect("a task of this host").spin
        };
        assert_eq!(told(busy), None, "it has not looked since it was asked");
        let may_spin = report.spin > 0;
        let is_known = |spin: Option<u64>| spin.is_some_and(|nanos| !may_spin || nanos > 0);
        if is_known(told(echo)) && is_known(told(task.tid())) && told(silent) == Some(0) {
            let longest = told(echo).max(told(task.tid())).unwrap_or_default();
            assert!(longest <= report.spin, "{longest} ns, of at most {}", report.spin);
            return;
        }
        assert!(Instant::now() < end, "{report:?}");
    }
}

/// Leaves the machine, and computes on.
fn leaver() {
    Task::enrol().unwrap().exit().unwrap();
    loop {
        std::hint::spin_loop();
    }
}

/// This task, in a machine with a second host, named `far`.
fn with_host(far: &str) -> Option<(Task, Tid)> {
    let mut task = with_hosts(&[far])?;
    let far = task.hosts().unwrap().into_iter().find(|host| host.name == "far").unwrap().tid;
    Some((task, far))
}

/// Teams that compute, as many as are needed beside one more for turns to be taken.
fn start_busy(task: &mut Task) -> Vec<Tid> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (1..cores.max(2)).flat_map(|team| start(task, "busy", 2, &team.to_string(), "far")).collect()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn a_team_that_sleeps_lends_its_slot() {
    let Some((mut task, far)) = with_host("far via=local slice=2000") else { return };
    let echo = start(&mut task, "echo", 1, "waits", "far")[0];
    expect_slot_lent(&mut task, echo, far);
}

fn a_team_of_c_programs_lends_its_slot() {
    let Some((mut task, far)) = with_host("far via=local slice=2000") else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = c_support::compile("echo.c", Library::Static, folder.path()) else { return };
    let spawn = task.spawn(program.to_str().unwrap()).team("waits").on_host("far");
    let echo = spawn.start().unwrap().tids[0];
    expect_slot_lent(&mut task, echo, far);
}

/// With slices of two seconds: by these alone the others would be stopped whenever there is an answer.
fn expect_slot_lent(task: &mut Task, echo: Tid, far: Tid) {
    let busy = start_busy(task)[0];
    let busy = process_of(task, busy);
    let ask = |task: &mut Task| {
        task.send(echo, WORK, &Pack::new()).unwrap();
        task.recv(echo, DONE).map(drop).unwrap();
    };
    // By then it has heard that it is to say when it sleeps.
    ask(task);
    ask(task);
    let report = task.turns(far).unwrap();
    assert!(report.is_shared && report.means == "stop", "{report:?}");
    let mut running = 0;
    for _ in 0..50 {
        ask(task);
        thread::sleep(Duration::from_millis(20));
        running += usize::from(state(busy) == Some('R'));
    }
    assert!(running >= 25, "others run after {running} of 50 answers");
}

fn stopped_tasks_get_their_messages() {
    let Some((mut task, _)) = with_host("far via=local slice=700") else { return };
    let mut doomed = start(&mut task, "busy", 3, "doomed", "far");
    let _ = start_busy(&mut task);
    let listener = start(&mut task, "echo", 1, "doomed", "far")[0];
    task.notify_exit(&doomed, ENDED).unwrap();
    let pids: Vec<i32> = doomed.iter().map(|&tid| process_of(&mut task, tid)).collect();
    // Killed, asked to end by a signal, and ended by one that nobody handles.
    for signal in [None, Some(15), Some(10)] {
        eventually("it is not its turn", || {
            pids.iter().filter(|&&pid| is_stopped(pid)).count() == doomed.len()
        });
        let victim = doomed.remove(0);
        match signal {
            None => task.kill(victim).unwrap(),
            Some(signal) => task.signal(victim, signal).unwrap(),
        }
        assert_eq!(task.recv_timeout(Any, ENDED, LIMIT).unwrap().unwrap().get_tid().unwrap(), victim);
    }
    // A word of its parent's waits for its turn, and is heard then.
    task.send(listener, WORK, &Pack::new()).unwrap();
    assert!(task.recv_timeout(listener, DONE, LIMIT).unwrap().is_some());
}

/// A task that leaves the machine goes on taking turns; when its daemon leaves, nobody stays stopped.
fn a_task_that_leaves_is_resumed() {
    let Some((mut task, _)) = with_host("far via=local slice=20") else { return };
    let leaver = start(&mut task, "leaver", 1, "leaves", "far")[0];
    let busy = start_busy(&mut task);
    let mut pids = vec![process_of(&mut task, leaver)];
    pids.extend(busy.iter().map(|&tid| process_of(&mut task, tid)));
    for &pid in &pids {
        eventually("everybody is stopped at times", || is_stopped(pid));
        eventually("everybody runs at times", || state(pid) == Some('R'));
    }
    task.delete_hosts(&["far"]).unwrap();
    for &pid in &pids {
        eventually("nobody is left", || state(pid).is_none());
    }
}
