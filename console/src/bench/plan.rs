//! What is measured, in which order, and for how long.

use super::args::{Pairs, Part};
use super::order::{FLOOD, Way};

/// Where something is measured. Hosts are numbered as the virtual machine lists them, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On one host.
    Host(usize),
    /// Between two.
    Pair(usize, usize),
    /// On all hosts at once.
    All,
}

/// What is repeated and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A batch of tasks is spawned, and all of them exit.
    Spawn,
    /// A message and its answer, of the same length.
    PingPong(Way),
    /// [`FLOOD`] messages and an answer.
    Flood(Way),
    /// A message from each host to each other one.
    Exchange(Way),
    /// A process starts and exits, on each host of the place.
    Execs,
    /// Bytes are copied twice.
    Copies,
    /// A word goes from one thread to another, and back.
    Flips,
}

/// A measurement: its size is the number of tasks of a batch, or the length of a message in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// What is repeated.
    pub what: What,
    /// Where.
    pub place: Place,
    /// How much of it.
    pub size: u64,
}

/// Sizes of [`What::Execs`]: one process at a time, and four per processor.
pub const ONE: u64 = 1;
/// See [`ONE`].
pub const MANY: u64 = 4;

/// A line of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The part that it belongs to.
    pub part: Part,
    /// What is measured by PVM.
    pub cell: Cell,
    /// What it is compared with; none: the processors' busy time.
    pub limit: Option<Cell>,
}

/// The hosts and sizes to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Number of hosts.
    pub hosts: usize,
    /// How many of them are measured one by one and in pairs.
    pub first: usize,
    /// In which pairs.
    pub pairs: Pairs,
    /// Tasks in the greatest batch.
    pub max_tasks: u32,
    /// Whether the longest messages are left out.
    pub quick: bool,
}

/// Lengths of messages, bytes.
const SHORT: [u64; 3] = [1, 64, 1024];
const LONG: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];
const OF_RATE: u64 = 64;

/// Hosts between which all connections are made, for comparison with [`What::Exchange`].
pub const WIRED_MAX: usize = 16;
/// Bytes that all hosts together send in one exchange, at most.
pub const EXCHANGE_MAX: u64 = 1 << 30;

impl Scope {
    /// The hosts that are measured one by one.
    fn single(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.first.min(self.hosts)
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let from = |a: usize| self.single().skip(a + 1).map(move |b| (a, b));
        match self.pairs {
            Pairs::First => from(0).collect(),
            Pairs::All => self.single().flat_map(from).collect(),
        }
    }

    /// Tasks of a batch: powers of ten, and the greatest.
    fn batches(&self) -> Vec<u64> {
        let max = u64::from(self.max_tasks);
        let mut sizes: Vec<u64> =
            std::iter::successors(Some(1), |size| Some(size * 10)).take_while(|&size| size < max).collect();
        sizes.push(max);
        sizes
    }

    /// The lines of a part, in the order in which they are measured and shown.
    pub fn rows(&self, part: Part) -> Vec<Row> {
        match part {
            Part::Spawn => self.spawn_rows(),
            Part::Latency => self.message_rows(part, &SHORT),
            Part::Bandwidth if self.quick => self.message_rows(part, &LONG[..2]),
            Part::Bandwidth => self.message_rows(part, &LONG),
            Part::Rate => self.message_rows(part, &[OF_RATE]),
            Part::AllToAll => self.exchange_rows(),
        }
    }

    fn spawn_rows(&self) -> Vec<Row> {
        let all = (self.hosts > 1).then_some(Place::All);
        let row = |place, size| {
            let limit = Cell { what: What::Execs, place, size: if size == 1 { ONE } else { MANY } };
            Row { part: Part::Spawn, cell: Cell { what: What::Spawn, place, size }, limit: Some(limit) }
        };
        let places = self.single().map(Place::Host).chain(all);
        places.flat_map(|place| self.batches().into_iter().map(move |size| row(place, size))).collect()
    }

