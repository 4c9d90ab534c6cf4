//! The matrix by which teams take turns on all hosts at once: at the master, made of what hosts report.
//!
//! It is not part of the replicated state: hosts report anew to a new master, and go on with the rows that they have until it answers.

use crate::hosts::Hosts;
use pvm_sched::dasic::Live;
use pvm_wire::HostIndex;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::rows::{COLUMN_CORES_MAX, COLUMN_TEAMS_MAX, Column, PLACES_MAX, Place, Rows, RowsReport};
use std::collections::BTreeMap;
use std::time::Duration;

/// A slice of which less than this part is left is too near its end for new rows to reach all hosts within it.
const NEAR_END: u64 = 4;

/// A host's teams and their rows.
type Places = Vec<(String, Vec<u32>)>;

/// The matrix, and what hosts know of it. The master's.
#[derive(Debug, Default)]
pub(crate) struct MasterRows {
    live: Live<String, HostIndex>,
    /// How many rows hosts were told of, and the places of each.
    told: BTreeMap<HostIndex, (u32, Places)>,
    has_changed: bool,
}

impl MasterRows {
    /// A host reports its processes.
    pub fn heard(&mut self, host: HostIndex, column: Column) {
        if column.cores == 0 {
            return self.gone(host);
        }
        self.has_changed = true;
        self.live.join(host, column.cores.clamp(1, COLUMN_CORES_MAX));
        let named = column.teams.into_iter().filter(|(name, _)| crate::teams::is_name(name));
        let counts: BTreeMap<String, u32> = named.take(COLUMN_TEAMS_MAX).collect();
        let ended: Vec<String> =
            self.live.teams_of(host).filter(|team| !counts.contains_key(*team)).cloned().collect();
        for team in ended {
            self.live.set(host, &team, 0);
        }
        for (team, count) in counts {
            self.live.set(host, &team, count.min(BATCH_MAX as u32));
        }
    }

    /// A host has gone.
    pub fn gone(&mut self, host: HostIndex) {
        self.told.remove(&host);
        if self.live.hosts().contains_key(&host) {
            self.live.leave(host);
            self.has_changed = true;
        }
    }

    /// All rows have had their slices.
    pub fn sweep(&mut self) {
        let before = self.live.rows().len();
        self.live.sweep();
        self.has_changed |= self.live.rows().len() != before;
    }

    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    pub fn count(&self) -> u32 {
        self.live.rows().len() as u32
    }

    /// What hosts are to be told at this time of the master's clock.
    pub fn take_news(&mut self, slice: Duration, now: Duration) -> Vec<(HostIndex, Rows)> {
        self.has_changed = false;
        let (slice, time) = (crate::teams::nanos(slice).max(1), crate::teams::nanos(now));
        let (number, left) = (time / slice, slice - time % slice);
        let count = self.count();
        let mut news = Vec::new();
        for &host in self.live.hosts().keys() {
            let rows = self.live.rows_of(host);
            let places: Places = rows.into_iter().map(|(team, rows)| (team.clone(), rows)).collect();
            // A host without teams takes no turns, and needs no clock.
            let count = if places.is_empty() { 0 } else { count };
            let told = self.told.get(&host);
            if told.map_or(count == 0, |told| *told == (count, places.clone())) {
                continue;
            }
            // Where rows have their slices already, all hosts begin with the new ones at the same instant.
            let rotates = told.is_some_and(|(count, _)| *count > 1);
            let first = number + if rotates { 1 + u64::from(left < slice / NEAR_END) } else { 0 };
            news.push((host, Rows { count, slice, time, first, teams: places.clone() }));
            self.told.insert(host, (count, places));
        }
        news
    }

    /// The whole matrix, for people.
    pub fn report(&self, hosts: &Hosts, slice: Duration, now: Duration) -> RowsReport {
        let columns: Vec<HostIndex> = self.live.hosts().keys().copied().collect();
        let name =
            |host: HostIndex| hosts.get(host).map_or_else(|| host.to_string(), |entry| entry.name.clone());
        let (mut teams, mut places): (BTreeMap<&String, u32>, Vec<Place>) = Default::default();
        for (row, teams_of) in (0..).zip(self.live.rows()) {
            for (team, counts) in teams_of {
                let next = teams.len() as u32;
                let team = *teams.entry(team).or_insert(next);
                let at = |host: &HostIndex| columns.binary_search(host).unwrap_or_default() as u32;
                let place =
                    |(host, &processes): (&HostIndex, &u32)| Place { row, host: at(host), team, processes };
                places.extend(counts.iter().map(place));
            }
        }
        places.truncate(PLACES_MAX);
        let mut names: Vec<(u32, &String)> = teams.into_iter().map(|(name, at)| (at, name)).collect();
        names.sort_unstable();
        let number = now.as_nanos() / slice.as_nanos().max(1);
        RowsReport {
            is_on: true,
            slice: crate::teams::micros(slice),
            count: self.count(),
            now: (number % u128::from(self.count().max(1))) as u32,
            idle: (self.live.idleness() * 1000.0).round() as u32,
            hosts: columns.iter().map(|&host| (name(host), self.live.hosts()[&host])).collect(),
            teams: names.into_iter().map(|(_, name)| name.clone()).collect(),
            places,
        }
    }

    /// Whether the matrix agrees with itself.
    pub fn check(&self) -> Result<(), String> {
        self.live.check()
    }
}
