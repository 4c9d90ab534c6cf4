//! Costs over the number of hosts as a table and plots.

use super::{NAME, Round, Runs};
use pvm_sim::report::{Plot, Point, Report, Series, Table};
use pvm_sim::stats::Measured;
use serde::Serialize;

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// By number of hosts.
    pub runs: Vec<Runs>,
}

/// A plot, and columns of the table.
struct Subject {
    /// The end of the plot's name.
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    curves: &'static [Curve],
}

/// A curve, and a column.
struct Curve {
    name: &'static str,
    column: &'static str,
    get: fn(&Round) -> Option<f64>,
}

/// Where the subjects of the second table begin.
const CHANGES: usize = 6;

const SUBJECTS: [Subject; 8] = [
    Subject {
        name: "start",
        title: "From the start of the master until all hosts are up",
        unit: "s",
        curves: &[Curve { name: "all hosts", column: "start, s", get: |round| round.start }],
    },
    Subject {
        name: "processor",
        title: "Processor time of all daemons while the machine is idle",
        unit: "% of one core",
        curves: &[Curve { name: "all daemons", column: "idle, %", get: |round| Some(round.idle?.processor) }],
    },
    Subject {
        name: "datagrams",
        title: "UDP datagrams while the machine is idle",
        unit: "1/s",
        curves: &[Curve { name: "all daemons", column: "UDP/s", get: |round| Some(round.idle?.datagrams) }],
    },
    Subject {
        name: "memory",
        title: "Memory of a daemon (Pss)",
        unit: "MiB",
        curves: &[
            Curve { name: "mean of all", column: "daemon, MiB", get: |round| Some(round.idle?.memory) },
            Curve { name: "master", column: "master, MiB", get: |round| Some(round.idle?.master) },
        ],
    },
    Subject {
        name: "loss",
        title: "From the end of a daemon by SIGKILL to the notice of the lost host",
        unit: "s",
        curves: &[Curve { name: "one host", column: "loss, s", get: |round| round.loss }],
    },
    Subject {
        name: "spawn",
        title: "A spawn of a task per host",
        unit: "s",
        curves: &[
            Curve { name: "first", column: "first spawn, s", get: |round| Some(round.spawns?[0]) },
            Curve { name: "second", column: "second, s", get: |round| Some(round.spawns?[1]) },
        ],
    },
    Subject {
        name: "changes",
        title: "A change of what the master keeps",
        unit: "ms",
        curves: &[
            Curve { name: "mailbox", column: "mailbox, ms", get: |round| Some(round.changes?.entry * 1e3) },
            Curve {
                name: "mailbox, no deputies",
                column: "no deputies",
                get: |round| Some(round.alone?.entry * 1e3),
            },
            Curve { name: "group", column: "group, ms", get: |round| Some(round.changes?.member * 1e3) },
            Curve {
                name: "group, no deputies",
                column: "no deputies",
                get: |round| Some(round.alone?.member * 1e3),
            },
            Curve { name: "host", column: "host, ms", get: |round| Some(round.changes?.host * 1e3) },
            Curve {
                name: "host, no deputies",
                column: "no deputies",
                get: |round| Some(round.alone?.host * 1e3),
            },
        ],
    },
    Subject {
        name: "succession",
        title: "From the end of the master's daemon by SIGKILL to the answer of a request",
        unit: "s",
        curves: &[Curve { name: "the next master", column: "succession, s", get: |round| round.succession }],
    },
];

impl Growth {
    /// The table and the plots.
    pub fn report(&self) -> Report {
        let plots = SUBJECTS.iter().map(|subject| self.plot(subject));
        let plots = plots.filter(|plot| plot.series.iter().any(|series| series.points.len() > 1));
        Report { tables: self.tables().into(), plots: plots.collect(), ..Report::default() }
    }

    /// Errors, a line each.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flat_map(|runs| &runs.failures).map(String::as_str)
    }

    fn tables(&self) -> [Table; 2] {
        let (whole, changes) = SUBJECTS.split_at(CHANGES);
        let title = "less is better: the start of hosts that share this computer, their daemons while idle, a loss, and spawns of a task per host";
        let second = "less is better: changes of what the master keeps, with deputies and without, and the end of its daemon";
        [self.table(NAME, title, whole), self.table("scale-changes", second, changes)]
    }

    fn table(&self, name: &str, title: &str, subjects: &'static [Subject]) -> Table {
        let curves = || subjects.iter().flat_map(|subject| subject.curves);
        let mut table = Table::new(name, &format!("{name} ({title})"), &["hosts", "up"]);
        table.head.extend(curves().map(|curve| curve.column.to_owned()));
        for runs in &self.runs {
            let cells =
                curves().map(|curve| runs.summary(curve).map_or("–".to_owned(), |summary| summary.cell()));
            table.row([runs.hosts.to_string(), runs.up()].into_iter().chain(cells));
        }
        table
    }

    fn plot(&self, subject: &Subject) -> Plot {
        let series = subject.curves.iter().map(|curve| Series {
            name: curve.name.to_owned(),
            points: self.runs.iter().filter_map(|runs| runs.point(curve)).collect(),
        });
        let (name, y) = (format!("{NAME}-{}", subject.name), format!("{}, less is better", subject.unit));
        Plot::measured(&name, subject.title, ("hosts", &y), series.collect())
    }
}

