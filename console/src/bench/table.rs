//! The result as a table for people.

use super::args::Part;
use super::plan::Place;
use super::result::{Limit, Line, Note, Outcome};
use std::fmt::Write as _;

const HEADER: [&str; 7] = ["MEASURED", "WHERE", "SIZE", "VALUE", "±", "LIMIT", "SHARE"];
/// Columns of numbers, which are aligned to the right.
const IS_NUMBER: [bool; 7] = [false, false, true, true, true, true, true];

/// The hosts, the table, and what is to be said about it.
pub fn text(outcome: &Outcome) -> String {
    let mut text = hosts(outcome);
    let mut rows = vec![HEADER.map(str::to_owned)];
    let mut ends = vec!["BUSY".to_owned()];
    for line in &outcome.lines {
        rows.push(cells(line, outcome));
        ends.push(end(line));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    for (row, end) in rows.iter().zip(ends) {
        let mut line = String::new();
        for ((cell, &width), is_number) in row.iter().zip(&widths).zip(IS_NUMBER) {
            let _ =
                if is_number { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:width$}  ") };
        }
        let _ = writeln!(text, "{}", format!("{line}{end}").trim_end());
    }
    for (name, reason) in missing(outcome) {
        let _ = writeln!(text, "{name}: not measured: {reason}");
    }
    text
}

/// A line per computer.
fn hosts(outcome: &Outcome) -> String {
    let mut text = format!("medians of up to {} rounds\n", outcome.rounds);
    let computers = outcome.hosts.iter().map(|host| host.computer).max().map_or(0, |last| last + 1);
    for computer in 0..computers {
        let here: Vec<_> = outcome.hosts.iter().filter(|host| host.computer == computer).collect();
        let names: Vec<&str> = here.iter().map(|host| host.name.as_str()).collect();
        let processors = here.iter().find_map(|host| host.processors);
        let processors = match processors {
            Some(1) => "1 processor".to_owned(),
            Some(count) => format!("{count} processors"),
            None => "processors unknown".to_owned(),
        };
        let shared = if here.len() > 1 { ", which they share: they run on one computer" } else { "" };
        let _ = writeln!(text, "{}: {processors}{shared}", names.join(", "));
    }
    text.push('\n');
    text
}

/// Where a line was measured.
pub fn place(line: &Line, outcome: &Outcome) -> String {
    let name = |host: usize| outcome.hosts.get(host).map_or("?", |host| host.name.as_str());
    let place = match line.place {
        Place::Host(host) if line.part == Part::Spawn => name(host).to_owned(),
        Place::Host(host) => format!("within {}", name(host)),
        Place::Pair(a, b) => format!("{} to {}", name(a), name(b)),
        Place::All => format!("all {} hosts", outcome.hosts.len()),
    };
    if line.is_by_daemons { format!("{place}, by daemons") } else { place }
}

fn cells(line: &Line, outcome: &Outcome) -> [String; 7] {
    let (limit, share) = match &line.limit {
        Some(Limit::Measured { name, value, share }) => {
            (format!("{name} {}", quantity(line.part, *value)), share_text(*share))
        }
        Some(Limit::Missing { name, .. }) => (format!("{name} -"), "-".to_owned()),
        Some(Limit::Cores { processors, share }) => (format!("cores {processors}"), share_text(*share)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let value = line.value.as_ref().map_or_else(|| "-".to_owned(), |value| quantity(line.part, value.median));
    let spread = line.value.as_ref().filter(|value| value.rounds.len() > 1);
    let spread = spread.map_or_else(|| "-".to_owned(), |value| percent(value.spread() * 100.0));
    [line.part.name().to_owned(), place(line, outcome), size(line), value, spread, limit, share]
}

/// How busy the processors were, and a note.
fn end(line: &Line) -> String {
    let busy = line.busy.map_or_else(|| "   -".to_owned(), |busy| format!("{:>4}", percent(busy)));
    let rounds = match line.value.as_ref().map_or(0, |value| value.rounds.len()) {
        0 => None,
        1 => Some("1 round".to_owned()),
        rounds => Some(format!("{rounds} rounds")),
    };
    match (&line.note, rounds) {
        (None, _) => busy,
        (Some(Note::LeftOut(reason)), None) => format!("{busy}  not measured: {reason}"),
        (Some(Note::LeftOut(reason)), Some(rounds)) => format!("{busy}  after {rounds}: {reason}"),
        (Some(Note::Failed(reason)), None) => format!("{busy}  failed: {reason}"),
        (Some(Note::Failed(reason)), Some(rounds)) => format!("{busy}  failed after {rounds}: {reason}"),
    }
}

/// The limits that were not measured, each reason once.
fn missing(outcome: &Outcome) -> Vec<(&'static str, &str)> {
    let mut all = Vec::new();
    for line in &outcome.lines {
        if let Some(Limit::Missing { name, reason }) = &line.limit
            && !all.contains(&(*name, reason.as_str()))
        {
            all.push((*name, reason.as_str()));
        }
    }
    all
}

fn size(line: &Line) -> String {
    match (line.part, line.size) {
        (Part::Spawn, 1) => "1 task".to_owned(),
        (Part::Spawn, tasks) => format!("{tasks} tasks"),
        (_, bytes) => bytes_text(bytes),
    }
}

/// A length of messages.
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// A value with its unit, in three digits.
pub fn quantity(part: Part, value: f64) -> String {
    match part {
        Part::Latency => format!("{} µs", digits(value)),
        Part::Spawn => format!("{} tasks/s", digits(value)),
        Part::Rate if value >= 1e6 => format!("{} M/s", digits(value / 1e6)),
        Part::Rate if value >= 1e4 => format!("{} k/s", digits(value / 1e3)),
        Part::Rate => format!("{} /s", digits(value)),
        Part::Bandwidth | Part::AllToAll if value >= 1e9 => format!("{} GB/s", digits(value / 1e9)),
        Part::Bandwidth | Part::AllToAll => format!("{} MB/s", digits(value / 1e6)),
    }
}

/// Three digits, or all of those before the point.
fn digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value if value >= 0.9995 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

fn percent(value: f64) -> String {
    format!("{value:.0}%")
}

/// A share, which may be small.
fn share_text(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}%") } else { percent(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::HostLine;
    use pvm_sim::stats::Measured;

    fn host(name: &str, computer: usize) -> HostLine {
        let (tid, arch) = ("t40000".to_owned(), "LINUX64".to_owned());
        HostLine { name: name.into(), tid, arch, speed: 1000, processors: Some(2), computer }
    }

    fn line(part: Part, place: Place, size: u64, value: f64) -> Line {
        let value = Measured::of(&[0.9, 0.98, 1.0, 1.02, 1.1].map(|part| value * part));
        Line { part, place, is_by_daemons: false, size, value, limit: None, busy: Some(98.7), note: None }
    }

    #[test]
    fn a_table_has_values_with_units_and_their_limits() {
        let measured = |name, value, share| Some(Limit::Measured { name, value, share });
        let missing = Limit::Missing { name: "link", reason: "b does not reach a by TCP".into() };
        let lines = vec![
            Line { limit: measured("exec", 890.4, 72.4), ..line(Part::Spawn, Place::Host(0), 1, 645.2) },
            Line {
                limit: measured("cores", 0.019, 8.29),
                ..line(Part::Latency, Place::Host(1), 1024, 0.2291)
            },
            Line {
                is_by_daemons: true,
                limit: Some(missing),
                ..line(Part::Bandwidth, Place::Pair(0, 1), 1 << 20, 336e6)
            },
            Line {
                limit: Some(Limit::Cores { processors: 2, share: 98.7 }),
                note: Some(Note::Failed("b was lost".into())),
                ..line(Part::Rate, Place::Host(0), 64, 11.04e6)
            },
            Line {
                value: None,
                busy: None,
                note: Some(Note::LeftOut("one host".into())),
                ..line(Part::AllToAll, Place::All, 65536, 0.0)
            },
        ];
        let hosts = vec![host("a", 0), host("b", 0), host("c", 1)];
        let expected = "\
medians of up to 5 rounds
a, b: 2 processors, which they share: they run on one computer
c: 2 processors

MEASURED    WHERE                 SIZE        VALUE   ±             LIMIT  SHARE  BUSY
spawn       a                   1 task  645 tasks/s  2%  exec 890 tasks/s    72%   99%
latency     within b             1 KiB     0.229 µs  2%    cores 0.019 µs   8.3%   99%
bandwidth   a to b, by daemons   1 MiB     336 MB/s  2%            link -      -   99%
rate        within a              64 B     11.0 M/s  2%           cores 2    99%   99%  failed after 5 rounds: b was lost
all-to-all  all 3 hosts         64 KiB            -   -                 -      -     -  not measured: one host
link: not measured: b does not reach a by TCP
";
        assert_eq!(text(&Outcome { hosts, rounds: 5, seconds: 25.0, lines }), expected);
    }

    #[test]
    fn values_have_three_digits_and_a_unit() {
        let shown = [
            quantity(Part::Rate, 6540.4),
            quantity(Part::Rate, 196_190.0),
            quantity(Part::Bandwidth, 11.94e9),
            quantity(Part::AllToAll, 99.96e6),
            quantity(Part::Latency, 9.996),
            quantity(Part::Spawn, 12_345.6),
        ];
        assert_eq!(shown, ["6540 /s", "196 k/s", "11.9 GB/s", "100 MB/s", "10.0 µs", "12346 tasks/s"]);
        assert_eq!([1, 1024, 1536, 16 << 20].map(bytes_text), ["1 B", "1 KiB", "1536 B", "16 MiB"]);
    }
}
