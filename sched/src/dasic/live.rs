//! The matrix of a machine, by which all its hosts take turns.
//!
//! The processors of a host are its columns, and a process of the host can run on each of them. So of a row it matters only how
//! many processes of a team it has on each host. Whether a process can get a place on another host is a matter of the [`Rules`]. Where it
//! can, the operations are the paper's; where it stays on its host, they are these as far as they change the row of a process and not its
//! host. On a machine of one host both give the same rows.
//!
//! | source | here |
//! |---|---|
//! | `P'`, `Q'` | [`Live::processors`], [`Live::rows`] |
//! | `λ` | [`Live::idleness`] |
//! | team table: status, allocated rows | [`Live::row_of_all`], [`Live::rows_of`] |
//! | `process-team-vector` | [`Live::team_vector`] |
//! | initial scheduling | [`Live::start`] of a team for which hosts are sought; [`Live::set`] of one that has them: the first row with room on its hosts, otherwise a new one |
//! | growing | [`Live::join_all`] |
//! | shrinking | [`Live::take_back`] of hosts whose owners are back; [`Live::leave`] of a host that is lost, and what ran there with it |
//! | filling | [`Live::end_team`], [`Live::set`], [`Live::leave`]: of rows that have lost processes |
//! | packing | [`Live::sweep`] |
//! | alternate selection | [`Live::column`]: what a processor can choose from |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Packing is worth its migrations when more than this part of the process space is idle (the paper's 30 %).
pub const PACKING_THRESHOLD: f64 = 0.3;

/// Packing tries this many ways to find room for the teams of a row: all there are, if they are few.
pub(super) const TRIES: u32 = 1000;

/// Most rows. A team for which there is no room in them has no place until there is.
pub const ROWS_MAX: usize = 256;

/// How many processes on each host.
pub type Counts<H> = BTreeMap<H, u32>;

/// A row: how many processes of each team it has on each host.
type Row<T, H> = BTreeMap<T, Counts<H>>;

/// What the operations may do with a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// It stays on its host, and gets other rows there: a live machine.
    #[default]
    Staying,
    /// It gets any place, on another host too: the paper.
    Moving,
    /// It gets a place on another host if its own is taken back, and nothing else changes: what the paper's balancing is compared with.
    Unbalanced,
}

/// Processes of a team are to go to another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move<T, H> {
    /// Their team.
    pub team: T,
    /// The host that they are on.
    pub from: H,
    /// The host that has places for them.
    pub to: H,
    /// How many.
    pub processes: u32,
}

/// The matrix of a machine. A host is any `H`, a team is named by any `T`.
#[derive(Clone, Debug)]
pub struct Live<T, H> {
    pub(super) rules: Rules,
    /// The processors of each host.
    pub(super) hosts: Counts<H>,
    pub(super) rows: Vec<Row<T, H>>,
    /// Processors of each host that each row uses.
    pub(super) used: Vec<Counts<H>>,
    /// The processes that there are, with or without a place.
    pub(super) teams: BTreeMap<T, Counts<H>>,
    /// Teams of which not all processes have a place.
    pub(super) waiting: BTreeSet<T>,
    /// Moves that have not been asked for.
    pub(super) moves: Vec<Move<T, H>>,
}

impl<T, H> Default for Live<T, H> {
    fn default() -> Self {
        let (hosts, teams, waiting) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let (rules, rows, used, moves) = (Rules::Staying, Vec::new(), Vec::new(), Vec::new());
        Self { rules, hosts, rows, used, teams, waiting, moves }
    }
}

impl<T: Clone + Ord + Debug, H: Copy + Ord + Debug> Live<T, H> {
    /// A machine without hosts, whose processes are under these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

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

