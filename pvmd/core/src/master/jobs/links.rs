//! The links between clusters of hosts whose bandwidths the hostfile does not say: they are measured, one pair of clusters at a time.
//!
//! The heads of two clusters, their hosts of the least index, measure what one can send to the other. That is the bandwidth of the
//! narrower one of the two links, so that the greatest of several measurements of a link is the nearest to its own bandwidth.

use super::Jobs;
use crate::effect::{Effect, Effects};
use pvm_wire::HostIndex;
use pvm_wire::daemon::FromMaster;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tracing::info;

/// Other clusters with which each is measured, at most.
const PARTNERS: usize = 4;

/// A cluster; `None`: the hosts without one, at the centre of the star.
type Place = Option<String>;

/// What is measured, and what has been.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Links {
    /// The clusters whose links are to be measured, with what is known of them.
    wanted: BTreeMap<String, Option<u64>>,
    hosts: BTreeMap<Place, BTreeSet<HostIndex>>,
    /// The pairs that have been measured.
    done: BTreeSet<(String, Place)>,
    running: Option<Running>,
}

/// A measurement under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Running {
    cluster: String,
    partner: Place,
    from: HostIndex,
    to: HostIndex,
}

impl Links {
    pub fn new(wanted: BTreeSet<String>) -> Self {
        Self { wanted: wanted.into_iter().map(|cluster| (cluster, None)).collect(), ..Self::default() }
    }

    pub fn host_joined(&mut self, host: HostIndex, cluster: Place) {
        self.hosts.entry(cluster).or_default().insert(host);
    }

    /// A measurement with a host that is lost is made again, with another head.
    pub fn host_gone(&mut self, host: HostIndex) {
        self.hosts.values_mut().for_each(|hosts| _ = hosts.remove(&host));
        self.hosts.retain(|_, hosts| !hosts.is_empty());
        self.running.take_if(|running| [running.from, running.to].contains(&host));
    }

    fn head(&self, place: &Place) -> Option<HostIndex> {
        self.hosts.get(place)?.first().copied()
    }

    /// The next measurement, unless one is under way: from which host, and to which.
    fn next(&mut self) -> Option<(HostIndex, HostIndex)> {
        if self.running.is_some() {
            return None;
        }
        let possible = self.wanted.keys().filter_map(|cluster| {
            let from = self.head(&Some(cluster.clone()))?;
            let is_done = |partner: &&Place| self.done.contains(&(cluster.clone(), Place::clone(partner)));
            let done = self.hosts.keys().filter(is_done).count();
            // The centre comes first, which has no link of its own.
            let mut others = self.hosts.keys().filter(|partner| partner.as_ref() != Some(cluster));
            let partner = others.find(|partner| !is_done(partner)).filter(|_| done < PARTNERS)?.clone();
            let to = self.head(&partner)?;
            Some((done, Running { cluster: cluster.clone(), partner, from, to }))
        });
        let (_, running) = possible.min_by_key(|(done, _)| *done)?;
        let heads = (running.from, running.to);
        self.running = Some(running);
        Some(heads)
    }

    /// A host has measured what it can send to another one: the clusters of whose links more is known now.
    fn measured(&mut self, (from, to): (HostIndex, HostIndex), bandwidth: Option<u64>) -> Vec<(String, u64)> {
        let Some(Running { cluster, partner, .. }) =
            self.running.take_if(|running| (running.from, running.to) == (from, to))
        else {
            return Vec::new();
        };
        let mut changed = Vec::new();
        for of in [Some(&cluster), partner.as_ref()].into_iter().flatten() {
            if let Some(known) = self.wanted.get_mut(of).filter(|known| **known < bandwidth) {
                *known = bandwidth;
                changed.extend(bandwidth.map(|bandwidth| (of.clone(), bandwidth)));
            }
        }
        if let Some(partner) = &partner {
            self.done.insert((partner.clone(), Some(cluster.clone())));
        }
        self.done.insert((cluster, partner));
        changed
    }
}

impl Jobs {
    /// Has the next link measured, if there is one.
    pub fn measure_links(&mut self, out: &mut Effects) {
        if let Some((from, to)) = self.links.next() {
            out.push(Effect::Order(from, FromMaster::MeasureLink { to }));
        }
    }

