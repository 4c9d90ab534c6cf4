//! The command line of `pvm sim`.

use crate::experiments::{Runs, allocation, batch, coallocation, dasic, epochs};
use crate::report::Report;
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulate scheduling policies and compare the results with their papers
#[derive(Debug, Parser)]
#[command(name = "pvm sim", bin_name = "pvm sim", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  pvm sim coallocation --seeds 10           figures 3 to 6, with confidence intervals
  pvm sim coallocation --trace CTC-SP2.swf.gz --out ctc
  pvm sim dasic --teams 400
  pvm sim epochs --seeds 5
  pvm sim allocation --hosts 10,1000,100000
  pvm sim batch --jobs 1000000 --nodes 10000

Tables are printed; CSV and SVG files are written to sim-results, or to the folder of --out.";

const COALLOCATION: &str = "\
Examples:
  pvm sim coallocation --seeds 10                       figures 3 to 6, with confidence intervals
  pvm sim coallocation --trace CTC-SP2.swf.gz           the jobs of a trace, widened to a mean of 40 nodes
  pvm sim coallocation --clusters 64:1,64:1,32:2 --bwbn 10,100
  pvm sim coallocation --mtbf 3650                      nodes fail every ten years on the average";

const DASIC: &str = "\
Examples:
  pvm sim dasic --seeds 10                              over how often owners return
  pvm sim dasic --load 0.6 --idle 250,4000              an unstable matrix
  pvm sim dasic --grain 1                               loosely coupled processes
  pvm sim dasic --policies dasic,staying                processes that move, and processes that stay as on a live machine
  pvm sim dasic --mtbf 100000                           workstations fail as well";

const EPOCHS: &str = "\
Examples:
  pvm sim epochs --seeds 5                              slowdown over the grain
  pvm sim epochs --grain 0.1 --spin 1                   block soon
  pvm sim epochs --idle 10 --visit 1                    owners use their nodes one second in ten
  pvm sim epochs --nodes 2 --processors 8 --tasks 4     nodes of eight processors, under Linux's scheduler";

const ALLOCATION: &str = "\
Examples:
  pvm sim allocation --seeds 5                          over the load, and up to 100,000 hosts
  pvm sim allocation --hosts 10,1000 --load 0.5,0.9
  pvm sim allocation --delay 100                        a message takes 100 ms
  pvm sim allocation --mtbf 3600 --idle 600             hosts fail every hour, owners return every ten minutes";

const BATCH: &str = "\
Examples:
  pvm sim batch --seeds 5
  pvm sim batch --trace KTH-SP2.swf.gz --nodes 100      the jobs of a trace
  pvm sim batch --jobs 1000000 --nodes 10000 --load 0.7
  pvm sim batch --mtbf 3650 --policies easy,fair-share   nodes fail every ten years on the average";

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Jobs over clusters of different speed: four heuristics and three baselines over the bandwidth that jobs need
    #[command(after_help = COALLOCATION)]
    Coallocation(coallocation::Settings),
    /// Coscheduling that follows the workstations that come and go
    #[command(after_help = DASIC)]
    Dasic(dasic::Settings),
    /// Local, implicit, demand-based and gang scheduling over the grain of the jobs
    #[command(after_help = EPOCHS)]
    Epochs(epochs::Settings),
    /// Six ways to find a processor, and active pulling, over load and number of hosts
    #[command(after_help = ALLOCATION)]
    Allocation(allocation::Settings),
    /// Queues, admission control and fair share
    #[command(after_help = BATCH)]
    Batch(batch::Settings),
}

#[derive(Debug, Args)]
struct Common {
    /// The first seed
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Number of seeds; with more than one, results have 95 % confidence intervals
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Folder for CSV and SVG files
    #[arg(long, global = true, default_value = "sim-results")]
    out: PathBuf,
    /// Plots without titles, for papers that have captions
    #[arg(long, global = true)]
    no_titles: bool,
}

/// Runs `pvm sim` with these arguments, which do not include the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = std::iter::once(OsString::from("pvm sim")).chain(args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Without a terminal the error cannot be shown.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match experiment(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pvm sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn experiment(cli: &Cli) -> Result<(), Box<dyn Error>> {
    let common = &cli.common;
    // Not after an hour of simulation.
    Report::prepare(&common.out)?;
    let runs = Runs { seed: common.seed, seeds: common.seeds, progress: bar() };
    let mut report: Report = match &cli.experiment {
        Experiment::Coallocation(settings) => coallocation::run(settings, &runs)?,
        Experiment::Dasic(settings) => dasic::run(settings, &runs)?,
        Experiment::Epochs(settings) => epochs::run(settings, &runs)?,
        Experiment::Allocation(settings) => allocation::run(settings, &runs)?,
        Experiment::Batch(settings) => batch::run(settings, &runs)?,
    };
    runs.progress.finish_and_clear();
    if common.no_titles {
        report.remove_titles();
    }
    let files = report.write(&common.out)?;
    for note in &report.notes {
        eprintln!("pvm sim: {note}");
    }
    show(&report, &files, &mut std::io::stdout().lock())?;
    Ok(())
}

/// Prints the tables and what was written. Whoever stops reading has read enough.
fn show(report: &Report, files: &[PathBuf], out: &mut impl Write) -> std::io::Result<()> {
    let mut all = || {
        out.write_all(report.text().as_bytes())?;
        for file in files {
            writeln!(out, "{}", file.display())?;
        }
        out.flush()
    };
    match all() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left").ok();
    let bar = ProgressBar::new(0);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    struct Closed(ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error_and_a_full_disk_is() {
        let files = [PathBuf::from("x")];
        assert!(show(&Report::default(), &files, &mut Closed(ErrorKind::BrokenPipe)).is_ok());
        assert!(show(&Report::default(), &files, &mut Closed(ErrorKind::StorageFull)).is_err());
    }

    #[test]
    fn bad_arguments_and_bad_traces_fail_before_anything_runs() {
        let run = |args: &[&str]| run(args.iter().map(OsString::from));
        for args in [
            &["dasic", "--grain", "nan"][..],
            &["coallocation", "--width", "1e30"],
            &["batch", "--load", "0"],
            &["nonesuch"],
        ] {
            assert_eq!(run(args), ExitCode::from(2), "{args:?}");
        }
        assert_eq!(run(&["batch", "--jobs", "10", "--out", "/dev/null/x"]), ExitCode::FAILURE);
    }

    #[test]
    fn the_examples_parse() {
        let all = [EXAMPLES, COALLOCATION, DASIC, EPOCHS, ALLOCATION, BATCH].join("\n");
        for line in all.lines().filter(|line| line.starts_with("  pvm sim")) {
            let words = line.split("   ").find(|part| part.contains("pvm")).expect("a command").trim();
            let args = words.split_whitespace().skip(2).map(OsString::from);
            let parsed = Cli::try_parse_from(std::iter::once(OsString::from("pvm sim")).chain(args));
            assert!(parsed.is_ok(), "{words}: {parsed:?}");
        }
    }
}
