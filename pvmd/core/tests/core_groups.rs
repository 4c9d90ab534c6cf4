//! The core and groups: the keeper's id, members on other hosts, and what happens when they or their hosts end.

use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::calls::mailbox::{Flags, Get, Names, Remove};
use pvm_wire::calls::tasks::{Multicast, TaskStatus};
use pvm_wire::codes::{CONTEXT_TC, Tc, Tm};
use pvm_wire::daemon::{Blob, DaemonMsg, FromMaster, ToMaster};
use pvm_wire::group::{CONTEXT, Key, Passed, Request, View, keeper, tag};
use pvm_wire::{MessageHeader, PvmError, Tid};
use pvmd_core::event::{Action, ConnId, Event};
use pvmd_simulated::recorder::{Recorder, host};
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// A task of this host makes a request of the keeper.
fn ask(r: &mut Recorder, conn: ConnId, request: Request<'_>) {
    r.say(conn, keeper(), request.tag(), CONTEXT, &request.encode());
}

/// The next message is the keeper's to this connection: its tag and body.
fn told_by_keeper(r: &mut Recorder, conn: ConnId) -> (i32, Vec<u8>) {
    let (to, message) = r.message();
    assert_eq!((to, message.src, message.header.context), (conn, keeper(), CONTEXT));
    (message.header.tag, message.body.to_vec())
}

fn number(r: &mut Recorder, conn: ConnId, request: Request<'_>) -> i32 {
    ask(r, conn, request);
    let (tag, body) = told_by_keeper(r, conn);
    assert_eq!(tag, request.tag());
    BodyReader::new(&body).int().expect("a number")
}

/// A task of another host makes a request of the keeper.
fn ask_from_afar(r: &mut Recorder, from: Tid, request: Request<'_>) {
    let (tag, body) = (request.tag(), Blob(request.encode().into()));
    let what = ToMaster::Keeper { from, context: CONTEXT, tag, body };
    r.tell_master(from.host().expect("a host"), what);
}

/// The next thing said to a daemon is a message of the keeper: to whom, the tag, the first number.
fn sent_afar(r: &mut Recorder) -> (Vec<Tid>, i32, i32) {
    let FromMaster::Keeper { to, context: CONTEXT, tag, body } = r.ordered() else {
        panic!("no message to tasks")
    };
    (to, tag, BodyReader::new(&body.0).int().expect("a number"))
}

#[test]
fn the_mailbox_tells_where_the_keeper_is_and_keeps_telling() {
    let (mut r, conn, me) = Recorder::with_task();
    r.ask(conn, &Remove { tid: me.tid, class: "pvmgs".into(), index: 0 });
    assert_eq!(r.reply::<Remove>(conn), Err(PvmError::Denied.into()));
    r.ask(conn, &Get { tid: me.tid, class: "pvmgs".into(), index: 0, flags: Flags::from_bits(0) });
    let answer = r.answer(conn, Tm::Db);
    assert_eq!((answer[0], answer.last()), (0, Some(&keeper().raw())));
    // No list shows it: to users nothing is there.
    r.ask(conn, &Names { tid: me.tid, pattern: "".into() });
    assert_eq!(r.reply::<Names>(conn), Ok(Vec::new()));
    r.nothing_else();
}

#[test]
fn the_keeper_lives_and_wants_no_direct_route() {
    let (mut r, conn, _) = Recorder::with_task();
    r.ask(conn, &TaskStatus { tid: keeper() });
    assert_eq!(r.reply::<TaskStatus>(conn), Ok(()));
    r.say(conn, keeper(), Tc::ConReq.tag(), CONTEXT_TC, &BodyWriter::new().int(1318).int(1).str("").finish());
    let (to, message) = r.message();
    assert_eq!((to, message.src, message.header.tag), (conn, keeper(), Tc::ConAck.tag()));
    assert_eq!(BodyReader::new(&message.body).ints(2), Ok(vec![1318, 1]));
    // In another context its tags mean nothing.
    r.say(conn, keeper(), tag::JOIN, 0, &Request::Join(OsStr::new("g"), true).encode());
    r.nothing_else();
}

