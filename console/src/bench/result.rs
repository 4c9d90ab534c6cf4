//! From measurements to the lines of the result: values, spreads, and shares of what limits them.

use super::args::Part;
use super::measure::{Ledger, Record};
use super::order::Way;
use super::plan::{Cell, Place, Row, Scope, What};
use pvm_sim::stats::Measured;

/// A host of the virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLine {
    /// Its name.
    pub name: String,
    /// Its id.
    pub tid: String,
    /// Its architecture.
    pub arch: String,
    /// Its speed.
    pub speed: i32,
    /// Number of processors; unknown of a host without a worker.
    pub processors: Option<u32>,
    /// The number of the computer that it runs on, from 0: the same for hosts on one computer.
    pub computer: usize,
}

/// What limits a value, and how close the value comes to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// What the hosts reach without PVM.
    Measured {
        /// Its name.
        name: &'static str,
        /// Its value, in the unit of the line.
        value: f64,
        /// The share that the line reaches, as a percentage.
        share: f64,
    },
    /// It was not measured.
    Missing {
        /// Its name.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The processors.
    Cores {
        /// Their number.
        processors: u32,
        /// The part of their time that was used, as a percentage.
        share: f64,
    },
}

/// Why there is no value, or why it is not of all rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It was left out.
    LeftOut(String),
    /// It failed.
    Failed(String),
}

/// A line of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The part.
    pub part: Part,
    /// Where it was measured.
    pub place: Place,
    /// Whether messages went by the daemons alone.
    pub is_by_daemons: bool,
    /// Tasks of a batch, or bytes of a message.
    pub size: u64,
    /// The value, if there is one.
    pub value: Option<Measured>,
    /// What limits it; `None` if that is not known.
    pub limit: Option<Limit>,
    /// The part of the hosts' processor time that was used, as a percentage.
    pub busy: Option<f64>,
    /// What was not measured.
    pub note: Option<Note>,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The hosts.
    pub hosts: Vec<HostLine>,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// The time that was aimed at, seconds.
    pub seconds: f64,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Outcome {
    /// Whether nothing has failed.
    pub fn is_complete(&self) -> bool {
        !self.lines.iter().any(|line| matches!(line.note, Some(Note::Failed(_))))
    }
}

/// The name of what a measurement without PVM stands for.
pub fn limit_name(what: What) -> &'static str {
    match what {
        What::Execs => "exec",
        What::Copies => "memory",
        What::Flips => "cores",
        What::Spawn | What::PingPong(_) | What::Flood(_) | What::Exchange(_) => "link",
    }
}

/// The line of a row. `note` turns the problem of a record into a note; hosts have their numbers of processors.
pub fn line(
    row: &Row,
    scope: &Scope,
    ledger: &Ledger,
    hosts: &[HostLine],
    note: impl Fn(&Record) -> Option<Note>,
) -> Line {
    let Cell { what, place, size } = row.cell;
    let record = ledger.get(&row.cell);
    let value = record.and_then(|record| measured(row.part, row.cell, scope, record));
    let busy = record.and_then(|record| record.usage.percent()).filter(|_| value.is_some());
    let median = value.as_ref().map(|value| value.median);
    Line {
        part: row.part,
        place,
        is_by_daemons: matches!(
            what,
            What::PingPong(Way::ByDaemons) | What::Flood(Way::ByDaemons) | What::Exchange(Way::ByDaemons)
        ),
        size,
        value,
        limit: limit(row, scope, ledger, median, &note).or_else(|| cores(place, hosts, busy)),
        busy,
        note: record.and_then(note),
    }
}

fn measured(part: Part, cell: Cell, scope: &Scope, record: &Record) -> Option<Measured> {
    Measured::of(&record.seconds.iter().map(|&seconds| scope.value(part, cell, seconds)).collect::<Vec<_>>())
}

/// What limits a line by measurement, if it has such a limit.
fn limit(
    row: &Row,
    scope: &Scope,
    ledger: &Ledger,
    value: Option<f64>,
    note: &impl Fn(&Record) -> Option<Note>,
) -> Option<Limit> {
    let value = value?;
    let (cell, record) = ledger.get_key_value(&row.limit?)?;
    let name = limit_name(cell.what);
    let Some(all) = measured(row.part, *cell, scope, record) else {
        return note(record)
            .map(|(Note::LeftOut(reason) | Note::Failed(reason))| Limit::Missing { name, reason });
    };
    let limit = match cell.what {
        // Where other programs have the processors, most rounds say nothing about these.
        What::Flips => scope.value(row.part, *cell, record.seconds.iter().copied().fold(f64::MAX, f64::min)),
        _ => all.median,
    };
    Some(Limit::Measured { name, value: limit, share: share(row.part, value, limit) })
}

/// The share of a limit that a value reaches, as a percentage. Of times, shorter ones are better.
fn share(part: Part, value: f64, limit: f64) -> f64 {
    let (less, more) = if part == Part::Latency { (limit, value) } else { (value, limit) };
    if more > 0.0 { less / more * 100.0 } else { 0.0 }
}

/// The processors of the host, where nothing else limits a line.
fn cores(place: Place, hosts: &[HostLine], busy: Option<f64>) -> Option<Limit> {
    let Place::Host(host) = place else { return None };
    Some(Limit::Cores { processors: hosts.get(host)?.processors?, share: busy? })
}

