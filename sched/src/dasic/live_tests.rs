use super::*;
use crate::dasic::matrix::Matrix;
use proptest::prelude::*;

/// The rows in words: `A1 A2` is a row with a process of team A on hosts 1 and 2.
fn picture(live: &Live<char, u32>) -> Vec<String> {
    let place =
        |team: char, (&host, &count): (&u32, &u32)| vec![format!("{team}{host}"); count as usize].join(" ");
    let team =
        |(&team, counts): (&char, &Counts<u32>)| counts.iter().map(|at| place(team, at)).collect::<Vec<_>>();
    live.rows().iter().map(|row| row.iter().flat_map(team).collect::<Vec<_>>().join(" ")).collect()
}

fn machine(processors: &[u32]) -> Live<char, u32> {
    let mut live = Live::default();
    (1..).zip(processors).for_each(|(host, &count)| live.join(host, count));
    live
}

/// What hosts report: `A1 A1 B2` starts two processes of team A on host 1, then one of team B on host 2.
fn report(live: &mut Live<char, u32>, words: &str) {
    for word in words.split(' ') {
        let (team, host) = (word.as_bytes()[0] as char, u32::from(word.as_bytes()[1] - b'0'));
        let before = live.teams.get(&team).and_then(|counts| counts.get(&host)).copied().unwrap_or(0);
        live.set(host, &team, before + 1);
        live.check().unwrap();
    }
}

#[test]
fn a_team_is_in_one_row_on_all_its_hosts_however_its_processes_come() {
    let mut live = machine(&[1, 1]);
    report(&mut live, "A1 B1 B2 A2");
    assert_eq!(picture(&live), ["A1 A2", "B1 B2"]);
    let mut live = machine(&[1, 1]);
    report(&mut live, "A1 C2 A2 B1");
    assert_eq!(picture(&live), ["B1 C2", "A1 A2"], "the row that it left had room for another team");
    let rows = live.rows_of(1);
    assert_eq!(rows, BTreeMap::from([(&'A', vec![1]), (&'B', vec![0])]));
}

#[test]
fn a_team_with_more_processes_than_processors_is_split() {
    let mut live = machine(&[2, 1]);
    report(&mut live, "A1 A2 A1 A1");
    assert_eq!(picture(&live), ["A1 A1 A2", "A1"]);
    report(&mut live, "B1");
    assert_eq!(picture(&live), ["A1 A1 A2", "A1 B1"]);
    live.set(1, &'A', 2);
    assert_eq!(picture(&live), ["A1 A1 A2", "B1"], "outside the key row first");
}

#[test]
fn the_end_of_a_team_fills_its_row() {
    let mut live = machine(&[1, 1, 1]);
    report(&mut live, "A1 A2 B3 C1 C2 D3");
    assert_eq!(picture(&live), ["A1 A2 B3", "C1 C2 D3"]);
    live.set(3, &'B', 0);
    live.set(3, &'D', 0);
    assert_eq!(picture(&live), ["A1 A2", "C1 C2"]);
    live.set(1, &'A', 0);
    assert_eq!(picture(&live), ["A2", "C1 C2"], "its place on host 2 is not free");
    live.set(2, &'A', 0);
    assert_eq!(picture(&live), ["C1 C2"]);
    live.check().unwrap();
}

#[test]
fn a_host_that_leaves_takes_its_columns_along_and_one_that_joins_has_room() {
    let mut live = machine(&[1, 1]);
    report(&mut live, "A1 A2 B1 B2 C2");
    assert_eq!(picture(&live), ["A1 A2", "B1 B2", "C2"]);
    live.leave(2);
    assert_eq!(picture(&live), ["A1", "B1"]);
    live.set(2, &'D', 1);
    assert_eq!(picture(&live), ["A1", "B1"], "a host that is not there has no processes");
    live.join(3, 1);
    report(&mut live, "D3 B3");
    assert_eq!(picture(&live), ["A1 D3", "B1 B3"]);
    live.join(3, 2);
    assert_eq!(picture(&live), ["A1", "B1"], "with other processors it is another host");
    live.check().unwrap();
}

