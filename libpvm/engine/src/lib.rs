//! One task's dealings with its daemon and with other tasks: synchronous, single-threaded, and shared by the Rust API and the C
//! interface, which convert arguments and results, and nothing else.
#![forbid(unsafe_code)]
#![allow(clippy::len_without_is_empty, reason = "an empty message is as good as any")]

mod automatic;
mod calls;
mod carried;
mod changes;
mod connect;
mod control;
mod daemon;
mod direct;
mod error;
mod gates;
pub mod groups;
mod inbox;
pub mod incoming;
mod leaving;
mod lending;
mod login;
mod luggage;
mod manager;
mod meeting;
mod moving;
mod neighbours;
mod options;
mod order;
mod output;
mod packed;
mod payload;
mod peers;
mod places;
mod reach;
mod receive;
mod rings;
mod roles;
mod route;
mod route_ends;
mod route_notices;
mod seal;
mod send;
mod settings;
mod spawn;
mod spinner;
mod storage;
mod succession;
mod timeline;
mod trace;
mod traffic;
mod turns;
mod uppers;
mod wait;

pub use connect::{address_file, tmp_dir};
pub use daemon::{daemon_program, start_daemon, start_daemon_with};
pub use error::{Error, Result};
pub use inbox::{Arrived, Search};
pub use incoming::Incoming;
pub use login::login_name;
pub use luggage::Luggage;
pub use moving::{Departure, Saved, Saver};
pub use neighbours::Near;
pub use options::{Options, TRACE_MASK_LENGTH};
pub use output::{OutputEvent, OutputSink};
pub use packed::Packed;
pub use payload::{Form, Payload};
pub use receive::Wait;
pub use roles::Role;
pub use spinner::Spinner;
pub use timeline::Begun;
pub use wait::{Waiter, sleep};

use bytes::Bytes;
use connect::Proof;
use inbox::Inbox;
use peers::Peers;
use pvm_wire::calls::enrolment::{
    Admission, ChannelEnrol, Conn2, Connect, Enrol, EnrolReply, Exit, Extension, Introduction,
};
use pvm_wire::codes::{self, CONTEXT_TM};
use pvm_wire::coscheduling::Sent;
use pvm_wire::{Encoding, Message, MessageHeader, PvmError, Tid};
use route::Route;
use route_notices::RouteNotices;
use settings::Settings;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long the daemon may take over the enrolment.
const ENROL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for the daemon's answer in [`Engine::disconnect`].
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A task's connection to its daemon, its received messages and its options.
#[derive(Debug)]
pub struct Engine {
    route: Option<Route>,
    identity: EnrolReply,
    extension: Option<i32>,
    options: Options,
    context: i32,
    next_wait_id: i32,
    inbox: Inbox,
    peers: Peers,
    automatic: automatic::Automatic,
    ends: route_ends::Ends,
    /// `PVM_DIRECT`: whether this task has automatic routes.
    direct: bool,
    receivers: uppers::Receivers,
    neighbours: neighbours::Neighbours,
    lending: lending::Lending,
    hints: turns::Turns,
    changes: changes::Changes,
    /// A time in the past. Tasks that never poll need not ask for one.
    past: OnceLock<Instant>,
    /// What the program has sent.
    sent: Sent,
    /// To whom, and to which hosts, if that is counted.
    counts: traffic::Counts,
    /// Times that messages were taken from rings.
    ring_reads: u32,
    /// A call waits for the daemon's answer.
    asking: bool,
    route_notices: RouteNotices,
    siblings: Option<Vec<Tid>>,
    manager: manager::Manager,
    output: output::Collection,
    recorder: Option<timeline::Recorder>,
    tracer: trace::Tracer,
    roles: roles::Roles,
    /// This task is the resource manager.
    is_manager: bool,
    saving: moving::Saving,
    /// Set while this task is to move.
    moving: Option<Box<moving::Moving>>,
    places: places::Places,
    gates: gates::Gates,
    succession: succession::Succession,
    has_left: Arc<AtomicBool>,
}

impl Engine {
    /// Enrols this process in the virtual machine whose daemon runs here.
    pub fn enrol() -> Result<Self> {
        Self::enrol_as(None, false)
    }

