//! Hosts that have left the host table and whose daemons are still ending.
//!
//! A daemon that ends keeps its files until its tasks have ended; its link to the master closes after that. Until then no
//! other daemon can start in its place, so an added host waits for it, and so does the answer to `pvm_delhosts`.

use super::Core;
use super::addresses::PeerTo;
use super::event::Action;
use super::timers::Timer;
use pvm_wire::HostIndex;
use pvm_wire::daemon::PeerReply;
use std::collections::BTreeSet;
use std::time::Duration;
use tracing::warn;

/// How long a daemon may take to end: a second for its tasks, one for its links, and what a busy host adds.
const END: Duration = Duration::from_secs(5);

/// Daemons that are ending, and the requests that wait for them.
#[derive(Debug, Default)]
pub(super) struct Departures {
    ending: BTreeSet<HostIndex>,
    deletions: Vec<Deletion>,
}

/// An answer to `pvm_delhosts` that waits for these hosts.
#[derive(Debug)]
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
}

impl Core {
    /// Master: a host that has a link was told to end, or says that it does. The link stays until the daemon closes it.
    pub(super) fn expect_end(&mut self, host: HostIndex) {
        if self.links.remove(&host).is_some() {
            self.set_timer(END, Timer::Departure(host));
            self.departures.ending.insert(host);
        }
    }

    /// Answers `pvm_delhosts` when none of these hosts has a daemon any more.
    pub(super) fn answer_deletion(&mut self, to: PeerTo, results: Vec<i32>, hosts: Vec<HostIndex>) {
        let hosts = hosts.into_iter().filter(|host| self.departures.contains(*host)).collect();
        self.departures.deletions.push(Deletion { to, results, hosts });
        self.answer_deletions();
    }

    fn answer_deletions(&mut self) {
        let deletions = std::mem::take(&mut self.departures.deletions);
        let (done, waiting) = deletions.into_iter().partition(|deletion| deletion.hosts.is_empty());
        self.departures.deletions = waiting;
        for Deletion { to, results, .. } in done {
            self.answer(to, PeerReply::Deleted { results });
        }
    }

    /// The link to a host has ended; if its daemon was ending, it has ended.
    pub(super) fn on_departed(&mut self, host: HostIndex) {
        if !self.departures.ending.remove(&host) {
            return;
        }
        self.out.timers.cancel(Timer::Departure(host));
        for deletion in &mut self.departures.deletions {
            deletion.hosts.remove(&host);
        }
        self.answer_deletions();
        self.resume_add();
    }

    pub(super) fn on_departure_overdue(&mut self, host: HostIndex) {
        warn!(%host, "its daemon has not ended within {END:?}: no longer waited for");
        self.out.act(Action::Unlink { host });
        self.on_departed(host);
    }
}