#[test]
fn members_that_end_are_in_no_group() {
    let (mut r, first, _) = Recorder::with_task();
    let (second, tid) = r.enrol(101, 0);
    assert_eq!(number(&mut r, first, Request::Join(OsStr::new("g"), true)), 0);
    assert_eq!(number(&mut r, second, Request::Join(OsStr::new("g"), true)), 1);
    ask(&mut r, first, Request::Barrier(OsStr::new("g"), 2));
    r.nothing_else();
    r.feed(Event::TaskClosed { conn: second, reason: None });
    let (tag, body) = told_by_keeper(&mut r, first);
    assert_eq!((tag, BodyReader::new(&body).int()), (tag::BARRIER, Ok(PvmError::NoInst.code())));
    r.nothing_else();
    assert_eq!(number(&mut r, first, Request::GSize(OsStr::new("g"))), 1);
    assert_eq!(
        number(&mut r, first, Request::GetInst(OsStr::new("g"), tid.tid)),
        PvmError::NotInGroup.code()
    );
}

#[test]
fn members_elsewhere_are_watched_and_go_with_their_hosts() {
    let (mut r, conn, _) = Recorder::with_host();
    r.add_host(conn, 3);
    assert_eq!(number(&mut r, conn, Request::Join(OsStr::new("g"), true)), 0);
    let far = [host(2).task(1), host(3).task(1), host(3).task(2)];
    for (index, &tid) in far.iter().enumerate() {
        ask_from_afar(&mut r, tid, Request::Join(OsStr::new("g"), true));
        assert!(matches!(r.ordered(), FromMaster::WatchTask { tid: watched } if watched == tid));
        assert_eq!(sent_afar(&mut r), (vec![tid], tag::JOIN, index as i32 + 1));
    }
    r.tell_master(host(2), ToMaster::TaskGone { tid: far[0] });
    r.nothing_else();
    assert_eq!(number(&mut r, conn, Request::GSize(OsStr::new("g"))), 3);
    ask(&mut r, conn, Request::View(OsStr::new("g"), true));
    let (_, body) = told_by_keeper(&mut r, conn);
    let view = View::decode(&body).expect("well-formed").expect("a view");
    assert_eq!(view.members.iter().map(|&(instance, _)| instance).collect::<Vec<_>>(), [0, 2, 3]);
    r.feed(Event::PeerLost { host: host(3), reason: "test".into(), has_ended: false });
    let mut tags = Vec::new();
    while tags.is_empty() {
        if let Action::Send { data, .. } = r.action() {
            let head = data.first_chunk::<{ MessageHeader::SIZE }>().expect("a header");
            tags.push(MessageHeader::decode(head).tag);
        }
    }
    assert_eq!(tags, [tag::CHANGED], "a member with a view gets one notice");
    assert!(matches!(r.action(), Action::CountGroupChange), "behind the notice");
    r.nothing_else();
    assert_eq!(number(&mut r, conn, Request::GSize(OsStr::new("g"))), 1);
}

#[test]
fn a_join_is_answered_when_those_who_know_the_group_know_of_it() {
    let (mut r, conn, _) = Recorder::with_host();
    let far = host(2).task(1);
    ask_from_afar(&mut r, far, Request::Join(OsStr::new("g"), true));
    r.told();
    r.told();
    ask_from_afar(&mut r, far, Request::View(OsStr::new("g"), true));
    assert_eq!(sent_afar(&mut r).1, tag::VIEW);
    ask(&mut r, conn, Request::Join(OsStr::new("g"), true));
    let (to, what, _) = sent_afar(&mut r);
    assert_eq!((to, what), (vec![far], tag::CHANGED));
    let FromMaster::Ping { id } = r.ordered() else { panic!("no question") };
    r.nothing_else();
    r.tell_master(host(2), ToMaster::Pong { id });
    let (what, body) = told_by_keeper(&mut r, conn);
    assert_eq!((what, BodyReader::new(&body).int()), (tag::JOIN, Ok(1)));
    r.nothing_else();
    // A host that goes has nobody left to be told.
    ask_from_afar(&mut r, far, Request::View(OsStr::new("g"), true));
    r.told();
    ask(&mut r, conn, Request::Leave(OsStr::new("g")));
    r.told();
    r.told();
    r.nothing_else();
    r.feed(Event::PeerLost { host: host(2), reason: "test".into(), has_ended: false });
    while !matches!(r.action(), Action::Send { conn: to, .. } if to == conn) {}
    r.nothing_else();
}

