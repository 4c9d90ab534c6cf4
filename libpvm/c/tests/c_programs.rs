//! C and Fortran programs with this library do what they do with the original: the same output, line for line.
//!
//! Each program of `tests/c` prints what calls return and leave behind. Its `.expected` file is what the original
//! library gives; all three libraries (shared, static, Debian's) must give it, on every daemon there is.

mod c_support;

use c_support::{Library, Machine, compile, daemons, expected, libraries};
use pvm_tests::built::{self, is_sanitized};
use pvm_tests::peers::{self, Peer};
use std::path::Path;
use std::process::Command;

/// Runs a program with each library on each daemon and compares what it writes.
fn check(source: &str) {
    check_with(source, &libraries());
}

/// With this project's libraries alone, for what the original does otherwise.
fn check_ours(source: &str) {
    check_with(source, &[Library::Shared, Library::Static]);
}

fn check_with(source: &str, libraries: &[Library]) {
    let (expected, folder) = (expected(source), tempfile::tempdir().expect("a temporary folder"));
    for &library in libraries.iter().filter(|&&library| !is_sanitized() || library == Library::Shared) {
        let Some(program) = compile(source, library, folder.path()) else { return };
        for daemon in daemons() {
            let (code, found) = Machine::start(&daemon).run(&program, library, "");
            let what = format!("{source} with {library:?} on {}", daemon.pvmd().display());
            compare(&expected, &found, &what);
            assert_eq!(code, Some(0), "{what} has written all, but ends otherwise");
        }
    }
}

/// Fails at the first line that differs, and shows what comes before it.
fn compare(expected: &str, found: &str, what: &str) {
    let (mut wanted, mut got) = (expected.lines(), found.lines());
    let mut same = Vec::new();
    loop {
        let (want, have) = (wanted.next(), got.next());
        assert!(
            want == have,
            "{what}, after\n{}\nexpected {want:?}\nfound    {have:?}\nand then\n{}",
            same.join("\n"),
            got.take(5).collect::<Vec<_>>().join("\n")
        );
        match want {
            Some(line) => same.push(line),
            None => return,
        }
        if same.len() > 5 {
            same.remove(0);
        }
    }
}

macro_rules! programs {
    ($($name:ident: $source:literal;)*) => {$(
        #[test]
        fn $name() {
            check($source);
        }
    )*};
}

programs! {
    errors_are_pvms: "errors.c";
    errors_that_need_something_first_are_pvms: "more_errors.c";
    tasks_are_refused_what_another_has: "refused.c";
    buffers_have_roles: "buffers.c";
    every_type_comes_through: "types.c";
    messages_are_received_as_asked: "receive.c";
    messages_are_shown_before_they_are_received: "shown.c";
    tasks_are_spawned_watched_and_ended: "tasks.c";
    names_and_arguments_are_any_bytes: "bytes.c";
    what_was_received_is_there_until_the_exit: "after_exit.c";
    what_is_not_read_yet_stays: "unread.c";
    direct_routes_come_and_go: "routes.c";
    options_are_set_and_read: "options.c";
    the_mailbox_and_contexts_work: "mailbox.c";
    output_is_collected: "output.c";
    formats_are_understood: "format.c";
    undocumented_names_are_there: "names.c";
    trace_messages_are_marked: "trace.c";
    calls_are_traced: "events.c";
    resource_managers_decide: "manager.c";
    taskers_start_tasks: "tasker.c";
    services_are_registered: "services.c";
    large_and_empty_messages_come: "large.c";
    fortran_has_it_all: "fortran.f90";
    machines_end_and_start: "endings.c";
    machines_end_and_start_in_fortran: "halts.f90";
    members_of_groups_have_hosts: "group_hosts.c";
    group_calls_answer_odd_arguments: "odd_groups.c";
    a_running_daemon_is_named_in_one_line: "running.c";
}

/// The original has no limit.
#[test]
fn what_is_not_received_has_a_limit() {
    check_ours("full.c");
}

/// The original has no hosts on one computer.
#[test]
fn a_task_that_returns_has_delivered_all() {
    check_ours("returns.c");
}

/// With the original a message that a handler sends does not end the wait.
#[test]
fn signal_handlers_call_the_library() {
    check_ours("signals.c");
    check_ours("signals_group.c");
}

/// With the original library the task that has asked waits for ever.
#[test]
fn the_daemon_answers_for_a_dead_resource_manager() {
    check_ours("manager_dies.c");
}

/// The original crashes.
#[test]
fn misuse_is_answered_with_errors() {
    for program in ["misuse.c", "misuse_more.c", "mistakes.f90", "nulls.c"] {
        check_ours(program);
    }
}

