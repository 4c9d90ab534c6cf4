//! Masters that are killed, one after the other: programs on other hosts go on, and what the master kept is still there.
//!
//! `PVM_SUCCESSIONS=100` kills a hundred masters in a row where every run of the tests kills a few.

use pvm_tests::Network;
use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::wait::Stopwatch;
use pvm_tests::{Installation, Machine, process, wait};
use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// How long the machine may be without a master by default.
const PROMISED: Duration = Duration::from_secs(3);
/// What else takes time: this computer has other work, too.
const BUSY: Duration = Duration::from_secs(4);

/// A machine of hosts `h1` to `h<count>` on this computer.
struct Hosts {
    machine: Machine,
    count: usize,
}

impl Hosts {
    fn start(plan: Plan<'_>, count: usize) -> Self {
        let machine = plan.variable("PVM_VMID", "m").local_hosts(count).start();
        machine.console_with_hosts(count).quit();
        let hosts = Self { machine, count };
        for index in 1..=count.min(3) {
            wait::becomes_true("deputies", || index == 1 || hosts.log(index).contains("is a deputy"));
        }
        // A daemon that has called is asked at its port for half a second, to know what its refusal would mean.
        std::thread::sleep(Duration::from_secs(1));
        hosts
    }

    /// `PVM_VMID` of a host.
    fn id(index: usize) -> String {
        if index == 1 { "m".to_owned() } else { format!("m.h{index}") }
    }

    fn log(&self, index: usize) -> String {
        let name = format!("pvml.{}.{}", rustix::process::getuid().as_raw(), Self::id(index));
        String::from_utf8_lossy(&fs::read(self.machine.tmp().join(name)).unwrap_or_default()).into_owned()
    }

    /// A command on a host.
    fn on(&self, index: usize, program: impl AsRef<std::path::Path>) -> Command {
        let mut command = self.machine.command(program);
        command.env("PVM_VMID", Self::id(index));
        command
    }

    /// `pvm` on a host.
    fn pvm(&self, index: usize, words: &[&str]) -> String {
        let ended = Program::run(self.on(index, self.machine.installation().pvm()).args(words));
        ended.expect_success();
        ended.stdout
    }

    /// The names of the members, as a host knows them.
    fn members(&self, index: usize) -> Vec<String> {
        let table = self.pvm(index, &["conf"]);
        let rows = table.lines().skip(2).filter_map(|row| row.split_whitespace().next());
        rows.map(str::to_owned).collect()
    }

    /// The daemon of a host, by its log.
    fn daemon(&self, index: usize) -> i32 {
        let log = self.log(index);
        let pid = log.lines().rev().find_map(|line| line.split_once(" ready ")?.1.split("pid=").nth(1));
        let pid = pid.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        pid.unwrap_or_else(|| panic!("no daemon in the log of host {index}: {log}"))
    }

    /// Ends the machine from its last host.
    fn halt(&self) {
        self.pvm(self.count, &["halt"]);
        wait::becomes_true("the end of all daemons", || self.machine.slave_daemons().is_empty());
    }

    /// Sends the daemon of a host, which is the master, this signal, and waits until the last host knows the next one and the loss. How long
    /// that took.
    fn lose_master(&self, index: usize, signal: Signal) -> Duration {
        process::signal(self.daemon(index), signal);
        let lost = Stopwatch::start();
        let gone = format!("h{index}");
        let next = format!("is the master host={}", index + 1);
        wait::becomes_true("the next master", || {
            self.log(self.count).contains(&next) && !self.members(self.count).contains(&gone)
        });
        lost.elapsed()
    }

    /// Kills the daemon of a host, which is the master; then as [`Self::lose_master`].
    fn kill_master(&self, index: usize) -> Duration {
        let took = self.lose_master(index, Signal::KILL);
        // A second one that is lost before there are new deputies, whose ports are known, cannot be made up for.
        std::thread::sleep(Duration::from_millis(1500));
        took
    }
}

