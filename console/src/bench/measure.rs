//! Carries out a plan: finds out how often to repeat what, then measures all of a part in each round.

use super::args::Part;
use super::crew::{Crew, Problem, Role};
use super::order::{Half, Job, Pair, Ran, Way};
use super::plan::{Cell, Clock, MANY, Place, Row, Scope, What, cells, next_count, predicted};
use super::usage::Usage;
use indicatif::ProgressBar;
use pvm3::Tid;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Trials to find out how often to repeat something.
const TRIALS: usize = 5;

/// What is known of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Seconds of one repetition, in each round.
    pub seconds: Vec<f64>,
    /// Processor time of the hosts meanwhile.
    pub usage: Usage,
    /// Why there are no further rounds, or none at all.
    pub problem: Option<Problem>,
    /// Seconds of one repetition, by the trials.
    pub once: Option<f64>,
    /// Repetitions in each round.
    pub count: u64,
    /// Seconds that a round should take.
    pub target: f64,
    /// Seconds that are left for further rounds.
    pub left: f64,
}

impl Record {
    /// Of something that is not measured.
    pub fn stopped(problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }

    /// Whether there is time for another round; there is always for one.
    fn has_time(&self) -> bool {
        self.seconds.last().is_none_or(|once| once * self.count as f64 <= self.left)
    }

    /// A round has taken this long.
    fn add(&mut self, took: f64, usage: Usage) {
        self.seconds.push(took / self.count as f64);
        self.usage = self.usage + usage;
        self.left -= took;
        // What has become slower or faster is repeated less or more often from now on.
        if !(self.target / 3.0..=self.target * 3.0).contains(&took) {
            self.count = next_count(self.count, took, self.target);
        }
    }
}

/// All measurements of a run.
pub type Ledger = BTreeMap<Cell, Record>;

/// A run.
#[derive(Debug)]
pub struct Bench {
    /// The workers.
    pub crew: Crew,
    /// The hosts and sizes.
    pub scope: Scope,
    /// Number of rounds.
    pub rounds: u32,
    /// Progress: one step for each measurement and round, and one for its trials.
    pub bar: ProgressBar,
}

impl Bench {
    /// Measures the lines of a part within this time.
    pub fn part(&mut self, part: Part, rows: &[Row], seconds: f64) -> Ledger {
        let cells = cells(rows);
        let clock = Clock::new(&cells, seconds, self.rounds);
        let mut ledger = Ledger::new();
        for &cell in &cells {
            self.show(part, cell);
            let record = self.prepare(&ledger, &clock, cell);
            ledger.insert(cell, record);
            self.bar.inc(1);
        }
        for _ in 0..self.rounds {
            for &cell in &cells {
                self.show(part, cell);
                if let Some(record) = ledger.get_mut(&cell) {
                    self.measure(record, cell);
                }
                self.bar.inc(1);
            }
        }
        ledger
    }

    fn show(&self, part: Part, cell: Cell) {
        let name = |host: usize| self.crew.hosts.get(host).map_or("", |host| host.info.name.as_str());
        let place = match cell.place {
            Place::Host(host) => name(host).to_owned(),
            Place::Pair(a, b) => format!("{} to {}", name(a), name(b)),
            Place::All => "all hosts".to_owned(),
        };
        self.bar.set_message(format!("{} {place}", part.name()));
    }

    /// One round of a measurement, if there is time for it.
    fn measure(&mut self, record: &mut Record, cell: Cell) {
        if record.problem.is_some() || !record.has_time() {
            return;
        }
        match self.run(cell, record.count) {
            Ok((took, usage)) => record.add(took.as_secs_f64(), usage),
            Err(problem) => record.problem = Some(problem),
        }
    }

