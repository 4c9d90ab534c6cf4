//! A row per task: its lifetime, its nested calls in order, and the times between them.

use pvm_wire::timeline::{Activity, Report, Span};
use pvm3::Tid;
use std::collections::{BTreeMap, BTreeSet};

/// Nanoseconds since 1970 by this host's clock.
pub type Moment = i64;

/// Less time than this between two calls is no computing.
const COMPUTING_MIN: i64 = 1_000;

/// The rows that are being collected.
#[derive(Debug)]
pub struct Rows {
    tasks: BTreeMap<Tid, Open>,
    /// Calls that may still be kept of all tasks together; a call with many receivers counts for more.
    room: usize,
    /// Programs whose calls are kept; all, if it is empty.
    programs: BTreeSet<String>,
    lost: u64,
}

/// The reports about a task so far.
#[derive(Debug, Default)]
struct Open {
    name: String,
    started: Option<Moment>,
    enrolled: Option<Moment>,
    left: Option<Moment>,
    ended: Option<Moment>,
    calls: Vec<Call>,
}

/// A task's row, finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The task.
    pub tid: Tid,
    /// Its program, empty if not known.
    pub name: String,
    /// Its life.
    pub begin: Moment,
    /// Its end, or that of the record.
    pub end: Moment,
    /// Whether its calls are recorded.
    pub told: bool,
    /// Whether it left the virtual machine in order, with all calls reported.
    pub left: bool,
    /// Its calls and the computing between them, in the order of their begins; each is within another or apart from
    /// it.
    pub calls: Vec<Call>,
}

/// A part of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its begin.
    pub begin: Moment,
    /// Its end, which is later.
    pub end: Moment,
    /// The activity; `None` is computing.
    pub what: Option<Activity>,
}

impl Rows {
    /// Keeps at most `calls` calls, and only those of the tasks of `programs`; an empty list means all programs.
    pub fn new(calls: u32, programs: &[String]) -> Self {
        // A report has the name without its folder.
        let name = |program: &String| program.rsplit('/').next().unwrap_or_default().to_owned();
        let programs = programs.iter().map(name).collect();
        Self { tasks: BTreeMap::new(), room: calls as usize, programs, lost: 0 }
    }

    /// A task has started by then.
    pub fn started(&mut self, tid: Tid, moment: Moment) {
        let started = &mut self.tasks.entry(tid).or_default().started;
        *started = Some(started.unwrap_or(moment).min(moment));
    }

    /// A task has ended.
    pub fn ended(&mut self, tid: Tid, moment: Moment) {
        self.tasks.entry(tid).or_default().ended.get_or_insert(moment);
    }

    /// The name of a task's program, unless the task has reported it.
    pub fn name(&mut self, tid: Tid, name: &str) {
        let row = self.tasks.entry(tid).or_default();
        if row.name.is_empty() {
            name.clone_into(&mut row.name);
        }
    }

    /// A task's report; `behind` is how far its clock is behind.
    pub fn report(&mut self, tid: Tid, report: Report, behind: i64) {
        let here = |moment: u64| i64::try_from(moment).unwrap_or(Moment::MAX).saturating_add(behind);
        let row = self.tasks.entry(tid).or_default();
        if !report.program.is_empty() {
            row.name = report.program;
        }
        if !self.programs.is_empty() && !self.programs.contains(&row.name) {
            row.left = report.left.map(here).or(row.left);
            return;
        }
        // A process can leave and come back as another task; as this one it has enrolled once.
        row.enrolled.get_or_insert(here(report.enrolled));
        row.left = report.left.map(here).or(row.left);
        self.lost = self.lost.saturating_add(report.lost);
        for Span { begin, end, what } in report.spans {
            let weight = if let Activity::Send { to, .. } = &what { 1 + to.len() } else { 1 };
            if weight > self.room {
                self.lost += 1;
            } else {
                self.room -= weight;
                row.calls.push(Call { begin: here(begin), end: here(end), what: Some(what) });
            }
        }
    }

    /// Calls that no row has, because there were too many.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// All rows; those still open end now.
    pub fn finish(self, now: Moment) -> Vec<Row> {
        self.tasks.into_iter().map(|(tid, row)| row.finish(tid, now)).collect()
    }
}

impl Open {
    fn finish(mut self, tid: Tid, now: Moment) -> Row {
        nest(&mut self.calls);
        let first = self.calls.iter().map(|call| call.begin).min();
        let last = self.calls.iter().map(|call| call.end).max();
        let begin = [self.started, self.enrolled, first, self.left, self.ended].into_iter().flatten().min();
        // The word of its daemon comes late; that of the task itself may come earlier than its end.
        let end = [self.ended.or(self.left), self.left, last, begin].into_iter().flatten().max();
        let end = if self.ended.is_none() && self.left.is_none() { end.max(Some(now)) } else { end };
        let begin = begin.unwrap_or(now);
        let told = self.enrolled.is_some();
        if let Some(enrolled) = self.enrolled {
            compute(&mut self.calls, enrolled, self.left);
        }
        Row {
            tid,
            name: self.name,
            begin,
            end: end.unwrap_or(now).max(begin + 1),
            told,
            left: self.left.is_some(),
            calls: self.calls,
        }
    }
}

