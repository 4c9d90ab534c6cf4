//! The core alone, in a simulated cluster: fifty hosts, random delays, a batch of five thousand tasks placed exactly
//! once, from two hundred seeds; and the same with managers and hosts that die.
#![allow(
    clippy::disallowed_methods,
    reason = "threads and environment are forbidden to the core, not to its tests"
)]

use pvm_wire::calls::{Call, Request};
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{HostIndex, Message, Tid};
use pvmd_core::event::Program;
use pvmd_simulated::machine::{Happening, Heard, Host, Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

const HOSTS: u32 = 50;
const TASKS: i32 = 5000;

/// What spawners ask for, and what was observed.
#[derive(Default)]
struct Batches {
    faults: Vec<String>,
    /// What each spawner asks for when it has enrolled.
    spawns: BTreeMap<ProcId, SpawnRequest>,
    /// The answers to that, in order.
    answers: Vec<Vec<i32>>,
    /// How many microseconds programs run; without it, for ever.
    lifetime: Option<Range<u64>>,
    /// Programs that were started, per host.
    started: BTreeMap<HostIndex, usize>,
    /// Programs that run, per host, and the most that have run at once.
    running: BTreeMap<HostIndex, usize>,
    most: BTreeMap<HostIndex, usize>,
}

type Cluster = Machine<Batches>;

impl Tasks for Batches {
    fn faults(&mut self) -> &mut Vec<String> {
        &mut self.faults
    }

    fn role(_: &mut Cluster) -> Role {
        Role::Silent
    }

    fn started(cluster: &mut Cluster, id: ProcId, program: &Program) {
        if program.manager {
            return;
        }
        let (host, batches) = (cluster.processes[&id].host, &mut cluster.tasks);
        *batches.started.entry(host).or_default() += 1;
        let running = batches.running.entry(host).or_default();
        *running += 1;
        let most = batches.most.entry(host).or_default();
        *most = (*most).max(*running);
        if let Some(lifetime) = batches.lifetime.clone() {
            cluster.later(lifetime.start + 1000..lifetime.end + 1000, Happening::Finish(id));
        }
    }

    fn enrolled(cluster: &mut Cluster, id: ProcId, _: Tid) {
        if let Some(spawn) = cluster.tasks.spawns.get(&id) {
            let message = spawn.message(1);
            cluster.say(id, &message);
        }
    }

    fn heard(cluster: &mut Cluster, _: ProcId, _: Tid, message: &Message) {
        if message.header.tag == SpawnRequest::TAG {
            let reply = SpawnRequest::decode_answer(&message.body).expect("an answer").expect("a reply");
            cluster.tasks.answers.push(reply.results);
        }
    }

    fn ended(cluster: &mut Cluster, id: ProcId) {
        let process = &cluster.processes[&id];
        if matches!(process.role, Role::Silent) {
            *cluster.tasks.running.entry(process.host).or_default() -= 1;
        }
    }
}

/// Capability of the n-th host: 1000, 2000, 3000, 1000, …
fn capability(n: u32) -> u32 {
    1000 * ((n - 1) % 3 + 1)
}

/// A machine in which every host knows every other. On every other seed teams take turns.
fn formed(seed: u64, hosts: u32, task_target: u32) -> Cluster {
    let capabilities = (1..=hosts).map(capability).collect();
    let setup = Setup {
        seed,
        capabilities,
        task_target,
        task_limit: 100_000,
        turns: seed % 2 == 1,
        deputies: 1,
        ..Setup::default()
    };
    let mut cluster = Machine::new(setup, Batches::default());
    cluster.pass_until_formed(hosts as usize);
    cluster
}

/// A task nobody spawned enrols on this host and spawns as many programs. Where teams take turns these are two, each with a team
/// and half of the programs.
fn enrol_spawners(cluster: &mut Cluster, host: HostIndex, count: i32) {
    if cluster.setup().turns {
        enrol_spawner(cluster, host, count / 2, "a");
        enrol_spawner(cluster, host, count / 2, "b");
    } else {
        enrol_spawner(cluster, host, count, "");
    }
}

fn enrol_spawner(cluster: &mut Cluster, host: HostIndex, count: i32, team: &str) {
    let env = vec![format!("PVM_TEAM={team}").into()];
    let spawn = SpawnRequest { file: "program".into(), count, env, ..SpawnRequest::default() };
    let (id, _) = cluster.add_process(host, None, Role::Task);
    cluster.tasks.spawns.insert(id, spawn);
    cluster.later(10..50, Happening::Begin(id));
}

fn is_answered(cluster: &Cluster) -> bool {
    cluster.tasks.answers.len() == cluster.tasks.spawns.len()
}

fn answered(cluster: &mut Cluster) {
    cluster.pass_until("the batch is answered", is_answered);
}

/// Every task of the batch has an id of its own, and exactly that many processes were started.
fn check_answer(cluster: &Cluster, seed: u64) -> BTreeSet<Tid> {
    let answer = cluster.tasks.answers.concat();
    assert_eq!(answer.len(), TASKS as usize, "seed {seed}");
    let tids: BTreeSet<Tid> = answer.iter().map(|&raw| Tid::from_raw(raw)).collect();
    assert!(answer.iter().all(|&raw| raw > 0), "seed {seed}: some tasks failed");
    assert_eq!(tids.len(), TASKS as usize, "seed {seed}: an id was given twice");
    tids
}

fn check_nothing_left(cluster: &mut Cluster, seed: u64) {
    cluster.pass(Duration::from_secs(1));
    for (host, found) in &cluster.hosts {
        let counts = found.daemon.census();
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
    enrol_spawners(&mut cluster, HostIndex::new(1 + (seed as u32) % HOSTS).expect("a host"), TASKS);
    answered(&mut cluster);
    check_answer(&cluster, seed);
    let started: usize = cluster.tasks.started.values().sum();
    assert!(started <= TASKS as usize, "seed {seed}: {started} processes for {TASKS} tasks");
    check_nothing_left(&mut cluster, seed);
    let started: usize = cluster.tasks.started.values().sum();
    assert_eq!(started, TASKS as usize, "seed {seed}: started");
}

/// What hosts have heard since this was asked last: messages and bytes, the most of one slave, and on average.
#[derive(Debug)]
struct Traffic {
    most: Heard,
    average: Heard,
}

fn heard(cluster: &mut Cluster, what: &str) -> Traffic {
    let hosts = cluster.hosts.len() as u64;
    let heard = std::mem::take(&mut cluster.heard);
    let masters: BTreeSet<HostIndex> = cluster.masters().into_iter().collect();
    let slaves = || heard.iter().filter(|(host, _)| !masters.contains(host)).map(|(_, heard)| *heard);
    let of =
        |of: fn(Heard) -> u64| (slaves().map(of).max().unwrap_or(0), slaves().map(of).sum::<u64>() / hosts);
    let (messages, bytes) = (of(|heard| heard.messages), of(|heard| heard.bytes));
    let most = Heard { messages: messages.0, bytes: bytes.0 };
    let average = Heard { messages: messages.1, bytes: bytes.1 };
    println!("{hosts} hosts, {what}: {average:?} on average, at most {most:?}");
    Traffic { most, average }
}

/// Waits until all hosts know that there are this many. To look costs as much as many steps.
fn all_know(cluster: &mut Cluster, count: usize) {
    let end = cluster.now + Duration::from_secs(600);
    let knows = |host: &Host| host.daemon.members().len() == count;
    while cluster.hosts.len() != count || !cluster.hosts.values().all(knows) {
        assert!(cluster.now < end && cluster.tasks.faults.is_empty(), "{:?}", cluster.tasks.faults);
        cluster.pass(Duration::from_millis(50));
    }
}

/// Hosts of the largest machine that is tried, which takes an optimized build.
const THOUSANDS: usize = if cfg!(debug_assertions) { 500 } else { 4000 };

#[test]
fn each_of_thousands_of_hosts_hears_little() {
    let setup = Setup {
        seed: 2,
        capabilities: vec![1000; THOUSANDS],
        task_target: 40,
        task_limit: 100_000,
        width: Some(16),
        ..Setup::default()
    };
    let mut cluster = Machine::new(setup, Batches::default());
    all_know(&mut cluster, THOUSANDS);
    println!("{THOUSANDS} hosts are up after {:?}", cluster.now);
    // The deputies are appointed, and what has not been acknowledged is.
    cluster.pass(Duration::from_secs(20));
    let start = heard(&mut cluster, "start");
    // The table, its commit and the deputies; the first hosts start up to sixteen others at a time.
    assert!(start.most.messages <= 70 && start.average.messages <= 5, "{start:?}");
    assert!(start.average.bytes <= 100 * THOUSANDS as u64, "{start:?}");
    cluster.pass(Duration::from_secs(600));
    assert_eq!(heard(&mut cluster, "ten idle minutes").most, Heard::default());
    spawn_on_thousands(&mut cluster);
    lose_many(&mut cluster);
    lose_three_masters(&mut cluster);
}

fn spawn_on_thousands(cluster: &mut Cluster) {
    let tasks = 25 * THOUSANDS;
    enrol_spawner(cluster, HostIndex::MASTER, tasks as i32, "a");
    answered(cluster);
    check_nothing_left(cluster, 2);
    let started: usize = cluster.tasks.started.values().sum();
    assert_eq!(started, tasks);
    let batch = heard(cluster, "a batch of 25 tasks a host");
    assert!(batch.most.messages <= 16 && batch.average.messages <= 8, "{batch:?}");
    assert!(batch.average.bytes <= 4096, "{batch:?}");
}

fn lose_many(cluster: &mut Cluster) {
    const LOST: u32 = 100;
    for lost in 10..10 + LOST {
        cluster.vanish(HostIndex::new(lost).expect("a host"));
    }
    all_know(cluster, THOUSANDS - LOST as usize);
    let lost = heard(cluster, "a hundred hosts lost");
    // Each host hears of each loss; the deputies agree on each, which counts in the average.
    assert!(lost.average.messages <= u64::from(LOST) * 3 / 2, "{lost:?}");
    assert!(lost.average.bytes <= u64::from(LOST) * 64, "{lost:?}");
}

fn lose_three_masters(cluster: &mut Cluster) {
    let before = cluster.hosts.len();
    for lost in 1..=3 {
        let [master] = cluster.masters()[..] else { panic!("no master") };
        cluster.vanish(master);
        all_know(cluster, before - lost);
        cluster.pass(Duration::from_secs(20));
        let succession = heard(cluster, "a master lost");
        assert!(succession.average.messages <= 16, "{succession:?}");
        assert!(succession.average.bytes <= 2048, "{succession:?}");
    }
}

#[test]
fn shares_follow_capability() {
    let mut cluster = formed(7, 12, 8);
    enrol_spawners(&mut cluster, HostIndex::MASTER, TASKS);
    answered(&mut cluster);
    check_nothing_left(&mut cluster, 7);
    let total: u32 = (1..=12).map(capability).sum();
    for (host, &got) in &cluster.tasks.started {
        let fair = f64::from(TASKS) * f64::from(capability(host.get())) / f64::from(total);
        assert!((got as f64 - fair).abs() <= 2.0, "host {host}: {got} tasks, its share is {fair:.1}");
    }
}

#[test]
fn a_batch_that_fits_fills_no_node_beyond_its_threshold() {
    for seed in 0..20 {
        let (hosts, target) = (10, 40);
        let mut cluster = formed(seed, hosts, target);
        cluster.tasks.lifetime = Some(100_000..400_000);
        enrol_spawner(&mut cluster, HostIndex::MASTER, 300, "a");
        answered(&mut cluster);
        check_nothing_left(&mut cluster, seed);
        assert_eq!(cluster.tasks.started.values().sum::<usize>(), 300, "seed {seed}");
        let most = &cluster.tasks.most;
        assert!(most.values().all(|&most| most <= target as usize), "seed {seed}: {most:?}");
        // The programs are over: all tasks but the spawner are gone.
        let left: usize = cluster.hosts.values().map(|host| host.daemon.census().tasks).sum();
        assert_eq!(left, 1, "seed {seed}");
    }
}

/// Kills the managers that run at this moment, and says how many there were.
fn kill_managers(cluster: &mut Cluster) -> usize {
    let managers = cluster.processes.iter().filter(|(_, process)| process.is_manager() && !process.dead);
    let managers: Vec<ProcId> = managers.map(|(&id, _)| id).collect();
    for &id in &managers {
        cluster.later(0..100, Happening::Kill(id));
    }
    managers.len()
}

#[test]
fn a_batch_survives_its_managers() {
    for seed in 0..40 {
        let mut cluster = formed(seed, 10, 40);
        enrol_spawners(&mut cluster, HostIndex::MASTER, TASKS);
        let mut kills = 0;
        while !is_answered(&cluster) && kills < 5 {
            let before = cluster.now;
            let wait = cluster.random.micros(500..30_000);
            cluster.pass_until("time passes", |c| c.now >= before + wait || is_answered(c));
            kills += kill_managers(&mut cluster);
        }
        answered(&mut cluster);
        check_answer(&cluster, seed);
        check_nothing_left(&mut cluster, seed);
        assert_eq!(cluster.tasks.started.values().sum::<usize>(), TASKS as usize, "seed {seed}");
    }
}

#[test]
fn a_batch_survives_hosts_that_die() {
    for seed in 0..40 {
        let mut cluster = formed(seed, 12, 40);
        enrol_spawners(&mut cluster, HostIndex::MASTER, TASKS);
        let mut alive: Vec<u32> = (2..=12).collect();
        for _ in 0..4 {
            let before = cluster.now;
            let wait = cluster.random.micros(500..200_000);
            cluster.pass_until("time passes", |c| c.now >= before + wait || is_answered(c));
            let victim = alive.swap_remove(cluster.random.below(alive.len() as u64) as usize);
            cluster.vanish(HostIndex::new(victim).expect("a host"));
        }
        answered(&mut cluster);
        check_answer(&cluster, seed);
        cluster.pass_until("everyone has heard of the dead", |cluster| {
            cluster.hosts.values().all(|host| host.daemon.members().len() == 8)
        });
        check_nothing_left(&mut cluster, seed);
    }
}

#[test]
fn a_seed_replays() {
    let run = |seed| {
        let mut cluster = formed(seed, 20, 30);
        enrol_spawners(&mut cluster, HostIndex::MASTER, TASKS);
        answered(&mut cluster);
        (cluster.now, cluster.tasks.answers.clone(), cluster.tasks.started.clone())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
}
