//! Tasks of one host that send each other checked messages of all sizes, while some of them are killed, whatever they are
//! doing: nobody else may notice but by the notices. It takes some seconds, or `PVM_TEST_SECONDS`.

mod rust_support;

use pvm3::{Any, Pack, Received, Task, Tid};
use rust_support::{Test, kill, process_of, spawn, with_our_daemon};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[("killed_at_random", killed_at_random)];

const ROLES: &[Test] = &[("gossip", gossip)];

/// Tags of the test's messages.
const WORK: i32 = 1;
const TAKEN: i32 = 2;
const PEERS: i32 = 3;
const STOP: i32 = 4;
const DONE: i32 = 5;
const ENDED: i32 = 6;

/// Tasks that gossip, besides the one that kills them.
const WORKERS: usize = 4;

/// Messages on their way from one to another.
const CREDIT: i32 = 8;

/// The longest message, bytes.
const LONGEST: u64 = 200_000;

/// Memory that nobody has more of, bytes: twice what can be on its way at once.
const MEMORY: u64 = 2 * (WORKERS as u64) * (CREDIT as u64) * LONGEST;

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// What was exchanged with another task.
#[derive(Default)]
struct Peer {
    sent: i32,
    taken: i32,
    came: i32,
}

/// A task that gossips.
struct Gossip {
    task: Task,
    peers: BTreeMap<Tid, Peer>,
    /// Those who are to be told to it as ended.
    watched: BTreeSet<Tid>,
    seed: u64,
    came: u64,
    stopped: bool,
}

impl Gossip {
    fn new(task: Task) -> Self {
        let seed = u64::from(std::process::id()) | 1 << 40;
        Self { task, peers: BTreeMap::new(), watched: BTreeSet::new(), seed, came: 0, stopped: false }
    }

    /// A number below the limit.
    fn random(&mut self, limit: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) % limit
    }

    fn meet(&mut self, tids: &[Tid]) {
        let own = self.task.tid();
        for &tid in tids.iter().filter(|&&tid| tid != own) {
            self.peers.entry(tid).or_default();
            if self.watched.insert(tid) {
                self.task.notify_exit(&[tid], ENDED).unwrap();
            }
        }
    }

    /// Sends somebody a message, if it has taken enough; then deals with what has come.
    fn turn(&mut self) {
        let pick = self.random(self.peers.len().max(1) as u64) as usize;
        if let Some((&to, peer)) = self.peers.iter_mut().nth(pick)
            && peer.sent - peer.taken < CREDIT
        {
            peer.sent += 1;
            let number = peer.sent;
            let scale = self.random(18);
            let length = self.random((2 << scale).min(LONGEST));
            self.task.send(to, WORK, &checked(number, length as usize)).unwrap();
        }
        while let Some(message) = self.task.recv_timeout(Any, Any, Duration::ZERO).unwrap() {
            self.handle(message);
        }
    }

    fn handle(&mut self, mut message: Received) {
        let src = message.source();
        match message.tag() {
            WORK => {
                let peer = self.peers.entry(src).or_default();
                peer.came += 1;
                self.came += 1;
                check(&mut message, peer.came);
                self.task.send(src, TAKEN, &Pack::new()).unwrap();
            }
            TAKEN => self.peers.entry(src).or_default().taken += 1,
            PEERS => {
                let tids: Vec<i32> = message.get(WORKERS + 1).unwrap();
                self.meet(&tids.into_iter().map(Tid::from_raw).collect::<Vec<_>>());
            }
            ENDED => {
                let tid = message.get_tid().unwrap();
                assert!(self.watched.remove(&tid), "the end of {tid} is told once");
                self.peers.remove(&tid);
            }
            STOP => self.stopped = true,
            tag => panic!("a message with tag {tag}"),
        }
    }
}

