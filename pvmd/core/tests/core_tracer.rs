//! Tracers: what they are told of the life of tasks, and the one that gets what nobody else does. Observers: what they
//! are told of losses.

use pvm_wire::body::BodyReader;
use pvm_wire::calls::hosts::DeleteHosts;
use pvm_wire::calls::roles::{BecomeTracer, TracerTerms};
use pvm_wire::calls::state::IncidentRequest;
use pvm_wire::calls::tasks::SendSignal;
use pvm_wire::codes::{INCIDENT_TAG, Tm};
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::events::{Datum, Event as Traced, Head, Writer};
use pvm_wire::incident::Incident;
use pvm_wire::spawn::{Sink, SpawnRequest, flags};
use pvm_wire::{PvmError, Tid};
use pvmd_core::event::{Action, ConnId, Event};
use pvmd_simulated::recorder::{Recorder, here, host};

const TRACE: i32 = 7;
const OUTPUT: i32 = 8;

fn register(r: &mut Recorder, conn: ConnId) {
    let terms = TracerTerms {
        trace_context: 0,
        trace_tag: TRACE,
        output_context: 0,
        output_tag: OUTPUT,
        mask: "@@A".into(),
        buffer: 100,
        options: 1,
    };
    r.ask(conn, &BecomeTracer { terms: Some(terms) });
}

fn unregister(r: &mut Recorder, conn: ConnId) -> Vec<i32> {
    r.ask(conn, &BecomeTracer { terms: None });
    r.answer(conn, Tm::Tracer)
}

/// The next message, a trace message to this task.
fn traced(r: &mut Recorder, conn: ConnId) -> Vec<u8> {
    let (to, message) = r.message();
    assert_eq!((to, message.header.tag, message.src), (conn, TRACE, Tid::MY_DAEMON));
    message.body.to_vec()
}

/// The next message tells what data there are.
fn meets(r: &mut Recorder, conn: ConnId) {
    let body = traced(r, conn);
    let mut reader = BodyReader::new(&body);
    assert_eq!(reader.ints(2), Ok(vec![-3, 0]));
    assert_eq!(reader.str(), Ok("AN"));
    assert!(body.ends_with(&(-4_i32).to_be_bytes()));
}

/// The next message tells this of a task.
fn hears(
    r: &mut Recorder,
    conn: ConnId,
    (event, describes): (Traced, bool),
    tid: Tid,
    fill: impl FnOnce(&mut Writer),
) {
    let mut expected = Writer::new(false);
    expected.begin(event, 0, Head { seconds: 1_000_000, micros: 0, tid: tid.raw() }, describes);
    fill(&mut expected);
    expected.end();
    assert_eq!(traced(r, conn), expected.finish(), "{event:?}");
}

fn hears_of_end(r: &mut Recorder, conn: ConnId, describes: bool, tid: Tid, status: i32) {
    hears(r, conn, (Traced::Endtask, describes), tid, |event| {
        event.int(Datum::TST, status).int(Datum::TUS, 0).int(Datum::TUU, 0);
        event.int(Datum::TSS, 0).int(Datum::TSU, 0);
    });
}

fn program(trace: Sink) -> SpawnRequest {
    SpawnRequest { env: vec!["PVMTMASK=@@@".into(), "A=b".into()], trace, ..here(1) }
}

#[test]
fn a_spawned_tasks_tracer_hears_of_its_life() {
    let (mut r, conn, me) = Recorder::with_task();
    let sink = Sink { tid: me.tid.raw(), context: 0, tag: TRACE };
    for first in [true, false] {
        r.ask(conn, &program(sink));
        let cookies = r.starts();
        r.started(cookies[0], 500);
        if first {
            meets(&mut r, conn);
        }
        let task = Tid::from_raw(me.tid.raw() + if first { 1 } else { 2 });
        hears(&mut r, conn, (Traced::Newtask, first), task, |event| {
            event.int(Datum::PT, me.tid.raw()).int(Datum::TF, flags::HOST).text(Datum::TN, "prog");
        });
        hears(&mut r, conn, (Traced::Spntask, first), task, |event| {
            event.int(Datum::PT, me.tid.raw());
        });
        assert_eq!(r.answer(conn, Tm::Spawn), [1, task.raw()]);
        r.ended(cookies[0], 0x300);
        hears_of_end(&mut r, conn, first, task, 0x300);
        r.nothing_else();
    }
}

#[test]
fn a_registered_tracer_gets_what_goes_to_nobody_else() {
    let (mut r, conn, me) = Recorder::with_task();
    register(&mut r, conn);
    assert_eq!(r.answer(conn, Tm::Tracer), [0]);
    let (other, second) = r.enrol(101, 0);
    let sink = |tag| Sink { tid: me.tid.raw(), context: 0, tag };
    assert_eq!((second.trace, second.output), (sink(TRACE), sink(OUTPUT)));
    meets(&mut r, conn);
    hears(&mut r, conn, (Traced::Newtask, true), second.tid, |event| {
        event.int(Datum::PT, -1).int(Datum::TF, -1).text(Datum::TN, "-");
    });
    assert_eq!(r.message().1.header.tag, OUTPUT);
    // Another one cannot be.
    register(&mut r, other);
    assert_eq!(r.answer(other, Tm::Tracer), [PvmError::Already.code()]);
    assert_eq!(unregister(&mut r, other), [PvmError::NoTask.code()]);
    // Spawned tasks are told how to trace.
    r.ask(other, &program(Sink::default()));
    let Action::Start { program, .. } = r.action() else { panic!("not a start") };
    assert_eq!(program.env, ["A=b", "PVM_TEAM=t40002", "PVMTMASK=@@A", "PVMTRCBUF=100", "PVMTRCOPT=1"]);
    assert_eq!(unregister(&mut r, conn), [0]);
    let (_, third) = r.enrol(102, 0);
    assert_eq!((third.trace, third.output), (Sink::default(), Sink::default()));
}