    /// Finds out how often to repeat something, so that it takes the time of a round. That warms everything up, too.
    fn prepare(&mut self, ledger: &Ledger, clock: &Clock, cell: Cell) -> Record {
        if let Some(reason) = self.scope.excluded(cell) {
            return Record::stopped(Problem::LeftOut(reason));
        }
        let target = clock.target(cell);
        let expected = smaller(ledger, cell);
        if let Some(reason) = expected.and_then(|seconds| clock.refuses(seconds)) {
            return Record::stopped(Problem::LeftOut(reason));
        }
        // What takes longer than a round needs no trials: smaller sizes have warmed everything up.
        if let Some(seconds) = expected.filter(|&seconds| seconds > target) {
            return Record {
                once: Some(seconds),
                count: 1,
                target,
                left: clock.budget(cell),
                ..Record::default()
            };
        }
        let mut count = 1;
        let mut once = target;
        for _ in 0..TRIALS {
            let took = match self.run(cell, count) {
                Ok((took, _)) => took.as_secs_f64(),
                Err(problem) => return Record::stopped(problem),
            };
            once = took / count as f64;
            let is_enough = took >= target / 4.0;
            count = next_count(count, took, target);
            if is_enough {
                break;
            }
        }
        Record { once: Some(once), count, target, left: clock.budget(cell), ..Record::default() }
    }

    /// Repeats something this often; returns its time, and the processor time of the hosts.
    fn run(&mut self, cell: Cell, count: u64) -> Result<(Duration, Usage), Problem> {
        if cell.what == What::Spawn {
            return self.spawn(cell, count);
        }
        let orders = self.orders(cell, count)?;
        let ran = self.crew.run(orders)?;
        let longest = ran.iter().map(|ran| ran.nanos).max().unwrap_or(0);
        Ok((Duration::from_nanos(longest.max(1)), busiest(ran.iter().map(|ran| ran.usage))))
    }

    /// The orders to the workers that take part.
    fn orders(&mut self, cell: Cell, count: u64) -> Result<Vec<(Tid, Job)>, Problem> {
        let bytes = cell.size;
        match cell.what {
            What::PingPong(way) => self.pair(cell.place, way, bytes, count, Job::PingPong),
            What::Flood(way) => self.pair(cell.place, way, bytes, count, Job::Flood),
            What::Exchange(way) => self.exchange(way, bytes, count),
            What::Copies => self.on_each(cell.place, &Job::Copies { bytes, count }),
            What::Flips => self.on_each(cell.place, &Job::Flips { count }),
            What::Execs => self.on_each(cell.place, &Job::Execs { count, many: bytes == MANY }),
            What::Spawn => Ok(Vec::new()),
        }
    }

    fn pair(
        &mut self,
        place: Place,
        way: Way,
        bytes: u64,
        count: u64,
        job: fn(Pair) -> Job,
    ) -> Result<Vec<(Tid, Job)>, Problem> {
        let (near, far) = match (place, way) {
            (Place::Host(host), _) => {
                (self.crew.worker(host, Role::Main)?, self.crew.worker(host, Role::Mate)?)
            }
            (Place::Pair(a, b), Way::ByDaemons) => {
                (self.crew.worker(a, Role::ByDaemons)?, self.crew.worker(b, Role::ByDaemons)?)
            }
            (Place::Pair(a, b), _) => (self.crew.worker(a, Role::Main)?, self.crew.worker(b, Role::Main)?),
            (Place::All, _) => return Ok(Vec::new()),
        };
        if let (Place::Pair(a, b), Way::Tcp) = (place, way) {
            self.crew.connect(a, b)?;
        }
        let half = |peer: Tid, half| job(Pair { peer: peer.raw(), half, way, bytes, count });
        Ok(vec![(far, half(near, Half::Follows)), (near, half(far, Half::Leads))])
    }

    fn exchange(&mut self, way: Way, bytes: u64, count: u64) -> Result<Vec<(Tid, Job)>, Problem> {
        let role = if way == Way::ByDaemons { Role::ByDaemons } else { Role::Main };
        let hosts = self.crew.hosts.len();
        if way == Way::Tcp {
            for (a, b) in (0..hosts).flat_map(|a| (a + 1..hosts).map(move |b| (a, b))) {
                self.crew.connect(a, b)?;
            }
        }
        let workers: Vec<Tid> =
            (0..hosts).map(|host| self.crew.worker(host, role)).collect::<Result<_, _>>()?;
        let order = |&worker: &Tid| {
            let peers = workers.iter().filter(|&&other| other != worker).map(|other| other.raw()).collect();
            (worker, Job::Exchange { peers, way, bytes, count })
        };
        Ok(workers.iter().map(order).collect())
    }

