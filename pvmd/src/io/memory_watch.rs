//! Tasks whose processes together have more memory than they may.
//!
//! Where control groups can be made the system ends such tasks ([`MemoryGroups`]), and this daemon only has to notice. Elsewhere each
//! process has a limit of its own (`RLIMIT_DATA`). Several processes can exceed the task's limit together, until the next look, at most
//! half a second later.

use crate::io::driver::Input;
use crate::io::family::{self, Mark};
use crate::io::memory_group::MemoryGroups;
use pvmd_core::event::{Cookie, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{self as sync, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::{info, warn};

/// Between two looks.
const APART: Duration = Duration::from_millis(500);
/// How long the groups of the last tasks have to become empty when the daemon ends, and between two looks whether they are.
const LAST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(10));

/// How limits of memory hold (`PVM_MEMORY_LIMITS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLimits {
    /// By control groups where they can be made.
    #[default]
    Auto,
    /// By control groups, or not at all: where none can be made no task that has a limit starts.
    Group,
    /// By limits of single processes, and looks at all.
    Process,
}

impl FromStr for MemoryLimits {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "group" => Ok(Self::Group),
            "process" => Ok(Self::Process),
            _ => Err(()),
        }
    }
}

/// The limits, and the thread that looks whether they hold.
#[derive(Debug)]
pub struct MemoryWatch {
    groups: Option<Arc<MemoryGroups>>,
    changes: sync::Sender<Change>,
}

#[derive(Debug)]
enum Change {
    Limit(Cookie, u64),
    Gone(Cookie),
}

impl MemoryWatch {
    /// Looks in a thread of its own; an error says why limits cannot hold as they are to.
    pub fn new(limits: MemoryLimits, mark: Mark, input: mpsc::Sender<Input>) -> Result<Self, String> {
        let groups = match limits {
            MemoryLimits::Process => None,
            MemoryLimits::Group => Some(MemoryGroups::delegated(mark.clone())?),
            MemoryLimits::Auto => MemoryGroups::delegated(mark.clone())
                .inspect_err(|reason| info!(reason, "limits of memory are those of single processes"))
                .ok(),
        };
        let groups = groups.map(Arc::new);
        let (changes, received) = sync::channel();
        let means = groups.clone().map_or(Means::Looks(mark), Means::Groups);
        let thread = std::thread::Builder::new().name("memory".into());
        if let Err(error) = thread.spawn(move || watch(&means, &received, &input)) {
            warn!(%error, "tasks that have too much memory are not noticed");
        }
        Ok(Self { groups, changes })
    }

    /// Where tasks have groups.
    pub fn groups(&self) -> Option<&Arc<MemoryGroups>> {
        self.groups.as_ref()
    }

    /// Memory that the processes of a task may have together, in bytes.
    pub fn limit(&self, task: Cookie, bytes: u64) {
        self.tell(Change::Limit(task, bytes));
    }

    /// A task has ended.
    pub fn gone(&self, task: Cookie) {
        self.tell(Change::Gone(task));
    }

    fn tell(&self, change: Change) {
        // Without the thread the system's own limits are there still.
        let _ = self.changes.send(change);
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        let Some(groups) = &self.groups else { return };
        let end = Instant::now() + LAST.0;
        while !groups.remove_all() && Instant::now() < end {
            std::thread::sleep(LAST.1);
        }
    }
}

/// What a look is.
#[derive(Debug)]
enum Means {
    Groups(Arc<MemoryGroups>),
    /// Sums over all processes of this mark.
    Looks(Mark),
}

impl Means {
    /// The tasks that have more than they may, with the limit.
    fn above(&self, limits: &BTreeMap<Cookie, u64>) -> Vec<(Cookie, u64)> {
        let pairs = limits.iter().map(|(&task, &limit)| (task, limit));
        match self {
            Self::Groups(groups) => pairs.filter(|&(task, _)| groups.exceeded(task).is_some()).collect(),
            Self::Looks(mark) => {
                let used = family::memory(mark);
                pairs.filter(|(task, limit)| used.get(task).is_some_and(|used| used > limit)).collect()
            }
        }
    }
}

/// What the thread knows.
#[derive(Debug, Default)]
struct Watched {
    limits: BTreeMap<Cookie, u64>,
    /// Tasks that have ended, whose groups may have processes still.
    ended: BTreeSet<Cookie>,
}

fn watch(means: &Means, changes: &sync::Receiver<Change>, input: &mpsc::Sender<Input>) {
    let mut watched = Watched::default();
    while watched.wait(changes) {
        for (cookie, limit) in means.above(&watched.limits) {
            watched.limits.remove(&cookie);
            if input.blocking_send(Event::OverMemory { cookie, limit }.into()).is_err() {
                return;
            }
        }
        watched.remove_groups(means);
    }
}

impl Watched {
    /// Takes changes in until it is time to look; false at the end.
    fn wait(&mut self, changes: &sync::Receiver<Change>) -> bool {
        let next = Instant::now() + APART;
        loop {
            let change = if self.limits.is_empty() && self.ended.is_empty() {
                changes.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                changes.recv_timeout(next.saturating_duration_since(Instant::now()))
            };
            match change {
                Ok(Change::Limit(task, bytes)) => drop(self.limits.insert(task, bytes)),
                Ok(Change::Gone(task)) => {
                    self.limits.remove(&task);
                    self.ended.insert(task);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Removes the groups of tasks that have ended, if they are empty.
    fn remove_groups(&mut self, means: &Means) {
        match means {
            Means::Groups(groups) => self.ended.retain(|&task| !groups.remove(task)),
            Means::Looks(_) => self.ended.clear(),
        }
    }
}
