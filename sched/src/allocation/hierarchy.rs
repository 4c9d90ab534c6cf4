//! Hierarchical allocation, as in MICROS: workers, managers above them, and a committee on top.
//!
//! Hosts are workers, and some are managers, too: the tree is that of the hosts' numbers, and the first host of each part of it that is
//! present is its manager. So every host knows who manages what, and a dead manager is replaced by one of its subordinates without a
//! message. Several parts are at the top; their managers are the committee.
//!
//! A manager tracks roughly how many processors below it are free: it is notified of each change right below, and notifies its own
//! superior only when the number has changed by enough. A request for S processes is granted by reserving R ≥ S, or
//! passed up; the level that has enough splits it and sends the parts down, where less may turn up than was thought.

use super::agent::{Agent, Event, Scene};
use super::promises::Promises;
use super::tree::{Part, Tree};
use crate::placement::{Portion, proportional};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A manager passes a request up unless it has an eighth and one more than what is asked for, and reserves that eighth, too: some of it
/// may not be there.
const RESERVE: u32 = 8;

/// After this time, in milliseconds, what found no room is asked for again.
const RETRY: u64 = 250;

/// After this time, in milliseconds, answers that are missing do not come: a manager on the way has died.
const PATIENCE: u64 = 1000;

/// Subordinates of a manager, and the most members of the committee.
const FAN_OUT: usize = 16;
const COMMITTEE: usize = 4;

/// The policy, on one host.
#[derive(Clone, Debug)]
pub struct Hierarchical {
    fan_out: usize,
    committee: usize,
    /// What the whole tree has no room for stays where it was created.
    stays: bool,
    /// Free processors here, as the manager above was told.
    told: Told,
    /// Processors set aside here.
    promised: Promises,
    /// What this host manages, by level from 1.
    posts: BTreeMap<u32, Post>,
    /// Requests of this home.
    wanted: BTreeMap<u64, Wanted>,
}

/// What a manager knows.
#[derive(Clone, Debug, Default)]
struct Post {
    /// Free processors in each part below, by its number, as far as it was told, and in which report.
    below: BTreeMap<usize, (u32, u32)>,
    /// In the parts of the other members of the committee.
    beside: BTreeMap<usize, u32>,
    /// The number that it has told its superior, or the committee.
    told: Told,
}

/// What a superior was told last, and counts as used by itself when it asks for some.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Which host that was, and free processors.
    known: Option<(usize, u32)>,
    /// Reports so far.
    report: u32,
}

impl Told {
    /// The number of the report that says this.
    fn tell(&mut self, superior: usize, free: u32) -> u32 {
        self.known = Some((superior, free));
        self.report = self.report.wrapping_add(1);
        self.report
    }

    /// The superior, which has heard that report last, asks for this number. If it has not heard the last one, that will replace what
    /// it counts now: it is to be told anew.
    fn used(&mut self, count: u32, heard: u32) {
        let known = self.known.filter(|_| heard == self.report);
        self.known = known.map(|(superior, free)| (superior, free.saturating_sub(count)));
    }
}

/// Processes of this home that have no host yet.
#[derive(Clone, Debug)]
struct Wanted {
    count: u32,
    /// Which search for them it is.
    round: u32,
    /// The lowest level at which they are searched for now.
    level: u32,
    /// Reservations that were asked for and not answered.
    open: u32,
    /// Whether some were answered with no.
    short: bool,
    /// When to search again, whatever has come until then.
    due: u64,
}

/// A search for processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The host on which the processes were created.
    home: usize,
    /// Their request there.
    request: u64,
    /// Which search for them it is.
    round: u32,
    /// How many processors.
    count: u32,
}

