//! The operations of a plan, carried out.

use crate::journal::{Asked, Batch, Spawned, Subject, Subscription};
use crate::plan::Op;
use crate::world::{NOTICE, NOTIFY, USER, World};
use pvm_wire::calls::Request;
use pvm_wire::calls::enrolment::{Exit, GetOptions};
use pvm_wire::calls::hosts::{AddHosts, Config, DeleteHosts, Halt, HostClock, HostStatus};
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::calls::mailbox::{Flags, Get, Put};
use pvm_wire::calls::moves::{Movable, Move};
use pvm_wire::calls::nested::Nested;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::sharing::Meet;
use pvm_wire::calls::spawn::CancelBatch;
use pvm_wire::calls::state::IncidentRequest;
use pvm_wire::calls::tasks::{Context, ListTasks, Multicast, SendSignal, TaskStatus};
use pvm_wire::calls::turns::{Asleep, Awake, Epoch, JoinTeam, Page, Waiting};
use pvm_wire::codes::notify;
use pvm_wire::group;
use pvm_wire::jobs::{JobCall, JobId, JobRequest, Tasks};
use pvm_wire::queue::QueueRequest;
use pvm_wire::spawn::{Sink, SpawnRequest, flags};
use pvm_wire::{HostIndex, Tid};
use pvmd_core::Policy;
use pvmd_core::event::{Event, OwnerSign, Sample};
use pvmd_simulated::daemon::cluster_of;
use pvmd_simulated::machine::Happening;
use pvmd_simulated::process::{ProcId, Process, Role, message};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// Most tasks at a time, lest a plan take for ever.
const TASKS_MAX: usize = 80;

pub fn operate(world: &mut World, op: Op) {
    match op {
        Op::Wait(micros) => world.pass(Duration::from_micros(micros.into())),
        Op::Enrol(host) => enrol(world, host),
        Op::Cut(a, b, milliseconds) => {
            if let Some((from, to)) = two_hosts(world, a, b) {
                world.cut(from, to, Duration::from_millis(milliseconds.into()));
                if (a ^ b) & 1 == 0 {
                    world.cut(to, from, Duration::from_millis(milliseconds.into()));
                }
            }
        }
        Op::Reset(a, b) => {
            if let Some((a, b)) = two_hosts(world, a, b)
                && let Some(link) = world.net.open_link(a, b)
                && world.net.open_link(b, a) == Some(link)
            {
                world.later(6000..1_000_000, Happening::Lost(a, b, link));
                world.later(6000..1_000_000, Happening::Lost(b, a, link));
            }
        }
        Op::Crash(host) => {
            let masters = world.masters();
            let slaves: Vec<HostIndex> =
                world.hosts.keys().copied().filter(|host| !masters.contains(host)).collect();
            if let Some(&slave) = pick(&slaves, host) {
                if host / 8 % 2 == 1 {
                    world.off.insert(slave);
                }
                world.vanish(slave);
            }
        }
        Op::CrashMaster(n) => crash_master(world, n % 2 == 1),
        Op::KillManagers(host) => {
            let Some(host) = nth_host(world, host) else { return };
            let manager = |process: &Process| process.host == host && process.is_manager();
            let managers: Vec<ProcId> =
                world.processes.iter().filter(|(_, p)| manager(p)).map(|(&id, _)| id).collect();
            for id in managers {
                world.later(0..100, Happening::Kill(id));
            }
        }
        Op::Load(host, cores) => {
            if let Some(host) = nth_host(world, host) {
                world.feed(host, Event::Load { busy_cores: f64::from(cores) });
                let run_queue = [cores.into(); 3];
                // The busier, the less memory; a host without load has all that it has.
                let free = 1 << (40 - 4 * cores.min(6));
                let sample = Sample { run_queue, memory: 1 << 40, free, ..Sample::default() };
                world.feed(host, Event::Sampled(sample));
            }
        }
        Op::Owner(host, n) => {
            if let Some(host) = nth_host(world, host) {
                world.tasks.owners |= n % 2 == 1;
                world.feed(host, Event::Owner(OwnerSign::Says(n % 2 == 1)));
            }
        }
        Op::Jump(host, milliseconds) => {
            if let Some(host) = nth_host(world, host) {
                world.jump(host, Duration::from_millis(milliseconds.into()));
            }
        }
        _ => operate_task(world, op),
    }
}

