//! Teams: tasks that want to run at the same time, on all hosts that have some of them.
//!
//! A host with more teams and tasks than cores gives each team the processor in turn, and a message from another host may
//! bring its receiver's team onto it out of turn. [`pvm_sched::coscheduling`] decides that. Here is which task belongs to which
//! team, the scheduler's input, and what is done about its decisions.

use history::History;
use pvm_sched::coscheduling::{self, Coscheduler, Epoch};
use pvm_wire::HostIndex;
use pvm_wire::coscheduling::{TEAM_NAME_MAX, TEAM_VARIABLE, Turn};
use pvm_wire::spawn::split_entry;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

mod history;

/// The teams of this host's tasks, and their scheduler.
#[derive(Debug)]
pub(crate) struct Teams {
    pub scheduler: Coscheduler<TeamId, HostIndex>,
    names: BTreeMap<String, TeamId>,
    /// Their names, and how many tasks have them.
    roster: BTreeMap<TeamId, (String, usize)>,
    ids: u32,
    /// What tasks were told: whether turns are taken, and whether they are to report when they sleep.
    pub told_tasks: (bool, bool),
    /// What the page says, if any task can read it.
    pub shown: Option<Turn>,
    /// What turns there have been.
    history: History,
}

/// A team, within one daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TeamId(u32);

impl TeamId {
    /// As tasks know it.
    pub fn number(self) -> u32 {
        Turn::number(self.0)
    }
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
            history: History::default(),
        }
    }

    /// One task more in the team of this name.
    pub fn enlist(&mut self, name: &str) -> TeamId {
        let next = TeamId(self.ids + 1);
        let team = *self.names.entry(name.to_owned()).or_insert(next);
        self.ids = self.ids.max(team.0);
        self.roster.entry(team).or_insert_with(|| (name.to_owned(), 0)).1 += 1;
        team
    }

    /// One task less.
    pub fn dismiss(&mut self, team: TeamId) {
        let Some((name, tasks)) = self.roster.get_mut(&team) else { return };
        *tasks -= 1;
        if *tasks == 0 {
            self.names.remove(name);
            self.roster.remove(&team);
            self.scheduler.forget(team);
        }
    }

    /// How many tasks each team has.
    pub fn sizes(&self) -> BTreeMap<TeamId, usize> {
        self.roster.iter().map(|(&team, &(_, tasks))| (team, tasks)).collect()
    }

    /// What the page is to say.
    pub fn page(&self) -> Turn {
        let Epoch { count, origin } = self.scheduler.epoch();
        let team = match self.scheduler.turn() {
            coscheduling::Turn::All => 0,
            coscheduling::Turn::Of(team) => team.number(),
            coscheduling::Turn::Nobody => Turn::NOBODY,
        };
        // Only the lower half of a count is shown, and a host's index fits.
        Turn { count: count as u32, origin: origin as u16, team }
    }

    /// Its name; `None` for the team of a task that has none.
    pub fn name(&self, team: TeamId) -> Option<&str> {
        self.roster.get(&team).map(|(name, _)| &**name)
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
