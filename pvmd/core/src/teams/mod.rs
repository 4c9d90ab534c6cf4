//! Teams: tasks that want to run at the same time, on all hosts that have some of them.
//!
//! A host with more teams and tasks than cores gives each team the processor in turn, and a message from another host may
//! bring its receiver's team onto it out of turn. [`pvm_sched::coscheduling`] decides that. Here is which task belongs to which
//! team, the scheduler's input, and what is done about its decisions.

use crate::addresses::TeamId;
use crate::tasks::{Task, Tasks};
use epochs::Peer;
use history::History;
use pvm_sched::coscheduling::{self, Coscheduler, Epoch};
use pvm_wire::coscheduling::{TEAM_NAME_MAX, TEAM_VARIABLE, Turn};
use pvm_wire::spawn::split_entry;
use pvm_wire::turn_rules::TurnRule;
use pvm_wire::{HostIndex, Tid};
use rows::HostRows;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::time::Duration;

mod epochs;
mod history;
mod rows;
mod scheduling;

/// The teams of this host's tasks, and their scheduler.
#[derive(Debug)]
pub(crate) struct Teams {
    pub scheduler: Coscheduler<TeamId, HostIndex>,
    names: BTreeMap<String, TeamId>,
    roster: BTreeMap<TeamId, Listed>,
    ids: u32,
    /// What tasks were told: whether turns are taken, and whether they are to report when they sleep.
    told_tasks: (bool, bool),
    /// What the page says, if any task can read it.
    shown: Option<Turn>,
    /// What is known of turns on linked hosts.
    peers: BTreeMap<HostIndex, Peer>,
    /// Tasks of this host that have sent to one of another host, without an answer yet.
    awaits: BTreeMap<Tid, Tid>,
    /// What turns there have been.
    history: History,
    /// What is known of the machine's matrix.
    pub rows: HostRows,
    /// The owner of the host is there: no team takes turns.
    is_suspended: bool,
}

/// A team of this host.
#[derive(Debug)]
struct Listed {
    name: String,
    /// How many tasks have it.
    tasks: usize,
    /// How it takes turns, by the word of a queue. Its first task decides.
    turns: Option<TurnRule>,
}

impl Teams {
    pub fn new(slice: Option<Duration>, cores: u32, host: HostIndex) -> Self {
        Self {
            scheduler: Coscheduler::new(slice, cores, host.get()),
            names: BTreeMap::new(),
            roster: BTreeMap::new(),
            ids: 0,
            told_tasks: (false, false),
            shown: None,
            peers: BTreeMap::new(),
            awaits: BTreeMap::new(),
            history: History::default(),
            rows: HostRows::default(),
            is_suspended: false,
        }
    }

    /// A task belongs to the team of this name, and no more to the one before.
    pub fn enlist(&mut self, task: &mut Task, name: &str) {
        let next = TeamId(self.ids + 1);
        let team = *self.names.entry(name.to_owned()).or_insert(next);
        self.ids = self.ids.max(team.0);
        let turns = task.turns;
        let listed =
            self.roster.entry(team).or_insert_with(|| Listed { name: name.to_owned(), tasks: 0, turns });
        listed.tasks += 1;
        self.dismiss(std::mem::replace(&mut task.team, team));
    }

    /// A team has one task less.
    fn dismiss(&mut self, team: TeamId) {
        let Some(listed) = self.roster.get_mut(&team) else { return };
        listed.tasks -= 1;
        if listed.tasks == 0 {
            self.names.remove(&listed.name);
            self.roster.remove(&team);
            self.scheduler.forget(team);
        }
    }

    /// How many tasks each team has.
    pub fn sizes(&self) -> BTreeMap<TeamId, usize> {
        self.roster.iter().map(|(&team, listed)| (team, listed.tasks)).collect()
    }

    /// What the page is to say from now on, if a task can read it and it says something else.
    pub fn turn_to_show(&mut self) -> Option<Turn> {
        let (shown, turn) = (self.shown?, self.page());
        (turn != shown).then(|| *self.shown.insert(turn))
    }

    /// A task of this team sends on direct routes.
    pub fn goes_direct(&mut self, team: TeamId) {
        self.scheduler.goes_direct(team);
    }

    /// A task is about to read the page: what that says, if there is none yet.
    pub fn first_reader(&mut self) -> Option<Turn> {
        self.shown.is_none().then(|| *self.shown.insert(self.page()))
    }

    /// What the page is to say.
    fn page(&self) -> Turn {
        let Epoch { count, origin } = self.scheduler.epoch();
        let team = match self.scheduler.turn() {
            coscheduling::Turn::All => 0,
            coscheduling::Turn::Of(team) => team.number(),
            coscheduling::Turn::Nobody => Turn::NOBODY,
        };
        // Only the lower half of a count is shown, and a host's index fits.
        Turn { count: count as u32, origin: origin as u16, team }
    }

    /// The name of a task's team: what it was given, else its own.
    pub fn name_of(&self, task: Option<&Task>, tid: Tid) -> String {
        task.and_then(|task| self.name(task.team)).map_or_else(|| tid.to_string(), str::to_owned)
    }

    /// The name of the team for tasks with this environment and this parent, if they have one.
    pub fn of_child(&self, env: &[OsString], parent: i32, tasks: &Tasks) -> Option<String> {
        let tid = Tid::from_raw(parent);
        let inherited = || (parent > 0).then(|| self.name_of(tasks.get(tid), tid));
        named_in(env).map(str::to_owned).or_else(inherited)
    }

    /// The teams that take turns, and whose turn it is; for people.
    pub fn write_state(&self, out: &mut String) -> fmt::Result {
        for (team, pids, runs) in self.scheduler.teams() {
            let (name, count) = (self.name(team).unwrap_or("-"), pids.len());
            let (state, used) = (if runs { "runs" } else { "waits" }, self.scheduler.charged(team));
            writeln!(out, "team {name}: {count} processes, {state}, charged {:.3} s", used.as_secs_f64())?;
        }
        Ok(())
    }

    /// Its name; `None` for the team of a task that has none.
    pub fn name(&self, team: TeamId) -> Option<&str> {
        self.roster.get(&team).map(|listed| &*listed.name)
    }
}

/// The team that an environment names.
pub(crate) fn named_in(env: &[OsString]) -> Option<&str> {
    let values = env.iter().filter_map(|entry| split_entry(entry)).filter(|(name, _)| *name == TEAM_VARIABLE);
    values.filter_map(|(_, value)| value.to_str()).find(|name| is_name(name))
}

pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= TEAM_NAME_MAX && !name.contains(char::is_control)
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
