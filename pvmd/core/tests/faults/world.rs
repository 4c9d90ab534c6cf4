//! The machine of a plan: what its tasks do by themselves, and what they note.

use crate::journal::{Asked, Journal};
use crate::plan::Plan;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::hosts::Config;
use pvm_wire::calls::sharing::{Meet, Share};
use pvm_wire::calls::{Call, Request};
use pvm_wire::codes::{CONTEXT_TM, Tm, Tmx};
use pvm_wire::spawn::split_entry;
use pvm_wire::{Message, Tid, group};
use pvmd_core::event::Program;
use pvmd_simulated::machine::{Happening, Machine, Setup, Tasks};
use pvmd_simulated::process::{ProcId, Role, message};
use std::ffi::OsString;
use std::time::Duration;

/// Tag of the programs' own messages.
pub const USER: i32 = 1;
/// Tags of notifies are above this.
pub const NOTIFY: i32 = 1000;
/// Context of notices of queued batches.
pub const NOTICE: i32 = 7;

pub type World = Machine<Journal>;

/// A master whose hostfile names `hosts − 1` more.
pub fn new(&Plan { seed, hosts, turns, shares, deputies, width, watched_max, .. }: &Plan) -> World {
    let capabilities = [1000].into_iter().chain((2..=hosts).map(|n| 1000 * (n % 3 + 1))).collect();
    // In some machines links are left and made again all the time.
    let link_idle = Duration::from_millis(if seed.is_multiple_of(3) { 20 } else { 30_000 });
    let setup = Setup {
        seed,
        capabilities,
        task_target: 6,
        task_limit: 40,
        turns,
        link_idle,
        deputies,
        width,
        watched_max,
        fails: true,
        ..Setup::default()
    };
    Machine::new(setup, Journal::new(shares))
}

impl Tasks for Journal {
    fn faults(&mut self) -> &mut Vec<String> {
        &mut self.faults
    }

    fn role(world: &mut World) -> Role {
        if world.random.below(5) == 0 { Role::Silent } else { Role::Task }
    }

    fn started(world: &mut World, id: ProcId, program: &Program) {
        let number = program.args.first().and_then(|number| number.to_str()?.parse().ok()).unwrap_or(0);
        let host = world.processes[&id].host;
        if let Some(spawn) = world.tasks.spawns.get_mut(&number) {
            *spawn.started.entry(host).or_default() += 1;
        }
        if world.tasks.batches.contains_key(&number) {
            employ(world, id);
        }
        if let (Some(job), Some(task)) = (value(program, "PVM_JOB_ID"), value(program, "PVM_JOB_TASK")) {
            run_job_task(world, id, &(job, task));
        }
    }

    fn can_move(world: &World, tid: Tid) -> bool {
        let journal = &world.tasks;
        let is_open = journal.group_asked.get(&tid).is_some_and(|open| *open != 0);
        !is_open && !journal.asked.keys().any(|(by, _)| *by == tid)
    }

    fn succeeded(world: &mut World, old: ProcId, new: ProcId) {
        share(world, new);
        meet_all(world, new);
        if world.tasks.queued_processes.contains(&old) {
            employ(world, new);
        }
    }

    fn enrolled(world: &mut World, id: ProcId, tid: Tid) {
        world.tasks.tids.insert(tid);
        share(world, id);
    }

    fn heard(world: &mut World, id: ProcId, tid: Tid, heard: &Message) {
        let (tag, context) = (heard.header.tag, heard.header.context);
        let journal = &mut world.tasks;
        if context == NOTICE {
            journal.noticed(tid, &heard.body);
        } else if matches!(Tmx::from_tag(tag), Some(Tmx::Queue | Tmx::CancelBatch | Tmx::Jobs | Tmx::Move)) {
            if let Some(Asked::Queue(number)) = journal.answered(tid, heard.header.wait_id) {
                journal.queued(number, &heard.body);
            }
        } else if context == CONTEXT_TM && Tm::from_tag(tag).is_some() {
            match journal.answered(tid, heard.header.wait_id) {
                Some(Asked::Spawn(number)) => spawned(world, id, tid, number, heard),
                Some(Asked::Known(tag)) => knows(world, tag, heard),
                _ => {}
            }
        } else if context == group::CONTEXT {
            if matches!(tag, group::tag::JOIN | group::tag::LEAVE) {
                *journal.group_asked.entry(tid).or_default() -= 1;
            }
        } else if tag == USER {
            journal.message(tid, heard);
        } else if tag > NOTIFY && context == 0 {
            journal.told(tid, tag, &heard.body);
        }
    }
}

/// A task offers to share memory with others of its host.
fn share(world: &mut World, id: ProcId) {
    if world.tasks.shares {
        world.say(id, &Share {}.message(0));
    }
}

/// A task that has come to a host writes to the others there.
fn meet_all(world: &mut World, id: ProcId) {
    if !world.tasks.shares {
        return;
    }
    let host = world.processes[&id].host;
    let others = world.processes.iter().filter(|&(&other, process)| other != id && process.host == host);
    for other in others.filter_map(|(_, process)| process.tid).collect::<Vec<_>>() {
        world.say(id, &Meet { other }.message(0));
    }
}

/// A variable of a program's environment.
fn value(program: &Program, variable: &str) -> Option<OsString> {
    let entries = program.env.iter().filter_map(|entry| split_entry(entry));
    entries.filter(|(name, _)| *name == variable).map(|(_, value)| value.to_owned()).next()
}

/// A task of a job ends some time. No other process runs the same task at the same time, be it on a host that is cut off.
fn run_job_task(world: &mut World, id: ProcId, task: &(OsString, OsString)) {
    let before = world.tasks.job_tasks.insert(task.clone(), id);
    let other = before.and_then(|before| world.processes.get(&before)).filter(|process| !process.dead);
    if let Some(host) = other.map(|process| process.host).filter(|&host| !world.is_unwaited(host)) {
        world.tasks.fault(format!("{task:?} runs twice, on host {host} and {}", world.processes[&id].host));
    }
    if world.random.below(4) == 0 {
        world.later(100..2_000_000, Happening::Kill(id));
    } else {
        world.later(100..2_000_000, Happening::Finish(id));
    }
}

/// A task of a queued batch ends some time, well or not, unless it waits for ever.
fn employ(world: &mut World, id: ProcId) {
    world.tasks.queued_processes.insert(id);
    match world.random.below(4) {
        0 => world.later(100..2_000_000, Happening::Kill(id)),
        1 | 2 => world.later(100..2_000_000, Happening::Finish(id)),
        _ => {}
    }
}

/// A spawn is answered: the parent writes to all children.
fn spawned(world: &mut World, id: ProcId, tid: Tid, number: i32, heard: &Message) {
    let mut reader = BodyReader::new(&heard.body);
    let results = reader.count(4).and_then(|count| reader.ints(count)).unwrap_or_default();
    if let Some(spawn) = world.tasks.spawns.get_mut(&number) {
        spawn.answer = Some(results.clone());
    }
    for child in results.into_iter().filter(|raw| *raw > 0).map(Tid::from_raw) {
        let body = world.tasks.next_body(tid, child, 100);
        world.say(id, &message(child, 0, USER, body));
    }
}

fn knows(world: &mut World, tag: i32, heard: &Message) {
    let Ok(Ok(list)) = Config::decode_answer(&heard.body) else { return };
    let known = list.hosts.iter().filter_map(|host| Tid::from_raw(host.tid).host()).collect();
    if let Some(subscription) = world.tasks.subscriptions.get_mut(&tag) {
        subscription.known = Some(known);
    }
}