/// Puts calls in the order of their begins, the outer ones first, and makes each lie within another or apart from it.
fn nest(calls: &mut [Call]) {
    calls.sort_by_key(|call| (call.begin, std::cmp::Reverse(call.end)));
    let mut open: Vec<Moment> = Vec::new();
    for call in calls {
        call.end = call.end.max(call.begin + 1);
        open.retain(|&end| end > call.begin);
        if let Some(&outer) = open.last() {
            call.end = call.end.min(outer);
        }
        open.push(call.end);
    }
}

/// Fills the time between enrolment, calls and end with computing. What a task did after its last report is not known
/// unless it left in order.
fn compute(calls: &mut Vec<Call>, enrolled: Moment, left: Option<Moment>) {
    let mut computing = Vec::new();
    let mut idle_since = enrolled;
    let mut gap = |from: Moment, to: Moment| {
        if to.saturating_sub(from) >= COMPUTING_MIN {
            computing.push(Call { begin: from, end: to, what: None });
        }
    };
    for call in calls.iter() {
        gap(idle_since, call.begin);
        idle_since = idle_since.max(call.end);
    }
    if let Some(left) = left {
        gap(idle_since, left);
    }
    calls.append(&mut computing);
    calls.sort_by_key(|call| (call.begin, std::cmp::Reverse(call.end)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Tid = Tid::from_raw(0x40002);

    fn span(begin: u64, end: u64) -> Span {
        Span { begin, end, what: Activity::Wait }
    }

    fn report(enrolled: u64, left: Option<u64>, spans: Vec<Span>) -> Report {
        Report { program: "prog".to_owned(), enrolled, left, spans, lost: 0 }
    }

    fn times(row: &Row) -> Vec<(Moment, Moment, bool)> {
        row.calls.iter().map(|call| (call.begin, call.end, call.what.is_some())).collect()
    }

    fn only(rows: Rows, now: Moment) -> Row {
        let [row] = <[Row; 1]>::try_from(rows.finish(now)).unwrap();
        row
    }

    #[test]
    fn time_between_calls_is_computing() {
        let mut rows = Rows::new(100, &[]);
        rows.report(TASK, report(1_000, None, vec![span(3_000, 4_000), span(4_100, 6_000)]), 500);
        rows.report(TASK, report(1_000, Some(9_000), vec![]), 500);
        let row = only(rows, 99_000);
        let expected =
            [(1_500, 3_500, false), (3_500, 4_500, true), (4_600, 6_500, true), (6_500, 9_500, false)];
        assert_eq!(times(&row), expected);
        assert_eq!((row.begin, row.end, row.told, row.left), (1_500, 9_500, true, true));
    }

    #[test]
    fn a_killed_tasks_last_moments_are_not_made_up() {
        let mut rows = Rows::new(100, &[]);
        rows.started(TASK, 900);
        rows.report(TASK, report(1_000, None, vec![span(2_000, 9_000)]), 0);
        rows.ended(TASK, 50_000);
        let row = only(rows, 99_000);
        assert_eq!(times(&row), [(1_000, 2_000, false), (2_000, 9_000, true)]);
        assert_eq!((row.begin, row.end, row.left), (900, 50_000, false));
    }

    #[test]
    fn a_task_without_reports_has_a_row() {
        let mut rows = Rows::new(100, &[]);
        rows.started(TASK, 700);
        rows.started(TASK, 900);
        rows.name(TASK, "old");
        let row = only(rows, 5_000);
        assert_eq!((row.begin, row.end, row.told, row.name.as_str()), (700, 5_000, false, "old"));
    }

    #[test]
    fn calls_lie_within_each_other_or_apart() {
        let call = |begin, end| Call { begin, end, what: None };
        let mut calls = vec![call(15, 30), call(12, 15), call(10, 20), call(20, 20), call(40, 50)];
        nest(&mut calls);
        assert_eq!(calls, [call(10, 20), call(12, 15), call(15, 20), call(20, 21), call(40, 50)]);
    }

    #[test]
    fn of_other_programs_only_the_life_is_kept() {
        let mut rows = Rows::new(100, &["/bin/other".to_owned(), "third".to_owned()]);
        rows.started(TASK, 900);
        rows.report(TASK, report(1_000, Some(5_000), vec![span(2_000, 3_000)]), 0);
        let row = only(rows, 9_000);
        assert_eq!((row.begin, row.end, row.told, row.calls.len()), (900, 5_000, false, 0));
        let mut rows = Rows::new(100, &["bin/prog".to_owned()]);
        rows.report(TASK, report(1_000, Some(5_000), vec![span(2_000, 3_000)]), 0);
        assert_eq!((rows.lost(), only(rows, 9_000).calls.len()), (0, 3));
    }

    #[test]
    fn too_many_calls_are_counted() {
        let mut rows = Rows::new(2, &[]);
        rows.report(TASK, Report { lost: 5, ..report(0, None, vec![span(1, 2); 4]) }, 0);
        assert_eq!(rows.lost(), 7);
        assert_eq!(only(rows, 9).calls.iter().filter(|call| call.what.is_some()).count(), 2);
    }
}
