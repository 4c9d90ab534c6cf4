//! The tasks of the machine: `ps`, `kill`, `sig`.

use super::{Report, host_names};
use crate::shell::ps::{PsOptions, Which};
use crate::shell::tables::{self, TaskRow};
use anyhow::{Result, bail};
use pvm_wire::codes::task_flags;
use pvm3::{Scope, Task, TaskInfo, Tid};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// `ps`: the tasks that the options choose.
pub fn tasks(task: &mut Task, options: &PsOptions) -> Result<Report> {
    let scope = match &options.which {
        Which::Here => Scope::Host(task.tid().to_host()),
        Which::Everywhere => Scope::All,
        Which::Tid(tid) => Scope::Host(Tid::from_raw(*tid)),
        Which::Name(name) => match task.hosts()?.iter().find(|host| host.name == *name) {
            Some(host) => Scope::Host(host.tid),
            None => bail!("unknown host {name}"),
        },
    };
    let own = task.tid();
    let mut tasks = task.tasks(scope)?;
    let half_way = |task: &TaskInfo| task.flags & task_flags::AUTH != 0 || task.flags == 0;
    tasks.retain(|task| options.special || task.tid != own && !half_way(task));
    let rows = task_rows(task, tasks)?;
    let values: Vec<Value> = rows.iter().map(task_json).collect();
    Ok(Report::good(tables::tasks(&rows, options.long, own.raw()), json!({ "tasks": values })))
}

/// Tasks, as tables show them.
pub fn task_rows(task: &mut Task, tasks: Vec<TaskInfo>) -> Result<Vec<TaskRow>> {
    let names = host_names(task)?;
    let row = |task: TaskInfo| TaskRow {
        host: names.get(&task.host).cloned().unwrap_or_else(|| task.host.to_string()),
        tid: task.tid.raw(),
        parent: task.parent.map_or(0, Tid::raw),
        pid: task.pid,
        flags: task.flags,
        command: task.name.display().to_string(),
    };
    Ok(tasks.into_iter().map(row).collect())
}

fn task_json(row: &TaskRow) -> Value {
    let TaskRow { host, tid, parent, pid, flags, command } = row;
    let parent = Some(Tid::from_raw(*parent)).filter(|parent| parent.is_task());
    json!({
        "host": host, "tid": Tid::from_raw(*tid).to_string(), "parent": parent.map(|tid| tid.to_string()),
        "pid": pid, "flags": flags, "command": command,
    })
}

/// The children of these tasks on all hosts.
pub fn children_of(task: &mut Task, parents: &[Tid]) -> Result<Vec<Tid>> {
    let tasks = task.tasks(Scope::All)?;
    let is_child = |task: &&TaskInfo| task.parent.is_some_and(|parent| parents.contains(&parent));
    Ok(tasks.iter().filter(is_child).map(|task| task.tid).collect())
}

/// `kill`: ends tasks.
pub fn end(task: &mut Task, targets: &[Tid]) -> Result<Report> {
    to_each(task, targets, Task::kill)
}

/// `sig`: sends tasks a signal.
pub fn send_signal(task: &mut Task, targets: &[Tid], signal: i32) -> Result<Report> {
    to_each(task, targets, |task, tid| task.signal(tid, signal))
}

/// A line for each that it could not be done to: this task itself, and those that there are not.
fn to_each(
    task: &mut Task,
    targets: &[Tid],
    mut what: impl FnMut(&mut Task, Tid) -> pvm3::Result<()>,
) -> Result<Report> {
    let (mut text, mut values) = (String::new(), Vec::new());
    for &tid in targets {
        let problem = if tid == task.tid() {
            Some("that is this console")
        } else if task.is_running(tid)? {
            what(task, tid)?;
            None
        } else {
            Some("no such task")
        };
        values.push(match problem {
            Some(problem) => json!({ "tid": tid.to_string(), "error": problem }),
            None => json!({ "tid": tid.to_string() }),
        });
        if let Some(problem) = problem {
            let _ = writeln!(text, "{tid}: {problem}");
        }
    }
    let failed = !text.is_empty();
    Ok(Report { text, json: json!({ "tasks": values }), failed })
}
