//! One node's coscheduler: events with their time in, decisions out.

use super::ProcessId;
use super::boost::{Arrival, Counters, Node};
use super::choice::{Candidate, choose};
use super::epoch::Epoch;
use super::gates;
use super::rows::{Rotation, Rows};
use super::unneeded::Unneeded;
use super::usage::{Meter, Reading, Use, Work};
use pvm_wire::coscheduling::Why;
use pvm_wire::tuned::{EPOCH_SLACK, SLICE_LOOKS};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

/// A decision of the coscheduler; decisions are carried out in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// A process may run, or is to be kept from running.
    Dispatch {
        /// Which.
        pid: ProcessId,
        /// Whether it may run.
        runs: bool,
    },
    /// The driver is to read what these processes have done, and answer with [`Coscheduler::read`] before anything else.
    Read {
        /// In this order.
        pids: Vec<ProcessId>,
    },
    /// The driver is to call [`Coscheduler::timer`] after this time.
    Timer {
        /// From now.
        after: Duration,
        /// With this.
        timer: Timer,
    },
    /// A slice has begun, and this team has the turn. Its tasks that have sent to other hosts and have had no answer say so again: what
    /// they sent in an earlier turn may have been refused there.
    TurnBegan(T),
    /// From now on teams take turns here, or no longer.
    Shared(bool),
    /// [`Coscheduler::wants_sleeps`] may have changed.
    WantsSleeps,
}

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The slice of this number ends.
    SliceEnd(u64),
    /// The slice of this number is looked at.
    Look(u64),
}

/// Which team has the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<T> {
    /// No turns are taken, or the processor has time for all: all run.
    All,
    /// This one.
    Of(T),
    /// None, for a moment.
    Nobody,
}

/// Whether processes may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// There is nothing to decide.
    Alone,
    /// There are several teams. All run, for this reason, and the decision is reviewed after a slice.
    AllRun(Why),
    /// One team has the turn.
    Turns,
}

/// The use of the next reading, besides accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Then {
    /// It is the first, or a message has brought another team.
    #[default]
    Nothing,
    /// A slice has ended.
    NextTurn,
    /// It shows whether the slice is still wanted.
    Look,
}

/// The coscheduler of a node. `T` names a team, `H` a host.
///
/// Processes of teams [`join`](Self::join) and [`leave`](Self::leave). While there are more teams and processes than the cores can run
/// ([`gates::must_share`]), teams take turns of a slice each, and a message may bring its receiver's team out of turn
/// ([`super::boost`]). A slice's end is decided with a reading of what everybody has used: if nothing is gained by turns, or the
/// processor has time for all, everybody runs for a slice; otherwise the team with the least account has the turn.
///
/// With the [`Rows`] of a matrix ([`give_rows`](Self::give_rows)) it is not the accounts that say which teams have the turn: all teams of a row have it for a
/// slice of a clock that hosts have agreed on. Where a row has no team here, the team with the least account uses the slice. What
/// messages may do is the same, until the end of the slice. Teams that have no row share one, in which turns are as without rows.
///
/// A team pays for the CPU time that its processes have used, in any team's turn, and for what the daemon has used to pass its
/// messages on. Where processes that wait for their turn are stopped, nothing else uses the time that a team leaves: there a turn costs its time,
/// and a team of which all processes sleep lends its slot.
#[derive(Clone, Debug)]
pub struct Coscheduler<T, H> {
    /// `None`: turns are never taken.
    slice: Option<Duration>,
    cores: u32,
    now: Duration,
    decisions: Vec<Decision<T>>,
    node: Node<T>,
    /// The processes that take turns.
    members: BTreeMap<T, BTreeSet<ProcessId>>,
    /// How many processes that is.
    count: usize,
    mode: Mode,
    meter: Meter<T>,
    unneeded: Unneeded<T, H>,
    totals: BTreeMap<T, Use>,
    /// Number of the slice that runs; timers of others have no effect.
    serial: u64,
    /// Until when the time of turns is counted.
    passed: Duration,
    /// CPU time is what counts, as processes that are held use what others leave.
    is_by_use: bool,
    /// A process of the team that has the turn has ended, and its CPU use is unknown.
    has_lost: bool,
    then: Then,
    /// Teams that run: the one that has the turn, and those for which cores are left.
    chosen: BTreeSet<T>,
    /// Processes that are kept from running.
    held: BTreeSet<ProcessId>,
    /// Processes of tasks that have reported that they sleep.
    asleep: BTreeSet<ProcessId>,
    /// The team that has the turn has slept and woken since the last look: it gives up its slot without being asked.
    has_woken: bool,
    /// The team that uses the slot.
    user: Option<T>,
    /// The rows of the matrix, if turns are taken by rows.
    rotation: Rotation<T>,
}

