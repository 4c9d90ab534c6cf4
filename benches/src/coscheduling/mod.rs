//! What programs lose that share their hosts, by who decides whose turn it is.
//!
//! Two hosts are network namespaces with one processor each. A program has a task on each of them, and its tasks work and exchange
//! messages in turn. `programs/pvm_gang.c` says what it does and prints.

mod report;

pub use report::Shared;

use crate::lab::compile;
use crate::part::Session;
use crate::program;
use anyhow::{Context, Result, bail, ensure};
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::network::Setting;
use pvm_tests::{Installation, Network, peers};
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The word by which this is chosen.
pub const NAME: &str = "coscheduling";

/// Microseconds of work between two exchanges.
const GRAINS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
/// With less to do.
const FEW_GRAINS: [u64; 2] = [100, 10_000];
/// From this grain on programs are measured for longer, so that there are some exchanges.
const COARSE: u64 = 50_000;
const SECONDS: f64 = 0.7;
const COARSE_SECONDS: f64 = 1.6;
/// Microseconds for which an implicitly coscheduled program spins: five times of waking another process over this network.
const SPIN: &str = "100";
/// Longer than any run takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Who decides, and how programs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// As people are told.
    pub name: &'static str,
    waits: &'static str,
    /// Whether the daemons take turns.
    has_turns: bool,
}

const MODES: [Mode; 5] = [
    Mode { name: "demand-based", waits: "block", has_turns: true },
    Mode { name: "demand-based, spinning", waits: "spin", has_turns: true },
    Mode { name: "local", waits: "block", has_turns: false },
    Mode { name: "local, spinning", waits: "spin", has_turns: false },
    Mode { name: "implicit", waits: "twophase", has_turns: false },
];

/// With whom a program shares its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Competition {
    /// The end of its part's name.
    pub name: &'static str,
    /// As people are told.
    pub title: &'static str,
    /// As the program is told.
    argument: &'static str,
    /// Programs in all, which would be a fair slowdown.
    programs: u32,
    /// Whether it is measured for one grain only.
    is_short: bool,
}

const COMPETITIONS: [Competition; 5] = [
    Competition { name: "two", title: "two copies", argument: "copies:2", programs: 2, is_short: false },
    Competition { name: "four", title: "four copies", argument: "copies:4", programs: 4, is_short: false },
    Competition {
        name: "cpu",
        title: "with one that only computes",
        argument: "cpu",
        programs: 2,
        is_short: false,
    },
    Competition { name: "alone", title: "alone", argument: "none", programs: 1, is_short: false },
    Competition {
        name: "flood",
        title: "computing and sending itself junk, with one that only computes",
        argument: "flood",
        programs: 2,
        is_short: true,
    },
];

impl Competition {
    fn part(&self) -> String {
        format!("{NAME}-{}", self.name)
    }

    /// Whether a mode makes a difference here.
    fn wants(&self, mode: &Mode) -> bool {
        mode.waits == "block" || !(self.is_short || self.programs == 1)
    }

    fn grains(&self, quick: bool) -> &'static [u64] {
        match (self.is_short, quick) {
            (true, _) => &GRAINS[..1],
            (false, true) => &FEW_GRAINS,
            (false, false) => &GRAINS,
        }
    }
}

/// What a run gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Values {
    /// Time against the time alone.
    pub slowdown: f64,
    /// Part of the processors that one program had.
    pub share: f64,
    /// The same of the others, if they are of another kind.
    pub others_slowdown: f64,
    /// Part of the processors that those had.
    pub others_share: f64,
    /// Of tasks, per second and host.
    pub switches: f64,
    /// Exchanges per second, or pieces of work, alone.
    pub rate: f64,
}

/// All runs with one competition, grain and mode.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// With whom.
    pub competition: Competition,
    /// Microseconds between two exchanges.
    pub grain: u64,
    /// Who decides.
    pub mode: Mode,
    /// What each round gave.
    pub rounds: Vec<Values>,
}

