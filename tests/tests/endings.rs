//! How daemons end, by order and by force, and what remains: nothing.

use pvm_tests::machine::{Plan, files_in};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::wait::Stopwatch;
use pvm_tests::{Installation, Machine, process, wait};
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

/// How long tasks may outlive their machine's master.
const PROMISED: Duration = Duration::from_secs(5);

/// A machine of `hosts` hosts on this computer, and a program with six sleepers on it, with their process ids.
fn with_sleepers(hosts: usize, check: &str) -> Option<(Machine, Programs, Program, Vec<i32>)> {
    with_sleepers_and(hosts, "proved", check)
}

/// As [`with_sleepers`], with this setting of `PVM_SUCCESSION`.
fn with_sleepers_and(
    hosts: usize,
    succession: &str,
    check: &str,
) -> Option<(Machine, Programs, Program, Vec<i32>)> {
    let ours = Installation::ours_only(check)?;
    let programs = Programs::compile(&["batch", "watch"], &ours, Linking::Shared)?;
    let plan = Plan::of(&ours).path(programs.folder()).variable("PVM_SUCCESSION", succession);
    let machine = plan.local_hosts(hosts).start();
    machine.console_with_hosts(hosts).quit();
    let watch = machine.program(programs.path("watch"), &["6"]);
    let pids = watch.await_lines("its sleepers", 6, |line| {
        line.strip_prefix("sleeper ")?.split(' ').nth(2)?.parse().ok()
    });
    Some((machine, programs, watch, pids))
}

#[test]
fn a_terminated_daemon_ends_everything() {
    let Some((mut machine, _programs, watch, pids)) = with_sleepers(3, "the end of a daemon by SIGTERM")
    else {
        return;
    };
    process::signal(machine.daemon_pid(), Signal::TERM);
    machine.expect_nothing_left();
    assert!(pids.iter().all(|&pid| !process::is_alive(pid)));
    // It was no child of the daemon, but a task: it is ended, too.
    let ended = watch.end();
    assert!(!ended.status.success(), "{ended:#?}");
}

#[test]
fn a_halt_ends_tasks_that_run() {
    let Some((machine, _programs, watch, pids)) = with_sleepers(2, "a halt while tasks run") else { return };
    machine.finish();
    assert!(pids.iter().all(|&pid| !process::is_alive(pid)));
    assert!(!watch.end().status.success());
}

#[test]
fn without_their_master_daemons_end_and_another_can_begin() {
    let found = with_sleepers_and(3, "off", "the loss of a master without a successor");
    let Some((mut machine, programs, watch, pids)) = found else { return };
    process::signal(machine.daemon_pid(), Signal::KILL);
    let killed = Stopwatch::start();
    wait::becomes_true("the end of the other daemons", || machine.slave_daemons().is_empty());
    wait::becomes_true("the end of all tasks", || pids.iter().all(|&pid| !process::is_alive(pid)));
    assert!(killed.elapsed() < PROMISED, "it took {:?}", killed.elapsed());
    let told = machine.logs().iter().filter(|log| log.contains("the master is gone")).count();
    assert_eq!(told, 2, "{:#?}", machine.logs());
    drop(watch);
    assert!(!machine.is_alive());

    // The address file and the socket of the dead one do not stand in the way.
    let daemon = machine.program(machine.installation().pvmd(), &["-nh1"]);
    let socket =
        daemon.await_line("the address of its socket", |line| line.starts_with('/').then(|| line.to_owned()));
    assert_ne!(Path::new(&socket), machine.socket());
    let batch = Program::run(machine.command(programs.path("batch")).arg("3"));
    assert!(batch.stdout.starts_with("started 3\n"), "{batch:#?}");
    process::signal(daemon.pid(), Signal::TERM);
    daemon.end();
}

#[test]
fn batches_survive_their_managers() {
    let Some((machine, programs, watch, _)) = with_sleepers(3, "the loss of task managers") else { return };
    let managers = || {
        let all = machine.processes();
        all.into_iter().filter(|process| process.command.contains("task-manager")).collect::<Vec<_>>()
    };
    assert!(!managers().is_empty(), "none among {:#?}", machine.processes());
    let mut victims = Vec::new();
    for round in 0..10 {
        let batch = machine.program(programs.path("batch"), &["60", "hold"]);
        let mut killed = 0;
        wait::becomes_true("the end of the batch", || {
            // Some of them in the middle of their work.
            if killed <= round % 3 {
                for manager in managers() {
                    process::signal(manager.pid, Signal::KILL);
                    victims.push(manager.pid);
                }
                killed += 1;
            }
            batch.stdout().ends_with("done\n")
        });
        let ended = batch.end();
        assert!(ended.stdout.starts_with("started 60\n"), "round {round}: {ended:#?}");
    }
    watch.end().expect_success();
    // A task that is killed while it enrols cannot remove the file of its proof.
    for pid in victims {
        let _ = fs::remove_file(machine.tmp().join(format!("pvmtmp{pid:06}.0")));
    }
    machine.finish();
}

