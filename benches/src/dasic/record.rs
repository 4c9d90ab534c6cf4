//! What is seen of teams that share workstations: written by `pvm-bench-dasic`, read here.

use serde::{Deserialize, Serialize};

/// A run. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// When the exchanges of the teams began to count.
    pub begin: u64,
    /// When they ended.
    pub end: u64,
    /// The teams.
    pub teams: Vec<TeamRecord>,
    /// Returns of owners, in their order.
    pub returns: Vec<Return>,
    /// The turns on each workstation.
    pub turns: Vec<Vec<Turn>>,
}

/// A team in a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TeamRecord {
    /// Exchanges in a second.
    pub rate: f64,
    /// Its tasks that have moved.
    pub moves: Vec<Moved>,
}

/// A task has moved.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Moved {
    /// When it saved its state.
    pub saved: u64,
    /// When it had it again.
    pub restored: u64,
}

/// The owner of a workstation is back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Return {
    /// The number of the workstation.
    pub host: usize,
    /// When.
    pub at: u64,
    /// When the owner left again, if that was seen.
    pub left: Option<u64>,
}

/// A time in which one team, or all, had the turn on a workstation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// The number of the team. `None`: all ran.
    pub team: Option<usize>,
}

/// A change of owners: one leaves a workstation, and soon afterwards another one is back at theirs, on the same processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Seconds after the beginning.
    pub at: f64,
    /// The workstation that is lent from then on.
    pub lent: usize,
    /// The one that its owner takes back.
    pub returned: usize,
}

impl Record {
    /// From the return of an owner until the last task of the workstation lived elsewhere, in seconds.
    pub fn vacating(&self) -> Vec<f64> {
        let moves = || self.teams.iter().flat_map(|team| &team.moves);
        let next =
            |at: u64| self.returns.iter().map(|it| it.at).filter(|&it| it > at).min().unwrap_or(u64::MAX);
        let last = |it: &Return| {
            let here = moves().map(|moved| moved.restored).filter(|&time| time > it.at && time < next(it.at));
            Some((here.max()? - it.at) as f64 / 1e9)
        };
        self.returns.iter().filter_map(last).collect()
    }

    /// Seconds for which tasks that moved stood still.
    pub fn still(&self) -> Vec<f64> {
        let moves = self.teams.iter().flat_map(|team| &team.moves);
        moves.map(|moved| moved.restored.saturating_sub(moved.saved) as f64 / 1e9).collect()
    }

    /// The part of the run in which a team had the turn on two workstations at once.
    pub fn together(&self, team: usize) -> f64 {
        let inside = |turn: &Turn| (turn.begin.max(self.begin), turn.end.min(self.end));
        let of = |turns: &[Turn]| -> Vec<(u64, u64)> {
            turns.iter().filter(|turn| turn.team == Some(team)).map(inside).collect()
        };
        let all: Vec<Vec<(u64, u64)>> = self.turns.iter().map(|turns| of(turns)).collect();
        let mut sum = 0;
        for (host, turns) in all.iter().enumerate() {
            for other in &all[host + 1..] {
                sum += overlap(turns, other);
            }
        }
        sum as f64 / (self.end - self.begin).max(1) as f64
    }
}

/// The length of what two lists of intervals, each in order, have in common.
fn overlap(one: &[(u64, u64)], other: &[(u64, u64)]) -> u64 {
    let (mut sum, mut at, mut beside) = (0, 0, 0);
    while let (Some(&(begin, end)), Some(&(start, stop))) = (one.get(at), other.get(beside)) {
        sum += end.min(stop).saturating_sub(begin.max(start));
        if end < stop { at += 1 } else { beside += 1 }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(begin: u64, end: u64, team: Option<usize>) -> Turn {
        Turn { begin, end, team }
    }

    #[test]
    fn a_team_is_together_while_it_has_two_turns() {
        let one = vec![turn(0, 50, Some(0)), turn(50, 100, Some(1)), turn(100, 150, Some(0))];
        let other = vec![turn(10, 40, Some(0)), turn(40, 60, None), turn(60, 120, Some(0))];
        let record = Record { begin: 0, end: 100, turns: vec![one, other, Vec::new()], ..Record::default() };
        assert!((record.together(0) - 0.3).abs() < 1e-9, "only up to the end");
        assert!(record.together(1).abs() < 1e-9);
        let longer = Record { end: 200, ..record };
        assert!((longer.together(0) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn a_workstation_is_vacated_when_its_last_task_lives_elsewhere() {
        let moved = |saved, restored| Moved { saved, restored };
        let of = |moves| TeamRecord { rate: 1.0, moves };
        let second = 1_000_000_000;
        let teams = vec![
            of(vec![moved(second, second + 20_000_000), moved(5 * second, 5 * second + 10_000_000)]),
            of(vec![moved(second, second + 30_000_000)]),
        ];
        let back = |at| Return { host: 0, at, left: None };
        let returns = vec![back(900_000_000), back(4 * second), back(9 * second)];
        let record = Record { teams, returns, ..Record::default() };
        let times = record.vacating();
        assert_eq!(times.len(), 2, "nothing was there at the last");
        assert!((times[0] - 0.13).abs() < 1e-9 && (times[1] - 1.01).abs() < 1e-9, "{times:?}");
        assert_eq!(record.still().len(), 3);
    }
}
