//! What services, tracers and observers ask for, and what they are told.

use crate::Core;
use crate::addresses::{ReplyTo, ServiceTo, Waiter};
use crate::answers::host_record;
use crate::effect::Mark;
use crate::event::{Action, Cookie};
use crate::flow::Source;
use crate::master::Command;
use crate::observers::{End, QUEUED_MAX};
use crate::services::take_post;
use crate::spawn::{Exec, ExecTo, count_of};
use crate::tasks::{Origin, Task, Tasks};
use crate::tracer::Stamp;
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::calls::Request;
use pvm_wire::calls::hosts::AddHosts;
use pvm_wire::calls::roles::{BecomeManager, BecomeTasker, BecomeTracer, ManagerReply};
use pvm_wire::calls::state::{DiscardLogs, IncidentRequest};
use pvm_wire::codes::Sm;
use pvm_wire::daemon::{DaemonMsg, HostEntry, MasterRequest};
use pvm_wire::incident::signal_of;
use pvm_wire::output::OutputEvent;
use pvm_wire::services::{ExecRequest, StartTask, TaskEnded, decode_started_hosts};
use pvm_wire::spawn::Sink;
use pvm_wire::{HostIndex, Message, PvmError, Tid};
use std::ffi::{OsStr, OsString};
use tracing::{info, warn};

impl Core {
    /// TM_SCHED: the sender is the resource manager of this host's tasks, and of hosts that are added from now on.
    pub(crate) fn on_sched(&mut self, tid: Tid, to: ReplyTo) {
        let Some(master) = self.hosts.master().and_then(|master| self.hosts.get(master)) else {
            return self.reply_error(to, PvmError::DSysErr);
        };
        let before = self.services.scheduler.unwrap_or(Tid::NONE);
        self.reply_to::<BecomeManager>(to, &ManagerReply { before, master: host_record(master) });
        info!(%tid, "is the resource manager");
        self.services.scheduler = Some(tid);
    }

    /// TM_TASKER: one at a time on each host.
    pub(crate) fn on_tasker(&mut self, tid: Tid, to: ReplyTo, register: bool) {
        info!(%tid, register, "tasker");
        let result = take_post(&mut self.services.tasker, tid, register);
        self.reply_done::<BecomeTasker>(to, result);
    }

    /// TM_HOSTER: one at a time, and on the master's host.
    pub(crate) fn on_hoster(&mut self, tid: Tid, to: ReplyTo, register: bool) {
        info!(%tid, register, "hoster");
        if self.is_master() {
            self.command(Command::Hoster { tid, register, to });
        } else {
            self.reply_error(to, PvmError::HostrNMstr);
        }
    }

    /// A newcomer learns who the master's resource manager is.
    pub(crate) fn tell_services(&mut self, host: HostIndex) {
        if let Some(tid) = self.services.scheduler {
            self.tell(host, DaemonMsg::Scheduler { tid });
        }
    }

    /// What one of them says to this daemon. Nobody else is heard.
    pub(crate) fn on_service_message(&mut self, what: Sm, message: &Message) {
        let src = message.src;
        let to = ServiceTo { tid: src, context: message.header.context, wait_id: message.header.wait_id };
        let done = match what {
            Sm::Exec if self.is_scheduler(src) => self.on_sm_exec(to, &message.body),
            Sm::Add if self.is_scheduler(src) => self.on_sm_add(to, &message.body),
            Sm::HandOff if self.is_scheduler(src) => self.on_sm_hand_off(&message.body),
            Sm::TaskX if self.services.tasker == Some(src) => self.on_sm_task_ended(&message.body),
            Sm::StHostAck if self.is_hoster(src) => self.on_sm_hosts_started(&message.body),
            _ => return warn!(%src, ?what, "message of a service that is none: ignored"),
        };
        if let Err(error) = done {
            warn!(%src, ?what, %error, "malformed message of a service");
            let bad = PvmError::BadParam.code().to_be_bytes().to_vec();
            match what {
                Sm::Exec => self.answer_service(to, Sm::ExecAck, bad),
                Sm::Add => self.answer_service(to, Sm::AddAck, bad),
                Sm::StHostAck => self.command(Command::HosterUnreadable),
                _ => {}
            }
        }
    }

