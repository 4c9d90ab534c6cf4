//! Co-allocation of spawns over clusters, by the three layers of its source: *heads* of clusters, *schedulers* of domains, and an *executor*
//! over all domains.
//!
//! Zhang Weizhe and others, *Multi-cluster co-allocation scheduling algorithms in virtual computing environment* (Journal of Software 18(8), 2007),
//! section 2:
//!
//! | source | here |
//! |---|---|
//! | autonomic scheduling element: shows a cluster as one virtual computer, knows its nodes, and may decline | [`Element`] |
//! | domain scheduling: an information service, and a scheduler that selects clusters | [`Domain`] |
//! | meta-scheduling executor: keeps schedulers from competing for the same nodes | [`Executor`] |
//!
//! The layers are roles of hosts. The first host of a cluster is its head, the first host of a domain its scheduler, and the centre the
//! executor; when one dies, the next takes its place and asks the layer below what there is. All processes of a request start at once, or
//! none: each head sets processors aside, and the home starts the processes when it has heard of enough.
//!
//! A request goes from its home to the scheduler of the home's domain, with the clusters that BFNP selects there to the executor, and with
//! its consent to the heads of the clusters. If the domain has too little room, the executor selects clusters of all domains. A request
//! without room waits in line at the executor, which grants each one that fits (algorithm 1 of the source). A request that is wider than the
//! machine starts at once, in proportion to the processors of clusters and hosts; or, if its processes may wait for room, in parts.

mod domain;
mod element;
mod executor;

use super::agent::{Agent, Event, Scene};
use crate::placement::{Portion, proportional};
use domain::Domain;
use element::{Element, Worker};
use executor::Executor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// After this time, in milliseconds, what has had no answer is asked for again: a host on the way has died, or thinks otherwise of the roles.
const PATIENCE: u64 = 1000;
/// Changes are told to the layer above after this time, in milliseconds, all that have come until then at once.
const MOMENT: u64 = 2;
/// What is due within this time is done when the agent is woken: the simulator has no time for waits as short as that.
const SLACK: u64 = 20;
/// Processors of a host beyond which more do not count: a host has no more ids for tasks.
const PROCESSORS_MAX: u32 = 1 << 18;

/// The policy, on one host.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    wanted: BTreeMap<u64, Wanted>,
    worker: Worker,
    element: Element,
    domain: Domain,
    executor: Executor,
    /// When changes are to be told.
    flush: Option<u64>,
}

/// Processes of this home that have no host yet.
#[derive(Clone, Debug, Default)]
struct Wanted {
    count: u32,
    /// Whether they may wait for room.
    may_wait: bool,
    /// Which search for them it is.
    round: u32,
    /// What heads have set aside.
    found: Vec<(usize, Hosts)>,
    /// When to search again.
    due: u64,
}

/// How many processes on which host, or in the cluster of which head.
type Hosts = Vec<(usize, u32)>;

/// Processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Those without a process.
    free: u32,
    /// All of them.
    all: u32,
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
    /// Whether a part of them will do, if there are fewer in the machine.
    is_divisible: bool,
}

impl Search {
    fn is_for(&self, home: usize, request: u64) -> bool {
        (self.home, self.request) == (home, request)
    }
}

/// A layer that is asked what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    /// A host, by its head.
    Host,
    /// A cluster, by the scheduler of its domain.
    Cluster,
    /// A domain, by the executor.
    Domain,
}

/// What hosts say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From the layer above: say what there is, and how it changes from now on.
    Describe(Layer),
    /// To a head: the room of a host, and how many processes of this policy have begun there since the last report.
    Host(Room, u32),
    /// To a scheduler: the room of a cluster.
    Cluster(Room),
    /// To the executor: clusters of a domain by their heads, those that have changed.
    Domain(Vec<(usize, Room)>),
    /// To a scheduler: find these.
    Wanted(Search),
    /// To the executor: these clusters are selected; none, if the domain has too little room.
    Consent(Search, Hosts),
    /// To a scheduler: these clusters take them. The flag says that they may be more than have a processor.
    Granted(Search, Hosts, bool),
    /// To the home: there is no room. The search waits in line.
    Full(Search),
    /// To a head: set this number of processors aside. The flag says that there may be more processes than processors.
    Allocate(Search, u32, bool),
    /// To the home: these are set aside.
    Found(Search, Hosts),
    /// To the home: there is less room in a cluster than was thought.
    Short(Search),
    /// To a head: what was set aside on these hosts is not needed.
    Release(Hosts),
    /// To the executor: a request of the sender waits no more.
    Withdrawn(u64),
}

