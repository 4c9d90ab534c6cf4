//! How a process becomes a task, and how a task ends.

use crate::Core;
use crate::addresses::ReplyTo;
use crate::event::{Action, Attachment, ConnId, Cookie, Program, Used};
use crate::flow::Source;
use crate::spawn::{Node, SIGKILL, SIGTERM};
use crate::tasks::{Conn, ConnState, Origin, Task};
use crate::timers::Timer;
use pvm_wire::Tid;
use pvm_wire::calls::enrolment::{
    Admission, ChannelEnrol, Conn2, Connect, ConnectReply, Enrol, EnrolReply, Exit, Extension, Introduction,
};
use pvm_wire::calls::{Call, Request};
use pvm_wire::codes::{EXTENSION_VERSION, TASK_PROTOCOL};
use pvm_wire::encoding::DataSignature;
use pvm_wire::limits::FRAGMENT_SIZE;
use std::net::IpAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tracing::{debug, info, warn};

/// How long after its process's end a task may still have a connection.
const EXIT_GRACE: Duration = Duration::from_secs(1);

impl Core {
    pub(crate) fn on_task_connected(&mut self, conn: ConnId) {
        self.tasks.conns.insert(conn, Conn::new(conn));
    }

    /// A process has the other end of this connection.
    pub(crate) fn on_channel_open(&mut self, conn: ConnId, cookie: Cookie) {
        let mut state = Conn::new(conn);
        if let Some(task) = self.tasks.by_cookie(cookie).and_then(|tid| self.tasks.get_mut(tid)) {
            task.channel = Some(conn);
            state.state = ConnState::Inherited(task.tid);
        }
        self.tasks.conns.insert(conn, state);
    }

    /// TM_CONNECT. The credentials of the socket have shown each side the identity of the other, which is enough for a library of ours.
    /// For another one the driver is asked for the files by which both sides prove themselves.
    pub(crate) fn on_connect(&mut self, to: ReplyTo, body: &[u8]) {
        let Some(conn) = self.tasks.conns.get_mut(&to.conn) else { return };
        let request = match Connect::decode(body) {
            Ok(request) if matches!(conn.state, ConnState::Fresh) => request,
            Ok(_) => return self.disconnect(to.conn, "TM_CONNECT twice"),
            Err(error) => return self.disconnect(to.conn, &format!("TM_CONNECT: {error}")),
        };
        if request.version != TASK_PROTOCOL {
            info!(version = request.version, expected = TASK_PROTOCOL, "library of another version refused");
            return self.refuse(to);
        }
        conn.extended = request.extension.0 == Some(EXTENSION_VERSION);
        if let Some(version) = request.extension.0.filter(|_| !conn.extended) {
            info!(version, expected = EXTENSION_VERSION, "library of another version speaks PVM 3.4");
        }
        if conn.extended {
            return self.open_enrolment(to, String::new());
        }
        conn.state = ConnState::Opening(to);
        self.out.act(Action::OpenAuth { conn: to.conn, task_file: request.auth_file });
    }

    /// The library may go on, after it has written into this file, if one is named.
    fn open_enrolment(&mut self, to: ReplyTo, auth_file: String) {
        let Some(conn) = self.tasks.conns.get_mut(&to.conn) else { return };
        conn.state = ConnState::Opened;
        let extension = Extension(conn.extended.then_some(EXTENSION_VERSION));
        let reply = ConnectReply { version: TASK_PROTOCOL, accepted: true, auth_file, extension };
        self.reply_to::<Connect>(to, &reply);
    }

    pub(crate) fn on_auth_opened(&mut self, conn: ConnId, result: Result<String, String>) {
        let Some(state) = self.tasks.conns.get(&conn) else { return };
        let ConnState::Opening(to) = state.state else { return };
        match result {
            Ok(auth_file) => self.open_enrolment(to, auth_file),
            Err(reason) => {
                warn!(%reason, "enrolment refused: the task's file cannot be written");
                self.refuse(to);
            }
        }
    }

