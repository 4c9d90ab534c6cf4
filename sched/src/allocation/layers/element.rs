//! The lowest layer: hosts, and the head of a cluster, which shows the cluster as one virtual computer.

use super::super::agent::Scene;
use super::super::census::Census;
use super::super::promises::{LIFE, Promises};
use super::{Hosts, Layer, Message, PROCESSORS_MAX, Room, SLACK, Search, divided, sum, total};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A host of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    /// Heads that want to know how its room changes: its own, and perhaps the one before.
    heads: BTreeSet<usize>,
    told: Option<Room>,
    /// Processes of this policy that have begun since the last report.
    begun: u32,
}

impl Worker {
    pub fn described(&mut self, head: usize) {
        self.heads.insert(head);
        self.told = None;
    }

    pub fn began(&mut self, count: u32) {
        self.begun = self.begun.saturating_add(count);
    }

    pub fn gone(&mut self, host: usize) {
        self.heads.remove(&host);
    }

    fn room(scene: &Scene<'_, Message>) -> Room {
        Room { free: scene.free(), all: scene.room }
    }

    pub fn is_behind(&self, scene: &Scene<'_, Message>) -> bool {
        !self.heads.is_empty() && (self.begun > 0 || self.told != Some(Self::room(scene)))
    }

    pub fn tell(&mut self, is_due: bool, scene: &mut Scene<'_, Message>) {
        if self.is_behind(scene) && (is_due || self.told.is_none()) {
            let room = Self::room(scene);
            self.told = Some(room);
            let begun = std::mem::take(&mut self.begun);
            for &head in &self.heads {
                scene.send(head, Message::Host(room, begun));
            }
        }
    }
}

/// The head of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Element {
    hosts: Census<Room>,
    /// Processors set aside, by host.
    aside: Promises,
    /// Schedulers that want to know how its room changes.
    schedulers: BTreeSet<usize>,
    told: Option<Room>,
    /// Whether its hosts have reported something.
    has_changed: bool,
    /// Whether the layers above count what has not come about, so that they are to be told although nothing has changed.
    is_miscounted: bool,
    /// When to look for processes that do not come.
    recheck: Option<u64>,
}

impl Element {
    /// A scheduler wants to know what room there is.
    pub fn described(&mut self, scheduler: usize, scene: &mut Scene<'_, Message>) {
        self.schedulers.insert(scheduler);
        self.told = None;
        self.ask(scene);
    }

    fn ask(&mut self, scene: &mut Scene<'_, Message>) {
        let hosts = scene.clusters.members(scene.own, scene.hosts);
        self.hosts.take_of(&hosts, || Message::Describe(Layer::Host), scene);
    }

    pub fn joined(&mut self, scene: &mut Scene<'_, Message>) {
        if !self.hosts.is_unused() {
            self.ask(scene);
        }
    }

    pub fn host_changed(&mut self, host: usize, room: Room, begun: u32) {
        let room = Room { free: room.free.min(PROCESSORS_MAX), all: room.all.min(PROCESSORS_MAX) };
        self.hosts.answered(host, room);
        self.aside.settle(host, begun);
        self.has_changed = true;
    }

    pub fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.schedulers.remove(&host);
        self.aside.gone(host);
        self.has_changed |= self.hosts.gone(host).is_some();
        self.joined(scene);
    }

    /// The rooms of its hosts without what is set aside.
    fn rooms(&self, now: u64) -> impl Iterator<Item = (usize, Room)> {
        self.hosts.iter().map(move |(host, room)| {
            let free = room.free.saturating_sub(self.aside.count_of(host, now));
            (host, Room { free, ..*room })
        })
    }

    /// Sets processors aside, on as few hosts as can be.
    pub fn allocate(&mut self, search: Search, count: u32, is_beyond: bool, scene: &mut Scene<'_, Message>) {
        let mut rooms: Vec<(usize, Room)> = self.rooms(scene.now).collect();
        rooms.sort_by_key(|&(host, room)| (Reverse(room.free), host));
        let mut hosts = Hosts::new();
        if is_beyond {
            hosts = divided(count, rooms.into_iter());
        } else {
            let mut left = count;
            for (host, room) in rooms {
                let here = room.free.min(left);
                left -= here;
                hosts.extend((here > 0).then_some((host, here)));
            }
        }
        // Others may have come first, or a process of other policies.
        self.is_miscounted = true;
        if sum(&hosts) < count.into() {
            return scene.send(search.home, Message::Short(search));
        }
        if !is_beyond {
            for &(host, count) in &hosts {
                (0..count).for_each(|_| self.aside.add(host, scene.now));
            }
            self.recheck = Some(scene.now + LIFE + SLACK);
        }
        scene.send(search.home, Message::Found(search, hosts));
    }

    /// What was set aside is not needed.
    pub fn release(&mut self, hosts: &[(usize, u32)]) {
        for &(host, count) in hosts {
            self.aside.settle(host, count);
        }
        self.is_miscounted = true;
    }

    /// When a process that does not come is to be given up.
    pub fn recheck(&self) -> Option<u64> {
        self.recheck
    }

    pub fn is_behind(&self) -> bool {
        let has_news = self.has_changed || self.is_miscounted;
        has_news && self.hosts.is_complete() && !self.schedulers.is_empty()
    }

    pub fn tell(&mut self, is_due: bool, scene: &mut Scene<'_, Message>) {
        if self.recheck.is_some_and(|due| due <= scene.now + SLACK) {
            self.recheck = None;
            self.has_changed |= !self.aside.take_overdue(scene.now).is_empty();
        }
        let is_wanted = self.told.is_none() && self.hosts.is_complete() && !self.schedulers.is_empty();
        if !(is_wanted || is_due && self.is_behind()) {
            return;
        }
        let room = total(self.rooms(scene.now).map(|(_, room)| room));
        if self.told != Some(room) || self.is_miscounted {
            for &scheduler in &self.schedulers {
                scene.send(scheduler, Message::Cluster(room));
            }
        }
        (self.told, self.has_changed, self.is_miscounted) = (Some(room), false, false);
    }

    #[cfg(test)]
    pub fn hosts_for_tests(&self) -> Vec<(usize, Room)> {
        self.hosts.iter().map(|(host, room)| (host, *room)).collect()
    }
}
