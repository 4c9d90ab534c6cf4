//! `pvm sim dasic`: coscheduled share and slowdown as workstations come and go.
//!
//! Time goes in slices. A team computes in bulk-synchronous steps: while all of it runs at once it gets on as on a machine
//! of its own; a process that runs without some of its team gets only to the next exchange, a grain ahead of the slowest,
//! and blocks there. Owners use their workstations and leave again.

use super::{Runs, cell, series, summary};
use crate::random::Random;
use crate::report::{Plot, Report, Table};
use crate::settings;
use crate::stats::Summary;
use pvm_sched::dasic::{Matrix, Process, Status};
use std::collections::BTreeMap;

/// What can be set. Times are in slices.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Workstations
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workstations: u32,
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
    #[arg(long, default_value_t = 0.2, value_parser = settings::positive)]
    pub load: f64,
    /// What a migration costs the team
    #[arg(long, default_value_t = 1.0, value_parser = settings::not_negative)]
    pub migration: f64,
}

/// How processes are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All of it.
    Dasic,
    /// Ousterhout's matrix: teams start in it and are evicted from it, but nothing is balanced.
    Matrix,
    /// Processes are placed as in the matrix, but each workstation goes through its own by itself.
    Local,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dasic, Self::Matrix, Self::Local];

    fn name(self) -> &'static str {
        match self {
            Self::Dasic => "DASIC",
            Self::Matrix => "matrix, no balancing",
            Self::Local => "local scheduling",
        }
    }
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How processes are scheduled.
    pub policy: Policy,
    /// Mean time between an owner's visits.
    pub idle: f64,
}

/// What a simulation gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Part of the time during which a team, on the average, is coscheduled.
    pub coscheduled: f64,
    /// Mean response time over the time on a machine of its own.
    pub slowdown: f64,
    /// Processes that changed their host, per team.
    pub migrations: f64,
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

/// A simulation is given up after so many times a team's mean computation without any team's end.
const PATIENCE: f64 = 1000.0;

/// A team at work.
struct Team {
    started: u64,
    work: f64,
    /// How far each process has got.
    done: Vec<f64>,
    /// The least of that.
    slowest: f64,
    /// Slices that the team still loses to migrations.
    frozen: f64,
}

struct Simulation<'a> {
    settings: &'a Settings,
    case: Case,
    matrix: Matrix<u32>,
    /// When each workstation's owner comes or goes next, and whether there is one now.
    owners: Vec<(f64, bool)>,
    owner_random: Random,
    arrivals: Random,
    next_arrival: f64,
    arrived: u32,
    teams: BTreeMap<u64, Team>,
    now: u64,
    row: usize,
    /// When a team ended last, or there was nothing to do.
    last_end: u64,
    moved: u64,
    coscheduled: Summary,
    slowdowns: Summary,
    rows: Summary,
}

/// Runs one case.
pub fn simulate(settings: &Settings, case: Case, seed: u64) -> Outcome {
    let mut owner_random = Random::part(seed, 6);
    let mut owners = Vec::new();
    for _ in 0..settings.workstations {
        // As after a long time.
        let here = owner_random.chance(settings.visit / (1.0 + settings.visit));
        let mean = if here { case.idle * settings.visit } else { case.idle };
        owners.push((owner_random.exponential(mean.max(1.0)), here));
    }
    let alone: Vec<u32> = (0..).zip(&owners).filter(|(_, owner)| !owner.1).map(|(host, _)| host).collect();
    let mut simulation = Simulation {
        settings,
        case,
        matrix: Matrix::new(alone),
        owners,
        owner_random,
        arrivals: Random::part(seed, 7),
        next_arrival: 0.0,
        arrived: 0,
        teams: BTreeMap::new(),
        now: 0,
        row: 0,
        last_end: 0,
        moved: 0,
        coscheduled: Summary::default(),
        slowdowns: Summary::default(),
        rows: Summary::default(),
    };
    while simulation.arrived < settings.teams || !simulation.teams.is_empty() {
        simulation.slice();
        if simulation.is_stuck() {
            return Outcome { stuck: true, ..simulation.finish() };
        }
    }
    simulation.finish()
}

