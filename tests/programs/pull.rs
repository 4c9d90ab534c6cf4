//! As pull.c.

use pvm3::{Any, Pack, Received, Result, Routing, Task, Tid};
use std::fs;
use std::time::{Duration, Instant};

const PULL: i32 = 1;
const ANSWER: i32 = 2;

/// What the file says.
struct Order {
    serial: u32,
    what: String,
    other: Tid,
}

impl Order {
    /// The order for this task; `None` if there is none yet.
    fn read(file: &str, number: usize) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let other = words.get(5 + (number ^ 1))?.parse().ok()?;
        Some(Self {
            serial: words.first()?.parse().ok()?,
            what: (*words.get(1 + number)?).to_owned(),
            other: Tid::from_raw(other),
        })
    }
}

fn pull(task: &mut Task, order: &Order, done: &str) -> Result<()> {
    task.send(order.other, PULL, &Pack::new())?;
    task.recv(order.other, ANSWER)?;
    let made = format!("{done}.new");
    let written = fs::write(&made, format!("{}\n", order.serial)).and_then(|()| fs::rename(&made, done));
    written.expect("the file's folder is the test's");
    Ok(())
}

fn answer(task: &mut Task, message: Option<Received>) -> Result<()> {
    message.map_or(Ok(()), |message| task.send(message.source(), ANSWER, &Pack::new()))
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, number, route] = &arguments[..] else { panic!("pull FILE NUMBER direct|daemon") };
    let done_file = format!("{file}.{number}");
    let number: usize = number.parse().expect("the number of a task");
    let mut task = Task::enrol()?;
    task.set_routing(if route == "direct" { Routing::Direct } else { Routing::ByDaemon });
    let (mut done, mut computes) = (0, false);
    loop {
        if let Some(order) = Order::read(file, number).filter(|order| order.serial > done) {
            if ["p", "s"].contains(&&*order.what) {
                pull(&mut task, &order, &done_file)?;
            }
            computes = ["c", "s"].contains(&&*order.what);
            done = order.serial;
        }
        let message = if computes {
            compute(Duration::from_millis(1));
            task.try_recv(Any, PULL)?
        } else {
            task.recv_timeout(Any, PULL, Duration::from_millis(10))?
        };
        answer(&mut task, message)?;
    }
}