    fn refuse(&mut self, to: ReplyTo) {
        let reply = ConnectReply {
            version: TASK_PROTOCOL,
            accepted: false,
            auth_file: String::new(),
            extension: Extension(None),
        };
        self.reply_to::<Connect>(to, &reply);
        self.drop_conn(to.conn);
    }

    /// TM_CONN2: the driver is asked whether the task could write our file, if it needs one.
    pub(crate) fn on_conn2(&mut self, to: ReplyTo, body: &[u8]) {
        let Some(conn) = self.tasks.conns.get_mut(&to.conn) else { return };
        match Conn2::decode(body) {
            Ok(Conn2 { process }) if matches!(conn.state, ConnState::Opened) && conn.extended => {
                self.admit(to, &process);
            }
            Ok(Conn2 { process }) if matches!(conn.state, ConnState::Opened) => {
                conn.state = ConnState::Checking(to, process);
                self.out.act(Action::CheckAuth { conn: to.conn });
            }
            Ok(_) => self.disconnect(to.conn, "TM_CONN2 out of turn"),
            Err(error) => self.disconnect(to.conn, &format!("TM_CONN2: {error}")),
        }
    }

    pub(crate) fn on_auth_checked(&mut self, conn: ConnId, proven: bool) {
        let Some(state) = self.tasks.conns.get_mut(&conn) else { return };
        let ConnState::Checking(to, process) = &state.state else { return };
        let (to, process) = (*to, process.clone());
        state.state = ConnState::Opened;
        if !proven {
            warn!(pid = process.pid, "enrolment refused: the task has not written our file");
            self.reply_to::<Conn2>(to, &Admission(None));
            return self.drop_conn(conn);
        }
        self.admit(to, &process);
    }

    /// Has a program started once per cookie; each finds what it has to know in the channel that it inherits.
    pub(crate) fn start_processes(&mut self, cookies: Vec<Cookie>, program: Program) {
        let greeting = |&cookie: &Cookie| {
            let options = self.tasks.by_cookie(cookie).and_then(|tid| self.options_of(tid));
            options.map(|options| Enrol::encode_reply(&Admission(Some(options)))).unwrap_or_default()
        };
        let greetings = cookies.iter().map(greeting).collect();
        self.out.act(Action::Start { cookies, greetings, program });
    }

    /// The whole enrolment at once, by a library of ours: the driver lets nobody connect whose credentials are not ours, and
    /// the library has looked at the daemon's, so no files are needed.
    pub(crate) fn on_enrol(&mut self, to: ReplyTo, body: &[u8]) {
        let Some(conn) = self.tasks.conns.get_mut(&to.conn) else { return };
        match Enrol::decode(body) {
            Ok(Enrol { process }) if matches!(conn.state, ConnState::Fresh) => {
                conn.extended = true;
                self.admit(to, &process);
            }
            Ok(_) => self.disconnect(to.conn, "an enrolment out of turn"),
            Err(error) => self.disconnect(to.conn, &format!("enrolment: {error}")),
        }
    }

    /// A process has read what it has to know in the channel that it has inherited.
    pub(crate) fn on_channel_enrolment(&mut self, to: ReplyTo, body: &[u8]) {
        let Some(conn) = self.tasks.conns.get_mut(&to.conn) else { return };
        let ConnState::Inherited(tid) = conn.state else {
            return self.disconnect(to.conn, "it has not inherited this connection");
        };
        conn.extended = true;
        match ChannelEnrol::decode(body) {
            Ok(ChannelEnrol { process }) if self.announced(Cookie(process.cookie)) == Some(tid) => {
                self.take_place(to.conn, &process);
                self.complete_enrolment(to.conn, tid, None);
            }
            Ok(_) => self.disconnect(to.conn, "another has enrolled in its place"),
            Err(error) => self.disconnect(to.conn, &format!("enrolment: {error}")),
        }
    }

