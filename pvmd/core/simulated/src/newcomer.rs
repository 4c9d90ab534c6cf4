//! A task that has just come from another host.

use crate::recorder::{Recorder, here, host};
use pvm_wire::calls::moves::Arrive;
use pvm_wire::daemon::{Attempt, DaemonMsg, FromMaster, MoveMsg, PeerRequest, RequestId};
use pvmd_core::event::{ConnId, Event};

/// A task of host 3 that has moved to host 2. Its old host may still have something for it.
pub struct Newcomer {
    /// The attempt to move it.
    pub attempt: Attempt,
    /// Its connection.
    pub conn: ConnId,
}

impl Newcomer {
    /// It comes to the slave that is recorded.
    pub fn of(r: &mut Recorder) -> Self {
        let attempt = Attempt { tid: host(3).task(1), from: host(3), number: 1 };
        let say = |r: &mut Recorder, what| {
            r.hear(host(3), DaemonMsg::Move(attempt, what));
        };
        r.feed(Event::PeerLinked { host: host(3) });
        let what = PeerRequest::Succeed { attempt, parent: 0, spawn: Box::new(here(1)) };
        r.hear(host(3), DaemonMsg::Request { id: RequestId(1), what });
        let cookie = r.starts()[0];
        r.started(cookie, 300);
        assert!(matches!(r.told(), DaemonMsg::Reply { .. }));
        let (conn, _) = r.enrol(300, cookie.0);
        say(r, MoveMsg::Hold { to: host(2) });
        say(r, MoveMsg::Frozen { luggage: Box::default(), hosts: vec![host(2)] });
        r.ask(conn, &Arrive {});
        r.order(FromMaster::Moved { attempt, to: host(2) });
        while r.pending() {
            r.action();
        }
        Self { attempt, conn }
    }
}
