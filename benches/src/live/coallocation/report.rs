//! Tables and pictures of makespans and utilisations.

use super::super::page::Shown;
use super::orders::MEGABIT;
use super::{Curves, NAME, Outcome, Point};
use pvm_sched::coallocation::Strategy;
use pvm_sim::report::{Plot, Point as Place, Report, Series, Table, number};
use pvm_sim::stats::{Measured, median};

const COMMAND: &str = "cargo bench -p benches -- live-coallocation --docs";

/// The strategies of the paper that span clusters, in the order in which it has their makespans, and the bandwidth up to which each is before
/// the ideal machine.
const PAPER: [(Strategy, &str); 4] = [
    (Strategy::Bfnp, "80"),
    (Strategy::Shfnp, "40 or more"),
    (Strategy::Shfp, "40 or more"),
    (Strategy::Sncp, "40 or more"),
];

const HEAD: [&str; 13] = [
    "strategy",
    "BWBN",
    "live, s",
    "simulated, s",
    "ends one by one, s",
    "and links used in exchanges only, s",
    "pvm sim, s",
    "utilisation live, %",
    "simulated, %",
    "spanning live, %",
    "spanning simulated, %",
    "a spanning job's time over the model's",
    "a local job's",
];

const MAKESPANS: &str = "Makespan of jobs on three clusters, and utilisation of their slots";
const ORDER: (&str, &str) = ("live-coallocation-order", "Strategies by makespan, the shortest first");
const CROSSINGS: (&str, &str) =
    ("live-coallocation-crossings", "BWBN up to which a strategy is before the ideal machine, scaled Mbit/s");

/// A value of a point.
type Value = fn(&Point) -> f64;

/// The median of the rounds.
fn of_rounds(outcomes: &[Outcome], get: fn(&Outcome) -> f64) -> f64 {
    median(&outcomes.iter().map(get).collect::<Vec<_>>())
}

impl Point {
    fn row(&self) -> Vec<String> {
        let percent = |part: f64| number(part * 100.0);
        let middle = |rounds: &[Vec<f64>]| {
            let all: Vec<f64> = rounds.iter().flatten().copied().collect();
            Measured::of(&all).map_or_else(|| "–".to_owned(), |summary| number(summary.median))
        };
        let knows_clusters = self.strategy.has_network();
        let spanning = |part: f64| if knows_clusters { percent(part) } else { "–".to_owned() };
        vec![
            self.name.to_owned(),
            self.bwbn.map_or_else(|| "–".to_owned(), |bwbn| bwbn.to_string()),
            number(live(self)),
            number(simulated(self)),
            number(of_rounds(&self.late, |outcome| outcome.makespan)),
            number(exchanging(self)),
            number(framed(self)),
            percent(of_rounds(&self.live, |outcome| outcome.utilisation)),
            percent(of_rounds(&self.simulated, |outcome| outcome.utilisation)),
            spanning(of_rounds(&self.live, |outcome| outcome.spanning)),
            spanning(of_rounds(&self.simulated, |outcome| outcome.spanning)),
            middle(&self.stretch),
            if knows_clusters { middle(&self.local) } else { "–".to_owned() },
        ]
    }
}

fn live(point: &Point) -> f64 {
    of_rounds(&point.live, |outcome| outcome.makespan)
}

fn simulated(point: &Point) -> f64 {
    of_rounds(&point.simulated, |outcome| outcome.makespan)
}

fn exchanging(point: &Point) -> f64 {
    of_rounds(&point.exchanges, |outcome| outcome.makespan)
}

fn framed(point: &Point) -> f64 {
    median(&point.framed)
}