/// A number, and bytes that follow from it, with their sum.
fn checked(number: i32, length: usize) -> Pack {
    let bytes: Vec<u8> = (0..length).map(|index| (index * 7 + number as usize * 31) as u8).collect();
    let sum = bytes.iter().map(|&byte| i32::from(byte)).fold(number, i32::wrapping_add);
    let mut pack = Pack::new();
    pack.put(&[number, length as i32, sum]).unwrap().put(&bytes).unwrap();
    pack
}

fn check(message: &mut Received, expected: i32) {
    let head: Vec<i32> = message.get(3).unwrap();
    assert_eq!(head[0], expected, "the next message from {}", message.source());
    let bytes: Vec<u8> = message.get(head[1] as usize).unwrap();
    let sum = bytes.iter().map(|&byte| i32::from(byte)).fold(expected, i32::wrapping_add);
    assert_eq!(sum, head[2], "message {expected} of {} bytes", bytes.len());
}

/// Bytes of memory in this task's segment.
fn memory() -> u64 {
    let shared = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|name| name.to_string_lossy().contains("memfd:pvm"))
    };
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().map_while(Result::ok).filter(shared);
    entries.map(|entry| std::fs::metadata(entry.path()).unwrap().blocks() * 512).sum()
}

/// Gossips until it is stopped, and has been told of all who have ended.
fn gossip() {
    let mut gossip = Gossip::new(Task::enrol().unwrap());
    let parent = gossip.task.parent().unwrap();
    while !gossip.stopped {
        gossip.turn();
    }
    let mut pack = Pack::new();
    pack.put_one(gossip.came as i64).unwrap().put_one(memory() as i64).unwrap();
    gossip.task.send(parent, DONE, &pack).unwrap();
    gossip.task.exit().unwrap();
}

fn introduce(gossip: &mut Gossip, workers: &[Tid]) {
    let mut pack = Pack::new();
    let own = gossip.task.tid();
    pack.put(&workers.iter().chain([&own]).map(|tid| tid.raw()).collect::<Vec<_>>()).unwrap();
    gossip.task.multicast(workers, PEERS, &pack).unwrap();
    gossip.meet(workers);
}

fn killed_at_random() {
    // With the original's nothing is shared, and by the daemon chaos is tried elsewhere.
    let Some(task) = with_our_daemon() else { return };
    let seconds = std::env::var("PVM_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut gossip = Gossip::new(task);
    let mut workers = spawn(&mut gossip.task, "gossip", WORKERS);
    introduce(&mut gossip, &workers);
    let mut deaths = 0;
    while Instant::now() < end {
        let rest = Instant::now() + Duration::from_millis(10 + gossip.random(90));
        while Instant::now() < rest {
            gossip.turn();
        }
        let victim = gossip.random(WORKERS as u64) as usize;
        let old = workers[victim];
        kill(process_of(&mut gossip.task, old));
        let limit = Instant::now() + PATIENCE;
        while gossip.watched.contains(&old) {
            assert!(Instant::now() < limit, "nobody tells of the end of {old}");
            gossip.turn();
        }
        workers[victim] = spawn(&mut gossip.task, "gossip", 1)[0];
        introduce(&mut gossip, &workers);
        deaths += 1;
    }
    let most = finish(gossip, &workers);
    println!("{deaths} deaths, {most} bytes of memory in a segment");
}

/// Stops the workers; the most memory that a task has.
fn finish(mut gossip: Gossip, workers: &[Tid]) -> u64 {
    gossip.task.multicast(workers, STOP, &Pack::new()).unwrap();
    let (mut most, mut done) = (memory(), 0);
    while done < workers.len() {
        let message = gossip.task.recv_timeout(Any, Any, PATIENCE).unwrap();
        let mut message = message.expect("a worker that stops");
        if message.tag() == DONE {
            assert!(message.get_one::<i64>().unwrap() >= 0);
            most = most.max(message.get_one::<i64>().unwrap() as u64);
            done += 1;
        } else if message.tag() != WORK {
            gossip.handle(message);
        }
    }
    assert!(gossip.came > 0);
    assert!(most < MEMORY, "{most} bytes: the dead keep memory");
    most
}