impl Layers {
    /// A policy under which nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }

    fn heard(&mut self, from: usize, message: Message, scene: &mut Scene<'_, Message>) {
        match message {
            Message::Describe(Layer::Host) => self.worker.described(from),
            Message::Describe(Layer::Cluster) => self.element.described(from, scene),
            Message::Describe(Layer::Domain) => self.domain.described(from, scene),
            Message::Host(room, begun) => self.element.host_changed(from, room, begun),
            Message::Cluster(room) => self.domain.cluster_changed(from, room),
            Message::Domain(clusters) => self.executor.domain_changed(from, clusters),
            Message::Wanted(search) => self.domain.wanted(search, scene),
            Message::Consent(search, shares) => self.executor.asked(from, search, shares, scene),
            Message::Granted(search, shares, is_beyond) => {
                for (head, count) in shares {
                    scene.send(head, Message::Allocate(search, count, is_beyond));
                }
            }
            Message::Full(search) => {
                if self.wanted.get(&search.request).is_some_and(|wanted| wanted.round == search.round) {
                    scene.no_room(search.request);
                }
            }
            Message::Allocate(search, count, is_beyond) => {
                self.element.allocate(search, count, is_beyond, scene);
            }
            Message::Found(search, hosts) => self.found(from, search, hosts, scene),
            Message::Short(search) => self.short(search, scene),
            Message::Release(hosts) => self.element.release(&hosts),
            Message::Withdrawn(request) => self.executor.withdrawn(from, request),
        }
    }

    /// A host is gone: what was asked of it, or is set aside there, is asked for again.
    fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.worker.gone(host);
        self.element.gone(host, scene);
        self.domain.gone(host, scene);
        self.executor.gone(host, scene);
        self.search_again(|_| true, scene);
    }

    /// Passes on what the layers above have not been told: what they have asked for at once, and changes when a moment is over.
    fn tell_above(&mut self, is_due: bool, scene: &mut Scene<'_, Message>) {
        self.worker.tell(is_due, scene);
        self.element.tell(is_due, scene);
        self.domain.tell(is_due, scene);
        self.executor.serve(scene);
        if is_due {
            self.flush = None;
        }
        if self.worker.is_behind(scene) || self.element.is_behind() || self.domain.is_behind() {
            self.flush.get_or_insert(scene.now + MOMENT);
        }
    }

    fn sleep(&self, scene: &mut Scene<'_, Message>) {
        let due = self.wanted.values().map(|wanted| wanted.due);
        if let Some(due) = due.chain(self.flush).chain(self.element.recheck()).min() {
            scene.wake(due.saturating_sub(scene.now).max(MOMENT));
        }
    }
}

/// As the home of processes.
impl Layers {
    fn created(&mut self, request: u64, count: u32, scene: &mut Scene<'_, Message>) {
        let wanted = self.wanted.entry(request).or_default();
        wanted.count = wanted.count.saturating_add(count);
        self.search(request, scene);
    }

    /// Searches for all that is wanted; what was found so far is given back.
    fn search(&mut self, request: u64, scene: &mut Scene<'_, Message>) {
        let Some(wanted) = self.wanted.get_mut(&request).filter(|wanted| wanted.count > 0) else { return };
        for (head, hosts) in std::mem::take(&mut wanted.found) {
            scene.send(head, Message::Release(hosts));
        }
        wanted.round = wanted.round.wrapping_add(1);
        wanted.due = scene.now + PATIENCE;
        let Wanted { count, round, may_wait, .. } = *wanted;
        let search = Search { home: scene.own, request, round, count, is_divisible: may_wait };
        scene.send(scene.clusters.scheduler(scene.own, scene.hosts), Message::Wanted(search));
    }

    /// A cluster has less room than was thought. The layers above hear that in a moment, and then it is searched for again.
    fn short(&mut self, search: Search, scene: &mut Scene<'_, Message>) {
        let wanted = self.wanted.get_mut(&search.request);
        let Some(wanted) = wanted.filter(|wanted| wanted.round == search.round) else { return };
        for (head, hosts) in std::mem::take(&mut wanted.found) {
            scene.send(head, Message::Release(hosts));
        }
        wanted.round = wanted.round.wrapping_add(1);
        wanted.due = scene.now;
    }

