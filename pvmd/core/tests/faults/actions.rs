//! What daemons decide is done, and what processes hear.

use crate::journal::Asked;
use crate::network::Packet;
use crate::process::{NOTICE, NOTIFY, ProcId, Process, Role, USER, message, tagged_request};
use crate::world::{Happening, World};
use pvm_task_manager::machine::Machine;
use pvm_wire::batch::BatchMsg;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::{Admission, Conn2, Connect};
use pvm_wire::calls::hosts::Config;
use pvm_wire::codes::{BATCH_TAG, CONTEXT_TM, Tm, Tmx};
use pvm_wire::encoding::DataSignature;
use pvm_wire::{FragmentHeader, HostIndex, Message, PvmError, Tid, group};
use pvmd_core::event::{Action, ConnId, Cookie, Event, Program, StartedHost};
use pvmd_core::hostfile::HostSpec;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Bytes that may wait for a task that does not read: what is allowed, and what may be on its way.
const QUEUE_MAX: usize = 24 * 1024 * 1024;

impl World {
    pub fn act(&mut self, host: HostIndex, action: Action) {
        match action {
            Action::Send { conn, header, data, .. } => {
                self.write_to_task(host, conn, header, data);
            }
            Action::PauseReading { conn } => {
                if let Some(process) = self.by_conn(host, conn).and_then(|id| self.processes.get_mut(&id)) {
                    process.paused = true;
                }
            }
            Action::ResumeReading { conn } => {
                let Some(id) = self.by_conn(host, conn) else { return };
                if let Some(process) = self.processes.get_mut(&id) {
                    process.paused = false;
                    self.read_soon(id);
                }
            }
            Action::CloseTask { conn } => self.close_task(host, conn),
            Action::OpenAuth { conn, .. } => {
                let event = Event::AuthOpened { conn, result: Ok("/tmp/auth".to_owned()) };
                self.later(1..20, Happening::Event(host, event));
            }
            Action::CheckAuth { conn } => {
                self.later(1..20, Happening::Event(host, Event::AuthChecked { conn, proven: true }));
            }
            Action::Start { cookies, program, .. } => self.start(host, &cookies, &program),
            Action::Signal { pid, .. } => {
                let found = self.processes.iter().find(|(_, process)| process.pid == pid);
                if let Some((&id, _)) = found {
                    self.later(1..100, Happening::Kill(id));
                }
            }
            Action::Link { entry } => {
                self.net.dials.insert((host, entry.index));
                self.later(200..20_000, Happening::Dialled(host, entry.index));
            }
            Action::Unlink { host: other } => self.unlink(host, other),
            Action::SendPeer { host: to, message } => self.send(host, to, Packet::Message(message)),
            Action::StartHost { index, spec, .. } => self.start_host(index, &spec),
            Action::AbandonHost { index } => {
                self.abandoned.insert(index);
                self.later(1..100_000, Happening::Vanish(index));
            }
            Action::Exit { .. } => self.exit(host),
            Action::Dispatch { pid, runs } => self.hold(pid, !runs),
            Action::ReadUsage { .. }
            | Action::Resolve { .. }
            | Action::Locate { .. }
            | Action::Introduce { .. } => {
                self.journal.fault(format!("not to be asked for here: {action:?}"));
            }
            Action::PauseOutput { .. }
            | Action::EndFamily { .. }
            | Action::ReadTimes { .. }
            | Action::ShowTurn { .. }
            | Action::ResumeOutput { .. }
            | Action::Enrolled { .. }
            | Action::LendTo { .. }
            | Action::StartedUp { .. }
            | Action::DiscardLog
            | Action::LogOutput { .. } => {}
        }
    }

    fn by_conn(&self, host: HostIndex, conn: ConnId) -> Option<ProcId> {
        self.hosts.get(&host)?.conns.get(&conn).copied()
    }

