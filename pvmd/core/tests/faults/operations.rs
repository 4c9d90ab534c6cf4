//! The operations of a plan, carried out.

use crate::journal::{Asked, Batch, Spawned, Subject, Subscription};
use crate::plan::Op;
use crate::process::{NOTICE, NOTIFY, ProcId, Process, Role, USER, message, request_message};
use crate::world::{Happening, World};
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::Request;
use pvm_wire::calls::hosts::{AddHosts, DeleteHosts};
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::state::IncidentRequest;
use pvm_wire::codes::{CONTEXT_TM, Tm, Tmx, notify};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::group;
use pvm_wire::queue::QueueRequest;
use pvm_wire::spawn::{Sink, SpawnRequest, flags};
use pvm_wire::{HostIndex, Tid};
use pvmd_core::event::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::time::Duration;

/// Most tasks at a time, lest a plan take for ever.
const TASKS_MAX: usize = 80;

impl World {
    pub fn operate(&mut self, op: Op) {
        match op {
            Op::Wait(micros) => self.pass(Duration::from_micros(micros.into())),
            Op::Enrol(host) => self.enrol(host),
            Op::Cut(a, b, milliseconds) => {
                if let Some((from, to)) = self.two_hosts(a, b) {
                    self.cut(from, to, Duration::from_millis(milliseconds.into()));
                    if (a ^ b) & 1 == 0 {
                        self.cut(to, from, Duration::from_millis(milliseconds.into()));
                    }
                }
            }
            Op::Reset(a, b) => {
                if let Some((a, b)) = self.two_hosts(a, b)
                    && self.net.is_open(a, b)
                    && self.net.is_open(b, a)
                {
                    self.later(6000..1_000_000, Happening::Lost(a, b));
                    self.later(6000..1_000_000, Happening::Lost(b, a));
                }
            }
            Op::Crash(host) => {
                let slaves: Vec<HostIndex> = self.hosts.keys().copied().skip(1).collect();
                if let Some(&host) = pick(&slaves, host) {
                    self.vanish(host);
                }
            }
            Op::CrashMaster => self.crash_master(),
            Op::KillManagers(host) => {
                let Some(host) = self.host(host) else { return };
                let manager =
                    |process: &Process| process.host == host && matches!(process.role, Role::Manager(_));
                let managers: Vec<ProcId> =
                    self.processes.iter().filter(|(_, p)| manager(p)).map(|(&id, _)| id).collect();
                for id in managers {
                    self.later(0..100, Happening::Kill(id));
                }
            }
            Op::Load(host, cores) => {
                if let Some(host) = self.host(host) {
                    self.feed(host, Event::Load { busy_cores: f64::from(cores) });
                }
            }
            _ => self.operate_task(op),
        }
    }

    /// Operations of a task.
    fn operate_task(&mut self, op: Op) {
        let Some(by) = op.task() else { return };
        let tasks = self.at_work();
        let Some(&id) = pick(&tasks, by) else { return };
        let process = &self.processes[&id];
        let Some(tid) = process.tid else { return };
        let (own, cookie) = (process.host, process.cookie);
        match op {
            Op::Spawn(_, count, place) => self.spawn(id, tid, count, place),
            Op::Queue(_, count, restarts) => self.queue(id, tid, count, restarts),
            Op::CancelBatch(_, n) => self.cancel_batch(id, n),
            Op::Send(_, to, count, size) => {
                let Some(&to) = pick(&tasks, to) else { return };
                let dst = self.processes[&to].tid.unwrap_or(Tid::NONE);
                for _ in 0..count {
                    let body = self.journal.next_body(tid, dst, size as usize);
                    self.say(id, &message(dst, 0, USER, body));
                }
            }
            Op::Multicast(_) => self.multicast(id, tid),
            Op::WatchTask(_, n) => {
                let known: Vec<Tid> = self.tids.keys().copied().collect();
                if let Some(&subject) = pick(&known, n) {
                    self.watch(id, tid, Subject::Task(subject));
                }
            }
            Op::WatchHost(_, n) => {
                let members = self.hosts.get(&own).map(|host| host.core.members()).unwrap_or_default();
                if let Some(&host) = pick(&members, n) {
                    self.watch(id, tid, Subject::Host(host));
                }
            }
            Op::WatchArrivals(_) => self.watch(id, tid, Subject::Arrivals),
            Op::Observe(_) => self.observe(id),
            Op::Unwatch(_, n) => self.unwatch(id, tid, n),
            Op::Ask(_, n) => self.ask_something(id, n),
            Op::Mail(_, n) => self.mail(id, tid, n),
            Op::Group(_, n) => self.group(id, tid, n),
            Op::Print(_) => {
                let data = bytes::Bytes::from_static(b"a line\nand half of one");
                if let Some(cookie) = cookie {
                    self.feed(own, Event::ProcessOutput { cookie, data });
                }
            }
            Op::AddHosts(_, count) => {
                let names: Vec<String> =
                    (0..count).map(|i| format!("node{} via=local", 2 + (by + i) % 7)).collect();
                self.ask(id, Tm::AddHost, AddHosts { hosts: names }.encode(), Asked::Request);
            }
            Op::DeleteHost(_, n) => {
                let name = format!("node{}", 1 + n % 8);
                self.ask(id, Tm::DelHost, DeleteHosts { names: vec![name] }.encode(), Asked::Request);
            }
            Op::Halt(_) => self.say(id, &request_message(Tm::Halt, 0, Vec::new())),
            _ => self.operate_life(op, id, &tasks),
        }
    }