/// Leaves aside what is to be done for now.
fn drained(mut r: Recorder) -> Recorder {
    while r.pending() {
        r.action();
    }
    r
}

#[test]
fn all_daemons_know_the_tracer_until_it_ends() {
    let (mut r, conn, me) = Recorder::with_host();
    register(&mut r, conn);
    let DaemonMsg::Tracer { tracer: Some(tracer) } = r.told() else { panic!("not the tracer") };
    assert_eq!((tracer.tid(), tracer.mask.as_str()), (me.tid, "@@A"));
    assert_eq!(r.answer(conn, Tm::Tracer), [0]);
    r.feed(Event::TaskClosed { conn, reason: None });
    assert!(std::iter::from_fn(|| Some(r.action())).take(5).any(|action| {
        matches!(action, Action::SendPeer { message: DaemonMsg::Tracer { tracer: None }, .. })
    }));
    // One on another host is gone with its host.
    let tracer = pvm_wire::services::Tracer { trace: Sink { tid: 0x80001, ..tracer.trace }, ..tracer };
    r.hear(host(2), DaemonMsg::Tracer { tracer: Some(tracer) });
    r.feed(Event::PeerLost { host: host(2), reason: "gone".into(), has_ended: false });
    let mut r = drained(r);
    let (_, next) = r.enrol(103, 0);
    assert_eq!(next.trace, Sink::default());
}

/// The next message to a task is this incident.
fn hears_of(r: &mut Recorder, conn: ConnId, expected: &Incident) {
    let (to, message) = r.message();
    assert_eq!((to, message.src, message.header.tag), (conn, Tid::MY_DAEMON, INCIDENT_TAG));
    assert_eq!(&Incident::decode(&message.body).unwrap(), expected);
}

#[test]
fn an_observer_is_told_of_a_lost_host_and_what_ran_there() {
    let (mut r, conn, me) = Recorder::with_host();
    r.ask(conn, &IncidentRequest { every_end: false });
    assert_eq!(r.told(), DaemonMsg::Observe { on: true });
    assert_eq!(r.message().1.body[..4], [0; 4]);
    let task = |local: u32| (host(2).task(local), format!("worker{local}"));
    r.hear(host(2), DaemonMsg::TasksRunning { tasks: vec![task(1), task(2), task(3), (me.tid, "x".into())] });
    for (local, status, intended) in [(1, 15, true), (2, 11, false)] {
        r.hear(host(2), DaemonMsg::TaskOver { tid: task(local).0, status, intended });
    }
    let (tid, name) = task(2);
    hears_of(&mut r, conn, &Incident::TaskEnded { tid, name, status: 11, intended: false });
    r.nothing_else();
    r.feed(Event::PeerLost { host: host(2), reason: "silence".into(), has_ended: false });
    let lost = Incident::HostLost {
        host: host(2).host_tid(),
        name: "node2".into(),
        reason: "silence".into(),
        tasks: vec![task(3)],
    };
    hears_of(&mut r, conn, &lost);
    r.feed(Event::TaskClosed { conn, reason: None });
    while r.pending() {
        r.action();
    }
    assert_eq!(r.core.census().observers, (0, 0, 0));
}

#[test]
fn a_deleted_host_and_a_signal_sent_by_a_task_are_no_incidents() {
    let (mut r, conn, me) = Recorder::with_host();
    r.hear(host(2), DaemonMsg::Observe { on: true });
    let DaemonMsg::TasksRunning { tasks } = r.told() else { panic!("not the tasks") };
    assert_eq!(tasks, [(me.tid, "-".to_owned())]);
    r.ask(conn, &IncidentRequest { every_end: false });
    assert_eq!(r.told(), DaemonMsg::Observe { on: true });
    r.message();
    r.ask(conn, &program(Sink::default()));
    let cookies = r.starts();
    r.started(cookies[0], 500);
    let task = Tid::from_raw(me.tid.raw() + 1);
    assert_eq!(r.told(), DaemonMsg::TaskBegun { tid: task, name: "prog".to_owned() });
    assert_eq!(r.answer(conn, Tm::Spawn), [1, task.raw()]);
    r.ask(conn, &SendSignal { tid: task, signal: 15 });
    r.message();
    assert!(matches!(r.action(), Action::Signal { pid: 500, signal: 15 }));
    r.ended(cookies[0], 15);
    assert!(matches!(r.action(), Action::EndFamily { cookie, .. } if cookie == cookies[0]));
    assert_eq!(r.told(), DaemonMsg::TaskOver { tid: task, status: 15, intended: true });
    r.nothing_else();
    r.ask(conn, &DeleteHosts { names: vec!["node2".to_owned()] });
    let actions: Vec<Action> = std::iter::from_fn(|| r.pending().then(|| r.action())).collect();
    // The answer waits for the end of the host's daemon.
    assert!(!actions.iter().any(|action| matches!(action, Action::Send { .. })), "{actions:?}");
    assert_eq!(r.core.census().observers, (1, 0, 0));
}
