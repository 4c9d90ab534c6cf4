//! `C_i`, a host's capability, measured once at the start when the hostfile has no `sp=`.

use crate::io::settings::cores;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps of the measured loop that a reference core (capability 1000) does in a microsecond.
const REFERENCE_STEPS_PER_MICROSECOND: f64 = 250.0;
/// Short rounds: together they delay the start by a millisecond, and other processes interrupt fewer of them.
const ROUNDS: u32 = 8;
const STEPS: u64 = 100_000;

/// The capability of the whole host: of one core, times the cores this process may use. 1000 is a reference core.
pub fn measure() -> f64 {
    let best = (0..ROUNDS).map(|_| round()).min().unwrap_or(Duration::from_millis(1));
    let per_microsecond = STEPS as f64 / (best.as_nanos() as f64 / 1000.0).max(1.0);
    (1000.0 * per_microsecond / REFERENCE_STEPS_PER_MICROSECOND * f64::from(cores())).round().max(1.0)
}

/// The fastest of several rounds is the least disturbed one. Each step depends on the one before.
fn round() -> Duration {
    let begin = Instant::now();
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for step in 0..STEPS {
        state = (state ^ step).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(17);
    }
    black_box(state);
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_a_positive_number() {
        let capability = super::measure();
        assert!(capability.is_finite() && capability >= 1.0);
    }
}
