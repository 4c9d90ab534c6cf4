//! The book: the commands on its pages print what the pages show, and its programs run.

use pvm_tests::install::{target, workspace};
use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, built, process, run, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The chapters of the tutorial, in the order in which a reader types their commands.
const TUTORIAL: [&str; 6] = ["install", "hello", "farm", "hosts", "losses", "watching"];

/// How a line begins that is typed at the shell, and at the console.
const SHELL: &str = "$ ";
const CONSOLE: &str = "pvm> ";

fn docs() -> PathBuf {
    workspace().join("docs")
}

/// The blocks of a page with commands and what these print.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(docs().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let starts = text.split("```console\n").skip(1);
    let blocks = starts.map(|rest| rest.split("\n```").next().unwrap_or_default());
    blocks.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// A line that says which block's output follows.
fn mark(block: usize) -> String {
    format!("@@ block {block} @@")
}

/// What a shell has to read: all commands, with what is typed at the console as their input.
fn script(blocks: &[Vec<String>]) -> String {
    let mut script = "exec 2>&1\n".to_owned();
    for (number, block) in blocks.iter().enumerate() {
        let _ = writeln!(script, "printf '\\n%s\\n' '{}'", mark(number));
        let commands =
            block.iter().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix(SHELL)?)));
        for (at, command) in commands {
            let output = block[at + 1..].iter().take_while(|line| !line.starts_with(SHELL));
            let input: Vec<&str> = output.filter_map(|line| line.strip_prefix(CONSOLE)).collect();
            let _ = match &input[..] {
                [] => writeln!(script, "{command}"),
                input => writeln!(script, "{command} <<'END'\n{}\nEND", input.join("\n")),
            };
        }
    }
    script
}

/// A line without what differs from run to run: ids of tasks, points that were lost, blanks at the end.
fn comparable(line: &str) -> String {
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    let is_lost = line.contains(" is lost; ");
    let words = line.trim_end().split(' ').map(|word| {
        let id = word.trim_matches(['[', ']']).strip_prefix('t');
        if id.is_some_and(|id| id.len() >= 5 && digits(id, 16)) {
            "(id)"
        } else if is_lost && digits(word, 10) {
            "(number)"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a text is as it is shown, where `...` is any number of lines.
fn is_shown(shown: &[String], said: &[String]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=said.len()).any(|skipped| is_shown(rest, &said[skipped..]))
        }
        Some((first, rest)) => {
            said.split_first().is_some_and(|(line, more)| line == first && is_shown(rest, more))
        }
    }
}

/// The lines to compare, without empty ones at both ends, and without progress: of a batch that takes longer than a second there is a line.
fn lines<'a>(text: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_progress = |line: &&str| line.starts_with("batch ") && line.contains(" placed, ");
    let lines: Vec<String> = text.filter(|line| !is_progress(line)).map(comparable).collect();
    let is_text = |line: &String| !line.is_empty();
    let (Some(first), Some(last)) = (lines.iter().position(is_text), lines.iter().rposition(is_text)) else {
        return Vec::new();
    };
    lines[first..=last].to_vec()
}

/// Types the commands of these pages into one shell, as a user who has installed this project and has the book's programs in the current
/// folder, and compares.
#[track_caller]
fn expect_shown(pages: &[String], compilers: &[Peer]) {
    let check = "the commands of the book";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(()) = peers::require(compilers, check) else { return };
    let Some(()) = peers::require(&[Peer::PkgConfig], check) else { return };
    let all: Vec<(&String, Vec<String>)> =
        pages.iter().flat_map(|page| blocks(page).into_iter().map(move |block| (page, block))).collect();
    assert!(!all.is_empty(), "{pages:?} have no commands");
    let blocks: Vec<Vec<String>> = all.iter().map(|(_, block)| block.clone()).collect();
    let folder = TempDir::with_prefix("pvm-book-").expect("a temporary folder can be made");
    for entry in fs::read_dir(docs().join("programs")).expect("the book has programs") {
        let path = entry.expect("the folder can be read").path();
        fs::copy(&path, folder.path().join(path.file_name().expect("a file has a name")))
            .expect("files can be copied");
    }
    let file = folder.path().join("commands.sh");
    fs::write(&file, script(&blocks)).expect("a file can be written");
    let ended = Program::start(&mut shell(&ours, folder.path(), &file)).end_within(wait::PATIENCE * 2);
    let left = || process::with_environment(folder.path());
    // Daemons of other hosts exit after `halt` has returned.
    let left = wait::until(wait::PATIENCE / 4, || left().is_empty().then(Vec::new)).unwrap_or_else(left);
    for process in &left {
        process::signal(process.pid, Signal::KILL);
    }
    let said = ended.stdout;
    for (number, (page, block)) in all.iter().enumerate() {
        let (_, rest) =
            said.split_once(&mark(number)).unwrap_or_else(|| panic!("{page}: no block {number}\n{said}"));
        let output = rest.split(&mark(number + 1)).next().unwrap_or_default();
        let said = lines(output.lines());
        let shown = lines(block.iter().filter(|line| !line.starts_with(SHELL)).map(String::as_str));
        assert!(is_shown(&shown, &said), "{page} shows\n{}\nbut it is\n{output}", block.join("\n"));
    }
    assert!(left.is_empty(), "{pages:?} leave a virtual machine: {left:#?}\n{said}");
}

