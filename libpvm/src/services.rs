//! Programs that do a part of the daemons' work: taskers, hosters, resource managers and tracers.
//!
//! A role is a value that borrows the task: what the daemons order comes from its `next_order` or `next_request`. It is given back when the value is dropped;
//! a resource manager stays one until its task ends.

use crate::machine::HostInfo;
use crate::task::Task;
use crate::tracing::{TraceMask, TraceMode, nothing, status};
use pvm_engine::{Error, Payload, Result, Role, Wait, xdr_header};
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::calls::hosts::{AddHosts, Config, DeleteHosts};
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::roles::TracerTerms;
use pvm_wire::calls::tasks::ListTasks;
use pvm_wire::calls::{Call, CallError, Request};
use pvm_wire::codes::Sm;
use pvm_wire::events::{Datum, Event, Writer};
use pvm_wire::services::{ExecRequest, StartHost, StartTask, TaskEnded, encode_started_hosts};
use pvm_wire::spawn::{SpawnRequest, split_entry};
use pvm_wire::{Message, MessageHeader, PvmError, Tid};
use std::marker::PhantomData;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A role that a task has until this is dropped.
#[derive(Debug)]
struct Post<'a> {
    task: &'a mut Task,
    role: Role,
    is_held: bool,
}

impl<'a> Post<'a> {
    fn take(task: &'a mut Task, role: Role) -> Result<Self> {
        let mut post = Self { task, role, is_held: false };
        post.toggle()?;
        post.is_held = true;
        Ok(post)
    }

    fn toggle(&mut self) -> Result<()> {
        let event = match self.role {
            Role::Hoster => Event::RegHoster,
            Role::Tasker => Event::RegTasker,
            Role::Tracer(_) => Event::RegTracer,
        };
        let entry = |event: &mut Writer| describe_terms(event, &self.role);
        self.task.traced(event, entry, status(Datum::CC), |task| task.engine.toggle_role(&self.role))
    }

    fn resign(mut self) -> Result<()> {
        self.is_held = false;
        self.toggle()
    }
}

impl Drop for Post<'_> {
    fn drop(&mut self) {
        if self.is_held {
            // Fails only if the connection has ended, which the daemon has seen, too.
            let _ = self.toggle();
        }
    }
}

fn describe_terms(event: &mut Writer, role: &Role) {
    if let Role::Tracer(terms) = role {
        event.int(Datum::TRC, terms.trace_context).int(Datum::TRT, terms.trace_tag);
        event.int(Datum::TRX, terms.output_context).int(Datum::TRO, terms.output_tag);
        event.text(Datum::TRM, &terms.mask).int(Datum::TRB, terms.buffer).int(Datum::TRL, terms.options);
    }
}

/// The next message of the system with one of these tags, in any context; `None` when the time is over.
fn next_of(task: &mut Task, wait: Wait, tags: &[Sm]) -> Result<Option<Message>> {
    let is_wanted = |message: &Message| tags.iter().any(|tag| tag.tag() == message.header.tag);
    let message = task.engine.receive(wait, &mut |message| is_wanted(message))?;
    Ok(message.map(Message::into_encoded).transpose()?)
}

/// A message for a service, if it arrives in time.
fn within<T>(
    task: &mut Task,
    wait: Wait,
    tag: Sm,
    read: impl FnOnce(&[u8]) -> std::result::Result<T, BodyError>,
) -> Result<Option<T>> {
    let message = next_of(task, wait, &[tag])?;
    Ok(message.map(|message| read(&message.body)).transpose()?)
}

fn send(task: &mut Task, to: Tid, header: MessageHeader, body: &[u8]) -> Result<()> {
    task.engine.send(to, header, Payload::Parts(&[body]))
}

/// The task that starts the tasks of its host in the daemon's place (`pvm_reg_tasker`).
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let mut tasker = task.become_tasker()?;
/// loop {
///     let order = tasker.next_order()?;
///     let ended = pvm3::Tasker::command(&order).status().expect("the program starts");
///     tasker.ended(order.tid, ended)?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Tasker<'a>(Post<'a>);

