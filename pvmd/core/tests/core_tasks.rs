//! The core and its tasks: messages, notifies, output, back-pressure, bad input.

use bytes::Bytes;
use pvm_wire::batch::BatchMsg;
use pvm_wire::calls::Call;
use pvm_wire::calls::enrolment::Exit;
use pvm_wire::calls::hosts::Halt;
use pvm_wire::calls::hosts::{AddHosts, DeleteHosts};
use pvm_wire::calls::tasks::{Adopt, Context, Multicast, SendSignal, TaskStatus};
use pvm_wire::codes::{BATCH_TAG, Tc, Tm, notify};
use pvm_wire::daemon::{DaemonMsg, PeerReply, PeerRequest};
use pvm_wire::header::{EOM, SOM};
use pvm_wire::limits::{PIECE_MAX, QUEUE_HIGH};
use pvm_wire::output::{OutputEvent, OutputFrame};
use pvm_wire::spawn::{Refusal, Sink, SpawnRequest};
use pvm_wire::{FragmentHeader, HostIndex, PvmError, Tid};
use pvmd_core::event::{Action, ConnId, Cookie, Event};
use pvmd_simulated::recorder::{Recorder, anywhere, here, host, watch};
use std::time::Duration;

/// Spawns one task pinned to this host; its cookie.
fn spawn_one(r: &mut Recorder, conn: ConnId, output: Sink) -> (Tid, Cookie) {
    let request = SpawnRequest { output, ..here(1) };
    r.ask(conn, &request);
    let Action::Start { cookies, program, .. } = r.action() else { panic!("not a start") };
    assert_eq!(program.file, "prog");
    let cookie = cookies[0];
    r.started(cookie, 500);
    if output.tid > 0 {
        r.message();
    }
    let answer = r.answer(conn, Tm::Spawn);
    assert_eq!(answer[0], 1);
    if output.tid > 0 {
        // The frame "spawned" stands before the answer in the queue of the spawner.
        r.nothing_else();
    }
    (Tid::from_raw(answer[1]), cookie)
}

#[test]
fn a_malformed_request_is_answered_with_an_error() {
    let (mut r, conn, _) = Recorder::with_task();
    r.request(conn, Tm::Spawn, b"\x7f\xff\xff\xff");
    assert_eq!(r.answer(conn, Tm::Spawn), [PvmError::BadParam.code()]);
    r.nothing_else();
}

#[test]
fn messages_wait_for_a_spawned_task_to_enrol() {
    let (mut r, parent, me) = Recorder::with_task();
    let (child, cookie) = spawn_one(&mut r, parent, Sink::default());
    r.say(parent, child, 5, 0, b"work");
    r.nothing_else();
    let (conn, enrolled) = r.enrol(500, cookie.0);
    assert_eq!((enrolled.tid, enrolled.parent), (child, me.tid.raw()));
    let (to, message) = r.message();
    assert_eq!((to, message.src, &message.body[..]), (conn, me.tid, &b"work"[..]));
    r.nothing_else();
}

#[test]
fn a_task_may_be_over_before_its_start_is_known() {
    let (mut r, parent, _) = Recorder::with_task();
    r.ask(parent, &here(1));
    let cookies = r.starts();
    let (conn, enrolled) = r.enrol(500, cookies[0].0);
    r.feed(Event::TaskClosed { conn, reason: None });
    r.nothing_else();
    r.started(cookies[0], 500);
    assert_eq!(r.answer(parent, Tm::Spawn), [1, enrolled.tid.raw()]);
    r.feed(Event::ProcessOutputEnd { cookie: cookies[0] });
    r.ended(cookies[0], 0);
    assert_eq!(r.core.census().tasks, 1);
}

