//! One core, fed by hand; what it wants done is recorded, and a test has to account for all of it.

use crate::daemon::{Daemon, config, started_host};
use crate::process::{connect, introduction};
use bytes::Bytes;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::enrolment::{Admission, Conn2, EnrolReply};
use pvm_wire::calls::hosts::AddHosts;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::calls::{Answer, Call, Request};
use pvm_wire::codes::{CONTEXT_TM, EXTENSION_MAGIC, EXTENSION_VERSION, TASK_PROTOCOL, Tm};
use pvm_wire::daemon::{DaemonMsg, FromMaster, HostEntry, HostTable, PeerReply, RequestId, ToMaster};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::header::{EOM, SOM};
use pvm_wire::message::Assembled;
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{FragmentHeader, HostIndex, Message, MessageHeader, Reassembler, Tid};
use pvmd_core::Config;
use pvmd_core::event::{Action, Attachment, ConnId, Cookie, Event, StartedHost, Used};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// A core, and what it wants done.
pub struct Recorder {
    /// The core.
    pub core: Daemon,
    /// The time.
    pub now: Duration,
    actions: VecDeque<Action>,
    incoming: BTreeMap<ConnId, Reassembler>,
    /// Numbers of what other daemons have said to the master, or as the master.
    said: BTreeMap<HostIndex, u64>,
    next_conn: u64,
}

/// The host of this index.
pub fn host(index: u32) -> HostIndex {
    HostIndex::new(index).expect("a host index")
}

/// A host `node{index}`, as tables of hosts have it.
pub fn entry(index: u32) -> HostEntry {
    let StartedHost { arch, signature, capability, task_limit, address } = started_host();
    let address = (index > 1).then_some(address);
    let name = format!("node{index}");
    HostEntry {
        index: host(index),
        name,
        arch,
        speed: 1000,
        capability,
        task_limit,
        signature,
        cluster: None,
        address,
    }
}

/// A table of such hosts.
pub fn table(hosts: RangeInclusive<u32>) -> HostTable {
    HostTable::of(&hosts.map(entry).collect::<Vec<_>>()).expect("a table")
}

impl Recorder {
    /// Host 2 of three, which has just become a member.
    pub fn slave() -> Self {
        let mut r = Self::with(config(host(2)));
        r.feed(Event::PeerLinked { host: HostIndex::MASTER });
        r.order(FromMaster::TableUpdate {
            serial: 1,
            members: table(1..=1),
            added: table(2..=3),
            moved: Vec::new(),
        });
        r.order(FromMaster::TableCommit { serial: 1 });
        assert!(matches!(r.asked_master(), ToMaster::TableAck { serial: 1, .. }));
        r.nothing_else();
        r
    }

    /// A master.
    pub fn master() -> Self {
        Self::with(config(HostIndex::MASTER))
    }

    /// A master with a task that nobody has spawned: its connection, and what it was told.
    pub fn with_task() -> (Self, ConnId, EnrolReply) {
        let mut r = Self::master();
        let (conn, told) = r.enrol(100, 0);
        (r, conn, told)
    }

    /// The same, with host 2.
    pub fn with_host() -> (Self, ConnId, EnrolReply) {
        let (mut r, conn, told) = Self::with_task();
        r.add_host(conn, 2);
        (r, conn, told)
    }

    /// A daemon with these settings.
    pub fn with(config: Config) -> Self {
        let (core, actions) = Daemon::new(config, Duration::ZERO);
        let actions = actions.into();
        let (incoming, said) = (BTreeMap::new(), BTreeMap::new());
        Self { core, now: Duration::ZERO, actions, incoming, said, next_conn: 1 }
    }

    /// An event.
    pub fn feed(&mut self, event: Event) {
        let actions = self.core.handle(event, self.now);
        self.actions.extend(actions);
    }

