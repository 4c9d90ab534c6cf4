//! Looking inside a daemon: its state at the console and by signal.

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
    for expected in
        ["daemon of host 1 (h1)", "host 2 h2 ", ": linked,", &format!(" pid {} ", watch.pid()), "Census {"]
    {
        assert!(shown.contains(expected), "{expected:?} is not in:\n{shown}");
    }
    assert!(shown.lines().any(|line| line.contains(" waits for TaskExit(")), "{shown}");

    for pid in machine.slave_daemons().iter().map(|daemon| daemon.pid).chain([machine.daemon_pid()]) {
        process::signal(pid, Signal::USR1);
    }
    for host in [1, 2] {
        let begin = format!("daemon of host {host} (h{host})");
        wait::becomes_true("the state of both in their logs", || {
            machine.logs().iter().any(|log| log.contains(&begin) && log.contains("Census {"))
        });
    }
    watch.end().expect_success();
    console.quit();
    machine.finish();
}
