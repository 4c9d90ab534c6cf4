use super::certificate::Certify;
use super::enrolment::{
    Admission, ChannelEnrol, Conn2, Connect, ConnectReply, Enrol, EnrolReply, Exit, Extension, GetOptions,
    Introduction,
};
use super::hosts::{
    AddHosts, Adding, Additions, Clock, Config, DeleteHosts, Halt, HostClock, HostList, HostRecord,
    HostStatus, StartUp, Tickle,
};
use super::mailbox::{Class, Entry, Flags, Found, Get, Names, Operation, Put, Remove, Reset};
use super::nested::{Nested, PIECE};
use super::notify::NotifyRequest;
use super::roles::{BecomeHoster, BecomeManager, BecomeTasker, BecomeTracer, ManagerReply, TracerTerms};
use super::sharing::{Known, Meet, Share};
use super::spawn::{BatchList, Batches, CancelBatch};
use super::state::{DiscardLogs, Dump, IncidentRequest};
use super::tasks::{
    Adopt, Adopted, Context, ListTasks, Multicast, SendSignal, SetSinks, SinkItem, TaskList, TaskRecord,
    TaskStatus,
};
use super::turns::{
    Activity, Asleep, Awake, Epoch, History, JoinTeam, NoticesTaken, Page, Receiver, Rows, Traffic,
    TrafficByHost, Turns, Waiting,
};
use super::*;
use crate::body::BodyWriter;
use crate::certificate::{CertificateRequest, Certified};
use crate::codes::{EXTENSION_MAGIC, EXTENSION_VERSION, Tm, Tmx, notify};
use crate::coscheduling::{TeamReport, TurnHistory, TurnsReport};
use crate::queue::{BatchDecision, BatchRecord, PolicyMessages, PolicyTally, QueueRequest};
use crate::rows::{Place, RowsReport};
use crate::spawn::{Pair, Refusal, Sink, SpawnReply, SpawnRequest};
use crate::tid::HostIndex;
use proptest::prelude::*;
use std::fmt::Debug;
use std::os::unix::ffi::OsStringExt;

const TASK: Tid = Tid::from_bits(0x40001);
const HOST: Tid = Tid::from_bits(0x40000);

/// A request has this tag and this body, comes back from it, and not from a part of it. Only padding may be missing.
#[track_caller]
fn is<R: Request + PartialEq + Debug>(request: &R, tag: i32, body: BodyWriter) {
    let body = body.finish();
    assert_eq!((R::TAG, &request.encode()), (tag, &body));
    assert_eq!(R::decode(&body).as_ref(), Ok(request));
    for end in 0..body.len().saturating_sub(3) {
        assert_ne!(R::decode(&body[..end]).as_ref(), Ok(request), "{end} bytes of {}", body.len());
    }
}

/// A reply has this body, comes back from it, and not from a part of it. Errors come back in its place.
#[track_caller]
fn answers<C: Call>(reply: &C::Reply, body: BodyWriter)
where
    C::Reply: PartialEq + Debug,
{
    let body = body.finish();
    assert_eq!(C::encode_reply(reply), body);
    assert_eq!(C::decode_answer(&body).unwrap().as_ref(), Ok(reply));
    for end in 0..body.len().saturating_sub(3) {
        assert_ne!(
            C::decode_answer(&body[..end]).ok().as_ref().and_then(|answer| answer.as_ref().ok()),
            Some(reply)
        );
    }
    for reason in ["", "no such host"] {
        let error = CallError { code: -6, reason: reason.to_owned() };
        assert_eq!(C::decode_answer(&error.encode()).unwrap().unwrap_err(), error);
    }
}

fn body() -> BodyWriter {
    BodyWriter::new()
}

#[test]
fn hosts_are_asked_for_as_in_pvm() {
    is(&Config {}, Tm::Config.tag(), body());
    is(
        &AddHosts { hosts: vec!["a sp=2".into(), "b".into()] },
        Tm::AddHost.tag(),
        body().int(2).str("a sp=2").str("b"),
    );
    is(&DeleteHosts { names: vec!["a".into()] }, Tm::DelHost.tag(), body().int(1).str("a"));
    is(&HostStatus { name: ".".into() }, Tm::Mstat.tag(), body().str("."));
    is(&HostClock { host: HOST }, Tm::HostSync.tag(), body().int(0x40000));
    is(&Tickle { args: vec![6, 255] }, Tm::Tickle.tag(), body().ints([2, 6, 255]));
    is(&Halt {}, Tm::Halt.tag(), body());
    is(&StartUp {}, Tmx::StartUp.tag(), body());
    is(&Adding {}, Tmx::Adding.tag(), body());
    let additions = Additions { total: 3, linked: 2, failed: 1 };
    answers::<Adding>(&additions, body().int(0).ints([3, 2, 1]));
}

