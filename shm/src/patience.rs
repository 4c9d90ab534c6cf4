//! How long it is worth while to look for something before sleeping.
//!
//! Looking for as long as it would take to be woken some times over is never much worse than knowing beforehand. Where it does not
//! pay, it becomes shorter. Then it is tried again after some short sleeps: as sleeping is slow because the other one sleeps, too,
//! neither would find out otherwise. Tries that fail become rare.

use pvm_wire::coscheduling::SPINS;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The least that is tried, as a part of the most.
const LEAST: u64 = 16;
/// The most short sleeps between two tries.
const SLEEPS: u32 = 1024;

/// The time, and short sleeps until the next try. There is none before it is known what waking takes.
#[derive(Debug)]
pub struct Patience {
    /// Nanoseconds.
    now: AtomicU64,
    most: AtomicU64,
    sleeps_left: AtomicU32,
    sleeps: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { now: 0.into(), most: 0.into(), sleeps_left: 1.into(), sleeps: 1.into() }
    }
}

impl Patience {
    /// What it takes to wake a task.
    pub fn set_wake_time(&self, time: Duration) {
        let most = (time * SPINS).as_nanos() as u64;
        self.most.store(most, Ordering::Relaxed);
        self.now.store(most, Ordering::Relaxed);
    }

    /// How long to look.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }

    /// So long was to be looked, and it was found or not.
    pub fn looked(&self, time: Duration, is_found: bool) {
        if is_found {
            self.set(time * 2);
            self.sleeps.store(1, Ordering::Relaxed);
        } else {
            self.set(time / 2);
        }
    }

    /// A sleep took so long.
    pub fn slept(&self, time: Duration) {
        let most = Duration::from_nanos(self.most.load(Ordering::Relaxed));
        if time > most * 2 {
            return;
        }
        let left = self.sleeps_left.load(Ordering::Relaxed).saturating_sub(1);
        if left > 0 {
            self.sleeps_left.store(left, Ordering::Relaxed);
            return;
        }
        let sleeps = (self.sleeps.load(Ordering::Relaxed) * 2).min(SLEEPS);
        self.sleeps.store(sleeps, Ordering::Relaxed);
        self.sleeps_left.store(sleeps, Ordering::Relaxed);
        self.set(most);
    }

    fn set(&self, time: Duration) {
        let most = self.most.load(Ordering::Relaxed);
        self.now.store((time.as_nanos() as u64).clamp(most / LEAST, most), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WAKE: Duration = Duration::from_micros(20);

    fn fail_all(patience: &Patience) {
        for micros in [100_000, 50_000, 25_000, 12_500, 6_250, 6_250] {
            let time = patience.time();
            assert_eq!(time, Duration::from_nanos(micros));
            patience.looked(time, false);
        }
    }

    #[test]
    fn it_goes_where_it_does_not_pay_and_comes_back() {
        let patience = Patience::default();
        assert_eq!(patience.time(), Duration::ZERO);
        patience.set_wake_time(WAKE);
        fail_all(&patience);
        patience.slept(Duration::from_secs(1));
        assert_eq!(patience.time(), WAKE * SPINS / 16);
        // The first try comes at once, the next later and later.
        for sleeps in [1, 2, 4, 8] {
            for _ in 1..sleeps {
                patience.slept(WAKE * SPINS * 2);
                assert_eq!(patience.time(), WAKE * SPINS / 16);
            }
            patience.slept(WAKE * SPINS * 2);
            fail_all(&patience);
        }
        patience.looked(patience.time(), true);
        assert_eq!(patience.time(), WAKE * SPINS / 8);
    }
}
