//! The core and tasks that move.

use pvm_wire::daemon::{DaemonMsg, MoveMsg, PeerReply, PeerRequest, RequestId};
use pvmd_simulated::newcomer::Newcomer;
use pvmd_simulated::recorder::{Recorder, host};

#[test]
fn a_task_that_has_just_come_moves_on_when_its_old_host_has_sent_all() {
    let mut r = Recorder::slave();
    let newcomer = Newcomer::of(&mut r);
    let tid = newcomer.attempt.tid;
    let wanted = |id, to| DaemonMsg::Request { id: RequestId(id), what: PeerRequest::Move { tid, to } };
    r.hear(host(3), wanted(7, Some(host(2))));
    let here = PeerReply::Moved { result: Ok(host(2)) };
    assert_eq!(r.told(), DaemonMsg::Reply { id: RequestId(7), what: here });
    r.hear(host(3), wanted(8, Some(host(3))));
    r.nothing_else();
    r.hear(host(3), DaemonMsg::Move(newcomer.attempt, MoveMsg::KeptAll { luggage: None }));
    let DaemonMsg::Request { what: PeerRequest::Succeed { attempt, .. }, .. } = r.told() else {
        panic!("it does not move on")
    };
    assert_eq!((attempt.tid, attempt.from), (tid, host(2)));
}
