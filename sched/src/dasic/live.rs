//! The matrix of a live machine, in which a process stays on its host.
//!
//! The processors of a host are its columns, and a process of the host can run on each of them. So of a row it matters only how
//! many processes of a team it has on each host. The operations are those of [`Matrix`](super::Matrix) as far as they change the row of a
//! process and not its host: on a machine of one host both have the same rows.
//!
//! | source | here |
//! |---|---|
//! | initial scheduling | [`Live::set`]: the first row with room for the team on its hosts, otherwise a new one |
//! | growing | [`Live::join`]: new teams use the new columns |
//! | shrinking | [`Live::leave`]: the columns go, and what ran there with them |
//! | filling | [`Live::set`], [`Live::leave`]: of rows that have lost processes |
//! | packing | [`Live::sweep`] |

use super::operations::{PACKING_THRESHOLD, TRIES};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Most rows. A team for which there is no room in them has no place until there is.
pub const ROWS_MAX: usize = 256;

/// How many processes on each host.
pub type Counts<H> = BTreeMap<H, u32>;

/// A row: how many processes of each team it has on each host.
type Row<T, H> = BTreeMap<T, Counts<H>>;

/// The matrix of a live machine. A host is any `H`, a team is named by any `T`.
#[derive(Clone, Debug)]
pub struct Live<T, H> {
    /// The processors of each host.
    hosts: Counts<H>,
    rows: Vec<Row<T, H>>,
    /// Processors of each host that each row uses.
    used: Vec<Counts<H>>,
    /// The processes that there are, with or without a place.
    teams: BTreeMap<T, Counts<H>>,
    /// Teams of which not all processes have a place.
    waiting: BTreeSet<T>,
}

impl<T, H> Default for Live<T, H> {
    fn default() -> Self {
        let (hosts, rows, used) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { hosts, rows, used, teams: BTreeMap::new(), waiting: BTreeSet::new() }
    }
}

impl<T: Clone + Ord + Debug, H: Copy + Ord + Debug> Live<T, H> {
    /// The hosts and their processors.
    pub fn hosts(&self) -> &Counts<H> {
        &self.hosts
    }

    /// The rows, in the order of their turns: the processes of each team on each host.
    pub fn rows(&self) -> &[BTreeMap<T, Counts<H>>] {
        &self.rows
    }

    /// `λ`: the part of the process space that is idle. Of no space, 0.
    pub fn idleness(&self) -> f64 {
        let slots = total(&self.hosts) * self.rows.len() as u64;
        let busy: u64 = self.used.iter().map(total).sum();
        if slots == 0 { 0.0 } else { (slots - busy) as f64 / slots as f64 }
    }

    /// The teams of a host, each with the rows in which it has processes there.
    pub fn rows_of(&self, host: H) -> BTreeMap<&T, Vec<u32>> {
        let mut teams: BTreeMap<&T, Vec<u32>> = BTreeMap::new();
        for (at, row) in (0..).zip(&self.rows) {
            for (team, _) in row.iter().filter(|(_, counts)| counts.contains_key(&host)) {
                teams.entry(team).or_default().push(at);
            }
        }
        teams
    }

    /// The teams of which there are processes on a host.
    pub fn teams_of(&self, host: H) -> impl Iterator<Item = &T> {
        self.teams.iter().filter(move |(_, counts)| counts.contains_key(&host)).map(|(team, _)| team)
    }

    /// A host is there with this number of processors, at least one.
    pub fn join(&mut self, host: H, processors: u32) {
        if self.hosts.get(&host).is_some_and(|&known| known != processors) {
            self.leave(host);
        }
        self.hosts.insert(host, processors.max(1));
    }

    /// A host has gone, and its processes with it.
    pub fn leave(&mut self, host: H) {
        let teams: Vec<T> = self.teams_of(host).cloned().collect();
        let mut lost = BTreeSet::new();
        for team in teams {
            lost.extend(self.end(&team, host, u32::MAX));
        }
        self.hosts.remove(&host);
        self.fill(&lost);
    }

    /// A team has this number of processes on a host that is there.
    pub fn set(&mut self, host: H, team: &T, processes: u32) {
        if !self.hosts.contains_key(&host) {
            return;
        }
        let before = self.teams.get(team).and_then(|counts| counts.get(&host)).copied().unwrap_or(0);
        let lost = if processes > before {
            self.start(team, host, processes - before)
        } else {
            self.end(team, host, before - processes)
        };
        self.fill(&lost);
    }

    /// All rows have had their turn. Packing: if more than [`PACKING_THRESHOLD`] is idle, teams come together in their key rows as far as
    /// these have room, and each row is deleted whose teams all fit into idle places of other rows.
    pub fn sweep(&mut self) {
        if self.idleness() <= PACKING_THRESHOLD {
            return;
        }
        let teams: Vec<T> = self.teams.keys().cloned().collect();
        for team in &teams {
            self.gather(team);
        }
        self.drop_empty_rows();
        let mut row = 0;
        while row < self.rows.len() {
            if let Some(plan) = self.plan_without(row) {
                for (team, to) in plan {
                    self.shift(&team, row, to);
                }
                self.drop_empty_rows();
            } else {
                row += 1;
            }
        }
        self.place_waiting();
    }