impl<T: Copy + Ord + Debug, H: Copy + Eq + Debug> Coscheduler<T, H> {
    /// A node without processes. `name` orders equal counts of epochs; without a slice nothing is ever decided.
    pub fn new(slice: Option<Duration>, cores: u32, name: u32) -> Self {
        let slack = slice.unwrap_or_default().saturating_mul(EPOCH_SLACK);
        Self {
            slice,
            cores,
            now: Duration::ZERO,
            decisions: Vec::new(),
            node: Node::new(slack).named(name),
            members: BTreeMap::new(),
            count: 0,
            mode: Mode::Alone,
            meter: Meter::new(Duration::ZERO),
            unneeded: Unneeded::default(),
            totals: BTreeMap::new(),
            serial: 0,
            passed: Duration::ZERO,
            is_by_use: false,
            has_lost: false,
            then: Then::Nothing,
            chosen: BTreeSet::new(),
            held: BTreeSet::new(),
            asleep: BTreeSet::new(),
            has_woken: false,
            user: None,
            rotation: Rotation::default(),
        }
    }

    /// Teams take turns by these rows, from a slice on that they name; `None`: by their accounts again, from the next slice on.
    pub fn give_rows(&mut self, rows: Option<Rows<T>>) {
        self.rotation.give(rows);
    }

    /// By how many nanoseconds the clock that hosts have agreed on is ahead of this host's.
    pub fn set_clock(&mut self, ahead: i64) {
        self.rotation.ahead = ahead;
    }

    /// A process takes turns from now on.
    pub fn join(&mut self, team: T, pid: ProcessId, now: Duration) -> Vec<Decision<T>> {
        self.now = now;
        if self.slice.is_some() {
            // It may use the processor before its first turn.
            self.node.admit(team);
            if self.members.entry(team).or_default().insert(pid) {
                self.count += 1;
                self.reconsider();
            }
        }
        std::mem::take(&mut self.decisions)
    }

    /// A process takes no turns any more. Unless it has ended it may run.
    pub fn leave(&mut self, team: T, pid: ProcessId, has_ended: bool, now: Duration) -> Vec<Decision<T>> {
        self.now = now;
        if self.remove(team, pid) {
            if self.held.remove(&pid) && !has_ended {
                self.decisions.push(Decision::Dispatch { pid, runs: true });
            }
            self.reconsider();
        }
        std::mem::take(&mut self.decisions)
    }

    /// A team has no tasks any more, of any kind.
    pub fn forget(&mut self, team: T) {
        self.totals.remove(&team);
        self.unneeded.forget(team);
        self.meter.forget_team(team);
    }

    /// A timer is due.
    pub fn timer(&mut self, timer: Timer, now: Duration) -> Vec<Decision<T>> {
        self.now = now;
        match timer {
            Timer::SliceEnd(serial) if self.is_slice(serial) => {
                self.then = Then::NextTurn;
                // A look may be due at the same time.
                if !self.is_read() {
                    self.ask();
                }
            }
            Timer::Look(serial)
                if self.is_slice(serial) && self.mode == Mode::Turns && self.then == Then::Nothing =>
            {
                self.then = Then::Look;
                self.ask();
            }
            _ => {}
        }
        std::mem::take(&mut self.decisions)
    }

    /// The answer to [`Decision::Read`].
    pub fn read(&mut self, reading: Reading, now: Duration) -> Vec<Decision<T>> {
        self.now = now;
        let then = std::mem::take(&mut self.then);
        if self.is_shared() {
            self.account(reading, then);
        }
        std::mem::take(&mut self.decisions)
    }

