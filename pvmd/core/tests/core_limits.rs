//! The core alone: what whoever asks for more than there is gets. `docs/limits.md` has the table.

use bytes::Bytes;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::hosts::Config as Configuration;
use pvm_wire::calls::mailbox::{Flags, Put};
use pvm_wire::calls::nested::Nested;
use pvm_wire::codes::Tm;
use pvm_wire::limits::{BATCH_MAX, PIECE_MAX, QUEUE_LEAST};
use pvm_wire::{FragmentHeader, HostIndex, PvmError, Tid};
use pvm_wire::{Message, MessageHeader};
use pvmd_core::Limits;
use pvmd_core::event::{Action, ConnId, Event};
use pvmd_simulated::daemon::config;
use pvmd_simulated::recorder::{Recorder, anywhere, here};

fn limited(limits: Limits) -> Recorder {
    let mut config = config(HostIndex::MASTER);
    config.task_limit = 3;
    config.limits = limits;
    Recorder::with(config)
}

/// TM_DB: a message of `size` bytes for the mailbox.
fn put(r: &mut Recorder, conn: ConnId, tid: Tid, size: usize) -> i32 {
    const MULTI_INSTANCE: i32 = 2;
    let body = vec![0; size].into();
    let message = Message { src: tid, dst: Tid::NONE, header: MessageHeader::default(), body };
    let (flags, message) = (Flags::from_bits(MULTI_INSTANCE), Nested::new(&message));
    r.ask(conn, &Put { tid, class: "x".into(), index: -1, flags, message });
    r.answer(conn, Tm::Db)[0]
}

#[test]
fn a_mailbox_that_is_full_says_so() {
    let mut r = limited(Limits { mailbox_entries: 2, ..Limits::default() });
    let (conn, me) = r.enrol(10, 0);
    assert_eq!(put(&mut r, conn, me.tid, 4), 0);
    assert_eq!(put(&mut r, conn, me.tid, 4), 1);
    assert_eq!(put(&mut r, conn, me.tid, 4), PvmError::OutOfRes.code());

    let mut r = limited(Limits { mailbox_bytes: 1000, ..Limits::default() });
    let (conn, me) = r.enrol(10, 0);
    assert_eq!(put(&mut r, conn, me.tid, 600), 0);
    assert_eq!(put(&mut r, conn, me.tid, 600), PvmError::NoMem.code());
    assert_eq!(put(&mut r, conn, me.tid, 100), 1, "what fits is taken");
}

#[test]
fn tasks_above_the_limit_of_the_host_are_out_of_resources() {
    let mut r = limited(Limits::default());
    let (conn, _) = r.enrol(10, 0);
    r.ask(conn, &here(4));
    let cookies = r.starts();
    assert_eq!(cookies.len(), 2, "the spawner is one of three");
    for (i, cookie) in cookies.into_iter().enumerate() {
        r.feed(Event::ProcessStarted { cookie, result: Ok((100 + i as i32, "/bin/program".into())) });
    }
    let answer = r.answer(conn, Tm::Spawn);
    assert_eq!(answer[0], 4);
    assert!(answer[1] > 0 && answer[2] > 0);
    assert_eq!(answer[3..], [PvmError::OutOfRes.code(); 2]);
}

#[test]
fn tasks_above_the_limit_take_the_places_of_those_that_have_ended_meanwhile() {
    let mut r = limited(Limits::default());
    let (conn, _) = r.enrol(10, 0);
    r.ask(conn, &here(4));
    let Action::Start { cookies, program, .. } = r.action() else { panic!("not a start") };
    let [first, second] = cookies[..] else { panic!("{} are started", cookies.len()) };
    let running = |pid| Ok((pid, "/bin/program".into()));
    r.feed(Event::ProcessStarted { cookie: first, result: running(100) });
    r.ended(first, 0);
    r.nothing_else();
    r.feed(Event::ProcessStarted { cookie: second, result: running(101) });
    let Action::Start { cookies, program: later, .. } = r.action() else { panic!("not a start") };
    assert_eq!((cookies.len(), later), (1, program));
    r.feed(Event::ProcessStarted { cookie: cookies[0], result: running(102) });
    let answer = r.answer(conn, Tm::Spawn);
    assert!(answer[1..=3].iter().all(|&tid| tid > 0), "{answer:?}");
    assert_eq!(answer[4], PvmError::OutOfRes.code());
}

#[test]
fn a_spawn_of_more_tasks_than_there_are_ids_is_out_of_resources() {
    let mut r = limited(Limits::default());
    let (conn, _) = r.enrol(10, 0);
    let spawn = anywhere(BATCH_MAX as i32 + 1);
    r.ask(conn, &spawn);
    assert_eq!(r.answer(conn, Tm::Spawn), [PvmError::OutOfRes.code()]);
}

#[test]
fn senders_to_a_task_that_does_not_read_are_stopped_at_the_setting_and_go_on_below_a_quarter() {
    let mut r = limited(Limits { queue_high: QUEUE_LEAST, ..Limits::default() });
    let (from, _) = r.enrol(10, 0);
    let (_, to) = r.enrol(11, 0);
    let mut queued = Vec::new();
    let stopped = loop {
        let header = FragmentHeader { dst: to.tid, src: Tid::ANY, length: PIECE_MAX as u32, flags: 3 };
        r.feed(Event::Fragment { conn: from, header, data: Bytes::from(vec![0; PIECE_MAX]) });
        let Action::Send { conn, data, .. } = r.action() else { panic!("not delivered") };
        queued.push((conn, FragmentHeader::SIZE + data.len()));
        if r.pending() {
            assert!(matches!(r.action(), Action::PauseReading { conn } if conn == from));
            break queued.iter().map(|(_, bytes)| bytes).sum::<usize>();
        }
    };
    assert!(stopped > QUEUE_LEAST && stopped <= QUEUE_LEAST + PIECE_MAX + FragmentHeader::SIZE);
    let mut left = stopped;
    for (conn, bytes) in queued {
        r.feed(Event::TaskDrained { conn, bytes });
        left -= bytes;
        if r.pending() {
            assert!(matches!(r.action(), Action::ResumeReading { conn } if conn == from));
            assert!(left < QUEUE_LEAST / 4 && left + bytes >= QUEUE_LEAST / 4);
            return;
        }
    }
    panic!("the sender was never read again");
}

#[test]
fn a_request_that_is_too_long_ends_its_connection_and_no_other() {
    let mut r = limited(Limits::default());
    let (long, _) = r.enrol(10, 0);
    let (other, _) = r.enrol(11, 0);
    let piece = Bytes::from(vec![0; PIECE_MAX]);
    let mut flags = 1;
    while !r.pending() {
        let header = FragmentHeader { dst: Tid::MY_DAEMON, src: Tid::ANY, length: PIECE_MAX as u32, flags };
        r.feed(Event::Fragment { conn: long, header, data: piece.clone() });
        flags = 0;
    }
    assert!(matches!(r.action(), Action::CloseTask { conn } if conn == long));
    r.nothing_else();
    r.ask(other, &Configuration {});
    let (to, message) = r.message();
    assert_eq!(to, other);
    assert!(BodyReader::new(&message.body).int().is_ok());
}