impl Curves {
    /// All bandwidths, in order.
    fn bandwidths(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.points.iter().filter_map(|point| point.bwbn).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// A curve, which is flat if its strategy does not depend on the bandwidth.
    fn curve(&self, strategy: Strategy, value: Value) -> Vec<(f64, f64)> {
        let own = self.points.iter().filter(|point| point.strategy == strategy);
        let at = |point: &Point| match point.bwbn {
            Some(bwbn) => vec![(bwbn, value(point))],
            None => self.bandwidths().into_iter().map(|bwbn| (bwbn, value(point))).collect(),
        };
        own.flat_map(at).collect()
    }

    /// A row for each bandwidth.
    fn orders(&self) -> Vec<Vec<String>> {
        let row = |(at, bwbn): (usize, f64)| {
            let by = |value: Value| {
                let mut all: Vec<(f64, &str)> = Strategy::ALL
                    .iter()
                    .filter_map(|&strategy| Some((self.curve(strategy, value).get(at)?.1, strategy.name())))
                    .collect();
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                all.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
            };
            vec![bwbn.to_string(), by(live), by(simulated), by(exchanging)]
        };
        self.bandwidths().into_iter().enumerate().map(row).collect()
    }

    /// A row for each strategy that spans clusters.
    fn crossings(&self) -> Vec<Vec<String>> {
        let row = |&(strategy, paper): &(Strategy, &str)| {
            let crosses =
                |value: Value| crossing(&self.curve(strategy, value), &self.curve(Strategy::Idea, value));
            vec![
                strategy.name().to_owned(),
                crosses(live),
                crosses(simulated),
                crosses(exchanging),
                crosses(framed),
                paper.to_owned(),
            ]
        };
        PAPER.iter().map(row).collect()
    }

    fn plot(&self, (word, title, unit): (&str, &str, &str), value: Value) -> Plot {
        let series = |&strategy: &Strategy| Series {
            name: strategy.name().to_owned(),
            points: self.curve(strategy, value).into_iter().map(|(x, y)| Place { x, y, half: 0.0 }).collect(),
        };
        let axes = ("bandwidth between two tasks, BWBN (scaled Mbit/s)", unit);
        Plot::new(&format!("{NAME}{word}"), title, axes, Strategy::ALL.iter().map(series).collect())
    }

    fn plots(&self) -> Vec<Plot> {
        vec![
            self.plot(("", "Makespan on daemons", "makespan (s)"), live),
            self.plot(("-simulated", "Makespan, simulated", "makespan (s)"), simulated),
            self.plot(("-utilisation", "Utilisation on daemons", "mean utilisation (%)"), |point| {
                of_rounds(&point.live, |outcome| outcome.utilisation * 100.0)
            }),
        ]
    }
}

/// Where a curve that begins below a level first reaches it; between two points it is a line.
fn crossing(curve: &[(f64, f64)], level: &[(f64, f64)]) -> String {
    let above: Vec<(f64, f64)> =
        curve.iter().zip(level).map(|(&(x, y), &(_, level))| (x, y - level)).collect();
    let (Some(&(first, at_first)), Some(&(last, _))) = (above.first(), above.last()) else {
        return "–".to_owned();
    };
    if at_first > 0.0 {
        return format!("behind it from {first} on");
    }
    let found = above.windows(2).find(|pair| pair[1].1 > 0.0);
    let between = |pair: &[(f64, f64)]| {
        let [(x, below), (next, above)] = [pair[0], pair[1]];
        number(x + (next - x) * -below / (above - below))
    };
    found.map_or_else(|| format!("before it up to {last}"), between)
}

fn table(name: &str, title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new(name, title, head);
    for row in rows {
        table.row(row);
    }
    table
}

const ORDER_HEAD: [&str; 4] = ["BWBN", "live", "simulated", "and links used in exchanges only"];
const CROSSINGS_HEAD: [&str; 6] =
    ["strategy", "live", "simulated", "and links used in exchanges only", "pvm sim", "paper"];

impl Curves {
    /// As it is printed: tables, and plots.
    pub fn report(&self) -> Report {
        let rows = self.points.iter().map(Point::row).collect();
        let tables = vec![
            table(NAME, MAKESPANS, &HEAD, rows),
            table(ORDER.0, ORDER.1, &ORDER_HEAD, self.orders()),
            table(CROSSINGS.0, CROSSINGS.1, &CROSSINGS_HEAD, self.crossings()),
        ];
        Report { tables, plots: self.plots(), ..Report::default() }
    }

