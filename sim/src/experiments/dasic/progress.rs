//! How far teams get, slice by slice, on a machine whose hosts come and go.

use super::{Machine, Policy, Settings};
use crate::stats::Summary;
use pvm_sched::dasic::Error;
use std::collections::BTreeMap;

/// A team at work.
pub(super) struct Team {
    /// The slice in which it started.
    pub started: u64,
    /// Slices that each process computes.
    pub work: f64,
    /// The host of each process.
    pub hosts: Vec<u32>,
    /// How far each process has got.
    pub done: Vec<f64>,
    /// The least of that.
    pub slowest: f64,
    /// Slices in which all processes ran.
    pub together: u64,
    /// Slices that the team still loses to migrations.
    frozen: f64,
}

/// A machine with the teams that run on it.
pub(super) struct Running<'a> {
    settings: &'a Settings,
    policy: Policy,
    pub machine: Machine<u64>,
    pub teams: BTreeMap<u64, Team>,
    /// The number of the slice.
    pub now: u64,
    row: usize,
    /// Processes that changed their host.
    pub moved: u64,
    /// Of teams in slices: whether they are in one row.
    pub coscheduled: Summary,
    /// How many rows there are.
    pub rows: Summary,
}

impl<'a> Running<'a> {
    /// All workstations without owners.
    pub fn new(settings: &'a Settings, policy: Policy) -> Self {
        let mut machine = Machine::new(policy.rules());
        for host in 0..settings.workstations {
            machine.join(host, settings.processors);
        }
        Self {
            settings,
            policy,
            machine,
            teams: BTreeMap::new(),
            now: 0,
            row: 0,
            moved: 0,
            coscheduled: Summary::default(),
            rows: Summary::default(),
        }
    }

    /// A team starts, if there is a host for it.
    pub fn start(&mut self, name: u64, size: u32, work: f64) {
        if let Ok(counts) = self.machine.start(&name, size) {
            let of = |(host, count): (u32, u32)| std::iter::repeat_n(host, count as usize);
            let hosts: Vec<u32> = counts.into_iter().flat_map(of).collect();
            let (started, done) = (self.now, vec![0.0; hosts.len()]);
            let team = Team { started, work, hosts, done, slowest: 0.0, together: 0, frozen: 0.0 };
            self.teams.insert(name, team);
        }
    }

    /// A team ends.
    pub fn end(&mut self, name: u64) -> Option<Team> {
        let team = self.teams.remove(&name);
        self.machine.end(&name);
        self.migrate();
        team
    }

    /// Owners come back. If there are processes that could go nowhere, that is an error, and no owner has come.
    pub fn owners_come(&mut self, hosts: &[u32]) -> Result<(), Error> {
        let result = self.machine.owners_come(hosts);
        self.migrate();
        result
    }

    /// Owners leave.
    pub fn owners_leave(&mut self, hosts: &[u32]) {
        self.machine.owners_leave(hosts);
        self.migrate();
    }

    /// The slice is over.
    pub fn advance(&mut self) {
        self.now += 1;
        self.row += 1;
        if self.row >= self.count() {
            self.row = 0;
            self.machine.sweep();
            self.migrate();
        }
    }

    fn count(&self) -> usize {
        self.machine.matrix().rows().len()
    }

    /// Processes that have other hosts now have gone there, and their teams have lost time by that.
    fn migrate(&mut self) {
        for step in self.machine.take_moves() {
            self.moved += u64::from(step.processes);
            let Some(team) = self.teams.get_mut(&step.team) else { continue };
            team.frozen += self.settings.migration * f64::from(step.processes);
            let on_it = team.hosts.iter_mut().filter(|host| **host == step.from);
            on_it.take(step.processes as usize).for_each(|host| *host = step.to);
        }
    }

    /// One time slice on all workstations.
    pub fn compute(&mut self) {
        let mut running: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for &host in self.machine.matrix().hosts().keys() {
            let row = match self.policy {
                // Each workstation on its own: no two agree on the begin of the round, nor on its length.
                Policy::Local => self.now as usize / (1 + host as usize % 3) + host as usize * 7,
                _ => self.row,
            };
            for (team, index) in self.chosen(host, row % self.count().max(1)) {
                running.entry(team).or_default().push(index);
            }
        }
        let grain = self.settings.grain;
        for (name, team) in &mut self.teams {
            self.coscheduled.add(f64::from(u8::from(self.machine.row_of(name).is_some())));
            team.frozen = (team.frozen - 1.0).max(0.0);
            let Some(indices) = running.get(name) else { continue };
            let together = indices.len() == team.done.len();
            team.together += u64::from(together);
            for &index in indices {
                let done = &mut team.done[index];
                *done = if together { *done + 1.0 } else { (*done + 1.0).min(team.slowest + grain) };
            }
            team.slowest = team.done.iter().copied().fold(f64::INFINITY, f64::min);
        }
        self.rows.add(self.count() as f64);
    }

    /// What a host runs in a slice: from each place, in the order in which it chooses from them, the processes that can get on, the slowest first.
    fn chosen(&self, host: u32, row: usize) -> Vec<(u64, usize)> {
        let mut chosen: Vec<(u64, usize)> = Vec::new();
        let processors = self.settings.processors as usize;
        for (&name, count) in self.machine.choices(host, row) {
            if chosen.len() >= processors {
                break;
            }
            let Some(team) = self.teams.get(&name).filter(|team| team.frozen < 1.0) else { continue };
            let most = (count as usize).min(processors - chosen.len());
            let is_in_turn = self.is_in_turn(name);
            let can = |&index: &usize| {
                let ahead = team.done[index] >= team.slowest + self.settings.grain;
                team.hosts[index] == host && (!ahead || is_in_turn) && !chosen.contains(&(name, index))
            };
            let mut ready: Vec<usize> = (0..team.hosts.len()).filter(can).collect();
            ready.sort_by(|&a, &b| team.done[a].total_cmp(&team.done[b]));
            chosen.extend(ready.into_iter().take(most).map(|index| (name, index)));
        }
        chosen
    }

    /// Whether a team is in this time slice as a whole. A process that got ahead in another one waits here for the others, which will be there within the slice.
    fn is_in_turn(&self, team: u64) -> bool {
        self.policy != Policy::Local && self.machine.row_of(&team) == Some(self.row)
    }
}
