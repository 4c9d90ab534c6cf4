//! The exchange with another machine: a program that runs as a job of this one, so that it lives as long as the machine does.
//!
//! It lends jobs that wait for room here to a machine that has some, and takes them back as they have ended there. A job is lent on
//! disk before it is submitted there, under its origin: whenever either side dies, the next exchange goes on from there.

use super::words::{Answer, Question, VERSION, hear, say};
use super::{Terms, status_entry};
use anyhow::{Context, Result, anyhow, bail};
use pvm_wire::codes::{CHANNEL_VARIABLE, ENROL_VARIABLE};
use pvm3::{JobId, JobOrigin, JobRecord, JobState, JobTasks, Pack, Task};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two rounds.
const APART: Duration = Duration::from_secs(2);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(10);
/// A command that has closed its output ends.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Bytes of a command's last line on standard error.
const LINE_MAX: usize = 512;

/// The other machine's `pvm peer serve`.
struct Link {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    last_line: Receiver<String>,
}

impl Link {
    fn new(terms: &Terms) -> Result<Self> {
        let line = format!("exec {} peer serve --from {}", terms.via, terms.own_name);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What leads to this machine's daemon must not lead the other's program there.
        for name in ["PVMSOCK", "PVMEPID", CHANNEL_VARIABLE, ENROL_VARIABLE] {
            command.env_remove(name);
        }
        let mut child = command.spawn().context("/bin/sh")?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (to, from) = to.zip(from).context("no pipes")?;
        let last_line = pass_on(child.stderr.take().context("no pipes")?);
        let mut link = Self { child, to, from, last_line };
        match link.ask(&Question::Hello { version: VERSION })? {
            Answer::Welcome => Ok(link),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, question: &Question) -> Result<Answer> {
        if say(question, &mut self.to).is_err() {
            return Err(self.lost());
        }
        match hear(&mut self.from)? {
            Some(Answer::Refused(reason)) => Err(anyhow!(Refused(reason))),
            Some(answer) => Ok(answer),
            None => Err(self.lost()),
        }
    }

    /// Nothing more comes from the command, or goes to it: how it has ended, which it does soon if it has not yet.
    fn lost(&mut self) -> anyhow::Error {
        let end = Instant::now() + ENDS_WITHIN;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    let line = self.last_line.recv_timeout(ENDS_WITHIN).unwrap_or_default();
                    let colon = if line.is_empty() { "" } else { ": " };
                    return anyhow!("the command that reaches it has ended: {status}{colon}{line}");
                }
                Ok(None) if Instant::now() < end => sleep(ENDS_WITHIN / 20),
                _ => return anyhow!("the command that reaches it has closed the connection"),
            }
        }
    }
}

/// What a command writes to standard error goes to this program's. When that has ended its last line comes here: `ssh` says there why it
/// has failed.
fn pass_on(mut from: ChildStderr) -> Receiver<String> {
    let (ended, last_line) = channel();
    std::thread::spawn(move || {
        let (mut tail, mut piece) = (Vec::new(), [0; LINE_MAX]);
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let _ = std::io::stderr().write_all(&piece[..count]);
            tail.extend_from_slice(&piece[..count]);
            tail.drain(..tail.len().saturating_sub(LINE_MAX));
        }
        let text = String::from_utf8_lossy(&tail);
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        // The receiver may be gone.
        let _ = ended.send(line.chars().filter(|char| !char.is_control()).collect());
    });
    last_line
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the other machine does not want.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

fn unexpected(answer: &Answer) -> anyhow::Error {
    anyhow!("an answer out of place: {answer:?}")
}

/// Exchanges jobs until this machine ends.
pub fn exchange(terms: &Terms) -> Result<()> {
    let mut task = Task::enrol_as(Some("pvm"), false)?;
    let (mut link, mut refused) = (None, BTreeSet::new());
    loop {
        let result = round(&mut task, terms, &mut link, &mut refused);
        let (status, pause) = match &result {
            Ok(_) => ("linked".to_owned(), APART),
            Err(error) => (format!("{error:#}"), AGAIN),
        };
        if result.is_err() {
            link = None;
        }
        task.put_info(
            status_entry(&terms.name),
            Pack::new().put_str(&status)?,
            pvm3::MailboxFlags::default(),
        )
        .context("the virtual machine has ended")?;
        sleep(pause);
    }
}

