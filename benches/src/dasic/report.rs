//! Tables of teams on workstations, and a picture of their turns.

use super::{GRAINS, HOSTS, Mode, NAME, Predicted, Record, Round, Runs};
use crate::live::page::Shown;
use pvm_sim::report::{Lane, Lanes, Report, Table, number};
use pvm_sim::stats::Measured;
use serde::Serialize;

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Shared {
    /// By mode.
    pub runs: Vec<Runs>,
    /// What the simulator makes of each round.
    pub predicted: Vec<Predicted>,
    /// Seconds of a round.
    pub seconds: f64,
}

const SIMULATOR: &str = "simulator, by rows";
const COMMAND: &str = "cargo bench -p benches -- dasic --docs";
/// Seconds of the picture, before and after a return of an owner.
const PICTURE: (f64, f64) = (0.8, 1.2);

/// A table: its name, its title, and its unit.
type Heading = (&'static str, &'static str, &'static str);

const SLOWDOWNS: Heading = (
    "dasic-slowdown",
    "Slowdown of three teams on workstations that owners lend and take back",
    "time / time alone; 3 is fair",
);
const TOGETHER: Heading =
    ("dasic-together", "Part of the time in which a team has the turn on both its hosts", "%");
const MOVES: Heading =
    ("dasic-moves", "Tasks that leave the hosts of owners who are back", "as the column says");

impl Shared {
    /// Tables and the picture.
    pub fn report(&self) -> Report {
        let table = |(name, title, unit): Heading, columns: Vec<String>, rows: Vec<Vec<String>>| {
            let mut table =
                Table { name: name.into(), title: format!("{title} ({unit})"), ..Table::default() };
            table.head = columns;
            for row in rows {
                table.row(row);
            }
            table
        };
        let tables = vec![
            table(SLOWDOWNS, by_grain(), self.slowdowns()),
            table(TOGETHER, by_grain(), self.together()),
            table(MOVES, MOVE_COLUMNS.map(str::to_owned).to_vec(), self.moves()),
        ];
        Report { tables, lanes: self.picture().into_iter().collect(), ..Report::default() }
    }

    /// As the page has them.
    pub fn shown(&self) -> Vec<Shown> {
        let shown =
            |(name, title, unit): Heading, columns: Vec<String>, rows: Vec<Vec<String>>, note: String| {
                Shown { name, title, unit, command: COMMAND, columns, rows, note, ..Shown::default() }
            };
        let rounds = format!("Rounds of {} s. {}", self.seconds, self.spread());
        vec![
            shown(SLOWDOWNS, by_grain(), self.slowdowns(), rounds),
            shown(TOGETHER, by_grain(), self.together(), String::new()),
            shown(MOVES, MOVE_COLUMNS.map(str::to_owned).to_vec(), self.moves(), String::new()),
        ]
    }

    fn slowdowns(&self) -> Vec<Vec<String>> {
        let mut rows = self.by_team(|round, team| Some(slowdown(round, team)));
        rows.push(self.simulated(|predicted, team| 1.0 / predicted.speeds.get(team).copied().unwrap_or(0.0)));
        rows
    }

    fn together(&self) -> Vec<Vec<String>> {
        let percent = |round: &Round, team: usize| {
            let takes_turns = round.record.turns.iter().any(|turns| !turns.is_empty());
            takes_turns.then(|| round.record.together(team) * 100.0)
        };
        let mut rows = self.by_team(percent);
        rows.push(
            self.simulated(|predicted, team| predicted.together.get(team).copied().unwrap_or(0.0) * 100.0),
        );
        rows
    }

    /// A row for each mode, with the median of a value of each team.
    fn by_team(&self, get: impl Fn(&Round, usize) -> Option<f64>) -> Vec<Vec<String>> {
        let cell = |runs: &Runs, team: usize| {
            let values: Vec<f64> = runs.rounds.iter().filter_map(|round| get(round, team)).collect();
            median(&values)
        };
        let row = |runs: &Runs| {
            let cells = (0..GRAINS.len()).map(|team| cell(runs, team));
            std::iter::once(runs.mode.name.to_owned()).chain(cells).collect()
        };
        self.runs.iter().map(row).collect()
    }

    fn simulated(&self, get: impl Fn(&Predicted, usize) -> f64) -> Vec<String> {
        let cell = |team| median(&self.predicted.iter().map(|it| get(it, team)).collect::<Vec<_>>());
        std::iter::once(SIMULATOR.to_owned()).chain((0..GRAINS.len()).map(cell)).collect()
    }

    fn moves(&self) -> Vec<Vec<String>> {
        let row = |runs: &Runs| {
            let all = |get: fn(&Record) -> Vec<f64>| -> Vec<f64> {
                runs.rounds.iter().flat_map(|round| get(&round.record)).map(|seconds| seconds * 1e3).collect()
            };
            let (vacated, still) = (all(Record::vacating), all(Record::still));
            let rounds = runs.rounds.len().max(1) as f64;
            vec![
                runs.mode.name.to_owned(),
                number(still.len() as f64 / rounds),
                median(&vacated),
                greatest(&vacated),
                median(&still),
                greatest(&still),
            ]
        };
        let moves = self.predicted.iter().map(|it| it.moves as f64).sum::<f64>();
        let simulated = number(moves / self.predicted.len().max(1) as f64);
        let none = (2..MOVE_COLUMNS.len()).map(|_| "–".to_owned());
        let simulated = [SIMULATOR.to_owned(), simulated].into_iter().chain(none).collect();
        self.runs.iter().map(row).chain([simulated]).collect()
    }

    /// How far apart the rounds are.
    fn spread(&self) -> String {
        let spread = |runs: &Runs| {
            let spreads = (0..GRAINS.len()).filter_map(|team| {
                let values: Vec<f64> = runs.rounds.iter().map(|round| slowdown(round, team)).collect();
                Measured::of(&values).map(|summary| summary.spread())
            });
            spreads.fold(0.0, f64::max)
        };
        let of = |name: &str| {
            let runs = self.runs.iter().find(|runs| runs.mode.name == name);
            runs.map_or(0.0, |runs| spread(runs) * 100.0)
        };
        let [rows, kernel] = [0, 2].map(|mode: usize| super::MODES[mode].name).map(of);
        format!(
            "Spread of the slowdowns over the rounds: up to {rows:.0} % by rows, {kernel:.0} % by the kernel alone, where tasks spin."
        )
    }

    /// The turns around the first return of an owner, in the first round by rows.
    pub fn picture(&self) -> Option<Lanes> {
        let is_by_rows = |mode: &Mode| mode.name == super::MODES[0].name;
        let record = &self.runs.iter().find(|runs| is_by_rows(&runs.mode))?.rounds.first()?.record;
        let back = record.returns.first()?.at;
        let time = |at: u64| (at as f64 - back as f64) / 1e9;
        let lane = |host: usize| Lane {
            name: format!("workstation {}", host + 1),
            bars: bars(record, host).map(|(begin, end, team)| (time(begin), time(end), team)).collect(),
            shades: absences(record, host).into_iter().map(|(begin, end)| (time(begin), time(end))).collect(),
        };
        Some(Lanes {
            name: NAME.to_owned(),
            title: "Turns of three teams by rows, while an owner comes back".into(),
            x: "time (s)".into(),
            from: -PICTURE.0,
            to: PICTURE.1,
            names: GRAINS.iter().map(|grain| format!("{grain} µs")).collect(),
            shade: "owner".into(),
            lanes: (0..HOSTS).map(lane).collect(),
        })
    }
}

const MOVE_COLUMNS: [&str; 6] =
    ["who decides", "moves a round", "vacated, ms", "the longest", "stands still, ms", "the longest of that"];

fn by_grain() -> Vec<String> {
    let grains = GRAINS.iter().map(|grain| format!("{grain} µs"));
    std::iter::once("who decides".to_owned()).chain(grains).collect()
}

fn slowdown(round: &Round, team: usize) -> f64 {
    let rate = round.record.teams.get(team).map_or(0.0, |team| team.rate);
    round.alone[team] / rate
}

fn median(values: &[f64]) -> String {
    Measured::of(values).map_or("–".to_owned(), |summary| number(summary.median))
}

fn greatest(values: &[f64]) -> String {
    values.iter().copied().reduce(f64::max).map_or("–".to_owned(), number)
}

/// The turns of teams on a workstation.
fn bars(record: &Record, host: usize) -> impl Iterator<Item = (u64, u64, usize)> {
    let turns = record.turns.get(host).into_iter().flatten();
    turns.filter_map(|turn| Some((turn.begin, turn.end, turn.team?)))
}

/// When the owner of a workstation is there: of 1 and 3 from the beginning on.
fn absences(record: &Record, host: usize) -> Vec<(u64, u64)> {
    let returns = record.returns.iter().filter(|it| it.host == host);
    let mut absences: Vec<(u64, u64)> = returns.map(|it| (it.at, it.left.unwrap_or(u64::MAX))).collect();
    if host % 2 == 1 {
        // Their owners leave when those of the others on the same processor are about to return.
        let other = record.returns.iter().find(|it| it.host == host - 1);
        let left = other.map_or(u64::MAX, |it| it.at.saturating_sub((super::BETWEEN * 1e9) as u64));
        absences.insert(0, (0, left));
    }
    absences
}

#[cfg(test)]
mod tests {
    use super::super::{MODES, Moved, Return, TeamRecord, Turn};
    use super::*;

    fn shared() -> Shared {
        let second = 1_000_000_000;
        let moved = Moved { saved: second, restored: second + 20_000_000 };
        let team = |rate| TeamRecord { rate, moves: vec![moved] };
        let turn = |begin, end, team| Turn { begin, end, team: Some(team) };
        let record = Record {
            begin: 0,
            end: 2 * second,
            teams: vec![team(100.0), team(50.0), team(25.0)],
            returns: vec![Return { host: 0, at: 900_000_000, left: None }],
            turns: vec![vec![turn(0, second, 0)], Vec::new(), vec![turn(0, second, 0)], Vec::new()],
        };
        let round = Round { alone: vec![300.0, 200.0, 100.0], record };
        let runs = MODES.iter().map(|&mode| Runs { mode, rounds: vec![round.clone()] }).collect();
        let predicted = Predicted { speeds: vec![0.25; 3], together: vec![0.3; 3], moves: 3 };
        Shared { runs, predicted: vec![predicted], seconds: 2.0 }
    }

    #[test]
    fn tables_have_modes_and_the_simulator() {
        let report = shared().report();
        let [slowdowns, together, moves] = &report.tables[..] else { panic!("{report:?}") };
        assert_eq!(slowdowns.rows[0][..], ["by rows, tasks spin", "3.000", "4.000", "4.000"]);
        assert_eq!(slowdowns.rows[6][..], [SIMULATOR, "4.000", "4.000", "4.000"]);
        assert_eq!(together.rows[0][1..3], ["50.00", "0"]);
        assert_eq!(moves.rows[0][1..], ["3.000", "120.0", "120.0", "20.00", "20.00"]);
        assert_eq!(moves.rows[6][1..3], ["3.000", "–"]);
        assert_eq!(shared().shown().len(), 3);
    }

    #[test]
    fn the_picture_shows_turns_and_owners() {
        let lanes = shared().picture().expect("an owner came back");
        assert_eq!(lanes.lanes.len(), HOSTS);
        assert!(lanes.lanes[0].shades[0].0.abs() < 1e-9);
        assert_eq!(lanes.lanes[0].bars.len(), 1);
        assert!((lanes.lanes[1].shades[0].1 + 0.3).abs() < 1e-9);
        assert!(lanes.svg().is_ok());
    }
}
