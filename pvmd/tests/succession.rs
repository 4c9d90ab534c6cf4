//! Real daemons of which one is killed: who notices it, and who takes the place of a master.

use pvm_tests::machine::Plan;
use pvm_tests::{Installation, Machine, Program, process, wait};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;

const DAEMON: &str = env!("CARGO_BIN_EXE_pvmd");

/// A master, and a second host beside it.
fn pair(defaults: &str, succession: &str) -> Machine {
    let plan = Plan::of(&Installation::beside(Path::new(DAEMON))).name("h1");
    let plan = plan.hostfile(&format!("* via=local {defaults}\nh1\nh2\n"));
    // Silence is a loss after six seconds at the earliest.
    let plan = plan.variable("PVM_VMID", "m").variable("PVM_HOST_TIMEOUT", "8");
    let machine = plan.variable("PVM_SUCCESSION", succession).start();
    wait::becomes_true("the second host", || machine.log().contains("host added"));
    machine
}

/// The log of the second host.
fn second_log(machine: &Machine) -> String {
    let name = format!("pvml.{}.m.h2", rustix::process::getuid().as_raw());
    let log = std::fs::read(machine.tmp().join(name)).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

/// Waits until the log of the second host has this text.
#[track_caller]
fn second_says(machine: &Machine, text: &str) {
    assert!(
        wait::holds(|| second_log(machine).contains(text)),
        "{text} is not logged:\n{}",
        second_log(machine)
    );
}

/// Kills the master, when what the other has to know of it is known.
fn kill_master(machine: &Machine) {
    // The port from which it has called is tried for half a second.
    std::thread::sleep(Duration::from_secs(1));
    process::signal(machine.daemon_pid(), Signal::KILL);
}

#[test]
fn a_host_whose_daemon_is_killed_is_lost_before_it_is_silent() {
    let machine = pair("", "proved");
    let second = machine.slave_daemons();
    assert_eq!(second.len(), 1, "{second:#?}");
    process::signal(second[0].pid, Signal::KILL);
    wait::becomes_true("the loss", || machine.log().contains("its daemon has ended"));
    // A killed daemon leaves its files, so nothing is said of these here.
}

#[test]
fn the_second_of_two_hosts_takes_the_place_of_a_master_that_is_killed_and_adds_hosts() {
    let machine = pair("", "proved");
    second_says(&machine, "is a deputy");
    kill_master(&machine);
    second_says(&machine, "its daemon has ended");
    let mut command = machine.command(machine.installation().pvm());
    command.env("PVM_VMID", "m.h2").args(["add", "h3 via=local"]);
    Program::run(&mut command).expect_success();
    second_says(&machine, "host added host=3");
    let daemons = machine.slave_daemons();
    assert_eq!(daemons.len(), 2, "{daemons:#?}");
    let mut command = machine.command(machine.installation().pvm());
    Program::run(command.env("PVM_VMID", "m.h2").arg("halt")).expect_success();
    wait::becomes_true("the end of both", || machine.slave_daemons().is_empty());
}

#[test]
fn without_succession_the_second_host_ends_with_the_master() {
    // The hostfile takes precedence over the environment.
    for (defaults, succession) in [("", "off"), ("succession=off", "proved")] {
        let machine = pair(defaults, succession);
        kill_master(&machine);
        second_says(&machine, "the master is gone: its daemon has ended");
        assert!(!second_log(&machine).contains("is a deputy"));
        wait::becomes_true("its end", || machine.slave_daemons().is_empty());
    }
}
