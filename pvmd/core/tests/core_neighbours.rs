//! The core and tasks of one host that share memory.

use pvm_wire::body::BodyReader;
use pvm_wire::calls::sharing::{Known, Meet, Share};
use pvm_wire::codes::{CONTEXT_TC, Tc, Tcx};
use pvm_wire::daemon::{DaemonMsg, MoveMsg};
use pvm_wire::header::{EOM, SOM};
use pvm_wire::{MessageHeader, Tid};
use pvmd_core::event::{Action, Attachment, ConnId, Event};
use pvmd_simulated::newcomer::Newcomer;
use pvmd_simulated::recorder::{Recorder, host};

/// The next action tells one task of another: to which connection, of whom, with whose descriptors.
fn told(r: &mut Recorder) -> (ConnId, Tid, ConnId) {
    let Action::Send { conn, header, data, with: Attachment::Shared(of) } = r.action() else {
        panic!("no descriptors")
    };
    assert_eq!((header.src, header.flags), (Tid::MY_DAEMON, SOM | EOM));
    let (head, body) = data.split_first_chunk().unwrap();
    let head = MessageHeader::decode(head);
    assert_eq!((head.tag, head.context), (Tcx::Neighbour.tag(), CONTEXT_TC));
    let mut body = BodyReader::new(body);
    let about = Tid::from_raw(body.int().unwrap());
    (conn, about, of)
}

#[test]
fn both_are_told_and_learn_of_each_others_end() {
    let mut r = Recorder::master();
    let ((first, one), (second, two)) = (r.enrol(100, 0), r.enrol(101, 0));
    r.ask(first, &Share {});
    r.ask(second, &Share {});
    r.ask(first, &Meet { other: two.tid });
    assert_eq!(told(&mut r), (first, two.tid, second));
    assert_eq!(told(&mut r), (second, one.tid, first));
    r.nothing_else();
    r.feed(Event::TaskClosed { conn: first, reason: None });
    let (to, message) = r.message();
    assert_eq!((to, message.header.tag), (second, Tc::TaskExit.tag()));
    assert_eq!((message.header.context, message.src), (CONTEXT_TC, Tid::MY_DAEMON));
    assert_eq!(BodyReader::new(&message.body).int(), Ok(one.tid.raw()));
    r.feed(Event::TaskClosed { conn: second, reason: None });
    r.nothing_else();
}

#[test]
fn who_shares_late_is_met_then() {
    let mut r = Recorder::master();
    let ((first, one), (second, two), (third, _)) = (r.enrol(100, 0), r.enrol(101, 0), r.enrol(102, 0));
    r.ask(first, &Share {});
    r.ask(third, &Share {});
    r.ask(first, &Meet { other: two.tid });
    r.ask(first, &Meet { other: two.tid });
    r.ask(third, &Meet { other: two.tid });
    r.nothing_else();
    r.feed(Event::TaskClosed { conn: third, reason: None });
    r.ask(second, &Share {});
    assert_eq!(told(&mut r), (first, two.tid, second));
    assert_eq!(told(&mut r), (second, one.tid, first));
    r.nothing_else();
}

#[test]
fn a_newcomer_is_met_when_it_has_all_that_was_kept_for_it() {
    let mut r = Recorder::slave();
    let (first, one) = r.enrol(100, 0);
    r.ask(first, &Share {});
    let newcomer = Newcomer::of(&mut r);
    let tid = newcomer.attempt.tid;
    r.ask(newcomer.conn, &Share {});
    r.ask(first, &Meet { other: tid });
    r.ask(newcomer.conn, &Meet { other: one.tid });
    r.nothing_else();
    let all = DaemonMsg::Move(newcomer.attempt, MoveMsg::KeptAll { luggage: None });
    r.hear(host(3), all);
    assert_eq!(told(&mut r), (first, tid, newcomer.conn));
    assert_eq!(told(&mut r), (newcomer.conn, one.tid, first));
    r.nothing_else();
}

#[test]
fn nobody_meets_strangers_or_himself() {
    let mut r = Recorder::master();
    let ((conn, me), (_, deaf)) = (r.enrol(100, 0), r.enrol_with(101, 0, None));
    r.ask(conn, &Share {});
    for other in [me.tid, deaf.tid, Tid::from_bits(0x40077), Tid::from_bits(0x80001)] {
        r.ask(conn, &Meet { other });
        r.nothing_else();
    }
}

#[test]
fn a_task_meets_its_daemon() {
    let (mut r, conn, _) = Recorder::with_task();
    r.ask(conn, &Meet { other: Tid::MY_DAEMON });
    r.ask(conn, &Known {});
    r.nothing_else();
    r.ask(conn, &Share {});
    r.ask(conn, &Meet { other: Tid::MY_DAEMON });
    let Action::Send { conn: to, data, with: Attachment::Memory, .. } = r.action() else {
        panic!("no descriptor")
    };
    let (head, body) = data.split_first_chunk().unwrap();
    assert_eq!((to, MessageHeader::decode(head).tag), (conn, Tcx::Neighbour.tag()));
    assert_eq!(BodyReader::new(body).int(), Ok(Tid::MY_DAEMON.raw()));
    r.ask(conn, &Known {});
    assert!(matches!(r.action(), Action::LendTo { conn: to } if to == conn));
    r.nothing_else();
}
