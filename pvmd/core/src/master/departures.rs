//! Hosts that have left the host table and whose daemons are still ending.
//!
//! A daemon that ends keeps its files until its tasks have ended; its link to the master closes after that. Until then no
//! other daemon can start in its place, so an added host waits for it, and so does the answer to `pvm_delhosts`.

use super::answer;
use crate::addresses::PeerTo;
use crate::effect::{Effect, Effects};
use crate::timers::Timer;
use pvm_wire::HostIndex;
use pvm_wire::daemon::MasterReply;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a daemon may take to end: a second for its tasks, one for its links, and what a busy host adds.
pub(crate) const END: Duration = Duration::from_secs(5);

/// Daemons that are ending, and the requests that wait for them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Departures {
    ending: BTreeSet<HostIndex>,
    deletions: Vec<Deletion>,
}

/// An answer to `pvm_delhosts` that waits for these hosts.
#[derive(Debug, Serialize, Deserialize)]
struct Deletion {
    to: PeerTo,
    results: Vec<i32>,
    hosts: BTreeSet<HostIndex>,
}

impl Departures {
    pub fn is_empty(&self) -> bool {
        self.ending.is_empty()
    }

    pub fn len(&self) -> usize {
        self.ending.len()
    }

    pub fn contains(&self, host: HostIndex) -> bool {
        self.ending.contains(&host)
    }

    /// A host that has a link was told to end, or says that it does.
    pub fn expect(&mut self, host: HostIndex, out: &mut Effects) {
        self.ending.insert(host);
        out.push(Effect::SetTimer(END, Timer::Departure(host)));
    }

    /// Answers `pvm_delhosts` when none of these hosts has a daemon any more.
    pub fn answer(&mut self, to: PeerTo, results: Vec<i32>, hosts: Vec<HostIndex>, out: &mut Effects) {
        let hosts = hosts.into_iter().filter(|host| self.contains(*host)).collect();
        self.deletions.push(Deletion { to, results, hosts });
        self.answer_settled(out);
    }

    /// The link to a host has ended. Whether its daemon was ending, and has ended.
    pub fn end(&mut self, host: HostIndex, out: &mut Effects) -> bool {
        let was_ending = self.ending.remove(&host);
        if was_ending {
            out.push(Effect::CancelTimer(Timer::Departure(host)));
            for deletion in &mut self.deletions {
                deletion.hosts.remove(&host);
            }
            self.answer_settled(out);
        }
        was_ending
    }

    /// Another host is the master: it has no link to those, and waits a while.
    pub fn take_over(&self, out: &mut Effects) {
        for &host in &self.ending {
            out.push(Effect::SetTimer(END, Timer::Departure(host)));
        }
    }

    fn answer_settled(&mut self, out: &mut Effects) {
        for Deletion { to, results, .. } in
            self.deletions.extract_if(.., |deletion| deletion.hosts.is_empty())
        {
            answer(to, MasterReply::Deleted { results }, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvm_wire::daemon::{FromMaster, RequestId};

    /// The results that were answered.
    fn answered(out: Effects) -> Vec<Vec<i32>> {
        let answer = |effect| match effect {
            Effect::Order(_, FromMaster::Reply { what: MasterReply::Deleted { results }, .. }) => {
                Some(results)
            }
            _ => None,
        };
        out.into_iter().filter_map(answer).collect()
    }

    #[test]
    fn a_deletion_is_answered_when_its_last_daemon_has_ended() {
        let [one, two, three] = [2, 3, 4].map(|index| HostIndex::new(index).unwrap());
        let to = |id| PeerTo { host: one, id: RequestId(id) };
        let (mut departures, mut out) = (Departures::default(), Effects::default());
        departures.expect(two, &mut out);
        departures.expect(three, &mut out);
        departures.answer(to(1), vec![1], vec![two, three], &mut out);
        departures.answer(to(2), vec![2], vec![three], &mut out);
        departures.answer(to(3), vec![3], vec![one], &mut out);
        assert!(departures.end(three, &mut out) && !departures.end(three, &mut out));
        assert_eq!(answered(out), [[3], [2]], "the host of the third is not ending");
        let mut out = Effects::default();
        assert!(departures.end(two, &mut out) && departures.is_empty());
        assert_eq!(answered(out), [[1]]);
    }
}
