//! A small message between two tasks that run costs no system call and no allocation, and packing none: C programs count them.

#[allow(dead_code, reason = "other programs use the rest")]
mod c_support;

use c_support::{Library, Machine, compile};
use pvm_tests::Installation;

/// Runs a counting program with each library.
fn check(source: &str, expected: &str) {
    let Some(daemon) = Installation::built() else { return };
    for library in [Library::Shared, Library::Static] {
        let machine = Machine::start(&daemon);
        let Some(program) = compile(source, library, machine.folder()) else { return };
        let (code, found) = machine.run(&program, library, "");
        assert_eq!((code, &found[..]), (Some(0), expected), "{}", program.display());
    }
}

#[test]
fn small_messages_ask_the_system_for_nothing() {
    check("quiet.c", "counting\nquiet\n");
}

#[test]
fn packing_asks_for_no_memory() {
    check("packing.c", "counting\nstyle 0: wrong 0, asked 0\nstyle 1: wrong 0, asked 0\n");
}
