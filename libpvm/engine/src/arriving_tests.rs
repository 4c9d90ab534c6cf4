//! A task that has moved to this host, and what this one has agreed with it before, over a daemon that is played here.

use super::direct::ALLOW_DIRECT;
use super::order::mark;
use super::peers::Peer;
use super::route::{Arrival, PeerLibrary};
use super::*;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::tasks::{ListTasks, TaskList, TaskRecord};
use pvm_wire::calls::{Call as _, Request as _};
use pvm_wire::codes::{CONTEXT_TC, Tc, Tcx, task_flags};
use pvm_wire::{Body, HostIndex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

const OWN: Tid = Tid::from_bits(0x4_0001);
const OTHER: Tid = Tid::from_bits(0x8_0001);

fn numbered(tag: i32) -> Message {
    let header = MessageHeader { tag, ..MessageHeader::default() };
    Message { src: OTHER, dst: OWN, header, body: Body::new() }
}

fn pair() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (one, other)
}

impl Engine {
    /// A direct route is open at this end.
    fn open_to(&mut self, other: Tid, end: OwnedFd) {
        let library = Some(PeerLibrary { same_signature: true });
        let route = Route::direct(end, 1 << 20, other, None).with_library(library);
        self.peers.expect_both_ways(other, true);
        self.peers.set(other, Peer::Open(route));
    }
}

/// A task that shares memory, and its daemon's end.
struct Scene {
    engine: Engine,
    daemon: Route,
    /// What the task has sent by the daemon.
    sent: Vec<Message>,
}

impl Scene {
    fn new() -> Self {
        let (ours, theirs) = pair();
        let mut engine = Engine::unenrolled(ours.into(), &Settings::default());
        engine.extension = Some(codes::EXTENSION_VERSION);
        engine.identity.tid = OWN;
        engine.options.route = ALLOW_DIRECT;
        let socket = engine.route.as_ref().map(Route::socket);
        engine.neighbours = neighbours::Neighbours::offered(OWN, socket, &Settings::default());
        engine.share();
        Self { engine, daemon: Route::new(theirs.into(), 1 << 20), sent: Vec::new() }
    }

    /// The two have a direct route, and the other has opened its end, too; that end.
    fn with_route() -> (Self, UnixStream) {
        let (end, other) = pair();
        Self::with_connection(end.into(), other)
    }

    /// The same over a network.
    fn with_tcp_route() -> (Self, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let end = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        end.set_nonblocking(true).unwrap();
        let (other, _) = listener.accept().unwrap();
        Self::with_connection(end.into(), other)
    }

    fn with_connection<S: std::io::Write>(end: OwnedFd, mut other: S) -> (Self, S) {
        let mut scene = Self::new();
        scene.engine.open_to(OTHER, end);
        other.write_all(&mark(OTHER, OWN, 0).encode(1000)).unwrap();
        scene.read();
        (scene, other)
    }

    /// The two have a direct route, and this task has left it; the other's end.
    fn with_left_route() -> (Self, UnixStream) {
        let (mut scene, other) = Self::with_route();
        assert!(scene.engine.leave_route(OTHER));
        (scene, other)
    }

    /// This task has called, and the other not accepted the connection.
    fn with_call() -> (Self, TcpListener) {
        let mut scene = Self::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let end = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        end.set_nonblocking(true).unwrap();
        scene.engine.open_to(OTHER, end.into());
        (scene, listener)
    }

