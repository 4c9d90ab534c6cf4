//! The links between clusters of hosts: what parallel jobs ask of them, and when the jobs end by the model of co-allocation.
//!
//! A job asks nothing of any link while it has hosts of one cluster only, or names no bandwidth. Hosts without a cluster are at the
//! centre of the star: they have no link that could be congested.

use super::Scheduler;
use super::hosts::Node;
use crate::coallocation::Progress;
use crate::coallocation::model::{congestion_factor, execution_time, flex_factor, link_demand};
use pvm_wire::jobs::HostCluster;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A change of the flex factor that is no more than rounding.
const ROUNDING: f64 = 1e-12;

/// The run of a parallel job: where it is, and how far by the model. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Its tasks in each cluster; `None` stands for the hosts without a cluster.
    pub shares: BTreeMap<Option<String>, u32>,
    /// The greatest `h` of these clusters at its start.
    pub factor: f64,
    /// When it started.
    pub started: u64,
    /// Bits per second between two of its tasks.
    bandwidth: u64,
    /// When its flex factor changed last, what it is, and its sum over the time until then.
    changed: u64,
    ff: f64,
    sum: f64,
    /// `None`: its run time is not known.
    progress: Option<Progress>,
}

impl Spread {
    /// Whether it uses links.
    pub fn spans(&self) -> bool {
        self.shares.len() > 1
    }

    /// What it asks of the link of a cluster, in bits per second.
    fn demand(&self, tasks: u32) -> f64 {
        link_demand(self.bandwidth as f64, tasks, self.shares.values().sum())
    }

    /// The mean of its flex factor until a time.
    pub fn mean_flex(&self, now: u64) -> f64 {
        let time = now.saturating_sub(self.started) as f64;
        let sum = self.sum + self.ff * now.saturating_sub(self.changed) as f64;
        if time > 0.0 { sum / time } else { self.ff }
    }

    /// When it ends by the model, if its run time is known.
    pub fn end(&self) -> Option<u64> {
        // A sum that is too great for a number of milliseconds becomes the greatest.
        self.progress.map(|progress| self.changed.saturating_add(progress.left().ceil() as u64))
    }

    /// Its links are as free as this from now on.
    fn change(&mut self, ff: f64, now: u64) {
        if (ff - self.ff).abs() <= ROUNDING {
            return;
        }
        let spent = now.saturating_sub(self.changed) as f64;
        self.sum += self.ff * spent;
        if let Some(progress) = &mut self.progress {
            progress.change(spent, ff);
        }
        (self.changed, self.ff) = (self.changed.max(now), ff);
    }
}

impl<H: Copy + Ord> Scheduler<H> {
    /// The clusters that hosts may be in, and the bandwidths of their links in bits per second, where they are known.
    pub fn set_links(&mut self, links: BTreeMap<String, Option<u64>>) {
        self.links = links;
    }

    /// Whether there is a cluster of hosts of this name.
    pub fn has_cluster(&self, name: &str) -> bool {
        let has = |node: &Node| node.host.cluster.as_deref() == Some(name);
        self.links.contains_key(name) || self.hosts.values().any(has)
    }

    /// The names of all clusters of hosts.
    pub fn cluster_names(&self) -> BTreeSet<String> {
        let of_hosts = self.hosts.values().filter_map(|node| node.host.cluster.as_ref());
        self.links.keys().chain(of_hosts).cloned().collect()
    }

    /// The cluster of a host.
    pub fn cluster_of(&self, host: H) -> Option<&str> {
        self.hosts.get(&host)?.host.cluster.as_deref()
    }

    /// `h` of each cluster that has hosts: the speed of the fastest cluster's slots divided by the speed of its own.
    pub(super) fn factors(&self) -> BTreeMap<Option<&str>, f64> {
        let mut sums: BTreeMap<Option<&str>, (f64, f64)> = BTreeMap::new();
        for Node { host, .. } in self.hosts.values() {
            let (capability, slots) = sums.entry(host.cluster.as_deref()).or_default();
            *capability += host.capability.max(1.0);
            *slots += f64::from(host.slots.max(1));
        }
        let speeds: BTreeMap<Option<&str>, f64> =
            sums.into_iter().map(|(name, (capability, slots))| (name, capability / slots)).collect();
        let fastest = speeds.values().copied().fold(0.0, f64::max);
        speeds.into_iter().map(|(name, speed)| (name, fastest / speed)).collect()
    }