    /// The same for the main worker of each host of a place.
    fn on_each(&self, place: Place, job: &Job) -> Result<Vec<(Tid, Job)>, Problem> {
        let order = |host| Ok((self.crew.worker(host, Role::Main)?, job.clone()));
        self.hosts_of(place).into_iter().map(order).collect()
    }

    fn hosts_of(&self, place: Place) -> Vec<usize> {
        match place {
            Place::Host(host) => vec![host],
            Place::Pair(a, b) => vec![a, b],
            Place::All => (0..self.crew.hosts.len()).collect(),
        }
    }

    /// Spawns batches of tasks, each when all tasks of the one before have exited.
    fn spawn(&mut self, cell: Cell, count: u64) -> Result<(Duration, Usage), Problem> {
        let host = match cell.place {
            Place::Host(host) => Some(host),
            _ => None,
        };
        let usage = self.on_each(cell.place, &Job::Usage)?;
        let before = self.crew.run(usage.clone())?;
        let start = Instant::now();
        for _ in 0..count {
            let spawned = self.crew.spawn_batch(host, cell.size)?;
            self.crew.await_exits(&spawned.tids)?;
        }
        let took = start.elapsed();
        // Tasks of a lost host count as exited.
        self.crew.check(self.hosts_of(cell.place))?;
        let after = self.crew.run(usage)?;
        let used = |(before, after): (&Ran, &Ran)| after.usage - before.usage;
        Ok((took, busiest(before.iter().zip(&after).map(used))))
    }
}

/// What one repetition will take by what the next smaller size has taken.
fn smaller(ledger: &Ledger, cell: Cell) -> Option<f64> {
    let is_smaller =
        |other: &Cell| other.what == cell.what && other.place == cell.place && other.size < cell.size;
    let (other, record) = ledger.iter().rev().find(|(other, _)| is_smaller(other))?;
    Some(predicted(cell, *other, record.once?))
}

/// The one whose processors were used most.
fn busiest(usages: impl Iterator<Item = Usage>) -> Usage {
    let percent = |usage: &Usage| usage.percent().unwrap_or(0.0);
    usages.max_by(|a, b| percent(a).total_cmp(&percent(b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record { count: 100, target: 1.0, left: 4.0, ..Record::default() }
    }

    #[test]
    fn what_becomes_slower_is_repeated_less_often_and_in_fewer_rounds() {
        let mut record = record();
        record.add(1.5, Usage::default());
        assert_eq!(record.count, 100);
        assert!(record.has_time());
        record.add(2.0, Usage::default());
        assert!(!record.has_time(), "a third round would take more than the half second that is left");
        record.add(10.0, Usage::default());
        assert_eq!(record.count, 10);
        assert_eq!(record.seconds, [0.015, 0.02, 0.1]);
    }

    #[test]
    fn one_round_is_always_measured() {
        assert!(Record { left: 0.0, ..record() }.has_time());
    }

    #[test]
    fn the_host_that_is_used_most_counts() {
        let [idle, busy] = [1, 9].map(|busy| Usage { busy, total: 10 });
        assert_eq!(busiest([idle, Usage::default(), busy].into_iter()), busy);
        assert_eq!(busiest([].into_iter()), Usage::default());
    }

    #[test]
    fn a_size_is_predicted_by_the_next_smaller_one_of_the_same() {
        let cell = |size| Cell { what: What::Spawn, place: Place::All, size };
        let known = |once| Record { once: Some(once), ..Record::default() };
        let elsewhere = Cell { place: Place::Host(0), ..cell(50) };
        let ledger = [
            (cell(1), known(9.0)),
            (cell(10), known(0.5)),
            (elsewhere, known(7.0)),
            (cell(1000), known(1.0)),
        ];
        let ledger: Ledger = ledger.into_iter().collect();
        assert_eq!(smaller(&ledger, cell(100)), Some(5.0));
        assert_eq!(smaller(&ledger, cell(1)), None);
    }
}
