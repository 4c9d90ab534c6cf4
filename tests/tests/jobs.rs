//! Jobs as users submit them: sweeps, chains, parallel programs, limits, mistakes; and machines that end while they run.

use pvm_tests::job_scene::{JobScene, job};
use pvm_tests::{process, wait};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_sweep_runs_each_task_once_and_a_chain_in_order() {
    let Some(scene) = JobScene::new("jobs of the queues") else { return };
    scene.script("run.sh", "echo $PVM_JOB_NAME $PVM_JOB_TASK of $PVM_JOB_TASKS $COLOUR $1");
    let sweep = scene.good("submit --array 1-200 --env COLOUR=blue --output out/%j/%t ./run.sh x");
    assert_eq!(sweep, "1");
    // Each waits for the one before.
    scene.script("append.sh", "sleep 1; echo $1 >> chain");
    let first = scene.good("submit ./append.sh one");
    let second = scene.good(&format!("submit --after {first} ./append.sh two"));
    let third = scene.good(&format!("submit --after {first},{second} ./append.sh three"));
    assert!(scene.good("jobs").contains("it starts after the end of"));
    scene.good(&format!("wait {sweep} {third}"));
    for task in 1..=200 {
        assert_eq!(scene.read(&format!("out/1/{task}")), format!("run.sh {task} of 200 blue x\n"));
    }
    assert_eq!(scene.read("chain"), "one\ntwo\nthree\n");
    let swept = scene.job(&sweep);
    assert_eq!((&swept["state"], &swept["done"]), (&"done".into(), &200.into()), "{swept}");
    assert!(swept["hosts"].as_array().is_some_and(|hosts| hosts.len() == 3), "{swept}");
    assert!(swept["submitted_ms"].as_u64() <= swept["started_ms"].as_u64(), "{swept}");
    assert!(swept["ended_ms"].as_u64() > swept["started_ms"].as_u64(), "{swept}");
    assert!(scene.good("history").lines().count() == 5 && scene.good("jobs").lines().count() == 1);
    scene.machine.finish();
}

#[test]
fn a_parallel_job_waits_for_room_and_starts_whole() {
    let Some(scene) = JobScene::new("parallel jobs of the queues") else { return };
    let blocker = scene.good("submit sleep 1000");
    scene.script("whole.sh", "echo $PVM_JOB_TASK");
    let whole = scene.good("submit -n 6 --output whole ./whole.sh");
    let reason = scene.good(&format!("job {whole}"));
    assert!(reason.contains("it needs 6 slots at a time"), "{reason}");
    assert_eq!(scene.read("whole"), "");
    scene.good(&format!("cancel {blocker}"));
    scene.good(&format!("wait {whole}"));
    let said = scene.read("whole");
    let mut tasks: Vec<&str> = said.lines().collect();
    tasks.sort_unstable();
    assert_eq!(tasks, ["0", "1", "2", "3", "4", "5"]);
    // One of them fails: the others end, and the job has failed.
    scene.script("part.sh", "test $PVM_JOB_TASK = 2 && exit 3; exec sleep 1000");
    let part = scene.good("submit -n 4 ./part.sh");
    assert!(scene.refused(&format!("wait {part}")).contains("task 2 ended with exit code 3"));
    scene.machine.finish();
}

