//! `pvm peer serve`: answers the exchange of another machine, which has started this program here.

use super::is_exchange;
use super::words::{Answer, Question, VERSION, hear, say};
use anyhow::{Result, bail};
use pvm3::{JobId, JobOrigin, JobRecord, JobRequest, Task};
use std::io::{stdin, stdout};

/// Answers until the other side ends. `from` is its name here.
pub fn serve(from: &str) -> Result<()> {
    let mut task = Task::enrol_as(Some("pvm"), false)?;
    let (mut input, mut output) = (stdin().lock(), stdout().lock());
    while let Some(question) = hear(&mut input)? {
        let answer =
            answer(&mut task, from, question).unwrap_or_else(|error| Answer::Refused(format!("{error:#}")));
        say(&answer, &mut output)?;
    }
    let _ = task.exit();
    Ok(())
}

fn answer(task: &mut Task, from: &str, question: Question) -> Result<Answer> {
    Ok(match question {
        Question::Hello { version: VERSION } => {
            check(task, from)?;
            Answer::Welcome
        }
        Question::Hello { version } => {
            bail!("it speaks version {version} of the exchange, this pvm {VERSION}")
        }
        Question::Room => Answer::Room(task.room_for_jobs()?),
        Question::Submit(request) => {
            check(task, from)?;
            Answer::Taken(task.submit(theirs(*request, from)?)?)
        }
        Question::Jobs(ids) => Answer::Jobs(known(task, from, &ids)),
        Question::Cancel(ids) => {
            let ids: Vec<JobId> = known(task, from, &ids).iter().map(|job| job.id).collect();
            task.cancel_jobs(&ids)?;
            Answer::Cancelled
        }
    })
}

/// Both must want the exchange.
fn check(task: &mut Task, from: &str) -> Result<()> {
    if task.jobs(&[])?.iter().any(|job| is_exchange(job, from)) {
        return Ok(());
    }
    bail!("it exchanges no jobs with {from:?}: \"pvm peer add {from}\" there has it do so")
}

/// A job as it is submitted here: whatever it says, it is of that machine, and goes where this machine's queues want it.
fn theirs(request: JobRequest, from: &str) -> Result<JobRequest> {
    let Some(origin) = request.origin else { bail!("a job without an origin") };
    let origin = Some(JobOrigin { machine: from.to_owned(), ..origin });
    Ok(JobRequest { origin, queue: None, after: Vec::new(), is_held: false, ..request })
}

/// Those of these jobs that have come from there.
fn known(task: &mut Task, from: &str, ids: &[JobId]) -> Vec<JobRecord> {
    let one = |id: &JobId| task.jobs(&[*id]).ok().and_then(|jobs| jobs.into_iter().next());
    let jobs = ids.iter().filter_map(one);
    jobs.filter(|job| job.origin.as_ref().is_some_and(|origin| origin.machine == from)).collect()
}
