//! Slowdowns, shares and switches as tables and plots.

use super::{ALONE, Alone, COMPETITIONS, Competition, MODES, Mode, NAME, Runs, Values};
use pvm_sim::report::{Plot, Point, Report, Series, Table, number};
use pvm_sim::stats::Measured;
use serde::Serialize;

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Shared {
    /// By competition, grain and mode.
    pub runs: Vec<Runs>,
    /// Of a program that has the hosts to itself, by grain.
    pub alone: Vec<Alone>,
}

/// A value of a run.
type Get = fn(&Values) -> f64;

impl Shared {
    /// Tables and plots.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        for competition in COMPETITIONS.iter().filter(|competition| self.modes(competition).next().is_some())
        {
            report.tables.push(self.slowdowns(competition));
            report.tables.push(self.shares(competition));
            if !competition.is_short {
                report.plots.push(self.plot(competition));
            }
        }
        if !self.alone.is_empty() {
            report.tables.push(self.overhead());
        }
        report
    }

    fn modes<'s>(&'s self, competition: &'s Competition) -> impl Iterator<Item = &'static Mode> + 's {
        MODES.iter().filter(|mode| self.of(competition, mode).next().is_some())
    }

    fn of<'s>(&'s self, competition: &'s Competition, mode: &'s Mode) -> impl Iterator<Item = &'s Runs> {
        self.runs
            .iter()
            .filter(|runs| runs.competition == *competition && runs.mode == *mode && !runs.rounds.is_empty())
    }

    /// A row for each grain, a column for each mode.
    fn table(
        &self,
        competition: &Competition,
        name: &str,
        what: &str,
        cell: impl Fn(&Runs) -> String,
    ) -> Table {
        let modes: Vec<&Mode> = self.modes(competition).collect();
        let mut head = vec!["grain, µs"];
        head.extend(modes.iter().map(|mode| mode.name));
        let title = format!("{name} ({}: {what})", competition.title);
        let mut table = Table::new(name, &title, &head);
        for &grain in competition.grains(false) {
            let cells: Vec<String> = modes
                .iter()
                .map(|mode| self.of(competition, mode).find(|runs| runs.grain == grain))
                .map(|runs| runs.map_or("–".to_owned(), &cell))
                .collect();
            if cells.iter().any(|cell| cell != "–") {
                table.row(std::iter::once(grain.to_string()).chain(cells));
            }
        }
        table
    }

    fn slowdowns(&self, competition: &Competition) -> Table {
        let what = format!("time against the time alone; {} is fair", competition.programs);
        self.table(competition, &competition.part(), &what, |runs| {
            let others = runs.median(|values| values.others_slowdown);
            let own = runs.spread(|values| values.slowdown);
            if others > 0.0 { format!("{own} : {}", number(others)) } else { own }
        })
    }

    fn shares(&self, competition: &Competition) -> Table {
        let what = "% of the processors; % for the daemons; switches of tasks per second and host";
        self.table(competition, &format!("{}-shares", competition.part()), what, |runs| {
            let percent = |get: Get| number(runs.median(get) * 100.0);
            let own = percent(|values| values.share);
            let others = percent(|values| values.others_share);
            let shares = if others == "0" { own } else { format!("{own} : {others}") };
            let daemons = percent(|values| values.daemons_share);
            format!("{shares}; {daemons}; {:.0}", runs.median(|values| values.switches))
        })
    }

    /// The cost of turns for a program on dedicated hosts.
    fn overhead(&self) -> Table {
        let mut table = Table::new(
            &format!("{NAME}-{ALONE}"),
            "exchanges per second of a program that has the hosts to itself, and what turns cost it (95 % confidence)",
            &["grain, µs", "local", "starts", "loss, %"],
        );
        for alone in &self.alone {
            let (loss, half) = alone.loss();
            let half = half.map_or_else(String::new, |half| format!(" ± {:.2}", half * 100.0));
            let rate = Measured::of(&alone.rates).map_or(0.0, |rates| rates.median);
            let starts = alone.losses.len().to_string();
            table.row([alone.grain.to_string(), number(rate), starts, format!("{:.2}{half}", loss * 100.0)]);
        }
        table
    }

    fn plot(&self, competition: &Competition) -> Plot {
        let series = self.modes(competition).map(|mode| Series {
            name: mode.name.to_owned(),
            points: self.of(competition, mode).filter_map(Runs::point).collect(),
        });
        let fair = Series {
            name: "fair".to_owned(),
            points: self
                .of(competition, &MODES[0])
                .map(|runs| Point { x: runs.grain as f64, y: f64::from(competition.programs), half: 0.0 })
                .collect(),
        };
        let title = format!("A program that shares two hosts: {}", competition.title);
        let axes = ("work between two exchanges, µs", "time / time alone");
        Plot::measured(&competition.part(), &title, axes, series.chain([fair]).collect())
    }
}

impl Runs {
    fn summary(&self, get: Get) -> Option<Measured> {
        Measured::of(&self.rounds.iter().map(get).collect::<Vec<_>>())
    }

    fn median(&self, get: Get) -> f64 {
        self.summary(get).map_or(0.0, |summary| summary.median)
    }

    fn spread(&self, get: Get) -> String {
        self.summary(get).map_or_else(String::new, |summary| summary.cell())
    }

    fn point(&self) -> Option<Point> {
        Some(self.summary(|values| values.slowdown)?.point(self.grain as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(competition: usize, mode: usize, slowdowns: &[f64]) -> Runs {
        let values = |&slowdown: &f64| Values {
            slowdown,
            share: 0.25,
            others_slowdown: if competition == 2 { 2.0 } else { 0.0 },
            others_share: if competition == 2 { 0.5 } else { 0.0 },
            daemons_share: 0.125,
            switches: 1000.0,
            rate: 100.0,
        };
        let rounds = slowdowns.iter().map(values).collect();
        Runs { competition: COMPETITIONS[competition], grain: 1000, mode: MODES[mode], rounds }
    }

    #[test]
    fn tables_have_medians_shares_and_switches() {
        let local = MODES.iter().position(|mode| mode.name == "local").expect("a mode");
        let runs = vec![runs(2, 0, &[2.0, 1.0, 3.0]), runs(2, local, &[4.0; 3])];
        let shared = Shared { runs, alone: Vec::new() };
        let report = shared.report();
        assert_eq!(report.tables[0].head, ["grain, µs", "demand-based", "local"]);
        assert_eq!(report.tables[0].rows[0], ["1000", "2.000 ±25% : 2.000", "4.000 ±0% : 2.000"]);
        assert_eq!(
            report.tables[1].rows[0],
            ["1000", "25.00 : 50.00; 12.50; 1000", "25.00 : 50.00; 12.50; 1000"]
        );
        assert!(report.plots[0].svg().expect("drawn").contains("fair"));
    }

    #[test]
    fn copies_are_all_alike_and_a_program_alone_has_a_loss() {
        let alone = Alone { grain: 1000, rates: vec![90.0, 100.0, 110.0], losses: vec![0.01, 0.02, 0.03] };
        let shared = Shared { runs: vec![runs(0, 0, &[2.0])], alone: vec![alone] };
        let report = shared.report();
        assert_eq!(report.tables[0].rows[0], ["1000", "2.000 ±0%"]);
        assert_eq!(report.tables[1].rows[0], ["1000", "25.00; 12.50; 1000"]);
        assert_eq!(report.tables[2].rows[0], ["1000", "100.0", "3", "2.00"]);
    }
}