    /// Enrols under a name for task lists; `quick` does not try again when no daemon answers.
    pub fn enrol_as(name: Option<&OsStr>, quick: bool) -> Result<Self> {
        let settings = Settings::from_env()?;
        let address = connect::daemon_address()?;
        let at_once = connect::takes_all_at_once(&address);
        let (mut engine, enrolled);
        if let Some((channel, identity)) = at_once.then(connect::inherited_channel).flatten() {
            engine = Self::unenrolled(channel, &settings);
            enrolled = engine.enrol_by_channel(identity, name);
        } else {
            engine = Self::unenrolled(connect::connect(&address, quick)?, &settings);
            let shows_credentials = connect::shows_credentials(&address);
            enrolled = if at_once {
                engine.enrol_at_once(name)
            } else {
                engine.shake_hands(name, shows_credentials)
            };
        }
        enrolled.map_err(|error| {
            Error::new(error.code(), format!("the daemon at {address} refuses this task: {error}"))
        })?;
        engine.options = Options::new(&engine.identity);
        if engine.daemon_is_ours() {
            let daemon = engine.route.as_ref().map(Route::socket);
            engine.neighbours = neighbours::Neighbours::offered(engine.tid(), daemon, &settings);
            engine.neighbours.spinner().set_wake_time(engine.wake_time());
        }
        let succeeds = engine.identity.succeeds;
        if let Some(predecessor) = succeeds {
            engine.succeed(predecessor);
        }
        engine.start_recorder();
        if succeeds.is_none() {
            engine.query_tracer();
        }
        Ok(engine)
    }

    /// How long waking a task takes on this host, as its daemon has measured.
    pub fn wake_time(&self) -> Duration {
        Duration::from_nanos(self.identity.wake_time.into())
    }

    fn unenrolled(socket: OwnedFd, settings: &Settings) -> Self {
        let nobody = EnrolReply {
            tid: Tid::ANY,
            parent: 0,
            output: pvm_wire::spawn::Sink::default(),
            trace: pvm_wire::spawn::Sink::default(),
            fragment_size: pvm_wire::limits::UNENROLLED_FRAGMENT_MAX as i32,
            signature: 0,
            address: String::new(),
            scheduler: 0,
            private_network: false,
            wake_time: 0,
            succeeds: None,
        };
        let inbox = Inbox::new(settings.queue_max);
        Self {
            route: Some(Route::new(socket, inbox.limit())),
            options: Options::new(&nobody),
            identity: nobody,
            extension: None,
            context: options::number("PVMCTX"),
            next_wait_id: 1,
            inbox,
            peers: Peers::default(),
            automatic: automatic::Automatic::default(),
            ends: route_ends::Ends::default(),
            direct: settings.direct,
            receivers: uppers::Receivers::default(),
            neighbours: neighbours::Neighbours::default(),
            lending: lending::Lending::default(),
            hints: turns::Turns::default(),
            changes: changes::Changes::default(),
            past: OnceLock::new(),
            sent: Sent::default(),
            counts: traffic::Counts::from_env(),
            ring_reads: 0,
            asking: false,
            route_notices: RouteNotices::default(),
            siblings: None,
            manager: manager::Manager::default(),
            output: output::Collection::default(),
            recorder: None,
            tracer: trace::Tracer::default(),
            roles: Vec::new(),
            is_manager: false,
            saving: moving::Saving::default(),
            moving: None,
            places: places::Places::default(),
            gates: gates::Gates::default(),
            succession: succession::Succession::default(),
            has_left: Arc::default(),
        }
    }

    /// Enrols with a daemon of unknown kind. The original's writes a byte into a file of ours as a proof, and we into one of its;
    /// for ours the socket's credentials are enough, so that a full disk does not prevent an enrolment.
    fn shake_hands(&mut self, name: Option<&OsStr>, shows_credentials: bool) -> Result<()> {
        let deadline = Some(Instant::now() + ENROL_TIMEOUT);
        let proof = Proof::new();
        let path = proof.as_ref().map(|proof| proof.path().to_string_lossy().into_owned());
        let request = Connect {
            version: codes::TASK_PROTOCOL,
            auth_file: path.unwrap_or_default(),
            extension: Extension(Some(codes::EXTENSION_VERSION)),
        };
        let reply = self.call_by(&request, deadline)?;
        if !reply.accepted {
            return Err(connect::refusal(reply.version, proof));
        }
        self.extension = reply.extension.0.filter(|&version| version == codes::EXTENSION_VERSION);
        if self.extension.is_none() || !shows_credentials {
            if !proof?.is_given() {
                return Err(Error::new(PvmError::SysErr, "it did not prove that it is this user's"));
            }
            connect::give_proof(&reply.auth_file)?;
        }
        let process = introduction(name, connect::cookie());
        let admission = self.call_by(&Conn2 { process }, deadline)?;
        self.accept_admission(admission)
    }

