//! The cost of turns for a program on dedicated hosts.
//!
//! Two programs, one of a machine whose daemons take turns and one of a machine whose daemons do not, run in turn for a short
//! while each, so that what else the machine does hits both. Where a process lies in memory makes a difference, too, so they are
//! started anew after a few such pairs, and only what differs from start to start counts as chance.

use super::{COARSE, Hosts, NO_TURNS, SPINS, TURNS};
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Starts of both programs in a round.
const STARTS: usize = 5;
/// Pairs after each start.
const PAIRS: usize = 8;
/// So long each of a pair counts.
const SECONDS: f64 = 0.05;
/// So many exchanges at least are to count.
const EXCHANGES: f64 = 5.0;
/// Longer than any answer takes.
const LIMIT: Duration = Duration::from_secs(20);

/// All starts with one grain.
#[derive(Clone, Debug, Serialize)]
pub struct Alone {
    /// Microseconds between two exchanges.
    pub grain: u64,
    /// Exchanges per second without turns.
    pub rates: Vec<f64>,
    /// For each start, what part of them is lost where turns are taken: the median of its pairs.
    pub losses: Vec<f64>,
}

impl Alone {
    pub(super) fn new(grain: u64) -> Self {
        Self { grain, rates: Vec::new(), losses: Vec::new() }
    }

    /// One round more.
    pub(super) fn measure(&mut self, hosts: &Hosts) -> Result<()> {
        // Of such coarse grains there are too few in any time that people would wait.
        let starts = if self.grain >= COARSE { 1 } else { STARTS };
        for _ in 0..starts {
            let pairs = pairs(hosts, self.grain)?;
            self.rates.extend(median(pairs.iter().map(|(_, without)| *without)));
            self.losses.extend(median(pairs.iter().map(|(with, without)| 1.0 - with / without)));
        }
        Ok(())
    }

    /// The mean loss, and by how much it may be more or less with 95 % confidence; nothing about that after few starts.
    pub(super) fn loss(&self) -> (f64, Option<f64>) {
        let count = self.losses.len() as f64;
        let mean = self.losses.iter().sum::<f64>() / count;
        let squares = self.losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>();
        let error = (squares / (count - 1.0) / count).sqrt();
        (mean, (self.losses.len() >= STARTS).then(|| error * student(count - 1.0)))
    }
}

/// Half the width of the mean's confidence interval in standard errors, by Student's distribution; right to a hundredth from four degrees of freedom on.
fn student(freedom: f64) -> f64 {
    1.96 + 2.37 / freedom + 3.2 / freedom.powi(2)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    pvm_sim::stats::Measured::of(&values.collect::<Vec<_>>()).map(|summary| summary.median)
}

/// Exchanges per second with turns and without.
fn pairs(hosts: &Hosts, grain: u64) -> Result<Vec<(f64, f64)>> {
    let seconds = SECONDS.max(EXCHANGES * grain as f64 / 1e6);
    let (mut with, _) = Program::start(hosts, TURNS, seconds)?;
    let (mut without, speed) = Program::start(hosts, NO_TURNS, seconds)?;
    let mut pairs = Vec::new();
    // The first of all finds everything cold.
    for pair in 0..=PAIRS {
        let begins = pair % 2 == 0;
        let early = if begins { &mut with } else { &mut without }.run(grain, speed)?;
        let late = if begins { &mut without } else { &mut with }.run(grain, speed)?;
        pairs.push(if begins { (early, late) } else { (late, early) });
    }
    Ok(pairs.split_off(1))
}

/// A program that runs when it is asked to.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Program {
    /// Starts it, and how much it does in a microsecond: both of a pair are to do the same.
    fn start(hosts: &Hosts, means: &str, seconds: f64) -> Result<(Self, f64)> {
        let mut command = hosts.command(means)?;
        command.args(["block", "asked", &seconds.to_string(), SPINS]).args(&hosts.names);
        let program = Self::spawn(&mut command)?;
        let speed = program.answer()?;
        Ok((program, speed))
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (sender, answers) = channel();
        let output = child.stdout.take().context("no output")?;
        // It ends with the output.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let input = child.stdin.take();
        Ok(Self { child, input, answers })
    }

    fn run(&mut self, grain: u64, speed: f64) -> Result<f64> {
        writeln!(self.input.as_mut().context("no input")?, "{grain} {speed}")?;
        self.answer()
    }

    fn answer(&self) -> Result<f64> {
        let line = self.answers.recv_timeout(LIMIT).context("the program does not answer")?;
        line.trim().parse().with_context(|| format!("{line:?} is no result"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It ends with its input, and its answers with it.
        drop(self.input.take());
        if self.answers.recv_timeout(LIMIT).is_ok() || self.child.try_wait().is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_has_its_confidence() {
        let alone = |losses: &[f64]| Alone { grain: 10, rates: Vec::new(), losses: losses.to_vec() };
        let (mean, half) = alone(&[0.01, 0.03, 0.02, 0.0, 0.04]).loss();
        // Standard error 0.00707, and 2.776 of them for four degrees of freedom.
        assert!((mean - 0.02).abs() < 1e-12 && (half.expect("enough") - 0.0196).abs() < 2e-4, "{half:?}");
        assert_eq!(alone(&[0.01, 0.02]).loss().1, None);
        assert!((student(9.0) - 2.262).abs() < 0.01 && (student(29.0) - 2.045).abs() < 0.01);
    }

    #[test]
    fn a_program_answers_until_its_input_ends() {
        let mut program = Program::spawn(Command::new("sed").args(["-u", "s/.* //"])).expect("started");
        assert!((program.run(10, 2.5).expect("an answer") - 2.5).abs() < 1e-12);
        assert!((program.run(10, 3.0).expect("an answer") - 3.0).abs() < 1e-12);
        drop(program);
        let mut mute = Program::spawn(&mut Command::new("true")).expect("started");
        assert!(mute.run(10, 2.5).is_err());
    }
}