#[test]
fn limits_failures_and_mistakes_are_told() {
    let Some(scene) = JobScene::new("limits of jobs") else { return };
    assert!(scene.refused("submit -n 7 true").contains("the job needs 7 slots at a time"));
    assert!(scene.refused("submit --cpus 3 true").contains("a task needs 3 slots, the largest host"));
    assert!(scene.refused("submit --queue none true").contains("there is no queue none"));
    assert!(scene.refused("submit --hosts nowhere* true").contains("the largest host it may run on has 0"));
    assert!(scene.refused("submit --after 99 true").contains("there is no job 99"));
    assert!(scene.refused("submit --dir /no/folder true").contains("there is no folder /no/folder"));
    assert!(scene.refused("submit ./no-such-program").contains("no-such-program: no such file"));
    for usage in
        ["submit", "submit --array 5-1 true", "submit --time soon true", "wait x", "submit -n 0 true"]
    {
        assert_eq!(scene.pvm(usage).status.code(), Some(2), "{usage}");
    }
    for unknown in ["job 99", "wait 99", "cancel 99", "hold 99"] {
        assert!(scene.refused(unknown).contains("there is no job 99"), "{unknown}");
    }
    // Tasks that fail are tried again as often as the user wants, and what waits for them is cancelled.
    let failing = scene.good("submit --hold --restart 2 --name fails false");
    let waiting = scene.good(&format!("submit --after {failing} true"));
    scene.good(&format!("release {failing}"));
    assert!(scene.refused(&format!("wait {failing} {waiting}")).contains("ended with exit code 1"));
    assert_eq!(scene.job(&failing)["restarts"], 2);
    assert_eq!(scene.job(&waiting)["state"], "cancelled");
    assert!(scene.refused("submit --wait --time 1 sleep 1000").contains("it ran longer than it may"));
    assert!(
        scene.refused("submit --wait --output /proc/no/file true").contains("its output cannot be written")
    );
    assert_eq!(scene.pvm("submit --mem much true").status.code(), Some(2));
    // What ignores the request to end is killed, and what it has started, too.
    scene.script("stubborn.sh", "trap '' TERM; sleep 1000 & echo started; wait; sleep 1000");
    let stubborn = scene.good("submit --output stubborn ./stubborn.sh");
    wait::becomes_true("it runs", || scene.read("stubborn") == "started\n");
    scene.good(&format!("cancel {stubborn}"));
    scene.refused(&format!("wait {stubborn}"));
    assert!(scene.refused(&format!("cancel {stubborn}")).contains("was cancelled already"));
    scene.machine.finish();
}

#[test]
fn a_held_array_starts_no_more_and_a_cancelled_one_drops_the_rest() {
    let Some(scene) = JobScene::new("arrays that are held") else { return };
    let array = scene.good("submit --array 0-99%4 --output none sleep 0.3");
    wait::becomes_true("some have ended", || scene.job(&array)["done"].as_u64() > Some(3));
    assert!(scene.job(&array)["running"].as_u64() <= Some(4));
    scene.good(&format!("hold {array}"));
    wait::becomes_true("none runs", || scene.job(&array)["running"] == 0);
    let held = scene.job(&array);
    assert_eq!(held["state"], "held", "{held}");
    scene.good(&format!("cancel {array}"));
    scene.refused(&format!("wait {array}"));
    let ended = scene.job(&array);
    let sum = |fields: &[&str]| fields.iter().filter_map(|field| ended[field].as_u64()).sum::<u64>();
    assert_eq!((&ended["state"], sum(&["done", "cancelled"])), (&"cancelled".into(), 100), "{ended}");
    assert_eq!(scene.good("queues").lines().count(), 2);
    scene.machine.finish();
}

/// Each task has left a line when it was over.
fn lines(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("done")).into_iter().flatten().flatten();
    files.map(|file| file.path()).collect()
}

#[test]
fn jobs_outlive_the_machine_whose_daemons_are_killed() {
    let Some(mut scene) = JobScene::new("jobs that outlive the machine") else { return };
    scene.script("once.sh", "sleep 0.2; mkdir -p done; echo $PVM_JOB_TASK > done/$PVM_JOB_TASK");
    let array = scene.good("submit --array 1-60 --output none ./once.sh");
    let held = scene.good("submit --hold true");
    wait::becomes_true("some are done", || lines(scene.folder.path()).len() > 10);
    let all = scene.machine.slave_daemons();
    process::signal(scene.machine.daemon_pid(), Signal::KILL);
    for daemon in &all {
        process::signal(daemon.pid, Signal::KILL);
    }
    wait::becomes_true("nothing is left", || scene.machine.processes().is_empty());
    assert!(lines(scene.folder.path()).len() < 60);
    scene.start_again();
    scene.good(&format!("wait {array}"));
    assert_eq!(lines(scene.folder.path()).len(), 60);
    assert_eq!((&scene.job(&array)["done"], &scene.job(&held)["state"]), (&60.into(), &"held".into()));
    assert!(scene.job(&held)["submitted_ms"].as_u64() > Some(0));
    // Its deputies could have gone on, and have given out numbers.
    assert_eq!(scene.good("submit true"), "1003", "numbers are not given twice");
    scene.machine.finish();
}

