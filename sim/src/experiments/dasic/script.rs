//! Teams and owners by a script, as a live experiment has them.

use super::progress::Running;
use super::{Policy, Settings};

/// What happens.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The processes of each team. All start at the beginning, and do not end.
    pub teams: Vec<u32>,
    /// Workstations whose owners are there at the beginning.
    pub owners: Vec<u32>,
    /// In a slice an owner comes to a workstation, or leaves it.
    pub changes: Vec<(u64, u32, bool)>,
    /// How many slices there are.
    pub slices: u64,
}

/// What becomes of a team.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// How far it gets, as a part of how far it gets on a machine of its own.
    pub speed: f64,
    /// The part of the slices in which all its processes run.
    pub together: f64,
}

/// The share of each team, and how many processes have changed their workstation.
///
/// ```
/// use pvm_sim::experiments::dasic::{Policy, Scenario, Settings, follow};
///
/// let settings = Settings { workstations: 2, ..Settings::default() };
/// let scenario = Scenario { teams: vec![2, 2], slices: 100, ..Scenario::default() };
/// let (shares, moves) = follow(&settings, Policy::Dasic, &scenario);
/// assert!(shares.iter().all(|share| share.together == 0.5 && share.speed == 0.5));
/// assert_eq!(moves, 0);
/// ```
pub fn follow(settings: &Settings, policy: Policy, scenario: &Scenario) -> (Vec<Share>, u64) {
    let mut running = Running::new(settings, policy);
    // There are no processes yet that could be without a host.
    let _ = running.owners_come(&scenario.owners);
    for (name, &size) in (0..).zip(&scenario.teams) {
        running.start(name, size, f64::INFINITY);
    }
    let mut changes = scenario.changes.iter().peekable();
    for slice in 0..scenario.slices {
        while let Some(&(_, host, is_here)) = changes.next_if(|change| change.0 <= slice) {
            if !is_here {
                running.owners_leave(&[host]);
            } else if running.owners_come(&[host]).is_err() {
                // Processes stay on the last workstation.
                running.owners_leave(&[host]);
            }
        }
        running.compute();
        running.advance();
    }
    let slices = scenario.slices.max(1) as f64;
    let share = |name: u64| {
        let team = running.teams.get(&name)?;
        Some(Share { speed: team.slowest / slices, together: team.together as f64 / slices })
    };
    let shares = (0..scenario.teams.len() as u64).map(|name| share(name).unwrap_or_default()).collect();
    (shares, running.moved)
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    #[test]
    fn owners_who_change_cost_migrations_only() {
        let settings = Settings { workstations: 4, ..settings() };
        let changes = vec![(100, 1, false), (106, 0, true), (300, 3, false), (306, 2, true)];
        let scenario = Scenario { teams: vec![2; 3], owners: vec![1, 3], changes, slices: 600 };
        let (shares, moves) = follow(&settings, Policy::Dasic, &scenario);
        assert_eq!(moves, 6);
        assert!(shares.iter().all(|share| (0.3..=0.34).contains(&share.speed)), "{shares:?}");
        // Without migration, processes wait for owners who do not leave.
        let (shares, moves) = follow(&settings, Policy::Staying, &scenario);
        assert_eq!(moves, 0);
        assert!(shares.iter().all(|share| share.speed < 0.1), "{shares:?}");
    }
}