/// A shell with the environment of the tutorial's first chapter.
fn shell(installation: &Installation, folder: &Path, script: &Path) -> Command {
    let bin = installation.pvm().parent().expect("a program is in a folder").to_owned();
    let mut shell = Command::new("/bin/sh");
    shell.arg(script).current_dir(folder).env_clear();
    shell.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    shell.env("PKG_CONFIG_PATH", installation.library().join("pkgconfig"));
    shell.env("HOME", folder).env("PVM_TMP", folder).env("LANG", "C.UTF-8");
    shell
}

#[test]
fn the_commands_of_the_tutorial_print_what_it_shows() {
    expect_shown(&TUTORIAL.map(|chapter| format!("tutorial/{chapter}.md")), &[Peer::CCompiler]);
}

#[test]
fn the_commands_of_the_guides_print_what_they_show() {
    let guides = fs::read_dir(docs().join("guides")).expect("the book has guides");
    let names = guides.map(|entry| entry.expect("the folder can be read").file_name());
    let pages = names.map(|name| format!("guides/{}", name.to_string_lossy()));
    let pages: BTreeSet<String> = pages.filter(|page| !blocks(page).is_empty()).collect();
    expect_shown(&pages.into_iter().collect::<Vec<_>>(), &[Peer::CCompiler, Peer::FortranCompiler]);
}

#[test]
fn every_chapter_and_every_compiled_program_is_tried() {
    let chapters = fs::read_dir(docs().join("tutorial")).expect("the book has a tutorial");
    assert_eq!(chapters.count(), TUTORIAL.len(), "chapters of the tutorial");
    let pages = TUTORIAL.map(|chapter| format!("tutorial/{chapter}.md"));
    let guides = ["old-program", "moving", "queues", "jobs", "from-mpi", "policy"]
        .map(|guide| format!("guides/{guide}.md"));
    let commands: Vec<String> = pages.iter().chain(&guides).flat_map(|page| blocks(page)).flatten().collect();
    for name in programs_in("c").union(&programs_in("f90")) {
        let compiles = |line: &str| line.starts_with("$ cc ") || line.starts_with("$ gfortran ");
        // The worker of a Python program is tried with that.
        let is_compiled = commands.iter().any(|line| compiles(line) && line.contains(&format!(" {name} ")));
        assert!(is_compiled || name == "mixed_worker.c", "no page compiles {name}");
    }
}

/// The files of the book's programs in a language.
fn programs_in(extension: &str) -> BTreeSet<String> {
    let files = fs::read_dir(docs().join("programs")).expect("the book has programs");
    let names =
        files.map(|entry| entry.expect("the folder can be read").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(&format!(".{extension}"))).collect()
}

/// The folder of the Rust programs, built as a package of a user's, with warnings as errors.
fn rust_programs() -> PathBuf {
    // In a folder in which the README's program has built most of what they need.
    let built = target().join("readme");
    built::once("book", || build_rust_programs(&built));
    built.join("debug")
}