#[test]
fn hosts_are_answered_as_in_pvm() {
    let record = |tid, name: &str| HostRecord {
        tid,
        name: name.into(),
        arch: "LINUX64".into(),
        speed: 1000,
        signature: 0x0040_8c41,
    };
    let list =
        HostList { formats: 1, hosts: vec![record(0x40000, "a"), record(-29, "")], reasons: Vec::new() };
    let plain = body().ints([2, 1]).int(0x40000).str("a").str("LINUX64").ints([1000, 0x0040_8c41]);
    let plain = plain.int(-29).str("").str("LINUX64").ints([1000, 0x0040_8c41]);
    answers::<Config>(&list, plain.clone());
    let reasons = vec![String::new(), "ssh: no route".to_owned()];
    answers::<AddHosts>(&HostList { reasons, ..list }, plain.str("").str("ssh: no route"));
    answers::<DeleteHosts>(&vec![0, -6], body().ints([2, 0, -6]));
    answers::<HostStatus>(&(), body().int(0));
    answers::<HostClock>(&Clock { seconds: 7, micros: 9 }, body().ints([0, 7, 9]));
    answers::<Tickle>(&vec![255], body().ints([1, 255]));
}

#[test]
fn tasks_are_asked_for_as_in_pvm() {
    is(&ListTasks { which: Tid::NONE, version: None }, Tm::Task.tag(), body().int(0));
    is(&ListTasks { which: TASK, version: Some(11) }, Tm::Task.tag(), body().ints([0x40001, 11]));
    is(&TaskStatus { tid: TASK }, Tm::Pstat.tag(), body().int(0x40001));
    is(&SendSignal { tid: TASK, signal: 15 }, Tm::SendSig.tag(), body().ints([0x40001, 15]));
    is(&Context { context: 0 }, Tm::Context.tag(), body().int(0));
    let items = vec![(Some(SinkItem::OutputTid), 0x40001), (Some(SinkItem::TraceTag), -1)];
    let written = body().int(1).str("40001").int(6).str("ffffffff");
    is(&SetSinks { items }, Tm::SetOpt.tag(), written);
    is(&Multicast { tids: vec![HOST, TASK] }, Tm::Mca.tag(), body().ints([2, 0x40000, 0x40001]));
    is(&Adopt { context: 3, tag: 4 }, Tmx::Adopt.tag(), body().ints([3, 4]));
    assert_eq!((TaskStatus::CONTEXT, Multicast::CONTEXT), (0x7fffe, 0));
}

#[test]
fn sinks_may_be_given_with_a_prefix_and_unknown_items_are_read() {
    let body = body().int(1).str("0x40001").int(9).str("1").finish();
    assert_eq!(SetSinks::decode(&body).unwrap().items, [(Some(SinkItem::OutputTid), 0x40001), (None, 1)]);
    let not_a_number = BodyWriter::new().int(1).str("forty").finish();
    assert_eq!(SetSinks::decode(&not_a_number), Err(BodyError::Text));
}

#[test]
fn tasks_are_answered_as_in_pvm() {
    let record = TaskRecord { tid: TASK, parent: 0, host: 0x40000, flags: 4, name: "x".into(), pid: 77 };
    let written = body().ints([0, 0x40001, 0, 0x40000, 4]).str("x").int(77);
    answers::<ListTasks>(&TaskList { tasks: vec![record] }, written);
    answers::<ListTasks>(&TaskList { tasks: Vec::new() }, body().int(0));
    answers::<TaskStatus>(&(), body().int(0));
    answers::<SendSignal>(&(), body());
    answers::<SetSinks>(&(), body());
    answers::<Context>(&0x40007, body().int(0x40007));
    answers::<Adopt>(&Adopted { tid: TASK, cookie: 12 }, body().ints([0x40001, 12]));
}