    fn message_rows(&self, part: Part, sizes: &[u64]) -> Vec<Row> {
        let what = |way| if part == Part::Rate { What::Flood(way) } else { What::PingPong(way) };
        let row = |place, way, limit: Option<What>, size| Row {
            part,
            cell: Cell { what: what(way), place, size },
            limit: limit.map(|what| Cell { what, place, size: if what == What::Flips { 1 } else { size } }),
        };
        let own = match part {
            Part::Latency => Some(What::Flips),
            Part::Bandwidth => Some(What::Copies),
            _ => None,
        };
        let mut rows = Vec::new();
        for host in self.single() {
            rows.extend(sizes.iter().map(|&size| row(Place::Host(host), Way::Default, own, size)));
        }
        for (a, b) in self.pairs() {
            for way in [Way::Default, Way::ByDaemons] {
                let limit = Some(what(Way::Tcp));
                rows.extend(sizes.iter().map(|&size| row(Place::Pair(a, b), way, limit, size)));
            }
        }
        rows
    }

    fn exchange_rows(&self) -> Vec<Row> {
        let sizes = if self.quick { &LONG[..1] } else { &LONG[..2] };
        let by_daemons = (2..=WIRED_MAX).contains(&self.hosts).then_some(Way::ByDaemons);
        let row = |way, size| {
            let cell = |way| Cell { what: What::Exchange(way), place: Place::All, size };
            Row { part: Part::AllToAll, cell: cell(way), limit: Some(cell(Way::Tcp)) }
        };
        let ways = std::iter::once(Way::Default).chain(by_daemons);
        ways.flat_map(|way| sizes.iter().map(move |&size| row(way, size))).collect()
    }

    /// Why something is not measured, if that is known before.
    pub fn excluded(&self, cell: Cell) -> Option<String> {
        let What::Exchange(way) = cell.what else { return None };
        if self.hosts < 2 {
            return Some("the virtual machine has one host".into());
        }
        if way == Way::Tcp && self.hosts > WIRED_MAX {
            return Some(format!("{} hosts are more than {WIRED_MAX}", self.hosts));
        }
        let bytes = cell.size.saturating_mul(self.messages());
        (bytes > EXCHANGE_MAX).then(|| format!("{} hosts would send {} GiB at once", self.hosts, bytes >> 30))
    }

    /// Messages of one exchange.
    fn messages(&self) -> u64 {
        let hosts = self.hosts as u64;
        hosts * hosts.saturating_sub(1)
    }

    /// The value of a measurement as a line of this part shows it: microseconds, or a number per second.
    pub fn value(&self, part: Part, cell: Cell, seconds: f64) -> f64 {
        let size = cell.size as f64;
        match (part, cell.what) {
            (Part::Latency, _) => seconds / 2.0 * 1e6,
            (Part::Spawn, What::Execs) if cell.place == Place::All => self.hosts as f64 / seconds,
            (Part::Spawn, What::Execs) => 1.0 / seconds,
            (Part::Spawn, _) | (Part::Bandwidth, What::Copies) => size / seconds,
            (Part::Bandwidth, _) => size / (seconds / 2.0),
            (Part::Rate, _) => FLOOD as f64 / seconds,
            (Part::AllToAll, _) => size * self.messages() as f64 / seconds,
        }
    }
}

/// The measurements of these lines: each once, a limit behind the first line that needs it.
pub fn cells(rows: &[Row]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for cell in rows.iter().flat_map(|row| [Some(row.cell), row.limit]).flatten() {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells
}

/// The time that a part gets of all seconds.
pub fn share(part: Part, chosen: &[Part], seconds: f64) -> f64 {
    let weight = |part: Part| match part {
        Part::Spawn => 9.0,
        Part::Latency | Part::AllToAll => 3.0,
        Part::Bandwidth => 5.0,
        Part::Rate => 2.0,
    };
    seconds * weight(part) / chosen.iter().map(|&part| weight(part)).sum::<f64>()
}

/// The time of each repetition of a measurement in its part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Seconds of a measurement of weight 1 in one round.
    unit: f64,
    rounds: u32,
    /// A single run that would take longer than this is left out.
    limit: f64,
}

