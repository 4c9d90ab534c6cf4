//! The core and processes that become tasks: over a channel it inherits, by one request, or by files.

use pvm_wire::body::BodyWriter;
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::{Admission, ChannelEnrol, Connect, Enrol, EnrolReply, GetOptions};
use pvm_wire::calls::hosts::Config;
use pvm_wire::codes::{CONTEXT_TM, EXTENSION_VERSION, Tm, Tmx, notify};
use pvm_wire::spawn::Sink;
use pvm_wire::{PvmError, Tid};
use pvmd_core::event::{Action, ConnId, Cookie, Event, Used};
use pvmd_simulated::process::{connect, introduction};
use pvmd_simulated::recorder::{Recorder, here, watch};
use std::process::ExitStatus;

/// Spawns one task pinned to this host, whose process runs: its cookie, its channel and what lies there.
fn start_one(r: &mut Recorder, parent: ConnId) -> (Cookie, ConnId, EnrolReply) {
    r.ask(parent, &here(1));
    let Action::Start { cookies, greetings, .. } = r.action() else { panic!("not a start") };
    assert_eq!((cookies.len(), greetings.len()), (1, 1));
    let cookie = cookies[0];
    r.started(cookie, 500);
    r.answer(parent, Tm::Spawn);
    let conn = r.channel(cookie);
    r.nothing_else();
    let Ok(Admission(Some(told))) = Enrol::decode_answer(&greetings[0]).unwrap() else {
        panic!("no greeting")
    };
    (cookie, conn, told)
}

fn enrol_by_channel(r: &mut Recorder, conn: ConnId, cookie: i32) {
    r.ask(conn, &ChannelEnrol { process: introduction(500, cookie) });
}

#[test]
fn a_task_enrols_and_gets_the_first_id() {
    let (mut r, _, enrolled) = Recorder::with_task();
    assert_eq!(enrolled.tid, Tid::from_bits(0x40001));
    assert_eq!((enrolled.parent, enrolled.output, enrolled.fragment_size), (0, Sink::default(), 4080));
    assert_eq!(enrolled.address, "0a000001:0000");
    r.nothing_else();
}

#[test]
fn a_task_of_ours_enrols_by_one_request() {
    let (mut r, parent, me) = Recorder::with_task();
    let (cookie, _, told) = start_one(&mut r, parent);
    let conn = r.connect();
    let request = Enrol { process: introduction(500, cookie.0) };
    r.ask(conn, &request);
    assert!(matches!(r.action(), Action::Enrolled { conn: c } if c == conn), "no file is asked for");
    let Ok(Admission(Some(enrolled))) = r.reply::<Enrol>(conn) else { panic!("not enrolled") };
    assert_eq!((enrolled.tid, enrolled.parent), (told.tid, me.tid.raw()));
    r.nothing_else();
    // Once: what is a task already has no such request.
    r.ask(conn, &request);
    assert_eq!(r.reply::<Enrol>(conn), Err(PvmError::NotImpl.into()));
    r.nothing_else();
}

#[test]
fn a_task_that_inherits_a_channel_has_its_answer_and_gets_what_waits() {
    let (mut r, parent, me) = Recorder::with_task();
    let (cookie, conn, told) = start_one(&mut r, parent);
    r.say(parent, told.tid, 5, 0, b"for it");
    r.nothing_else();
    enrol_by_channel(&mut r, conn, cookie.0);
    assert!(matches!(r.action(), Action::Enrolled { conn: c } if c == conn));
    let (to, message) = r.message();
    assert_eq!((to, message.src, &message.body[..]), (conn, me.tid, &b"for it"[..]), "no answer before");
    r.nothing_else();
    assert_eq!(told.parent, me.tid.raw());
    r.ask(conn, &GetOptions {});
    assert_eq!(r.reply::<GetOptions>(conn), Ok(told), "what it was told holds");
}

#[test]
fn without_an_inherited_channel_or_too_late_nothing_enrols_by_one() {
    let (mut r, parent, _) = Recorder::with_task();
    let (cookie, channel, told) = start_one(&mut r, parent);
    let other = r.connect();
    enrol_by_channel(&mut r, other, cookie.0);
    assert!(matches!(r.action(), Action::CloseTask { conn } if conn == other));
    let (_, instead) = r.enrol(501, cookie.0);
    assert_eq!(instead.tid, told.tid, "in its place");
    enrol_by_channel(&mut r, channel, cookie.0);
    assert!(matches!(r.action(), Action::CloseTask { conn } if conn == channel));
    r.nothing_else();
}

