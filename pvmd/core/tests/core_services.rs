//! Tasks that stand in for a part of the daemon: a resource manager, a tasker.

use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::calls::Request;
use pvm_wire::calls::hosts::AddHosts;
use pvm_wire::calls::roles::BecomeManager;
use pvm_wire::codes::{DAEMON_PROTOCOL, Sm, Tm};
use pvm_wire::daemon::{DaemonMsg, FromMaster, MasterRequest, ToMaster};
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::services::{ExecRequest, TaskEnded};
use pvm_wire::slave::{Fingerprint, HostedLine};
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{HostIndex, PvmError, Tid};
use pvmd_core::event::{Action, ConnId, Event, Found};
use pvmd_core::{Config, Hosting};
use pvmd_simulated::daemon::{config, started_host};
use pvmd_simulated::recorder::{Recorder, here, host};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

fn register(r: &mut Recorder, conn: ConnId, request: Tm, regme: i32) -> Vec<i32> {
    r.request(conn, request, &regme.to_be_bytes());
    r.answer(conn, request)
}

/// A resource manager; its connection and id.
fn manager(r: &mut Recorder) -> (ConnId, Tid) {
    let (conn, me) = r.enrol(100, 0);
    r.ask(conn, &BecomeManager {});
    let (_, answer) = r.message();
    let mut answer = BodyReader::new(&answer.body);
    assert_eq!((answer.int(), answer.int()), (Ok(0), Ok(HostIndex::MASTER.host_tid().raw())));
    (conn, me.tid)
}

/// The next message, which a service is told.
fn told(r: &mut Recorder, conn: ConnId, what: Sm) -> Vec<u8> {
    let (to, message) = r.message();
    assert_eq!((to, message.header.tag), (conn, what.tag()));
    message.body.to_vec()
}

fn program(count: i32) -> SpawnRequest {
    SpawnRequest { args: vec!["x".into()], env: vec!["A=b".into()], ..here(count) }
}

#[test]
fn tasks_are_told_who_manages_resources() {
    let mut r = Recorder::master();
    let (conn, me) = manager(&mut r);
    let (_, enrolled) = r.enrol(101, 0);
    // The manager hears of each task that enrols by itself.
    let body = told(&mut r, conn, Sm::ExecAck);
    assert_eq!(BodyReader::new(&body).ints(2), Ok(vec![1, enrolled.tid.raw()]));
    assert_eq!(enrolled.scheduler, me.raw());
}

#[test]
fn a_resource_manager_starts_tasks_and_hears_of_their_end() {
    let mut r = Recorder::master();
    let (conn, me) = manager(&mut r);
    let request = ExecRequest { parent: 0x40077, spawn: program(1), first: 0, total: 1 };
    r.say(conn, Tid::MY_DAEMON, Sm::Exec.tag(), 0, &request.encode());
    let Action::Start { cookies, program, .. } = r.action() else { panic!("not a start") };
    assert_eq!((program.file.to_str(), program.args.len()), (Some("prog"), 1));
    r.started(cookies[0], 500);
    let body = told(&mut r, conn, Sm::ExecAck);
    let tid = BodyReader::new(&body).ints(2).unwrap()[1];
    assert_eq!(Tid::from_raw(tid).host(), Some(HostIndex::MASTER));
    r.ended(cookies[0], 0x300);
    let ended = TaskEnded::decode(&told(&mut r, conn, Sm::TaskX)).unwrap();
    assert_eq!(ended, TaskEnded { tid: Tid::from_raw(tid), status: 0x300 });
    assert_ne!(ended.tid, me);
}

#[test]
fn nobody_else_passes_for_a_resource_manager() {
    let mut r = Recorder::master();
    manager(&mut r);
    let (impostor, _) = r.enrol(101, 0);
    r.message();
    let request = ExecRequest { parent: 0, spawn: program(1), first: 0, total: 1 };
    r.say(impostor, Tid::MY_DAEMON, Sm::Exec.tag(), 0, &request.encode());
    r.nothing_else();
}

#[test]
fn a_malformed_order_is_answered_with_an_error() {
    let mut r = Recorder::master();
    let (conn, _) = manager(&mut r);
    r.say(conn, Tid::MY_DAEMON, Sm::Exec.tag(), 0, &[1, 2, 3]);
    assert_eq!(told(&mut r, conn, Sm::ExecAck), PvmError::BadParam.code().to_be_bytes());
}