    fn search_again(&mut self, which: impl Fn(&Wanted) -> bool, scene: &mut Scene<'_, Message>) {
        let again = self.wanted.iter().filter(|(_, wanted)| which(wanted));
        for request in again.map(|(&request, _)| request).collect::<Vec<_>>() {
            self.search(request, scene);
        }
    }

    /// A head has set processors aside. With the last of them, all processes start; or those that the executor has found room for.
    fn found(&mut self, from: usize, search: Search, hosts: Hosts, scene: &mut Scene<'_, Message>) {
        let request = search.request;
        let wanted = self.wanted.get_mut(&request).filter(|wanted| wanted.round == search.round);
        let Some(wanted) = wanted else { return scene.send(from, Message::Release(hosts)) };
        wanted.found.push((from, hosts));
        let found: u64 = wanted.found.iter().map(|(_, hosts)| sum(hosts)).sum();
        let mut left = search.count.min(wanted.count);
        if found < left.into() {
            return;
        }
        wanted.count -= left;
        for (head, hosts) in std::mem::take(&mut wanted.found) {
            let mut rest = Vec::new();
            for (host, count) in hosts {
                let started = count.min(left);
                left -= started;
                scene.start(request, host, started);
                rest.extend((count > started).then_some((host, count - started)));
            }
            if !rest.is_empty() {
                scene.send(head, Message::Release(rest));
            }
        }
        match self.wanted.get(&request).map(|wanted| wanted.count) {
            Some(0) => drop(self.wanted.remove(&request)),
            _ => self.search(request, scene),
        }
    }

    fn dropped(&mut self, request: u64, scene: &mut Scene<'_, Message>) {
        let Some(wanted) = self.wanted.remove(&request) else { return };
        for (head, hosts) in wanted.found {
            scene.send(head, Message::Release(hosts));
        }
        scene.send(scene.centre, Message::Withdrawn(request));
    }
}

impl Agent for Layers {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        let is_woken = matches!(event, Event::Woken);
        match event {
            Event::Created { request, count } => self.created(request, count, scene),
            Event::Dropped { request } => self.dropped(request, scene),
            Event::Heard { from, message } => self.heard(from, message, scene),
            Event::Began { count, placed, .. } => self.worker.began(if placed { count } else { 0 }),
            Event::Joined(_) => {
                self.element.joined(scene);
                self.domain.joined(scene);
                self.executor.joined(scene);
            }
            Event::Gone(host) => self.gone(host, scene),
            Event::Centre => {
                if scene.own != scene.centre {
                    self.executor = Executor::default();
                }
                self.search_again(|_| true, scene);
            }
            Event::Woken => {
                let due = scene.now + SLACK;
                self.search_again(|wanted| wanted.due <= due, scene);
            }
            Event::Known { request, may_wait, .. } => {
                self.wanted.entry(request).or_default().may_wait = may_wait;
            }
            Event::Ended { .. } | Event::Load => {}
        }
        self.tell_above(is_woken, scene);
        self.sleep(scene);
    }
}

fn sum(hosts: &[(usize, u32)]) -> u64 {
    hosts.iter().map(|&(_, count)| u64::from(count)).sum()
}

/// The room of several.
fn total(rooms: impl Iterator<Item = Room>) -> Room {
    rooms.fold(Room::default(), |sum, room| Room {
        free: sum.free.saturating_add(room.free),
        all: sum.all.saturating_add(room.all),
    })
}

/// Processes divided in proportion to processors, whether or not these are free.
fn divided(count: u32, rooms: impl Iterator<Item = (usize, Room)>) -> Hosts {
    let rooms: Vec<(usize, Room)> = rooms.collect();
    let portion =
        |&(_, room): &(usize, Room)| Portion { capability: room.all.into(), has: 0, limit: u64::MAX };
    let portions: Vec<Portion> = rooms.iter().map(portion).collect();
    let counts = proportional(count.into(), &portions);
    let counts = counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    rooms.iter().map(|&(host, _)| host).zip(counts).filter(|&(_, count)| count > 0).collect()
}

#[cfg(test)]
mod tests;
