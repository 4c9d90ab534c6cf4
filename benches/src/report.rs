//! The results, as tables, plots and JSON.

use crate::part::{Kind, Outcome, Part};
use pvm_sim::report::{Plot, Report, Series, Table, number};
use pvm_sim::stats::Measured;
use serde::Serialize;
use std::fs;
use std::process::Command;
use std::thread;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// On what it was found.
    pub machine: Computer,
    /// By part.
    pub parts: Vec<Found>,
}

/// The computer that was measured.
#[derive(Debug, Serialize)]
pub struct Computer {
    cores: usize,
    processor: String,
    kernel: String,
    open_mpi: String,
    /// Processes that wanted to run, in the last minute before the measurement: others' work spoils it.
    pub load_before: f64,
}

/// The results of a part.
#[derive(Debug, Serialize)]
pub struct Found {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: &'static str,
    rows: Vec<Row>,
    /// Contenders that could not be measured, with the reasons.
    pub failures: Vec<String>,
    #[serde(skip)]
    names: Vec<(&'static str, Kind)>,
    #[serde(skip)]
    axis: &'static str,
}

#[derive(Debug, Serialize)]
struct Row {
    x: u64,
    label: String,
    results: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    #[serde(flatten)]
    summary: Measured,
    /// Ours over this one, medians.
    ratio: f64,
}

impl Computer {
    /// This one, now.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo").lines().find_map(|line| {
            line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned())
        });
        let mpi = Command::new("mpirun").arg("--version").output();
        let mpi = mpi.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        Self {
            cores: thread::available_parallelism().map_or(1, std::num::NonZero::get),
            processor: processor.unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            open_mpi: mpi.lines().next().unwrap_or_default().to_owned(),
            load_before: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

impl Computer {
    /// In a few words.
    pub fn summary(&self) -> String {
        let Self { cores, processor, kernel, load_before, .. } = self;
        format!("{cores} cores of {processor}, Linux {kernel}, load {load_before} before")
    }
}

impl Found {
    /// From what the contenders of a part gave.
    pub fn new(part: &Part, outcomes: &[Outcome]) -> Self {
        let named = || part.contenders.iter().zip(outcomes);
        let failures = named().filter_map(|(contender, outcome)| {
            outcome.failure.as_ref().map(|why| format!("{}: {}: {why}", part.name, contender.name))
        });
        Self {
            name: part.name,
            title: part.title,
            unit: part.unit.name(),
            better: part.unit.better(),
            rows: part.xs.iter().map(|&x| Row::new(part, outcomes, x)).collect(),
            failures: failures.collect(),
            names: part.contenders.iter().map(|contender| (contender.name, contender.kind)).collect(),
            axis: part.axis.name(),
        }
    }

    fn table(&self) -> Table {
        let compared =
            || self.names.iter().filter(|(_, kind)| *kind == Kind::Compared).map(|(name, _)| *name);
        let title = format!("{} ({}, {}: {})", self.name, self.unit, self.better, self.title);
        let mut head: Vec<String> = vec![self.axis.split(' ').next().unwrap_or_default().to_owned()];
        head.extend(self.names.iter().map(|(name, _)| (*name).to_owned()));
        head.extend(compared().map(|name| format!("ours:{name}")));
        let mut table = Table { name: self.name.to_owned(), title, head, rows: Vec::new() };
        for row in &self.rows {
            let values = self.names.iter().map(|(name, _)| row.of(name).map(Entry::cell));
            let ratios = compared()
                .map(|name| row.of(name).filter(|entry| entry.ratio > 0.0).map(|e| number(e.ratio)));
            let cells = values.chain(ratios).map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
            table.row(std::iter::once(row.label.clone()).chain(cells));
        }
        table
    }

    fn plot(&self) -> Plot {
        let series = self.names.iter().map(|(name, _)| Series {
            name: (*name).to_owned(),
            points: self
                .rows
                .iter()
                .filter_map(|row| Some(row.of(name)?.summary.point(row.x as f64)))
                .collect(),
        });
        let y = format!("{}, {}", self.unit, self.better);
        Plot::measured(self.name, self.title, (self.axis, &y), series.collect())
    }
}

impl Row {
    fn new(part: &Part, outcomes: &[Outcome], x: u64) -> Self {
        let summary = |outcome: &Outcome| {
            let rounds: Vec<f64> =
                outcome.seconds.get(&x)?.iter().map(|&seconds| part.unit.of(x, seconds)).collect();
            Measured::of(&rounds)
        };
        let ours = outcomes.first().and_then(summary).map_or(0.0, |summary| summary.median);
        let entries = part.contenders.iter().zip(outcomes).filter_map(|(contender, outcome)| {
            let summary = summary(outcome)?;
            let ratio = ours / summary.median;
            Some(Entry { name: contender.name, summary, ratio })
        });
        Self { x, label: part.axis.show(x), results: entries.collect() }
    }

    fn of(&self, name: &str) -> Option<&Entry> {
        self.results.iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    fn cell(&self) -> String {
        let spread = match self.summary.spread() * 100.0 {
            wild if wild >= 999.5 => ">999".to_owned(),
            spread => format!("{spread:.0}"),
        };
        format!("{} ±{spread}%", number(self.summary.median))
    }
}

impl Findings {
    /// Tables and plots.
    pub fn report(&self) -> Report {
        Report {
            tables: self.parts.iter().map(Found::table).collect(),
            plots: self.parts.iter().filter(|part| part.rows.len() > 1).map(Found::plot).collect(),
            ..Report::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Axis, Contender, Unit};

    fn found() -> Found {
        let contender = |name, kind| Contender::new(name, kind, |_| Command::new("true"));
        let part = Part {
            name: "latency-bytes",
            title: "half a round trip",
            unit: Unit::Time,
            axis: Axis::Size,
            xs: vec![4, 1024],
            separately: false,
            contenders: vec![
                contender("ours", Kind::Shown),
                contender("PVM", Kind::Compared),
                contender("MPI", Kind::Compared),
            ],
        };
        let outcome =
            |values: [f64; 3]| Outcome { seconds: [(4, values.to_vec())].into(), ..Outcome::default() };
        let failed = Outcome { failure: Some("broken".into()), ..Outcome::default() };
        Found::new(&part, &[outcome([1e-6, 3e-6, 2e-6]), outcome([8e-6; 3]), failed])
    }

    #[test]
    fn a_table_has_medians_spreads_and_ratios() {
        let table = found().table();
        assert_eq!(table.head, ["message", "ours", "PVM", "MPI", "ours:PVM", "ours:MPI"]);
        assert_eq!(table.rows[0], ["4 B", "2.000 ±25%", "8.000 ±0%", "–", "0.2500", "–"]);
        assert_eq!(table.rows[1], ["1 KiB", "–", "–", "–", "–", "–"]);
        assert!(table.title.contains("less is better"));
    }

    #[test]
    fn failed_contenders_are_named() {
        assert_eq!(found().failures, ["latency-bytes: MPI: broken"]);
    }

    #[test]
    fn json_and_plot_have_every_value() {
        let findings = Findings { machine: Computer::here(), parts: vec![found()] };
        let json: serde_json::Value = serde_json::to_value(&findings).expect("written");
        let first = &json["parts"][0]["rows"][0]["results"][0];
        assert_eq!(first["name"], "ours");
        assert_eq!(first["rounds"].as_array().map(Vec::len), Some(3));
        assert_eq!(json["parts"][0]["rows"][0]["results"][1]["ratio"], 0.25);
        let svg = findings.report().plots[0].svg().expect("drawn");
        assert!(svg.contains("half a round trip") && svg.contains("PVM"));
    }
}
