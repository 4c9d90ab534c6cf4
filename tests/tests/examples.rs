//! Every program of Debian's pvm-examples that ends unattended on the original, unchanged: with the original library or
//! ours, under the original daemon or ours, all say the same.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::scene::Blind::{Ids, Lines, Numbers, Order, Rows};
use pvm_tests::scene::Step::{Console, Run, Said, Say, Start, Stop, Tasks, Until};
use pvm_tests::scene::{Blind, Scene, Step};
use pvm_tests::{Installation, Machine, Program, process, wait};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::process::Command;
use std::thread;

const fn scene(
    name: &'static str,
    steps: &'static [Step],
    blind: &'static [Blind],
    says: &'static str,
) -> Scene {
    Scene { name, steps, blind, says }
}

/// Two bandwidth testers find each other by a group; whichever comes first measures.
const BANDWIDTH: &[Blind] = &[Numbers("Roundtrip T"), Ids, Lines("pvm_gettid"), Order];

/// Each library shows its own inner tables of handlers, and the original complains at `pvm_exit` of those deleted before.
const HANDLERS: &[Blind] =
    &[Ids, Lines("dhandles"), Lines("free list."), Lines("TID: handler "), Lines("pvm_delmhf()"), Rows];

const SCENES: &[Scene] = &[
    scene("hello", &[Run("hello.pvm", &[], "")], &[Ids], "hello, world from"),
    scene("master1", &[Run("master1", &[], "")], &[Ids, Order], "(expecting 100.000000)"),
    scene("fmaster1", &[Run("fmaster1", &[], "3\n")], &[Ids, Order], "SUCCESSFUL"),
    scene("hitc", &[Run("hitc", &[], "")], &[Ids], "Program Finished"),
    scene("timing", &[Run("timing", &[], "")], &[Rows, Ids, Numbers("uSec")], "Message size 1000000"),
    scene("gexample", &[Run("gexample", &[], "10\n3\n")], &[Ids, Order], "The 1-Norm is 55 "),
    scene("fgexample", &[Run("fgexample", &[], "10\n3\n")], &[Ids, Order], "The 1-Norm is         5050"),
    scene("spmd", &[Console("spawn -4 -> spmd", "[1] finished")], &[Ids, Order], "token ring done"),
    scene("fspmd", &[Console("spawn -4 -> fspmd", "[1] finished")], &[Ids, Order], "token ring done"),
    scene(
        "dbwtest",
        &[Start("dbwtest", &[], ""), Start("dbwtest", &[], "")],
        BANDWIDTH,
        "received correctly",
    ),
    scene(
        "ibwtest",
        &[Start("ibwtest", &[], ""), Start("ibwtest", &[], "")],
        BANDWIDTH,
        "received correctly",
    ),
    scene(
        "pbwtest",
        &[Start("pbwtest", &[], ""), Start("pbwtest", &[], "")],
        BANDWIDTH,
        "received correctly",
    ),
    scene(
        "rbwtest",
        &[Start("rbwtest", &[], ""), Start("rbwtest", &[], "")],
        BANDWIDTH,
        "received correctly",
    ),
    scene("inherit1", &[Run("inherita", &["inherit1"], "")], &[Ids], "END - sent from inherit1"),
    scene("inherit3", &[Run("inherita", &["inherit3"], "")], &[Ids], "END - sent from inherit3"),
    scene("inheritb", &[Run("inheritb", &[], "")], &[Ids], "<-- received from 1st inherit2."),
    scene(
        "services in the mailbox",
        &[
            Start("task0", &["svc", "m"], ""),
            Until("gmbi", &["svc"], "class name: <svc>"),
            Run("task1", &["svc"], ""),
            Run("task1", &["svc", "0", "f"], ""),
            Run("task1", &["nobody"], ""),
            Run("rme", &["svc", "0"], ""),
            Run("rme", &["svc", "7"], ""),
            Run("gmbi", &["svc"], ""),
            Run("task_end", &["svc", "3"], ""),
            Run("task_end", &["svc", "0"], ""),
        ],
        &[Ids],
        "handled 3 service requests.",
    ),
    scene(
        "entries of the mailbox",
        &[
            Run("lmbi", &["2", "p", "e"], ""),
            Run("gmbi", &["*lmbi0"], ""),
            Run("rme", &["*lmbi0", "0"], ""),
            Run("rme", &["*lmbi1", "0"], ""),
            Run("gmbi", &["t4*lmbi*"], ""),
            Run("lmbi", &["1", "x", "e"], ""),
            Run("lmbi", &[], ""),
            Run("rme", &[], ""),
            Run("task0", &[], ""),
            Run("task1", &[], ""),
            Run("task_end", &[], ""),
        ],
        &[Ids],
        "gmbi: 1 mbox entries returned.",
    ),
    scene(
        "message handlers",
        &[
            Start("mhf_server", &[], ""),
            Until("gmbi", &["mhf_server"], "class name: <mhf_server>"),
            Run(
                "mhf_tickle",
                &[],
                "0\n1\n5\n0\n1\n4\n5\n0\n1\nhello there\n1\n6\n0\n6\n4\n6\n0\n6\n4711\n8\n",
            ),
            Run("mhf_tickle", &[], "2\n9\n2\n77\n7\n4\n5\n0\n1\nnobody\n0\n9\n"),
        ],
        HANDLERS,
        "strings match <hello there>",
    ),
    scene(
        "message handlers after pvm_exit",
        &[
            Start("mhf_server", &[], ""),
            Until("gmbi", &["mhf_server"], "class name: <mhf_server>"),
            Run("mhf_tickle", &[], "1\n5\n0\n1\n8\n"),
            Start("mhf_tickle", &[], "3\n"),
            Said("just registered server"),
            Say("\n9\n"),
        ],
        HANDLERS,
        "just registered server",
    ),
    scene("ge", &[Run("ge", &["4"], "")], &[Ids, Lines("doesn't match up"), Order], "done"),
    scene("gexamp", &[Run("gexamp", &["4"], "")], &[Ids, Order], "sync"),
    scene("gs.pvm", &[Run("gs.pvm", &["4"], "")], &[Ids, Lines("waiting on kids"), Order], "enrolled"),
    scene("thb", &[Run("thb", &["4"], "")], &[Ids], "done."),
    scene("tjf", &[Run("tjf", &[], "")], &[Ids], "joined group31"),
    scene("tjl", &[Run("tjl", &[], "")], &[Ids], "joined group31"),
    scene("tst", &[Run("tst", &[], "")], &[Ids], "left prognosis 0, negative 0"),
    scene("trsg", &[Run("trsg", &[], "4\n5\n")], &[Ids], "Test OK: Sum of Squares"),
    scene("frsg", &[Run("frsg", &[], "4\n5\n")], &[Ids], "Test OK: Sum of Squares"),
    scene("joinleave", &[Run("joinleave", &["500"], "")], &[Ids], "Joined 500 times"),
    scene(
        "srm.pvm",
        &[Start("srm.pvm", &[], ""), Tasks(1), Run("hello.pvm", &[], ""), Run("master1", &[], ""), Stop],
        &[Ids, Order],
        "hello, world from",
    ),
];

