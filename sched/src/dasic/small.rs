//! Small cases, compared with all that could have been done.

use super::PACKING_THRESHOLD;
use super::matrix::{Matrix, Status};
use super::tests::picture;
use proptest::prelude::*;

/// Teams of these sizes, as few rows as can be: all ways to put them into rows, each team in one.
fn fewest_rows(columns: u32, sizes: &[u32]) -> usize {
    fn put(columns: u32, sizes: &[u32], rows: &mut Vec<u32>, best: &mut usize) {
        let Some((&size, rest)) = sizes.split_first() else {
            *best = rows.len().min(*best);
            return;
        };
        for row in 0..rows.len() {
            if rows[row] + size <= columns {
                rows[row] += size;
                put(columns, rest, rows, best);
                rows[row] -= size;
            }
        }
        rows.push(size);
        put(columns, rest, rows, best);
        rows.pop();
    }
    let mut best = usize::MAX;
    put(columns, sizes, &mut Vec::new(), &mut best);
    best
}

/// Calls it with every list of `length` numbers from 1 to `most`.
fn lists(length: usize, most: u32, mut each: impl FnMut(&[u32])) {
    for code in 0..most.pow(length as u32) {
        let digit = |at: usize| code / most.pow(at as u32) % most + 1;
        each(&(0..length).map(digit).collect::<Vec<_>>());
    }
}

fn started(columns: u32, sizes: &[u32]) -> Matrix<u32> {
    let mut matrix = Matrix::new(0..columns);
    for (team, &size) in (0..).zip(sizes) {
        matrix.start(team, size).expect("a new team");
    }
    matrix
}

/// The matrix method is first fit: at most 1.7 times as many rows as are needed (Dósa and Sgall, STACS 2013).
#[test]
fn initial_scheduling_needs_at_most_seven_tenths_more_rows_than_the_best() {
    let (mut cases, mut more) = (0, 0);
    for columns in 1..=6 {
        for length in 1..=5 {
            lists(length, columns, |sizes| {
                let (rows, best) = (started(columns, sizes).rows(), fewest_rows(columns, sizes));
                assert!(10 * rows <= 17 * best, "{sizes:?} on {columns}: {rows} rows instead of {best}");
                cases += 1;
                more += u32::from(rows > best);
            });
        }
    }
    assert!(
        more > 0 && more * 20 < cases,
        "first fit is not the best, but rarely misses it: {more} of {cases}"
    );
}

/// The best allocation of this many evicted processes: the sorted allocation vector, the greatest first, over all ways to
/// send them to the processors.
fn best_allocation(allocation: &mut [usize], evicted: usize) -> Vec<usize> {
    if evicted == 0 {
        let mut sorted = allocation.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        return sorted;
    }
    let mut best = Vec::new();
    for column in 0..allocation.len() {
        allocation[column] += 1;
        let other = best_allocation(allocation, evicted - 1);
        allocation[column] -= 1;
        if best.is_empty() || other < best {
            best = other;
        }
    }
    best
}

/// Moving to the processor with the fewest processes is as good as anything, and as cheap.
#[test]
fn shrinking_balances_as_well_as_can_be_and_moves_no_more_than_must() {
    for columns in 2..=4 {
        for length in 1..=3 {
            lists(length, columns + 1, |sizes| {
                for gone in 0..columns {
                    let mut matrix = started(columns, sizes);
                    let mut rest = matrix.allocation().to_vec();
                    let evicted = rest.remove(gone as usize);
                    let moves = matrix.shrink(&[gone]).expect("one is left");
                    assert_eq!(moves.len(), evicted, "{sizes:?} without {gone}");
                    let mut allocation = matrix.allocation().to_vec();
                    allocation.sort_unstable_by(|a, b| b.cmp(a));
                    assert_eq!(allocation, best_allocation(&mut rest, evicted), "{sizes:?} without {gone}");
                }
            });
        }
    }
}

/// Whether every team of a row finds room in some other row: all ways.
fn is_superfluous(matrix: &Matrix<u32>, row: usize) -> bool {
    fn fits(parts: &[usize], idle: &mut [usize]) -> bool {
        let Some((&part, rest)) = parts.split_first() else { return true };
        (0..idle.len()).any(|row| {
            idle[row] >= part && {
                idle[row] -= part;
                let found = fits(rest, idle);
                idle[row] += part;
                found
            }
        })
    }
    let count = |team: u64| matrix.row(row).iter().flatten().filter(|process| process.team == team).count();
    let parts: Vec<usize> = matrix.teams().map(count).filter(|&count| count > 0).collect();
    let mut idle: Vec<usize> =
        (0..matrix.rows()).filter(|&other| other != row).map(|other| matrix.idle(other)).collect();
    fits(&parts, &mut idle)
}

