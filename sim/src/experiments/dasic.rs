//! `pvm sim dasic`: coscheduled share and slowdown as workstations come and go.
//!
//! Time goes in slices. A team computes in bulk-synchronous steps: while all of it runs at once it gets on as on a machine
//! of its own; a process that runs without some of its team gets only to the next exchange, a grain ahead of the slowest,
//! and blocks there until the slice in which the rest gets there too. Owners use their workstations and leave again;
//! workstations fail, and what ran on them begins again.

use super::{Runs, cell, series, text};
use crate::random::Random;
use crate::report::{Plot, Report, Table};
use crate::settings;
use crate::stats::Summary;
use pvm_sched::dasic::{Matrix, Process, Status};
use std::collections::{BTreeMap, BTreeSet};

/// The settings. Times are in slices.
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

/// How processes are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All of it.
    Dasic,
    /// Ousterhout's matrix: teams start in it and are evicted from it, but nothing is balanced.
    Matrix,
    /// Processes are placed as in the matrix, but each workstation schedules its own without coordination.
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

/// A simulation is given up after this many times a team's mean computation without any team's end.
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
    /// When each workstation fails next; empty if none ever does.
    failures: Vec<f64>,
    failure_random: Random,
    arrivals: Random,
    next_arrival: f64,
    arrived: u32,
    teams: BTreeMap<u64, Team>,
    now: u64,
    row: usize,
    /// When a team ended last, or there was nothing to do.
    last_end: u64,
    moved: u64,
    restarts: u64,
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
    let mut failure_random = Random::part(seed, 10);
    let fails = if settings.mtbf > 0.0 { settings.workstations } else { 0 };
    let failures = (0..fails).map(|_| failure_random.exponential(settings.mtbf)).collect();
    let mut simulation = Simulation {
        settings,
        case,
        matrix: Matrix::new(alone),
        owners,
        owner_random,
        failures,
        failure_random,
        arrivals: Random::part(seed, 7),
        next_arrival: 0.0,
        arrived: 0,
        teams: BTreeMap::new(),
        now: 0,
        row: 0,
        last_end: 0,
        moved: 0,
        restarts: 0,
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
        self.workstations_fail();
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
        self.leave(&come);
        if !gone.is_empty() {
            let moves = self.join(gone);
            self.migrate(moves.into_iter());
        }
    }

    /// Workstations are taken away. When all owners are there, processes stay where they are on the last one.
    fn leave(&mut self, hosts: &[u32]) {
        if hosts.is_empty() {
            return;
        }
        if let Ok(moves) = self.matrix.shrink(hosts) {
            self.migrate(moves.iter().map(|step| step.process));
        } else {
            for &host in hosts {
                self.owners[host as usize] = (self.now as f64 + 1.0, false);
            }
        }
    }

    /// A workstation that fails is away until it has been repaired, and its teams have done nothing yet.
    fn workstations_fail(&mut self) {
        let now = self.now as f64;
        let mut failed = Vec::new();
        for (host, next) in (0..).zip(&mut self.failures) {
            if *next <= now {
                *next = now + 1.0 + self.failure_random.exponential(self.settings.mtbf);
                failed.push(host);
            }
        }
        for host in failed {
            // Under its owner's hands it does the teams no harm.
            let owner = &mut self.owners[host as usize];
            if owner.1 {
                continue;
            }
            *owner = (now + 1.0 + self.settings.repair, true);
            let column =
                self.matrix.processors().iter().position(|&other| other == host).unwrap_or(usize::MAX);
            for row in 0..self.matrix.rows() {
                let process = self.matrix.row(row).get(column).copied().flatten();
                if let Some(team) = process.and_then(|process| self.teams.get_mut(&process.team)) {
                    self.restarts += u64::from(team.slowest > 0.0);
                    team.done.fill(0.0);
                    team.slowest = 0.0;
                }
            }
            self.leave(&[host]);
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
        let in_turn = self.in_turn();
        let hosts = self.matrix.processors().to_vec();
        for host in hosts {
            let row = match self.case.policy {
                // Each workstation on its own: no two agree on the begin of the round, nor on its length.
                Policy::Local => self.now as usize / (1 + host as usize % 3) + host as usize * 7,
                _ => self.row,
            };
            let ready = |process: Process| self.ready(process, &in_turn);
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

    /// The teams that are in this time slice as a whole. Who of them got ahead in another one waits here for the others,
    /// who will be there within the slice.
    fn in_turn(&self) -> BTreeSet<u64> {
        if self.case.policy == Policy::Local {
            return BTreeSet::new();
        }
        let processes = self.matrix.row(self.row).iter().flatten();
        let mut here: BTreeMap<u64, usize> = BTreeMap::new();
        processes.for_each(|process| *here.entry(process.team).or_default() += 1);
        here.retain(|name, count| self.teams.get(name).is_some_and(|team| team.done.len() == *count));
        here.into_keys().collect()
    }

    /// Whether a process can get on: it is not ahead of its team, and none of the team is under way.
    fn ready(&self, process: Process, in_turn: &BTreeSet<u64>) -> bool {
        self.teams.get(&process.team).is_some_and(|team| {
            let ahead = team.done[process.index as usize] >= team.slowest + self.settings.grain;
            team.frozen < 1.0 && (!ahead || in_turn.contains(&process.team))
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
            restarts: self.restarts as f64 / f64::from(self.arrived.max(1)),
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
            mtbf: 0.0,
            repair: 50.0,
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
    fn a_report() {
        let report =
            run(&Settings { teams: 5, ..settings() }, &Runs::quiet(1, 2)).expect("teams that get on");
        assert_eq!(report.tables[0].rows.len(), 3);
        assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
    }
}