#[test]
fn packing_deletes_rows_that_others_have_room_for() {
    let mut live = machine(&[2, 2]);
    // Each row loses one process at a time, so that filling never finds a row that fits as a whole.
    report(&mut live, "A1 A1 A2 B2 C1 C1 C2 D2 E1 E1 E2 F2");
    assert_eq!(picture(&live), ["A1 A1 A2 B2", "C1 C1 C2 D2", "E1 E1 E2 F2"]);
    live.set(1, &'A', 1);
    live.set(1, &'C', 1);
    live.set(2, &'D', 0);
    live.sweep();
    assert_eq!(live.rows().len(), 3, "a quarter is idle");
    live.set(1, &'E', 0);
    live.set(2, &'F', 0);
    assert_eq!(picture(&live), ["A1 A2 B2", "C1 C2 E2"]);
    live.sweep();
    assert_eq!(live.rows().len(), 2);
}

#[test]
fn a_team_without_room_in_the_most_rows_waits_for_it() {
    let mut live: Live<usize, u32> = Live::default();
    live.join(1, 1);
    for team in 0..ROWS_MAX + 2 {
        live.set(1, &team, 1);
    }
    assert_eq!((live.rows().len(), live.waiting.len()), (ROWS_MAX, 2));
    live.check().unwrap();
    live.set(1, &7, 0);
    assert_eq!((live.rows().len(), live.waiting.len()), (ROWS_MAX, 1));
    live.check().unwrap();
}

/// Rows of the other matrix, without the processors.
fn rows_of(matrix: &Matrix<u32>) -> Vec<BTreeMap<u64, u32>> {
    let count = |row: usize| {
        let mut teams = BTreeMap::new();
        for process in matrix.row(row).iter().flatten() {
            *teams.entry(process.team).or_insert(0) += 1;
        }
        teams
    };
    (0..matrix.rows()).map(count).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// On one host the columns do not matter: the rows are those of the paper's matrix, whatever happens.
    #[test]
    fn on_one_host_the_rows_are_those_of_the_matrix(
        processors in 1..8_u32, steps in proptest::collection::vec((0..4_u8, 0..9_u64, 1..12_u32), 0..40),
    ) {
        let mut live: Live<u64, u32> = Live::default();
        live.join(1, processors);
        let mut matrix = Matrix::new(0..processors);
        for (kind, team, size) in steps {
            match kind {
                0 => {
                    live.set(1, &team, 0);
                    matrix.end(team);
                }
                1 => {
                    live.sweep();
                    matrix.pack();
                }
                _ if matrix.team(team).is_none() => {
                    live.set(1, &team, size);
                    matrix.start(team, size).expect("a new team");
                }
                _ => {}
            }
            live.check().unwrap();
            let rows: Vec<BTreeMap<u64, u32>> =
                live.rows().iter().map(|row| row.iter().map(|(&team, counts)| (team, counts[&1])).collect()).collect();
            prop_assert_eq!(&rows, &rows_of(&matrix));
            prop_assert!((live.idleness() - matrix.idleness()).abs() < 1e-9);
        }
    }

    /// Whatever hosts report, the invariants hold; and a team that fits its hosts' processors, and has always done so, is in one row.
    #[test]
    fn the_invariants_hold_whatever_hosts_report(
        steps in proptest::collection::vec((0..12_u8, 0..5_u32, 0..6_u8, 0..4_u32), 0..80),
    ) {
        let mut live: Live<char, u32> = Live::default();
        let mut split = BTreeSet::new();
        for (kind, host, team, count) in steps {
            let team = char::from(b'A' + team);
            match kind {
                0 => live.leave(host),
                1 | 2 => live.join(host, count),
                3 => {
                    live.sweep();
                }
                _ => live.set(host, &team, count),
            }
            live.check().unwrap();
            for (&team, counts) in &live.teams {
                if counts.iter().any(|(host, count)| *count > live.hosts[host]) {
                    split.insert(team);
                }
            }
            split.retain(|team| live.teams.contains_key(team));
            for &team in live.teams.keys().filter(|team| !split.contains(team)) {
                prop_assert_eq!(live.own_rows(&team).len(), 1, "team {} of {:?}", team, picture(&live));
            }
        }
    }

    /// Packing leaves no row whose teams all fit into others.
    #[test]
    fn packing_is_done_when_nothing_is_left_to_pack(
        processors in proptest::collection::vec(1..4_u32, 1..4),
        steps in proptest::collection::vec((1..5_u32, 0..8_u8, 0..3_u32), 0..40),
    ) {
        let mut live = machine(&processors);
        for (host, team, count) in steps {
            live.set(host, &char::from(b'A' + team), count);
        }
        if live.idleness() > PACKING_THRESHOLD {
            live.sweep();
            live.check().unwrap();
            prop_assert!((0..live.rows().len()).all(|row| live.plan_without(row).is_none()));
        }
    }
}
