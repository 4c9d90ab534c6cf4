//! The state of the machine as the page reads it: arrays, whose columns `page/model.js` names.

use crate::view::{Host, Sampler, State, TaskRow, Team, View, milliseconds};
use anyhow::Result;
use pvm_wire::rows::{PLACES_MAX, RowsReport};
use pvm3::{BatchRecord, JobRecord, QueueRecord, Task, Tid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Jobs that are sent at most, and jobs that have ended among them.
const JOBS_MAX: usize = 1000;
const ENDED_MAX: u32 = 50;

/// Takes snapshots.
#[derive(Debug, Default)]
pub struct Snapshots {
    number: u64,
    sampler: Sampler,
}

impl Snapshots {
    /// The state now. Asking the hosts for their tasks' CPU time takes about `budget`; those that remain are asked in the next rounds.
    pub fn take(&mut self, task: &mut Task, viewers: usize, budget: Duration) -> Result<String> {
        self.number += 1;
        let view = self.sampler.take(task, budget)?;
        let mut jobs = task.jobs(&[]).unwrap_or_default();
        jobs.extend(task.job_history(ENDED_MAX).unwrap_or_default());
        Ok(self.json(&view, &jobs, viewers).to_string())
    }

    fn json(&self, view: &View, jobs: &[JobRecord], viewers: usize) -> Value {
        let (tasks, programs) = tasks_json(&view.tasks);
        let gone = view.gone.iter().map(|gone| json!([gone.name, gone.tid, gone.when]));
        json!({
            "n": self.number, "time": milliseconds(), "viewers": viewers,
            "hosts": rows(&view.hosts, host_json),
            "gone": gone.collect::<Vec<_>>(),
            "teams": rows(&view.teams, team_json),
            "batches": rows(&view.batches, batch_json),
            "jobs": rows(jobs.iter().take(JOBS_MAX), job_json),
            "jobs_left": jobs.len().saturating_sub(JOBS_MAX),
            "queues": rows(&view.queues, queue_json),
            "rows": matrix_json(&view.rows),
            "tasks": tasks, "programs": programs,
        })
    }
}

fn rows<'a, T: 'a>(list: impl IntoIterator<Item = &'a T>, row: impl Fn(&'a T) -> Value) -> Value {
    Value::Array(list.into_iter().map(row).collect())
}

/// The load comes last, as long as it is known.
fn host_json(host: &Host) -> Value {
    let info = &host.info;
    let means = host.turns.as_ref().filter(|turns| turns.is_shared).map_or("", |turns| &turns.means);
    let (name, arch, messages) = (&info.name, &info.arch, host.rates.messages);
    let owner = u8::from(host.has_owner());
    let mut row = vec![
        json!(info.tid),
        json!(name),
        json!(arch),
        json!(info.speed),
        json!(means),
        json!(messages),
        json!(owner),
    ];
    if let Some(load) = &host.load {
        row.extend([json!(load.cpu[0]), json!(load.others[0]), json!(load.memory), json!(load.free)]);
        row.extend(load.run_queue.map(|mean| json!(mean)));
    }
    Value::Array(row)
}

/// The tasks, and the names of their programs, each of which is sent once.
fn tasks_json(tasks: &[TaskRow]) -> (Value, Vec<String>) {
    let (mut programs, mut numbers) = (Vec::new(), HashMap::<String, usize>::new());
    let row = |task: &TaskRow| {
        let name = task.info.name.to_string_lossy();
        let program = numbers.get(&*name).copied().unwrap_or_else(|| {
            numbers.insert(name.to_string(), programs.len());
            programs.push(name.to_string());
            programs.len() - 1
        });
        json!([
            task.info.tid,
            task.info.parent.map_or(0, Tid::raw),
            task.host,
            program,
            task.team,
            letter(task.state),
            task.rates.map(|rates| rates.cpu),
            task.info.pid,
            task.rates.map(|rates| rates.messages),
        ])
    };
    let rows = tasks.iter().map(row).collect();
    (Value::Array(rows), programs)
}

/// `page/model.js` has the words.
fn letter(state: State) -> &'static str {
    match state {
        State::Leaves => "l",
        State::Enrols => "e",
        State::Starts => "s",
        State::Runs => "r",
        State::Waits => "w",
    }
}

fn team_json(team: &Team) -> Value {
    let Team { name, tasks, hosts, running, rates } = team;
    json!([name, tasks, hosts, running, rates.cpu, rates.waited])
}

fn batch_json(batch: &BatchRecord) -> Value {
    let BatchRecord { id, parent, file, policy, total, waiting, running, done, failed, .. } = batch;
    json!([
        id,
        parent,
        file.display().to_string(),
        policy,
        total,
        waiting,
        running,
        done,
        failed,
        batch.cancelled,
        batch.restarts,
    ])
}

