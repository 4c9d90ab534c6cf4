//! Teams of tasks that take turns on this computer's processors: real processes, held by real means.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::{Console, Installation, Machine, process, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::thread;

/// Computes until it is ended.
const PROGRAM: &str = "/usr/bin/sha1sum";

/// As many teams as there are cores, two at least, and in the first a task less than in the others; the tasks' ids by team.
fn with_teams(means: &str, check: &str) -> Option<(Machine, Console, Vec<Vec<String>>)> {
    let ours = Installation::ours_only(check)?;
    let machine = Plan::of(&ours).variable("PVM_COSCHEDULING", means).variable("PVM_SLICE", "20").start();
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
    let count = teams.iter().map(Vec::len).sum();
    // Whoever was held at once is late to become the program.
    wait::becomes_true("all compute", || pids(&machine).len() == count);
    Some((machine, console, teams))
}

/// The processes, in the order of their start, which is that of the teams.
fn pids(machine: &Machine) -> Vec<i32> {
    let all = machine.processes().into_iter().filter(|process| process.command.starts_with(PROGRAM));
    all.map(|process| process.pid).collect()
}

/// What the system tells of a process: its state, and the CPU time that it has used, in ticks.
fn state(pid: i32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields[0].chars().next()?, fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?))
}

#[test]
fn stopped_tasks_have_their_turn_hear_that_they_are_to_end_and_do_not_outlive_their_daemon() {
    let check = "teams whose tasks are stopped out of turn";
    let Some((machine, mut console, teams)) = with_teams("stop", check) else { return };
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

/// By itself the system would share by processes: the first team would have two thirds of what another has.
#[test]
fn teams_have_the_same_whatever_number_of_tasks_they_have() {
    let check = "shares of teams by priorities";
    let Some(()) = peers::require(&[Peer::Root], check) else { return };
    let Some((machine, _console, teams)) = with_teams("priorities", check) else { return };
    let all = pids(&machine);
    let mut rest = &all[..];
    let parts: Vec<&[i32]> = teams
        .iter()
        .map(|tids| {
            let (team, others) = rest.split_at(tids.len());
            rest = others;
            team
        })
        .collect();
    let used = || -> Vec<u64> {
        parts.iter().map(|team| team.iter().filter_map(|&pid| Some(state(pid)?.1)).sum()).collect()
    };
    // Before the last team came the others had more.
    let before = used();
    let since = || -> Vec<u64> { used().iter().zip(&before).map(|(now, before)| now - before).collect() };
    wait::becomes_true("each has used a second and a half", || since().iter().all(|&ticks| ticks >= 150));
    let shares = since();
    let (least, most) = (shares.iter().min().copied(), shares.iter().max().copied());
    assert!(most.zip(least).is_some_and(|(most, least)| most * 4 <= least * 5), "{shares:?} ticks");
}
