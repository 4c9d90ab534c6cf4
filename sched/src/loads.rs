//! Load sharing in clusters, as in Utopia and LSF: load vectors, the master that gathers them, virtual clusters.
//!
//! *Scheduling parallel jobs on clusters*, section 21.6.2. A daemon on each node measures a load vector; the live node
//! with the smallest id is the master, which gathers the vectors and sends them to all; each node places its own new
//! processes by what it was sent. Masters of different clusters exchange what they know. Batch decisions use averages
//! over a long time instead of the latest values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The load of a node at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadVector {
    /// Mean number of processes that wanted to run, lately.
    pub run_queue: f64,
    /// Part of the memory that is in use, 0 to 1.
    pub memory: f64,
    /// Users that are logged in.
    pub users: u32,
    /// Speed, relative to a node of speed 1.
    pub speed: f64,
    /// Whether it had no keyboard input for a while.
    pub idle: bool,
}

impl LoadVector {
    /// How long a new process would take here, relative to an idle node of speed 1.
    pub fn stretch(&self) -> f64 {
        (self.run_queue.max(0.0) + 1.0) / self.speed.max(f64::MIN_POSITIVE)
    }
}

/// Which nodes a new process may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Idle workstations.
    IdleOnly,
    /// All, the lightly loaded first.
    LightlyLoaded,
}

/// The node for a new process that needs this part of a node's memory: the one on which it takes least time, of equal
/// ones the first. Nodes whose values are not numbers are not considered.
pub fn place<H: Copy + Ord>(vectors: &BTreeMap<H, LoadVector>, choice: Choice, memory: f64) -> Option<H> {
    let eligible = vectors.iter().filter(|(_, vector)| {
        (choice == Choice::LightlyLoaded || vector.idle)
            && vector.memory + memory <= 1.0
            && vector.stretch().is_finite()
    });
    eligible.min_by(|a, b| a.1.stretch().total_cmp(&b.1.stretch())).map(|(&host, _)| host)
}

/// The master: the live node with the smallest id.
pub fn master<H: Copy + Ord>(live: &BTreeSet<H>) -> Option<H> {
    live.first().copied()
}

/// A message of a load daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<H> {
    /// To the master: the sender's vector.
    Vector(LoadVector),
    /// From the master: everyone's vectors.
    All(BTreeMap<H, LoadVector>),
}

/// A node's load daemon: its knowledge, and its messages.
#[derive(Clone, Debug)]
pub struct Daemon<H> {
    own: H,
    live: BTreeSet<H>,
    vectors: BTreeMap<H, LoadVector>,
}

impl<H: Copy + Ord + Debug> Daemon<H> {
    /// A daemon that believes these nodes, and itself, to be alive.
    pub fn new(own: H, live: impl IntoIterator<Item = H>) -> Self {
        let mut live: BTreeSet<H> = live.into_iter().collect();
        live.insert(own);
        Self { own, live, vectors: BTreeMap::new() }
    }

    /// The master, as far as this node knows.
    pub fn master(&self) -> H {
        master(&self.live).unwrap_or(self.own)
    }

    /// The load vectors of the others, by which it places processes.
    pub fn vectors(&self) -> &BTreeMap<H, LoadVector> {
        &self.vectors
    }

    /// It is time to report this node's load: the messages to send, with their receivers.
    pub fn report(&mut self, vector: LoadVector) -> Vec<(H, Message<H>)> {
        self.vectors.insert(self.own, vector);
        if self.master() != self.own {
            return vec![(self.master(), Message::Vector(vector))];
        }
        let others = self.live.iter().filter(|&&host| host != self.own);
        others.map(|&host| (host, Message::All(self.vectors.clone()))).collect()
    }

    /// A message has come. A vector is noted by whoever gets it: the sender may have taken this node for the master
    /// before this node did.
    pub fn receive(&mut self, from: H, message: Message<H>) {
        match message {
            Message::Vector(vector) if self.live.contains(&from) => {
                self.vectors.insert(from, vector);
            }
            Message::All(vectors) if from == self.master() => {
                self.vectors = vectors.into_iter().filter(|(host, _)| self.live.contains(host)).collect();
            }
            Message::Vector(_) | Message::All(_) => {}
        }
    }

    /// A node has joined.
    pub fn joined(&mut self, host: H) {
        self.live.insert(host);
    }

    /// A node has died. If it was the master, the next id is.
    pub fn died(&mut self, host: H) {
        if host != self.own {
            self.live.remove(&host);
            self.vectors.remove(&host);
        }
    }
}

/// A virtual cluster: the nodes of several clusters that are at least this fast.
pub fn virtual_cluster<C: Copy + Ord, H: Copy + Ord>(
    clusters: &BTreeMap<C, BTreeMap<H, LoadVector>>,
    speed: f64,
) -> BTreeMap<(C, H), LoadVector> {
    let all = clusters
        .iter()
        .flat_map(|(&cluster, nodes)| nodes.iter().map(move |(&host, &v)| ((cluster, host), v)));
    all.filter(|(_, vector)| vector.speed >= speed).collect()
}

/// An average over a long time, for batch decisions: old values fade with time constant `period`.
#[derive(Clone, Copy, Debug)]
pub struct LongTerm {
    period: f64,
    mean: Option<f64>,
}

