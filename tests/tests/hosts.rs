//! Hosts that come and go while tasks run, first all on this machine, then in network namespaces with ssh between them.

use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Console, Installation, Machine, Network, process, wait};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// A sleeper of the program `watch`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sleeper {
    tid: String,
    host: String,
    pid: i32,
}

struct Local {
    machine: Machine,
    console: Console,
    programs: Programs,
}

/// A machine of `hosts` hosts on this computer; `None` if its programs cannot be compiled or it is not ours.
fn local(hosts: usize, check: &str) -> Option<Local> {
    let installation = Installation::ours_only(check)?;
    let programs = Programs::compile(&["batch", "watch"], &installation, Linking::Shared)?;
    let machine = Plan::of(&installation).path(programs.folder()).local_hosts(hosts).start();
    let console = machine.console_with_hosts(hosts);
    Some(Local { machine, console, programs })
}

/// How many of `count` tasks of one spawn ran on which host.
fn spread(machine: &Machine, programs: &Programs, count: usize) -> BTreeMap<String, usize> {
    let batch = machine.program(programs.path("batch"), &[count.to_string(), "hold".to_owned()]);
    batch.await_line("the end of the batch", |line| (line == "done").then_some(()));
    let ended = batch.end();
    ended.expect_success();
    assert!(ended.stdout.contains(&format!("started {count}\n")), "{}", ended.stdout);
    let mut hosts = BTreeMap::new();
    for line in ended.stdout.lines().filter(|line| line.starts_with("here ")) {
        let host = line.split_whitespace().nth(2).expect("a host").to_owned();
        *hosts.entry(host).or_default() += 1;
    }
    assert_eq!(hosts.values().sum::<usize>(), count, "{}", ended.stdout);
    hosts
}

/// The program `watch` with this many sleepers, all of which have begun.
fn watch(machine: &Machine, programs: &Programs, count: usize) -> (Program, Vec<Sleeper>) {
    let watch = machine.program(programs.path("watch"), &[count.to_string()]);
    let sleepers = watch.await_lines("its sleepers", count, |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["sleeper", tid, host, pid] = words[..] else { return None };
        Some(Sleeper { tid: tid.to_owned(), host: host.to_owned(), pid: pid.parse().ok()? })
    });
    (watch, sleepers)
}

fn tids_on<'a>(sleepers: &'a [Sleeper], host: &str) -> Vec<&'a str> {
    let mut tids: Vec<&str> = sleepers.iter().filter(|s| s.host == host).map(|s| s.tid.as_str()).collect();
    tids.sort_unstable();
    tids
}

/// Process id of the daemon of a host. Which daemon is which shows by their children.
#[track_caller]
fn daemon_of(machine: &Machine, sleepers: &[Sleeper], host: &str) -> i32 {
    let pid = sleepers.iter().find(|s| s.host == host).map(|s| s.pid).expect("a sleeper there");
    let is_parent =
        |daemon: &process::Process| process::children(daemon.pid).iter().any(|child| child.pid == pid);
    machine.slave_daemons().into_iter().find(is_parent).expect("the daemon of that sleeper").pid
}

/// The tasks of whose end the program is told.
#[track_caller]
fn told_exits(watch: &Program, count: usize) -> Vec<String> {
    let mut told =
        watch.await_lines("ends of tasks", count, |line| line.strip_prefix("exit ").map(str::to_owned));
    told.sort_unstable();
    told
}

#[track_caller]
fn await_said(watch: &Program, line: &str) {
    watch.await_line(line, |said| (said == line).then_some(()));
}

/// Kills what is left of a watch; then nothing of the machine but its daemons may be left.
fn finish(watch: Program, local: Local) {
    watch.end().expect_success();
    let Local { machine, console, .. } = local;
    console.quit();
    machine.finish();
}

/// Tasks that are placed by speed.
const TASKS: usize = 70;

