//! Looking inside a daemon: its state at the console and by signal, and what its log says of whom.

use pvm_tests::machine::Plan;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, process, wait};
use rustix::process::Signal;

#[test]
fn the_state_is_shown_at_the_console_and_by_signal() {
    let Some(ours) = Installation::ours_only("a daemon's state as text") else { return };
    let Some(programs) = Programs::compile(&["watch"], &ours, Linking::Shared) else { return };
    let machine = Plan::of(&ours).path(programs.folder()).local_hosts(2).start();
    let mut console = machine.console_with_hosts(2);
    let watch = machine.program(programs.path("watch"), &["2"]);
    watch.await_lines("its sleepers", 2, |line| line.starts_with("sleeper ").then_some(()));
    let shown = console.command("dump").join("\n");
    for expected in [
        "daemon of host 1 (h1)",
        "host 2 h2 ",
        ": linked,",
        &format!(" pid {} ", watch.pid()),
        " subscriptions",
    ] {
        assert!(shown.contains(expected), "{expected:?} is not in:\n{shown}");
    }
    assert!(shown.lines().any(|line| line.contains(" subscribes to the exit of t")), "{shown}");

    for pid in machine.slave_daemons().iter().map(|daemon| daemon.pid).chain([machine.daemon_pid()]) {
        process::signal(pid, Signal::USR1);
    }
    for host in [1, 2] {
        let begin = format!("daemon of host {host} (h{host})");
        wait::becomes_true("the state of both in their logs", || {
            machine
                .logs()
                .iter()
                .any(|log| log.contains(&begin) && log.contains(" additions of hosts under way"))
        });
    }
    watch.end().expect_success();
    console.quit();
    machine.finish();
}

#[test]
fn the_log_says_who_did_what_to_whom() {
    let Some(ours) = Installation::ours_only("what the log says") else { return };
    let machine = Plan::of(&ours).local_hosts(1).variable("PVM_LOG", "debug").start();
    let mut console = machine.console();
    let me = console.command("id").concat();
    let spawned = console.spawn("/bin/sleep 1000");
    let [Ok(task)] = &spawned.tasks[..] else { panic!("{spawned:?}") };
    console.command(&format!("kill t{task}"));
    assert_eq!(console.add(&["h2 via=local"]).len(), 1);
    console.delete(&["h2"]);
    let by = format!(" tid={me} ");
    let log = wait::eventually("the end of the host in the log", || {
        let log = machine.log();
        log.contains("reason=\"deleted\"").then_some(log)
    });
    for what in [
        "spawns count=1 file=/bin/sleep".to_owned(),
        format!("signals task=t{task} signal=15"),
        "adds hosts hosts=\"h2 via=local\"".to_owned(),
        "deletes hosts hosts=\"h2\"".to_owned(),
    ] {
        let found =
            log.lines().any(|line| line.contains("task{") && line.contains(&by) && line.contains(&what));
        assert!(found, "no line has {by:?} and {what:?}:\n{log}");
    }
    assert!(log.lines().any(|line| line.contains("peer{host=2}: ")), "{log}");
    console.quit();
    machine.finish();
}