    fn is_hoster(&self, tid: Tid) -> bool {
        self.master_state().is_some_and(|master| master.is_hoster(tid))
    }

    fn is_scheduler(&self, tid: Tid) -> bool {
        self.services.scheduler == Some(tid)
    }

    fn on_sm_exec(&mut self, to: ServiceTo, body: &[u8]) -> Result<(), BodyError> {
        let ExecRequest { parent, spawn, first, .. } = ExecRequest::decode(body)?;
        // The number of the last task has to be an `int`, too.
        let fits = first.checked_add(spawn.count).is_some();
        let first = u32::try_from(first).ok().filter(|_| fits).ok_or(PvmError::BadParam);
        match count_of(&spawn).and_then(|count| Ok((count, first?))) {
            Ok((count, first)) => self.on_exec(ExecTo::Service(to), None, count, first, parent, spawn),
            Err(error) => self.answer_service(to, Sm::ExecAck, error.code().to_be_bytes().to_vec()),
        }
        Ok(())
    }

    fn on_sm_add(&mut self, to: ServiceTo, body: &[u8]) -> Result<(), BodyError> {
        let AddHosts { hosts } = Request::decode(body)?;
        self.ask_master(MasterRequest::AddHosts { hosts }, Waiter::ServiceAdd(to));
        Ok(())
    }

    fn on_sm_hand_off(&mut self, body: &[u8]) -> Result<(), BodyError> {
        let tid = Tid::from_raw(BodyReader::new(body).int()?);
        info!(%tid, "is the resource manager from now on");
        self.services.scheduler = tid.is_task().then_some(tid);
        Ok(())
    }

    /// The tasker reports the end of a task that it has started.
    fn on_sm_task_ended(&mut self, body: &[u8]) -> Result<(), BodyError> {
        let TaskEnded { tid, status } = TaskEnded::decode(body)?;
        if self.tasks.get(tid).is_some_and(|task| task.origin == Origin::Tasker) {
            self.end_after_grace(tid, status);
        }
        Ok(())
    }

    fn on_sm_hosts_started(&mut self, body: &[u8]) -> Result<(), BodyError> {
        for (host, line) in decode_started_hosts(body)? {
            self.command(Command::Hosted { host, line });
        }
        Ok(())
    }

    /// The driver has found what the tasker is to start, or not.
    pub(crate) fn on_located(
        &mut self,
        cookies: Vec<Cookie>,
        result: Result<(OsString, Vec<OsString>), (PvmError, String)>,
    ) {
        let (path, env) = match (result, self.services.tasker) {
            (Ok(found), Some(_)) => found,
            (Ok(_), None) => return self.not_started(cookies, PvmError::OutOfRes, "the tasker is gone"),
            (Err((error, reason)), _) => return self.not_started(cookies, error, &reason),
        };
        for cookie in cookies {
            self.hand_to_tasker(cookie, &path, &env);
        }
    }

    fn not_started(&mut self, cookies: Vec<Cookie>, error: PvmError, reason: &str) {
        for cookie in cookies {
            self.on_process_started(cookie, Err((error, reason.to_owned())));
        }
    }

    fn hand_to_tasker(&mut self, cookie: Cookie, path: &OsStr, env: &[OsString]) {
        let Some(task) = self.tasks.by_cookie(cookie).and_then(|tid| self.tasks.get_mut(tid)) else { return };
        let (tid, Some((exec, number))) = (task.tid, task.report.take_start()) else { return };
        if let Some(start) = self.node.exec(exec).and_then(Exec::handed) {
            let request = StartTask {
                tid,
                flags: start.spawn.flags,
                path: path.to_owned(),
                args: start.spawn.args.clone(),
                cookie: cookie.0,
                env: env.iter().chain(&start.spawn.env).cloned().collect(),
                instance: start.first as i32 + number as i32,
                here: start.count as i32,
                total: start.spawn.count,
            };
            self.send_service(self.services.tasker, Sm::StTask, request.encode());
        }
        self.observed_begin(tid);
        self.output_started(cookie);
        self.exec_result(Some((exec, number)), Ok(tid));
    }