#[test]
fn a_child_of_what_was_started_ends_with_its_connection() {
    // Whether it enrols before or after the news of its parent's start.
    for late in [false, true] {
        let (mut r, parent, _) = Recorder::with_task();
        r.ask(parent, &here(1));
        let cookies = r.starts();
        let started = Event::ProcessStarted { cookie: cookies[0], result: Ok((500, "/bin/wrapper".into())) };
        if !late {
            r.feed(started.clone());
            assert_eq!(r.answer(parent, Tm::Spawn)[0], 1);
        }
        let (conn, enrolled) = r.enrol(501, cookies[0].0);
        if late {
            r.feed(started);
            assert_eq!(r.answer(parent, Tm::Spawn), [1, enrolled.tid.raw()]);
        }
        r.ended(cookies[0], 0);
        assert_eq!(r.core.census().tasks, 2, "the wrapper's end is not the task's");
        r.feed(Event::TaskClosed { conn, reason: None });
        assert_eq!(r.core.census().tasks, 1);
    }
}

#[test]
fn a_sender_cannot_pretend_to_be_another() {
    let (mut r, a, me) = Recorder::with_task();
    let (b, other) = r.enrol(101, 0);
    let header =
        FragmentHeader { dst: other.tid, src: Tid::from_bits(0x40077), length: 32, flags: SOM | EOM };
    r.feed(Event::Fragment { conn: a, header, data: Bytes::from(vec![0; 32]) });
    let (to, message) = r.message();
    assert_eq!((to, message.src), (b, me.tid));
}

#[test]
fn a_multicast_reaches_each_once_and_is_then_forgotten() {
    let (mut r, a, me) = Recorder::with_task();
    let (b, second) = r.enrol(101, 0);
    r.add_host(a, 2);
    let (near, far) = (host(2).task(1), host(2).task(2));
    r.ask(a, &Multicast { tids: vec![second.tid, near, far, near] });
    r.nothing_else();
    r.say(a, me.tid.multicast(), 5, 0, b"all");
    let (to, message) = r.message();
    assert_eq!((to, message.src, message.dst), (b, me.tid, second.tid));
    let DaemonMsg::Data { src, dsts, .. } = r.told() else { panic!("not data") };
    assert_eq!((src, dsts), (me.tid, vec![near, far]));
    r.say(a, me.tid.multicast(), 5, 0, b"all");
    r.nothing_else();
}

#[test]
fn an_exit_is_told_once_to_each_who_asked() {
    let (mut r, parent, _) = Recorder::with_task();
    let (child, cookie) = spawn_one(&mut r, parent, Sink::default());
    r.ask(parent, &watch(notify::TASK_EXIT, vec![child.raw(), 0x40fff]));
    let (_, message) = r.message();
    assert_eq!(&message.body[..], 0x40fff_i32.to_be_bytes(), "an unknown task is reported at once");
    let (conn, _) = r.enrol(500, cookie.0);
    r.ask(conn, &Exit {});
    assert_eq!(r.reply::<Exit>(conn), Ok(()));
    assert!(matches!(r.action(), Action::CloseTask { .. }));
    r.nothing_else();
    r.ended(cookie, 0);
    let (to, message) = r.message();
    assert_eq!((to, message.header.tag, message.header.context), (parent, 77, 3));
    assert_eq!(&message.body[..], child.raw().to_be_bytes());
    r.nothing_else();
}

#[test]
fn what_a_task_sent_before_its_end_comes_before_the_news_of_it() {
    // Its connection ends, or a child that it forked holds it.
    for closes in [true, false] {
        let (mut r, parent, me) = Recorder::with_task();
        let (child, cookie) = spawn_one(&mut r, parent, Sink::default());
        r.ask(parent, &watch(notify::TASK_EXIT, vec![child.raw()]));
        let (conn, _) = r.enrol(500, cookie.0);
        r.ended(cookie, 0);
        r.nothing_else();
        r.say(conn, me.tid, 5, 0, b"last words");
        let (to, message) = r.message();
        assert_eq!((to, message.header.tag, message.src), (parent, 5, child));
        if closes {
            r.feed(Event::TaskClosed { conn, reason: None });
        } else {
            r.pass(Duration::from_secs(1));
            assert!(matches!(r.action(), Action::CloseTask { .. }));
        }
        let (to, message) = r.message();
        assert_eq!((to, message.header.tag), (parent, 77));
        assert_eq!(r.core.deadline(), None, "nothing is waited for any more");
        r.pass(Duration::from_secs(2));
        r.nothing_else();
        assert_eq!(r.core.census().tasks, 1);
    }
}