impl Tasker<'_> {
    /// Waits for the next task that is to be started.
    pub fn next_order(&mut self) -> Result<StartTask> {
        within(self.0.task, Wait::Forever, Sm::StTask, StartTask::decode)?.ok_or_else(Error::lost)
    }

    /// The next task that is to be started, if one comes within this time.
    pub fn next_order_timeout(&mut self, time: Duration) -> Result<Option<StartTask>> {
        within(self.0.task, Wait::For(time), Sm::StTask, StartTask::decode)
    }

    /// The command that starts a task.
    pub fn command(order: &StartTask) -> Command {
        let mut command = Command::new(&order.path);
        command.args(&order.args).envs(order.env.iter().filter_map(|entry| split_entry(entry)));
        command.env("PVMEPID", order.cookie.to_string());
        command
    }

    /// Reports the exit of a task to the daemon.
    pub fn ended(&mut self, tid: Tid, status: ExitStatus) -> Result<()> {
        let body = TaskEnded { tid, status: status.into_raw() }.encode();
        send(self.0.task, Tid::MY_DAEMON, xdr_header(Sm::TaskX.tag(), 0, 0), &body)
    }

    /// The task.
    pub fn task(&mut self) -> &mut Task {
        self.0.task
    }

    /// Gives the role back.
    pub fn resign(self) -> Result<()> {
        self.0.resign()
    }
}

/// The task that starts daemons on new hosts for the master (`pvm_reg_hoster`).
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let mut hoster = task.become_hoster()?;
/// let orders = hoster.next_order()?;
/// let run = |order: &pvm3::StartHost| {
///     let ran = std::process::Command::new("ssh").args([&order.target, &order.command]).output();
///     ran.map_or("PvmCantStart".to_owned(), |ran| String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
/// };
/// let lines: Vec<_> = orders.iter().map(|order| (order.host, run(order))).collect();
/// hoster.started(&lines)?;
/// # hoster.resign()
/// # }
/// ```
#[derive(Debug)]
pub struct Hoster<'a>(Post<'a>);

impl Hoster<'_> {
    /// Waits for daemons that are to be started.
    pub fn next_order(&mut self) -> Result<Vec<StartHost>> {
        within(self.0.task, Wait::Forever, Sm::StHost, StartHost::decode_all)?.ok_or_else(Error::lost)
    }

    /// Daemons that are to be started, if that is asked for within this time.
    pub fn next_order_timeout(&mut self, time: Duration) -> Result<Option<Vec<StartHost>>> {
        within(self.0.task, Wait::For(time), Sm::StHost, StartHost::decode_all)
    }

    /// Reports to the master, for all daemons of an order, the first line that each has printed, or the name of an error (`PvmCantStart`).
    pub fn started(&mut self, lines: &[(Tid, String)]) -> Result<()> {
        let body = encode_started_hosts(lines);
        send(self.0.task, Tid::MY_DAEMON, xdr_header(Sm::StHostAck.tag(), 0, 0), &body)
    }

    /// The task.
    pub fn task(&mut self) -> &mut Task {
        self.0.task
    }

    /// Gives the role back.
    pub fn resign(self) -> Result<()> {
        self.0.resign()
    }
}

/// The task that receives traces and output of tasks (`pvm_reg_tracer`): tasks that start from now on and have no tracer of their own.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let terms = pvm3::Traced { trace_tag: 1, output_tag: 2, mask: pvm3::TraceMask::ALL, ..Default::default() };
/// let mut tracer = task.become_tracer(&terms)?;
/// let mut reader = pvm3::EventReader::default();
/// let (events, _) = reader.read(tracer.task().recv(pvm3::Any, 1)?.body()?);
/// # tracer.resign()
/// # }
/// ```
#[derive(Debug)]
pub struct Tracer<'a>(Post<'a>);

/// What is reported to a tracer, and how, in the task's current context.
///
/// ```
/// use pvm3::{TraceMask, TraceMode, Traced};
///
/// let terms = Traced { trace_tag: 1, output_tag: 2, mask: TraceMask::ALL, ..Traced::default() };
/// assert_eq!(terms.mode, TraceMode::Full);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Tag of trace messages.
    pub trace_tag: i32,
    /// Tag of messages with output.
    pub output_tag: i32,
    /// Which events tasks report.
    pub mask: TraceMask,
    /// Bytes of events that a task collects before it reports them.
    pub buffer: i32,
    /// How detailed the reports are.
    pub mode: TraceMode,
}

impl Default for Traced {
    fn default() -> Self {
        Self { trace_tag: 0, output_tag: 0, mask: TraceMask::NONE, buffer: 0, mode: TraceMode::Full }
    }
}

impl Tracer<'_> {
    /// The task, which receives the reports.
    pub fn task(&mut self) -> &mut Task {
        self.0.task
    }

    /// Gives the role back.
    pub fn resign(self) -> Result<()> {
        self.0.resign()
    }
}

