//! Real daemons, started by a stand-in for ssh: a script that runs the command here, or fails as ssh does.

use pvm_wire::codes::DAEMON_PROTOCOL;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A master whose files are in a folder of its own.
struct Master {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

/// What stands in for ssh. `$@` is the command that ssh would run on the other host.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("rsh");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

impl Master {
    /// Starts one whose hostfile has the line `node`, reached by a script; `node` is 127.0.0.1 under another name.
    fn start(rsh: &str, options: &str, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rsh = script(folder.path(), rsh);
        let hosts = folder.path().join("hosts");
        let daemon = env!("CARGO_BIN_EXE_pvmd");
        fs::write(&hosts, format!("node ip=127.0.0.1 id=slave dx={daemon} {options}\n")).unwrap();
        let mut child = Command::new(daemon)
            .args(["-nmaster".as_ref(), hosts.as_os_str()])
            .env("PVM_TMP", folder.path())
            .env("PVM_VMID", "master")
            .env("PVM_RSH", rsh)
            .env_remove("PVMSOCK")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with('/'), "{line:?}");
        Self { folder, child: Some(child) }
    }

    fn log(&self) -> String {
        let uid = rustix::process::getuid().as_raw();
        fs::read_to_string(self.folder.path().join(format!("pvml.{uid}.master"))).unwrap_or_default()
    }

    /// Waits until the log has this.
    fn says(&self, text: &str) {
        let begin = Instant::now();
        while !self.log().contains(text) {
            assert!(begin.elapsed() < PATIENCE, "{text:?} is not in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it in order, and sees that it leaves nothing but logs.
    fn finish(mut self) {
        let mut child = self.child.take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        let begin = Instant::now();
        loop {
            let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("pvm")).collect();
            if left.iter().all(|name| name.to_string_lossy().starts_with("pvml.")) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The command as a remote shell would run it, without the host's name.
const RUN: &str = "shift; exec \"$@\"";

#[test]
fn a_host_is_started_linked_and_ended_with_the_machine() {
    let master = Master::start(RUN, "", &[]);
    master.says("host added");
    master.finish();
}

#[test]
fn the_command_is_sshs_and_the_secret_is_not_in_it() {
    let master = Master::start(&format!("echo \"$@\" > $PVM_TMP/words; {RUN}"), "", &[]);
    master.says("host added");
    let words = fs::read_to_string(master.folder.path().join("words")).unwrap();
    assert_eq!(words, format!("127.0.0.1 {} --slave\n", env!("CARGO_BIN_EXE_pvmd")));
    master.finish();
}

#[test]
fn a_login_is_passed_on() {
    let master = Master::start("echo \"$@\" >&2; exit 255", "lo=alice", &[]);
    master.says("-l alice 127.0.0.1");
    master.finish();
}

#[test]
fn banners_and_warnings_are_no_answer() {
    let master = Master::start(&format!("echo Welcome; echo careful >&2; {RUN}"), "", &[]);
    master.says("Welcome");
    master.says("host added");
    master.finish();
}

#[test]
fn what_ssh_says_is_the_reason() {
    let master = Master::start("echo 'Permission denied (publickey).' >&2; exit 255", "", &[]);
    master.says("CantStart");
    master.says("Permission denied (publickey).");
    master.finish();
}

#[test]
fn no_ssh_on_the_path_is_said() {
    let master = Master::start(RUN, "", &[("PVM_RSH", "no-such-rsh")]);
    master.says("no-such-rsh: no such program on this host's path");
    master.finish();
}

#[test]
fn a_host_that_does_not_answer_is_given_up() {
    let master = Master::start("exec sleep 1000", "", &[("PVM_START_TIMEOUT", "0.5")]);
    master.says("no answer within 500ms");
    master.finish();
}

#[test]
fn a_starter_that_starts_nothing_is_told_what_was_expected() {
    let master = Master::start("exec true", "", &[]);
    master.says("it ended without starting a daemon: it printed nothing; expected the line");
    master.finish();
}

#[test]
fn a_daemon_of_another_version_is_refused() {
    let master = Master::start("cat >/dev/null; echo pvmd-ready 999 LINUX64 1 4230209 1000", "", &[]);
    master.says("BadVersion");
    master.finish();
}

#[test]
fn an_answer_without_a_daemon_behind_it_is_no_host() {
    let answer = format!("cat >/dev/null; echo pvmd-ready {DAEMON_PROTOCOL} LINUX64 9 4230209 1000");
    let master = Master::start(&answer, "", &[("PVM_HOST_TIMEOUT", "0.5")]);
    master.says("no link to its daemon");
    master.finish();
}

#[test]
fn starts_by_hand_are_refused_with_a_reason() {
    let master = Master::start(RUN, "so=ms", &[]);
    master.says("so=ms needs a person");
    master.finish();
}

#[test]
fn a_flood_instead_of_an_answer_is_cut_off() {
    let master = Master::start("exec yes", "", &[]);
    master.says("CantStart");
    master.finish();
}

#[test]
fn nobody_but_a_master_gets_a_slave() {
    let child =
        Command::new(env!("CARGO_BIN_EXE_pvmd")).arg("--slave").stdin(Stdio::null()).output().unwrap();
    assert_eq!(child.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&child.stderr).contains("--slave is for the master's use"));
}

#[test]
fn a_slave_whose_master_never_links_ends() {
    // The answer is swallowed: the master gives up, the slave must not stay.
    let master = Master::start(
        "shift; \"$@\" > $PVM_TMP/answer; echo done >&2; exit 1",
        "",
        &[("PVM_START_TIMEOUT", "5")],
    );
    master.says("CantStart");
    let answer = fs::read_to_string(master.folder.path().join("answer")).unwrap();
    assert!(answer.starts_with(&format!("pvmd-ready {DAEMON_PROTOCOL} ")), "{answer}");
    let uid = rustix::process::getuid().as_raw();
    let address = master.folder.path().join(format!("pvmd.{uid}.slave"));
    let begin = Instant::now();
    while address.exists() {
        assert!(begin.elapsed() < PATIENCE, "the slave is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    master.finish();
}