/// Programs that other programs of the scenes start, or that scenes start under another name.
const STARTED_BY_OTHERS: &[&str] = &[
    "hello_other",
    "slave1",
    "fslave1",
    "hitc_slave",
    "timing_slave",
    "inherit1",
    "inherit2",
    "inherit3",
    "tnb",
];

/// Programs that do not end unattended on the original: they draw in a window.
const ATTENDED: &[&str] = &["xep", "mtile"];

/// NetPIPE's receiver and transmitter, to the last size asked for.
const NETPIPE: &[Scene] = &[scene(
    "NPpvm",
    &[
        Start("NPpvm", &["-n", "20", "-u", "65536"], ""),
        Tasks(1),
        Run("NPpvm", &["-n", "20", "-u", "65536", "-h", "localhost"], ""),
    ],
    &[Numbers("Mbps"), Ids],
    " 65539 bytes ",
)];

/// PVM's own tools that look at groups, while one has a member.
const TOOLS: &[Scene] = &[scene(
    "pvm_gstat and pvmgroups",
    &[
        Start("dbwtest", &[], ""),
        Until("pvm_gstat", &["bwtest"], "size: 1"),
        Run("pvm_gstat", &["bwtest"], ""),
        Run("pvm_gstat", &["nobody"], ""),
        Run("pvmgroups", &[], ""),
        Start("dbwtest", &[], ""),
    ],
    BANDWIDTH,
    "group: bwtest, size: 1",
)];

