//! Accounts of CPU use: what each team has been charged, and which of them has had least.

use std::collections::BTreeMap;
use std::time::Duration;

/// CPU time per team.
#[derive(Clone, Debug)]
pub struct Accounts<T> {
    used: BTreeMap<T, Duration>,
}

impl<T> Default for Accounts<T> {
    fn default() -> Self {
        Self { used: BTreeMap::new() }
    }
}

impl<T: Copy + Ord> Accounts<T> {
    /// The time that a team has been charged.
    pub fn of(&self, team: T) -> Duration {
        self.used.get(&team).copied().unwrap_or_default()
    }

    /// The teams that have an account.
    pub fn teams(&self) -> impl Iterator<Item = T> + '_ {
        self.used.keys().copied()
    }

    /// Opens an account. It starts level with the least of the others, or a newcomer could claim all the time before it came.
    pub fn open(&mut self, team: T) {
        let level = self.used.values().min().copied().unwrap_or_default();
        self.used.entry(team).or_insert(level);
    }

    /// Closes an account.
    pub fn close(&mut self, team: T) {
        self.used.remove(&team);
    }

    /// A team has used this much. Without an account it pays nothing.
    pub fn charge(&mut self, team: T, time: Duration) {
        if let Some(account) = self.used.get_mut(&team) {
            *account = account.saturating_add(time);
        }
    }

    /// No team saves up more than this: one that did not want the processor for long is only so far behind the others.
    pub fn limit_savings(&mut self, most: Duration) {
        let floor = self.used.values().max().copied().unwrap_or_default().saturating_sub(most);
        for account in self.used.values_mut() {
            *account = (*account).max(floor);
        }
    }

    /// Which of the ready `teams` has the least on its account; among equals the next one after `last` in the order of the list.
    pub fn least(&self, teams: &[T], last: Option<T>, ready: impl Fn(T) -> bool) -> Option<T> {
        let start = teams.iter().position(|&team| Some(team) == last).map_or(0, |at| at + 1);
        let round = (0..teams.len()).map(|step| teams[(start + step) % teams.len()]);
        round.filter(|&team| ready(team)).min_by_key(|&team| self.of(team))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_newcomer_is_level_with_the_least_and_strangers_pay_nothing() {
        let mut accounts = Accounts::default();
        for team in ['A', 'B'] {
            accounts.open(team);
        }
        accounts.charge('A', 5 * MS);
        accounts.charge('B', 3 * MS);
        accounts.charge('C', 9 * MS);
        accounts.open('C');
        assert_eq!(['A', 'B', 'C'].map(|team| accounts.of(team)), [5 * MS, 3 * MS, 3 * MS]);
        accounts.open('A');
        assert_eq!(accounts.of('A'), 5 * MS, "it has one");
        accounts.close('A');
        assert_eq!(accounts.teams().collect::<String>(), "BC");
    }

    #[test]
    fn among_equals_the_next_has_its_turn() {
        let mut accounts = Accounts::default();
        let teams = ['A', 'B', 'C'];
        for team in teams {
            accounts.open(team);
        }
        assert_eq!(accounts.least(&teams, Some('A'), |_| true), Some('B'));
        assert_eq!(accounts.least(&teams, Some('C'), |_| true), Some('A'));
        assert_eq!(accounts.least(&teams, Some('A'), |team| team == 'A'), Some('A'));
        accounts.charge('B', MS);
        assert_eq!(accounts.least(&teams, Some('A'), |_| true), Some('C'));
        assert_eq!(accounts.least(&[], None, |_: char| true), None);
    }

    proptest! {
        /// The team with the least gets the next slice: teams that always want the processor stay within one slice of each other.
        #[test]
        fn turns_even_the_accounts_out(teams in 1..8_u8, slices in proptest::collection::vec(1..50_u32, 1..200)) {
            let teams: Vec<u8> = (0..teams).collect();
            let mut accounts = Accounts::default();
            for &team in &teams {
                accounts.open(team);
            }
            let mut last = None;
            for slice in slices {
                last = accounts.least(&teams, last, |_| true);
                accounts.charge(last.expect("a team"), slice * MS);
                let used = teams.iter().map(|&team| accounts.of(team));
                let (least, most) = (used.clone().min().unwrap(), used.max().unwrap());
                prop_assert!(most <= least + 50 * MS);
                accounts.limit_savings(20 * MS);
                prop_assert!(teams.iter().all(|&team| accounts.of(team) + 20 * MS >= most));
            }
        }
    }
}