    fn admit(&mut self, to: ReplyTo, process: &Introduction) {
        let Some(tid) = self.take_place(to.conn, process) else {
            warn!(pid = process.pid, "enrolment refused: all task ids are in use");
            self.reply_to::<Enrol>(to, &Admission(None));
            return self.drop_conn(to.conn);
        };
        self.complete_enrolment(to.conn, tid, Some(to));
    }

    /// The process of this cookie, if it has not enrolled yet.
    fn announced(&self, cookie: Cookie) -> Option<Tid> {
        self.tasks.by_cookie(cookie).filter(|&tid| self.tasks.get(tid).is_some_and(|task| !task.enrolled))
    }

    /// The record of a process that was announced and has never enrolled, else a new one.
    fn take_place(&mut self, conn: ConnId, process: &Introduction) -> Option<Tid> {
        let extended = self.tasks.conns.get(&conn).is_some_and(|state| state.extended);
        let task = match self.announced(Cookie(process.cookie)) {
            Some(tid) => self.tasks.get_mut(tid)?,
            None => self.tasks.create(false, &self.hosts.places)?,
        };
        // A wrapper's child enrols in its place: then its end shows by its connection, not by our child's end.
        // (It may be faster than the news of its start: then its parent's id is not known yet.)
        let mut outsider = None;
        if task.origin == Origin::Child && task.pid != 0 && task.pid != process.pid {
            task.origin = Origin::Itself;
            outsider = Some((task.team, task.pid));
        }
        task.pid = process.pid;
        task.conn = Some(conn);
        task.channel = task.channel.filter(|&channel| channel != conn);
        task.enrolled = true;
        task.extended = extended;
        if let Some(name) = &process.name {
            task.name.clone_from(name);
        }
        let tid = task.tid;
        if let Some(outsider) = outsider {
            self.teams(|teams, tasks, at| teams.leave(outsider, false, tasks, at));
        }
        Some(tid)
    }

    /// Makes it a member, and answers if it has asked.
    fn complete_enrolment(&mut self, conn: ConnId, tid: Tid, to: Option<ReplyTo>) {
        self.offer_task_to_tracer(tid);
        let Some(task) = self.tasks.get_mut(tid) else { return };
        let backlog = std::mem::take(&mut task.backlog);
        let (pid, manager, announced) = (task.pid, task.manager, task.cookie.is_some());
        if let Some(state) = self.tasks.conns.get_mut(&conn) {
            state.state = ConnState::Enrolled(tid);
            state.span.record("tid", tracing::field::display(tid)).record("pid", pid);
        }
        debug!("enrolled");
        self.out.act(Action::Enrolled { conn });
        if let Some((to, options)) = to.zip(self.options_of(tid)) {
            self.reply_to::<Enrol>(to, &Admission(Some(options)));
        }
        self.out.actions.extend(backlog.into_iter().map(|(header, data)| Action::Send {
            conn,
            header,
            data,
            with: Attachment::Nothing,
        }));
        self.teams(|teams, tasks, at| teams.task_enrolled(tid, tasks, at));
        for (moved, host) in self.hosts.places.iter().collect::<Vec<_>>() {
            self.tell_of_place(tid, moved, host);
        }
        if !announced {
            self.service_task_enrolled(tid);
            self.trace_enrolled(tid);
            self.observed_begin(tid);
        }
        if let Some(attempt) = self.tasks.get(tid).and_then(|task| task.succeeds) {
            self.successor_enrolled(attempt, tid);
        }
        if manager {
            self.home(|home, at| home.on_manager_ready(tid, at));
        }
    }

    /// What a task is told at its enrolment, and again when it asks (TM_GETOPT).
    pub(crate) fn options_of(&self, tid: Tid) -> Option<EnrolReply> {
        let task = self.tasks.get(tid)?;
        Some(EnrolReply {
            tid,
            parent: task.parent,
            output: task.output,
            trace: task.trace,
            fragment_size: FRAGMENT_SIZE as i32,
            signature: DataSignature::NATIVE.0,
            address: task_address(self.config.address),
            scheduler: self.services.scheduler.map_or(0, Tid::raw),
            private_network: self.config.private_network,
            wake_time: u32::try_from(self.config.wake_time.as_nanos()).unwrap_or(u32::MAX),
            succeeds: task.succeeds.map(|attempt| attempt.tid),
        })
    }

