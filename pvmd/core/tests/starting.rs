//! Hosts start the daemons of others: how long a thousand logins take, and what happens when starters fail.

use pvm_wire::{HostIndex, Message, Tid};
use pvmd_core::event::Program;
use pvmd_simulated::machine::{Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role};
use std::time::Duration;

/// A machine without tasks.
#[derive(Default)]
struct Idle(Vec<String>);

impl Tasks for Idle {
    fn faults(&mut self) -> &mut Vec<String> {
        &mut self.0
    }

    fn role(_: &mut Machine<Self>) -> Role {
        Role::Task
    }

    fn started(_: &mut Machine<Self>, _: ProcId, _: &Program) {}
    fn enrolled(_: &mut Machine<Self>, _: ProcId, _: Tid) {}
    fn heard(_: &mut Machine<Self>, _: ProcId, _: Tid, _: &Message) {}
}

fn machine(seed: u64, hosts: usize, width: usize, fails: bool) -> Machine<Idle> {
    let setup = Setup {
        seed,
        capabilities: vec![1000; hosts],
        task_target: 4,
        task_limit: 100,
        turns: false,
        link_idle: Duration::from_secs(30),
        deputies: 3,
        width: Some(width),
        watched_max: 256,
        fails,
        traced: false,
    };
    Machine::new(setup, Idle::default())
}

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
    let mut machine = machine(1, 1000, 16, false);
    assert_eq!(members(&mut machine), 1000);
    assert_eq!(machine.starting_most, 16, "a host starts as many at a time as it may");
    // Of the master's 16 each starts 16, and those start the rest.
    assert!(machine.now < 5 * login, "{:?}", machine.now);
    // One after the other, the master alone needs 63 rounds.
    let mut narrow = self::machine(1, 64, 1, false);
    assert_eq!(members(&mut narrow), 64);
    assert_eq!(narrow.starting_most, 1);
    assert!(narrow.now < 12 * login, "{:?}", narrow.now);
}

#[test]
fn a_host_that_fails_is_tried_again() {
    // One start in twenty fails, half of these for good; one daemon in twenty vanishes while it begins.
    let settled: Vec<usize> = (0..10).map(|seed| members(&mut machine(seed, 200, 4, true))).collect();
    let all: usize = settled.iter().sum();
    assert!(all > 10 * 200 * 85 / 100, "{settled:?}");
}