#[test]
fn programs_go_on_and_finish_while_masters_are_killed() {
    const HOSTS: usize = 6;
    let check = "programs while masters are killed";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(programs) = Programs::compile(&["farm", "mailbox"], &ours, Linking::Shared) else { return };
    let hosts = Hosts::start(Plan::of(&ours).path(programs.folder()), HOSTS);
    let mut farms = Vec::new();
    for master in 1..HOSTS - 1 {
        // Its parent is on the last host, its workers are on all: those of the lost host are replaced.
        farms.push(Program::start(hosts.on(HOSTS, programs.path("farm")).args(["6", "60"])));
        std::thread::sleep(Duration::from_millis(200));
        let took = hosts.kill_master(master);
        eprintln!("master {master} was succeeded after {took:?}");
        assert!(took < PROMISED + BUSY, "{took:?}");
    }
    for farm in farms {
        let ended = farm.end_within(Duration::from_secs(60));
        assert!(ended.status.success() && ended.stdout.ends_with("sum right\n"), "{ended:#?}");
    }
    assert_eq!(hosts.members(HOSTS), ["h5", "h6"]);
    // Hosts are added by the new master, and programs that begin now find all as ever.
    assert!(hosts.pvm(HOSTS, &["add", "h7 via=local sp=1000"]).contains("h7"));
    assert_eq!(hosts.members(HOSTS), ["h5", "h6", "h7"]);
    let farm = Program::run(hosts.on(HOSTS, programs.path("farm")).args(["6", "12"]));
    assert!(farm.stdout.ends_with("sum right\n"), "{farm:#?}");
    hosts.halt();
}

#[test]
fn a_master_that_was_suspended_finds_another_one_and_ends() {
    const HOSTS: usize = 4;
    let check = "a master that is suspended and resumed";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(programs) = Programs::compile(&["farm"], &ours, Linking::Shared) else { return };
    let hosts = Hosts::start(Plan::of(&ours).path(programs.folder()), HOSTS);
    let suspended = hosts.daemon(1);
    let farm = Program::start(hosts.on(HOSTS, programs.path("farm")).args(["6", "60"]));
    std::thread::sleep(Duration::from_millis(200));
    let took = hosts.lose_master(1, Signal::STOP);
    assert!(took < PROMISED + BUSY, "{took:?}");
    process::signal(suspended, Signal::CONT);
    wait::becomes_true("the end of the former master", || !process::is_alive(suspended));
    let log = hosts.log(1);
    // What it hears first: of its successor, of its own loss, or that the others have closed its links.
    let reasons = [
        "another host has become the master",
        "it is no member any more",
        "a majority of the deputies is lost",
    ];
    assert!(reasons.iter().any(|reason| log.contains(&format!("ending reason=\"{reason}"))), "{log}");
    let ended = farm.end_within(Duration::from_secs(60));
    assert!(ended.status.success() && ended.stdout.ends_with("sum right\n"), "{ended:#?}");
    assert_eq!(hosts.members(HOSTS), ["h2", "h3", "h4"]);
    hosts.halt();
}

/// Open files, and kilobytes of memory of its own.
fn held(pid: i32) -> (usize, u64) {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("the daemon runs").count();
    (files, process::kilobytes(pid, "smaps_rollup", "Private_Dirty").expect("the daemon runs"))
}