    /// A host has measured what it can send to another one.
    pub fn link_measured(
        &mut self,
        hosts: (HostIndex, HostIndex),
        bandwidth: Option<u64>,
        out: &mut Effects,
    ) {
        for (cluster, bandwidth) in self.links.measured(hosts, bandwidth) {
            info!(cluster, bandwidth, "the link of a cluster has been measured, in bits per second");
            self.scheduler.note_bandwidth(&cluster, bandwidth, self.now);
        }
        self.measure_links(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(index: u32) -> HostIndex {
        HostIndex::new(index).expect("an index")
    }

    /// Clusters of one host, those from 1 on, and one at the centre.
    fn star(clusters: &[&str]) -> Links {
        let mut links = Links::new(clusters.iter().map(|&cluster| cluster.to_owned()).collect());
        for (index, &cluster) in (2..).zip(clusters) {
            links.host_joined(host(index), Some(cluster.to_owned()));
        }
        links
    }

    /// Measures all; bandwidths of the links of hosts by their indices, the centre's first.
    fn measure(links: &mut Links, bandwidths: &[u64]) -> usize {
        let of = |host: HostIndex| bandwidths[host.get() as usize - 1];
        let mut count = 0;
        while let Some((from, to)) = links.next() {
            assert_eq!(links.next(), None, "one at a time");
            links.measured((from, to), Some(of(from).min(of(to))));
            count += 1;
        }
        count
    }

    #[test]
    fn a_link_is_as_wide_as_the_most_that_was_measured() {
        let mut links = star(&["a", "b", "c"]);
        assert_eq!(measure(&mut links, &[u64::MAX, 10, 20, 30]), 3);
        let known = |links: &Links| links.wanted.values().copied().collect::<Vec<_>>();
        // Nothing is wider than c's but the centre.
        assert_eq!(known(&links), [Some(10), Some(20), Some(20)]);
        links.host_joined(HostIndex::MASTER, None);
        assert_eq!(measure(&mut links, &[u64::MAX, 10, 20, 30]), 3);
        assert_eq!(known(&links), [Some(10), Some(20), Some(30)]);
        // The centre comes first.
        let mut links = star(&["a", "b"]);
        links.host_joined(HostIndex::MASTER, None);
        let mut partners = Vec::new();
        while let Some((from, to)) = links.next() {
            partners.push(to.get());
            links.measured((from, to), Some(1));
        }
        assert_eq!(partners, [1, 1, 3]);
        // A host more of a cluster changes nothing.
        links.host_joined(host(9), Some("a".to_owned()));
        assert_eq!(links.next(), None);
    }

    #[test]
    fn links_that_the_hostfile_names_are_not_measured() {
        let mut links = star(&["a"]);
        assert_eq!(links.next(), None, "there is no other cluster");
        links.host_joined(host(3), Some("given".to_owned()));
        assert_eq!(measure(&mut links, &[9, 8, 7]), 1);
        assert_eq!(links.wanted, [("a".to_owned(), Some(7))].into());
    }

    #[test]
    fn a_lost_head_is_replaced_by_the_next_host() {
        let mut links = star(&["a"]);
        links.host_joined(HostIndex::MASTER, None);
        links.host_joined(host(5), Some("a".to_owned()));
        assert_eq!(links.next(), Some((host(2), HostIndex::MASTER)));
        links.host_gone(host(2));
        assert_eq!(links.next(), Some((host(5), HostIndex::MASTER)));
        // What the lost one has said still counts for nothing.
        assert_eq!(links.measured((host(2), HostIndex::MASTER), Some(1)), []);
        assert_eq!(links.measured((host(5), HostIndex::MASTER), Some(2)), [("a".to_owned(), 2)]);
        assert_eq!(links.next(), None);
    }

    #[test]
    fn many_clusters_are_measured_with_some_others() {
        let names: Vec<String> = (0..50).map(|number| format!("c{number:02}")).collect();
        let mut links = star(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let count = measure(&mut links, &[7; 51]);
        assert!((50..=50 * PARTNERS).contains(&count), "{count}");
        assert!(links.wanted.values().all(|known| *known == Some(7)));
    }
}
