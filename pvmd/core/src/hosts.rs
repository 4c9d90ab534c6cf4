//! The host table, the links to other daemons, and the change of the table that the master has announced.

use super::event::Now;
use super::links::Link;
use super::places::Places;
use pvm_sched::allocation::Clusters;
use pvm_wire::daemon::HostEntry;
use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tracing::warn;

/// Why a host is gone that somebody has deleted.
pub(crate) const DELETED: &str = "deleted";

/// Hosts, by their index.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Members(BTreeMap<HostIndex, HostEntry>);

impl Members {
    fn of(entries: Vec<HostEntry>) -> Self {
        Self(entries.into_iter().map(|entry| (entry.index, entry)).collect())
    }

    pub fn insert(&mut self, entry: HostEntry) {
        self.0.insert(entry.index, entry);
    }

    pub fn remove(&mut self, host: HostIndex) -> Option<HostEntry> {
        self.0.remove(&host)
    }

    pub fn get(&self, host: HostIndex) -> Option<&HostEntry> {
        self.0.get(&host)
    }

    pub fn contains(&self, host: HostIndex) -> bool {
        self.0.contains_key(&host)
    }

    pub fn by_name(&self, name: &str) -> Option<HostIndex> {
        self.iter().find(|entry| entry.name == name).map(|entry| entry.index)
    }

    /// By ascending index.
    pub fn iter(&self) -> impl Iterator<Item = &HostEntry> {
        self.0.values()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The hosts before and after this one, where the first follows the last; none if there is no other.
    pub fn around(&self, own: HostIndex) -> Option<(HostIndex, HostIndex)> {
        let others = || self.0.keys().copied().filter(|&host| host != own);
        let before = self.0.range(..own).next_back().map(|(&host, _)| host).or_else(|| others().next_back());
        let next = self.0.range((Bound::Excluded(own), Bound::Unbounded)).next();
        let next = next.map(|(&host, _)| host).or_else(|| others().next());
        before.zip(next)
    }

    pub fn indices(&self) -> impl Iterator<Item = HostIndex> {
        self.0.keys().copied()
    }
}

/// The members of the virtual machine, and the links to other daemons.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// This one.
    own: HostIndex,
    /// The master; none while it is lost and no other has taken its place.
    master: Option<HostIndex>,
    members: Members,
    pub links: BTreeMap<HostIndex, Link>,
    /// Hosts to which messages may have been lost. The master decides who leaves; until then there is no link to them, for a message
    /// behind those that are lost would be out of order.
    lost: BTreeSet<HostIndex>,
    announced: Announced,
    /// The clusters of the members.
    clusters: Clusters,
    pub places: Places,
}

/// Hosts that the master has announced and that are not members yet.
#[derive(Debug, Default)]
struct Announced {
    serial: u64,
    /// The members, if this host is a newcomer itself.
    members: Members,
    added: Members,
}

impl Announced {
    fn get(&self, host: HostIndex) -> Option<&HostEntry> {
        self.added.get(host).or_else(|| self.members.get(host))
    }
}

impl Hosts {
    pub fn new(own: HostIndex, master: HostIndex) -> Self {
        Self {
            own,
            master: Some(master),
            members: Members::default(),
            links: BTreeMap::new(),
            lost: BTreeSet::new(),
            announced: Announced::default(),
            clusters: Clusters::default(),
            places: Places::default(),
        }
    }

    /// Where a task lives.
    pub fn place(&self, tid: Tid) -> Option<HostIndex> {
        self.places.find(tid)
    }

    /// Whether a task lives on this host.
    pub fn lives_here(&self, tid: Tid) -> bool {
        self.place(tid) == Some(self.own)
    }

    /// The master, unless it is lost.
    pub fn master(&self) -> Option<HostIndex> {
        self.master
    }

    pub fn set_master(&mut self, master: Option<HostIndex>) {
        self.master = master;
    }

    /// Whether this host is the master.
    pub fn is_master(&self) -> bool {
        self.master == Some(self.own)
    }

    pub fn insert(&mut self, entry: HostEntry) {
        self.note_cluster(&entry);
        self.members.insert(entry);
    }

    fn note_cluster(&mut self, entry: &HostEntry) {
        if let Some(cluster) = &entry.cluster {
            self.clusters.insert(entry.index.get() as usize, &cluster.name, cluster.domain.as_deref());
        }
    }

    pub fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    /// The link to a host is broken or could not be made.
    pub fn lose(&mut self, host: HostIndex) {
        self.lost.insert(host);
    }

    pub fn get(&self, host: HostIndex) -> Option<&HostEntry> {
        self.members.get(host)
    }

    pub fn contains(&self, host: HostIndex) -> bool {
        self.members.contains(host)
    }

    pub fn by_name(&self, name: &str) -> Option<HostIndex> {
        self.members.by_name(name)
    }

    /// By ascending index.
    pub fn iter(&self) -> impl Iterator<Item = &HostEntry> {
        self.members.iter()
    }

    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The other members.
    pub fn others(&self) -> Vec<HostIndex> {
        self.members.indices().filter(|&host| host != self.own).collect()
    }

