//! The interface of a policy: one agent on each host, which hears events and answers with actions.

use super::clusters::Clusters;
use pvm_wire::daemon::Offer;
use pvm_wire::spawn::Pair;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// One host's part of a policy.
///
/// The agents of all hosts are equal; an agent learns from its [`Scene`] on which host it is and which host is the centre. Agents know of
/// each other only what they hear in messages. Between two hosts messages arrive in the order in which they were sent. A message to a host
/// that is gone is lost, and the sender hears [`Event::Gone`].
///
/// Each process of each request is to be started once: the creator's agent, and no other, calls [`Scene::start`] for it.
///
/// # Examples
///
/// A policy that starts each process on a random host:
///
/// ```
/// use pvm_sched::allocation::agent::{Agent, Event, Scene};
///
/// #[derive(Debug, Default)]
/// struct Random;
///
/// impl Agent for Random {
///     type Message = ();
///
///     fn on(&mut self, event: Event<()>, scene: &mut Scene<'_, ()>) {
///         if let Event::Created { request, count } = event {
///             for _ in 0..count {
///                 let host = scene.hosts[scene.random(scene.hosts.len())];
///                 scene.start(request, host, 1);
///             }
///         }
///     }
/// }
/// ```
pub trait Agent: Debug + Send {
    /// What agents of this policy say to each other.
    type Message: Serialize + DeserializeOwned + Debug + Send;

    /// Handles an event.
    fn on(&mut self, event: Event<Self::Message>, scene: &mut Scene<'_, Self::Message>);
}

/// What an agent hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// What is known of a request's processes that wait, before [`Event::Created`].
    Known {
        /// Its number.
        request: u64,
        /// How much they talk to each other. They count from 0, in the order in which they are started.
        traffic: Vec<Pair>,
        /// Whether they may wait for room.
        may_wait: bool,
    },
    /// Processes are created on this host, which is their home: they are to be started somewhere. A request that is created again has
    /// more processes than before, for instance as a host has been lost that was to start them.
    Created {
        /// Its number, unique on this host.
        request: u64,
        /// How many processes.
        count: u32,
    },
    /// None of a request's processes waits any more, or they are started without this policy.
    Dropped {
        /// Its number.
        request: u64,
    },
    /// The agent of another host says something.
    Heard {
        /// The host.
        from: usize,
        /// What it says.
        message: M,
    },
    /// Processes have begun on this host; they are in its load.
    Began {
        /// The host on which they were created.
        home: usize,
        /// The request, as its home numbers them, if an agent of this policy has started them.
        request: u64,
        /// How many.
        count: u32,
        /// Whether an agent of this policy has started them.
        placed: bool,
    },
    /// A process has ended on this host, and is no longer in its load.
    Ended {
        /// The host on which it was created.
        home: usize,
        /// Whether an agent of this policy has started it.
        placed: bool,
    },
    /// The load of this host has changed otherwise.
    Load,
    /// The time is over for which the agent wanted to wait.
    Woken,
    /// A host has joined.
    Joined(usize),
    /// A host is gone: nothing that was said to it is answered.
    Gone(usize),
    /// Another host is the centre from now on. Its agent does not know what was said to the one before.
    Centre,
}

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<M> {
    /// Processes of a request that was created here go to a host: those that have waited longest, in the order of their numbers.
    Start {
        /// The request.
        request: u64,
        /// The host.
        host: usize,
        /// How many of its processes.
        count: u32,
    },
    /// A message to the agent of a host, which may be this one.
    Send {
        /// The host.
        to: usize,
        /// The message.
        message: M,
    },
    /// [`Event::Woken`] is wanted after this time, milliseconds. An earlier one that has not come yet is not wanted any more.
    Wake(u64),
    /// What this host asks and has earned, for the list that every program can read.
    Post(Offer),
    /// No host has room for what waits of a request. Processes that must not wait for room are divided among all hosts then.
    NoRoom {
        /// The request.
        request: u64,
    },
}

