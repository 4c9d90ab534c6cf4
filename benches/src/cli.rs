//! The command line.

use crate::coscheduling;
use crate::dasic;
use crate::lab::{Lab, Programs, Trial};
use crate::live::{self, page::Shown};
use crate::owner;
use crate::part::{Effort, Part, Session};
use crate::parts;
use crate::policies;
use crate::report::{Computer, Findings, Found};
use crate::scale;
use crate::tune::Tune;
use crate::waiting;
use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use pvm_sim::report::Report;
use pvm_tests::install::{Installation, target, workspace};
use pvm_tests::peers;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Measures this PVM side by side with the original PVM, Open MPI and the machine's own limits
#[derive(Debug, Parser)]
#[command(name = "benches", bin_name = "cargo bench -p benches --", after_help = EXAMPLES)]
pub struct Cli {
    /// What to measure; everything by default
    #[arg(value_parser = known_part)]
    parts: Vec<String>,
    /// Fewer sizes, three short rounds: to see whether it works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// How often everybody is run (7; 3 with --quick)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measure what is installed there; otherwise this tree is built and installed below the target folder
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    documentation: Documentation,
    /// List what can be measured
    #[arg(long)]
    list: bool,
    /// Given by cargo
    #[arg(long, hide = true, global = true)]
    bench: bool,
    #[command(subcommand)]
    command: Option<Action>,
}

/// The files with what was measured.
#[derive(Debug, Args)]
struct Files {
    /// Where the JSON file, the tables (CSV) and the plots (SVG) go (benchmarks in the target folder)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Plots without titles, for papers that have captions
    #[arg(long)]
    no_titles: bool,
}

/// Anything else than measuring side by side.
#[derive(Debug, Subcommand)]
enum Action {
    /// Compare values of a tuned constant (docs/constants.md): build the product for each, and run the constant's part
    Tune(Tune),
}

#[derive(Debug, Args)]
struct Documentation {
    /// Of `live`, `policies`, `dasic` and `owner`: write their data, pictures and tables into docs, too
    #[arg(long)]
    docs: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo bench -p benches                                   everything, about twenty minutes
  cargo bench -p benches -- --quick                        everything, less than a minute
  cargo bench -p benches -- latency bandwidth --rounds 15
  cargo bench -p benches -- --prefix /opt/pvm rate         what is installed there
  cargo bench -p benches -- coscheduling --rounds 2        programs that share hosts, about ten minutes
  cargo bench -p benches -- dasic --docs                   workstations with owners, by rows and without, about ten minutes
  cargo bench -p benches -- owner --docs                   what an owner's program loses on a host that was lent, two minutes
  cargo bench -p benches -- scale                          what 8 to 256 hosts cost, about ten minutes
  cargo bench -p benches -- policies --docs                all placement policies, about ten minutes
  cargo bench -p benches -- jobs jobs-waiting              jobs of the queues, with HyperQueue for comparison
  cargo bench -p benches -- live --docs                    the simulator beside daemons, about an hour
  cargo bench -p benches -- tune RING_TURN 8 256           values of a constant of docs/constants.md

A ratio ours:X is our median over that of X. How to read the rest: docs/benchmarks.md.";

fn known_part(word: &str) -> Result<String, String> {
    let names = || parts::CHOICES.iter().map(|(name, _)| *name);
    if names().any(|name| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))) {
        Ok(word.to_owned())
    } else {
        Err(format!("can be: {}", names().collect::<Vec<_>>().join(", ")))
    }
}

