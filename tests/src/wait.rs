//! Conditions with deadlines: a test never sleeps for a time it guessed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of nearly every step of a test: far more than it needs, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(15);

/// Asks until there is an answer; `None` when `limit` has passed.
pub fn until<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(INTERVAL);
    }
}

/// Asks until there is an answer; fails the test, naming `what`, when there is none in time.
#[track_caller]
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    match until(PATIENCE, ask) {
        Some(answer) => answer,
        None => panic!("waited {PATIENCE:?} in vain for: {what}"),
    }
}

/// Whether the condition holds within [`PATIENCE`], for a test that makes its own message if it does not.
pub fn holds(mut condition: impl FnMut() -> bool) -> bool {
    until(PATIENCE, || condition().then_some(())).is_some()
}

/// Fails the test unless the condition holds within [`PATIENCE`].
#[track_caller]
pub fn becomes_true(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || condition().then_some(()));
}

/// A clock that stands still while the computer does: for promises of time, which hold where processes can run.
#[derive(Debug)]
pub struct Stopwatch {
    ticks: Arc<AtomicU32>,
}

impl Stopwatch {
    const TICK: Duration = Duration::from_millis(5);

    /// Begins to count.
    pub fn start() -> Self {
        let ticks = Arc::new(AtomicU32::new(0));
        let counted = Arc::downgrade(&ticks);
        thread::spawn(move || {
            loop {
                thread::sleep(Self::TICK);
                let Some(ticks) = counted.upgrade() else { return };
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { ticks }
    }

    /// The time since then, without that in which nothing ran.
    pub fn elapsed(&self) -> Duration {
        Self::TICK * self.ticks.load(Ordering::Relaxed)
    }
}