/// The remainder of a team that is not coscheduled, and its key row.
fn remainder(matrix: &Matrix<u32>, team: u64) -> Option<(usize, usize)> {
    let line = matrix.team(team)?;
    let Status::KeyRow(key) = line.status else { return None };
    // Gathering in the key row is cheapest: no other row would need fewer moves.
    let moves = |row: usize| (line.size - line.rows.get(&row).copied().unwrap_or(0)) as usize;
    assert_eq!((0..matrix.rows()).map(moves).min(), Some(moves(key)));
    Some((moves(key), key))
}

/// A matrix after some use, small enough to try everything.
fn used() -> impl Strategy<Value = Matrix<u32>> {
    let steps = proptest::collection::vec((0..4_u8, 0..8_u32, 1..6_u32), 1..14);
    (3..6_u32, steps).prop_map(|(columns, steps)| {
        let mut matrix = Matrix::new(0..columns);
        for (team, (kind, which, size)) in (0..).zip(steps) {
            let hosts = matrix.processors().to_vec();
            match kind {
                0 if hosts.len() > 2 => drop(matrix.shrink(&[hosts[which as usize % hosts.len()]])),
                1 => matrix.join([which]),
                2 => drop(matrix.remove(u64::from(which))),
                _ => drop(matrix.start(team, size)),
            }
        }
        matrix
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever else could be done by the paper's rules, packing has done.
    #[test]
    fn packing_leaves_no_row_that_others_have_room_for(mut matrix in used()) {
        let packs = matrix.idleness() > PACKING_THRESHOLD;
        let before = matrix.clone();
        matrix.pack();
        if packs {
            for row in 0..matrix.rows() {
                prop_assert!(!is_superfluous(&matrix, row), "row {row} of {:?}, from {:?}", picture(&matrix), picture(&before));
            }
        } else {
            prop_assert_eq!(matrix.rows(), before.rows());
        }
    }

    /// A team is brought together exactly if the paper's condition holds and the new processors have room in its key row
    /// beside those before it; and with no more moves than that takes.
    #[test]
    fn growing_gathers_whom_it_can(mut matrix in used(), joined in 1..4_u32) {
        let before = matrix.clone();
        let moves = matrix.grow(100..100 + joined);
        prop_assert!(moves.iter().all(|step| step.to.host >= 100));
        let mut room = vec![joined as usize; before.rows()];
        let mut needed = 0;
        for team in before.teams() {
            let Some((rest, key)) = remainder(&before, team) else { continue };
            let may = before.team_vector(team) <= joined as usize;
            let gathered = remainder(&matrix, team).is_none();
            // A team that cannot be gathered is too large by rule, or would not fit in any order.
            prop_assert_eq!(gathered, may && rest <= room[key], "team {} of {:?}", team, picture(&before));
            if gathered {
                room[key] -= rest;
                needed += rest;
            }
        }
        prop_assert_eq!(moves.len(), needed);
    }

    /// For each row that lost processes: it is deleted if it is empty; and if all that another row has fits into it, one such
    /// row is deleted.
    #[test]
    fn filling_deletes_a_row_if_it_can(mut matrix in used(), which in any::<prop::sample::Index>()) {
        let teams: Vec<u64> = matrix.teams().collect();
        if teams.is_empty() {
            return Ok(());
        }
        let team = teams[which.index(teams.len())];
        let lost = matrix.team(team).expect("it runs").rows;
        let [(&row, &size)] = lost.iter().collect::<Vec<_>>()[..] else { return Ok(()) };
        let idle = matrix.idle(row) + size as usize;
        let is_empty = idle == matrix.processors().len();
        let fits = (0..matrix.rows()).any(|other| other != row && matrix.scheduling()[other] <= idle);
        let (rows, before) = (matrix.rows(), picture(&matrix));
        matrix.end(team);
        prop_assert_eq!(matrix.rows(), rows - usize::from(is_empty || fits), "team {} of {:?}", team, before);
    }
}
