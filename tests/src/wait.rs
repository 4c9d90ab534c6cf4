//! Conditions with deadlines: a test never sleeps for a time it guessed.

use std::thread;
use std::time::{Duration, Instant};

/// What nearly every step of a test is given: far more than it needs, far less than a person waits.
pub const PATIENCE: Duration = Duration::from_secs(15);

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

/// Fails the test unless the condition holds within [`PATIENCE`].
#[track_caller]
pub fn becomes_true(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || condition().then_some(()));
}