    /// Operations that end or stop a task.
    fn operate_life(&mut self, op: Op, id: ProcId, tasks: &[ProcId]) {
        match op {
            Op::Leave(_) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.leaving = true;
                }
                self.say(id, &request_message(Tm::Exit, 0, Vec::new()));
            }
            Op::Kill(_) => self.kill(id),
            Op::Signal(_, n) => {
                if let Some(target) = pick(tasks, n).and_then(|id| self.processes[id].tid) {
                    let body = BodyWriter::new().int(target.raw()).int(15).finish();
                    self.ask(id, Tm::SendSig, body, Asked::Request);
                }
            }
            Op::Stop(_, milliseconds) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.stopped = true;
                }
                let when = self.now + Duration::from_millis(milliseconds.into());
                self.at(when, Happening::Continue(id));
            }
            _ => self.operate_turns(op, id, tasks),
        }
    }

    /// Tasks that can be told to do something.
    pub fn at_work(&self) -> Vec<ProcId> {
        self.processes.iter().filter(|(_, process)| process.is_at_work()).map(|(&id, _)| id).collect()
    }

    fn host(&self, n: u32) -> Option<HostIndex> {
        let hosts: Vec<HostIndex> = self.hosts.keys().copied().collect();
        pick(&hosts, n).copied()
    }

    fn two_hosts(&self, a: u32, b: u32) -> Option<(HostIndex, HostIndex)> {
        let (a, b) = (self.host(a)?, self.host(b)?);
        (a != b).then_some((a, b))
    }

    fn enrol(&mut self, n: u32) {
        let Some(host) = self.host(n) else { return };
        // Users' programs find a daemon when it is a member.
        if self.hosts[&host].core.members().contains(&host) && self.processes.len() < TASKS_MAX {
            let (id, _) = self.add_process(host, None, Role::Task);
            self.later(10..50, Happening::Begin(id));
        }
    }

    fn crash_master(&mut self) {
        let unlinked: Vec<HostIndex> =
            self.hosts.keys().copied().filter(|&host| host != HostIndex::MASTER).collect();
        for host in unlinked {
            if !self.net.is_open(host, HostIndex::MASTER) {
                self.later(1..3_000_000, Happening::Vanish(host));
            }
        }
        self.vanish(HostIndex::MASTER);
    }

    fn spawn(&mut self, id: ProcId, tid: Tid, count: u32, place: u32) {
        if self.processes.len() + count as usize > TASKS_MAX {
            return;
        }
        let number = self.journal.number();
        let mut request = SpawnRequest {
            file: "program".into(),
            count: count as i32,
            args: vec![number.to_string().into()],
            output: Sink { tid: if count.is_multiple_of(2) { tid.raw() } else { 0 }, context: 0, tag: 5 },
            ..SpawnRequest::default()
        };
        if place != 0 {
            request.flags = flags::HOST;
            request.place = format!("node{}", 1 + place % 8).into();
        }
        let spawn = Spawned { by: tid, count: count as usize, answer: None, started: BTreeMap::new() };
        self.journal.spawns.insert(number, spawn);
        self.ask(id, Tm::Spawn, request.encode(), Asked::Spawn(number));
    }

    fn queue(&mut self, id: ProcId, tid: Tid, count: u32, restarts: u32) {
        if self.processes.len() + (count * (1 + restarts)) as usize > TASKS_MAX {
            return;
        }
        let number = self.journal.number();
        let spawn = SpawnRequest {
            file: "program".into(),
            count: count as i32,
            args: vec![number.to_string().into()],
            ..SpawnRequest::default()
        };
        let request = QueueRequest { context: NOTICE, tag: 1, restarts: restarts as i32, spawn };
        self.journal.batches.insert(number, Batch::new(tid, count, restarts));
        self.ask_tagged(id, Tmx::Queue.tag(), request.encode(), Asked::Queue(number));
    }

    fn cancel_batch(&mut self, id: ProcId, n: u32) {
        let ids: Vec<i32> = self.journal.batches.values().filter_map(|batch| batch.id).collect();
        if let Some(&batch) = pick(&ids, n) {
            let body = BodyWriter::new().int(batch).finish();
            self.ask_tagged(id, Tmx::CancelBatch.tag(), body, Asked::Request);
        }
    }

    /// A task joins or leaves a group.
    fn group(&mut self, id: ProcId, tid: Tid, n: u32) {
        *self.journal.group_asked.entry(tid).or_default() += 1;
        let name = OsStr::new(if n & 2 == 0 { "a" } else { "b" });
        let request = if n & 1 == 0 { group::Request::Join(name, true) } else { group::Request::Leave(name) };
        self.say(id, &message(group::keeper(), group::CONTEXT, request.tag(), request.encode()));
    }

    fn multicast(&mut self, id: ProcId, tid: Tid) {
        let others: Vec<Tid> = self
            .at_work()
            .into_iter()
            .filter(|&other| other != id)
            .filter_map(|id| self.processes[&id].tid)
            .collect();
        let Some(&first) = others.first() else { return };
        // All pairs must agree on the number: only those that have exchanged nothing yet, or as much.
        let body = self.journal.next_body(tid, first, 50);
        let sequence = &body[..4];
        let mut receivers = vec![first];
        for &other in &others[1..] {
            if self.journal.next_number(tid, other).to_be_bytes() == *sequence {
                self.journal.next_body(tid, other, 50);
                receivers.push(other);
            }
        }
        let raw = receivers.iter().map(|tid| tid.raw());
        let list = BodyWriter::new().int(receivers.len() as i32).ints(raw).finish();
        self.say(id, &request_message(Tm::Mca, 0, list));
        self.say(id, &message(tid.multicast(), 0, USER, body));
    }

    fn watch(&mut self, id: ProcId, by: Tid, subject: Subject) {
        let tag = NOTIFY + self.journal.number();
        let subscription =
            Subscription { by, subject, cancelled: false, told: 0, known: None, arrived: BTreeSet::new() };
        self.journal.subscriptions.insert(tag, subscription);
        self.say(id, &request_message(Tm::Notify, 0, notify_request(subject, tag, false).encode()));
        if subject == Subject::Arrivals {
            self.ask(id, Tm::Config, Vec::new(), Asked::Known(tag));
        }
    }

    fn observe(&mut self, id: ProcId) {
        let body = IncidentRequest { every_end: false }.encode();
        self.say(id, &message(Tid::MY_DAEMON, CONTEXT_TM, Tmx::Incidents.tag(), body));
    }

    fn unwatch(&mut self, id: ProcId, by: Tid, n: u32) {
        let own =
            |(_, s): &(&i32, &Subscription)| s.by == by && !s.cancelled && s.subject != Subject::Arrivals;
        let tags: Vec<i32> = self.journal.subscriptions.iter().filter(own).map(|(&tag, _)| tag).collect();
        let Some(&tag) = pick(&tags, n) else { return };
        let Some(subscription) = self.journal.subscriptions.get_mut(&tag) else { return };
        subscription.cancelled = true;
        let request = notify_request(subscription.subject, tag, true);
        self.say(id, &request_message(Tm::Notify, 0, request.encode()));
    }

    fn ask_something(&mut self, id: ProcId, n: u32) {
        let tids: Vec<Tid> = self.tids.keys().copied().collect();
        let tid = pick(&tids, n / 8).map_or(0, |tid| tid.raw());
        let host = self.host(n / 8).unwrap_or(HostIndex::MASTER).host_tid().raw();
        let one = |value: i32| BodyWriter::new().int(value).finish();
        let (request, body) = match n % 8 {
            0 => (Tm::Config, Vec::new()),
            1 => (Tm::Task, one(0)),
            2 => (Tm::Task, one(host)),
            3 => (Tm::Pstat, one(tid)),
            4 => (Tm::Mstat, BodyWriter::new().str(format!("node{}", 1 + n / 8 % 8)).finish()),
            5 => (Tm::HostSync, one(host)),
            6 => (Tm::GetOpt, Vec::new()),
            _ => (Tm::Context, one(0)),
        };
        self.ask(id, request, body, Asked::Request);
    }

    /// TM_DB: 1 puts, 3 gets.
    fn mail(&mut self, id: ProcId, tid: Tid, n: u32) {
        const MULTI_INSTANCE: i32 = 2;
        const READ_AND_DELETE: i32 = 16;
        const WAIT: i32 = 32;
        let class = if n & 4 == 0 { "x" } else { "y" };
        let head = |operation: i32, index: i32, flags: i32| {
            BodyWriter::new().int(operation).int(tid.raw()).str(class).int(index).int(flags)
        };
        let (body, what) = match n % 4 {
            0 | 1 => {
                let packed = [4, 0, 0, 0, XDR_WORD as i32, 0, tid.raw(), 0, 4, 7];
                (head(1, -1, MULTI_INSTANCE).ints(packed).finish(), Asked::Request)
            }
            2 => (head(3, -1, READ_AND_DELETE).finish(), Asked::Request),
            _ => (head(3, -1, READ_AND_DELETE | WAIT).finish(), Asked::MayWait),
        };
        self.ask(id, Tm::Db, body, what);
    }
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
