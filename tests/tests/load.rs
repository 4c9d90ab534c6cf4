//! Much at once: large messages both ways, a receiver that does not listen, many tasks.

use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine};
use std::fs;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn flood(machine: &Machine, programs: &Programs, words: &[&str]) {
    let ended = Program::start(machine.command(programs.path("flood")).args(words)).end_within(LONG);
    assert_eq!(ended.stdout, "mine 1 theirs 1\n", "{words:?}: {ended:#?}");
}

/// The most memory that a process has had, in MiB.
fn peak_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

#[test]
fn large_messages_pass_each_other() {
    let installation = Installation::under_test();
    let Some(programs) = Programs::compile(&["flood"], &installation, Linking::Shared) else { return };
    let machine = Plan::of(&installation).path(programs.folder()).start();
    for size in ["1", "4032", "4033", "1000000", "20000000"] {
        flood(&machine, &programs, &["exchange", size]);
    }
    machine.finish();
}

#[test]
fn large_messages_pass_each_other_between_hosts() {
    let Some(ours) = Installation::ours_only("large messages between hosts") else { return };
    let Some(programs) = Programs::compile(&["flood"], &ours, Linking::Shared) else { return };
    let machine = Plan::of(&ours).path(programs.folder()).local_hosts(3).start();
    machine.console_with_hosts(3).quit();
    // One spawned task alone goes to whichever host asks first.
    for _ in 0..4 {
        flood(&machine, &programs, &["exchange", "20000000"]);
    }
    machine.finish();
}

#[test]
fn a_receiver_that_does_not_listen_costs_the_daemons_little() {
    let Some(ours) = Installation::ours_only("the memory of daemons") else { return };
    let Some(programs) = Programs::compile(&["flood"], &ours, Linking::Shared) else { return };
    for hosts in [1, 2] {
        let machine = Plan::of(&ours).path(programs.folder()).local_hosts(hosts).start();
        machine.console_with_hosts(hosts).quit();
        // 200 MB in all.
        flood(&machine, &programs, &["pour", "2000", "100000"]);
        let daemons =
            machine.slave_daemons().into_iter().map(|daemon| daemon.pid).chain([machine.daemon_pid()]);
        for pid in daemons {
            let peak = peak_memory(pid);
            assert!(peak < 100, "daemon {pid} took {peak} MiB");
        }
        machine.finish();
    }
}

#[test]
fn five_hundred_tasks_start_and_are_heard() {
    let Some(ours) = Installation::ours_only("five hundred tasks") else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    let machine = Plan::of(&ours).path(programs.folder()).local_hosts(4).start();
    machine.console_with_hosts(4).quit();
    let ended =
        Program::start(machine.command(programs.path("batch")).args(["500", "hold"])).end_within(LONG);
    ended.expect_success();
    assert!(ended.stdout.starts_with("started 500\n"), "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().filter(|line| line.starts_with("here ")).count(), 500);
    machine.finish();
}
