//! The Rust API against a running daemon: each test is a task, and spawns this program in other roles as its peers.

mod rust_support;

use pvm3::{Any, Element, OutputEvent, Pack, PvmError, Scope, Task, Tid};
use rust_support::{Test, daemon_pid, kill, me, spawn, spawn_on, with_our_daemon, with_parent};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("enrolment", enrolment),
    ("messages_to_oneself", messages_to_oneself),
    ("messages_read_after_leaving", messages_read_after_leaving),
    ("every_type", every_type),
    ("contexts", contexts),
    ("timeouts", timeouts),
    ("many_messages", many_messages),
    ("both_ways_at_once", both_ways_at_once),
    ("spawn_and_siblings", spawn_and_siblings),
    ("failed_spawns", failed_spawns),
    ("environment_of_children", environment_of_children),
    ("exit_notices", exit_notices),
    ("machine", machine),
    ("collected_output", collected_output),
    ("multicast", multicast),
    ("system_messages", system_messages),
    ("a_full_queue", a_full_queue),
    ("several_hosts", several_hosts),
    ("original_library", original_library),
    ("lost_daemon", lost_daemon),
    ("halt", halt),
    ("started_daemon", started_daemon),
    ("no_daemon", no_daemon),
    ("stale_address_file", stale_address_file),
    ("somebody_elses_socket", somebody_elses_socket),
];

const ROLES: &[Test] = &[
    ("flood", flood),
    ("reporter", reporter),
    ("sleeper", sleeper),
    ("talker", talker),
    ("listener", listener),
    ("halter", halter),
    ("starter", starter),
    ("hoarder", hoarder),
    ("quick_enrolment", quick_enrolment),
];

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

fn enrolment() {
    let task = Task::enrol().unwrap();
    assert!(task.tid().is_task());
    assert_eq!(task.parent(), None);
    assert_eq!(task.context(), 0);
    let first = task.tid();
    task.exit().unwrap();
    let again = Task::enrol_as(Some("again"), true).unwrap();
    assert_ne!(again.tid(), first);
}

fn messages_to_oneself() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    for pack in [Pack::new(), Pack::raw()] {
        for size in [0, 1, 4032, 4033, 65_536, 10 << 20] {
            let bytes: Vec<u8> = (0..size).map(|i: usize| (i * 7 + i / 251) as u8).collect();
            let mut pack = pack.clone();
            pack.put(&bytes).unwrap().put_one(-1).unwrap();
            task.send(me, size as i32, &pack).unwrap();
            let mut back = task.recv(me, size as i32).unwrap();
            assert_eq!((back.source(), back.len()), (me, pack.len()));
            assert!(back.get::<u8>(size).unwrap() == bytes, "{size} bytes are not what was sent");
            assert_eq!(back.get_one::<i32>().unwrap(), -1);
            assert_eq!(back.get_one::<i32>().unwrap_err().code(), PvmError::NoData);
        }
    }
    task.send(me, 0, &Pack::new()).unwrap();
    assert!(task.recv(Any, Any).unwrap().is_empty());
    assert_eq!(task.send(me, -1, &Pack::new()).unwrap_err().code(), PvmError::BadParam);
    assert_eq!(task.send(Tid::MY_DAEMON, 1, &Pack::new()).unwrap_err().code(), PvmError::BadParam);
}

