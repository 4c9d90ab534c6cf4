//! Programs compiled years ago against the original PVM (Debian's package of PVM's own examples) run unchanged: with
//! our library or the original one, with our daemon or the original one.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::{Ended, Program};
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, wait};
use std::fs;
use std::time::Duration;

/// Looks at an output; the reason if it is not as it should be.
type Check = fn(&str) -> Result<(), String>;

/// An example that talks to its standard output alone.
struct Example {
    program: &'static str,
    input: &'static str,
    /// What of its output must be there.
    says: &'static [&'static str],
    /// Whether more must hold of its output.
    check: Option<Check>,
}

const LIMIT: Duration = Duration::from_secs(60);
/// The same of `joinleave`, which joins a group, and leaves it, ten thousand times: continuous integration runs it with a product that is
/// hardly optimized.
const LONG_LIMIT: Duration = Duration::from_secs(180);

const EXAMPLES: &[Example] = &[
    Example { program: "hello.pvm", input: "", says: &["i'm t", ": hello, world from "], check: None },
    Example {
        program: "master1",
        input: "",
        says: &["SUCCESSFUL", "(expecting 100.000000)"],
        check: Some(got_what_it_expected),
    },
    Example {
        program: "fmaster1",
        input: "3\n",
        says: &["SUCCESSFUL", "(expected "],
        check: Some(got_what_it_expected),
    },
    Example {
        program: "hitc",
        input: "",
        says: &["I got result from tid:", "Program Finished"],
        check: None,
    },
    Example { program: "timing", input: "", says: &["Message size 1000000", "\ndone\n"], check: None },
];

/// Those that use groups.
const GROUPS: &[Example] = &[
    Example {
        program: "gexample",
        input: "10\n3\n",
        says: &["The 1-Norm is 55 ", "The product of column 1 is 3.6288e+06"],
        check: None,
    },
    Example {
        program: "fgexample",
        input: "10\n3\n",
        says: &["The 1-Norm is         5050", "9.3326215443944"],
        check: None,
    },
    Example {
        program: "tst",
        input: "",
        says: &["joined prognosis 0, negative 0", "left prognosis 0, negative 0"],
        check: None,
    },
    Example { program: "joinleave", input: "", says: &["Joined 10000 times"], check: None },
];

/// `I got X from i; (expecting X)`, with every worker heard.
fn got_what_it_expected(output: &str) -> Result<(), String> {
    let mut heard = 0;
    for line in output.lines().filter_map(|line| line.trim().strip_prefix("I got ")) {
        let numbers: Vec<f64> = line
            .split(|c: char| c.is_whitespace() || c == ';' || c == ')')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [got, _, expected] = numbers[..] else { return Err(format!("unexpected line: {line}")) };
        if (got - expected).abs() > 1e-6 {
            return Err(format!("got {got}, expected {expected}"));
        }
        heard += 1;
    }
    if heard >= 3 { Ok(()) } else { Err(format!("only {heard} workers were heard")) }
}

/// A daemon of one kind with libraries of another.
fn machine(daemon: &Installation, library: &Installation) -> Machine {
    let plan = Plan::of(daemon).library(library);
    // The original can start a second host only with rsh or ssh.
    if daemon.is_ours { plan.local_hosts(3).start() } else { plan.start() }
}

fn run(machine: &Machine, example: &Example) -> Ended {
    let mut program = Program::start(&mut machine.command(format!("/usr/bin/{}", example.program)));
    program.write(example.input);
    program.end_within(if example.program == "joinleave" { LONG_LIMIT } else { LIMIT })
}

#[track_caller]
fn expect(machine: &Machine, examples: &[Example]) {
    for example in examples {
        let ended = run(machine, example);
        for text in example.says {
            assert!(ended.stdout.contains(text), "{} does not say {text:?}: {ended:#?}", example.program);
        }
        if let Some(Err(reason)) = example.check.map(|check| check(&ended.stdout)) {
            panic!("{}: {reason}: {ended:#?}", example.program);
        }
        // Two of them freeze a group of the same name, which can be joined again when the last member has left it.
        await_end_of_tasks(machine);
    }
}

