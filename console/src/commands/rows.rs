//! `pvm rows`: the matrix by which teams take turns on all hosts at once.

use super::Report;
use crate::shell::tables;
use anyhow::Result;
use pvm_wire::rows::RowsReport;
use pvm3::Task;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The matrix of the machine.
pub fn rows(task: &mut Task) -> Result<Report> {
    let report = task.rows()?;
    Ok(Report::good(table(&report), json_of(&report)))
}

/// The teams in a row on a host, each with its processes. What a report names and does not have is left out.
fn place(report: &RowsReport, row: u32, host: usize) -> Vec<(&str, u32)> {
    let here = report.places.iter().filter(|place| place.row == row && place.host as usize == host);
    here.filter_map(|place| Some((report.teams.get(place.team as usize)?.as_str(), place.processes)))
        .collect()
}

/// Idle processors of a row, in thousandths of all.
fn idle(report: &RowsReport, row: u32) -> u64 {
    let all: u64 = report.hosts.iter().map(|&(_, cores)| u64::from(cores)).sum();
    let of_row = report.places.iter().filter(|place| place.row == row);
    let used: u64 = of_row.map(|place| u64::from(place.processes)).sum();
    (all.saturating_sub(used) * 1000).checked_div(all).unwrap_or(0)
}

fn table(report: &RowsReport) -> String {
    if !report.is_on {
        return "This machine has no matrix of teams: PVM_COSCHEDULING=dasic at the master makes one, and turns = \"rows\" of a queue; a master with PVM_COSCHEDULING=implicit makes none.\n"
            .to_owned();
    }
    let mut lines = vec![vec!["ROW".to_owned(), "NOW".to_owned(), "IDLE".to_owned()]];
    lines[0].extend(report.hosts.iter().map(|(name, cores)| format!("{name} ({cores})")));
    let percent = |part: u64| format!("{:.0}%", part as f64 / 10.0);
    for row in 0..report.count {
        let now = if row == report.now && (report.count > 1 || report.has_others) { "*" } else { "" };
        let mut line = vec![row.to_string(), now.to_owned(), percent(idle(report, row))];
        for host in 0..report.hosts.len() {
            let team = |(name, count): &(&str, u32)| match count {
                1 => (*name).to_owned(),
                count => format!("{name}x{count}"),
            };
            line.push(place(report, row, host).iter().map(team).collect::<Vec<_>>().join(" "));
        }
        lines.push(line);
    }
    if report.has_others {
        let now = if report.now == report.count { "*" } else { "" };
        lines.push(vec!["others".to_owned(), now.to_owned()]);
    }
    let mut text = tables::columns(&lines);
    let _ = writeln!(text, "{} ms a row, {} idle", report.slice as f64 / 1000.0, percent(report.idle.into()));
    text
}

fn json_of(report: &RowsReport) -> Value {
    let hosts: Vec<Value> =
        report.hosts.iter().map(|(name, cores)| json!({ "name": name, "cores": cores })).collect();
    let row = |row: u32| {
        let mut teams = Vec::new();
        for (at, (host, _)) in report.hosts.iter().enumerate() {
            for (team, processes) in place(report, row, at) {
                teams.push(json!({ "team": team, "host": host, "processes": processes }));
            }
        }
        json!({ "idle": idle(report, row) as f64 / 1000.0, "places": teams })
    };
    let rows: Vec<Value> = (0..report.count).map(row).collect();
    json!({
        "on": report.is_on, "slice_us": report.slice, "now": report.now, "others": report.has_others, "idle": f64::from(report.idle) / 1000.0,
        "hosts": hosts, "rows": rows,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pvm_wire::rows::Place;

    /// Two rows of two hosts and two teams; each of these places has a row, a host, a team and its processes.
    pub(crate) fn report(places: &[(u32, u32, u32, u32)]) -> RowsReport {
        let place = |&(row, host, team, processes)| Place { row, host, team, processes };
        RowsReport {
            is_on: true,
            slice: 50_000,
            count: 2,
            now: 1,
            has_others: false,
            idle: 167,
            hosts: vec![("h1".into(), 2), ("h2".into(), 1)],
            teams: vec!["a".into(), "b".into()],
            places: places.iter().map(place).collect(),
        }
    }

    #[test]
    fn a_row_is_a_line_and_a_host_a_column() {
        let report = report(&[(0, 0, 0, 2), (0, 1, 0, 1), (1, 0, 1, 1), (1, 1, 1, 1)]);
        let expected = "ROW  NOW  IDLE  h1 (2)  h2 (1)\n0         0%    ax2     a\n1    *    0%    b       b\n50 ms a row, 17% idle\n";
        assert_eq!(table(&report), expected.replace("1    *    0% ", "1    *    33%"));
        let json = json_of(&report);
        assert_eq!(json["rows"][0]["places"][1], json!({ "team": "a", "host": "h2", "processes": 1 }));
        assert_eq!((&json["now"], &json["hosts"][0]["cores"]), (&json!(1), &json!(2)));
        let mixed = RowsReport { has_others: true, now: 2, ..report };
        assert!(table(&mixed).contains("\nothers  *\n50 ms"), "{}", table(&mixed));
        assert_eq!(json_of(&mixed)["others"], true);
        assert!(table(&RowsReport::default()).contains("PVM_COSCHEDULING=dasic"));
    }

    #[test]
    fn a_report_that_names_what_it_does_not_have_is_no_danger() {
        let places = vec![Place { row: 9, host: 9, team: 9, processes: u32::MAX }];
        let report = RowsReport { is_on: true, count: 1, places, ..RowsReport::default() };
        assert!(table(&report).starts_with("ROW"));
        assert_eq!(json_of(&report)["rows"][0]["places"], json!([]));
    }
}
