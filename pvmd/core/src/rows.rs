//! The matrix by which teams take turns on all hosts at once: at the master, made of what hosts report.
//!
//! It is not part of the replicated state: hosts report anew to a new master, and go on with the rows that they have until it answers.

use crate::hosts::Hosts;
use pvm_sched::dasic::{Live, Move};
use pvm_wire::HostIndex;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::rows::{COLUMN_CORES_MAX, COLUMN_TEAMS_MAX, Column, PLACES_MAX, Place, Rows, RowsReport};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After tasks of a team were asked to move, the team is left alone for this long: longer than a task takes to go, or not to.
const GATHERED_APART: Duration = Duration::from_secs(10);
/// A slice of which less than this part is left is too near its end for new rows to reach all hosts within it.
const NEAR_END: u64 = 4;

/// What a host was told: how many rows there are, that of other teams, and the places of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    count: u32,
    others: Option<u32>,
    places: Vec<(String, Vec<u32>)>,
}

/// The matrix, and what hosts know of it. The master's.
#[derive(Debug, Default)]
pub(crate) struct MasterRows {
    live: Live<String, HostIndex>,
    told: BTreeMap<HostIndex, Told>,
    /// Hosts on which teams take turns that are not for the matrix.
    mixed: BTreeSet<HostIndex>,
    /// How many processes of each team can move from each host.
    movable: BTreeMap<String, BTreeMap<HostIndex, u32>>,
    /// Hosts that have joined since teams were gathered.
    joined: BTreeSet<HostIndex>,
    /// When tasks of a team were asked to move.
    gathered: BTreeMap<String, Duration>,
    has_changed: bool,
}

impl MasterRows {
    /// A host reports its processes.
    pub fn heard(&mut self, host: HostIndex, column: Column) {
        if column.cores == 0 {
            return self.gone(host);
        }
        self.has_changed = true;
        if column.has_others {
            self.mixed.insert(host);
        } else {
            self.mixed.remove(&host);
        }
        if !self.live.hosts().contains_key(&host) {
            self.joined.insert(host);
        }
        self.forget_movable(host);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let named = column.teams.into_iter().filter(|(name, _)| crate::teams::is_name(name));
        for (name, processes) in named.take(COLUMN_TEAMS_MAX) {
            let count = processes.count.min(BATCH_MAX as u32);
            if processes.movable > 0 {
                let movable = self.movable.entry(name.clone()).or_default();
                movable.insert(host, processes.movable.min(count));
            }
            counts.insert(name, count);
        }
        self.live.report(host, column.cores.min(COLUMN_CORES_MAX), &counts);
    }

    /// A host has gone.
    pub fn gone(&mut self, host: HostIndex) {
        self.told.remove(&host);
        self.mixed.remove(&host);
        self.joined.remove(&host);
        self.forget_movable(host);
        if self.live.hosts().contains_key(&host) {
            self.live.leave(host);
            self.has_changed = true;
        }
    }

    fn forget_movable(&mut self, host: HostIndex) {
        self.movable.retain(|_, counts| {
            counts.remove(&host);
            !counts.is_empty()
        });
    }

    /// All rows have had their slices.
    pub fn sweep(&mut self) {
        self.has_changed |= self.live.sweep();
    }

    /// Tasks that are to move so that teams which are split between rows come together: onto hosts that have joined, or onto any if much is idle. A
    /// team is not asked again for a while: its tasks may be on their way, or may not be able to go.
    pub fn gather(&mut self, now: Duration) -> Vec<Move<String, HostIndex>> {
        self.gathered.retain(|_, asked| now.saturating_sub(*asked) < GATHERED_APART);
        let free = |(team, _): &(&String, &_)| !self.gathered.contains_key(*team);
        let movable = self.movable.iter().filter(free).map(|(team, counts)| (team.clone(), counts.clone()));
        let movable: BTreeMap<String, BTreeMap<HostIndex, u32>> = movable.collect();
        let joined = std::mem::take(&mut self.joined);
        let mut moves = Vec::new();
        if !joined.is_empty() {
            moves = self.live.gathering(&movable, Some(&joined));
        }
        if moves.is_empty() {
            moves = self.live.gathering(&movable, None);
        }
        self.gathered.extend(moves.iter().map(|step| (step.team.clone(), now)));
        moves
    }

    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// How many rows there are, that of other teams included.
    pub fn count(&self) -> u32 {
        self.count_placed() + u32::from(self.others().is_some())
    }

    /// The row of teams that are not for the matrix, behind those of the matrix: there is one if such teams are on a host beside others.
    fn others(&self) -> Option<u32> {
        let is_beside = |&host: &HostIndex| self.live.teams_of(host).next().is_some();
        (self.count_placed() > 0 && self.mixed.iter().any(is_beside)).then(|| self.count_placed())
    }

    /// The rows of the matrix.
    fn count_placed(&self) -> u32 {
        self.live.rows().len() as u32
    }

    /// What hosts are to be told at this time of the master's clock.
    pub fn take_news(&mut self, slice: Duration, now: Duration) -> Vec<(HostIndex, Rows)> {
        self.has_changed = false;
        let (slice, time) = (crate::teams::nanos(slice).max(1), crate::teams::nanos(now));
        let (number, left) = (time / slice, slice - time % slice);
        let (all, others) = (self.count(), self.others());
        let mut news = Vec::new();
        for &host in self.live.hosts().keys() {
            let rows = self.live.rows_of(host);
            let places: Vec<_> = rows.into_iter().map(|(team, rows)| (team.clone(), rows)).collect();
            // A host without teams takes no turns, and needs no clock.
            let next = if places.is_empty() { Told::default() } else { Told { count: all, others, places } };
            let told = self.told.get(&host);
            if told.map_or(next.count == 0, |told| *told == next) {
                continue;
            }
            // Where rows have their slices already, all hosts begin with the new ones at the same instant.
            let rotates = told.is_some_and(|told| told.count > 1);
            let first = number + if rotates { 1 + u64::from(left < slice / NEAR_END) } else { 0 };
            let Told { count, others, places } = next.clone();
            news.push((host, Rows { count, others, slice, time, first, teams: places }));
            self.told.insert(host, next);
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
            count: self.count_placed(),
            has_others: self.others().is_some(),
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