/// What hosts say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To a superior: this number of processors is free in a part.
    Free {
        /// The part's level.
        level: u32,
        /// The part.
        number: usize,
        /// How many.
        free: u32,
        /// Which report of the part's manager this is.
        report: u32,
    },
    /// To another member of the committee: in the part of the sender.
    Beside {
        /// The part.
        number: usize,
        /// How many.
        free: u32,
    },
    /// To the manager of a level: find these, below you or above.
    Wanted(u32, Search),
    /// To another member of the committee: find these; these parts have been searched.
    Over(Search, Vec<usize>),
    /// To a subordinate: find these below you.
    Find {
        /// Its level.
        level: u32,
        /// The level at which the search was split.
        split_at: u32,
        /// Its last report that the superior has heard.
        heard: u32,
        /// What to find.
        search: Search,
    },
    /// To the home: these are set aside here.
    Room(Search),
    /// To the home: these were not found. The search was split at this level.
    Short(u32, Search),
    /// To a worker: this number of processors that were set aside for the sender are not needed.
    Release(u32),
}

impl Hierarchical {
    /// With this number of subordinates for each manager (at least 2), and at most this number of members of the committee.
    pub fn new(fan_out: usize, committee: usize) -> Self {
        Self {
            fan_out: fan_out.max(2),
            committee: committee.max(1),
            stays: false,
            told: Told::default(),
            promised: Promises::default(),
            posts: BTreeMap::new(),
            wanted: BTreeMap::new(),
        }
    }

    /// What the whole tree has no room for stays where it was created, instead of waiting for room.
    #[must_use]
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    fn tree<'a>(&self, scene: &Scene<'a, Message>) -> Tree<'a> {
        Tree { hosts: scene.hosts, fan_out: self.fan_out, committee: self.committee }
    }
}

/// As the home of processes.
impl Hierarchical {
    fn created(&mut self, request: u64, count: u32, scene: &mut Scene<'_, Message>) {
        let fresh = Wanted { count: 0, round: 0, level: 1, open: 0, short: false, due: 0 };
        let wanted = self.wanted.entry(request).or_insert(fresh);
        wanted.count = wanted.count.saturating_add(count);
        if wanted.open == 0 {
            self.search(request, 1, scene);
        }
    }

    /// Searches for what is wanted, from a level on.
    fn search(&mut self, request: u64, level: u32, scene: &mut Scene<'_, Message>) {
        let tree = self.tree(scene);
        let (level, home) = (level.min(tree.top()), scene.own);
        let Some(wanted) = self.wanted.get_mut(&request) else { return };
        let count = wanted.count.saturating_add(wanted.count / RESERVE);
        wanted.round += 1;
        (wanted.level, wanted.open, wanted.short) = (level, count, false);
        wanted.due = scene.now + PATIENCE;
        let search = Search { home, request, round: wanted.round, count };
        if let Some(manager) = tree.manager(tree.part(level, home)) {
            scene.send(manager, Message::Wanted(level, search));
        }
    }

    /// A host has set processors aside.
    fn found(&mut self, from: usize, found: Search, scene: &mut Scene<'_, Message>) {
        let used = match self.wanted.get_mut(&found.request) {
            Some(wanted) => {
                let used = found.count.min(wanted.count);
                wanted.count -= used;
                used
            }
            None => 0,
        };
        scene.start(found.request, from, used);
        if used < found.count {
            scene.send(from, Message::Release(found.count - used));
        }
        self.answered(found, scene);
    }

    /// Some were not found.
    fn not_found(&mut self, level: u32, search: Search, scene: &mut Scene<'_, Message>) {
        let wanted = self.wanted.get_mut(&search.request).filter(|wanted| wanted.round == search.round);
        if let Some(wanted) = wanted {
            wanted.short = true;
            wanted.level = wanted.level.max(level);
        }
        self.answered(search, scene);
    }

