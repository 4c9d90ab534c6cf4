//! A picture drawn by many tasks: the master spawns one task for each tile, and puts together what they send.
//!
//! This is the usual shape of a PVM program. Master and worker are the same program; a task that has a parent is a worker.
//! A worker may die at any moment, on any host: the daemon notifies the master, which then starts another.

use crate::fractal::{self, Picture, TILE_BYTES, TILES};
use pvm3::{Any, Error, Pack, PvmError, Result, Task, Tid};
use std::collections::HashMap;
use std::time::Duration;

/// Tag of "draw this tile", to a worker.
const WORK: i32 = 1;
/// Tag of a finished tile, to the master.
const TILE: i32 = 2;
/// Tag of "this worker has ended", from the daemon.
const ENDED: i32 = 3;

/// How many workers may die with their work undone before the master gives up.
const PATIENCE: usize = TILES;

/// The program that becomes a worker.
pub struct Workers {
    /// Its path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A finished tile, as the master reports it.
pub struct Finished {
    /// The host that drew it.
    pub host: Tid,
    /// Processor time that the worker has used.
    pub busy: Duration,
}

/// Draws the picture, and reports each tile as it comes in.
pub fn master(task: &mut Task, workers: &Workers, mut report: impl FnMut(Finished)) -> Result<Picture> {
    let mut picture = Picture::default();
    let mut waiting: Vec<usize> = (0..TILES).collect();
    let mut working = HashMap::new();
    let (mut finished, mut deaths) = (0, 0);

    hire(task, workers, &mut waiting, &mut working)?;
    while finished < TILES {
        let mut message = task.recv(Any, Any)?;
        match message.tag() {
            TILE => {
                let Some(tile) = working.remove(&message.source()) else { continue };
                let busy = Duration::from_micros(message.get_one::<u32>()?.into());
                picture.place(tile, &message.get(TILE_BYTES)?);
                report(Finished { host: message.source().to_host(), busy });
                finished += 1;
            }
            ENDED => {
                if let Some(tile) = working.remove(&message.get_tid()?) {
                    waiting.push(tile);
                    deaths += 1;
                }
                if deaths > PATIENCE {
                    return Err(Error::new(PvmError::NoTask, "workers keep ending without their work"));
                }
                hire(task, workers, &mut waiting, &mut working)?;
            }
            _ => {}
        }
    }
    Ok(picture)
}

/// Spawns a worker for each tile that waits, all in one call. What cannot be started now waits on.
fn hire(
    task: &mut Task,
    workers: &Workers,
    waiting: &mut Vec<usize>,
    working: &mut HashMap<Tid, usize>,
) -> Result<()> {
    if waiting.is_empty() {
        return Ok(());
    }
    let spawned = task.spawn(&workers.program).args(workers.args.clone()).count(waiting.len()).start()?;
    task.notify_exit(&spawned.tids, ENDED)?;
    let tiles = waiting.drain(..spawned.tids.len());
    for (worker, tile) in spawned.tids.into_iter().zip(tiles) {
        let mut work = Pack::new();
        work.put_one(tile as i32)?;
        task.send(worker, WORK, &work)?;
        working.insert(worker, tile);
    }
    match spawned.failed.first() {
        Some(&reason) if working.is_empty() => Err(reason.into()),
        _ => Ok(()),
    }
}

/// Draws one tile for the task's parent.
pub fn worker(task: &mut Task) -> Result<()> {
    let master = task.parent().ok_or(PvmError::NoParent)?;
    let tile: i32 = task.recv(master, WORK)?.get_one()?;
    let rgb = fractal::render(tile as usize);
    let busy = processor_time().as_micros() as u32;

    let mut answer = Pack::new();
    answer.put_one(busy)?.put(&rgb)?;
    task.send(master, TILE, &answer)
}

/// The processor time that this process has used. Wall time would count the tasks that share the processor, too.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