    /// Enrols with a daemon that is known to be ours, at a socket whose other end is known to be this user's.
    fn enrol_at_once(&mut self, name: Option<&OsStr>) -> Result<()> {
        self.extension = Some(codes::EXTENSION_VERSION);
        let process = introduction(name, connect::cookie());
        let admission = self.call_by(&Enrol { process }, Some(Instant::now() + ENROL_TIMEOUT))?;
        self.accept_admission(admission)
    }

    fn accept_admission(&mut self, Admission(identity): Admission) -> Result<()> {
        self.adopt_identity(identity.ok_or_else(|| Error::new(PvmError::SysErr, "it refused"))?);
        Ok(())
    }

    /// Enrols on the inherited channel. The daemon has replied before this process started, and waits for its confirmation.
    fn enrol_by_channel(&mut self, identity: EnrolReply, name: Option<&OsStr>) -> Result<()> {
        self.extension = Some(codes::EXTENSION_VERSION);
        self.adopt_identity(identity);
        self.send_request(&ChannelEnrol { process: introduction(name, connect::environment_cookie()) })
    }

    /// Becomes the task that the daemon's reply describes.
    fn adopt_identity(&mut self, identity: EnrolReply) {
        self.manager = manager::Manager::new(identity.scheduler);
        self.identity = identity;
    }

    /// The task's id.
    #[inline]
    pub fn tid(&self) -> Tid {
        self.identity.tid
    }

    /// The daemon's reply to the enrolment: parent, sinks, signature.
    #[inline]
    pub fn identity(&self) -> &EnrolReply {
        &self.identity
    }

    /// Whether the daemon is this system's, which answers the requests of [`codes::Tmx`].
    #[inline]
    pub fn daemon_is_ours(&self) -> bool {
        self.extension.is_some()
    }

    /// Whether the connection stands; it does not after [`Engine::exit`] or when the daemon has ended.
    #[inline]
    pub fn is_enrolled(&self) -> bool {
        self.route.is_some()
    }

