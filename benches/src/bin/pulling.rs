//! A batch of tasks that sleep or compute for the times of a workload, and the costs of such a batch.
//!
//! `pvm-bench-pulling batch FOLDER LOAD...` prints the seconds from the call to the last answer. Its tasks take their numbers from
//! FOLDER, which all hosts have.
//!
//! `pvm-bench-pulling policy POLICY FOLDER LOAD...` places such a batch by a policy. It prints the seconds, and the messages of the
//! policy between hosts and on the home's host, over all hosts.
//!
//! `pvm-bench-pulling spawn POLICY TASKS` spawns tasks that exit at once, and prints the seconds of the call.
//!
//! `pvm-bench-pulling messages HOST` prints the seconds that a message takes between a task and its daemon, and between tasks of two
//! hosts.
//!
//! `pvm-bench-pulling turns TASKS` prints the mean seconds until a daemon answers while this number of tasks computes on its host.

use benches::compute::compute;
use benches::numbers;
use benches::slot::Slot;
use clap::Parser;
use pvm_sched::policy::Policy::LightlyLoaded;
use pvm_sim::pulling::Workload;
use pvm_sim::random::Random;
use pvm3::{Any, Pack, PolicyMessages, Task, Tid};
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const DONE: i32 = 3;
const PING: i32 = 4;
const EXIT: i32 = 5;

/// Longer than the last messages of a batch take.
const SETTLE: Duration = Duration::from_millis(100);

/// How often a daemon is asked while tasks compute, and the time to the next question, in milliseconds: from this on, and up to as much
/// more.
const ASKED: u64 = 40;
const PAUSE: u64 = 30;
/// Longer than that takes.
const LONG: Duration = Duration::from_secs(60);

/// Round trips that are measured, and that are not because they are the first.
const TRIPS: usize = 200;
const COLD: usize = 20;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[derive(Parser)]
enum Cli {
    Batch {
        folder: PathBuf,
        #[command(flatten)]
        load: Load,
    },
    Policy {
        policy: String,
        folder: PathBuf,
        #[command(flatten)]
        load: Load,
    },
    Spawn {
        policy: String,
        tasks: usize,
    },
    Work {
        folder: PathBuf,
        #[command(flatten)]
        load: Load,
    },
    Messages {
        host: String,
    },
    Echo,
    Turns {
        tasks: usize,
    },
    Compute,
}

/// What the tasks do.
#[derive(clap::Args)]
struct Load {
    #[command(flatten)]
    workload: Workload,
    /// The cores of a slot of a host of speed 1000, on which they compute; without it they sleep
    #[arg(long)]
    cores: Option<f64>,
}

fn main() -> Outcome {
    let cli = Cli::parse();
    let mut task = Task::enrol()?;
    match cli {
        Cli::Batch { folder, load } => println!("{:.9}", batch(&mut task, &folder, &load, "")?),
        Cli::Policy { policy, folder, load } => {
            if policy == LightlyLoaded.name() {
                await_loads(&mut task)?;
            }
            let before = messages_of(&mut task, &policy)?;
            let seconds = batch(&mut task, &folder, &load, &policy)?;
            // The nodes are told that no tasks are left.
            thread::sleep(SETTLE);
            let after = messages_of(&mut task, &policy)?;
            let between_hosts = after.between_hosts - before.between_hosts;
            println!("{seconds:.9} {between_hosts} {}", after.at_home - before.at_home);
        }
        Cli::Spawn { policy, tasks } => println!("{:.9}", spawn(&mut task, &policy, tasks)?),
        Cli::Work { folder, load } => work(&mut task, &folder, &load)?,
        Cli::Messages { host } => {
            let (local, far) = messages(&mut task, &host)?;
            println!("{local:.9} {far:.9}");
        }
        Cli::Echo => echo(&mut task)?,
        Cli::Turns { tasks } => println!("{:.9}", turns(&mut task, tasks)?),
        Cli::Compute => compute(LONG),
    }
    Ok(task.exit()?)
}

/// This program, with other arguments.
fn program() -> Outcome<String> {
    Ok(env::current_exe()?.to_str().ok_or("the program's name is no text")?.to_owned())
}

