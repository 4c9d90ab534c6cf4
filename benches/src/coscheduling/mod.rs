//! Slowdown of programs that share their hosts, by scheduling policy.
//!
//! Two hosts are network namespaces with one processor each. A program has a task on each of them, and its tasks work and exchange
//! messages in turn. `programs/pvm_gang.c` describes it and its output.

mod alone;
mod report;

pub use alone::Alone;
pub use report::Shared;

use crate::lab::{self, Trial};
use crate::program;
use anyhow::{Context, Result, bail, ensure};
use pvm_tests::control_groups::CpuGroup;
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::network::Setting;
use pvm_tests::{Installation, Network, peers};
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;
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
/// Spin time of an implicitly coscheduled program, in times of waking another process.
const SPINS: &str = "5";
/// Longer than any run takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The scheduling policy, and how programs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// As people are told.
    pub name: &'static str,
    pub(crate) waits: &'static str,
    /// How the daemons take turns.
    pub(crate) means: &'static str,
}

const MODES: [Mode; 9] = [
    Mode { name: "demand-based", waits: "block", means: TURNS },
    Mode { name: "demand-based, spinning", waits: "spin", means: TURNS },
    Mode { name: "demand-based, stopping", waits: "block", means: STOPS },
    Mode { name: "demand-based, by weights, spinning", waits: "spin", means: WEIGHTS },
    Mode { name: "by rows", waits: "block", means: ROWS },
    Mode { name: "by rows, spinning", waits: "spin", means: ROWS },
    Mode { name: "local", waits: "block", means: NO_TURNS },
    Mode { name: "local, spinning", waits: "spin", means: NO_TURNS },
    Mode { name: "implicit", waits: "twophase", means: NO_TURNS },
];

/// The daemons' settings of turns.
pub(crate) const TURNS: &str = "auto";
const STOPS: &str = "stop";
const WEIGHTS: &str = "weights";
const ROWS: &str = "dasic";
pub(crate) const NO_TURNS: &str = "implicit";

/// The programs that share hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Competition {
    /// The end of its part's name.
    pub name: &'static str,
    /// As people are told.
    pub title: &'static str,
    /// The program's argument for it.
    argument: &'static str,
    /// Programs in all, which would be a fair slowdown.
    programs: u32,
    /// Whether it is measured for one grain only.
    is_short: bool,
}

const COMPETITIONS: [Competition; 4] = [
    Competition { name: "two", title: "two copies", argument: "copies:2", programs: 2, is_short: false },
    Competition { name: "four", title: "four copies", argument: "copies:4", programs: 4, is_short: false },
    Competition {
        name: "cpu",
        title: "with one that only computes",
        argument: "cpu",
        programs: 2,
        is_short: false,
    },
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
        mode.waits == "block" || !self.is_short
    }

    fn grains(&self, quick: bool) -> &'static [u64] {
        if self.is_short { &GRAINS[..1] } else { grains(quick) }
    }
}

/// The end of the name of the part for a program on dedicated hosts.
const ALONE: &str = "alone";

fn grains(quick: bool) -> &'static [u64] {
    if quick { &FEW_GRAINS } else { &GRAINS }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Values {
    /// Time against the time alone.
    pub slowdown: f64,
    /// Part of the processors that one program had.
    pub share: f64,
    /// The same of the others, if they are of another kind.
    pub others_slowdown: f64,
    /// Part of the processors that those had.
    pub others_share: f64,
    /// Part of the processors that the daemons had, for the messages of all.
    pub daemons_share: f64,
    /// Of tasks, per second and host.
    pub switches: f64,
    /// Exchanges per second, or pieces of work, alone.
    pub rate: f64,
}

/// All runs with one competition, grain and mode.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// The other programs.
    pub competition: Competition,
    /// Microseconds between two exchanges.
    pub grain: u64,
    /// The scheduling policy.
    pub mode: Mode,
    /// The results of the rounds.
    pub rounds: Vec<Values>,
}