/// A long message may lie in the memory of another task, which can reuse it then.
fn messages_read_after_leaving() {
    let mut task = Task::enrol().unwrap();
    let tid = task.tid();
    let numbers: Vec<i32> = (0..5000).collect();
    for pack in [Pack::new(), Pack::raw()] {
        for count in [5, 5000, 5000, 5000] {
            let mut pack = pack.clone();
            pack.put(&numbers[..count]).unwrap().put_str("end").unwrap();
            task.send(tid, 1, &pack).unwrap();
        }
    }
    let mut received: Vec<_> = (0..8).map(|_| task.recv(tid, 1).unwrap()).collect();
    let encoded: Vec<Vec<u8>> =
        received.iter_mut().skip(1).step_by(4).map(|message| message.body().unwrap().to_vec()).collect();
    assert_eq!(received[2].get::<i32>(4000).unwrap(), numbers[..4000]);
    assert_eq!(received[6].get::<i32>(4000).unwrap(), numbers[..4000]);
    task.exit().unwrap();
    for (messages, encoded) in received.chunks_mut(4).zip(encoded) {
        let [short, taken_out, begun, long] = messages else { panic!("four of each") };
        assert_eq!(short.get::<i32>(5).unwrap(), numbers[..5]);
        assert_eq!(taken_out.get::<i32>(5000).unwrap(), numbers);
        assert_eq!(
            (taken_out.get_str().unwrap(), taken_out.body().unwrap()),
            ("end".to_owned(), &encoded[..])
        );
        assert_eq!(begun.get::<i32>(1000).unwrap_err().code(), PvmError::NoData);
        assert_eq!(begun.get_str().unwrap_err().code(), PvmError::NoData);
        assert_eq!(long.clone().get_into(&mut [0; 5]).unwrap_err().code(), PvmError::NoData);
        assert_eq!(long.body().unwrap_err().code(), PvmError::NoData);
        assert_eq!(long.len(), encoded.len());
    }
}

fn every_type() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(task: &mut Task, values: &[T]) {
        let me = task.tid();
        for mut pack in [Pack::new(), Pack::raw()] {
            pack.put(values).unwrap();
            task.send(me, 1, &pack).unwrap();
            assert_eq!(task.recv(me, 1).unwrap().get::<T>(values.len()).unwrap(), values);
        }
    }
    let mut task = Task::enrol().unwrap();
    check(&mut task, &[0_u8, 1, 255]);
    check(&mut task, &[i16::MIN, -1, i16::MAX]);
    check(&mut task, &[0_u16, u16::MAX]);
    check(&mut task, &[i32::MIN, i32::MAX]);
    check(&mut task, &[0, u32::MAX]);
    check(&mut task, &[-5_i64, 1 << 30]);
    check(&mut task, &[5_u64, 1 << 31]);
    check(&mut task, &[1.5_f32, -0.25]);
    check(&mut task, &[std::f64::consts::PI, f64::MIN_POSITIVE]);
    check(&mut task, &[pvm3::Complex32 { re: 1.0, im: -2.0 }]);
    check(&mut task, &[pvm3::Complex64 { re: 1.0e300, im: -2.0 }]);
}

fn contexts() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    let mine = task.new_context().unwrap();
    let other = task.new_context().unwrap();
    assert_ne!(mine, other);
    task.set_context(mine);
    task.send(me, 1, &Pack::new()).unwrap();
    task.set_context(other);
    assert!(task.recv_timeout(Any, 1, Duration::from_millis(50)).unwrap().is_none());
    assert_eq!(task.set_context(-1), other);
    assert_eq!(task.recv(Any, 1).unwrap().context(), mine);
    task.free_context(mine).unwrap();
    assert_eq!(task.free_context(mine).unwrap_err().code(), PvmError::NotFound);
    assert_eq!(task.free_context(0).unwrap_err().code(), PvmError::BadParam);
}

fn timeouts() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    let begun = Instant::now();
    assert!(task.recv_timeout(Any, Any, Duration::from_millis(200)).unwrap().is_none());
    assert!((200..2000).contains(&begun.elapsed().as_millis()));
    assert!(task.try_recv(Any, Any).unwrap().is_none());
    task.send(me, 5, Pack::new().put_one(9).unwrap()).unwrap();
    task.send(me, 6, &Pack::new()).unwrap();
    assert!(
        task.recv_timeout(me, 6, Duration::from_secs(60)).unwrap().is_some(),
        "a later one can be taken first"
    );
    assert_eq!(task.probe(Any, 5).unwrap().unwrap().get_one::<i32>().unwrap(), 9);
    assert_eq!(task.try_recv(Any, 5).unwrap().unwrap().get_one::<i32>().unwrap(), 9);
    assert!(task.probe(Any, 5).unwrap().is_none());
}

