//! Jobs that are submitted and waited for.
//!
//! - `array SYSTEM COMMAND N…` prints for each N the seconds of a task of an array of N tasks that do nothing, from the command that
//!   submits it to the end of the command that waits for it;
//! - `single SYSTEM COMMAND SECONDS` prints the seconds of a command that submits one task that does nothing and waits for its end;
//! - `fill COUNT` submits jobs that find no room, by many tasks at a time, and prints the seconds of all;
//! - `calls` prints the seconds of a submission, of a look at one job and of a list of all, while jobs wait;
//! - `trace FOLDER FILE` submits the jobs of a file at their times, and prints what is known of them when all have ended. They run in
//!   the folder.
//!
//! SYSTEM is `pvm` or `hq`, and COMMAND its command.

use benches::jobs::Seen;
use clap::{Parser, ValueEnum};
use pvm_sim::jobs::Order;
use pvm3::{JobId, JobRequest, JobTasks, Task};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Does nothing.
const NOTHING: &str = "/bin/true";
/// Tasks that submit at the same time: their jobs are written to disk together.
const SUBMITTERS: u64 = 64;
/// How often a call is measured, which takes milliseconds; a list of many jobs takes longer.
const CALLS: usize = 50;
const LISTS: usize = 5;
/// Longer than any measurement.
const LONG: &str = "3600";

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
enum Operation {
    Array { system: System, command: PathBuf, counts: Vec<u64> },
    Single { system: System, command: PathBuf, seconds: f64 },
    Fill { count: u64 },
    Calls,
    Trace { folder: PathBuf, file: PathBuf },
}

#[derive(Clone, Copy, ValueEnum)]
enum System {
    Pvm,
    Hq,
}

fn main() -> Outcome {
    match Operation::parse() {
        Operation::Array { system, command, counts } => {
            for count in counts {
                println!("{count} {:.9}", system.array(&command, count)? / count as f64);
            }
        }
        Operation::Single { system, command, seconds } => {
            println!("1 {:.9}", system.single(&command, seconds)?);
        }
        Operation::Fill { count } => println!("{:.9}", fill(count)?),
        Operation::Calls => calls()?.iter().for_each(|seconds| println!("{seconds:.9}")),
        Operation::Trace { folder, file } => {
            let orders = serde_json::from_slice(&fs::read(file)?)?;
            println!("{}", serde_json::to_string(&trace(&folder, orders)?)?);
        }
    }
    Ok(())
}

impl System {
    /// The words before `submit`, and those for tasks without output.
    fn words(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Pvm => (&[], &["--output", "none"]),
            Self::Hq => (&["--output-mode", "quiet"], &["--stdout", "none", "--stderr", "none"]),
        }
    }

    fn submit(self, command: &Path, more: &[&str]) -> Command {
        let (first, silent) = self.words();
        let mut submit = Command::new(command);
        submit.args(first).arg("submit").args(silent).args(more).arg(NOTHING);
        submit
    }

    fn array(self, command: &Path, count: u64) -> Outcome<f64> {
        let range = format!("1-{count}");
        let start = Instant::now();
        let id = output(&mut self.submit(command, &["--array", &range]))?;
        let mut wait = Command::new(command);
        wait.args(if matches!(self, Self::Pvm) { &["wait"][..] } else { &["job", "wait"] });
        output(wait.arg(id.trim()))?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The median of the values that are measured within a number of seconds.
    fn single(self, command: &Path, seconds: f64) -> Outcome<f64> {
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < 3 || start.elapsed().as_secs_f64() < seconds {
            let before = Instant::now();
            output(&mut self.submit(command, &["--wait"]))?;
            times.push(before.elapsed().as_secs_f64());
        }
        Ok(median(times))
    }
}

/// What a command prints that ends well.
fn output(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A job of two tasks that start together, for which there is no room while another one runs.
fn blocked(user: u64) -> JobRequest {
    let mut job = JobRequest::new(NOTHING, format!("user{user}"), "/");
    job.tasks = JobTasks::Rigid(2);
    job
}

/// Submits a number of jobs. The first of all runs in one of the two slots for longer than the measurement takes.
fn fill(count: u64) -> Outcome<f64> {
    let mut task = Task::enrol()?;
    if task.jobs(&[])?.is_empty() {
        let mut long = JobRequest::new("/bin/sleep", "nobody", "/");
        long.program.args = vec![LONG.into()];
        task.submit(long)?;
    }
    let (next, start) = (AtomicU64::new(0), Instant::now());
    let submit = |user: u64| -> Outcome {
        let mut task = Task::enrol()?;
        while next.fetch_add(1, Ordering::Relaxed) < count {
            task.submit(blocked(user % 10))?;
        }
        Ok(task.exit()?)
    };
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..SUBMITTERS).map(|user| scope.spawn(move || submit(user))).collect();
        submitters.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread has panicked")?)
    })?;
    Ok(start.elapsed().as_secs_f64())
}

/// Medians of single calls, one after the other. What is submitted is cancelled, so that as many wait as before.
fn calls() -> Outcome<[f64; 3]> {
    let mut task = Task::enrol()?;
    let (mut ids, mut submissions) = (Vec::new(), Vec::new());
    for user in 0..CALLS as u64 {
        let start = Instant::now();
        ids.push(task.submit(blocked(user % 10))?);
        submissions.push(start.elapsed().as_secs_f64());
    }
    let looks = timed(CALLS, || Ok(task.jobs(&ids[..1])?))?;
    let lists = timed(LISTS, || Ok(task.jobs(&[])?))?;
    task.cancel_jobs(&ids)?;
    Ok([median(submissions), looks, lists])
}

fn timed<T>(times: usize, mut call: impl FnMut() -> Outcome<T>) -> Outcome<f64> {
    let mut all = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        call()?;
        all.push(start.elapsed().as_secs_f64());
    }
    Ok(median(all))
}

/// Submits jobs at their times. Those of one time are submitted one after the other.
fn trace(folder: &Path, orders: Vec<Order>) -> Outcome<Vec<Seen>> {
    let mut task = Task::enrol()?;
    let (start, mut places) = (Instant::now(), BTreeMap::new());
    for (place, order) in orders.into_iter().enumerate() {
        thread::sleep(Duration::from_millis(order.submit).saturating_sub(start.elapsed()));
        places.insert(task.submit(request(folder, &order))?, place);
    }
    let ids: Vec<JobId> = places.keys().copied().collect();
    let ended = task.wait_for_jobs(&ids)?;
    let seen = |record: &pvm3::JobRecord| Seen {
        place: places[&record.id],
        id: record.id.0,
        queue: record.queue.clone(),
        is_done: record.state == pvm3::JobState::Done,
        submitted: record.submitted,
        started: record.started.unwrap_or_default(),
        ended: record.ended.unwrap_or_default(),
    };
    let seen = ended.iter().map(seen).collect();
    Ok(task.exit().map(|()| seen)?)
}

fn request(folder: &Path, order: &Order) -> JobRequest {
    let mut job = JobRequest::new("/bin/sleep", format!("user{}", order.user), folder);
    job.program.args = vec![format!("{}.{:03}", order.run / 1000, order.run % 1000).into()];
    job.program.time = Some(order.time);
    job.tasks = if order.is_array {
        JobTasks::Array { first: 0, count: order.width, at_once: None }
    } else {
        JobTasks::Rigid(order.width)
    };
    job
}
