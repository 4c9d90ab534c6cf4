//! Daemons compared with the simulator: a table, a plot, and a table of the documentation.

use super::page::Shown;
use pvm_sim::report::{Plot, Report, Series, Table, number};
use pvm_sim::stats::{Measured, median};
use serde::Serialize;

/// Values of one kind, live and simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Its name: that of its files, and of its place on the page.
    pub name: &'static str,
    /// The measured quantity.
    pub title: &'static str,
    /// Of the values.
    pub unit: &'static str,
    /// The parameter of the curves.
    pub curve: &'static str,
    /// What x is.
    pub x: &'static str,
    /// The simulator's model with one thing changed, to see what that makes.
    pub changes: Vec<&'static str>,
    /// All points, curve by curve.
    pub points: Vec<Point>,
    /// The values that were measured beforehand, as a sentence.
    pub costs: String,
}

/// One batch, or one grain.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Name of its curve.
    pub curve: &'static str,
    /// Its place.
    pub x: f64,
    /// The results of the rounds.
    pub live: Vec<f64>,
    /// The same of the simulator.
    pub simulated: Vec<f64>,
    /// The medians of the changed models.
    pub changed: Vec<f64>,
}

/// Further apart than this part the two need a reason.
const APART: f64 = 0.2;

impl Point {
    /// Of a curve, at `x`: what was measured, and what the simulator makes of these costs and of changed ones.
    pub fn new<C>(
        (curve, x): (&'static str, f64),
        live: Vec<f64>,
        simulate: impl Fn(&C) -> Vec<f64>,
        costs: &C,
        changed: &[C],
    ) -> Self {
        let changed = changed.iter().map(|costs| median(&simulate(costs))).collect();
        Self { curve, x, live, simulated: simulate(costs), changed }
    }

    fn summaries(&self) -> Option<(Measured, Measured)> {
        Some((Measured::of(&self.live)?, Measured::of(&self.simulated)?))
    }

    /// Live over simulated.
    pub fn ratio(&self) -> Option<f64> {
        let (live, simulated) = self.summaries()?;
        // By some policies there are no messages, on either side.
        let is_nothing = live.median == 0.0 && simulated.median == 0.0;
        Some(if is_nothing { 1.0 } else { live.median / simulated.median })
    }

    fn is_apart(&self) -> bool {
        self.ratio().is_some_and(|ratio| !(1.0 - APART..=1.0 + APART).contains(&ratio))
    }
}

impl Comparison {
    /// As it is printed.
    pub fn report(&self) -> Report {
        let mut table = Table { name: self.name.into(), title: self.heading(), ..Table::default() };
        table.head = self.columns();
        table.head.push("live:simulated".into());
        for (row, point) in self.rows().into_iter().zip(&self.points) {
            table.row(row.into_iter().chain([point.ratio().map_or_else(String::new, number)]));
        }
        Report { tables: vec![table], plots: vec![self.plot()], ..Report::default() }
    }

    /// As the page has it.
    pub fn shown(&self) -> Shown {
        Shown {
            name: self.name,
            title: self.title,
            unit: self.unit,
            command: "cargo bench -p benches -- live --docs",
            spread: None,
            columns: self.columns(),
            rows: self.rows(),
            ratios: vec![["live", "simulated"]],
            note: format!("{} {}", self.costs, self.apart()),
            plots: vec![self.plot()],
        }
    }

    fn heading(&self) -> String {
        format!("{} ({}; {})", self.title, self.unit, self.costs)
    }

    /// The heads of the columns but for the ratio.
    pub fn columns(&self) -> Vec<String> {
        let own = [self.curve, self.x, "live", "its quartiles", "simulated", "quartiles of that"];
        own.iter().chain(&self.changes).map(|&name| name.to_owned()).collect()
    }

    /// A row for each point.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |point: &Point| {
            let (live, simulated) = point.summaries()?;
            let both = [&live, &simulated].map(|of| [number(of.median), quartiles(of)]);
            let own = [point.curve.to_owned(), point.x.to_string()];
            Some(
                own.into_iter()
                    .chain(both.into_iter().flatten())
                    .chain(point.changed.iter().copied().map(number))
                    .collect(),
            )
        };
        self.points.iter().map(|point| row(point).unwrap_or_default()).collect()
    }

    /// A sentence on the points that need a reason.
    pub fn apart(&self) -> String {
        let apart = self.points.iter().filter(|point| point.is_apart());
        let apart: Vec<String> = apart.map(|point| format!("{} at {}", point.curve, point.x)).collect();
        if apart.is_empty() {
            return "No point is more than 20 % apart.".to_owned();
        }
        format!("More than 20 % apart ({}): {}.", self.x, apart.join("; "))
    }

    fn plot(&self) -> Plot {
        let mut curves: Vec<&str> = self.points.iter().map(|point| point.curve).collect();
        curves.dedup();
        let series = |(curve, side): (&str, fn(&Point) -> &[f64]), name| Series {
            name: format!("{curve}, {name}"),
            points: self
                .points
                .iter()
                .filter(|point| point.curve == curve)
                .filter_map(|p| Some(Measured::of(side(p))?.point(p.x)))
                .collect(),
        };
        let both = |&curve: &&str| {
            [
                series((curve, |point| &point.live), "live"),
                series((curve, |point| &point.simulated), "simulated"),
            ]
        };
        Plot::measured(self.name, self.title, (self.x, self.unit), curves.iter().flat_map(both).collect())
    }
}

fn quartiles(of: &Measured) -> String {
    format!("{} to {}", number(of.low), number(of.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(live: &[f64]) -> Comparison {
        let point =
            |curve, x| Point { curve, x, live: live.to_vec(), simulated: vec![2.0], changed: vec![1.0] };
        Comparison {
            name: "live-x",
            title: "Makespan",
            unit: "s",
            curve: "batch",
            x: "hosts",
            changes: vec!["no starts"],
            points: vec![point("constant", 1.0), point("constant", 2.0), point("short", 1.0)],
            costs: "a start takes 1 µs".into(),
        }
    }

    #[test]
    fn medians_stand_beside_each_other() {
        let report = comparison(&[2.0, 3.0, 4.0]).report();
        let head = [
            "batch",
            "hosts",
            "live",
            "its quartiles",
            "simulated",
            "quartiles of that",
            "no starts",
            "live:simulated",
        ];
        assert_eq!(report.tables[0].head, head);
        let row = ["constant", "1", "3.000", "2.500 to 3.500", "2.000", "2.000 to 2.000", "1.000", "1.500"];
        assert_eq!(report.tables[0].rows[0], row);
        let svg = report.plots[0].svg().expect("drawn");
        assert!(svg.contains("constant, live") && svg.contains("short, simulated"));
    }

    #[test]
    fn what_is_apart_is_named() {
        assert_eq!(comparison(&[2.0, 2.3, 2.6]).apart(), "No point is more than 20 % apart.");
        let apart = "More than 20 % apart (hosts): constant at 1; constant at 2; short at 1.";
        assert_eq!(comparison(&[1.0]).apart(), apart);
        let mut none = comparison(&[0.0]);
        none.points.iter_mut().for_each(|point| point.simulated = vec![0.0]);
        assert_eq!(none.apart(), "No point is more than 20 % apart.");
    }
}
