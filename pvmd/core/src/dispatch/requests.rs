//! What tasks ask of their daemon: one handler per TM_ message.

use crate::addresses::{ReplyTo, Waiter};
use crate::answers::{host_record, start_up_results};
use crate::event::ConnId;
use crate::flow::Source;
use crate::master::Command;
use crate::tasks::Task;
use crate::{Core, Life};
use pvm_wire::body::BodyError;
use pvm_wire::calls::Request;
use pvm_wire::calls::certificate::Certify;
use pvm_wire::calls::enrolment::GetOptions;
use pvm_wire::calls::hosts::{
    AddHosts, Adding, Additions, Config, DeleteHosts, HostClock, HostList, HostRecord, HostStatus, StartUp,
    Tickle,
};
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::calls::moves::Move;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::owner::Owner;
use pvm_wire::calls::roles::{BecomeHoster, BecomeTasker, BecomeTracer};
use pvm_wire::calls::sharing::Meet;
use pvm_wire::calls::spawn::CancelBatch;
use pvm_wire::calls::tasks::{
    Adopt, Adopted, Context, ListTasks, Multicast, SendSignal, SetSinks, SinkItem, TaskStatus,
};
use pvm_wire::calls::turns::{
    Activity, Epoch, History, JoinTeam, NoticesTaken, Page, Traffic, TrafficByHost, Turns, Waiting,
};
use pvm_wire::codes::{BATCH_TAG, Sm, Tm, Tmx};
use pvm_wire::daemon::{Blob, DaemonMsg, MasterRequest, PeerRequest, ToMaster};
use pvm_wire::queue::QueueRequest;
use pvm_wire::spawn::{Sink, SpawnRequest};
use pvm_wire::{Message, PvmError, Tid, group};
use std::collections::BTreeSet;
use tracing::{debug, info, warn};

impl Core {
    /// A whole message to this daemon from a local connection.
    pub(crate) fn on_request(&mut self, conn: ConnId, message: &Message) {
        let header = &message.header;
        let to = ReplyTo { conn, tag: header.tag, context: header.context, wait_id: header.wait_id };
        let Some(tid) = self.tasks.conns.get(&conn).and_then(crate::tasks::Conn::tid) else {
            return match (Tm::from_tag(header.tag), Tmx::from_tag(header.tag)) {
                (Some(Tm::Connect), _) => self.on_connect(to, &message.body),
                (Some(Tm::Conn2), _) => self.on_conn2(to, &message.body),
                (_, Some(Tmx::Enrol)) => self.on_enrol(to, &message.body),
                (_, Some(Tmx::ChannelEnrol)) => self.on_channel_enrolment(to, &message.body),
                // Refused here, where PVM leaves the connection dangling.
                _ => self.disconnect(conn, &format!("message {:#x} before enrolment", header.tag)),
            };
        };
        if header.tag == BATCH_TAG || Sm::from_tag(header.tag).is_some() {
            return self.on_system_message(message);
        }
        let body = &message.body[..];
        let handled = match (Tm::from_tag(header.tag), Tmx::from_tag(header.tag)) {
            (Some(request), _) => self.on_tm(request, tid, to, body),
            (_, Some(request)) => self.on_tmx(request, tid, to, body),
            _ => {
                self.on_unknown(to);
                Ok(())
            }
        };
        // PVM leaves the sender of a malformed request waiting for ever; here it is told.
        if let Err(error) = handled {
            warn!(tag = format!("{:#x}", header.tag), %error, "malformed request");
            self.reply_error(to, PvmError::BadParam);
        }
    }

    fn on_unknown(&mut self, to: ReplyTo) {
        info!(tag = to.tag, "unknown request");
        self.reply_error(to, PvmError::NotImpl);
    }