impl Simulation<'_> {
    fn slice(&mut self) {
        self.owners_come_and_go();
        self.teams_arrive();
        self.compute();
        self.teams_end();
        self.now += 1;
        self.row += 1;
        if self.row >= self.matrix.rows() {
            self.row = 0;
            if self.case.policy == Policy::Dasic {
                let moves = self.matrix.pack();
                self.migrate(moves.iter().filter(|step| step.is_migration()).map(|step| step.process));
            }
        }
    }

    fn is_stuck(&mut self) -> bool {
        if self.teams.is_empty() && self.next_arrival > self.now as f64 {
            self.last_end = self.now;
        }
        (self.now - self.last_end) as f64 > PATIENCE * (self.settings.work + 100.0)
    }

    fn owners_come_and_go(&mut self) {
        let now = self.now as f64;
        let (mut come, mut gone) = (Vec::new(), Vec::new());
        for (host, (next, here)) in (0..).zip(&mut self.owners) {
            if *next <= now {
                *here = !*here;
                let mean = if *here { self.case.idle * self.settings.visit } else { self.case.idle };
                *next = now + 1.0 + self.owner_random.exponential(mean.max(1.0));
                if *here { come.push(host) } else { gone.push(host) }
            }
        }
        if !come.is_empty() {
            // When all owners are there, processes stay where they are on the last workstation.
            if let Ok(moves) = self.matrix.shrink(&come) {
                self.migrate(moves.iter().map(|step| step.process));
            } else {
                for host in come {
                    self.owners[host as usize] = (now + 1.0, false);
                }
            }
        }
        if !gone.is_empty() {
            let moves = self.join(gone);
            self.migrate(moves.into_iter());
        }
    }

    /// Workstations join. Without balancing they do so empty: nothing moves to them.
    fn join(&mut self, hosts: Vec<u32>) -> Vec<Process> {
        if self.case.policy == Policy::Dasic {
            let moves = self.matrix.grow(hosts);
            return moves.iter().filter(|step| step.is_migration()).map(|step| step.process).collect();
        }
        self.matrix.join(hosts);
        Vec::new()
    }

    fn migrate(&mut self, processes: impl Iterator<Item = Process>) {
        for process in processes {
            self.moved += 1;
            if let Some(team) = self.teams.get_mut(&process.team) {
                team.frozen += self.settings.migration;
            }
        }
    }

    fn teams_arrive(&mut self) {
        while self.arrived < self.settings.teams && self.next_arrival <= self.now as f64 {
            if self.matrix.processors().is_empty() {
                return;
            }
            self.arrived += 1;
            let most = self.settings.largest.max(2);
            let size = 2 + self.arrivals.below(most as usize - 1) as u32;
            let work = self.arrivals.exponential(self.settings.work).max(1.0);
            let idle = f64::from(self.settings.workstations) / (1.0 + self.settings.visit);
            let mean = f64::from(2 + most) / 2.0 * self.settings.work / (self.settings.load.max(1e-3) * idle);
            self.next_arrival += self.arrivals.exponential(mean);
            let name = u64::from(self.arrived);
            if self.matrix.start(name, size).is_ok() {
                let done = vec![0.0; size as usize];
                self.teams.insert(name, Team { started: self.now, work, done, slowest: 0.0, frozen: 0.0 });
            }
        }
    }

    /// One time slice on all workstations.
    fn compute(&mut self) {
        let mut running: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let hosts = self.matrix.processors().to_vec();
        for host in hosts {
            let row = match self.case.policy {
                // Each workstation by itself: no two agree on where the round begins, nor on how long it takes.
                Policy::Local => self.now as usize / (1 + host as usize % 3) + host as usize * 7,
                _ => self.row,
            };
            let ready = |process: Process| self.ready(process);
            let row = row % self.matrix.rows().max(1);
            if let Some(process) = self.matrix.alternate(host, row, ready) {
                running.entry(process.team).or_default().push(process.index);
            }
        }
        let grain = self.settings.grain;
        for (&name, team) in &mut self.teams {
            let status = self.matrix.team(name).map(|team| team.status);
            self.coscheduled.add(f64::from(u8::from(status == Some(Status::Coscheduled))));
            team.frozen = (team.frozen - 1.0).max(0.0);
            let Some(indices) = running.get(&name) else { continue };
            let together = indices.len() == team.done.len();
            for &index in indices {
                let done = &mut team.done[index as usize];
                *done = if together { *done + 1.0 } else { (*done + 1.0).min(team.slowest + grain) };
            }
            team.slowest = team.done.iter().copied().fold(f64::INFINITY, f64::min);
        }
        self.rows.add(self.matrix.rows() as f64);
    }

    /// Whether a process can get on: it is not ahead of its team, and none of the team is under way.
    fn ready(&self, process: Process) -> bool {
        self.teams.get(&process.team).is_some_and(|team| {
            team.frozen < 1.0 && team.done[process.index as usize] < team.slowest + self.settings.grain
        })
    }

    fn teams_end(&mut self) {
        let over = |team: &Team| team.slowest >= team.work;
        let ended: Vec<u64> =
            self.teams.iter().filter(|(_, team)| over(team)).map(|(&name, _)| name).collect();
        for name in ended {
            self.last_end = self.now;
            if let Some(team) = self.teams.remove(&name) {
                let response = (self.now + 1 - team.started) as f64;
                self.slowdowns.add(response / libm::ceil(team.work));
            }
            if self.case.policy == Policy::Dasic {
                let moves = self.matrix.end(name);
                self.migrate(moves.iter().filter(|step| step.is_migration()).map(|step| step.process));
            } else {
                self.matrix.remove(name);
            }
        }
    }

    fn finish(self) -> Outcome {
        Outcome {
            coscheduled: self.coscheduled.mean(),
            slowdown: self.slowdowns.mean(),
            migrations: self.moved as f64 / f64::from(self.arrived.max(1)),
            rows: self.rows.mean(),
            ended: self.slowdowns.count() as u32,
            stuck: false,
        }
    }
}

