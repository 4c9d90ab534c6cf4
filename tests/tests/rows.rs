//! Teams that take turns by the rows of a matrix, on all hosts at once: real daemons on this computer, real processes.

use pvm_tests::job_scene::JobScene;
use pvm_tests::machine::Plan;
use pvm_tests::process::{self, is_stopped};
use pvm_tests::{Console, Installation, Machine, wait};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
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
        Some((process::variable(process.pid, "PVM_TEAM")?, host_of(process.pid)?, process.pid))
    });
    known.collect()
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

const QUEUES: &str = "[[queue]]\nname = \"gang\"\nturns = \"rows\"\n\n[[queue]]\nname = \"apart\"\nturns = \"demand\"\n\n\
    [[queue]]\nname = \"free\"\nturns = \"none\"\n";

/// The processes of a job.
fn of_job(machine: &Machine, job: &str) -> Vec<i32> {
    let is_of = |pid: i32| process::variable(pid, "PVM_JOB_ID").is_some_and(|id| id == job);
    let all = machine.processes().into_iter().filter(|process| process.command.starts_with(PROGRAM));
    all.map(|process| process.pid).filter(|&pid| is_of(pid)).collect()
}

#[test]
fn jobs_take_turns_as_their_queues_say() {
    // The hostfile says how tasks are held, and not the environment.
    let hosts = "* via=local sp=1000 ep=@PATH@ coscheduling=stop slice=100\nh1\nh2\nh3\n";
    let Some(scene) = JobScene::with_hostfile("turns of the jobs of queues", QUEUES, hosts) else { return };
    let machine = &scene.machine;
    let shown = scene.good("queues");
    assert!(
        ["rows", "demand", "none"].iter().all(|rule| shown.contains(&format!("turns={rule}"))),
        "{shown}"
    );
    assert_eq!(rows(machine), [], "no job, no row");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let submit = |queue: &str, host: &str| {
        let kind = format!("--queue {queue} --hosts {host} --cpus 0 --array 1-{cores} --output none");
        let job = scene.good(&format!("submit {kind} {PROGRAM} /dev/zero"));
        wait::becomes_true("a job runs", || of_job(machine, &job).len() == cores);
        job
    };
    let (first, second, third) = (submit("gang", "h2"), submit("gang", "h2"), submit("gang", "h3"));
    let (apart, free) = (submit("apart", "h2"), submit("free", "h2"));
    let place = |job: &str, host: &str| format!("job.{job}@{host}");
    let (one, two, other) = (place(&first, "h2"), place(&second, "h2"), place(&third, "h3"));
    let only: &[&[&str]] = &[&[&one, &other], &[&two]];
    wait::becomes_true("the jobs of one queue are in the matrix", || rows(machine) == expected(only, cores));
    let others =
        || serde_json::from_str::<Value>(&pvm(machine, &["rows", "--json"])).expect("JSON")["others"].clone();
    wait::becomes_true("others have a slice of their own", || others() == true);
    // Each of the three has turns.
    let turns = [&first, &second, &apart].map(|job| of_job(machine, job));
    for has_turn in 0..turns.len() {
        wait::becomes_true("a job has the turn", || {
            turns
                .iter()
                .enumerate()
                .all(|(at, pids)| pids.iter().all(|&pid| is_stopped(pid) != (at == has_turn)))
        });
    }
    let free = of_job(machine, &free);
    for _ in 0..SAMPLES {
        assert!(!free.iter().any(|&pid| is_stopped(pid)), "a job that takes no turns is held");
        thread::sleep(Duration::from_millis(7));
    }

    // A mistake changes nothing.
    scene.write("queues.toml", &QUEUES.replacen("\"rows\"", "\"row\"", 1));
    let refused = scene.refused("queues --reload");
    assert!(refused.contains("line 3: turns: \"row\"") && refused.contains("stay as they are"), "{refused}");
    assert!(scene.good("queues").contains("turns=rows"));
    // A change is for jobs that begin later.
    scene.write("queues.toml", &QUEUES.replacen("\"rows\"", "\"demand\"", 1));
    assert!(!scene.good("queues --reload").contains("turns=rows"));
    let later = submit("gang", "h3");
    assert_eq!(rows(machine), expected(only, cores), "{later}");
    scene.good(&format!("cancel {first} {second} {third}"));
    wait::becomes_true("the matrix ends with its jobs", || {
        pvm(machine, &["rows"]).contains("turns = \"rows\"")
    });
    scene.machine.finish();
}

#[test]
fn the_hostfile_says_that_a_machine_takes_turns_by_rows() {
    let Some(ours) = Installation::ours_only("turns by the hostfile") else { return };
    let hosts = "* via=local coscheduling=dasic,stop\nh1\nh2 coscheduling=implicit\n";
    let plan = Plan::of(&ours).name("h1").hostfile(hosts).variable("PVM_COSCHEDULING", "implicit");
    let machine = plan.start();
    let mut console = machine.console_with_hosts(2);
    assert_eq!(rows(&machine), [], "there is a matrix");
    console.command("export PVM_TEAM");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for team in ["a", "b"] {
        spawn(&mut console, team, "h1", cores);
        spawn(&mut console, team, "h2", cores);
    }
    let of_one: &[&[&str]] = &[&["a@h1"], &["b@h1"]];
    wait::becomes_true("teams of one host have rows", || rows(&machine) == expected(of_one, cores));
    let all = processes(&machine);
    let on = |host: &str| all.iter().filter(|process| process.1 == host).map(|process| process.2).collect();
    let (held, free): (Vec<i32>, Vec<i32>) = (on("h1"), on("h2"));
    wait::becomes_true("some are stopped", || held.iter().any(|&pid| is_stopped(pid)));
    assert!(!free.iter().any(|&pid| is_stopped(pid)), "none of the other host's are");
    machine.finish();
}