    /// `CF` of the link of a cluster.
    pub(super) fn congestion(&self, cluster: Option<&str>) -> f64 {
        let bandwidth = cluster.and_then(|name| self.links.get(name).copied().flatten());
        let demand = cluster.and_then(|name| self.link_demand.get(name)).copied().unwrap_or(0.0);
        bandwidth.map_or(f64::INFINITY, |bandwidth| congestion_factor(bandwidth as f64, demand))
    }

    /// All clusters, those of whose hosts none is in the machine as well.
    pub fn clusters(&self) -> Vec<HostCluster> {
        let mut all: BTreeMap<Option<&str>, Vec<&Node>> =
            self.links.keys().map(|name| (Some(name.as_str()), Vec::new())).collect();
        for node in self.hosts.values() {
            all.entry(node.host.cluster.as_deref()).or_default().push(node);
        }
        let factors = self.factors();
        let state = |(name, nodes): (Option<&str>, Vec<&Node>)| HostCluster {
            name: name.map(str::to_owned),
            hosts: nodes.iter().map(|node| node.host.name.clone()).collect(),
            slots: nodes.iter().fold(0, |sum, node| sum.saturating_add(node.host.slots)),
            free: nodes.iter().fold(0, |sum, node| sum.saturating_add(node.free())),
            factor: factors.get(&name).copied().unwrap_or(1.0),
            bandwidth: name.and_then(|name| self.links.get(name).copied().flatten()),
            demand: name.and_then(|name| self.link_demand.get(name)).copied().unwrap_or(0.0),
            congestion: Some(self.congestion(name)).filter(|factor| factor.is_finite()),
        };
        all.into_iter().map(state).collect()
    }

    /// A parallel job starts.
    pub(super) fn note_start(&mut self, id: u64, parts: &[(H, u32)], now: u64) {
        let Some(bandwidth) = self.jobs.get(&id).map(|job| job.demand.bandwidth) else { return };
        let mut shares = BTreeMap::new();
        for (host, count) in parts {
            *shares.entry(self.cluster_of(*host).map(str::to_owned)).or_default() += count;
        }
        let factors = self.factors();
        let own = shares.keys().filter_map(|name| factors.get(&name.as_deref()).copied());
        let factor = execution_time(1.0, 1.0, own);
        let spread = Spread {
            shares,
            factor,
            started: now,
            bandwidth,
            changed: now,
            ff: 1.0,
            sum: 0.0,
            progress: None,
        };
        let uses_links = spread.spans() && bandwidth > 0;
        self.spreads.insert(id, spread);
        if uses_links {
            self.load_links(now);
        }
    }

    /// A parallel job has ended.
    pub(super) fn note_end(&mut self, id: u64, now: u64) {
        let Some(spread) = self.spreads.remove(&id) else { return };
        if spread.spans() && spread.bandwidth > 0 {
            self.load_links(now);
        }
    }

    /// A job has begun or ceased to use links: congestion changes, and with it the ends of all that use them.
    fn load_links(&mut self, now: u64) {
        let mut demands: BTreeMap<String, f64> = BTreeMap::new();
        for spread in self.spreads.values().filter(|spread| spread.spans() && spread.bandwidth > 0) {
            for (cluster, &tasks) in &spread.shares {
                if let Some(cluster) = cluster {
                    *demands.entry(cluster.clone()).or_default() += spread.demand(tasks);
                }
            }
        }
        self.link_demand = demands;
        let mut spreads = std::mem::take(&mut self.spreads);
        for spread in spreads.values_mut().filter(|spread| spread.spans() && spread.bandwidth > 0) {
            let factors = spread.shares.keys().map(|name| self.congestion(name.as_deref()));
            let ff = flex_factor(factors);
            spread.change(ff, now);
        }
        self.spreads = spreads;
    }

    /// The run of a parallel job, while it runs.
    pub fn spread(&self, id: u64) -> Option<&Spread> {
        self.spreads.get(&id)
    }

    /// How long a job that has just started takes: `T_0` on the fastest cluster, and the communication time that is added on free links
    /// when it spans clusters; milliseconds.
    pub fn expect_run(&mut self, id: u64, run: u64, communication: u64) {
        let Some(spread) = self.spreads.get_mut(&id) else { return };
        let execution = execution_time(run as f64, 1.0, [spread.factor]);
        let communication = if spread.spans() { communication as f64 } else { 0.0 };
        let mut progress = Progress::new(execution, communication);
        progress.change(0.0, spread.ff);
        spread.progress = Some(progress);
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
