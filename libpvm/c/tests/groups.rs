//! Groups, by C programs: with this library and the original's, on this system's daemon and the original's, and with
//! members of both libraries in one group.

#[allow(dead_code, reason = "other programs use the rest")]
mod c_support;

use c_support::{Library, Machine, compile, daemons, expected, libraries};
use pvm_tests::Installation;
use std::path::Path;

/// Runs a program and compares what it writes.
fn check(machine: &Machine, program: &Path, library: Library, input: &str, expected: &str) {
    let (code, found) = machine.run(program, library, input);
    assert!(found == expected, "{} writes\n{found}\ninstead of\n{expected}", program.display());
    assert_eq!(code, Some(0), "{}", program.display());
}

/// Runs a program with each library on each daemon.
fn check_all(source: &str, expected: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for library in libraries() {
        let Some(program) = compile(source, library, folder.path()) else { return };
        for daemon in daemons() {
            check(&Machine::start(&daemon), &program, library, "", expected);
        }
    }
}

#[test]
fn groups_are_pvms_with_every_library_on_every_daemon() {
    check_all("groups.c", &expected("groups"));
}

#[test]
fn members_of_both_libraries_work_together() {
    if !libraries().contains(&Library::Original) {
        return;
    }
    for daemon in daemons() {
        for (mine, theirs) in [(Library::Static, Library::Original), (Library::Original, Library::Static)] {
            let machine = Machine::start(&daemon);
            let Some(program) = compile("groups.c", mine, machine.folder()) else { return };
            let Some(other) = compile("groups.c", theirs, machine.folder()) else { return };
            check(&machine, &program, mine, &format!("{}\n", other.display()), &expected("groups"));
        }
    }
}

/// Where members die the original waits for ever, so this is for this system's daemon alone.
#[test]
fn many_members_meet_and_reduce_and_some_die() {
    let Some(daemon) = Installation::built() else { return };
    for count in [10, 64] {
        let machine = Machine::start(&daemon);
        let Some(program) = compile("many.c", Library::Shared, machine.folder()) else { return };
        check(&machine, &program, Library::Shared, &format!("{count}\n"), &expected("many"));
    }
}

#[test]
fn fortran_has_groups_too() {
    check_all("groups.f90", &expected("groups-fortran"));
}

/// Runs a program of this library that must report no failures, once for each input.
fn check_failures(source: &str, inputs: &[&str]) {
    let Some(daemon) = Installation::built() else { return };
    for input in inputs {
        let machine = Machine::start(&daemon);
        let Some(program) = compile(source, Library::Shared, machine.folder()) else { return };
        check(&machine, &program, Library::Shared, input, "0 failures\n");
    }
}

#[test]
fn members_that_join_and_leave_at_random_leave_none_waiting() {
    check_failures("churn.c", &["5 0\n", "24 0\n", "30 6\n"]);
}

#[test]
fn a_member_lost_in_a_call_leaves_no_member_waiting() {
    check_failures("losses.c", &["8 40 1\n", "9 40 2\n", "16 40 3\n"]);
}

#[test]
fn collectives_are_right_for_all_types_and_sizes() {
    check_failures("collectives.c", &["2\n", "5\n", "16\n"]);
}