    /// A message from another host arrives for a task, or is about to: its team, if it takes turns, and the message's epoch.
    pub fn arrived(&mut self, team: Option<T>, epoch: Epoch, now: Duration) -> Vec<Decision<T>> {
        self.now = now;
        if self.mode != Mode::Turns {
            self.node.follow(epoch);
        } else if let Some(team) = team.filter(|team| self.members.contains_key(team)) {
            self.pass_time();
            if self.is_in_row(team) {
                self.node.follow(epoch);
            } else if self.node.arrived(team, epoch, false) == Arrival::Switch {
                self.rotation.is_alternate = false;
                self.ask();
                self.begin_slice();
            }
        }
        std::mem::take(&mut self.decisions)
    }

    /// A task of this team and process reports that it sleeps until something comes, or no longer.
    pub fn slept(&mut self, team: T, pid: ProcessId, sleeps: bool, now: Duration) -> Vec<Decision<T>> {
        self.now = now;
        if self.wants_sleeps() && self.members.get(&team).is_some_and(|pids| pids.contains(&pid)) {
            self.has_woken |= !sleeps && self.node.running() == Some(team);
            self.pass_time();
            if if sleeps { self.asleep.insert(pid) } else { self.asleep.remove(&pid) } {
                self.steer();
            }
        }
        std::mem::take(&mut self.decisions)
    }

    /// A message from another host arrives for a team.
    pub fn heard(&mut self, team: T, from: H) {
        if self.is_shared() {
            self.unneeded.note_message(team, from);
        }
    }

    /// A task of this team sends on direct routes.
    pub fn goes_direct(&mut self, team: T) {
        self.unneeded.note_direct(team);
    }

    /// The daemon has passed on a fragment of this many bytes, for a team or for a task that takes no turns.
    pub fn carried(&mut self, team: Option<T>, bytes: usize) {
        if self.is_shared() {
            self.meter.carry(team, bytes);
        }
    }

    /// Whether teams take turns at present.
    pub fn is_shared(&self) -> bool {
        self.mode != Mode::Alone
    }

    /// Which team has the turn.
    pub fn turn(&self) -> Turn<T> {
        match self.node.running() {
            _ if self.mode != Mode::Turns => Turn::All,
            // Another team's row has the slice: this one brings no team onto a processor elsewhere.
            Some(_) if self.rotation.is_alternate => Turn::Nobody,
            Some(team) => Turn::Of(team),
            None => Turn::Nobody,
        }
    }

    /// Whether messages of this team carry the epoch. A team that runs out of turn, on a core that has nothing else to do, brings
    /// nobody onto a processor. Tasks that take no turns always have it.
    pub fn has_turn(&self, team: Option<T>) -> bool {
        match self.turn() {
            Turn::All => true,
            Turn::Of(running) => team.is_none_or(|team| team == running || self.is_in_row(team)),
            Turn::Nobody => team.is_none(),
        }
    }

    /// The team that has the turn, or uses the slice in another's place; `None` if all run.
    pub fn user(&self) -> Option<T> {
        self.node.running().filter(|_| self.mode == Mode::Turns)
    }

    /// The row that has its slice, while turns are taken by rows.
    pub fn row(&self) -> Option<u32> {
        self.rotation.row.filter(|_| self.mode == Mode::Turns)
    }

    /// Why turns are taken, or not.
    pub fn why(&self) -> Why {
        match self.mode {
            _ if self.slice.is_none() => Why::Off,
            Mode::Alone if self.members.len() < 2 => Why::OneTeam,
            Mode::Alone => Why::CoresSuffice,
            Mode::AllRun(why) => why,
            Mode::Turns if self.rotation.row.is_some() => Why::ByRows,
            Mode::Turns => Why::ByAccounts,
        }
    }

    /// Whether a message has brought the team that has the turn.
    pub fn is_boosted(&self) -> bool {
        self.node.is_boosted()
    }

    /// The node's epoch.
    pub fn epoch(&self) -> Epoch {
        self.node.epoch()
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.node.counters()
    }

