//! Where the kernel alone does as well as any turns would, or better.
//!
//! Where every team sleeps again before the kernel would interrupt it, all run as they like: messages gather while somebody works.
//!
//! Nor is anything gained beside a single process that computes and has nothing to do with other hosts, if each of the others waits
//! for one other host at most: the kernel lets who wakes go before who computes. Turns would give those who wait more of the
//! processor, and only at the other's cost. Who waits for several hosts waits for the slowest of as many kernels, and who has more
//! than its part has to be held to it.

use super::event::Work;
use super::teams::TeamId;
use pvm_wire::HostIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Who works for longer between two sleeps computes. It is less than the kernel's shortest slice.
const BRIEF: Duration = Duration::from_micros(500);
/// By one in so many parts a team may have more than its part before that counts.
const MARGIN: u32 = 10;

/// What is known of teams: of those that have not run since the last reading, from before.
#[derive(Debug, Default)]
pub(super) struct Calm {
    /// They have run: of others nobody knows whether they compute.
    known: BTreeSet<TeamId>,
    /// Of which a process computed.
    computing: BTreeSet<TeamId>,
    /// From which hosts their messages came.
    heard: BTreeMap<TeamId, Heard>,
    /// The same, since the last reading.
    hears: BTreeMap<TeamId, Heard>,
    /// They have sent on direct routes to other hosts, of which little is known here.
    direct: BTreeSet<TeamId>,
}

/// Hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    One(HostIndex),
    Several,
}

/// What a team has done since the last reading.
#[derive(Debug, Default)]
struct Done {
    processes: u32,
    time: Duration,
    ran: bool,
    computed: bool,
}

impl Calm {
    /// Turns begin: of what was before only the routes count.
    pub fn begin(&mut self) {
        *self = Self { direct: std::mem::take(&mut self.direct), ..Self::default() };
    }

    /// A team has no tasks any more.
    pub fn forget(&mut self, team: TeamId) {
        self.direct.remove(&team);
    }

    /// A message has come for a team from another host.
    pub fn hear(&mut self, team: TeamId, from: HostIndex) {
        let heard = self.hears.entry(team).or_insert(Heard::One(from));
        if *heard != Heard::One(from) {
            *heard = Heard::Several;
        }
    }

    /// A task of this team sends on direct routes.
    pub fn go_direct(&mut self, team: TeamId) {
        self.direct.insert(team);
    }

    /// Whether the kernel does as well, after processes have done this in `all` the time of the processors, and the daemon that for
    /// their teams.
    pub fn judge(&mut self, used: &[(TeamId, Work)], errands: &[(TeamId, Duration)], all: Duration) -> bool {
        let teams = by_team(used, errands);
        self.learn(&teams);
        match self.computing.len() {
            0 => true,
            1 => self.nobody_gains(&teams, all),
            _ => false,
        }
    }

    fn learn(&mut self, teams: &BTreeMap<TeamId, Done>) {
        let has_not_run = |team: &TeamId| teams.get(team).is_some_and(|done| !done.ran);
        self.known.retain(has_not_run);
        self.known.extend(teams.iter().filter(|(_, done)| done.ran).map(|(&team, _)| team));
        self.computing.retain(has_not_run);
        self.computing.extend(teams.iter().filter(|(_, done)| done.computed).map(|(&team, _)| team));
        self.heard.retain(|team, _| has_not_run(team));
        for (team, hears) in std::mem::take(&mut self.hears) {
            let known = self.heard.entry(team).or_insert(hears);
            if *known != hears {
                *known = Heard::Several;
            }
        }
    }

    fn nobody_gains(&self, teams: &BTreeMap<TeamId, Done>, all: Duration) -> bool {
        let part = all / u32::try_from(teams.len().max(1)).unwrap_or(u32::MAX);
        teams.iter().all(|(team, done)| {
            let heard = self.heard.get(team);
            let is_served = if self.computing.contains(team) {
                heard.is_none() && !self.direct.contains(team)
            } else {
                heard != Some(&Heard::Several) && done.time <= part + part / MARGIN
            };
            is_served && done.processes == 1 && self.known.contains(team)
        })
    }
}

fn by_team(used: &[(TeamId, Work)], errands: &[(TeamId, Duration)]) -> BTreeMap<TeamId, Done> {
    let mut teams: BTreeMap<TeamId, Done> = BTreeMap::new();
    for &(team, work) in used {
        let done = teams.entry(team).or_default();
        done.processes += 1;
        done.time += work.time;
        done.ran |= work.time > BRIEF;
        done.computed |= work.time.as_nanos() > BRIEF.as_nanos() * (u128::from(work.sleeps) + 1);
    }
    for (team, time) in errands {
        if let Some(done) = teams.get_mut(team) {
            done.time += *time;
        }
    }
    teams
}