    /// The two had a direct route, which is broken. The other has sent message 2 by the daemon; whether 1 was lost is not known here.
    fn with_broken_route() -> Self {
        let (mut scene, other) = Self::with_route();
        scene.send(1);
        scene.deliver(&numbered(2));
        scene.read();
        // The system resets a connection on which something was not read.
        drop(other);
        scene.read();
        assert!(scene.engine.peers.get(OTHER).is_none());
        assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![], 1));
        assert!(!scene.engine.may_be_direct(OTHER), "on another route its messages would lose their order");
        scene
    }

    /// The system knows that the route is broken.
    fn await_reset(&self) {
        let route = self.engine.peers.route(OTHER).unwrap();
        let mut broken = [PollFd::from_borrowed_fd(route.fd(), PollFlags::empty())];
        while !broken[0].revents().contains(PollFlags::HUP) {
            poll(&mut broken, None).unwrap();
        }
    }

    /// The other has ended.
    fn hear_of_end(&mut self) {
        let (header, body) =
            (xdr_header(Tc::TaskExit.tag(), CONTEXT_TC, 0), BodyWriter::new().int(OTHER.raw()));
        self.deliver(&Message { src: Tid::MY_DAEMON, header, body: body.finish().into(), ..numbered(0) });
        self.read();
    }

    /// The other has said something about the route.
    fn hear_of_route(&mut self, body: BodyWriter) {
        let header = xdr_header(Tcx::RouteLost.tag(), CONTEXT_TC, 0);
        self.deliver(&Message { header, body: body.finish().into(), ..numbered(0) });
        self.read();
    }

    /// The other has come, and the two know each other.
    fn with_newcomer() -> Self {
        let mut scene = Self::new();
        scene.arrive();
        scene.read();
        scene
    }

    fn read(&mut self) {
        assert!(self.engine.read_all_ready().unwrap());
        self.engine.send_deferred();
    }

    /// The daemon has a message of the other task.
    fn deliver(&mut self, message: &Message) {
        self.daemon.send_descriptors(&message.encode(1000), &[]).unwrap();
    }

    /// The other lives here now, and the daemon introduces the two.
    fn arrive(&mut self) {
        let memory = pvm_shm::Outbox::new(1 << 20).unwrap();
        let host = HostIndex::new(1).unwrap().host_tid();
        let tell = |tag: Tcx, body: BodyWriter| {
            let header = xdr_header(tag.tag(), CONTEXT_TC, 0);
            let message = Message { src: Tid::MY_DAEMON, dst: OWN, header, body: body.finish().into() };
            message.encode(1000)
        };
        let moved = tell(Tcx::Moved, BodyWriter::new().int(OTHER.raw()).int(host.raw()));
        self.daemon.send_descriptors(&moved, &[]).unwrap();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let introduced = tell(Tcx::Neighbour, BodyWriter::new().int(OTHER.raw()));
        self.daemon.send_descriptors(&introduced, &[memory.segment().fd(), bell.as_fd()]).unwrap();
    }

    /// Sends a number to the other.
    fn send(&mut self, number: i32) {
        let mut packed = Packed::new(Encoding::Xdr);
        packed.pack(&[number]).unwrap();
        self.engine.send(OTHER, MessageHeader::default(), Payload::Packed(&packed)).unwrap();
    }

    /// How many messages with this tag the task has sent by the daemon by now.
    fn count_sent(&mut self, tag: i32) -> usize {
        while let Ok(Arrival::Some(_)) = self.daemon.read(&mut self.sent) {}
        self.sent.iter().filter(|message| message.header.tag == tag).count()
    }

    /// Whether the other was told that this task has mapped its memory, so that it may open a ring.
    fn is_told(&mut self) -> bool {
        self.count_sent(Tcx::Known.tag()) > 0
    }

    fn has_open_ring(&self) -> bool {
        self.engine.neighbours.reached().any(|tid| tid == OTHER)
    }

    /// The other has mapped this task's memory.
    fn hear_known(&mut self) {
        let header = xdr_header(Tcx::Known.tag(), CONTEXT_TC, 0);
        self.deliver(&Message { header, ..numbered(0) });
        self.read();
    }

    /// The same, and messages go into the ring.
    fn open_ring(&mut self) {
        self.hear_known();
        self.send(1);
        assert!(self.has_open_ring());
    }

    fn heard(&mut self) -> Vec<i32> {
        let mut next = || self.engine.receive(Wait::For(Duration::ZERO), &mut |_| true).unwrap();
        std::iter::from_fn(|| next().map(|message| message.header.tag)).collect()
    }
}

#[test]
fn a_newcomer_opens_no_ring_before_its_route_is_read_to_the_end() {
    let (mut scene, mut other) = Scene::with_left_route();
    scene.arrive();
    scene.deliver(&numbered(2));
    scene.read();
    assert!(!scene.is_told(), "what it writes into a ring would overtake what waits for the route's end");
    other.write_all(&numbered(1).encode(1000)).unwrap();
    other.shutdown(std::net::Shutdown::Both).unwrap();
    while scene.engine.read_all_ready().unwrap() {}
    scene.engine.send_deferred();
    assert_eq!(scene.heard(), [1, 2]);
    assert!(scene.is_told());
}

#[test]
fn the_end_of_a_route_is_seen_while_messages_come_from_the_daemon() {
    let (mut scene, other) = Scene::with_left_route();
    other.shutdown(std::net::Shutdown::Both).unwrap();
    scene.deliver(&numbered(1));
    scene.read();
    assert!(scene.engine.peers.get(OTHER).is_none());
    assert_eq!(scene.heard(), [1]);
}

#[test]
fn what_may_have_been_sent_behind_lost_messages_is_dropped_when_the_task_has_ended() {
    let mut scene = Scene::with_broken_route();
    scene.hear_of_end();
    assert_eq!(scene.heard(), []);
    assert!(scene.engine.may_be_direct(OTHER));
    // The same if the end is heard of first.
    let (mut scene, other) = Scene::with_route();
    scene.send(1);
    scene.deliver(&numbered(2));
    scene.hear_of_end();
    drop(other);
    scene.read();
    assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![], 0));
    assert!(scene.engine.may_be_direct(OTHER));
}

