//! The summary of a trace: times per task, waits, messages between tasks and between hosts, and the critical path.

use super::critical::{self, Step, What};
use super::record::{Awaited, DOINGS, Doing, Moment, Record};
use std::collections::BTreeMap;

/// Times of all that there is to do, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times([Moment; DOINGS.len()]);

impl Times {
    /// The time of one of them.
    pub fn of(&self, doing: Doing) -> Moment {
        self.0[doing as usize]
    }

    /// All of them.
    pub fn sum(&self) -> Moment {
        self.0.iter().sum()
    }

    fn add(&mut self, doing: Doing, time: Moment) {
        self.0[doing as usize] += time;
    }
}

/// Waits of a task for one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The task that waited.
    pub task: usize,
    /// What for.
    pub awaited: Awaited,
    /// How often.
    pub count: u64,
    /// For how long, together.
    pub time: Moment,
    /// The longest of them.
    pub longest: Moment,
}

/// Messages between two, and their lengths together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub messages: u64,
    /// Bytes of all.
    pub bytes: u64,
}

/// Traffic by sender and receiver.
pub type Matrix = BTreeMap<(usize, usize), Traffic>;

/// The part of the critical path on which a task was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnPath {
    /// The task.
    pub task: usize,
    /// What it did there.
    pub times: Times,
}

/// A summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What each task did.
    pub tasks: Vec<Times>,
    /// Waits by task and cause, the longest total time first.
    pub waits: Vec<Waits>,
    /// Messages between tasks.
    pub tasks_matrix: Matrix,
    /// Messages between hosts.
    pub hosts_matrix: Matrix,
    /// All messages.
    pub traffic: Traffic,
    /// The critical path.
    pub path: Vec<Step>,
    /// Tasks that were on it, the longest time first.
    pub on_path: Vec<OnPath>,
    /// The time in which the path was a message.
    pub under_way: Moment,
    /// The time in which it was the start of a task.
    pub starting: Moment,
}

impl Summary {
    /// Summarizes a trace.
    pub fn of(record: &Record) -> Self {
        let tasks = record.tasks.iter().map(|task| {
            let mut times = Times::default();
            task.parts.iter().for_each(|part| times.add(part.doing, part.end - part.begin));
            times
        });
        let (mut tasks_matrix, mut hosts_matrix) = (Matrix::new(), Matrix::new());
        let mut traffic = Traffic::default();
        for message in &record.messages {
            let hosts = (record.tasks[message.from].host, record.tasks[message.to].host);
            let in_tasks = tasks_matrix.entry((message.from, message.to)).or_default();
            for counted in [in_tasks, hosts_matrix.entry(hosts).or_default(), &mut traffic] {
                counted.messages += 1;
                counted.bytes = counted.bytes.saturating_add(message.bytes);
            }
        }
        let path = critical::path(record);
        let time = |is_it: fn(What) -> bool| {
            path.iter().filter(|step| is_it(step.what)).map(|step| step.end - step.begin).sum()
        };
        let under_way = time(|what| matches!(what, What::Message { .. }));
        let starting = time(|what| matches!(what, What::Start(_)));
        Self {
            tasks: tasks.collect(),
            waits: waits(record),
            tasks_matrix,
            hosts_matrix,
            traffic,
            on_path: on_path(record, &path),
            path,
            under_way,
            starting,
        }
    }
}

/// Waits by task and cause. Calls inside a wait, such as a send in a barrier, do not count as waiting.
fn waits(record: &Record) -> Vec<Waits> {
    let mut found: BTreeMap<(usize, &Awaited), Waits> = BTreeMap::new();
    for (number, task) in record.tasks.iter().enumerate() {
        let mut times: BTreeMap<usize, Moment> = BTreeMap::new();
        for part in task.parts.iter().filter(|part| part.doing == Doing::Waiting) {
            *times.entry(part.span.unwrap_or_default()).or_default() += part.end - part.begin;
        }
        for (span, time) in times {
            let Some(awaited) = task.spans.get(span).and_then(|span| span.awaited.as_ref()) else { continue };
            let none = || Waits { task: number, awaited: awaited.clone(), count: 0, time: 0, longest: 0 };
            let waits = found.entry((number, awaited)).or_insert_with(none);
            waits.count += 1;
            waits.time += time;
            waits.longest = waits.longest.max(time);
        }
    }
    let mut waits: Vec<Waits> = found.into_values().collect();
    waits.sort_by_key(|waits| -waits.time);
    waits
}

