//! As a host: how much can be sent to another one per second.
//!
//! After an empty message, whose answer tells how long the way takes, bursts of messages are sent, each twice as long as the last, until one
//! takes long enough to tell the bandwidth. What the two hosts say to each other meanwhile waits behind a burst.

use crate::event::Now;
use pvm_wire::HostIndex;
use std::time::Duration;

/// The first burst, bytes: over a link of 20 kbit/s it takes less than 2 s, within which no host is taken for lost.
const FIRST: usize = 4 << 10;
/// The longest, bytes.
const LONGEST: usize = 16 << 20;
/// A burst that takes as long as this is long enough.
const ENOUGH: Duration = Duration::from_millis(200);

/// What a host measures. One thing at a time.
#[derive(Debug, Default)]
pub(crate) struct Probing(Option<Probe>);

#[derive(Debug)]
struct Probe {
    to: HostIndex,
    /// The bytes of the burst on its way, and since when it is.
    burst: usize,
    since: Now,
    /// How long an empty message and its answer take.
    empty: Duration,
}

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A burst of this number of bytes.
    Burst(usize),
    /// It can be told, in bits per second.
    Measured(u64),
}

impl Probing {
    /// An empty message is on its way to a host.
    pub fn begin(&mut self, to: HostIndex, now: Now) {
        self.0 = Some(Probe { to, burst: 0, since: now, empty: Duration::ZERO });
    }

    /// A host has answered to the last burst.
    pub fn heard(&mut self, from: HostIndex, now: Now) -> Option<Next> {
        let probe = self.0.as_mut().filter(|probe| probe.to == from)?;
        let took = now.saturating_sub(probe.since);
        if probe.burst == 0 {
            probe.empty = took;
        } else {
            let spent = took.saturating_sub(probe.empty);
            if spent >= ENOUGH || probe.burst >= LONGEST {
                let bits = probe.burst as f64 * 8.0 / spent.as_secs_f64().max(1e-6);
                self.0 = None;
                return Some(Next::Measured(bits.round() as u64));
            }
        }
        (probe.burst, probe.since) = ((2 * probe.burst).max(FIRST), now);
        Some(Next::Burst(probe.burst))
    }

    /// A host is lost. Whether it was the one.
    pub fn host_gone(&mut self, host: HostIndex) -> bool {
        self.0.take_if(|probe| probe.to == host).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured of a link of this bandwidth, in bits per second, where a message takes 20 ms each way; and how many bytes it took.
    fn measured(bandwidth: f64) -> (u64, usize) {
        let (mut probing, mut now, mut bytes) = (Probing::default(), Duration::from_secs(9), 0);
        let way = Duration::from_millis(40);
        probing.begin(HostIndex::MASTER, now);
        now += way;
        loop {
            match probing.heard(HostIndex::MASTER, now) {
                Some(Next::Burst(burst)) => {
                    bytes += burst;
                    now += way + Duration::from_secs_f64(burst as f64 * 8.0 / bandwidth);
                }
                Some(Next::Measured(bits)) => return (bits, bytes),
                None => panic!("it measures"),
            }
        }
    }

    #[test]
    fn bursts_grow_until_they_tell_the_bandwidth() {
        for (bandwidth, most) in [(1e5, FIRST), (1e8, 8 << 20), (1e12, 2 * LONGEST)] {
            let (bits, bytes) = measured(bandwidth);
            assert!((bits as f64 / bandwidth - 1.0).abs() < 1e-2, "{bits} of {bandwidth}");
            assert!(bytes <= most, "{bytes} bytes for {bandwidth}");
        }
    }

    #[test]
    fn only_the_host_that_is_probed_counts() {
        let other = HostIndex::new(2).expect("an index");
        let mut probing = Probing::default();
        assert_eq!(probing.heard(other, Duration::ZERO), None);
        probing.begin(other, Duration::ZERO);
        assert_eq!(probing.heard(HostIndex::MASTER, Duration::ZERO), None);
        assert!(!probing.host_gone(HostIndex::MASTER) && probing.host_gone(other));
        assert_eq!(probing.heard(other, Duration::ZERO), None);
    }
}