fn many_messages() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    let count = 20_000;
    for number in 0..count {
        task.send(me, number % 7, Pack::new().put_one(number).unwrap()).unwrap();
    }
    assert_eq!(task.hosts().unwrap().len(), 1, "requests are answered past what waits");
    for tag in (0..7).rev() {
        for number in (tag..count).step_by(7) {
            assert_eq!(task.recv(me, tag).unwrap().get_one::<i32>().unwrap(), number, "sender's order");
        }
    }
    assert!(task.try_recv(Any, Any).unwrap().is_none());
}

/// What each side of a flood sends before it receives anything.
const FLOOD: (usize, usize) = (8, 1 << 20);

fn flood_with(task: &mut Task, peer: Tid) {
    let (count, size) = FLOOD;
    for number in 0..count {
        let mut pack = Pack::raw();
        pack.put(&vec![number as u8; size]).unwrap();
        task.send(peer, 1, &pack).unwrap();
    }
    for number in 0..count {
        let bytes = task.recv(peer, 1).unwrap().get::<u8>(size).unwrap();
        assert!(bytes.iter().all(|&byte| byte == number as u8), "messages are mixed up");
    }
}

fn flood() {
    let (mut task, parent) = with_parent();
    flood_with(&mut task, parent);
    task.send(parent, 2, &Pack::new()).unwrap();
    task.exit().unwrap();
}

fn both_ways_at_once() {
    let mut task = Task::enrol().unwrap();
    let peer = spawn(&mut task, "flood", 1)[0];
    flood_with(&mut task, peer);
    task.recv(peer, 2).unwrap();
}

fn reporter() {
    let (mut task, parent) = with_parent();
    let siblings = task.siblings().unwrap();
    let exported = std::env::var("PVM_TEST_EXPORTED").unwrap_or_default();
    let given = std::env::var("PVM_TEST_GIVEN").unwrap_or_default();
    let folder = std::env::current_dir().unwrap().to_str().unwrap().to_owned();
    let mut pack = Pack::new();
    pack.put_value(&(siblings, exported, given, folder)).unwrap();
    task.send(parent, 3, &pack).unwrap();
    task.exit().unwrap();
}

type Report = (Vec<Tid>, String, String, String);

fn spawn_and_siblings() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    assert_eq!(task.siblings().unwrap(), [me]);
    let tids = spawn(&mut task, "reporter", 5);
    for &tid in &tids {
        let (siblings, ..): Report = task.recv(tid, 3).unwrap().get_value().unwrap();
        assert_eq!(siblings, tids);
    }
}

fn failed_spawns() {
    let mut task = Task::enrol().unwrap();
    let nothing = task.spawn("/no/such/program").count(3).start().unwrap();
    assert_eq!((nothing.tids, nothing.failed), (vec![], vec![PvmError::NoFile; 3]));
    let nowhere = task.spawn(me()).on_host("nohost").start().unwrap();
    assert_eq!(nowhere.failed, [PvmError::NoHost]);
    let nowhere = task.spawn(me()).on_host(".").others().start().unwrap();
    assert_eq!(nowhere.failed, [PvmError::NoHost]);
    assert_eq!(task.spawn(me()).count(0).start().unwrap_err().code(), PvmError::BadParam);
}

fn environment_of_children() {
    let mut task = Task::enrol().unwrap();
    let arch = task.hosts().unwrap()[0].arch.clone();
    task.set_context(77);
    let spawn = task.spawn(me()).args(["role", "reporter"]).on_arch(&arch);
    let child = spawn.directory("/usr").env("PVM_TEST_GIVEN", "too").start().unwrap().tids[0];
    let mut message = task.recv(child, 3).unwrap();
    assert_eq!(message.context(), 77, "children begin in their parent's context");
    let report: Report = message.get_value().unwrap();
    assert_eq!(report, (vec![child], "yes".into(), "too".into(), "/usr".into()));
    let spawn = task.spawn(me()).args(["role", "sleeper"]).without_parent();
    let orphan = spawn.start().unwrap().tids[0];
    let tasks = task.tasks(Scope::Task(orphan)).unwrap();
    assert_eq!((tasks.len(), tasks[0].parent), (1, None));
    task.kill(orphan).unwrap();
}