#[test]
fn a_lost_host_is_reported_with_its_tasks() {
    let (mut r, conn, _) = Recorder::with_host();
    let task = host(2).task(5);
    r.ask(conn, &watch(notify::HOST_DELETE, vec![host(2).host_tid().raw()]));
    r.ask(conn, &watch(notify::TASK_EXIT, vec![task.raw()]));
    assert!(matches!(r.told(), DaemonMsg::WatchTask { tid } if tid == task));
    r.ask(conn, &TaskStatus { tid: task });
    assert!(matches!(r.told(), DaemonMsg::Request { what: PeerRequest::TaskStatus { .. }, .. }));
    r.feed(Event::PeerLost { host: host(2), reason: "silent".into(), has_ended: false });
    assert_eq!(&r.message().1.body[..], host(2).host_tid().raw().to_be_bytes());
    assert_eq!(&r.message().1.body[..], task.raw().to_be_bytes());
    assert_eq!(r.answer(conn, Tm::Pstat), [PvmError::HostFail.code()]);
    r.nothing_else();
    assert_eq!(r.core.members(), [HostIndex::MASTER]);
}

#[test]
fn output_goes_to_the_sink_or_to_the_log() {
    let (mut r, conn, me) = Recorder::with_task();
    let sink = Sink { tid: me.tid.raw(), context: 0x7ffff, tag: Tc::Output.tag() };
    let request = SpawnRequest { output: sink, ..here(1) };
    r.ask(conn, &request);
    let cookies = r.starts();
    let cookie = cookies[0];
    r.started(cookie, 500);
    let frame = |r: &mut Recorder| OutputFrame::decode(&r.message().1.body).expect("a frame").what;
    assert_eq!(frame(&mut r), OutputEvent::Started(me.tid.raw()));
    assert_eq!(frame(&mut r), OutputEvent::Spawned(me.tid.raw()));
    r.answer(conn, Tm::Spawn);
    r.feed(Event::ProcessOutput { cookie, data: Bytes::from_static(b"hi\n") });
    assert_eq!(frame(&mut r), OutputEvent::Text(b"hi\n".to_vec()));
    r.ended(cookie, 0);
    r.feed(Event::ProcessOutputEnd { cookie });
    assert_eq!(frame(&mut r), OutputEvent::Eof);
    r.nothing_else();

    let (_, cookie) = spawn_one(&mut r, conn, Sink::default());
    r.feed(Event::ProcessOutput { cookie, data: Bytes::from_static(b"one\ntw") });
    r.feed(Event::ProcessOutput { cookie, data: Bytes::from_static(b"o\nrest") });
    r.feed(Event::ProcessOutputEnd { cookie });
    for expected in ["one", "two", "rest"] {
        assert!(matches!(r.action(), Action::LogOutput { line, .. } if line == expected));
    }
    r.nothing_else();
}

#[test]
fn the_original_library_is_stopped_between_messages_only() {
    let mut r = Recorder::master();
    let (a, _) = r.enrol_with(100, 0, None);
    let (_, receiver) = r.enrol(101, 0);
    let pieces = 2 * QUEUE_HIGH / PIECE_MAX;
    for i in 1..=pieces {
        let flags = if i == 1 { SOM } else { 0 } | if i == pieces { EOM } else { 0 };
        let header = FragmentHeader { dst: receiver.tid, src: Tid::ANY, length: PIECE_MAX as u32, flags };
        r.feed(Event::Fragment { conn: a, header, data: Bytes::from(vec![0; PIECE_MAX]) });
        assert!(matches!(r.action(), Action::Send { .. }));
        if i < pieces {
            r.nothing_else();
        }
    }
    assert!(matches!(r.action(), Action::PauseReading { conn } if conn == a));
}