#[test]
fn an_order_for_no_tasks_or_too_many_starts_none() {
    let mut r = Recorder::master();
    let (conn, _) = manager(&mut r);
    let too_many = BATCH_MAX as i32 + 1;
    for (count, first, expected) in [
        (0, 0, PvmError::BadParam),
        (-1, 0, PvmError::BadParam),
        (too_many, 0, PvmError::OutOfRes),
        (1, -1, PvmError::BadParam),
        (2, i32::MAX, PvmError::BadParam),
    ] {
        let request = ExecRequest { parent: 0, spawn: program(count), first, total: 1 };
        r.say(conn, Tid::MY_DAEMON, Sm::Exec.tag(), 0, &request.encode());
        let answer = told(&mut r, conn, Sm::ExecAck);
        assert_eq!(answer, expected.code().to_be_bytes(), "{count} tasks from number {first} on");
        r.nothing_else();
    }
}

#[test]
fn newcomers_learn_who_manages_resources() {
    let mut r = Recorder::master();
    let (conn, me) = manager(&mut r);
    r.say(conn, Tid::MY_DAEMON, Sm::Add.tag(), 0, &AddHosts { hosts: vec!["n via=local".into()] }.encode());
    let Action::StartHost { index, .. } = r.action() else { panic!("not a start") };
    let started = started_host();
    r.feed(Event::HostStarted { index, result: Ok(started) });
    assert!(matches!(r.action(), Action::Link { .. }));
    r.feed(Event::PeerLinked { host: index });
    let FromMaster::TableUpdate { serial, .. } = r.ordered() else { panic!("not the table") };
    r.tell_master(index, ToMaster::TableAck { serial, slots: 2, saved: None });
    assert!(matches!(r.ordered(), FromMaster::TableCommit { .. }));
    assert_eq!(r.told(), DaemonMsg::Scheduler { tid: me });
    let body = told(&mut r, conn, Sm::AddAck);
    assert_eq!(BodyReader::new(&body).int(), Ok(1));
    r.feed(Event::PeerLost { host: index, reason: "cut".into(), has_ended: false });
    let body = told(&mut r, conn, Sm::HostX);
    assert_eq!(BodyReader::new(&body).int(), Ok(host(2).host_tid().raw()));
}

#[test]
fn a_tasker_registers_alone_and_leaves_by_itself() {
    let mut r = Recorder::master();
    let ((one, _), (two, _)) = (r.enrol(100, 0), r.enrol(101, 0));
    assert_eq!(register(&mut r, one, Tm::Tasker, 0), [PvmError::NoTask.code()]);
    assert_eq!(register(&mut r, one, Tm::Tasker, 1), [0]);
    assert_eq!(register(&mut r, two, Tm::Tasker, 1), [PvmError::Already.code()]);
    assert_eq!(register(&mut r, two, Tm::Tasker, 0), [PvmError::NoTask.code()]);
    assert_eq!(register(&mut r, one, Tm::Tasker, 0), [0]);
}

/// A tasker that has been told to start a task: its connection, the spawner's, the task and its cookie.
fn tasked(r: &mut Recorder) -> (ConnId, ConnId, Tid, i32) {
    let ((tasker, _), (spawner, _)) = (r.enrol(100, 0), r.enrol(101, 0));
    assert_eq!(register(r, tasker, Tm::Tasker, 1), [0]);
    r.ask(spawner, &program(1));
    let Action::Locate { cookies, program } = r.action() else { panic!("nothing to locate") };
    assert_eq!(program.file, "prog");
    let found = Ok(("/bin/prog".into(), vec!["PVMSOCK=/s".into()]));
    r.feed(Event::Located { cookies: cookies.clone(), result: found });
    let body = told(r, tasker, Sm::StTask);
    let mut order = BodyReader::new(&body);
    let tid = Tid::from_raw(order.int().unwrap());
    assert_eq!((order.int(), order.str()), (Ok(flags::HOST), Ok("/bin/prog")));
    assert_eq!(order.strings(), Ok(vec!["/bin/prog".to_owned(), "x".to_owned()]));
    let cookie = format!("PVMEPID={}", cookies[0].0);
    assert_eq!(
        order.strings(),
        Ok(vec![cookie, "PVMSOCK=/s".to_owned(), "A=b".to_owned(), "PVM_TEAM=t40002".to_owned()])
    );
    assert_eq!(order.ints(3), Ok(vec![0, 1, 1]));
    assert_eq!(r.answer(spawner, Tm::Spawn), [1, tid.raw()]);
    (tasker, spawner, tid, cookies[0].0)
}

#[test]
fn a_tasker_that_comes_late_starts_the_rest_of_an_order() {
    let mut r = Recorder::with(Config { task_limit: 4, ..config(HostIndex::MASTER) });
    let ((tasker, _), (spawner, _)) = (r.enrol(100, 0), r.enrol(101, 0));
    r.ask(spawner, &program(3));
    let cookies = r.starts();
    let [first, second] = cookies[..] else { panic!("{} are started", cookies.len()) };
    assert_eq!(register(&mut r, tasker, Tm::Tasker, 1), [0]);
    r.started(first, 200);
    r.ended(first, 0);
    r.started(second, 201);
    let Action::Locate { cookies, .. } = r.action() else { panic!("nothing to locate") };
    r.feed(Event::Located { cookies, result: Ok(("/bin/prog".into(), vec![])) });
    let body = told(&mut r, tasker, Sm::StTask);
    let tid = BodyReader::new(&body).int().unwrap();
    let answer = r.answer(spawner, Tm::Spawn);
    assert_eq!((answer[0], answer[3]), (3, tid));
}

