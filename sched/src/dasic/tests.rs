use super::Error;
use super::matrix::{Matrix, Move, Process, Slot, Status};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn matrix(columns: u32, teams: &[(u64, u32)]) -> Matrix<u32> {
    let mut matrix = Matrix::new(0..columns);
    for &(team, size) in teams {
        matrix.start(team, size).expect("a new team");
    }
    matrix
}

/// Team numbers as they stand in the matrix, `.` for idle.
pub(super) fn picture(matrix: &Matrix<u32>) -> Vec<String> {
    let slot = |slot: &Option<Process>| slot.map_or(".".into(), |process| process.team.to_string());
    (0..matrix.rows()).map(|row| matrix.row(row).iter().map(slot).collect()).collect()
}

fn check(matrix: &Matrix<u32>) {
    let columns = matrix.processors().len();
    let mut seen = BTreeSet::new();
    let mut allocation = vec![0; columns];
    for row in 0..matrix.rows() {
        let busy: Vec<usize> = (0..columns).filter(|&column| matrix.row(row)[column].is_some()).collect();
        assert_eq!(matrix.scheduling()[row], busy.len());
        assert_eq!(matrix.idle(row), columns - busy.len());
        assert!(!busy.is_empty(), "row {row} is empty");
        for column in busy {
            let process = matrix.row(row)[column].expect("busy");
            assert!(seen.insert(process), "{process:?} is there twice");
            assert_eq!(matrix.find(process), Some(Slot { host: matrix.processors()[column], row }));
            allocation[column] += 1;
        }
    }
    assert_eq!(matrix.allocation(), allocation);
    let listed: u32 = matrix.teams().filter_map(|team| matrix.team(team)).map(|team| team.size).sum();
    assert_eq!(listed as usize, seen.len(), "a process is lost");
    if columns * matrix.rows() > 0 {
        let idle = 1.0 - seen.len() as f64 / (columns * matrix.rows()) as f64;
        assert!((matrix.idleness() - idle).abs() < 1e-12);
    }
}

fn coscheduled(matrix: &Matrix<u32>) -> BTreeSet<u64> {
    let is = |&team: &u64| matrix.team(team).is_some_and(|line| line.status == Status::Coscheduled);
    matrix.teams().filter(is).collect()
}

#[test]
fn teams_go_to_the_first_row_with_room() {
    let matrix = matrix(4, &[(1, 3), (2, 2), (3, 1), (4, 2)]);
    assert_eq!(picture(&matrix), ["1113", "2244"]);
    check(&matrix);
}

#[test]
fn a_large_team_is_split_and_its_first_rows_are_its_own() {
    let matrix = matrix(4, &[(1, 1), (2, 9)]);
    assert_eq!(picture(&matrix), ["12..", "2222", "2222"]);
    let team = matrix.team(2).expect("it runs");
    assert_eq!((team.size, team.status), (9, Status::KeyRow(1)));
    assert_eq!(team.rows, [(0, 1), (1, 4), (2, 4)].into());
    assert_eq!(matrix.team_vector(2), 1);
    assert_eq!(matrix.team_vector(1), 1);
    assert_eq!(matrix.team_vector(9), 0);
    check(&matrix);
}

#[test]
fn programs_that_cannot_be_started() {
    let mut matrix = matrix(2, &[(1, 1)]);
    assert_eq!(matrix.start(1, 1), Err(Error::TeamExists));
    assert_eq!(matrix.start(2, 0), Err(Error::EmptyTeam));
    assert_eq!(Matrix::<u32>::default().start(1, 1), Err(Error::NoProcessor));
    assert_eq!(matrix.end(77), []);
    assert_eq!(picture(&matrix), ["1."]);
}

#[test]
fn growing_brings_a_split_team_together() {
    let mut matrix = matrix(4, &[(1, 5), (2, 3)]);
    assert_eq!(picture(&matrix), ["1111", "1222"]);
    let moves = matrix.grow([4, 5]);
    assert_eq!(picture(&matrix), ["11111.", ".222.."]);
    let expected = Move {
        process: Process { team: 1, index: 4 },
        from: Slot { host: 0, row: 1 },
        to: Slot { host: 4, row: 0 },
    };
    assert_eq!(moves, [expected]);
    assert!(expected.is_migration());
    check(&matrix);
}

