//! Where turns are unneeded: the kernel alone does as well as any turns would, or better.
//!
//! Where every team sleeps again before the kernel would interrupt it, all run as they like: messages gather while one of them works.
//!
//! Nor is anything gained where a single process computes and has nothing to do with other hosts, if each of the others waits
//! for one other host at most: the kernel favours waking processes over running ones. Turns would give those that wait more of the
//! processor, and only at the other's cost. A team that waits for several hosts waits for the slowest of as many kernels, and a team
//! that has more than its part has to be held to it.

use super::usage::Work;
use pvm_wire::tuned::{BRIEF_WORK, SHARE_MARGIN};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state of teams; that of teams that have not run since the last reading is from before.
#[derive(Clone, Debug)]
pub struct Unneeded<T, H> {
    /// They have run: whether others compute is unknown.
    known: BTreeSet<T>,
    /// Teams of which a process computed.
    computing: BTreeSet<T>,
    /// From which hosts their messages came.
    heard: BTreeMap<T, Heard<H>>,
    /// The same, since the last reading.
    hears: BTreeMap<T, Heard<H>>,
    /// They have sent on direct routes to other hosts, of which little is known here.
    direct: BTreeSet<T>,
}

impl<T, H> Default for Unneeded<T, H> {
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            computing: BTreeSet::new(),
            heard: BTreeMap::new(),
            hears: BTreeMap::new(),
            direct: BTreeSet::new(),
        }
    }
}

/// Hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard<H> {
    One(H),
    Several,
}

/// The work of a team since the last reading.
#[derive(Debug, Default)]
struct Done {
    processes: u32,
    time: Duration,
    ran: bool,
    computed: bool,
}

impl<T: Copy + Ord, H: Copy + Eq> Unneeded<T, H> {
    /// Turns are taken from now on: of what was known before only the routes count.
    pub fn restart(&mut self) {
        *self = Self { direct: std::mem::take(&mut self.direct), ..Self::default() };
    }

    /// A team has no tasks any more.
    pub fn forget(&mut self, team: T) {
        self.direct.remove(&team);
    }

    /// A message from another host arrives for a team.
    pub fn note_message(&mut self, team: T, from: H) {
        let heard = self.hears.entry(team).or_insert(Heard::One(from));
        if *heard != Heard::One(from) {
            *heard = Heard::Several;
        }
    }

    /// A task of this team sends on direct routes.
    pub fn note_direct(&mut self, team: T) {
        self.direct.insert(team);
    }

    /// Whether the kernel does as well, after processes have used this of `all` the time of the processors, and the daemon that for
    /// their teams.
    pub fn update(&mut self, used: &[(T, Work)], overhead: &[(T, Duration)], all: Duration) -> bool {
        let teams = by_team(used, overhead);
        self.learn(&teams);
        match self.computing.len() {
            0 => true,
            1 => self.nobody_gains(&teams, all),
            _ => false,
        }
    }

    fn learn(&mut self, teams: &BTreeMap<T, Done>) {
        let has_not_run = |team: &T| teams.get(team).is_some_and(|done| !done.ran);
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

    fn nobody_gains(&self, teams: &BTreeMap<T, Done>, all: Duration) -> bool {
        let part = all / u32::try_from(teams.len().max(1)).unwrap_or(u32::MAX);
        teams.iter().all(|(team, done)| {
            let heard = self.heard.get(team);
            let is_served = if self.computing.contains(team) {
                heard.is_none() && !self.direct.contains(team)
            } else {
                heard != Some(&Heard::Several) && done.time <= part + part / SHARE_MARGIN
            };
            is_served && done.processes == 1 && self.known.contains(team)
        })
    }
}

fn by_team<T: Copy + Ord>(used: &[(T, Work)], overhead: &[(T, Duration)]) -> BTreeMap<T, Done> {
    let mut teams: BTreeMap<T, Done> = BTreeMap::new();
    for &(team, work) in used {
        let done = teams.entry(team).or_default();
        done.processes += 1;
        done.time += work.time;
        done.ran |= work.time > BRIEF_WORK;
        done.computed |= work.time.as_nanos() > BRIEF_WORK.as_nanos() * (u128::from(work.sleeps) + 1);
    }
    for (team, time) in overhead {
        if let Some(done) = teams.get_mut(team) {
            done.time += *time;
        }
    }
    teams
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(50);

    /// A process that has worked for this part of a slice, in this number of stretches.
    fn work(part: u32, stretches: u64) -> Work {
        Work { time: SLICE / part, sleeps: stretches, waits: Duration::ZERO }
    }

    fn judge(unneeded: &mut Unneeded<char, u32>, used: &[(char, Work)]) -> bool {
        unneeded.update(used, &[], SLICE)
    }

    #[test]
    fn where_no_team_computes_turns_are_unneeded() {
        let mut unneeded = Unneeded::default();
        assert!(judge(&mut unneeded, &[('A', work(2, 1000)), ('B', work(2, 1000))]));
        assert!(!judge(&mut unneeded, &[('A', work(2, 3)), ('B', work(2, 3))]), "25 ms in three stretches");
        let idle = Work::default();
        assert!(!judge(&mut unneeded, &[('A', idle), ('B', idle)]), "what does not run is what it was");
    }

    #[test]
    fn one_that_computes_does_not_need_turns_unless_others_wait_for_several_hosts() {
        let used = [('A', work(3, 100)), ('B', work(2, 0))];
        let mut unneeded = Unneeded::default();
        unneeded.note_message('A', 2);
        assert!(judge(&mut unneeded, &used));
        unneeded.note_message('A', 3);
        assert!(judge(&mut unneeded, &used), "another one, and not both");
        unneeded.note_message('A', 2);
        unneeded.note_message('A', 3);
        assert!(!judge(&mut unneeded, &used), "from two hosts");
        unneeded.restart();
        assert!(judge(&mut unneeded, &used));
        unneeded.note_message('B', 2);
        assert!(!judge(&mut unneeded, &used), "the one that computes exchanges messages");
        unneeded.restart();
        unneeded.note_direct('B');
        assert!(!judge(&mut unneeded, &used), "perhaps on direct routes");
        unneeded.forget('B');
        assert!(judge(&mut unneeded, &used));
        assert!(
            !judge(&mut unneeded, &[('A', work(3, 100)), ('B', work(4, 0)), ('B', work(4, 0))]),
            "two processes"
        );
    }

    #[test]
    fn a_team_with_more_than_its_part_is_held_to_it() {
        let used = [('A', work(2, 1000)), ('B', work(3, 0))];
        let mut unneeded: Unneeded<char, u32> = Unneeded::default();
        assert!(unneeded.update(&used, &[('A', SLICE / 20)], SLICE), "a tenth more is tolerated");
        assert!(!unneeded.update(&used, &[('A', SLICE / 10)], SLICE), "the daemon's work counts");
    }
}
