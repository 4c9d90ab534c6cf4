//! What tasks ask of their daemon: one handler per TM_ message.

use super::Core;
use super::event::ConnId;
use super::pending::Waiter;
use super::tasks::{ReplyTo, Task};
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::codes::{BATCH_TAG, Sm, Tm, Tmx};
use pvm_wire::daemon::{Blob, DaemonMsg, PeerRequest};
use pvm_wire::protocol::{HostList, HostRecord, NotifyRequest, decode_strings, encode_counted};
use pvm_wire::queue::QueueRequest;
use pvm_wire::spawn::{Sink, SpawnRequest};
use pvm_wire::{HostIndex, Message, PvmError, Tid};
use std::collections::BTreeSet;
use tracing::{debug, info, warn};

impl Core {
    /// A whole message to this daemon from a local connection.
    pub(super) fn on_request(&mut self, conn: ConnId, message: &Message) {
        let header = &message.header;
        let to = ReplyTo { conn, tag: header.tag, context: header.context, wait_id: header.wait_id };
        let Some(tid) = self.conns.get(&conn).and_then(super::tasks::Conn::tid) else {
            return match (Tm::from_tag(header.tag), Tmx::from_tag(header.tag)) {
                (Some(Tm::Connect), _) => self.on_connect(to, &message.body),
                (Some(Tm::Conn2), _) => self.on_conn2(to, &message.body),
                (_, Some(Tmx::Enrol)) => self.on_enrol(to, &message.body),
                (_, Some(Tmx::Born)) => self.on_born(to, &message.body),
                // Refused here, where PVM leaves the connection dangling.
                _ => self.expel(conn, &format!("message {:#x} before enrolment", header.tag)),
            };
        };
        if header.tag == BATCH_TAG || Sm::from_tag(header.tag).is_some() {
            return self.on_system_message(message);
        }
        let handled = match (Tm::from_tag(header.tag), Tmx::from_tag(header.tag)) {
            (Some(request), _) => self.on_tm(request, tid, to, &message.body),
            (_, Some(Tmx::StartUp)) => {
                self.on_start_up(to);
                Ok(())
            }
            (_, Some(Tmx::Dump)) => {
                self.on_dump(to);
                Ok(())
            }
            (_, Some(Tmx::Adopt)) => self.on_adopt(tid, to, &message.body),
            (_, Some(Tmx::Share)) => {
                self.on_share(conn);
                Ok(())
            }
            (_, Some(Tmx::Meet)) => self.on_meet(tid, &message.body),
            (_, Some(Tmx::Known)) => {
                self.on_known(conn);
                Ok(())
            }
            (_, Some(Tmx::Queue)) => {
                QueueRequest::decode(&message.body).map(|request| self.on_queue(tid, to, request))
            }
            (_, Some(Tmx::Batches)) => {
                self.on_list_batches(to);
                Ok(())
            }
            (_, Some(Tmx::CancelBatch)) => {
                BodyReader::new(&message.body).int().map(|id| self.on_cancel_batch(to, id))
            }
            (_, Some(Tmx::NoticesTaken)) => self.on_notices_taken(tid, &message.body),
            (_, Some(Tmx::Team)) => self.on_team(tid, &message.body).map(|code| self.reply_int(to, code)),
            (_, Some(Tmx::Turns)) => self.on_turns_request(to, &message.body),
            (_, Some(Tmx::History)) => self.on_history_request(to, &message.body),
            (_, Some(Tmx::Waiting)) => self.on_waiting(tid, &message.body),
            (_, Some(what @ (Tmx::Asleep | Tmx::Awake))) => {
                self.on_sleep(tid, what == Tmx::Asleep);
                Ok(())
            }
            (_, Some(Tmx::Spin)) => self.on_spin(tid, &message.body),
            (_, Some(Tmx::Epoch)) => self.on_told_epoch(tid, &message.body),
            (_, Some(Tmx::Page)) => {
                self.on_page_wanted(tid);
                Ok(())
            }
            (_, Some(Tmx::Incidents)) => self.on_incidents_wanted(tid, to, &message.body),
            (_, Some(Tmx::DiscardLogs)) => {
                self.on_discard_logs_request(to);
                Ok(())
            }
            _ => {
                info!(tag = header.tag, "unknown request");
                self.reply_int(to, PvmError::NotImpl.code());
                Ok(())
            }
        };
        // PVM leaves the sender of a malformed request waiting for ever; here it is told.
        if let Err(error) = handled {
            warn!(tag = format!("{:#x}", header.tag), %error, "malformed request");
            self.reply_int(to, PvmError::BadParam.code());
        }
    }

