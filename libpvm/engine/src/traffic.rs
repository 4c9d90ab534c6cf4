//! What a task sends, counted if it is used: to whom, for the policy that has placed it; to which other hosts, for the links
//! between the clusters that its job spans.

use super::Engine;
use pvm_wire::Tid;
use pvm_wire::calls::turns::{Receiver, Traffic, TrafficByHost};
use pvm_wire::limits::TRAFFIC_RECEIVERS;
use pvm_wire::spawn::{NETWORK_VARIABLE, TRAFFIC_VARIABLE};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Between two reports of what goes to other hosts, at least.
const NETWORK_APART: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    tasks: Option<Box<Tally>>,
    /// By the daemons of other hosts, and when that was reported last.
    hosts: Option<Box<(Tally, Instant)>>,
}

impl Counts {
    /// As this process's environment says.
    pub fn from_env() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| value == "1");
        Self {
            tasks: is_set(TRAFFIC_VARIABLE).then(Box::default),
            hosts: is_set(NETWORK_VARIABLE).then(|| Box::new((Tally::default(), Instant::now()))),
        }
    }

    fn is_on(&self) -> bool {
        self.tasks.is_some() || self.hosts.is_some()
    }
}

/// Bytes by receiver since the last report. Receivers beyond a number are not counted.
#[derive(Debug, Default)]
struct Tally(HashMap<Tid, u64>);

impl Tally {
    fn count(&mut self, tid: Tid, bytes: usize) {
        if let Some(sum) = self.0.get_mut(&tid) {
            *sum = sum.saturating_add(bytes as u64);
        } else if self.0.len() < TRAFFIC_RECEIVERS {
            self.0.insert(tid, bytes as u64);
        }
    }

    fn take(&mut self) -> Vec<Receiver> {
        self.0.drain().map(|(tid, bytes)| Receiver { tid, bytes }).collect()
    }
}

impl Engine {
    /// A message has been sent.
    #[inline]
    pub(super) fn count_sent(&mut self, dst: Tid, length: usize) {
        self.sent.count(1, length);
        if self.counts.is_on() {
            self.count_traffic(&[dst], length);
        }
    }

    /// A message has been sent to several.
    pub(super) fn count_multicast(&mut self, dsts: &[Tid], length: usize) {
        self.sent.count(dsts.len(), dsts.len().saturating_mul(length));
        if self.counts.is_on() {
            self.count_traffic(dsts, length);
        }
    }

    /// Counts for each receiver. What goes to other hosts is reported with the next message that may be deferred.
    fn count_traffic(&mut self, dsts: &[Tid], length: usize) {
        if let Some(tally) = &mut self.counts.tasks {
            for &dst in dsts {
                tally.count(dst, length);
            }
        }
        let own = self.host();
        let Some(hosts) = &mut self.counts.hosts else { return };
        let (tally, reported) = &mut **hosts;
        for &dst in dsts {
            if self.places.host_of(dst).is_some_and(|host| Some(host) != own) {
                tally.count(self.places.host_tid_of(dst), length);
            }
        }
        if !tally.0.is_empty() && reported.elapsed() >= NETWORK_APART {
            self.report_hosts();
        }
    }

    fn report_hosts(&mut self) {
        let Some(hosts) = &mut self.counts.hosts else { return };
        let told = hosts.0.take();
        hosts.1 = Instant::now();
        if !told.is_empty() && self.daemon_is_ours() {
            self.defer_request(&TrafficByHost { hosts: told });
        }
    }

    /// Reports what has been counted and not reported: before this task leaves. A report that cannot be sent is lost.
    pub fn report_traffic(&mut self) {
        let told = self.counts.tasks.as_mut().map(|tally| tally.take()).unwrap_or_default();
        if !told.is_empty() && self.daemon_is_ours() {
            self.defer_request(&Traffic { receivers: told });
        }
        self.report_hosts();
        self.send_deferred();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_counted_up_to_a_number() {
        let mut tally = Tally::default();
        for number in 0..2 * TRAFFIC_RECEIVERS as i32 {
            tally.count(Tid::from_raw(0x40001 + number % 1500), 3);
        }
        tally.count(Tid::from_raw(0x40001), 4);
        let mut told = tally.take();
        assert_eq!(told.len(), TRAFFIC_RECEIVERS);
        told.sort_by_key(|receiver| receiver.tid);
        assert_eq!(told[0], Receiver { tid: Tid::from_raw(0x40001), bytes: 10 });
        assert_eq!(tally.take(), []);
    }
}