    /// The hosts to which there are links that messages can take at once.
    pub fn linked(&self) -> Vec<HostIndex> {
        self.links.iter().filter(|(_, link)| link.is_open()).map(|(&host, _)| host).collect()
    }

    /// A host that is a member, or that the master has announced.
    pub fn known(&self, host: HostIndex) -> Option<&HostEntry> {
        self.get(host).or_else(|| self.announced.get(host))
    }

    /// Whether messages to this host find a way.
    pub fn is_reachable(&self, host: HostIndex) -> bool {
        host == self.own || self.links.contains_key(&host) || self.can_be_dialled(host)
    }

    /// Whether this daemon may make a link to that host when it has something to say. The master links with its slaves when they are
    /// added, or when it takes the place of another, and the first master is never dialled.
    pub fn can_be_dialled(&self, host: HostIndex) -> bool {
        !self.is_master() && self.has_address(host)
    }

    fn has_address(&self, host: HostIndex) -> bool {
        host != self.own
            && !self.lost.contains(&host)
            && self.known(host).is_some_and(|entry| entry.address.is_some())
    }

    /// Whether a link with this host is wanted. A certificate proves only that the host was once meant to be a member; a
    /// host that is out may still have it.
    pub fn is_welcome(&self, host: HostIndex) -> bool {
        self.master == Some(host) || self.known(host).is_some() && !self.lost.contains(&host)
    }

    /// A message of a host has come: whether it counts, which it does as long as there is a link.
    pub fn hears(&mut self, host: HostIndex, now: Now) -> bool {
        self.links.get_mut(&host).map(|link| link.note_use(now)).is_some()
    }

    /// The master announces hosts that are to be members; to a newcomer, all. No host is a member before all know it: a
    /// message of a member, or about one, never comes from a host that is unknown.
    pub fn prepare(&mut self, serial: u64, members: Vec<HostEntry>, added: Vec<HostEntry>) {
        self.announced = Announced { serial, members: Members::of(members), added: Members::of(added) };
    }

    /// A host is out, and is not to become a member: its entry if it was a member. To a newcomer all members are announced at first.
    pub fn remove(&mut self, host: HostIndex) -> Option<HostEntry> {
        self.announced.added.remove(host);
        self.lost.remove(&host);
        self.clusters.remove(host.get() as usize);
        self.members.remove(host).or(self.announced.members.remove(host))
    }

    /// The announced hosts are members: the newcomers among them, if this table was announced.
    pub fn commit(&mut self, serial: u64) -> Option<Vec<HostIndex>> {
        if self.announced.serial != serial {
            warn!(serial, "commit of a table that was never announced: ignored");
            return None;
        }
        let Announced { members, added, .. } = std::mem::take(&mut self.announced);
        self.announced.serial = serial;
        let newcomers = added.indices().collect();
        for (_, entry) in members.0.into_iter().chain(added.0) {
            self.insert(entry);
        }
        Some(newcomers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            cluster: None,
            address: Some("127.80.0.2:1".parse().unwrap()),
        }
    }

    #[test]
    fn an_announced_host_is_known_and_is_a_member_when_the_table_is_committed() {
        let mut hosts = Hosts::new(host(2), HostIndex::MASTER);
        hosts.prepare(7, [1, 2, 5].map(entry).into(), [3, 4].map(entry).into());
        assert!(hosts.is_welcome(host(3)) && !hosts.contains(host(3)));
        assert!(hosts.can_be_dialled(host(3)) && !hosts.can_be_dialled(host(2)), "another, and itself");
        assert_eq!(hosts.remove(host(4)), None, "it was no member");
        assert_eq!(hosts.remove(host(5)).map(|entry| entry.index), Some(host(5)), "it was one");
        assert!(!hosts.is_welcome(host(4)), "it is out");
        assert_eq!(hosts.commit(6), None, "of another table");
        assert_eq!(hosts.commit(7), Some(vec![host(3)]));
        assert!(hosts.contains(host(3)) && !hosts.contains(host(4)));
        assert_eq!(hosts.others(), [host(1), host(3)]);
        assert!(!hosts.hears(host(3), Now::ZERO), "there is no link");
    }

    #[test]
    fn a_lost_host_is_neither_dialled_nor_welcome() {
        let mut hosts = Hosts::new(host(2), HostIndex::MASTER);
        hosts.insert(entry(3));
        assert!(hosts.can_be_dialled(host(3)) && hosts.is_welcome(host(3)));
        hosts.lose(host(3));
        assert!(!hosts.can_be_dialled(host(3)) && !hosts.is_welcome(host(3)) && !hosts.is_reachable(host(3)));
        hosts.remove(host(3));
        hosts.insert(entry(3));
        assert!(hosts.is_reachable(host(3)), "another host has its index");
    }

    #[test]
    fn the_master_dials_and_is_never_dialled() {
        let mut hosts = Hosts::new(host(2), HostIndex::MASTER);
        hosts.insert(HostEntry { address: None, ..entry(1) });
        assert!(!hosts.can_be_dialled(HostIndex::MASTER) && !hosts.is_reachable(HostIndex::MASTER));
    }
}
