//! The links between clusters of hosts: what parallel jobs ask of them, and when the jobs end by the model of co-allocation.
//!
//! A job asks nothing of any link while it has hosts of one cluster only. Of the others each asks for the bandwidth that it names, or for
//! what it is seen to send ([`super::meter`]), if that is more. Hosts without a cluster are at the centre of the star: they have no link
//! that could be congested.

use super::Scheduler;
use super::hosts::Node;
use super::meter::Meter;
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
    /// Bits per second between two of its tasks, as far as they are known without measuring.
    pub bandwidth: u64,
    meter: Meter,
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
    fn demand(&self, cluster: &str, tasks: u32) -> f64 {
        link_demand(self.bandwidth as f64, tasks, self.width()).max(self.meter.rate(cluster))
    }

    fn width(&self) -> u32 {
        self.shares.values().sum()
    }

    /// Whether it is known to send anything over links.
    fn uses_links(&self) -> bool {
        self.bandwidth > 0 || self.meter.has_rates()
    }

    /// Bits per second between two of its tasks on average until a time, as the model has it: what it has sent between clusters is what
    /// that bandwidth leads to.
    pub fn measured(&self, now: u64) -> Option<u64> {
        let (lasted, width) = (now.saturating_sub(self.started), self.width());
        let crossing: f64 = self.shares.values().map(|&tasks| link_demand(1.0, tasks, width)).sum();
        (self.spans() && lasted > 0 && crossing > 0.0)
            .then(|| (self.meter.mean(lasted) / crossing).round() as u64)
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

    /// The bandwidth of a cluster's link has been measured, in bits per second; with none at all the model would divide by 0.
    pub fn note_bandwidth(&mut self, cluster: &str, bandwidth: u64, now: u64) {
        self.links.insert(cluster.to_owned(), Some(bandwidth.max(1)));
        self.measured_links.insert(cluster.to_owned());
        self.load_links(now);
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
            is_bandwidth_measured: name.is_some_and(|name| self.measured_links.contains(name)),
            measured: name.map_or(0.0, |name| self.measured_rate(name)),
            demand: name.and_then(|name| self.link_demand.get(name)).copied().unwrap_or(0.0),
            congestion: Some(self.congestion(name)).filter(|factor| factor.is_finite()),
        };
        all.into_iter().map(state).collect()
    }

    /// What jobs have sent lately over the link of a cluster, in bits per second.
    fn measured_rate(&self, cluster: &str) -> f64 {
        self.spreads.values().fold(0.0, |sum, spread| sum + spread.meter.rate(cluster))
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
            meter: Meter::new(now),
            changed: now,
            ff: 1.0,
            sum: 0.0,
            progress: None,
        };
        let spans = spread.spans();
        self.spreads.insert(id, spread);
        if spans {
            self.load_links(now);
        }
    }

    /// A parallel job has ended.
    pub(super) fn note_end(&mut self, id: u64, now: u64) {
        let Some(spread) = self.spreads.remove(&id) else { return };
        if spread.spans() {
            self.load_links(now);
        }
    }

    /// Tasks of a parallel job on one host have sent something to another one.
    pub fn note_sent(&mut self, id: u64, (from, to): (H, H), bytes: u64) {
        let clusters = |host| self.hosts.get(&host).map(|node| node.host.cluster.as_deref());
        if let (Some(from), Some(to), Some(spread)) =
            (clusters(from), clusters(to), self.spreads.get_mut(&id))
        {
            spread.meter.count(from, to, bytes);
        }
    }

    /// Whether there are jobs whose tasks count what they send to other clusters.
    pub fn measures(&self) -> bool {
        self.spreads.values().any(Spread::spans)
    }

    /// What jobs have sent counts from now on, if enough time has passed.
    pub(super) fn read_meters(&mut self, now: u64) {
        let mut has_read = false;
        for spread in self.spreads.values_mut().filter(|spread| spread.spans()) {
            has_read |= spread.meter.close(now);
        }
        if has_read {
            self.load_links(now);
        }
    }

    /// Two tasks of a job that has just started are known to send this number of bits per second to each other, unless it says so itself.
    pub fn expect_bandwidth(&mut self, id: u64, bandwidth: u64, now: u64) {
        if let Some(spread) =
            self.spreads.get_mut(&id).filter(|spread| spread.spans() && spread.bandwidth == 0)
        {
            spread.bandwidth = bandwidth;
            self.load_links(now);
        }
    }

    /// What a job asks of links has changed: congestion changes, and with it the ends of all that use them.
    fn load_links(&mut self, now: u64) {
        let mut demands: BTreeMap<String, f64> = BTreeMap::new();
        for spread in self.spreads.values().filter(|spread| spread.spans()) {
            for (cluster, &tasks) in &spread.shares {
                let demand = cluster.as_ref().map_or(0.0, |cluster| spread.demand(cluster, tasks));
                if let Some(cluster) = cluster.as_ref().filter(|_| demand > 0.0) {
                    *demands.entry(cluster.clone()).or_default() += demand;
                }
            }
        }
        self.link_demand = demands;
        let mut spreads = std::mem::take(&mut self.spreads);
        for spread in spreads.values_mut().filter(|spread| spread.spans()) {
            let factors = spread.shares.keys().map(|name| self.congestion(name.as_deref()));
            let ff = if spread.uses_links() { flex_factor(factors) } else { 1.0 };
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