    fn write_to_task(&mut self, host: HostIndex, conn: ConnId, header: FragmentHeader, data: bytes::Bytes) {
        let Some(id) = self.by_conn(host, conn) else { return };
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.dead) else { return };
        process.inbox.push_back((header, data));
        let queued: usize = process.inbox.iter().map(|(_, data)| data.len()).sum();
        if queued > QUEUE_MAX {
            self.journal.fault(format!("{queued} bytes wait for {:?}", header.dst));
        }
        self.hear_soon(id);
    }

    fn close_task(&mut self, host: HostIndex, conn: ConnId) {
        let Some(id) = self.by_conn(host, conn) else { return };
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.conn = None;
        if !process.dead && !process.leaving {
            let text = format!("{:?} was expelled from host {host}", process.tid);
            self.journal.fault(text);
        }
        if let Some(host) = self.hosts.get_mut(&host) {
            host.conns.remove(&conn);
        }
    }

    fn unlink(&mut self, host: HostIndex, other: HostIndex) {
        self.net.dials.remove(&(host, other));
        // A link whose news is on its way to the daemon cannot be called back.
        if self.net.end(host, other).known {
            self.send(host, other, Packet::Close);
            self.net.end(host, other).open = false;
        }
    }

    /// The daemon ends, and its tasks with it.
    fn exit(&mut self, host: HostIndex) {
        if let Some(found) = self.hosts.get_mut(&host) {
            found.exiting = true;
        }
        self.processes.retain(|_, process| process.host != host);
        self.later(1..1_500_000, Happening::Cleared(host));
    }

    /// Its files are gone; its links are closed after what was sent.
    pub fn cleared(&mut self, host: HostIndex) {
        let Some(found) = self.hosts.get_mut(&host) else { return };
        found.cleared = true;
        for other in self.net.others(host) {
            self.send(host, other, Packet::Close);
        }
        self.later(1..500_000, Happening::Vanish(host));
    }

    fn start_host(&mut self, index: HostIndex, spec: &HostSpec) {
        let master = HostIndex::MASTER;
        if self.random.below(20) == 0 {
            let result = Err((PvmError::CantStart, "it does not start".to_owned()));
            return self
                .later(1000..2_000_000, Happening::Event(master, Event::HostStarted { index, result }));
        }
        let capability = spec.options.speed.unwrap_or(1000);
        let boots = self.now + self.random.micros(1000..300_000);
        self.booting.insert(index);
        self.at(boots, Happening::Boot(index, spec.name.clone(), capability));
        if self.random.below(20) == 0 {
            let dies = boots + self.random.micros(1..2_000_000);
            self.at(dies, Happening::Vanish(index));
        }
        let started = StartedHost {
            arch: "LINUX64".to_owned(),
            signature: DataSignature::NATIVE.0,
            capability: f64::from(capability),
            task_limit: 40,
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1),
        };
        let when = boots + self.random.micros(1000..200_000);
        self.at(when, Happening::Event(master, Event::HostStarted { index, result: Ok(started) }));
    }

    fn start(&mut self, host: HostIndex, cookies: &[Cookie], program: &Program) {
        let mut when = self.now;
        let mut failed = false;
        for &cookie in cookies {
            when += self.random.micros(50..1500);
            failed |= !program.manager && self.random.below(100) == 0;
            if failed {
                let result = Err((PvmError::OutOfRes, "no process to be had".to_owned()));
                self.at(when, Happening::Event(host, Event::ProcessStarted { cookie, result }));
                continue;
            }
            let role = match self.random.below(5) {
                _ if program.manager => Role::Manager(Machine::default()),
                0 => Role::Silent,
                _ => Role::Task,
            };
            let (id, pid) = self.add_process(host, Some(cookie), role);
            let number = program.args.first().and_then(|number| number.to_str()?.parse().ok()).unwrap_or(0);
            if let Some(spawn) = self.journal.spawns.get_mut(&number) {
                *spawn.started.entry(host).or_default() += 1;
            }
            if self.journal.batches.contains_key(&number) {
                self.employ(id);
            }
            let result = Ok((pid, "/bin/program".into()));
            let told = when + self.random.micros(0..200);
            self.at(told, Happening::Event(host, Event::ProcessStarted { cookie, result }));
            self.at(when + Duration::from_micros(50), Happening::Begin(id));
        }
    }

    /// A task of a queued batch ends some time, well or not, unless it waits for ever.
    fn employ(&mut self, id: ProcId) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.queued = true;
        }
        match self.random.below(4) {
            0 => self.later(100..2_000_000, Happening::Kill(id)),
            1 | 2 => self.later(100..2_000_000, Happening::Finish(id)),
            _ => {}
        }
    }

    /// A process has heard a whole message.
    pub fn heard(&mut self, id: ProcId, heard: &Message) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let (tag, context) = (heard.header.tag, heard.header.context);
        if tag == BATCH_TAG {
            if let Role::Manager(machine) = &mut process.role
                && let Ok(decoded) = BatchMsg::decode(&heard.body)
            {
                for (dst, said) in machine.on_message(heard.src, decoded) {
                    let body = said.encode().expect("a small message");
                    self.say(id, &message(dst, 0, BATCH_TAG, body));
                }
            }
            return;
        }
        if let (Some(tid), true) = (process.tid, context == NOTICE) {
            return self.journal.noticed(tid, &heard.body);
        }
        if let (Some(Tmx::Queue | Tmx::CancelBatch), Some(tid)) = (Tmx::from_tag(tag), process.tid) {
            if let Some(Asked::Queue(number)) = self.journal.answered(tid, heard.header.wait_id) {
                self.journal.queued(number, &heard.body);
            }
            return;
        }
        match (Tm::from_tag(tag), process.tid) {
            (Some(request), tid) if context == CONTEXT_TM => self.answered(id, tid, request, heard),
            (_, Some(tid)) if context == group::CONTEXT => {
                if matches!(tag, group::tag::JOIN | group::tag::LEAVE) {
                    *self.journal.group_asked.entry(tid).or_default() -= 1;
                }
            }
            (_, Some(tid)) if tag == USER => self.journal.message(tid, heard),
            (_, Some(tid)) if tag > NOTIFY && context == 0 => self.journal.told(tid, tag, &heard.body),
            _ => {}
        }
    }

    fn answered(&mut self, id: ProcId, tid: Option<Tid>, request: Tm, heard: &Message) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        match (request, tid) {
            (Tm::Connect, _) => {
                let accepted = matches!(Connect::decode_answer(&heard.body), Ok(Ok(reply)) if reply.accepted);
                if !accepted {
                    self.journal.fault("a library was refused".to_owned());
                }
                let enrolment = self.processes[&id].enrolment();
                self.say(id, &enrolment);
            }
            (Tm::Conn2, _) => match Conn2::decode_answer(&heard.body) {
                Ok(Ok(Admission(Some(reply)))) => {
                    process.tid = Some(reply.tid);
                    if matches!(process.role, Role::Task) {
                        self.tids.insert(reply.tid, id);
                    }
                }
                other => self.journal.fault(format!("an enrolment was refused: {other:?}")),
            },
            (Tm::Exit, _) => self.over(id),
            (_, Some(tid)) => match self.journal.answered(tid, heard.header.wait_id) {
                Some(Asked::Spawn(number)) => self.spawned(id, tid, number, heard),
                Some(Asked::Known(tag)) => self.knows(tag, heard),
                _ => {}
            },
            _ => {}
        }
    }

    /// A spawn is answered: the parent writes to all children.
    fn spawned(&mut self, id: ProcId, tid: Tid, number: i32, heard: &Message) {
        let mut reader = BodyReader::new(&heard.body);
        let results = reader.count(4).and_then(|count| reader.ints(count)).unwrap_or_default();
        if let Some(spawn) = self.journal.spawns.get_mut(&number) {
            spawn.answer = Some(results.clone());
        }
        for child in results.into_iter().filter(|raw| *raw > 0).map(Tid::from_raw) {
            let body = self.journal.next_body(tid, child, 100);
            self.say(id, &message(child, 0, USER, body));
        }
    }

    fn knows(&mut self, tag: i32, heard: &Message) {
        let Ok(Ok(list)) = Config::decode_answer(&heard.body) else { return };
        let known = list.hosts.iter().filter_map(|host| Tid::from_raw(host.tid).host()).collect();
        if let Some(subscription) = self.journal.subscriptions.get_mut(&tag) {
            subscription.known = Some(known);
        }
    }

    /// A task asks its daemon for something.
    pub fn ask(&mut self, id: ProcId, request: Tm, body: Vec<u8>, what: Asked) {
        self.ask_tagged(id, request.tag(), body, what);
    }

    /// As [`Self::ask`], for a request that the original does not have, too.
    pub fn ask_tagged(&mut self, id: ProcId, tag: i32, body: Vec<u8>, what: Asked) {
        let Some(tid) = self.processes.get(&id).and_then(|process: &Process| process.tid) else { return };
        let wait_id = self.journal.number();
        self.journal.asked.insert((tid, wait_id), what);
        self.say(id, &tagged_request(tag, wait_id, body));
    }
}
