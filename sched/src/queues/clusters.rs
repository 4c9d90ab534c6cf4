//! Where a parallel job goes: on as few hosts as can be, or over the clusters of hosts by a strategy of co-allocation.

use super::fit::{Slots, together};
use super::hosts::Node;
use super::queue::{Demand, Queue, Width};
use super::{Refusal, Scheduler};
use crate::coallocation::{Site, Strategy};
use std::collections::{BTreeMap, BTreeSet};

/// The place of a cluster that has no host for the job.
const NOWHERE: usize = usize::MAX;

/// How the tasks of a parallel job are placed.
#[derive(Debug)]
pub(super) struct Placing<H> {
    width: u32,
    /// Slots of each task.
    each: u32,
    over: Option<Over<H>>,
}

/// By a strategy, over clusters.
#[derive(Debug)]
struct Over<H> {
    strategy: Strategy,
    home: usize,
    site_of: BTreeMap<H, usize>,
    /// The clusters; what is free of them is not said here.
    sites: Vec<Site>,
}

impl<H: Copy + Ord> Placing<H> {
    /// On as few hosts as can be.
    pub fn on_few_hosts(width: u32, each: u32) -> Self {
        Self { width, each, over: None }
    }

    pub fn each(&self) -> u32 {
        self.each.max(1)
    }

    /// The cluster of a host: its place among the rooms.
    pub fn site(&self, host: H) -> usize {
        self.over.as_ref().and_then(|over| over.site_of.get(&host)).copied().unwrap_or(0)
    }

    /// For how many tasks each cluster has room.
    pub fn rooms(&self, free: &Slots<H>) -> Vec<u64> {
        let mut rooms = vec![0; self.over.as_ref().map_or(1, |over| over.sites.len().max(1))];
        for (&host, &slots) in free {
            rooms[self.site(host)] += u64::from(slots / self.each());
        }
        rooms
    }

    /// How many tasks could start at once in these rooms.
    pub fn reach(&self, rooms: &[u64]) -> u64 {
        match &self.over {
            Some(over) => over.strategy.reach(over.home, &over.with(rooms)).into(),
            None => rooms.iter().sum(),
        }
    }

    /// Whether all tasks could start at once in these rooms.
    pub fn fits(&self, rooms: &[u64]) -> bool {
        self.reach(rooms) >= self.width.into()
    }

    /// Places all tasks, or none.
    pub fn place(&self, free: &Slots<H>) -> Option<Vec<(H, u32)>> {
        let Some(over) = &self.over else { return together(free, self.width, self.each) };
        let sites = over.with(&self.rooms(free));
        let shares = over.strategy.allocate(self.width, over.home, &sites)?;
        let mut parts = Vec::new();
        for share in shares {
            let of = free.iter().filter(|&(&host, _)| self.site(host) == share.site);
            let of: Slots<H> = of.map(|(&host, &slots)| (host, slots)).collect();
            parts.extend(together(&of, share.nodes, self.each)?);
        }
        Some(parts)
    }

    /// Sets of hosts, each of which the job may have alone: all of these, or of a job that spans no clusters those of each cluster.
    pub fn alternatives(&self, hosts: &BTreeSet<H>) -> Vec<BTreeSet<H>> {
        match &self.over {
            Some(over) if !over.strategy.spans() => {
                let of = |site| hosts.iter().copied().filter(|&host| self.site(host) == site).collect();
                (0..over.sites.len()).map(of).filter(|of: &BTreeSet<H>| !of.is_empty()).collect()
            }
            _ => vec![hosts.clone()],
        }
    }
}

impl<H> Over<H> {
    fn with(&self, rooms: &[u64]) -> Vec<Site> {
        let free = |room: &u64| u32::try_from(*room).unwrap_or(u32::MAX);
        self.sites.iter().zip(rooms).map(|(&site, room)| Site { free: free(room), ..site }).collect()
    }
}

impl<H: Copy + Ord> Scheduler<H> {
    /// How the queue places a parallel job.
    pub(super) fn placing(&self, width: u32, demand: &Demand, queue: &Queue) -> Placing<H> {
        let each = demand.slots;
        let Some(strategy) = queue.coallocation else { return Placing::on_few_hosts(width, each) };
        let is_its = |(_, node): &(&H, &Node)| self.is_for(demand, queue, node);
        let hosts: Vec<(H, Option<&str>)> = self
            .hosts
            .iter()
            .filter(is_its)
            .map(|(&host, node)| (host, node.host.cluster.as_deref()))
            .collect();
        let names: BTreeSet<Option<&str>> = hosts.iter().map(|&(_, cluster)| cluster).collect();
        let names: Vec<Option<&str>> = names.into_iter().collect();
        let place = |name: Option<&str>| names.binary_search(&name).unwrap_or(NOWHERE);
        let factors = self.factors();
        let site = |name: Option<&str>| Site {
            free: 0,
            factor: factors.get(&name).copied().unwrap_or(1.0),
            congestion: self.congestion(name),
        };
        let over = Over {
            strategy,
            home: place(demand.home.as_deref()),
            sites: names.iter().copied().map(site).collect(),
            site_of: hosts.into_iter().map(|(host, cluster)| (host, place(cluster))).collect(),
        };
        Placing { width, each, over: Some(over) }
    }

    /// Why a parallel job can never start in the clusters that there are, if it cannot; `more` is the room of hosts that can be had, in slots.
    pub(super) fn refuse_by_clusters(&self, demand: &Demand, queue: &Queue, more: u32) -> Option<Refusal> {
        let (Width::Rigid(width), Some(strategy)) = (demand.width, queue.coallocation) else { return None };
        let placing = self.placing(width, demand, queue);
        let is_its = |(_, node): &(&H, &Node)| self.is_for(demand, queue, node);
        let slots = self.hosts.iter().filter(is_its).map(|(&host, node)| (host, node.host.slots)).collect();
        let tasks = placing.reach(&placing.rooms(&slots));
        if tasks + u64::from(more / placing.each()) >= width.into() {
            return None;
        }
        let has = u32::try_from(tasks).unwrap_or(u32::MAX).saturating_mul(placing.each());
        let (queue, wants, home) = (queue.name.clone(), demand.least(), demand.home.clone());
        Some(match strategy {
            Strategy::NoShare => Refusal::Home { queue, wants, has, home: of_cluster(home.as_deref()) },
            _ => Refusal::Cluster { queue, wants, has },
        })
    }
}

/// A cluster in a sentence.
fn of_cluster(name: Option<&str>) -> String {
    name.map_or_else(|| "the hosts without a cluster".to_owned(), |name| format!("cluster {name}"))
}

#[cfg(test)]
#[path = "clusters_tests.rs"]
mod tests;
