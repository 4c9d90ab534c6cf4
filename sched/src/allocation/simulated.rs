//! Algorithms as the simulator drives them: it tells what happens, and carries out steps.

use super::agent::{Action, Agent, Event, Randomness, Scene};
use super::clusters::Clusters;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

/// Processes to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number, for the answer.
    pub id: u64,
    /// The host they are created on.
    pub origin: usize,
    /// How many.
    pub count: u32,
}

/// A decision: one process of a request goes to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The request.
    pub request: u64,
    /// The host.
    pub host: usize,
    /// Messages that were sent one after the other before it was decided.
    pub ways: u32,
}

/// The machines, as far as a policy's messages and waits need them.
pub trait Machines {
    /// Counts messages that are sent.
    fn send(&mut self, messages: u64);
    /// Now, in milliseconds.
    fn now(&self) -> u64;
}

/// A processor allocation algorithm on all machines.
///
/// Each process of each request gets exactly one [`Step`], at once or later.
pub trait Algorithm: Debug {
    /// Its name, as a person chooses it.
    fn name(&self) -> &'static str;
    /// Processes are created.
    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step>;
    /// A process has ended on a host, and is no longer in its load.
    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step>;
    /// How long after its last chance a host wants to be called by [`timer`](Self::timer), in milliseconds.
    fn interval(&self) -> Option<u64> {
        None
    }
    /// A fixed time has gone by on a host.
    fn timer(&mut self, _host: usize, _machines: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
    /// A host has failed, or its owner is back: it has no processes any more, and takes none. Nothing of what it had has ended; it is
    /// created again.
    fn left(&mut self, _host: usize, _machines: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
    /// A host that had left takes processes again, and has none yet.
    fn returned(&mut self, _host: usize, _machines: &mut dyn Machines) -> Vec<Step> {
        Vec::new()
    }
}

/// Waits up to this long, in milliseconds, are over when all messages have been delivered; they are no time in the simulation.
const MOMENT: u64 = 20;

/// A policy of agents on all hosts: the same agents as in daemons. What they say arrives at once, in the order in which it was said.
pub struct Agents<A> {
    name: &'static str,
    make: fn() -> A,
    interval: Option<u64>,
    places: Vec<Place<A>>,
    /// Hosts that are not away, in ascending order.
    present: Vec<usize>,
    clusters: Clusters,
    centre: usize,
    /// Processes that are not placed, by their home and request.
    unplaced: BTreeMap<(usize, u64), u32>,
    random: Randomness,
}

struct Place<A> {
    agent: A,
    /// The homes of the processes here, of those that were placed first first: they also end first.
    homes: VecDeque<u32>,
}

impl<A> Debug for Agents<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents")
            .field("name", &self.name)
            .field("hosts", &self.places.len())
            .finish_non_exhaustive()
    }
}

/// An event for the agent of a host, and the messages that were sent one after the other before it.
type Pending<M> = (usize, Event<M>, u32);

impl<A: Agent> Agents<A> {
    /// Agents on this number of hosts, each with one processor. `interval` is the time after which they are woken, in milliseconds.
    pub fn new(name: &'static str, hosts: usize, interval: Option<u64>, make: fn() -> A) -> Self {
        let place = |_| Place { agent: make(), homes: VecDeque::new() };
        Self {
            name,
            make,
            interval,
            places: (0..hosts).map(place).collect(),
            present: (0..hosts).collect(),
            clusters: Clusters::default(),
            centre: 0,
            unplaced: BTreeMap::new(),
            random: Randomness::new(1),
        }
    }

    /// The same with hosts in clusters.
    #[must_use]
    pub fn within(mut self, clusters: Clusters) -> Self {
        self.clusters = clusters;
        self
    }

    fn is_present(&self, host: usize) -> bool {
        self.present.binary_search(&host).is_ok()
    }

