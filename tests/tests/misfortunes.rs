//! What happens to hosts and tasks without anybody's fault: a clock that jumps, an sshd that hangs, a message that is
//! never finished.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Console, Installation, Machine, wait};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

#[test]
fn an_sshd_that_hangs_costs_its_host_and_nothing_else() {
    let check = "an sshd that accepts and then hangs";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(()) = peers::require(&[Peer::Ssh], check) else { return };
    // The system accepts; nobody ever says a word.
    let silent = TcpListener::bind("127.0.0.5:0").expect("a port can be had");
    let port = silent.local_addr().expect("it has an address").port();
    let plan = Plan::of(&ours).name("h1").hostfile("* ep=@PATH@\n");
    let machine =
        plan.variable("PVM_RSH", format!("ssh -p {port}")).variable("PVM_START_TIMEOUT", "5").start();
    let (mut adding, mut other) = (machine.console(), machine.console());
    let begin = Instant::now();
    adding.send("add \"stuck ip=127.0.0.5\" \"h2 via=local\"");
    let is_ssh = |process: &pvm_tests::process::Process| process.command.starts_with("ssh ");
    wait::becomes_true("ssh", || machine.processes().iter().any(is_ssh));
    // Meanwhile the machine goes on.
    let busy = other.command("add \"h3 via=local\"").concat();
    let spawned = other.spawn("/bin/true");
    assert!(spawned.tasks.iter().all(Result::is_ok), "{spawned:?}");
    let reason = adding.await_line("the result for the stuck host", |line| {
        line.trim_start().strip_prefix("stuck ").map(str::to_owned)
    });
    let took = begin.elapsed();
    assert!(reason.contains("no answer within 5s (PVM_START_TIMEOUT)"), "{reason}");
    assert!(took.as_secs() >= 5, "it took {took:?}");
    assert!(busy.contains("Already") || busy.contains("already"), "one operation at a time: {busy}");
    wait::becomes_true("the host beside it", || other.conf().len() == 2);
    assert_eq!(other.add(&["h3 via=local"]).len(), 1);
    assert_eq!(other.conf().len(), 3);
    wait::becomes_true("the end of ssh", || !machine.processes().iter().any(is_ssh));
    adding.quit();
    other.quit();
    machine.finish();
}

/// A library that makes the clock wrong, the file that says by how much, and a way to start daemons with both.
struct WrongClock {
    folder: tempfile::TempDir,
}

impl WrongClock {
    fn make() -> Option<Self> {
        peers::require(&[Peer::CCompiler], "a clock that jumps")?;
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let clock = Self { folder };
        clock.is_wrong_by(0);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/clock.c");
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(clock.file("clock.so")).arg(source);
        Program::run(&mut compiler).expect_success();
        let script = format!(
            "#!/bin/sh\nshift\nexec env LD_PRELOAD={} CLOCK_ERROR={} \"$@\"\n",
            clock.file("clock.so").display(),
            clock.file("error").display()
        );
        fs::write(clock.starter(), script).expect("the folder is writable");
        fs::set_permissions(clock.starter(), Permissions::from_mode(0o755)).expect("the script is ours");
        Some(clock)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What stands for ssh.
    fn starter(&self) -> PathBuf {
        self.file("starter")
    }

    fn is_wrong_by(&self, seconds: i64) {
        let new = self.file("new");
        fs::write(&new, seconds.to_string()).expect("the folder is writable");
        fs::rename(new, self.file("error")).expect("the folder is writable");
    }
}

/// By how many seconds the clock of that host goes wrong, as a task there tells.
#[track_caller]
fn error_on(host: &str, console: &mut Console) -> i64 {
    let spawned = console.spawn(&format!("-{host} -> /bin/date +%s"));
    let job = spawned.job.expect("a job");
    let there: i64 = console.await_line("the time there", |line| {
        line.strip_prefix(&format!("[{job}:"))?.split_once("] ")?.1.trim().parse().ok()
    });
    let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    there - here.as_secs() as i64
}

/// How long a host may be silent: longer than one of several that share a computer waits for a processor.
const SILENCE: Duration = Duration::from_secs(3);

#[test]
fn a_host_whose_clock_jumps_stays() {
    let Some(ours) = Installation::ours_only("a clock that jumps") else { return };
    let Some(clock) = WrongClock::make() else { return };
    let line = format!("odd ip=127.0.0.2 id=odd-{} dx={} ep=/bin", std::process::id(), ours.pvmd().display());
    let starter = clock.starter().display().to_string();
    let plan = Plan::of(&ours).name("h1").hostfile(&format!("{line}\n")).variable("PVM_RSH", &starter);
    let machine = plan.variable("PVM_HOST_TIMEOUT", SILENCE.as_secs().to_string()).start();
    let mut console = machine.console_with_hosts(2);
    for (hosts, error) in [(3, 3600), (4, -3600), (5, 20 * 365 * 86400)] {
        clock.is_wrong_by(error);
        let found = error_on("odd", &mut console);
        assert!((found - error).abs() < 30, "its clock is wrong by {found} s, not {error} s");
        // Nobody is silent for too long, by any clock that counts.
        std::thread::sleep(SILENCE + Duration::from_secs(1));
        assert_eq!(console.conf().len(), hosts - 1, "{:#?}", machine.logs());
        // A newcomer and the host with the wrong clock look at each other's certificates.
        let added = console.add(&[&format!("h{hosts} via=local")]);
        assert!(added.iter().all(|(_, result)| result.is_ok()), "{added:?}\n{:#?}", machine.logs());
        assert_eq!(console.conf().len(), hosts);
    }
    console.quit();
    machine.finish();
}

/// What arrives of a task that ends within a fragment, for tasks of this library.
#[track_caller]
fn torn(ours: &Installation, library: &Installation) {
    let Some(programs) = Programs::compile(&["torn"], library, Linking::Shared) else { return };
    for hosts in [1, 2] {
        let plan = Plan::of(ours).library(library).path(programs.folder()).local_hosts(hosts);
        // So that what it writes goes to the daemon.
        let mut machine = plan.variable("PVM_SHM", "0").start();
        machine.console_with_hosts(hosts).quit();
        // Within the message's header; in a fragment that is passed on whole; in one that is passed on in pieces.
        for length in ["10", "3000", "200000"] {
            let ended = Program::run(machine.command(programs.path("torn")).arg(length));
            ended.expect_success();
            assert_eq!(ended.stdout, "whole\ngone\nwhole\ngone\n0 more\n", "{length} bytes: {ended:?}");
        }
        assert_log(&machine, "it ended within a fragment");
        assert!(machine.is_alive());
        machine.finish();
    }
}

fn assert_log(machine: &Machine, words: &str) {
    let logs = machine.logs();
    assert!(logs.iter().any(|log| log.contains(words)), "{words:?} is not in {logs:#?}");
}

#[test]
fn an_unfinished_message_never_arrives() {
    let Some(ours) = Installation::ours_only("a task that ends within a fragment") else { return };
    torn(&ours, &ours);
    if let Some(original) = Installation::debian() {
        torn(&ours, &original);
    }
}