fn batch(task: &mut Task, folder: &Path, load: &Load, policy: &str) -> Outcome<f64> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder)?;
    let program = program()?;
    let mut words: Vec<OsString> = vec!["work".into(), folder.into()];
    words.extend(load.arguments().into_iter().map(OsString::from));
    let tasks = load.workload.tasks;
    let start = Instant::now();
    let spawn = task.spawn(&program).args(words).count(usize::try_from(tasks)?).policy(policy);
    spawn.queued().start()?;
    for _ in 0..tasks {
        task.recv(Any, DONE)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Waits until the load of every host is known here.
fn await_loads(task: &mut Task) -> Outcome {
    let end = Instant::now() + LONG;
    while task.loads()?.iter().any(|record| record.load.is_none()) {
        if Instant::now() > end {
            return Err("some hosts do not tell their load".into());
        }
        thread::sleep(SETTLE);
    }
    Ok(())
}

/// What a policy has cost on all hosts.
fn messages_of(task: &mut Task, policy: &str) -> Outcome<PolicyMessages> {
    let mut sum = PolicyMessages::default();
    for tally in task.policy_tallies()?.into_iter().filter(|tally| tally.policy == policy) {
        sum.add(tally.messages);
    }
    Ok(sum)
}

/// The seconds of the call. The tasks have exited afterwards.
fn spawn(task: &mut Task, policy: &str, count: usize) -> Outcome<f64> {
    let start = Instant::now();
    let spawned = task.spawn("/bin/true").count(count).policy(policy).start()?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(error) = spawned.failed.first() {
        return Err(format!("{} of {count} tasks did not start: {error}", spawned.failed.len()).into());
    }
    task.notify_exit(&spawned.tids, EXIT)?;
    for _ in &spawned.tids {
        task.recv(Tid::MY_DAEMON, EXIT)?;
    }
    Ok(seconds)
}

fn work(task: &mut Task, folder: &Path, load: &Load) -> Outcome {
    let parent = task.parent().ok_or("this task was not spawned")?;
    let host = task.tid().host().ok_or("a task is on a host")?;
    let (number, host) = (numbers::next(folder)?, host.get() as usize - 1);
    load.run(folder, number, host)?;
    Ok(task.send(parent, DONE, &Pack::new())?)
}

impl Load {
    fn arguments(&self) -> Vec<String> {
        let cores = self.cores.map(|cores| format!("--cores={cores}"));
        self.workload.arguments().into_iter().chain(cores).collect()
    }

    /// The work of a task.
    fn run(&self, folder: &Path, number: u64, host: usize) -> Outcome {
        let workload = &self.workload;
        if let Some(cores) = self.cores {
            compute(workload.length(number).mul_f64(cores));
        } else {
            let slot = Slot::take(folder, host, workload.slots, number)?;
            thread::sleep(workload.time(number, host));
            drop(slot);
        }
        Ok(())
    }
}

/// Half a round trip to the daemon, and to a task on another host.
fn messages(task: &mut Task, host: &str) -> Outcome<(f64, f64)> {
    let own = task.tid();
    let local = half_trip(|| Ok(task.is_running(own).map(|_| ())?))?;
    let spawned = task.spawn(program()?).args(["echo"]).on_host(host).start()?;
    let &other = spawned.tids.first().ok_or("the other host starts nothing")?;
    let far = half_trip(|| {
        task.send(other, PING, &Pack::new())?;
        task.recv(other, PING)?;
        Ok(())
    })?;
    task.send(other, DONE, &Pack::new())?;
    Ok((local, far))
}

/// The median.
fn half_trip(mut trip: impl FnMut() -> Outcome) -> Outcome<f64> {
    let mut times = Vec::new();
    for number in 0..COLD + TRIPS {
        let start = Instant::now();
        trip()?;
        if number >= COLD {
            times.push(start.elapsed().as_secs_f64() / 2.0);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TRIPS / 2])
}

/// The mean time until a daemon answers while tasks compute.
fn turns(task: &mut Task, count: usize) -> Outcome<f64> {
    let tids = task.spawn(program()?).args(["compute"]).count(count).start()?.tids;
    let (own, mut sum) = (task.tid(), Duration::ZERO);
    thread::sleep(SETTLE);
    for number in 0..ASKED {
        // At moments that have nothing to do with when a quota begins anew.
        thread::sleep(Duration::from_millis(PAUSE + Random::part(number, 0).below(PAUSE as usize) as u64));
        let start = Instant::now();
        task.is_running(own)?;
        sum += start.elapsed();
    }
    for tid in tids {
        task.kill(tid)?;
    }
    Ok(sum.as_secs_f64() / ASKED as f64)
}

fn echo(task: &mut Task) -> Outcome {
    let parent = task.parent().ok_or("this task was not spawned")?;
    loop {
        let message = task.recv(parent, Any)?;
        if message.tag() == DONE {
            return Ok(());
        }
        task.send(parent, PING, &Pack::new())?;
    }
}