#[test]
fn notifies_are_pvms() {
    let request =
        NotifyRequest { what: notify::TASK_EXIT, cancel: true, context: 3, tag: 4, count: 1, tids: vec![9] };
    is(&request, Tm::Notify.tag(), body().ints([257, 3, 4, 1, 9]));
    let hosts =
        NotifyRequest { what: notify::HOST_ADD, cancel: false, context: 3, tag: 4, count: -1, tids: vec![] };
    is(&hosts, Tm::Notify.tag(), body().ints([3, 3, 4, -1]));
    assert_eq!(NotifyRequest::CONTEXT, 0);
}

#[test]
fn roles_are_pvms() {
    is(&BecomeManager {}, Tm::Sched.tag(), body());
    is(&BecomeTasker { register: true }, Tm::Tasker.tag(), body().int(1));
    is(&BecomeHoster { register: false }, Tm::Hoster.tag(), body().int(0));
    let terms = TracerTerms {
        trace_context: 1,
        trace_tag: 2,
        output_context: 3,
        output_tag: 4,
        mask: "@@".into(),
        buffer: 5,
        options: 6,
    };
    let written = body().ints([1, 1, 2, 3, 4]).str("@@").ints([5, 6]);
    is(&BecomeTracer { terms: Some(terms) }, Tm::Tracer.tag(), written);
    is(&BecomeTracer { terms: None }, Tm::Tracer.tag(), body().int(0));
    let master = HostRecord { tid: 0x40000, name: "a".into(), arch: "L".into(), speed: 1, signature: 2 };
    let written = body().ints([0, 0x40000]).str("a").str("L").ints([1, 2]);
    answers::<BecomeManager>(&ManagerReply { before: Tid::NONE, master }, written);
    answers::<BecomeTracer>(&(), body().int(0));
}

fn message(length: usize) -> Message {
    let header = MessageHeader { encoding: 1, tag: 2, context: 3, wait_id: 4, checksum: 5 };
    Message { src: TASK, dst: HOST, header, body: vec![7; length].into() }
}

#[test]
fn the_mailbox_is_pvms() {
    let head = |operation, index, flags| body().ints([operation, 0x40001]).str("c").ints([index, flags]);
    let message = Nested::new(&message(3));
    let written = |body: BodyWriter| body.ints([3, 3, 2, 4, 1, 5, 0x40001, 0x40000]).int(3).bytes(&[7; 3]);
    let flags = Flags::PERSISTENT | Flags::MULTI_INSTANCE;
    let (tid, class) = (TASK, OsString::from("c"));
    let put = Put { tid, class: class.clone(), index: -1, flags, message: message.clone() };
    is(&put, Tm::Db.tag(), written(head(1, -1, 3)));
    let remove = Remove { tid, class: class.clone(), index: 4 };
    is(&remove, Tm::Db.tag(), head(2, 4, 0));
    let get = Get { tid, class: class.clone(), index: 4, flags: Flags::WAIT_FOR_INFO };
    is(&get, Tm::Db.tag(), head(3, 4, 32));
    let names = Names { tid, pattern: class.clone() };
    is(&names, Tm::Db.tag(), head(4, 0, 0));
    let reset = Reset { tid, class, index: -1, kill: true, keep: vec![TASK] };
    is(&reset, Tm::Db.tag(), head(5, -1, 1).ints([1, 0x40001]));
    for operation in [
        Operation::Put(put.clone()),
        Operation::Remove(remove.clone()),
        Operation::Get(get.clone()),
        Operation::Names(names.clone()),
        Operation::Reset(reset.clone()),
    ] {
        assert_eq!(operation.tid(), TASK);
        let body = match &operation {
            Operation::Put(put) => put.encode(),
            Operation::Remove(remove) => remove.encode(),
            Operation::Get(get) => get.encode(),
            Operation::Names(names) => names.encode(),
            Operation::Reset(reset) => reset.encode(),
        };
        assert_eq!(Operation::decode(&body), Ok(operation));
    }
    assert_eq!(Remove::decode(&get.encode()), Err(BodyError::Length(3)));
    assert_eq!(Operation::decode(&head(6, 0, 0).finish()), Err(BodyError::Length(6)));

    answers::<Put>(&4, body().int(4));
    answers::<Get>(&Found { index: 4, message }, written(body().int(4)));
    let entry = Entry { index: 4, owner: TASK, flags };
    let class = Class { name: "c".into(), entries: vec![entry] };
    answers::<Names>(&vec![class], body().ints([0, 1]).str("c").ints([1, 4, 0x40001, 3]));
    answers::<Reset>(&(), body().int(0));
}