    /// A task has enrolled that nobody announced.
    pub(crate) fn service_task_enrolled(&mut self, tid: Tid) {
        let body = BodyWriter::new().int(1).int(tid.raw()).finish();
        self.send_service(self.services.scheduler, Sm::ExecAck, body);
    }

    /// A task is over: the resource manager hears of it, unless it was the one, or a tasker.
    pub(crate) fn service_task_ended(&mut self, task: &Task, status: i32) {
        if self.services.scheduler == Some(task.tid) {
            info!(tid = %task.tid, "the resource manager is gone");
            self.services.scheduler = None;
        }
        if self.services.tasker == Some(task.tid) {
            info!(tid = %task.tid, "the tasker is gone");
            self.services.tasker = None;
            let unheard = self.tasks.iter().filter(|task| task.origin == Origin::Tasker && !task.enrolled);
            for tid in unheard.map(|task| task.tid).collect::<Vec<_>>() {
                self.end_task(tid);
            }
        }
        if self.is_hoster(task.tid) {
            self.command(Command::HosterEnded(task.tid));
        }
        if let Some(cookie) = task.cookie.filter(|_| task.origin == Origin::Tasker) {
            self.on_output_end(cookie);
        }
        if !task.manager {
            let body = TaskEnded { tid: task.tid, status }.encode();
            self.send_service(self.services.scheduler, Sm::TaskX, body);
        }
    }

    /// A host is gone, and perhaps the resource manager with it.
    pub(crate) fn service_host_gone(&mut self, host: HostIndex) {
        match self.services.scheduler {
            Some(tid) if self.hosts.place(tid) == Some(host) => self.services.scheduler = None,
            Some(tid) if self.hosts.lives_here(tid) => {
                let body = BodyWriter::new().int(host.host_tid().raw()).finish();
                self.send_service(Some(tid), Sm::HostX, body);
            }
            _ => {}
        }
    }

    pub(crate) fn answer_service(&mut self, to: ServiceTo, what: Sm, body: Vec<u8>) {
        self.send_marked(Source::Daemon, to.tid, Mark::answer(to, what), body);
    }

    fn send_service(&mut self, to: Option<Tid>, what: Sm, body: Vec<u8>) {
        if let Some(tid) = to {
            self.send_marked(Source::Daemon, tid, Mark { tag: what.tag(), ..Mark::default() }, body);
        }
    }
}

/// Tracers.
impl Core {
    /// TM_TRACER: one at a time in the whole machine.
    pub(crate) fn on_tracer(&mut self, tid: Tid, to: ReplyTo, request: BecomeTracer) {
        info!(%tid, register = request.terms.is_some(), "tracer");
        let result = self.effects(|core, out| core.tracers.register(tid, request.terms, out));
        self.reply_done::<BecomeTracer>(to, result);
    }

    fn stamp(&self, tid: Tid, sink: Sink) -> Stamp {
        Stamp { time: self.time_of_day(), tid, sink }
    }

    /// A task that nobody has announced enrols: its sinks are the registered tracer's.
    pub(crate) fn offer_task_to_tracer(&mut self, tid: Tid) {
        let (trace, output) = self.tracers.sinks();
        if let Some(task) = self.tasks.get_mut(tid).filter(|task| task.cookie.is_none()) {
            task.trace = trace.unwrap_or(task.trace);
            task.output = output.unwrap_or(task.output);
        }
    }