/// Operations of a task.
fn operate_task(world: &mut World, op: Op) {
    let Some(by) = op.task() else { return };
    let tasks = at_work(world);
    let Some(&id) = pick(&tasks, by) else { return };
    let process = &world.processes[&id];
    let Some(tid) = process.tid else { return };
    let (own, cookie) = (process.host, process.cookie);
    match op {
        Op::Spawn(_, count, place) => spawn(world, id, tid, count, place),
        Op::Queue(_, count, restarts) => queue(world, id, tid, count, restarts),
        Op::Submit(_, count, kind) => submit(world, id, count, kind),
        Op::ChangeJob(_, n) => change_job(world, id, n),
        Op::CancelBatch(_, n) => cancel_batch(world, id, n),
        Op::Send(_, to, count, size) => {
            let Some(&to) = pick(&tasks, to) else { return };
            let dst = world.processes[&to].tid.unwrap_or(Tid::NONE);
            if world.tasks.shares && world.processes[&to].host == own {
                world.say(id, &Meet { other: dst }.message(0));
            }
            for _ in 0..count {
                send(world, id, dst, size as usize);
            }
        }
        Op::Multicast(_) => multicast(world, id, tid),
        Op::WatchTask(_, n) => {
            let known: Vec<Tid> = world.tasks.tids.iter().copied().collect();
            if let Some(&subject) = pick(&known, n) {
                watch(world, id, tid, Subject::Task(subject));
            }
        }
        Op::WatchHost(_, n) => {
            let members = world.hosts.get(&own).map(|host| host.daemon.members()).unwrap_or_default();
            if let Some(&host) = pick(&members, n) {
                watch(world, id, tid, Subject::Host(host));
            }
        }
        Op::WatchArrivals(_) => watch(world, id, tid, Subject::Arrivals),
        Op::Observe(_) => observe(world, id),
        Op::Unwatch(_, n) => unwatch(world, id, tid, n),
        Op::Ask(_, n) => ask_something(world, id, n),
        Op::Mail(_, n) => mail(world, id, tid, n),
        Op::Group(_, n) => group(world, id, tid, n),
        Op::Print(_) => {
            let data = bytes::Bytes::from_static(b"a line\nand half of one");
            if let Some(cookie) = cookie {
                world.feed(own, Event::ProcessOutput { cookie, data });
            }
        }
        Op::AddHosts(_, count) => {
            let via = if world.setup().width.is_some() { "" } else { " via=local" };
            let line = |i| {
                let name = format!("node{}", 2 + (by + i) % 7);
                let cluster =
                    cluster_of(&name).map_or(String::new(), |cluster| format!(" cluster={cluster}"));
                format!("{name}{via}{cluster}")
            };
            let names: Vec<String> = (0..count).map(line).collect();
            ask(world, id, &AddHosts { hosts: names }, Asked::Request);
        }
        Op::DeleteHost(_, n) => {
            let name = format!("node{}", 1 + n % 8);
            ask(world, id, &DeleteHosts { names: vec![name] }, Asked::Request);
        }
        Op::Move(_, n, to) => move_task(world, id, &tasks, n, to),
        Op::Halt(_) => world.say(id, &Halt {}.message(0)),
        _ => operate_life(world, op, id, &tasks),
    }
}

/// A task sends another the next message of the pair, of this length in bytes.
pub fn send(world: &mut World, id: ProcId, dst: Tid, size: usize) {
    let Some(tid) = world.processes.get(&id).and_then(|process| process.tid) else { return };
    let body = world.tasks.next_body(tid, dst, size);
    world.say(id, &message(dst, 0, USER, body));
}

/// Operations that end or stop a task.
fn operate_life(world: &mut World, op: Op, id: ProcId, tasks: &[ProcId]) {
    match op {
        Op::Leave(_) => {
            if let Some(process) = world.processes.get_mut(&id) {
                process.leaving = true;
            }
            world.say(id, &Exit {}.message(0));
        }
        Op::Kill(_) => world.kill(id),
        Op::Signal(_, n) => {
            if let Some(target) = pick(tasks, n).and_then(|id| world.processes[id].tid) {
                ask(world, id, &SendSignal { tid: target, signal: 15 }, Asked::Request);
            }
        }
        Op::Stop(_, milliseconds) => {
            if let Some(process) = world.processes.get_mut(&id) {
                process.stopped = true;
            }
            let when = world.now + Duration::from_millis(milliseconds.into());
            world.at(when, Happening::Continue(id));
        }
        _ => operate_turns(world, op, id, tasks),
    }
}