#[test]
fn a_flood_stops_its_sender_until_the_receiver_has_drained() {
    let (mut r, a, _) = Recorder::with_task();
    let (b, receiver) = r.enrol(101, 0);
    let mut sent = Vec::new();
    let mut paused = false;
    for i in 0..2 * QUEUE_HIGH / PIECE_MAX {
        let flags = if i == 0 { SOM } else { 0 };
        let header = FragmentHeader { dst: receiver.tid, src: Tid::ANY, length: PIECE_MAX as u32, flags };
        r.feed(Event::Fragment { conn: a, header, data: Bytes::from(vec![0; PIECE_MAX]) });
        sent.push(r.action());
        if sent.len() * (PIECE_MAX + FragmentHeader::SIZE) > QUEUE_HIGH && !paused {
            assert!(matches!(r.action(), Action::PauseReading { conn } if conn == a));
            paused = true;
        }
        r.nothing_else();
    }
    assert!(paused);
    for _ in 0..sent.len() {
        r.feed(Event::TaskDrained { conn: b, bytes: PIECE_MAX + FragmentHeader::SIZE });
    }
    assert!(matches!(r.action(), Action::ResumeReading { conn } if conn == a));
    r.nothing_else();
}

#[test]
fn a_full_task_stops_senders_on_other_hosts_through_their_daemon() {
    let (mut r, conn, receiver) = Recorder::with_host();
    let src = host(2).task(1);
    let mut told = Vec::new();
    for i in 0..QUEUE_HIGH / PIECE_MAX + 2 {
        let flags = if i == 0 { SOM } else { 0 };
        let data = Bytes::from(vec![0; PIECE_MAX]);
        let message = DaemonMsg::Data { src, dsts: vec![receiver.tid], flags, data };
        r.hear(host(2), message);
        assert!(matches!(r.action(), Action::Send { .. }));
        if (i + 1) * (PIECE_MAX + FragmentHeader::SIZE) > QUEUE_HIGH && told.is_empty() {
            told.push(r.told());
        }
        r.nothing_else();
    }
    assert_eq!(told, [DaemonMsg::Congestion { tid: receiver.tid, full: true }]);
    r.feed(Event::TaskClosed { conn, reason: None });
    assert_eq!(
        r.told(),
        DaemonMsg::Congestion { tid: receiver.tid, full: false },
        "also when the receiver dies"
    );
    r.nothing_else();
    assert_eq!(r.core.census().flow, (0, 0));
}

#[test]
fn a_daemon_vouches_only_for_its_own_tasks() {
    let (mut r, _conn, receiver) = Recorder::with_host();
    let data = Bytes::from(vec![0; 32]);
    let forged = DaemonMsg::Data { src: host(3).task(1), dsts: vec![receiver.tid], flags: SOM | EOM, data };
    r.hear(host(2), forged);
    r.hear(host(2), DaemonMsg::TaskGone { tid: receiver.tid });
    r.nothing_else();
}

#[test]
fn a_spawn_on_another_host_answers_good_ones_first() {
    let (mut r, conn, _) = Recorder::with_host();
    let request = SpawnRequest { place: "node2:/tmp".into(), ..here(3) };
    r.ask(conn, &request);
    let DaemonMsg::Request { id, what: PeerRequest::Exec { count: 3, spawn, .. } } = r.told() else {
        panic!("not a start of three")
    };
    assert_eq!(spawn.env, ["PVMSPAWNWD=/tmp", "PVM_TEAM=t40001"]);
    let results = vec![PvmError::OutOfRes.code(), host(2).task(1).raw(), host(2).task(2).raw()];
    let (code, reason) = (PvmError::OutOfRes.code(), "no room".to_owned());
    // Whatever host it names.
    let refusals = vec![Refusal { host: 7, code, count: 1, reason }];
    r.answers(host(2), id, PeerReply::Started { results: results.clone(), refusals, has_owner: false });
    let reply = SpawnRequest::decode_answer(&r.message().1.body).unwrap().unwrap();
    assert_eq!(reply.results, [results[1], results[2], results[0]]);
    let refused = Refusal { host: host(2).host_tid().raw(), code, count: 1, reason: "no room".to_owned() };
    assert_eq!(reply.refusals, [refused]);
    r.nothing_else();
}