    /// As the page has it.
    pub fn shown(&self) -> Vec<Shown> {
        let rounds = self.points.first().map_or(0, |point| point.live.len());
        let spread = if rounds == 1 { "One round".to_owned() } else { format!("Medians of {rounds} rounds") };
        let shown =
            |(name, title): (&'static str, &'static str), head: &[&str], rows: Vec<Vec<String>>| Shown {
                name,
                title,
                command: COMMAND,
                spread: Some(spread.clone()),
                columns: head.iter().map(|&name| name.to_owned()).collect(),
                rows,
                ..Shown::default()
            };
        let rows = self.points.iter().map(Point::row).collect();
        let note = format!(
            "{} jobs. BWBN in scaled Mbit/s, of {} kbit/s each. Jobs in one cluster took {} ms longer than their work, in the median.",
            self.jobs,
            MEGABIT / 1000.0,
            number(median(&self.late))
        );
        let ratios = vec![["live, s", "simulated, s"]];
        vec![
            Shown { ratios, note, plots: self.plots(), ..shown((NAME, MAKESPANS), &HEAD, rows) },
            shown(ORDER, &ORDER_HEAD, self.orders()),
            shown(CROSSINGS, &CROSSINGS_HEAD, self.crossings()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(strategy: Strategy, bwbn: Option<f64>, makespan: f64) -> Point {
        let outcome = Outcome { makespan, utilisation: 0.5, spanning: 0.25 };
        Point {
            strategy,
            name: strategy.name(),
            bwbn,
            live: vec![outcome],
            stretch: vec![vec![0.5, 1.0, 1.5]],
            local: vec![vec![1.5], vec![1.5]],
            simulated: vec![Outcome { makespan: makespan + 1.0, ..outcome }],
            late: vec![Outcome { makespan: makespan + 1.2, ..outcome }],
            exchanges: vec![Outcome { makespan: makespan + 1.5, ..outcome }],
            framed: vec![makespan + 2.0],
        }
    }

    fn curves() -> Curves {
        let mut points =
            vec![point(Strategy::Bfnp, Some(1.0), 10.0), point(Strategy::Bfnp, Some(101.0), 30.0)];
        points.push(point(Strategy::Sncp, Some(1.0), 22.0));
        points.push(point(Strategy::Sncp, Some(101.0), 40.0));
        points.push(point(Strategy::Idea, None, 20.0));
        Curves { points, jobs: 7, late: vec![20.0] }
    }

    #[test]
    fn tables_have_a_row_for_each_point_and_for_each_bandwidth() {
        let report = curves().report();
        let [all, order, _] = &report.tables[..] else { panic!("{report:?}") };
        let row = [
            "BFNP", "1", "10.00", "11.00", "11.20", "11.50", "12.00", "50.00", "50.00", "25.00", "25.00",
            "1.000", "1.500",
        ];
        assert_eq!(all.rows[0], row);
        assert_eq!(all.rows[4][..3], ["Idea", "–", "20.00"]);
        assert_eq!(all.rows[4][9], "–");
        assert_eq!(order.rows[0][..2], ["1", "BFNP, Idea, SNCP"]);
        assert_eq!(order.rows[1][..2], ["101", "Idea, BFNP, SNCP"]);
        assert_eq!(curves().shown().len(), 3);
    }

    #[test]
    fn curves_cross_the_ideal_one() {
        let rows = curves().crossings();
        assert_eq!(rows[0], ["BFNP", "51.00", "51.00", "51.00", "51.00", "80"]);
        assert_eq!(rows[3][..2], ["SNCP", "behind it from 1 on"]);
        assert_eq!(rows[1][1], "–", "it was not measured");
        assert_eq!(crossing(&[(1.0, 1.0), (9.0, 2.0)], &[(1.0, 3.0), (9.0, 3.0)]), "before it up to 9");
    }

    #[test]
    fn the_ideal_curve_is_flat() {
        let plot = curves().plots().remove(0);
        let ideal = plot.series.iter().find(|series| series.name == "Idea").expect("a curve");
        assert_eq!(
            ideal.points.iter().map(|place| (place.x, place.y)).collect::<Vec<_>>(),
            [(1.0, 20.0), (101.0, 20.0)]
        );
        assert!(plot.svg().is_ok());
    }
}
