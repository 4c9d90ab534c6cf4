//! A part of the benchmark: its contenders, and the unit of the result.

use crate::program::{self, Sample};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longer than any program may take for one round.
const LIMIT: Duration = Duration::from_secs(120);

/// A contender that takes longer than this for a round is run in [`FEW`] rounds only.
const LONG: Duration = Duration::from_secs(5);

/// Rounds of slow contenders.
const FEW: usize = 3;

/// A measurement for several sizes or numbers of tasks, with all its contenders.
pub struct Part<'l> {
    /// Its name: that of its files, and beginning with the word by which it is chosen.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// In what it is measured.
    pub unit: Unit,
    /// What x is.
    pub axis: Axis,
    /// For which it is measured.
    pub xs: Vec<u64>,
    /// Whether each x needs a program of its own, with other tasks.
    pub separately: bool,
    /// The contenders. The first is compared with the others.
    pub contenders: Vec<Contender<'l>>,
}

impl<'l> Part<'l> {
    /// A measurement for these sizes, all of them by one program.
    pub fn new(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        xs: &[u64],
        contenders: Vec<Contender<'l>>,
    ) -> Self {
        Self { name, title, unit, axis: Axis::Size, xs: xs.to_vec(), separately: false, contenders }
    }

    /// The same for numbers of tasks, each by a program of its own.
    #[must_use]
    pub fn over_tasks(self) -> Self {
        Self { axis: Axis::Tasks, separately: true, ..self }
    }
}

/// The unit of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds; less is better.
    Time,
    /// Milliseconds; less is better.
    Milliseconds,
    /// Seconds for all together; less is better.
    Seconds,
    /// 10⁹ bytes per second; more is better.
    Bandwidth,
    /// So many per second; more is better.
    Rate,
}

/// What x is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Bytes.
    Size,
    /// A number of tasks.
    Tasks,
    /// A number of hosts.
    Hosts,
}

/// Why somebody is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To be seen.
    Shown,
    /// To be compared with: a peer, or what the machine can do at best.
    Compared,
}

/// A contender.
pub struct Contender<'l> {
    /// Its name.
    pub name: &'static str,
    /// Why.
    pub kind: Kind,
    /// The largest x it is asked for.
    pub most: u64,
    /// How long its programs may take.
    limit: Duration,
    command: Box<Start<'l>>,
}

/// Makes the command that measures what is asked for.
type Start<'l> = dyn Fn(Ask<'_>) -> Command + 'l;

/// What a program measures in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask<'a> {
    /// For which sizes or numbers of tasks.
    pub xs: &'a [u64],
    /// Seconds for each, about.
    pub seconds: f64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// How often everybody is run.
    pub rounds: usize,
    /// Seconds that a value is measured for in one round.
    pub seconds: f64,
}

impl Effort {
    /// Seven rounds, or three short ones, unless another number is given.
    pub fn of(rounds: Option<u16>, quick: bool) -> Self {
        let (usual, seconds) = if quick { (3, 0.004) } else { (7, 0.02) };
        Self { rounds: rounds.map_or(usual, usize::from), seconds }
    }
}

/// A run of the benchmark.
#[derive(Debug)]
pub struct Session {
    /// How much is measured.
    pub effort: Effort,
    /// The progress on the terminal.
    pub progress: ProgressBar,
    /// Whether to stop.
    pub interrupted: Arc<AtomicBool>,
}

impl Session {
    /// Something has been measured. An error if it was the last, as the run is to stop.
    pub fn step(&self) -> Result<()> {
        self.progress.inc(1);
        ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }
}

/// The numbers of hosts that words choose: `scale` the usual ones of `scale`, `scale-64` that one.
pub fn numbers_of_hosts((name, words): (&str, &[String]), all: &[usize], usual: &[usize]) -> Vec<usize> {
    let has = |name: &str| words.iter().any(|word| word == name);
    let is_chosen = |hosts: &usize| has(name) && usual.contains(hosts) || has(&format!("{name}-{hosts}"));
    all.iter().copied().filter(is_chosen).collect()
}

/// The results of one contender: the rounds' values by x, or the reason why there are none.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Seconds for one, per x, in the order of the rounds.
    pub seconds: BTreeMap<u64, Vec<f64>>,
    /// Why it was not measured to the end.
    pub failure: Option<String>,
    /// Whether it takes so long that it is run in fewer rounds.
    pub takes_long: bool,
}