/// Machines on two hosts each, alike but for their turns.
pub(crate) struct Hosts {
    machines: Vec<(&'static str, Machine)>,
    program: PathBuf,
    names: [String; 2],
    // After the machines, which need them to the end.
    _networks: Vec<Network>,
    _groups: Vec<CpuGroup>,
    _folder: TempDir,
}

impl Hosts {
    /// Starts a machine for each of these means; without control groups for all but [`WEIGHTS`].
    pub(crate) fn open(installation: &Installation, means: &[&'static str]) -> Result<Option<Self>> {
        let check = "programs that share hosts";
        if thread::available_parallelism()?.get() < 2 {
            peers::unchecked(check, "a processor for each of two hosts is needed");
            return Ok(None);
        }
        let network = |means: &str| {
            let variables = vec![("PVM_COSCHEDULING".to_owned(), means.to_owned())];
            Network::with(
                Setting { processors: vec![Some(0), Some(1)], variables, ..Setting::default() },
                2,
                installation,
                check,
            )
        };
        let hosts = if means.contains(&WEIGHTS) { 0..2 } else { 0..0 };
        let groups = hosts.map_while(|host| CpuGroup::new(&format!("pvm-bench-{host}"), "turns by weights"));
        let groups: Vec<CpuGroup> = groups.collect();
        let all: Vec<&str> =
            means.iter().copied().filter(|means| *means != WEIGHTS || groups.len() == 2).collect();
        let Some(networks) = all.iter().map(|means| network(means)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let starts = all
            .iter()
            .zip(&networks)
            .map(|(&means, network)| Ok((means, start(installation, network, means)?)));
        let machines: Vec<(&str, Machine)> = starts.collect::<Result<_>>()?;
        if let Some((_, machine)) = machines.iter().find(|(means, _)| *means == WEIGHTS) {
            let slaves = machine.slave_daemons().into_iter().map(|daemon| daemon.pid);
            let daemons = std::iter::once(machine.daemon_pid()).chain(slaves);
            groups.iter().zip(daemons).for_each(|(group, daemon)| group.admit(daemon));
        }
        let (folder, program) = build(installation)?;
        Ok(Some(Self {
            machines,
            program,
            names: [0, 1].map(|host| networks[0].name(host).to_owned()),
            _networks: networks,
            // The first has had the controller moved, which goes back when no other uses it.
            _groups: groups.into_iter().rev().collect(),
            _folder: folder,
        }))
    }

    /// Starts a machine of one host for each of these means. The host has all processors, which have to be this many.
    pub(crate) fn of_one(
        installation: &Installation,
        means: &[&'static str],
        processors: usize,
    ) -> Result<Option<Self>> {
        if thread::available_parallelism()?.get() != processors {
            peers::unchecked(
                "programs that share a host",
                &format!("it has to have {processors} processors"),
            );
            return Ok(None);
        }
        let start = |&means: &&'static str| {
            let plan = Plan::of(installation).name(ONE).variable("PVM_COSCHEDULING", means);
            Ok((means, lab::start(plan.variable("PVM_EXPORT", EXPORTED))?))
        };
        let machines: Vec<(&str, Machine)> = means.iter().map(start).collect::<Result<_>>()?;
        let (folder, program) = build(installation)?;
        let names = [ONE.to_owned(), ONE.to_owned()];
        Ok(Some(Self { machines, program, names, _networks: vec![], _groups: vec![], _folder: folder }))
    }

    /// Runs the program on the first processor only.
    pub(crate) fn on_one_processor(&self, argument: &str, mode: &Mode, seconds: f64) -> Result<String> {
        let mut command = self.machine(mode.means)?.command("taskset");
        command.args(["-c", "0"]).arg(&self.program);
        command.args([mode.waits, argument, &seconds.to_string(), SPINS]).args(&self.names);
        program::output(&mut command, LIMIT)
    }

    /// What waking another processor takes, as the first host has measured it, µs.
    pub(crate) fn wake_time(&self, mode: &Mode) -> Result<f64> {
        let mut console = self.machine(mode.means)?.console();
        let lines = console.command("conf -l");
        console.quit();
        // The row after the heads: host, means, slice, wake.
        let after = lines.iter().skip_while(|line| !line.contains("TURNS BY")).nth(1);
        let time = after.and_then(|row| row.split_whitespace().nth(3)?.strip_suffix("us")?.parse().ok());
        time.with_context(|| format!("no time of waking: {lines:?}"))
    }

    fn machine(&self, means: &str) -> Result<&Machine> {
        let machine = self.machines.iter().find(|(its, _)| *its == means);
        Ok(&machine.context("no such machine")?.1)
    }

    /// The program, in the machine that takes turns so.
    fn command(&self, means: &str) -> Result<Command> {
        Ok(self.machine(means)?.command(&self.program))
    }

    /// Whether it can be measured here.
    fn has(&self, mode: &Mode) -> bool {
        self.machines.iter().any(|(means, _)| *means == mode.means)
    }

    fn run(&self, competition: &Competition, mode: &Mode, grain: u64) -> Result<Values> {
        let seconds = if grain >= COARSE { COARSE_SECONDS } else { SECONDS };
        parse(&self.output(competition.argument, mode, seconds, &[grain])?)
    }

    /// Runs the program with the arguments of a competition; returns its output.
    pub(crate) fn output(&self, argument: &str, mode: &Mode, seconds: f64, grains: &[u64]) -> Result<String> {
        let mut command = self.command(mode.means)?;
        command.args([mode.waits, argument, &seconds.to_string(), SPINS]);
        command.args(&self.names).args(grains.iter().map(u64::to_string));
        program::output(&mut command, LIMIT)
    }
}

/// The name of a host that is alone, and what tasks inherit.
const ONE: &str = "one";
const EXPORTED: &str = "LD_LIBRARY_PATH:PVM_TEAM";

/// Compiles the program.
fn build(installation: &Installation) -> Result<(TempDir, PathBuf)> {
    let folder = TempDir::with_prefix("pvm-gang-")?;
    lab::compile_with(installation, "pvm_gang", folder.path())?;
    let program = folder.path().join("pvm_gang");
    Ok((folder, program))
}

fn start(installation: &Installation, network: &Network, means: &str) -> Result<Machine> {
    let hosts = format!("{}\n", network.line(1, ""));
    let plan = Plan::of(installation).network(network).name(network.name(0)).hostfile(&hosts);
    lab::start_hosts(plan.variable("PVM_COSCHEDULING", means).variable("PVM_EXPORT", EXPORTED), 2)
}

/// A line of results.
pub(crate) fn parse(line: &str) -> Result<Values> {
    let numbers: Vec<f64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{line:?}"))?;
    let [_, slowdown, share, others_slowdown, others_share, daemons_share, switches, rate] = numbers[..]
    else {
        bail!("{line:?} is no result");
    };
    ensure!(slowdown > 0.0 && slowdown.is_finite(), "{line:?} is no slowdown");
    Ok(Values { slowdown, share, others_slowdown, others_share, daemons_share, switches, rate })
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word.split('-').next() == Some(NAME))
}

/// Measures what the words choose.
pub fn measure(trial: Trial, words: &[String]) -> Result<Shared> {
    let Trial { ours, rounds, quick, session, .. } = trial;
    let is_chosen = |name: &str| words.iter().any(|word| *word == NAME || *word == format!("{NAME}-{name}"));
    let mut all = Vec::new();
    for competition in COMPETITIONS.iter().filter(|competition| is_chosen(competition.name)) {
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
    let mut alone: Vec<Alone> = Vec::new();
    if is_chosen(ALONE) {
        alone.extend(grains(quick).iter().map(|&grain| Alone::new(grain)));
    }
    ensure!(!(all.is_empty() && alone.is_empty()), "no such part of {NAME}");
    let Some(hosts) = Hosts::open(ours, &[TURNS, STOPS, WEIGHTS, ROWS, NO_TURNS])? else {
        return Ok(Shared::default());
    };
    all.retain(|runs: &Runs| hosts.has(&runs.mode));
    let progress = &session.progress;
    progress.set_length(((all.len() + alone.len()) * rounds) as u64);
    for _ in 0..rounds {
        for runs in &mut all {
            let (part, mode, grain) = (runs.competition.part(), runs.mode.name, runs.grain);
            progress.set_message(format!("{part}: {mode}, {grain} µs"));
            runs.rounds.push(hosts.run(&runs.competition, &runs.mode, runs.grain)?);
            session.step()?;
        }
        for alone in &mut alone {
            progress.set_message(format!("{NAME}-{ALONE}: {} µs", alone.grain));
            alone.measure(&hosts)?;
            session.step()?;
        }
    }
    Ok(Shared { runs: all, alone })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_results() {
        let values = parse("10 2.5 0.25 2 0.5 0.125 1000 4000\n").expect("a result");
        assert_eq!((values.slowdown, values.others_share, values.daemons_share), (2.5, 0.5, 0.125));
        assert_eq!((values.switches, values.rate), (1000.0, 4000.0));
        for line in
            ["", "10 2.5", "10 x 0.25 2 0.5 0 1000 4000", "10 inf 0.25 2 0.5 0 1000 4000", "10 0 0 0 0 0 0 0"]
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
