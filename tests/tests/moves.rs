//! Tasks that move between hosts, in C and Fortran: real daemons and real processes.

use pvm_tests::machine::Plan;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Output;
use std::time::{Duration, Instant};

const HOSTS: &str = "* via=local\nh1\nh2\nh3\nh4\n";
/// In this time the tasks that can leave the host of an owner who is back have left it.
const VACATED: Duration = Duration::from_secs(2);

/// A machine of four hosts, and programs that it finds.
struct Scene {
    machine: Machine,
    programs: Programs,
}

impl Scene {
    fn new(check: &str, programs: &[&str]) -> Option<Self> {
        let ours = Installation::ours_only(check)?;
        let programs = Programs::compile(programs, &ours, Linking::Shared)?;
        let machine = Plan::of(&ours).name("h1").hostfile(HOSTS).path(programs.folder()).start();
        machine.console_with_hosts(4).quit();
        Some(Self { machine, programs })
    }

    /// Spawns a program on a host; its task's id.
    fn spawn(&self, host: &str, program: &str) -> String {
        let mut console = self.machine.console();
        let spawned = console.spawn(&format!("-{host} {program}"));
        console.quit();
        let tid = spawned.tasks.into_iter().next().expect("a task").expect("it is spawned");
        format!("t{}", tid.trim_start_matches('t'))
    }

    /// A command of `pvm`.
    fn pvm(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.machine.command(self.machine.installation().pvm()).args(words).output().expect("pvm runs")
    }

