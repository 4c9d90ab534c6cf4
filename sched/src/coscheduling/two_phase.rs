//! Implicit coscheduling's two-phase wait: spin for a while, then block.
//!
//! *Scheduling parallel jobs on clusters*, 21.5. Spinning for one context switch balances spinning and blocking; five leave time to
//! wake the peer. That is the limit. Where spinning does not pay, the time is halved. It is tried again after some short sleeps: as
//! sleeping is slow because the peer sleeps, too, neither would find out otherwise. Tries that fail become rare.

use pvm_wire::tuned::{SPIN_LEAST_PART, SPIN_RETRY_SLEEPS_MAX, SPIN_SWITCHES};
use std::time::Duration;

/// How long one task spins at present. All numbers are public so that a library can keep them in atomic words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoPhase {
    /// The longest spin, nanoseconds.
    pub limit: u64,
    /// The spin in force, nanoseconds.
    pub spin: u64,
    /// Short sleeps until the next try.
    pub sleeps_left: u32,
    /// Short sleeps between the last two tries.
    pub sleeps: u32,
}

impl TwoPhase {
    /// Context switches that a wait spins for at most.
    pub const FACTOR: u32 = SPIN_SWITCHES;

    /// A wait where a context switch has been measured to take this long, and that spins for `factor` of them.
    pub fn new(switch: Duration, factor: u32) -> Self {
        let limit = nanos(switch.saturating_mul(factor));
        Self { limit, spin: limit, sleeps_left: 1, sleeps: 1 }
    }

    /// How long to spin before blocking.
    pub fn spin(&self) -> Duration {
        Duration::from_nanos(self.spin)
    }

    /// A wait has spun, for at most `time`; whether a message arrived meanwhile.
    pub fn spun(&mut self, time: Duration, is_found: bool) {
        if is_found {
            self.set(nanos(time.saturating_mul(2)));
            self.sleeps = 1;
        } else {
            self.set(nanos(time / 2));
        }
    }

    /// A wait has blocked for this long.
    pub fn blocked(&mut self, time: Duration) {
        if nanos(time) > self.limit.saturating_mul(2) {
            return;
        }
        self.sleeps_left = self.sleeps_left.saturating_sub(1);
        if self.sleeps_left == 0 {
            self.sleeps = (self.sleeps * 2).min(SPIN_RETRY_SLEEPS_MAX);
            self.sleeps_left = self.sleeps;
            self.spin = self.limit;
        }
    }

    fn set(&mut self, nanos: u64) {
        self.spin = nanos.clamp(self.limit / SPIN_LEAST_PART, self.limit);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SWITCH: Duration = Duration::from_micros(20);

    fn fail_all(wait: &mut TwoPhase) {
        for nanos in [100_000, 50_000, 25_000, 12_500, 6_250, 6_250] {
            let time = wait.spin();
            assert_eq!(time, Duration::from_nanos(nanos));
            wait.spun(time, false);
        }
    }

    #[test]
    fn it_goes_where_it_does_not_pay_and_comes_back() {
        let mut wait = TwoPhase::new(SWITCH, TwoPhase::FACTOR);
        fail_all(&mut wait);
        wait.blocked(Duration::from_secs(1));
        assert_eq!(wait.spin(), SWITCH * TwoPhase::FACTOR / 16);
        // The first try comes at once, the next later and later.
        for sleeps in [1, 2, 4, 8] {
            for _ in 1..sleeps {
                wait.blocked(SWITCH * TwoPhase::FACTOR * 2);
                assert_eq!(wait.spin(), SWITCH * TwoPhase::FACTOR / 16);
            }
            wait.blocked(SWITCH * TwoPhase::FACTOR * 2);
            fail_all(&mut wait);
        }
        wait.spun(wait.spin(), true);
        assert_eq!(wait.spin(), SWITCH * TwoPhase::FACTOR / 8);
    }

    proptest! {
        /// Whatever happens, no wait spins for longer than its factor of the measured switch.
        #[test]
        fn the_spin_is_bounded(
            switch in 0..u64::MAX, factor in 0..100_u32,
            steps in proptest::collection::vec((0..3_u8, 0..u64::MAX / 4), 0..200),
        ) {
            let switch = Duration::from_nanos(switch);
            let mut wait = TwoPhase::new(switch, factor);
            for (kind, time) in steps {
                let time = Duration::from_nanos(time);
                match kind {
                    0 => wait.blocked(time),
                    kind => wait.spun(time, kind == 1),
                }
                prop_assert!(wait.spin() <= switch * factor);
                prop_assert!(wait.spin >= wait.limit / SPIN_LEAST_PART);
            }
        }
    }
}
