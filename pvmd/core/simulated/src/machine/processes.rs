//! Processes, and what the kernels of their hosts do with them.

use super::{Happening, Machine, Tasks};
use crate::process::{Moving, ProcId, Process, Role, message};
use bytes::Bytes;
use pvm_task_manager::machine::Machine as Manager;
use pvm_wire::batch::BatchMsg;
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::{Admission, Conn2, Connect};
use pvm_wire::codes::{BATCH_TAG, CONTEXT_TM, Tm};
use pvm_wire::{FragmentHeader, HostIndex, Message, PvmError};
use pvmd_core::event::{ConnId, Cookie, Event, Program, Used, Work};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Bytes a fragment of a message has at most.
const FRAGMENT: usize = 60_000;
/// Bytes that may wait for a task that does not read: what is allowed, and what may be on its way.
const QUEUE_MAX: usize = 24 * 1024 * 1024;
/// What `wait` says of a process that is killed.
const SIGKILL: i32 = 9;
/// The first process's id, as its kernel has it.
const FIRST_PID: i32 = 1000;

/// Whether processes that are held use what others leave; where they do not, they are stopped.
fn leaves_rest(host: HostIndex) -> bool {
    host.get().is_multiple_of(2)
}

/// The process of this id of its kernel's.
pub(super) fn by_pid(processes: &mut BTreeMap<ProcId, Process>, pid: i32) -> Option<(ProcId, &mut Process)> {
    let id = ProcId::try_from(pid - FIRST_PID).ok()?;
    processes.get_mut(&id).map(|process| (id, process))
}

impl<T: Tasks> Machine<T> {
    /// A process that a daemon starts.
    pub fn add_process(&mut self, host: HostIndex, cookie: Option<Cookie>, role: Role) -> (ProcId, i32) {
        let id = self.next_number();
        let pid = FIRST_PID + id as i32;
        self.processes.insert(id, Process::new(host, pid, cookie, role));
        (id, pid)
    }

    fn by_conn(&self, host: HostIndex, conn: ConnId) -> Option<ProcId> {
        self.hosts.get(&host)?.conns.get(&conn).copied()
    }

    pub(super) fn start(&mut self, host: HostIndex, cookies: &[Cookie], program: &Program, succeeds: bool) {
        let mut when = self.now;
        let mut failed = false;
        for &cookie in cookies {
            when += self.random.micros(50..1500);
            failed |= self.setup.fails && !program.manager && self.random.below(100) == 0;
            if failed {
                let result = Err((PvmError::OutOfRes, "no process to be had".to_owned()));
                self.at(when, Happening::Event(host, Event::ProcessStarted { cookie, result }));
                continue;
            }
            // Others than tasks that enrol do not move.
            let own = if succeeds { Role::Task } else { T::role(self) };
            let role = if program.manager { Role::Manager(Manager::default()) } else { own };
            let (id, pid) = self.add_process(host, Some(cookie), role);
            if !succeeds {
                T::started(self, id, program);
            }
            let result = Ok((pid, "/bin/program".into()));
            let told = when + self.random.micros(0..200);
            self.at(told, Happening::Event(host, Event::ProcessStarted { cookie, result }));
            self.at(when + Duration::from_micros(50), Happening::Begin(id));
        }
    }

