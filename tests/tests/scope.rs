//! A daemon that an ordinary user starts after a login has a control group of its own, from the user's service manager.
//!
//! The manager is a real one of systemd, for a user of its own. What a login would do is done by the test: the groups of version 2, and
//! those of systemd's own hierarchy where they are mounted, in which the login and the manager are.

use pvm_tests::peers::{self, Peer};
use pvm_tests::program::{Ended, Program};
use pvm_tests::{Installation, process, wait};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The user nobody.
const USER: u32 = 65534;
/// What systemd asks for to be willing.
const BOOTED: &str = "/run/systemd/system";

/// A user with a login, in a folder of the test.
struct User {
    folder: TempDir,
    /// The user's slice, in each hierarchy.
    slices: Vec<PathBuf>,
    installation: Installation,
}

impl User {
    fn new(check: &str) -> Option<Self> {
        let installation = Installation::ours_only(check)?;
        peers::require(&[Peer::Root, Peer::Systemd], check)?;
        let mounts = fs::read_to_string("/proc/mounts").expect("Linux");
        let hierarchies = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let is_used = kind == "cgroup2" || options.split(',').any(|word| word == "name=systemd");
            is_used.then(|| (kind == "cgroup2", PathBuf::from(at)))
        });
        // That of version 2 comes first.
        let mut hierarchies: Vec<(bool, PathBuf)> = hierarchies.collect();
        hierarchies.sort_by_key(|&(is_unified, _)| !is_unified);
        if !hierarchies.first().is_some_and(|&(is_unified, _)| is_unified) {
            peers::unchecked(check, "there are no control groups of version 2");
            return None;
        }
        let folder = TempDir::new().expect("a temporary folder can be made");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is the test's own");
        for name in ["run", "home", "tmp"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("a folder can be made");
            fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("it is the test's own");
            own(&path);
        }
        let name = format!("user-{USER}.slice");
        let slices: Vec<PathBuf> = hierarchies.iter().map(|(_, at)| at.join(&name)).collect();
        for slice in &slices {
            let manager = slice.join("manager");
            for group in [slice.clone(), slice.join("session-1.scope"), manager.clone()] {
                fs::create_dir_all(group).expect("a control group can be made");
            }
            // The user may move processes between groups of the slice, but the login's own group is the system's.
            own(&slice.join("cgroup.procs"));
            for file in ["", "cgroup.procs", "cgroup.subtree_control", "tasks"] {
                let file = manager.join(file);
                if file.exists() {
                    own(&file);
                }
            }
        }
        Some(Self { folder, slices, installation })
    }

    /// A program of the user's, started in a group.
    fn program(&self, group: &str, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Program {
        let enter: Vec<String> = self
            .slices
            .iter()
            .map(|slice| format!("echo $$ > {}", slice.join(group).join("cgroup.procs").display()))
            .collect();
        let become_user = format!("setpriv --reuid={USER} --regid={USER} --clear-groups \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-ec", &format!("{}\nexec {become_user}", enter.join("\n")), "sh", program])
            .args(arguments);
        let at = |name: &str| self.folder.path().join(name);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", at("home")).env("PVM_TMP", at("tmp"));
        command.env("XDG_RUNTIME_DIR", at("run")).envs(variables.iter().copied()).current_dir("/");
        Program::start(&mut command)
    }

    fn manager(&self) -> Program {
        let is_booted = Path::new(BOOTED).exists();
        fs::create_dir_all(BOOTED).expect("root can make it");
        let manager = self.program("manager", "/lib/systemd/systemd", &["--user"], &[]);
        wait::becomes_true("the user's manager answers", || {
            let asked = self.program(
                "session-1.scope",
                "busctl",
                &["--user", "status", "org.freedesktop.systemd1"],
                &[],
            );
            asked.end().status.success()
        });
        if !is_booted {
            // Others would take it for the system's own.
            fs::remove_dir(BOOTED).expect("it is empty");
        }
        manager
    }

    /// A daemon that is started after the login, and its group.
    fn daemon(&self, variables: &[(&str, &str)]) -> Daemon<'_> {
        let path = self.installation.pvmd();
        let name = path.to_str().expect("a plain path");
        let program = self.program("session-1.scope", name, &["-nlocalhost"], variables);
        program.await_line("the socket", |line| line.contains("pvmtmp").then_some(()));
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", program.pid())).expect("the daemon runs");
        let group = groups.lines().find_map(|line| line.strip_prefix("0::")).expect("a group of version 2");
        let log = self.folder.path().join(format!("tmp/pvml.{USER}"));
        Daemon { user: self, program, group: group.to_owned(), log }
    }

    /// Where the manager's bus is, once it runs.
    fn bus(&self) -> PathBuf {
        self.folder.path().join("run/bus")
    }

    /// The processes in the login's group.
    fn logged_in(&self) -> String {
        let group = self.slices[0].join("session-1.scope/cgroup.procs");
        fs::read_to_string(group).expect("the group is there").trim().to_owned()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        for slice in &self.slices {
            remove(slice);
        }
    }
}

