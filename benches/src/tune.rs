//! Comparing values of a tuned constant: the product is built and installed once for each, and all take turns in the part of the
//! benchmark that shows the constant.

use crate::coscheduling;
use crate::lab::{Lab, Programs, Trial};
use crate::part::{Effort, Part, Session};
use crate::parts;
use crate::report::{Computer, Findings, Found};
use crate::scale;
use crate::waiting;
use anyhow::{Context, Result, ensure};
use clap::Args;
use pvm_sim::report::Report;
use pvm_tests::install::{Installation, target, workspace};
use pvm_wire::tuned::{Constant, TABLE};
use std::collections::BTreeSet;
use std::env;
use std::process::Command;

/// The values to compare.
#[derive(Debug, Args)]
pub struct Tune {
    /// A constant of docs/constants.md
    #[arg(value_parser = constant)]
    name: &'static Constant,
    /// Values, in the constant's unit; the one in use is always measured, too
    #[arg(required = true)]
    values: Vec<u64>,
    /// How often each value is run (7; 3 with --quick)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Fewer sizes and short rounds
    #[arg(long)]
    quick: bool,
    /// Run this part in place of the constant's
    #[arg(long)]
    part: Option<String>,
}

fn constant(name: &str) -> Result<&'static Constant, String> {
    let found = TABLE.iter().find(|constant| constant.name == name);
    let names = || TABLE.iter().map(|constant| constant.name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("unknown constant; choose one of {}", names()))
}

impl Tune {
    /// The value in use, and then the others.
    fn values(&self) -> Vec<u64> {
        let mut seen = BTreeSet::new();
        let all = std::iter::once(self.name.default).chain(self.values.iter().copied());
        all.filter(|&value| seen.insert(value)).collect()
    }

    fn effort(&self) -> Effort {
        Effort::of(self.rounds, self.quick)
    }

    /// Builds, measures and shows.
    pub fn run(&self, programs: Programs, session: impl Fn(usize, Effort) -> Result<Session>) -> Result<()> {
        let part = self.part.as_deref().unwrap_or(self.name.part).to_owned();
        let words = [part];
        let mut installed = Vec::new();
        for value in self.values() {
            installed.push((value, install(self.name.name, value)?));
        }
        if let Some(alone) = Alone::of(&words) {
            return self.run_alone(alone, programs, &installed, &words, &session(0, self.effort())?);
        }
        let machine = Computer::here();
        let labs = installed.iter().map(|(_, ours)| Lab::alone(ours, programs, parts::needs(&words)));
        let labs = labs.collect::<Result<Vec<_>>>()?;
        let parts = self.merged(&labs, &words);
        ensure!(!parts.is_empty(), "unknown part {} of the benchmark", words[0]);
        let effort = self.effort();
        let runs = parts.iter().map(|part| part.contenders.len() * effort.rounds).sum();
        let session = session(runs, effort)?;
        let found = parts.iter().map(|part| Ok(Found::new(part, &part.run(&session)?)));
        let found: Result<_> = found.collect();
        session.progress.finish_and_clear();
        let findings = Findings { machine, parts: found? };
        println!("{}, {}: {}", self.name.name, self.name.unit, self.name.trade);
        print!("{}", findings.report().text());
        let failures: Vec<&String> = findings.parts.iter().flat_map(|part| &part.failures).collect();
        ensure!(failures.is_empty(), "not measured: {failures:?}");
        Ok(())
    }

