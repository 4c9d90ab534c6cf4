//! Links between daemons: whose messages count.

use pvm_wire::calls::hosts::{AddHosts, DeleteHosts};
use pvm_wire::codes::Tm;
use pvm_wire::daemon::{DaemonMsg, FromMaster, HostTable, MasterReply, MasterRequest, RequestId, ToMaster};
use pvm_wire::{HostIndex, MessageHeader, Tid};
use pvmd_core::event::{Action, ConnId, Event};
use pvmd_simulated::daemon::config;
use pvmd_simulated::recorder::{Recorder, host, table};

/// Host 2 of three, linked with host 3.
fn linked_slave() -> Recorder {
    let mut r = Recorder::slave();
    r.feed(Event::PeerLinked { host: host(3) });
    r.nothing_else();
    r
}

fn hear(r: &mut Recorder, from: HostIndex, to: Tid) {
    r.hear_message(from.task(1), to, 5, &[]);
}

#[test]
fn a_host_that_is_out_is_not_heard_again() {
    let mut r = linked_slave();
    let (_, task) = r.enrol(100, 0);
    hear(&mut r, host(3), task.tid);
    assert_eq!(r.message().1.src, host(3).task(1));

    let gone = FromMaster::HostGone { host: host(3), reason: "deleted".into() };
    r.order(gone);
    assert!(matches!(r.action(), Action::Unlink { host: h } if h == host(3)));
    // It still has its certificate, and calls again.
    r.feed(Event::PeerLinked { host: host(3) });
    assert!(matches!(r.told(), DaemonMsg::NoMember));
    assert!(matches!(r.action(), Action::Unlink { host: h } if h == host(3)));
    hear(&mut r, host(3), task.tid);
    r.nothing_else();
}

#[test]
fn a_newcomer_is_heard_from_the_moment_it_is_announced() {
    let mut r = Recorder::slave();
    let (_, task) = r.enrol(100, 0);
    r.feed(Event::PeerLinked { host: host(4) });
    assert!(matches!(r.told(), DaemonMsg::NoMember));
    assert!(matches!(r.action(), Action::Unlink { host: h } if h == host(4)));
    let update = FromMaster::TableUpdate {
        serial: 2,
        members: HostTable::default(),
        added: table(4..=4),
        moved: Vec::new(),
    };
    r.order(update);
    assert!(matches!(r.asked_master(), ToMaster::TableAck { .. }));
    r.feed(Event::PeerLinked { host: host(4) });
    // Others may hear of its membership first, and it from them.
    hear(&mut r, host(4), task.tid);
    assert_eq!(r.message().1.src, host(4).task(1));
}

/// A task sends a message of this tag to a task of host 3.
fn send(r: &mut Recorder, conn: ConnId, tag: i32) {
    r.say(conn, host(3).task(1), tag, 0, &[]);
}

/// The tag of the next message that goes to a task of another host.
fn sent(r: &mut Recorder) -> i32 {
    match r.told() {
        DaemonMsg::Data { data, .. } => {
            MessageHeader::decode(data.first_chunk().expect("a whole header")).tag
        }
        other => panic!("not a task's message: {other:?}"),
    }
}

#[test]
fn two_slaves_are_linked_when_one_has_something_to_say() {
    let mut r = Recorder::slave();
    let (conn, _) = r.enrol(100, 0);
    send(&mut r, conn, 5);
    send(&mut r, conn, 6);
    assert!(matches!(r.action(), Action::Link { entry } if entry.index == host(3)));
    r.nothing_else();
    r.feed(Event::PeerLinked { host: host(3) });
    assert_eq!([sent(&mut r), sent(&mut r)], [5, 6], "in their order");
    send(&mut r, conn, 7);
    assert_eq!(sent(&mut r), 7);
    r.nothing_else();
}

#[test]
fn a_link_that_cannot_be_made_is_reported_to_the_master() {
    let mut r = Recorder::slave();
    let (conn, _) = r.enrol(100, 0);
    send(&mut r, conn, 5);
    assert!(matches!(r.action(), Action::Link { .. }));
    r.feed(Event::LinkFailed { host: host(3), reason: "no answer".into() });
    assert!(matches!(r.asked_master(), ToMaster::LinkLost { host: h, .. } if h == host(3)));
    r.nothing_else();
}