#[test]
fn misuse_touches_no_memory_that_it_should_not() {
    if is_sanitized() || peers::require(&[Peer::Valgrind], "misuse under valgrind").is_none() {
        return;
    }
    let daemon = daemons().pop().expect("a daemon");
    for source in ["misuse.c", "misuse_more.c", "nulls.c"] {
        let machine = Machine::start(&daemon);
        let Some(program) = compile(source, Library::Shared, machine.folder()) else { return };
        let script = machine.script(&format!("exec valgrind -q --error-exitcode=9 {}", program.display()));
        let (code, found) = machine.run(&script, Library::Shared, "");
        assert_eq!(code, Some(0), "{source}:\n{found}");
    }
}

/// The original's children share their parent's connection.
#[test]
fn tasks_begin_end_and_fork() {
    check_ours("lifetime.c");
}

#[test]
fn many_enrol_at_once() {
    for daemon in daemons() {
        for library in libraries() {
            let machine = Machine::start(&daemon);
            let Some(program) = compile("enrol.c", library, machine.folder()) else { return };
            let script =
                machine.script(&format!("for i in $(seq 64); do {} & done\nwait", program.display()));
            let (_, found) = machine.run(&script, library, "");
            assert_eq!(found, "1".repeat(64), "{library:?} on {}", daemon.pvmd().display());
        }
    }
}

/// The original loses the upper halves of longs.
#[test]
fn longs_keep_all_their_bits() {
    check_ours("longs.c");
}

/// A daemon of ours knows whose library a receiver has. The original's does not, and and warns of all.
#[test]
fn senders_are_told_of_receivers_that_lose_half_of_a_long() {
    let source = "long_receivers.c";
    for daemon in daemons().iter().filter(|_| !is_sanitized()) {
        let machine = Machine::start(daemon);
        let programs =
            [Library::Static, Library::Original].map(|library| compile(source, library, machine.folder()));
        let [Some(mine), Some(theirs)] = programs else { return };
        let input = format!("{}\n{}\n{}\n", mine.display(), theirs.display(), theirs.display());
        let (code, found) = machine.run(&mine, Library::Static, &input);
        let expected = expected(if daemon.is_ours { "long_receivers" } else { "long_receivers_original" });
        compare(&expected, &without_tids(&found), &format!("{source} on {}", daemon.pvmd().display()));
        assert_eq!(code, Some(0));
    }
}

/// A text with `: t40003 has` as `: t has`.
fn without_tids(text: &str) -> String {
    let mut pieces = text.split(": t");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |out, piece| out + ": t" + piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

/// The original does not go on from the first name.
#[test]
fn fortran_goes_through_lists() {
    check_ours("lists.f90");
}

/// Debian's programs, compiled long ago against the original: each with its input, and lines of what it writes.
const OLD_PROGRAMS: &[(&str, &str, &[&str])] = &[
    ("hello.pvm", "", &["hello, world from"]),
    (
        "master1",
        "",
        &["SUCCESSFUL", "I got 100.000000 from 1", "I got 200.000000 from 0", "I got 300.000000 from 2"],
    ),
    ("spmd", "", &["token ring done"]),
    ("timing", "", &["Message size 1000000", "done"]),
    ("hitc", "", &["Program Finished"]),
    ("pvm", "conf\nps -a\nquit\n", &["1 host, 1 data format"]),
    ("gexample", "6\n3\n", &["The 1-Norm is 21", "The product of column 1 is 720"]),
    ("fgexample", "", &["The 1-Norm is         5050"]),
];

#[test]
fn old_programs_run_with_this_library() {
    if is_sanitized()
        || peers::require(&[Peer::OriginalExamples, Peer::OriginalPvm], "old programs").is_none()
    {
        return;
    }
    for daemon in daemons() {
        for (name, input, lines) in OLD_PROGRAMS {
            let program = Path::new("/usr/bin").join(name);
            let machine = Machine::start(&daemon);
            // Their exit codes mean nothing: some end main without a value.
            let (_, found) = machine.run(&program, Library::Shared, input);
            for line in *lines {
                assert!(
                    found.contains(line),
                    "{name} on {} does not say {line}:\n{found}",
                    daemon.pvmd().display()
                );
            }
        }
    }
}

#[test]
fn old_programs_and_libraries_find_every_symbol() {
    if is_sanitized()
        || peers::require(&[Peer::OriginalExamples, Peer::OriginalPvm], "old programs").is_none()
    {
        return;
    }
    let names =
        ["hello.pvm", "hello_other", "master1", "slave1", "spmd", "timing", "timing_slave", "hitc_slave"];
    let more = ["gexample", "fgexample", "hitc", "gs.pvm", "pvm"];
    for name in names.iter().chain(&more) {
        let program = Path::new("/usr/bin").join(name);
        let mut ldd = Command::new("ldd");
        ldd.arg("-r").arg(&program).env("LD_LIBRARY_PATH", built::libraries());
        let output = ldd.output().expect("ldd");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.contains(&*built::libraries().to_string_lossy()),
            "{name} loads another library:\n{text}"
        );
        assert!(!text.contains("undefined symbol") && !text.contains("not found"), "{name}:\n{text}");
    }
}
