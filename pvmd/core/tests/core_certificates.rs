//! The core alone: certificates for servers that tasks run.

use pvm_wire::PvmError;
use pvm_wire::calls::certificate::Certify;
use pvm_wire::certificate::{CertificateRequest, Certified};
use pvm_wire::codes::{CONTEXT_TM, Tmx};
use pvm_wire::daemon::{DaemonMsg, FromMaster, PeerReply, PeerRequest, RequestId};
use pvm_wire::{HostIndex, Tid};
use pvmd_core::event::{Action, ConnId, Event};
use pvmd_simulated::recorder::{Recorder, host};

fn request(names: &[&str], key: usize) -> CertificateRequest {
    CertificateRequest { names: names.iter().map(|&name| name.to_owned()).collect(), key: vec![7; key] }
}

fn certified() -> Certified {
    Certified { certificate: vec![1, 2, 3], authority: vec![4, 5] }
}

/// What no authority signs, and a word of the reason.
fn wrong() -> Vec<(CertificateRequest, &'static str)> {
    let (long, many) = ("a.".repeat(200) + "a", ["a"; 17]);
    vec![
        (request(&[], 91), "names"),
        (request(&many, 91), "names"),
        (request(&["node1", &long], 91), "too long"),
        (request(&["node1", "h2.pvm"], 91), "daemons"),
        (request(&["H2.PVM"], 91), "daemons"),
        (request(&["h2.pvm."], 91), "name"),
        (request(&["*"], 91), "name"),
        (request(&["a\nb"], 91), "name"),
        (request(&["node1"], 0), "key"),
        (request(&["node1"], 1025), "key"),
    ]
}

/// Host 2 of three, with a task.
fn slave() -> (Recorder, ConnId) {
    let mut r = Recorder::slave();
    r.order(FromMaster::Deputies { hosts: [1, 2, 3].map(host).to_vec() });
    let (conn, _) = r.enrol(100, 0);
    (r, conn)
}

/// A task's request is passed on to this host.
fn passed_on(r: &mut Recorder, conn: ConnId) -> RequestId {
    r.ask(conn, &Certify(request(&["node2"], 91)));
    match r.action() {
        Action::SendPeer { host, message: DaemonMsg::Request { id, what: PeerRequest::Certify(asked) } } => {
            assert_eq!((host, asked), (HostIndex::MASTER, request(&["node2"], 91)));
            id
        }
        other => panic!("not asked: {other:?}"),
    }
}

fn refusal(r: &mut Recorder, conn: ConnId) -> (PvmError, String) {
    let error = r.reply::<Certify>(conn).expect_err("a refusal");
    (error.error(), error.reason)
}

#[test]
fn the_masters_driver_signs_for_its_own_tasks() {
    let (mut r, conn, _) = Recorder::with_task();
    r.ask(conn, &Certify(request(&["node1", "10.0.0.1"], 91)));
    let Action::Certify { host: asker, id, request: asked } = r.action() else { panic!("not signed") };
    assert_eq!((asker, asked), (HostIndex::MASTER, request(&["node1", "10.0.0.1"], 91)));
    r.nothing_else();
    r.feed(Event::Certified { host: asker, id, result: Ok(certified()) });
    assert_eq!(r.reply::<Certify>(conn), Ok(certified()));
    r.feed(Event::Certified { host: asker, id, result: Ok(certified()) });
    r.nothing_else();
}

#[test]
fn what_the_driver_refuses_has_its_reason() {
    let (mut r, conn, _) = Recorder::with_task();
    r.ask(conn, &Certify(request(&["node1"], 5)));
    let Action::Certify { host: asker, id, .. } = r.action() else { panic!("not signed") };
    let result = Err((PvmError::BadParam, "not a public key".to_owned()));
    r.feed(Event::Certified { host: asker, id, result });
    assert_eq!(refusal(&mut r, conn), (PvmError::BadParam, "not a public key".to_owned()));
}

