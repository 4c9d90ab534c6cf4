use super::*;
use pvm_wire::Body;
use std::io::Write;
use std::os::unix::net::UnixStream;

const TASK: Tid = Tid::from_bits(0x4_0001);

#[test]
fn the_daemons_last_messages_are_read_behind_unread_ones() {
    let (ours, mut daemon) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut engine = Engine::unenrolled(ours.into(), &Settings::default());
    engine.identity.tid = TASK;
    let header = xdr_header(7, 1, 0);
    let last_words = Message { src: Tid::MY_DAEMON, dst: TASK, header, body: Body::new() };
    daemon.write_all(&last_words.encode(1000)).unwrap();
    drop(daemon);
    engine.inbox.deferred.push_back(Message { src: TASK, dst: Tid::MY_DAEMON, header, body: Body::new() });
    let heard = engine.receive(Wait::Forever, &mut |_| true).unwrap().unwrap();
    assert_eq!((heard.src, heard.header.tag), (Tid::MY_DAEMON, 7));
    assert!(engine.receive(Wait::Forever, &mut |_| true).is_err());
    assert!(!engine.is_enrolled());
}
