//! The choice of the teams that run: those that have the turn, and others that find cores free.

use std::collections::BTreeSet;
use std::time::Duration;

/// A team, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<T> {
    /// Which.
    pub team: T,
    /// Its processes.
    pub size: usize,
    /// All of them sleep until something comes.
    pub sleeps: bool,
    /// The time that it has been charged.
    pub account: Duration,
}

/// The chosen teams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<T> {
    /// Teams that run.
    pub teams: BTreeSet<T>,
    /// The team that uses the slot, for which it pays: the first of those that have the turn of which a process is awake.
    pub user: Option<T>,
}

/// Chooses among `candidates` for this number of cores, while the teams of which `is_in_turn` is true have the turn: one, or those of a row. A team that
/// sleeps needs no core, and has the slot back at once when it wakes; while all that have the turn sleep, the one with the least account uses it.
pub fn choose<T: Copy + Ord>(
    candidates: &[Candidate<T>],
    is_in_turn: impl Fn(T) -> bool,
    cores: usize,
) -> Choice<T> {
    let (first, mut others): (Vec<&Candidate<T>>, Vec<&Candidate<T>>) =
        candidates.iter().partition(|candidate| is_in_turn(candidate.team));
    if first.iter().any(|candidate| candidate.sleeps) {
        others.sort_by_key(|candidate| candidate.account);
    }
    let mut choice = Choice { teams: BTreeSet::new(), user: None };
    let mut left = cores;
    for candidate in first.into_iter().chain(others) {
        let uses_slot = choice.user.is_none() && !candidate.sleeps;
        if uses_slot {
            choice.user = Some(candidate.team);
        }
        if uses_slot || candidate.sleeps || candidate.size <= left || is_in_turn(candidate.team) {
            left -= if candidate.sleeps { 0 } else { candidate.size.min(left) };
            choice.teams.insert(candidate.team);
        }
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(team: char, size: usize, sleeps: bool, account: u64) -> Candidate<char> {
        Candidate { team, size, sleeps, account: Duration::from_millis(account) }
    }

    fn chosen(candidates: &[Candidate<char>], running: char, cores: usize) -> (String, Option<char>) {
        let choice = choose(candidates, |team| team == running, cores);
        (choice.teams.into_iter().collect(), choice.user)
    }

    #[test]
    fn the_cores_that_the_turn_leaves_go_to_teams_that_fit() {
        let teams = [candidate('A', 1, false, 0), candidate('B', 2, false, 0), candidate('C', 1, false, 0)];
        assert_eq!(chosen(&teams, 'B', 1), ("B".into(), Some('B')));
        assert_eq!(chosen(&teams, 'B', 3), ("AB".into(), Some('B')));
        assert_eq!(chosen(&teams, 'A', 2), ("AC".into(), Some('A')));
        assert_eq!(chosen(&teams, 'A', 4), ("ABC".into(), Some('A')));
    }

    #[test]
    fn a_team_that_sleeps_lends_its_slot_to_the_one_with_the_least_account() {
        let teams = [candidate('A', 1, true, 0), candidate('B', 1, false, 9), candidate('C', 1, false, 3)];
        assert_eq!(chosen(&teams, 'A', 1), ("AC".into(), Some('C')));
        let all_sleep = [candidate('A', 1, true, 0), candidate('B', 1, true, 9)];
        assert_eq!(chosen(&all_sleep, 'A', 1), ("AB".into(), None));
    }

    #[test]
    fn all_teams_of_a_row_run_and_others_where_cores_are_left() {
        let teams = [candidate('A', 1, false, 0), candidate('B', 2, false, 0), candidate('C', 1, false, 0)];
        let run = |row: &str, cores: usize| {
            choose(&teams, |team| row.contains(team), cores).teams.into_iter().collect::<String>()
        };
        assert_eq!(run("AB", 3), "AB");
        assert_eq!(run("AC", 3), "AC");
        assert_eq!(run("AC", 4), "ABC");
        assert_eq!(run("AB", 1), "AB", "the row decides");
    }

    proptest! {
        /// The turn is respected, no core is promised twice but to the team that uses the slot, and sleepers may always run.
        #[test]
        fn cores_are_enough_for_the_chosen(
            teams in proptest::collection::vec((1..6_usize, any::<bool>(), 0..9_u64), 1..8), running in 0..8_usize, cores in 1..9_usize,
        ) {
            let teams: Vec<_> = ('A'..).zip(teams).map(|(team, (size, sleeps, account))| candidate(team, size, sleeps, account)).collect();
            let running = teams.get(running).map(|candidate| candidate.team);
            let choice = choose(&teams, |team| Some(team) == running, cores);
            let awake = |candidate: &&Candidate<char>| !candidate.sleeps;
            prop_assert_eq!(choice.user.is_some(), teams.iter().any(|candidate| !candidate.sleeps));
            prop_assert!(running.is_none_or(|team| choice.teams.contains(&team)));
            prop_assert!(teams.iter().all(|candidate| !candidate.sleeps || choice.teams.contains(&candidate.team)));
            let others = teams.iter().filter(awake).filter(|candidate| choice.teams.contains(&candidate.team) && choice.user != Some(candidate.team));
            let slot = teams.iter().find(|candidate| choice.user == Some(candidate.team)).map_or(0, |candidate| candidate.size.min(cores));
            prop_assert!(others.map(|candidate| candidate.size).sum::<usize>() <= cores - slot);
        }
    }
}