/// The daemon closes a member's ledger before it hands the notice over, and the next views follow what the ledgers say.
#[test]
fn views_wait_for_what_the_ledgers_of_members_say() {
    let name = OsStr::new("g");
    let (mut r, first, _) = Recorder::with_task();
    let (second, _) = r.enrol(101, 0);
    for request in [Request::Join(name, true), Request::View(name, true), Request::Barrier(name, 2)] {
        for conn in [first, second] {
            ask(&mut r, conn, request);
        }
    }
    r.drop_actions();
    let epochs = [first, second].map(|conn| {
        ask(&mut r, conn, Request::View(name, true));
        let (_, body) = told_by_keeper(&mut r, conn);
        let view = View::decode(&body).expect("well-formed").expect("a view");
        assert!(view.barriers);
        view.epoch
    });
    let (third, _) = r.enrol(102, 0);
    ask(&mut r, third, Request::Join(name, true));
    let group = Key::of(name);
    for conn in [first, second] {
        let Action::CloseLedger { conn: whose, group: which, epoch } = r.action() else {
            panic!("not closed")
        };
        assert_eq!((whose, which, epoch), (conn, group, epochs[0] + 1));
        assert_eq!(told_by_keeper(&mut r, conn).0, tag::CHANGED);
    }
    r.drop_actions();
    ask(&mut r, first, Request::View(name, true));
    r.nothing_else();
    r.feed(Event::BarriersPassed { conn: second, group, passed: None });
    r.nothing_else();
    let passed = Some(Passed { group, epoch: epochs[0], turn: 5 });
    r.feed(Event::BarriersPassed { conn: first, group, passed });
    let (what, body) = told_by_keeper(&mut r, first);
    let view = View::decode(&body).expect("well-formed").expect("a view");
    assert_eq!((what, view.turn), (tag::VIEW, 5));
    // Of connections that are no task's.
    r.feed(Event::BarriersPassed { conn: ConnId(999), group, passed });
    r.nothing_else();
}

#[test]
fn a_barrier_is_answered_by_one_message_per_host() {
    let (mut r, _conn, _) = Recorder::with_host();
    let far: Vec<Tid> = (1..=5).map(|local| host(2).task(local)).collect();
    for &tid in &far {
        ask_from_afar(&mut r, tid, Request::Join(OsStr::new("g"), false));
        r.told();
        r.told();
    }
    for &tid in &far {
        ask_from_afar(&mut r, tid, Request::Barrier(OsStr::new("g"), 5));
    }
    assert_eq!(sent_afar(&mut r), (far, tag::BARRIER, 5));
    r.nothing_else();
}

/// A broadcast goes from the sender to its daemon, from there to the daemons of the members' hosts, and from these to
/// the members: the way is that long however many members there are, and each host gets one copy.
#[test]
fn a_broadcast_takes_three_steps_whatever_the_number_of_members() {
    const HOSTS: u32 = 8;
    let (mut r, conn, me) = Recorder::with_task();
    for index in 2..=HOSTS {
        r.add_host(conn, index);
    }
    for members in [8, 64, 512] {
        let tids: Vec<Tid> =
            (0..members).map(|n| host(2 + n % (HOSTS - 1)).task(1 + n / (HOSTS - 1))).collect();
        // Two messages of the sender's, whatever the number.
        r.ask(conn, &Multicast { tids: tids.clone() });
        r.say(conn, me.tid.multicast(), 7, 0, b"news");
        let mut copies = BTreeMap::new();
        for _ in 2..=HOSTS {
            let Action::SendPeer { host, message: DaemonMsg::Data { dsts, .. } } = r.action() else {
                panic!("no message to tasks")
            };
            *copies.entry(host).or_insert(0) += dsts.len();
        }
        r.nothing_else();
        assert_eq!((copies.len(), copies.values().sum::<usize>()), (HOSTS as usize - 1, members as usize));
    }
}