fn sleeper() {
    std::thread::sleep(Duration::from_secs(80));
}

fn exit_notices() {
    let mut task = Task::enrol().unwrap();
    let tids = spawn(&mut task, "sleeper", 3);
    task.notify_exit(&tids, 9).unwrap();
    assert!(task.recv_timeout(Any, 9, Duration::from_millis(100)).unwrap().is_none());
    assert!(task.is_running(tids[0]).unwrap());
    task.kill(tids[0]).unwrap();
    let mut notice = task.recv(Tid::MY_DAEMON, 9).unwrap();
    assert_eq!(notice.get_tid().unwrap(), tids[0]);
    assert!(!task.is_running(tids[0]).unwrap());
    task.cancel_notify_exit(&tids[1..2], 9).unwrap();
    assert_eq!(task.recv(Any, 9).unwrap().get_tid().unwrap(), tids[1], "a notice taken back comes at once");
    assert!(task.is_running(tids[1]).unwrap());
    task.notify_exit(&tids[..1], 10).unwrap();
    assert_eq!(task.recv(Any, 10).unwrap().get_tid().unwrap(), tids[0], "of those that have ended, too");
    for &tid in &tids[1..] {
        task.signal(tid, 9).unwrap();
    }
    assert_eq!(task.recv(Any, 9).unwrap().get_tid().unwrap(), tids[2]);
    assert_eq!(task.notify_exit(&[Tid::MY_DAEMON], 1).unwrap_err().code(), PvmError::BadParam);
}

fn machine() {
    let mut task = Task::enrol_as(Some("inspector"), false).unwrap();
    let hosts = task.hosts().unwrap();
    assert_eq!(hosts.len(), 1);
    assert_eq!((hosts[0].tid, hosts[0].name.as_str()), (Tid::from_raw(0x40000), "localhost"));
    assert_eq!(hosts[0].signature, pvm3::Encoding::Raw.word());
    let me = task.tid();
    for scope in [Scope::All, Scope::Host(hosts[0].tid), Scope::Task(me)] {
        let tasks = task.tasks(scope).unwrap();
        assert_eq!(tasks.len(), 1);
        assert_eq!((tasks[0].tid, tasks[0].host, tasks[0].parent), (me, hosts[0].tid, None));
        assert_eq!((tasks[0].pid, tasks[0].name.to_str()), (std::process::id() as i32, Some("inspector")));
    }
    assert_eq!(task.host_status(".").unwrap(), pvm3::HostState::Running);
    assert_eq!(task.host_status("nohost").unwrap(), pvm3::HostState::Unknown);
    let added = task.add_hosts(&["no.such.host.invalid"]).unwrap();
    let failure = added[0].as_ref().unwrap_err();
    assert_eq!(failure.name, "no.such.host.invalid");
    assert_eq!(task.delete_hosts(&["nohost"]).unwrap(), [Err(PvmError::NoHost)]);
    if task.daemon_is_ours() {
        assert!(task.start_up().unwrap().is_empty());
    } else {
        assert_eq!(task.start_up().unwrap_err().code(), PvmError::NotImpl);
    }
}

fn talker() {
    println!("one\ntwo");
    eprint!("three");
}

fn collected_output() {
    let mut task = Task::enrol().unwrap();
    let (sender, receiver) = mpsc::channel();
    let send = move |tid: Tid, what: OutputEvent| sender.send((tid, what)).unwrap();
    task.collect_output(Some(Box::new(send)));
    // The talker is no task and enrols nowhere.
    let tid = spawn(&mut task, "talker", 1)[0];
    let parent = task.tid().raw();
    task.wait_for_collected().unwrap();
    assert_eq!(task.collecting(), 0);
    task.collect_output(None);
    spawn(&mut task, "talker", 1);
    task.exit().unwrap();
    let events: Vec<_> = receiver.iter().collect();
    assert!(events.iter().all(|(from, _)| *from == tid), "the second talker was not to be collected");
    let mut text = Vec::new();
    let mut others = Vec::new();
    for (_, event) in events {
        if let OutputEvent::Bytes(bytes) = event {
            text.extend_from_slice(&bytes);
        } else {
            others.push(event);
        }
    }
    assert_eq!(String::from_utf8(text).unwrap(), "one\ntwo\nthree");
    for wanted in [OutputEvent::Spawned { parent }, OutputEvent::Started { parent }, OutputEvent::End] {
        assert_eq!(others.iter().filter(|&other| *other == wanted).count(), 1, "{wanted:?} in {others:?}");
    }
}

