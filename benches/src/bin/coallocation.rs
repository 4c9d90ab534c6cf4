//! Parallel jobs over clusters.
//!
//! - `submit FILE` submits jobs where they are to be submitted, at their times, and prints what has become of them when all have ended;
//! - `agent FILE HOME` submits those of one host;
//! - `task …` is a task of such a job: it computes for a while, then sends its messages to the tasks in other clusters, and again. Tasks of one
//!   cluster send each other nothing: that is free in the model.

use benches::compute::compute;
use benches::live::coallocation::orders::{COMMUNICATION, Ended, OUTPUT, Order, Submissions};
use benches::stamp::now;
use clap::Parser;
use pvm3::{Any, JobId, JobRecord, JobRequest, JobState, JobTasks, Pack, Routing, Task, Tid};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// To an agent: to begin, and when.
const BEGIN: i32 = 1;
/// From an agent: places and numbers of its jobs.
const SUBMITTED: i32 = 2;
/// From an agent that has ended.
const EXIT: i32 = 3;
/// To an agent: to end.
const END: i32 = 4;
/// Between tasks of a job; that of the first exchange, which opens the connections.
const DATA: i32 = 10;

/// Milliseconds that a piece of work takes in the fastest cluster, about; an exchange follows.
const PIECE: u64 = 300;
/// From the word to begin to the beginning.
const MARGIN: Duration = Duration::from_millis(300);
/// Longer than any run takes.
const LIMIT: Duration = Duration::from_secs(600);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[derive(Parser)]
enum Operation {
    Submit { file: PathBuf },
    Agent { file: PathBuf, home: usize },
    Task(Member),
}

#[derive(clap::Args)]
struct Member {
    /// The folder with the slots of each host
    #[arg(long)]
    folder: PathBuf,
    /// Pieces of work
    #[arg(long)]
    pieces: u64,
    /// Microseconds of the processor for each
    #[arg(long)]
    work: u64,
    /// Microseconds that an exchange takes on free links
    #[arg(long)]
    pause: u64,
    /// Bits per second between two tasks
    #[arg(long)]
    bandwidth: u64,
}

fn main() -> Outcome {
    match Operation::parse() {
        Operation::Submit { file } => println!("{}", serde_json::to_string(&submit(&file)?)?),
        Operation::Agent { file, home } => {
            agent(&file, home).inspect_err(|error| note(&file, error.as_ref()))?;
        }
        Operation::Task(member) => member.run()?,
    }
    Ok(())
}

/// Writes down why an agent has failed: its standard error goes to a log.
fn note(file: &Path, error: &dyn Error) {
    let output = File::options().append(true).create(true).open(file.with_file_name(OUTPUT));
    let _ = output.and_then(|mut output| writeln!(output, "{error}"));
}

fn read(file: &Path) -> Outcome<Submissions> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

fn submit(file: &Path) -> Outcome<Vec<Ended>> {
    let submissions = read(file)?;
    let mut task = Task::enrol()?;
    let mut agents = Vec::new();
    for (number, home) in submissions.homes.iter().enumerate() {
        let words: [OsString; 3] = ["agent".into(), file.into(), number.to_string().into()];
        let spawned = task.spawn(env::current_exe()?).args(words).on_host(home).start()?;
        agents.push(*spawned.tids.first().ok_or_else(|| format!("no task on {home}: {:?}", spawned.failed))?);
    }
    task.notify_exit(&agents, EXIT)?;
    let begin = now() + MARGIN.as_nanos() as u64;
    let mut pack = Pack::new();
    pack.put(&[begin as i64])?;
    task.multicast(&agents, BEGIN, &pack)?;
    let mut places = BTreeMap::new();
    while !agents.is_empty() {
        let message = task.recv_timeout(Any, Any, LIMIT)?;
        let mut message = message.ok_or("the jobs are not submitted in time")?;
        if message.tag() == EXIT {
            let tid = Tid::from_raw(message.get_one()?);
            if agents.contains(&tid) {
                return Err("an agent has ended too early".into());
            }
            continue;
        }
        let all: Result<Vec<(u64, usize)>, String> = message.get_value()?;
        places.extend(all?.into_iter().map(|(id, place)| (JobId(id), place)));
        let agent = message.source();
        agents.retain(|&other| other != agent);
        task.send(agent, END, &Pack::new())?;
    }
    let ids: Vec<JobId> = places.keys().copied().collect();
    let ended = task.wait_for_jobs(&ids)?;
    let ended = ended.iter().map(|record| seen(record, places[&record.id])).collect();
    task.exit()?;
    Ok(ended)
}

fn seen(record: &JobRecord, place: usize) -> Ended {
    let is_done = record.state == JobState::Done;
    Ended {
        place,
        failure: if is_done { String::new() } else { format!("{:?} {}", record.state, record.reason) },
        submitted: record.submitted,
        started: record.started.unwrap_or_default(),
        ended: record.ended.unwrap_or_default(),
        predicted: record.run.predicted,
        clusters: record.run.clusters.len(),
    }
}

