//! Direct routes that this task has granted and to which no call comes, and calls that come too late, over a daemon that is played here.

use super::direct::{CALL_TIMEOUT, UNCALLED};
use super::meeting::{Address, Caller, Listener};
use super::peers::{Calling, Peer};
use super::*;
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, TASK_PROTOCOL, Tc};
use rustix::io::Errno;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;

const OWN: Tid = Tid::from_bits(0x4_0001);
const OTHER: Tid = Tid::from_bits(0x8_0001);
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Time limit of a step, generous for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A task, and its daemon's end.
struct Scene {
    engine: Engine,
    daemon: UnixStream,
}

impl Scene {
    fn new() -> Self {
        let (ours, daemon) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut engine = Engine::unenrolled(ours.into(), &Settings::default());
        engine.identity.tid = OWN;
        engine.identity.address = "7f000001:0001".to_owned();
        Self { engine, daemon }
    }

    /// A message of the other task comes by the daemons.
    fn deliver(&mut self, tag: i32, context: i32, body: BodyWriter) {
        let body = body.finish().into();
        let message = Message { src: OTHER, dst: OWN, header: xdr_header(tag, context, 0), body };
        self.daemon.write_all(&message.encode(1000)).unwrap();
        assert!(self.engine.read_all_ready().unwrap());
    }

    /// The other asks for a route; from where it would call, and where this task waits.
    fn grant(&mut self) -> (Caller, Address) {
        let caller = Caller::remote(HERE).unwrap();
        let question = BodyWriter::new().int(TASK_PROTOCOL).str(caller.address().to_string());
        self.deliver(Tc::ConReq.tag(), CONTEXT_TC, question);
        let Some(Peer::Granted(granted)) = self.engine.peers.get(OTHER) else { panic!("it is granted") };
        (caller, granted.listener.address().clone())
    }

    /// The time for the call is over.
    fn pass_time(&mut self) {
        if let Some(Peer::Granted(granted)) = self.engine.peers.get_mut(OTHER) {
            granted.until = Instant::now();
        }
    }

    fn heard(&mut self) -> Option<i32> {
        let message = self.engine.receive(Wait::For(Duration::ZERO), &mut |_| true).unwrap();
        message.map(|message| message.header.tag)
    }
}

#[test]
fn a_route_that_is_not_called_is_given_up_and_messages_go_by_the_daemons() {
    let mut scene = Scene::new();
    let (caller, address) = scene.grant();
    scene.deliver(7, 1, BodyWriter::new());
    assert!(matches!(scene.engine.peers.get(OTHER), Some(Peer::Granted(_))), "there is time");
    scene.pass_time();
    scene.deliver(8, 1, BodyWriter::new());
    assert_eq!(scene.engine.peers.sockets().count(), 0, "nothing is polled for it any more");
    assert!(matches!(scene.engine.peers.get(OTHER), Some(Peer::Refused)), "nor does this task ask");
    assert_eq!([scene.heard(), scene.heard(), scene.heard()], [Some(7), Some(8), None]);
    // A late call is refused, which its task sees, rather than being made and broken.
    let called = call(caller, &address);
    assert_eq!(called.expect_err("nothing listens"), Errno::CONNREFUSED);
    // The other may ask again.
    let (caller, address) = scene.grant();
    call(caller, &address).unwrap();
}

#[test]
fn a_call_that_was_made_in_time_is_taken_however_late_that_is_seen() {
    let mut scene = Scene::new();
    let (caller, address) = scene.grant();
    // One that calls before is sent away.
    let _stranger = call(Caller::remote(HERE).unwrap(), &address).unwrap();
    let _socket = call(caller, &address).unwrap();
    scene.pass_time();
    for tag in [7, 8] {
        scene.deliver(tag, 1, BodyWriter::new());
    }
    assert!(matches!(scene.engine.peers.get(OTHER), Some(Peer::Open(_))));
    assert_eq!([scene.heard(), scene.heard()], [Some(7), Some(8)]);
}

#[test]
fn a_grant_lasts_longer_than_a_system_tries_to_connect() {
    // Linux gives a connection up after 127 s, unless it is told to try longer.
    assert!(UNCALLED > Duration::from_secs(127) && UNCALLED > CALL_TIMEOUT);
}

#[test]
fn an_automatic_route_on_which_nothing_listens_any_more_is_asked_for_again_later() {
    for is_automatic in [true, false] {
        let mut scene = Scene::new();
        let caller = Caller::remote(HERE).unwrap();
        let gone = Listener::new(caller.address().clone(), HERE).unwrap();
        let address = gone.address().clone();
        drop(gone);
        let socket = caller.call(&address).unwrap();
        let mut route = Route::direct(socket, 1 << 20, OTHER, None);
        route.hide(is_automatic);
        let deadline = Instant::now() + CALL_TIMEOUT;
        scene.engine.peers.set(OTHER, Peer::Calling(Calling { route, deadline, sent: 0 }));
        let end = Instant::now() + LIMIT;
        while matches!(scene.engine.peers.get(OTHER), Some(Peer::Calling(_))) {
            assert!(Instant::now() < end, "the call has neither failed nor been taken");
            scene.engine.check_call(OTHER);
        }
        assert_eq!(scene.engine.peers.get(OTHER).is_none(), is_automatic);
    }
}

/// Calls, and waits until the connection is made or refused.
fn call(caller: Caller, address: &Address) -> std::result::Result<OwnedFd, Errno> {
    let socket = caller.call(address)?;
    let end = Instant::now() + LIMIT;
    while rustix::net::getpeername(&socket).is_err() {
        rustix::net::sockopt::socket_error(&socket)??;
        assert!(Instant::now() < end, "it is neither made nor refused");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(socket)
}
