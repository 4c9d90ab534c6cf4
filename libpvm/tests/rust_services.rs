//! Rust programs that do a part of the daemons' work, against this system's daemon and the original's; and what Rust programs tell a
//! tracer: the same as C programs.

#[allow(dead_code, reason = "other programs use the rest")]
#[path = "../c/tests/c_support/mod.rs"]
mod c_support;
mod rust_support;

use c_support::Library;
use pvm3::{
    Any, Complex32, Complex64, EventReader, HostState, MailboxFlags, Managed, Pack, PvmError, Received,
    Scope, SpawnReply, StartHost, Task, Tasker, Tid, TraceEvent, TraceMask, TraceMode, Traced,
};
use rust_support::{Test, me, with_our_daemon, with_parent};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

const TESTS: &[Test] = &[
    ("a_tasker_starts_tasks", a_tasker_starts_tasks),
    ("a_hoster_starts_daemons", a_hoster_starts_daemons),
    ("a_manager_answers_in_the_daemons_place", a_manager_answers_in_the_daemons_place),
    ("a_role_has_one_task", a_role_has_one_task),
    ("rust_and_c_programs_have_the_same_events", rust_and_c_programs_have_the_same_events),
    ("a_tracer_is_notified_of_started_tasks", a_tracer_is_notified_of_started_tasks),
    ("tallies_are_sent_at_the_end", tallies_are_sent_at_the_end),
];

const ROLES: &[Test] = &[
    ("spawner", spawner),
    ("child", child),
    ("adder", adder),
    ("client", client),
    ("worker", worker),
    ("rival", rival),
    ("traced", traced),
];

/// Tags of the tests' messages.
const HELLO: i32 = 1;
const GONE: i32 = 2;
const REPORT: i32 = 3;
const WORK: i32 = 5;
const GO: i32 = 8;
const TRACE: i32 = 99;

const CHILDREN: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// A process that is no child of the machine's.
fn process(role: &str) -> Child {
    Command::new(me()).args(["role", role]).spawn().unwrap()
}

fn a_tasker_starts_tasks() {
    let mut task = Task::enrol().unwrap();
    let mut tasker = task.become_tasker().unwrap();
    let mut spawner = process("spawner");
    let mut started = Vec::new();
    for number in 0..CHILDREN as i32 {
        let order = tasker.next_order_timeout(LIMIT).unwrap().expect("an order");
        assert_eq!((order.path.to_str(), order.args.len()), (Some(&*me()), 2), "{order:?}");
        assert_eq!((order.instance, order.here, order.total), (number, 3, 3), "{order:?}");
        started.push((order.tid, Tasker::command(&order).spawn().unwrap()));
    }
    for (tid, mut child) in started {
        let status = child.wait().unwrap();
        assert!(status.success());
        tasker.ended(tid, status).unwrap();
    }
    assert!(spawner.wait().unwrap().success(), "the spawner hears of all ends");
    tasker.resign().unwrap();
    let spawned = task.spawn(me()).args(["role", "worker"]).start().unwrap();
    assert_eq!(spawned.tids.len(), 1, "the daemon starts tasks again: {spawned:?}");
}

fn spawner() {
    let mut task = Task::enrol().unwrap();
    let spawned = task.spawn(me()).args(["role", "child"]).count(CHILDREN).start().unwrap();
    assert_eq!(spawned.tids.len(), CHILDREN, "{spawned:?}");
    task.notify_exit(&spawned.tids, GONE).unwrap();
    for &tid in &spawned.tids {
        assert_eq!(task.recv(tid, HELLO).unwrap().get_one::<i32>().unwrap(), CHILDREN as i32);
    }
    spawned.tids.iter().for_each(|_| drop(task.recv(Any, GONE).unwrap()));
    task.exit().unwrap();
}

fn child() {
    let mut task = Task::enrol().unwrap();
    let (parent, siblings) = (task.parent().unwrap(), task.siblings().unwrap());
    let mut pack = Pack::new();
    pack.put_one(siblings.len() as i32).unwrap();
    task.send(parent, HELLO, &pack).unwrap();
    task.exit().unwrap();
}