impl Runs {
    fn summary(&self, curve: &Curve) -> Option<Measured> {
        Measured::of(&self.rounds.iter().filter_map(curve.get).collect::<Vec<_>>())
    }

    /// The fewest hosts that came up in a round.
    fn up(&self) -> String {
        self.rounds.iter().map(|round| round.up).min().map_or("–".to_owned(), |up| up.to_string())
    }

    /// Nothing for 0, which has no place on a logarithmic axis.
    fn point(&self, curve: &Curve) -> Option<Point> {
        let summary = self.summary(curve).filter(|summary| summary.median > 0.0)?;
        Some(summary.point(self.hosts as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::hosts::Changes;
    use super::super::usage::Idle;
    use super::*;

    fn growth() -> Growth {
        let idle = Idle { processor: 12.5, datagrams: 0.0, memory: 4.0, master: 8.0 };
        let whole = |start| Round {
            up: 8,
            start: Some(start),
            idle: Some(idle),
            spawns: Some([0.5, 0.25]),
            loss: Some(3.0),
            changes: Some(Changes { entry: 0.5, member: 0.25, host: 2.0 }),
            alone: None,
            succession: Some(1.5),
        };
        let some = Round { up: 5, ..Round::default() };
        let failures = vec!["32 hosts, round 1: 5 came up, in 60.0 s".to_owned()];
        Growth {
            runs: vec![
                Runs { hosts: 8, rounds: vec![whole(1.0), whole(3.0), whole(2.0)], failures: Vec::new() },
                Runs { hosts: 16, rounds: vec![whole(4.0)], failures: Vec::new() },
                Runs { hosts: 32, rounds: vec![whole(9.0), some], failures },
            ],
        }
    }

    #[test]
    fn the_table_has_medians_and_the_fewest_hosts_that_came_up() {
        let table = growth().report().tables.remove(0);
        assert_eq!(table.head[..4], ["hosts", "up", "start, s", "idle, %"]);
        let all = ["8", "8", "2.000 ±25%", "12.50 ±0%", "0 ±0%", "4.000 ±0%", "8.000 ±0%", "3.000 ±0%"];
        assert_eq!(table.rows[0][..8], all);
        assert_eq!(table.rows[0][8..], ["0.5000 ±0%", "0.2500 ±0%"]);
        assert_eq!(table.rows[2][..3], ["32", "5", "9.000 ±0%"]);
        let changes = growth().report().tables.remove(1);
        assert_eq!(changes.head[2..5], ["mailbox, ms", "no deputies", "group, ms"]);
        assert_eq!(changes.rows[0][2..5], ["500.0 ±0%", "–", "250.0 ±0%"]);
        assert_eq!(changes.rows[0][8], "1.500 ±0%");
    }

    #[test]
    fn missing_measurements_are_dashes_without_a_plot() {
        let mut growth = growth();
        growth.runs.iter_mut().flat_map(|runs| &mut runs.rounds).for_each(|round| round.loss = None);
        let report = growth.report();
        assert_eq!(report.tables[0].rows[1][7], "–");
        let plots: Vec<&str> = report.plots.iter().map(|plot| plot.name.as_str()).collect();
        assert_eq!(
            plots,
            [
                "scale-start",
                "scale-processor",
                "scale-memory",
                "scale-spawn",
                "scale-changes",
                "scale-succession"
            ]
        );
        assert!(report.plots[2].svg().expect("drawn").contains("master"));
    }

    #[test]
    fn failures_are_named_and_json_has_every_round() {
        let growth = growth();
        assert_eq!(growth.failures().collect::<Vec<_>>(), ["32 hosts, round 1: 5 came up, in 60.0 s"]);
        let json = serde_json::to_value(&growth).expect("written");
        assert_eq!(json["runs"][0]["rounds"].as_array().map(Vec::len), Some(3));
        assert_eq!(json["runs"][2]["rounds"][1]["start"], serde_json::Value::Null);
    }
}