/// Hosts that are all in one cluster.
static NO_CLUSTERS: Clusters = Clusters::NONE;

/// What an agent sees of the world, and its actions.
#[derive(Debug)]
pub struct Scene<'a, M> {
    /// This host.
    pub own: usize,
    /// Processes on this host, and the load of others in the same measure.
    pub load: u32,
    /// The number of processes for which this host has processors, at least 1.
    pub room: u32,
    /// All hosts, in ascending order; this one is among them.
    pub hosts: &'a [usize],
    /// Which of them belong together.
    pub clusters: &'a Clusters,
    /// The host whose agent decides for all, in policies with a centre.
    pub centre: usize,
    /// The time, in milliseconds.
    pub now: u64,
    random: &'a mut Randomness,
    actions: Vec<Action<M>>,
}

impl<'a, M> Scene<'a, M> {
    /// Of a host with this number of processes and processors.
    pub fn new(
        (own, centre): (usize, usize),
        (load, room): (u32, u32),
        hosts: &'a [usize],
        now: u64,
        random: &'a mut Randomness,
    ) -> Self {
        let (room, clusters, actions) = (room.max(1), &NO_CLUSTERS, Vec::new());
        Self { own, load, room, hosts, clusters, centre, now, random, actions }
    }

    /// The same with hosts in clusters.
    #[must_use]
    pub fn within(mut self, clusters: &'a Clusters) -> Self {
        self.clusters = clusters;
        self
    }

    /// Processes that could begin here and would have a processor.
    pub fn free(&self) -> u32 {
        self.room.saturating_sub(self.load)
    }

    /// Starts processes of a request that was created here.
    pub fn start(&mut self, request: u64, host: usize, count: u32) {
        if count > 0 {
            self.actions.push(Action::Start { request, host, count });
        }
    }

    /// Starts processes here, as many as there is room for. Returns the number that is left over.
    pub fn start_here(&mut self, request: u64, count: u32, room: u32) -> u32 {
        let here = count.min(room);
        self.start(request, self.own, here);
        count - here
    }

    /// Says something to the agent of a host.
    pub fn send(&mut self, to: usize, message: M) {
        self.actions.push(Action::Send { to, message });
    }

    /// Wants to be woken after this time, in milliseconds.
    pub fn wake(&mut self, after: u64) {
        self.actions.push(Action::Wake(after));
    }

    /// Puts into the list that every program can read what this host asks and has earned.
    pub fn post(&mut self, offer: Offer) {
        self.actions.push(Action::Post(offer));
    }

    /// No host has room for what waits of a request.
    pub fn no_room(&mut self, request: u64) {
        self.actions.push(Action::NoRoom { request });
    }

    /// A random number below `below`; 0 if that is 0.
    pub fn random(&mut self, below: usize) -> usize {
        self.random.below(below)
    }

    /// A random host other than this one, each equally likely. `None` if this is the only one.
    pub fn random_other(&mut self) -> Option<usize> {
        let others = self.hosts.len().checked_sub(1).filter(|&others| others > 0)?;
        let own = self.hosts.partition_point(|&host| host < self.own);
        let at = self.random(others);
        self.hosts.get(if at < own { at } else { at + 1 }).copied()
    }

    /// What the agent did.
    pub fn into_actions(self) -> Vec<Action<M>> {
        self.actions
    }
}

/// Random numbers that repeat themselves from the same seed: Knuth's linear congruential generator (*The Art of Computer Programming*,
/// volume 2, section 3.3.4), the upper bits.
#[derive(Clone, Debug)]
pub struct Randomness(u64);

