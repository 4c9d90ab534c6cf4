//! Boosts: whether a message brings its receiver's team onto the processor.
//!
//! *Scheduling parallel jobs on clusters*, section 21.5. Two teams that pull each other's nodes at the same time would do so for
//! ever; epochs decide which one prevails.

use super::accounts::Accounts;
use super::epoch::Epoch;
use pvm_wire::tuned::BOOST_SAVINGS;
use std::fmt::Debug;
use std::time::Duration;

/// The counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Changes of the running team, for any reason.
    pub switches: u64,
    /// Messages that changed nothing because their epoch was not greater.
    pub old: u64,
    /// Messages that changed nothing because their team had had more than its share.
    pub unfair: u64,
    /// Epochs taken over from messages.
    pub adopted: u64,
    /// CPU time of teams that messages brought onto the processor. It is part of their accounts.
    pub boost: Duration,
}

/// The effect of a message's arrival on the node's processor. The message is delivered in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Switch to the team that the message is for. The node has adopted the message's epoch.
    Switch,
    /// The message is for the team that runs. If its epoch is greater, it has been adopted.
    Runs,
    /// The message's epoch is not greater than the node's: no switch.
    Old,
    /// It comes from this node, and a team gains nothing by sending to itself.
    Local,
    /// The team has had more of the processor than the one that runs, by more than may be: no switch.
    Unfair,
}

/// The demand-based rule at one node: which team runs, and whether a message changes that.
///
/// Fairness: a message may take a team onto the processor only while its account, the CPU time it has had here, is not
/// ahead of the running team's by more than `slack`. Time slices, which messages do not change, even the accounts out.
#[derive(Clone, Debug)]
pub struct Node<T> {
    epoch: Epoch,
    running: Option<T>,
    accounts: Accounts<T>,
    slack: Duration,
    name: u32,
    is_boosted: bool,
    counters: Counters,
}

impl<T: Copy + Ord + Debug> Node<T> {
    /// A node that runs nothing. `slack` is best some time slices.
    pub fn new(slack: Duration) -> Self {
        Self {
            epoch: Epoch::default(),
            running: None,
            accounts: Accounts::default(),
            slack,
            name: 0,
            is_boosted: false,
            counters: Counters::default(),
        }
    }

    /// The same node with a name of its own, by which equal counts are ordered.
    #[must_use]
    pub fn named(self, name: u32) -> Self {
        Self { name, ..self }
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The CPU time that a team has been charged.
    pub fn account(&self, team: T) -> Duration {
        self.accounts.of(team)
    }

    /// The teams that have an account.
    pub fn teams(&self) -> impl Iterator<Item = T> + '_ {
        self.accounts.teams()
    }

    /// The epoch that goes with every message that leaves.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The running team.
    pub fn running(&self) -> Option<T> {
        self.running
    }

    /// Whether a message has brought it.
    pub fn is_boosted(&self) -> bool {
        self.is_boosted
    }

    /// A spontaneous context switch: a time slice has ended, and `next` runs from now on.
    pub fn slice_ended(&mut self, next: Option<T>) {
        self.epoch = self.epoch.next(self.name);
        self.dispatch(next);
    }

    /// A slice of the agreed clock begins, which gives the epoch's count: `next` has it.
    pub fn slice_began(&mut self, number: u64, next: Option<T>) {
        self.epoch = Epoch { count: number, origin: self.name };
        self.dispatch(next);
    }

    /// Which of the ready `teams` is to run in the next slice: the one with the least on its account, so what messages have
    /// brought a team is taken from its slices; among equals the next after the one that runs.
    pub fn turn(&self, teams: &[T], ready: impl Fn(T) -> bool) -> Option<T> {
        self.turn_after(self.running, teams, ready)
    }

    /// The same, among equals the next after this one.
    pub fn turn_after(&self, last: Option<T>, teams: &[T], ready: impl Fn(T) -> bool) -> Option<T> {
        self.accounts.least(teams, last, ready)
    }

    /// Limits savings: a team that has not wanted the processor for a long time falls behind by a bounded time only.
    pub fn forget_savings(&mut self) {
        self.accounts.limit_savings(self.slack.saturating_mul(BOOST_SAVINGS));
    }

    /// A switch that is no time slice's end, such as when the running team blocks. The epoch stays.
    pub fn dispatch(&mut self, next: Option<T>) {
        self.counters.switches += u64::from(self.running != next);
        self.running = next;
        self.is_boosted = false;
        if let Some(team) = next {
            self.admit(team);
        }
    }

    /// A team has joined. It starts level with the least account here, or it could claim all the time before it joined.
    pub fn admit(&mut self, team: T) {
        self.accounts.open(team);
    }

    /// The running team has had the processor for this long, and pays for all of it.
    pub fn charge(&mut self, time: Duration) {
        if let Some(team) = self.running {
            self.charge_to(team, time);
        }
        self.passed(time);
    }

    /// Charges a team for its CPU time, with or without the turn.
    pub fn charge_to(&mut self, team: T, time: Duration) {
        self.accounts.charge(team, time);
    }

    /// The running team has had the turn for this long. Its CPU use is charged separately.
    pub fn passed(&mut self, time: Duration) {
        if self.is_boosted {
            self.counters.boost = self.counters.boost.saturating_add(time);
        }
    }

    /// A team has no process here any more.
    pub fn forget(&mut self, team: T) {
        self.accounts.close(team);
        if self.running == Some(team) {
            self.running = None;
        }
    }

    /// A message has arrived for a team that is ready to run here; `from_here` if it was sent on this node.
    pub fn arrived(&mut self, team: T, epoch: Epoch, from_here: bool) -> Arrival {
        if from_here {
            return Arrival::Local;
        }
        if self.running == Some(team) {
            self.follow(epoch);
            return Arrival::Runs;
        }
        if !epoch.is_after(self.epoch) {
            self.counters.old += 1;
            return Arrival::Old;
        }
        if !self.fair(team) {
            self.counters.unfair += 1;
            return Arrival::Unfair;
        }
        self.adopt(epoch);
        self.dispatch(Some(team));
        self.is_boosted = true;
        Arrival::Switch
    }

    /// A message has arrived at a node on which all teams run: only its epoch counts.
    pub fn follow(&mut self, epoch: Epoch) {
        if epoch.is_after(self.epoch) {
            self.adopt(epoch);
        }
    }

    fn adopt(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.counters.adopted += 1;
    }

    fn fair(&self, team: T) -> bool {
        let limit = |running| self.account(running).saturating_add(self.slack);
        self.running.is_none_or(|running| self.account(team) <= limit(running))
    }
}

#[cfg(test)]
#[path = "boost_tests.rs"]
mod tests;
