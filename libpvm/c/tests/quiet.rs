//! A small message between two tasks that run costs no system call and no allocation, and packing none: C programs count them.

#[allow(dead_code, reason = "other programs use the rest")]
mod c_support;

use c_support::{Library, Machine, compile};
use pvm_tests::Installation;

#[test]
fn small_messages_ask_the_system_for_nothing() {
    let Some(daemon) = Installation::built() else { return };
    for library in [Library::Shared, Library::Static] {
        let machine = Machine::start(&daemon);
        let Some(program) = compile("quiet.c", library, machine.folder()) else { return };
        let (code, found) = machine.run(&program, library, "");
        assert_eq!((code, &found[..]), (Some(0), "counting\nquiet\n"), "{}", program.display());
    }
}

#[test]
fn packing_asks_for_no_memory() {
    let Some(daemon) = Installation::built() else { return };
    for library in [Library::Shared, Library::Static] {
        let machine = Machine::start(&daemon);
        let Some(program) = compile("packing.c", library, machine.folder()) else { return };
        let (code, found) = machine.run(&program, library, "");
        let expected = "counting\nstyle 0: wrong 0, asked 0\nstyle 1: wrong 0, asked 0\n";
        assert_eq!((code, &found[..]), (Some(0), expected), "{}", program.display());
    }
}
