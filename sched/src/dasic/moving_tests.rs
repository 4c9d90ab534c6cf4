//! The machine whose processes move between hosts, compared with the paper's matrix.

use super::matrix::Matrix;
use super::{Error, Live, Move, Rules};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Places = Vec<BTreeMap<(u64, u32), u32>>;

/// The rows: how many processes of which team on which host.
fn places(live: &Live<u64, u32>) -> Places {
    let row = |row: &BTreeMap<u64, BTreeMap<u32, u32>>| {
        let of = |(&team, counts): (&u64, &BTreeMap<u32, u32>)| {
            counts.iter().map(move |(&host, &count)| ((team, host), count)).collect::<Vec<_>>()
        };
        row.iter().flat_map(of).collect()
    };
    live.rows().iter().map(row).collect()
}

fn places_of(matrix: &Matrix<u32>) -> Places {
    let row = |row: usize| {
        let mut places = BTreeMap::new();
        for (slot, &host) in matrix.row(row).iter().zip(matrix.processors()) {
            if let Some(process) = slot {
                *places.entry((process.team, host)).or_insert(0) += 1;
            }
        }
        places
    };
    (0..matrix.rows()).map(row).collect()
}

fn machine(rules: Rules, processors: &[u32]) -> Live<u64, u32> {
    let mut live = Live::new(rules);
    live.join_all((0..).zip(processors.iter().copied()));
    live
}

fn migrated(live: &mut Live<u64, u32>) -> usize {
    live.take_moves().iter().map(|step| step.processes as usize).sum()
}

#[test]
fn a_host_of_two_processors_takes_two_of_a_team_in_a_row() {
    let mut live = machine(Rules::Moving, &[2, 1]);
    assert_eq!(live.start(&1, 3), Ok(BTreeMap::from([(0, 2), (1, 1)])));
    assert_eq!(live.start(&2, 4), Ok(BTreeMap::from([(0, 3), (1, 1)])), "more than there are processors");
    assert_eq!((live.row_of_all(&1), live.row_of_all(&2), live.team_vector(&2)), (Some(0), None, 1));
    live.join_all([(2, 2)]);
    assert_eq!(live.take_moves(), [Move { team: 2, from: 0, to: 2, processes: 1 }]);
    assert_eq!(live.row_of_all(&2), Some(1), "what was left over is in its key row now");
    live.check().unwrap();
}

#[test]
fn the_processor_with_the_fewest_takes_what_an_owner_evicts() {
    let mut live = machine(Rules::Moving, &[1, 4, 1]);
    live.start(&1, 6).unwrap();
    live.start(&2, 2).unwrap();
    // The large host has more processes than the last, but fewer for each processor.
    live.set(2, &3, 1);
    assert_eq!(live.take_back(&[0]), Ok(()));
    let to: Vec<u32> = live.take_moves().into_iter().map(|step| step.to).collect();
    assert_eq!(to, [1, 1]);
    live.check().unwrap();
    assert_eq!(live.take_back(&[1, 2]), Err(Error::NoProcessor));
    assert_eq!(live.hosts().len(), 2);
}

#[test]
fn teams_that_cannot_be_started() {
    let mut live = machine(Rules::Moving, &[1]);
    assert_eq!(live.start(&1, 0), Err(Error::EmptyTeam));
    live.start(&1, 1).unwrap();
    assert_eq!(live.start(&1, 1), Err(Error::TeamExists));
    assert_eq!(Live::<u64, u32>::default().start(&1, 1), Err(Error::NoProcessor));
}

