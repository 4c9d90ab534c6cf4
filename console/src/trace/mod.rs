//! `pvm trace summary`: the file of `pvm run --trace`, in figures and as a picture.

mod critical;
mod file;
mod picture;
mod record;
mod summary;
mod text;

use crate::commands::args::OutputArgs;
use crate::timeline::Target;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use record::Record;
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::path::PathBuf;
use summary::Summary;

const EXAMPLES: &str = "\
Examples:
  pvm run --trace run.json ./hello           record a run
  pvm trace summary run.json                 times per task, longest waits, the critical path
  pvm trace summary run.json --svg run.svg   also as a picture";

/// The arguments of `pvm trace`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Print the times of tasks, the longest waits, the critical path and the matrix of messages
    Summary(SummaryArgs),
}

const SUMMARY_EXAMPLES: &str = "\
Examples:
  pvm trace summary run.json
  pvm trace summary run.json --lines 1000    all lines of all tables
  pvm trace summary run.json --svg run.svg   also a picture, for any browser
  pvm trace summary run.json --json | jq '.waits[0]'";

#[derive(Debug, Args)]
#[command(after_help = SUMMARY_EXAMPLES)]
struct SummaryArgs {
    /// File of "pvm run --trace"
    file: PathBuf,
    /// Also draw it: tasks over time, the critical path, the matrix of messages
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The most lines of a table
    #[arg(long, value_name = "N", default_value_t = 10)]
    lines: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a subcommand; returns the exit code.
pub fn run(args: &TraceArgs) -> Result<u8> {
    match &args.command {
        TraceCommand::Summary(args) => summarize(args),
    }
}

/// A trace, and its summary.
#[derive(Debug)]
pub struct Summarized {
    record: Record,
    summary: Summary,
}

impl Summarized {
    /// Reads and summarizes a file of `pvm run --trace`; an error says why it is none.
    pub fn read(file: impl Read) -> Result<Self> {
        let record = file::read(file)?;
        Ok(Self { summary: Summary::of(&record), record })
    }

    /// Tables for a terminal. Each has at most `lines` rows and says how many it leaves out.
    pub fn tables(&self, lines: usize) -> String {
        text::tables(&self.record, &self.summary, lines)
    }

    /// The whole summary; times are nanoseconds since the begin of the trace.
    pub fn json(&self) -> Value {
        text::json(&self.record, &self.summary)
    }

    /// The picture, an SVG document.
    pub fn svg(&self) -> String {
        picture::svg(&self.record, &self.summary)
    }
}

fn summarize(args: &SummaryArgs) -> Result<u8> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    // Reading may take a while: whether the picture can be written is known before.
    let target = args.svg.as_deref().map(Target::open).transpose()?;
    let read = Summarized::read(BufReader::new(file));
    let summarized = read.with_context(|| format!("cannot summarize {name}"))?;
    if let Some(target) = target {
        let path = target.path().to_owned();
        let written = target.write(|mut file| file.write_all(summarized.svg().as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text =
        if args.output.json { format!("{:#}\n", summarized.json()) } else { summarized.tables(args.lines) };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write"),
        _ => Ok(0),
    }
}