/// The shortest time in which anything is measured, seconds.
const LEAST: f64 = 0.004;
/// Runs of up to this time are never left out, seconds.
const ALWAYS: f64 = 2.0;
/// Rounds' worth of time for finding out how often to repeat what.
const TRIALS: f64 = 1.5;

impl Clock {
    /// For a part that gets this much time.
    pub fn new(cells: &[Cell], seconds: f64, rounds: u32) -> Self {
        let weights: f64 = cells.iter().map(|cell| weight(*cell)).sum();
        let mut places: Vec<Place> = cells.iter().map(|cell| cell.place).collect();
        places.dedup();
        let unit = seconds / (f64::from(rounds) + TRIALS) / weights.max(1.0);
        let limit = (seconds / places.len().max(1) as f64).max(ALWAYS);
        Self { unit: unit.max(LEAST), rounds, limit }
    }

    /// How long one round of it should take, seconds.
    pub fn target(&self, cell: Cell) -> f64 {
        self.unit * weight(cell)
    }

    /// The time of all rounds of it, seconds: twice what they should take, or the last would be lost where the others take a little longer.
    pub fn budget(&self, cell: Cell) -> f64 {
        2.0 * self.target(cell) * f64::from(self.rounds)
    }

    /// Why something that would take this long is left out.
    pub fn refuses(&self, seconds: f64) -> Option<String> {
        let text = || format!("one run would take about {seconds:.0} s (--seconds allows more)");
        (seconds > self.limit).then(text)
    }
}

/// Great batches get more time.
fn weight(cell: Cell) -> f64 {
    if cell.what == What::Spawn && cell.size >= 1000 { 6.0 } else { 1.0 }
}

/// How often to repeat what took `seconds` for `count` times, so that it takes as long as it should: at most a thousand times as often, since
/// short times are uncertain.
pub fn next_count(count: u64, seconds: f64, target: f64) -> u64 {
    let more = (target / seconds.max(1e-9)).clamp(1e-6, 1000.0);
    ((count as f64 * more) as u64).max(1)
}

/// The time of one repetition, by that of a smaller size of the same. That of a batch grows with its tasks. That of messages grows with their bytes,
/// but short ones take as long as if they had [`OVERHEAD`] bytes more.
pub fn predicted(cell: Cell, other: Cell, seconds: f64) -> f64 {
    let overhead = match cell.what {
        What::Spawn => 0,
        What::Execs => return seconds,
        _ => OVERHEAD,
    };
    seconds * (cell.size + overhead) as f64 / (other.size + overhead).max(1) as f64
}

