//! Small messages between two tasks that run, in Rust: neither asks for memory, and neither asks the system for anything.
//!
//! Who is to receive looks at a file until the other has sent, and begins then: so both run, whatever else does, and nobody waits
//! inside of what is counted.

#[path = "../c/src/counted_calls.rs"]
mod calls;
mod rust_support;

use allocation_counter::measure;
use pvm3::{Pack, Task, Tid};
use rust_support::{Test, me, with_our_daemon, with_parent};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[("small_messages_ask_for_nothing", small_messages_ask_for_nothing)];

const ROLES: &[Test] = &[("echo", echo)];

/// Rounds in turn that show that nothing is asked for.
const ENOUGH: i32 = 100;
/// The first ones make the two known to each other.
const TIME: Duration = Duration::from_secs(100);

/// Bytes in the line of the ring that says that there is a message, in a few, and the most that lie there.
const SIZES: [usize; 3] = [4, 64, 1000];

const DATA: i32 = 1;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// How many messages were sent so far, by both: in a file.
struct Turns {
    file: File,
    seen: u32,
}

impl Turns {
    fn open(path: &str) -> Self {
        Self { file: File::options().read(true).write(true).open(path).unwrap(), seen: 0 }
    }

    fn next(&mut self) {
        self.seen += 1;
        self.file.write_all_at(&self.seen.to_ne_bytes(), 0).unwrap();
    }

    fn wait_for_next(&mut self) {
        self.seen += 1;
        let mut sent = [0; 4];
        while u32::from_ne_bytes(sent) < self.seen {
            std::thread::yield_now();
            self.file.read_exact_at(&mut sent, 0).unwrap();
        }
    }
}

/// How often something was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Asked {
    memory: u64,
    calls: u64,
}

/// A task that counts what it asks for.
struct Counting {
    task: Task,
    other: Tid,
    turns: Turns,
    pack: Pack,
    place: [u8; 1000],
    /// What the current round asked for, and the rounds in turn before that asked for nothing.
    round: Asked,
    quiet: i32,
    /// The other's [`Self::quiet`]. Less than none: it has ended.
    theirs: i32,
}

impl Counting {
    fn new(task: Task, other: Tid, turns: Turns) -> Self {
        let (pack, place) = (Pack::new(), [7; 1000]);
        Self { task, other, turns, pack, place, round: Asked::default(), quiet: 0, theirs: 0 }
    }

    fn send(&mut self, size: usize, quiet: i32) {
        let asked = asked(|| {
            self.pack.clear();
            self.pack.put_one(quiet).and_then(|pack| pack.put(&self.place[..size])).unwrap();
            self.task.send(self.other, DATA, &self.pack).unwrap();
        });
        self.turns.next();
        self.count(asked);
    }

    fn receive(&mut self, size: usize) {
        self.turns.wait_for_next();
        let asked = asked(|| {
            let mut message = self.task.recv(self.other, DATA).unwrap();
            self.theirs = message.get_one().unwrap();
            message.get_into(&mut self.place[..size]).unwrap();
        });
        self.count(asked);
    }

    fn count(&mut self, asked: Asked) {
        self.round =
            Asked { memory: self.round.memory + asked.memory, calls: self.round.calls + asked.calls };
    }

    /// A round is over: what it asked for.
    fn end_round(&mut self) -> Asked {
        let round = std::mem::take(&mut self.round);
        self.quiet = if round == Asked::default() { self.quiet + 1 } else { 0 };
        round
    }
}

fn small_messages_ask_for_nothing() {
    let Some(mut task) = with_our_daemon() else { return };
    let turns = tempfile::NamedTempFile::new().unwrap();
    turns.as_file().write_all_at(&0_u32.to_ne_bytes(), 0).unwrap();
    let path = turns.path().to_str().unwrap();
    let other = task.spawn(me()).args(["role", "echo", path]).start().unwrap().tids[0];
    let can_count = calls::count();
    assert_eq!(asked(|| drop(std::hint::black_box(Box::new(1)))), Asked { memory: 1, calls: 0 });
    assert_eq!(asked(std::thread::yield_now), Asked { memory: 0, calls: u64::from(can_count) });
    let mut here = Counting::new(task, other, Turns::open(path));
    let mut last = Asked::default();
    let end = Instant::now() + TIME;
    while here.quiet.min(here.theirs) < ENOUGH {
        assert!(
            Instant::now() < end,
            "{} rounds ask for nothing, there {}; {last:?}",
            here.quiet,
            here.theirs
        );
        for size in SIZES {
            here.send(size, here.quiet);
            here.receive(size);
        }
        last = here.end_round();
    }
    here.send(SIZES[0], -1);
    here.task.exit().unwrap();
}

fn echo() {
    let turns = Turns::open(&std::env::args().nth(3).unwrap());
    let (task, parent) = with_parent();
    calls::count();
    let mut here = Counting::new(task, parent, turns);
    loop {
        for size in SIZES {
            here.receive(size);
            if here.theirs < 0 {
                return here.task.exit().unwrap();
            }
            here.send(size, here.quiet);
        }
        here.end_round();
    }
}

/// What is asked for.
fn asked(work: impl FnOnce()) -> Asked {
    let before = calls::COUNT.load(Ordering::Relaxed);
    let memory = measure(|| {
        calls::SELECTOR.store(calls::BLOCK, Ordering::Relaxed);
        work();
        calls::SELECTOR.store(calls::ALLOW, Ordering::Relaxed);
    });
    Asked { memory: memory.count_total, calls: calls::COUNT.load(Ordering::Relaxed) - before }
}