/// What a task manager says to this daemon.
fn decide(r: &mut Recorder, manager: ConnId, message: &BatchMsg) {
    r.say(manager, HostIndex::MASTER.daemon(), BATCH_TAG, 0, &message.encode().unwrap());
}

#[test]
fn a_collector_hears_of_a_spawn_when_all_of_it_is_settled() {
    let (mut r, conn, me) = Recorder::with_host();
    let output = Sink { tid: me.tid.raw(), context: 0, tag: 7 };
    let request = SpawnRequest { output, ..anywhere(2) };
    r.ask(conn, &request);

    let (manager, _) = r.start_manager();
    let (_, place) = r.message();
    let Ok(BatchMsg::Place { batch, count: 2, .. }) = BatchMsg::decode(&place.body) else {
        panic!("not a batch")
    };
    // This host is asked for no more than it is given below.
    decide(&mut r, manager, &BatchMsg::TasksNo { batch });

    let grant = |host| BatchMsg::Grant { batch, host, n: 1, terms: None };
    decide(&mut r, manager, &grant(HostIndex::MASTER));
    let cookies = r.starts();
    r.started(cookies[0], 500);
    let (_, started) = r.message();
    let started = OutputFrame::decode(&started.body).unwrap();
    assert_eq!(started.what, OutputEvent::Started(me.tid.raw()));
    // It ends before the other has begun.
    r.ended(cookies[0], 0);
    r.feed(Event::ProcessOutputEnd { cookie: cookies[0] });
    let (_, ended) = r.message();
    assert_eq!(OutputFrame::decode(&ended.body).unwrap().what, OutputEvent::Eof);

    decide(&mut r, manager, &grant(host(2)));
    let DaemonMsg::Request { id, what: PeerRequest::Exec { .. } } = r.told() else { panic!("not a start") };
    let far = host(2).task(1);
    r.answers(
        host(2),
        id,
        PeerReply::Started { results: vec![far.raw()], refusals: Vec::new(), has_owner: false },
    );
    for tid in [started.tid, far] {
        let frame = OutputFrame::decode(&r.message().1.body).unwrap();
        assert_eq!(frame, OutputFrame { tid, what: OutputEvent::Spawned(me.tid.raw()) });
    }
    assert_eq!(r.answer(conn, Tm::Spawn), [2, started.tid.raw(), far.raw()]);
}

#[test]
fn a_spawn_nowhere_and_a_spawn_of_nothing() {
    let (mut r, conn, _) = Recorder::with_task();
    let spawn = |count, place: &str| SpawnRequest { place: place.into(), ..here(count) };
    r.ask(conn, &spawn(2, "atlantis"));
    assert_eq!(r.answer(conn, Tm::Spawn), [2, PvmError::NoHost.code(), PvmError::NoHost.code()]);
    r.ask(conn, &spawn(0, "."));
    assert_eq!(r.answer(conn, Tm::Spawn), [PvmError::BadParam.code()]);
    r.ask(conn, &spawn(i32::MAX, "."));
    assert_eq!(r.answer(conn, Tm::Spawn), [PvmError::OutOfRes.code()]);
    r.nothing_else();
}

#[test]
fn hosts_are_added_once_and_deleted_by_name() {
    let (mut r, conn, _) = Recorder::with_host();
    r.ask(conn, &AddHosts { hosts: ["node2 via=local", "node1"].map(String::from).to_vec() });
    assert_eq!(r.answer(conn, Tm::AddHost)[..3], [2, 0, PvmError::DupHost.code()]);
    r.ask(conn, &DeleteHosts { names: ["node2", "node2", ".", "nobody"].map(String::from).to_vec() });
    assert!(matches!(r.told(), DaemonMsg::Halt));
    r.nothing_else();
    let reason = "it closed the link".to_owned();
    r.feed(Event::PeerLost { host: host(2), reason, has_ended: false });
    assert_eq!(
        r.answer(conn, Tm::DelHost),
        [4, 0, PvmError::DupHost.code(), PvmError::BadParam.code(), PvmError::NoHost.code()]
    );
    r.nothing_else();
}

