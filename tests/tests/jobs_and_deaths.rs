//! A thousand jobs and tasks while daemons are killed: a slave, the master, and the last one. Each runs to
//! its end, none on two hosts at a time.

use pvm_tests::job_scene::JobScene;
use pvm_tests::{process, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TASKS: usize = 900;
const JOBS: usize = 100;

/// Notes a run. A lock that a killed process held is free.
const RUN: &str = "exec 9> lock/$PVM_JOB_ID.$PVM_JOB_TASK
flock -n 9 || echo $PVM_JOB_ID.$PVM_JOB_TASK >> twice
sleep 0.1
echo > done/$PVM_JOB_ID.$PVM_JOB_TASK";

fn done(folder: &Path) -> usize {
    fs::read_dir(folder.join("done")).expect("a folder").count()
}

#[test]
fn a_thousand_jobs_survive_the_deaths_of_daemons() {
    let Some(mut scene) = JobScene::new("jobs among daemons that are killed") else { return };
    let folder = scene.folder.path().to_owned();
    for name in ["lock", "done"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    scene.script("run.sh", RUN);
    let mut ids: Vec<String> = vec![scene.good(&format!("submit --array 1-{TASKS} --output none ./run.sh"))];
    ids.extend((0..JOBS).map(|_| scene.good("submit --restart 3 --output none ./run.sh")));
    let reach = |count: usize| wait::becomes_true("some are done", || done(&folder) >= count);

    reach(100);
    process::signal(scene.machine.slave_daemons()[0].pid, Signal::KILL);
    reach(200);
    // Of three hosts one has no majority: the loss of the first must be agreed before the second is lost.
    let knows_both = |log: &String| log.contains("configuration=3");
    wait::becomes_true("two hosts are the machine", || {
        scene.machine.logs().iter().filter(|log| knows_both(log)).count() == 2
    });
    process::signal(scene.machine.daemon_pid(), Signal::KILL);
    wait::becomes_true("the last host is the master", || {
        scene.machine.logs().iter().any(|log| knows_both(log) && log.contains("is the master host="))
    });
    reach(300);
    for daemon in scene.machine.slave_daemons() {
        process::signal(daemon.pid, Signal::KILL);
    }
    wait::becomes_true("nothing is left", || scene.machine.processes().is_empty());
    scene.start_again();
    scene.good(&format!("wait {}", ids.join(" ")));
    assert_eq!(done(&folder), TASKS + JOBS);
    assert!(!folder.join("twice").exists(), "{}", scene.read("twice"));
    let states: BTreeSet<String> = ids.iter().map(|id| scene.job(id)["state"].to_string()).collect();
    assert_eq!(states, BTreeSet::from(["\"done\"".to_owned()]));
    scene.machine.finish();
}
