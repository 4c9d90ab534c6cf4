//! Load sharing in clusters, as in Utopia and LSF: each host measures a load vector; the master, the live host with the smallest id,
//! gathers them and sends them to all, and each host places its own new processes by what it was sent.
//!
//! *Scheduling parallel jobs on clusters*, section 21.6.2. What travels is bounded: a host reports a vector that differs noticeably
//! from the last one it has reported, and the master passes on what has changed, no more often than [`apart`] says.

use pvm_wire::loads::LoadVector;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

/// The time constants of averages, in seconds.
const PERIODS: [f64; 3] = [60.0, 300.0, 900.0];
/// The master sends vectors no more often than this.
const APART: Duration = Duration::from_secs(5);
/// Bytes of vectors that the master sends in a second, at most.
const BYTES_PER_SECOND: u64 = 1_000_000;
/// A vector with its host, on the wire, at most.
const VECTOR_BYTES: u64 = 80;
/// Vectors in one message.
pub const VECTORS_MAX: usize = 1000;

/// How far apart the master's messages with vectors are in a machine of `hosts` hosts, of which each may hear of each.
///
/// ```
/// use pvm_sched::loads::apart;
///
/// assert_eq!(apart(64).as_secs(), 5);
/// assert_eq!(apart(4000).as_secs(), 1280);
/// ```
pub fn apart(hosts: usize) -> Duration {
    let bytes = (hosts as u64).saturating_mul(hosts as u64).saturating_mul(VECTOR_BYTES);
    APART.max(Duration::from_secs(bytes / BYTES_PER_SECOND))
}

/// Averages of a value over about 1, 5 and 15 minutes: what is older fades exponentially.
///
/// ```
/// use pvm_sched::loads::Averages;
///
/// let mut busy = Averages::default();
/// busy.observe(0.0, 60.0);
/// busy.observe(1.0, 60.0);
/// let [minute, _, quarter] = busy.means();
/// assert!(minute > 0.6 && quarter < 0.1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Averages(Option<[f64; 3]>);

impl Averages {
    /// The value has been this for `seconds` seconds.
    pub fn observe(&mut self, value: f64, seconds: f64) {
        if !value.is_finite() {
            return;
        }
        let mut means = self.0.unwrap_or([value; 3]);
        for (mean, period) in means.iter_mut().zip(PERIODS) {
            // Nearly exp(-x), but libpvm3.a contains this crate, and programs that link it are not linked with libm.
            let x = seconds.max(0.0) / period;
            let kept = 1.0 / (1.0 + x * (1.0 + x * (0.5 + x / 6.0)));
            *mean = *mean * kept + value * (1.0 - kept);
        }
        self.0 = Some(means);
    }

    /// The averages; 0 before anything was observed.
    pub fn means(&self) -> [f64; 3] {
        self.0.unwrap_or_default()
    }
}

/// Whether two vectors differ by enough to be told.
fn differ(a: &LoadVector, b: &LoadVector) -> bool {
    let far = |a: u64, b: u64, least: u64| a.abs_diff(b) >= least;
    let queues = a.run_queue.iter().zip(b.run_queue);
    let shares = a.cpu.iter().zip(b.cpu).chain(a.others.iter().zip(b.others));
    let least_free = (a.memory / 50).max(1);
    queues.into_iter().any(|(&a, b)| far(a.into(), b.into(), 20.max(u64::from(a) / 10)))
        || shares.into_iter().any(|(&a, b)| far(a.into(), b.into(), 30))
        || far(a.tasks.into(), b.tasks.into(), 1.max(u64::from(a.tasks) / 10))
        || a.memory != b.memory
        || a.cores != b.cores
        || far(a.free, b.free, least_free)
        || a.users != b.users
        || a.input.is_some() != b.input.is_some()
        || far(a.input.unwrap_or(0), b.input.unwrap_or(0), 30)
}

/// What a host knows of the loads of all, and has told.
#[derive(Clone, Debug)]
pub struct Loads<H> {
    own: H,
    vectors: BTreeMap<H, LoadVector>,
    /// What the master has been told of this host.
    told: Option<LoadVector>,
    /// As the master: hosts whose vectors the others are still to be sent.
    changed: BTreeSet<H>,
}

impl<H: Copy + Ord + Debug> Loads<H> {
    /// Of a host that knows nothing yet.
    pub fn new(own: H) -> Self {
        Self { own, vectors: BTreeMap::new(), told: None, changed: BTreeSet::new() }
    }

    /// A host's vector, as far as it is known.
    pub fn get(&self, host: H) -> Option<&LoadVector> {
        self.vectors.get(&host)
    }

    /// This host has measured its load; whether the master is to be told of it.
    pub fn measured(&mut self, vector: LoadVector) -> bool {
        self.vectors.insert(self.own, vector);
        let tells = self.told.as_ref().is_none_or(|told| differ(told, &vector));
        if tells {
            self.told = Some(vector);
        }
        tells
    }

    /// This host has this number of tasks now: its vector, if that has changed by enough for the master to be told before the next
    /// measurement.
    pub fn counted(&mut self, tasks: u32) -> Option<LoadVector> {
        let told = self.told?.tasks;
        let has_changed = tasks.abs_diff(told) >= 1.max(told / 4);
        let vector = LoadVector { tasks, ..*self.vectors.get(&self.own).filter(|_| has_changed)? };
        self.measured(vector).then_some(vector)
    }