    /// Such a task has enrolled.
    pub(crate) fn trace_enrolled(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid) else { return };
        let (at, output, name) = (self.stamp(tid, task.trace), task.output, task.shown_name().to_owned());
        self.effects(|core, out| core.tracers.task_begun(at, -1, -1, &name, out));
        self.send_output(Source::Daemon, output, tid, OutputEvent::Started(-1));
    }

    /// A child runs.
    pub(crate) fn trace_started(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid) else { return };
        let (at, parent, flags) = (self.stamp(tid, task.trace), task.parent, task.spawn_flags);
        let name = task.name.clone();
        self.effects(|core, out| core.tracers.task_begun(at, parent, flags, &name, out));
    }

    /// A task was spawned from here.
    pub(crate) fn trace_spawned(&mut self, sink: Sink, tid: Tid, parent: i32) {
        let at = self.stamp(tid, sink);
        self.effects(|core, out| core.tracers.task_spawned(at, parent, out));
    }

    /// A task is over.
    pub(crate) fn trace_ended(&mut self, task: &Task, status: i32) {
        let at = self.stamp(task.tid, task.trace);
        self.effects(|core, out| core.tracers.task_ended(at, status, out));
    }

    /// A task's tracer changes (TM_SETOPT): the old one sees an end, the new one a start.
    pub(crate) fn change_tracer(&mut self, tid: Tid, sink: Sink) {
        let Some(task) = self.tasks.get_mut(tid) else { return };
        let old = std::mem::replace(&mut task.trace, sink);
        let parent = task.parent;
        if old != sink {
            let at = self.stamp(tid, old);
            self.effects(|core, out| core.tracers.trace_ended(at, 0, out));
            self.trace_spawned(sink, tid, parent);
            self.trace_started(tid);
        }
    }
}

/// Observers.
impl Core {
    /// TMX_INCIDENTS.
    pub(crate) fn on_incidents_wanted(&mut self, tid: Tid, to: ReplyTo, request: IncidentRequest) {
        self.effects(|core, out| {
            core.observers.add(tid, request, out);
            out.reply::<IncidentRequest>(to, &());
        });
    }

    /// TMX_DISCARD_LOGS.
    pub(crate) fn on_discard_logs_request(&mut self, to: ReplyTo) {
        self.tell_all(self.hosts.others(), &DaemonMsg::DiscardLogs);
        self.out.act(Action::DiscardLog);
        self.reply_to::<DiscardLogs>(to, &());
    }

    /// A host observes the tasks here, or does so no more.
    pub(crate) fn on_observe(&mut self, host: HostIndex, on: bool) {
        // What it has sent before its end may come when it is out already.
        if self.hosts.known(host).is_none() {
            return;
        }
        let running = self.tasks.iter().filter(|task| task.is_shown() && task.pid != 0);
        let tasks: Vec<(Tid, String)> = running.map(|task| (task.tid, name_of(task))).collect();
        self.effects(|core, out| core.observers.on_observe(host, on, tasks, out));
    }

    /// A task of this host runs.
    pub(crate) fn observed_begin(&mut self, tid: Tid) {
        self.effects(|core, out| {
            if let Some(task) = core.tasks.get(tid).filter(|task| task.is_shown()) {
                core.observers.task_begun(tid, || name_of(task), out);
            }
        });
    }

    /// A task of this host is over.
    pub(crate) fn observed_end(&mut self, task: &Task, status: i32) {
        if task.manager || task.pid == 0 {
            return;
        }
        let intended = task.signalled.is_some() && task.signalled == signal_of(status);
        let end = End { tid: task.tid, name: name_of(task), status, intended };
        self.effects(|core, out| core.observers.task_ended(end, reads(&core.tasks), out));
    }

    /// A task of another host is over.
    pub(crate) fn on_task_over(&mut self, tid: Tid, status: i32, intended: bool) {
        self.effects(|core, out| core.observers.on_task_over(tid, status, intended, reads(&core.tasks), out));
    }

    /// A host is out, and all that ran there.
    pub(crate) fn observed_host_gone(&mut self, entry: &HostEntry, reason: &str) {
        self.effects(|core, out| {
            core.observers.host_gone(entry, reason, &core.hosts.places, reads(&core.tasks), out);
        });
    }
}

/// Which observers read what they are told.
fn reads(tasks: &Tasks) -> impl Fn(Tid) -> bool {
    |tid| tasks.get(tid).is_some_and(|task| task.queued < QUEUED_MAX)
}

fn name_of(task: &Task) -> String {
    task.shown_name().to_string_lossy().into_owned()
}