/// Two machines on two hosts each, alike but for their turns.
struct Hosts {
    with_turns: Machine,
    without: Machine,
    program: PathBuf,
    names: [&'static str; 2],
    // After the machines, which need them to the end.
    _networks: [Network; 2],
    _folder: TempDir,
}

impl Hosts {
    fn open(installation: &Installation) -> Result<Option<Self>> {
        let check = "programs that share hosts";
        if thread::available_parallelism()?.get() < 2 {
            peers::unchecked(check, "a processor for each of two hosts is needed");
            return Ok(None);
        }
        let network = |means: &str| {
            let variables = vec![("PVM_COSCHEDULING".to_owned(), means.to_owned())];
            Network::with(Setting { one_processor_each: true, variables }, 2, installation, check)
        };
        let (Some(with), Some(without)) = (network("auto"), network("implicit")) else { return Ok(None) };
        let folder = TempDir::with_prefix("pvm-gang-")?;
        let mut compiler = Command::new("cc");
        compiler.arg("-I").arg(installation.include()).arg("-L").arg(installation.library());
        compile(compiler, "pvm_gang", folder.path())?;
        Ok(Some(Self {
            with_turns: start(installation, &with, "auto")?,
            without: start(installation, &without, "implicit")?,
            program: folder.path().join("pvm_gang"),
            names: [with.name(0), with.name(1)],
            _networks: [with, without],
            _folder: folder,
        }))
    }

    fn run(&self, competition: &Competition, mode: &Mode, grain: u64) -> Result<Values> {
        let machine = if mode.has_turns { &self.with_turns } else { &self.without };
        let seconds = if grain >= COARSE { COARSE_SECONDS } else { SECONDS };
        let mut command = machine.command(&self.program);
        command.args([mode.waits, competition.argument, &seconds.to_string(), SPIN]);
        command.args(self.names).arg(grain.to_string());
        parse(&program::output(&mut command, LIMIT)?)
    }
}

fn start(installation: &Installation, network: &Network, means: &str) -> Result<Machine> {
    let hosts = format!("{}\n", network.line(1, ""));
    let plan = Plan::of(installation).network(network).name(network.name(0)).hostfile(&hosts);
    let plan = plan.variable("PVM_COSCHEDULING", means).variable("PVM_EXPORT", "LD_LIBRARY_PATH:PVM_TEAM");
    let started = plan.try_start();
    let machine = started.map_err(|failure| anyhow::anyhow!("the daemon does not start: {failure:?}"))?;
    machine.console_with_hosts(2).quit();
    Ok(machine)
}

fn parse(line: &str) -> Result<Values> {
    let numbers: Vec<f64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{line:?}"))?;
    let [_, slowdown, share, others_slowdown, others_share, switches, rate] = numbers[..] else {
        bail!("{line:?} is no result");
    };
    ensure!(slowdown > 0.0 && slowdown.is_finite(), "{line:?} is no slowdown");
    Ok(Values { slowdown, share, others_slowdown, others_share, switches, rate })
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word.split('-').next() == Some(NAME))
}

/// Measures what the words choose. `None` if it was interrupted.
pub fn measure(
    installation: &Installation,
    words: &[String],
    (rounds, quick): (usize, bool),
    session: &Session,
) -> Result<Option<Shared>> {
    let chosen =
        |competition: &&Competition| words.iter().any(|word| *word == NAME || *word == competition.part());
    let mut all = Vec::new();
    for competition in COMPETITIONS.iter().filter(chosen) {
        for &grain in competition.grains(quick) {
            let modes = MODES.iter().filter(|mode| competition.wants(mode));
            all.extend(modes.map(|&mode| Runs {
                competition: *competition,
                grain,
                mode,
                rounds: Vec::new(),
            }));
        }
    }
    ensure!(!all.is_empty(), "no such part of {NAME}");
    let Some(hosts) = Hosts::open(installation)? else { return Ok(Some(Shared { runs: Vec::new() })) };
    let progress = &session.progress;
    progress.set_length((all.len() * rounds) as u64);
    for _ in 0..rounds {
        for runs in &mut all {
            progress.set_message(format!(
                "{}: {}, {} µs",
                runs.competition.part(),
                runs.mode.name,
                runs.grain
            ));
            runs.rounds.push(hosts.run(&runs.competition, &runs.mode, runs.grain)?);
            progress.inc(1);
            if session.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
    Ok(Some(Shared { runs: all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_results() {
        let values = parse("10 2.5 0.25 2 0.5 1000 4000\n").expect("a result");
        assert_eq!((values.slowdown, values.others_share, values.rate), (2.5, 0.5, 4000.0));
        for line in
            ["", "10 2.5", "10 x 0.25 2 0.5 1000 4000", "10 inf 0.25 2 0.5 1000 4000", "10 0 0 0 0 0 0"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn it_is_measured_only_if_it_is_named() {
        assert!(!is_chosen(&[]) && !is_chosen(&["latency".into()]));
        assert!(is_chosen(&["latency".into(), "coscheduling".into()]));
        assert!(is_chosen(&["coscheduling-two".into()]));
    }
}
