//! Tasks whose processes together have more memory than they may: found out by looking, once in a while, as long as any task has a limit.
//!
//! A control group would do that at once, but needs a hierarchy that is delegated to this user. Each process has a limit of its own as
//! well (`RLIMIT_DATA`), which no process can pass, so that only many of them pass it together, and only for as long as nobody looks.

use crate::io::driver::Input;
use crate::io::family::{self, Mark};
use pvmd_core::event::{Cookie, Event};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self as sync, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Between two looks.
const APART: Duration = Duration::from_millis(500);

/// The limits, and who looks after them.
#[derive(Debug)]
pub struct MemoryWatch(sync::Sender<Change>);

#[derive(Debug)]
enum Change {
    Limit(Cookie, u64),
    Gone(Cookie),
}

impl MemoryWatch {
    /// Looks in a thread of its own.
    pub fn new(mark: Mark, input: mpsc::Sender<Input>) -> io::Result<Self> {
        let (changes, received) = sync::channel();
        std::thread::Builder::new().name("memory".into()).spawn(move || watch(&mark, &received, &input))?;
        Ok(Self(changes))
    }

    /// The processes of a task may have so many bytes together.
    pub fn limit(&self, task: Cookie, bytes: u64) {
        // Without the thread each process still has its own limit.
        let _ = self.0.send(Change::Limit(task, bytes));
    }

    /// A task has ended.
    pub fn gone(&self, task: Cookie) {
        let _ = self.0.send(Change::Gone(task));
    }
}

fn watch(mark: &Mark, changes: &sync::Receiver<Change>, input: &mpsc::Sender<Input>) {
    let mut limits = BTreeMap::new();
    while wait(&mut limits, changes) {
        let used = family::memory(mark);
        let above = limits.iter().filter_map(|(&task, &limit)| {
            let bytes = used.get(&task).copied().filter(|&bytes| bytes > limit)?;
            Some((task, bytes))
        });
        let above: Vec<(Cookie, u64)> = above.collect();
        for (cookie, bytes) in above {
            limits.remove(&cookie);
            if input.blocking_send(Event::OverMemory { cookie, bytes }.into()).is_err() {
                return;
            }
        }
    }
}

/// Takes changes in until it is time to look; false at the end.
fn wait(limits: &mut BTreeMap<Cookie, u64>, changes: &sync::Receiver<Change>) -> bool {
    let next = Instant::now() + APART;
    loop {
        let change = if limits.is_empty() {
            changes.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            changes.recv_timeout(next.saturating_duration_since(Instant::now()))
        };
        match change {
            Ok(Change::Limit(task, bytes)) => drop(limits.insert(task, bytes)),
            Ok(Change::Gone(task)) => drop(limits.remove(&task)),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