    /// The places of a host: their row, their team, and how many. What a processor of the host runs in a slice is one of these of its row or, if there
    /// is none or none gets on, of any other.
    pub fn column(&self, host: H) -> Vec<(usize, &T, u32)> {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(at, row)| {
            row.iter().filter_map(move |(team, counts)| Some((at, team, *counts.get(&host)?)))
        })
        .collect()
    }

    /// A host reports what it has: its processors, none if it is not there for the teams, and its processes of each team.
    pub fn report(&mut self, host: H, processors: u32, counts: &BTreeMap<T, u32>) {
        if processors == 0 {
            return self.leave(host);
        }
        self.join(host, processors);
        let ended = |team: &&T| !counts.contains_key(*team);
        let ended: Vec<T> = self.teams_of(host).filter(ended).cloned().collect();
        for team in ended {
            self.set(host, &team, 0);
        }
        for (team, &count) in counts {
            self.set(host, team, count);
        }
    }

    /// A host is there with this number of processors, at least one.
    pub fn join(&mut self, host: H, processors: u32) {
        self.join_all([(host, processors)]);
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
            self.add_to(team, host, processes - before)
        } else {
            self.end(team, host, before - processes)
        };
        self.fill(&lost);
    }

    /// All rows have had their turn. Packing: if more than [`PACKING_THRESHOLD`] is idle, teams come together in their key rows as far as
    /// these have room, and each row is deleted whose teams all fit into idle places of other rows. Says whether that changed a row.
    pub fn sweep(&mut self) -> bool {
        if self.idleness() <= PACKING_THRESHOLD || self.rules == Rules::Unbalanced {
            return false;
        }
        let before = self.rows.clone();
        let teams: Vec<T> = self.teams.keys().cloned().collect();
        for team in &teams {
            self.gather(team, None);
        }
        self.drop_empty_rows();
        let mut row = 0;
        while row < self.rows.len() {
            if let Some(plan) = self.plan_without(row) {
                for (team, to) in plan {
                    let counts = self.take(&team, row);
                    self.settle(vec![(team, counts)], to, None);
                }
                self.drop_empty_rows();
            } else {
                row += 1;
            }
        }
        self.place_waiting();
        self.rows != before
    }

    /// More processes of a team: in a row that it has if there is room, otherwise the whole team is placed anew. Says which rows have lost
    /// processes.
    fn add_to(&mut self, team: &T, host: H, more: u32) -> BTreeSet<usize> {
        *self.teams.entry(team.clone()).or_default().entry(host).or_insert(0) += more;
        let more = Counts::from([(host, more)]);
        let own = self.own_rows(team);
        if !self.waiting.contains(team)
            && let Some(&row) = own.iter().find(|&&row| self.has_places(row, &more))
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
            let row = (0..self.rows.len()).find(|&row| self.has_places(row, &part));
            let Some(row) = row.or_else(|| self.add_row()) else {
                self.waiting.insert(team.clone());
                return;
            };
            self.put(team, row, &part);
            subtract(&mut rest, Some(&part));
        }
    }

    pub(super) fn place_waiting(&mut self) {
        for team in self.waiting.clone() {
            self.place(&team);
        }
    }

    /// Processes of a team on a host have ended, those outside its key row first. Says which rows have lost processes.
    pub(super) fn end(&mut self, team: &T, host: H, fewer: u32) -> BTreeSet<usize> {
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
                self.lift(team, row, &Counts::from([(host, part)]));
                lost.insert(row);
            }
        }
        lost
    }

    /// Filling of rows that have lost processes: one that is empty is deleted; into one that is not go all processes of another row for
    /// which it has room, and that row is deleted.
    pub(super) fn fill(&mut self, lost: &BTreeSet<usize>) {
        let is_balanced = self.rules != Rules::Unbalanced;
        for &row in lost.iter().filter(|_| is_balanced) {
            let fits = |&other: &usize| {
                other != row && !self.rows[other].is_empty() && self.has_room(row, &self.used[other], None)
            };
            if !self.rows[row].is_empty()
                && let Some(other) = (0..self.rows.len()).find(fits)
            {
                let teams: Vec<T> = self.rows[other].keys().cloned().collect();
                let parts = teams.into_iter().map(|team| (team.clone(), self.take(&team, other))).collect();
                self.settle(parts, row, None);
            }
        }
        self.drop_empty_rows();
        self.place_waiting();
    }

    /// Brings a team together in its key row, there on these hosts only if any are named, if there is room for all of its remainder.
    pub(super) fn gather(&mut self, team: &T, onto: Option<&BTreeSet<H>>) {
        let own = self.own_rows(team);
        let Some((&key, others)) = own.split_first() else { return };
        let mut rest = Counts::new();
        for &row in others {
            add(&mut rest, &self.rows[row][team]);
        }
        if self.has_room(key, &rest, onto) {
            for &row in others {
                self.take(team, row);
            }
            self.settle(vec![(team.clone(), rest)], key, onto);
        }
    }

    /// Another row for each team in `row`, if all find one.
    pub(super) fn plan_without(&self, row: usize) -> Option<Vec<(T, usize)>> {
        let is_moving = self.rules == Rules::Moving;
        // Where a process can go to any host, all places of a row are equal.
        let hosts: Vec<H> = if is_moving { &self.hosts } else { &self.used[row] }.keys().copied().collect();
        let measure = |of: &dyn Fn(H) -> u32| -> Vec<u32> {
            let each = hosts.iter().map(|&host| of(host));
            if is_moving { vec![each.sum()] } else { each.collect() }
        };
        let idle = |other: usize| measure(&|host| if other == row { 0 } else { self.free(other, host) });
        let mut idle: Vec<Vec<u32>> = (0..self.rows.len()).map(idle).collect();
        let mut teams: Vec<(&T, &Counts<H>)> = self.rows[row].iter().collect();
        teams.sort_by_key(|(_, counts)| std::cmp::Reverse(total(counts)));
        let part = |counts: &Counts<H>| measure(&|host| counts.get(&host).copied().unwrap_or(0));
        let parts: Vec<Vec<u32>> = teams.iter().map(|(_, counts)| part(counts)).collect();
        let rows = room_for(&parts, &mut idle, &mut { TRIES })?;
        Some(teams.into_iter().map(|(team, _)| team.clone()).zip(rows).collect())
    }

    /// The rows that a team is in; first its key row, which holds most of it, the first of equals.
    pub(super) fn own_rows(&self, team: &T) -> Vec<usize> {
        let holds = |row: usize| self.rows[row].get(team).map_or(0, total);
        let mut rows: Vec<usize> = (0..self.rows.len()).filter(|&row| holds(row) > 0).collect();
        rows.sort_by_key(|&row| std::cmp::Reverse(holds(row)));
        rows
    }

    pub(super) fn free(&self, row: usize, host: H) -> u32 {
        let of = |counts: &Counts<H>| counts.get(&host).copied().unwrap_or(0);
        of(&self.hosts) - of(&self.used[row])
    }

    /// Whether a row has room for processes on their hosts.
    pub(super) fn has_places(&self, row: usize, counts: &Counts<H>) -> bool {
        counts.iter().all(|(&host, &count)| count <= self.free(row, host))
    }

    pub(super) fn add_row(&mut self) -> Option<usize> {
        (self.rows.len() < ROWS_MAX).then(|| {
            self.rows.push(BTreeMap::new());
            self.used.push(BTreeMap::new());
            self.rows.len() - 1
        })
    }

    pub(super) fn put(&mut self, team: &T, row: usize, counts: &Counts<H>) {
        if !counts.is_empty() {
            add(self.rows[row].entry(team.clone()).or_default(), counts);
            add(&mut self.used[row], counts);
        }
    }

    pub(super) fn take(&mut self, team: &T, row: usize) -> Counts<H> {
        let counts = self.rows[row].remove(team).unwrap_or_default();
        subtract(&mut self.used[row], Some(&counts));
        counts
    }

    /// Some processes of a team lose their places in a row.
    pub(super) fn lift(&mut self, team: &T, row: usize, counts: &Counts<H>) {
        let mut rest = self.take(team, row);
        subtract(&mut rest, Some(counts));
        self.put(team, row, &rest);
    }

    pub(super) fn drop_empty_rows(&mut self) {
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

pub(super) fn total<H>(counts: &Counts<H>) -> u64 {
    counts.values().map(|&count| u64::from(count)).sum()
}

pub(super) fn add<H: Copy + Ord>(counts: &mut Counts<H>, more: &Counts<H>) {
    for (&host, &count) in more {
        let sum = counts.entry(host).or_insert(0);
        *sum = sum.saturating_add(count);
    }
}

pub(super) fn subtract<H: Copy + Ord>(counts: &mut Counts<H>, fewer: Option<&Counts<H>>) {
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
