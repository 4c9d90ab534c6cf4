//! How long it takes until all tasks of a batch are done, some of them longer than others, on hosts some of which are faster:
//!
//! `pvm-bench-makespan HOW SHAPE SPEED DISTURBED FOLDER X...`
//!
//! HOW is `queued`, a policy's name, or `own` for what the virtual machine does by itself; SHAPE how the tasks' lengths are distributed, SPEED what all hosts have together, in cores,
//! DISTURBED a control group that loses half of its quota at the moment when half of the work could be done, or `-`. The lengths are
//! handed out in the order in which tasks begin: they take numbers from FOLDER, which all hosts have. HOW `bound` says what
//! it would take if all hosts together were one; DISTURBED is what they lose half-way then, in cores.

use benches::numbers;
use pvm3::{Any, Pack, Task};
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, thread};

const DONE: i32 = 3;

/// Work of a task of mean length: some 50 ms of a core of today, beside which the start of a process is short.
const MEAN: f64 = 30e6;

/// Length of long tasks, relative to the mean of the others.
const LONG: f64 = 4.0;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [_, "work", shape, folder] => work(shape, Path::new(folder)),
        [_, "bound", shape, speed, lost, _folder, xs @ ..] => {
            let (of_one, speed) = (time_of_one()?, speed.parse::<f64>()?);
            let later = speed - lost.parse::<f64>().unwrap_or(0.0);
            each(xs, |count| Ok(total(shape, count) * of_one / 2.0 * (speed.recip() + later.recip())))
        }
        [program, how, shape, speed, disturbed, folder, xs @ ..] => {
            let disturbed = (*disturbed != "-").then_some(Path::new(disturbed));
            let half =
                disturbed.map(|_| Ok::<_, Box<dyn Error>>(time_of_one()? / speed.parse::<f64>()? / 2.0));
            let disturbed = disturbed.zip(half.transpose()?);
            let mut task = Task::enrol()?;
            each(xs, |count| {
                Run { task: &mut task, program, how, shape, disturbed, folder: Path::new(folder) }.took(count)
            })?;
            Ok(task.exit()?)
        }
        _ => Err("usage: pvm-bench-makespan HOW SHAPE SPEED DISTURBED FOLDER X...".into()),
    }
}

fn each(xs: &[&str], mut took: impl FnMut(usize) -> Outcome<f64>) -> Outcome {
    for x in xs {
        let count = x.parse()?;
        println!("{count} {:.9e}", took(count)?);
    }
    Ok(())
}

/// A batch, from its spawn to the end of its last task.
struct Run<'a> {
    task: &'a mut Task,
    program: &'a str,
    how: &'a str,
    shape: &'a str,
    /// The group that loses half of its quota, and after how many seconds for each task of mean length.
    disturbed: Option<(&'a Path, f64)>,
    folder: &'a Path,
}

impl Run<'_> {
    fn took(&mut self, count: usize) -> Outcome<f64> {
        let _ = fs::remove_dir_all(self.folder);
        fs::create_dir(self.folder)?;
        let half = self.disturbed.map(|(group, half)| (group.to_owned(), half * total(self.shape, count)));
        let start = Instant::now();
        let others = half.map(|(group, half)| {
            thread::spawn(move || {
                thread::sleep(Duration::from_secs_f64(half));
                Others::begin(&group)
            })
        });
        self.spawn(count)?;
        for _ in 0..count {
            self.task.recv(Any, DONE)?;
        }
        let took = start.elapsed().as_secs_f64();
        if let Some(others) = others {
            others.join().map_err(|_| "the disturbing thread has failed")??;
        }
        Ok(took)
    }

    fn spawn(&mut self, count: usize) -> Outcome {
        let folder = self.folder.to_str().ok_or("the folder's name is no text")?;
        let spawn = self.task.spawn(self.program).args(["work", self.shape, folder]).count(count);
        if self.how == "queued" {
            spawn.queued().start()?;
            return Ok(());
        }
        let spawn = if self.how == "own" { spawn } else { spawn.policy(self.how) };
        let spawned = spawn.start()?;
        if spawned.tids.len() == count { Ok(()) } else { Err(format!("{:?}", spawned.failed).into()) }
    }
}

/// Somebody else takes half of a host. It is given back when this is dropped.
struct Others {
    quota: PathBuf,
    before: String,
}

impl Others {
    fn begin(group: &Path) -> std::io::Result<Self> {
        let quota = group.join("cpu.cfs_quota_us");
        let before = fs::read_to_string(&quota)?;
        let half = before.trim().parse::<u64>().map_err(std::io::Error::other)? / 2;
        fs::write(&quota, half.to_string())?;
        Ok(Self { quota, before })
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // Ignored: the next batch would show an error.
        let _ = fs::write(&self.quota, &self.before);
    }
}

fn work(shape: &str, folder: &Path) -> Outcome {
    let mut task = Task::enrol()?;
    let parent = task.parent().ok_or("this task was not spawned")?;
    compute(MEAN * length(shape, numbers::next(folder)?));
    task.send(parent, DONE, &Pack::new())?;
    Ok(task.exit()?)
}

/// The length of a task relative to the mean, always the same for its number.
fn length(shape: &str, number: u64) -> f64 {
    // Numbers spread evenly over 0 to 1, in no order.
    let place = ((number as f64 + 0.5) * 0.618_033_988_749_895).fract();
    match shape {
        "uniform" => 2.0 * place,
        // A Pareto distribution with the exponent 1.5, cut off at 20 times the mean.
        "heavy" => ((1.0 - place).powf(-1.0 / 1.5) / 3.0).min(20.0),
        "long" => LONG,
        "long-uniform" => LONG * 2.0 * place,
        "empty" => 0.0,
        _ => 1.0,
    }
}

fn total(shape: &str, count: usize) -> f64 {
    (0..count as u64).map(|number| length(shape, number)).sum()
}

fn compute(steps: f64) {
    let mut state = 1_u64;
    for _ in 0..steps as u64 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state = black_box(state);
    }
}

/// Seconds that the work of mean length takes a whole core, in the processor's time, since others may run between.
fn time_of_one() -> Outcome<f64> {
    // So many that a tick of the clock does not matter.
    const MANY: f64 = 10.0;
    let before = processor_time()?;
    compute(MEAN * MANY);
    Ok((processor_time()? - before) / MANY)
}

/// Seconds that this thread has had a processor.
fn processor_time() -> Outcome<f64> {
    let times = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = times.split_whitespace().next().ok_or("there is no time in schedstat")?;
    Ok(nanoseconds.parse::<f64>()? / 1e9)
}