impl LongTerm {
    /// An average over about `period` seconds.
    pub fn new(period: f64) -> Self {
        Self { period: period.max(f64::MIN_POSITIVE), mean: None }
    }

    /// The value has been this for this many seconds.
    pub fn observe(&mut self, value: f64, seconds: f64) {
        let weight = (seconds / (self.period + seconds)).clamp(0.0, 1.0);
        self.mean = Some(self.mean.map_or(value, |mean| mean + (value - mean) * weight));
    }

    /// The average, once something was observed.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(run_queue: f64, speed: f64, idle: bool) -> LoadVector {
        LoadVector { run_queue, memory: 0.5, users: 1, speed, idle }
    }

    #[test]
    fn a_process_goes_where_it_takes_least_time() {
        let vectors =
            [(1, vector(0.0, 1.0, false)), (2, vector(1.0, 4.0, false)), (3, vector(0.0, 1.5, true))].into();
        assert_eq!(place(&vectors, Choice::LightlyLoaded, 0.1), Some(2));
        assert_eq!(place(&vectors, Choice::IdleOnly, 0.1), Some(3));
        assert_eq!(place(&vectors, Choice::LightlyLoaded, 0.6), None, "no memory");
        assert_eq!(place::<u8>(&BTreeMap::new(), Choice::LightlyLoaded, 0.0), None);
        let broken = [(1, vector(f64::INFINITY, 1.0, true))].into();
        assert_eq!(place(&broken, Choice::IdleOnly, 0.0), None);
    }

    /// Reports and answers until nothing is under way.
    fn round(daemons: &mut BTreeMap<u32, Daemon<u32>>) {
        for master_too in [false, true] {
            let hosts: Vec<u32> = daemons.keys().copied().collect();
            for host in hosts {
                let Some(daemon) = daemons.get_mut(&host) else { continue };
                if (daemon.master() == host) == master_too {
                    for (to, message) in daemon.report(vector(f64::from(host), 1.0, true)) {
                        if let Some(other) = daemons.get_mut(&to) {
                            other.receive(host, message);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_smallest_live_id_gathers_and_is_succeeded() {
        let mut daemons: BTreeMap<u32, Daemon<u32>> =
            [7, 3, 5].into_iter().map(|host| (host, Daemon::new(host, [3, 5, 7]))).collect();
        round(&mut daemons);
        assert!(daemons.values().all(|daemon| daemon.master() == 3 && daemon.vectors().len() == 3));
        daemons.remove(&3);
        for daemon in daemons.values_mut() {
            daemon.died(3);
        }
        assert!(daemons.values().all(|daemon| daemon.master() == 5));
        round(&mut daemons);
        assert!(daemons.values().all(|daemon| daemon.vectors().keys().eq(&[5, 7])));
        // A node with a smaller id takes over when it comes.
        for daemon in daemons.values_mut() {
            daemon.joined(1);
        }
        daemons.insert(1, Daemon::new(1, [5, 7]));
        round(&mut daemons);
        assert!(daemons.values().all(|daemon| daemon.master() == 1 && daemon.vectors().len() == 3));
    }

    #[test]
    fn only_the_master_sends_to_all() {
        let mut daemon = Daemon::new(5, [3, 7]);
        daemon.receive(7, Message::All([(9, LoadVector::default())].into()));
        assert!(daemon.vectors().is_empty());
        daemon.receive(99, Message::Vector(LoadVector::default()));
        assert!(daemon.vectors().is_empty(), "a node that is not alive");
    }

    #[test]
    fn strong_servers_anywhere_form_a_virtual_cluster() {
        let clusters = [
            ("a", [(1, vector(0.0, 1.0, true)), (2, vector(0.0, 8.0, true))].into()),
            ("b", [(1, vector(3.0, 9.0, true))].into()),
        ];
        let strong = virtual_cluster(&clusters.into(), 4.0);
        assert!(strong.keys().eq(&[("a", 2), ("b", 1)]));
        assert_eq!(place(&strong, Choice::LightlyLoaded, 0.0), Some(("a", 2)));
    }

    #[test]
    fn short_bursts_hardly_move_the_long_term() {
        let mut load = LongTerm::new(3600.0);
        assert_eq!(load.mean(), None);
        load.observe(1.0, 3600.0);
        load.observe(50.0, 10.0);
        assert!(load.mean().is_some_and(|mean| mean < 1.2));
        for _ in 0..100 {
            load.observe(50.0, 3600.0);
        }
        assert!(load.mean().is_some_and(|mean| mean > 49.0));
    }

    proptest! {
        /// Whoever dies and joins in whatever order, all that have heard of it agree on the smallest live id.
        #[test]
        fn all_agree_on_the_master(changes in proptest::collection::vec((0..8_u32, proptest::bool::ANY), 0..40)) {
            let mut live: BTreeSet<u32> = (0..8).collect();
            let mut daemons: Vec<Daemon<u32>> = (0..8).map(|host| Daemon::new(host, 0..8)).collect();
            for (host, joins) in changes {
                if joins { live.insert(host); } else { live.remove(&host); }
                for daemon in &mut daemons {
                    if joins { daemon.joined(host) } else { daemon.died(host) }
                }
                for &alive in &live {
                    prop_assert_eq!(Some(daemons[alive as usize].master()), live.first().copied());
                }
            }
        }
    }
}
