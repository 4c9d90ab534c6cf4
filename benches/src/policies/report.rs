//! A table of the policies for each number of hosts.

use super::{NAME, Round, Runs};
use crate::live::page::Shown;
use pvm_sched::policy::Policy;
use pvm_sim::report::{Report, Table, number};
use pvm_sim::stats::Measured;
use serde::Serialize;

/// All policies with one number of hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Hosts, the master included.
    pub hosts: usize,
    /// By policy.
    pub runs: Vec<Runs>,
}

/// A column: its head, and its value in a round.
type Column = (&'static str, fn(&Round) -> f64);

const COLUMNS: [Column; 4] = [
    ("spawns, 1/s", |round| round.spawns),
    ("messages per task, between hosts", |round| round.batch.between),
    ("messages per task, on the home's host", |round| round.batch.at_home),
    ("makespan, s", |round| round.batch.makespan),
];

/// The ids of the tables in the documentation, by number of hosts.
const IDS: [(usize, &str); 3] = [(3, "policies-3"), (8, "policies-8"), (64, "policies-64")];

const TITLE: &str = "spawns of tasks that exit at once; a queued batch of eight tasks per host, of unequal length, on hosts of unequal speed";

impl Compared {
    /// The table.
    pub fn report(&self) -> Report {
        let title = format!("{NAME}, {} hosts ({TITLE}; {})", self.hosts, self.verdict());
        let mut table = Table::new(&format!("{NAME}-{}", self.hosts), &title, &["policy"]);
        table.head.extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        for row in self.rows() {
            table.row(row);
        }
        Report { tables: vec![table], ..Report::default() }
    }

    /// As the page has it, if it has a place for this number of hosts.
    pub fn shown(&self) -> Option<Shown> {
        let (_, name) = IDS.into_iter().find(|(hosts, _)| *hosts == self.hosts)?;
        let head = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
        Some(Shown {
            name,
            title: "Placement policies",
            unit: "as the column says",
            command: "cargo bench -p benches -- policies --docs",
            columns: std::iter::once("policy".to_owned()).chain(head).collect(),
            rows: self.rows(),
            note: format!("{} hosts. {}.", self.hosts, self.verdict()),
            ..Shown::default()
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let cell = |runs: &Runs, get: fn(&Round) -> f64| {
            runs.summary(get).map_or("–".to_owned(), |summary| number(summary.median))
        };
        let row = |runs: &Runs| {
            let cells = COLUMNS.iter().map(|&(_, get)| cell(runs, get));
            std::iter::once(runs.policy.name().to_owned()).chain(cells).collect()
        };
        self.runs.iter().map(row).collect()
    }

    /// Whether active pulling has the shortest makespan, and else which policy has.
    fn verdict(&self) -> String {
        let makespan = |runs: &Runs| runs.summary(|round| round.batch.makespan).map(|of| (of, runs.policy));
        let all: Vec<(Measured, Policy)> = self.runs.iter().filter_map(makespan).collect();
        let pulling = all.iter().find(|(_, policy)| *policy == Policy::ActivePulling);
        let best = all.iter().min_by(|(one, _), (other, _)| one.median.total_cmp(&other.median));
        let (Some((pulling, _)), Some((best, policy))) = (pulling, best) else {
            return "active pulling was not measured".to_owned();
        };
        if *policy == Policy::ActivePulling {
            return "active pulling has the shortest makespan".to_owned();
        }
        let more = (pulling.median / best.median - 1.0) * 100.0;
        let within = if pulling.low <= best.high { "within" } else { "beyond" };
        format!(
            "{policy} has the shortest makespan, active pulling takes {more:.0} % longer ({within} the quartiles)"
        )
    }
}

impl Runs {
    fn summary(&self, get: fn(&Round) -> f64) -> Option<Measured> {
        Measured::of(&self.rounds.iter().map(get).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::live::batch::Placed;
    use super::*;

    fn runs(policy: Policy, makespans: &[f64]) -> Runs {
        let round = |&makespan: &f64| Round {
            spawns: 500.0,
            batch: Placed { makespan, between: 2.5, at_home: 0.25 },
        };
        Runs { policy, rounds: makespans.iter().map(round).collect() }
    }

    fn compared(pulling: &[f64], other: &[f64]) -> Compared {
        let runs = vec![runs(Policy::ActivePulling, pulling), runs(Policy::Bidding, other)];
        Compared { hosts: 8, runs }
    }

    #[test]
    fn a_row_has_the_medians_of_a_policy() {
        let table = compared(&[1.0, 3.0, 2.0], &[4.0]).report().tables.remove(0);
        assert_eq!(table.rows[0][..], ["active-pulling", "500.0", "2.500", "0.2500", "2.000"]);
        assert_eq!(table.rows[1][4], "4.000");
        let shown = compared(&[1.0], &[2.0]).shown().expect("a place");
        assert_eq!((shown.name, shown.rows.len(), shown.columns.len()), ("policies-8", 2, 5));
        assert!(Compared { hosts: 7, runs: Vec::new() }.shown().is_none());
    }

    #[test]
    fn it_is_said_whether_active_pulling_is_best() {
        assert_eq!(compared(&[1.0], &[2.0]).verdict(), "active pulling has the shortest makespan");
        let told = compared(&[2.2], &[2.0]).verdict();
        assert_eq!(
            told,
            "bidding has the shortest makespan, active pulling takes 10 % longer (beyond the quartiles)"
        );
        assert!(compared(&[1.9, 2.2, 2.3], &[1.8, 2.0, 2.3]).verdict().ends_with("(within the quartiles)"));
        assert!(Compared { hosts: 3, runs: Vec::new() }.verdict().contains("not measured"));
    }
}