/// Host 2, which has asked host 3 to leave their idle link.
fn leaving() -> (Recorder, ConnId) {
    let mut r = linked_slave();
    let (conn, _) = r.enrol(100, 0);
    send(&mut r, conn, 5);
    assert_eq!(sent(&mut r), 5);
    let seconds = std::time::Duration::from_secs;
    r.feed(Event::PeerDrained { host: host(3), bytes: MessageHeader::SIZE });
    r.pass(seconds(29));
    r.nothing_else();
    r.pass(seconds(1));
    assert!(matches!(r.told(), DaemonMsg::Leave));
    (r, conn)
}

fn answers(r: &mut Recorder, agreed: bool) {
    r.hear(host(3), DaemonMsg::LeaveAnswer { agreed });
}

#[test]
fn an_idle_link_is_left_and_made_again_in_order() {
    let (mut r, conn) = leaving();
    send(&mut r, conn, 6);
    r.nothing_else();
    answers(&mut r, true);
    assert!(matches!(r.action(), Action::Unlink { host: h } if h == host(3)));
    assert!(matches!(r.action(), Action::Link { entry } if entry.index == host(3)));
    send(&mut r, conn, 7);
    r.nothing_else();
    r.feed(Event::PeerLinked { host: host(3) });
    assert_eq!([sent(&mut r), sent(&mut r)], [6, 7]);
}

#[test]
fn a_link_stays_that_the_other_end_needs() {
    let (mut r, conn) = leaving();
    send(&mut r, conn, 6);
    answers(&mut r, false);
    assert_eq!(sent(&mut r), 6);
    send(&mut r, conn, 7);
    assert_eq!(sent(&mut r), 7);
    r.nothing_else();
}

#[test]
fn the_host_with_the_higher_index_leaves_when_it_is_asked() {
    let mut r = Recorder::with(config(host(3)));
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    let update =
        FromMaster::TableUpdate { serial: 1, members: table(1..=1), added: table(2..=3), moved: Vec::new() };
    r.order(update);
    assert!(matches!(r.asked_master(), ToMaster::TableAck { .. }));
    r.feed(Event::PeerLinked { host: host(2) });
    r.pass(std::time::Duration::from_secs(100));
    r.nothing_else();
    r.hear(host(2), DaemonMsg::Leave);
    assert!(matches!(r.told(), DaemonMsg::LeaveAnswer { agreed: true }));
    assert!(matches!(r.action(), Action::Unlink { host: h } if h == host(2)));
    r.nothing_else();
}

/// A master of three hosts, after host 2 has lost its link to host 3, and the question that host 3 is asked.
fn master_of_a_lost_link() -> (Recorder, u64) {
    let (mut r, conn, _) = Recorder::with_host();
    r.add_host(conn, 3);
    r.tell_master(host(2), ToMaster::LinkLost { host: host(3), has_ended: false, reason: "silence".into() });
    let Action::SendPeer {
        host: asked,
        message: DaemonMsg::FromMaster { what: FromMaster::Ping { id }, .. },
    } = r.action()
    else {
        panic!("not a question")
    };
    assert_eq!(asked, host(3));
    r.nothing_else();
    (r, id)
}

/// The hosts that the others are told to be out.
fn told_gone(r: &mut Recorder) -> Vec<HostIndex> {
    let mut gone = Vec::new();
    while r.pending() {
        if let Action::SendPeer { message: DaemonMsg::FromMaster { what, .. }, .. } = r.action()
            && let FromMaster::HostGone { host, .. } = what
        {
            gone.push(host);
        }
    }
    gone
}

#[test]
fn of_two_that_live_and_have_lost_their_link_the_younger_goes_at_once() {
    let (mut r, id) = master_of_a_lost_link();
    r.tell_master(host(3), ToMaster::Pong { id });
    assert_eq!(told_gone(&mut r), [host(3)]);
    assert_eq!(r.core.members(), [host(1), host(2)]);
    // What the other said of it comes too late.
    r.tell_master(host(3), ToMaster::LinkLost { host: host(2), has_ended: false, reason: "silence".into() });
    r.nothing_else();
    assert_eq!(r.core.members(), [host(1), host(2)]);
}

