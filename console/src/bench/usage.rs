//! Processors of a host, and how busy they are.

use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};

/// Where Linux counts the time of processors.
const FILE: &str = "/proc/stat";

/// Processor time of a host, in ticks of any length. Both are 0 where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time in which a processor was used, by any program.
    pub busy: u64,
    /// All of it.
    pub total: u64,
}

impl Usage {
    /// Since the start of the system.
    pub fn now() -> Self {
        std::fs::read_to_string(FILE).ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Of the text of `/proc/stat`. Its first line has the ticks of all processors: user, nice, system, idle, waiting for
    /// devices, interrupts, soft interrupts, stolen by other virtual machines. Guests, which follow, are part of the first two.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.split_whitespace();
        if words.next()? != "cpu" {
            return None;
        }
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let total = ticks.iter().fold(0_u64, |sum, &ticks| sum.saturating_add(ticks));
        let idle = ticks.get(3)?.saturating_add(ticks.get(4).copied().unwrap_or(0));
        Some(Self { busy: total.saturating_sub(idle), total })
    }

    /// The part that was used, as a percentage; `None` if nothing was counted.
    pub fn percent(self) -> Option<f64> {
        (self.total > 0).then(|| self.busy.min(self.total) as f64 / self.total as f64 * 100.0)
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let total = self.total.saturating_sub(earlier.total);
        // The idle time of some kernels goes back now and then.
        Self { busy: self.busy.saturating_sub(earlier.busy).min(total), total }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { busy: self.busy.saturating_add(other.busy), total: self.total.saturating_add(other.total) }
    }
}

/// Number of processors that the host has; those of this process where the system does not tell.
pub fn processors() -> u32 {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    match count(&text) {
        0 => std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        count => count,
    }
}

/// The lines `cpu0`, `cpu1`, … of `/proc/stat`.
fn count(text: &str) -> u32 {
    let of_one = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    text.lines().filter(of_one).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  10 1 20 60 5 1 2 1 7 0\ncpu0 5 1 10 30 2 1 1 0 0 0\ncpu1 5 0 10 30 3 0 1 1 0 0\nintr 5\n";

    #[test]
    fn idle_time_and_waits_for_devices_are_not_busy() {
        let usage = Usage::parse(STAT).unwrap();
        assert_eq!(usage, Usage { busy: 35, total: 100 });
        assert!((usage.percent().unwrap() - 35.0).abs() < 1e-9);
        assert_eq!(count(STAT), 2);
    }

    #[test]
    fn differences_never_wrap_and_nothing_has_no_percentage() {
        let [early, late] = [Usage { busy: 5, total: 10 }, Usage { busy: 9, total: 20 }];
        assert_eq!(late - early, Usage { busy: 4, total: 10 });
        assert_eq!(early - late, Usage::default());
        assert_eq!(Usage::default().percent(), None);
        assert_eq!(early + late, Usage { busy: 14, total: 30 });
    }

    #[test]
    fn other_texts_are_no_usage() {
        for text in ["", "cpu", "cpu x y z", "cpu 1 2 3", "intr 1 2 3 4 5", "cpu0 1 2 3 4"] {
            assert_eq!(Usage::parse(text), None, "{text}");
        }
        assert!(processors() >= 1);
    }
}