    fn on_tm(&mut self, request: Tm, tid: Tid, to: ReplyTo, body: &[u8]) -> Result<(), BodyError> {
        match request {
            Tm::Connect | Tm::Conn2 => self.expel(to.conn, "enrolment twice"),
            Tm::Exit => self.on_exit(to),
            Tm::AddHost => {
                let hosts = decode_strings(body)?;
                info!(hosts = hosts.join(", "), "adds hosts");
                self.ask(HostIndex::MASTER, PeerRequest::AddHosts { hosts }, Waiter::AddHosts(to));
            }
            Tm::DelHost => {
                let names = decode_strings(body)?;
                info!(hosts = names.join(", "), "deletes hosts");
                let from = self.config.index;
                self.ask(
                    HostIndex::MASTER,
                    PeerRequest::DeleteHosts { names, from },
                    Waiter::DeleteHosts(to),
                );
            }
            Tm::Config => self.reply(to, self.configuration().encode()),
            Tm::Mstat => self.on_mstat(to, BodyReader::new(body).str()?),
            Tm::Halt => self.on_halt_request(tid),
            Tm::Tickle => self.on_tickle(to, body)?,
            Tm::Spawn => self.on_spawn(tid, to, SpawnRequest::decode(body)?),
            Tm::Pstat => self.on_pstat(to, Tid::from_raw(BodyReader::new(body).int()?)),
            Tm::SendSig => {
                let mut reader = BodyReader::new(body);
                let (target, signal) = (Tid::from_raw(reader.int()?), reader.int()?);
                self.reply(to, Vec::new());
                self.signal(target, signal);
            }
            Tm::Task => self.on_task_list(to, body)?,
            Tm::Mca => self.on_mca(to.conn, body)?,
            Tm::Notify => self.on_notify(tid, &NotifyRequest::decode(body)?),
            Tm::Db => {
                let what = PeerRequest::Mailbox { from: tid, body: Blob(body.to_vec().into()) };
                self.ask(HostIndex::MASTER, what, Waiter::Mailbox(to));
            }
            Tm::HostSync => self.on_host_sync(to, Tid::from_raw(BodyReader::new(body).int()?)),
            Tm::SetOpt => self.on_set_opt(tid, to, body)?,
            Tm::GetOpt => {
                if let Some(options) = self.options_of(tid) {
                    self.reply(to, options.encode_options());
                }
            }
            Tm::Context => self.on_context(tid, to, BodyReader::new(body).int()?),
            Tm::Sched => self.on_sched(tid, to),
            Tm::Tasker => self.on_tasker(tid, to, BodyReader::new(body).int()? != 0),
            Tm::Hoster => self.on_hoster(tid, to, BodyReader::new(body).int()? != 0),
            Tm::Tracer => self.on_tracer(tid, to, body)?,
            Tm::ShmConn => {
                self.reply_int(to, PvmError::NotImpl.code());
            }
        }
        Ok(())
    }

    /// TM_CONFIG's answer: the members of the machine.
    pub(super) fn configuration(&self) -> HostList {
        let hosts: Vec<HostRecord> = self.hosts.iter().map(host_record).collect();
        let formats = hosts.iter().map(|host| host.signature).collect::<BTreeSet<_>>().len() as i32;
        HostList { formats, hosts, reasons: Vec::new() }
    }

    fn on_mstat(&mut self, to: ReplyTo, name: &str) {
        let host = if name == "." { Some(self.config.index) } else { self.hosts.by_name(name) };
        match host {
            None => self.reply_int(to, PvmError::NoHost.code()),
            Some(host) => self.ask(host, PeerRequest::Ping, Waiter::Mstat(to)),
        }
    }

    fn on_halt_request(&mut self, tid: Tid) {
        info!("halts the virtual machine");
        self.halting = Some(tid);
        self.tell(HostIndex::MASTER, DaemonMsg::Halt);
    }

    fn on_pstat(&mut self, to: ReplyTo, tid: Tid) {
        match tid.host() {
            Some(host) if tid.is_task() && self.is_reachable(host) => {
                self.ask(host, PeerRequest::TaskStatus { tid }, Waiter::Pstat(to));
            }
            _ => self.reply_int(to, PvmError::NoTask.code()),
        }
    }

