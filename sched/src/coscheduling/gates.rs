//! Gates: when teams take turns at all, when the processor has time for all, and whether a team wants the slot that it has.

use super::usage::Work;
use pvm_wire::tuned::{GATES_SPARE, GATES_WAITING};
use std::time::Duration;

/// Whether teams have to share: with one team, or as many cores as processes, the kernel does all there is to do.
pub fn must_share(teams: usize, processes: usize, cores: usize) -> bool {
    teams >= 2 && processes > cores
}

/// Whether the processors, which had `all` this time, have too little of it for all teams to run as they like. Programs outside
/// the virtual machine may have used the rest; then these have waited for it.
pub fn is_time_short<T>(used: &[(T, Work)], all: Duration) -> bool {
    let time: Duration = used.iter().map(|(_, work)| work.time).sum();
    let waits: Duration = used.iter().map(|(_, work)| work.waits).sum();
    time >= all / GATES_SPARE || time.saturating_add(waits) >= all
}

/// Whether a team wants its slot: its processes have used more than next to nothing of a processor.
pub fn wants_slot<T: Copy + Eq>(team: Option<T>, used: &[(T, Work)], elapsed: Duration) -> bool {
    let own = used.iter().filter(|(other, _)| Some(*other) == team);
    own.map(|(_, work)| work.time).sum::<Duration>() > elapsed / GATES_WAITING
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(50);

    fn work(time: Duration, waits: Duration) -> Work {
        Work { time, sleeps: 0, waits }
    }

    #[test]
    fn teams_share_if_they_have_more_processes_than_there_are_cores() {
        for (teams, processes, cores, shares) in [
            (1, 9, 1, false),
            (2, 2, 1, true),
            (2, 2, 2, false),
            (2, 3, 2, true),
            (3, 9, 4, true),
            (2, 4, 4, false),
            (4, 4, 4, false),
            (4, 5, 4, true),
        ] {
            assert_eq!(must_share(teams, processes, cores), shares, "{teams} {processes} {cores}");
        }
    }

    #[test]
    fn time_is_short_if_half_is_used_or_the_rest_waited_for() {
        let used = |time, waits| [('A', work(time, waits)), ('B', Work::default())];
        assert!(!is_time_short(&used(SLICE / 3, SLICE / 3), SLICE));
        assert!(is_time_short(&used(SLICE / 2, Duration::ZERO), SLICE));
        assert!(is_time_short(&used(SLICE / 4, SLICE * 3 / 4), SLICE));
        assert!(!is_time_short::<char>(&[], SLICE));
    }

    #[test]
    fn a_team_that_uses_next_to_nothing_does_not_want_its_slot() {
        let used = [('A', work(SLICE / 50, SLICE)), ('B', work(SLICE / 49, Duration::ZERO))];
        assert!(!wants_slot(Some('A'), &used, SLICE));
        assert!(wants_slot(Some('B'), &used, SLICE));
        assert!(!wants_slot(None, &used, SLICE) && !wants_slot(Some('C'), &used, SLICE));
    }
}
