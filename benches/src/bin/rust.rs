//! Measures PVM's Rust interface: the pairs of `programs/pvm.c`, with the same arguments and results.

use pvm3::{Pack, Routing, Task, Tid};
use std::env;
use std::error::Error;
use std::mem;
use std::time::{Duration, Instant};

const ORDER: i32 = 1;
const DATA: i32 = 2;
const ANSWER: i32 = 5;

/// Messages one way before there is an answer.
const FLOOD: u32 = 64;

/// Number of batches; their median is the result, so that an interruption of one has no effect.
const BATCHES: usize = 9;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// One half of a pair.
struct Half {
    task: Task,
    other: Tid,
    pack: Pack,
    doubles: bool,
    /// The message to send.
    data: Data,
    /// The last received message.
    came: Data,
}

/// What a half repeats with messages of one size.
type Act = fn(&mut Half, size: usize, times: u64) -> Outcome;

fn main() -> Outcome {
    let words: Vec<String> = env::args().collect();
    let [program, what, seconds, encoding, route, kind, _place, sizes @ ..] = words.as_slice() else {
        return Err("usage: pvm-bench-rust WHAT SECONDS ENCODING ROUTE TYPE PLACE X...".into());
    };
    let mut task = Task::enrol()?;
    if route == "direct" {
        task.set_routing(Routing::Direct);
    }
    let rate = what == "rate";
    let pack = if encoding == "raw" { Pack::raw() } else { Pack::new() };
    let doubles = kind == "double";
    let parent = task.parent();
    let other = match parent {
        Some(parent) => parent,
        None => child(&mut task, program, &words[1..])?,
    };
    let mut half = Half { task, other, pack, doubles, data: Data::default(), came: Data::default() };
    if parent.is_some() {
        half.answer(if rate { Half::drain } else { Half::echo })?;
    } else {
        half.measure(rate, sizes, Duration::try_from_secs_f64(seconds.parse()?)?)?;
    }
    Ok(half.task.exit()?)
}

fn child(task: &mut Task, program: &str, words: &[String]) -> Outcome<Tid> {
    let spawned = task.spawn(program).args(words.iter().cloned()).start()?;
    Ok(*spawned.tids.first().ok_or_else(|| format!("no child: {:?}", spawned.failed))?)
}

impl Half {
    fn measure(&mut self, rate: bool, sizes: &[String], seconds: Duration) -> Outcome {
        for size in sizes {
            let size = size.parse()?;
            self.data = Data::new(self.doubles, size);
            let took = if rate {
                self.timed(Self::one_way, size, seconds)? / f64::from(FLOOD)
            } else {
                self.there_and_back(size, 1)?;
                self.data.check(&self.came)?;
                self.timed(Self::there_and_back, size, seconds)? / 2.0
            };
            println!("{size} {took:.9e}");
        }
        self.order(0, 0)
    }

    /// The next order to the other half.
    fn order(&mut self, size: usize, times: u64) -> Outcome {
        let mut order = Pack::new();
        order.put(&[size as u64, times])?;
        Ok(self.task.send(self.other, ORDER, &order)?)
    }

    /// Does what the other orders, until that is nothing.
    fn answer(&mut self, act: Act) -> Outcome {
        loop {
            let order: Vec<u64> = self.task.recv(self.other, ORDER)?.get(2)?;
            if order[1] == 0 {
                return Ok(());
            }
            act(self, order[0] as usize, order[1])?;
        }
    }

    fn send(&mut self) -> Outcome {
        self.pack.clear();
        match &self.data {
            Data::Bytes(bytes) => self.pack.put(bytes)?,
            Data::Doubles(doubles) => self.pack.put(doubles)?,
        };
        Ok(self.task.send(self.other, DATA, &self.pack)?)
    }

    /// Takes a message into memory that is there, as programs in C do.
    fn receive(&mut self, size: usize) -> Outcome {
        let mut message = self.task.recv(self.other, DATA)?;
        self.came.fit(self.doubles, size);
        match &mut self.came {
            Data::Bytes(bytes) => message.get_into(bytes)?,
            Data::Doubles(doubles) => message.get_into(doubles)?,
        }
        Ok(())
    }

    fn there_and_back(&mut self, size: usize, times: u64) -> Outcome {
        self.order(size, times)?;
        for _ in 0..times {
            self.send()?;
            self.receive(size)?;
        }
        Ok(())
    }

    fn echo(&mut self, size: usize, times: u64) -> Outcome {
        for _ in 0..times {
            self.receive(size)?;
            mem::swap(&mut self.data, &mut self.came);
            self.send()?;
            mem::swap(&mut self.data, &mut self.came);
        }
        Ok(())
    }

    fn one_way(&mut self, size: usize, times: u64) -> Outcome {
        self.order(size, times)?;
        for _ in 0..times {
            for _ in 0..FLOOD {
                self.send()?;
            }
            self.task.recv(self.other, ANSWER)?;
        }
        Ok(())
    }

    fn drain(&mut self, size: usize, times: u64) -> Outcome {
        for _ in 0..times {
            for _ in 0..FLOOD {
                self.receive(size)?;
            }
            self.task.send(self.other, ANSWER, &Pack::new())?;
        }
        Data::new(self.doubles, size).check(&self.came)
    }

    /// Seconds that it takes once, as `timed` of `programs/bench.h`.
    fn timed(&mut self, act: Act, size: usize, seconds: Duration) -> Outcome<f64> {
        let mut times = 1;
        let mut took = self.time(act, size, times)?;
        while took < seconds / 8 {
            times *= 4;
            took = self.time(act, size, times)?;
        }
        let once = took.as_secs_f64() / times as f64;
        let batches = if once * BATCHES as f64 > 4.0 * seconds.as_secs_f64() { 3 } else { BATCHES };
        let times = ((seconds.as_secs_f64() / batches as f64 / once) as u64).max(1);
        let mut each = Vec::new();
        for _ in 0..batches {
            each.push(self.time(act, size, times)?.as_secs_f64() / times as f64);
        }
        each.sort_by(f64::total_cmp);
        Ok(each[batches / 2])
    }

    fn time(&mut self, act: Act, size: usize, times: u64) -> Outcome<Duration> {
        let start = Instant::now();
        act(self, size, times)?;
        Ok(start.elapsed())
    }
}

/// The content of messages.
#[derive(PartialEq)]
enum Data {
    Bytes(Vec<u8>),
    Doubles(Vec<f64>),
}

impl Default for Data {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Data {
    /// Values that differ from place to place.
    fn new(doubles: bool, size: usize) -> Self {
        if doubles {
            Self::Doubles((0..size / 8).map(|i| (i * 31 % 65521) as f64).collect())
        } else {
            Self::Bytes((0..size).map(|i| (i * 31 % 251) as u8).collect())
        }
    }

    /// Makes room for `size` bytes of this kind.
    fn fit(&mut self, doubles: bool, size: usize) {
        match self {
            Self::Bytes(bytes) if !doubles => bytes.resize(size, 0),
            Self::Doubles(values) if doubles => values.resize(size / 8, 0.0),
            _ => *self = Self::new(doubles, size),
        }
    }

    /// An error if what came is not this.
    fn check(&self, came: &Self) -> Outcome {
        if came == self { Ok(()) } else { Err("what was received is not what was sent".into()) }
    }
}
