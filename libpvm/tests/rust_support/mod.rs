//! A daemon for each test, and the test program run again as one of its tasks.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A test: its name, and what its process does as a task of a machine of its own.
pub type Test = (&'static str, fn());

/// Longest a test may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The longest if it is asked for more than usual.
const LONG_LIMIT: Duration = Duration::from_secs(3600);
/// How many tasks are queued, if not the usual number.
pub const QUEUE_TASKS: &str = "PVM_QUEUE_TASKS";

/// A daemon's program, and what to call it.
struct Peer {
    name: &'static str,
    program: PathBuf,
    root: Option<&'static str>,
}

/// A daemon that runs, in a folder of its own.
struct Daemon {
    process: Child,
    folder: tempfile::TempDir,
    program: PathBuf,
    root: Option<&'static str>,
}

/// The daemons to try: Debian's original, and this project's own: `PVM_TEST_PVMD`, else the one built beside the tests.
fn peers() -> Vec<Peer> {
    let original =
        Peer { name: "original", program: "/usr/lib/pvm3/lib/pvmd".into(), root: Some("/usr/lib/pvm3") };
    let mut peers = Vec::new();
    if original.program.is_file() {
        peers.push(original);
    } else {
        missing("the original pvmd");
    }
    match std::env::var_os("PVM_TEST_PVMD").map(PathBuf::from).or_else(built_daemon) {
        Some(program) => peers.push(Peer { name: "own", program, root: None }),
        None => println!("not tried with this project's pvmd, which is not built"),
    }
    peers
}

/// The project's daemon in the folder that has this program's `deps`, if its helper is there, too.
fn built_daemon() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let folder = exe.parent()?.parent()?;
    let (daemon, helper) = (folder.join("pvmd"), folder.join("pvm-task-manager"));
    (daemon.is_file() && helper.is_file()).then_some(daemon)
}

/// What is tried first with this project's daemon: with one of another version everything falls back, and would pass.
const SAME_VERSION: &str = "same_version";

/// Something that a test needs is not on this machine.
pub fn missing(what: &str) {
    let full = std::env::var_os("PVM_TEST_FULL").is_some_and(|value| value == "1");
    assert!(!full, "{what} is missing, and PVM_TEST_FULL=1 wants the Rust API tried with it");
    println!("not tried with {what}, which is missing");
}

impl Daemon {
    fn start(peer: &Peer) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(&peer.program);
        // Its host must have a name that resolves anywhere.
        command.arg("-nlocalhost").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        environment(&mut command, folder.path(), peer.root);
        let mut process = command.spawn().expect("a daemon");
        let mut address = String::new();
        let output = process.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut address).expect("its address");
        assert!(!address.trim().is_empty(), "the daemon gives no address");
        Self { process, folder, program: peer.program.clone(), root: peer.root }
    }

    /// Runs this program as a task in the role of a test; whether it did well.
    fn run(&self, test: &str) -> Result<(), String> {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["role", test]);
        environment(&mut command, self.folder.path(), self.root);
        command
            .env("PVM_TEST_PROGRAM", &self.program)
            .env("PVM_TEST_DAEMON_PID", self.process.id().to_string());
        let scale = ["PVM_TEST_SECONDS", "PVM_TEST_TASKS"];
        command.envs(scale.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let mut process = command.spawn().expect("a task");
        let limit = if std::env::var_os(QUEUE_TASKS).is_some() { LONG_LIMIT } else { LIMIT };
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = process.try_wait().expect("its status") {
                return if status.success() { Ok(()) } else { Err(format!("ended with {status}")) };
            }
            if Instant::now() > end {
                let _ = process.kill();
                let _ = process.wait();
                return Err(format!("takes longer than {limit:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        // The original sometimes waits for ever in its signal handler.
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn environment(command: &mut Command, folder: &Path, root: Option<&str>) {
    let ours = |name: &OsStr| name != QUEUE_TASKS && name.to_string_lossy().starts_with("PVM");
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    // Cargo's folders may have this project's library under the name that the original's programs load.
    command.env_remove("LD_LIBRARY_PATH");
    command.env("PVM_TMP", folder).env("PVM_VMID", "test").env("PVM_ALLOW_ROOT", "1");
    if !rustix::process::geteuid().is_root() {
        // Or tests could not see what their daemon has open.
        command.env("PVM_DUMPABLE", "1");
    }
    // There the original has its group server.
    command.env("PVM_PATH", "/usr/bin");
    command.env("PVM_EXPORT", "PVM_TEST_EXPORTED").env("PVM_TEST_EXPORTED", "yes");
    if let Some(root) = root {
        command.env("PVM_ROOT", root);
    }
    // Direct routes of tasks of one host are by sockets only if they share no memory.
    let is_program =
        |name: &str| std::env::current_exe().is_ok_and(|exe| exe.to_string_lossy().contains(name));
    if is_program("rust_routes") {
        command.env("PVM_SHM", "0");
    }
    // The only means that needs no rights.
    if is_program("rust_turns") {
        command.env("PVM_COSCHEDULING", "stop");
    }
}

/// Runs the role named on the command line, or all tests (those whose names contain an argument, if there is one).
pub fn main(tests: &[Test], roles: &[Test]) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, name, ..] = &args[..]
        && role == "role"
    {
        if name == SAME_VERSION {
            let daemon = pvm3::Task::enrol().expect("a daemon");
            assert!(daemon.daemon_is_ours(), "the daemon is of another version: build pvmd again");
            return ExitCode::SUCCESS;
        }
        let all = tests.iter().chain(roles);
        let (_, run) = all.into_iter().find(|(known, _)| known == name).expect("a role that is known");
        run();
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let chosen =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    if args.iter().any(|arg| arg == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    for peer in peers() {
        let first = peer.root.is_none().then_some(SAME_VERSION);
        let names = tests.iter().map(|(name, _)| *name).filter(|name| chosen(name));
        for name in first.into_iter().chain(names) {
            let begun = Instant::now();
            let result = Daemon::start(&peer).run(name);
            failures += usize::from(result.is_err());
            let verdict = result.map_or_else(|error| format!("FAILED: {error}"), |()| "ok".to_owned());
            println!("test {name} ({} daemon) ... {verdict} ({:.2?})", peer.name, begun.elapsed());
        }
    }
    println!("{failures} failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
