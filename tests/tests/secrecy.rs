//! What others can read on the network of what tasks say to each other.

use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Network, wait};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Part of what `whisper` says.
const WORDS: &str = "should read this";
/// What is said when the program has ended, to a port on which somebody listens.
const LAST_WORDS: &str = "nobody says more";

/// Somebody who listens at a host's network.
struct Listener {
    tcpdump: Child,
    heard: PathBuf,
}

impl Listener {
    fn at(network: &Network, folder: &Path) -> Self {
        let heard = folder.join("heard");
        let mut command: Command = network.namespace(0).command(Path::new("tcpdump"));
        // As root, whose the folder is; each packet at once, with room for many (64 MiB) while others have the processors. Daemons talk
        // UDP: that is not what this is about.
        command
            .args(["-Z", "root", "-i", "eth0", "-s", "0", "-B", "65536", "--immediate-mode", "-U", "-w"])
            .arg(&heard);
        let command = command.arg("tcp").stdout(Stdio::null()).stderr(Stdio::null());
        let tcpdump = command.spawn().expect("tcpdump can be started");
        wait::becomes_true("tcpdump listens", || fs::metadata(&heard).is_ok_and(|file| file.len() >= 24));
        Self { tcpdump, heard }
    }

    /// All that it has heard. What comes last on the network comes last out of the kernel's buffer, too.
    fn end(mut self, network: &Network) -> Vec<u8> {
        let script = format!("echo {LAST_WORDS} >/dev/tcp/{}/22", network.address(1));
        Program::run(network.namespace(0).command(Path::new("bash")).args(["-c", &script])).expect_success();
        let heard = || fs::read(&self.heard).expect("tcpdump has written");
        let all = wait::eventually("the last words", || Some(heard()).filter(|all| has(all, LAST_WORDS)));
        self.tcpdump.kill().expect("tcpdump runs");
        self.tcpdump.wait().expect("it was started here");
        all
    }
}

/// How the host of the master is called.
#[derive(Clone, Copy)]
enum Master {
    Address,
    /// No resolver knows it: the daemon has a loopback address, as where `/etc/hosts` has the host's own name with one.
    Name,
}

/// What goes over the network when `whisper`, with this library, says so much, with these options for all hosts.
fn overheard(
    library: &Installation,
    master: Master,
    options: &str,
    (count, size): (usize, usize),
    word: &str,
) -> Option<Vec<u8>> {
    let check = "what others can read on the network";
    let ours = Installation::ours_only(check)?;
    peers::require(&[Peer::TcpDump], check)?;
    let network = Network::of(2, &ours, check)?;
    let programs = Programs::compile(&["whisper"], library, Linking::Shared)?;
    let hostfile = format!("* ep=@PATH@ {options}\n{}\n", network.line(1, ""));
    let plan = Plan::of(&ours).library(library).path(programs.folder());
    let name = match master {
        Master::Address => network.address(0),
        Master::Name => network.name(0).to_owned(),
    };
    let machine = plan.name(&name).hostfile(&hostfile).network(&network).start();
    machine.console_with_hosts(2).quit();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let listener = Listener::at(&network, folder.path());
    let words =
        [count.to_string(), size.to_string(), word.to_owned()].into_iter().filter(|word| !word.is_empty());
    let ended = Program::run(machine.command(programs.path("whisper")).args(words));
    ended.expect_success();
    assert_eq!(ended.stdout, format!("heard {count}\n"), "{:#?}", machine.logs());
    machine.finish();
    let heard = listener.end(&network);
    // Twice that, if tcpdump is fast enough.
    assert!(heard.len() > count * size, "it went by TCP: {} bytes", heard.len());
    Some(heard)
}

fn has(heard: &[u8], words: &str) -> bool {
    heard.windows(words.len()).any(|part| part == words.as_bytes())
}

#[test]
fn direct_routes_are_sealed() {
    for (what, word) in
        [((100, 100), ""), ((5, 3_000_000), ""), ((100, 100), "default"), ((10, 1_000_000), "default")]
    {
        let ours = Installation::under_test();
        let Some(heard) = overheard(&ours, Master::Address, "", what, word) else { return };
        assert!(!has(&heard, WORDS), "{what:?} (messages, bytes) {word}");
    }
}

#[test]
fn direct_routes_on_a_private_network_are_as_fast_as_can_be() {
    let ours = Installation::under_test();
    let Some(heard) = overheard(&ours, Master::Address, "net=private", (100, 100), "") else { return };
    assert!(has(&heard, WORDS), "sealed for nothing");
}

#[test]
fn programs_of_the_original_talk_as_ever() {
    let Some(original) = Installation::debian() else { return };
    let Some(heard) = overheard(&original, Master::Address, "", (100, 100), "") else { return };
    assert!(has(&heard, WORDS));
}

#[test]
fn a_host_that_does_not_know_its_address_has_direct_routes_too() {
    for word in ["", "default"] {
        let ours = Installation::under_test();
        let Some(heard) = overheard(&ours, Master::Name, "", (100, 1000), word) else { return };
        assert!(!has(&heard, WORDS), "{word}");
    }
}
