//! Real daemons, started by a stand-in for ssh: a script that runs the command here, or fails as ssh does.

use pvm_tests::machine::Plan;
use pvm_tests::{Installation, Machine, Program, wait};
use pvm_wire::codes::DAEMON_PROTOCOL;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const DAEMON: &str = env!("CARGO_BIN_EXE_pvmd");

/// A master, and the folder of what stands in for ssh.
struct Master {
    machine: Machine,
    folder: TempDir,
}

impl Master {
    /// Starts one whose hostfile has the line `node`, which is 127.0.0.1 under another name. It is reached by a script that stands
    /// in for ssh: `$@` is the command that ssh would run on the other host, `$FOLDER` the folder of [`Master::file`].
    fn start(rsh: &str, options: &str, env: &[(&str, &str)]) -> Self {
        Self::start_all(rsh, &format!("node ip=127.0.0.1 id=slave dx=@PVMD@ {options}\n"), env)
    }

    /// Starts a master whose hostfile has `count` lines. Each line is another address of this host.
    fn start_many(count: usize, rsh: &str, env: &[(&str, &str)]) -> Self {
        let line = |n| format!("n{n} ip=127.0.77.{n} id=s{n} dx=@PVMD@\n");
        Self::start_all(rsh, &(1..=count).map(line).collect::<String>(), env)
    }

    fn start_all(rsh: &str, hostfile: &str, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rsh");
        fs::write(&path, format!("#!/bin/sh\nFOLDER={}\n{rsh}\n", folder.path().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let plan = Plan::plain(&Installation::beside(Path::new(DAEMON))).name("master");
        let plan = plan.hostfile(hostfile);
        // A name for its log that is shorter than the slave's.
        let plan = plan.variable("PVM_VMID", "m").variable("PVM_RSH", path);
        let plan = env.iter().fold(plan, |plan, (name, value)| plan.variable(name, value));
        Self { machine: plan.start(), folder }
    }

    /// What the script has written into a file.
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Waits until the log has this.
    #[track_caller]
    fn says(&self, text: &str) {
        wait::becomes_true(text, || self.machine.log().contains(text));
    }

    /// Waits until that many hosts are there; who has called whom, from the script's file `calls`.
    #[track_caller]
    fn calls(&self, hosts: usize) -> Vec<(String, String)> {
        wait::becomes_true("all hosts are added", || {
            self.machine.log().matches("host added").count() == hosts
        });
        let calls = self.file("calls");
        let pair = |line: &str| line.split_once(' ').map(|(by, to)| (by.to_owned(), to.to_owned())).unwrap();
        calls.lines().map(pair).collect()
    }

    /// Ends it in order, and sees that it leaves nothing but logs.
    #[track_caller]
    fn finish(self) {
        self.machine.terminate();
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
fn a_local_host_has_the_daemon_that_its_line_names() {
    let folder = tempfile::tempdir().unwrap();
    let (program, words) = (folder.path().join("daemon"), folder.path().join("words"));
    fs::write(&program, format!("#!/bin/sh\necho \"$@\" > {}\nexec {DAEMON} \"$@\"\n", words.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let line = |program: &Path| format!("node via=local dx={}\n", program.display());
    // The usual daemon of other computers is none of this one's.
    let master = Master::start_all(RUN, &line(&program), &[("PVM_DPATH", "/no/such/pvmd")]);
    master.says("host added");
    assert_eq!(fs::read_to_string(&words).unwrap(), "--slave\n");
    master.finish();
    let master = Master::start_all(RUN, &line(&folder.path().join("missing")), &[]);
    master.says("missing: no such program");
    master.finish();
}

#[test]
fn the_command_is_sshs_and_the_secret_is_not_in_it() {
    let master = Master::start(&format!("echo \"$@\" > $FOLDER/words; {RUN}"), "", &[]);
    master.says("host added");
    let words = master.file("words");
    assert_eq!(words, format!("127.0.0.1 {DAEMON} --slave\n"));
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
    let ended = Program::run(Command::new(DAEMON).arg("--slave"));
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("--slave is for the master's use"));
}

#[test]
fn a_slave_whose_master_never_links_ends() {
    // The answer is swallowed: the master gives up, the slave must not stay.
    let master = Master::start(
        "shift; \"$@\" > $FOLDER/answer; echo done >&2; exit 1",
        "",
        &[("PVM_START_TIMEOUT", "5")],
    );
    master.says("CantStart");
    let answer = master.file("answer");
    assert!(answer.starts_with(&format!("pvmd-ready {DAEMON_PROTOCOL} ")), "{answer}");
    let uid = rustix::process::getuid().as_raw();
    let address = master.machine.tmp().join(format!("pvmd.{uid}.slave"));
    wait::becomes_true("the end of the slave", || !address.exists());
    master.finish();
}

/// Writes down who calls whom: each daemon has a `PVM_VMID` of its own.
const CALLS: &str = "echo \"$PVM_VMID $1\" >> $FOLDER/calls";

#[test]
fn hosts_that_are_there_start_others() {
    let master = Master::start_many(14, &format!("{CALLS}; sleep 0.3; {RUN}"), &[("PVM_STARTERS", "2")]);
    let calls = master.calls(14);
    let own = calls.iter().filter(|(by, _)| by == "m").count();
    assert_eq!(calls.len(), 14, "each is called once: {calls:?}");
    assert!((2..=8).contains(&own), "{own} of them by the master: {calls:?}");
    master.finish();
}

#[test]
fn what_another_host_cannot_start_is_started_by_the_master() {
    let refuse = "test \"$PVM_VMID\" = m || { echo 'Permission denied (publickey).' >&2; exit 255; }";
    let master =
        Master::start_many(8, &format!("{CALLS}; {refuse}; sleep 0.3; {RUN}"), &[("PVM_STARTERS", "1")]);
    let calls = master.calls(8);
    assert_eq!(calls.iter().filter(|(by, _)| by == "m").count(), 8, "{calls:?}");
    assert!(calls.len() > 8, "no other host has tried: {calls:?}");
    master.finish();
}

#[test]
fn the_master_starts_all_hosts_if_that_is_set() {
    let env = [("PVM_STARTERS", "1"), ("PVM_START_TREE", "0")];
    let master = Master::start_many(4, &format!("{CALLS}; {RUN}"), &env);
    let calls = master.calls(4);
    assert!(calls.iter().all(|(by, _)| by == "m"), "{calls:?}");
    master.finish();
}

#[test]
fn a_connection_that_fails_is_tried_again() {
    let once =
        "test -e $FOLDER/once || { touch $FOLDER/once; echo 'Connection reset by peer' >&2; exit 255; }";
    let master = Master::start(&format!("{once}; {RUN}"), "", &[]);
    master.says("host added");
    assert!(master.machine.log().contains("Connection reset by peer"));
    master.finish();
}