#[test]
fn a_tasker_starts_tasks_and_reports_their_end() {
    let mut r = Recorder::master();
    let (tasker, _, tid, cookie) = tasked(&mut r);
    let (conn, enrolled) = r.enrol(500, cookie);
    assert_eq!(enrolled.tid, tid);
    assert_eq!(r.core.census().tasks, 3);
    r.feed(Event::TaskClosed { conn, reason: None });
    assert_eq!(r.core.census().tasks, 2, "it has left");
    let ended = TaskEnded { tid, status: 0 }.encode();
    r.say(tasker, Tid::MY_DAEMON, Sm::TaskX.tag(), 0, &ended);
    r.nothing_else();
}

#[test]
fn a_tasker_may_be_faster_than_last_words() {
    let mut r = Recorder::master();
    let (tasker, spawner, tid, cookie) = tasked(&mut r);
    let (conn, enrolled) = r.enrol(500, cookie);
    let ended = TaskEnded { tid, status: 0 }.encode();
    r.say(tasker, Tid::MY_DAEMON, Sm::TaskX.tag(), 0, &ended);
    r.nothing_else();
    r.say(conn, Tid::from_raw(enrolled.parent), 7, 0, b"last words");
    let (to, message) = r.message();
    assert_eq!((to, message.src, message.header.tag), (spawner, tid, 7));
    r.feed(Event::TaskClosed { conn, reason: None });
    assert_eq!(r.core.census().tasks, 2);
    // Somebody else may keep its socket open.
    let mut r = Recorder::master();
    let (tasker, _, tid, cookie) = tasked(&mut r);
    r.enrol(500, cookie);
    r.say(tasker, Tid::MY_DAEMON, Sm::TaskX.tag(), 0, &TaskEnded { tid, status: 0 }.encode());
    r.pass(Duration::from_secs(5));
    assert!(matches!(r.action(), Action::CloseTask { .. }));
    assert_eq!(r.core.census().tasks, 2);
}

#[test]
fn what_a_dead_tasker_was_to_start_is_over() {
    let mut r = Recorder::master();
    let (tasker, spawner, _, _) = tasked(&mut r);
    r.feed(Event::TaskClosed { conn: tasker, reason: None });
    assert_eq!(r.core.census().tasks, 1);
    r.ask(spawner, &program(1));
    assert!(matches!(r.action(), Action::Start { .. }), "the daemon starts tasks itself again");
}

#[test]
fn what_is_not_there_is_no_work_for_a_tasker() {
    let mut r = Recorder::master();
    let ((tasker, _), (spawner, _)) = (r.enrol(100, 0), r.enrol(101, 0));
    assert_eq!(register(&mut r, tasker, Tm::Tasker, 1), [0]);
    r.ask(spawner, &program(2));
    let Action::Locate { cookies, .. } = r.action() else { panic!("nothing to locate") };
    let missing = Err((PvmError::NoFile, "prog: no".to_owned()));
    r.feed(Event::Located { cookies, result: missing });
    assert_eq!(r.answer(spawner, Tm::Spawn), [2, PvmError::NoFile.code(), PvmError::NoFile.code()]);
    assert_eq!(r.core.census().tasks, 2);
}

#[test]
fn a_resource_manager_asks_the_master_for_hosts_from_anywhere() {
    let mut r = Recorder::with(config(host(2)));
    r.feed(Event::PeerLinked { host: HostIndex::MASTER });
    r.hear(HostIndex::MASTER, DaemonMsg::Scheduler { tid: host(2).task(1) });
    let (conn, _) = r.enrol(100, 0);
    r.message();
    r.say(conn, Tid::MY_DAEMON, Sm::Add.tag(), 0, &AddHosts { hosts: vec!["n".into()] }.encode());
    let ToMaster::Request { what: MasterRequest::AddHosts { hosts }, .. } = r.asked_master() else {
        panic!("not a request")
    };
    assert_eq!(hosts, ["n"]);
}

