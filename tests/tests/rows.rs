//! Teams that take turns by the rows of a matrix, on all hosts at once: real daemons on this computer, real processes.

use pvm_tests::machine::Plan;
use pvm_tests::{Console, Installation, Machine, wait};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

/// Computes until it is ended.
const PROGRAM: &str = "/usr/bin/sha1sum";

/// Samples of which turns are, and how many of them may be of a moment in which they change, or of a slice in which a host lets all run.
const SAMPLES: usize = 200;
const SAMPLES_ODD: usize = 40;

/// What a command of `pvm` prints.
fn pvm(machine: &Machine, arguments: &[&str]) -> String {
    let output = machine.command(machine.installation().pvm()).args(arguments).output().expect("pvm runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}\n{}", machine.log());
    String::from_utf8(output.stdout).expect("text")
}

/// The rows: the teams of each, with their processes on each host.
fn rows(machine: &Machine) -> Vec<BTreeMap<String, u64>> {
    let json: Value = serde_json::from_str(&pvm(machine, &["rows", "--json"])).expect("JSON");
    assert_eq!(json["on"], true, "{json}");
    let place = |place: &Value| {
        let word = |name: &str| place[name].as_str().expect("a name").to_owned();
        (format!("{}@{}", word("team"), word("host")), place["processes"].as_u64().expect("a number"))
    };
    let row = |row: &Value| row["places"].as_array().expect("places").iter().map(place).collect();
    json["rows"].as_array().expect("rows").iter().map(row).collect()
}

fn expected(rows: &[&[&str]], count: usize) -> Vec<BTreeMap<String, u64>> {
    rows.iter().map(|row| row.iter().map(|place| ((*place).to_owned(), count as u64)).collect()).collect()
}

/// A team with as many tasks as there are cores on a host.
fn spawn(console: &mut Console, team: &str, host: &str, count: usize) -> Vec<String> {
    console.command(&format!("setenv PVM_TEAM {team}"));
    let spawned = console.spawn(&format!("-{host} -{count} {PROGRAM} /dev/zero"));
    let tids: Vec<String> = spawned.tasks.iter().flatten().cloned().collect();
    assert_eq!(tids.len(), count, "{spawned:?}");
    tids
}

/// The processes by team, host and id.
fn processes(machine: &Machine) -> Vec<(String, String, i32)> {
    let json: Value = serde_json::from_str(&pvm(machine, &["ps", "-al", "--json"])).expect("JSON");
    let host_of = |pid: i32| {
        let tasks = json["tasks"].as_array().expect("tasks");
        let task = tasks.iter().find(|task| task["pid"] == pid)?;
        Some(task["host"].as_str()?.to_owned())
    };
    let all = machine.processes().into_iter().filter(|process| process.command.starts_with(PROGRAM));
    let known = all.filter_map(|process| {
        let environment = fs::read_to_string(format!("/proc/{}/environ", process.pid)).ok()?;
        let team = environment.split('\0').find_map(|entry| entry.strip_prefix("PVM_TEAM="))?;
        Some((team.to_owned(), host_of(process.pid)?, process.pid))
    });
    known.collect()
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// The teams of which a process runs on each host, at a moment.
fn running(processes: &[(String, String, i32)]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut running: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (team, host, pid) in processes {
        let teams = running.entry(host).or_default();
        if !is_stopped(*pid) {
            teams.insert(team);
        }
    }
    running
}

#[test]
fn teams_take_turns_on_all_hosts_at_once_and_rows_come_and_go_with_teams_and_hosts() {
    let Some(ours) = Installation::ours_only("turns by the rows of a matrix") else { return };
    let hosts = "* via=local\nh1\nh2\nh3\n";
    let plan = Plan::of(&ours).name("h1").hostfile(hosts);
    let machine = plan.variable("PVM_COSCHEDULING", "dasic,stop").variable("PVM_SLICE", "200").start();
    let mut console = machine.console_with_hosts(3);
    assert_eq!(rows(&machine), [], "no team, no row");
    console.command("export PVM_TEAM");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut first = Vec::new();
    for (team, host) in [("a", "h1"), ("a", "h2"), ("b", "h1"), ("b", "h2")] {
        let tids = spawn(&mut console, team, host, cores);
        if team == "a" {
            first.extend(tids);
        }
    }
    let both: &[&[&str]] = &[&["a@h1", "a@h2"], &["b@h1", "b@h2"]];
    wait::becomes_true("each team has a row", || rows(&machine) == expected(both, cores));
    wait::becomes_true("all are known", || processes(&machine).len() == 4 * cores);
    let all = processes(&machine);
    let in_step = || {
        let mut had: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..SAMPLES {
            let running = running(&all);
            let (one, other) = (&running["h1"], &running["h2"]);
            if one == other && one.len() == 1 {
                *had.entry(one.iter().copied().collect()).or_default() += 1;
            }
            thread::sleep(Duration::from_millis(13));
        }
        had.len() == 2 && had.values().sum::<usize>() >= SAMPLES - SAMPLES_ODD
    };
    wait::becomes_true("both hosts let the same team run, and each team has turns", in_step);
    let table = pvm(&machine, &["rows"]);
    assert!(table.starts_with("ROW") && table.contains("200 ms a row"), "{table}");
    wait::becomes_true("turns are shown to be taken by rows", || {
        pvm(&machine, &["top", "--once", "--coscheduling"]).contains("by rows")
    });
    console.command(&format!("kill {}", first.join(" ")));
    wait::becomes_true("a row ends with its team", || {
        rows(&machine) == expected(&[&["b@h1", "b@h2"]], cores)
    });
    wait::becomes_true("the other team runs all the time", || {
        processes(&machine).iter().all(|&(_, _, pid)| !is_stopped(pid))
    });
    spawn(&mut console, "c", "h3", cores);
    spawn(&mut console, "d", "h2", cores);
    let filled: &[&[&str]] = &[&["b@h1", "b@h2", "c@h3"], &["d@h2"]];
    wait::becomes_true("a team fills idle places", || rows(&machine) == expected(filled, cores));
    console.command("delete h2");
    let left: &[&[&str]] = &[&["b@h1", "c@h3"]];
    wait::becomes_true("a host takes its columns along", || rows(&machine) == expected(left, cores));
    machine.finish();
}

#[test]
fn a_machine_without_rows_says_how_to_have_them() {
    let Some(ours) = Installation::ours_only("machines without a matrix") else { return };
    let machine = Machine::start(&ours);
    assert!(pvm(&machine, &["rows"]).contains("PVM_COSCHEDULING=dasic"));
    machine.finish();
}