/// What is done to the matrix and to the machine: the same, and each says how many processes it has moved to other hosts.
fn step(
    (live, matrix): (&mut Live<u64, u32>, &mut Matrix<u32>),
    (kind, which, size): (u8, u32, u32),
    next: &mut u32,
) -> (usize, usize) {
    let is_balanced = live.rules == Rules::Moving;
    let team = u64::from(which);
    let moves = match kind {
        0 => {
            live.end_team(&team);
            if is_balanced {
                matrix.end(team)
            } else {
                drop(matrix.remove(team));
                Vec::new()
            }
        }
        1 => {
            live.sweep();
            if is_balanced { matrix.pack() } else { Vec::new() }
        }
        2 => {
            let joined = *next..*next + size % 4;
            *next = joined.end;
            live.join_all(joined.clone().map(|host| (host, 1)));
            if is_balanced {
                matrix.grow(joined)
            } else {
                matrix.join(joined);
                Vec::new()
            }
        }
        3 => {
            let hosts = matrix.processors();
            let gone: Vec<u32> =
                hosts.iter().copied().skip(which as usize % 5).take(size as usize % 3).collect();
            let result = matrix.shrink(&gone);
            assert_eq!(live.take_back(&gone), result.as_ref().map(|_| ()).map_err(|&error| error));
            result.unwrap_or_default()
        }
        _ => {
            let expected = matrix.start(team, size).map(|placed| {
                let mut counts = BTreeMap::new();
                for (_, slot) in &placed {
                    *counts.entry(slot.host).or_insert(0) += 1;
                }
                counts
            });
            assert_eq!(live.start(&team, size), expected);
            Vec::new()
        }
    };
    (migrated(live), moves.iter().filter(|step| step.is_migration()).count())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// On hosts of one processor each place is a column, as in the paper: the places, the moves and the refusals are those of the paper's matrix,
    /// whatever happens, with its balancing and without.
    #[test]
    fn on_hosts_of_one_processor_the_places_are_those_of_the_matrix(
        is_balanced: bool, columns in 1..9_u32, steps in proptest::collection::vec((0..8_u8, 0..12_u32, 0..12_u32), 0..50),
    ) {
        let mut next = columns;
        let rules = if is_balanced { Rules::Moving } else { Rules::Unbalanced };
        let mut live = machine(rules, &vec![1; columns as usize]);
        let mut matrix = Matrix::new(0..columns);
        for kind in steps {
            let (moved, expected) = step((&mut live, &mut matrix), kind, &mut next);
            live.check().unwrap();
            prop_assert_eq!(places(&live), places_of(&matrix), "{:?}", kind);
            prop_assert_eq!(moved, expected, "{:?}", kind);
            prop_assert!((live.idleness() - matrix.idleness()).abs() < 1e-9);
            for team in matrix.teams() {
                prop_assert_eq!(live.team_vector(&team), matrix.team_vector(team) as u64);
            }
        }
    }

    /// With several processors to a host, too, no process is lost, and the moves tell where each has gone.
    #[test]
    fn moves_tell_where_processes_have_gone(
        processors in proptest::collection::vec(1..4_u32, 1..5),
        steps in proptest::collection::vec((0..8_u8, 0..8_u32, 1..9_u32), 0..50),
    ) {
        let mut live = machine(Rules::Moving, &processors);
        let mut expected: BTreeMap<u64, BTreeMap<u32, u32>> = BTreeMap::new();
        for (kind, which, size) in steps {
            let team = u64::from(which);
            let packs = live.idleness() > super::PACKING_THRESHOLD;
            match kind {
                0 => {
                    live.end_team(&team);
                    expected.remove(&team);
                }
                1 => {
                    live.sweep();
                }
                // With as many processors as before, or it would be another host.
                2 if !live.hosts().contains_key(&which) => live.join(which, size % 3),
                3 => drop(live.take_back(&[which, size])),
                _ => {
                    if let Ok(counts) = live.start(&team, size) {
                        expected.insert(team, counts);
                    }
                }
            }
            for Move { team, from, to, processes } in live.take_moves() {
                let Some(counts) = expected.get_mut(&team) else { continue };
                *counts.entry(from).or_insert(0) -= processes;
                *counts.entry(to).or_insert(0) += processes;
                counts.retain(|_, count| *count > 0);
            }
            live.check().unwrap();
            prop_assert_eq!(&live.teams, &expected);
            if kind == 1 && packs {
                let all = |row: usize| live.plan_without(row).is_none();
                prop_assert!((0..live.rows().len()).all(all), "a row is left that others have room for");
            }
        }
    }
}
