//! Coscheduling by communication: a message takes its receiver's job onto the processor.
//!
//! *Scheduling parallel jobs on clusters*, section 21.5. The communication layer sees every message and tells the
//! scheduler, so that sending may bring the receiver to run together with the sender. Two jobs that do so at once on two
//! nodes would pull each other back for ever; epochs decide. [`Node`] is the demand-based rule with its fairness,
//! [`TwoPhase`] implicit coscheduling's wait, [`local_next`] and [`gang_slice`] the two ends of the scale to compare with.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// A node's epoch: how many spontaneous context switches its present order has behind it, and whose the last was.
///
/// Two nodes may make the same count of two different switches at the same time. Which of two equal counts is greater is
/// decided by the node that made it, so no two switches have the same epoch, and of all orders exactly one prevails. Counts
/// are compared by their distance: after the greatest number comes zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// Spontaneous switches.
    pub count: u64,
    /// The node that made the last of them; 0 if nodes have no names, and equal counts are equal.
    pub origin: u32,
}

impl Epoch {
    /// An epoch of nodes without names.
    pub fn new(count: u64) -> Self {
        Self { count, origin: 0 }
    }

    /// Whether this is greater.
    pub fn is_after(self, other: Self) -> bool {
        let distance = self.count.wrapping_sub(other.count).cast_signed();
        distance > 0 || distance == 0 && self.origin > other.origin
    }

    /// The epoch of this node after one more switch of its own.
    #[must_use]
    pub fn next(self, origin: u32) -> Self {
        Self { count: self.count.wrapping_add(1), origin }
    }
}

/// What a node has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Changes of the running job, for whatever reason.
    pub switches: u64,
    /// Messages that changed nothing because their epoch was not greater.
    pub old: u64,
    /// Messages that changed nothing because their job had had more than its share.
    pub unfair: u64,
    /// Epochs taken over from messages.
    pub adopted: u64,
    /// CPU time of jobs that messages brought onto the processor. It is part of their accounts.
    pub boost: Duration,
}

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
    name: u32,
    is_boosted: bool,
    counters: Counters,
}

/// How many slacks of time a job that did not want the processor may have saved up.
const SAVINGS: u32 = 4;

impl<J: Copy + Ord + Debug> Node<J> {
    /// A node that runs nothing. `slack` is best some time slices.
    pub fn new(slack: Duration) -> Self {
        Self {
            epoch: Epoch::default(),
            running: None,
            used: BTreeMap::new(),
            slack,
            name: 0,
            is_boosted: false,
            counters: Counters::default(),
        }
    }

    /// The same node with a name of its own, by which equal counts are told apart.
    #[must_use]
    pub fn named(self, name: u32) -> Self {
        Self { name, ..self }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The CPU time that a job has been charged.
    pub fn account(&self, job: J) -> Duration {
        self.used.get(&job).copied().unwrap_or_default()
    }

    /// The epoch that goes with every message that leaves.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What runs.
    pub fn running(&self) -> Option<J> {
        self.running
    }

    /// Whether a message has brought it.
    pub fn is_boosted(&self) -> bool {
        self.is_boosted
    }

    /// A spontaneous context switch: a time slice has ended, and `next` runs from now on.
    pub fn slice_ended(&mut self, next: Option<J>) {
        self.epoch = self.epoch.next(self.name);
        self.dispatch(next);
    }

    /// Which of the ready `jobs` is to run in the next slice: the one with the least on its account, so what messages have
    /// brought a job is taken from its slices; among equals the next after the one that runs.
    pub fn turn(&self, jobs: &[J], ready: impl Fn(J) -> bool) -> Option<J> {
        let start = jobs.iter().position(|&job| Some(job) == self.running).map_or(0, |at| at + 1);
        let round = (0..jobs.len()).map(|step| jobs[(start + step) % jobs.len()]);
        round.filter(|&job| ready(job)).min_by_key(|&job| self.account(job))
    }

    /// Nobody saves up time without end: a job that did not want the processor for long comes to be only so far behind.
    pub fn forget_savings(&mut self) {
        let most = self.used.values().max().copied().unwrap_or_default();
        let floor = most.saturating_sub(self.slack.saturating_mul(SAVINGS));
        for account in self.used.values_mut() {
            *account = (*account).max(floor);
        }
    }

    /// A switch that is no time slice's end, such as when the running job blocks. The epoch stays.
    pub fn dispatch(&mut self, next: Option<J>) {
        self.counters.switches += u64::from(self.running != next);
        self.running = next;
        self.is_boosted = false;
        if let Some(job) = next {
            self.admit(job);
        }
    }

    /// A job has come here. A newcomer starts level with the least of those here, or it could claim all the time before it came.
    pub fn admit(&mut self, job: J) {
        let level = self.used.values().min().copied().unwrap_or_default();
        self.used.entry(job).or_insert(level);
    }

    /// The running job has had the processor for this long, and pays for all of it.
    pub fn charge(&mut self, time: Duration) {
        if let Some(job) = self.running {
            self.charge_to(job, time);
        }
        self.passed(time);
    }

    /// A job, whether it had the turn or not, has used so much.
    pub fn charge_to(&mut self, job: J, time: Duration) {
        if let Some(account) = self.used.get_mut(&job) {
            *account = account.saturating_add(time);
        }
    }

    /// The running job has had the turn for this long. What it has used is charged otherwise.
    pub fn passed(&mut self, time: Duration) {
        if self.is_boosted {
            self.counters.boost = self.counters.boost.saturating_add(time);
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
            self.follow(epoch);
            return Arrival::Runs;
        }
        if !epoch.is_after(self.epoch) {
            self.counters.old += 1;
            return Arrival::Old;
        }
        if !self.fair(job) {
            self.counters.unfair += 1;
            return Arrival::Unfair;
        }
        self.adopt(epoch);
        self.dispatch(Some(job));
        self.is_boosted = true;
        Arrival::Switch
    }

    /// A message has arrived at a node on which all jobs run: only its epoch counts.
    pub fn follow(&mut self, epoch: Epoch) {
        if epoch.is_after(self.epoch) {
            self.adopt(epoch);
        }
    }

    fn adopt(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.counters.adopted += 1;
    }

    fn fair(&self, job: J) -> bool {
        let limit = |running| self.account(running).saturating_add(self.slack);
        self.running.is_none_or(|running| self.account(job) <= limit(running))
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
#[path = "epochs_tests.rs"]
mod tests;
