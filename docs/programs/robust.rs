use pvm3::{Any, Pack, Result, Task, Tid};
use std::collections::BTreeMap;
use std::path::PathBuf;

const WORKERS: usize = 4;
const SIDE: i32 = 8;
const POINTS: i32 = SIDE * SIDE;
const WORK: i32 = 1;
const RESULT: i32 = 2;
const LOST: i32 = 3;

fn stiffness(point: i32) -> f64 {
    0.5 * f64::from(1 + point / SIDE)
}

fn damping(point: i32) -> f64 {
    0.25 * f64::from(1 + point % SIDE)
}

/// Time in seconds until an oscillation is below 1 %, by small steps.
fn settling_time(stiffness: f64, damping: f64, step: f64) -> f64 {
    let (mut position, mut speed, mut last) = (1.0_f64, 0.0, 0.0);
    for n in 0..(20.0 / step + 0.5) as u64 {
        speed += step * (-stiffness * position - damping * speed);
        position += step * speed;
        if position.abs() > 0.01 {
            last = n as f64 * step;
        }
    }
    last
}

/// A worker: answers each point with its result, until the point is negative.
fn work(task: &mut Task, parent: Tid) -> Result<()> {
    loop {
        let mut message = task.recv(parent, WORK)?;
        let (point, step): (i32, f64) = (message.get_one()?, message.get_one()?);
        if point < 0 {
            return Ok(());
        }
        let mut result = Pack::new();
        result.put_one(point)?.put_one(settling_time(stiffness(point), damping(point), step))?;
        task.send(parent, RESULT, &result)?;
    }
}

// ANCHOR: state
/// What the parent knows: the points that no worker has, the point that each worker has, and the results.
struct Sweep<'a> {
    task: &'a mut Task,
    program: PathBuf,
    step: f64,
    waiting: Vec<i32>,
    workers: BTreeMap<Tid, Option<i32>>,
    times: BTreeMap<i32, f64>,
}
// ANCHOR_END: state

// ANCHOR: loop
impl Sweep<'_> {
    /// Starts workers, asks for a notice of the exit of each, and gives each a point.
    fn start(&mut self, count: usize) -> Result<()> {
        let tids = self.task.spawn(&self.program).count(count).start()?.tids;
        tids.iter().try_for_each(|&tid| self.give(tid))?;
        self.task.notify_exit(&tids, LOST)
    }

    /// Gives a worker a point that no other worker has, or tells it to exit.
    fn give(&mut self, worker: Tid) -> Result<()> {
        let point = self.waiting.pop();
        self.workers.insert(worker, point);
        let mut work = Pack::new();
        work.put_one(point.unwrap_or(-1))?.put_one(self.step)?;
        self.task.send(worker, WORK, &work)
    }

    /// Takes results and notices until every point has a result; `false` if no worker is left before that.
    fn supervise(&mut self) -> Result<bool> {
        self.start(WORKERS)?;
        while self.times.len() < POINTS as usize && !self.workers.is_empty() {
            let mut message = self.task.recv(Any, Any)?;
            if message.tag() == RESULT {
                let (point, time) = (message.get_one()?, message.get_one()?);
                self.times.insert(point, time);
                self.give(message.source())?;
            } else if let Some(Some(point)) = self.workers.remove(&message.get_tid()?) {
                println!("a worker is lost; point {point} is computed again");
                self.waiting.push(point);
                self.start(1)?;
            }
        }
        Ok(self.times.len() == POINTS as usize)
    }
}
// ANCHOR_END: loop

fn run(task: &mut Task, program: PathBuf, step: f64) -> Result<()> {
    let (waiting, workers, times) = ((0..POINTS).rev().collect(), BTreeMap::new(), BTreeMap::new());
    let mut sweep = Sweep { task, program, step, waiting, workers, times };
    if !sweep.supervise()? {
        eprintln!("no worker is left");
        std::process::exit(1);
    }
    let mut times: Vec<(f64, i32)> = sweep.times.into_iter().map(|(point, time)| (time, point)).collect();
    times.sort_by(|one, other| one.partial_cmp(other).expect("times are numbers"));
    let (time, best) = times[0];
    let (stiffness, damping) = (stiffness(best), damping(best));
    println!("{POINTS} points; stiffness {stiffness:.1} with damping {damping:.2} settles after {time:.2} s");
    Ok(())
}

fn main() -> Result<()> {
    let mut task = Task::enrol()?;
    let program = std::env::current_exe().expect("a process has a program");
    let step = std::env::args().nth(1).and_then(|step| step.parse().ok()).unwrap_or(1e-3);
    match task.parent() {
        Some(parent) => work(&mut task, parent)?,
        None => run(&mut task, program, step)?,
    }
    task.exit()
}
