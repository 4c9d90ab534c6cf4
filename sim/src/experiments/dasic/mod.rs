//! `pvm sim dasic`: coscheduled share and slowdown as workstations come and go.
//!
//! Time goes in slices. A team computes in bulk-synchronous steps: while all of it runs at once it gets on as on a machine
//! of its own; a process that runs without some of its team gets only to the next exchange, a grain ahead of the slowest,
//! and blocks there until the slice in which the rest gets there too. Owners use their workstations and leave again;
//! workstations fail, and what ran on them begins again.
//!
//! The matrix is the one that the master's daemon of a live machine drives, [`pvm_sched::dasic::Live`]: with the paper's rules, by which processes
//! move between hosts, and with those of the daemons, by which they stay.

mod machine;
mod model;
mod progress;
mod script;

pub use machine::Machine;
pub use model::simulate;
pub use script::{Scenario, Share, follow};

use super::{Runs, cell, series, text};
use crate::report::{Plot, Report, Table};
use crate::settings;
use pvm_sched::dasic::Rules;

/// The settings. Times are in slices.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Workstations
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workstations: u32,
    /// Processors of each workstation
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub processors: u32,
    /// Policies to compare: dasic, matrix, local, staying. With the last, processes stay on their hosts, and wait there while the owner works
    #[arg(long, value_delimiter = ',', default_values_t = Policy::PAPER, value_parser = policy)]
    pub policies: Vec<Policy>,
    /// Teams per simulation
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub teams: u32,
    /// Mean times that a workstation is idle between two visits of its owner, to be tried
    #[arg(long, value_delimiter = ',', default_values_t = [250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0], value_parser = settings::positive)]
    pub idle: Vec<f64>,
    /// How long an owner stays, as a part of that; the Berkeley measurements that the paper cites have 60 % of the workstations idle
    #[arg(long, default_value_t = 0.67, value_parser = settings::not_negative)]
    pub visit: f64,
    /// Processes of the largest teams; the smallest have two
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub largest: u32,
    /// Mean computation of a process of a team
    #[arg(long, default_value_t = 100.0, value_parser = settings::positive)]
    pub work: f64,
    /// How far a process gets without its team
    #[arg(long, default_value_t = 0.25, value_parser = settings::positive)]
    pub grain: f64,
    /// Work offered, as a part of what the idle workstations can do
    #[arg(long, default_value_t = 0.4, value_parser = settings::positive)]
    pub load: f64,
    /// What a migration costs the team
    #[arg(long, default_value_t = 1.0, value_parser = settings::not_negative)]
    pub migration: f64,
    /// Mean time between failures of a workstation; teams that it has processes of begin again. 0 for never
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub mtbf: f64,
    /// How long a workstation is down after a failure
    #[arg(long, default_value_t = 50.0, value_parser = settings::not_negative)]
    pub repair: f64,
}

/// The settings in force without options.
impl Default for Settings {
    fn default() -> Self {
        settings::defaults()
    }
}

/// How processes are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All of it.
    Dasic,
    /// Ousterhout's matrix: teams start in it and are evicted from it, but nothing is balanced.
    Matrix,
    /// Processes are placed as in the matrix, but each workstation schedules its own without coordination.
    Local,
    /// The rules of the daemons: only rows are balanced, and a process waits on its host while the owner works there.
    Staying,
}

impl Policy {
    /// Those that the paper compares.
    pub const PAPER: [Self; 3] = [Self::Dasic, Self::Matrix, Self::Local];
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dasic, Self::Matrix, Self::Local, Self::Staying];

    fn name(self) -> &'static str {
        match self {
            Self::Dasic => "DASIC",
            Self::Matrix => "matrix, no balancing",
            Self::Local => "local scheduling",
            Self::Staying => "DASIC, processes stay",
        }
    }

    /// What the matrix may do with processes.
    fn rules(self) -> Rules {
        match self {
            Self::Dasic => Rules::Moving,
            Self::Matrix | Self::Local => Rules::Unbalanced,
            Self::Staying => Rules::Staying,
        }
    }
}

/// As on the command line.
impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dasic => "dasic",
            Self::Matrix => "matrix",
            Self::Local => "local",
            Self::Staying => "staying",
        })
    }
}

