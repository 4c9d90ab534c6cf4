//! What teams use of the processor, for which they pay.
//!
//! A team pays for the CPU time that its processes have used, whoever's turn it was, and for what this daemon has used to pass its
//! messages on: a program that waits for messages most of the time has its turn whenever it wants to run, and those who compute
//! have the rest. Where those who wait are stopped, nobody has the rest, and a turn costs its time.
//!
//! Where the kernel alone does as well as turns would ([`super::calm`]) everybody runs.

use super::event::{Action, Work};
use super::teams::{TeamId, takes_turns};
use super::{Core, Timer};
use pvm_wire::Tid;
use std::collections::BTreeMap;
use std::time::Duration;

/// One in so many parts of the processor has to be left by all teams together, or they take turns.
const SPARE: u32 = 2;
/// Where others are stopped meanwhile, it is looked so often in a slice whether its team still wants it.
const LOOKS: u32 = 10;
/// A team that has used less than one in so many parts of the processor since the last look waits.
const WAITING: u32 = 50;

/// A fragment takes the daemon as long as so many bytes more of one that it passes on anyway, about: system calls and turns on one
/// side, packets to be sealed on the other.
const FRAGMENT_BYTES: u64 = 16 << 10;

/// What a team has had, while teams took turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// CPU time of its processes.
    pub time: Duration,
    /// This daemon's CPU time that went into its messages.
    pub errands: Duration,
    /// For how long its processes have waited for a processor.
    pub waits: Duration,
}

impl Use {
    /// What has come since.
    pub fn since(self, before: Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            errands: self.errands.saturating_sub(before.errands),
            waits: self.waits.saturating_sub(before.waits),
        }
    }
}

/// The readings so far.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Each process at the last reading.
    seen: BTreeMap<i32, Work>,
    /// How much this daemon has passed on for each team since the last reading, and for those who take no turns.
    carried: BTreeMap<Option<TeamId>, u64>,
    /// Of whom the driver was asked.
    asked: Vec<(TeamId, i32)>,
    /// When it was last read.
    read: Duration,
    /// Until when the time of turns is counted.
    passed: Duration,
    /// CPU time is what counts.
    is_by_use: bool,
    has_read: bool,
    /// A process of the running team has ended, and nobody knows what it had used.
    has_lost: bool,
    /// What is done with the next reading, besides.
    then: Then,
}

/// Why it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Then {
    /// To begin, or because a message has brought another team.
    #[default]
    Nothing,
    /// A slice has ended.
    NextTurn,
    /// To see whether a slice is wanted.
    Look,
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

    /// What each process has done since the last reading, none more than `most`. After the first reading nobody knows.
    fn used(&mut self, work: Vec<Work>, most: Duration) -> Option<Vec<(TeamId, Work)>> {
        let asked = std::mem::take(&mut self.asked);
        let before = std::mem::take(&mut self.seen);
        let used = asked.iter().zip(&work).map(|(&(team, pid), work)| {
            let before = before.get(&pid).copied().unwrap_or_default();
            let time = work.time.saturating_sub(before.time).min(most);
            let waits = work.waits.saturating_sub(before.waits).min(most);
            (team, Work { time, sleeps: work.sleeps.saturating_sub(before.sleeps), waits })
        });
        let used = used.collect();
        self.seen = asked.iter().map(|&(_, pid)| pid).zip(work).collect();
        std::mem::replace(&mut self.has_read, true).then_some(used)
    }

    /// A fragment of this many bytes has been passed on for a team.
    pub fn carry(&mut self, team: Option<TeamId>, bytes: usize) {
        let carried = self.carried.entry(team).or_default();
        *carried = carried.saturating_add(FRAGMENT_BYTES + bytes as u64);
    }

    /// What each team has to pay of the time that the daemon has used since the last reading.
    fn share(&mut self, own: Duration) -> Vec<(TeamId, Duration)> {
        let carried = std::mem::take(&mut self.carried);
        let all = carried.values().sum::<u64>() as f64;
        let parts = carried.into_iter().filter_map(|(team, part)| Some((team?, part)));
        parts.map(|(team, part)| (team, own.mul_f64(part as f64 / all))).collect()
    }

    /// Whether a reading is under way.
    pub fn is_read(&self) -> bool {
        !self.asked.is_empty()
    }
}

impl Core {
    /// Asks the driver; [`Core::on_usage`] has the answer.
    pub(super) fn read_usage(&mut self) {
        self.teams.meter.asked = self.teams.all().collect();
        let pids = self.teams.meter.asked.iter().map(|&(_, pid)| pid).collect();
        self.actions.push(Action::ReadUsage { pids });
    }

    /// A slice has ended. Who is next is decided when it is known what everybody has used.
    pub(super) fn on_slice_end(&mut self, serial: u64) {
        if self.teams.is_slice(serial) {
            self.teams.meter.then = Then::NextTurn;
            self.read_usage();
        }
    }

