//! Programs that print every answer they get. Beside each is what it prints with the original PVM 3.4.6; it must print
//! the same with our library or the original one, under our daemon or the original one.

use pvm_tests::machine::{self, Plan};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, Network, wait};
use std::fs;
use std::path::Path;

fn expected(program: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{program}.expected"));
    fs::read_to_string(path).expect("the expected output can be read")
}

/// Fails with the first line that differs.
#[track_caller]
fn expect_same(what: &str, said: &str, expected: &str) {
    for (number, (said, expected)) in said.lines().zip(expected.lines()).enumerate() {
        assert_eq!(said, expected, "{what}, line {}", number + 1);
    }
    assert_eq!(said.lines().count(), expected.lines().count(), "{what}: {said}");
}

/// Runs the program with each library under each daemon that is here.
fn conforms(program: &str) {
    let tested = Installation::under_test();
    let original = if tested.is_ours { Installation::debian() } else { None };
    let all: Vec<Installation> = [Some(tested), original].into_iter().flatten().collect();
    let expected = expected(program);
    for library in &all {
        let Some(programs) = Programs::compile(&[program], library, Linking::Fixed) else { return };
        for daemon in &all {
            let machine = Plan::of(daemon).library(library).start();
            let mut command = machine.command(programs.path(program));
            let ended = Program::start(&mut command).end_within(wait::PATIENCE * 2);
            let kind =
                |installation: &Installation| if installation.is_ours { "our" } else { "the original" };
            let what = format!("{program} with {} library under {} daemon", kind(library), kind(daemon));
            expect_same(&what, &ended.stdout, &expected);
            assert!(ended.status.success(), "{what}: {ended:#?}");
            machine.finish();
        }
    }
}

#[test]
fn requests_for_unknown_objects_fail() {
    conforms("bogus");
}

#[test]
fn the_mailbox_answers_as_ever() {
    conforms("mailbox");
}

#[test]
fn the_mailbox_is_one_for_all_hosts() {
    let Some(ours) = Installation::ours_only("the mailbox of several hosts") else { return };
    let Some(programs) = Programs::compile(&["mailbox"], &ours, Linking::Shared) else { return };
    let expected = expected("mailbox");
    for host in ["", ".h2", ".h3"] {
        let machine = Plan::of(&ours).path(programs.folder()).local_hosts(3).start();
        machine.console_with_hosts(3).quit();
        // The task that the program spawns goes to whichever host asks first.
        let ends_so = |name: &String| name.starts_with("pvmd.") && name.ends_with(host);
        let files = machine::files_in(machine.tmp()).into_iter().filter(ends_so);
        let file = files.min_by_key(String::len).expect("the host has an address file");
        let socket = fs::read_to_string(machine.tmp().join(file)).expect("the address can be read");
        let mut command = machine.command(programs.path("mailbox"));
        let ended = Program::run(command.env("PVMSOCK", socket.trim()));
        expect_same(&format!("mailbox on h1{host}"), &ended.stdout, &expected);
        machine.finish();
    }
}

/// How often a polling master gets READY of a worker before its DATA, of 2000 times.
#[track_caller]
fn early(machine: &Machine, programs: &Programs, arguments: &[&str]) -> u32 {
    let mut command = machine.command(programs.path("poll_order"));
    let ended = Program::start(command.args(arguments)).end_within(wait::PATIENCE * 2);
    let count = ended.stdout.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    assert!(ended.status.success(), "{arguments:?}: {ended:#?}");
    count.unwrap_or_else(|| panic!("{arguments:?}: {ended:#?}"))
}

/// A few late ones are a matter of chance with either.
const FEW: u32 = 20;

#[test]
fn polls_show_messages_in_the_order_the_original_shows_them() {
    let Some(ours) = Installation::ours_only("the order that polls show") else { return };
    let Some(original) = Installation::debian() else { return };
    let Some(programs) = Programs::compile(&["poll_order"], &ours, Linking::Shared) else { return };
    let path = programs.folder();
    let theirs = Plan::of(&original).path(path).start();
    let here = Plan::of(&ours).path(path).start();
    let apart = Plan::of(&ours).path(path).local_hosts(3).start();
    apart.console_with_hosts(3).quit();
    let unshared = Plan::of(&ours).path(path).variable("PVM_SHM", "0").start();
    for (call, microseconds) in
        [("nrecv", "0"), ("probe", "0"), ("trecv", "0"), ("trecv", "200"), ("trecv", "2000")]
    {
        for route in [&["direct"][..], &[]] {
            let arguments = [&[call, "5", "2000", microseconds], route].concat();
            let most = early(&theirs, &programs, &arguments).max(FEW);
            for machine in [&here, &apart, &unshared] {
                let ours = early(machine, &programs, &arguments);
                assert!(ours <= most, "{arguments:?}: {ours}, the original {most}");
            }
        }
    }
    // The system does not wake a program for what the library has read and holds.
    early(&here, &programs, &["select", "5", "2000", "0"]);
    early(&apart, &programs, &["select", "5", "2000", "0"]);
    early(&unshared, &programs, &["select", "5", "2000", "0"]);
    [theirs, here, apart, unshared].into_iter().for_each(Machine::finish);
}

/// With an address that others could reach, without which the original adds no hosts.
#[test]
fn hosters_say_why_hosts_cannot_be_added() {
    let check = "answers of hosters";
    let Some(ours) = Installation::ours_only(check) else { return };
    let all: Vec<Installation> = std::iter::once(ours).chain(Installation::debian()).collect();
    let expected = expected("hosters");
    for daemon in &all {
        let Some(network) = Network::of(2, daemon, check) else { return };
        for library in &all {
            let Some(programs) = Programs::compile(&["hosters"], library, Linking::Fixed) else { return };
            let machine =
                Plan::of(daemon).library(library).name(&network.address(0)).network(&network).start();
            let ended =
                Program::start(&mut machine.command(programs.path("hosters"))).end_within(wait::PATIENCE * 2);
            let what = format!("library of ours: {}, daemon of ours: {}", library.is_ours, daemon.is_ours);
            expect_same(&what, &ended.stdout, &expected);
            assert!(ended.status.success(), "{what}: {ended:#?}");
            machine.finish();
        }
    }
}
