//! To whom a task sends how much, counted if the policy that has placed it wants to know.

use super::Engine;
use pvm_wire::Tid;
use pvm_wire::calls::turns::{Receiver, Traffic};
use pvm_wire::limits::TRAFFIC_RECEIVERS;
use pvm_wire::spawn::TRAFFIC_VARIABLE;
use std::collections::HashMap;

/// Bytes by receiver since the last report. Tally beyond a number are not counted.
#[derive(Debug, Default)]
pub(super) struct Tally(HashMap<Tid, u64>);

impl Tally {
    /// If this process's environment says that they are to be counted.
    pub fn from_env() -> Option<Box<Self>> {
        std::env::var_os(TRAFFIC_VARIABLE).filter(|value| value == "1").map(|_| Box::default())
    }

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
        if let Some(tally) = &mut self.tally {
            tally.count(dst, length);
        }
    }

    /// A message has been sent to several.
    pub(super) fn count_multicast(&mut self, dsts: &[Tid], length: usize) {
        self.sent.count(dsts.len(), dsts.len().saturating_mul(length));
        if let Some(tally) = &mut self.tally {
            for &dst in dsts {
                tally.count(dst, length);
            }
        }
    }

    /// Reports what has been sent to whom, if it is counted: before this task leaves. A report that cannot be sent is lost.
    pub fn report_traffic(&mut self) {
        let told = self.tally.as_mut().map(|tally| tally.take()).unwrap_or_default();
        if !told.is_empty() && self.daemon_is_ours() {
            self.defer_request(&Traffic { receivers: told });
            self.send_deferred();
        }
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
