//! Measures for how long a task stands still when it moves to another host: from the save of its state until its successor has it. And for comparison how
//! long the same numbers take as a message, from the first that is packed to the last that is unpacked.
//!
//! `pvm-bench-moves move|message SECONDS X...` is on the first host of three. It starts a task with X bytes of state on the second one, and has it move to the
//! third one and back; or a task on each, of which one sends the other X bytes.

use benches::stamp::{Stamp, now};
use pvm3::{HostInfo, Pack, Routing, Task, Tid};
use serde::{Deserialize, Serialize};
use std::env;
use std::error::Error;

/// From a task: it is there, or has got everything.
const READY: i32 = 1;
const DONE: i32 = 2;
/// To a task: to whom it sends.
const GO: i32 = 3;
const DATA: i32 = 4;
/// To a task: to end.
const STOP: i32 = 5;
/// A task has ended.
const EXIT: i32 = 6;

/// Number of times that each state moves; the result is their median. Large states move less often.
const TIMES: usize = 7;
const FEW_TIMES: usize = 3;
const LARGE: usize = 1 << 28;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What the task takes along.
#[derive(Serialize, Deserialize)]
struct State {
    // The first that is written.
    saved: Stamp,
    numbers: Vec<f64>,
}

fn main() -> Outcome {
    let words: Vec<String> = env::args().collect();
    let mut task = Task::enrol()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "mover", size] => wait(&mut task, size.parse()?)?,
        [_, "sender", size] => send(&mut task, size.parse()?)?,
        [_, "receiver", size] => receive(&mut task, size.parse()?)?,
        [_, what @ ("move" | "message"), _seconds, ref sizes @ ..] if !sizes.is_empty() => {
            let measure = if what == "move" { moves } else { messages };
            for size in sizes {
                let size = size.parse()?;
                let mut times = measure(&mut task, size, if size < LARGE { TIMES } else { FEW_TIMES })?;
                times.sort_by(f64::total_cmp);
                println!("{size} {:.9e}", times[times.len() / 2]);
            }
        }
        _ => return Err("usage: pvm-bench-moves move|message SECONDS X...".into()),
    }
    Ok(task.exit()?)
}

fn numbers(size: usize) -> Vec<f64> {
    (0..size / size_of::<f64>()).map(|number| number as f64).collect()
}

fn check(numbers: &[f64], size: usize) -> Outcome {
    let count = size / size_of::<f64>();
    let is_right = numbers.len() == count && numbers.last().is_none_or(|last| *last as usize == count - 1);
    if is_right { Ok(()) } else { Err("the numbers are not what they were".into()) }
}

fn parent(task: &Task) -> Outcome<Tid> {
    Ok(task.parent().ok_or("it has a parent")?)
}

/// Tells the parent, with times.
fn tell(task: &mut Task, tag: i32, times: &[u64]) -> Outcome {
    let mut pack = Pack::new();
    pack.put(times)?;
    Ok(task.send(parent(task)?, tag, &pack)?)
}

/// A task that moves while it waits.
fn wait(task: &mut Task, size: usize) -> Outcome {
    let numbers = if task.has_moved() { Vec::new() } else { numbers(size) };
    let state = task.on_move(State { saved: Stamp::default(), numbers })?;
    if task.has_moved() {
        let restored = now();
        let saved = {
            let state = state.lock().map_err(|_| "no thread has panicked")?;
            check(&state.numbers, size)?;
            state.saved.0
        };
        tell(task, DONE, &[saved, restored])?;
    } else {
        tell(task, READY, &[])?;
    }
    task.recv(parent(task)?, STOP)?;
    Ok(())
}

/// A task that sends its numbers to another one, again and again.
fn send(task: &mut Task, size: usize) -> Outcome {
    task.set_routing(Routing::Direct);
    let numbers = numbers(size);
    let parent = parent(task)?;
    let other = Tid::from_raw(task.recv(parent, GO)?.get_one()?);
    task.send(other, READY, &Pack::new())?;
    loop {
        let mut order = task.recv(parent, GO)?;
        if order.get_one::<i32>()? == 0 {
            return Ok(());
        }
        let mut pack = Pack::raw();
        pack.put(&[now()])?;
        pack.put(&numbers)?;
        task.send(other, DATA, &pack)?;
    }
}

/// The other one.
fn receive(task: &mut Task, size: usize) -> Outcome {
    let parent = parent(task)?;
    task.recv(pvm3::Any, READY)?;
    tell(task, READY, &[])?;
    for _ in 0..if size < LARGE { TIMES } else { FEW_TIMES } {
        let mut message = task.recv(pvm3::Any, DATA)?;
        let began: u64 = message.get_one()?;
        let numbers: Vec<f64> = message.get(size / size_of::<f64>())?;
        let ended = now();
        check(&numbers, size)?;
        tell(task, DONE, &[began, ended])?;
    }
    task.recv(parent, STOP)?;
    Ok(())
}

/// Two hosts other than this one.
fn hosts(task: &mut Task) -> Outcome<[HostInfo; 2]> {
    let [_, one, other, ..] = &task.hosts()?[..] else { return Err("three hosts are needed".into()) };
    Ok([one.clone(), other.clone()])
}

fn start(task: &mut Task, role: &str, size: usize, host: &HostInfo) -> Outcome<Tid> {
    let spawn = task.spawn(env::current_exe()?).args([role.to_owned(), size.to_string()]);
    let spawned = spawn.on_host(&host.name).start()?;
    let tid = *spawned.tids.first().ok_or_else(|| format!("no task: {:?}", spawned.failed))?;
    // Or what it is to tell would be waited for in vain.
    task.notify_exit(&[tid], EXIT)?;
    Ok(tid)
}

/// Seconds between the two times that a task tells.
fn hear(task: &mut Task, from: Tid) -> Outcome<f64> {
    let mut message = task.recv(pvm3::Any, pvm3::Any)?;
    if (message.source(), message.tag()) != (from, DONE) {
        return Err(format!("{from} is lost").into());
    }
    let [began, ended] = message.get::<u64>(2)?[..] else { return Err("two times".into()) };
    Ok(ended.saturating_sub(began) as f64 / 1e9)
}

fn moves(task: &mut Task, size: usize, times: usize) -> Outcome<Vec<f64>> {
    let hosts = hosts(task)?;
    let mover = start(task, "mover", size, &hosts[0])?;
    task.recv(mover, READY)?;
    let mut all = Vec::new();
    for number in 0..times {
        task.move_task(mover, Some(hosts[(number + 1) % 2].tid))?;
        all.push(hear(task, mover)?);
    }
    task.send(mover, STOP, &Pack::new())?;
    Ok(all)
}

fn order(number: i32) -> Outcome<Pack> {
    let mut pack = Pack::new();
    pack.put(&[number])?;
    Ok(pack)
}

fn messages(task: &mut Task, size: usize, times: usize) -> Outcome<Vec<f64>> {
    let hosts = hosts(task)?;
    let [sender, receiver] =
        [start(task, "sender", size, &hosts[0])?, start(task, "receiver", size, &hosts[1])?];
    task.send(sender, GO, &order(receiver.raw())?)?;
    task.recv(receiver, READY)?;
    let mut all = Vec::new();
    for _ in 0..times {
        task.send(sender, GO, &order(1)?)?;
        all.push(hear(task, receiver)?);
    }
    task.send(sender, GO, &order(0)?)?;
    task.send(receiver, STOP, &Pack::new())?;
    Ok(all)
}