    /// Sends a signal to a task anywhere; unknown tasks are ignored, as in PVM.
    pub(super) fn signal(&mut self, tid: Tid, signal: i32) {
        info!(task = %tid, signal, "signals");
        match tid.host() {
            Some(host) if host == self.config.index => self.signal_task(tid, signal),
            Some(host) if tid.is_task() => self.tell(host, DaemonMsg::Signal { tid, signal }),
            _ => debug!(%tid, signal, "signal to nobody"),
        }
    }

    fn on_mca(&mut self, conn: ConnId, body: &[u8]) -> Result<(), BodyError> {
        let mut reader = BodyReader::new(body);
        let count = reader.count(4)?;
        let receivers: BTreeSet<Tid> = reader.ints(count)?.into_iter().map(Tid::from_raw).collect();
        if let Some(state) = self.conns.get_mut(&conn) {
            state.multicast = receivers.into_iter().filter(|tid| tid.is_task()).collect();
        }
        Ok(())
    }

    /// The debug mask is the one tickle with an effect; the original's others dump internals to its log.
    fn on_tickle(&mut self, to: ReplyTo, body: &[u8]) -> Result<(), BodyError> {
        let mut reader = BodyReader::new(body);
        let count = reader.count(4)?;
        let results = match reader.ints(count)?[..] {
            [5, ..] => vec![self.debug_mask as i32],
            [6, mask, ..] => {
                self.debug_mask = mask as u32;
                vec![]
            }
            _ => vec![],
        };
        self.reply(to, encode_counted(Ok((results.len() as i32, &results))));
        Ok(())
    }

    fn on_host_sync(&mut self, to: ReplyTo, host: Tid) {
        match host.host().filter(|&index| self.hosts.contains(index)) {
            None => self.reply_int(to, PvmError::NoHost.code()),
            Some(index) => self.ask(index, PeerRequest::Clock, Waiter::HostSync(to)),
        }
    }

    fn on_set_opt(&mut self, tid: Tid, to: ReplyTo, body: &[u8]) -> Result<(), BodyError> {
        let mut reader = BodyReader::new(body);
        while !reader.rest().is_empty() {
            let which = reader.int()?;
            let value = u32::from_str_radix(reader.str()?.trim_start_matches("0x"), 16)
                .map_err(|_| BodyError::Text)? as i32;
            let Some(task) = self.tasks.get_mut(tid) else { break };
            let (mut output, mut trace) = (task.output, task.trace);
            match which {
                1 => output.tid = value,
                2 => output.context = value,
                3 => output.tag = value,
                4 => trace.tid = value,
                5 => trace.context = value,
                6 => trace.tag = value,
                _ => {}
            }
            if which <= 3 {
                self.change_sink(tid, output);
            } else {
                self.change_tracer(tid, trace);
            }
        }
        self.reply(to, Vec::new());
        Ok(())
    }

    /// TM_CONTEXT: 0 asks for a new one, anything else frees it (its owner only).
    fn on_context(&mut self, tid: Tid, to: ReplyTo, context: i32) {
        let answer = match context {
            0 => self.contexts.give(tid).ok_or(PvmError::OutOfRes),
            context if self.contexts.take_back(context, tid) => Ok(0),
            _ => Err(PvmError::NotFound),
        };
        self.reply_int(to, answer.unwrap_or_else(PvmError::code));
    }

    /// Announces a process that the caller starts itself, with the caller as the sink of what it spawns.
    fn on_adopt(&mut self, tid: Tid, to: ReplyTo, body: &[u8]) -> Result<(), BodyError> {
        let mut reader = BodyReader::new(body);
        let (context, tag) = (reader.int()?, reader.int()?);
        let output = Sink { tid: tid.raw(), context, tag };
        let adopted = self.announce(|task: &mut Task| task.output = output);
        let team = self.team_of_child(&[], tid.raw());
        if let (Some((new, _)), Some(team)) = (adopted, team) {
            self.enlist(new, &team);
        }
        if let (Some((new, _)), Some(task)) = (adopted, self.tasks.get_mut(tid)) {
            task.adopted.push(new);
        }
        let answer = match adopted {
            Some((tid, cookie)) => [tid.raw(), cookie.0],
            None => [PvmError::OutOfRes.code(), 0],
        };
        self.reply(to, BodyWriter::new().ints(answer).finish());
        Ok(())
    }
}

/// A host as the answers to TM_CONFIG and TM_ADDHOST show it.
pub(super) fn host_record(entry: &pvm_wire::daemon::HostEntry) -> HostRecord {
    HostRecord {
        tid: entry.index.host_tid().raw(),
        name: entry.name.clone(),
        arch: entry.arch.clone(),
        speed: entry.speed,
        signature: entry.signature,
    }
}