impl Randomness {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A random number below `below`; 0 if that is 0.
    pub fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// An agent whose messages are bytes: of any policy.
pub trait Party: Debug + Send {
    /// As [`Agent::on`]. A message that cannot be read is ignored.
    fn on(&mut self, event: Event<Vec<u8>>, scene: &mut Scene<'_, Vec<u8>>);
}

/// An agent as a [`Party`].
#[derive(Debug)]
pub struct Coded<A>(pub A);

impl<A: Agent> Party for Coded<A> {
    fn on(&mut self, event: Event<Vec<u8>>, scene: &mut Scene<'_, Vec<u8>>) {
        let Some(event) = event.decode::<A::Message>() else { return };
        let place = (scene.own, scene.centre);
        let load = (scene.load, scene.room);
        let mut inner = Scene::new(place, load, scene.hosts, scene.now, scene.random).within(scene.clusters);
        self.0.on(event, &mut inner);
        let actions = inner.into_actions();
        scene.actions.extend(actions.into_iter().filter_map(Action::encode));
    }
}

impl Event<Vec<u8>> {
    fn decode<M: DeserializeOwned>(self) -> Option<Event<M>> {
        Some(match self {
            Self::Known { request, traffic, may_wait } => Event::Known { request, traffic, may_wait },
            Self::Created { request, count } => Event::Created { request, count },
            Self::Dropped { request } => Event::Dropped { request },
            Self::Heard { from, message } => {
                Event::Heard { from, message: pvm_wire::codec::decode(&message).ok()? }
            }
            Self::Began { home, request, count, placed } => Event::Began { home, request, count, placed },
            Self::Ended { home, placed } => Event::Ended { home, placed },
            Self::Load => Event::Load,
            Self::Woken => Event::Woken,
            Self::Joined(host) => Event::Joined(host),
            Self::Gone(host) => Event::Gone(host),
            Self::Centre => Event::Centre,
        })
    }
}

impl<M: Serialize> Action<M> {
    fn encode(self) -> Option<Action<Vec<u8>>> {
        Some(match self {
            Self::Start { request, host, count } => Action::Start { request, host, count },
            // What agents say has a few numbers, far below the limit of a message.
            Self::Send { to, message } => {
                Action::Send { to, message: pvm_wire::codec::encode(&message).ok()? }
            }
            Self::Wake(after) => Action::Wake(after),
            Self::Post(offer) => Action::Post(offer),
            Self::NoRoom { request } => Action::NoRoom { request },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_other_host_is_any_but_the_own_one() {
        let mut random = Randomness::new(1);
        let hosts = [2, 5, 9];
        let mut scene: Scene<'_, ()> = Scene::new((5, 2), (0, 1), &hosts, 0, &mut random);
        let mut seen: Vec<usize> = (0..100).filter_map(|_| scene.random_other()).collect();
        assert_eq!(seen.len(), 100);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [2, 9]);
        let mut alone: Scene<'_, ()> = Scene::new((5, 5), (0, 1), &hosts[1..2], 0, &mut random);
        assert_eq!((alone.random_other(), alone.random(0)), (None, 0));
    }

    #[test]
    fn a_message_that_cannot_be_read_is_ignored() {
        #[derive(Debug)]
        struct Echo;
        impl Agent for Echo {
            type Message = (u32, bool);
            fn on(&mut self, event: Event<(u32, bool)>, scene: &mut Scene<'_, (u32, bool)>) {
                if let Event::Heard { from, message } = event {
                    scene.send(from, message);
                }
            }
        }
        let mut random = Randomness::new(1);
        let mut echo = Coded(Echo);
        let mut hear = |message: Vec<u8>| {
            let mut scene = Scene::new((1, 1), (0, 1), &[1], 0, &mut random);
            echo.on(Event::Heard { from: 7, message }, &mut scene);
            scene.into_actions()
        };
        assert_eq!(hear(vec![3, 1]), [Action::Send { to: 7, message: vec![3, 1] }]);
        for junk in [vec![], vec![3, 9], vec![3, 1, 0], vec![0xff; 40]] {
            assert_eq!(hear(junk), []);
        }
    }
}