    /// A request that only this system's library makes.
    fn on_tmx(&mut self, request: Tmx, tid: Tid, to: ReplyTo, body: &[u8]) -> Result<(), BodyError> {
        match request {
            // An enrolled task need not do it again.
            Tmx::Enrol | Tmx::ChannelEnrol => self.on_unknown(to),
            Tmx::StartUp if self.is_master() => {
                self.command(Command::AwaitStartUp(to));
            }
            Tmx::StartUp => self.reply_to::<StartUp>(to, &start_up_results(&[])),
            Tmx::Adding => match self.hosts.master() {
                Some(master) => self.ask(master, PeerRequest::Adding, Waiter::Adding(to)),
                None => self.reply_to::<Adding>(to, &Additions::default()),
            },
            Tmx::Rows => match self.hosts.master() {
                Some(master) => self.ask(master, PeerRequest::Rows, Waiter::Rows(to)),
                None => self.reply_error(to, PvmError::HostFail),
            },
            Tmx::Owner => self.on_owner_asked(to, &Owner::decode(body)?),
            Tmx::Dump => self.on_dump(to),
            Tmx::Adopt => self.on_adopt(tid, to, &Adopt::decode(body)?),
            Tmx::Share => self.on_share(to.conn),
            Tmx::Meet => self.on_meet(tid, Meet::decode(body)?.other),
            Tmx::Known => self.on_known(to.conn),
            Tmx::Queue => self.on_queue(tid, to, QueueRequest::decode(body)?),
            Tmx::Batches => self.on_list_batches(to),
            Tmx::CancelBatch => self.on_cancel_batch(to, CancelBatch::decode(body)?.batch),
            Tmx::NoticesTaken => {
                let count = NoticesTaken::decode(body)?.count;
                self.home(|home, at| home.on_notices_taken(tid, count, at));
            }
            Tmx::Team => {
                let result = self.on_team(tid, &JoinTeam::decode(body)?.name);
                self.reply_done::<JoinTeam>(to, result);
            }
            Tmx::Turns => self.ask_of_turns(to, Turns::decode(body)?.host, PeerRequest::Turns),
            Tmx::History => {
                let History { host, since } = Request::decode(body)?;
                self.ask_of_turns(to, host, PeerRequest::History { since });
            }
            Tmx::Waiting => {
                let receivers = Waiting::decode(body)?.receivers;
                self.teams(|teams, tasks, at| teams.on_waiting(tid, receivers, tasks, at));
            }
            Tmx::Asleep => self.teams(|teams, tasks, at| teams.on_sleep(tid, true, tasks, at)),
            Tmx::Awake => self.teams(|teams, tasks, at| teams.on_sleep(tid, false, tasks, at)),
            Tmx::Activity => self.on_activity(tid, &Activity::decode(body)?),
            Tmx::Traffic => self.on_task_traffic(tid, Traffic::decode(body)?),
            Tmx::TrafficByHost => self.on_network_traffic(tid, TrafficByHost::decode(body)?),
            Tmx::Epoch => {
                let epoch = Epoch::decode(body)?;
                self.teams(|teams, tasks, at| teams.on_told_epoch(tid, &epoch, tasks, at));
            }
            Tmx::Page => self.on_page_wanted(tid, Page::decode(body)?.direct),
            Tmx::Incidents => self.on_incidents_wanted(tid, to, Request::decode(body)?),
            Tmx::DiscardLogs => self.on_discard_logs_request(to),
            Tmx::Loads => self.on_list_loads(to),
            Tmx::Jobs => self.on_job_call(to, AskJobs::decode(body)?.0),
            Tmx::Move => self.on_move_asked(to, &Move::decode(body)?),
            Tmx::Movable => self.on_movable(tid),
            Tmx::Freeze => self.on_freeze(tid, to),
            Tmx::Arrive => self.on_arrive(tid, to),
            Tmx::StayHere => self.on_stays(tid, Request::decode(body)?),
            Tmx::Certify => self.on_certificate_wanted(to, Certify::decode(body)?.0),
        }
        Ok(())
    }

