//! The command line of `pvm bench`.

use crate::cli::MachineArgs;
use crate::commands::args::OutputArgs;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Without PART all parts are measured, on this host and another daemon on it, or on the hosts of the
batch system's job.

Each value is the median of several rounds; ± is half the distance between the quartiles. LIMIT is what
the same hosts reach without PVM, measured in the same run, and SHARE the part of it that is reached.
\"exec\": processes of the same program that start and exit at once. \"cores\": two threads that hand a
word to each other; for rates, the time of all processors. \"memory\": the same bytes copied twice by one
process. \"link\": a plain TCP connection between the same hosts, without encryption.

BUSY is the part of the hosts' processor time that was used meanwhile, by all programs. Near 100 % the
processors are the limit.

Exit status: 0 if everything was measured that can be; 1 if a host or a worker was lost, or failed;
2 for a wrong command line; 128+N after signal N. What was measured until then is printed.

Examples:
  pvm bench                                  two daemons on this host
  pvm bench --here                           on the virtual machine that runs here
  pvm bench --hostfile cluster --seconds 120 on the hosts in the file \"cluster\", with more time
  pvm bench latency bandwidth --pairs all    messages only, between each two of the first four hosts
  pvm bench spawn --max-tasks 10000          spawns of up to 10,000 tasks
  pvm bench --plot bench.svg                 curves over message and batch sizes, for any browser
  pvm bench --json | jq '.results[] | select(.part == \"latency\")'";

/// The seconds of a run without `--seconds`, and with `--quick`.
const SECONDS: f64 = 20.0;
const SECONDS_QUICK: f64 = 5.0;
/// The same for rounds and for the greatest batch.
const ROUNDS: u32 = 5;
const ROUNDS_QUICK: u32 = 3;
const TASKS: u32 = 1000;
const TASKS_QUICK: u32 = 100;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Part {
    /// Tasks per second that enrol and exit, in batches of 1, 10, 100, …
    Spawn,
    /// Half a round trip of a short message
    Latency,
    /// Size of a long message divided by half a round trip
    Bandwidth,
    /// Short messages one way, 64 before an answer
    Rate,
    /// Bytes per second of all hosts together while each sends to each other one
    AllToAll,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Self; 5] = [Self::Spawn, Self::Latency, Self::Bandwidth, Self::Rate, Self::AllToAll];

    /// Its name on the command line, in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "rate",
            Self::AllToAll => "all-to-all",
        }
    }
}

/// The pairs of hosts between which messages are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pairs {
    /// The first host with each other one
    #[default]
    First,
    /// Each with each
    All,
}

/// The arguments of `pvm bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Which virtual machine
    #[command(flatten)]
    pub machine: MachineArgs,
    /// What is measured
    #[arg(value_name = "PART", value_enum)]
    pub parts: Vec<Part>,
    /// Fewer rounds and sizes, in about five seconds
    #[arg(long)]
    pub quick: bool,
    /// Number of rounds, whose median is the result (default 5; with --quick 3)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// The time to aim at for all measurements, in seconds (default 20; with --quick 5). What cannot be measured in it gets
    /// fewer rounds, or is left out with a note
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Tasks in the greatest batch that is spawned (default 1000; with --quick 100)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_tasks: Option<u32>,
    /// Number of hosts that are measured one by one and in pairs. Measurements over all hosts include the others
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4095))]
    pub first: u16,
    /// Pairs of these hosts between which messages are measured
    #[arg(long, value_name = "WHICH", value_enum, default_value = "first")]
    pub pairs: Pairs,
    /// Also draw the curves to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// How the result is written
    #[command(flatten)]
    pub output: OutputArgs,
}

impl BenchArgs {
    /// The parts to measure, each once and in their order.
    pub fn chosen(&self) -> Vec<Part> {
        let is_chosen = |part: &Part| self.parts.is_empty() || self.parts.contains(part);
        Part::ALL.into_iter().filter(is_chosen).collect()
    }

    /// The number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { ROUNDS_QUICK } else { ROUNDS })
    }

    /// The time to aim at, seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { SECONDS_QUICK } else { SECONDS })
    }

    /// Tasks in the greatest batch.
    pub fn max_tasks(&self) -> u32 {
        self.max_tasks.unwrap_or(if self.quick { TASKS_QUICK } else { TASKS })
    }

    /// The arguments of the process that measures inside a machine of its own.
    pub fn inside(&self) -> Vec<OsString> {
        let mut inside: Vec<OsString> = ["bench", "--here", "--private"].map(Into::into).to_vec();
        let mut option = |name: &str, value: String| inside.push(format!("--{name}={value}").into());
        option("rounds", self.rounds().to_string());
        option("seconds", self.seconds().to_string());
        option("max-tasks", self.max_tasks().to_string());
        option("first", self.first.to_string());
        option(
            "pairs",
            self.pairs.to_possible_value().map_or_else(String::new, |value| value.get_name().into()),
        );
        let flags = [
            ("--allow-missing", self.machine.allow_missing),
            ("--quick", self.quick),
            ("--json", self.output.json),
        ];
        inside.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.into()));
        if let Some(file) = &self.plot {
            inside.extend(["--plot".into(), file.into()]);
        }
        inside.push("--".into());
        inside.extend(self.chosen().into_iter().map(|part| part.name().into()));
        inside
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (1.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds, from 1 to 86400".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn parse(words: &[&str]) -> Result<BenchArgs, clap::Error> {
        Line::try_parse_from(["bench"].iter().chain(words)).map(|line| line.args)
    }

    #[test]
    fn parts_are_measured_once_and_in_their_order() {
        assert_eq!(parse(&[]).unwrap().chosen(), Part::ALL);
        let chosen = parse(&["all-to-all", "spawn", "all-to-all"]).unwrap().chosen();
        assert_eq!(chosen, [Part::Spawn, Part::AllToAll]);
        for part in Part::ALL {
            assert_eq!(part.to_possible_value().unwrap().get_name(), part.name());
        }
    }

    #[test]
    fn quick_changes_what_is_not_given() {
        let quick = parse(&["--quick"]).unwrap();
        assert_eq!((quick.rounds(), quick.max_tasks()), (3, 100));
        let given = parse(&["--quick", "--rounds", "7", "--seconds", "2.5"]).unwrap();
        assert_eq!((given.rounds(), given.max_tasks()), (7, 100));
        assert!((given.seconds() - 2.5).abs() < 1e-9);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for wrong in [&["speed"][..], &["--rounds", "0"], &["--seconds", "0"], &["--max-tasks", "10001"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_process_inside_gets_the_same_arguments() {
        let words =
            ["--quick", "--rounds=2", "--pairs=all", "--first=3", "--plot", "a b.svg", "--json", "rate"];
        let inside = parse(&words).unwrap().inside();
        let texts: Vec<&str> = inside.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(texts[..3], ["bench", "--here", "--private"]);
        let again = parse(&texts[1..]).unwrap();
        assert_eq!((again.rounds(), again.first, again.pairs), (2, 3, Pairs::All));
        assert_eq!((again.max_tasks(), again.chosen()), (100, vec![Part::Rate]));
        assert!(again.output.json && again.quick && again.machine.here && again.machine.private);
        assert_eq!(again.plot, Some(PathBuf::from("a b.svg")));
        assert_eq!(again.inside(), inside);
    }
}