    /// The time that a team has been charged.
    pub fn charged(&self, team: T) -> Duration {
        self.node.account(team)
    }

    /// The CPU use of each team while teams took turns.
    pub fn totals(&self) -> &BTreeMap<T, Use> {
        &self.totals
    }

    /// Whether a reading is under way.
    pub fn is_read(&self) -> bool {
        self.meter.is_read()
    }

    /// Whether tasks are to report when they sleep: those that wait for their turn are stopped, so only this scheduler can give others
    /// what a team leaves.
    pub fn wants_sleeps(&self) -> bool {
        self.is_shared() && self.meter.has_read() && !self.is_by_use
    }

    /// The teams that take turns, their processes, and whether they may run.
    pub fn teams(&self) -> impl Iterator<Item = (T, &BTreeSet<ProcessId>, bool)> {
        self.members.iter().map(|(&team, pids)| (team, pids, self.may_run(team)))
    }

    /// Whether a team's tasks may run.
    pub fn may_run(&self, team: T) -> bool {
        !self.is_shared() || !self.members.contains_key(&team) || self.chosen.contains(&team)
    }

    /// Whether a team's processes are kept from running.
    fn is_held(&self, team: T) -> bool {
        !self.may_run(team)
    }

    fn is_slice(&self, serial: u64) -> bool {
        self.is_shared() && self.serial == serial
    }

    fn remove(&mut self, team: T, pid: ProcessId) -> bool {
        let Some(pids) = self.members.get_mut(&team) else { return false };
        let was_member = pids.remove(&pid);
        self.asleep.remove(&pid);
        self.count -= usize::from(was_member);
        self.meter.forget(pid);
        self.has_lost |= was_member && self.node.running() == Some(team);
        if pids.is_empty() {
            self.members.remove(&team);
            self.node.forget(team);
        }
        was_member
    }

    /// Members have joined or left.
    fn reconsider(&mut self) {
        let must_share = gates::must_share(self.members.len(), self.count, self.cores as usize);
        match (self.is_shared(), must_share) {
            (false, true) => self.begin_sharing(),
            (true, false) => self.end_sharing(),
            (true, true) if self.node.running().is_none() => self.next_turn(None),
            (true, true) => self.steer(),
            (false, false) => {}
        }
    }

    fn begin_sharing(&mut self) {
        self.mode = Mode::Turns;
        self.meter = Meter::new(self.now);
        self.passed = self.now;
        (self.is_by_use, self.has_lost, self.then) = (false, false, Then::Nothing);
        self.unneeded.restart();
        self.ask();
        self.next_turn(None);
        self.decisions.push(Decision::Shared(true));
    }

    fn end_sharing(&mut self) {
        self.pass_time();
        self.mode = Mode::Alone;
        self.node.dispatch(None);
        self.user = None;
        self.chosen.clear();
        self.asleep.clear();
        let held = std::mem::take(&mut self.held);
        self.decisions.extend(held.into_iter().map(|pid| Decision::Dispatch { pid, runs: true }));
        self.decisions.push(Decision::Shared(false));
    }

    fn ask(&mut self) {
        let members = &self.members;
        let processes = members.iter().flat_map(|(&team, pids)| pids.iter().map(move |&pid| (team, pid)));
        let pids = self.meter.ask(processes);
        self.decisions.push(Decision::Read { pids });
    }

    /// Everybody pays, and what the reading was made for is decided.
    fn account(&mut self, reading: Reading, then: Then) {
        let Reading { work, own, leaves_rest } = reading;
        self.pass_time();
        let elapsed = self.meter.elapsed(self.now);
        let all = elapsed.saturating_mul(self.cores);
        let used = self.meter.used(work, all);
        let overhead = self.meter.overhead(own.min(all));
        let is_calm =
            used.as_ref().is_some_and(|used| self.unneeded.update(used, &overhead, all)) && !self.has_lost;
        self.is_by_use = leaves_rest;
        self.decisions.push(Decision::WantsSleeps);
        let is_wanted = used.is_none_or(|used| {
            self.total(&used, &overhead);
            if leaves_rest {
                self.pay(&used, &overhead, elapsed, all)
            } else {
                self.is_slot_wanted(&used, elapsed)
            }
        });
        match then {
            Then::Nothing => {}
            Then::NextTurn if is_calm => self.all_run(Why::KernelSuffices),
            Then::NextTurn if leaves_rest && !is_wanted => self.all_run(Why::TimeLeft),
            Then::NextTurn => self.next_turn(None),
            // All its tasks wait, and no other team can use its slot.
            Then::Look if !is_wanted => self.next_turn(self.node.running()),
            Then::Look => self.look_later(),
        }
    }

