//! How long a daemon or a task manager waits for a processor of a host on which processes compute.

use crate::engine::Time;
use crate::random::Random;

/// The mean times for which a daemon waits for a processor while processes compute on its host, µs: beside one, two, four and eight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits(pub [f64; 4]);

impl Waits {
    /// The numbers of processes.
    pub const BESIDE: [u32; 4] = [1, 2, 4, 8];

    /// Between two of the numbers on the line between their means; beyond, in proportion to the processes.
    fn mean(&self, processes: usize) -> f64 {
        let n = processes as f64;
        let mut below = (0.0, 0.0);
        for (at, mean) in Self::BESIDE.map(f64::from).into_iter().zip(self.0) {
            if n <= at {
                return below.1 + (mean - below.1) * (n - below.0) / (at - below.0);
            }
            below = (at, mean);
        }
        below.1 * n / below.0
    }
}

/// The turns of a process that mostly sleeps, such as a daemon, among those that compute on its host.
pub struct Turns {
    waits: Waits,
    random: Random,
    at: Time,
}

impl Turns {
    pub fn new(waits: Waits, seed: usize) -> Self {
        Self { waits, random: Random::new(seed as u64), at: 0 }
    }

    /// When it handles what reaches it now. What comes until then does not wait longer.
    pub fn next(&mut self, now: Time, beside: usize) -> Time {
        if beside == 0 {
            self.at = now;
        } else if self.at < now {
            self.at = now + self.random.between(0.0, 2.0 * self.waits.mean(beside)) as Time;
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_processes_that_compute() {
        let waits = Waits([1.0, 5.0, 9.0, 29.0]);
        let found = [0, 1, 2, 3, 4, 6, 8, 16].map(|processes| waits.mean(processes).round() as u32);
        assert_eq!(found, [0, 1, 5, 7, 9, 19, 29, 58]);
        assert!(Waits::default().mean(5) < 1e-9);
    }
}