/// Removes a group with those below it, once the last process has left them.
fn remove(group: &Path) {
    let inside = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in inside.filter(|entry| entry.path().is_dir()) {
        remove(&entry.path());
    }
    let _ = wait::until(wait::PATIENCE, || fs::remove_dir(group).is_ok().then_some(()));
}

fn own(path: &Path) {
    chown(path, Some(USER), Some(USER)).expect("root can give files away");
}

struct Daemon<'u> {
    user: &'u User,
    program: Program,
    group: String,
    log: PathBuf,
}

impl Daemon<'_> {
    /// What the daemon writes into its log, which may be a while after it has said where it is.
    #[track_caller]
    fn await_log(&self, texts: [&str; 2]) {
        wait::becomes_true(&format!("{} has {texts:?}", self.log.display()), || {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            texts.iter().all(|text| log.contains(text))
        });
    }

    fn end(self) -> Ended {
        process::signal(self.program.pid(), Signal::TERM);
        let ended = self.program.end();
        wait::becomes_true("nothing of the login is left", || self.user.logged_in().is_empty());
        ended
    }

    #[track_caller]
    fn expect_no_group(self, reason: &str) {
        assert!(self.group.ends_with("/session-1.scope"), "{}", self.group);
        self.await_log(["has no control group of its own", reason]);
        self.end();
    }
}

/// One test: there is one user.
#[test]
fn a_daemon_has_a_group_of_its_own_after_a_login_if_a_manager_helps() {
    let Some(user) = User::new("the group of a daemon after a login") else { return };
    without_help(&user);
    fs::remove_file(user.bus()).expect("it was made");
    with_help(&user);
}

fn with_help(user: &User) {
    let manager = user.manager();
    let daemon = user.daemon(&[]);
    let pid = daemon.program.pid();
    assert!(daemon.group.ends_with(&format!("/pvmd-{pid}.scope")), "{}", daemon.group);
    daemon.await_log(["has a control group of its own", ""]);
    let scope = user.slices[0].parent().expect("a mount").join(daemon.group.trim_start_matches('/'));
    for file in ["cgroup.procs", "cgroup.subtree_control"] {
        assert_eq!(fs::metadata(scope.join(file)).expect("it is there").uid(), USER, "{file}");
    }
    // The login lasts as long as the daemon.
    let keeper = user.logged_in();
    let name = fs::read_to_string(format!("/proc/{keeper}/comm")).expect("one process");
    assert_eq!(name, "cat\n");
    daemon.end();
    wait::becomes_true("the group has gone with the daemon", || !scope.exists());

    // None if the user wants none.
    let daemon = user.daemon(&[("PVM_SCOPE", "none")]);
    assert!(daemon.group.ends_with("/session-1.scope"), "{}", daemon.group);
    let log = daemon.log.clone();
    daemon.end();
    let log = fs::read_to_string(log).expect("the daemon leaves its log");
    assert!(!log.contains("control group of its own"), "{log}");

    process::signal(manager.pid(), Signal::TERM);
    manager.end();
}

fn without_help(user: &User) {
    user.daemon(&[]).expect_no_group("run/bus");
    let silent = UnixListener::bind(user.bus()).expect("a socket can be made");
    own(&user.bus());
    user.daemon(&[]).expect_no_group("busctl does not end within 2s");
    drop(silent);
    user.daemon(&[]).expect_no_group("Connection refused");
}