#[test]
fn flags_carry_an_index() {
    let flags = Flags::direct_index(5).unwrap() | Flags::OVERWRITABLE;
    assert_eq!((flags.bits(), flags.wanted_index()), (5 << 10 | 4, 5));
    assert!(flags.contains(Flags::OVERWRITABLE) && !flags.contains(Flags::PERSISTENT));
    assert_eq!(Flags::from_bits(-1).wanted_index(), 0);
    assert_eq!(Flags::direct_index(Flags::INDEX_MAX + 1), None);
    assert!(Flags::direct_index(Flags::INDEX_MAX).is_some_and(|flags| flags.bits() > 0));
}

#[test]
fn a_nested_message_whose_lengths_lie_is_refused() {
    let nested = |length: i32, pieces: BodyWriter| {
        let bytes = body().int(length).ints([0; 7]).rest(&pieces.finish()).finish();
        Nested::read(&mut BodyReader::new(&bytes)).and_then(|nested| nested.open())
    };
    let piece = |length: i32, bytes: &[u8]| body().int(length).bytes(bytes);
    assert_eq!(nested(2, piece(0, &[]).int(2).bytes(&[1, 2])).unwrap().body[..], [1, 2]);
    assert!(nested(0, body()).unwrap().body.is_empty());
    for (length, pieces) in
        [(-1, body()), (i32::MAX, piece(4, &[0; 4])), (3, piece(4, &[0; 4])), (5, piece(4, &[0; 4]))]
    {
        assert!(nested(length, pieces).is_err(), "{length}");
    }
    assert!(Nested::read(&mut BodyReader::new(&[0; 33])).is_err());
}

#[test]
fn long_messages_are_nested_in_pieces() {
    let message = message(PIECE + 1);
    let nested = Nested::new(&message);
    assert_eq!(nested.bytes().len(), 32 + 4 + PIECE + 4 + 4);
    assert_eq!(nested.open().unwrap(), message);
}

#[test]
fn enrolments_end_in_what_the_original_does_not_read() {
    let ours = || Extension(Some(EXTENSION_VERSION));
    let extended = |body: BodyWriter| body.int(EXTENSION_MAGIC).int(EXTENSION_VERSION);
    let connect = Connect { version: 1318, auth_file: "/t".into(), extension: ours() };
    is(&connect, Tm::Connect.tag(), extended(body().int(1318).str("/t")));
    let original = Connect { extension: Extension(None), ..connect };
    is(&original, Tm::Connect.tag(), body().int(1318).str("/t"));
    let strange = body().int(1318).str("/t").ints([1, 2]).finish();
    assert_eq!(Connect::decode(&strange), Ok(original), "others may say more");
    let reply = ConnectReply { version: 1318, accepted: true, auth_file: String::new(), extension: ours() };
    answers::<Connect>(&reply, extended(body().ints([1318, 1]).str("")));

    let process = Introduction { pid: 7, cookie: 8, name: Some("n".into()) };
    let written = || body().ints([7, 8]).str("n");
    is(&Conn2 { process: process.clone() }, Tm::Conn2.tag(), written());
    is(&Enrol { process: process.clone() }, Tmx::Enrol.tag(), written());
    is(&ChannelEnrol { process }, Tmx::ChannelEnrol.tag(), written());
    let nameless = Introduction { pid: 7, cookie: 8, name: None };
    is(&Conn2 { process: nameless }, Tm::Conn2.tag(), body().ints([7, 8]));
    answers::<Conn2>(&Admission(None), body().int(0));
    is(&GetOptions {}, Tm::GetOpt.tag(), body());
    is(&Exit {}, Tm::Exit.tag(), body());
}

