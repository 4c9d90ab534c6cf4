//! Graph-theoretic: the graph of a request's processes is cut where they talk least, and each part goes to a host with room for it.

use super::agent::{Agent, Event, Scene};
use super::partition::{Resources, partition};
use super::promises::Promises;
use crate::placement::{Portion, proportional};
use pvm_wire::spawn::Pair;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest hosts that are asked, if there are as many.
const SAMPLE: usize = 16;
/// Milliseconds after which processes that wait for room are tried again.
const RETRY: u64 = 1000;

/// The policy. The source takes needs and loads as known: a home asks hosts how many processes they have processors for, all of them or
/// twice as many as there are processes. It divides the processes among those with [`partition`], so that no host has more than it has
/// processors for. Where there are too few processors for all, processes that must not wait come to the hosts with the least load, too.
///
/// Processes of which nothing is known are taken to form a ring, in which each talks to the next.
#[derive(Clone, Debug, Default)]
pub struct GraphTheoretic {
    searches: BTreeMap<u64, Search>,
    promised: Promises,
}

#[derive(Clone, Debug, Default)]
struct Search {
    count: u32,
    traffic: Vec<Pair>,
    may_wait: bool,
    /// Hosts that have not answered.
    asked: BTreeSet<usize>,
    rooms: BTreeMap<usize, Room>,
}

/// Processors of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Those that are set aside for the home that has asked.
    free: u32,
    /// Processes that run there or may still come, before these.
    load: u32,
    /// All.
    processors: u32,
}

/// What hosts say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Have you room for processes?
    Ask {
        /// The request that is asked for.
        request: u64,
        /// How many.
        count: u32,
    },
    /// The answer.
    Answer {
        /// The request.
        request: u64,
        /// The room there is.
        room: Room,
    },
    /// This number of processors that were set aside is not needed.
    Release(u32),
}

impl GraphTheoretic {
    /// Sets processors aside for a home.
    fn promise(&mut self, home: usize, count: u32, scene: &Scene<'_, Message>) -> Room {
        let load = scene.load.saturating_add(self.promised.count(scene.now));
        let free = scene.room.saturating_sub(load).min(count);
        (0..free).for_each(|_| self.promised.add(home, scene.now));
        Room { free, load, processors: scene.room }
    }

    /// Asks for room for all of a request.
    fn ask(&mut self, request: u64, scene: &mut Scene<'_, Message>) {
        let Some(count) = self.searches.get(&request).map(|search| search.count) else { return };
        let own = self.promise(scene.own, count, scene);
        let Some(search) = self.searches.get_mut(&request) else { return };
        search.rooms.insert(scene.own, own);
        // What the home has room for itself needs no other.
        if own.free < count {
            search.asked = sample(count, scene);
        }
        for &host in &search.asked {
            scene.send(host, Message::Ask { request, count });
        }
        self.decide(request, scene);
    }

    fn answered(&mut self, from: usize, request: u64, room: Room, scene: &mut Scene<'_, Message>) {
        let is_asked = |search: &&mut Search| search.asked.contains(&from);
        let Some(search) = self.searches.get_mut(&request).filter(is_asked) else {
            return self.release(from, room.free, scene);
        };
        search.asked.remove(&from);
        search.rooms.insert(from, room);
        self.decide(request, scene);
    }

    fn release(&mut self, host: usize, count: u32, scene: &mut Scene<'_, Message>) {
        match count {
            0 => {}
            _ if host == scene.own => self.promised.settle(host, count),
            _ => scene.send(host, Message::Release(count)),
        }
    }

    /// Starts a request's processes as soon as all hosts have answered.
    fn decide(&mut self, request: u64, scene: &mut Scene<'_, Message>) {
        let Some(search) = self.searches.get_mut(&request).filter(|search| search.asked.is_empty()) else {
            return;
        };
        let hosts = search.divide(scene.own);
        let mut unused: BTreeMap<usize, u32> =
            std::mem::take(&mut search.rooms).into_iter().map(|(host, room)| (host, room.free)).collect();
        search.count -= hosts.len() as u32;
        if search.count == 0 {
            self.searches.remove(&request);
        } else {
            scene.no_room(request);
            scene.wake(RETRY);
        }
        for same in hosts.chunk_by(|a, b| a == b) {
            scene.start(request, same[0], same.len() as u32);
            let unused = unused.entry(same[0]).or_default();
            *unused = unused.saturating_sub(same.len() as u32);
        }
        for (host, count) in unused {
            self.release(host, count, scene);
        }
    }

