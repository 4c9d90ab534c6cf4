//! What tasks of one host that all talk to all keep in shared memory. There are a few of them, or `PVM_TEST_TASKS`.

mod rust_support;

use pvm_tests::process;
use pvm3::{Any, Pack, Task, Tid};
use rust_support::{Test, spawn, with_our_daemon, with_parent};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

const TESTS: &[Test] = &[("all_to_all", all_to_all)];

const ROLES: &[Test] = &[("member", member)];

/// Tags of the test's messages.
const ROUND: i32 = 1;
const WORK: i32 = 2;
const REPORT: i32 = 3;

/// Rounds: how many messages to everybody, and how long.
const ROUNDS: [(usize, usize); 3] = [(0, 0), (4, 100), (1, 100_000)];

/// What may be kept, bytes: a page, and for each pair that has met a ring of up to 8 KiB.
const ALONE: u64 = 4096;
const PAIR: u64 = 8192;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// What a task keeps.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Bytes in its segment.
    shared: u64,
    /// Bytes of page tables.
    tables: u64,
    /// Open descriptors.
    descriptors: u64,
}

impl Kept {
    fn now() -> Self {
        let mut kept = Self::default();
        for entry in std::fs::read_dir("/proc/self/fd").unwrap().map_while(Result::ok) {
            kept.descriptors += 1;
            let name = std::fs::read_link(entry.path()).unwrap_or_default();
            if name.to_string_lossy().contains("memfd:pvm") {
                kept.shared += std::fs::metadata(entry.path()).unwrap().blocks() * 512;
            }
        }
        let own = std::process::id() as i32;
        kept.tables = process::kilobytes(own, "status", "VmPTE").unwrap() * 1024;
        kept
    }

    fn most(self, other: Self) -> Self {
        Self {
            shared: self.shared.max(other.shared),
            tables: self.tables.max(other.tables),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

/// In each round sends all others messages, takes theirs, and reports.
fn member() {
    let (mut task, parent) = with_parent();
    let own = task.tid();
    let report = |task: &mut Task| {
        let kept = Kept::now();
        let mut pack = Pack::new();
        pack.put(&[kept.shared, kept.tables, kept.descriptors]).unwrap();
        task.send(parent, REPORT, &pack).unwrap();
    };
    for (count, length) in ROUNDS {
        let mut order = task.recv(parent, ROUND).unwrap();
        let tids: Vec<i32> = order.get(order.len() / 4).unwrap();
        let others = tids.into_iter().map(Tid::from_raw).filter(|&tid| tid != own);
        let others: Vec<Tid> = others.collect();
        let mut pack = Pack::new();
        pack.put(&vec![1_u8; length]).unwrap();
        for _ in 0..count {
            for &other in &others {
                task.send(other, WORK, &pack).unwrap();
            }
            for _ in &others {
                assert_eq!(task.recv(Any, WORK).unwrap().len(), length);
            }
        }
        report(&mut task);
    }
    task.recv(parent, ROUND).unwrap();
    task.exit().unwrap();
}

fn all_to_all() {
    let Some(mut task) = with_our_daemon() else { return };
    let count = std::env::var("PVM_TEST_TASKS").ok().and_then(|text| text.parse().ok()).unwrap_or(16);
    let members = spawn(&mut task, "member", count);
    let mut list = Pack::new();
    list.put(&members.iter().map(|tid| tid.raw()).collect::<Vec<_>>()).unwrap();
    let mut kept = Vec::new();
    for (times, length) in ROUNDS {
        task.multicast(&members, ROUND, &list).unwrap();
        let mut most = Kept::default();
        for _ in 0..count {
            let values: Vec<u64> = task.recv(Any, REPORT).unwrap().get(3).unwrap();
            most = most.most(Kept { shared: values[0], tables: values[1], descriptors: values[2] });
        }
        println!("{count} tasks, {times} messages of {length} bytes to each: at most {most:?} per task");
        kept.push(most);
    }
    let (pairs, alone, small, large) = (count as u64, kept[0], kept[1], kept[2]);
    assert!(alone.shared <= ALONE, "before the first message");
    // The parent is one of those that everybody has met.
    assert!(small.shared <= ALONE + pairs * PAIR, "idle pairs");
    assert!(small.descriptors <= alone.descriptors + pairs, "descriptors of pairs");
    let bodies = pairs * 100_000_u64.next_multiple_of(4096);
    assert!(large.shared <= small.shared + bodies + pairs * PAIR, "the bodies that were on their way");
    task.multicast(&members, ROUND, &list).unwrap();
}