fn a_hoster_starts_daemons() {
    // Hosts of the original's would have to be other machines.
    let Some(mut task) = with_our_daemon() else { return };
    let mut hoster = task.become_hoster().unwrap();
    let mut adder = process("adder");
    let mut targets = Vec::new();
    while targets.len() < 2 {
        let orders = hoster.next_order_timeout(LIMIT).unwrap().expect("an order");
        let lines: Vec<_> = orders.iter().map(|order| (order.host, first_line(order))).collect();
        hoster.started(&lines).unwrap();
        targets.extend(orders.into_iter().map(|order| order.target));
    }
    targets.sort();
    assert_eq!(targets, ["127.0.0.2", "somebody@127.0.0.3"]);
    assert!(adder.wait().unwrap().success());
    hoster.resign().unwrap();
    assert_eq!(task.hosts().unwrap().len(), 2);
}

/// Every host is this one.
fn first_line(order: &StartHost) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &order.command]).env("PVM_VMID", &order.vmid).stdout(Stdio::piped());
    let mut command = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(command.stdout.take().unwrap()).read_line(&mut line).unwrap();
    command.wait().unwrap();
    if line.is_empty() { "PvmCantStart".to_owned() } else { line.trim_end().to_owned() }
}

fn adder() {
    let mut task = Task::enrol().unwrap();
    let (daemon, id) = (std::env::var("PVM_TEST_PROGRAM").unwrap(), std::process::id());
    let good = format!("node lo=somebody ip=127.0.0.3 id={id}-node dx={daemon}");
    let added = task.add_hosts(&[&*good, "broken ip=127.0.0.2 dx=no-such-daemon"]).unwrap();
    assert!(added[0].is_ok(), "{added:?}");
    assert!(added[1].as_ref().is_err_and(|failure| failure.code == PvmError::CantStart), "{added:?}");
}

/// What a manager invents is what its client is told, and what it has started is the client's child.
fn a_manager_answers_in_the_daemons_place() {
    let mut task = Task::enrol().unwrap();
    let own_host = task.tid().host().unwrap();
    let mut manager = task.become_manager().unwrap();
    assert_eq!((manager.before(), manager.master().tid.host()), (None, Some(own_host)));
    let spawned = manager.task().spawn(me()).args(["role", "client"]).start().unwrap();
    let client = spawned.tids[0];
    let mut asked = Vec::new();
    while asked.len() < 6 {
        let (what, done) = match manager.next_request_timeout(LIMIT).unwrap().expect("a request") {
            Managed::Hosts(to) => ("hosts", manager.answer(to, Err(PvmError::Denied))),
            Managed::Tasks(_, to) => ("tasks", manager.answer(to, Err(PvmError::NoTask))),
            Managed::AddHosts(names, to) => {
                assert_eq!(names, ["nowhere"]);
                ("add", manager.answer(to, Err(PvmError::DupHost)))
            }
            Managed::DeleteHosts(names, to) => {
                assert_eq!(names, ["nowhere"]);
                ("delete", manager.answer(to, Ok(vec![PvmError::NoHost.code()])))
            }
            Managed::Spawn(spawn, to) => {
                assert_eq!((to.from(), spawn.count), (client, 2));
                let results = manager.start(client, spawn).unwrap();
                ("spawn", manager.answer(to, Ok(SpawnReply { results, ..SpawnReply::default() })))
            }
            Managed::Notify(from, request) => {
                assert_eq!((from, request.tag), (client, GONE));
                ("notify", manager.notify(from, &request, Tid::from_raw(request.tids[0])))
            }
            // Tasks that enrol and end.
            _ => continue,
        };
        done.unwrap();
        asked.push(what);
    }
    assert_eq!(asked, ["hosts", "tasks", "add", "delete", "spawn", "notify"]);
    assert_eq!(manager.task().recv(client, REPORT).unwrap().get_one::<i32>().unwrap(), 2);
}

