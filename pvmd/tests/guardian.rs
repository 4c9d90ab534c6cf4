//! The guardian as a process: what was held is let go when its daemon is no more.

use pvm_tests::wait::becomes_true;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn ignores(pid: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

fn signal(pid: u32, signal: i32) {
    pvmd::io::process::signal_process(pid as i32, signal).unwrap();
}

#[track_caller]
fn wait_for(pid: u32, wanted: impl Fn(char) -> bool) {
    becomes_true("another state", || wanted(state(pid)));
}

#[test]
fn what_a_daemon_has_stopped_goes_on_after_its_end() {
    let [mut held, mut other] = [(); 2].map(|()| Command::new("sleep").arg("1000").spawn().unwrap());
    let mut guardian = Command::new(env!("CARGO_BIN_EXE_pvmd"));
    let mut guardian = guardian.args(["--guardian", "stop"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = guardian.stdin.take().unwrap();
    writeln!(pipe, "hold {}\nhold {}\nfree {}", held.id(), other.id(), other.id()).unwrap();
    for task in [&held, &other] {
        signal(task.id(), 19);
        wait_for(task.id(), |state| state == 'T');
    }
    // It outlives what ends its daemon.
    becomes_true("the signal is ignored", || ignores(guardian.id(), 15));
    signal(guardian.id(), 15);
    std::thread::sleep(Duration::from_millis(50));
    assert!(guardian.try_wait().unwrap().is_none());
    drop(pipe);
    assert!(guardian.wait().unwrap().success());
    wait_for(held.id(), |state| state != 'T');
    assert_eq!(state(other.id()), 'T', "it was free: somebody else has stopped it");
    for task in [&mut held, &mut other] {
        task.kill().unwrap();
        task.wait().unwrap();
    }
}
