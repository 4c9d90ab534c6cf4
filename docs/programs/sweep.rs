use pvm3::{Any, Pack, Result, Task, Tid};
use std::path::Path;

const WORKERS: usize = 4;
const SIDE: i32 = 8;
const POINTS: i32 = SIDE * SIDE;
const WORK: i32 = 1;
const RESULT: i32 = 2;

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

fn give(task: &mut Task, worker: Tid, point: Option<i32>, step: f64) -> Result<()> {
    let mut work = Pack::new();
    work.put_one(point.unwrap_or(-1))?.put_one(step)?;
    task.send(worker, WORK, &work)
}

/// The parent: each worker has one point at a time, and gets the next one for its result.
fn sweep(task: &mut Task, program: &Path, step: f64) -> Result<()> {
    let workers = task.spawn(program).count(WORKERS).start()?.tids;
    let mut points = 0..POINTS;
    for &worker in &workers {
        give(task, worker, points.next(), step)?;
    }
    let mut times = Vec::new();
    for _ in 0..POINTS {
        let mut message = task.recv(Any, RESULT)?;
        let (point, time): (i32, f64) = (message.get_one()?, message.get_one()?);
        times.push((time, point));
        give(task, message.source(), points.next(), step)?;
    }
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
        None => sweep(&mut task, &program, step)?,
    }
    task.exit()
}