#[test]
fn shares_of_a_mixed_hostfile_are_what_conf_shows() {
    let check = "shares of hosts with and without sp=";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    let hostfile = "* via=local ep=@PATH@\nh1 sp=2000\nh2 sp=500\nh3\n";
    let machine = Plan::of(&ours).path(programs.folder()).name("h1").hostfile(hostfile).start();
    let rows = machine.console_with_hosts(3).conf();
    assert_eq!(rows.iter().map(|row| row.speed).collect::<Vec<_>>(), [2000, 500, 1000]);
    let hosts = spread(&machine, &programs, TASKS);
    let sum: i32 = rows.iter().map(|row| row.speed).sum();
    for row in &rows {
        let fair = TASKS as f64 * f64::from(row.speed) / f64::from(sum);
        let tid = format!("t{}", row.dtid.trim_start_matches('t'));
        let has = hosts.get(&tid).or(hosts.get(&row.name)).copied().unwrap_or(0);
        assert!((has as f64 - fair).abs() <= 2.0, "{row:?} has {has} instead of {fair}: {hosts:?}");
    }
    machine.finish();
}

#[test]
fn a_batch_spreads_over_equal_hosts_in_equal_parts() {
    let Some(Local { machine, console, programs }) = local(4, "a batch on four hosts") else { return };
    let hosts = spread(&machine, &programs, 64);
    assert_eq!(hosts.len(), 4, "{hosts:?}");
    assert!(hosts.values().all(|count| (15..=17).contains(count)), "{hosts:?}");
    console.quit();
    machine.finish();
}

#[test]
fn a_host_is_given_no_more_than_its_own_limit() {
    let Some(ours) = Installation::ours_only("hosts with limits of their own") else { return };
    let Some(programs) = Programs::compile(&["batch"], &ours, Linking::Shared) else { return };
    // What stands for ssh, and does what that host's administrator would have done.
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let starter = folder.path().join("starter");
    fs::write(&starter, "#!/bin/sh\nshift\nPVM_TASK_LIMIT=4 exec \"$@\"\n").expect("the folder is writable");
    fs::set_permissions(&starter, Permissions::from_mode(0o755)).expect("the script is ours");
    let line = format!("small ip=127.0.0.2 id=small-{} dx={}", std::process::id(), ours.pvmd().display());
    let hosts = format!("* sp=1000 ep=@PATH@\nh1\n{line}\n");
    let plan = Plan::of(&ours).path(programs.folder()).name("h1").hostfile(&hosts);
    let machine = plan.variable("PVM_RSH", starter.display().to_string()).start();
    machine.console_with_hosts(2).quit();
    // Equal parts would be ten.
    let hosts = spread(&machine, &programs, 20);
    assert_eq!(hosts.into_values().collect::<Vec<_>>(), [16, 4]);
    machine.finish();
}

#[test]
fn batches_at_the_same_time_all_start() {
    let Some(Local { machine, console, programs }) = local(3, "several batches at once") else { return };
    let batches: Vec<Program> =
        (0..4).map(|_| machine.program(programs.path("batch"), &["20", "hold"])).collect();
    for batch in batches {
        let ended = batch.end_within(wait::PATIENCE * 2);
        ended.expect_success();
        assert!(ended.stdout.starts_with("started 20\n"), "{}", ended.stdout);
        assert_eq!(ended.stdout.lines().filter(|line| line.starts_with("here ")).count(), 20);
    }
    console.quit();
    machine.finish();
}

#[test]
fn a_killed_task_is_reported_to_who_asked() {
    let Some(local) = local(2, "the end of a task by kill -9") else { return };
    let (watch, sleepers) = watch(&local.machine, &local.programs, 6);
    for victim in [&sleepers[1], &sleepers[4]] {
        process::signal(victim.pid, Signal::KILL);
    }
    let mut killed = [sleepers[1].tid.clone(), sleepers[4].tid.clone()];
    killed.sort_unstable();
    assert_eq!(told_exits(&watch, 2), killed);
    finish(watch, local);
}