    /// An answer has come; at the last one, the search is over.
    fn answered(&mut self, search: Search, scene: &mut Scene<'_, Message>) {
        let request = search.request;
        let Some(wanted) = self.wanted.get_mut(&request) else { return };
        if wanted.round == search.round {
            wanted.open = wanted.open.saturating_sub(search.count);
        }
        if wanted.count == 0 {
            self.wanted.remove(&request);
        } else if wanted.open == 0 && wanted.round == search.round {
            let (level, short) = (wanted.level, wanted.short);
            match short {
                // There were more in the meantime.
                false => self.search(request, 1, scene),
                true if level < self.tree(scene).top() => self.search(request, level + 1, scene),
                true => self.no_room(request, scene),
            }
        }
    }

    fn no_room(&mut self, request: u64, scene: &mut Scene<'_, Message>) {
        if self.stays {
            let count = self.wanted.remove(&request).map_or(0, |wanted| wanted.count);
            return scene.start(request, scene.own, count);
        }
        if let Some(wanted) = self.wanted.get_mut(&request) {
            wanted.due = scene.now + RETRY;
            scene.no_room(request);
        }
    }

    /// Searches again for what has had no answer, or no room.
    fn search_overdue(&mut self, scene: &mut Scene<'_, Message>) {
        let overdue = self.wanted.iter().filter(|(_, wanted)| wanted.due <= scene.now);
        for request in overdue.map(|(&request, _)| request).collect::<Vec<_>>() {
            self.search(request, 1, scene);
        }
    }

    fn sleep(&self, scene: &mut Scene<'_, Message>) {
        if let Some(due) = self.wanted.values().map(|wanted| wanted.due).min() {
            scene.wake(due.saturating_sub(scene.now).max(1));
        }
    }
}

/// As a worker.
impl Hierarchical {
    /// A manager wants processors: what there is, is set aside for the home.
    fn give(&mut self, split_at: u32, search: Search, scene: &mut Scene<'_, Message>) {
        let found = search.count.min(self.promised.left(scene));
        for _ in 0..found {
            self.promised.add(search.home, scene.now);
        }
        if found > 0 {
            scene.send(search.home, Message::Room(Search { count: found, ..search }));
        }
        if found < search.count {
            scene.send(
                search.home,
                Message::Short(split_at, Search { count: search.count - found, ..search }),
            );
        }
    }
}

/// As a manager.
impl Hierarchical {
    /// The part that this host manages at a level, if it does.
    fn part(&self, level: u32, scene: &Scene<'_, Message>) -> Option<Part> {
        let tree = self.tree(scene);
        let part = tree.part(level, scene.own);
        ((1..=tree.top()).contains(&level) && tree.manager(part) == Some(scene.own)).then_some(part)
    }

    /// Free processors in the parts right below one, as its manager believes.
    fn below(&self, part: Part, scene: &Scene<'_, Message>) -> Vec<(Part, u32)> {
        let tree = self.tree(scene);
        let known = self.posts.get(&part.level).map(|post| &post.below);
        let told = |below: Part| known?.get(&below.number).map(|&(free, _)| free);
        tree.below(part).map(|below| (below, believed(told(below), below, &tree, scene.room))).collect()
    }

    /// Free processors in the other parts at the top that have not been searched, as the manager of this one believes.
    fn beside(&self, part: Part, searched: &[usize], scene: &Scene<'_, Message>) -> Vec<(Part, u32)> {
        let tree = self.tree(scene);
        let known = self.posts.get(&part.level).map(|post| &post.beside);
        let told = |other: Part| known?.get(&other.number).copied();
        let others = tree.top_parts().filter(|other| *other != part && !searched.contains(&other.number));
        others.map(|other| (other, believed(told(other), other, &tree, scene.room))).collect()
    }

    fn wanted(&mut self, level: u32, search: Search, scene: &mut Scene<'_, Message>) {
        let Some(part) = self.part(level, scene) else {
            // It was the manager a moment ago.
            return scene.send(search.home, Message::Short(level, search));
        };
        let tree = self.tree(scene);
        let free = sum(&self.below(part, scene));
        if level < tree.top() && free <= search.count {
            let above = tree.part(level + 1, scene.own);
            if let Some(manager) = tree.manager(above) {
                return scene.send(manager, Message::Wanted(level + 1, search));
            }
        }
        if level < tree.top() {
            return self.split(part, level, search, scene);
        }
        self.over(part, search, Vec::new(), scene);
    }

