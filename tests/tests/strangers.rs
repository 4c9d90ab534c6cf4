//! Another user of the same computer can neither enrol, read nor signal, and gets nowhere by planting files.

use pvm_tests::console::Console;
use pvm_tests::machine::{self, Plan};
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, process, wait};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
    assert!(ended.stderr.contains("uid 65534"), "{ended:#?}");
    process::signal(stranger.pid(), rustix::process::Signal::TERM);
    let said = stranger.end().stdout;
    assert!(!said.contains("brought 1"), "it told {said}");
}

/// `PVM_VMID` of a machine whose name a stranger knows.
const KNOWN: &str = "planted";

/// The address file that a stranger has made in advance.
fn planted_address_file(tmp: &Path) -> PathBuf {
    tmp.join(format!("pvmd.{}.{KNOWN}", rustix::process::geteuid().as_raw()))
}

fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).expect("root can give files away");
}

/// A file that names another one by a path that looks like a socket of PVM's.
fn plant_pointer(tmp: &Path) {
    fs::create_dir(tmp.join("home")).expect("a folder can be made");
    fs::write(tmp.join("home/precious"), "precious").expect("a file can be written");
    symlink(tmp.join("home"), tmp.join("pvmtmp")).expect("a link can be made");
    let target = tmp.join("pvmtmp/precious").display().to_string();
    fs::write(planted_address_file(tmp), target).expect("a file can be written");
}

fn plant_fifo(tmp: &Path) {
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, planted_address_file(tmp), FileType::Fifo, mode, 0).expect("a FIFO can be made");
}

fn plant_link(tmp: &Path) {
    symlink("/dev/zero", planted_address_file(tmp)).expect("a link can be made");
}

/// A file that names a socket at which a stranger listens.
fn plant_socket(tmp: &Path) {
    let socket = tmp.join("pvmtmp000001.0");
    // Clones of the listening socket outlive this function: connections are accepted into its queue.
    std::mem::forget(UnixListener::bind(&socket).expect("a socket can be made"));
    give_away(&socket);
    fs::write(planted_address_file(tmp), socket.display().to_string()).expect("a file can be written");
}

#[test]
fn an_address_file_of_a_stranger_is_refused_by_name() {
    let Some((ours, programs)) = programs("address files that others have planted") else { return };
    for plant in [plant_pointer, plant_fifo, plant_link, plant_socket] {
        // With the sticky bit, as /tmp, and without it.
        for mode in [0o1777, 0o777] {
            let prepare = |tmp: &Path| {
                like_tmp(tmp);
                open_to_all(tmp, mode);
                plant(tmp);
                give_away(&planted_address_file(tmp));
            };
            let plan = Plan::of(&ours).variable("PVM_VMID", KNOWN);
            let Err(refused) = plan.try_start_in(&prepare) else { panic!("the daemon started") };
            let says = |text: &str| assert!(refused.ended.stderr.contains(text), "{text}: {refused:#?}");
            says(&format!("{KNOWN} "));
            says("belongs to uid 65534");
            says("set PVM_TMP to a folder of your own");

            let tmp = tempfile::tempdir().expect("a folder can be made");
            prepare(tmp.path());
            let mut task = Command::new(programs.path("batch"));
            let ended = Program::run(
                task.arg("1").env("PVM_TMP", tmp.path()).env("PVM_VMID", KNOWN).env_remove("PVMSOCK"),
            );
            assert!(ended.stdout.starts_with("started -14"), "{ended:#?}");
            assert!(ended.stderr.contains("belongs to uid 65534"), "{ended:#?}");
        }
    }
}

#[test]
fn no_file_is_removed_for_a_stranger() {
    let Some((ours, _)) = programs("what an address file makes a daemon remove") else { return };
    for is_own in [false, true] {
        let precious = std::cell::RefCell::new(PathBuf::new());
        let prepare = |tmp: &Path| {
            like_tmp(tmp);
            plant_pointer(tmp);
            if !is_own {
                give_away(&planted_address_file(tmp));
            }
            let kept = tempfile::tempdir().expect("a folder can be made").keep();
            fs::rename(tmp.join("home"), kept.join("home")).expect("it can be moved");
            fs::remove_file(tmp.join("pvmtmp")).expect("the link can be removed");
            symlink(kept.join("home"), tmp.join("pvmtmp")).expect("a link can be made");
            *precious.borrow_mut() = kept;
        };
        let started = Plan::of(&ours).variable("PVM_VMID", KNOWN).try_start_in(&prepare);
        assert_eq!(started.is_ok(), is_own, "{:#?}", started.err());
        drop(started);
        let kept = precious.into_inner();
        let text = fs::read_to_string(kept.join("home/precious"));
        fs::remove_dir_all(&kept).expect("it can be removed");
        assert_eq!(text.expect("the file is still there"), "precious");
    }
}