fn on_path(record: &Record, path: &[Step]) -> Vec<OnPath> {
    let mut times: BTreeMap<usize, Times> = BTreeMap::new();
    for (task, part) in critical::parts(record, path) {
        times.entry(task).or_default().add(part.doing, part.end - part.begin);
    }
    let mut all: Vec<OnPath> = times.into_iter().map(|(task, times)| OnPath { task, times }).collect();
    all.sort_by_key(|one| -one.times.sum());
    all
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::trace::file;

    /// A parent that waits for two workers, of which the second is slow.
    pub const FARM: &str = r#"{"traceEvents":[
        {"ph":"M","pid":1,"name":"process_name","args":{"name":"node1"}},
        {"ph":"M","pid":2,"name":"process_name","args":{"name":"node<2>"}},
        {"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"t40001 farm"}},
        {"ph":"M","pid":2,"tid":1,"name":"thread_name","args":{"name":"t80001 work"}},
        {"ph":"M","pid":2,"tid":2,"name":"thread_name","args":{"name":"t80002 work"}},
        {"ph":"X","pid":1,"tid":1,"name":"farm","cat":"task","ts":0,"dur":100000},
        {"ph":"X","pid":1,"tid":1,"name":"spawn","cat":"daemon","ts":1000,"dur":2000},
        {"ph":"X","pid":1,"tid":1,"name":"waiting","cat":"waiting","ts":3000,"dur":17000,"args":{"from":"t80001","bytes":100}},
        {"ph":"X","pid":1,"tid":1,"name":"waiting","cat":"waiting","ts":20000,"dur":70000,"args":{"from":"t80002","bytes":200}},
        {"ph":"X","pid":1,"tid":1,"name":"computing","cat":"computing","ts":90000,"dur":10000},
        {"ph":"X","pid":2,"tid":1,"name":"work","cat":"task","ts":2000,"dur":20000},
        {"ph":"X","pid":2,"tid":1,"name":"computing","cat":"computing","ts":2000,"dur":16000},
        {"ph":"X","pid":2,"tid":1,"name":"sending","cat":"sending","ts":18000,"dur":1000},
        {"ph":"X","pid":2,"tid":2,"name":"work","cat":"task","ts":2000,"dur":90000},
        {"ph":"X","pid":2,"tid":2,"name":"computing","cat":"computing","ts":2000,"dur":86000},
        {"ph":"X","pid":2,"tid":2,"name":"sending","cat":"sending","ts":88000,"dur":1000},
        {"ph":"s","pid":2,"tid":1,"name":"message","ts":18000,"id":1},
        {"ph":"f","pid":1,"tid":1,"name":"message","ts":19000,"id":1},
        {"ph":"s","pid":2,"tid":2,"name":"message","ts":88000,"id":2},
        {"ph":"f","pid":1,"tid":1,"name":"message","ts":89000,"id":2}
    ]}"#;

    /// Milliseconds.
    fn ms(count: i64) -> Moment {
        count * 1_000_000
    }

    #[test]
    fn a_farm_with_a_slow_worker() {
        let record = file::read(FARM.as_bytes()).unwrap();
        let summary = Summary::of(&record);
        assert_eq!(summary.tasks[0], Times([ms(10), ms(87), 0, ms(2), ms(1)]));
        let waits: Vec<_> = summary
            .waits
            .iter()
            .map(|waits| (waits.task, waits.awaited.clone(), waits.count, waits.time))
            .collect();
        let of = |id: &str| Awaited::Task(id.to_owned());
        assert_eq!(waits, [(0, of("t80002"), 1, ms(70)), (0, of("t80001"), 1, ms(17))]);
        assert_eq!(summary.traffic, Traffic { messages: 2, bytes: 300 });
        assert_eq!(summary.hosts_matrix, Matrix::from([((1, 0), Traffic { messages: 2, bytes: 300 })]));
        assert_eq!(summary.tasks_matrix[&(2, 0)], Traffic { messages: 1, bytes: 200 });
        assert_eq!(summary.under_way, ms(2));
        let on_path: Vec<_> = summary.on_path.iter().map(|one| (one.task, one.times.sum())).collect();
        assert_eq!(on_path, [(2, ms(86)), (0, ms(12))]);
        assert_eq!(summary.on_path[0].times.of(Doing::Computing), ms(86));
    }
}