#[test]
fn a_task_may_end_before_the_answer() {
    let (mut r, conn, _) = Recorder::with_task();
    r.ask(conn, &Certify(request(&["node1"], 91)));
    let Action::Certify { host: asker, id, .. } = r.action() else { panic!("not signed") };
    r.feed(Event::TaskClosed { conn, reason: None });
    while r.pending() {
        r.action();
    }
    r.feed(Event::Certified { host: asker, id, result: Ok(certified()) });
    r.nothing_else();
}

#[test]
fn wrong_requests_of_tasks_go_nowhere() {
    for (mut r, conn) in [slave(), {
        let (r, conn, _) = Recorder::with_task();
        (r, conn)
    }] {
        for (request, word) in wrong() {
            r.ask(conn, &Certify(request.clone()));
            let (error, reason) = refusal(&mut r, conn);
            assert!(error == PvmError::BadParam && reason.contains(word), "{request:?}: {error:?}, {reason}");
        }
        for body in [&[][..], &[255; 40], &[1, 200, 1]] {
            r.say(conn, Tid::MY_DAEMON, Tmx::Certify.tag(), CONTEXT_TM, body);
            assert_eq!(refusal(&mut r, conn).0, PvmError::BadParam, "{body:?}");
        }
        r.nothing_else();
    }
}

#[test]
fn wrong_requests_of_daemons_are_refused_by_the_master() {
    let (mut r, _conn, _) = Recorder::with_host();
    for (wrong, word) in wrong() {
        r.hear(host(2), DaemonMsg::Request { id: RequestId(5), what: PeerRequest::Certify(wrong.clone()) });
        let DaemonMsg::Reply { id: RequestId(5), what: PeerReply::Certified { result } } = r.told() else {
            panic!("no answer to {wrong:?}")
        };
        let (error, reason) = result.expect_err("a refusal");
        assert!(error == PvmError::BadParam && reason.contains(word), "{wrong:?}: {error:?}, {reason}");
        r.nothing_else();
    }
    let what = PeerRequest::Certify(request(&["node2"], 91));
    r.hear(host(2), DaemonMsg::Request { id: RequestId(6), what });
    let Action::Certify { host: asker, id, request: asked } = r.action() else { panic!("not signed") };
    assert_eq!((asker, id, asked), (host(2), RequestId(6), request(&["node2"], 91)));
    r.feed(Event::Certified { host: asker, id, result: Ok(certified()) });
    let result = Ok(certified());
    assert_eq!(r.told(), DaemonMsg::Reply { id: RequestId(6), what: PeerReply::Certified { result } });
    r.nothing_else();
}

#[test]
fn a_slave_passes_requests_and_answers_on() {
    let (mut r, conn) = slave();
    let id = passed_on(&mut r, conn);
    let reply = |result| DaemonMsg::Reply { id, what: PeerReply::Certified { result } };
    // Another host cannot answer for the master.
    r.feed(Event::PeerLinked { host: host(3) });
    r.hear(host(3), reply(Ok(certified())));
    r.nothing_else();
    r.hear(HostIndex::MASTER, reply(Ok(certified())));
    assert_eq!(r.reply::<Certify>(conn), Ok(certified()));

    let id = passed_on(&mut r, conn);
    let result = Err((PvmError::DSysErr, "no authority".to_owned()));
    r.answers(HostIndex::MASTER, id, PeerReply::Certified { result });
    assert_eq!(refusal(&mut r, conn), (PvmError::DSysErr, "no authority".to_owned()));
    r.nothing_else();
}

#[test]
fn a_slave_signs_nothing() {
    let (mut r, _) = slave();
    r.feed(Event::PeerLinked { host: host(3) });
    let what = PeerRequest::Certify(request(&["node3"], 91));
    r.hear(host(3), DaemonMsg::Request { id: RequestId(9), what });
    let DaemonMsg::Reply { id: RequestId(9), what: PeerReply::Certified { result: Err((error, _)) } } =
        r.told()
    else {
        panic!("no refusal")
    };
    assert_eq!(error, PvmError::HostFail);
    r.nothing_else();
}