    /// A member of the committee: what its own part has not, others may have.
    fn over(&mut self, part: Part, search: Search, mut searched: Vec<usize>, scene: &mut Scene<'_, Message>) {
        searched.push(part.number);
        let own = sum(&self.below(part, scene)).min(search.count);
        let rest = Search { count: search.count - own, ..search };
        self.split(part, part.level, Search { count: own, ..search }, scene);
        if rest.count == 0 {
            return;
        }
        let most = self.beside(part, &searched, scene).into_iter().rev().max_by_key(|&(_, free)| free);
        match most.and_then(|(other, free)| Some((other, self.tree(scene).manager(other)?, free))) {
            Some((other, manager, free)) if free > 0 => {
                let post = self.posts.entry(part.level).or_default();
                post.beside.insert(other.number, free.saturating_sub(rest.count));
                scene.send(manager, Message::Over(rest, searched));
            }
            _ => scene.send(search.home, Message::Short(part.level, rest)),
        }
    }

    /// Sends the parts of a search down.
    fn split(&mut self, part: Part, split_at: u32, search: Search, scene: &mut Scene<'_, Message>) {
        if search.count == 0 {
            return;
        }
        let tree = self.tree(scene);
        let with_room: Vec<_> = self.below(part, scene).into_iter().filter(|&(_, free)| free > 0).collect();
        let portion =
            |&(_, free): &(Part, u32)| Portion { capability: free.into(), has: 0, limit: free.into() };
        let counts = proportional(search.count.into(), &with_room.iter().map(portion).collect::<Vec<_>>());
        let mut rest = search.count;
        for (&(below, free), n) in with_room.iter().zip(counts) {
            let (n, Some(to)) = (n as u32, tree.manager(below)) else { continue };
            if n > 0 {
                rest -= n;
                let post = self.posts.entry(part.level).or_default();
                let heard = post.below.get(&below.number).map_or(0, |&(_, report)| report);
                post.below.insert(below.number, (free - n, heard));
                let search = Search { count: n, ..search };
                scene.send(to, Message::Find { level: below.level, split_at, heard, search });
            }
        }
        if rest > 0 {
            scene.send(search.home, Message::Short(split_at, Search { count: rest, ..search }));
        }
    }

    fn find(
        &mut self,
        level: u32,
        split_at: u32,
        heard: u32,
        search: Search,
        scene: &mut Scene<'_, Message>,
    ) {
        if level == 0 {
            self.told.used(search.count, heard);
            return self.give(split_at, search, scene);
        }
        let Some(part) = self.part(level, scene) else {
            return scene.send(search.home, Message::Short(split_at, search));
        };
        self.posts.entry(level).or_default().told.used(search.count, heard);
        self.split(part, split_at, search, scene);
    }

    /// A subordinate tells what is free there.
    fn note(&mut self, from: usize, part: Part, free: (u32, u32), scene: &Scene<'_, Message>) {
        let tree = self.tree(scene);
        let above = tree.above(part);
        if self.part(above.level, scene) == Some(above) && tree.manager(part) == Some(from) {
            self.posts.entry(above.level).or_default().below.insert(part.number, free);
        }
    }

    /// Another member of the committee does.
    fn note_beside(&mut self, from: usize, number: usize, free: u32, scene: &Scene<'_, Message>) {
        let level = self.tree(scene).top();
        if self.part(level, scene).is_some() && self.tree(scene).manager(Part { level, number }) == Some(from)
        {
            self.posts.entry(level).or_default().beside.insert(number, free);
        }
    }