#[test]
fn when_a_halt_returns_the_daemons_of_all_hosts_have_ended() {
    let Some(ours) = Installation::ours_only("the end of many hosts") else { return };
    let mut machine = Plan::of(&ours).local_hosts(8).start();
    let mut console = machine.console_with_hosts(8);
    console.send("halt");
    console.into_program().end();
    let left = files_in(machine.tmp());
    assert!(left.iter().all(|name| name.starts_with("pvml.")), "{left:?}");
    machine.expect_nothing_left();
}

/// A task, and what it has started: a child, one in another session, a daemon, a daemon and a child that have no environment; and
/// what is to go on: a server that has asked for it, and a process of another user, if there is one.
struct Family {
    pids: Vec<i32>,
    others: Vec<i32>,
}

impl Family {
    /// Members, the task included.
    const MEMBERS: usize = 6;

    fn of(line: &str) -> Option<Self> {
        let words = line.strip_prefix("family ")?.split(' ').skip(1);
        let mut pids: Vec<i32> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let others = pids.split_off(Self::MEMBERS).into_iter().filter(|&pid| pid != 0).collect();
        let family = Self { pids, others };
        let dead: Vec<_> = family.all().filter(|&pid| !process::is_alive(pid)).collect();
        assert!(dead.is_empty(), "{dead:?} of {line}");
        Some(family)
    }

    fn all(&self) -> impl Iterator<Item = i32> {
        self.pids.iter().chain(&self.others).copied()
    }

    fn alive(&self) -> Vec<i32> {
        self.pids.iter().copied().filter(|&pid| process::is_alive(pid)).collect()
    }

    fn ends(&self, how: &str) {
        let what = format!("the end of the family {:?} by {how}", self.pids);
        let left = wait::until(wait::PATIENCE, || self.alive().is_empty().then_some(()));
        assert!(left.is_some(), "{what}: {:?} are left", self.alive());
        assert!(self.others.iter().all(|&pid| process::is_alive(pid)), "others than the family have ended");
    }

    fn is_whole_but_for_its_task(&self) -> bool {
        self.alive() == self.pids[1..]
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for pid in self.all() {
            process::signal(pid, Signal::KILL);
        }
    }
}

fn with_families(hosts: usize, check: &str) -> Option<(Machine, Programs, Program, Vec<Family>)> {
    let ours = Installation::ours_only(check)?;
    let programs = Programs::compile(&["family"], &ours, Linking::Shared)?;
    let plan = Plan::of(&ours).path(programs.folder()).variable("PVM_SUCCESSION", "off");
    let machine = plan.local_hosts(hosts).start();
    machine.console_with_hosts(hosts).quit();
    let program = machine.program(programs.path("family"), &["6"]);
    let families = program.await_lines("its families", 6, Family::of);
    Some((machine, programs, program, families))
}

#[test]
fn processes_of_a_killed_task_end_with_it() {
    let Some((machine, _programs, mut program, mut families)) = with_families(1, "pvm_kill of a family")
    else {
        return;
    };
    program.write("kill\n");
    families[0].ends("pvm_kill");
    program.write("crash\n");
    families[1].ends("SIGKILL");
    assert!(families[2..].iter().all(|family| family.alive() == family.pids), "other families go on");
    // What ends by itself leaves its children, as in PVM 3.4.
    program.write("leave\n");
    wait::becomes_true("the end of a task", || families[2].is_whole_but_for_its_task());
    let mut console = machine.console();
    let tasks = console.tasks().len();
    assert!(tasks >= 3, "the others are there: {tasks}");
    console.send("halt");
    console.into_program().end();
    for family in &families[2..] {
        family.ends("a halt");
    }
    families.clear();
}

#[test]
fn processes_of_a_deleted_hosts_tasks_end() {
    let Some((machine, _programs, _program, families)) = with_families(2, "delete of a host with families")
    else {
        return;
    };
    let mut console = machine.console();
    console.delete(&["h2"]);
    let ended = |family: &&Family| !process::is_alive(family.pids[0]);
    wait::becomes_true("the end of the host's tasks", || families.iter().any(|family| ended(&family)));
    let gone: Vec<&Family> = families.iter().filter(ended).collect();
    for family in &gone {
        family.ends("delete of its host");
    }
    let rest = families.iter().filter(|family| !gone.iter().any(|other| other.pids == family.pids));
    assert!(rest.flat_map(|family| &family.pids).all(|&pid| process::is_alive(pid)));
    console.quit();
}

#[test]
fn processes_of_tasks_end_when_their_daemon_is_killed() {
    let Some((machine, _programs, program, families)) =
        with_families(2, "the loss of a daemon with families")
    else {
        return;
    };
    process::signal(machine.daemon_pid(), Signal::KILL);
    for family in &families {
        family.ends("SIGKILL of the daemon");
    }
    // A program that has enrolled by itself belongs to no family.
    let ended = program.end();
    assert_eq!(ended.status.signal(), None, "{ended:#?}");
}
