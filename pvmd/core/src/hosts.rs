//! The host table, the links to other daemons, and on a slave the table that it links up with.

use super::effect::Effects;
use super::event::Action;
use super::spans;
use pvm_wire::daemon::{DaemonMsg, HostEntry};
use pvm_wire::limits::REQUEST_MAX;
use pvm_wire::{HostIndex, Reassembler};
use std::collections::{BTreeMap, BTreeSet};
use tracing::warn;

/// Why a host is gone that somebody has deleted.
pub(crate) const DELETED: &str = "deleted";

/// The members of the virtual machine, and the links to other daemons.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// This one.
    own: HostIndex,
    members: BTreeMap<HostIndex, HostEntry>,
    pub links: BTreeMap<HostIndex, Link>,
    linking: Linking,
}

/// A link to another daemon, while it stands.
#[derive(Debug)]
pub(crate) struct Link {
    /// Bytes of data on their way.
    pub queued: usize,
    /// Messages of its tasks to this daemon, cut into fragments.
    pub requests: Reassembler,
    /// What is logged on its account.
    pub span: tracing::Span,
}

impl Link {
    pub fn new(host: HostIndex) -> Self {
        Self { queued: 0, requests: Reassembler::new(REQUEST_MAX), span: spans::of_peer(host) }
    }
}

/// On a slave: a table it has been told of and is linking up with.
#[derive(Debug, Default)]
struct Linking {
    serial: u64,
    hosts: Vec<HostEntry>,
    missing: BTreeSet<HostIndex>,
    failed: Vec<(HostIndex, String)>,
}

impl Hosts {
    pub fn new(own: HostIndex) -> Self {
        Self { own, members: BTreeMap::new(), links: BTreeMap::new(), linking: Linking::default() }
    }

    pub fn insert(&mut self, entry: HostEntry) {
        self.members.insert(entry.index, entry);
    }

    pub fn remove(&mut self, host: HostIndex) -> Option<HostEntry> {
        self.members.remove(&host)
    }

    pub fn get(&self, host: HostIndex) -> Option<&HostEntry> {
        self.members.get(&host)
    }

    pub fn contains(&self, host: HostIndex) -> bool {
        self.members.contains_key(&host)
    }

    pub fn by_name(&self, name: &str) -> Option<HostIndex> {
        self.members.values().find(|entry| entry.name == name).map(|entry| entry.index)
    }

    /// By ascending index.
    pub fn iter(&self) -> impl Iterator<Item = &HostEntry> {
        self.members.values()
    }

    /// The other members.
    pub fn others(&self) -> Vec<HostIndex> {
        self.members.keys().copied().filter(|&host| host != self.own).collect()
    }

    /// The hosts to which there are links.
    pub fn linked(&self) -> Vec<HostIndex> {
        self.links.keys().copied().collect()
    }

    /// Whether messages to this host find a way.
    pub fn is_reachable(&self, host: HostIndex) -> bool {
        host == self.own || self.links.contains_key(&host)
    }

    /// Whether a host's messages count: it is linked, and a member or about to be one. A certificate proves only that it
    /// was once meant to be; a host that is out may still have it.
    pub fn is_heard(&self, host: HostIndex) -> bool {
        let is_expected = || self.linking.hosts.iter().any(|entry| entry.index == host);
        let is_known = self.own == HostIndex::MASTER
            || host == HostIndex::MASTER
            || self.contains(host)
            || is_expected();
        is_known && self.links.contains_key(&host)
    }

    /// Slave: the master announces the table that is to be. Newcomers link up with all, the others with newcomers; of two, the
    /// one with the higher index dials. No host is a member before all have the links: a host that hears from a member knows it.
    pub fn prepare(&mut self, serial: u64, hosts: Vec<HostEntry>, out: &mut Effects) {
        let newcomer = !self.contains(self.own);
        let missing: BTreeSet<HostIndex> = hosts
            .iter()
            .map(|entry| entry.index)
            .filter(|&index| !self.is_reachable(index))
            .filter(|&index| newcomer || !self.contains(index))
            .collect();
        for entry in hosts.iter().filter(|entry| entry.index < self.own && missing.contains(&entry.index)) {
            out.act(Action::Link { entry: entry.clone() });
        }
        self.linking = Linking { serial, hosts, missing, failed: Vec::new() };
        self.acknowledge(out);
    }

