//! What many waiting jobs cost: the master's memory, its decisions, and calls meanwhile.
//!
//! One host of two slots runs a job in one of them. All others are jobs of two tasks that start together, of ten users and without a
//! time limit: none may start, and each decision looks at as many as a decision may.

mod decision;
mod report;

pub use report::Growth;

use crate::lab::{self, Trial};
use crate::program;
use crate::scale::usage;
use anyhow::{Context, Result, anyhow, ensure};
use pvm_tests::Installation;
use pvm_tests::machine::{Machine, Plan};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// The word by which this is chosen.
pub const NAME: &str = "jobs-waiting";

/// Default number of rounds.
pub const ROUNDS: usize = 3;

/// Numbers of jobs that wait.
const COUNTS: [u64; 4] = [0, 1000, 10_000, 100_000];
/// With less to do.
const FEW: [u64; 3] = [0, 100, 1000];

/// More than the submission of all jobs takes.
const LIMIT: Duration = Duration::from_secs(300);

/// The results for one number of jobs, in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Submissions per second of many tasks at a time, since the number before; none for the first.
    pub submitted: Option<f64>,
    /// Seconds of one submission.
    pub submission: f64,
    /// Seconds of a look at one job.
    pub look: f64,
    /// Seconds of a list of all jobs.
    pub list: f64,
    /// Memory of the master's daemon (Pss), MiB.
    pub memory: f64,
    /// The part of it that a job has, KiB; none without jobs.
    pub each: Option<f64>,
    /// Seconds of a decision in this process.
    pub decision: f64,
}

/// All that was measured with this number of jobs.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// Jobs that wait.
    pub jobs: u64,
    /// The results of the rounds.
    pub rounds: Vec<Round>,
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word == NAME)
}

/// Measures.
pub fn measure(trial: Trial) -> Result<Growth> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    let counts: &[u64] = if quick { &FEW } else { &COUNTS };
    let mut runs: Vec<Runs> = counts.iter().map(|&jobs| Runs { jobs, rounds: Vec::new() }).collect();
    let progress = &session.progress;
    progress.set_length((counts.len() * rounds) as u64);
    for _ in 0..rounds {
        let queue = Queue::start(ours, programs.jobs)?;
        let (mut before, mut least) = (0, 0.0);
        for runs in &mut runs {
            progress.set_message(format!("{NAME}: {}", runs.jobs));
            let round = queue.grow(before, runs.jobs, least)?;
            if runs.jobs == 0 {
                least = round.memory;
            }
            before = runs.jobs;
            runs.rounds.push(round);
            session.step()?;
        }
    }
    Ok(Growth { runs })
}

/// The host, and the program that submits.
struct Queue<'p> {
    machine: Machine,
    program: &'p Path,
}

impl<'p> Queue<'p> {
    fn start(ours: &Installation, program: &'p Path) -> Result<Self> {
        let plan = Plan::of(ours).name("h1").variable("PVM_TASK_SLOTS", "2");
        Ok(Self { machine: lab::start(plan)?, program })
    }

    /// Submits jobs until the wanted number waits, and measures. `least` is the memory that the daemon has without jobs.
    fn grow(&self, before: u64, jobs: u64, least: f64) -> Result<Round> {
        let more = jobs - before;
        let filled = self.run(&["fill", &more.to_string()])?;
        let calls = self.run(&["calls"])?;
        let &[submission, look, list] = &calls[..] else { return Err(anyhow!("{calls:?} are no calls")) };
        let memory = usage::memory(self.machine.daemon_pid())?;
        Ok(Round {
            submitted: (more > 0).then(|| more as f64 / filled.first().copied().unwrap_or(f64::INFINITY)),
            submission,
            look,
            list,
            memory,
            each: (jobs > 0).then(|| (memory - least) * 1024.0 / jobs as f64),
            decision: decision::seconds(jobs),
        })
    }

    fn run(&self, words: &[&str]) -> Result<Vec<f64>> {
        let text = program::output(self.machine.command(self.program).args(words), LIMIT)?;
        let numbers: Vec<f64> =
            text.lines().map(str::parse).collect::<Result<_, _>>().context(text.clone())?;
        ensure!(!numbers.is_empty(), "{words:?} has printed nothing");
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_only_if_it_is_named() {
        assert!(is_chosen(&["latency".into(), NAME.into()]));
        assert!(!is_chosen(&[]) && !is_chosen(&["jobs".into()]));
    }
}
