//! Jobs from C: what the calls of `pvm3x.h` do with good and with bad arguments, and what the header asks of a compiler.

use pvm_tests::machine::{Machine, Plan};
use pvm_tests::peers::{self, Peer};
use pvm_tests::programs::{self, Linking};
use pvm_tests::{Installation, Program, built};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The queue of the tests.
const QUEUES: &str = "[[queue]]\nname = \"default\"\npriority = 3\nmax-time = \"1h\"\nhosts = [\"local*\"]\n";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// A machine of one host with four slots, and a folder that jobs work in.
fn start(daemon: &Installation) -> (Machine, TempDir) {
    let folder = TempDir::with_prefix("pvm-jobs-").expect("a temporary folder");
    let queues = folder.path().join("queues.toml");
    fs::write(&queues, QUEUES).expect("a file of queues");
    let plan =
        Plan::plain(daemon).variable("PVM_STATE", folder.path().join("state")).variable("PVM_QUEUES", queues);
    (plan.variable("PVM_TASK_SLOTS", "4").start(), folder)
}

/// Runs a program and compares what it writes.
#[track_caller]
fn expect(machine: &Machine, program: &Path, arguments: &[&Path], expected: &str) {
    let mut command = machine.command(program);
    command.args(arguments).env("USER", "bob");
    let ended = Program::run(&mut command);
    let log = machine.log();
    assert_eq!(ended.stdout, expected, "{ended:#?}\n{log}");
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}\n{log}");
}

fn expected(name: &str) -> String {
    fs::read_to_string(sources().join(name).with_extension("expected")).expect("what is expected")
}

#[test]
fn jobs_are_submitted_watched_and_changed() {
    let Some(daemon) = Installation::built() else { return };
    built::libraries();
    let folder = TempDir::new().expect("a temporary folder");
    let as_cpp = folder.path().join("jobs.cc");
    fs::copy(sources().join("jobs.c"), &as_cpp).expect("the program can be copied");
    let mut ways = vec![(sources().join("jobs.c"), Linking::Fixed)];
    if !built::is_sanitized() {
        ways.extend([(sources().join("jobs.c"), Linking::Archive), (as_cpp, Linking::Fixed)]);
    }
    for (source, linking) in ways {
        let program = folder.path().join("jobs");
        let Some(()) = programs::compile(&source, &program, &daemon, linking) else { return };
        let (machine, folder) = start(&daemon);
        expect(&machine, &program, &[folder.path()], &expected("jobs.c"));
        for task in ["5", "6", "7"] {
            let said = fs::read_to_string(folder.path().join(format!("sweep.{task}"))).unwrap_or_default();
            assert_eq!(said, format!("task {task} of 3, hello\n"), "{}", machine.log());
        }
    }
}

#[test]
fn misuse_is_answered_with_errors() {
    let Some(daemon) = Installation::built() else { return };
    built::libraries();
    let folder = TempDir::new().expect("a temporary folder");
    let program = folder.path().join("misuse");
    let source = sources().join("misuse_extensions.c");
    let Some(()) = programs::compile(&source, &program, &daemon, Linking::Fixed) else { return };
    let (machine, _folder) = start(&daemon);
    expect(&machine, &program, &[], &expected("misuse_extensions.c"));
    if !built::is_sanitized() && peers::require(&[Peer::Valgrind], "misuse under valgrind").is_some() {
        let arguments = [Path::new("-q"), Path::new("--error-exitcode=9"), &program];
        expect(&machine, Path::new("/usr/bin/valgrind"), &arguments, &expected("misuse_extensions.c"));
    }
}

/// With `PvmAutoErr` as it is at first the reason is printed.
#[test]
fn reasons_are_printed() {
    let Some(daemon) = Installation::built() else { return };
    let body = "struct pvmjobspec job;\npvm_initjob(&job, sizeof job);\njob.js_program = \"true\";\njob.js_slots = 99;\n\
        printf(\"%lld\\n\", pvm_submitjob(&job));\n";
    let Some((program, _folder)) = compiled(body, &daemon) else { return };
    let (machine, _folder) = start(&daemon);
    let ended = Program::run(&mut machine.command(program));
    let lines: Vec<&str> = ended.stderr.lines().filter_map(|line| Some(line.split_once("]: ")?.1)).collect();
    assert_eq!(ended.stdout, "-8\n");
    assert!(lines[0].starts_with("a task needs 99 slots"), "{ended:#?}");
    assert_eq!(lines[1..], ["pvm_submitjob(): Permission denied"]);
}

/// A daemon would end the connection for it.
#[test]
fn no_request_is_longer_than_a_daemon_takes() {
    let Some(daemon) = Installation::built() else { return };
    let body = "static char huge[17 << 20], text[99];\nstruct pvmjobspec job;\npvm_setopt(PvmAutoErr, 0);\n\
        memset(huge, 'h', sizeof huge - 1);\npvm_initjob(&job, sizeof job);\njob.js_program = huge;\n\
        printf(\"%lld, \", pvm_submitjob(&job));\npvm_jobreason(text, sizeof text);\nputs(text);\n\
        printf(\"%d\\n\", pvm_queues(NULL));\n";
    let Some((program, _folder)) = compiled(body, &daemon) else { return };
    let (machine, _folder) = start(&daemon);
    expect(&machine, &program, &[], "-2, the request has more than 16777216 bytes\n1\n");
}

/// A short program, compiled.
#[track_caller]
fn compiled(body: &str, ours: &Installation) -> Option<(PathBuf, TempDir)> {
    built::libraries();
    let folder = TempDir::new().expect("a temporary folder");
    let (source, program) = (folder.path().join("short.c"), folder.path().join("short"));
    let text = format!(
        "#include <pvm3.h>\n#include <pvm3x.h>\n#include <stdio.h>\n#include <string.h>\nint main(void)\n{{\n{body}return 0;\n}}\n"
    );
    fs::write(&source, text).expect("a program");
    programs::compile(&source, &program, ours, Linking::Fixed)?;
    Some((program, folder))
}

/// A daemon of the original's has no queues.
#[test]
fn the_original_daemon_is_not_asked() {
    let (Some(ours), Some(daemon)) = (Installation::built(), Installation::debian()) else { return };
    let body = "char text[99];\nprintf(\"%d, \", pvm_queues(NULL));\npvm_jobreason(text, sizeof text);\nputs(text);\n";
    let Some((program, _folder)) = compiled(body, &ours) else { return };
    let machine = Plan::plain(&daemon).start();
    expect(&machine, &program, &[], "-24, Not implemented\n");
}

#[test]
fn the_header_is_of_c99_and_cpp() {
    let Some(ours) = Installation::built() else { return };
    let Some(()) = peers::require(&[Peer::CCompiler, Peer::CppCompiler], "the header pvm3x.h") else {
        return;
    };
    for (compiler, arguments) in [
        ("cc", &["-std=c99", "-xc"][..]),
        ("cc", &["-std=c17", "-xc"]),
        ("c++", &["-std=c++11", "-xc++"]),
        ("c++", &["-std=c++20", "-xc++"]),
    ] {
        let mut command = Command::new(compiler);
        command.args(arguments).args(["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]);
        let output =
            command.arg(ours.include()).arg(sources().join("jobs.c")).output().expect("the compiler");
        assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