/// See [`predicted`].
const OVERHEAD: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(hosts: usize) -> Scope {
        Scope { hosts, first: 4, pairs: Pairs::First, max_tasks: 1000, quick: false }
    }

    #[test]
    fn each_part_has_its_places_and_sizes() {
        let count = |hosts, part| scope(hosts).rows(part).len();
        assert_eq!([1, 2, 3].map(|hosts| count(hosts, Part::Spawn)), [4, 12, 16]);
        assert_eq!([1, 2, 3].map(|hosts| count(hosts, Part::Latency)), [3, 12, 21]);
        assert_eq!([1, 2, 3].map(|hosts| count(hosts, Part::Rate)), [1, 4, 7]);
        assert_eq!([1, 2, 3].map(|hosts| count(hosts, Part::AllToAll)), [2, 4, 4]);
        // Of a hundred hosts four are measured one by one, and three pairs.
        assert_eq!(count(100, Part::Rate), 4 + 3 * 2);
        assert_eq!(scope(100).rows(Part::AllToAll).len(), 2);
        assert_eq!(Scope { pairs: Pairs::All, ..scope(100) }.rows(Part::Rate).len(), 4 + 6 * 2);
        assert_eq!(Scope { quick: true, ..scope(1) }.rows(Part::Bandwidth).len(), 2);
    }

    #[test]
    fn the_greatest_batch_is_the_one_that_is_given() {
        let batches = |max_tasks| Scope { max_tasks, ..scope(1) }.batches();
        assert_eq!(batches(1), [1]);
        assert_eq!(batches(10), [1, 10]);
        assert_eq!(batches(250), [1, 10, 100, 250]);
        assert_eq!(batches(10_000), [1, 10, 100, 1000, 10_000]);
    }

    #[test]
    fn a_limit_is_measured_once() {
        let rows = scope(2).rows(Part::Latency);
        let cells = cells(&rows);
        // Three sizes on two hosts and by two routes, two flips, and TCP for each size.
        assert_eq!(cells.len(), 12 + 2 + 3);
        assert_eq!(cells[1].what, What::Flips);
    }

    #[test]
    fn values_are_those_of_the_part() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b, "{a} {b}");
        let of = |part, what, place, size, seconds| scope(3).value(part, Cell { what, place, size }, seconds);
        let host = Place::Host(0);
        near(of(Part::Latency, What::Flips, host, 1, 4e-6), 2.0);
        near(of(Part::Spawn, What::Spawn, Place::All, 100, 0.1), 1000.0);
        near(of(Part::Spawn, What::Execs, Place::All, MANY, 0.001), 3000.0);
        near(of(Part::Bandwidth, What::PingPong(Way::Tcp), host, 1000, 0.002), 1e6);
        near(of(Part::Bandwidth, What::Copies, host, 1000, 0.001), 1e6);
        near(of(Part::Rate, What::Flood(Way::Default), host, 64, 64e-6), 1e6);
        near(of(Part::AllToAll, What::Exchange(Way::Default), Place::All, 1000, 0.006), 1e6);
    }

    #[test]
    fn what_cannot_be_measured_is_known_before() {
        let cell = |way, size| Cell { what: What::Exchange(way), place: Place::All, size };
        assert!(scope(1).excluded(cell(Way::Default, 1)).is_some());
        assert_eq!(scope(2).excluded(cell(Way::Tcp, 1 << 20)), None);
        assert!(scope(17).excluded(cell(Way::Tcp, 1)).is_some());
        let refused = scope(256).excluded(cell(Way::Default, 1 << 20)).unwrap();
        assert_eq!(refused, "256 hosts would send 63 GiB at once");
        let spawn = Cell { what: What::Spawn, place: Place::All, size: 1 };
        assert_eq!(scope(1).excluded(spawn), None);
    }

    #[test]
    fn repetitions_grow_to_the_time_that_they_should_take() {
        assert_eq!(next_count(1, 1e-6, 0.05), 1000);
        assert_eq!(next_count(1000, 0.001, 0.05), 50_000);
        assert_eq!(next_count(1000, 0.1, 0.05), 500);
        assert_eq!(next_count(1, 10.0, 0.05), 1);
        assert_eq!(next_count(1, 0.0, 0.05), 1000);
    }

    #[test]
    fn parts_share_the_time() {
        let whole: f64 = Part::ALL.iter().map(|&part| share(part, &Part::ALL, 25.0)).sum();
        assert!((whole - 25.0).abs() < 1e-9);
        assert!((share(Part::Rate, &[Part::Rate], 25.0) - 25.0).abs() < 1e-9);
    }

    #[test]
    fn what_takes_long_gets_fewer_rounds_or_is_left_out() {
        let cell = Cell { what: What::Spawn, place: Place::All, size: 100 };
        let clock = Clock::new(&[cell], 6.5, 5);
        assert!((clock.target(cell) - 1.0).abs() < 1e-9);
        assert!((clock.budget(cell) - 10.0).abs() < 1e-9);
        assert_eq!(clock.refuses(6.0), None);
        let refused = clock.refuses(12.3).unwrap();
        assert_eq!(refused, "one run would take about 12 s (--seconds allows more)");
        let other = Cell { size: 10, ..cell };
        assert!((predicted(cell, other, 0.5) - 5.0).abs() < 1e-9);
        let [short, long] = [1, 1024].map(|size| Cell { what: What::PingPong(Way::Default), size, ..cell });
        assert!((predicted(long, short, 0.5) - 0.625).abs() < 0.001);
    }
}
