//! The queues at the shell: jobs are submitted, listed and changed.

pub mod args;
mod clusters;
mod loads;
pub(crate) mod tables;

use crate::commands::{Report, print};
use crate::run::find;
use crate::since_1970;
use crate::view::milliseconds;
use anyhow::{Context, Result, bail};
use args::{JobCommand, SubmitArgs};
use pvm3::{Expectation, JobId, JobRecord, JobRequest, JobTasks, Task, login_name};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;

/// Carries out a command on the machine that runs here; returns the exit code.
pub fn run(command: &JobCommand) -> Result<u8> {
    let mut task = Task::enrol_as(Some("pvm"), true)?;
    let report = match command {
        JobCommand::Submit(args) => submit(&mut task, args)?,
        JobCommand::Jobs(_) => listed(&task.jobs(&[])?),
        JobCommand::Job(args) => shown(&task.jobs(&args.ids)?),
        JobCommand::Wait(args) => waited(&task.wait_for_jobs(&args.ids)?),
        JobCommand::Cancel(args) => changed(&args.ids, task.cancel_jobs(&args.ids)?),
        JobCommand::Hold(args) => changed(&args.ids, task.hold_jobs(&args.ids)?),
        JobCommand::Release(args) => changed(&args.ids, task.release_jobs(&args.ids)?),
        JobCommand::Queues(args) => queues(&mut task, args.reload)?,
        JobCommand::Clusters(_) => {
            let clusters = task.host_clusters()?;
            Report { text: clusters::table(&clusters), json: clusters::json(&clusters), failed: false }
        }
        JobCommand::Load(_) => {
            let now = since_1970().as_secs();
            let loads = task.loads()?;
            Report { text: loads::table(&loads, now), json: loads::json(&loads), failed: false }
        }
        JobCommand::History(args) => {
            let jobs = task.job_history(args.count)?;
            Report { text: tables::history(&jobs), json: jobs_json(&jobs), failed: false }
        }
    };
    let _ = task.exit();
    print(&report, command.is_json())?;
    Ok(u8::from(report.failed))
}

fn queues(task: &mut Task, reload: bool) -> Result<Report> {
    let queues =
        if reload { task.reload_queues().context("the queues stay as they are")? } else { task.queues()? };
    let clusters = task.clusters()?;
    let values: Vec<Value> = queues.iter().map(tables::queue_json).collect();
    let sets: Vec<Value> = clusters.iter().map(tables::cluster_json).collect();
    Ok(Report {
        text: tables::queues(&queues) + &tables::clusters(&clusters),
        json: json!({ "queues": values, "clusters": sets }),
        failed: false,
    })
}

fn submit(task: &mut Task, args: &SubmitArgs) -> Result<Report> {
    let id = task.submit(request(args)?).context("not submitted")?;
    if args.wait {
        if !args.output_format.json {
            eprintln!("job {id}");
        }
        return Ok(waited(&task.wait_for_jobs(&[id])?));
    }
    Ok(Report { text: format!("{id}\n"), json: json!({ "id": id.0 }), failed: false })
}

fn request(args: &SubmitArgs) -> Result<JobRequest> {
    let Some((program, words)) = args.command.split_first() else { bail!("there is no program") };
    let file = find::find(program).map_err(|missing| anyhow::anyhow!(missing.reason))?;
    let here = std::env::current_dir().context("the current folder cannot be found")?;
    let directory = args.dir.as_ref().map_or_else(|| here.clone(), |folder| here.join(folder));
    if !directory.is_dir() {
        bail!("--dir: there is no folder {}", directory.display());
    }
    let user = args.user.clone().unwrap_or_else(login_name);
    let tasks = match (args.width, args.array) {
        (Some(width), _) => JobTasks::Rigid(width),
        (None, Some(array)) => array,
        (None, None) => JobTasks::Array { first: 0, count: 1, at_once: None },
    };
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| Path::new(program).file_name().unwrap_or(program).display().to_string());
    let mut request = JobRequest::new(file, user, directory);
    request.program.args = words.to_vec();
    request.program.env = args.env.iter().map(OsString::from).collect();
    request.program.output = output(args, tasks);
    request.program.slots = args.cpus;
    request.program.time = args.time;
    request.program.memory = args.mem;
    Ok(JobRequest {
        name,
        queue: args.queue.clone(),
        tasks,
        hosts: args.hosts.clone(),
        after: args.after.clone(),
        restarts: args.restart,
        is_held: args.hold,
        expectation: Expectation {
            bandwidth: args.bandwidth.unwrap_or(0),
            run: args.expect,
            communication: args.communication,
        },
        ..request
    })
}

fn output(args: &SubmitArgs, tasks: JobTasks) -> Option<OsString> {
    let usual =
        if matches!(tasks, JobTasks::Array { count: 2.., .. }) { "job-%j.%t.out" } else { "job-%j.out" };
    let name = args.output.clone().unwrap_or_else(|| usual.into());
    (name != "none").then_some(name)
}

fn listed(jobs: &[JobRecord]) -> Report {
    Report { text: tables::jobs(jobs, milliseconds()), json: jobs_json(jobs), failed: false }
}

fn shown(jobs: &[JobRecord]) -> Report {
    let texts: Vec<String> = jobs.iter().map(tables::job).collect();
    Report { text: texts.join("\n"), json: jobs_json(jobs), failed: false }
}

fn waited(jobs: &[JobRecord]) -> Report {
    let line = |job: &JobRecord| {
        let note = if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
        format!("job {} {}{note}\n", job.id, job.state.phrase())
    };
    Report {
        text: jobs.iter().filter(|job| !tables::is_good(job)).map(line).collect(),
        json: jobs_json(jobs),
        failed: !jobs.iter().all(tables::is_good),
    }
}

fn changed(ids: &[JobId], results: Vec<std::result::Result<bool, String>>) -> Report {
    let (mut text, mut changed) = (String::new(), Vec::new());
    for (id, result) in ids.iter().zip(results) {
        match result {
            Ok(_) => changed.push(id.0),
            Err(reason) => {
                text.push_str(&reason);
                text.push('\n');
            }
        }
    }
    let failed = !text.is_empty();
    Report { text, json: json!({ "changed": changed }), failed }
}

fn jobs_json(jobs: &[JobRecord]) -> Value {
    json!({ "jobs": jobs.iter().map(tables::job_json).collect::<Vec<_>>() })
}
