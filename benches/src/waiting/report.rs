//! Costs over the number of waiting jobs as a table.

use super::{NAME, Round, Runs};
use pvm_sim::report::{Report, Table};
use pvm_sim::stats::Measured;
use serde::Serialize;

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// By number of jobs.
    pub runs: Vec<Runs>,
}

/// A column: its head, and its value in a round.
type Column = (&'static str, fn(&Round) -> Option<f64>);

const COLUMNS: [Column; 7] = [
    ("submitted, 1/s", |round| round.submitted),
    ("submission, ms", |round| Some(round.submission * 1e3)),
    ("one job, ms", |round| Some(round.look * 1e3)),
    ("all jobs, ms", |round| Some(round.list * 1e3)),
    ("memory, MiB", |round| Some(round.memory)),
    ("per job, KiB", |round| round.each),
    ("decision, µs", |round| Some(round.decision * 1e6)),
];

impl Growth {
    /// The table.
    pub fn report(&self) -> Report {
        let title = format!(
            "{NAME} (submissions of many tasks at a time, of one; looks at one job and at all; the master's memory; a decision)"
        );
        let mut table = Table::new(NAME, &title, &["jobs"]);
        table.head.extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        for runs in &self.runs {
            let cells = COLUMNS
                .iter()
                .map(|(_, get)| runs.summary(*get).map_or("–".to_owned(), |summary| summary.cell()));
            table.row(std::iter::once(runs.jobs.to_string()).chain(cells));
        }
        Report { tables: vec![table], ..Report::default() }
    }
}

impl Runs {
    fn summary(&self, get: fn(&Round) -> Option<f64>) -> Option<Measured> {
        Measured::of(&self.rounds.iter().filter_map(get).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_number_of_jobs() {
        let round = |submitted, memory| Round {
            submitted,
            submission: 0.004,
            look: 0.001,
            list: 0.002,
            memory,
            each: submitted.map(|_| 1.5),
            decision: 2e-6,
        };
        let growth = Growth {
            runs: vec![
                Runs { jobs: 0, rounds: vec![round(None, 2.0), round(None, 4.0), round(None, 3.0)] },
                Runs { jobs: 100, rounds: vec![round(Some(5000.0), 6.0)] },
            ],
        };
        let table = growth.report().tables.remove(0);
        assert_eq!(table.head[..3], ["jobs", "submitted, 1/s", "submission, ms"]);
        let none = ["0", "–", "4.000 ±0%", "1.000 ±0%", "2.000 ±0%", "3.000 ±17%", "–", "2.000 ±0%"];
        assert_eq!(table.rows[0][..], none);
        assert_eq!(table.rows[1][1], "5000 ±0%");
    }
}
