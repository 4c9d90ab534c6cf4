//! A whole run: the plan, rest, what must be true then, the end of all tasks, and what must be left.

use crate::journal::Asked;
use crate::operations::{ask, at_work, operate, pick};
use crate::plan::{Op, Plan};
use crate::world::{self, World};
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::jobs::{JobCall, JobId};
use pvm_wire::{HostIndex, Tid};
use pvmd_core::Census;
use pvmd_core::event::{Event, OwnerSign, Sample};
use pvmd_simulated::process::{Moving, ProcId, Process};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time within which all hosts know the lost ones: the limit for silence, the master's question to a host that is alive, or a dial
/// that fails and makes a host leave.
const KNOWN: Duration = Duration::from_secs(14);
/// As [`KNOWN`], if the master is lost, too: another takes its place, or the rest gives up, and then the same.
const SUCCEEDED: Duration = Duration::from_secs(60);
/// Time within which all that was asked for has come about: two tasks that have each other moved wait for each other until the daemons give up.
const SETTLED: Duration = Duration::from_secs(70);
/// Time within which links that nobody uses have been left: each is looked at twice.
const LEFT: Duration = Duration::from_secs(70);

/// Runs after which another host was the master than at the beginning.
pub static SUCCESSIONS: AtomicU64 = AtomicU64::new(0);

/// Tasks that have moved.
pub static MOVED: AtomicU64 = AtomicU64::new(0);

/// How a plan ends the machine.
#[derive(Clone, Copy)]
enum End {
    /// Not at all.
    None,
    /// The master's daemon vanishes.
    Crash,
    /// Hosts are lost, perhaps the master and too many deputies at once.
    Possible,
    /// This process asks for it.
    Halt(ProcId),
}

/// Runs a plan; what was wrong, if anything.
pub fn run(plan: &Plan) -> Result<(), String> {
    let mut world = world::new(plan);
    world.pass(Duration::from_millis(100));
    let mut end = End::None;
    for &op in &plan.ops {
        world.pass(Duration::from_micros(20));
        match op {
            Op::CrashMaster(_) if plan.deputies == 1 => end = End::Crash,
            Op::CrashMaster(_) | Op::Crash(_) | Op::Cut(..) | Op::Reset(..) if plan.deputies > 1 => {
                end = End::Possible;
            }
            Op::Halt(by) => end = pick(&at_work(&world), by).map_or(end, |&id| End::Halt(id)),
            _ => {}
        }
        operate(&mut world, op);
    }
    check(&mut world, end);
    if world.masters().first().is_some_and(|&master| master != HostIndex::MASTER) {
        SUCCESSIONS.fetch_add(1, Ordering::Relaxed);
    }
    MOVED.fetch_add(world.moved, Ordering::Relaxed);
    match world.tasks.faults.first() {
        None => Ok(()),
        Some(_) => Err(world.tasks.faults.join("\n  ")),
    }
}

/// Checks a machine that must go on, whatever it has lost.
pub fn check_going_on(world: &mut World) {
    check(world, End::None);
}

fn check(world: &mut World, end: End) {
    world.calm_down();
    for (from, to) in world.net.pairs() {
        world.heal(from, to, None);
    }
    for process in world.processes.values_mut() {
        process.stopped = false;
    }
    for host in world.hosts.keys().copied().collect::<Vec<_>>() {
        world.feed(host, Event::Owner(OwnerSign::Says(false)));
        // With little memory a batch would wait until other tasks end.
        world.feed(host, Event::Load { busy_cores: 0.0 });
        world.feed(host, Event::Sampled(Sample { memory: 1 << 40, free: 1 << 40, ..Sample::default() }));
    }
    for id in world.processes.keys().copied().collect::<Vec<_>>() {
        world.hear_soon(id);
    }
    world.pass(if world.setup().deputies > 1 { SUCCEEDED } else { KNOWN });
    if must_have_ended(world, end) {
        return check_end(world);
    }
    check_tables(world);
    world.pass(SETTLED);
    check_tables(world);
    check_deputies(world);
    check_promises(world);
    if !world.tasks.faults.is_empty() {
        return;
    }
    release_jobs(world);
    for id in at_work(world) {
        world.kill(id);
    }
    world.pass(SETTLED);
    let silent = world.processes.iter().filter(|(_, process)| !process.is_manager());
    for id in silent.map(|(&id, _)| id).collect::<Vec<_>>() {
        world.kill(id);
    }
    world.pass(LEFT);
    check_rest(world);
}

/// Jobs that are held would stay for ever.
fn release_jobs(world: &mut World) {
    let jobs: Vec<JobId> = (1..=world.tasks.submitted).map(JobId).collect();
    if let Some(&id) = at_work(world).first() {
        ask(world, id, &AskJobs(JobCall::Release(jobs)), Asked::Request);
        world.pass(SETTLED);
    }
}

/// Whoever asks for the end may be gone, or its host be out, before a daemon has heard it.
fn must_have_ended(world: &World, end: End) -> bool {
    match end {
        End::None => false,
        End::Crash => true,
        End::Possible => world.masters().is_empty(),
        End::Halt(by) => {
            let goes_on = world.processes.get(&by).is_some_and(Process::is_at_work);
            goes_on || world.masters().is_empty()
        }
    }
}