#[test]
fn the_answer_to_an_enrolment_is_the_originals() {
    // Recorded from pvmd 3.4.6 (reference, section 4.2).
    let reply = EnrolReply {
        tid: Tid::from_raw(0x40002),
        parent: 0,
        output: Sink::default(),
        trace: Sink::default(),
        fragment_size: 4080,
        signature: 0x0040_8c41,
        address: "7f000001:bfa9".into(),
        scheduler: 0,
        private_network: false,
        wake_time: 0,
        succeeds: None,
    };
    let bytes = Conn2::encode_reply(&Admission(Some(reply.clone())));
    assert_eq!(bytes.len(), 0x64 - 32);
    assert_eq!(&bytes[..8], b"\0\0\0\x01\0\x04\0\x02");
    assert_eq!(GetOptions::encode_reply(&reply), bytes[4..]);
    for (private_network, wake_time) in [(false, 0), (true, 0), (true, 8000), (false, 8000)] {
        let told = Admission(Some(EnrolReply { private_network, wake_time, ..reply.clone() }));
        assert_eq!(Conn2::decode_answer(&Conn2::encode_reply(&told)), Ok(Ok(told)));
    }
    let successor = Admission(Some(EnrolReply { succeeds: Some(Tid::from_raw(0x80003)), ..reply }));
    assert_eq!(Conn2::decode_answer(&Conn2::encode_reply(&successor)), Ok(Ok(successor)));
}

#[test]
fn spawns_end_in_what_the_original_does_not_read() {
    let sink = Sink { tid: 1, context: 2, tag: 3 };
    let spawn = SpawnRequest {
        file: "p".into(),
        flags: 1,
        place: "h".into(),
        count: 2,
        args: vec!["a".into()],
        output: sink,
        trace: Sink { tid: 4, context: 5, tag: 6 },
        env: vec!["A=b".into()],
        ..SpawnRequest::default()
    };
    let written = |body: BodyWriter| {
        let body = body.str("p").int(1).str("h").ints([2, 1]).str("a").ints([1, 2, 3, 4, 5, 6]);
        body.int(1).str("A=b")
    };
    is(&spawn, Tm::Spawn.tag(), written(body()));
    let chosen = SpawnRequest { policy: "round-robin".into(), ..spawn.clone() };
    let with_policy = written(body()).int(EXTENSION_MAGIC).str("round-robin");
    let talk = SpawnRequest { traffic: vec![Pair { a: 1, b: 0, traffic: 1 << 32 | 5 }], ..chosen.clone() };
    is(&talk, Tm::Spawn.tag(), with_policy.ints([1, 1, 0, 1, 5]));
    is(&chosen, Tm::Spawn.tag(), written(body()).int(EXTENSION_MAGIC).str("round-robin"));
    let queued = QueueRequest { context: 7, tag: 8, restarts: 9, spawn };
    is(&queued, Tmx::Queue.tag(), written(body().ints([7, 8, 9])));
    is(&CancelBatch { batch: 7 }, Tmx::CancelBatch.tag(), body().int(7));
    is(&Batches {}, Tmx::Batches.tag(), body());

    let plain = SpawnReply { results: vec![0x40002, -7], ..SpawnReply::default() };
    answers::<SpawnRequest>(&plain, body().ints([2, 0x40002, -7]));
    let refusal = Refusal { host: 0x40000, code: -7, count: 1, reason: "no".into() };
    let told = SpawnReply { refusals: vec![refusal], policy: "local".into(), ..plain };
    let written = body().ints([2, 0x40002, -7, EXTENSION_MAGIC, 1, 0x40000, -7, 1]).str("no").str("local");
    answers::<SpawnRequest>(&told, written);
    answers::<QueueRequest>(&12, body().int(12));
    answers::<CancelBatch>(&(), body().int(0));
}

#[test]
fn reports_stand_behind_a_number() {
    let team = TeamReport { name: "a".into(), runs: true, ..TeamReport::default() };
    let report =
        TurnsReport { means: "stop".into(), epoch: u64::MAX, teams: vec![team], ..TurnsReport::default() };
    answers::<Turns>(&report, body().int(0).rest(&codec::encode(&report).unwrap()));
    let history = TurnHistory { spans: Vec::new(), next: 7 };
    answers::<History>(&history, body().int(0).rest(&codec::encode(&history).unwrap()));
    let places = vec![Place { row: 1, host: 0, team: 0, processes: 2 }];
    let report =
        RowsReport { is_on: true, count: 2, teams: vec!["a".into()], places, ..RowsReport::default() };
    answers::<Rows>(&report, body().int(0).rest(&codec::encode(&report).unwrap()));
    let batch = BatchRecord {
        id: 7,
        parent: TASK,
        file: "p".into(),
        policy: "pull".into(),
        total: 1,
        waiting: 0,
        running: 1,
        done: 0,
        failed: 0,
        cancelled: 0,
        restarts: 0,
        nodes: Vec::new(),
        messages: PolicyMessages { between_hosts: 4, at_home: 3 },
        decisions: vec![BatchDecision { after: 12, host: HostIndex::MASTER, count: 1 }],
    };
    let tally = PolicyTally {
        host: HostIndex::MASTER,
        policy: "pull".into(),
        batches: 1,
        given: 1,
        messages: batch.messages,
    };
    let bytes = codec::encode(&(vec![batch.clone()], vec![tally.clone()])).unwrap();
    let list = BatchList { batches: vec![batch], policies: vec![tally] };
    answers::<Batches>(&list, body().int(EXTENSION_VERSION).rest(&bytes));
    answers::<Dump>(&"text".to_owned(), body().int(0).str("text"));
    let certified = Certified { certificate: vec![1, 2, 3, 4], authority: vec![5, 6, 7, 8] };
    let bytes = codec::encode(&certified).unwrap();
    answers::<Certify>(&certified, body().int(0).rest(&bytes));
    answers::<IncidentRequest>(&(), body().int(0));
}

