//! Coscheduling by communication: a message takes its receiver's job onto the processor.
//!
//! *Scheduling parallel jobs on clusters*, section 21.5. The communication layer sees every message and tells the
//! scheduler, so that sending may bring the receiver to run together with the sender. Two jobs that do so at once on two
//! nodes would pull each other back for ever; epochs decide. [`Node`] is the demand-based rule with its fairness,
//! [`TwoPhase`] implicit coscheduling's wait, [`local_next`] and [`gang_slice`] the two ends of the scale to compare with.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// A node's epoch number: how many spontaneous context switches its present order has behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// What a message's arrival does to the node's processor. The message is delivered in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Switch to the job that the message is for. The node has adopted the message's epoch.
    Switch,
    /// The message is for the job that runs. If its epoch is greater, it has been adopted.
    Runs,
    /// The message's epoch is not greater than the node's: no switch.
    Old,
    /// It comes from this node, and a job gains nothing by sending to itself.
    Local,
    /// The job has had more of the processor than the one that runs, by more than may be: no switch.
    Unfair,
}

/// The demand-based rule at one node: which job runs, and whether a message changes that.
///
/// Fairness: a message may take a job onto the processor only while its account, the CPU time it has had here, is not
/// ahead of the running job's by more than `slack`. Time slices, which messages do not change, even the accounts out.
#[derive(Clone, Debug)]
pub struct Node<J> {
    epoch: Epoch,
    running: Option<J>,
    used: BTreeMap<J, Duration>,
    slack: Duration,
}

impl<J: Copy + Ord + Debug> Node<J> {
    /// A node that runs nothing. `slack` is best some time slices.
    pub fn new(slack: Duration) -> Self {
        Self { epoch: Epoch::default(), running: None, used: BTreeMap::new(), slack }
    }

    /// The epoch that goes with every message that leaves.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What runs.
    pub fn running(&self) -> Option<J> {
        self.running
    }

    /// A spontaneous context switch: a time slice has ended, and `next` runs from now on.
    pub fn slice_ended(&mut self, next: Option<J>) {
        self.epoch.0 += 1;
        self.dispatch(next);
    }

    /// A switch that is no time slice's end, such as when the running job blocks. The epoch stays.
    pub fn dispatch(&mut self, next: Option<J>) {
        self.running = next;
        if let Some(job) = next {
            // A newcomer starts level with the least of those here, or it could claim all the time before it came.
            let level = self.used.values().min().copied().unwrap_or_default();
            self.used.entry(job).or_insert(level);
        }
    }

    /// The running job has had the processor for this long.
    pub fn charge(&mut self, time: Duration) {
        if let Some(account) = self.running.and_then(|job| self.used.get_mut(&job)) {
            *account = account.saturating_add(time);
        }
    }

    /// A job has no process here any more.
    pub fn forget(&mut self, job: J) {
        self.used.remove(&job);
        if self.running == Some(job) {
            self.running = None;
        }
    }

    /// A message has arrived for a job that is ready to run here; `from_here` if it was sent on this node.
    pub fn arrived(&mut self, job: J, epoch: Epoch, from_here: bool) -> Arrival {
        if from_here {
            return Arrival::Local;
        }
        if self.running == Some(job) {
            self.epoch = self.epoch.max(epoch);
            return Arrival::Runs;
        }
        if epoch <= self.epoch {
            return Arrival::Old;
        }
        if !self.fair(job) {
            return Arrival::Unfair;
        }
        self.epoch = epoch;
        self.dispatch(Some(job));
        Arrival::Switch
    }

    fn fair(&self, job: J) -> bool {
        let account = |job: J| self.used.get(&job).copied().unwrap_or_default();
        self.running.is_none_or(|running| account(job) <= account(running).saturating_add(self.slack))
    }
}

/// Implicit coscheduling's two-phase wait: spin for a while, then block.
///
/// How long to spin is measured: a number of context switches, [`TwoPhase::FACTOR`] by default, of a cost that is a
/// moving average of what was observed, within bounds.
#[derive(Clone, Copy, Debug)]
pub struct TwoPhase {
    cost: Option<Duration>,
    factor: u32,
}