    pub(super) fn begin(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.dead) else { return };
        if matches!(process.role, Role::Silent) {
            return;
        }
        let host = process.host;
        let conn = ConnId(self.next_number());
        if let (Some(process), Some(found)) = (self.processes.get_mut(&id), self.hosts.get_mut(&host)) {
            process.conn = Some(conn);
            found.conns.insert(conn, id);
            self.feed(host, Event::TaskConnected { conn });
            self.say(id, &Process::hello());
        }
    }

    pub(super) fn write_to_task(
        &mut self,
        host: HostIndex,
        conn: ConnId,
        header: FragmentHeader,
        data: Bytes,
    ) {
        let Some(id) = self.by_conn(host, conn) else { return };
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.dead) else { return };
        process.waiting += data.len();
        process.inbox.push_back((header, data));
        let queued = process.waiting;
        if queued > QUEUE_MAX {
            self.fault(format!("{queued} bytes wait for {:?}", header.dst));
        }
        self.hear_soon(id);
    }

    pub(super) fn pause(&mut self, host: HostIndex, conn: ConnId, paused: bool) {
        let Some(id) = self.by_conn(host, conn) else { return };
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.paused = paused;
        if !paused {
            self.read_soon(id);
        }
    }

    pub(super) fn close_task(&mut self, host: HostIndex, conn: ConnId) {
        let Some(id) = self.by_conn(host, conn) else { return };
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.conn = None;
        if !process.dead && matches!(process.moving, Moving::Frozen(_)) {
            // Its task lives elsewhere.
            if let Some(found) = self.hosts.get_mut(&host) {
                found.conns.remove(&conn);
            }
            return self.finish(id);
        }
        let Some(process) = self.processes.get_mut(&id) else { return };
        if !process.dead && !process.leaving {
            let text = format!("{:?} was expelled from host {host}", process.tid);
            self.fault(text);
        }
        if let Some(host) = self.hosts.get_mut(&host) {
            host.conns.remove(&conn);
        }
    }

    /// A process writes a message to its daemon.
    pub fn say(&mut self, id: ProcId, message: &Message) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.out.extend(message.fragments(FRAGMENT));
            self.read_soon(id);
        }
    }

    fn read_soon(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_read()) else { return };
        if !std::mem::replace(&mut process.read_due, true) {
            self.later(5..60, Happening::Read(id));
        }
    }

    /// A process that may read looks at what has come.
    pub fn hear_soon(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_running()) else {
            return;
        };
        if !process.inbox.is_empty() && !std::mem::replace(&mut process.hear_due, true) {
            self.later(5..60, Happening::Hear(id));
        }
    }

    /// The daemon reads some fragments, and sees the end after the last.
    pub(super) fn read(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.read_due = false;
        for _ in 0..=self.random.below(8) {
            let Some(process) = self.processes.get_mut(&id).filter(|process| process.is_read()) else {
                return;
            };
            let (host, Some(conn)) = (process.host, process.conn) else { return };
            match process.out.pop_front() {
                Some((header, data)) => self.feed(host, Event::Fragment { conn, header, data }),
                None if process.dead => {
                    process.conn = None;
                    if let Some(host) = self.hosts.get_mut(&host) {
                        host.conns.remove(&conn);
                    }
                    return self.feed(host, Event::TaskClosed { conn, reason: None });
                }
                None => return,
            }
        }
        self.read_soon(id);
    }

    /// The process reads some fragments.
    pub(super) fn hear(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.hear_due = false;
        for _ in 0..=self.random.below(8) {
            let reading = |process: &&mut Process| process.is_running() && !process.dead;
            let Some(process) = self.processes.get_mut(&id).filter(reading) else { return };
            let Some((header, data)) = process.inbox.pop_front() else { break };
            let bytes = FragmentHeader::SIZE + data.len();
            let host = process.host;
            let heard = process.hear(&header, data);
            if let Some(conn) = process.conn {
                self.feed(host, Event::TaskDrained { conn, bytes });
            }
            match heard {
                Ok(Some(message)) => self.received(id, &message),
                Ok(None) => {}
                Err(nonsense) => self.fault(nonsense),
            }
        }
        self.hear_soon(id);
    }

    /// A process has received a whole message.
    fn received(&mut self, id: ProcId, received: &Message) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if received.header.tag == BATCH_TAG {
            if let Role::Manager(manager) = &mut process.role
                && let Ok(decoded) = BatchMsg::decode(&received.body)
            {
                for (dst, said) in manager.on_message(received.src, decoded) {
                    let body = said.encode().expect("a small message");
                    self.say(id, &message(dst, 0, BATCH_TAG, body));
                }
            }
            return;
        }
        let request = Tm::from_tag(received.header.tag).filter(|_| received.header.context == CONTEXT_TM);
        match (request, process.tid) {
            (Some(Tm::Connect), _) => {
                let is_accepted = Connect::decode_answer(&received.body)
                    .is_ok_and(|answer| answer.is_ok_and(|reply| reply.accepted));
                let enrolment = process.enrolment();
                if !is_accepted {
                    self.fault("a library was refused".to_owned());
                }
                self.say(id, &enrolment);
            }
            (Some(Tm::Conn2), _) => match Conn2::decode_answer(&received.body) {
                Ok(Ok(Admission(Some(reply)))) => {
                    process.tid = Some(reply.tid);
                    if reply.succeeds.is_some() {
                        process.moving = Moving::Succeeds;
                        return;
                    }
                    let is_task = matches!(process.role, Role::Task);
                    self.expect_one_life(id);
                    if is_task {
                        T::enrolled(self, id, reply.tid);
                    }
                }
                other => self.fault(format!("an enrolment was refused: {other:?}")),
            },
            (Some(Tm::Exit), _) => self.over(id),
            (_, Some(_)) if self.hears_of_move(id, received) => {}
            (_, Some(tid)) => {
                T::heard(self, id, tid, received);
                self.go_if_possible(id);
            }
            (_, None) => {}
        }
    }

    /// A process is killed, perhaps in the middle of a message.
    pub fn kill(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.dead) else { return };
        (process.dead, process.status) = (true, SIGKILL);
        let unwritten = self.random.below(1 + process.out.len() as u64) as usize;
        process.out.truncate(process.out.len() - unwritten);
        self.over(id);
    }

    /// A process has done its work and ends well.
    pub(super) fn finish(&mut self, id: ProcId) {
        if self.processes.get(&id).is_some_and(|process| !process.dead) {
            self.over(id);
        }
    }

    /// What the end of a process leads to.
    fn over(&mut self, id: ProcId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.dead = true;
        T::ended(self, id);
        let Some(process) = self.processes.get_mut(&id) else { return };
        let (host, cookie, status) = (process.host, process.cookie, ExitStatus::from_raw(process.status));
        if process.conn.is_some() {
            self.read_soon(id);
        }
        if let Some(cookie) = cookie {
            self.later(1..2000, Happening::Event(host, Event::ProcessOutputEnd { cookie }));
            self.later(
                1..2000,
                Happening::Event(host, Event::ProcessExited { cookie, status, used: Used::default() }),
            );
        }
    }

    /// A process is held, or no longer.
    pub(super) fn hold(&mut self, pid: i32, held: bool) {
        let Some((id, process)) = by_pid(&mut self.processes, pid) else { return };
        process.held = held && !leaves_rest(process.host);
        self.hear_soon(id);
    }

    /// The owner of a host is there, or not any more: its tasks are held, or go on.
    pub(super) fn yield_to_owner(&mut self, host: HostIndex, spared: Option<&[i32]>) {
        let on_it =
            self.processes.iter_mut().filter(|(_, process)| process.host == host && process.cookie.is_some());
        let mut changed = Vec::new();
        for (&id, process) in on_it {
            process.yields = spared.is_some_and(|spared| !spared.contains(&process.pid));
            changed.push(id);
        }
        for id in changed {
            self.hear_soon(id);
        }
    }

    /// What a kernel says of processes. Some compute, some sleep most of the time, and some have ended.
    pub(super) fn usage(&mut self, host: HostIndex, pids: &[i32]) -> Event {
        let now = self.now;
        let mut done = |pid: i32| {
            let process = by_pid(&mut self.processes, pid).map(|(_, process)| process);
            let Some(process) = process.filter(|process| !process.dead) else { return Work::default() };
            let (work, then) = &mut process.work;
            let elapsed = now.saturating_sub(std::mem::replace(then, now));
            let part = if process.held { 0 } else { [0, 1, 20, 100][self.random.below(4) as usize] };
            work.time += elapsed * part / 100;
            work.waits += elapsed * (100 - part) / 200;
            work.sleeps += self.random.below(3) * 50;
            *work
        };
        let work = pids.iter().map(|&pid| done(pid)).collect();
        let own = Duration::from_micros(self.random.below(5000));
        Event::Usage { work, own, leaves_rest: leaves_rest(host) }
    }
}
