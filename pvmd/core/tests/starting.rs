//! Hosts start the daemons of others: how long a thousand logins take, and what happens when starters fail.

mod idle;

use idle::{Idle, machine};
use pvm_wire::HostIndex;
use pvmd_simulated::machine::Machine;
use std::time::Duration;

/// The hosts that the master knows once it starts none any more.
fn members(machine: &mut Machine<Idle>) -> usize {
    machine.pass_until("the hostfile's hosts are settled", |machine| {
        let master = machine.hosts.get(&HostIndex::MASTER);
        master.is_some_and(|master| !master.daemon.is_starting_up())
    });
    machine.hosts[&HostIndex::MASTER].daemon.members().len()
}

#[test]
fn a_thousand_logins_take_the_time_of_a_few() {
    // A daemon takes at most half a second, be it started by the master or by another host and then told its place.
    let login = Duration::from_millis(800);
    let mut machine = machine(1, 1000, 16, 256, false);
    assert_eq!(members(&mut machine), 1000);
    assert_eq!(machine.starting_most, 16, "a host starts as many at a time as it may");
    // Of the master's 16 each starts 16, and those start the rest.
    assert!(machine.now < 5 * login, "{:?}", machine.now);
    // One after the other, the master alone needs 63 rounds.
    let mut narrow = self::machine(1, 64, 1, 256, false);
    assert_eq!(members(&mut narrow), 64);
    assert_eq!(narrow.starting_most, 1);
    assert!(narrow.now < 12 * login, "{:?}", narrow.now);
}

#[test]
fn a_host_that_fails_is_tried_again() {
    // One start in twenty fails, half of these for good; one daemon in twenty vanishes while it begins.
    let settled: Vec<usize> = (0..10).map(|seed| members(&mut machine(seed, 200, 4, 256, true))).collect();
    let all: usize = settled.iter().sum();
    assert!(all > 10 * 200 * 85 / 100, "{settled:?}");
}