/// Numbers computers by the names that their hosts have told, in the order of the hosts. A host without a name is alone.
pub fn computers(names: &[&str]) -> Vec<usize> {
    let mut numbers: Vec<usize> = Vec::new();
    for (host, name) in names.iter().enumerate() {
        let same = names[..host].iter().position(|other| !name.is_empty() && other == name);
        let next = numbers.iter().max().map_or(0, |max| max + 1);
        numbers.push(same.map_or(next, |same| numbers[same]));
    }
    numbers
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::args::Pairs;
    use crate::bench::crew::Problem;
    use crate::bench::usage::Usage;

    const SCOPE: Scope = Scope { hosts: 2, first: 4, pairs: Pairs::First, max_tasks: 10, quick: true };

    pub(in super::super) fn host(name: &str) -> HostLine {
        HostLine {
            name: name.into(),
            tid: "t40000".into(),
            arch: "LINUX64".into(),
            speed: 1000,
            processors: Some(2),
            computer: 0,
        }
    }

    fn note(record: &Record) -> Option<Note> {
        match record.problem.as_ref()? {
            Problem::LeftOut(reason) => Some(Note::LeftOut(reason.clone())),
            _ => Some(Note::Failed("lost".into())),
        }
    }

    fn of(row: &Row, records: &[(Cell, &[f64], Option<Problem>)]) -> Line {
        let record = |seconds: &[f64], problem: &Option<Problem>| Record {
            seconds: seconds.to_vec(),
            usage: Usage { busy: 60, total: 100 },
            problem: problem.clone(),
            ..Record::default()
        };
        let ledger =
            records.iter().map(|(cell, seconds, problem)| (*cell, record(seconds, problem))).collect();
        line(row, &SCOPE, &ledger, &[host("a"), host("b")], note)
    }

    #[test]
    fn a_time_is_compared_with_a_shorter_one_and_a_rate_with_a_greater_one() {
        let rows = SCOPE.rows(Part::Latency);
        let line = of(&rows[0], &[(rows[0].cell, &[4e-6], None), (rows[0].limit.unwrap(), &[1e-6], None)]);
        let Some(Limit::Measured { name: "cores", value, share }) = line.limit else { panic!("{line:?}") };
        assert!((value - 0.5).abs() < 1e-9 && (share - 25.0).abs() < 1e-9);
        assert!((line.busy.unwrap() - 60.0).abs() < 1e-9);
        let rows = SCOPE.rows(Part::Spawn);
        let line = of(&rows[0], &[(rows[0].cell, &[0.002], None), (rows[0].limit.unwrap(), &[0.001], None)]);
        let Some(Limit::Measured { name: "exec", value, share }) = line.limit else { panic!("{line:?}") };
        assert!((value - 1000.0).abs() < 1e-6 && (share - 50.0).abs() < 1e-9);
    }

    #[test]
    fn where_nothing_else_is_measured_the_processors_limit_a_line() {
        let rows = SCOPE.rows(Part::Rate);
        let line = of(&rows[0], &[(rows[0].cell, &[64e-6], None)]);
        assert_eq!(line.limit, Some(Limit::Cores { processors: 2, share: 60.0 }));
        // Between hosts they do not.
        let between = rows.iter().find(|row| matches!(row.cell.place, Place::Pair(..))).unwrap();
        assert_eq!(of(between, &[(between.cell, &[64e-6], None)]).limit, None);
    }

    #[test]
    fn a_limit_that_was_not_measured_has_its_reason() {
        let rows = SCOPE.rows(Part::Rate);
        let row = rows.iter().find(|row| row.limit.is_some()).unwrap();
        let reason = "b does not reach a by TCP".to_owned();
        let missing = (row.limit.unwrap(), &[][..], Some(Problem::LeftOut(reason.clone())));
        let line = of(row, &[(row.cell, &[64e-6], None), missing]);
        assert_eq!(line.limit, Some(Limit::Missing { name: "link", reason }));
        assert!(line.value.is_some() && line.note.is_none());
    }

    #[test]
    fn what_was_measured_before_a_loss_stays() {
        let rows = SCOPE.rows(Part::Rate);
        let line = of(&rows[0], &[(rows[0].cell, &[64e-6, 64e-6], Some(Problem::Gone(0)))]);
        assert_eq!(line.value.as_ref().unwrap().rounds.len(), 2);
        assert_eq!(line.note, Some(Note::Failed("lost".into())));
        let outcome = Outcome { hosts: vec![], rounds: 3, seconds: 5.0, lines: vec![line] };
        assert!(!outcome.is_complete());
        let line = of(&rows[0], &[(rows[0].cell, &[], Some(Problem::LeftOut("long".into())))]);
        assert_eq!((&line.value, line.busy), (&None, None));
        assert!(Outcome { lines: vec![line], ..outcome }.is_complete());
    }

    #[test]
    fn hosts_on_one_computer_have_its_number() {
        assert_eq!(computers(&["x", "y", "x", "", "", "y"]), [0, 1, 0, 2, 3, 1]);
        assert_eq!(computers(&[]), Vec::<usize>::new());
    }
}