    /// Of each lab the first contender, which is the one that is compared with peers otherwise.
    fn merged<'l>(&self, labs: &'l [Lab], words: &[String]) -> Vec<Part<'l>> {
        let mut merged: Vec<Part<'l>> = Vec::new();
        for (lab, value) in labs.iter().zip(self.values()) {
            for (index, mut part) in parts::chosen(lab, words, self.quick).into_iter().enumerate() {
                part.contenders.truncate(1);
                for contender in &mut part.contenders {
                    // One per value, for as long as the process lives.
                    contender.name = Box::leak(value.to_string().into_boxed_str());
                    contender.kind = crate::part::Kind::Compared;
                }
                match merged.get_mut(index) {
                    Some(all) => all.contenders.append(&mut part.contenders),
                    None => merged.push(part),
                }
            }
        }
        merged
    }

    /// Parts that are no comparison side by side, for one value after the other in each round.
    fn run_alone(
        &self,
        alone: Alone,
        programs: Programs,
        installed: &[(u64, Installation)],
        words: &[String],
        session: &Session,
    ) -> Result<()> {
        for round in 1..=self.effort().rounds {
            for (value, ours) in installed {
                let trial = Trial { ours, programs, rounds: 1, quick: self.quick, session };
                let report = alone.measure(trial, words)?;
                println!("{} = {value}, round {round}:\n{}", self.name.name, report.text());
            }
        }
        Ok(())
    }
}

/// A part that is no comparison side by side.
#[derive(Clone, Copy, Debug)]
enum Alone {
    Coscheduling,
    Scale,
    Waiting,
}

impl Alone {
    fn of(words: &[String]) -> Option<Self> {
        match () {
            () if coscheduling::is_chosen(words) => Some(Self::Coscheduling),
            () if scale::is_chosen(words) => Some(Self::Scale),
            () if waiting::is_chosen(words) => Some(Self::Waiting),
            () => None,
        }
    }

    fn measure(self, trial: Trial, words: &[String]) -> Result<Report> {
        Ok(match self {
            Self::Coscheduling => coscheduling::measure(trial, words)?.report(),
            Self::Scale => scale::measure(trial, words)?.report(),
            Self::Waiting => waiting::measure(trial)?.report(),
        })
    }
}

/// The product with this value, installed in a folder of its own. All values are built in one folder, one after the other.
fn install(name: &str, value: u64) -> Result<Installation> {
    let folder = target().join("tuned");
    let prefix = folder.join(format!("{name}-{value}"));
    eprintln!("building and installing {} with {name} = {value}", prefix.display());
    let mut command = Command::new("make");
    command.args(["--no-print-directory", "build", "install"]).arg("-C").arg(workspace());
    command.arg(format!("PREFIX={}", prefix.display()));
    for (variable, _) in env::vars_os() {
        let text = variable.to_string_lossy();
        // Cargo's variables for this process, and values of other constants, must not reach that build.
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "PVM_TUNED_"].iter().any(|start| text.starts_with(start)) {
            command.env_remove(&variable);
        }
    }
    command.env_remove("LD_LIBRARY_PATH").env("CARGO_TARGET_DIR", &folder);
    command.env(format!("PVM_TUNED_{name}"), value.to_string());
    let output = command.output().context("make")?;
    ensure!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(Installation::at(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        tune: Tune,
    }

    fn parse(words: &[&str]) -> Result<Tune, String> {
        let words = std::iter::once(&"tune").chain(words);
        Line::try_parse_from(words).map(|line| line.tune).map_err(|error| error.to_string())
    }

    #[test]
    fn the_value_in_use_is_measured_first_and_each_value_once() {
        let tune = parse(&["RING_TURN", "8", "64", "8", "1"]).unwrap();
        assert_eq!(tune.values(), [64, 8, 1]);
        assert_eq!(parse(&["RING_TURN", "8", "--quick"]).unwrap().effort().rounds, 3);
    }

    #[test]
    fn unknown_constants_and_missing_values_are_refused() {
        let error = parse(&["RING_TURNS", "8"]).unwrap_err();
        assert!(error.contains("unknown constant") && error.contains("RING_TURN,"), "{error}");
        assert!(parse(&["RING_TURN"]).is_err());
        assert!(parse(&["RING_TURN", "many"]).is_err());
    }

    #[test]
    fn every_constant_names_a_part_of_the_benchmark() {
        for constant in TABLE {
            let is_known = |(name, _): &(&str, &str)| {
                constant.part.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            assert!(parts::CHOICES.iter().any(is_known), "{constant:?}");
        }
    }
}