    /// Delivers events, and the messages that follow, until there are none left.
    fn run(
        &mut self,
        events: impl IntoIterator<Item = (usize, Event<A::Message>)>,
        machines: &mut dyn Machines,
    ) -> Vec<Step> {
        let mut queue: VecDeque<Pending<A::Message>> =
            events.into_iter().map(|(host, event)| (host, event, 0)).collect();
        let mut waits = VecDeque::new();
        let mut steps = Vec::new();
        while let Some((own, event, ways)) = queue.pop_front().or_else(|| waits.pop_front()) {
            let Some(place) = self.places.get_mut(own) else { continue };
            let at = (own, self.centre);
            let mut scene = Scene::new(
                at,
                (place.homes.len() as u32, 1),
                &self.present,
                machines.now(),
                &mut self.random,
            )
            .within(&self.clusters);
            place.agent.on(event, &mut scene);
            for action in scene.into_actions() {
                match action {
                    Action::Send { to, message } => {
                        machines.send(u64::from(to != own));
                        let ways = ways + u32::from(to != own);
                        if self.is_present(to) {
                            queue.push_back((to, Event::Heard { from: own, message }, ways));
                        } else {
                            queue.push_back((own, Event::Gone(to), ways));
                        }
                    }
                    Action::Start { request, host, count } => {
                        self.start((own, request), host, (count, ways), &mut steps, &mut queue);
                    }
                    Action::Wake(after) if after <= MOMENT => waits.push_back((own, Event::Woken, ways)),
                    Action::Wake(_) | Action::Post(_) | Action::NoRoom { .. } => {}
                }
            }
        }
        steps
    }

    fn start(
        &mut self,
        (home, request): (usize, u64),
        host: usize,
        (count, ways): (u32, u32),
        steps: &mut Vec<Step>,
        queue: &mut VecDeque<Pending<A::Message>>,
    ) {
        if !self.is_present(host) {
            return queue.push_back((home, Event::Created { request, count }, ways));
        }
        let Some(unplaced) = self.unplaced.get_mut(&(home, request)) else { return };
        let count = count.min(*unplaced);
        *unplaced -= count;
        if *unplaced == 0 {
            self.unplaced.remove(&(home, request));
        }
        self.places[host].homes.extend(std::iter::repeat_n(home as u32, count as usize));
        steps.extend(std::iter::repeat_n(Step { request, host, ways }, count as usize));
        queue.push_back((host, Event::Began { home, request, count, placed: true }, ways));
    }

    /// Processes are created at this home, or at the next one that is present.
    fn create(&mut self, home: usize, request: u64, count: u32) -> Option<(usize, Event<A::Message>)> {
        let next = self.present.partition_point(|&host| host < home) % self.present.len().max(1);
        let home = *self.present.get(next)?;
        *self.unplaced.entry((home, request)).or_default() += count;
        Some((home, Event::Created { request, count }))
    }
}

impl<A: Agent> Algorithm for Agents<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn created(&mut self, request: Request, machines: &mut dyn Machines) -> Vec<Step> {
        let created = self.create(request.origin, request.id, request.count);
        self.run(created, machines)
    }

    fn ended(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let Some(place) = self.places.get_mut(host) else { return Vec::new() };
        let home = place.homes.pop_front().map_or(host, |home| home as usize);
        self.run([(host, Event::Ended { home, placed: true })], machines)
    }

    fn interval(&self) -> Option<u64> {
        self.interval
    }

    fn timer(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        self.run([(host, Event::Woken)], machines)
    }

    fn left(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let (Some(place), Ok(at)) = (self.places.get_mut(host), self.present.binary_search(&host)) else {
            return Vec::new();
        };
        *place = Place { agent: (self.make)(), homes: VecDeque::new() };
        self.present.remove(at);
        let mut events: Vec<_> = self.present.iter().map(|&other| (other, Event::Gone(host))).collect();
        if self.centre == host {
            self.centre = self.present.first().copied().unwrap_or(host);
            events.extend(self.present.iter().map(|&host| (host, Event::Centre)));
        }
        let orphans = self.unplaced.range((host, 0)..=(host, u64::MAX)).map(|(&key, &count)| (key, count));
        for (key, count) in orphans.collect::<Vec<_>>() {
            self.unplaced.remove(&key);
            events.extend(self.create(host, key.1, count));
        }
        self.run(events, machines)
    }

    fn returned(&mut self, host: usize, machines: &mut dyn Machines) -> Vec<Step> {
        let Err(at) = self.present.binary_search(&host) else { return Vec::new() };
        self.present.insert(at, host);
        if !self.is_present(self.centre) {
            self.centre = host;
        }
        let mut events: Vec<_> = self.present.iter().map(|&other| (other, Event::Joined(host))).collect();
        events.push((host, Event::Load));
        self.run(events, machines)
    }
}