    #[track_caller]
    fn good(&self, words: &str) -> String {
        let output = self.pvm(words);
        assert!(output.status.success(), "pvm {words}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What `pvm` says that is refused.
    #[track_caller]
    fn refused(&self, words: &str) -> String {
        let output = self.pvm(words);
        assert_eq!(output.status.code(), Some(1), "pvm {words}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The tasks on a host.
    fn tasks_on(&self, host: &str) -> Vec<String> {
        let list: Value = serde_json::from_str(&self.good(&format!("ps -n {host} --json"))).expect("JSON");
        let tasks = list["tasks"].as_array().expect("tasks").iter();
        tasks.map(|task| task["tid"].as_str().expect("an id").to_owned()).collect()
    }

    /// What `settler` says with these arguments.
    fn settler(&self, arguments: &[&str]) -> String {
        let ended = self.machine.program(self.programs.path("settler"), arguments).end();
        ended.expect_success();
        ended.stdout.trim().to_owned()
    }

    /// Has tasks move at random for some milliseconds while they send each other messages, and `meanwhile` something else happens.
    fn wander(&self, milliseconds: &str, meanwhile: impl FnOnce()) {
        let arguments = ["6", milliseconds, "h1", "h2", "h3", "h4"];
        let wandering = self.machine.program(self.programs.path("wander"), &arguments);
        wandering.await_line("tasks", |line| (line == "begun").then_some(()));
        meanwhile();
        let ended = wandering.end_within(Duration::from_secs(240));
        ended.expect_success();
        let last = ended.stdout.lines().last().unwrap_or_default();
        eprintln!("{last}");
        let made: u32 = last.split(' ').nth_back(3).and_then(|count| count.parse().ok()).expect("a count");
        assert!(last.starts_with("ok: ") && made >= 1, "{ended:?}");
    }
}

#[test]
fn a_task_keeps_its_id_its_state_its_group_and_those_that_watch_it() {
    let Some(scene) = Scene::new("tasks that move", &["settler", "fsettler.f90"]) else { return };
    for program in ["settler", "fsettler"] {
        let tid = scene.spawn("h2", program);
        assert_eq!(scene.settler(&["ask", &tid, "10"]), "sum 55 after 0 moves");
        let watching = scene.machine.program(scene.programs.path("settler"), &["watch", &tid]);
        watching.await_line("it watches", |line| (line == "watching").then_some(()));

        assert_eq!(scene.good(&format!("move {tid} h3")), format!("{tid} is on h3\n"));
        assert_eq!((scene.tasks_on("h2"), scene.tasks_on("h3")), (vec![], vec![tid.clone()]));
        assert_eq!(scene.settler(&["ask", &tid, "10"]), "sum 110 after 1 moves");
        // Back home, and where there is most room.
        let json: Value = serde_json::from_str(&scene.good(&format!("move {tid} h2 --json"))).expect("JSON");
        assert_eq!((&json["tid"], &json["host"]), (&Value::from(tid.as_str()), &Value::from("h2")));
        scene.good(&format!("move {tid}"));
        assert_eq!(scene.tasks_on("h2"), Vec::<String>::new());
        assert_eq!(scene.settler(&["ask", &tid, "1"]), "sum 111 after 3 moves");
        if program == "settler" {
            assert_eq!(scene.settler(&["group"]), format!("1 in the group, {tid} the first"));
            // What it has written is one task's, wherever it was.
            let log = scene.machine.log();
            assert!(log.contains("begins with 0") && log.contains("goes on with 110"), "{log}");
        }

        scene.good(&format!("kill {tid}"));
        let watched = watching.end();
        watched.expect_success();
        assert!(watched.stdout.ends_with("gone\n"), "{watched:?}");
    }
    scene.machine.finish();
}

#[test]
fn what_cannot_move_is_told_with_the_reason() {
    let Some(scene) = Scene::new("tasks that do not move", &["settler"]) else { return };
    let (tid, fixed) = (scene.spawn("h2", "settler"), scene.spawn("h2", "/usr/bin/sha1sum /dev/zero"));
    assert!(scene.refused(&format!("move {tid} nowhere")).contains("no such host"));
    assert!(scene.refused("move t40fff h3").contains("no such task"));
    assert!(scene.refused(&format!("move {fixed} h3")).contains("pvm_migratable"));
    assert_eq!(scene.pvm("move 17x").status.code(), Some(2));
    // A program that is not on the other host, and a host that is left to its owner.
    scene.good("owner h3 here");
    assert!(scene.refused(&format!("move {tid} h3")).contains("owner"));
    assert_eq!(scene.tasks_on("h2").len(), 2);
    assert_eq!(scene.settler(&["ask", &tid, "2"]), "sum 3 after 0 moves");
    // Of the console.
    let mut console = scene.machine.console();
    let moved = console.command(&format!("move {tid} h4")).concat();
    assert!(moved.ends_with(" is on h4"), "{moved}");
    assert!(console.command(&format!("move {tid} nowhere")).concat().contains("no such host"));
    console.quit();
    scene.machine.finish();
}

#[test]
fn tasks_that_can_move_have_left_an_owner_who_is_back_within_two_seconds() {
    let Some(scene) = Scene::new("tasks that leave an owner", &["settler"]) else { return };
    let tids: Vec<String> = (0..3).map(|_| scene.spawn("h2", "settler")).collect();
    for tid in &tids {
        assert_eq!(scene.settler(&["ask", tid, "4"]), "sum 10 after 0 moves");
    }
    let returned = Instant::now();
    scene.good("owner h2 here");
    wait::becomes_true("the host is left", || scene.tasks_on("h2").is_empty());
    let left = returned.elapsed();
    eprintln!("left after {left:?}");
    assert!(left < VACATED + Duration::from_secs(3), "{left:?}");
    // Each to another host, as all have as much room.
    let counts = ["h1", "h3", "h4"].map(|host| scene.tasks_on(host).len());
    assert_eq!(counts, [1; 3]);
    for tid in &tids {
        assert_eq!(scene.settler(&["ask", tid, "4"]), "sum 20 after 1 moves");
    }
    scene.machine.finish();
}

/// The matrix of the machine has one row for a team of which all tasks have a processor, and two for one with twice as many tasks.
#[test]
fn a_team_that_is_split_comes_together_on_a_host_that_joins() {
    let Some(ours) = Installation::ours_only("teams that are gathered") else { return };
    let Some(programs) = Programs::compile(&["settler"], &ours, Linking::Shared) else { return };
    let plan = Plan::of(&ours).name("h1").hostfile("* via=local\nh1\n").path(programs.folder());
    let machine = plan.variable("PVM_COSCHEDULING", "dasic,stop").start();
    let scene = Scene { machine, programs };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut console = scene.machine.console_with_hosts(1);
    console.command("export PVM_TEAM");
    console.command("setenv PVM_TEAM split");
    console.spawn(&format!("-{} settler", 2 * cores));
    let rows = || {
        let rows: Value = serde_json::from_str(&scene.good("rows --json")).expect("JSON");
        rows["rows"].as_array().expect("rows").len()
    };
    wait::becomes_true("the team has two rows", || rows() == 2);
    console.command("add \"h2 via=local\"");
    wait::becomes_true("half of it is on the new host", || scene.tasks_on("h2").len() == cores);
    wait::becomes_true("the team is in one row", || rows() == 1);
    // A team for which a host was named stays there, split, though there is room elsewhere.
    console.command("setenv PVM_TEAM fixed");
    console.spawn(&format!("-h1 -{} settler", 2 * cores));
    wait::becomes_true("the other team has two rows more", || rows() == 3);
    std::thread::sleep(Duration::from_secs(1));
    console.quit();
    wait::becomes_true("the others are where they were", || scene.tasks_on("h1").len() == 3 * cores);
    assert_eq!(scene.tasks_on("h2").len(), cores);
    scene.machine.finish();
}

/// `wander.c` checks that each message comes whole, once and in order.
#[test]
fn messages_of_tasks_that_move_all_the_time_come_once_and_in_order() {
    let Some(scene) = Scene::new("tasks that move all the time", &["wander"]) else { return };
    scene.wander("3000", || ());
    scene.machine.terminate();
}

#[test]
fn messages_of_tasks_that_move_all_the_time_are_right_though_a_host_is_lost() {
    let Some(scene) = Scene::new("tasks that move while a host is lost", &["wander"]) else { return };
    scene.wander("6000", || {
        std::thread::sleep(Duration::from_secs(3));
        let daemons = scene.machine.slave_daemons();
        process::signal(daemons[daemons.len() / 2].pid, Signal::KILL);
    });
    // Files of the killed daemon are left.
    drop(scene);
}
