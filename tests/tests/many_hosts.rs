//! A virtual machine of many hosts with default settings.

use pvm_tests::machine::{self, Plan};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::wait::Stopwatch;
use pvm_tests::{Installation, Machine, process};
use rustix::process::Signal;
use std::fs;
use std::thread;
use std::time::Duration;

const HOSTS: usize = 64;

/// Longer than a host may be silent.
const PAUSE: Duration = Duration::from_secs(4);

/// Within which a task hears that a host is lost.
const PROMISED: Duration = Duration::from_secs(5);

/// A host of the program `ring`.
struct Member {
    host: String,
    daemon: i32,
}

/// The program, when it has a member on each host.
fn ring(machine: &Machine, programs: &Programs, hosts: usize) -> (Program, Vec<Member>) {
    let ring = machine.program::<&str>(programs.path("ring"), &[]);
    let members: usize = ring.await_line("its members", |line| line.strip_prefix("members ")?.parse().ok());
    assert_eq!(members, hosts, "{}{}", ring.stdout(), ring.stderr());
    let of = |line: &str| {
        let (host, daemon) = line.strip_prefix("member ")?.split_once(' ')?;
        Some(Member { host: host.to_owned(), daemon: daemon.parse().ok()? })
    };
    let members = ring.stdout().lines().filter_map(of).collect();
    (ring, members)
}

/// All members exchange messages with their neighbours; `turns` counts this exchange and those before.
#[track_caller]
fn exchange(ring: &mut Program, turns: usize, members: usize) {
    ring.write("\n");
    let exchanged: Vec<usize> = ring.await_lines("what its members exchanged", turns, |line| {
        line.strip_prefix("exchanged ")?.parse().ok()
    });
    assert_eq!(exchanged[turns - 1], members, "{}", ring.stdout());
}

/// The daemon had no time to remove its socket and the file with its address. They are removed here, and nothing else.
#[track_caller]
fn remove_files_of(machine: &Machine, daemon: i32) {
    let socket = format!("pvmtmp{daemon:06}.");
    let is_of_it = |name: &String| {
        let leads_to_it =
            || fs::read_to_string(machine.tmp().join(name)).is_ok_and(|text| text.contains(&socket));
        name.starts_with(&socket) || name.starts_with("pvmd.") && leads_to_it()
    };
    let files: Vec<String> = machine::files_in(machine.tmp()).into_iter().filter(is_of_it).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for name in files {
        fs::remove_file(machine.tmp().join(name)).expect("the file can be removed");
    }
}

#[test]
fn sixty_four_hosts_talk_lose_one_and_go_on() {
    let Some(ours) = Installation::ours_only("64 hosts") else { return };
    let Some(programs) = Programs::compile(&["ring"], &ours, Linking::Shared) else { return };
    let plan = Plan::of(&ours).path(programs.folder()).local_hosts(HOSTS).without("PVM_TASK_TARGET");
    let machine = plan.start();
    let mut console = machine.console_with_hosts(HOSTS);
    let (mut ring, members) = ring(&machine, &programs, HOSTS);
    exchange(&mut ring, 1, HOSTS);
    thread::sleep(PAUSE);
    exchange(&mut ring, 2, HOSTS);
    assert!(!ring.stdout().contains("host-deleted"), "{}", ring.stdout());

    let Member { host, daemon } = &members[HOSTS / 2];
    let notice = format!("host-deleted {host}");
    assert!(process::signal(*daemon, Signal::KILL));
    let killed = Stopwatch::start();
    ring.await_line("the loss of a host", |line| (line == notice).then_some(()));
    assert!(killed.elapsed() < PROMISED, "it took {:?}", killed.elapsed());
    exchange(&mut ring, 3, HOSTS - 1);
    thread::sleep(PAUSE);
    exchange(&mut ring, 4, HOSTS - 1);
    assert_eq!(console.conf().len(), HOSTS - 1);
    console.quit();

    let ended = ring.end();
    ended.expect_success();
    let notices: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("host-deleted")).collect();
    assert_eq!(notices, [notice]);
    remove_files_of(&machine, *daemon);
    machine.finish();
}

/// Pauses between exchanges, from none to some beyond the time after which links are left.
const AROUND_THE_END: [u64; 12] = [0, 60, 90, 95, 100, 105, 110, 120, 190, 200, 210, 350];

#[test]
fn links_that_are_left_are_made_again() {
    const FEW: usize = 6;
    let Some(ours) = Installation::ours_only("links that are left") else { return };
    let Some(programs) = Programs::compile(&["ring"], &ours, Linking::Shared) else { return };
    let plan = Plan::of(&ours).path(programs.folder()).local_hosts(FEW).variable("PVM_LINK_IDLE", "0.1");
    let machine = plan.variable("PVM_LOG", "debug").start();
    machine.console_with_hosts(FEW).quit();
    let (mut ring, _) = ring(&machine, &programs, FEW);
    for (turn, pause) in (1..).zip(AROUND_THE_END.repeat(4)) {
        exchange(&mut ring, turn, FEW);
        thread::sleep(Duration::from_millis(pause));
    }
    ring.end().expect_success();
    let left = machine.logs().iter().filter(|log| log.contains("link left: it was idle")).count();
    assert!(left >= FEW - 1, "logs of {left} daemons tell of links that were left: {:#?}", machine.logs());
    machine.finish();
}