/// The machine has ended everywhere.
fn check_end(world: &mut World) {
    let left: Vec<HostIndex> = world.hosts.keys().copied().collect();
    if !left.is_empty() || !world.processes.is_empty() {
        world.tasks.fault(format!("after the end: hosts {left:?}, {} processes", world.processes.len()));
    }
}

/// All members know the same members. The master is linked to all of them, and each to the master.
fn check_tables(world: &mut World) {
    let masters = world.masters();
    let [master_index] = masters[..] else {
        return world.tasks.fault(format!("the masters are {masters:?}"));
    };
    let master = &world.hosts[&master_index];
    let members: BTreeSet<HostIndex> = master.daemon.members().into_iter().collect();
    for &host in &members {
        let Some(found) = world.hosts.get(&host) else {
            world.tasks.fault(format!("host {host} is a member and does not exist"));
            continue;
        };
        let known: BTreeSet<HostIndex> = found.daemon.members().into_iter().collect();
        let mut reached: BTreeSet<HostIndex> = found.daemon.linked().into_iter().collect();
        reached.insert(host);
        let is_linked =
            if host == master_index { members.is_subset(&reached) } else { reached.contains(&master_index) };
        if known != members || !is_linked {
            let text =
                format!("host {host} knows {known:?} and reaches {reached:?}, members are {members:?}");
            world.tasks.fault(text);
        }
    }
}

/// The deputies hold the same state as the master, bit by bit.
fn check_deputies(world: &mut World) {
    let Some(&master) = world.masters().first() else { return };
    let Some((deputies, state)) = world.hosts[&master].daemon.held_state() else { return };
    for deputy in deputies {
        let held = world.hosts.get(&deputy).and_then(|found| found.daemon.held_state());
        if held.is_none_or(|(_, held)| held != state) {
            world.tasks.fault(format!("deputy {deputy} does not hold the state of the master {master}"));
        }
    }
}

/// The tasks that are alive, each of which has one process.
fn tasks_alive(world: &mut World) -> BTreeSet<Tid> {
    let mut alive = BTreeSet::new();
    let at_work = world.processes.values().filter(|process| process.is_at_work());
    let twice: Vec<Tid> =
        at_work.filter_map(|process| process.tid).filter(|&tid| !alive.insert(tid)).collect();
    if !twice.is_empty() {
        world.tasks.fault(format!("{twice:?} live more than once"));
    }
    alive
}

fn check_promises(world: &mut World) {
    let members: BTreeSet<HostIndex> = world.hosts.keys().copied().collect();
    let known =
        world.masters().first().map(|master| world.hosts[master].daemon.members()).unwrap_or_default();
    if members.iter().any(|host| !known.contains(host)) {
        return world.tasks.fault(format!("of {members:?} some are not members, and live on"));
    }
    let alive = tasks_alive(world);
    world.tasks.check_messages(&alive);
    world.tasks.check_notifies(&alive, &members);
    world.tasks.check_answers(&alive);
    world.tasks.check_spawns(&alive, &members);
    let working = world
        .tasks
        .queued_processes
        .iter()
        .filter(|id| world.processes.get(id).is_some_and(|process| !process.dead))
        .count();
    world.tasks.check_batches(&alive, working);
    check_observers(world);
}

/// A daemon that observes the others knows all of their tasks, and no more; one that does not knows none.
fn check_observers(world: &mut World) {
    // A process that is to go on with a task is none yet. A team's rows are packed again and again, so that a task may be about to move.
    let successors = |host: HostIndex| {
        let on_it = world.processes.values().filter(|process| process.host == host && !process.dead);
        on_it.filter(|process| process.moving == Moving::Succeeds).count()
    };
    let tasks = |&host: &HostIndex| world.hosts[&host].daemon.census().tasks - successors(host);
    let all: usize = world.hosts.keys().map(tasks).sum();
    for host in world.hosts.keys().copied().collect::<Vec<_>>() {
        let (observers, _, known) = world.hosts[&host].daemon.census().observers;
        let expected = if observers > 0 { all - tasks(&host) } else { 0 };
        if known != expected {
            world.tasks.fault(format!("host {host} observes {known} tasks of {expected}"));
        }
    }
}

/// Links that a slave keeps: that to the master, and in a large machine those to the hosts before and after it.
fn kept_links(world: &World, host: HostIndex) -> usize {
    let members: Vec<HostIndex> = world.hosts.keys().copied().collect();
    let count = members.len();
    let place = members.iter().position(|&member| member == host).expect("a member");
    let around = [members[(place + count - 1) % count], members[(place + 1) % count]];
    let around = around.into_iter().filter(|_| count > world.setup().watched_max);
    let kept: BTreeSet<HostIndex> = around.chain(world.masters()).filter(|&other| other != host).collect();
    kept.len()
}

/// Nothing is left but what there was at the beginning, and managers that are kept ready.
fn check_rest(world: &mut World) {
    let hosts = world.hosts.len();
    for host in world.hosts.keys().copied().collect::<Vec<_>>() {
        let census = world.hosts[&host].daemon.census();
        let idle = census.managers.0;
        let expected = Census {
            hosts,
            links: if world.masters().contains(&host) { hosts - 1 } else { kept_links(world, host) },
            managers: (idle.min(2), 0),
            conns: idle,
            outputs: idle,
            ..Census::default()
        };
        if census != expected {
            world.tasks.fault(format!("host {host} still has {census:?}"));
        }
    }
}