#[test]
fn a_deleted_host_takes_its_tasks_along_and_no_others() {
    let Some(mut local) = local(3, "deleting a host") else { return };
    let (watch, sleepers) = watch(&local.machine, &local.programs, 12);
    let gone = tids_on(&sleepers, "tc0000");
    assert!(!gone.is_empty(), "{sleepers:?}");
    assert_eq!(local.console.delete(&["h3"]), [("h3".to_owned(), "deleted".to_owned())]);
    await_said(&watch, "host-deleted tc0000");
    assert_eq!(told_exits(&watch, gone.len()), gone);
    for sleeper in &sleepers {
        let expected = sleeper.host != "tc0000";
        wait::becomes_true(&format!("{sleeper:?} alive: {expected}"), || {
            process::is_alive(sleeper.pid) == expected
        });
    }
    assert_eq!(local.console.conf().len(), 2);
    finish(watch, local);
}

#[test]
fn a_host_whose_daemon_is_killed_is_out() {
    let Some(mut local) = local(3, "the loss of a daemon") else { return };
    let (watch, sleepers) = watch(&local.machine, &local.programs, 12);
    let second = tids_on(&sleepers, "t80000");
    assert!(!second.is_empty(), "{sleepers:?}");
    process::signal(daemon_of(&local.machine, &sleepers, "t80000"), Signal::KILL);
    await_said(&watch, "host-deleted t80000");
    assert_eq!(told_exits(&watch, second.len()), second);
    assert_eq!(local.console.conf().len(), 2);
    assert_eq!(spread(&local.machine, &local.programs, 8).len(), 2);
    watch.end().expect_success();
}

