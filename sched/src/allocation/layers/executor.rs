//! The highest layer: it consents to what schedulers select, so that no two of them count on the same processors.

use super::super::agent::Scene;
use super::super::census::Census;
use super::domain::select;
use super::{Hosts, Layer, Message, Room, Search, divided, sum, total};
use std::collections::BTreeMap;

/// The executor over all domains.
#[derive(Clone, Debug, Default)]
pub(super) struct Executor {
    /// The clusters of each domain, by the domain's scheduler. What was granted since a cluster's last report is not free.
    domains: Census<BTreeMap<usize, Room>>,
    /// Searches that wait for room, in the order in which they came.
    line: Vec<Waiting>,
    /// Whether something has changed since the line was looked at.
    is_due: bool,
}

#[derive(Clone, Debug)]
struct Waiting {
    scheduler: usize,
    search: Search,
    /// What the scheduler has selected.
    shares: Hosts,
    /// Whether its home knows that it waits.
    is_told: bool,
}

impl Executor {
    /// A scheduler asks for consent. A search that is repeated keeps its place in the line.
    pub fn asked(&mut self, scheduler: usize, search: Search, shares: Hosts, scene: &mut Scene<'_, Message>) {
        // A host that is not the executor any more, or not yet, is asked again in a while.
        if scene.own != scene.centre {
            return;
        }
        let waiting = Waiting { scheduler, search, shares, is_told: false };
        let before = self.line.iter_mut().find(|before| before.search.is_for(search.home, search.request));
        match before {
            Some(before) => *before = waiting,
            None => self.line.push(waiting),
        }
        self.is_due = true;
        self.ask(scene);
    }

    fn ask(&mut self, scene: &mut Scene<'_, Message>) {
        let schedulers = scene.clusters.schedulers(scene.hosts);
        self.domains.take_of(&schedulers, || Message::Describe(Layer::Domain), scene);
    }

    pub fn joined(&mut self, scene: &mut Scene<'_, Message>) {
        if !self.domains.is_unused() {
            self.ask(scene);
        }
    }

    pub fn domain_changed(&mut self, scheduler: usize, clusters: Vec<(usize, Room)>) {
        match self.domains.get_mut(scheduler) {
            Some(known) => known.extend(clusters),
            None => {
                self.domains.answered(scheduler, clusters.into_iter().collect());
            }
        }
        self.is_due = true;
    }

    pub fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.domains.gone(host);
        for clusters in self.domains.iter_mut() {
            clusters.remove(&host);
        }
        self.line.retain(|waiting| waiting.scheduler != host && waiting.search.home != host);
        self.is_due = true;
        self.joined(scene);
    }

    pub fn withdrawn(&mut self, home: usize, request: u64) {
        self.line.retain(|waiting| !waiting.search.is_for(home, request));
    }

    /// Grants each search in the line that has room, in the order in which they came (algorithm 1).
    pub fn serve(&mut self, scene: &mut Scene<'_, Message>) {
        if self.line.is_empty() || !self.domains.is_complete() || !std::mem::take(&mut self.is_due) {
            return;
        }
        // Those that were heads and schedulers may go on to speak for a while.
        let (heads, schedulers) = (scene.clusters.heads(scene.hosts), scene.clusters.schedulers(scene.hosts));
        let domains =
            self.domains.iter().filter(|(scheduler, _)| schedulers.binary_search(scheduler).is_ok());
        let mut rooms: BTreeMap<usize, Room> = domains.flat_map(|(_, clusters)| clusters.clone()).collect();
        rooms.retain(|head, _| heads.binary_search(head).is_ok());
        for mut waiting in std::mem::take(&mut self.line) {
            if let Some((shares, is_beyond)) = grant(&waiting, &rooms) {
                waiting.search.count = u32::try_from(sum(&shares)).unwrap_or(u32::MAX);
                for &(head, count) in &shares {
                    take(&mut rooms, head, count);
                    self.domains.iter_mut().for_each(|clusters| take(clusters, head, count));
                }
                scene.send(waiting.scheduler, Message::Granted(waiting.search, shares, is_beyond));
            } else {
                if !std::mem::replace(&mut waiting.is_told, true) {
                    scene.send(waiting.search.home, Message::Full(waiting.search));
                }
                self.line.push(waiting);
            }
        }
    }
}

/// The clusters that take what waits, if there is room; and whether there may be more processes than processors.
fn grant(waiting: &Waiting, rooms: &BTreeMap<usize, Room>) -> Option<(Hosts, bool)> {
    let count = waiting.search.count;
    let all = rooms.iter().map(|(&head, &room)| (head, room));
    let room = total(rooms.values().copied());
    if room.all < count {
        return if waiting.search.is_divisible {
            select(room.free, all).map(|shares| (shares, false))
        } else {
            Some((divided(count, all), true))
        };
    }
    let has = |&(head, count): &(usize, u32)| rooms.get(&head).is_some_and(|room| room.free >= count);
    let is_good = sum(&waiting.shares) == count.into() && waiting.shares.iter().all(has);
    let shares = if is_good { waiting.shares.clone() } else { select(count, all)? };
    Some((shares, false))
}

fn take(rooms: &mut BTreeMap<usize, Room>, head: usize, count: u32) {
    if let Some(room) = rooms.get_mut(&head) {
        room.free = room.free.saturating_sub(count);
    }
}