/// Operations that matter where teams take turns.
fn operate_turns(world: &mut World, op: Op, id: ProcId, tasks: &[ProcId]) {
    let tid_of = |n| pick(tasks, n).and_then(|id| world.processes[id].tid).unwrap_or(Tid::NONE);
    let request = match op {
        Op::Team(_, n) => JoinTeam { name: ["a", "b", "c"][n as usize % 3].to_owned() }.message(0),
        Op::Sleep(_, n) if n % 2 == 0 => Asleep {}.message(0),
        Op::Sleep(..) => Awake {}.message(0),
        Op::Await(_, n) => Waiting { receivers: vec![tid_of(n), tid_of(n / 7)] }.message(0),
        Op::HearEpoch(_, n, count) => {
            Epoch { by: tid_of(n), count: count % 300, origin: 1 + (n % 5) as i32 }.message(0)
        }
        Op::Page(_) => Page { direct: true }.message(0),
        _ => return,
    };
    world.say(id, &request);
}

/// Tasks that can be told to do something.
pub fn at_work(world: &World) -> Vec<ProcId> {
    world.processes.iter().filter(|(_, process)| process.is_at_work()).map(|(&id, _)| id).collect()
}

fn nth_host(world: &World, n: u32) -> Option<HostIndex> {
    let hosts: Vec<HostIndex> = world.hosts.keys().copied().collect();
    pick(&hosts, n).copied()
}

fn two_hosts(world: &World, a: u32, b: u32) -> Option<(HostIndex, HostIndex)> {
    let (a, b) = (nth_host(world, a)?, nth_host(world, b)?);
    (a != b).then_some((a, b))
}

fn enrol(world: &mut World, n: u32) {
    let Some(host) = nth_host(world, n) else { return };
    // Users' programs find a daemon when it is a member.
    if world.hosts[&host].daemon.members().contains(&host) && world.processes.len() < TASKS_MAX {
        let (id, _) = world.add_process(host, None, Role::Task);
        world.later(10..50, Happening::Begin(id));
    }
}

/// The hosts that take themselves for the master.
pub fn crash_master(world: &mut World, is_off: bool) {
    let Some(&master) = world.masters().first() else { return };
    // Daemons that the master has started, and not linked yet, wait for it in vain.
    let others: Vec<HostIndex> = world.hosts.keys().copied().filter(|&host| host != master).collect();
    for host in others {
        let is_member = world.hosts[&host].daemon.members().contains(&host);
        if !is_member && !world.net.is_open(host, master) {
            world.later(1..3_000_000, Happening::Vanish(host));
        }
    }
    if is_off {
        world.off.insert(master);
    }
    world.vanish(master);
}

fn spawn(world: &mut World, id: ProcId, tid: Tid, count: u32, place: u32) {
    if world.processes.len() + count as usize > TASKS_MAX {
        return;
    }
    let number = world.tasks.number();
    let mut request = SpawnRequest {
        file: "program".into(),
        count: count as i32,
        args: vec![number.to_string().into()],
        policy: policy(number),
        output: Sink { tid: if count.is_multiple_of(2) { tid.raw() } else { 0 }, context: 0, tag: 5 },
        ..SpawnRequest::default()
    };
    if place != 0 {
        request.flags = flags::HOST;
        request.place = format!("node{}", 1 + place % 8).into();
    }
    let spawn = Spawned { by: tid, count: count as usize, answer: None, started: BTreeMap::new() };
    world.tasks.spawns.insert(number, spawn);
    ask(world, id, &request, Asked::Spawn(number));
}

/// The policy of a spawn or queued batch: each in turn.
fn policy(number: i32) -> String {
    let at = number.unsigned_abs() as usize % Policy::ALL.len();
    Policy::ALL[at].name().to_owned()
}