    fn on_tm(&mut self, request: Tm, tid: Tid, to: ReplyTo, body: &[u8]) -> Result<(), BodyError> {
        match request {
            Tm::Connect | Tm::Conn2 => self.disconnect(to.conn, "enrolment twice"),
            Tm::Exit => self.on_exit(to),
            Tm::AddHost => {
                let AddHosts { hosts } = Request::decode(body)?;
                info!(hosts = hosts.join(", "), "adds hosts");
                self.ask_master(MasterRequest::AddHosts { hosts }, Waiter::AddHosts(to));
            }
            Tm::DelHost => {
                let DeleteHosts { names } = Request::decode(body)?;
                info!(hosts = names.join(", "), "deletes hosts");
                self.ask_master(MasterRequest::DeleteHosts { names }, Waiter::DeleteHosts(to));
            }
            Tm::Config => self.reply_to::<Config>(to, &self.configuration()),
            Tm::Mstat => self.on_mstat(to, &HostStatus::decode(body)?.name),
            Tm::Halt => self.on_halt_request(tid),
            Tm::Tickle => self.on_tickle(to, &Tickle::decode(body)?),
            Tm::Spawn => self.on_spawn(tid, to, SpawnRequest::decode(body)?),
            Tm::Pstat => self.on_pstat(to, TaskStatus::decode(body)?.tid),
            Tm::SendSig => {
                let SendSignal { tid, signal } = Request::decode(body)?;
                self.reply_to::<SendSignal>(to, &());
                self.signal(tid, signal);
            }
            Tm::Task => self.on_task_list(to, &ListTasks::decode(body)?),
            Tm::Mca => self.on_mca(to.conn, Multicast::decode(body)?),
            Tm::Notify => self.on_notify(tid, &NotifyRequest::decode(body)?),
            Tm::Db => {
                let what = MasterRequest::Mailbox { from: tid, body: Blob(body.to_vec().into()) };
                self.ask_master(what, Waiter::Mailbox(to));
                self.hold_back_from_keeper(Source::Conn(to.conn));
            }
            Tm::HostSync => self.on_host_sync(to, HostClock::decode(body)?.host),
            Tm::SetOpt => self.on_set_opt(tid, to, &SetSinks::decode(body)?),
            Tm::GetOpt => {
                if let Some(options) = self.options_of(tid) {
                    self.reply_to::<GetOptions>(to, &options);
                }
            }
            Tm::Context => self.on_context(tid, to, Context::decode(body)?.context),
            Tm::Sched => self.on_sched(tid, to),
            Tm::Tasker => self.on_tasker(tid, to, BecomeTasker::decode(body)?.register),
            Tm::Hoster => self.on_hoster(tid, to, BecomeHoster::decode(body)?.register),
            Tm::Tracer => self.on_tracer(tid, to, BecomeTracer::decode(body)?),
            Tm::ShmConn => {
                self.reply_error(to, PvmError::NotImpl);
            }
        }
        Ok(())
    }

    /// TM_CONFIG's answer: the members of the machine.
    pub(crate) fn configuration(&self) -> HostList {
        let hosts: Vec<HostRecord> = self.hosts.iter().map(host_record).collect();
        let formats = hosts.iter().map(|host| host.signature).collect::<BTreeSet<_>>().len() as i32;
        HostList { formats, hosts, reasons: Vec::new() }
    }

    fn on_mstat(&mut self, to: ReplyTo, name: &str) {
        let host = if name == "." { Some(self.config.index) } else { self.hosts.by_name(name) };
        match host {
            None => self.reply_error(to, PvmError::NoHost),
            Some(host) => self.ask(host, PeerRequest::Ping, Waiter::Mstat(to)),
        }
    }

    fn on_halt_request(&mut self, tid: Tid) {
        info!("halts the virtual machine");
        self.life = Life::Halting { by: tid };
        self.tell_master(ToMaster::Halt);
    }

    fn on_pstat(&mut self, to: ReplyTo, tid: Tid) {
        match self.hosts.place(tid) {
            _ if tid == group::keeper() => self.reply_to::<TaskStatus>(to, &()),
            Some(host) if tid.is_task() && self.hosts.is_reachable(host) => {
                self.ask(host, PeerRequest::TaskStatus { tid }, Waiter::Pstat(to));
            }
            _ => self.reply_error(to, PvmError::NoTask),
        }
    }