    /// More processes of a team: in a row that it has if there is room, otherwise the whole team is placed anew. Says which rows have lost
    /// processes.
    fn start(&mut self, team: &T, host: H, more: u32) -> BTreeSet<usize> {
        *self.teams.entry(team.clone()).or_default().entry(host).or_insert(0) += more;
        let more = Counts::from([(host, more)]);
        let own = self.own_rows(team);
        if !self.waiting.contains(team)
            && let Some(&row) = own.iter().find(|&&row| self.has_room(row, &more))
        {
            self.put(team, row, &more);
            return BTreeSet::new();
        }
        for &row in &own {
            self.take(team, row);
        }
        self.place(team);
        own.into_iter().collect()
    }

    /// Initial scheduling of what has no place of a team. Where it has more processes on a host than that has processors, they have a row
    /// of their own while they fill it; the rest is placed as a team of its size.
    fn place(&mut self, team: &T) {
        let mut rest = self.teams.get(team).cloned().unwrap_or_default();
        for row in &self.rows {
            subtract(&mut rest, row.get(team));
        }
        self.waiting.remove(team);
        while !rest.is_empty() {
            let part: Counts<H> =
                rest.iter().map(|(&host, &count)| (host, count.min(self.hosts[&host]))).collect();
            let row = (0..self.rows.len()).find(|&row| self.has_room(row, &part));
            let Some(row) = row.or_else(|| self.add_row()) else {
                self.waiting.insert(team.clone());
                return;
            };
            self.put(team, row, &part);
            subtract(&mut rest, Some(&part));
        }
    }

    fn place_waiting(&mut self) {
        for team in self.waiting.clone() {
            self.place(&team);
        }
    }

    /// Processes of a team on a host have ended, those outside its key row first. Says which rows have lost processes.
    fn end(&mut self, team: &T, host: H, fewer: u32) -> BTreeSet<usize> {
        let mut lost = BTreeSet::new();
        let Some(counts) = self.teams.get_mut(team) else { return lost };
        subtract(counts, Some(&Counts::from([(host, fewer)])));
        let left = counts.get(&host).copied().unwrap_or(0);
        if counts.is_empty() {
            self.teams.remove(team);
            self.waiting.remove(team);
        }
        let own = self.own_rows(team);
        let placed = |live: &Self, row: usize| live.rows[row][team].get(&host).copied().unwrap_or(0);
        let mut over = own.iter().map(|&row| placed(self, row)).sum::<u32>().saturating_sub(left);
        for row in own.into_iter().rev() {
            let part = over.min(placed(self, row));
            if part > 0 {
                over -= part;
                let mut rest = self.take(team, row);
                subtract(&mut rest, Some(&Counts::from([(host, part)])));
                self.put(team, row, &rest);
                lost.insert(row);
            }
        }
        lost
    }

    /// Filling of rows that have lost processes: one that is empty is deleted; into one that is not go all processes of another row for
    /// which it has room, and that row is deleted.
    fn fill(&mut self, lost: &BTreeSet<usize>) {
        for &row in lost {
            let fits = |&other: &usize| {
                other != row && !self.rows[other].is_empty() && self.has_room(row, &self.used[other])
            };
            if !self.rows[row].is_empty()
                && let Some(other) = (0..self.rows.len()).find(fits)
            {
                let teams: Vec<T> = self.rows[other].keys().cloned().collect();
                for team in teams {
                    self.shift(&team, other, row);
                }
            }
        }
        self.drop_empty_rows();
        self.place_waiting();
    }

    /// Brings a team together in its key row, if there is room for all of its remainder.
    fn gather(&mut self, team: &T) {
        let own = self.own_rows(team);
        let Some((&key, others)) = own.split_first() else { return };
        let mut rest = Counts::new();
        for &row in others {
            add(&mut rest, &self.rows[row][team]);
        }
        if self.has_room(key, &rest) {
            for &row in others {
                self.shift(team, row, key);
            }
        }
    }

    /// Another row for each team in `row`, if all find one.
    fn plan_without(&self, row: usize) -> Option<Vec<(T, usize)>> {
        let hosts: Vec<H> = self.used[row].keys().copied().collect();
        let idle = |other: usize| -> Vec<u32> {
            hosts.iter().map(|&host| if other == row { 0 } else { self.free(other, host) }).collect()
        };
        let mut idle: Vec<Vec<u32>> = (0..self.rows.len()).map(idle).collect();
        let mut teams: Vec<(&T, &Counts<H>)> = self.rows[row].iter().collect();
        teams.sort_by_key(|(_, counts)| std::cmp::Reverse(total(counts)));
        let part = |counts: &Counts<H>| -> Vec<u32> {
            hosts.iter().map(|host| counts.get(host).copied().unwrap_or(0)).collect()
        };
        let parts: Vec<Vec<u32>> = teams.iter().map(|(_, counts)| part(counts)).collect();
        let rows = room_for(&parts, &mut idle, &mut { TRIES })?;
        Some(teams.into_iter().map(|(team, _)| team.clone()).zip(rows).collect())
    }