fn client() {
    let mut task = Task::enrol().unwrap();
    assert_eq!(task.hosts().unwrap_err().code(), PvmError::Denied);
    assert_eq!(task.tasks(Scope::All).unwrap_err().code(), PvmError::NoTask);
    assert_eq!(task.add_hosts(&["nowhere"]).unwrap_err().code(), PvmError::DupHost);
    assert_eq!(task.delete_hosts(&["nowhere"]).unwrap(), [Err(PvmError::NoHost)]);
    let spawned = task.spawn(me()).args(["role", "worker"]).count(2).start().unwrap();
    for &tid in &spawned.tids {
        task.recv(tid, HELLO).unwrap();
    }
    task.notify_exit(&spawned.tids, GONE).unwrap();
    assert_eq!(task.recv(Any, GONE).unwrap().get_tid().unwrap(), spawned.tids[0]);
    let (parent, mut pack) = (task.parent().unwrap(), Pack::new());
    pack.put_one(spawned.tids.len() as i32).unwrap();
    task.send(parent, REPORT, &pack).unwrap();
    task.exit().unwrap();
}

fn worker() {
    let (mut task, parent) = with_parent();
    task.send(parent, HELLO, &Pack::new()).unwrap();
    let _ = task.recv_timeout(parent, GO, LIMIT);
}

fn a_role_has_one_task() {
    let mut task = Task::enrol().unwrap();
    let tasker = task.become_tasker().unwrap();
    let rival = |expected: &str| {
        let mut rival = Command::new(me());
        assert!(rival.args(["role", "rival"]).env("EXPECTED", expected).status().unwrap().success());
    };
    rival("PvmAlready");
    // Dropping it resigns from the role.
    drop(tasker);
    rival("");
}

fn rival() {
    let mut task = Task::enrol().unwrap();
    let code = task.become_tasker().err().map(|error| error.code().name());
    assert_eq!(code.unwrap_or_default(), std::env::var("EXPECTED").unwrap());
}

/// Values of each type that can be packed.
fn pack() -> pvm3::Result<Pack> {
    let (one, two) = (Complex64 { re: 1.5, im: 2.5 }, Complex64 { re: 3.5, im: 4.5 });
    let mut pack = Pack::new();
    pack.put_one(7)?.put(b"ab\0")?.put_one(Complex32 { re: 1.5, im: 2.5 })?.put(&[one, two])?;
    pack.put(&[1.5, 2.5, 3.5, 4.5])?.put(&[1.5_f32, 2.5])?.put(&[7, 8, 9, 0, 0])?.put_one(7_u32)?;
    pack.put(&[7_i64, 8])?.put_one(7_u64)?.put(&[7_i16, 8, 9])?.put_one(7_u16)?.put_str("text")?;
    Ok(pack)
}

fn unpack(message: &mut Received) -> pvm3::Result<()> {
    message.get_one::<i32>()?;
    message.get::<u8>(3)?;
    message.get_one::<Complex32>()?;
    message.get_into(&mut [Complex64::default(); 2])?;
    message.get::<f64>(4)?;
    message.get_into(&mut [0_f32; 2])?;
    message.get::<i32>(5)?;
    message.get_one::<u32>()?;
    message.get::<i64>(2)?;
    message.get_one::<u64>()?;
    message.get::<i16>(3)?;
    message.get_one::<u16>()?;
    message.get_str().map(drop)
}

