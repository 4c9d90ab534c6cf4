//! Owners of hosts that come back and leave: real daemons on this computer, real processes.

use pvm_tests::job_scene::JobScene;
use pvm_tests::process::{self, is_stopped};
use pvm_tests::{Machine, wait};
use rustix::pty::OpenptFlags;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const QUEUES: &str = "[[queue]]\nname = \"default\"\n";
/// A task that was started by hand.
const PROGRAM: &str = "/usr/bin/sha1sum";
/// In this time the tasks that can leave a host have left it.
const VACATED: Duration = Duration::from_secs(2);
/// The kernel's number of the class that runs when a core has nothing else to do (sched(7)).
const IDLE_CLASS: &str = "5";

fn runs_idly(pid: i32) -> bool {
    process::stat(pid, 38).is_some_and(|class| class == IDLE_CLASS)
}

/// What `pvm owner` says of a host.
fn owner(scene: &JobScene, host: &str) -> Value {
    let list: Value = serde_json::from_str(&scene.good(&format!("owner {host} --json"))).expect("JSON");
    list["owners"][0].clone()
}

/// The tasks that the master has given to a host, by the jobs' own lists.
fn tasks_on(scene: &JobScene, host: &str) -> Vec<i32> {
    let list: Value = serde_json::from_str(&scene.good(&format!("ps -n {host} --json"))).expect("JSON");
    let pids = list["tasks"].as_array().expect("tasks").iter();
    pids.filter_map(|task| i32::try_from(task["pid"].as_i64()?).ok()).filter(|pid| *pid > 0).collect()
}

/// The process of the task that runs this program on a host, spawned there.
fn spawn_on(machine: &Machine, host: &str) -> i32 {
    let mut console = machine.console();
    console.spawn(&format!("-{host} {PROGRAM} /dev/zero"));
    console.quit();
    let is_it = |process: &process::Process| process.command.starts_with(PROGRAM);
    machine.processes().into_iter().find(is_it).expect("the task").pid
}

/// A program that says what stands in a file, line by line, as it is written.
fn sensor(folder: &Path) -> String {
    let (program, said) = (folder.join("sensor"), folder.join("said"));
    fs::write(&said, "gone\n").expect("a file");
    fs::write(&program, format!("#!/bin/sh\nexec tail -n +1 -f {}\n", said.display())).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it can be executed");
    program.display().to_string()
}

fn say(folder: &Path, what: &str) {
    let mut said = File::options().append(true).open(folder.join("said")).expect("the file");
    writeln!(said, "{what}").expect("it is written");
}

#[test]
fn tasks_leave_the_host_of_an_owner_who_is_back_or_are_stopped_until_the_owner_leaves() {
    let folder = TempDir::with_prefix("pvm-owner-").expect("a folder");
    let hostfile = format!("* via=local\nh1\nh2\nh3 owner=run:{}\n", sensor(folder.path()));
    let Some(scene) = JobScene::with_hostfile("owners of hosts", QUEUES, &hostfile) else { return };
    let spawned = spawn_on(&scene.machine, "h3");
    scene.script("work.sh", "sleep 0.4; echo x >> done");
    // More than all hosts have slots for, so that some always wait on h3.
    let job = scene.good("submit --array 1-40 --restart 1 --output none ./work.sh");
    wait::becomes_true("h3 has tasks of the job", || tasks_on(&scene, "h3").len() > 1);

    let returned = Instant::now();
    say(folder.path(), "here");
    wait::becomes_true("the spawned task is stopped", || is_stopped(spawned));
    let stopped = returned.elapsed();
    wait::becomes_true("the job has left the host", || tasks_on(&scene, "h3") == [spawned]);
    eprintln!("stopped after {stopped:?}, gone after {:?}", returned.elapsed());
    assert_eq!(owner(&scene, "h3")["here"], true);
    assert!(returned.elapsed() < VACATED + Duration::from_secs(3), "{:?}", returned.elapsed());
    // Nothing new comes, neither by the queue nor by name, and the reason is told.
    let mut console = scene.machine.console();
    let refused = console.command(&format!("spawn -h3 {PROGRAM} /dev/zero")).join("\n");
    assert!(refused.contains("owner"), "{refused}");
    console.quit();
    scene.good(&format!("wait {job}"));
    assert_eq!(scene.read("done").lines().count(), 40);
    let all = scene.job(&job);
    assert!(all["state"] == "done" && all["restarts"].as_u64() > Some(0), "{all}");
    assert!(is_stopped(spawned) && tasks_on(&scene, "h3") == [spawned]);

    say(folder.path(), "gone");
    wait::becomes_true("the spawned task goes on", || !is_stopped(spawned));
    let job = scene.good("submit --array 1-12 --output none ./work.sh");
    wait::becomes_true("h3 has tasks again", || tasks_on(&scene, "h3").len() > 1);
    scene.good(&format!("wait {job}"));
    scene.machine.finish();
}

#[test]
fn a_person_says_that_the_owner_is_there_and_tasks_have_what_the_owner_leaves() {
    let hostfile = "* via=local\nh1\nh2 held=least\nh3\n";
    let Some(scene) = JobScene::with_hostfile("owners, by hand", QUEUES, hostfile) else { return };
    let spawned = spawn_on(&scene.machine, "h2");
    let table = scene.good("owner");
    assert!(table.lines().count() == 4 && !table.contains(" here "), "{table}");
    assert!(scene.good("owner h2 here").contains("here   hand  none  least  1"));
    wait::becomes_true("the task runs when nothing else wants to", || runs_idly(spawned));
    assert!(!is_stopped(spawned));
    // A task that cannot be restarted stays; with all owners back the job says for what it waits.
    for host in ["h1", "h3"] {
        scene.good(&format!("owner {host} here"));
    }
    scene.script("work.sh", "true");
    let job = scene.good("submit --output none ./work.sh");
    wait::becomes_true("the job says why it waits", || scene.good(&format!("job {job}")).contains("owners"));
    scene.good("owner h2 auto");
    wait::becomes_true("the task is as it was", || !runs_idly(spawned));
    scene.good(&format!("wait {job}"));
    assert!(scene.refused("owner nowhere here").contains("no such host"));
    let output = scene.pvm("owner h1 away");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("here"), "{output:?}");
    scene.machine.finish();
}

#[test]
fn input_at_a_terminal_is_the_owners() {
    let hostfile = "* via=local\nh1\nh2 owner=idle:1h\nh3\n";
    let Some(scene) = JobScene::with_hostfile("owners at terminals", QUEUES, hostfile) else { return };
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    rustix::pty::grantpt(&master).expect("it is granted");
    rustix::pty::unlockpt(&master).expect("it is unlocked");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("it has a name");
    let mut terminal = File::open(name.to_str().expect("a path")).expect("it can be opened");
    File::from(master.try_clone().expect("a copy")).write_all(b"x\n").expect("a line is typed");
    let typed = Instant::now();
    assert_eq!(terminal.read(&mut [0; 8]).expect("a line is read"), 2);
    wait::becomes_true("the owner is there", || owner(&scene, "h2")["here"] == true);
    eprintln!("{:?} after the input the owner was known to be there", typed.elapsed());
    // A person knows better.
    scene.good("owner h2 gone");
    assert_eq!(owner(&scene, "h2")["by_hand"], true);
    scene.machine.finish();
}
