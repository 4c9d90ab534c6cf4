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
use pvmd_simulated::machine::{Happening, Machine, Setup, Tasks};
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
    let (turns, fails, traced) = (seed % 2 == 1, false, false);
    let link_idle = Duration::from_secs(30);
    let setup = Setup {
        seed,
        capabilities,
        task_target,
        task_limit: 100_000,
        turns,
        link_idle,
        deputies: 1,
        width: None,
        watched_max: 256,
        fails,
        traced,
    };
    let mut cluster = Machine::new(setup, Batches::default());
    cluster.pass_until("every host knows every other", |cluster| {
        let known = |host: &HostIndex| cluster.hosts[host].daemon.members().len() == hosts as usize;
        cluster.hosts.len() == hosts as usize && cluster.hosts.keys().all(known)
    });
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

/// What the slaves have heard since this was asked last: the most of one, and of all.
fn heard(cluster: &mut Cluster) -> (u64, u64) {
    let heard = std::mem::take(&mut cluster.heard);
    let slaves = || heard.iter().filter(|(host, _)| **host != HostIndex::MASTER).map(|(_, count)| *count);
    (slaves().max().unwrap_or(0), slaves().sum())
}

#[test]
fn each_of_a_thousand_hosts_hears_little() {
    const COUNT: u32 = 1000;
    let mut cluster = formed(2, COUNT, 40);
    let (most, all) = heard(&mut cluster);
    assert!(most <= 3 && all <= 3 * u64::from(COUNT), "at the start: {most}, {all} in all");
    cluster.pass(Duration::from_secs(600));
    assert_eq!(heard(&mut cluster), (0, 0), "an idle machine");
    enrol_spawner(&mut cluster, HostIndex::MASTER, 30_000, "a");
    answered(&mut cluster);
    check_nothing_left(&mut cluster, 2);
    let (most, all) = heard(&mut cluster);
    assert!(most <= 16 && all <= 8 * u64::from(COUNT), "of a batch: {most}, {all} in all");
    for lost in 2..=COUNT / 2 {
        cluster.vanish(HostIndex::new(lost).expect("a host"));
    }
    let left = COUNT as usize - (COUNT as usize / 2 - 1);
    cluster.pass_until("everyone has heard of the dead", |cluster| {
        cluster.hosts.values().all(|host| host.daemon.members().len() == left)
    });
    let (most, _) = heard(&mut cluster);
    assert!(most <= u64::from(COUNT / 2), "one message for each lost host: {most}");
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
