//! Two virtual machines that exchange jobs.

use pvm_tests::job_scene::JobScene;
use pvm_tests::{Installation, Network, process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Two machines of three hosts with two slots each, which exchange jobs after a second.
fn two(check: &str) -> Option<[JobScene; 2]> {
    let [a, b] = [JobScene::new(check)?, JobScene::new(check)?];
    a.good(&add(&b, "b", "a"));
    Some([a, b])
}

/// The command that has a machine exchange jobs with this one.
fn add(other: &JobScene, name: &str, own_name: &str) -> String {
    format!("peer add {name} --own-name {own_name} --after 1s --via {}", via(other))
}

/// A script that runs the machine's `pvm`, as `ssh HOST pvm` does.
fn via(scene: &JobScene) -> String {
    entrance(scene, "")
}

/// A script that runs the machine's `pvm` by a command.
fn entrance(scene: &JobScene, command: &str) -> String {
    let (tmp, pvm) = (scene.machine.tmp().display(), scene.machine.installation().pvm());
    scene.script("enter.sh", &format!("exec {command} env PVM_TMP={tmp} {} \"$@\"", pvm.display()));
    scene.folder.path().join("enter.sh").display().to_string()
}

/// The words of a command for a shell.
fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn peers(scene: &JobScene) -> Value {
    let json: Value = serde_json::from_str(&scene.good("peer list --json")).expect("JSON");
    json["peers"][0].clone()
}

#[test]
fn jobs_that_wait_run_on_a_machine_with_room_if_both_want_it() {
    let Some([a, b]) = two("machines that exchange jobs") else { return };
    let full = a.good("submit --array 1-6 --output none sleep 1000");
    let sweep = a.good("submit --array 1-4 --output out.%j.%t sh -c true");
    let state = || peers(&a)["state"].as_str().unwrap_or_default().to_owned();
    wait::becomes_true("the other machine refuses", || state().contains("exchanges no jobs with \"a\""));
    assert_eq!(a.job(&sweep)["state"], "waiting");
    b.good(&add(&a, "a", "b"));
    a.good(&format!("wait {sweep}"));
    let record = a.job(&sweep);
    assert_eq!((&record["state"], &record["done"]), (&"done".into(), &4.into()), "{record}");
    assert!(record["hosts"][0].as_str().is_some_and(|host| host.starts_with("b:")), "{record}");
    // The output has the number that the user knows.
    assert!(a.folder.path().join(format!("out.{sweep}.4")).exists());
    // A parallel one fails there as it would here, a cancelled one is cancelled there, one for certain hosts or a queue stays.
    let fails = a.good("submit -n 3 --output none false");
    assert!(a.refused(&format!("wait {fails}")).contains("exit code 1"));
    let long = a.good("submit --output none sleep 1000");
    let stays = a.good("submit --queue default --output none true");
    wait::becomes_true("it is lent", || {
        a.job(&long)["reason"].as_str().is_some_and(|text| text.contains("of machine b"))
    });
    assert_eq!(peers(&a)["lent"], 1);
    assert_eq!(peers(&b)["taken"], 1);
    a.good(&format!("cancel {long}"));
    a.refused(&format!("wait {long}"));
    assert_eq!(a.job(&long)["state"], "cancelled");
    wait::becomes_true("it has ended there", || peers(&b)["taken"] == 0);
    assert_eq!(a.job(&stays)["state"], "waiting");
    assert!(a.refused("peer delete c").contains("exchanges no jobs with c"));
    assert!(a.refused(&add(&b, "b", "a")).contains("exchanges jobs with b already"));
    assert_eq!(a.pvm("peer add -x").status.code(), Some(2));
    a.script("refuse.sh", "echo first >&2; echo no route to c >&2; exit 3");
    a.good(&format!("peer add c --own-name a --via {}", a.folder.path().join("refuse.sh").display()));
    let ended = "the command that reaches it has ended: exit status: 3: no route to c";
    wait::becomes_true("how the command has ended", || a.good("peer list").contains(ended));
    a.good("peer delete c");
    a.good("peer delete b");
    a.good(&format!("cancel {full}"));
    a.good(&format!("wait {stays}"));
    a.machine.finish();
    b.machine.finish();
}

#[test]
fn a_lent_job_runs_once_although_both_machines_are_killed_and_start_again() {
    let Some([mut a, mut b]) = two("lent jobs whose machines end") else { return };
    b.good(&add(&a, "a", "b"));
    let full = a.good("submit --array 1-6 --output none sleep 1000");
    a.script("once.sh", "sleep 1; echo $PVM_JOB_TASK >> done");
    let lent = a.good("submit --array 1-12 --output none ./once.sh");
    wait::becomes_true("some have ended", || a.read("done").lines().count() > 2);
    for scene in [&mut a, &mut b] {
        let all: Vec<i32> = scene.machine.slave_daemons().iter().map(|daemon| daemon.pid).collect();
        for pid in all.into_iter().chain([scene.machine.daemon_pid()]) {
            process::signal(pid, Signal::KILL);
        }
        wait::becomes_true("nothing is left", || scene.machine.processes().is_empty());
    }
    b.start_again();
    a.start_again();
    // Where each is now is another folder.
    via(&a);
    via(&b);
    a.good(&format!("wait {lent}"));
    let record = a.job(&lent);
    assert_eq!((&record["state"], &record["done"]), (&"done".into(), &12.into()), "{record}");
    let said = a.read("done");
    let (mut tasks, before): (Vec<u32>, _) =
        (said.lines().filter_map(|line| line.parse().ok()).collect(), said.lines().count());
    tasks.sort_unstable();
    tasks.dedup();
    assert_eq!(tasks, (1..=12).collect::<Vec<_>>());
    // Those that ran when the machine was killed have begun again; none has run on both.
    assert!(before <= 12 + 6, "{said}");
    a.good(&format!("cancel {full}"));
    a.machine.finish();
    b.machine.finish();
}

#[test]
fn machines_exchange_jobs_over_ssh_and_sessions_may_be_lost() {
    let check = "machines that exchange jobs over ssh";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(2, &ours, check) else { return };
    let Some((a, b)) = JobScene::new(check).zip(JobScene::new(check)) else { return };
    let ssh = format!("{} {}", words(&network.master().command(&network.ssh())), network.address(1));
    a.good(&format!("peer add b --own-name a --after 1s --via {}", entrance(&b, &ssh)));
    b.good(&add(&a, "a", "b"));
    let full = a.good("submit --array 1-6 --output none sleep 1000");
    let sweep = a.good("submit --array 1-4 --output out.%j.%t sh -c true");
    a.good(&format!("wait {sweep}"));
    assert!(a.folder.path().join(format!("out.{sweep}.4")).exists());

    a.script("until.sh", "until [ -e go ]; do sleep 0.1; done; echo once >> ran");
    let lent = a.good("submit --output none ./until.sh");
    wait::becomes_true("it is lent", || peers(&a)["lent"] == 1);
    network.end_sessions(1);
    fs::write(a.folder.path().join("go"), "").expect("the folder is writable");
    a.good(&format!("wait {lent}"));
    assert_eq!(a.read("ran"), "once\n", "it ended there while there was no session, and did not run here");
    wait::becomes_true("they are linked again", || peers(&a)["state"] == "linked");
    a.good(&format!("cancel {full}"));
    a.machine.finish();
    b.machine.finish();
}
