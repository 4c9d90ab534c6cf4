//! The core alone, in a simulated cluster: fifty hosts, random delays, a batch of five thousand tasks placed exactly
//! once, from two hundred seeds; and the same with managers and hosts that die.
#![allow(
    clippy::disallowed_methods,
    reason = "threads and environment are forbidden to the core, not to its tests"
)]

mod simulation;

use pvm_wire::{HostIndex, Tid};
use simulation::{Cluster, capability};
use std::collections::BTreeSet;

const HOSTS: u32 = 50;
const TASKS: i32 = 5000;

fn formed(seed: u64, hosts: u32, target: u32) -> Cluster {
    let mut cluster = Cluster::new(seed, hosts, target);
    cluster.run_until("every host knows every other", |cluster| {
        let known = |host| cluster.daemon(host).members().len() == hosts as usize;
        cluster.hosts().len() == hosts as usize && cluster.hosts().into_iter().all(known)
    });
    cluster
}

/// Every task of the batch has an id of its own, and exactly that many processes were started.
fn check_answer(cluster: &Cluster, seed: u64) -> BTreeSet<Tid> {
    let answer = &cluster.seen.answers[0];
    assert_eq!(answer.len(), TASKS as usize, "seed {seed}");
    let tids: BTreeSet<Tid> = answer.iter().map(|&raw| Tid::from_raw(raw)).collect();
    assert!(answer.iter().all(|&raw| raw > 0), "seed {seed}: some tasks failed");
    assert_eq!(tids.len(), TASKS as usize, "seed {seed}: an id was given twice");
    tids
}

fn check_nothing_left(cluster: &mut Cluster, seed: u64) {
    for _ in 0..20_000 {
        if !cluster.step() {
            break;
        }
    }
    for host in cluster.hosts() {
        let counts = cluster.daemon(host).census();
        assert_eq!(
            (counts.spawns, counts.pending, counts.open_batches),
            (0, 0, 0),
            "seed {seed}, host {host}"
        );
    }
}

#[test]
fn five_thousand_tasks_are_placed_exactly_once_from_two_hundred_seeds() {
    std::thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || (part..200).step_by(4).for_each(place_five_thousand));
        }
    });
}

fn place_five_thousand(seed: u64) {
    let mut cluster = formed(seed, HOSTS, 40);
    cluster.enrol_spawner(HostIndex::new(1 + (seed as u32) % HOSTS).expect("a host"), TASKS);
    cluster.run_until("the batch is answered", |cluster| !cluster.seen.answers.is_empty());
    check_answer(&cluster, seed);
    let started: usize = cluster.seen.started.values().sum();
    assert!(started <= TASKS as usize, "seed {seed}: {started} processes for {TASKS} tasks");
    check_nothing_left(&mut cluster, seed);
    let started: usize = cluster.seen.started.values().sum();
    assert_eq!(started, TASKS as usize, "seed {seed}: started");
}

#[test]
fn shares_follow_capability() {
    let mut cluster = formed(7, 12, 8);
    cluster.enrol_spawner(HostIndex::MASTER, TASKS);
    cluster.run_until("the batch is answered", |cluster| !cluster.seen.answers.is_empty());
    check_nothing_left(&mut cluster, 7);
    let total: u32 = (1..=12).map(capability).sum();
    for (host, &got) in &cluster.seen.started {
        let fair = f64::from(TASKS) * f64::from(capability(host.get())) / f64::from(total);
        assert!((got as f64 - fair).abs() <= 2.0, "host {host}: {got} tasks, its share is {fair:.1}");
    }
}

#[test]
fn a_batch_that_fits_fills_no_node_beyond_its_threshold() {
    for seed in 0..20 {
        let (hosts, target) = (10, 40);
        let mut cluster = formed(seed, hosts, target);
        cluster.lifetime = Some(100_000..400_000);
        cluster.enrol_spawner(HostIndex::MASTER, 300);
        cluster.run_until("the batch is answered", |cluster| !cluster.seen.answers.is_empty());
        check_nothing_left(&mut cluster, seed);
        assert_eq!(cluster.seen.started.values().sum::<usize>(), 300, "seed {seed}");
        let most = &cluster.seen.most;
        assert!(most.values().all(|&most| most <= target as usize), "seed {seed}: {most:?}");
        // The programs are over: all tasks but the spawner are gone.
        let left: usize = cluster.hosts().into_iter().map(|host| cluster.daemon(host).census().tasks).sum();
        assert_eq!(left, 1, "seed {seed}");
    }
}

#[test]
fn a_batch_survives_its_managers() {
    for seed in 0..40 {
        let mut cluster = formed(seed, 10, 40);
        cluster.enrol_spawner(HostIndex::MASTER, TASKS);
        let mut kills = 0;
        while cluster.seen.answers.is_empty() && kills < 5 {
            let before = cluster.now;
            let wait = cluster.random.micros(500..30_000);
            cluster.run_until("time passes", |c| c.now >= before + wait || !c.seen.answers.is_empty());
            kills += cluster.kill_managers();
        }
        cluster.run_until("the batch is answered", |cluster| !cluster.seen.answers.is_empty());
        check_answer(&cluster, seed);
        check_nothing_left(&mut cluster, seed);
        assert_eq!(cluster.seen.started.values().sum::<usize>(), TASKS as usize, "seed {seed}");
    }
}

#[test]
fn a_batch_survives_hosts_that_die() {
    for seed in 0..40 {
        let mut cluster = formed(seed, 12, 40);
        cluster.enrol_spawner(HostIndex::MASTER, TASKS);
        let mut alive: Vec<u32> = (2..=12).collect();
        for _ in 0..4 {
            let before = cluster.now;
            let wait = cluster.random.micros(500..200_000);
            cluster.run_until("time passes", |c| c.now >= before + wait || !c.seen.answers.is_empty());
            let victim = alive.swap_remove(cluster.random.below(alive.len() as u64) as usize);
            cluster.crash(HostIndex::new(victim).expect("a host"));
        }
        cluster.run_until("the batch is answered", |cluster| !cluster.seen.answers.is_empty());
        check_answer(&cluster, seed);
        cluster.run_until("everyone has heard of the dead", |cluster| {
            cluster.hosts().into_iter().all(|host| cluster.daemon(host).members().len() == 8)
        });
        check_nothing_left(&mut cluster, seed);
    }
}

#[test]
fn a_seed_replays() {
    let run = |seed| {
        let mut cluster = formed(seed, 20, 30);
        cluster.enrol_spawner(HostIndex::MASTER, TASKS);
        cluster.run_until("the batch is answered", |cluster| !cluster.seen.answers.is_empty());
        (cluster.now, cluster.seen.answers.clone(), cluster.seen.started.clone())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
}