impl<'l> Contender<'l> {
    /// A contender that is measured by the program that this starts.
    pub fn new(name: &'static str, kind: Kind, command: impl Fn(Ask) -> Command + 'l) -> Self {
        Self { name, kind, most: u64::MAX, limit: LIMIT, command: Box::new(command) }
    }

    /// It is not asked for more.
    #[must_use]
    pub fn at_most(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// It hangs if it takes longer than that.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Replaces the start of its programs.
    fn measure(&self, xs: &[u64], separately: bool, seconds: f64, outcome: &mut Outcome) {
        let mine: Vec<u64> = xs.iter().copied().filter(|&x| x <= self.most).collect();
        for xs in mine.chunks(if separately { 1 } else { mine.len().max(1) }) {
            let samples = program::measure(&mut (self.command)(Ask { xs, seconds }), self.limit);
            outcome.add(samples.with_context(|| format!("for {xs:?}")));
        }
    }
}

impl Part<'_> {
    /// Leaves out what takes long, and of the rest every second.
    pub fn shorten(&mut self) {
        let longest = if self.axis == Axis::Size { 4 << 20 } else { 16 };
        self.xs.retain(|&x| x <= longest);
        let mut left = self.xs.len();
        self.xs.retain(|_| {
            left -= 1;
            left.is_multiple_of(2)
        });
    }

    /// Runs all contenders in turn, in each round; one that fails is not run again. An error if it is stopped.
    pub fn run(&self, session: &Session) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Outcome> = self.contenders.iter().map(|_| Outcome::default()).collect();
        for round in 0..session.effort.rounds {
            for turn in 0..self.contenders.len() {
                // Everybody comes first once.
                let index = (turn + round) % self.contenders.len();
                let contender = &self.contenders[index];
                session.progress.set_message(format!("{}: {}", self.name, contender.name));
                if outcomes[index].failure.is_none() && (round < FEW || !outcomes[index].takes_long) {
                    let start = Instant::now();
                    let seconds = session.effort.seconds;
                    contender.measure(&self.xs, self.separately, seconds, &mut outcomes[index]);
                    outcomes[index].takes_long |= start.elapsed() > LONG;
                }
                session.step()?;
            }
        }
        Ok(outcomes)
    }
}

impl Outcome {
    fn add(&mut self, samples: Result<Vec<Sample>>) {
        match samples {
            Ok(samples) => {
                for sample in samples {
                    self.seconds.entry(sample.x).or_default().push(sample.seconds);
                }
            }
            Err(error) => {
                self.failure.get_or_insert(format!("{error:#}"));
            }
        }
    }
}

impl Unit {
    /// A time for one, in this unit.
    pub fn of(self, x: u64, seconds: f64) -> f64 {
        match self {
            Self::Time => seconds * 1e6,
            Self::Milliseconds => seconds * 1e3,
            Self::Seconds => seconds,
            Self::Bandwidth => x as f64 / seconds / 1e9,
            Self::Rate => 1.0 / seconds,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Bandwidth => "GB/s",
            Self::Rate => "1/s",
        }
    }

    /// How to read a ratio.
    pub fn better(self) -> &'static str {
        if matches!(self, Self::Time | Self::Milliseconds | Self::Seconds) {
            "less is better"
        } else {
            "more is better"
        }
    }
}

impl Axis {
    /// An x as a person writes it.
    pub fn show(self, x: u64) -> String {
        match self {
            Self::Tasks | Self::Hosts => x.to_string(),
            Self::Size if x >= 1 << 20 => format!("{} MiB", x >> 20),
            Self::Size if x >= 1 << 10 => format!("{} KiB", x >> 10),
            Self::Size => format!("{x} B"),
        }
    }

    /// Its name, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Size => "message (bytes)",
            Self::Tasks => "tasks",
            Self::Hosts => "hosts",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::shell;
    use std::cell::RefCell;