    /// Time goes by.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        let actions = self.core.handle_timeout(self.now);
        self.actions.extend(actions);
    }

    /// The next action.
    pub fn action(&mut self) -> Action {
        self.actions.pop_front().expect("an action")
    }

    /// Whether there is a next action.
    pub fn pending(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Nothing else was to be done.
    pub fn nothing_else(&mut self) {
        assert!(self.actions.is_empty(), "unexpected: {:?}", self.actions);
    }

    /// Leaves out all that is done so far.
    pub fn drop_actions(&mut self) {
        self.actions.clear();
    }

    /// Says something as the task on this connection.
    pub fn say(&mut self, conn: ConnId, dst: Tid, tag: i32, context: i32, body: &[u8]) {
        let header =
            MessageHeader { encoding: XDR_WORD, tag, context, wait_id: 9, ..MessageHeader::default() };
        self.write(conn, &Message { src: Tid::ANY, dst, header, body: Bytes::copy_from_slice(body).into() });
    }

    fn write(&mut self, conn: ConnId, message: &Message) {
        for (header, data) in message.fragments(4080) {
            self.feed(Event::Fragment { conn, header, data });
        }
    }

    /// A request of a task, with any body.
    pub fn request(&mut self, conn: ConnId, request: Tm, body: &[u8]) {
        self.say(conn, Tid::MY_DAEMON, request.tag(), CONTEXT_TM, body);
    }

    /// A request of a task.
    pub fn ask<R: Request>(&mut self, conn: ConnId, request: &R) {
        self.write(conn, &request.message(9));
    }

    /// The next message to a task; the actions must be its fragments and nothing else.
    pub fn message(&mut self) -> (ConnId, Message) {
        loop {
            let Action::Send { conn, header, data, with: Attachment::Nothing } = self.action() else {
                panic!("not a message to a task")
            };
            self.feed(Event::TaskDrained { conn, bytes: FragmentHeader::SIZE + data.len() });
            let incoming = self.incoming.entry(conn).or_insert_with(|| Reassembler::new(1 << 24));
            if let Assembled::Whole(message) = incoming.push(&header, data).expect("a fragment") {
                return (conn, message);
            }
        }
    }

    /// The next message is the answer to this connection's request.
    pub fn reply<C: Call>(&mut self, conn: ConnId) -> Answer<C> {
        let (to, message) = self.message();
        assert_eq!((to, message.src, message.header.tag), (conn, Tid::MY_DAEMON, C::TAG));
        assert_eq!((message.header.context, message.header.wait_id), (C::CONTEXT, 9));
        C::decode_answer(&message.body).expect("an answer")
    }

    /// The next message is the answer to this connection's request: its integers.
    pub fn answer(&mut self, conn: ConnId, request: Tm) -> Vec<i32> {
        let (to, message) = self.message();
        assert_eq!((to, message.src, message.header.tag), (conn, Tid::MY_DAEMON, request.tag()));
        assert_eq!((message.header.context, message.header.wait_id), (CONTEXT_TM, 9));
        let mut reader = BodyReader::new(&message.body);
        let ints = reader.ints(message.body.len() / 4).expect("integers");
        // Reasons for people stand behind a mark.
        ints.into_iter().take_while(|&int| int != EXTENSION_MAGIC).collect()
    }

    /// A new connection.
    pub fn connect(&mut self) -> ConnId {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        self.feed(Event::TaskConnected { conn });
        conn
    }

    /// The channel that a process has inherited.
    pub fn channel(&mut self, cookie: Cookie) -> ConnId {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        self.feed(Event::ChannelOpen { conn, cookie });
        conn
    }

    /// A whole enrolment; the connection and the answer.
    pub fn enrol(&mut self, pid: i32, cookie: i32) -> (ConnId, EnrolReply) {
        self.enrol_with(pid, cookie, Some(EXTENSION_VERSION))
    }

    /// As [`Self::enrol`], by this system's library or (without an extension) the original's.
    pub fn enrol_with(&mut self, pid: i32, cookie: i32, extension: Option<i32>) -> (ConnId, EnrolReply) {
        let conn = self.connect();
        self.ask(conn, &connect(extension));
        let needs_files = extension != Some(EXTENSION_VERSION);
        if needs_files {
            assert!(matches!(self.action(), Action::OpenAuth { task_file, .. } if task_file == "/tmp/auth"));
            self.feed(Event::AuthOpened { conn, result: Ok("/tmp/d".into()) });
        }
        assert_eq!(self.answer(conn, Tm::Connect)[..2], [TASK_PROTOCOL, 1]);
        self.ask(conn, &Conn2 { process: introduction(pid, cookie) });
        if needs_files {
            assert!(matches!(self.action(), Action::CheckAuth { .. }));
            self.feed(Event::AuthChecked { conn, proven: true });
        }
        assert!(matches!(self.action(), Action::Enrolled { .. }));
        let Ok(Admission(Some(reply))) = self.reply::<Conn2>(conn) else { panic!("not enrolled") };
        (conn, reply)
    }

    /// Makes `node{index}` a member, from its start to its commit.
    pub fn add_host(&mut self, conn: ConnId, index: u32) {
        let name = format!("node{index} via=local");
        self.ask(conn, &AddHosts { hosts: vec![name] });
        assert!(matches!(self.action(), Action::StartHost { index: i, .. } if i == host(index)));
        self.feed(Event::HostStarted { index: host(index), result: Ok(started_host()) });
        assert!(matches!(self.action(), Action::Link { .. }));
        self.feed(Event::PeerLinked { host: host(index) });
        let mut serial = 0;
        for _ in 2..=index {
            let FromMaster::TableUpdate { serial: told, .. } = self.ordered() else {
                panic!("not the table")
            };
            serial = told;
        }
        for member in 2..=index {
            self.tell_master(host(member), ToMaster::TableAck { serial, slots: 2, saved: None });
        }
        for _ in 2..=index {
            assert!(matches!(self.ordered(), FromMaster::TableCommit { .. }));
        }
        let (_, message) = self.message();
        assert_eq!(BodyReader::new(&message.body).int(), Ok(1));
        self.nothing_else();
    }

    /// The processes that are to be started now.
    pub fn starts(&mut self) -> Vec<Cookie> {
        match self.action() {
            Action::Start { cookies, .. } => cookies,
            other => panic!("not a start: {other:?}"),
        }
    }

    /// The process with this cookie has been started.
    pub fn started(&mut self, cookie: Cookie, pid: i32) {
        self.feed(Event::ProcessStarted { cookie, result: Ok((pid, "/bin/prog".into())) });
    }

    /// The process with this cookie has ended; what `wait` has said of it.
    pub fn ended(&mut self, cookie: Cookie, status: i32) {
        let status = ExitStatus::from_raw(status);
        self.feed(Event::ProcessExited { cookie, status, used: Used::default() });
    }

    /// A task manager is to be started now, and enrols: its connection, and its cookie.
    pub fn start_manager(&mut self) -> (ConnId, Cookie) {
        match self.action() {
            Action::Start { cookies, program, .. } if program.manager => {
                self.started(cookies[0], 300);
                (self.enrol(300, cookies[0].0).0, cookies[0])
            }
            other => panic!("not a manager's start: {other:?}"),
        }
    }

    /// The next thing said to a daemon is the master's word to it.
    pub fn ordered(&mut self) -> FromMaster {
        match self.told() {
            DaemonMsg::FromMaster { what, .. } => what,
            other => panic!("not the master's word: {other:?}"),
        }
    }

    /// The next thing said to a daemon is meant for the master.
    pub fn asked_master(&mut self) -> ToMaster {
        match self.told() {
            DaemonMsg::ToMaster { what, .. } => what,
            other => panic!("not for the master: {other:?}"),
        }
    }

    /// Another daemon says something to this one.
    pub fn hear(&mut self, from: HostIndex, message: DaemonMsg) {
        self.feed(Event::PeerMessage { host: from, message });
    }

    /// Another daemon answers a request of this one.
    pub fn answers(&mut self, from: HostIndex, id: RequestId, what: PeerReply) {
        self.hear(from, DaemonMsg::Reply { id, what });
    }

    /// A message of one fragment comes from the daemon of its sender's host.
    pub fn hear_message(&mut self, src: Tid, dst: Tid, tag: i32, body: &[u8]) {
        let header = MessageHeader { tag, ..MessageHeader::default() };
        let data = [&header.encode()[..], body].concat().into();
        let from = src.host().expect("a host");
        self.hear(from, DaemonMsg::Data { src, dsts: vec![dst], flags: SOM | EOM, data });
    }

    /// A host says something to this daemon, which is the master.
    pub fn tell_master(&mut self, from: HostIndex, what: ToMaster) {
        let number = self.said.entry(from).or_default();
        *number += 1;
        let message = DaemonMsg::ToMaster { number: *number, heard: 0, what };
        self.hear(from, message);
    }

    /// The master says something to this daemon.
    pub fn order(&mut self, what: FromMaster) {
        let number = self.said.entry(HostIndex::MASTER).or_default();
        *number += 1;
        let message = DaemonMsg::FromMaster { number: *number, heard: 0, what };
        self.hear(HostIndex::MASTER, message);
    }

    /// The next thing said to a daemon.
    pub fn told(&mut self) -> DaemonMsg {
        match self.action() {
            Action::SendPeer { message, .. } => message,
            other => panic!("not said to a daemon: {other:?}"),
        }
    }
}

/// A spawn of this number of tasks, on any hosts.
pub fn anywhere(count: i32) -> SpawnRequest {
    SpawnRequest { file: "prog".into(), count, ..SpawnRequest::default() }
}

/// The same on the spawner's own host.
pub fn here(count: i32) -> SpawnRequest {
    SpawnRequest { flags: flags::HOST, place: ".".into(), ..anywhere(count) }
}

/// A request for notices with the tag 77.
pub fn watch(what: i32, tids: Vec<i32>) -> NotifyRequest {
    NotifyRequest { what, cancel: false, context: 3, tag: 77, count: tids.len() as i32, tids }
}