    /// As the master: a host, or this one, tells its load.
    pub fn heard(&mut self, host: H, vector: LoadVector) {
        self.vectors.insert(host, vector);
        self.changed.insert(host);
    }

    /// The master sends vectors of hosts. What this host knows of itself is newer.
    pub fn sent(&mut self, vectors: impl IntoIterator<Item = (H, LoadVector)>) {
        let own = self.own;
        self.vectors.extend(vectors.into_iter().filter(|(host, _)| *host != own));
    }

    /// As the master: what the others are to be sent now, [`VECTORS_MAX`] at most.
    pub fn take_changed(&mut self) -> Vec<(H, LoadVector)> {
        let part: Vec<H> = self.changed.iter().copied().take(VECTORS_MAX).collect();
        for host in &part {
            self.changed.remove(host);
        }
        part.into_iter().filter_map(|host| Some((host, *self.vectors.get(&host)?))).collect()
    }

    /// As the master: whether there is something to be sent.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// As the master: hosts have joined, which know nothing.
    pub fn joined(&mut self) {
        self.changed.extend(self.vectors.keys().copied());
    }

    /// A host is out.
    pub fn gone(&mut self, host: H) {
        self.vectors.remove(&host);
        self.changed.remove(&host);
    }

    /// There is another master, which knows nothing of this host, or is this host.
    pub fn new_master(&mut self) {
        self.told = None;
        self.changed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(run_queue: u32) -> LoadVector {
        LoadVector { run_queue: [run_queue; 3], memory: 100, free: 50, ..LoadVector::default() }
    }

    #[test]
    fn more_tasks_are_told_before_the_next_measurement() {
        let mut loads = Loads::new(1);
        assert_eq!(loads.counted(3), None, "nothing was measured yet");
        assert!(loads.measured(load(120)));
        assert_eq!((loads.counted(0), loads.counted(2).map(|load| load.tasks)), (None, Some(2)));
        assert_eq!(loads.counted(40).map(|load| load.tasks), Some(40));
        assert_eq!((loads.counted(45), loads.counted(30).map(|load| load.tasks)), (None, Some(30)));
    }

    #[test]
    fn a_host_tells_what_has_changed_noticeably() {
        let mut loads = Loads::new(2);
        assert!(loads.measured(load(100)));
        assert!(!loads.measured(load(100)) && !loads.measured(load(119)));
        assert!(loads.measured(load(120)), "compared with what was told, not with what was measured");
        assert!(loads.measured(LoadVector { users: 1, ..load(120) }));
        assert!(loads.measured(LoadVector { free: 48, ..load(120) }));
        assert!(loads.measured(LoadVector { input: Some(5), ..load(120) }));
        assert!(!loads.measured(LoadVector { input: Some(34), ..load(120) }));
        loads.new_master();
        assert!(loads.measured(LoadVector { input: Some(34), ..load(120) }));
    }

    #[test]
    fn the_master_sends_what_has_changed_once() {
        let mut master = Loads::new(1);
        master.heard(1, load(1));
        master.heard(3, load(2));
        assert_eq!(master.take_changed(), [(1, load(1)), (3, load(2))]);
        assert!(!master.has_changed() && master.take_changed().is_empty());
        master.heard(3, load(3));
        master.heard(4, load(4));
        master.gone(4);
        assert_eq!(master.take_changed(), [(3, load(3))]);
        master.joined();
        let mut other = Loads::new(3);
        other.measured(load(7));
        other.sent(master.take_changed());
        assert_eq!([other.get(1), other.get(3), other.get(4)], [Some(&load(1)), Some(&load(7)), None]);
    }

    #[test]
    fn a_message_has_a_bound() {
        let mut master = Loads::new(0);
        for host in 0..=VECTORS_MAX {
            master.heard(host, load(1));
        }
        assert_eq!((master.take_changed().len(), master.take_changed().len()), (VECTORS_MAX, 1));
    }

    #[test]
    fn short_bursts_hardly_move_the_long_averages() {
        let mut load = Averages::default();
        load.observe(1.0, 900.0);
        load.observe(50.0, 1.0);
        load.observe(f64::NAN, 1.0);
        assert!(load.means()[2] < 1.1 && load.means()[0] > 1.5);
        load.observe(50.0, 9000.0);
        assert!(load.means()[2] > 49.0);
    }

    proptest! {
        /// However often loads change, and whoever is told when: after the last report and message no host knows of another what differs
        /// noticeably from what that has told.
        #[test]
        fn all_know_the_same_in_the_end(changes in proptest::collection::vec((0..5_u32, 0..400_u32, any::<bool>()), 0..60)) {
            let mut hosts: Vec<Loads<u32>> = (0..5).map(Loads::new).collect();
            let spread = |hosts: &mut Vec<Loads<u32>>| {
                let vectors = hosts[0].take_changed();
                for host in hosts.iter_mut() {
                    host.sent(vectors.clone());
                }
            };
            for (host, run_queue, sends) in changes {
                if hosts[host as usize].measured(load(run_queue)) {
                    hosts[0].heard(host, load(run_queue));
                }
                if sends {
                    spread(&mut hosts);
                }
            }
            spread(&mut hosts);
            for of in 0..5 {
                let told = hosts[of].told;
                for host in hosts.iter().filter(|host| host.own != of as u32) {
                    let known = host.get(of as u32);
                    prop_assert_eq!(known.is_some(), told.is_some());
                    prop_assert!(known.zip(told.as_ref()).is_none_or(|(known, told)| !differ(told, known)));
                }
            }
        }
    }
}