    fn total(&mut self, used: &[(T, Work)], overhead: &[(T, Duration)]) {
        for &(team, work) in used {
            let total = self.totals.entry(team).or_default();
            total.time += work.time;
            total.waits += work.waits;
        }
        for &(team, time) in overhead {
            self.totals.entry(team).or_default().overhead += time;
        }
    }

    /// Teams pay for their CPU time and for what was done for them; the receiver, too, as in *Lazy receiver processing* (Druschel and
    /// Banga, OSDI 1996). Whether there is too little time for all to run as they like.
    fn pay(
        &mut self,
        used: &[(T, Work)],
        overhead: &[(T, Duration)],
        elapsed: Duration,
        all: Duration,
    ) -> bool {
        let has_lost = std::mem::take(&mut self.has_lost);
        self.has_woken = false;
        for &(team, time) in overhead {
            self.node.charge_to(team, time);
        }
        for &(team, work) in used {
            self.node.charge_to(team, work.time);
        }
        if let Some(running) = self.node.running().filter(|_| has_lost) {
            self.node.charge_to(running, elapsed);
        }
        has_lost || gates::is_time_short(used, all)
    }

    /// Where a turn costs its time: whether the team that has the turn wants it.
    fn is_slot_wanted(&mut self, used: &[(T, Work)], elapsed: Duration) -> bool {
        let has_lost = std::mem::take(&mut self.has_lost);
        let has_woken = std::mem::take(&mut self.has_woken);
        let running = self.node.running();
        has_lost || has_woken || self.user != running || gates::wants_slot(running, used, elapsed)
    }

    /// The turn of the team with the least account, this one left out if there is another.
    fn next_turn(&mut self, left_out: Option<T>) {
        self.pass_time();
        self.mode = Mode::Turns;
        let teams: Vec<T> = self.members.keys().copied().collect();
        self.node.forget_savings();
        let Some(slice) = self.rotation.renew(self.now) else {
            let next = self.node.turn(&teams, |team| Some(team) != left_out).or(left_out);
            self.node.slice_ended(next);
            self.begin_slice();
            self.decisions.extend(next.map(Decision::TurnBegan));
            return;
        };
        let in_row: Vec<T> = teams.iter().copied().filter(|&team| self.rotation.has_place(team)).collect();
        // Teams of other rows may leave them all behind, level with each other, so that the order decides.
        let is_of_others = self.rotation.is_of_others();
        let last = if is_of_others { self.rotation.last_other } else { self.node.running() };
        let next = self.node.turn_after(last, &in_row, |team| Some(team) != left_out);
        if is_of_others {
            self.rotation.last_other = next.or(last);
        }
        self.rotation.is_alternate = next.is_none();
        let next = next.or_else(|| self.node.turn(&teams, |team| Some(team) != left_out)).or(left_out);
        self.node.slice_began(slice.number, next);
        self.begin_slice();
        if !self.rotation.is_alternate {
            let is_in_turn = |&team: &T| next == Some(team) || self.is_in_row(team);
            let began: Vec<T> = in_row.into_iter().filter(is_in_turn).collect();
            self.decisions.extend(began.into_iter().map(Decision::TurnBegan));
        }
    }

    /// All teams run for a slice.
    fn all_run(&mut self, why: Why) {
        self.mode = Mode::AllRun(why);
        self.rotation.renew(self.now);
        self.begin_slice();
    }

    /// Whether a team has the turn as one of the row that has its slice: no message has brought another team.
    fn is_in_row(&self, team: T) -> bool {
        let is_free = self.rotation.is_alternate || self.rotation.is_of_others();
        !is_free && !self.node.is_boosted() && self.rotation.has_place(team)
    }