/// What is said in all scenes with one library under one daemon, afterwards an empty machine.
fn play(scenes: &[Scene], daemon: &Installation, library: &Installation) -> Vec<String> {
    // PVM's `frsg` adds to a variable that it never sets, and what is left there is often what the loader has looked up last.
    let mut machine = Plan::of(daemon).library(library).variable("LD_BIND_NOW", "1").start();
    let said = scenes.iter().map(|scene| scene.play(&machine)).collect();
    assert!(machine.is_alive());
    // No console can halt the original after its resource manager has ended.
    process::signal(machine.daemon_pid(), Signal::TERM);
    machine.expect_nothing_left();
    said
}

/// Each library under each daemon says what the original library says under the original daemon.
#[track_caller]
fn expect_same(scenes: &'static [Scene], peers: &[Peer], check: &str) {
    let Some(ours) = Installation::ours_only(check) else { return };
    let (Some(()), Some(original)) = (peers::require(peers, check), Installation::debian()) else { return };
    let combinations = [(&original, &original), (&original, &ours), (&ours, &original), (&ours, &ours)];
    let all: Vec<Vec<String>> = thread::scope(|scope| {
        let start = |&(daemon, library)| {
            thread::Builder::new()
                .name(format!("{} library, {} daemon", kind(library), kind(daemon)))
                .spawn_scoped(scope, move || play(scenes, daemon, library))
                .expect("a thread can be started")
        };
        let players: Vec<_> = combinations.iter().map(start).collect();
        players.into_iter().map(|player| player.join().expect("every scene comes to its end")).collect()
    });
    for (&(daemon, library), said) in combinations.iter().zip(&all).skip(1) {
        for ((scene, said), expected) in scenes.iter().zip(said).zip(&all[0]) {
            let what = format!("{} with {} library under {} daemon", scene.name, kind(library), kind(daemon));
            let differences = differences(said, expected);
            assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
        }
    }
}

/// The lines that are not alike.
fn differences(said: &str, expected: &str) -> Vec<String> {
    let (mut said, mut expected) = (said.lines(), expected.lines());
    let mut differences = Vec::new();
    loop {
        match (said.next(), expected.next()) {
            (None, None) => return differences,
            (said, expected) if said == expected => (),
            (said, expected) => differences.push(format!("said     {said:?}\nexpected {expected:?}")),
        }
    }
}

fn kind(installation: &Installation) -> &'static str {
    if installation.is_ours { "our" } else { "the original" }
}

#[test]
fn examples_say_the_same_with_each_library_under_each_daemon() {
    expect_same(SCENES, &[Peer::OriginalExamples], "all of PVM's examples");
}

#[test]
fn netpipe_measures_to_its_last_size() {
    expect_same(NETPIPE, &[Peer::NetPipe], "NetPIPE");
}

#[test]
fn tools_see_the_same_groups() {
    expect_same(TOOLS, &[Peer::OriginalPvm, Peer::OriginalExamples], "PVM's tools for groups");
}

#[test]
fn every_example_is_in_a_scene() {
    let check = "that no example is forgotten";
    let Some(()) = peers::require(&[Peer::OriginalExamples, Peer::Dpkg], check) else { return };
    let listed = Program::run(Command::new("dpkg").args(["-L", "pvm-examples"])).stdout;
    let installed: BTreeSet<&str> =
        listed.lines().filter_map(|path| path.strip_prefix("/usr/bin/")).collect();
    let started = SCENES.iter().flat_map(Scene::programs);
    let known: BTreeSet<&str> = started.chain(STARTED_BY_OTHERS.iter().chain(ATTENDED).copied()).collect();
    let forgotten: Vec<&&str> = installed.difference(&known).collect();
    assert!(forgotten.is_empty(), "in no scene: {forgotten:?}");
}

/// On the original: one ends at once without a window, the other waits for it for ever.
#[test]
fn some_examples_do_not_end_unattended() {
    let check = "which examples need a person";
    let Some(()) = peers::require(&[Peer::OriginalExamples], check) else { return };
    let Some(original) = Installation::debian() else { return };
    let machine = Machine::start(&original);
    let ended = Program::run(machine.command("/usr/bin/xep").env_remove("DISPLAY"));
    assert!(ended.stderr.contains("Can't open display"), "{ended:#?}");
    let mut worker = machine.program::<&str>("/usr/bin/mtile", &[]);
    let mut console = machine.console();
    wait::becomes_true("mtile's enrolment", || !console.tasks().is_empty());
    assert!(!worker.has_ended());
    drop(worker);
    console.quit();
    machine.finish();
}