impl TwoPhase {
    /// Spinning for one context switch balances spinning and blocking; five leave time to wake the peer.
    pub const FACTOR: u32 = 5;
    /// A context switch that seems to cost less is taken to cost this.
    pub const LEAST: Duration = Duration::from_nanos(200);
    /// A context switch that seems to cost more is taken to cost this, so that no wait spins for long.
    pub const MOST: Duration = Duration::from_micros(500);

    /// A wait that spins for `factor` context switches.
    pub fn new(factor: u32) -> Self {
        Self { cost: None, factor }
    }

    /// A context switch was observed to cost this much.
    pub fn observe(&mut self, cost: Duration) {
        let cost = cost.clamp(Self::LEAST, Self::MOST);
        self.cost = Some(self.cost.map_or(cost, |mean| (mean * 7 + cost) / 8));
    }

    /// How long to spin before blocking. Before anything was observed, not at all.
    pub fn spin(&self) -> Duration {
        self.cost.map_or(Duration::ZERO, |cost| cost * self.factor)
    }
}

impl Default for TwoPhase {
    fn default() -> Self {
        Self::new(Self::FACTOR)
    }
}

/// Local scheduling: the ready job after the one that ran, in the order of the list, without regard to other nodes.
pub fn local_next<J: Copy + PartialEq>(jobs: &[J], ran: Option<J>, ready: impl Fn(J) -> bool) -> Option<J> {
    let start = ran.and_then(|ran| jobs.iter().position(|&job| job == ran)).map_or(0, |at| at + 1);
    (0..jobs.len()).map(|step| jobs[(start + step) % jobs.len()]).find(|&job| ready(job))
}

