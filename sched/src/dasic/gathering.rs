//! Teams whose processes come together from several rows by moving to other hosts, on a machine that cannot move all of them.

use super::live::{Counts, Live, Move, Rules};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

impl<T: Clone + Ord + Debug, H: Copy + Ord + Debug> Live<T, H> {
    /// The moves of processes by which teams that are split between rows come to be in one, by the paper's rules: onto hosts that have joined
    /// (growing) if any are named, and else onto any, if more than [`super::PACKING_THRESHOLD`] of the process space is idle (packing). A team of which
    /// a process would have to move that cannot, by `movable`, stays as it is. The matrix does not change: it does when hosts report that processes have moved.
    pub fn gathering(&self, movable: &BTreeMap<T, Counts<H>>, onto: Option<&BTreeSet<H>>) -> Vec<Move<T, H>> {
        if onto.is_none() && self.idleness() <= super::PACKING_THRESHOLD {
            return Vec::new();
        }
        let mut next: Option<Self> = None;
        for (team, can_move) in movable {
            if self.waiting.contains(team) || self.own_rows(team).len() < 2 {
                continue;
            }
            let mut trial = Self { rules: Rules::Moving, ..next.as_ref().unwrap_or(self).clone() };
            let before = trial.moves.len();
            trial.gather(team, onto);
            let mut left = can_move.clone();
            let is_allowed = trial.moves[before..].iter().all(|step| {
                let left = left.entry(step.from).or_insert(0);
                let enough = *left >= step.processes;
                *left = left.saturating_sub(step.processes);
                enough
            });
            if is_allowed {
                next = Some(trial);
            }
        }
        next.map(|mut next| std::mem::take(&mut next.moves)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Team A has three processes on host 1, which has two processors; team B has two.
    fn split() -> Live<char, u32> {
        let mut live = Live::default();
        live.join(1, 2);
        for (team, count) in [('A', 3), ('B', 2)] {
            live.set(1, &team, count);
        }
        assert_eq!(live.own_rows(&'A').len(), 2);
        live
    }

    fn movable(all: &[(char, u32)]) -> BTreeMap<char, Counts<u32>> {
        all.iter().map(|&(team, count)| (team, Counts::from([(1, count)]))).collect()
    }

    #[test]
    fn the_remainder_of_a_team_goes_to_a_host_that_joins() {
        let mut live = split();
        live.join(2, 1);
        let joined = BTreeSet::from([2]);
        let step = Move { team: 'A', from: 1, to: 2, processes: 1 };
        assert_eq!(live.gathering(&movable(&[('A', 3)]), Some(&joined)), [step]);
        assert_eq!(live.own_rows(&'A').len(), 2, "nothing has moved yet");
        // As the hosts report it.
        live.set(2, &'A', 1);
        live.set(1, &'A', 2);
        assert_eq!(live.own_rows(&'A').len(), 1);
        assert_eq!(live.gathering(&movable(&[('A', 2)]), Some(&joined)), []);
    }

    #[test]
    fn what_cannot_move_or_has_no_room_stays() {
        let mut live = split();
        live.join(2, 1);
        let joined = BTreeSet::from([2]);
        assert_eq!(live.gathering(&movable(&[]), Some(&joined)), []);
        assert_eq!(live.gathering(&movable(&[('A', 0)]), Some(&joined)), []);
        live.set(2, &'C', 1);
        live.set(2, &'D', 1);
        live.set(2, &'E', 1);
        assert_eq!(live.gathering(&movable(&[('A', 3)]), Some(&joined)), []);
    }

    #[test]
    fn without_a_host_that_joins_teams_come_together_when_much_is_idle() {
        let mut live = split();
        let all = movable(&[('A', 3)]);
        live.join(2, 1);
        assert!(live.idleness() > super::super::PACKING_THRESHOLD);
        assert_eq!(live.gathering(&all, None).len(), 1);
        live.set(2, &'C', 1);
        live.set(2, &'D', 1);
        assert!(live.idleness() <= super::super::PACKING_THRESHOLD);
        assert_eq!(live.gathering(&all, None), []);
    }
}