#[track_caller]
fn await_end_of_tasks(machine: &Machine) {
    let mut console = machine.console();
    wait::becomes_true("the end of the programs' tasks", || {
        // The group server stays, and so does the task that asks.
        console.tasks().iter().all(|task| task.command == "pvmgs" || task.command == "-")
    });
    console.quit();
}

/// `spmd`, whose tasks pass a token round, needs to be spawned by a program; what it says is in the daemon's log.
#[track_caller]
fn expect_token_ring(machine: &Machine, programs: &Programs) {
    let spawner = machine.program(programs.path("batch"), &["4", "", "/usr/bin/spmd"]);
    spawner.await_line("its tasks", |line| (line == "started 4").then_some(()));
    wait::becomes_true("a token passed round", || {
        let log = machine.log();
        log.contains("Pass a token through the   4 tid ring") && log.contains("token ring done")
    });
}

/// Tasks have the library that they are meant to be tried with, the spawned ones too.
#[track_caller]
fn expect_library(machine: &Machine, programs: &Programs, library: &Installation) {
    let watch = machine.program(programs.path("watch"), &["2"]);
    let pids = watch.await_lines("its sleepers", 2, |line| {
        line.strip_prefix("sleeper ")?.split(' ').nth(2)?.parse().ok()
    });
    let file = fs::canonicalize(library.library().join("libpvm3.so.3")).expect("the library is there");
    for pid in pids.into_iter().chain([watch.pid()]) {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the task runs");
        assert!(maps.contains(&file.display().to_string()), "process {pid} has another library:\n{maps}");
    }
    watch.end().expect_success();
}

/// A machine whose programs are tried, with nothing left of them afterwards.
fn on_machine(daemon: &Installation, library: &Installation, attempt: impl FnOnce(&Machine)) {
    let mut machine = machine(daemon, library);
    if daemon.is_ours {
        machine.console_with_hosts(3).quit();
    }
    attempt(&machine);
    assert!(machine.is_alive());
    await_end_of_tasks(&machine);
    machine.finish();
}

fn try_all(daemon: &Installation, library: &Installation) {
    let Some(programs) = Programs::compile(&["batch", "watch"], library, Linking::Shared) else { return };
    on_machine(daemon, library, |machine| {
        expect_library(machine, &programs, library);
        expect(machine, EXAMPLES);
        expect_token_ring(machine, &programs);
    });
}

fn try_groups(daemon: &Installation, library: &Installation) {
    on_machine(daemon, library, |machine| expect(machine, GROUPS));
}

fn peers(check: &str) -> Option<Installation> {
    peers::require(&[Peer::OriginalExamples], check)?;
    Installation::debian()
}

type Attempt = fn(&Installation, &Installation);

fn with_our_library_and_our_daemon(check: &str, attempt: Attempt) {
    let installation = Installation::under_test();
    if peers(check).is_some() {
        attempt(&installation, &installation);
    }
}

fn with_the_original_library_and_our_daemon(check: &str, attempt: Attempt) {
    if let (Some(ours), Some(original)) = (Installation::ours_only(check), peers(check)) {
        attempt(&ours, &original);
    }
}

fn with_our_library_and_the_original_daemon(check: &str, attempt: Attempt) {
    if let (Some(ours), Some(original)) = (Installation::ours_only(check), peers(check)) {
        attempt(&original, &ours);
    }
}

#[test]
fn our_library_under_our_daemon() {
    with_our_library_and_our_daemon("old programs with this library and this daemon", try_all);
}

#[test]
fn the_original_library_under_our_daemon() {
    with_the_original_library_and_our_daemon("old programs with the original library, this daemon", try_all);
}

#[test]
fn our_library_under_the_original_daemon() {
    with_our_library_and_the_original_daemon("old programs with this library, the original daemon", try_all);
}

#[test]
fn groups_of_our_library_under_our_daemon() {
    with_our_library_and_our_daemon("old programs with groups, this library and this daemon", try_groups);
}

#[test]
fn groups_of_the_original_library_under_our_daemon() {
    with_the_original_library_and_our_daemon("groups of the original library, this daemon", try_groups);
}

#[test]
fn groups_of_our_library_under_the_original_daemon() {
    with_our_library_and_the_original_daemon("groups of this library, the original daemon", try_groups);
}