/// Gang scheduling: which of `rows` time slices all nodes run at `now`. `None` if there are none.
pub fn gang_slice(now: Duration, quantum: Duration, rows: usize) -> Option<usize> {
    let slice = now.as_nanos() / quantum.as_nanos().max(1);
    (rows > 0).then(|| (slice % rows as u128) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE: Duration = Duration::from_millis(100);

    fn node(job: char) -> Node<char> {
        let mut node = Node::new(2 * SLICE);
        node.dispatch(Some(job));
        node
    }

    #[test]
    fn a_greater_epoch_switches_and_is_adopted() {
        let mut node = node('B');
        assert_eq!(node.arrived('A', Epoch(3), false), Arrival::Switch);
        assert_eq!((node.running(), node.epoch()), (Some('A'), Epoch(3)));
        assert_eq!(node.arrived('B', Epoch(2), false), Arrival::Old);
        assert_eq!(node.arrived('B', Epoch(3), false), Arrival::Old, "equal is not greater");
        assert_eq!(node.arrived('A', Epoch(5), false), Arrival::Runs);
        assert_eq!(node.epoch(), Epoch(5));
        node.slice_ended(Some('B'));
        assert_eq!((node.running(), node.epoch()), (Some('B'), Epoch(6)));
    }

    /// The source's conflict: A runs on node 1, B on node 2, and each sends to its other half at once.
    #[test]
    fn in_the_conflict_exactly_one_job_is_coscheduled() {
        for (first, second) in [(1, 0), (0, 1), (7, 3)] {
            let (mut one, mut two) = (node('B'), node('B'));
            (0..first).for_each(|_| one.slice_ended(Some('A')));
            one.dispatch(Some('A'));
            (0..second).for_each(|_| two.slice_ended(Some('B')));
            let (from_one, from_two) = (one.epoch(), two.epoch());
            let answers = [one.arrived('B', from_two, false), two.arrived('A', from_one, false)];
            assert_eq!(answers.iter().filter(|&&answer| answer == Arrival::Switch).count(), 1);
            assert_eq!(one.running(), two.running());
            // Messages that were on their way do not pull it back.
            assert_ne!(one.arrived('B', from_two, false), Arrival::Switch);
            assert_ne!(two.arrived('B', from_two, false), Arrival::Switch);
        }
    }

    #[test]
    fn a_new_job_spreads_over_all_nodes() {
        let mut nodes: Vec<Node<char>> = (0..8).map(|_| node('B')).collect();
        nodes[0].slice_ended(Some('A'));
        for to in 1..8 {
            let epoch = nodes[to - 1].epoch();
            let old = nodes[to].epoch();
            assert_eq!(nodes[to].arrived('A', epoch, false), Arrival::Switch);
            assert_eq!(nodes[to - 1].arrived('B', old, false), Arrival::Old);
        }
        assert!(nodes.iter().all(|node| node.running() == Some('A')));
    }

    /// Two jobs on one node, one of them flooded with messages of ever greater epochs, from itself and from accomplices.
    #[test]
    fn a_job_that_floods_itself_gains_nothing() {
        for from_here in [true, false] {
            let mut node = node('B');
            let mut used = [Duration::ZERO; 2];
            let tick = Duration::from_millis(1);
            for ms in 0..20_000_u64 {
                if ms % 100 == 0 {
                    let next = if node.running() == Some('A') { 'B' } else { 'A' };
                    node.slice_ended(Some(next));
                }
                node.arrived('A', Epoch(node.epoch().0 + 1), from_here);
                node.charge(tick);
                used[usize::from(node.running() == Some('B'))] += tick;
            }
            assert!(used[0] <= used[1] + 3 * SLICE, "{used:?}");
        }
    }

    #[test]
    fn a_newcomer_does_not_claim_the_past() {
        let mut node = node('B');
        node.charge(100 * SLICE);
        node.slice_ended(Some('A'));
        node.charge(3 * SLICE);
        node.slice_ended(Some('B'));
        assert_eq!(node.arrived('A', Epoch(9), false), Arrival::Unfair);
        node.forget('B');
        assert_eq!(node.running(), None);
        assert_eq!(node.arrived('A', Epoch(9), false), Arrival::Switch);
    }

    #[test]
    fn the_spin_is_measured_and_bounded() {
        let mut wait = TwoPhase::default();
        assert_eq!(wait.spin(), Duration::ZERO);
        wait.observe(Duration::from_micros(10));
        assert_eq!(wait.spin(), Duration::from_micros(50));
        for _ in 0..1000 {
            wait.observe(Duration::from_secs(10));
        }
        assert!(wait.spin() <= TwoPhase::FACTOR * TwoPhase::MOST);
        for _ in 0..1000 {
            wait.observe(Duration::ZERO);
        }
        assert!(wait.spin() >= TwoPhase::FACTOR * TwoPhase::LEAST);
    }

    #[test]
    fn local_and_gang() {
        let jobs = ['A', 'B', 'C'];
        assert_eq!(local_next(&jobs, Some('A'), |_| true), Some('B'));
        assert_eq!(local_next(&jobs, Some('A'), |job| job != 'B'), Some('C'));
        assert_eq!(local_next(&jobs, Some('C'), |job| job == 'C'), Some('C'));
        assert_eq!(local_next(&jobs, None, |_| false), None);
        assert_eq!(local_next::<char>(&[], None, |_| true), None);
        assert_eq!(gang_slice(SLICE * 7, SLICE, 3), Some(1));
        assert_eq!(gang_slice(SLICE, SLICE, 0), None);
        assert_eq!(gang_slice(SLICE, Duration::ZERO, 2).map(|row| row < 2), Some(true));
    }

    proptest! {
        /// A node's epoch never falls, and a switch happens exactly if the message's epoch was greater and it was fair.
        #[test]
        fn epochs_never_fall(steps in proptest::collection::vec((0..4_u8, 0..4_u32, 0..30_u64), 0..200)) {
            let mut node = Node::new(SLICE);
            for (kind, job, number) in steps {
                let (epoch, running) = (node.epoch(), node.running());
                match kind {
                    0 => node.slice_ended(Some(job)),
                    1 => node.charge(Duration::from_millis(number * 10)),
                    _ => {
                        let answer = node.arrived(job, Epoch(number), false);
                        let switched = running != Some(job) && node.running() == Some(job);
                        prop_assert_eq!(answer == Arrival::Switch, switched);
                        prop_assert!(!switched || (number > epoch.0 && node.epoch() == Epoch(number)));
                        prop_assert!(switched || node.running() == running);
                    }
                }
                prop_assert!(node.epoch() >= epoch);
            }
        }
    }
}