#[test]
fn successions_in_a_row_leave_no_file_and_no_memory_behind() {
    let check = "many successions in a row";
    let Some(ours) = Installation::ours_only(check) else { return };
    let successions = std::env::var("PVM_SUCCESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let count = successions + 3;
    let hosts = Hosts::start(Plan::of(&ours).variable("PVM_HOST_TIMEOUT", "1.5"), count);
    let last = hosts.daemon(count);
    hosts.kill_master(1);
    let before = held(last);
    let times: Vec<Duration> = (2..=successions).map(|master| hosts.kill_master(master)).collect();
    let after = held(last);
    eprintln!(
        "{successions} successions, {before:?} before, {after:?} after, the longest {:?}",
        times.iter().max()
    );
    // Hosts that are lost give back what was kept for them.
    assert!(after.0 <= before.0, "{before:?} open files and kB before, {after:?} after");
    assert!(
        after.1 <= before.1 + before.1 / 10 + 512,
        "{before:?} open files and kB before, {after:?} after"
    );
    hosts.halt();
}

#[test]
fn programs_elsewhere_do_not_notice_the_end_of_a_master_but_for_the_notice() {
    const HOSTS: usize = 8;
    let check = "the end of a master with a network";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(HOSTS, &ours, check) else { return };
    let Some(programs) = Programs::compile(&["steady"], &ours, Linking::Shared) else { return };
    let lines: String = (1..HOSTS).map(|index| network.line(index, "") + "\n").collect();
    let hostfile = format!("* ep=@PATH@ sp=1000\n{lines}");
    let plan = Plan::of(&ours).path(programs.folder()).name(&network.address(0)).hostfile(&hostfile);
    let machine = plan.network(&network).variable("PVM_STARTERS", "2").start();
    let mut console = machine.console_with_hosts(HOSTS);
    let log = machine.log();
    let by_others =
        log.lines().filter(|line| line.contains("starting a host") && !line.contains("by=h1")).count();
    assert!(by_others > 0, "the master has started all hosts itself: {log}");
    let file = network.folder().join("steady");
    let started = console.spawn(&format!("-eta steady theta 8 {}", file.display()));
    assert!(matches!(&started.tasks[..], [Ok(_)]), "{started:?}");
    std::thread::sleep(Duration::from_secs(2));
    process::signal(machine.daemon_pid(), Signal::KILL);
    wait::becomes_true("the end of the program", || {
        fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
    });
    let said = fs::read_to_string(&file).expect("it was read before");
    let longest = said.strip_prefix("longest ").and_then(|rest| rest.split_once(" ms, "));
    let (longest, rest) = longest.unwrap_or_else(|| panic!("{said}"));
    eprintln!("{said}");
    assert_eq!(rest, "lost 1\n");
    // Less than it takes to notice that the master is lost.
    assert!(longest.parse::<f64>().expect("a number") < 1000.0, "{said}");
}

#[test]
fn hosts_of_a_large_machine_find_the_losses_of_their_neighbours() {
    const HOSTS: usize = 8;
    let Some(ours) = Installation::ours_only("losses in a large machine") else { return };
    let hosts = Hosts::start(Plan::of(&ours).variable("PVM_WATCHED", "2"), HOSTS);
    let await_loss = |lost: usize, signal| {
        let daemon = hosts.daemon(lost);
        process::signal(daemon, signal);
        let begin = Stopwatch::start();
        let name = format!("h{lost}");
        wait::becomes_true("the loss is known", || !hosts.members(HOSTS).contains(&name));
        eprintln!("host {lost} is out after {:?}", begin.elapsed());
        assert!(begin.elapsed() < PROMISED + BUSY, "{:?}", begin.elapsed());
        daemon
    };
    await_loss(5, Signal::KILL);
    let stopped = await_loss(7, Signal::STOP);
    let log = hosts.log(1);
    let is_asked =
        |neighbour| log.contains(&format!("a host is silent: it is asked from={neighbour} host=7"));
    assert!(is_asked(6) || is_asked(8), "{log}");
    process::signal(stopped, Signal::CONT);
    wait::becomes_true("the end of the host that was stopped", || !process::is_alive(stopped));
    let took = hosts.kill_master(1);
    assert!(took < PROMISED + BUSY, "{took:?}");
    assert_eq!(hosts.members(HOSTS), ["h2", "h3", "h4", "h6", "h8"]);
    hosts.halt();
}