fn listener() {
    let (mut task, parent) = with_parent();
    let text = task.recv(parent, 4).unwrap().get_str().unwrap();
    task.send(parent, 5, Pack::new().put_str(&text).unwrap()).unwrap();
    assert!(task.recv_timeout(parent, 4, Duration::from_millis(100)).unwrap().is_none(), "a copy came twice");
    task.exit().unwrap();
}

fn multicast() {
    let mut task = Task::enrol().unwrap();
    let tids = spawn(&mut task, "listener", 4);
    let mut list = [tids.clone(), vec![task.tid()], tids.clone()].concat();
    list.reverse();
    task.notify_exit(&tids, 6).unwrap();
    task.multicast(&list, 4, Pack::new().put_str("to all").unwrap()).unwrap();
    for &tid in &tids {
        assert_eq!(task.recv(tid, 5).unwrap().get_str().unwrap(), "to all");
    }
    for _ in &tids {
        task.recv(Any, 6).unwrap();
    }
    assert!(task.try_recv(Any, Any).unwrap().is_none(), "no copy for the sender");
    task.multicast(&[], 4, &Pack::new()).unwrap();
}

fn system_messages() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    task.send_message(me, -5, 1234, vec![1, 2, 3]).unwrap();
    let message = task.next_message().unwrap();
    assert_eq!((message.header.tag, message.header.context, &message.body[..]), (-5, 1234, &[1, 2, 3][..]));
    // A request for a direct route is denied, without the program's doing.
    let body = [1318_i32.to_be_bytes(), 1_i32.to_be_bytes(), [0; 4]].concat();
    task.send_message(me, 0x8003_0001_u32 as i32, 0x7ffff, body).unwrap();
    assert!(
        task.next_message_timeout(Duration::from_millis(200)).unwrap().is_none(),
        "it was for the library"
    );
}

fn lost_daemon() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    for tag in [1, 2] {
        task.send(me, tag, &Pack::new()).unwrap();
    }
    task.recv(Any, 2).unwrap();
    kill(daemon_pid());
    assert!(task.recv(Any, 1).unwrap().is_empty(), "what has come can still be had");
    assert_eq!(task.recv(Any, Any).unwrap_err().code(), PvmError::SysErr);
    assert!(!task.is_enrolled());
    assert_eq!(task.hosts().unwrap_err().code(), PvmError::SysErr);
    assert_eq!(task.send(me, 1, &Pack::new()).unwrap_err().code(), PvmError::SysErr);
    assert_eq!(task.exit().unwrap_err().code(), PvmError::SysErr);
}

fn halter() {
    let mut task = Task::enrol().unwrap();
    task.halt().unwrap();
    assert!(!task.is_enrolled());
}

fn halt() {
    let status = Command::new(me()).args(["role", "halter"]).status().unwrap();
    // The original ends all tasks with SIGTERM, often before they see the connection go.
    assert!(status.success() || status.signal() == Some(15), "{status}");
    assert!(Task::enrol_as(None, true).is_err());
}

fn starter() {
    let mut command = Command::new(std::env::var("PVM_TEST_PROGRAM").unwrap());
    command.arg("-nlocalhost");
    let address = pvm3::start_daemon_with(command).unwrap();
    assert_eq!(std::fs::read_to_string(pvm3::address_file()).unwrap(), address);
    let again = pvm3::start_daemon(&["-nlocalhost"], true).unwrap_err();
    assert_eq!(again.code(), PvmError::DupHost, "{again}");
    halter();
}

