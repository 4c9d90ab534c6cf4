//! The two-phase wait of a task or daemon, in words that its threads share: how long to look for something before sleeping.
//!
//! [`TwoPhase`] decides.

use pvm_sched::coscheduling::TwoPhase;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A [`TwoPhase`]. Its spin is zero before it is known what waking takes. Two threads that change it at once may lose one of the changes.
#[derive(Debug)]
pub struct Patience {
    spin: AtomicU64,
    limit: AtomicU64,
    sleeps_left: AtomicU32,
    sleeps: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { spin: 0.into(), limit: 0.into(), sleeps_left: 1.into(), sleeps: 1.into() }
    }
}

impl Patience {
    /// What it takes to wake a task.
    pub fn set_wake_time(&self, time: Duration) {
        let wait = TwoPhase::new(time, TwoPhase::FACTOR);
        self.limit.store(wait.limit, Ordering::Relaxed);
        self.store(wait);
    }

    /// How long to look.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.spin.load(Ordering::Relaxed))
    }

    /// So long was to be looked, and it was found or not.
    pub fn looked(&self, time: Duration, is_found: bool) {
        let mut wait = self.load();
        wait.spun(time, is_found);
        self.store(wait);
    }

    /// A sleep took so long.
    pub fn slept(&self, time: Duration) {
        let mut wait = self.load();
        wait.blocked(time);
        self.store(wait);
    }

    fn load(&self) -> TwoPhase {
        TwoPhase {
            limit: self.limit.load(Ordering::Relaxed),
            spin: self.spin.load(Ordering::Relaxed),
            sleeps_left: self.sleeps_left.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
        }
    }

    fn store(&self, wait: TwoPhase) {
        self.spin.store(wait.spin, Ordering::Relaxed);
        self.sleeps_left.store(wait.sleeps_left, Ordering::Relaxed);
        self.sleeps.store(wait.sleeps, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WAKE: Duration = Duration::from_micros(20);

    #[test]
    fn what_waits_have_shown_is_kept() {
        let patience = Patience::default();
        assert_eq!(patience.time(), Duration::ZERO);
        patience.looked(WAKE, true);
        assert_eq!(patience.time(), Duration::ZERO, "nobody knows what waking takes");
        patience.set_wake_time(WAKE);
        let mut wait = TwoPhase::new(WAKE, TwoPhase::FACTOR);
        for step in 0..100 {
            if step % 3 == 0 {
                patience.slept(WAKE * step);
                wait.blocked(WAKE * step);
            } else {
                patience.looked(patience.time(), step % 10 == 1);
                wait.spun(wait.spin(), step % 10 == 1);
            }
            assert_eq!(patience.time(), wait.spin());
        }
    }
}