    fn begin_slice(&mut self) {
        let Some(slice) = self.slice else { return };
        let after = self.rotation.slice(self.now).map_or(slice, |slice| slice.left);
        self.serial += 1;
        self.decisions.push(Decision::Timer { after, timer: Timer::SliceEnd(self.serial) });
        self.look_later();
        self.steer();
    }

    fn look_later(&mut self) {
        if self.wants_sleeps()
            && let Some(slice) = self.slice
        {
            let timer = Timer::Look(self.serial);
            self.decisions.push(Decision::Timer { after: slice / SLICE_LOOKS, timer });
        }
    }

    /// The team that has the turn has had it for some time more. Where turns cost their time, the team that uses the slot pays.
    fn pass_time(&mut self) {
        let time = self.now.saturating_sub(std::mem::replace(&mut self.passed, self.now));
        if self.mode != Mode::Turns {
            return;
        }
        if !self.is_by_use
            && let Some(user) = self.user
        {
            self.node.charge_to(user, time);
        }
        self.node.passed(time);
    }

    /// Chooses the teams that run: first their processes may run, then the others are held.
    fn steer(&mut self) {
        self.choose();
        for runs in [true, false] {
            for (team, pids) in &self.members {
                if self.chosen.contains(team) == runs {
                    let held = &mut self.held;
                    let changed =
                        pids.iter().filter(|pid| if runs { held.remove(pid) } else { held.insert(**pid) });
                    self.decisions.extend(changed.map(|&pid| Decision::Dispatch { pid, runs }));
                }
            }
        }
    }

    fn choose(&mut self) {
        if self.mode != Mode::Turns {
            self.chosen = self.members.keys().copied().collect();
            return;
        }
        let candidate = |(&team, pids): (&T, &BTreeSet<ProcessId>)| Candidate {
            team,
            size: pids.len(),
            sleeps: pids.is_subset(&self.asleep),
            account: self.node.account(team),
        };
        let candidates: Vec<Candidate<T>> = self.members.iter().map(candidate).collect();
        let is_in_turn = |team| self.node.running() == Some(team) || self.is_in_row(team);
        let choice = choose(&candidates, is_in_turn, self.cores as usize);
        (self.chosen, self.user) = (choice.teams, choice.user);
    }

    /// Checks the invariants between any two events; the error names the one that is violated.
    pub fn check(&self) -> Result<(), String> {
        let processes = || self.members.values().flatten();
        let must_share = gates::must_share(self.members.len(), self.count, self.cores as usize);
        let known: BTreeSet<&ProcessId> = processes().collect();
        let is_free = |pid: &ProcessId| !self.held.contains(pid);
        let claims = [
            (self.decisions.is_empty(), "a decision was not handed out"),
            (self.count == processes().count(), "the number of processes is wrong"),
            (self.members.values().all(|pids| !pids.is_empty()), "a team has no process"),
            (self.members.keys().copied().eq(self.node.teams()), "accounts are not those of the teams"),
            (
                self.is_shared() == must_share && (self.slice.is_some() || !self.is_shared()),
                "turns are taken or not, against the gate",
            ),
            (self.is_shared() || self.held.is_empty() && self.asleep.is_empty(), "no turns, but their state"),
            (
                !self.is_shared() || self.node.running().is_some_and(|team| self.members.contains_key(&team)),
                "no team has the turn",
            ),
            (
                self.asleep.iter().chain(&self.held).all(|pid| known.contains(pid)),
                "a stranger is held or asleep",
            ),
            (
                self.members
                    .iter()
                    .all(|(&team, pids)| pids.iter().all(|pid| is_free(pid) != self.is_held(team))),
                "the wrong processes are held",
            ),
            (
                self.mode != Mode::Turns || self.user.is_none_or(|user| self.chosen.contains(&user)),
                "the slot's user is held",
            ),
        ];
        claims.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, claim)| Err(format!("{claim}: {self:?}")))
    }
}

#[cfg(test)]
#[path = "coscheduler_tests.rs"]
mod tests;