fn job_json(job: &JobRecord) -> Value {
    json!([
        job.id.0,
        job.name,
        job.user,
        job.queue,
        job.state.name(),
        job.reason,
        job.tasks.count(),
        job.waiting,
        job.running,
        job.done,
        job.failed,
        job.cancelled,
        job.submitted,
        job.started,
        job.ended,
    ])
}

fn queue_json(queue: &QueueRecord) -> Value {
    json!([queue.name, queue.priority, queue.is_open, queue.waiting, queue.running, queue.hosts.len()])
}

/// For each row of the matrix whether it has its slice, and its teams: name, processes, and indices of the hosts of the matrix.
fn matrix_json(report: &RowsReport) -> Value {
    let mut rows: Vec<BTreeMap<u32, (u64, Vec<u32>)>> =
        vec![BTreeMap::new(); (report.count as usize).min(PLACES_MAX)];
    for place in &report.places {
        if let Some(row) = rows.get_mut(place.row as usize) {
            let (processes, hosts) = row.entry(place.team).or_default();
            *processes += u64::from(place.processes);
            hosts.push(place.host);
        }
    }
    let name = |team: u32| report.teams.get(team as usize).map_or("?", String::as_str);
    let rotate = report.count > 1 || report.has_others;
    let row = |(number, teams): (u32, BTreeMap<u32, (u64, Vec<u32>)>)| {
        let teams = teams.into_iter().map(|(team, (processes, hosts))| json!([name(team), processes, hosts]));
        json!([rotate && report.now == number, teams.collect::<Vec<_>>()])
    };
    let hosts: Vec<Value> = report.hosts.iter().map(|(name, cores)| json!([name, cores])).collect();
    json!({ "on": report.is_on, "hosts": hosts, "rows": (0..).zip(rows).map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{TaskRates, TurnRates};
    use pvm3::{HostInfo, LoadVector, TaskInfo};

    fn host(index: i32, name: &str, load: Option<LoadVector>) -> Host {
        let tid = Tid::from_raw(index << 18);
        Host {
            info: HostInfo { tid, name: name.into(), arch: "LINUX64".into(), speed: 1000, signature: 0 },
            load,
            turns: None,
            turn_rates: TurnRates::default(),
            rates: TaskRates { messages: 7, ..TaskRates::default() },
            tasks: 0,
        }
    }

    fn task(tid: i32, name: &str, state: State) -> TaskRow {
        let tid = Tid::from_raw(tid);
        TaskRow {
            info: TaskInfo { tid, parent: None, host: tid.to_host(), flags: 4, name: name.into(), pid: 7 },
            host: Some(0),
            team: "a".into(),
            state,
            rates: (name == "x").then_some(TaskRates { cpu: 500, messages: 40, bytes: 1 }),
            spin: None,
        }
    }

    #[test]
    fn rows_have_what_is_known() {
        let tasks = [
            task(0x40002, "x", State::Runs),
            task(0x40003, "x", State::Waits),
            task(0x40004, "y", State::Enrols),
        ];
        let (rows, programs) = tasks_json(&tasks);
        assert_eq!(programs, ["x", "y"]);
        assert_eq!(rows[0], json!([0x40002, 0, 0, 0, "a", "r", 500, 7, 40]));
        assert_eq!(rows[2], json!([0x40004, 0, 0, 1, "a", "e", null, 7, null]));
        let load = LoadVector { cpu: [755, 0, 0], run_queue: [150, 100, 25], ..LoadVector::default() };
        assert_eq!(host_json(&host(1, "a", None)), json!([0x40000, "a", "LINUX64", 1000, "", 7, 0]));
        assert_eq!(
            host_json(&host(2, "b", Some(load))),
            json!([0x80000, "b", "LINUX64", 1000, "", 7, 0, 755, 0, 0, 0, 150, 100, 25])
        );
    }

    #[test]
    fn a_row_of_the_matrix_names_each_team_once() {
        let places = [(0, 0, 0, 2), (0, 1, 0, 1), (1, 0, 1, 1), (9, 0, 1, 1), (1, 0, 7, 1)];
        let report = crate::commands::rows::tests::report(&places);
        let expected = json!({
            "on": true, "hosts": [["h1", 2], ["h2", 1]],
            "rows": [[false, [["a", 3, [0, 1]]]], [true, [["b", 1, [0]], ["?", 1, [0]]]]],
        });
        assert_eq!(matrix_json(&report), expected);
        let many = RowsReport { count: u32::MAX, ..RowsReport::default() };
        assert_eq!(matrix_json(&many)["rows"].as_array().map(Vec::len), Some(PLACES_MAX));
    }
}
