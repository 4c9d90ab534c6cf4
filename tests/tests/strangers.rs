//! Another user of the same computer can neither enrol, read nor signal, and gets nowhere by planting files.

use pvm_tests::machine::{self, Plan};
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, process};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user that owns nothing.
const NOBODY: u32 = 65534;

/// Our programs, in a folder that everybody can enter.
fn programs(check: &str) -> Option<(Installation, Programs)> {
    let ours = Installation::ours_only(check)?;
    peers::require(&[Peer::Root], check)?;
    let programs = Programs::compile(&["batch", "stranger"], &ours, Linking::Archive)?;
    open_to_all(programs.folder(), 0o755);
    Some((ours, programs))
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode can be changed");
}

/// A folder for PVM's files such as /tmp is.
fn like_tmp(tmp: &Path) {
    open_to_all(tmp, 0o1777);
    open_to_all(tmp.parent().expect("it is in the machine's folder"), 0o755);
}

fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    command
}

/// What the stranger says it could do to the machine's daemon.
fn attempts(machine: &Machine, programs: &Programs) -> String {
    let pid = machine.daemon_pid();
    let mut files: Vec<_> =
        machine::files_in(machine.tmp()).iter().map(|name| machine.tmp().join(name)).collect();
    assert!(files.len() >= 3, "the address file, the socket and the log: {files:?}");
    files.extend(["environ", "mem", "maps"].map(|name| format!("/proc/{pid}/{name}").into()));
    let mut command = as_nobody(&programs.path("stranger"));
    let ended = Program::run(command.arg(machine.socket()).arg(pid.to_string()).args(files));
    ended.expect_success();
    ended.stdout
}

#[test]
fn a_stranger_cannot_enrol_read_or_signal() {
    let Some((ours, programs)) = programs("what other users can do") else { return };
    let plan = Plan::of(&ours).path(programs.folder());
    let mut machine = plan.try_start_in(&like_tmp).expect("the daemon starts");
    let nothing = format!("done as {NOBODY}\n");
    assert_eq!(attempts(&machine, &programs), nothing);

    // Even if the modes of its files let everybody in, the daemon itself does not.
    open_to_all(machine.socket(), 0o777);
    assert_eq!(attempts(&machine, &programs), format!("connected\n{nothing}"));
    let mut batch = as_nobody(&programs.path("batch"));
    let refused = Program::run(batch.arg("1").env("PVMSOCK", machine.socket()).env("PVM_TMP", machine.tmp()));
    assert!(refused.stdout.starts_with("started -"), "{refused:#?}");
    assert!(machine.log().contains(&format!("connection of another user refused uid={NOBODY}")));

    assert!(machine.is_alive());
    machine.finish();
}

#[test]
fn no_secret_is_where_others_look() {
    let Some((ours, programs)) = programs("what can be seen of a daemon from outside") else { return };
    let plan = Plan::of(&ours).path(programs.folder()).local_hosts(2);
    let machine = plan.try_start_in(&like_tmp).expect("the daemon starts");
    let console = machine.console_with_hosts(2);
    for name in machine::files_in(machine.tmp()) {
        let mode = fs::symlink_metadata(machine.tmp().join(&name)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} has mode {mode:o}");
    }
    // The certificates of the machine begin, in base 64 or in hexadecimal digits, as DER does.
    for process in machine.processes() {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let visible = format!("{} {}", process.command, String::from_utf8_lossy(&environment));
        assert!(!visible.split(['\0', ' ', '=']).any(|word| word.len() > 500), "{visible}");
        assert!(!visible.contains("MII") && !visible.contains("30820"), "{visible}");
    }
    console.quit();
    machine.finish();
}

#[test]
fn planted_links_lead_nowhere() {
    let Some((ours, programs)) = programs("links planted in PVM_TMP") else { return };
    let victim = tempfile::NamedTempFile::new().expect("a file can be made");
    fs::write(victim.path(), "precious").expect("it can be written");
    let uid = rustix::process::geteuid().as_raw();
    let plant = |tmp: &Path| {
        like_tmp(tmp);
        symlink(victim.path(), tmp.join(format!("pvml.{uid}.planted"))).expect("a link can be made");
    };
    let plan = Plan::of(&ours).path(programs.folder()).variable("PVM_VMID", "planted");
    let machine = plan.try_start_in(&plant).expect("the daemon starts");
    let ended = Program::run(machine.command(programs.path("batch")).arg("2"));
    assert!(ended.stdout.starts_with("started 2\n"), "{ended:#?}");
    machine.finish();
    assert_eq!(fs::read_to_string(victim.path()).expect("it is still there"), "precious");
}

#[test]
fn a_task_tells_nothing_to_a_strangers_socket() {
    let Some((_, programs)) = programs("sockets of other users in the daemon's place") else { return };
    let tmp = tempfile::tempdir().expect("a folder can be made");
    open_to_all(tmp.path(), 0o1777);
    let socket = tmp.path().join("pvmtmp000001.0");
    let stranger = Program::start(as_nobody(&programs.path("stranger")).arg("--lurk").arg(&socket));
    stranger.await_line("that it waits", |line| (line == "lurking").then_some(()));
    let mut task = Command::new(programs.path("batch"));
    let ended = Program::run(task.arg("1").env("PVM_TMP", tmp.path()).env("PVMSOCK", &socket));
    assert!(ended.stdout.starts_with("started -14"), "{ended:#?}");
    assert!(ended.stderr.contains("user 65534"), "{ended:#?}");
    process::signal(stranger.pid(), rustix::process::Signal::TERM);
    let said = stranger.end().stdout;
    assert!(!said.contains("brought 1"), "it told {said}");
}
