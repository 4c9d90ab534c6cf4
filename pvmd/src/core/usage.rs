//! What teams use of the processor, for which they pay.
//!
//! A team pays for the CPU time that its processes have used, whoever's turn it was: a program that waits for messages most of the
//! time has its turn whenever it wants to run, and those who compute have the rest. Where those who wait are stopped, nobody has
//! the rest, and a turn costs its time.

use super::Core;
use super::event::Action;
use super::teams::TeamId;
use std::collections::BTreeMap;
use std::time::Duration;

/// One in so many parts of the processor has to be left by all teams together, or they take turns.
const SPARE: u32 = 2;

/// The readings so far.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// CPU time of each process at the last reading.
    seen: BTreeMap<i32, Duration>,
    /// Of whom the driver was asked.
    asked: Vec<(TeamId, i32)>,
    /// When it was last read.
    read: Duration,
    /// Until when the time of turns is counted.
    passed: Duration,
    /// CPU time is what counts.
    is_by_use: bool,
    /// A process of the running team has ended, and nobody knows what it had used.
    has_lost: bool,
    /// With the next reading a turn ends.
    pub is_slice_over: bool,
}

impl Meter {
    pub fn new(now: Duration) -> Self {
        Self { read: now, passed: now, ..Self::default() }
    }

    /// A process takes no turns any more; `runs` if it is of the team whose turn it is.
    pub fn lose(&mut self, pid: i32, runs: bool) {
        self.seen.remove(&pid);
        self.has_lost |= runs;
    }

    /// What each team has used since the last reading, no process more than `most`. After the first reading nobody knows.
    fn used(&mut self, times: Vec<Duration>, most: Duration) -> Option<Vec<(TeamId, Duration)>> {
        let asked = std::mem::take(&mut self.asked);
        let before = std::mem::take(&mut self.seen);
        let used = asked.iter().zip(&times).map(|(&(team, pid), &time)| {
            let used = time.saturating_sub(before.get(&pid).copied().unwrap_or_default());
            (team, used.min(most))
        });
        let used = used.collect();
        self.seen = asked.iter().map(|&(_, pid)| pid).zip(times).collect();
        std::mem::replace(&mut self.is_by_use, true).then_some(used)
    }
}

impl Core {
    /// Asks the driver; [`Core::on_usage`] has the answer.
    pub(super) fn read_usage(&mut self) {
        self.teams.meter.asked = self.teams.all().collect();
        let pids = self.teams.meter.asked.iter().map(|&(_, pid)| pid).collect();
        self.actions.push(Action::ReadUsage { pids });
    }

    /// The team whose turn it is has had it for some time more.
    pub(super) fn time_passed(&mut self) {
        let teams = &mut self.teams;
        let time = self.now.saturating_sub(std::mem::replace(&mut teams.meter.passed, self.now));
        if teams.is_idle {
            return;
        }
        if teams.meter.is_by_use {
            teams.node.passed(time);
        } else {
            teams.node.charge(time);
        }
    }

    /// The driver has looked, and nothing has happened meanwhile.
    pub(super) fn on_usage(&mut self, times: Option<Vec<Duration>>) {
        if !self.teams.is_shared {
            return;
        }
        self.time_passed();
        let is_wanted = self.settle(times);
        if std::mem::take(&mut self.teams.meter.is_slice_over) {
            if is_wanted {
                self.next_turn();
            } else {
                self.teams.is_idle = true;
                self.begin_slice();
            }
        }
    }

    /// Everybody pays. Whether there is too little of the processor for all to run as they like.
    fn settle(&mut self, times: Option<Vec<Duration>>) -> bool {
        let teams = &mut self.teams;
        let elapsed = self.now.saturating_sub(std::mem::replace(&mut teams.meter.read, self.now));
        let all = elapsed.saturating_mul(self.config.cores);
        let has_lost = std::mem::take(&mut teams.meter.has_lost);
        let Some(times) = times else {
            teams.meter.is_by_use = false;
            return true;
        };
        let Some(used) = teams.meter.used(times, all) else { return true };
        let total: Duration = used.iter().map(|(_, time)| *time).sum();
        for (team, time) in used {
            teams.node.charge_to(team, time);
        }
        if let Some(running) = teams.node.running().filter(|_| has_lost) {
            teams.node.charge_to(running, elapsed);
        }
        has_lost || total >= all / SPARE
    }
}