#[test]
fn what_only_this_system_says() {
    is(&Share {}, Tmx::Share.tag(), body());
    is(&Meet { other: TASK }, Tmx::Meet.tag(), body().int(0x40001));
    is(&Known {}, Tmx::Known.tag(), body());
    is(&JoinTeam { name: "t".into() }, Tmx::Team.tag(), body().str("t"));
    is(&Turns { host: HOST }, Tmx::Turns.tag(), body().int(0x40000));
    is(
        &History { host: HOST, since: (7 << 32) + 0xffff_fffe },
        Tmx::History.tag(),
        body().ints([0x40000, 7, -2]),
    );
    is(&Rows {}, Tmx::Rows.tag(), body());
    is(&Waiting { receivers: vec![TASK] }, Tmx::Waiting.tag(), body().ints([1, 0x40001]));
    is(&Asleep {}, Tmx::Asleep.tag(), body());
    is(&Awake {}, Tmx::Awake.tag(), body());
    is(&Page { direct: true }, Tmx::Page.tag(), body().int(1));
    let receivers = vec![Receiver { tid: Tid::from_raw(0x40002), bytes: 1 << 32 | 9 }];
    is(&Traffic { receivers }, Tmx::Traffic.tag(), body().ints([1, 0x40002, 1, 9]));
    let hosts = vec![Receiver { tid: HostIndex::MASTER.host_tid(), bytes: 7 }];
    is(&TrafficByHost { hosts }, Tmx::TrafficByHost.tag(), body().ints([1, 0x40000, 0, 7]));
    is(&Activity { spin: 9, messages: 1 << 32, bytes: 7 }, Tmx::Activity.tag(), body().ints([9, 1, 0, 0, 7]));
    is(&Epoch { by: TASK, count: u32::MAX, origin: 2 }, Tmx::Epoch.tag(), body().ints([0x40001, -1, 2]));
    is(&NoticesTaken { count: 9 }, Tmx::NoticesTaken.tag(), body().int(9));
    is(&Dump {}, Tmx::Dump.tag(), body());
    let certificate =
        CertificateRequest { names: vec!["node1".into(), "::1".into()], key: vec![48, 89, 255] };
    let bytes = codec::encode(&certificate).unwrap();
    is(&Certify(certificate), Tmx::Certify.tag(), body().rest(&bytes));
    is(&DiscardLogs {}, Tmx::DiscardLogs.tag(), body());
    is(&IncidentRequest { every_end: true }, Tmx::Incidents.tag(), body().int(1));
}

#[test]
fn an_error_may_be_any_negative_number() {
    let answer = TaskStatus::decode_answer(&(-9999_i32).to_be_bytes()).unwrap();
    assert_eq!(answer.unwrap_err().error(), PvmError::DSysErr);
    assert_eq!(CallError::from(PvmError::NoTask).encode(), (-31_i32).to_be_bytes());
}

fn any_bytes() -> impl Strategy<Value = OsString> {
    prop::collection::vec(1..=u8::MAX, 0..20).prop_map(OsString::from_vec)
}

fn sink() -> impl Strategy<Value = Sink> {
    any::<(i32, i32, i32)>().prop_map(|(tid, context, tag)| Sink { tid, context, tag })
}

