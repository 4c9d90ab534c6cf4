//! Work for processors.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// Uses the processor for this time.
pub fn compute(time: Duration) {
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (end, mut value) = (used() + time, 1.0_f64);
    while used() < end {
        for _ in 0..2_000 {
            value = black_box(value) * 0.999_999 + 0.5;
        }
    }
}

/// Does this number of steps, each of which waits for the one before.
pub fn steps(count: u64) {
    let mut value = black_box(1.0_f64);
    for _ in 0..count {
        value = value * 0.999_999 + 0.5;
    }
    black_box(value);
}