fn policy(name: &str) -> Result<Policy, String> {
    let found = Policy::ALL.into_iter().find(|policy| policy.to_string().eq_ignore_ascii_case(name));
    found.ok_or_else(|| "unknown policy; choose one of dasic, matrix, local, staying".to_owned())
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How processes are scheduled.
    pub policy: Policy,
    /// Mean time between an owner's visits.
    pub idle: f64,
}

/// The results of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Part of the time during which a team, on the average, is coscheduled.
    pub coscheduled: f64,
    /// Mean response time over the time on a machine of its own.
    pub slowdown: f64,
    /// Processes that changed their host, per team.
    pub migrations: f64,
    /// Times that a team began again because a workstation failed, per team.
    pub restarts: f64,
    /// Mean number of time slices in the matrix.
    pub rows: f64,
    /// Teams that ended.
    pub ended: u32,
    /// Whether it was given up, as nothing got on any more.
    pub stuck: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[error("no team gets on: owners or migrations leave the teams no time to compute")]
pub struct Stuck;

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Result<Report, Stuck> {
    let policies = &settings.policies;
    let cases: Vec<Case> = policies
        .iter()
        .flat_map(|&policy| settings.idle.iter().map(move |&idle| Case { policy, idle }))
        .collect();
    let outcomes = runs.all(&cases, |&case, seed| simulate(settings, case, seed));
    if outcomes.iter().flatten().any(|outcome| outcome.stuck) {
        return Err(Stuck);
    }
    let mut table = Table::new(
        "dasic",
        "DASIC as workstations come and go",
        &["policy", "idle, slices", "coscheduled %", "slowdown", "migrations/team", "restarts/team", "rows"],
    );
    for (case, outcomes) in cases.iter().zip(&outcomes) {
        table.row([
            text(&case.policy.name()),
            text(&case.idle),
            cell(outcomes, |o| o.coscheduled * 100.0),
            cell(outcomes, |o| o.slowdown),
            cell(outcomes, |o| o.migrations),
            cell(outcomes, |o| o.restarts),
            cell(outcomes, |o| o.rows),
        ]);
    }
    let plot = |name: &str, title: &str, y: &str, measure: fn(&Outcome) -> f64| {
        let curve = |&policy: &Policy| {
            let place = |case: &Case| (case.policy == policy).then_some(case.idle);
            series(policy.name(), &cases, &outcomes, place, measure)
        };
        let axes = ("mean time between an owner's visits (slices)", y);
        Plot { log_x: true, ..Plot::new(name, title, axes, policies.iter().map(curve).collect()) }
    };
    let share =
        plot("dasic-coscheduled", "Coscheduled teams", "part of the teams (%)", |o| o.coscheduled * 100.0);
    let slowdown = plot("dasic-slowdown", "Slowdown", "response / dedicated time", |o| o.slowdown);
    let moves = plot("dasic-migrations", "Migrations", "processes moved per team", |o| o.migrations);
    let plots = vec![share, Plot { log_y: true, ..slowdown }, moves];
    Ok(Report { tables: vec![table], plots, ..Report::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn settings() -> Settings {
        let idle = vec![300.0];
        Settings {
            workstations: 12,
            largest: 6,
            teams: 100,
            idle,
            work: 20.0,
            load: 0.25,
            ..Settings::default()
        }
    }

    #[test]
    fn every_team_ends_and_runs_repeat_themselves() {
        for policy in Policy::ALL {
            let case = Case { policy, idle: 100.0 };
            let outcome = simulate(&settings(), case, 3);
            assert_eq!(outcome.ended, 100, "{policy:?}");
            assert!(outcome.slowdown >= 1.0 && outcome.coscheduled <= 1.0);
            assert_eq!(outcome, simulate(&settings(), case, 3));
        }
    }

    #[test]
    fn coscheduling_pays_and_balancing_restores_it() {
        let of = |policy| simulate(&settings(), Case { policy, idle: 500.0 }, 3);
        let (dasic, matrix, local) = (of(Policy::Dasic), of(Policy::Matrix), of(Policy::Local));
        assert!(dasic.coscheduled > matrix.coscheduled, "{dasic:?} {matrix:?}");
        assert!(dasic.slowdown < matrix.slowdown);
        assert!(dasic.slowdown < local.slowdown, "{dasic:?} {local:?}");
    }

    #[test]
    fn a_simulation_without_progress_is_given_up() {
        for (idle, visit) in [(1.0, 0.67), (1.0, 1e9)] {
            let settings = Settings { teams: 5, work: 1.0, idle: vec![idle], visit, ..settings() };
            assert!(run(&settings, &Runs::quiet(1, 1)).is_err(), "{idle} {visit}");
        }
    }

    #[test]
    fn with_no_owners_a_lone_team_has_its_dedicated_time() {
        let settings = Settings { teams: 1, ..settings() };
        let settings = Settings { visit: 0.0, ..settings };
        let outcome = simulate(&settings, Case { policy: Policy::Dasic, idle: 1e12 }, 3);
        assert!((outcome.slowdown - 1.0).abs() < 1e-9 && (outcome.coscheduled - 1.0).abs() < 1e-9);
        assert!(outcome.migrations.abs() < 1e-9);
    }

    #[test]
    fn a_process_ahead_in_an_idle_slot_does_not_miss_its_turn() {
        // Eight teams at once, all coscheduled, with little to gain in the idle places of others' slices: each gets on by
        // a slice a sweep, of at most eight.
        let settings =
            Settings { workstations: 6, largest: 5, teams: 8, visit: 0.0, load: 1e6, ..settings() };
        let settings = Settings { grain: 0.001, ..settings };
        let outcome = simulate(&settings, Case { policy: Policy::Dasic, idle: 1e12 }, 3);
        assert!((outcome.coscheduled - 1.0).abs() < 1e-9);
        assert!(outcome.slowdown < 8.0, "{outcome:?}");
    }

    #[test]
    fn processes_of_a_failed_workstation_restart() {
        let case = Case { policy: Policy::Dasic, idle: 1e9 };
        let reliable = simulate(&settings(), case, 3);
        let failing = simulate(&Settings { mtbf: 2000.0, ..settings() }, case, 3);
        assert_eq!((reliable.ended, failing.ended), (100, 100));
        assert!(reliable.restarts.abs() < 1e-9 && failing.restarts > 0.0, "{failing:?}");
        assert!(failing.slowdown > reliable.slowdown);
        let never = Settings { mtbf: 1.0, repair: 1.0, teams: 5, ..settings() };
        assert!(run(&never, &Runs::quiet(1, 1)).is_err(), "no team lives long enough");
    }

    #[test]
    fn moving_is_what_owners_make_worth_its_while() {
        let of = |policy, idle| simulate(&settings(), Case { policy, idle }, 3);
        let (moving, staying) = (of(Policy::Dasic, 500.0), of(Policy::Staying, 500.0));
        assert!(staying.migrations.abs() < 1e-9 && moving.migrations > 0.0);
        assert!(staying.slowdown > 2.0 * moving.slowdown, "{staying:?} {moving:?}");
        // Without owners there is nothing that it could be for.
        let settings = Settings { visit: 0.0, ..settings() };
        let of = |policy| simulate(&settings, Case { policy, idle: 1e12 }, 3);
        let (moving, staying) = (of(Policy::Dasic), of(Policy::Staying));
        assert!(staying.slowdown < 1.2 * moving.slowdown, "{staying:?} {moving:?}");
    }

    #[test]
    fn workstations_of_several_processors_run_several_processes() {
        let of = |processors| {
            let settings =
                Settings { workstations: 1, processors, visit: 0.0, load: 1e6, teams: 8, ..settings() };
            simulate(&settings, Case { policy: Policy::Dasic, idle: 1e12 }, 3)
        };
        let (few, many) = (of(6), of(48));
        assert!((many.rows - 1.0).abs() < 1e-9 && (many.slowdown - 1.0).abs() < 1e-9, "{many:?}");
        assert!(few.rows > 2.0 && few.slowdown > 1.5, "{few:?}");
    }

    #[test]
    fn policies_by_name() {
        assert!(Policy::ALL.into_iter().all(|one| policy(&one.to_string()) == Ok(one)));
        assert!(policy("best").is_err());
    }

    #[test]
    fn a_report() {
        let report =
            run(&Settings { teams: 5, ..settings() }, &Runs::quiet(1, 2)).expect("teams that get on");
        assert_eq!(report.tables[0].rows.len(), 3);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
