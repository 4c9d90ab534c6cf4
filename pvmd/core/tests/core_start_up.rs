//! What a master makes of its hostfile.

use pvm_wire::calls::Call;
use pvm_wire::calls::hosts::StartUp;
use pvm_wire::{HostIndex, PvmError};
use pvmd_core::Config;
use pvmd_core::event::{Action, Event, Found, StartFailure};
use pvmd_core::hostfile::Hostfile;
use pvmd_simulated::daemon::config;
use pvmd_simulated::recorder::Recorder;
use std::net::{IpAddr, Ipv4Addr};

const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// Another address of the same host.
const ANOTHER_OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A master with this hostfile.
fn start(hostfile: &str) -> Recorder {
    let hostfile = Hostfile::parse(hostfile.as_bytes()).expect("a hostfile");
    Recorder::with(Config { hostfile, address: Some(OWN), ..config(HostIndex::MASTER) })
}

/// Answers its question for addresses.
fn resolve(r: &mut Recorder, results: Vec<Result<IpAddr, String>>) {
    let Action::Resolve { add, names } = r.action() else { panic!("names to resolve") };
    assert_eq!(names.len(), results.len());
    let found = |address| Found { address, own: address == ANOTHER_OWN };
    let results = results.into_iter().map(|result| result.map(found)).collect();
    r.feed(Event::Resolved { add, results });
}

/// What a task hears about the start.
fn outcome(r: &mut Recorder) -> Vec<(String, i32)> {
    let (conn, _) = r.enrol(100, 0);
    r.ask(conn, &StartUp {});
    let (_, message) = r.message();
    let list = StartUp::decode_answer(&message.body).expect("a body").expect("a list of hosts");
    list.hosts.into_iter().map(|host| (host.name, host.tid)).collect()
}

#[test]
fn another_name_of_the_master_is_the_master() {
    for address in [OWN, ANOTHER_OWN] {
        let mut r = start("alias\n");
        resolve(&mut r, vec![Ok(address)]);
        assert!(matches!(r.action(), Action::StartedUp { failures } if failures.is_empty()));
        r.nothing_else();
        assert_eq!(outcome(&mut r), []);
    }
}

#[test]
fn two_names_of_another_host_are_one_too_many() {
    let mut r = start("one\ntwo\n");
    resolve(&mut r, vec![Ok(OTHER), Ok(OTHER)]);
    let Action::StartHost { index, .. } = r.action() else { panic!("one is started") };
    r.nothing_else();
    let failed = StartFailure { error: PvmError::CantStart, reason: "no".to_owned(), is_passing: false };
    r.feed(Event::HostStarted { index, result: Err(failed) });
    assert!(matches!(r.action(), Action::AbandonHost { .. }));
    let Action::StartedUp { failures } = r.action() else { panic!("not what has failed") };
    assert_eq!(failures, ["one: no", "two: 10.0.0.2 is in the virtual machine already"]);
    let failed = [("one", PvmError::CantStart), ("two", PvmError::DupHost)];
    assert_eq!(outcome(&mut r), failed.map(|(name, error)| (name.to_owned(), error.code())));
}

#[test]
fn a_name_without_an_address_fails_alone() {
    let mut r = start("one\ntwo\n& spare\n");
    resolve(&mut r, vec![Err("one: unknown".to_owned()), Ok(OTHER)]);
    assert!(matches!(r.action(), Action::StartHost { spec, .. } if spec.name == "two"));
    r.nothing_else();
}

#[test]
fn a_name_without_an_address_is_not_the_master_even_if_the_master_has_none() {
    let hostfile = Hostfile::parse(b"one\n").expect("a hostfile");
    let mut r = Recorder::with(Config { hostfile, address: None, ..config(HostIndex::MASTER) });
    resolve(&mut r, vec![Err("one: unknown".to_owned())]);
    assert!(matches!(r.action(), Action::StartedUp { failures } if failures == ["one: unknown"]));
    r.nothing_else();
}