/// What a traced task does; `traced.c` does the same.
fn traced() {
    let (mut task, parent) = with_parent();
    let pack = pack().unwrap();
    task.send(parent, WORK, &pack).unwrap();
    task.send(Tid::NONE, WORK, &pack).unwrap_err();
    task.multicast(&[parent], WORK, &pack).unwrap();
    assert!(task.try_recv(parent, 6).unwrap().is_none());
    assert!(task.probe(Any, 6).unwrap().is_none());
    assert!(task.recv_timeout(parent, Any, Duration::from_millis(10)).unwrap().is_none());
    let mut message = task.recv(parent, GO).unwrap();
    unpack(&mut message).unwrap();
    assert_eq!(message.get_one::<i32>().unwrap_err().code(), PvmError::NoData);
    let context = task.new_context().unwrap();
    task.free_context(context).unwrap();
    task.put_info("a name", &pack, MailboxFlags::DEFAULT).unwrap();
    task.recv_info("a name", 0, MailboxFlags::DEFAULT).unwrap();
    task.recv_info("no name", 0, MailboxFlags::DEFAULT).unwrap_err();
    assert_eq!(task.mailbox_info("a name").unwrap().len(), 1);
    task.delete_info("a name", 0).unwrap();
    task.notify_exit(&[parent], 9).unwrap();
    task.hosts().unwrap();
    task.tasks(Scope::All).unwrap();
    assert_eq!(task.host_status(".").unwrap(), HostState::Running);
    assert!(task.is_running(parent).unwrap());
    task.signal(parent, 0).unwrap();
    // After the tasks were counted: these two are tasks for as long as their host tries to start them.
    // The original's daemon has no queues.
    let queued = task.spawn("no such program").count(2).queued().start();
    assert_eq!(queued.is_ok(), task.daemon_is_ours(), "{queued:?}");
    task.exit().unwrap();
}

/// The events that both kinds of program tell.
fn mask() -> TraceMask {
    use TraceEvent::{
        Config, Delinfo, Exit, Freecontext, Getinfo, Getmboxinfo, Mcast, Mstat, Mytid, Newcontext, Notify,
        Nrecv, Parent, Pkbyte, Pkcplx, Pkdcplx, Pkdouble, Pkfloat, Pkint, Pklong, Pkshort, Pkstr, Pkuint,
        Pkulong, Pkushort, Probe, Pstat, Putinfo, Recv, Send, Sendsig, Spawn, Tasks, Trecv, Upkbyte, Upkcplx,
        Upkdcplx, Upkdouble, Upkfloat, Upkint, Upklong, Upkshort, Upkstr, Upkuint, Upkulong, Upkushort,
    };
    let calls = [
        Mytid,
        Parent,
        Send,
        Mcast,
        Nrecv,
        Probe,
        Trecv,
        Recv,
        Spawn,
        Newcontext,
        Freecontext,
        Putinfo,
        Getinfo,
        Getmboxinfo,
        Delinfo,
        Notify,
        Config,
        Tasks,
        Mstat,
        Pstat,
        Sendsig,
        Exit,
    ];
    let packs = [
        Pkbyte, Pkcplx, Pkdcplx, Pkdouble, Pkfloat, Pkint, Pkuint, Pklong, Pkulong, Pkshort, Pkushort, Pkstr,
    ];
    let unpacks = [
        Upkbyte, Upkcplx, Upkdcplx, Upkdouble, Upkfloat, Upkint, Upkuint, Upklong, Upkulong, Upkshort,
        Upkushort, Upkstr,
    ];
    calls.into_iter().chain(packs).chain(unpacks).fold(TraceMask::NONE, TraceMask::with)
}