fn queue(world: &mut World, id: ProcId, tid: Tid, count: u32, restarts: u32) {
    if world.processes.len() + (count * (1 + restarts)) as usize > TASKS_MAX {
        return;
    }
    let number = world.tasks.number();
    let spawn = SpawnRequest {
        file: "program".into(),
        count: count as i32,
        args: vec![number.to_string().into()],
        policy: policy(number),
        ..SpawnRequest::default()
    };
    let request = QueueRequest { context: NOTICE, tag: 1, restarts: restarts as i32, spawn };
    world.tasks.batches.insert(number, Batch::new(tid, count, restarts));
    ask(world, id, &request, Asked::Queue(number));
}

fn cancel_batch(world: &mut World, id: ProcId, n: u32) {
    let ids: Vec<i32> = world.tasks.batches.values().filter_map(|batch| batch.id).collect();
    if let Some(&batch) = pick(&ids, n) {
        ask(world, id, &CancelBatch { batch }, Asked::Request);
    }
}

/// A job, which runs on any host of the machine, however few are left.
fn submit(world: &mut World, id: ProcId, count: u32, kind: u32) {
    if world.processes.len() + count as usize > TASKS_MAX {
        return;
    }
    let mut job = JobRequest::new("program", "user", "/");
    job.tasks = if kind.is_multiple_of(3) {
        Tasks::Rigid(1 + count % 2)
    } else {
        Tasks::Array { first: 0, count, at_once: None }
    };
    job.restarts = kind / 3 % 3;
    job.queue = Some(if kind % 5 == 4 { "urgent" } else { "default" }.to_owned());
    if kind % 3 == 1 {
        job.after.extend(world.tasks.submitted.checked_sub(1).filter(|id| *id > 0).map(JobId));
    }
    world.tasks.submitted += 1;
    ask(world, id, &AskJobs(JobCall::Submit(Box::new(job))), Asked::Request);
}

fn change_job(world: &mut World, id: ProcId, n: u32) {
    let jobs = vec![JobId(u64::from(n / 3) % world.tasks.submitted.max(1) + 1)];
    let call = match n % 3 {
        _ if n % 10 == 9 => JobCall::Reload,
        0 => JobCall::Hold(jobs),
        1 => JobCall::Cancel(jobs),
        _ => JobCall::Release(jobs),
    };
    ask(world, id, &AskJobs(call), Asked::Request);
}

/// A task has another moved, which has said that it can.
fn move_task(world: &mut World, id: ProcId, tasks: &[ProcId], n: u32, to: u32) {
    let Some(&other) = pick(tasks, n).filter(|&&other| other != id) else { return };
    let host = nth_host(world, to / 2).filter(|_| to % 2 == 1).map_or(Tid::NONE, HostIndex::host_tid);
    move_task_to(world, id, other, host);
}

/// A task has another moved to a host, or to any.
pub fn move_task_to(world: &mut World, id: ProcId, other: ProcId, host: Tid) {
    let Some(tid) = world.processes.get(&other).and_then(|process| process.tid) else { return };
    world.say(other, &Movable {}.message(0));
    ask(world, id, &Move { tid, host }, Asked::Request);
}

/// A task joins or leaves a group.
fn group(world: &mut World, id: ProcId, tid: Tid, n: u32) {
    *world.tasks.group_asked.entry(tid).or_default() += 1;
    let name = OsStr::new(if n & 2 == 0 { "a" } else { "b" });
    let request = if n & 1 == 0 { group::Request::Join(name, true) } else { group::Request::Leave(name) };
    world.say(id, &message(group::keeper(), group::CONTEXT, request.tag(), request.encode()));
}

fn multicast(world: &mut World, id: ProcId, tid: Tid) {
    let others: Vec<Tid> = at_work(world)
        .into_iter()
        .filter(|&other| other != id)
        .filter_map(|id| world.processes[&id].tid)
        .collect();
    let Some(&first) = others.first() else { return };
    // All pairs must agree on the number: only those that have exchanged nothing yet, or as much.
    let body = world.tasks.next_body(tid, first, 50);
    let sequence = &body[..4];
    let mut receivers = vec![first];
    for &other in &others[1..] {
        if world.tasks.next_number(tid, other).to_be_bytes() == *sequence {
            world.tasks.next_body(tid, other, 50);
            receivers.push(other);
        }
    }
    world.say(id, &Multicast { tids: receivers }.message(0));
    world.say(id, &message(tid.multicast(), 0, USER, body));
}