/// For how long a host sleeps on after the others have given it up. `PVM_TEST_SUSPENDED_SECONDS=60` for as long as a lid
/// is shut at least.
fn suspended() -> Duration {
    let text = std::env::var("PVM_TEST_SUSPENDED_SECONDS").ok();
    Duration::from_secs(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

#[test]
fn a_host_that_was_suspended_finds_itself_deleted() {
    let Some(mut local) = local(3, "a host that is suspended and resumed") else { return };
    let (watch, sleepers) = watch(&local.machine, &local.programs, 12);
    let third = tids_on(&sleepers, "tc0000");
    let pids: Vec<i32> = sleepers.iter().filter(|s| s.host == "tc0000").map(|s| s.pid).collect();
    let daemon = daemon_of(&local.machine, &sleepers, "tc0000");
    let all = || pids.iter().copied().chain([daemon]);
    all().for_each(|pid| assert!(process::signal(pid, Signal::STOP)));
    await_said(&watch, "host-deleted tc0000");
    assert_eq!(told_exits(&watch, third.len()), third);
    assert_eq!(local.console.conf().len(), 2);

    std::thread::sleep(suspended());
    for pid in all() {
        process::signal(pid, Signal::CONT);
    }
    wait::becomes_true("the end of what is left there", || all().all(|pid| !process::is_alive(pid)));
    let says = |log: &String| log.contains("ending reason=\"it is no member any more\"");
    assert!(local.machine.logs().iter().any(says), "{:#?}", local.machine.logs());
    assert_eq!(spread(&local.machine, &local.programs, 8).len(), 2);
    finish(watch, local);
}

#[test]
fn an_added_host_is_reported_and_gets_tasks() {
    let Some(mut local) = local(2, "adding a host") else { return };
    let (watch, _) = watch(&local.machine, &local.programs, 2);
    assert_eq!(local.console.add(&["h3"]), [("h3".to_owned(), Ok("c0000".to_owned()))]);
    await_said(&watch, "host-added tc0000");
    let hosts = spread(&local.machine, &local.programs, 30);
    assert!(hosts.contains_key("tc0000"), "{hosts:?}");
    // Under a name that is taken, it is refused, and the rest of the request goes on.
    let answers = local.console.add(&["h3", "h4"]);
    let [(_, Err(reason)), (_, Ok(tid))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((reason.as_str(), tid.as_str()), ("h3 is in the virtual machine already", "100000"));
    finish(watch, local);
}

/// Deletes a host and adds it again at once, this often; each time it is there again.
fn delete_and_add(console: &mut Console, host: &str, line: &str, times: usize) {
    for round in 1..=times {
        assert_eq!(console.delete(&[host]), [(host.to_owned(), "deleted".to_owned())], "round {round}");
        let answers = console.add(&[line]);
        assert!(matches!(&answers[..], [(_, Ok(_))]), "round {round}: {answers:?}");
    }
}

#[test]
fn a_host_is_deleted_and_added_again_twenty_times() {
    let Some(mut local) = local(2, "adding a host that was deleted") else { return };
    delete_and_add(&mut local.console, "h2", "h2", 20);
    assert_eq!(local.console.conf().len(), 2);
    wait::becomes_true("the end of the daemons that were deleted", || {
        local.machine.slave_daemons().len() == 1
    });
    local.console.quit().expect_success();
    local.machine.finish();
}

#[test]
fn a_host_whose_tasks_ignore_the_end_is_deleted_and_added_again() {
    let Some(mut local) = local(2, "deleting a host whose tasks ignore SIGTERM") else { return };
    let ignores = local.console.spawn("-h2 /bin/sh -c \"trap '' TERM; while :; do sleep 0.1; done\"");
    assert!(matches!(&ignores.tasks[..], [Ok(_)]), "{ignores:?}");
    delete_and_add(&mut local.console, "h2", "h2", 1);
    local.console.quit().expect_success();
    local.machine.finish();
}

#[test]
fn hosts_are_reached_by_ssh() {
    let check = "hosts with a network between them";
    let Some(installation) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(4, &installation, check) else { return };
    let Some(programs) = Programs::compile(&["batch", "watch"], &installation, Linking::Shared) else {
        return;
    };
    let hostfile = format!("* ep=@PATH@ sp=1000\n{}\n{}\n", network.line(1, ""), network.line(2, ""));
    let plan = Plan::of(&installation).path(programs.folder()).name(&network.address(0)).hostfile(&hostfile);
    let machine = plan.network(&network).start();
    let mut console = machine.console_with_hosts(3);
    let hosts = spread(&machine, &programs, 12);
    assert_eq!(hosts.len(), 3, "{hosts:?}");

    let (watch, _) = watch(&machine, &programs, 2);
    let answers = console.add(&[&network.line(3, "")]);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].1.is_ok(), "{answers:?}\n{}", console.transcript());
    await_said(&watch, "host-added t100000");
    assert_eq!(spread(&machine, &programs, 16).len(), 4);
    delete_and_add(&mut console, &answers[0].0, &network.line(3, ""), 20);

    // The cable of a host is pulled: it is out after a few seconds, and the others go on.
    network.cut(2);
    await_said(&watch, "host-deleted tc0000");
    assert_eq!(console.conf().len(), 3);
    assert_eq!(spread(&machine, &programs, 9).len(), 3);
    // Nor does the one at the other end go on by itself.
    wait::becomes_true("the end of the daemon that was cut off", || machine.slave_daemons().len() == 2);
    watch.end().expect_success();
    console.quit();
}

#[test]
fn a_machine_over_ssh_leaves_nothing() {
    let check = "the end of a machine with a network";
    let Some(installation) = Installation::ours_only(check) else { return };
    let Some(network) = Network::of(3, &installation, check) else { return };
    let hostfile = format!("{}\n{}\n", network.line(1, ""), network.line(2, ""));
    let plan = Plan::of(&installation).name(&network.address(0)).hostfile(&hostfile);
    let machine = plan.network(&network).start();
    machine.console_with_hosts(3).quit();
    machine.finish();
    for index in 1..3 {
        let left = pvm_tests::machine::files_in(&network.tmp(index));
        assert!(left.iter().all(|name| name.starts_with("pvml.")), "on {}: {left:?}", network.name(index));
    }
}