fn started_daemon() {
    let start = |variables: &[(&str, &str)]| {
        let mut command = Command::new(me());
        command.args(["role", "starter"]).env("PVM_VMID", "second").envs(variables.iter().copied());
        command.output().unwrap()
    };
    let output = start(&[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || output.status.signal() == Some(15), "{}: {text}", output.status);
    let output = start(&[("PVM_TEST_PROGRAM", "/bin/false")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the daemon /bin/false gave no address"), "{text}");
}

/// Hosts can be added without another machine only to this system's daemon.
fn several_hosts() {
    let Some(mut task) = with_our_daemon() else { return };
    task.notify_host_add(7).unwrap();
    let added = task.add_hosts(&["near via=local", "far via=local sp=2000"]).unwrap();
    let added: Vec<_> = added.into_iter().map(Result::unwrap).collect();
    assert_eq!((added[0].name.as_str(), added[1].name.as_str(), added[1].speed), ("near", "far", 2000));
    let mut notice = task.recv(Tid::MY_DAEMON, 7).unwrap();
    assert_eq!(notice.get_one::<i32>().unwrap(), 2);
    let lost = added[1].tid;
    task.notify_host_delete(&[lost], 8).unwrap();
    let (sender, receiver) = mpsc::channel();
    let send = move |tid: Tid, what: OutputEvent| sender.send((tid, what)).unwrap();
    task.collect_output(Some(Box::new(send)));
    let sleeper = spawn_on(&mut task, "sleeper", "far");
    assert_eq!(sleeper.to_host(), lost);
    let flooder = spawn_on(&mut task, "flood", "near");
    flood_with(&mut task, flooder);
    task.recv(flooder, 2).unwrap();
    assert_eq!(task.delete_hosts(&["far"]).unwrap(), [Ok(())]);
    assert_eq!(task.recv(Tid::MY_DAEMON, 8).unwrap().get_tid().unwrap(), lost);
    task.wait_for_collected().unwrap();
    let ends = receiver.try_iter().filter(|(_, what)| *what == OutputEvent::End);
    let mut ends: Vec<Tid> = ends.map(|(tid, _)| tid).collect();
    ends.sort_unstable();
    assert_eq!(ends, [flooder, sleeper]);
    assert_eq!(task.hosts().unwrap().len(), 2);
}

/// A task that uses the original library, to which every message is as if the original had sent it.
fn original_library() {
    let folder = pvm3::tmp_dir();
    let program = folder.join("peer");
    let Some(()) = rust_support::compile_for_original("peer.c", &program) else { return };
    let mut task = Task::enrol().unwrap();
    let peer = task.spawn(program.to_str().unwrap()).start().unwrap().tids[0];
    task.notify_exit(&[peer], 40).unwrap();
    let count = 100_000;
    for style in 0..3 {
        let mut message = task.recv(peer, 10 + style).unwrap();
        let ints: Vec<i32> = message.get(count).unwrap();
        assert!(ints.iter().zip(0..).all(|(&value, i)| value == i * 3), "style {style}");
        assert_eq!(message.get::<u8>(3).unwrap(), b"abc");
        assert_eq!(message.get::<i16>(3).unwrap(), [-1, 2, -3]);
        assert_eq!(message.get::<i64>(2).unwrap(), [-5, 1 << 30]);
        assert_eq!(message.get::<f32>(1).unwrap(), [0.5]);
        assert_eq!(message.get::<f64>(2).unwrap(), [1e300, -2.5]);
        if style != 2 {
            assert_eq!(message.get_str().unwrap(), "text");
        }
        assert_eq!(message.get_one::<u8>().unwrap_err().code(), PvmError::NoData);
    }
    let mut pack = Pack::new();
    let ints: Vec<i32> = (0..count as i32).map(|i| -i).collect();
    task.send(peer, 20, pack.put(&ints).unwrap().put_str("from Rust").unwrap()).unwrap();
    let end = task.recv(Any, Any).unwrap();
    assert_eq!((end.source(), end.tag()), (peer, 30), "it has given up");
    assert_eq!(task.recv(Any, 40).unwrap().get_tid().unwrap(), peer);
}

fn hoarder() {
    let mut task = Task::enrol().unwrap();
    let me = task.tid();
    for _ in 0..3 {
        task.send(me, 1, Pack::new().put(&[0_u8; 6000]).unwrap()).unwrap();
    }
    assert_eq!(task.recv(me, 2).unwrap_err().code(), PvmError::NoMem);
    for _ in 0..2 {
        assert_eq!(task.recv(me, 1).unwrap().len(), 6000, "what was taken in can be had");
    }
    assert!(task.try_recv(me, 2).unwrap().is_none(), "there is room again");
    task.send(me, 3, Pack::raw().put(&vec![0_u8; 20_000]).unwrap()).unwrap();
    assert_eq!(task.recv(me, 3).unwrap_err().code(), PvmError::NoMem);
    assert!(!task.is_enrolled(), "what does not fit ends the connection");
}

fn a_full_queue() {
    let status = Command::new(me()).args(["role", "hoarder"]).env("PVM_QUEUE_MAX_BYTES", "10000").status();
    assert!(status.unwrap().success());
}

/// Enrols in another process with these variables; what it says on failing, and after how long.
fn refused(role: &str, variables: &[(&str, &str)]) -> (String, f64) {
    let mut command = Command::new(me());
    command.args(["role", role]).envs(variables.iter().copied());
    let begun = Instant::now();
    let output = command.output().unwrap();
    assert!(!output.status.success());
    (String::from_utf8_lossy(&output.stderr).into_owned(), begun.elapsed().as_secs_f64())
}

fn quick_enrolment() {
    Task::enrol_as(None, true).unwrap();
}

/// Seconds that pass between the first try to enrol and the last, at the least.
const FIVE_TRIES: f64 = 3.5;

fn no_daemon() {
    let (text, time) = refused("enrolment", &[("PVM_VMID", "nobody")]);
    assert!(text.contains("no daemon runs here (no address file") && text.contains(".nobody)"), "{text}");
    assert!(time < FIVE_TRIES, "there is nothing to wait for");
    let (text, time) = refused("quick_enrolment", &[("PVMSOCK", "/no/such/socket")]);
    assert!(text.contains("no daemon answers at /no/such/socket"), "{text}");
    assert!(time < FIVE_TRIES, "a quick enrolment tries once");
    let (text, _) = refused("quick_enrolment", &[("PVMSOCK", "rubbish")]);
    assert!(text.contains("not the address of a daemon"), "{text}");
}

fn stale_address_file() {
    let folder = pvm3::tmp_dir();
    let file = folder.join(format!("pvmd.{}.stale", rustix::process::geteuid().as_raw()));
    let socket = folder.join("gone");
    std::fs::write(&file, socket.to_str().unwrap()).unwrap();
    let (text, time) = refused("enrolment", &[("PVM_VMID", "stale")]);
    assert!(text.contains(&format!("remove {}", file.display())), "{text}");
    assert!(time > FIVE_TRIES, "five tries, a second apart: {time}");
    let ours = pvm3::address_file();
    let (text, _) = refused("quick_enrolment", &[("PVMSOCK", ours.to_str().unwrap())]);
    assert!(text.contains("no daemon answers at"), "a file is no socket: {text}");
}

fn somebody_elses_socket() {
    let path = pvm3::tmp_dir().join("other");
    let listener = UnixListener::bind(&path).unwrap();
    let answers: [&[u8]; 3] = [b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", &[0; 48]];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // The writer at the other end must not get a broken pipe.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    for _ in answers {
        let (text, _) = refused("quick_enrolment", &[("PVMSOCK", path.to_str().unwrap())]);
        assert!(text.contains("refuses this task"), "{text}");
    }
    server.join().unwrap();
    let left = std::fs::read_dir(pvm3::tmp_dir()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let sockets = std::fs::read_to_string(pvm3::address_file()).unwrap();
    let proofs = left.iter().filter(|name| name.starts_with("pvmtmp") && !sockets.contains(name.as_str()));
    assert_eq!(proofs.count(), 0, "{left:?}");
}
