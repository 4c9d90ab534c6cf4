//! Teams that share workstations which owners lend and take back: by rows of the machine's matrix (DASIC), by demand, and by the kernel alone.
//!
//! This computer has two processors, and each stands for two workstations, of which one is lent at any time: when the owner of one leaves, that of the other
//! one comes back soon afterwards. So a task that runs has a processor as on a host of its own, and tasks move between four hosts. A
//! fifth host, whose owner is always there, has the master's daemon and what starts the teams.

mod record;
mod report;

pub use record::{Change, Moved, Record, Return, TeamRecord, Turn};
pub use report::Shared;

use crate::lab::{self, Trial};
use crate::program;
use anyhow::{Context, Result, ensure};
use pvm_sim::experiments::dasic::{Policy, Scenario, Settings, Share, follow};
use pvm_sim::random::Random;
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::network::Setting;
use pvm_tests::{Installation, Network, peers};
use serde::Serialize;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The word by which this is chosen.
pub const NAME: &str = "dasic";

/// Where the documentation has the picture.
pub const PICTURE: &str = "docs/coscheduling/dasic.svg";

/// Default number of rounds.
pub const ROUNDS: usize = 3;

/// Microseconds of work between two exchanges, for each team.
pub const GRAINS: [u32; 3] = [10, 100, 1_000];

/// The number of workstations.
pub const HOSTS: usize = 4;

/// Seconds that count: of all teams together, and of one team alone.
const SECONDS: f64 = 24.0;
const FEW_SECONDS: f64 = 6.0;
const ALONE: f64 = 2.0;
const FEW_ALONE: f64 = 0.5;

/// Between two changes of owners there are at least this many seconds, and as many again on the average.
const APART: f64 = 2.0;
/// A slice of the daemons, in seconds.
const SLICE: f64 = 0.05;
/// From the leave of an owner to the return of the other one on the same processor, in seconds.
pub const BETWEEN: f64 = 0.3;

/// More than any run takes.
const LIMIT: Duration = Duration::from_secs(90);

/// What decides whose turn it is, and how tasks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// As people are told.
    pub name: &'static str,
    /// `PVM_COSCHEDULING`.
    means: &'static str,
    spins: bool,
}

/// All of them.
pub const MODES: [Mode; 6] = [
    Mode { name: "by rows, tasks spin", means: "dasic", spins: true },
    Mode { name: "by demand, tasks spin", means: "auto", spins: true },
    Mode { name: "the kernel alone, tasks spin", means: "implicit", spins: true },
    Mode { name: "by rows, tasks block", means: "dasic", spins: false },
    Mode { name: "by demand, tasks block", means: "auto", spins: false },
    Mode { name: "the kernel alone, tasks block", means: "implicit", spins: false },
];

/// A round of a mode.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Exchanges in a second of each team alone.
    pub alone: Vec<f64>,
    /// All teams together.
    pub record: Record,
}

/// All rounds of a mode.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// The mode.
    pub mode: Mode,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// What the simulator makes of a round: the share of each team, and how many tasks move.
#[derive(Clone, Debug, Serialize)]
pub struct Predicted {
    /// How far each team gets, as a part of how far it gets alone.
    pub speeds: Vec<f64>,
    /// The part of the time in which both its tasks run.
    pub together: Vec<f64>,
    /// Moves.
    pub moves: u64,
}

/// Whether one of these words chooses it.
pub fn is_chosen(words: &[String]) -> bool {
    words.iter().any(|word| word == NAME)
}

/// Changes of owners in a round, by its seed. Workstations 0 and 2 are lent at first.
fn changes(seconds: f64, seed: u64) -> Vec<Change> {
    let mut random = Random::part(seed, 1);
    let mut lent = [0, 2];
    let mut changes = Vec::new();
    let mut at = APART;
    while at + APART < seconds {
        let processor = random.below(2);
        let (returned, next) = (lent[processor], lent[processor] ^ 1);
        changes.push(Change { at, lent: next, returned });
        lent[processor] = next;
        at += APART + random.exponential(APART);
    }
    changes
}

/// The same in the simulator, by the paper's rules.
fn predict(seconds: f64, changes: &[Change]) -> Predicted {
    let settings = Settings { workstations: HOSTS as u32, ..Settings::default() };
    let slice = |time: f64| (time / SLICE).round() as u64;
    let events = |change: &Change| {
        [
            (slice(change.at), change.lent as u32, false),
            (slice(change.at + BETWEEN), change.returned as u32, true),
        ]
    };
    let scenario = Scenario {
        teams: vec![2; GRAINS.len()],
        owners: vec![1, 3],
        changes: changes.iter().flat_map(events).collect(),
        slices: slice(seconds),
    };
    let (shares, moves) = follow(&settings, Policy::Dasic, &scenario);
    let of = |get: fn(&Share) -> f64| shares.iter().map(get).collect();
    Predicted { speeds: of(|share| share.speed), together: of(|share| share.together), moves }
}