/// Runs the command line.
pub fn run(cli: &Cli, programs: Programs) -> Result<()> {
    if cli.list {
        for (name, what) in parts::CHOICES {
            println!("{name:<12} {what}");
        }
        return Ok(());
    }
    if let Some(Action::Tune(tune)) = &cli.command {
        return tune.run(programs, session);
    }
    let machine = Computer::here();
    let ours = if let Some(prefix) = &cli.prefix {
        // Cargo has changed the working folder, so paths are taken from the workspace.
        Installation::at(&workspace().join(prefix))
    } else {
        eprintln!("building and installing this tree below {}", target().display());
        Installation::ours()
    };
    let folder =
        cli.files.out.as_ref().map_or_else(|| target().join("benchmarks"), |out| workspace().join(out));
    let take = |words: Vec<String>, is_chosen: fn(&[String]) -> bool| -> (Vec<String>, Vec<String>) {
        words.into_iter().partition(|word| is_chosen(std::slice::from_ref(word)))
    };
    let (shared, words) = take(cli.parts.clone(), coscheduling::is_chosen);
    let (lived, words) = take(words, live::is_chosen);
    let (grown, words) = take(words, scale::is_chosen);
    let (queued, words) = take(words, waiting::is_chosen);
    let (lent, words) = take(words, dasic::is_chosen);
    let (held, words) = take(words, owner::is_chosen);
    let (placed, words) = take(words, policies::is_chosen);
    let run = Run { cli, ours: &ours, programs, folder: &folder, machine: &machine };
    if !shared.is_empty() {
        run.share(&shared)?;
    }
    if !lived.is_empty() {
        run.compare(&lived)?;
    }
    if !grown.is_empty() {
        run.grow(&grown)?;
    }
    if !placed.is_empty() {
        run.place(&placed)?;
    }
    if !queued.is_empty() {
        run.wait()?;
    }
    if !lent.is_empty() {
        run.lend()?;
    }
    if !held.is_empty() {
        run.give_back()?;
    }
    if words.is_empty() && !cli.parts.is_empty() {
        return Ok(());
    }
    let lab = Lab::open(&ours, programs, parts::needs(&words))?;
    let parts = parts::chosen(&lab, &words, cli.quick);
    let found = measure(&parts, cli.effort())?;
    let findings = Findings { machine, parts: found };
    show(&findings, cli, &folder)?;
    let failures: Vec<&String> = findings.parts.iter().flat_map(|part| &part.failures).collect();
    for failure in &failures {
        println!("not measured: {failure}");
    }
    ensure_all(failures.is_empty())
}

/// With `PVM_TEST_FULL=1` it is an error if something was not measured.
fn ensure_all(is_all: bool) -> Result<()> {
    ensure!(is_all || !peers::full(), "PVM_TEST_FULL=1 wants everything measured");
    Ok(())
}

impl Cli {
    fn effort(&self) -> Effort {
        Effort::of(self.rounds, self.quick)
    }
}

fn measure(parts: &[Part], effort: Effort) -> Result<Vec<Found>> {
    let runs: usize = parts.iter().map(|part| part.contenders.len() * effort.rounds).sum();
    let session = session(runs, effort)?;
    let found = parts.iter().map(|part| Ok(Found::new(part, &part.run(&session)?))).collect();
    session.progress.finish_and_clear();
    found
}

/// The progress on the terminal, and the request to stop.
fn session(runs: usize, effort: Effort) -> Result<Session> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left  {msg}")?;
    let progress = ProgressBar::new(runs as u64).with_style(style);
    let interrupted = Arc::default();
    // So that daemons and hosts are not left behind.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(Session { effort, progress, interrupted })
}

/// What was asked for, for measurements that are no comparison side by side.
struct Run<'r> {
    cli: &'r Cli,
    ours: &'r Installation,
    programs: Programs<'r>,
    folder: &'r Path,
    machine: &'r Computer,
}