/// The resource manager, which tasks ask in their daemons' place (`pvm_reg_rm`). The daemons carry out what it decides.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// use pvm3::Managed;
///
/// let mut manager = task.become_manager()?;
/// loop {
///     match manager.next_request()? {
///         Managed::Spawn(spawn, to) => {
///             let started = manager.start(to.from(), spawn)?;
///             manager.answer(to, Ok(pvm3::SpawnReply { results: started, ..pvm3::SpawnReply::default() }))?;
///         }
///         Managed::AddHosts(_, to) => manager.answer(to, Err(pvm3::PvmError::Denied))?,
///         other => println!("{other:?}"),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Manager<'a> {
    task: &'a mut Task,
    before: Option<Tid>,
    master: HostInfo,
    wait_id: i32,
}

/// The task that waits for the answer to a request. [`Manager::answer`] takes it, so each request is answered once.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// # let mut manager = task.become_manager()?;
/// if let pvm3::Managed::Hosts(asker) = manager.next_request()? {
///     println!("{} asks for the hosts", asker.from());
///     manager.answer(asker, Err(pvm3::PvmError::NotImpl))?;
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Debug)]
pub struct Asker<C> {
    from: Tid,
    header: MessageHeader,
    call: PhantomData<C>,
}

impl<C> Asker<C> {
    /// The task that asks.
    pub fn from(&self) -> Tid {
        self.from
    }
}

/// A request to a resource manager, or news for it.
///
/// ```no_run
/// # let mut task = pvm3::Task::enrol()?;
/// # let mut manager = task.become_manager()?;
/// match manager.next_request()? {
///     pvm3::Managed::Enrolled(tid) => println!("{tid} has enrolled"),
///     pvm3::Managed::HostGone(host) => println!("{host} is lost"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), pvm3::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Managed {
    /// `pvm_spawn`.
    Spawn(SpawnRequest, Asker<SpawnRequest>),
    /// `pvm_tasks`.
    Tasks(ListTasks, Asker<ListTasks>),
    /// `pvm_config`.
    Hosts(Asker<Config>),
    /// `pvm_addhosts`.
    AddHosts(Vec<String>, Asker<AddHosts>),
    /// `pvm_delhosts`.
    DeleteHosts(Vec<String>, Asker<DeleteHosts>),
    /// `pvm_notify`, which is not answered.
    Notify(Tid, NotifyRequest),
    /// Another task asks to be the resource manager: [`Manager::hand_off`].
    Successor(Tid),
    /// A task has enrolled that was not spawned.
    Enrolled(Tid),
    /// A task has ended.
    Ended(TaskEnded),
    /// A host is gone.
    HostGone(Tid),
}

/// A message to a resource manager.
const MANAGED: [Sm; 10] = [
    Sm::Spawn,
    Sm::ExecAck,
    Sm::Task,
    Sm::Config,
    Sm::AddHost,
    Sm::DelHost,
    Sm::Notify,
    Sm::TaskX,
    Sm::HostX,
    Sm::Sched,
];

impl Manager<'_> {
    /// The resource manager before this one.
    pub fn before(&self) -> Option<Tid> {
        self.before
    }

    /// The host of the machine's master.
    pub fn master(&self) -> &HostInfo {
        &self.master
    }

    /// Waits for the next request, or news.
    pub fn next_request(&mut self) -> Result<Managed> {
        let message = next_of(self.task, Wait::Forever, &MANAGED)?.ok_or_else(Error::lost)?;
        Ok(read_managed(&message)?)
    }

    /// The next request or news, if any come within this time.
    pub fn next_request_timeout(&mut self, time: Duration) -> Result<Option<Managed>> {
        let message = next_of(self.task, Wait::For(time), &MANAGED)?;
        Ok(message.as_ref().map(read_managed).transpose()?)
    }

    /// Answers a request, by what was asked for or by an error.
    #[expect(clippy::needless_pass_by_value, reason = "a request is answered once")]
    pub fn answer<C: Call>(
        &mut self,
        to: Asker<C>,
        reply: std::result::Result<C::Reply, PvmError>,
    ) -> Result<()> {
        let body = match reply {
            Ok(reply) => C::encode_reply(&reply),
            Err(error) => CallError::from(error).encode(),
        };
        send(self.task, to.from, to.header, &body)
    }

    /// Has this host's daemon start tasks, as children of `parent`. Returns for each its tid, or the code of an error.
    pub fn start(&mut self, parent: Tid, spawn: SpawnRequest) -> Result<Vec<i32>> {
        self.wait_id = self.wait_id.checked_add(1).unwrap_or(1);
        let (wait_id, total) = (self.wait_id, spawn.count);
        let body = ExecRequest { parent: parent.raw(), spawn, first: 0, total }.encode();
        send(self.task, Tid::MY_DAEMON, xdr_header(Sm::Exec.tag(), 0, wait_id), &body)?;
        let is_answer = |message: &Message| {
            message.src == Tid::MY_DAEMON
                && (message.header.tag, message.header.wait_id) == (Sm::ExecAck.tag(), wait_id)
        };
        let answer = self.task.engine.fetch(Wait::Forever, &mut |message| is_answer(message))?;
        let answer = answer.ok_or_else(Error::lost)?.into_encoded()?;
        let mut reader = BodyReader::new(&answer.body);
        let mut ahead = reader;
        if let Ok(code @ ..0) = ahead.int() {
            return Err(PvmError::from_code(code).unwrap_or(PvmError::DSysErr).into());
        }
        let count = reader.count(4)?;
        Ok(reader.ints(count)?)
    }

    /// Sends a task a notice that it has requested ([`Managed::Notify`]) about a task or a host.
    pub fn notify(&mut self, to: Tid, request: &NotifyRequest, about: Tid) -> Result<()> {
        let body = BodyWriter::new().int(about.raw()).finish();
        send(self.task, to, xdr_header(request.tag, request.context, 0), &body)
    }

    /// Makes another task the resource manager of this host.
    pub fn hand_off(self, to: Tid) -> Result<()> {
        let body = BodyWriter::new().int(to.raw()).finish();
        send(self.task, Tid::MY_DAEMON, xdr_header(Sm::HandOff.tag(), 0, 0), &body)
    }

    /// The task, whose own requests go to the daemon.
    pub fn task(&mut self) -> &mut Task {
        self.task
    }
}

