//! Two hosts with a network between them, and tasks of the original library and of ours on them: whatever they send each
//! other arrives, by daemons of either kind or directly.

use pvm_tests::machine::Plan;
use pvm_tests::network::Setting;
use pvm_tests::peers::{self, Peer};
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::scene::{Blind, Scene, Step};
use pvm_tests::{Installation, Machine, Network, wait};

/// What the program `mixed` prints if nothing is lost, changed or taken for something else.
fn all_well() -> Vec<String> {
    let mut lines = Vec::new();
    for (route, streams) in [("by daemons", 0), ("direct from here", 1), ("direct from there", 1)] {
        for encoding in ["default", "raw", "in place"] {
            for size in [0, 100, 131_072] {
                lines.push(format!("{route}, {encoding}, {size}: wrong there 0, wrong here 0"));
            }
        }
        lines.push(format!("{route}, crossing: wrong here 0"));
        lines.push(format!("{route}, crossing: wrong there 0"));
        lines.push(format!("{route}: streams {streams}"));
    }
    let others = [
        "told of the end there: 1",
        "told there of the end here: 1",
        "multicast: wrong there 0, wrong here 0",
        "multicast: wrong there 0, wrong here 0",
        "multicast: wrong there 0, wrong here 0",
        "psend: 2 2 3",
        "put there: 0",
        "found here: put there",
        "spawned from there, is here: 1",
        "group: instances ff, wrong 0",
        "group, direct: instances ff, wrong 0",
    ];
    lines.extend(others.map(str::to_owned));
    lines
}

/// Packets of Ethernet, and of local networks with "jumbo frames".
const USUAL: u32 = 1500;
const JUMBO: u32 = 9000;

/// What two hosts' daemons, and the libraries of the tasks on each, are of.
struct Kinds {
    daemons: Installation,
    here: Installation,
    there: Installation,
}

/// A machine of the two hosts of this network.
#[track_caller]
fn two_hosts(network: &Network, daemons: &Installation, library: &Installation) -> Machine {
    let hostfile = format!("{}\n", network.line(1, "ep=/usr/bin"));
    let plan = Plan::of(daemons).library(library).name(&network.address(0)).hostfile(&hostfile);
    let machine = plan.network(network).start();
    machine.console_with_hosts(2).quit();
    machine
}

#[track_caller]
fn expect_all_well(check: &str, kinds: impl FnOnce(Installation, Installation) -> Kinds) {
    expect_all_well_with(Setting::default(), check, kinds);
}

#[track_caller]
fn expect_all_well_with(
    setting: Setting,
    check: &str,
    kinds: impl FnOnce(Installation, Installation) -> Kinds,
) {
    let Some(ours) = Installation::ours_only(check) else { return };
    let (Some(()), Some(original)) = (peers::require(&[Peer::CCompiler], check), Installation::debian())
    else {
        return;
    };
    let Kinds { daemons, here, there } = kinds(ours, original);
    let Some(network) = Network::with(setting, 2, &daemons, check) else { return };
    // What killed tasks of the original leave behind is not ours to clear away.
    let untidy = [&here, &there].into_iter().find(|library| !library.is_ours).unwrap_or(&here).clone();
    let mixed = |library| Programs::compile(&["mixed"], library, Linking::Fixed);
    let (Some(here), Some(there)) = (mixed(&here), mixed(&there)) else { return };
    let machine = two_hosts(&network, &daemons, &untidy);
    let mut command = machine.command(here.path("mixed"));
    command.arg(there.path("mixed")).args([network.address(0), network.name(1).to_owned()]);
    let ended = Program::start(&mut command).end_within(wait::PATIENCE * 2);
    let said: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(said, all_well(), "{ended:#?}");
    ended.expect_success();
    machine.finish();
}

#[test]
fn the_original_library_here_and_ours_there_with_our_daemons() {
    expect_all_well("tasks of both libraries on two hosts", |ours, original| Kinds {
        daemons: ours.clone(),
        here: original,
        there: ours,
    });
}

#[test]
fn our_library_here_and_the_original_there_with_our_daemons() {
    expect_all_well("tasks of both libraries on two hosts", |ours, original| Kinds {
        daemons: ours.clone(),
        here: ours,
        there: original,
    });
}

#[test]
fn our_library_on_both_hosts_with_the_original_daemons() {
    expect_all_well("this library on two hosts of the original", |ours, original| Kinds {
        daemons: original,
        here: ours.clone(),
        there: ours,
    });
}

#[test]
fn both_libraries_with_the_original_daemons() {
    expect_all_well("tasks of both libraries on two hosts of the original", |ours, original| Kinds {
        daemons: original.clone(),
        here: original,
        there: ours,
    });
}

#[test]
fn both_libraries_the_other_way_round_with_the_original_daemons() {
    expect_all_well("tasks of both libraries on two hosts of the original", |ours, original| Kinds {
        daemons: original.clone(),
        here: ours,
        there: original,
    });
}

/// Links try what gets through: a host's own interface tells what at most may.
#[test]
fn our_library_and_daemons_where_long_packets_pass_on_one_side_or_both() {
    for mtus in [[JUMBO, JUMBO], [JUMBO, USUAL], [USUAL, JUMBO]] {
        let setting = Setting { mtus: mtus.into(), ..Setting::default() };
        expect_all_well_with(setting, &format!("packets of up to {mtus:?} bytes"), |ours, _| Kinds {
            daemons: ours.clone(),
            here: ours.clone(),
            there: ours,
        });
    }
}

/// The program itself, where nothing but the original takes part.
#[test]
fn the_original_alone() {
    expect_all_well("the original on two hosts", |_, original| Kinds {
        daemons: original.clone(),
        here: original.clone(),
        there: original,
    });
}

/// NetPIPE's receiver is spawned on the other host, its transmitter is started on this one.
const NETPIPE: Scene = Scene {
    name: "NPpvm",
    steps: &[
        Step::Console("spawn -beta NPpvm -n 20 -u 65536", "1 successful"),
        Step::Tasks(1),
        Step::Run("NPpvm", &["-n", "20", "-u", "65536", "-h", "beta"], ""),
    ],
    blind: &[Blind::Numbers("Mbps"), Blind::Ids],
    says: " 65539 bytes ",
};

#[test]
fn netpipe_measures_between_hosts() {
    let check = "NetPIPE between hosts";
    let Some(ours) = Installation::ours_only(check) else { return };
    let (Some(()), Some(original)) = (peers::require(&[Peer::NetPipe], check), Installation::debian()) else {
        return;
    };
    let mut said = Vec::new();
    for daemons in [&original, &ours] {
        for library in [&original, &ours] {
            let Some(network) = Network::of(2, daemons, check) else { return };
            let machine = two_hosts(&network, daemons, library);
            said.push(NETPIPE.play(&machine));
            machine.finish();
        }
    }
    assert!(said.iter().all(|one| *one == said[0]), "{said:#?}");
}
