//! Many tasks on one daemon: how long an enrolment takes, and what a task that does nothing costs.
//!
//! `PVM_LOAD_TASKS=10000 PVM_LOAD_BURST=2000 cargo test --release -p pvmd --test load -- --nocapture` tries the figures that
//! are promised; alone it tries a few hundred, and no figures.

use pvm_tests::machine::Plan;
use pvm_tests::{Installation, Machine};
use pvm_wire::calls::enrolment::{Conn2, Connect, Extension, Introduction};
use pvm_wire::calls::tasks::TaskStatus;
use pvm_wire::calls::{Answer, Call};
use pvm_wire::codes::TASK_PROTOCOL;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, PvmError, Reassembler, Tid};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes of the daemon's memory that a task may cost.
const TASK_BYTES: u64 = 20 * 1024;
/// Time within which 99 of 100 enrolments are answered.
const ENROLMENT: Duration = Duration::from_millis(50);

fn start() -> Machine {
    Plan::plain(&Installation::beside(Path::new(env!("CARGO_BIN_EXE_pvmd")))).start()
}

/// Bytes of memory that its daemon has.
fn memory(machine: &Machine) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", machine.daemon_pid())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

struct Task {
    stream: UnixStream,
    incoming: Reassembler,
}

impl Task {
    /// A whole enrolment, as the original's library does it.
    fn enrol(socket: &Path, folder: &Path, number: usize) -> Self {
        let stream = UnixStream::connect(socket).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let mut task = Self { stream, incoming: Reassembler::new(1 << 20) };
        let own = folder.join(format!("task{number}"));
        std::fs::write(&own, "").expect("the task's file");
        let hello = Connect {
            version: TASK_PROTOCOL,
            auth_file: own.to_str().expect("a path").to_owned(),
            extension: Extension(None),
        };
        let reply = task.ask(&hello).expect("a reply");
        assert!(reply.accepted);
        std::fs::write(&reply.auth_file, "x").expect("the daemon's file");
        let process = Introduction { pid: 1, cookie: 0, name: None };
        let admission = task.ask(&Conn2 { process }).expect("a reply");
        assert!(admission.0.expect("enrolled").tid.is_task());
        std::fs::remove_file(own).expect("the task's file");
        task
    }

    fn ask<C: Call>(&mut self, call: &C) -> Answer<C> {
        self.stream.write_all(&call.message(1).encode(4080)).expect("a request");
        loop {
            let mut head = [0; FragmentHeader::SIZE];
            self.stream.read_exact(&mut head).expect("an answer");
            let head = FragmentHeader::decode(&head);
            let mut data = vec![0; head.length as usize];
            self.stream.read_exact(&mut data).expect("an answer");
            if let Assembled::Whole(message) = self.incoming.push(&head, data.into()).expect("a fragment") {
                return C::decode_answer(&message.body).expect("an answer");
            }
        }
    }
}

fn figure(variable: &str, otherwise: usize) -> (usize, bool) {
    let given = std::env::var(variable).ok().map(|value| value.parse().expect("a number"));
    (given.unwrap_or(otherwise), given.is_some())
}

fn raise_open_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("more open files");
}

#[test]
fn a_daemon_holds_many_idle_tasks() {
    let (count, measured) = figure("PVM_LOAD_TASKS", 300);
    raise_open_files();
    let daemon = start();
    let mut tasks = vec![Task::enrol(daemon.socket(), daemon.tmp(), 0)];
    let before = memory(&daemon);
    let mut times: Vec<Duration> = (1..=count)
        .map(|number| {
            let start = Instant::now();
            tasks.push(Task::enrol(daemon.socket(), daemon.tmp(), number));
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let slow = times[times.len() * 99 / 100];
    let each = memory(&daemon).saturating_sub(before) / count as u64;
    println!("{count} tasks: {each} bytes each, 99 % enrolled within {slow:?}");
    for task in tasks.iter_mut().step_by(count / 50 + 1) {
        let answer = task.ask(&TaskStatus { tid: Tid::NONE });
        assert_eq!(answer, Err(PvmError::NoTask.into()), "it is heard");
    }
    if measured {
        assert!(each <= TASK_BYTES && slow <= ENROLMENT);
    }
}

#[test]
fn tasks_that_come_at_the_same_moment_all_enrol() {
    let (count, _) = figure("PVM_LOAD_BURST", 100);
    raise_open_files();
    let daemon = start();
    let together = Barrier::new(count);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let (daemon, together) = (&daemon, &together);
        let enrol = move |number| {
            together.wait();
            Task::enrol(daemon.socket(), daemon.tmp(), number)
        };
        let builder = || std::thread::Builder::new().stack_size(256 * 1024);
        let threads: Vec<_> = (0..count)
            .map(|number| builder().spawn_scoped(scope, move || enrol(number)).expect("a thread"))
            .collect();
        let tasks: Vec<Task> = threads.into_iter().map(|thread| thread.join().expect("enrolled")).collect();
        println!("{} tasks enrolled at once within {:?}", tasks.len(), start.elapsed());
    });
}