fn read_managed(message: &Message) -> std::result::Result<Managed, BodyError> {
    let (from, body) = (message.src, &*message.body);
    let tid = || BodyReader::new(body).int().map(Tid::from_raw);
    let is = |what: Sm| what.tag() == message.header.tag;
    Ok(match message.header.tag {
        _ if is(Sm::Spawn) => Managed::Spawn(Request::decode(body)?, asker(message)),
        _ if is(Sm::Task) => Managed::Tasks(Request::decode(body)?, asker(message)),
        _ if is(Sm::Config) => Managed::Hosts(asker(message)),
        _ if is(Sm::AddHost) => Managed::AddHosts(AddHosts::decode(body)?.hosts, asker(message)),
        _ if is(Sm::DelHost) => Managed::DeleteHosts(DeleteHosts::decode(body)?.names, asker(message)),
        _ if is(Sm::Notify) => Managed::Notify(from, Request::decode(body)?),
        _ if is(Sm::Sched) => Managed::Successor(from),
        _ if is(Sm::TaskX) => Managed::Ended(TaskEnded::decode(body)?),
        _ if is(Sm::HostX) => Managed::HostGone(tid()?),
        _ => {
            let mut reader = BodyReader::new(body);
            reader.int()?;
            Managed::Enrolled(Tid::from_raw(reader.int()?))
        }
    })
}

fn asker<C>(message: &Message) -> Asker<C> {
    Asker { from: message.src, header: message.header, call: PhantomData }
}

impl Task {
    /// Becomes the task that starts this host's tasks. [`PvmError::Already`]: another task does that.
    pub fn become_tasker(&mut self) -> Result<Tasker<'_>> {
        Post::take(self, Role::Tasker).map(Tasker)
    }

    /// Becomes the task that starts daemons. [`PvmError::HostrNMstr`]: it is not on the master's host. [`PvmError::Already`]: another task does that.
    pub fn become_hoster(&mut self) -> Result<Hoster<'_>> {
        Post::take(self, Role::Hoster).map(Hoster)
    }

    /// Becomes the tracer of tasks that start from now on. [`PvmError::Already`]: another task is that.
    pub fn become_tracer(&mut self, terms: &Traced) -> Result<Tracer<'_>> {
        let (context, &Traced { trace_tag, output_tag, mask, buffer, mode }) = (self.context(), terms);
        let (trace_context, output_context) = (context, context);
        let (mask, options) = (mask.to_string(), mode as i32);
        let terms =
            TracerTerms { trace_context, trace_tag, output_context, output_tag, mask, buffer, options };
        Post::take(self, Role::Tracer(terms)).map(Tracer)
    }

    /// Becomes the resource manager of this host's tasks, and of hosts that are added from now on.
    pub fn become_manager(&mut self) -> Result<Manager<'_>> {
        let made =
            self.traced(Event::RegRm, nothing, status(Datum::CC), |task| task.engine.become_manager())?;
        let before = Some(made.before).filter(|tid| tid.is_task());
        Ok(Manager { task: self, before, master: made.master.into(), wait_id: 0 })
    }
}