#[test]
fn a_task_that_exits_before_it_accepts_a_connection_has_lost_nothing() {
    let (mut scene, listener) = Scene::with_call();
    scene.deliver(&numbered(1));
    scene.read();
    drop(listener);
    scene.read();
    assert_eq!(scene.heard(), [1]);
    // The same if its end is heard of first.
    let (mut scene, listener) = Scene::with_call();
    scene.deliver(&numbered(1));
    scene.hear_of_end();
    drop(listener);
    scene.read();
    assert_eq!(scene.heard(), [1]);
}

#[test]
fn a_route_that_the_other_has_ended_before_is_complete() {
    let (mut scene, other) = Scene::with_tcp_route();
    scene.deliver(&numbered(2));
    scene.read();
    assert_eq!(scene.heard(), []);
    // It has left the route, and exits with something unread.
    other.shutdown(std::net::Shutdown::Write).unwrap();
    scene.send(1);
    drop(other);
    scene.await_reset();
    scene.send(2);
    assert!(scene.engine.peers.get(OTHER).is_none());
    assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![2], 0));
}

#[test]
fn a_route_that_breaks_before_its_end_is_not_complete_when_a_send_finds_it_broken() {
    let (mut scene, other) = Scene::with_tcp_route();
    scene.deliver(&numbered(2));
    scene.send(1);
    drop(other);
    scene.await_reset();
    scene.send(2);
    assert!(scene.engine.peers.get(OTHER).is_none());
    scene.engine.send_deferred();
    assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![], 1));
}

#[test]
fn what_may_have_been_sent_behind_lost_messages_comes_when_the_other_knows_of_the_loss() {
    let mut scene = Scene::with_broken_route();
    scene.hear_of_route(BodyWriter::new());
    assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![2], 2), "it is answered");
    let mut scene = Scene::with_broken_route();
    scene.hear_of_route(BodyWriter::new().int(1));
    assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![2], 1), "answers are not");
    assert!(scene.engine.may_be_direct(OTHER));
}

#[test]
fn a_route_that_the_other_has_lost_is_read_and_forgotten() {
    let (mut scene, mut other) = Scene::with_route();
    other.write_all(&numbered(1).encode(1000)).unwrap();
    scene.deliver(&numbered(2));
    scene.hear_of_route(BodyWriter::new());
    assert_eq!((scene.heard(), scene.count_sent(Tcx::RouteLost.tag())), (vec![1, 2], 1));
    assert!(scene.engine.peers.get(OTHER).is_none() && scene.engine.may_be_direct(OTHER));
}

#[test]
fn a_late_answer_about_a_library_opens_no_route_to_a_task_that_has_come_to_this_host() {
    let mut scene = Scene::new();
    scene.send(1);
    scene.send(2);
    assert_eq!(scene.count_sent(ListTasks::TAG), 1);
    scene.arrive();
    scene.read();
    scene.open_ring();
    let question = scene.sent.iter().find(|message| message.header.tag == ListTasks::TAG).unwrap();
    let (name, flags) = (std::ffi::OsString::new(), task_flags::EXTENDED | task_flags::CONNECTED);
    let record = TaskRecord { tid: OTHER, parent: 0, host: 0, flags, name, pid: 0 };
    let body = ListTasks::encode_reply(&TaskList { tasks: vec![record] }).into();
    scene.deliver(&Message { src: Tid::MY_DAEMON, dst: OWN, header: question.header, body });
    scene.read();
    assert_eq!(scene.count_sent(Tc::ConReq.tag()), 0);
    assert!(scene.engine.peers.get(OTHER).is_none());
}

#[test]
fn a_ring_is_left_before_a_message_goes_another_way() {
    let mut scene = Scene::with_newcomer();
    scene.open_ring();
    scene.engine.route_request(OTHER, false);
    scene.send(2);
    assert!(!scene.has_open_ring(), "the next one on the ring would overtake it");
}

#[test]
fn a_message_goes_by_the_daemon_if_the_other_moves_while_its_ring_is_announced() {
    let mut scene = Scene::with_newcomer();
    scene.hear_known();
    // The daemon is slow: nothing more can be written, and the other's word that it is about to move has come.
    let (ours, theirs) = (scene.engine.route.as_ref().unwrap().socket(), scene.daemon.socket());
    for length in [4096, 1] {
        while rustix::io::write(&ours, &vec![0; length]).is_ok() {}
    }
    let (header, leave) = (xdr_header(Tcx::Leave.tag(), CONTEXT_TC, 0), BodyWriter::new().int(0));
    scene.deliver(&Message { header, body: leave.finish().into(), ..numbered(0) });
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| scene.send(1));
        while !sending.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            while rustix::io::read(&theirs, &mut [0; 4096]).is_ok() {}
        }
    });
    assert!(!scene.has_open_ring());
}