#[test]
fn what_a_task_says_in_its_last_moment_is_received() {
    let (mut r, parent, _) = Recorder::with_task();
    let (cookie, conn, told) = start_one(&mut r, parent);
    r.ask(parent, &watch(notify::TASK_EXIT, vec![told.tid.raw()]));
    r.ended(cookie, 0);
    r.nothing_else();
    enrol_by_channel(&mut r, conn, cookie.0);
    assert!(matches!(r.action(), Action::Enrolled { .. }));
    let parents = r.core.census();
    assert_eq!(parents.conns, 2);
    r.say(conn, Tid::from_bits(0x40001), 8, 0, b"farewell");
    assert_eq!(&r.message().1.body[..], b"farewell");
    r.feed(Event::TaskClosed { conn, reason: None });
    assert_eq!(r.message().1.header.tag, 77, "then the notice of its end");
    r.nothing_else();
}

#[test]
fn a_process_that_never_says_a_word_ends_with_its_channel() {
    let (mut r, parent, _) = Recorder::with_task();
    for is_closed_first in [true, false] {
        let (cookie, conn, told) = start_one(&mut r, parent);
        r.ask(parent, &watch(notify::TASK_EXIT, vec![told.tid.raw()]));
        let (exited, closed) = (
            Event::ProcessExited { cookie, status: ExitStatus::default(), used: Used::default() },
            Event::TaskClosed { conn, reason: None },
        );
        let (first, last) = if is_closed_first { (closed, exited) } else { (exited, closed) };
        r.feed(first);
        r.nothing_else();
        r.feed(last);
        assert_eq!(r.message().1.header.tag, 77, "{is_closed_first}");
        r.nothing_else();
        assert_eq!(r.core.census().conns, 1);
    }
}

#[test]
fn an_enrolment_at_once_is_no_way_around_the_files() {
    let mut r = Recorder::master();
    let conn = r.connect();
    r.ask(conn, &connect(None));
    assert!(matches!(r.action(), Action::OpenAuth { .. }));
    r.ask(conn, &Enrol { process: introduction(500, 0) });
    assert!(matches!(r.action(), Action::CloseTask { .. }));
    let conn = r.connect();
    r.say(conn, Tid::MY_DAEMON, Tmx::Enrol.tag(), CONTEXT_TM, b"1");
    assert!(matches!(r.action(), Action::CloseTask { .. }));
    r.nothing_else();
}

#[test]
fn a_library_of_another_version_of_ours_is_taken_for_the_originals() {
    for (extension, answered) in
        [(EXTENSION_VERSION, Some(EXTENSION_VERSION)), (EXTENSION_VERSION - 1, None), (99, None)]
    {
        let mut r = Recorder::master();
        let conn = r.connect();
        r.ask(conn, &connect(Some(extension)));
        // Between ours the socket's credentials are enough: no file is written, whatever the disk is like.
        if answered.is_none() {
            assert!(matches!(r.action(), Action::OpenAuth { .. }));
            r.feed(Event::AuthOpened { conn, result: Ok("/tmp/d".into()) });
        }
        let reply = r.reply::<Connect>(conn).unwrap();
        assert_eq!((reply.accepted, reply.extension.0), (true, answered));
        assert_eq!(reply.auth_file.is_empty(), answered.is_some());
    }
}

#[test]
fn another_version_is_refused_and_the_connection_closed() {
    let mut r = Recorder::master();
    let conn = r.connect();
    r.request(conn, Tm::Connect, &BodyWriter::new().int(1317).str("/tmp/t").finish());
    assert_eq!(r.answer(conn, Tm::Connect), [1318, 0, 1, 0]);
    assert!(matches!(r.action(), Action::CloseTask { .. }));
    r.nothing_else();
    assert_eq!(r.core.census().conns, 0);
}

#[test]
fn a_request_before_enrolment_ends_the_connection() {
    let mut r = Recorder::master();
    let conn = r.connect();
    r.ask(conn, &Config {});
    assert!(matches!(r.action(), Action::CloseTask { .. }));
    r.nothing_else();
}