#[test]
fn jobs_of_a_damaged_file_are_kept_and_do_not_run_by_themselves() {
    let Some(mut scene) = JobScene::new("jobs of a damaged file") else { return };
    scene.script("once.sh", "mkdir -p done; echo $PVM_JOB_TASK >> done/$PVM_JOB_TASK");
    let ended = scene.good("submit --output none ./once.sh");
    scene.good(&format!("wait {ended}"));
    let blocked = scene.good("submit --array 1-9 --output none sleep 1000");
    let waiting = scene.good("submit --output none ./once.sh");
    // What has ended is written within a second.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let daemons = scene.machine.slave_daemons();
    process::signal(scene.machine.daemon_pid(), Signal::KILL);
    for daemon in &daemons {
        process::signal(daemon.pid, Signal::KILL);
    }
    wait::becomes_true("nothing is left", || scene.machine.processes().is_empty());
    let state = scene.folder.path().join("state");
    let files = || fs::read_dir(&state).expect("the folder of the jobs").flatten().map(|file| file.path());
    let file = files().next().expect("the file of the jobs");
    let mut bytes = fs::read(&file).expect("the file of the jobs");
    bytes[..4096].fill(0);
    fs::write(&file, bytes).expect("the file can be damaged");

    scene.start_again();
    let log = scene.machine.log();
    assert!(log.contains("is damaged") && log.contains("3 jobs were found in it and are kept"), "{log}");
    assert!(files().any(|file| file.to_string_lossy().contains(".damaged-")));
    let states = || [&ended, &blocked, &waiting].map(|id| scene.job(id)["state"].clone());
    assert_eq!(states(), ["done", "held", "held"]);
    scene.good(&format!("cancel {blocked}"));
    scene.good(&format!("release {waiting}"));
    scene.good(&format!("wait {waiting}"));
    assert_eq!(states(), ["done", "cancelled", "done"]);
    scene.machine.finish();
}

#[test]
fn jobs_go_on_when_the_master_is_killed() {
    let Some(scene) = JobScene::new("jobs that outlive the master") else { return };
    scene.script("once.sh", "sleep 0.3; mkdir -p done; echo $PVM_JOB_TASK >> done/$PVM_JOB_TASK");
    let array = scene.good("submit --array 1-60 --output none ./once.sh");
    wait::becomes_true("some are done", || lines(scene.folder.path()).len() > 10);
    process::signal(scene.machine.daemon_pid(), Signal::KILL);
    let next = |args: &str| scene.at("h2", args);
    wait::becomes_true("another host is the master", || next(&format!("job {array}")).status.success());
    let waited = next(&format!("wait {array}"));
    assert!(waited.status.success(), "{waited:?}");
    let ended = job(&String::from_utf8(next(&format!("job --json {array}")).stdout).expect("text"));
    assert_eq!((&ended["done"], lines(scene.folder.path()).len()), (&60.into(), 60), "{ended}");
    // Only those that ran on the lost host have begun again.
    assert!(ended["restarts"].as_u64() <= Some(2), "{ended}");
    assert!(next("halt").status.success());
    wait::becomes_true("no process is left", || scene.machine.processes().is_empty());
}

#[test]
fn jobs_with_which_another_host_has_gone_on_do_not_run_again_on_the_first() {
    let Some(mut scene) = JobScene::new("jobs of the last of several masters") else { return };
    scene.script("once.sh", "sleep 0.3; mkdir -p done; echo $PVM_JOB_TASK >> done/$PVM_JOB_TASK");
    let array = scene.good("submit --array 1-40 --output none ./once.sh");
    wait::becomes_true("some are done", || lines(scene.folder.path()).len() > 10);
    process::signal(scene.machine.daemon_pid(), Signal::KILL);
    let next = |scene: &JobScene, args: &str| scene.at("h2", args).status.success();
    wait::becomes_true("another host is the master", || next(&scene, &format!("job {array}")));
    assert!(next(&scene, &format!("wait {array}")));
    assert!(next(&scene, "submit --hold true"));
    assert!(next(&scene, "halt"));
    wait::becomes_true("no process is left", || scene.machine.processes().is_empty());
    let folder = scene.folder.path().to_owned();
    let said = || lines(&folder).iter().map(|path| fs::read_to_string(path).unwrap().len()).sum::<usize>();
    let before = said();
    scene.start_again();
    let ended = scene.job(&array);
    assert_eq!((&ended["state"], &ended["done"]), (&"done".into(), &40.into()), "{ended}");
    assert_eq!(scene.job("2")["state"], "held");
    scene.good("submit --wait true");
    assert_eq!(said(), before, "none has run again");
    scene.machine.finish();
}