fn no_panic<C: Call>(bytes: &[u8]) {
    let _ = C::decode(bytes);
    let _ = C::decode_answer(bytes);
}

proptest! {
    #[test]
    fn spawn_requests(file in any_bytes(), flags: i32, place in any_bytes(), count: i32,
                      args in prop::collection::vec(any_bytes(), 0..5), env in prop::collection::vec(any_bytes(), 0..5),
                      output in sink(), trace in sink(), policy in "[a-z-]{0,9}",
                      traffic in prop::collection::vec(any::<(u32, u32, u64)>(), 0..5)) {
        let traffic = traffic.into_iter().map(|(a, b, traffic)| Pair { a, b, traffic }).collect();
        let request = SpawnRequest { file, flags, place, count, args, output, trace, env, policy, traffic };
        prop_assert_eq!(<SpawnRequest as Request>::decode(&Request::encode(&request)), Ok(request));
    }

    #[test]
    fn notifies(what in 1..6_i32, cancel: bool, context: i32, tag: i32, tids in prop::collection::vec(any::<i32>(), 0..9)) {
        let (count, tids) = if what == notify::HOST_ADD { (-1, vec![]) } else { (tids.len() as i32, tids) };
        let request = NotifyRequest { what, cancel, context, tag, count, tids };
        prop_assert_eq!(<NotifyRequest as Request>::decode(&Request::encode(&request)), Ok(request));
    }

    #[test]
    fn task_lists(records in prop::collection::vec((any::<u32>(), any::<i32>(), any::<i32>(), any_bytes(), any::<i32>()), 0..5)) {
        let tasks = records.into_iter().map(|(tid, parent, flags, name, pid)| TaskRecord {
            tid: Tid::from_bits(tid), parent, host: 0x40000, flags, name, pid,
        }).collect();
        let list = TaskList { tasks };
        prop_assert_eq!(ListTasks::decode_answer(&ListTasks::encode_reply(&list)), Ok(Ok(list)));
    }

    #[test]
    fn mailbox_requests(class in any_bytes(), index: i32, bits: i32, keep in prop::collection::vec(any::<u32>(), 0..9),
                        length in 0..9000_usize) {
        let flags = Flags::from_bits(bits);
        let put = Put { tid: TASK, class: class.clone(), index, flags, message: Nested::new(&message(length)) };
        let read = Put::decode(&put.encode()).unwrap();
        prop_assert_eq!(read.message.open().unwrap(), message(length));
        prop_assert_eq!(read, put);
        let keep = keep.into_iter().map(Tid::from_bits).collect();
        let reset = Reset { tid: TASK, class, index, kill: bits > 0, keep };
        prop_assert_eq!(Operation::decode(&reset.encode()), Ok(Operation::Reset(reset)));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(prop_oneof![Just(0_u8), 1..9_u8, any::<u8>()], 0..120)) {
        no_panic::<Connect>(&bytes);
        no_panic::<Conn2>(&bytes);
        no_panic::<Config>(&bytes);
        no_panic::<AddHosts>(&bytes);
        no_panic::<DeleteHosts>(&bytes);
        no_panic::<HostStatus>(&bytes);
        no_panic::<HostClock>(&bytes);
        no_panic::<Tickle>(&bytes);
        no_panic::<ListTasks>(&bytes);
        no_panic::<SendSignal>(&bytes);
        no_panic::<SetSinks>(&bytes);
        no_panic::<Adopt>(&bytes);
        no_panic::<BecomeManager>(&bytes);
        no_panic::<BecomeTracer>(&bytes);
        no_panic::<SpawnRequest>(&bytes);
        no_panic::<QueueRequest>(&bytes);
        no_panic::<Batches>(&bytes);
        no_panic::<Turns>(&bytes);
        no_panic::<History>(&bytes);
        no_panic::<Rows>(&bytes);
        no_panic::<Dump>(&bytes);
        no_panic::<Certify>(&bytes);
        no_panic::<Put>(&bytes);
        no_panic::<Get>(&bytes);
        no_panic::<Names>(&bytes);
        no_panic::<Reset>(&bytes);
        let _ = Operation::decode(&bytes);
        let _ = NotifyRequest::decode(&bytes);
        let _ = Multicast::decode(&bytes);
        let _ = Waiting::decode(&bytes);
        let _ = Nested::read(&mut BodyReader::new(&bytes)).map(|nested| nested.open());
    }
}