pub fn watch(world: &mut World, id: ProcId, by: Tid, subject: Subject) {
    let tag = NOTIFY + world.tasks.number();
    let subscription =
        Subscription { by, subject, cancelled: false, told: 0, known: None, arrived: BTreeSet::new() };
    world.tasks.subscriptions.insert(tag, subscription);
    world.say(id, &notify_request(subject, tag, false).message(0));
    if subject == Subject::Arrivals {
        ask(world, id, &Config {}, Asked::Known(tag));
    }
}

fn observe(world: &mut World, id: ProcId) {
    world.say(id, &IncidentRequest { every_end: false }.message(0));
}

fn unwatch(world: &mut World, id: ProcId, by: Tid, n: u32) {
    let own = |(_, s): &(&i32, &Subscription)| s.by == by && !s.cancelled && s.subject != Subject::Arrivals;
    let tags: Vec<i32> = world.tasks.subscriptions.iter().filter(own).map(|(&tag, _)| tag).collect();
    let Some(&tag) = pick(&tags, n) else { return };
    let Some(subscription) = world.tasks.subscriptions.get_mut(&tag) else { return };
    subscription.cancelled = true;
    let request = notify_request(subscription.subject, tag, true);
    world.say(id, &request.message(0));
}

fn ask_something(world: &mut World, id: ProcId, n: u32) {
    let tids: Vec<Tid> = world.tasks.tids.iter().copied().collect();
    let tid = pick(&tids, n / 8).map_or(Tid::NONE, |tid| *tid);
    let host = nth_host(world, n / 8).unwrap_or(HostIndex::MASTER).host_tid();
    let asked = Asked::Request;
    match n % 8 {
        0 => ask(world, id, &Config {}, asked),
        1 => ask(world, id, &ListTasks { which: Tid::NONE, version: None }, asked),
        2 => ask(world, id, &ListTasks { which: host, version: None }, asked),
        3 => ask(world, id, &TaskStatus { tid }, asked),
        4 => ask(world, id, &HostStatus { name: format!("node{}", 1 + n / 8 % 8) }, asked),
        5 => ask(world, id, &HostClock { host }, asked),
        6 => ask(world, id, &GetOptions {}, asked),
        _ => ask(world, id, &Context { context: 0 }, asked),
    }
}

/// A task leaves an entry in the mailbox, or takes one.
fn mail(world: &mut World, id: ProcId, tid: Tid, n: u32) {
    const MULTI_INSTANCE: i32 = 2;
    const READ_AND_DELETE: i32 = 16;
    const WAIT: i32 = 32;
    let class = OsString::from(if n & 4 == 0 { "x" } else { "y" });
    let get = |bits| Get { tid, class: class.clone(), index: -1, flags: Flags::from_bits(bits) };
    match n % 4 {
        0 | 1 => {
            let flags = Flags::from_bits(MULTI_INSTANCE);
            let message = Nested::new(&message(Tid::NONE, 0, 0, vec![0, 0, 0, 7]));
            ask(world, id, &Put { tid, class, index: -1, flags, message }, Asked::Request);
        }
        2 => ask(world, id, &get(READ_AND_DELETE), Asked::Request),
        _ => ask(world, id, &get(READ_AND_DELETE | WAIT), Asked::MayWait),
    }
}

/// A task asks its daemon for something that is answered.
pub fn ask<R: Request>(world: &mut World, id: ProcId, request: &R, what: Asked) {
    let Some(tid) = world.processes.get(&id).and_then(|process| process.tid) else { return };
    let wait_id = world.tasks.number();
    world.tasks.asked.insert((tid, wait_id), what);
    world.say(id, &request.message(wait_id));
}

fn notify_request(subject: Subject, tag: i32, cancel: bool) -> NotifyRequest {
    let (what, count, tids) = match subject {
        Subject::Task(tid) => (notify::TASK_EXIT, 1, vec![tid.raw()]),
        Subject::Host(host) => (notify::HOST_DELETE, 1, vec![host.host_tid().raw()]),
        Subject::Arrivals => (notify::HOST_ADD, -1, Vec::new()),
    };
    NotifyRequest { what, cancel, context: 0, tag, count, tids }
}

/// The n-th, counted round.
pub fn pick<T>(among: &[T], n: u32) -> Option<&T> {
    among.get(n as usize % among.len().max(1))
}