    /// Sends a signal to a task anywhere; unknown tasks are ignored, as in PVM.
    pub(crate) fn signal(&mut self, tid: Tid, signal: i32) {
        info!(task = %tid, signal, "signals");
        match self.hosts.place(tid) {
            Some(host) if host == self.config.index => self.signal_task(tid, signal),
            Some(host) if tid.is_task() => self.tell(host, DaemonMsg::Signal { tid, signal }),
            _ => debug!(%tid, signal, "signal to nobody"),
        }
    }

    fn on_mca(&mut self, conn: ConnId, receivers: Multicast) {
        if let Some(state) = self.tasks.conns.get_mut(&conn) {
            let receivers: BTreeSet<Tid> = receivers.tids.into_iter().filter(|tid| tid.is_task()).collect();
            state.multicast = receivers.into_iter().collect();
        }
    }

    /// The debug mask is the one tickle with an effect; the original's others dump internals to its log.
    fn on_tickle(&mut self, to: ReplyTo, tickle: &Tickle) {
        let results = match tickle.args[..] {
            [5, ..] => vec![self.config.debug_mask as i32],
            [6, mask, ..] => {
                self.config.debug_mask = mask as u32;
                vec![]
            }
            _ => vec![],
        };
        self.reply_to::<Tickle>(to, &results);
    }

    fn on_host_sync(&mut self, to: ReplyTo, host: Tid) {
        match host.host().filter(|&index| self.hosts.contains(index)) {
            None => self.reply_error(to, PvmError::NoHost),
            Some(index) => self.ask(index, PeerRequest::Clock, Waiter::HostSync(to)),
        }
    }

    fn on_set_opt(&mut self, tid: Tid, to: ReplyTo, sinks: &SetSinks) {
        for &(item, value) in &sinks.items {
            let Some(task) = self.tasks.get_mut(tid) else { break };
            let (output, trace) = (task.output, task.trace);
            match item {
                Some(SinkItem::OutputTid) => self.change_sink(tid, Sink { tid: value, ..output }),
                Some(SinkItem::OutputContext) => self.change_sink(tid, Sink { context: value, ..output }),
                Some(SinkItem::OutputTag) => self.change_sink(tid, Sink { tag: value, ..output }),
                Some(SinkItem::TraceTid) => self.change_tracer(tid, Sink { tid: value, ..trace }),
                Some(SinkItem::TraceContext) => self.change_tracer(tid, Sink { context: value, ..trace }),
                Some(SinkItem::TraceTag) => self.change_tracer(tid, Sink { tag: value, ..trace }),
                None => {}
            }
        }
        self.reply_to::<SetSinks>(to, &());
    }

    /// TM_CONTEXT: 0 asks for a new one, anything else frees it (its owner only).
    fn on_context(&mut self, tid: Tid, to: ReplyTo, context: i32) {
        let answer = match context {
            0 => self.tasks.contexts.give(tid).ok_or(PvmError::OutOfRes),
            context if self.tasks.contexts.take_back(context, tid) => Ok(0),
            _ => Err(PvmError::NotFound),
        };
        match answer {
            Ok(context) => self.reply_to::<Context>(to, &context),
            Err(error) => self.reply_error(to, error),
        }
    }

    /// Announces a process that the caller starts itself, with the caller as the sink of what it spawns.
    fn on_adopt(&mut self, tid: Tid, to: ReplyTo, &Adopt { context, tag }: &Adopt) {
        let output = Sink { tid: tid.raw(), context, tag };
        let adopted = self.announce(|task: &mut Task| task.output = output);
        let team = self.teams.of_child(&[], tid.raw(), &self.tasks);
        if let (Some((new, _)), Some(team)) = (adopted, team) {
            self.enlist(new, &team);
        }
        if let (Some((new, _)), Some(task)) = (adopted, self.tasks.get_mut(tid)) {
            task.adopted.push(new);
        }
        match adopted {
            Some((tid, cookie)) => self.reply_to::<Adopt>(to, &Adopted { tid, cookie: cookie.0 }),
            None => self.reply_error(to, PvmError::OutOfRes),
        }
    }
}