    /// Tells those above what has changed: as a worker everything, as a manager what has changed by more than an eighth.
    fn report(&mut self, scene: &mut Scene<'_, Message>) {
        let (tree, free) = (self.tree(scene), self.promised.left(scene));
        if let Some(manager) = tree.manager(tree.part(1, scene.own))
            && self.told.known != Some((manager, free))
        {
            let report = self.told.tell(manager, free);
            scene.send(manager, Message::Free { level: 0, number: scene.own, free, report });
        }
        for level in self.posts.keys().copied().collect::<Vec<_>>() {
            match self.part(level, scene) {
                Some(part) => self.report_part(part, scene),
                // Another host has a lower number.
                None => drop(self.posts.remove(&level)),
            }
        }
    }

    fn report_part(&mut self, part: Part, scene: &mut Scene<'_, Message>) {
        let (tree, free) = (self.tree(scene), sum(&self.below(part, scene)));
        let top = part.level == tree.top();
        let superior = if top { Some(scene.own) } else { tree.manager(tree.above(part)) };
        let (Some(superior), Some(post)) = (superior, self.posts.get_mut(&part.level)) else { return };
        let is_enough = |(to, told): (usize, u32)| to != superior || free.abs_diff(told) > told / RESERVE;
        if !post.told.known.is_none_or(is_enough) {
            return;
        }
        let (report, Part { level, number }) = (post.told.tell(superior, free), part);
        if !top {
            return scene.send(superior, Message::Free { level, number, free, report });
        }
        for other in tree.top_parts().filter(|&other| other != part).filter_map(|other| tree.manager(other)) {
            scene.send(other, Message::Beside { number, free });
        }
    }
}

/// Free processors in a part: what its manager has told, or all that its hosts have if it has told nothing.
fn believed(told: Option<u32>, part: Part, tree: &Tree<'_>, room: u32) -> u32 {
    told.unwrap_or_else(|| u32::try_from(tree.count(part)).unwrap_or(u32::MAX).saturating_mul(room))
}

fn sum(parts: &[(Part, u32)]) -> u32 {
    parts.iter().fold(0, |sum, &(_, free)| sum.saturating_add(free))
}

impl Default for Hierarchical {
    fn default() -> Self {
        Self::new(FAN_OUT, COMMITTEE)
    }
}

impl Agent for Hierarchical {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Created { request, count } => self.created(request, count, scene),
            Event::Dropped { request } => drop(self.wanted.remove(&request)),
            Event::Heard { from, message } => match message {
                Message::Free { level, number, free, report } => {
                    self.note(from, Part { level, number }, (free, report), scene);
                }
                Message::Beside { number, free } => self.note_beside(from, number, free, scene),
                Message::Wanted(level, search) => self.wanted(level, search, scene),
                Message::Over(search, searched) => {
                    let level = self.tree(scene).top();
                    match self.part(level, scene).filter(|part| !searched.contains(&part.number)) {
                        Some(part) => self.over(part, search, searched, scene),
                        None => scene.send(search.home, Message::Short(level, search)),
                    }
                }
                Message::Find { level, split_at, heard, search } => {
                    self.find(level, split_at, heard, search, scene);
                }
                Message::Room(found) => self.found(from, found, scene),
                Message::Short(level, search) => self.not_found(level, search, scene),
                Message::Release(count) => self.promised.settle(from, count),
            },
            Event::Began { home, count, placed, .. } => {
                if placed {
                    self.promised.settle(home, count);
                }
            }
            Event::Woken => {
                self.promised.take_overdue(scene.now);
                self.search_overdue(scene);
            }
            Event::Gone(host) => self.promised.gone(host),
            Event::Known { .. } | Event::Ended { .. } | Event::Load | Event::Joined(_) | Event::Centre => {}
        }
        self.report(scene);
        self.sleep(scene);
    }
}

#[cfg(test)]
#[path = "hierarchy_tests.rs"]
mod tests;
