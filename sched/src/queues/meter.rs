//! What a parallel job sends over the links of clusters, measured by the bytes that its tasks count.
//!
//! A link that is full carries no more than its bandwidth: what is measured then is less than what the job would send.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes are summed for this time before they count.
pub const WINDOW: Duration = Duration::from_secs(5);
const WINDOW_MS: u64 = WINDOW.as_millis() as u64;
/// The rates of links are means in which a window has half the weight of the next one.
const WEIGHT: f64 = 0.5;

/// Bytes that have crossed the link of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Crossed {
    out: u64,
    into: u64,
}

/// The counts of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Meter {
    /// When the window began, in milliseconds.
    since: u64,
    window: BTreeMap<String, Crossed>,
    /// Bits per second over each link: the greater one of both directions.
    rates: BTreeMap<String, f64>,
    /// Bytes between clusters since the job has started.
    total: u64,
}

impl Meter {
    pub fn new(now: u64) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Tasks in one cluster have sent something to tasks in another one; `None` stands for the hosts without a cluster.
    pub fn count(&mut self, from: Option<&str>, to: Option<&str>, bytes: u64) {
        if from == to {
            return;
        }
        self.total = self.total.saturating_add(bytes);
        if let Some(from) = from {
            let crossed = self.window.entry(from.to_owned()).or_default();
            crossed.out = crossed.out.saturating_add(bytes);
        }
        if let Some(to) = to {
            let crossed = self.window.entry(to.to_owned()).or_default();
            crossed.into = crossed.into.saturating_add(bytes);
        }
    }

    /// Whether a window has ended, which counts from now on.
    pub fn close(&mut self, now: u64) -> bool {
        let lasted = now.saturating_sub(self.since);
        if lasted < WINDOW_MS {
            return false;
        }
        let is_first = self.rates.is_empty();
        let weight = if is_first { 1.0 } else { WEIGHT };
        self.rates.values_mut().for_each(|rate| *rate *= 1.0 - weight);
        for (link, Crossed { out, into }) in std::mem::take(&mut self.window) {
            *self.rates.entry(link).or_default() += weight * bits_per_second(out.max(into), lasted);
        }
        self.rates.retain(|_, rate| *rate >= 1.0);
        self.since = now;
        true
    }

    /// Bits per second over the link of a cluster, as far as they have been measured.
    pub fn rate(&self, cluster: &str) -> f64 {
        self.rates.get(cluster).copied().unwrap_or(0.0)
    }

    /// Whether anything crosses links, as far as has been measured.
    pub fn has_rates(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Bits per second between clusters since the job has started, which was this number of milliseconds ago.
    pub fn mean(&self, lasted: u64) -> f64 {
        bits_per_second(self.total, lasted)
    }
}

fn bits_per_second(bytes: u64, milliseconds: u64) -> f64 {
    bytes as f64 * 8000.0 / milliseconds.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(meter: &Meter, cluster: &str) -> u64 {
        meter.rate(cluster).round() as u64
    }

    #[test]
    fn the_busier_direction_of_a_link_counts_when_its_window_has_ended() {
        let mut meter = Meter::new(1000);
        meter.count(Some("a"), Some("b"), 3_000_000);
        meter.count(Some("b"), Some("a"), 1_000_000);
        meter.count(Some("a"), None, 2_000_000);
        meter.count(Some("a"), Some("a"), 9_000_000);
        meter.count(None, None, 9_000_000);
        assert!(!meter.close(1000 + WINDOW_MS - 1));
        assert_eq!(rate(&meter, "a"), 0);
        assert!(meter.close(1000 + WINDOW_MS));
        assert_eq!(["a", "b", "c"].map(|name| rate(&meter, name)), [8_000_000, 4_800_000, 0]);
        assert_eq!(meter.mean(6000).round() as u64, 8_000_000);
    }

    #[test]
    fn a_job_that_falls_silent_asks_for_less_and_less() {
        let mut meter = Meter::new(0);
        meter.count(Some("a"), Some("b"), 5_000_000);
        assert!(meter.close(5000));
        assert!(meter.close(15_000));
        assert_eq!(rate(&meter, "a"), 4_000_000);
        meter.count(Some("a"), Some("b"), 5_000_000);
        assert!(meter.close(20_000));
        assert_eq!(rate(&meter, "a"), 6_000_000);
        for window in 5..40 {
            assert!(meter.close(window * 5000));
        }
        assert!(meter.rates.is_empty());
    }

    #[test]
    fn bytes_of_any_number_are_counted() {
        let mut meter = Meter::new(0);
        meter.count(Some("a"), Some("b"), u64::MAX);
        meter.count(Some("a"), Some("b"), u64::MAX);
        assert!(meter.close(u64::MAX));
        assert!(meter.rate("a").is_finite() && meter.mean(0).is_finite());
    }
}
