//! What happens at a time of its own.

use super::addresses::SpawnId;
use super::event::Now;
use pvm_sched::coscheduling;
use pvm_sched::policy::Policy;
use pvm_sched::pulling::Ticket;
use pvm_wire::batch::BatchId;
use pvm_wire::{HostIndex, Tid};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// Something that happens at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A node looks again whether it has room for a batch.
    Retry(BatchId, Ticket),
    /// The agent of a policy wanted to be woken.
    Agent(Policy),
    /// The master is told what a place on this host costs.
    Offer,
    /// The caller of a spawn has waited for long until agents find hosts.
    Patience(SpawnId),
    /// Tasks of a spawn are handed out again that a host has refused, as its owner is there.
    Refused(SpawnId),
    /// A hoster has not answered for this host.
    Hoster(HostIndex),
    /// A host's daemon is started again, which could not be started before.
    StartAgain(HostIndex),
    /// A daemon that was to end has not ended.
    Departure(HostIndex),
    /// Links are checked at their usual rates again.
    Alarm,
    /// A host to which another one has lost its link has not answered.
    Unanswered(HostIndex),
    /// A task's process has ended and its connection has not.
    ExitGrace(Tid),
    /// A link may be idle.
    IdleLink(HostIndex),
    /// What was not answered of the log is said again.
    Log,
    /// A new master looks for deputies.
    Appoint,
    /// It is this deputy's turn to take the place of a lost master.
    Candidate,
    /// No other host has taken the place of a lost master.
    Orphan,
    /// The queues look again.
    AdvanceJobs,
    /// What has changed of jobs is written to disk.
    SaveJobs,
    /// The master may send loads again.
    Loads,
    /// The last input of this host's owner counts no more.
    Owner,
    /// The master may be told of tasks of jobs again.
    JobReports,
    /// The master may be told again what tasks of jobs have sent.
    JobTraffic,
    /// The master may be told of processes that take turns again.
    Column,
    /// The master may tell hosts their rows again.
    Rows,
    /// All rows of the matrix have had their slices.
    Sweep,
    /// The master is asked for its clock again.
    RowClock,
    /// A job's task has run for as long as it may.
    JobTime(Tid),
    /// A job's task that was to end has had time for it.
    EndGrace(Tid),
    /// A task that is to move has made no call in which it can.
    Move(Tid),
    /// Tasks that were to leave this host's owner are held now.
    Vacate,
    /// The coscheduler's.
    Coscheduling(coscheduling::Timer),
}

/// The timers that are set, by time; those of one time in the order of their setting.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeMap<(Now, u64), Timer>,
    count: u64,
}

impl Timers {
    pub fn set(&mut self, when: Now, timer: Timer) {
        self.count += 1;
        self.set.insert((when, self.count), timer);
    }

    pub fn cancel(&mut self, timer: Timer) {
        self.set.retain(|_, other| *other != timer);
    }

    /// When the next one is due.
    pub fn deadline(&self) -> Option<Now> {
        self.set.keys().next().map(|&(when, _)| when)
    }

    /// Takes the next one that is due.
    pub fn take_due(&mut self, now: Now) -> Option<Timer> {
        self.set
            .first_entry()
            .filter(|first| first.key().0 <= now)
            .map(std::collections::btree_map::OccupiedEntry::remove)
    }

    pub fn len(&self) -> usize {
        self.set.len()
    }

    pub fn is_set(&self, timer: Timer) -> bool {
        self.set.values().any(|other| *other == timer)
    }

    /// Whether it is set, and due by then.
    pub fn is_due_by(&self, when: Now, timer: Timer) -> bool {
        self.set.iter().any(|(&(due, _), &other)| other == timer && due <= when)
    }

    /// A line for each, for people.
    pub fn write_state(&self, out: &mut String, now: Now) -> fmt::Result {
        for (&(when, _), timer) in &self.set {
            writeln!(out, "in {:.3} s: {timer}", when.saturating_sub(now).as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Display for Timer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(batch, _) => {
                write!(out, "look for room for batch {} of host {}", batch.number, batch.home)
            }
            Self::Agent(policy) => write!(out, "wake the agent of {policy}"),
            Self::Patience(id) => write!(out, "time limit for agents to place spawn {}", id.0),
            Self::Refused(id) => write!(out, "hand out tasks of spawn {} that a host has refused", id.0),
            Self::Hoster(host) => write!(out, "time limit of the hoster for host {host}"),
            Self::StartAgain(host) => write!(out, "start host {host} again"),
            Self::Departure(host) => write!(out, "time limit for the end of host {host}"),
            Self::Alarm => write!(out, "look at links less closely"),
            Self::Unanswered(host) => {
                write!(out, "time limit for the answer of host {host}, which another has lost")
            }
            Self::ExitGrace(tid) => write!(out, "close the connection of {tid}, whose process has ended"),
            Self::IdleLink(host) => write!(out, "see whether the link to host {host} is used"),
            Self::Log => write!(out, "say again what was not answered of the log"),
            Self::Appoint => write!(out, "appoint deputies"),
            Self::Candidate => write!(out, "stand for the master's place"),
            Self::Orphan => write!(out, "time limit for another host to become the master"),
            Self::AdvanceJobs => write!(out, "look at the queues"),
            Self::SaveJobs => write!(out, "write jobs to disk"),
            Self::Loads => write!(out, "send loads of hosts"),
            Self::Owner => write!(out, "the last input of the owner"),
            Self::JobReports => write!(out, "report of tasks of jobs"),
            Self::JobTraffic => write!(out, "report of what tasks of jobs have sent"),
            Self::Offer => write!(out, "tell what a place on this host costs"),
            Self::Column => write!(out, "report of processes that take turns"),
            Self::Rows => write!(out, "send rows of the matrix"),
            Self::Sweep => write!(out, "pack the matrix"),
            Self::RowClock => write!(out, "ask for the master's clock"),
            Self::JobTime(tid) => write!(out, "time limit of {tid}"),
            Self::EndGrace(tid) => write!(out, "kill {tid}, which was to end"),
            Self::Vacate => write!(out, "hold tasks that have not left the owner"),
            Self::Move(tid) => write!(out, "time limit for {tid} to move"),
            Self::Coscheduling(coscheduling::Timer::SliceEnd(number)) => write!(out, "end of slice {number}"),
            Self::Coscheduling(coscheduling::Timer::Look(number)) => write!(out, "review of slice {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timers_are_due_in_order_unless_they_are_cancelled() {
        let [one, two, three] = [1, 2, 3].map(|local| Timer::ExitGrace(HostIndex::MASTER.task(local)));
        let at = Duration::from_secs;
        let mut timers = Timers::default();
        timers.set(at(2), one);
        timers.set(at(1), two);
        timers.set(at(2), three);
        assert_eq!((timers.deadline(), timers.len()), (Some(at(1)), 3));
        assert_eq!(timers.take_due(at(0)), None);
        timers.cancel(one);
        assert!(!timers.is_set(one) && timers.is_set(three));
        assert_eq!([timers.take_due(at(2)), timers.take_due(at(2))], [Some(two), Some(three)]);
        assert_eq!((timers.take_due(at(9)), timers.deadline()), (None, None));
    }
}
