//! What a program of the owner loses that begins when the owner comes back to a host full of tasks.

use crate::compute;
use crate::lab::{self, Trial};
use crate::live::page::Shown;
use anyhow::{Context, Result, ensure};
use pvm_sim::report::{Report, Table, number};
use pvm_sim::stats::Measured;
use pvm_tests::Installation;
use pvm_tests::machine::{Machine, Plan};
use serde::Serialize;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The word by which this is chosen.
pub const NAME: &str = "owner";

/// Default number of rounds.
pub const ROUNDS: usize = 5;

/// Steps of each thread of the owner's program: some seconds. And with less to do.
const STEPS: u64 = 2_000_000_000;
const FEW_STEPS: u64 = 200_000_000;

/// Longer than new tasks take until they compute.
const BEGUN: Duration = Duration::from_millis(500);

const COLUMNS: [&str; 4] = ["beside the owner's program", "s", "quartiles", "it loses, %"];

/// What is on the host when the owner comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Beside {
    Nothing,
    /// A task for each processor, held like this.
    Held(&'static str),
    /// The same, but the host has no owner.
    Tasks,
}

const ALL: [Beside; 4] = [Beside::Nothing, Beside::Held("stopped"), Beside::Held("least"), Beside::Tasks];

impl Beside {
    fn name(self) -> String {
        match self {
            Self::Nothing => "no virtual machine".to_owned(),
            Self::Held(how) => format!("tasks, `held={how}`"),
            Self::Tasks => "tasks, and the daemon does not know of the owner".to_owned(),
        }
    }
}

/// Seconds of the owner's program in each round, by what is beside it.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    runs: Vec<(Beside, Vec<f64>)>,
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word == NAME)
}

/// Measures.
pub fn measure(trial: Trial) -> Result<Loss> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    let steps = if quick { FEW_STEPS } else { STEPS };
    let mut runs = ALL.map(|beside| (beside, Vec::new())).to_vec();
    session.progress.set_length((ALL.len() * rounds) as u64);
    for round in 0..rounds {
        for turn in 0..runs.len() {
            // Each round begins with another one.
            let (beside, seconds) = &mut runs[(turn + round) % ALL.len()];
            session.progress.set_message(format!("{NAME}: {}", beside.name()));
            seconds.push(run(ours, programs.pulling, *beside, steps)?);
            session.step()?;
        }
    }
    Ok(Loss { runs })
}

fn run(ours: &Installation, task: &Path, beside: Beside, steps: u64) -> Result<f64> {
    let machine = match beside {
        Beside::Nothing => None,
        Beside::Held(how) => Some(full(ours, task, how)?),
        Beside::Tasks => Some(full(ours, task, "stopped")?),
    };
    let start = Instant::now();
    let back = machine.as_ref().filter(|_| beside != Beside::Tasks).map(|machine| {
        let mut pvm = machine.command(ours.pvm());
        pvm.args(["owner", "h1", "here"]).output()
    });
    own_program(steps)?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(said) = back.transpose().context("pvm owner")? {
        ensure!(said.status.success(), "pvm owner: {}", String::from_utf8_lossy(&said.stderr));
    }
    Ok(seconds)
}

/// A host with a task that computes for each processor.
fn full(ours: &Installation, task: &Path, held: &str) -> Result<Machine> {
    let plan = Plan::of(ours).name("h1").hostfile(&format!("h1 held={held} ep=@PATH@\n"));
    let machine = lab::start(plan)?;
    let count = thread::available_parallelism()?.get();
    let mut console = machine.console();
    let spawned = console.spawn(&format!("-{count} {} compute", task.display()));
    console.quit();
    ensure!(spawned.tasks.iter().all(std::result::Result::is_ok), "{spawned:?}");
    thread::sleep(BEGUN);
    Ok(machine)
}

/// Computes on all processors.
fn own_program(steps: u64) -> Result<()> {
    let count = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| compute::steps(steps));
        }
    });
    Ok(())
}

impl Loss {
    /// As it is printed.
    pub fn report(&self) -> Report {
        let mut table = Table::new(NAME, "A program of the owner, who is back", &COLUMNS);
        for row in self.rows() {
            table.row(row);
        }
        Report { tables: vec![table], ..Report::default() }
    }

    /// As the page has it.
    pub fn shown(&self) -> Shown {
        Shown {
            name: NAME,
            title: "A program of the owner, who is back",
            unit: "as the column says",
            command: "cargo bench -p benches -- owner --docs",
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: self.rows(),
            note: "A thread on each processor.".into(),
            ..Shown::default()
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let of = |seconds: &[f64]| Measured::of(seconds);
        let alone = self.runs.first().and_then(|(_, seconds)| of(seconds)).map_or(0.0, |all| all.median);
        let row = |(beside, seconds): &(Beside, Vec<f64>)| {
            let Some(Measured { median, low, high, .. }) = of(seconds) else { return Vec::new() };
            let lost = match beside {
                Beside::Nothing => "–".to_owned(),
                _ => number((median / alone - 1.0) * 100.0),
            };
            vec![beside.name(), number(median), format!("{} to {}", number(low), number(high)), lost]
        };
        self.runs.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_those_of_the_medians() {
        let runs = vec![(ALL[0], vec![2.0, 4.0, 4.0]), (ALL[1], vec![4.0, 4.2, 9.0])];
        let rows = Loss { runs }.rows();
        assert_eq!(rows[0], ["no virtual machine", "4.000", "3.000 to 4.000", "–"]);
        assert_eq!((rows[1][0].as_str(), rows[1][3].as_str()), ("tasks, `held=stopped`", "5.000"));
    }
}