    fn part(contenders: Vec<Contender<'_>>, separately: bool) -> Part<'_> {
        let (name, title, unit, axis) = ("latency", "title", Unit::Time, Axis::Size);
        Part { name, title, unit, axis, xs: vec![1, 2], separately, contenders }
    }

    fn session(rounds: usize) -> Session {
        let effort = Effort { rounds, seconds: 0.5 };
        Session { effort, progress: ProgressBar::hidden(), interrupted: Arc::default() }
    }

    fn run(part: &Part, rounds: usize) -> Vec<Outcome> {
        let session = session(rounds);
        part.run(&session).expect("nobody interrupts it")
    }

    fn echo(ask: Ask) -> Command {
        let Ask { xs, seconds } = ask;
        let lines: Vec<String> = xs.iter().map(|x| format!("echo {x} {seconds}")).collect();
        shell(&lines.join(";"))
    }

    #[test]
    fn contenders_take_turns_and_a_failing_one_stops_no_other() {
        let order = RefCell::new(String::new());
        let noted = |letter: char, works: bool| {
            let order = &order;
            move |ask: Ask| {
                order.borrow_mut().push(letter);
                if works { echo(ask) } else { shell("echo broken >&2; exit 1") }
            }
        };
        let contenders = vec![
            Contender::new("a", Kind::Shown, noted('a', true)),
            Contender::new("b", Kind::Compared, noted('b', false)),
            Contender::new("c", Kind::Compared, noted('c', true)),
        ];
        let outcomes = run(&part(contenders, false), 3);
        assert_eq!(order.into_inner(), "abccaca");
        assert_eq!(outcomes[1].failure.as_deref(), Some("for [1, 2]: broken"));
        assert_eq!(outcomes[2].seconds[&2], [0.5; 3]);
    }

    #[test]
    fn a_program_for_each_x_and_none_beyond_the_most() {
        let asked = RefCell::new(Vec::new());
        let contender = |name, most| {
            let command = |ask: Ask| {
                asked.borrow_mut().push(ask.xs.to_vec());
                echo(ask)
            };
            Contender::new(name, Kind::Compared, command).at_most(most)
        };
        let outcomes = run(&part(vec![contender("a", 2), contender("b", 1)], true), 1);
        assert_eq!(outcomes[1].seconds.len(), 1);
        assert_eq!(asked.into_inner(), [vec![1], vec![2], vec![1]]);
    }

    #[test]
    fn a_program_that_hangs_spoils_its_own_value_only() {
        let hangs = |ask: Ask| if ask.xs == [1] { shell("exec sleep 1000") } else { echo(ask) };
        let contender = Contender::new("a", Kind::Compared, hangs).within(Duration::from_secs(5));
        let outcomes = run(&part(vec![contender], true), 3);
        assert_eq!(outcomes[0].seconds[&2], [0.5], "who has failed is not run again");
        let failure = outcomes[0].failure.as_deref().expect("it hangs");
        assert!(failure.starts_with("for [1]: it did not end within"), "{failure}");
    }

    #[test]
    fn an_interrupted_session_stops_without_a_result() {
        let asked = RefCell::new(0);
        let command = |ask: Ask| {
            *asked.borrow_mut() += 1;
            echo(ask)
        };
        let session = session(3);
        session.interrupted.store(true, Ordering::Relaxed);
        assert!(part(vec![Contender::new("a", Kind::Shown, command)], false).run(&session).is_err());
        assert_eq!(asked.into_inner(), 1);
    }

    #[test]
    fn a_short_part_keeps_the_last_that_is_quick() {
        let mut short = Part { xs: vec![1, 4, 16, 1 << 26], ..part(Vec::new(), false) };
        short.shorten();
        assert_eq!(short.xs, [1, 16]);
        let mut tasks = Part { xs: vec![1, 16, 256, 4096], axis: Axis::Tasks, ..part(Vec::new(), false) };
        tasks.shorten();
        assert_eq!(tasks.xs, [16]);
    }

    #[test]
    fn units_and_axes() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(Unit::Time.of(8, 2e-6), 2.0));
        assert!(near(Unit::Bandwidth.of(1_000_000, 0.001), 1.0));
        assert!(near(Unit::Rate.of(64, 0.25), 4.0));
        assert_eq!(
            [1, 1024, 65536, 1 << 20].map(|x| Axis::Size.show(x)),
            ["1 B", "1 KiB", "64 KiB", "1 MiB"]
        );
        assert_eq!(Axis::Tasks.show(4096), "4096");
    }
}