    /// The rows that a team is in; first its key row, which holds most of it, the first of equals.
    fn own_rows(&self, team: &T) -> Vec<usize> {
        let holds = |row: usize| self.rows[row].get(team).map_or(0, total);
        let mut rows: Vec<usize> = (0..self.rows.len()).filter(|&row| holds(row) > 0).collect();
        rows.sort_by_key(|&row| std::cmp::Reverse(holds(row)));
        rows
    }

    fn free(&self, row: usize, host: H) -> u32 {
        let of = |counts: &Counts<H>| counts.get(&host).copied().unwrap_or(0);
        of(&self.hosts) - of(&self.used[row])
    }

    fn has_room(&self, row: usize, counts: &Counts<H>) -> bool {
        counts.iter().all(|(&host, &count)| count <= self.free(row, host))
    }

    fn add_row(&mut self) -> Option<usize> {
        (self.rows.len() < ROWS_MAX).then(|| {
            self.rows.push(BTreeMap::new());
            self.used.push(BTreeMap::new());
            self.rows.len() - 1
        })
    }

    fn put(&mut self, team: &T, row: usize, counts: &Counts<H>) {
        if !counts.is_empty() {
            add(self.rows[row].entry(team.clone()).or_default(), counts);
            add(&mut self.used[row], counts);
        }
    }

    fn take(&mut self, team: &T, row: usize) -> Counts<H> {
        let counts = self.rows[row].remove(team).unwrap_or_default();
        subtract(&mut self.used[row], Some(&counts));
        counts
    }

    fn shift(&mut self, team: &T, from: usize, to: usize) {
        let counts = self.take(team, from);
        self.put(team, to, &counts);
    }

    fn drop_empty_rows(&mut self) {
        self.used.retain(|used| !used.is_empty());
        self.rows.retain(|row| !row.is_empty());
    }

    /// Checks the invariants; the error names the one that is violated.
    pub fn check(&self) -> Result<(), String> {
        let mut placed: BTreeMap<T, Counts<H>> = BTreeMap::new();
        let mut vectors = Vec::new();
        for row in &self.rows {
            let mut used = Counts::new();
            for (team, counts) in row {
                add(&mut used, counts);
                add(placed.entry(team.clone()).or_default(), counts);
            }
            vectors.push(used);
        }
        let is_part = |part: &Counts<H>, whole: &Counts<H>| {
            part.iter().all(|(host, count)| *count > 0 && whole.get(host).is_some_and(|most| count <= most))
        };
        let claims = [
            (self.rows.iter().all(|row| !row.is_empty()), "a row is empty"),
            (self.rows.len() <= ROWS_MAX, "there are too many rows"),
            (vectors == self.used, "the vectors are not what they are defined to be"),
            (
                self.used.iter().all(|used| is_part(used, &self.hosts)),
                "a row has more processes than processors",
            ),
            (
                placed
                    .iter()
                    .all(|(team, counts)| self.teams.get(team).is_some_and(|all| is_part(counts, all))),
                "a process has two places, or is not there",
            ),
            (
                self.teams
                    .iter()
                    .all(|(team, all)| self.waiting.contains(team) || placed.get(team) == Some(all)),
                "a process has no place",
            ),
            (self.waiting.iter().all(|team| self.teams.contains_key(team)), "a team waits that is not there"),
        ];
        claims.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, claim)| Err(format!("{claim}: {self:?}")))
    }
}

fn total<H>(counts: &Counts<H>) -> u64 {
    counts.values().map(|&count| u64::from(count)).sum()
}

fn add<H: Copy + Ord>(counts: &mut Counts<H>, more: &Counts<H>) {
    for (&host, &count) in more {
        let sum = counts.entry(host).or_insert(0);
        *sum = sum.saturating_add(count);
    }
}

fn subtract<H: Copy + Ord>(counts: &mut Counts<H>, fewer: Option<&Counts<H>>) {
    for (host, fewer) in fewer.into_iter().flatten() {
        if let Some(count) = counts.get_mut(host) {
            *count = count.saturating_sub(*fewer);
        }
    }
    counts.retain(|_, count| *count > 0);
}

/// A row for each of these parts, with so much idle in each row on each of some hosts; `None` if there is no way, or none is found in this
/// number of tries.
fn room_for(parts: &[Vec<u32>], idle: &mut [Vec<u32>], tries: &mut u32) -> Option<Vec<usize>> {
    let Some((part, rest)) = parts.split_first() else { return Some(Vec::new()) };
    for row in 0..idle.len() {
        let fits = idle[row].iter().zip(part).all(|(idle, count)| count <= idle);
        // Of rows with equally much, one stands for all.
        if !fits || idle[..row].contains(&idle[row]) {
            continue;
        }
        *tries = tries.checked_sub(1)?;
        let before = idle[row].clone();
        idle[row].iter_mut().zip(part).for_each(|(idle, count)| *idle -= count);
        let rows = room_for(rest, idle, tries);
        idle[row] = before;
        if let Some(mut rows) = rows {
            rows.insert(0, row);
            return Some(rows);
        }
    }
    None
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
