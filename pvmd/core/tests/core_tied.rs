//! Tasks that end with the host of the task that has spawned them.

use pvm_wire::daemon::{DaemonMsg, PeerReply, PeerRequest, RequestId};
use pvm_wire::spawn::{SpawnRequest, flags};
use pvmd_core::event::{Action, Cookie, Event};
use pvmd_simulated::recorder::{Recorder, here, host};

const SIGTERM: i32 = 15;

/// Has host 2 order one task here, with these flags; the cookie of its process.
fn order(r: &mut Recorder, id: u64, flags: i32) -> Cookie {
    let request = here(1);
    let spawn = SpawnRequest { flags: request.flags | flags, ..request };
    let what = PeerRequest::Exec { batch: None, count: 1, first: 0, parent: 0, spawn: Box::new(spawn) };
    r.hear(host(2), DaemonMsg::Request { id: RequestId(id), what });
    r.starts()[0]
}

fn starts(r: &mut Recorder, cookie: Cookie, pid: i32) {
    r.started(cookie, pid);
    assert!(matches!(r.told(), DaemonMsg::Reply { what: PeerReply::Started { .. }, .. }));
}

/// The process that is sent SIGTERM now.
fn ended(r: &mut Recorder) -> i32 {
    match r.action() {
        Action::Signal { pid, signal: SIGTERM } => pid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tied_tasks_end_when_their_spawners_host_is_lost_and_others_go_on() {
    let (mut r, conn, _) = Recorder::with_host();
    r.add_host(conn, 3);
    let [tied, free, late] =
        [(1, flags::TIED), (2, 0), (3, flags::TIED)].map(|(id, flags)| order(&mut r, id, flags));
    starts(&mut r, tied, 201);
    starts(&mut r, free, 202);
    let lost = |host| Event::PeerLost { host, reason: "silent".into(), has_ended: false };
    r.feed(lost(host(3)));
    while r.pending() {
        assert!(!matches!(r.action(), Action::Signal { .. }), "another host is lost");
    }
    r.feed(lost(host(2)));
    let mut signalled = Vec::new();
    while r.pending() {
        if let Action::Signal { pid, signal } = r.action() {
            signalled.push((pid, signal));
        }
    }
    assert_eq!(signalled, [(201, SIGTERM)]);
    // Its process was being started when the host was lost.
    r.started(late, 203);
    assert_eq!(ended(&mut r), 203);
}
