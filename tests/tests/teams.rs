//! Teams of tasks that take turns on this computer's processors: real processes, held by real means.

use pvm_tests::control_groups::CpuGroup;
use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::{Console, Installation, Machine, process, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// Computes until it is ended.
const PROGRAM: &str = "/usr/bin/sha1sum";

/// Time in which all have had the same, on a machine with other work, too.
const LONG: Duration = Duration::from_secs(120);
/// Processes in the way of groups with weights.
const OTHERS: usize = 4;

/// A machine on which teams take turns.
fn machine(means: &str, check: &str) -> Option<Machine> {
    let ours = Installation::ours_only(check)?;
    Some(Plan::of(&ours).variable("PVM_COSCHEDULING", means).variable("PVM_SLICE", "20").start())
}

/// As many teams as there are cores, two at least, and in the first a task less than in the others; the tasks' ids by team.
fn spawn_teams(machine: &Machine) -> (Console, Vec<Vec<String>>) {
    let mut console = machine.console();
    console.command("export PVM_TEAM");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let teams = (0..cores.max(2)).map(|team| {
        console.command(&format!("setenv PVM_TEAM {team}"));
        let count = if team == 0 { 2 } else { 3 };
        let spawned = console.spawn(&format!("-{count} {PROGRAM} /dev/zero"));
        let tids: Vec<String> = spawned.tasks.iter().flatten().cloned().collect();
        assert_eq!(tids.len(), count, "{spawned:?}");
        tids
    });
    let teams: Vec<Vec<String>> = teams.collect();
    let count: usize = teams.iter().map(Vec::len).sum();
    // A process that was held at once starts its program late.
    wait::becomes_true("all compute", || pids(machine).len() == count);
    (console, teams)
}

/// The processes.
fn pids(machine: &Machine) -> Vec<i32> {
    let all = machine.processes().into_iter().filter(|process| process.command.starts_with(PROGRAM));
    all.map(|process| process.pid).collect()
}

/// The team to which a process belongs.
fn team_of(pid: i32) -> usize {
    process::variable(pid, "PVM_TEAM").and_then(|team| team.parse().ok()).expect("a team")
}

/// What the system tells of a process: its state, and the CPU time that it has used, in ticks.
fn state(pid: i32) -> Option<(char, u64)> {
    let ticks = |field| process::stat(pid, field)?.parse::<u64>().ok();
    Some((process::stat(pid, 0)?.chars().next()?, ticks(11)? + ticks(12)?))
}

#[test]
fn stopped_tasks_have_their_turn_hear_that_they_are_to_end_and_do_not_outlive_their_daemon() {
    let check = "teams whose tasks are stopped out of turn";
    let Some(machine) = machine("stop", check) else { return };
    let (mut console, teams) = spawn_teams(&machine);
    let all = pids(&machine);
    let (mut stopped, mut ran) = (BTreeSet::new(), BTreeSet::new());
    wait::becomes_true("everybody waits and runs", || {
        for &pid in &all {
            match state(pid) {
                Some(('T', _)) => drop(stopped.insert(pid)),
                Some(_) => drop(ran.insert(pid)),
                None => {}
            }
        }
        stopped.len() == all.len() && ran.len() == all.len()
    });
    console.command(&format!("kill {}", teams[0].join(" ")));
    wait::becomes_true("a team has ended, whoever's turn it was", || pids(&machine).len() == all.len() - 2);
    process::signal(machine.daemon_pid(), Signal::KILL);
    wait::becomes_true("all have ended with their daemon", || all.iter().all(|&pid| !process::is_alive(pid)));
}

#[test]
fn a_slice_is_the_hostfiles_or_else_the_environments() {
    let Some(ours) = Installation::ours_only("slices of hosts") else { return };
    let hosts = "* via=local\nh1 slice=30\nh2 slice=1500\nh3\n";
    let plan = Plan::of(&ours).name("h1").hostfile(hosts).variable("PVM_SLICE", "70");
    let machine = plan.start();
    let lines = machine.console_with_hosts(3).command("conf -l");
    let slice = |host: &str| {
        let row = lines.iter().rev().find(|line| line.split_whitespace().next() == Some(host));
        row.and_then(|row| row.split_whitespace().nth(2))
    };
    assert_eq!(["h1", "h2", "h3"].map(slice), [Some("30ms"), Some("1.5s"), Some("70ms")], "{lines:?}");
    machine.finish();
}

#[test]
fn teams_have_equal_shares_with_any_number_of_tasks() {
    let check = "shares of teams by priorities";
    let Some(()) = peers::require(&[Peer::Root], check) else { return };
    let Some(machine) = machine("priorities", check) else { return };
    let (_console, teams) = spawn_teams(&machine);
    all_have_the_same(&machine, &teams);
}

/// The same where the daemon has a control group of its own: each task has one below it, which ends with the task.
#[test]
fn teams_have_the_same_by_the_weights_of_control_groups() {
    let check = "shares of teams by the weights of control groups";
    let Some(()) = peers::require(&[Peer::Root], check) else { return };
    let Some(group) = CpuGroup::new("pvm-test-teams", check) else { return };
    let Some(machine) = machine("weights", check) else { return };
    // Others in its group must leave it first, and start processes all the time.
    let others: Vec<_> = (0..OTHERS).map(|_| Restless::start(&group)).collect();
    group.admit(machine.daemon_pid());
    let (mut console, teams) = spawn_teams(&machine);
    wait::becomes_true("all others have left", || !group.has_processes());
    drop(others);
    all_have_the_same(&machine, &teams);
    let means = console.command("conf -l").join("\n");
    assert!(means.contains("weights"), "{means}");
    // The daemon goes before tasks while some of them are held; while the machine is busy with other work, turns may be found unneeded
    // for a slice, in which nobody is held.
    let nice = || group.word("pvm-others", "cpu.weight.nice");
    wait::becomes_true("the daemon goes before tasks", || nice().as_deref() == Some("-10"));
    let tasks = || group.below().into_iter().filter(|name| name.starts_with("pvm-task-")).count();
    assert_eq!(tasks(), pids(&machine).len());
    console.command(&format!("kill {}", teams[0].join(" ")));
    wait::becomes_true("groups end with their tasks", || tasks() == pids(&machine).len());
    for team in &teams[2..] {
        console.command(&format!("kill {}", team.join(" ")));
    }
    wait::becomes_true("a team is alone, and nobody is held", || nice().as_deref() == Some("0"));
    let all = pids(&machine);
    process::signal(machine.daemon_pid(), Signal::KILL);
    wait::becomes_true("all have ended with their daemon", || all.iter().all(|&pid| !process::is_alive(pid)));
}

/// A process that does nothing but start others.
struct Restless(Child);

impl Restless {
    fn start(group: &CpuGroup) -> Self {
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", "while :; do (:); done"]).spawn().expect("a shell");
        let started = Self(child);
        group.admit(started.0.id().cast_signed());
        started
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// By itself the system would share by processes: the first team would have two thirds of what another has.
fn all_have_the_same(machine: &Machine, teams: &[Vec<String>]) {
    let (mut parts, all) = (vec![Vec::new(); teams.len()], pids(machine));
    for pid in all {
        parts[team_of(pid)].push(pid);
    }
    assert!(parts.iter().map(Vec::len).eq(teams.iter().map(Vec::len)), "{parts:?}");
    let used = || -> Vec<u64> {
        parts.iter().map(|team| team.iter().filter_map(|&pid| Some(state(pid)?.1)).sum()).collect()
    };
    // Before the last team came the others had more.
    let before = used();
    let since = || -> Vec<u64> { used().iter().zip(&before).map(|(now, before)| now - before).collect() };
    // What else runs here is in the way of one more than of another for a while.
    let is_fair = || {
        let shares = since();
        let (least, most) = shares.iter().min().copied().zip(shares.iter().max().copied())?;
        (least >= 150 && most * 4 <= least * 5).then_some(())
    };
    assert!(wait::until(LONG, is_fair).is_some(), "{:?} ticks", since());
}
