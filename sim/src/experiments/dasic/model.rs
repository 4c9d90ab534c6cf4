//! Teams that arrive at a machine of workstations, and owners that come and go.

use super::progress::{Running, Team};
use super::{Case, Outcome, Settings};
use crate::random::Random;
use crate::stats::Summary;

/// A simulation is given up after this many times a team's mean computation without any team's end.
const PATIENCE: f64 = 1000.0;

struct Simulation<'a> {
    settings: &'a Settings,
    case: Case,
    running: Running<'a>,
    /// When each workstation's owner comes or goes next, and whether there is one now.
    owners: Vec<(f64, bool)>,
    owner_random: Random,
    /// When each workstation fails next; empty if none ever does.
    failures: Vec<f64>,
    failure_random: Random,
    arrivals: Random,
    next_arrival: f64,
    arrived: u32,
    /// When a team ended last, or there was nothing to do.
    last_end: u64,
    restarts: u64,
    slowdowns: Summary,
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
    let mut running = Running::new(settings, case.policy);
    let visited: Vec<u32> = (0..).zip(&owners).filter(|(_, owner)| owner.1).map(|(host, _)| host).collect();
    // There are no processes yet that could be without a host.
    let _ = running.owners_come(&visited);
    let mut failure_random = Random::part(seed, 10);
    let fails = if settings.mtbf > 0.0 { settings.workstations } else { 0 };
    let failures = (0..fails).map(|_| failure_random.exponential(settings.mtbf)).collect();
    let mut simulation = Simulation {
        settings,
        case,
        running,
        owners,
        owner_random,
        failures,
        failure_random,
        arrivals: Random::part(seed, 7),
        next_arrival: 0.0,
        arrived: 0,
        last_end: 0,
        restarts: 0,
        slowdowns: Summary::default(),
    };
    while simulation.arrived < settings.teams || !simulation.running.teams.is_empty() {
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
        self.running.compute();
        self.teams_end();
        self.running.advance();
    }

    fn is_stuck(&mut self) -> bool {
        if self.running.teams.is_empty() && self.next_arrival > self.running.now as f64 {
            self.last_end = self.running.now;
        }
        (self.running.now - self.last_end) as f64 > PATIENCE * (self.settings.work + 100.0)
    }

    fn owners_come_and_go(&mut self) {
        let now = self.running.now as f64;
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
        self.running.owners_leave(&gone);
    }

    /// Workstations are taken away. When all owners are there, processes stay where they are on the last one.
    fn leave(&mut self, hosts: &[u32]) {
        if self.running.owners_come(hosts).is_err() {
            for &host in hosts {
                self.owners[host as usize] = (self.running.now as f64 + 1.0, false);
            }
        }
    }

    /// A workstation that fails is away until it has been repaired, and its teams have done nothing yet.
    fn workstations_fail(&mut self) {
        let now = self.running.now as f64;
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
            for team in self.running.teams.values_mut().filter(|team| team.hosts.contains(&host)) {
                self.restarts += u64::from(team.slowest > 0.0);
                team.done.fill(0.0);
                team.slowest = 0.0;
            }
            self.leave(&[host]);
        }
    }

    fn teams_arrive(&mut self) {
        while self.arrived < self.settings.teams && self.next_arrival <= self.running.now as f64 {
            if self.running.machine.matrix().hosts().is_empty() {
                return;
            }
            self.arrived += 1;
            let most = self.settings.largest.max(2);
            let size = 2 + self.arrivals.below(most as usize - 1) as u32;
            let work = self.arrivals.exponential(self.settings.work).max(1.0);
            let processors = self.settings.workstations * self.settings.processors;
            let idle = f64::from(processors) / (1.0 + self.settings.visit);
            let mean = f64::from(2 + most) / 2.0 * self.settings.work / (self.settings.load.max(1e-3) * idle);
            self.next_arrival += self.arrivals.exponential(mean);
            self.running.start(u64::from(self.arrived), size, work);
        }
    }

    fn teams_end(&mut self) {
        let over = |team: &Team| team.slowest >= team.work;
        let ended: Vec<u64> =
            self.running.teams.iter().filter(|(_, team)| over(team)).map(|(&name, _)| name).collect();
        for name in ended {
            self.last_end = self.running.now;
            if let Some(team) = self.running.end(name) {
                let response = (self.running.now + 1 - team.started) as f64;
                self.slowdowns.add(response / libm::ceil(team.work));
            }
        }
    }

    fn finish(self) -> Outcome {
        Outcome {
            coscheduled: self.running.coscheduled.mean(),
            slowdown: self.slowdowns.mean(),
            migrations: self.running.moved as f64 / f64::from(self.arrived.max(1)),
            restarts: self.restarts as f64 / f64::from(self.arrived.max(1)),
            rows: self.running.rows.mean(),
            ended: self.slowdowns.count() as u32,
            stuck: false,
        }
    }
}