impl Run<'_> {
    /// Measures in as many rounds as the command line says, else in `few` with `--quick` and in `usual` without. What was found, and the rounds.
    fn in_rounds<T>(
        &self,
        (few, usual): (usize, usize),
        measure: impl FnOnce(Trial) -> Result<T>,
    ) -> Result<(T, usize)> {
        let Self { cli, ours, programs, .. } = *self;
        let rounds = cli.rounds.map_or(if cli.quick { few } else { usual }, usize::from);
        let session = session(0, cli.effort())?;
        let found = measure(Trial { ours, programs, rounds, quick: cli.quick, session: &session });
        session.progress.finish_and_clear();
        Ok((found?, rounds))
    }

    fn publish(&self, report: Report) -> Result<()> {
        publish(report, self.cli, self.folder)
    }

    /// Writes the documentation's data and pictures if the command line asks for them, and says what is up to date then.
    fn document(&self, shown: &[Shown], rounds: usize, what: &str) -> Result<()> {
        if self.cli.documentation.docs {
            live::page::write(workspace(), shown, self.machine, rounds)?;
            println!("{what} up to date");
        }
        Ok(())
    }

    /// Measures and shows programs that share hosts.
    fn share(&self, words: &[String]) -> Result<()> {
        let (shared, _) = self.in_rounds((1, 1), |trial| coscheduling::measure(trial, words))?;
        self.publish(shared.report())?;
        keep(self.folder, coscheduling::NAME, &shared)
    }

    /// Measures and shows what many hosts cost.
    fn grow(&self, words: &[String]) -> Result<()> {
        let (growth, _) = self.in_rounds((1, scale::ROUNDS), |trial| scale::measure(trial, words))?;
        self.publish(growth.report())?;
        growth.failures().for_each(|failure| println!("{failure}"));
        keep(self.folder, scale::NAME, &growth)?;
        ensure_all(growth.failures().next().is_none())
    }

    /// Measures and shows what many waiting jobs cost.
    fn wait(&self) -> Result<()> {
        let (growth, _) = self.in_rounds((1, waiting::ROUNDS), waiting::measure)?;
        self.publish(growth.report())?;
        keep(self.folder, waiting::NAME, &growth)
    }

    /// Measures and shows placement policies.
    fn place(&self, words: &[String]) -> Result<()> {
        let (found, rounds) =
            self.in_rounds((1, policies::ROUNDS), |trial| policies::measure(trial, words))?;
        for compared in &found {
            self.publish(compared.report())?;
        }
        keep(self.folder, policies::NAME, &found)?;
        let shown: Vec<_> = found.iter().filter_map(policies::Compared::shown).collect();
        self.document(&shown, rounds, "the pages with placement policies are")
    }

    /// Measures and shows teams on workstations that owners lend.
    fn lend(&self) -> Result<()> {
        let (shared, rounds) = self.in_rounds((1, dasic::ROUNDS), dasic::measure)?;
        let shared = shared.context("not to be measured here")?;
        self.publish(shared.report())?;
        keep(self.folder, dasic::NAME, &shared)?;
        if let Some(lanes) = shared.picture().filter(|_| self.cli.documentation.docs) {
            fs::write(workspace().join(dasic::PICTURE), lanes.svg()?)?;
        }
        self.document(&shared.shown(), rounds, "docs/coscheduling.md is")
    }

    /// Measures and shows what an owner's program loses.
    fn give_back(&self) -> Result<()> {
        let (loss, rounds) = self.in_rounds((1, owner::ROUNDS), owner::measure)?;
        self.publish(loss.report())?;
        keep(self.folder, owner::NAME, &loss)?;
        self.document(&[loss.shown()], rounds, "docs/coscheduling.md is")
    }

    /// Measures daemons and compares them with the simulator.
    fn compare(&self, words: &[String]) -> Result<()> {
        let (found, rounds) = self.in_rounds((2, 5), |trial| live::measure(trial, words))?;
        for (report, sentence) in found.reports() {
            self.publish(report)?;
            println!("{sentence}\n");
        }
        keep(self.folder, live::NAME, &found)?;
        self.document(&found.shown(), rounds, "docs/simulated-and-live.md is")
    }
}

/// Prints the tables; writes them and the plots into files.
fn publish(mut report: Report, cli: &Cli, folder: &Path) -> Result<()> {
    print!("{}", report.text());
    if cli.files.no_titles {
        report.remove_titles();
    }
    report.write(folder)?;
    Ok(())
}

/// Writes the JSON file of what was measured.
fn keep(folder: &Path, name: &str, found: &impl Serialize) -> Result<()> {
    let path = folder.join(name).with_extension("json");
    fs::write(&path, serde_json::to_string_pretty(found)?).with_context(|| path.display().to_string())?;
    println!("JSON, CSV and SVG files: {}", folder.display());
    Ok(())
}

fn show(findings: &Findings, cli: &Cli, folder: &Path) -> Result<()> {
    publish(findings.report(), cli, folder)?;
    keep(folder, "benchmarks", findings)?;
    if findings.machine.load_before > 0.5 {
        println!(
            "This machine was busy before (load {}): compare the spreads.",
            findings.machine.load_before
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_examples_parse() {
        for line in EXAMPLES.lines().filter(|line| line.starts_with("  cargo bench")) {
            let words = line.trim().split("   ").next().expect("a command");
            let arguments = words.split_whitespace().skip(5);
            let parsed = Cli::try_parse_from(std::iter::once("benches").chain(arguments));
            assert!(parsed.is_ok(), "{words}: {parsed:?}");
        }
    }

    #[test]
    fn unknown_parts_are_refused_with_those_that_exist() {
        let error = Cli::try_parse_from(["benches", "lateness"]).expect_err("unknown");
        assert!(error.to_string().contains("latency, bandwidth"));
        assert!(Cli::try_parse_from(["benches", "latency-bytes"]).is_ok());
    }

    #[test]
    fn rounds_are_seven_unless_said() {
        let effort = |words: &[&str]| Cli::try_parse_from(words).expect("sound").effort().rounds;
        assert_eq!(effort(&["benches"]), 7);
        assert_eq!(effort(&["benches", "--quick"]), 3);
        assert_eq!(effort(&["benches", "--quick", "--rounds", "9"]), 9);
    }
}