#[test]
fn growing_by_too_little_moves_nothing() {
    let mut matrix = matrix(4, &[(1, 7)]);
    assert_eq!(matrix.grow([4, 5]), []);
    assert_eq!(picture(&matrix), ["1111..", "111..."]);
    assert_eq!(matrix.grow([4, 5]), [], "hosts that are there already");
    assert_eq!(matrix.processors().len(), 6);
}

#[test]
fn the_least_loaded_processor_takes_what_is_evicted() {
    let mut matrix = matrix(3, &[(1, 3), (2, 2)]);
    assert_eq!(picture(&matrix), ["111", "22."]);
    let moves = matrix.shrink(&[0]).expect("two are left");
    assert!(moves.iter().all(|step| step.from.host == 0 && step.to.host != 0));
    assert_eq!(moves.len(), 2);
    // The first goes to processor 2, which had one; then both had two.
    assert_eq!(picture(&matrix), ["11", "21", "2."]);
    check(&matrix);
}

#[test]
fn the_evicted_stay_in_their_time_slice_where_there_is_room() {
    let mut matrix = matrix(4, &[(1, 2), (2, 3)]);
    assert_eq!(picture(&matrix), ["11..", "222."]);
    matrix.shrink(&[0]).expect("three are left");
    // Two processors have the fewest processes, when it is the second's turn: one of them is free in its row.
    assert_eq!(picture(&matrix), ["1.1", "222"]);
    check(&matrix);
}

#[test]
fn the_last_processor_is_not_given_up_while_processes_need_it() {
    let mut matrix = matrix(2, &[(1, 2)]);
    assert_eq!(matrix.shrink(&[0, 1]), Err(Error::NoProcessor));
    assert_eq!(picture(&matrix), ["11"]);
    matrix.end(1);
    assert_eq!(matrix.shrink(&[0, 1]), Ok(vec![]));
    assert!(matrix.processors().is_empty());
}

#[test]
fn filling_deletes_empty_rows_and_moves_small_ones_up() {
    let mut matrix = matrix(4, &[(1, 4), (2, 3), (3, 3), (4, 2)]);
    assert_eq!(picture(&matrix), ["1111", "222.", "333.", "44.."]);
    assert_eq!(matrix.end(1), [], "the row is empty: only priorities change");
    assert_eq!(picture(&matrix), ["222.", "333.", "44.."]);
    let moves = matrix.end(2);
    assert_eq!(picture(&matrix), ["333.", "44.."]);
    assert_eq!(moves, [], "the row is empty again");
    matrix.start(5, 2).expect("new");
    matrix.start(6, 2).expect("new");
    assert_eq!(picture(&matrix), ["333.", "4455", "66.."]);
    let moves = matrix.end(4);
    assert_eq!(picture(&matrix), ["333.", "6655"]);
    assert!(moves.iter().all(|step| !step.is_migration()), "they stay in their columns");
    check(&matrix);
}

#[test]
fn joining_and_leaving_without_balancing() {
    let mut matrix = matrix(2, &[(1, 3), (2, 1)]);
    matrix.join([2, 3]);
    assert_eq!(picture(&matrix), ["11..", "12.."]);
    assert_eq!(matrix.remove(1), [0, 1]);
    assert_eq!(matrix.remove(1), [0; 0]);
    assert_eq!(picture(&matrix), [".2.."]);
    check(&matrix);
}

#[test]
fn packing_brings_teams_together_and_saves_rows() {
    let mut matrix = matrix(4, &[(1, 6)]);
    matrix.grow([4]);
    matrix.grow([5]);
    assert_eq!(picture(&matrix), ["1111..", "11...."], "each time one processor, two are needed");
    let moves = matrix.pack();
    assert_eq!(picture(&matrix), ["111111"]);
    assert_eq!(moves.len(), 2);
    assert_eq!(matrix.pack(), [], "nothing is idle");
    check(&matrix);
}

#[test]
fn a_team_in_a_packed_row_stays_together() {
    let mut matrix = matrix(4, &[(1, 3), (2, 2), (3, 2), (4, 2)]);
    assert_eq!(picture(&matrix), ["111.", "2233", "44.."]);
    matrix.end(3);
    assert_eq!(picture(&matrix), ["111.", "2244"], "filled");
    matrix.end(1);
    assert_eq!(picture(&matrix), ["2244"]);
    assert_eq!(coscheduled(&matrix), [2, 4].into());
}