    /// A slice is looked at.
    pub(super) fn on_look(&mut self, serial: u64) {
        if self.teams.is_slice(serial) && !self.teams.is_idle && self.teams.meter.then == Then::Nothing {
            self.teams.meter.then = Then::Look;
            self.read_usage();
        }
    }

    /// A slice begins, or a look at it was in vain: the next is in a part of the slice.
    pub(super) fn look_later(&mut self, slice: Duration) {
        if self.teams.meter.has_read && !self.teams.meter.is_by_use {
            self.set_timer(slice / LOOKS, Timer::Look(self.teams.serial));
        }
    }

    /// The team whose turn it is has had it for some time more.
    pub(super) fn time_passed(&mut self) {
        let teams = &mut self.teams;
        let time = self.now.saturating_sub(std::mem::replace(&mut teams.meter.passed, self.now));
        if teams.is_idle {
            return;
        }
        if !teams.meter.is_by_use
            && let Some(user) = teams.user
        {
            teams.node.charge_to(user, time);
        }
        teams.node.passed(time);
    }

    /// Whether those who have not the turn are stopped: then nobody but this daemon can give others what a team leaves.
    pub(super) fn stops_others(&self) -> bool {
        self.teams.is_shared && self.teams.meter.has_read && !self.teams.meter.is_by_use
    }

    /// The driver has looked, and nothing has happened meanwhile.
    pub(super) fn on_usage(&mut self, work: Vec<Work>, own: Duration, leaves_rest: bool) {
        let then = std::mem::take(&mut self.teams.meter.then);
        if !self.teams.is_shared {
            return;
        }
        self.time_passed();
        let elapsed = self.now.saturating_sub(std::mem::replace(&mut self.teams.meter.read, self.now));
        let all = elapsed.saturating_mul(self.config.cores);
        let used = self.teams.meter.used(work, all);
        let errands = self.teams.meter.share(own.min(all));
        let has_lost = self.teams.meter.has_lost;
        let calm = &mut self.teams.calm;
        let is_calm = used.as_ref().is_some_and(|used| calm.judge(used, &errands, all)) && !has_lost;
        self.teams.meter.is_by_use = leaves_rest;
        self.tell_tasks();
        let is_wanted = used.is_none_or(|used| {
            self.teams.note_used(&used, &errands);
            self.pay_errands(&errands);
            self.settle(&used, elapsed, all)
        });
        match then {
            Then::Nothing => {}
            Then::NextTurn if is_calm || leaves_rest && !is_wanted => {
                self.teams.is_idle = true;
                self.begin_slice();
            }
            Then::NextTurn => self.next_turn(),
            // All its tasks wait, and nobody else can use its slot.
            Then::Look if !is_wanted => self.turn_of_others(self.teams.node.running()),
            Then::Look => self.look_later(self.teams.slice.unwrap_or_default()),
        }
    }

    /// A fragment of this many bytes is passed on for a task of this host.
    pub(super) fn note_carried(&mut self, tid: Tid, bytes: usize) {
        if self.teams.is_shared {
            let task = self.tasks.get(tid).filter(|task| takes_turns(task));
            self.teams.meter.carry(task.map(|task| task.team), bytes);
        }
    }

    /// Teams pay for what was done for them: who receives, too, as in *Lazy receiver processing* (Druschel and Banga, OSDI 1996).
    /// Where turns cost their time, that is paid for with it.
    fn pay_errands(&mut self, errands: &[(TeamId, Duration)]) {
        if self.teams.meter.is_by_use {
            for &(team, time) in errands {
                self.teams.node.charge_to(team, time);
            }
        }
    }

    /// Everybody pays. Whether there is too little of the processor for all to run as they like; where those who are held are
    /// stopped, whether the team whose turn it is wants it at all.
    fn settle(&mut self, used: &[(TeamId, Work)], elapsed: Duration, all: Duration) -> bool {
        let teams = &mut self.teams;
        let has_lost = std::mem::take(&mut teams.meter.has_lost);
        let has_woken = std::mem::take(&mut teams.has_woken);
        let running = teams.node.running();
        if !teams.meter.is_by_use {
            let own = used.iter().filter(|(team, _)| Some(*team) == running);
            return has_lost
                || has_woken
                || teams.user != running
                || own.map(|(_, work)| work.time).sum::<Duration>() > elapsed / WAITING;
        }
        for &(team, work) in used {
            teams.node.charge_to(team, work.time);
        }
        if let Some(running) = running.filter(|_| has_lost) {
            teams.node.charge_to(running, elapsed);
        }
        let time: Duration = used.iter().map(|(_, work)| work.time).sum();
        let waits: Duration = used.iter().map(|(_, work)| work.waits).sum();
        // Programs that are none of ours may have the rest, for which these wait.
        has_lost || time >= all / SPARE || time + waits >= all
    }
}
