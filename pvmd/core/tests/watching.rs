//! Machines so large that hosts are watched by their neighbours: how long the loss of some of them takes to be known.

mod idle;

use idle::{Idle, machine};
use pvm_wire::HostIndex;
use pvmd_simulated::machine::Machine;
use pvmd_simulated::recorder::host;
use std::collections::BTreeSet;
use std::time::Duration;

const HOSTS: usize = 64;

/// A machine whose master looks closely at 8 hosts, and whose links have settled.
fn formed(seed: u64) -> Machine<Idle> {
    let mut machine = machine(seed, HOSTS, 16, 8, false);
    machine.pass_until("the hostfile's hosts are there", |machine| {
        machine.hosts.len() == HOSTS
            && machine.hosts.values().all(|host| host.daemon.members().len() == HOSTS)
    });
    machine.pass(Duration::from_secs(2));
    machine
}

/// How long it takes until all hosts that are left, and only these, know that these hosts are gone.
fn time_to_know(machine: &mut Machine<Idle>, gone: &BTreeSet<HostIndex>) -> Duration {
    let begin = machine.now;
    machine.pass_until("all others know it", |machine| {
        let left: Vec<_> = machine.hosts.keys().filter(|host| !gone.contains(host)).copied().collect();
        left.iter().all(|host| machine.hosts[host].daemon.members() == left)
    });
    machine.now.saturating_sub(begin)
}

#[test]
fn a_host_that_is_killed_is_out_as_soon_as_in_a_small_machine() {
    for seed in 0..20 {
        let mut machine = formed(seed);
        let lost = host(10 + seed as u32 * 2);
        machine.vanish(lost);
        let time = time_to_know(&mut machine, &[lost].into());
        assert!(time < Duration::from_millis(1600), "{time:?}");
    }
}

#[test]
fn a_host_that_is_silent_is_out_within_the_time_that_is_promised() {
    for seed in 0..20 {
        let mut machine = formed(seed);
        let lost = host(10 + seed as u32 * 2);
        machine.off.insert(lost);
        machine.vanish(lost);
        let time = time_to_know(&mut machine, &[lost].into());
        assert!(time < Duration::from_millis(3100), "{time:?}");
        assert_eq!(machine.hosts.len(), HOSTS - 1, "no other host is lost");
    }
}

#[test]
fn a_row_of_hosts_that_are_silent_takes_the_time_of_two_losses() {
    for seed in 0..10 {
        let mut machine = formed(seed);
        let lost: BTreeSet<HostIndex> = (20..36).map(host).collect();
        for &host in &lost {
            machine.off.insert(host);
            machine.vanish(host);
        }
        let time = time_to_know(&mut machine, &lost);
        assert!(time < Duration::from_millis(6500), "{time:?}");
    }
}

#[test]
fn the_master_of_a_large_machine_is_succeeded_as_soon_as_in_a_small_one() {
    for seed in 0..10 {
        let mut machine = formed(seed);
        machine.vanish(HostIndex::MASTER);
        let time = time_to_know(&mut machine, &[HostIndex::MASTER].into());
        assert!(time < Duration::from_secs(3), "{time:?}");
        assert_eq!(machine.hosts.len(), HOSTS - 1);
        // Those that are left watch each other as before.
        machine.pass(Duration::from_secs(10));
        machine.vanish(host(33));
        let time = time_to_know(&mut machine, &[HostIndex::MASTER, host(33)].into());
        assert!(time < Duration::from_millis(1600), "{time:?}");
    }
}

#[test]
fn hosts_that_are_cut_off_end() {
    for seed in 0..5 {
        let mut machine = formed(seed);
        let (near, far): (Vec<u32>, Vec<u32>) = (1..=HOSTS as u32).partition(|&index| index <= 40);
        for &one in &near {
            for &other in &far {
                machine.cut(host(one), host(other), Duration::from_secs(600));
                machine.cut(host(other), host(one), Duration::from_secs(600));
            }
        }
        let gone = far.iter().map(|&index| host(index)).collect();
        let time = time_to_know(&mut machine, &gone);
        assert!(time < Duration::from_secs(7), "{time:?}");
        let begin = machine.now;
        machine.pass_until("those that are cut off have ended", |machine| machine.hosts.len() == near.len());
        let time = machine.now.saturating_sub(begin);
        assert!(time < Duration::from_secs(60), "{time:?}");
    }
}