    /// TM_EXIT: the task leaves; a child of ours is over only when its process ends.
    pub(crate) fn on_exit(&mut self, to: ReplyTo) {
        self.reply_to::<Exit>(to, &());
        self.drop_conn(to.conn);
    }

    /// Closes a connection after what was sent, and does what the loss of one entails.
    pub(crate) fn drop_conn(&mut self, conn: ConnId) {
        self.out.act(Action::CloseTask { conn });
        self.on_task_closed(conn, None);
    }

    /// Closes the connection of a task that does not keep to the protocol.
    pub(crate) fn disconnect(&mut self, conn: ConnId, reason: &str) {
        warn!(reason, "connection closed");
        self.drop_conn(conn);
    }

    pub(crate) fn on_task_closed(&mut self, conn: ConnId, reason: Option<String>) {
        self.tasks.flow.forget(Source::Conn(conn));
        self.forget_waiters(conn);
        let Some(state) = self.tasks.conns.remove(&conn) else { return };
        if let ConnState::Inherited(tid) = state.state {
            return self.on_channel_closed(conn, tid);
        }
        let Some(task) = state.tid().and_then(|tid| self.tasks.get_mut(tid)) else { return };
        let tid = task.tid;
        if let Some(reason) = reason {
            info!(reason, "its connection broke");
        }
        task.conn = None;
        task.queued = 0;
        let neighbours = std::mem::take(&mut task.neighbours);
        self.forget_neighbours(tid, neighbours);
        self.clear_flow(tid);
        let ended = match self.tasks.get(tid) {
            Some(task) if task.origin == Origin::Child => task.ended,
            Some(task) => Some(task.ended.unwrap_or(0)),
            None => None,
        };
        self.leave(tid);
        if let Some(status) = ended {
            self.end_task_with(tid, status);
        }
    }

    /// A process has closed the channel that it has inherited, and has sent nothing.
    fn on_channel_closed(&mut self, conn: ConnId, tid: Tid) {
        let Some(task) = self.tasks.get_mut(tid).filter(|task| task.channel == Some(conn)) else { return };
        task.channel = None;
        if let Some(status) = task.ended.filter(|_| task.conn.is_none()) {
            self.end_task_with(tid, status);
        }
    }

    /// What a task loses when it leaves the machine, whether or not its process goes on.
    fn leave(&mut self, tid: Tid) {
        self.notifies.forget(tid);
        self.effects(|core, out| core.observers.forget(tid, out));
        self.home(|home, at| home.parent_gone(tid, at));
        self.tasks.contexts.forget(tid);
    }

    /// A child of ours has ended.
    pub(crate) fn on_process_exited(&mut self, cookie: Cookie, status: ExitStatus, used: Used) {
        let Some(tid) = self.tasks.by_cookie(cookie) else { return };
        let Some(task) = self.tasks.get_mut(tid) else { return };
        if status.signal().is_some() {
            info!(%tid, pid = task.pid, %status, "process ended");
        } else {
            debug!(%tid, pid = task.pid, %status, "process ended");
        }
        if let Some(job_task) = task.report.job() {
            self.jobs.note_used(job_task, used);
        }
        self.end_family(tid);
        let Some(task) = self.tasks.get_mut(tid) else { return };
        // A wrapper that ended after its child enrolled in its place is not the task.
        if task.origin == Origin::Child || !task.enrolled {
            self.end_after_grace(tid, status.into_raw());
        }
    }

    /// Sends a signal to a task's process.
    pub(crate) fn signal_task(&mut self, tid: Tid, signal: i32) {
        // A pid of 0 or 1 would reach others than the task.
        if self.tasks.get(tid).is_none_or(|task| task.pid <= 1) || self.keep_signal(tid, signal) {
            return;
        }
        let Some(task) = self.tasks.get_mut(tid) else { return };
        task.signalled = Some(signal);
        if signal == SIGTERM || signal == SIGKILL {
            task.condemned = task.cookie;
        }
        self.out.act(Action::Signal { pid: task.pid, signal });
    }