    /// The connection's descriptor: readable when bytes have arrived (not necessarily a whole message).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        let had_front = self.neighbours.have_front();
        let front = self.neighbours.front(self.route.as_ref()?.fd());
        if !had_front {
            let timers = self.ends.timers().map(|(_, fd)| fd);
            self.peers.hidden_sockets().chain(timers).for_each(|fd| self.neighbours.add_behind_front(fd));
        }
        Some(front)
    }

    /// All descriptors at which messages come in: first one for the daemon and the tasks of this host, then those of direct
    /// routes, open or granted. Tasks of this host only wake this one between [`Engine::doze`] and [`Engine::wake`], unless
    /// [`Engine::keep_bell`] was called.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let first = self.fd();
        let is_shown = |tid: Tid| !(self.neighbours.have_front() && self.peers.is_hidden(tid));
        let direct = self.peers.sockets().filter(|&(tid, ..)| is_shown(tid)).map(|(_, fd, _)| fd);
        let timers = self.ends.timers().map(|(_, fd)| fd).filter(|_| !self.neighbours.have_front());
        first.into_iter().chain(direct).chain(timers).collect()
    }

    /// The tasks to which direct routes are open, in shared memory or by sockets.
    pub fn open_routes(&self) -> Vec<Tid> {
        let sockets = self.peers.tids().into_iter().filter(|&tid| self.peers.route(tid).is_some());
        sockets.chain(self.neighbours.reached()).collect()
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The options, to be changed.
    #[inline]
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The current context.
    #[inline]
    pub fn context(&self) -> i32 {
        self.context
    }

    /// Changes the current context and returns the one before.
    #[inline]
    pub fn set_context(&mut self, context: i32) -> i32 {
        std::mem::replace(&mut self.context, context)
    }

    fn ask(&mut self, tag: i32, body: &[u8], deadline: Option<Instant>) -> Result<Bytes> {
        let header = xdr_header(tag, CONTEXT_TM, 0);
        self.asking = true;
        let answer = self.converse(Tid::MY_DAEMON, header, body, deadline, &mut |message, wait_id| {
            // An answer that was late for an earlier request has another wait id.
            let MessageHeader { tag: answered, wait_id: asked, .. } = message.header;
            message.src == Tid::MY_DAEMON && answered == tag && asked == wait_id
        });
        self.asking = false;
        match answer? {
            Some(message) => Ok(message.body.into_bytes()),
            None => Err(Error::new(PvmError::SysErr, "the daemon does not answer")),
        }
    }

    fn new_wait_id(&mut self) -> i32 {
        let wait_id = self.next_wait_id;
        self.next_wait_id = wait_id.checked_add(1).unwrap_or(1);
        wait_id
    }

    /// Sends a request and waits for the message that is its answer; its wait id is that of the request.
    fn converse(
        &mut self,
        to: Tid,
        header: MessageHeader,
        body: &[u8],
        deadline: Option<Instant>,
        is_answer: &mut dyn FnMut(&Message, i32) -> bool,
    ) -> Result<Option<Message>> {
        let wait_id = self.new_wait_id();
        // A message that is in the queue already is no answer.
        let last = self.inbox.last();
        self.send(to, MessageHeader { wait_id, ..header }, Payload::Parts(&[body]))?;
        let answer = self.wait_for(last, deadline, &mut |message| is_answer(message, wait_id))?;
        Ok(answer.map(Message::into_encoded).transpose()?)
    }

    /// Leaves the virtual machine, once the output of collected tasks has ended.
    pub fn exit(&mut self) -> Result<()> {
        self.wait_for_collected()?;
        self.leave()
    }

    /// Leaves the virtual machine, without waiting for the output of collected tasks.
    pub fn leave(&mut self) -> Result<()> {
        self.leave_by(None)
    }

    /// As [`Self::leave`], but gives up after a short time and ignores failures.
    pub fn disconnect(&mut self) {
        if self.is_enrolled() {
            // Without a request to exit the daemon sees the connection end, which has the same effect.
            let _ = self.leave_by(Some(Instant::now() + LEAVE_TIMEOUT));
        }
    }

    /// Our daemon reads everything that was sent and then the end of the connection. The original's needs a request, and answers it.
    fn leave_by(&mut self, deadline: Option<Instant>) -> Result<()> {
        self.report_end();
        self.report_traffic();
        self.finish_routes();
        let left = match &self.route {
            None => Err(Error::lost()),
            Some(_) if self.daemon_is_ours() => Ok(()),
            Some(_) => self.call_by(&Exit {}, deadline),
        };
        // First of all: from here on senders may reuse the memory in which received messages lie.
        self.has_left.store(true, Ordering::SeqCst);
        self.close_routes();
        self.route = None;
        left
    }

    /// Becomes true when this task leaves the virtual machine: received messages must no longer be read in their senders' memory.
    #[inline]
    pub fn has_left(&self) -> &Arc<AtomicBool> {
        &self.has_left
    }

    /// The connection is gone.
    fn lose(&mut self) -> Error {
        self.close_routes();
        self.route = None;
        Error::lost()
    }
}

/// The part of a request to enrol that identifies this process.
fn introduction(name: Option<&OsStr>, cookie: i32) -> Introduction {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    Introduction { pid, cookie, name: name.map(OsStr::to_owned) }
}

/// The header of a control message.
#[inline]
pub fn xdr_header(tag: i32, context: i32, wait_id: i32) -> MessageHeader {
    MessageHeader { encoding: Encoding::Xdr.word(), tag, context, wait_id, checksum: 0 }
}

#[cfg(test)]
mod arriving_tests;
#[cfg(test)]
mod ending_tests;
#[cfg(test)]
mod moving_tests;
#[cfg(test)]
mod uncalled_tests;