/// Runs the experiment.
pub fn run(settings: &Settings, runs: &Runs) -> Result<Report, Stuck> {
    let cases: Vec<Case> = Policy::ALL
        .into_iter()
        .flat_map(|policy| settings.idle.iter().map(move |&idle| Case { policy, idle }))
        .collect();
    let outcomes = runs.all(&cases, |&case, seed| simulate(settings, case, seed));
    if outcomes.iter().flatten().any(|outcome| outcome.stuck) {
        return Err(Stuck);
    }
    let mut table = Table::new(
        "dasic",
        "DASIC as workstations come and go",
        &["policy", "idle, slices", "coscheduled %", "slowdown", "migrations/team", "rows"],
    );
    for (case, outcomes) in cases.iter().zip(&outcomes) {
        table.row([
            case.policy.name().to_owned(),
            case.idle.to_string(),
            cell(summary(outcomes, |o| o.coscheduled * 100.0)),
            cell(summary(outcomes, |o| o.slowdown)),
            cell(summary(outcomes, |o| o.migrations)),
            cell(summary(outcomes, |o| o.rows)),
        ]);
    }
    let plot = |name: &str, title: &str, y: &str, measure: fn(&Outcome) -> f64| {
        let curve = |&policy: &Policy| {
            let place = |case: &Case| (case.policy == policy).then_some(case.idle);
            series(policy.name(), &cases, &outcomes, place, measure)
        };
        Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            x: "mean time between an owner's visits (slices)".to_owned(),
            y: y.to_owned(),
            log_x: true,
            series: Policy::ALL.iter().map(curve).collect(),
            ..Plot::default()
        }
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

    fn settings() -> Settings {
        Settings {
            workstations: 12,
            largest: 6,
            teams: 100,
            idle: vec![300.0],
            visit: 0.67,
            work: 20.0,
            grain: 0.25,
            load: 0.25,
            migration: 1.0,
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
    fn what_never_gets_on_is_given_up() {
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
    fn a_report() {
        let report =
            run(&Settings { teams: 5, ..settings() }, &Runs::quiet(1, 2)).expect("teams that get on");
        assert_eq!(report.tables[0].rows.len(), 3);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