#[test]
fn a_host_that_is_lost_to_another_and_does_not_answer_is_lost_by_itself() {
    let (mut r, _) = master_of_a_lost_link();
    r.pass(std::time::Duration::from_secs(60));
    r.nothing_else();
    r.feed(Event::PeerLost {
        host: host(3),
        reason: "it has been silent for too long".into(),
        has_ended: false,
    });
    assert_eq!(told_gone(&mut r), [host(3)]);
    assert_eq!(r.core.members(), [host(1), host(2)]);
    assert_eq!(r.core.census().pending, 0);
}

/// A master whose task on `conn` has deleted host 2, which has not ended yet.
fn deleting() -> (Recorder, ConnId) {
    let (mut r, conn, _) = Recorder::with_host();
    r.ask(conn, &DeleteHosts { names: vec!["node2".into()] });
    assert!(matches!(r.told(), DaemonMsg::Halt));
    r.nothing_else();
    assert_eq!(r.core.members(), [host(1)]);
    (r, conn)
}

fn starts_host(r: &mut Recorder, index: u32) {
    assert!(matches!(r.action(), Action::StartHost { index: i, .. } if i == host(index)));
}

#[test]
fn a_deleted_host_has_ended_when_the_answer_comes() {
    let (mut r, conn) = deleting();
    // What it says while it ends counts for nothing.
    r.hear(host(2), DaemonMsg::Bye);
    r.nothing_else();
    r.feed(Event::PeerLost { host: host(2), reason: "it closed the link".into(), has_ended: false });
    assert_eq!(r.answer(conn, Tm::DelHost), [1, 0]);
    r.nothing_else();
    assert_eq!(r.core.census().timers, 0);
}

#[test]
fn a_host_is_added_when_the_deleted_one_has_ended() {
    let (mut r, conn) = deleting();
    let (other, _) = r.enrol(101, 0);
    r.ask(other, &AddHosts { hosts: vec!["node2 via=local".into()] });
    r.nothing_else();
    r.feed(Event::PeerLost { host: host(2), reason: "it closed the link".into(), has_ended: false });
    starts_host(&mut r, 3);
    assert_eq!(r.answer(conn, Tm::DelHost), [1, 0]);
    r.nothing_else();
}

#[test]
fn a_deleted_host_that_does_not_end_is_waited_for_five_seconds() {
    let (mut r, conn) = deleting();
    r.pass(std::time::Duration::from_secs(5));
    assert!(matches!(r.action(), Action::Unlink { host: h } if h == host(2)));
    assert_eq!(r.answer(conn, Tm::DelHost), [1, 0]);
    r.nothing_else();
    r.ask(conn, &AddHosts { hosts: vec!["node2 via=local".into()] });
    starts_host(&mut r, 3);
}

#[test]
fn a_host_is_added_when_one_that_said_it_ends_has_ended() {
    let (mut r, conn, _) = Recorder::with_host();
    r.hear(host(2), DaemonMsg::Bye);
    assert_eq!(r.core.members(), [host(1)]);
    r.ask(conn, &AddHosts { hosts: vec!["node2 via=local".into()] });
    r.nothing_else();
    r.feed(Event::PeerLost { host: host(2), reason: "it closed the link".into(), has_ended: false });
    starts_host(&mut r, 3);
    r.nothing_else();
}

#[test]
fn a_task_that_deletes_its_own_host_is_answered_first() {
    let (mut r, _, _) = Recorder::with_host();
    let what = MasterRequest::DeleteHosts { names: vec![".".into()] };
    r.tell_master(host(2), ToMaster::Request { id: RequestId(7), what });
    assert!(matches!(r.ordered(), FromMaster::Reply { what: MasterReply::Deleted { .. }, .. }));
    assert!(matches!(r.told(), DaemonMsg::Halt));
    r.nothing_else();
}