/// Looks after jobs that are lent, and lends others; how many there are then.
fn round(
    task: &mut Task,
    terms: &Terms,
    link: &mut Option<Link>,
    refused: &mut BTreeSet<JobId>,
) -> Result<usize> {
    let link = match link {
        Some(link) => link,
        None => link.insert(Link::new(terms)?),
    };
    let jobs = task.jobs_to_exchange(&terms.name)?;
    let is_lent = |job: &&JobRecord| job.lent.as_ref().is_some_and(|lent| lent.peer == terms.name);
    let lent: Vec<&JobRecord> = jobs.iter().filter(is_lent).collect();
    let mut count = 0;
    for job in &lent {
        count += usize::from(look_after(task, terms, link, job)?);
    }
    let Answer::Room(mut room) = link.ask(&Question::Room)? else { bail!("no word of free slots") };
    let now = crate::since_1970();
    let waits_long = |job: &&JobRecord| {
        Duration::from_millis(job.submitted) + terms.after <= now
            && job.may_be_lent
            && !refused.contains(&job.id)
    };
    let candidates: Vec<JobId> = jobs.iter().filter(waits_long).map(|job| job.id).collect();
    for id in candidates {
        let Some(job) = jobs.iter().find(|job| job.id == id) else { continue };
        if count >= terms.most || needs(job) > room {
            continue;
        }
        let taken = lend(task, terms, link, job)?;
        if taken {
            count += 1;
            room -= needs(job).max(job.slots * job.tasks.count()).min(room);
        } else {
            refused.insert(id);
        }
    }
    Ok(count)
}

/// Slots without which nothing of a job starts.
fn needs(job: &JobRecord) -> u32 {
    match job.tasks {
        JobTasks::Rigid(width) => width.saturating_mul(job.slots),
        JobTasks::Array { .. } => job.slots,
    }
}

/// Lends a job, or does again what it is not known to have done. Whether it was taken.
fn lend(task: &mut Task, terms: &Terms, link: &mut Link, job: &JobRecord) -> Result<bool> {
    // It may have started here meanwhile.
    let Ok(mut request) = task.lend_job(job.id, &terms.name) else { return Ok(false) };
    let origin = JobOrigin { machine: terms.own_name.clone(), submitted: job.submitted, job: job.id };
    request.origin = Some(origin);
    let output = &mut request.program.output;
    *output = output.take().map(|pattern| with_number(&pattern, job.id));
    match link.ask(&Question::Submit(Box::new(request))) {
        Ok(Answer::Taken(number)) => {
            task.note_lent_job(job.id, number)?;
            Ok(true)
        }
        Ok(other) => Err(unexpected(&other)),
        Err(error) if error.is::<Refused>() => {
            task.give_back_job(job.id, None)?;
            Ok(false)
        }
        // It may have been taken: the next round asks again.
        Err(error) => Err(error),
    }
}

/// The pattern of a name for output with the job's number here, whatever its number is there.
fn with_number(pattern: &OsStr, job: JobId) -> OsString {
    let (mut name, mut bytes) = (Vec::new(), pattern.as_bytes().iter());
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'j')) => name.extend(job.to_string().bytes()),
            (b'%', Some(&other)) => name.extend([b'%', other]),
            _ => {
                name.push(byte);
                continue;
            }
        }
        bytes.next();
    }
    OsString::from_vec(name)
}

/// Looks how a lent job is. Whether it is still lent.
fn look_after(task: &mut Task, terms: &Terms, link: &mut Link, job: &JobRecord) -> Result<bool> {
    let Some(lent) = &job.lent else { return Ok(false) };
    let Some(number) = lent.number else { return lend(task, terms, link, job) };
    if lent.is_cancelled {
        link.ask(&Question::Cancel(vec![number]))?;
    }
    let Answer::Jobs(jobs) = link.ask(&Question::Jobs(vec![number]))? else {
        bail!("no word of job {number}")
    };
    let record = match jobs.into_iter().next() {
        Some(record) if !record.state.has_ended() => return Ok(true),
        Some(record) => record,
        None => JobRecord {
            state: JobState::Failed,
            failed: job.tasks.count(),
            reason: format!("machine {} does not know job {number} any more", terms.name),
            hosts: Vec::new(),
            ..job.clone()
        },
    };
    task.give_back_job(job.id, Some(record))?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_the_number_of_the_job_here() {
        let of = |pattern: &str| with_number(OsStr::new(pattern), JobId(17)).into_string().unwrap();
        assert_eq!(of("out/%n-%j.%t"), "out/%n-17.%t");
        assert_eq!(of("100%%j%j%"), "100%%j17%");
    }
}
