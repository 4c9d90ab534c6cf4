//! Hosts that are lost at the one moment when they have asked for tasks and been given them, and none of these runs yet.

use pvm_tests::machine::{Machine, Plan};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, process, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;

const TASKS: usize = 30;

/// Three hosts and a batch on them, of which the second host has been given a part: its first task waits for its program.
struct Scene {
    machine: Machine,
    batch: Program,
    /// Keeps the second host from reading its copy of the program.
    lease: Program,
    /// Process id of the second host's daemon.
    node: i32,
    _programs: Programs,
    /// The second host's own.
    copies: Programs,
}

impl Scene {
    fn new(check: &str) -> Option<Self> {
        let ours = Installation::ours_only(check)?;
        let programs = Programs::compile(&["batch", "lease"], &ours, Linking::Shared)?;
        let copies = Programs::compile(&["batch"], &ours, Linking::Shared)?;
        let own = copies.folder().display();
        let hosts = format!("* via=local sp=1000 ep=@PATH@\nh1\nh2 ep={own}\nh3\n");
        let machine = Plan::of(&ours).path(programs.folder()).name("h1").hostfile(&hosts).start();
        machine.console_with_hosts(3).quit();
        let lease = machine.program(programs.path("lease"), &[copies.path("batch")]);
        lease.await_line("its lease", |line| (line == "held").then_some(()));
        let count = TASKS.to_string();
        let batch = machine.program(programs.path("batch"), &[&count, "hold", "batch"]);
        lease.await_line("somebody who wants the program", |line| (line == "wanted").then_some(()));
        let node =
            wait::until(wait::PATIENCE, || one_with_a_copy(&machine)).expect("a daemon that starts a task");
        Some(Self { machine, batch, lease, node, _programs: programs, copies })
    }

    /// The batch has gone on without the second host: each task once, and not there.
    fn expect_all_elsewhere(&self) {
        wait::becomes_true("the end of the batch", || self.batch.stdout().ends_with("done\n"));
        let said = self.batch.stdout();
        let words = |kind: &'static str| {
            said.lines().filter_map(move |line| line.strip_prefix(kind)?.split(' ').next().map(str::to_owned))
        };
        assert!(said.starts_with(&format!("started {TASKS}\n")), "{said}");
        let (started, heard): (BTreeSet<_>, BTreeSet<_>) =
            (words("tid ").collect(), words("here ").collect());
        assert_eq!((started.len(), &started), (TASKS, &heard), "{said}");
        assert!(!said.contains(" t80000 "), "some run on the host that is lost: {said}");
    }

    /// What the second host was about to start.
    fn expect_nothing_of_the_node(&self) {
        let folder = self.copies.folder().to_str().expect("a name that is text");
        wait::becomes_true("the end of what the lost host was starting", || {
            let all = self.machine.processes();
            !all.iter().any(|process| {
                process.pid == self.node
                    || (process.command.starts_with(folder) && process.pid != self.lease.pid())
            })
        });
    }
}

/// The daemon that has a child which is no other program yet, if there is but one.
fn one_with_a_copy(machine: &Machine) -> Option<i32> {
    let daemons: Vec<i32> = machine.slave_daemons().iter().map(|daemon| daemon.pid).collect();
    let is_about = |pid: &&i32| process::children(**pid).iter().any(|child| daemons.contains(&child.pid));
    let mut about = daemons.iter().filter(is_about);
    about.next().copied().filter(|_| about.next().is_none())
}

#[test]
fn a_node_that_is_killed_before_its_tasks_start() {
    let Some(mut scene) = Scene::new("the loss of a host that starts tasks") else { return };
    process::signal(scene.node, Signal::KILL);
    scene.expect_all_elsewhere();
    scene.lease.close_stdin();
    scene.expect_nothing_of_the_node();
}

#[test]
fn a_node_that_stands_still_before_its_tasks_start() {
    let Some(mut scene) = Scene::new("a host that stands still while it starts tasks") else { return };
    process::signal(scene.node, Signal::STOP);
    scene.expect_all_elsewhere();
    // Only now could the task run; its daemon finds itself deleted.
    scene.lease.close_stdin();
    process::signal(scene.node, Signal::CONT);
    scene.expect_nothing_of_the_node();
    assert!(scene.batch.end().stdout.ends_with("done\n"));
}

#[test]
fn tied_tasks_end_with_the_host_of_their_spawner() {
    let Some(ours) = Installation::ours_only("tasks that end with another host") else { return };
    let Some(programs) = Programs::compile(&["tied"], &ours, Linking::Shared) else { return };
    let hosts = "* via=local sp=1000 ep=@PATH@\nh1\nh2\nh3\n";
    let machine = Plan::of(&ours).path(programs.folder()).name("h1").hostfile(hosts).start();
    machine.console_with_hosts(3).quit();
    let master = machine.program::<&str>(programs.path("tied"), &[]);
    master.await_line("its tasks", |line| (line == "ready").then_some(()));
    let has_spawner = |daemon: &process::Process| {
        process::children(daemon.pid).iter().any(|child| child.command.ends_with("tied spawner"))
    };
    let daemon = machine.slave_daemons().into_iter().find(has_spawner).expect("the second host's daemon");
    process::signal(daemon.pid, Signal::KILL);
    assert_eq!(master.end().stdout, "ready\nthe tied one has ended, the other goes on\n");
}
