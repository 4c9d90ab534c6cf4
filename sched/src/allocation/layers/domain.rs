//! The middle layer: what is known of the clusters of a domain, and the scheduler that selects some of them.

use super::super::agent::Scene;
use super::super::census::Census;
use super::{Hosts, Layer, Message, Room, Search};
use crate::coallocation::{Site, Strategy};
use std::collections::BTreeSet;

/// The scheduler of a domain, with its information service.
#[derive(Clone, Debug, Default)]
pub(super) struct Domain {
    /// The clusters, by their heads.
    clusters: Census<Room>,
    /// The executor that wants to know how they change, and whether it has heard of all of them.
    executor: Option<(usize, bool)>,
    /// Clusters of which it has not heard the last.
    untold: BTreeSet<usize>,
    /// Searches that wait until all clusters are known.
    waiting: Vec<Search>,
}

impl Domain {
    /// The executor wants to know which clusters there are.
    pub fn described(&mut self, executor: usize, scene: &mut Scene<'_, Message>) {
        self.executor = Some((executor, false));
        self.ask(scene);
    }

    fn ask(&mut self, scene: &mut Scene<'_, Message>) {
        let heads = scene.clusters.heads_in_domain(scene.own, scene.hosts);
        self.clusters.take_of(&heads, || Message::Describe(Layer::Cluster), scene);
    }

    pub fn joined(&mut self, scene: &mut Scene<'_, Message>) {
        if !self.clusters.is_unused() {
            self.ask(scene);
        }
    }

    pub fn cluster_changed(&mut self, head: usize, room: Room) {
        self.clusters.answered(head, room);
        self.untold.insert(head);
    }

    pub fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.clusters.gone(host);
        self.untold.remove(&host);
        self.executor = self.executor.filter(|&(executor, _)| executor != host);
        self.waiting.retain(|search| search.home != host);
        self.joined(scene);
    }

    /// A home of the domain wants processors.
    pub fn wanted(&mut self, search: Search, scene: &mut Scene<'_, Message>) {
        self.waiting.retain(|other| !other.is_for(search.home, search.request));
        self.waiting.push(search);
        self.ask(scene);
    }

    pub fn is_behind(&self) -> bool {
        self.executor.is_some() && self.clusters.is_complete() && !self.untold.is_empty()
    }

    pub fn tell(&mut self, is_due: bool, scene: &mut Scene<'_, Message>) {
        if !self.clusters.is_complete() {
            return;
        }
        match &mut self.executor {
            Some((executor, knows_all @ false)) => {
                *knows_all = true;
                let clusters = self.clusters.iter().map(|(head, room)| (head, *room)).collect();
                scene.send(*executor, Message::Domain(clusters));
                self.untold.clear();
            }
            Some((executor, _)) if is_due && !self.untold.is_empty() => {
                let told = self.clusters.iter().filter(|(head, _)| self.untold.contains(head));
                scene.send(*executor, Message::Domain(told.map(|(head, room)| (head, *room)).collect()));
                self.untold.clear();
            }
            _ => {}
        }
        for search in std::mem::take(&mut self.waiting) {
            let heads = scene.clusters.heads_in_domain(scene.own, scene.hosts);
            let clusters = self.clusters.iter().map(|(head, room)| (head, *room));
            let shares = select(search.count, clusters.filter(|(head, _)| heads.binary_search(head).is_ok()));
            scene.send(scene.centre, Message::Consent(search, shares.unwrap_or_default()));
        }
    }
}

/// The clusters by BFNP, those with the most free processors first; `None` if all together have too few.
pub(super) fn select(count: u32, clusters: impl Iterator<Item = (usize, Room)>) -> Option<Hosts> {
    let clusters: Vec<(usize, Room)> = clusters.collect();
    let site = |&(_, room): &(usize, Room)| Site { free: room.free, factor: 1.0, congestion: f64::INFINITY };
    let sites: Vec<Site> = clusters.iter().map(site).collect();
    let shares = Strategy::Bfnp.allocate(count, 0, &sites)?;
    Some(shares.into_iter().map(|share| (clusters[share.site].0, share.nodes)).collect())
}
