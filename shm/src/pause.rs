//! Whether to let others have the processor while a task looks for something.
//!
//! If one of those has it for whom this task waits, it comes back soon. Anybody else keeps it for far longer than it takes to be woken.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Whoever gets the processor back after so long has given it to somebody who computes.
const LONG: Duration = Duration::from_millis(1);
/// The most waits without a try after that.
const MOST: u32 = 255;

/// How many waits it is until the processor is given away again.
#[derive(Debug, Default)]
pub struct Pause {
    left: AtomicU32,
    last: AtomicU32,
}

impl Pause {
    /// A wait begins: whether the processor may be given away.
    pub fn is_over(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// The wait, since then, is over; the processor was given away.
    pub fn note(&self, begin: Instant) {
        self.took(begin.elapsed());
    }

    /// A wait in which the processor was given away took so long.
    pub fn took(&self, time: Duration) {
        self.count(time < LONG);
    }

    fn count(&self, was_short: bool) {
        let last = self.last.load(Ordering::Relaxed);
        let last = if was_short { last / 2 } else { (last * 2 + 1).min(MOST) };
        self.last.store(last, Ordering::Relaxed);
        self.left.store(last, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_vain_becomes_rare_and_comes_back() {
        let pause = Pause::default();
        let tries = (0..100_000).filter(|_| pause.is_over()).inspect(|_| pause.count(false)).count();
        assert_eq!(tries, 8 + (100_000 - 255) / 256);
        (0..8).for_each(|_| pause.count(true));
        assert!(pause.is_over() && pause.is_over());
    }
}