fn agent(file: &Path, home: usize) -> Outcome {
    let submissions = read(file)?;
    let mut task = Task::enrol()?;
    let parent = task.parent().ok_or("an agent has a parent")?;
    let begin: i64 = task.recv(parent, BEGIN)?.get_one()?;
    let submitted =
        submit_from(&mut task, &submissions, home, begin as u64).map_err(|error| error.to_string());
    let mut pack = Pack::new();
    pack.put_value(&submitted)?;
    task.send(parent, SUBMITTED, &pack)?;
    // A notice of its end could be there before its message.
    task.recv(parent, END)?;
    Ok(task.exit()?)
}

/// Submits the jobs of one host: their numbers and places.
fn submit_from(
    task: &mut Task,
    submissions: &Submissions,
    home: usize,
    begin: u64,
) -> Outcome<Vec<(u64, usize)>> {
    let mut ids: Vec<(u64, usize)> = Vec::new();
    for (place, order) in submissions.orders.iter().enumerate().filter(|(_, order)| order.home == home) {
        let at = begin + order.submit * 1_000_000;
        thread::sleep(Duration::from_nanos(at.saturating_sub(now())));
        ids.push((task.submit(request(submissions, order)?)?.0, place));
    }
    Ok(ids)
}

fn request(submissions: &Submissions, order: &Order) -> Outcome<JobRequest> {
    let communication = order.run as f64 * COMMUNICATION;
    let pieces = (order.run as f64 / PIECE as f64).round().max(1.0);
    let work = order.run as f64 * 1000.0 * submissions.cores / pieces;
    let mut job = JobRequest::new(env::current_exe()?, "user", &submissions.folder);
    let words = |name: &str, value: f64| [format!("--{name}"), value.round().to_string()];
    let numbers = [
        words("pieces", pieces),
        words("work", work),
        words("pause", communication * 1000.0 / pieces),
        words("bandwidth", submissions.bandwidth as f64),
    ];
    job.program.args = vec!["task".into(), "--folder".into(), submissions.folder.clone().into()];
    job.program.args.extend(numbers.concat().into_iter().map(OsString::from));
    job.program.output = Some(OUTPUT.into());
    job.queue = Some(submissions.queue.clone());
    job.tasks = JobTasks::Rigid(order.width);
    job.expectation.bandwidth = submissions.bandwidth;
    job.expectation.run = Some(order.run);
    job.expectation.communication = Some(communication.round() as u64);
    Ok(job)
}

impl Member {
    fn run(&self) -> Outcome {
        let mut task = Task::enrol()?;
        let name = env::var_os("PVM_JOB_GROUP").ok_or("a task of a parallel job has a group")?;
        let count: usize = env::var("PVM_JOB_TASKS")?.parse()?;
        task.group(&name).barrier(count)?;
        let far = if self.bandwidth > 0 { far(&mut task, &name)? } else { Vec::new() };
        task.set_routing(Routing::Direct);
        exchange(&mut task, &far, DATA, &Pack::raw())?;
        let slot = self.enter(&mut task)?;
        // Each of the others has an equal part of what a task sends, and those of the same cluster get nothing.
        let bits = self.bandwidth as f64 * self.pause as f64 / 1e6 / (count.max(2) - 1) as f64;
        let mut pack = Pack::raw();
        pack.put(&vec![0_u8; (bits / 8.0).round() as usize])?;
        let pause = Duration::from_micros(self.pause);
        for piece in 0..self.pieces {
            compute(Duration::from_micros(self.work));
            if !far.is_empty() {
                let start = Instant::now();
                exchange(&mut task, &far, DATA + 1 + piece as i32, &pack)?;
                thread::sleep(pause.saturating_sub(start.elapsed()));
            }
        }
        slot.leave()?;
        // A job leaves all of its slots at once.
        task.group(&name).barrier(count)?;
        Ok(task.exit()?)
    }

    /// Takes a free slot of this host.
    fn enter(&self, task: &mut Task) -> Outcome<Slot> {
        let own = task.tid().to_host();
        let hosts = task.hosts()?;
        let host = hosts.iter().find(|host| host.tid == own).ok_or("this host is not known")?;
        for line in fs::read_to_string(self.folder.join(&host.name))?.lines() {
            let group = Path::new(line);
            let name = group.file_name().ok_or("a group has a name")?;
            let lock = File::options().create(true).append(true).open(self.folder.join(name))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let slot = Slot { group: group.to_owned(), _lock: lock };
                move_to(&slot.group)?;
                return Ok(slot);
            }
        }
        Err("no slot is free".into())
    }
}

/// A slot of this host, until the task ends.
struct Slot {
    group: PathBuf,
    _lock: File,
}

impl Slot {
    /// Not the work, but what follows has the whole processor.
    fn leave(&self) -> Outcome {
        Ok(move_to(self.group.parent().ok_or("a group has a parent")?)?)
    }
}

/// Moves this process into a control group.
fn move_to(group: &Path) -> std::io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// The tasks of the job on other hosts.
fn far(task: &mut Task, group: &OsString) -> Outcome<Vec<Tid>> {
    let own = task.tid().host();
    let members = task.group(group).members()?;
    Ok(members.into_iter().filter(|tid| tid.host() != own).collect())
}

/// All send to all.
fn exchange(task: &mut Task, others: &[Tid], tag: i32, pack: &Pack) -> Outcome {
    for &other in others {
        task.send(other, tag, pack)?;
    }
    for &other in others {
        task.recv(other, tag)?;
    }
    Ok(())
}