#[test]
fn a_signal_reaches_the_process_and_nobody_else() {
    let (mut r, conn, _) = Recorder::with_task();
    let (child, _) = spawn_one(&mut r, conn, Sink::default());
    let signal = |tid: Tid| SendSignal { tid, signal: 15 };
    r.ask(conn, &signal(child));
    r.answer(conn, Tm::SendSig);
    assert!(matches!(r.action(), Action::Signal { pid: 500, signal: 15 }));
    r.ask(conn, &signal(Tid::from_bits(0x40abc)));
    r.answer(conn, Tm::SendSig);
    r.nothing_else();
    let (liar, enrolled) = r.enrol(-1, 0);
    r.ask(liar, &signal(enrolled.tid));
    r.answer(liar, Tm::SendSig);
    r.nothing_else();
}

#[test]
fn the_family_of_a_task_ends_when_this_daemon_has_ended_the_task() {
    for (sent, ends) in [(15, true), (9, true), (1, false)] {
        let (mut r, conn, _) = Recorder::with_task();
        let (child, cookie) = spawn_one(&mut r, conn, Sink::default());
        r.enrol(101, 0);
        r.ask(conn, &SendSignal { tid: child, signal: sent });
        r.answer(conn, Tm::SendSig);
        assert!(matches!(r.action(), Action::Signal { pid: 500, signal } if signal == sent));
        r.ended(cookie, 0);
        let mut ended = 0;
        while r.pending() {
            if let Action::EndFamily { cookie: family, spared } = r.action() {
                assert_eq!((family, spared), (cookie, vec![100, 101]), "tasks in their own right stay");
                ended += 1;
            }
        }
        assert_eq!(ended, i32::from(ends), "signal {sent}");
    }
}

#[test]
fn contexts_belong_to_who_made_them() {
    let (mut r, a, _) = Recorder::with_task();
    let (b, _) = r.enrol(101, 0);
    r.ask(a, &Context { context: 0 });
    let context = 0x40001;
    assert_eq!(r.reply::<Context>(a), Ok(context));
    r.ask(b, &Context { context });
    assert_eq!(r.reply::<Context>(b), Err(PvmError::NotFound.into()));
    r.ask(a, &Context { context });
    assert_eq!(r.reply::<Context>(a), Ok(0));
}

#[test]
fn halt_tells_every_host_and_ends() {
    let (mut r, conn, _) = Recorder::with_host();
    r.ask(conn, &Halt {});
    assert!(matches!(r.told(), DaemonMsg::Halt));
    assert!(matches!(r.told(), DaemonMsg::Bye));
    assert!(matches!(r.action(), Action::Exit { .. }));
    r.nothing_else();
}

#[test]
fn the_end_is_told_to_tasks_but_not_to_who_asked_for_it() {
    let (mut r, conn, _) = Recorder::with_task();
    r.enrol(101, 0);
    // The driver sees to children.
    spawn_one(&mut r, conn, Sink::default());
    r.ask(conn, &Halt {});
    assert!(matches!(r.action(), Action::Signal { pid: 101, signal: 15 }));
    assert!(matches!(r.action(), Action::Exit { .. }));
    r.nothing_else();
}

#[test]
fn what_was_adopted_and_never_enrolled_goes_with_its_adopter() {
    let (mut r, conn, _) = Recorder::with_task();
    let [first, _] = [7, 8].map(|tag| {
        r.ask(conn, &Adopt { context: 0, tag });
        r.reply::<Adopt>(conn).unwrap()
    });
    let (_, adopted) = r.enrol(200, first.cookie);
    assert_eq!(adopted.tid, first.tid);
    assert_eq!(r.core.census().tasks, 3);
    r.feed(Event::TaskClosed { conn, reason: None });
    assert_eq!(r.core.census().tasks, 1, "the one that enrolled lives on");
}