type Event = (String, Option<bool>, Vec<(&'static str, String)>);

/// All events of a program until its end, without times, its id and the ids of C's buffers. The program is no task any more then: the next
/// one counts tasks.
fn told_by(program: &str, args: &[&str]) -> Vec<Event> {
    let mut task = Task::enrol().unwrap();
    let own = task.tid();
    task.trace_children(own, TRACE, mask(), TraceMode::Full).unwrap();
    let spawned = task.spawn(program).args(args).start().unwrap();
    let child = spawned.tids[0];
    for _ in 0..2 {
        task.recv_timeout(child, WORK, LIMIT).unwrap().expect("a message");
    }
    // So that it polls in vain before.
    std::thread::sleep(Duration::from_millis(300));
    task.send(child, GO, &pack().unwrap()).unwrap();
    let (mut reader, mut told) = (EventReader::default(), Vec::new());
    while told.last().is_none_or(|(name, ..): &Event| name != "exit") {
        let mut message = task.recv_timeout(Any, TRACE, LIMIT).unwrap().expect("an event");
        let (events, end) = reader.read(message.body().unwrap());
        end.unwrap();
        for event in events.into_iter().filter(|event| event.entry.is_some()) {
            let is_own =
                |name: &str| ["TS", "TU", "TID", "MT", "MB", "CD", "CR", "CXN", "CXF", "PDA"].contains(&name);
            let data = event
                .data
                .into_iter()
                .map(|(name, value)| if is_own(name) { (name, String::new()) } else { (name, value) });
            told.push((event.name, event.entry, data.collect()));
        }
    }
    task.notify_exit(&[child], GONE).unwrap();
    task.recv_timeout(Any, GONE, LIMIT).unwrap().expect("a notice");
    task.exit().unwrap();
    told
}

fn rust_and_c_programs_have_the_same_events() {
    let Some(program) = c_support::compile("traced.c", Library::Static, &pvm3::tmp_dir()) else { return };
    let in_c = told_by(program.to_str().unwrap(), &[]);
    let in_rust = told_by(&me(), &["role", "traced"]);
    assert!(in_c.len() > 100, "{in_c:?}");
    let tid = |events: &[Event]| -> Vec<Event> {
        // The parents are two tasks, one after the other.
        let without = |name| ["DST", "MDL", "RST", "NTL", "TT", "SRC", "PT"].contains(&name);
        events
            .iter()
            .map(|(event, entry, data)| {
                let data = data.iter().map(|(name, value)| {
                    let is_tid = without(*name) && value.as_str() != "-1";
                    let is_batch = event == "spawn" && *name == "CC" && !value.starts_with('-');
                    (*name, if is_tid || is_batch { "an id".to_owned() } else { value.clone() })
                });
                (event.clone(), *entry, data.collect())
            })
            .collect()
    };
    for (c, rust) in tid(&in_c).iter().zip(&tid(&in_rust)) {
        assert_eq!(c, rust);
    }
    assert_eq!(in_c.len(), in_rust.len());
}

fn a_tracer_is_notified_of_started_tasks() {
    let mut task = Task::enrol().unwrap();
    let terms = Traced {
        trace_tag: TRACE,
        output_tag: 98,
        mask: TraceMask::NONE.with(TraceEvent::Send),
        ..Traced::default()
    };
    let mut tracer = task.become_tracer(&terms).unwrap();
    let mut spawner = process("spawner");
    let (mut reader, mut sent) = (EventReader::default(), 0);
    while sent < 2 * CHILDREN {
        let mut message = tracer.task().recv_timeout(Any, TRACE, LIMIT).unwrap().expect("an event");
        let (events, end) = reader.read(message.body().unwrap());
        end.unwrap();
        sent += events.iter().filter(|event| event.name == "send" && event.entry.is_some()).count();
    }
    assert!(spawner.wait().unwrap().success());
    tracer.resign().unwrap();
}

fn tallies_are_sent_at_the_end() {
    let mut task = Task::enrol().unwrap();
    let own = task.tid();
    task.trace_children(own, TRACE, TraceMask::NONE.with(TraceEvent::Send), TraceMode::Count).unwrap();
    let spawned = task.spawn(me()).args(["role", "child"]).start().unwrap();
    let mut reader = EventReader::default();
    loop {
        let mut message = task.recv_timeout(spawned.tids[0], TRACE, LIMIT).unwrap().expect("the tallies");
        let (events, _) = reader.read(message.body().unwrap());
        if let Some(event) = events.iter().find(|event| event.name == "profiling") {
            let value =
                |wanted| event.data.iter().find(|(name, _)| *name == wanted).map(|(_, value)| &**value);
            assert!(value("VID").is_some_and(|names| names.contains("send")), "{event:?}");
            assert!(value("PRF").is_some_and(|counts| counts.contains('1')), "{event:?}");
            return;
        }
    }
}