fn build_rust_programs(built: &Path) {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let tree = workspace().display();
    let mut manifest = format!(
        "[package]\nname = \"book\"\nedition = \"2024\"\n\n[lints.rust]\nwarnings = \"deny\"\n\n[dependencies]\n\
         libpvm = {{ path = \"{tree}/libpvm\" }}\npvm-sched = {{ path = \"{tree}/sched\" }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n"
    );
    for file in programs_in("rs") {
        let name = file.trim_end_matches(".rs");
        let path = docs().join("programs").join(&file);
        let _ = write!(manifest, "\n[[bin]]\nname = \"book-{name}\"\npath = \"{}\"\n", path.display());
    }
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file can be written");
    // The versions that everything else is built with.
    fs::copy(workspace().join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("a file can be copied");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).current_dir(folder.path()).env("CARGO_TARGET_DIR", built);
    Program::start(&mut cargo).end_within(Duration::from_secs(300)).expect_success();
}

const BEST: &str = "64 points; stiffness 2.5 with damping 2.00 settles after 4.03 s\n";

#[test]
fn the_rust_programs_print_what_those_in_c_do() {
    let Some(ours) = Installation::ours_only("the Rust programs of the book") else { return };
    let folder = rust_programs();
    let expect = |name: &str, words: &[&str], arguments: &[&str], output: &str| {
        let program = folder.join(format!("book-{name}"));
        let ended = run::run_with(&ours, words, &program, arguments);
        ended.expect_success();
        let said: Vec<String> = lines(ended.stdout.lines());
        assert_eq!(said, lines(output.lines()), "{name}: {ended:#?}");
    };
    expect("hello", &["--hosts", "3"], &[], &"hello from t40003\n".repeat(4));
    expect("sweep", &["--hosts", "3"], &[], BEST);
    expect("robust", &["--hosts", "3"], &[], BEST);
    expect("queue", &["--hosts", "2"], &["20", "/bin/true"], "20 done, 0 failed, 0 cancelled\n");
    expect("group", &["-n", "4"], &[], "[t40003] pi is 3.141593, by 4 tasks\n");
    expect("adder", &["--hosts", "3"], &[], "sum 5050, moves 1\n");
    let tried = ["adder", "agent", "group", "hello", "policy", "queue", "robust", "sweep"]
        .map(|name| format!("{name}.rs"));
    assert_eq!(programs_in("rs"), BTreeSet::from(tried));
}

#[test]
fn the_policies_place_as_their_page_shows() {
    let Some(_) = Installation::ours_only("the policies of the book") else { return };
    let page = fs::read_to_string(docs().join("guides/policy.md")).expect("the book has this page");
    for program in ["book-agent", "book-policy"] {
        let ended = Program::run(&mut Command::new(rust_programs().join(program)));
        ended.expect_success();
        assert!(page.contains(&format!("```text\n{}```", ended.stdout)), "{ended:#?}");
    }
}

/// Kills the daemon of a host with workers while they work.
#[track_caller]
fn expect_survival(program: &Path, step: &str) {
    let ours = Installation::ours();
    let machine = Plan::of(&ours).local_hosts(3).start();
    let mut console = machine.console_with_hosts(3);
    let parent = machine.program(program, &[step]);
    wait::becomes_true("workers on all hosts", || {
        let tasks = console.tasks();
        ["h1", "h2", "h3"].iter().all(|host| tasks.iter().any(|task| task.host == *host))
    });
    let daemon = machine.slave_daemons().into_iter().next().expect("there are two");
    assert!(process::signal(daemon.pid, Signal::KILL));
    let ended = parent.end();
    ended.expect_success();
    let (lost, best): (Vec<&str>, Vec<&str>) =
        ended.stdout.lines().partition(|line| line.starts_with("a worker is lost; point "));
    assert!(!lost.is_empty(), "{ended:#?}");
    assert!(matches!(best[..], [best] if best.starts_with("64 points; stiffness 2.5 ")), "{ended:#?}");
    console.quit();
}

#[test]
fn the_c_farm_survives_a_dead_host() {
    let Some(ours) = Installation::ours_only("the farm of the book, in C") else { return };
    let source = docs().join("programs/robust.c");
    let Some(programs) = Programs::of_files(&[source], &ours, Linking::Shared) else { return };
    expect_survival(&programs.path("robust"), "1e-6");
}

#[test]
fn the_rust_farm_survives_a_dead_host() {
    let Some(_) = Installation::ours_only("the farm of the book, in Rust") else { return };
    expect_survival(&rust_programs().join("book-robust"), "4e-6");
}