/// Measures. `None` if it cannot be measured here.
pub fn measure(trial: Trial) -> Result<Option<Shared>> {
    let Trial { ours, programs, rounds, quick, session } = trial;
    let (seconds, alone) = if quick { (FEW_SECONDS, FEW_ALONE) } else { (SECONDS, ALONE) };
    let mut runs: Vec<Runs> = MODES.iter().map(|&mode| Runs { mode, rounds: Vec::new() }).collect();
    let mut predicted = Vec::new();
    session.progress.set_length((MODES.len() * rounds) as u64);
    for round in 0..rounds {
        let changes = changes(seconds, round as u64 + 1);
        predicted.push(predict(seconds, &changes));
        for turn in 0..runs.len() {
            // Each round begins with another mode.
            let at = (turn + round) % MODES.len();
            let mode = runs[at].mode;
            session.progress.set_message(format!("{NAME}: {}", mode.name));
            let Some(lab) = Lab::open(ours, mode)? else { return Ok(None) };
            let result = lab.round(programs.dasic, mode, (seconds, alone), &changes);
            runs[at].rounds.push(result.with_context(|| mode.name)?);
            session.step()?;
        }
    }
    Ok(Some(Shared { runs, predicted, seconds }))
}

/// The workstations.
struct Lab {
    machine: Machine,
    names: Vec<&'static str>,
    // After the machine, which needs it to the end.
    _network: Network,
}

impl Lab {
    fn open(ours: &Installation, mode: Mode) -> Result<Option<Self>> {
        let check = "teams on workstations";
        if thread::available_parallelism()?.get() < 2 {
            peers::unchecked(check, "two processors are needed");
            return Ok(None);
        }
        let variables = vec![("PVM_COSCHEDULING".to_owned(), mode.means.to_owned())];
        let processors = vec![None, Some(0), Some(0), Some(1), Some(1)];
        let setting = Setting { processors, variables, ..Setting::default() };
        let Some(network) = Network::with(setting, HOSTS + 1, ours, check) else { return Ok(None) };
        let lines: Vec<String> = (1..=HOSTS).map(|host| network.line(host, "")).collect();
        let plan =
            Plan::of(ours).network(&network).name(&network.address(0)).hostfile(&(lines.join("\n") + "\n"));
        let plan = plan.variable("PVM_COSCHEDULING", mode.means).variable("PVM_EXPORT", "LD_LIBRARY_PATH");
        let machine = lab::start_hosts(plan, HOSTS + 1)?;
        let names = (1..=HOSTS).map(|host| network.name(host)).collect();
        Ok(Some(Self { machine, names, _network: network }))
    }

    fn round(
        &self,
        program: &Path,
        mode: Mode,
        (seconds, alone): (f64, f64),
        changes: &[Change],
    ) -> Result<Round> {
        let mut rates = Vec::new();
        for grain in GRAINS {
            let record = self.run(program, mode, alone, &[grain], &[])?;
            rates.extend(record.teams.first().map(|team| team.rate));
        }
        ensure!(
            rates.len() == GRAINS.len() && rates.iter().all(|rate| *rate > 0.0),
            "a team alone does nothing: {rates:?}"
        );
        Ok(Round { alone: rates, record: self.run(program, mode, seconds, &GRAINS, changes)? })
    }

    fn run(
        &self,
        program: &Path,
        mode: Mode,
        seconds: f64,
        grains: &[u32],
        changes: &[Change],
    ) -> Result<Record> {
        let mut command = self.machine.command(program);
        let grains: Vec<String> = grains.iter().map(u32::to_string).collect();
        command.args(["--seconds", &seconds.to_string(), "--grains", &grains.join(",")]);
        command.args(["--hosts", &self.names.join(","), "--changes", &serde_json::to_string(changes)?]);
        command.args(mode.spins.then_some("--spin"));
        let output = program::output(&mut command, LIMIT)?;
        serde_json::from_str(&output).context(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_workstation_of_each_processor_is_lent() {
        let all = changes(60.0, 1);
        assert!(all.len() > 8 && all == changes(60.0, 1) && all != changes(60.0, 2));
        let mut lent = [true, false, true, false];
        for change in &all {
            assert_eq!(change.lent / 2, change.returned / 2, "of the same processor");
            assert!(lent[change.returned] && !lent[change.lent], "{change:?}");
            (lent[change.lent], lent[change.returned]) = (true, false);
        }
        assert!(all.windows(2).all(|pair| pair[1].at >= pair[0].at + APART));
    }

    #[test]
    fn the_simulator_gives_each_team_its_share() {
        let predicted = predict(30.0, &changes(30.0, 1));
        assert!(predicted.speeds.iter().all(|speed| (0.25..0.34).contains(speed)), "{predicted:?}");
        assert!(predicted.moves >= 6, "{predicted:?}");
    }
}