    /// Slave: a link of the table that is to be stands, or cannot be made for this reason.
    pub fn settle_link(&mut self, host: HostIndex, failure: Option<String>, out: &mut Effects) {
        if self.linking.missing.remove(&host) {
            self.linking.failed.extend(failure.map(|reason| (host, reason)));
            self.acknowledge(out);
        }
    }

    /// Slave: a host that is out need not be waited for, and is not to become a member.
    pub fn forget_newcomer(&mut self, host: HostIndex, out: &mut Effects) {
        self.linking.hosts.retain(|entry| entry.index != host);
        self.linking.failed.retain(|(failed, _)| *failed != host);
        self.settle_link(host, None, out);
    }

    /// Slave: the newcomers of the announced table are members. Whether it was announced.
    pub fn commit(&mut self, serial: u64, added: &[HostIndex]) -> bool {
        if self.linking.serial != serial {
            warn!(serial, "commit of a table that was never announced: ignored");
            return false;
        }
        let newcomer = !self.contains(self.own);
        for entry in std::mem::take(&mut self.linking.hosts) {
            if newcomer || added.contains(&entry.index) {
                self.insert(entry);
            }
        }
        true
    }

    fn acknowledge(&mut self, out: &mut Effects) {
        if self.linking.missing.is_empty() {
            let (serial, failed) = (self.linking.serial, std::mem::take(&mut self.linking.failed));
            out.tell(HostIndex::MASTER, DaemonMsg::TableAck { serial, failed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Effect;

    fn host(index: u32) -> HostIndex {
        HostIndex::new(index).unwrap()
    }

    fn entry(index: u32) -> HostEntry {
        HostEntry {
            index: host(index),
            name: format!("h{index}"),
            arch: "LINUX64".to_owned(),
            speed: 1000,
            capability: 1000.0,
            task_limit: 10,
            signature: 0,
            address: None,
        }
    }

    /// The links asked for, and the hosts of each acknowledgement that could not be reached.
    fn told(effects: Effects) -> (Vec<HostIndex>, Vec<Vec<HostIndex>>) {
        let (mut links, mut acks) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Act(Action::Link { entry }) => links.push(entry.index),
                Effect::Tell(HostIndex::MASTER, DaemonMsg::TableAck { failed, .. }) => {
                    acks.push(failed.into_iter().map(|(host, _)| host).collect());
                }
                other => panic!("{other:?}"),
            }
        }
        (links, acks)
    }

    #[test]
    fn a_newcomer_is_a_member_when_it_has_all_links() {
        let mut hosts = Hosts::new(host(4));
        hosts.links.insert(HostIndex::MASTER, Link::new(HostIndex::MASTER));
        let mut out = Effects::default();
        hosts.prepare(7, [1, 2, 3, 4, 5].map(entry).into(), &mut out);
        assert_eq!(told(out), (vec![host(2), host(3)], vec![]), "5 dials");
        let mut out = Effects::default();
        hosts.settle_link(host(2), None, &mut out);
        hosts.settle_link(host(2), None, &mut out);
        hosts.settle_link(host(3), Some("refused".to_owned()), &mut out);
        hosts.forget_newcomer(host(5), &mut out);
        assert_eq!(told(out), (vec![], vec![vec![host(3)]]));
        assert!(!hosts.commit(6, &[host(4)]), "of another table");
        assert!(hosts.commit(7, &[host(4)]) && hosts.contains(host(3)) && !hosts.contains(host(5)));
        assert_eq!(hosts.others(), [host(1), host(2), host(3)]);
    }
}