#[test]
fn a_socket_of_a_stranger_under_an_old_name_is_no_daemon() {
    let Some((ours, _)) = programs("sockets of other users under the name of a daemon's") else { return };
    let prepare = |tmp: &Path| {
        like_tmp(tmp);
        // Without the sticky bit, of which the log warns.
        open_to_all(tmp, 0o777);
        plant_socket(tmp);
    };
    let plan = Plan::of(&ours).variable("PVM_VMID", KNOWN);
    let machine =
        plan.try_start_in(&prepare).expect("the daemon starts: the file is this user's, the socket is not");
    wait::becomes_true("a warning", || machine.log().contains("other users can remove this daemon's files"));
    let strangers = machine.tmp().join("pvmtmp000001.0");
    assert!(strangers.exists(), "it is not the daemon's to remove");
    fs::remove_file(strangers).expect("it can be removed");
    machine.finish();
}

/// What a process has open.
fn open_files(pid: i32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect()
}

#[test]
fn descriptors_of_the_shell_end_with_the_shell() {
    let Some(ours) = Installation::ours_only("what daemons and tasks inherit") else { return };
    let shells = tempfile::NamedTempFile::new().expect("a file can be made");
    fcntl_setfd(shells.as_file(), FdFlags::empty()).expect("it can be inherited");
    let machine = Plan::of(&ours).local_hosts(2).start();
    let mut console = machine.console_with_hosts(2);
    for host in ["-h1", "-h2"] {
        let spawned = console.spawn(&format!("{host} -1 sleep 1000"));
        assert!(spawned.tasks.iter().all(Result::is_ok), "{spawned:?}");
    }
    let slaves = machine.slave_daemons().into_iter().map(|slave| slave.pid);
    let mut processes: Vec<i32> = slaves.chain([machine.daemon_pid()]).collect();
    assert_eq!(processes.len(), 2);
    let tasks: Vec<_> = processes.iter().flat_map(|&daemon| process::children(daemon)).collect();
    assert!(tasks.iter().filter(|task| task.command.starts_with("/usr/bin/sleep")).count() == 2, "{tasks:?}");
    processes.extend(tasks.iter().map(|task| task.pid));
    for pid in processes {
        let files = open_files(pid);
        assert!(!files.is_empty() && !files.iter().any(|file| file == shells.path()), "{pid}: {files:?}");
    }
    console.quit();
    machine.finish();
}

/// The soft limit of the size of core dumps.
fn core_limit(pid: i32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("it is there");
    line.split_whitespace().next().expect("it has a value").to_owned()
}

/// The owner of what the system shows of a process's memory: root, if nobody is to see it.
fn owner_of_memory(pid: i32) -> u32 {
    fs::metadata(format!("/proc/{pid}/mem")).expect("it runs").uid()
}

/// `pvm` run by the user that owns nothing, from a copy that this user can execute.
struct Guest {
    folder: tempfile::TempDir,
}

impl Guest {
    fn new(ours: &Installation) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        open_to_all(folder.path(), 0o1777);
        fs::copy(ours.pvm(), folder.path().join("pvm")).expect("the program can be copied");
        fs::write(folder.path().join("hosts"), "* via=local\nh1\nh2\n").expect("a file can be written");
        Self { folder }
    }

    /// A shell command of this user.
    fn command(&self, script: &str) -> Command {
        let mut command = as_nobody(Path::new("/bin/sh"));
        command.args(["-c", script]).current_dir(self.folder.path());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PVM")) {
            command.env_remove(name);
        }
        command
            .env("PVM_TMP", self.folder.path())
            .env("HOME", self.folder.path())
            .env("PVM_PATH", "/usr/bin");
        command
    }

    /// Its daemons.
    fn daemons(&self) -> Vec<i32> {
        let all = process::with_environment(self.folder.path());
        let daemons = all.into_iter().filter(|process| process.command.contains("pvm daemon"));
        daemons.filter(|process| !process.command.contains("--guardian")).map(|process| process.pid).collect()
    }
}

#[test]
fn daemons_leave_no_core_dump_and_their_tasks_can() {
    let check = "core dumps of daemons";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(()) = peers::require(&[Peer::Root], check) else { return };
    let guest = Guest::new(&ours);
    let script = "ulimit -Sc $(ulimit -Hc); exec ./pvm daemon -nh1 hosts";
    let master = Program::start(&mut guest.command(script));
    master.await_line("its socket", |line| line.starts_with('/').then_some(()));
    let mut console = Console::start(&mut guest.command("exec ./pvm"));
    wait::becomes_true("two hosts", || console.conf().len() == 2);
    for host in ["-h1", "-h2"] {
        let spawned = console.spawn(&format!("{host} -1 sleep 1000"));
        assert!(spawned.tasks.iter().all(Result::is_ok), "{spawned:?}");
    }
    let daemons = guest.daemons();
    assert_eq!(daemons.len(), 2);
    let most = Program::run(&mut guest.command("ulimit -Sc $(ulimit -Hc); cat /proc/$$/limits"));
    for daemon in daemons {
        assert_eq!((core_limit(daemon).as_str(), owner_of_memory(daemon)), ("0", 0));
        let tasks = process::children(daemon);
        let task = tasks.iter().find(|task| task.command.contains("sleep")).expect("one was spawned").pid;
        assert_eq!(owner_of_memory(task), NOBODY);
        let line = most.stdout.lines().find(|line| line.starts_with("Max core file size"));
        let expected = line.and_then(|line| line.split_whitespace().nth(4));
        assert_eq!(Some(core_limit(task).as_str()), expected);
    }
    console.send("halt");
    console.into_program().end();
    master.end();
}
