//! A small message between two tasks that run costs no system call and no allocation: a C program counts them.

#[allow(dead_code, reason = "other programs use the rest")]
mod c_support;

use c_support::{Library, Machine, compile, have_compiler, own_daemon};

#[test]
fn small_messages_ask_the_system_for_nothing() {
    let Some(daemon) = own_daemon().filter(|_| have_compiler("cc")) else { return };
    for library in [Library::Shared, Library::Static] {
        let machine = Machine::start(&daemon);
        let program = compile("quiet.c", library, machine.folder());
        let (code, found) = machine.run(&program, library, "");
        assert_eq!((code, &found[..]), (Some(0), "counting\nquiet\n"), "{}", program.display());
    }
}