#[test]
fn idle_and_blocked_places_are_used_by_the_column() {
    let matrix = matrix(3, &[(1, 2), (2, 3), (3, 2)]);
    assert_eq!(picture(&matrix), ["11.", "222", "33."]);
    let team = |host, row, blocked: u64| {
        matrix.alternate(host, row, |process| process.team != blocked).map(|process| process.team)
    };
    assert_eq!(team(0, 0, 0), Some(1));
    assert_eq!(team(0, 0, 1), Some(2), "blocked");
    assert_eq!(team(2, 0, 0), Some(2), "idle");
    assert_eq!(team(2, 0, 2), None, "nothing else in the column");
    assert_eq!(team(0, 2, 3), Some(1), "around the end");
    assert_eq!(team(9, 0, 0), None);
}

/// What was in one row stays in one row, whatever rows are deleted, unless an owner came back.
fn step(matrix: &mut Matrix<u32>, kind: u8, a: u32, b: u32) {
    let together = coscheduled(matrix);
    let before: usize = matrix.allocation().iter().sum();
    match kind {
        0..=3 => drop(matrix.start(u64::from(a % 40), b % 30)),
        4 => drop(matrix.grow((0..b % 4).map(|i| (a + i) % 24))),
        5 => {
            let hosts: Vec<u32> = (0..=b % 3).map(|i| (a + i) % 24).collect();
            if let Ok(moves) = matrix.shrink(&hosts) {
                assert!(
                    moves.iter().all(|step| hosts.contains(&step.from.host)),
                    "another column was touched"
                );
                assert!(moves.iter().all(|step| !hosts.contains(&step.to.host)));
            }
        }
        6 | 7 => {
            let ended = matrix.teams().nth(a as usize % 8);
            let size = ended.and_then(|team| matrix.team(team)).map_or(0, |team| team.size);
            matrix.end(ended.unwrap_or(u64::MAX));
            assert_eq!(matrix.allocation().iter().sum::<usize>() + size as usize, before);
        }
        _ => {
            let rows = matrix.rows();
            matrix.pack();
            assert!(matrix.rows() <= rows);
        }
    }
    if kind != 5 {
        let still: BTreeSet<u64> = matrix.teams().collect();
        assert!(
            together.intersection(&still).all(|team| coscheduled(matrix).contains(team)),
            "a team was torn apart"
        );
    }
}

#[test]
fn ten_thousand_random_steps_keep_every_invariant() {
    for (walk, columns) in [3, 12].into_iter().enumerate() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ walk as u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as u32
        };
        let mut matrix = Matrix::new(0..columns);
        for _ in 0..10_000 {
            step(&mut matrix, (random() % 9) as u8, random(), random());
            check(&matrix);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_operation_keeps_every_invariant(columns in 1..12_u32, steps in proptest::collection::vec((0..9_u8, 0..1000_u32, 0..1000_u32), 0..60)) {
        let mut matrix = Matrix::new(0..columns);
        for (kind, a, b) in steps {
            step(&mut matrix, kind, a, b);
            check(&matrix);
        }
    }

    /// Replaying the moves on a picture of the places gives the places: a live system can carry them out.
    #[test]
    fn moves_tell_the_whole_story(columns in 3..8_u32, sizes in proptest::collection::vec(1..7_u32, 1..10), gone in 0..3_u32) {
        let teams: Vec<(u64, u32)> = (0..).zip(sizes.iter().copied()).collect();
        let mut matrix = matrix(columns, &teams);
        let hosts = |matrix: &Matrix<u32>| -> std::collections::BTreeMap<Process, u32> {
            (0..matrix.rows()).flat_map(|row| matrix.row(row).iter().flatten().copied().collect::<Vec<_>>())
                .filter_map(|process| Some((process, matrix.find(process)?.host))).collect()
        };
        let mut replayed = hosts(&matrix);
        let mut moves = matrix.shrink(&[gone]).expect("others are left");
        moves.extend(matrix.pack());
        moves.extend(matrix.grow([100, 101]));
        moves.extend(matrix.pack());
        for step in moves {
            prop_assert_eq!(replayed.insert(step.process, step.to.host), Some(step.from.host));
        }
        prop_assert_eq!(replayed, hosts(&matrix));
    }
}