/// A hoster that has been told to start `node2`: its connection, and that of the task that wants the host.
fn hosting(r: &mut Recorder) -> (ConnId, ConnId) {
    let ((hoster, _), (asker, _)) = (r.enrol(100, 0), r.enrol(101, 0));
    assert_eq!(register(r, hoster, Tm::Hoster, 1), [0]);
    assert_eq!(register(r, asker, Tm::Hoster, 1), [PvmError::Already.code()]);
    let host = "node2 lo=me so=any dx=/bin/pvmd id=v".to_owned();
    r.ask(asker, &AddHosts { hosts: vec![host] });
    let Action::Resolve { add, .. } = r.action() else { panic!("no address asked for") };
    r.feed(Event::Resolved { add, results: vec![Ok(Found { address: ADDRESS, own: false })] });
    let body = told(r, hoster, Sm::StHost);
    let mut order = BodyReader::new(&body);
    assert_eq!(order.ints(2), Ok(vec![1, host2_tid()]));
    let texts: Vec<&str> = (0..5).map(|_| order.str().unwrap()).collect();
    assert_eq!(texts, ["any", "me@node2", "/bin/pvmd --hosted feed", "", "v"]);
    (hoster, asker)
}

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn host2_tid() -> i32 {
    host(2).host_tid().raw()
}

fn with_hosting() -> Recorder {
    let plain = config(HostIndex::MASTER);
    let hosting = Hosting { fingerprint: "feed".into(), ..plain.hosting };
    Recorder::with(Config { hosting, ..plain })
}

fn hosted(r: &mut Recorder, hoster: ConnId, line: &str) {
    let body = BodyWriter::new().int(1).int(host2_tid()).str(line).finish();
    r.say(hoster, Tid::MY_DAEMON, Sm::StHostAck.tag(), 0, &body);
}

#[test]
fn a_hoster_starts_daemons_and_the_master_brings_them_their_place() {
    let mut r = with_hosting();
    let (hoster, _) = hosting(&mut r);
    let line = HostedLine { protocol: DAEMON_PROTOCOL, port: 9, fingerprint: Fingerprint([1; 32]) };
    hosted(&mut r, hoster, &format!("Welcome\n{line}"));
    let Action::Introduce { index, address, fingerprint, .. } = r.action() else { panic!("no introduction") };
    assert_eq!((index, address, fingerprint), (host(2), (ADDRESS, 9).into(), Fingerprint([1; 32])));
    r.feed(Event::HostStarted { index, result: Ok(started_host()) });
    assert!(matches!(r.action(), Action::Link { .. }));
}

/// What the one who asked for the host hears.
fn refused(r: &mut Recorder, asker: ConnId) -> i32 {
    assert!(matches!(r.action(), Action::AbandonHost { .. }));
    let (to, message) = r.message();
    assert_eq!(to, asker);
    BodyReader::new(&message.body).ints(3).unwrap()[2]
}

#[test]
fn what_a_hoster_cannot_start_is_reported() {
    for (said, error) in [
        ("PvmNoHost", PvmError::NoHost),
        ("PvmHostFail", PvmError::HostFail),
        ("Permission denied", PvmError::CantStart),
        (
            "pvmd-hosted 999 9 0000000000000000000000000000000000000000000000000000000000000000",
            PvmError::BadVersion,
        ),
    ] {
        let mut r = with_hosting();
        let (hoster, asker) = hosting(&mut r);
        hosted(&mut r, hoster, said);
        assert_eq!(refused(&mut r, asker), error.code(), "{said}");
    }
}

#[test]
fn an_answer_of_a_hoster_that_cannot_be_read_starts_nothing() {
    let mut r = with_hosting();
    let (hoster, asker) = hosting(&mut r);
    let body = BodyWriter::new().int(1).int(host2_tid()).finish();
    r.say(hoster, Tid::MY_DAEMON, Sm::StHostAck.tag(), 0, &body);
    assert_eq!(refused(&mut r, asker), PvmError::DSysErr.code());
}

#[test]
fn a_hoster_that_dies_or_sleeps_starts_nothing() {
    let mut r = with_hosting();
    let (hoster, asker) = hosting(&mut r);
    r.feed(Event::TaskClosed { conn: hoster, reason: None });
    assert_eq!(refused(&mut r, asker), PvmError::CantStart.code());

    let mut r = with_hosting();
    let (hoster, asker) = hosting(&mut r);
    r.pass(Duration::from_secs(61));
    assert_eq!(refused(&mut r, asker), PvmError::CantStart.code());
    let line = HostedLine { protocol: DAEMON_PROTOCOL, port: 9, fingerprint: Fingerprint([1; 32]) };
    hosted(&mut r, hoster, &line.to_string());
    r.nothing_else();
}

#[test]
fn a_hoster_has_to_be_where_the_master_is() {
    let mut r = Recorder::with(config(host(2)));
    let (conn, _) = r.enrol(100, 0);
    assert_eq!(register(&mut r, conn, Tm::Hoster, 1), [PvmError::HostrNMstr.code()]);
}
