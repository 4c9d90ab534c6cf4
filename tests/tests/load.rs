//! Much at once: large messages both ways, a receiver that does not listen, many tasks.

use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, process};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn flood(machine: &Machine, programs: &Programs, words: &[&str]) {
    flood_within(LONG, machine, programs, words);
}

#[track_caller]
fn flood_within(limit: Duration, machine: &Machine, programs: &Programs, words: &[&str]) {
    let ended = Program::start(machine.command(programs.path("flood")).args(words)).end_within(limit);
    assert_eq!(ended.stdout, "mine 1 theirs 1\n", "{words:?}: {ended:#?}");
}

/// The most memory that a process has had, in MiB.
fn peak_memory(pid: i32) -> u64 {
    process::kilobytes(pid, "status", "VmHWM").expect("the process runs") / 1024
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
    flood(&machine, &programs, &["exchange", "20000000"]);
    machine.finish();
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Much is sent both ways before anything is received, and many messages without contents to a task that does not listen:
/// by tasks with this library, on a machine of this number of hosts. `PVM_TEST_TRADE_MIB=1024 PVM_TEST_EMPTY_MESSAGES=1000000` for
/// more than there is time for at every run.
#[track_caller]
fn send_ahead(library: &Installation, hosts: usize, shared_memory: &str) {
    let Some(ours) = Installation::ours_only("much that is sent ahead") else { return };
    let Some(programs) = Programs::compile(&["flood"], library, Linking::Shared) else { return };
    let plan = Plan::of(&ours).library(library).path(programs.folder()).local_hosts(hosts);
    let machine = plan.variable("PVM_SHM", shared_memory).start();
    machine.console_with_hosts(hosts).quit();
    let (mebibytes, messages) =
        (setting("PVM_TEST_TRADE_MIB", 64), setting("PVM_TEST_EMPTY_MESSAGES", 50_000));
    let limit = LONG + Duration::from_millis(300) * mebibytes + Duration::from_micros(200) * messages;
    flood_within(limit, &machine, &programs, &["trade", &mebibytes.to_string(), "1048576"]);
    flood_within(limit, &machine, &programs, &["pour", &messages.to_string(), "0"]);
    let peak = peak_memory(machine.daemon_pid());
    assert!(peak < 100, "the daemon took {peak} MiB");
    eprintln!("{mebibytes} MiB each way, {messages} empty messages: the daemon took {peak} MiB");
    machine.finish();
}

#[test]
fn much_is_sent_ahead_in_shared_memory() {
    send_ahead(&Installation::under_test(), 1, "1");
}

#[test]
fn much_is_sent_ahead_by_the_daemon() {
    send_ahead(&Installation::under_test(), 1, "0");
}

#[test]
fn much_is_sent_ahead_between_hosts() {
    send_ahead(&Installation::under_test(), 2, "1");
}

#[test]
fn much_is_sent_ahead_by_the_originals_library() {
    if let Some(original) = Installation::debian() {
        send_ahead(&original, 1, "1");
    }
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
fn five_hundred_tasks_start_and_send() {
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

/// The median and the 99th percentile, in microseconds, that a line of `bystander` gives.
#[track_caller]
fn times(output: &str, what: &str) -> (f64, f64) {
    let line = output.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{output}"));
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(f64::NAN));
    (words.next().unwrap_or(f64::NAN), words.next().unwrap_or(f64::NAN))
}

/// A task sends without end to one that never receives, and two others talk by the same way.
#[track_caller]
fn flood_beside_others(way: &str, library: &Installation, hosts: usize, shared_memory: &str) {
    let Some(ours) = Installation::ours_only("a flood beside others") else { return };
    let Some(programs) = Programs::compile(&["bystander"], library, Linking::Shared) else { return };
    let plan = Plan::of(&ours).library(library).path(programs.folder()).local_hosts(hosts);
    let machine = plan.variable("PVM_SHM", shared_memory).start();
    machine.console_with_hosts(hosts).quit();
    let seconds = setting("PVM_TEST_FLOOD_SECONDS", 1).to_string();
    let ended = Program::run(machine.command(programs.path("bystander")).arg(seconds));
    ended.expect_success();
    let (alone, beside) = (times(&ended.stdout, "alone "), times(&ended.stdout, "beside "));
    eprintln!("{way}: alone {alone:?} µs, beside a flood {beside:?} µs");
    assert!(ended.stdout.ends_with("sender waits\n"), "{}", ended.stdout);
    // Were they behind the flood they would wait for ever. Twice is what another busy task costs on a machine of two
    // processors; the rest is for what else runs there.
    assert!(beside.0 < 10.0 * alone.0 + 1000.0, "{way}: {ended:#?}");
    machine.finish();
}

#[test]
fn a_flood_to_a_task_that_does_not_receive_slows_no_other() {
    flood_beside_others("shared memory", &Installation::under_test(), 1, "1");
    flood_beside_others("the daemon", &Installation::under_test(), 1, "0");
    flood_beside_others("between hosts", &Installation::under_test(), 2, "1");
    if let Some(original) = Installation::debian() {
        flood_beside_others("the original library", &original, 1, "0");
    }
}

/// A number on a line of `bystander`: the last word of the one that begins so.
#[track_caller]
fn count(output: &str, what: &str) -> u32 {
    let line = output.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{output}"));
    line.split_whitespace().next_back().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn small_messages_pass_large_ones_of_another_pair_between_hosts() {
    let Some(ours) = Installation::ours_only("small messages beside large ones") else { return };
    let Some(programs) = Programs::compile(&["bystander"], &ours, Linking::Shared) else { return };
    let machine = Plan::of(&ours).path(programs.folder()).local_hosts(2).start();
    machine.console_with_hosts(2).quit();
    let seconds = setting("PVM_TEST_FLOOD_SECONDS", 1).to_string();
    let mut command = machine.command(programs.path("bystander"));
    let ended = Program::run(command.args([seconds.as_str(), "1000000"]));
    ended.expect_success();
    let (rounds, large) = (count(&ended.stdout, "beside "), count(&ended.stdout, "received "));
    eprintln!("{rounds} times there and back beside {large} messages of 1 MB");
    // However fast the machine is: a dozen of them or more go by per round if a small message waits for all that was sent before.
    assert!(rounds > 0 && large / rounds < 6, "{ended:#?}");
    machine.finish();
}