    /// A task has ended. If this daemon has ended it, what it has started ends, too.
    fn end_family(&mut self, tid: Tid) {
        let Some(cookie) = self.tasks.get_mut(tid).and_then(|task| task.condemned.take()) else { return };
        let others = self.tasks.iter().filter(|other| other.tid != tid && other.origin != Origin::Child);
        let spared = others.map(|other| other.pid).collect();
        self.out.act(Action::EndFamily { cookie, spared });
    }

    /// A task's process has ended. What it has sent may still be in the socket, whose end comes behind it.
    pub(crate) fn end_after_grace(&mut self, tid: Tid, status: i32) {
        let may_speak = |task: &Task| task.conn.or(task.channel.filter(|_| !task.enrolled)).is_some();
        if !self.tasks.get(tid).is_some_and(may_speak) {
            return self.end_task_with(tid, status);
        }
        self.set_timer(EXIT_GRACE, Timer::ExitGrace(tid));
        if let Some(task) = self.tasks.get_mut(tid) {
            task.ended = Some(status);
        }
    }

    /// Somebody else holds the connection of a process that has ended: a child that it forked.
    pub(crate) fn on_grace_over(&mut self, tid: Tid) {
        if let Some(status) = self.tasks.get(tid).and_then(|task| task.ended) {
            self.end_task_with(tid, status);
        }
    }

    /// The task is over, nobody knows how.
    pub(crate) fn end_task(&mut self, tid: Tid) {
        self.end_task_with(tid, 0);
    }

    /// Closes what a task that is here no more was reached by.
    pub(crate) fn close_connections(&mut self, task: &Task) {
        for conn in task.conn.into_iter().chain(task.channel) {
            self.tasks.conns.remove(&conn);
            self.tasks.flow.forget(Source::Conn(conn));
            self.forget_waiters(conn);
            self.out.act(Action::CloseTask { conn });
        }
    }

    /// The task is over: all subscribers are told, nothing of it stays. `status` is what `wait` said of it.
    pub(crate) fn end_task_with(&mut self, tid: Tid, status: i32) {
        if self.defers_end(tid, status) {
            return;
        }
        self.end_family(tid);
        let Some(mut task) = self.tasks.remove(tid) else { return };
        // Or the daemon would wake for each of many short tasks once more, long after its end.
        if task.ended.is_some() {
            self.out.timers.cancel(Timer::ExitGrace(tid));
        }
        self.teams(|teams, tasks, at| teams.task_over(&task, tasks, at));
        self.close_connections(&task);
        self.leave(tid);
        self.forget_neighbours(tid, std::mem::take(&mut task.neighbours));
        self.clear_flow(tid);
        self.report_end(&task, status);
        self.agents_ended(&task);
        if let Some(attempt) = task.succeeds {
            self.on_successor_ended(attempt, tid, status);
        } else {
            self.trace_ended(&task, status);
            self.observed_end(&task, status);
            self.service_task_ended(&task, status);
        }
        self.task_gone(tid);
        self.moved_task_gone(tid);
        for orphan in task.adopted {
            if self.tasks.get(orphan).is_some_and(|orphan| !orphan.enrolled) {
                self.end_task(orphan);
            }
        }
        if task.manager {
            self.home(|home, at| home.on_manager_gone(tid, at));
        } else {
            self.node(Node::on_room);
            self.start_job_tasks();
        }
    }
}

/// The address field of the enrolment's answer; tasks bind direct TCP routes to its IP.
fn task_address(address: Option<IpAddr>) -> String {
    let ip = match address {
        Some(IpAddr::V4(ip)) => ip,
        _ => std::net::Ipv4Addr::LOCALHOST,
    };
    format!("{:08x}:{:04x}", ip.to_bits(), 0)
}