    /// Asks for those that have found no room.
    fn retry(&mut self, scene: &mut Scene<'_, Message>) {
        let idle: Vec<u64> = self
            .searches
            .iter()
            .filter(|(_, search)| search.rooms.is_empty())
            .map(|(&request, _)| request)
            .collect();
        for request in idle {
            self.ask(request, scene);
        }
    }

    fn drop_request(&mut self, request: u64, scene: &mut Scene<'_, Message>) {
        for (host, room) in self.searches.remove(&request).map(|search| search.rooms).unwrap_or_default() {
            self.release(host, room.free, scene);
        }
    }

    fn gone(&mut self, host: usize, scene: &mut Scene<'_, Message>) {
        self.promised.gone(host);
        let mut answered = Vec::new();
        for (&request, search) in &mut self.searches {
            search.rooms.remove(&host);
            if search.asked.remove(&host) {
                answered.push(request);
            }
        }
        for request in answered {
            self.decide(request, scene);
        }
    }
}

impl Search {
    /// The hosts of the processes that are started now, in the order of their numbers.
    fn divide(&self, own: usize) -> Vec<usize> {
        let room: u64 = self.rooms.values().map(|room| u64::from(room.free)).sum();
        let count = if self.may_wait { u64::from(self.count).min(room) } else { self.count.into() };
        let hosts = self.hosts(count, own);
        let processors: Vec<Resources> =
            hosts.iter().map(|&(cpu, _)| Resources { cpu, memory: u64::MAX }).collect();
        let needs = vec![Resources { cpu: 1, memory: 0 }; count as usize];
        let ring: Vec<Pair>;
        let traffic = if self.traffic.is_empty() {
            ring = (1..count as u32).map(|b| Pair { a: b - 1, b, traffic: 1 }).collect();
            &ring
        } else {
            &self.traffic
        };
        let parts = partition(&needs, traffic, &processors).unwrap_or_default();
        parts.into_iter().map(|part| hosts[part].1).collect()
    }

    /// How many processes each host may have, of those with most room; of equal ones the home first.
    fn hosts(&self, count: u64, own: usize) -> Vec<(u64, usize)> {
        let portion = |room: &Room| Portion {
            capability: room.processors.max(1).into(),
            has: u64::from(room.load) + u64::from(room.free),
            limit: u64::MAX,
        };
        let room: u64 = self.rooms.values().map(|room| u64::from(room.free)).sum();
        let more =
            proportional(count.saturating_sub(room), &self.rooms.values().map(portion).collect::<Vec<_>>());
        let mut hosts: Vec<(u64, usize)> = self
            .rooms
            .iter()
            .zip(more)
            .map(|((&host, room), more)| (u64::from(room.free) + more, host))
            .filter(|&(room, _)| room > 0)
            .collect();
        hosts.sort_by_key(|&(room, host)| (Reverse(room), host != own, host));
        let mut sum = 0;
        // Further hosts could only take what these have room for.
        let enough = hosts.iter().position(|&(room, _)| {
            sum += room;
            sum >= count
        });
        hosts.truncate(enough.map_or(hosts.len(), |last| last + 1));
        hosts
    }
}

/// Other hosts, all of them or a random choice.
fn sample(count: u32, scene: &mut Scene<'_, Message>) -> BTreeSet<usize> {
    let wanted = SAMPLE.max(2 * count as usize);
    if scene.hosts.len() <= wanted + 1 {
        return scene.hosts.iter().copied().filter(|&host| host != scene.own).collect();
    }
    let mut sample = BTreeSet::new();
    // Twice as many draws as hosts: more than half of all are hardly ever wanted, and fewer are as good.
    for _ in 0..2 * wanted {
        if sample.len() < wanted {
            sample.extend(scene.random_other());
        }
    }
    sample
}

impl Agent for GraphTheoretic {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Known { request, traffic, may_wait } => {
                let search = self.searches.entry(request).or_default();
                (search.traffic, search.may_wait) = (traffic, may_wait);
            }
            Event::Created { request, count } => {
                let search = self.searches.entry(request).or_default();
                search.count = search.count.saturating_add(count);
                if search.rooms.is_empty() {
                    self.ask(request, scene);
                }
            }
            Event::Dropped { request } => self.drop_request(request, scene),
            Event::Heard { from, message: Message::Ask { request, count } } => {
                let room = self.promise(from, count, scene);
                scene.send(from, Message::Answer { request, room });
            }
            Event::Heard { from, message: Message::Answer { request, room } } => {
                self.answered(from, request, room, scene);
            }
            Event::Heard { from, message: Message::Release(count) } => self.promised.settle(from, count),
            Event::Began { home, count, placed: true, .. } => self.promised.settle(home, count),
            Event::Gone(host) => self.gone(host, scene),
            Event::Ended { .. } | Event::Woken | Event::Joined(_) => self.retry(scene),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
