//! The operations on the process space (section 3.2), place by place: what [`Live`](super::Live) is compared with.

use super::live::{PACKING_THRESHOLD, TRIES};
use super::matrix::{Matrix, Move, Process, Slot, Status};
use super::moving::Error;
use std::collections::BTreeMap;
use std::fmt::Debug;

impl<H: Copy + Ord + Debug> Matrix<H> {
    /// Initial scheduling: the first row with room for the whole team, otherwise a new one. A team larger than `P'` has
    /// rows of its own while it fills them; the rest is placed as a team of its size. Says where each process goes.
    pub fn start(&mut self, team: u64, size: u32) -> Result<Vec<(Process, Slot<H>)>, Error> {
        let columns = self.hosts.len() as u32;
        if self.teams.contains_key(&team) {
            return Err(Error::TeamExists);
        } else if size == 0 {
            return Err(Error::EmptyTeam);
        } else if columns == 0 {
            return Err(Error::NoProcessor);
        }
        let mut first = 0;
        let mut placed = Vec::new();
        while first < size {
            let part = (size - first).min(columns);
            let row = (0..self.rows.len()).find(|&row| self.idle(row) >= part as usize);
            let row = row.unwrap_or_else(|| self.add_row());
            let free: Vec<usize> = self.free_columns(row).take(part as usize).collect();
            for (index, column) in (first..).zip(free) {
                let process = Process { team, index };
                self.put(process, (row, column));
                placed.push((process, Slot { host: self.hosts[column], row }));
            }
            first += part;
        }
        Ok(placed)
    }

    /// Processors join and nothing moves: what growing is compared with.
    pub fn join(&mut self, hosts: impl IntoIterator<Item = H>) {
        self.add_columns(hosts);
    }

    /// Growing: `S` processors join. The remainder of each team that is not coscheduled goes to the new processors in
    /// the team's key row, if `process-team-vector ≤ S` and they have room for all of it there.
    pub fn grow(&mut self, hosts: impl IntoIterator<Item = H>) -> Vec<Move<H>> {
        let before = self.hosts.len();
        let vectors: BTreeMap<u64, usize> = self.teams().map(|team| (team, self.team_vector(team))).collect();
        self.add_columns(hosts);
        let joined = self.hosts.len() - before;
        let mut moves = Vec::new();
        for (team, vector) in vectors {
            if vector <= joined {
                moves.extend(self.gather(team, before));
            }
        }
        self.drop_empty_rows();
        moves
    }

    /// Shrinking: owners take processors back. One after the other, the evicted processes go to the processor that has
    /// the fewest, in its own time slice if there is room. Simple on purpose: packing restores coscheduling later.
    pub fn shrink(&mut self, hosts: &[H]) -> Result<Vec<Move<H>>, Error> {
        let gone: Vec<bool> = self.hosts.iter().map(|host| hosts.contains(host)).collect();
        if !self.teams.is_empty() && gone.iter().all(|&gone| gone) {
            return Err(Error::NoProcessor);
        }
        let mut evicted = Vec::new();
        for row in 0..self.rows.len() {
            evicted.extend((0..gone.len()).filter(|&column| gone[column]).map(|column| (row, column)));
        }
        let mut moves = Vec::new();
        for from in evicted {
            if self.rows[from.0][from.1].is_some() {
                let to = self.least_loaded(&gone, from.0);
                moves.extend(self.shift(from, to));
            }
        }
        self.drop_columns(&gone);
        self.drop_empty_rows();
        Ok(moves)
    }

    /// A free place of the processor with the fewest processes, of those that stay: in `row` if it can be, as that keeps
    /// the team together, otherwise the first.
    fn least_loaded(&mut self, gone: &[bool], row: usize) -> (usize, usize) {
        let staying = (0..gone.len()).filter(|&column| !gone[column]);
        let taken = |row: usize, column: usize| self.rows[row][column].is_some();
        let column =
            staying.min_by_key(|&column| (self.allocation()[column], taken(row, column))).unwrap_or(0);
        let row = std::iter::once(row).chain(0..self.rows.len()).find(|&row| !taken(row, column));
        (row.unwrap_or_else(|| self.add_row()), column)
    }

    /// A team has ended, and nothing moves: what filling is compared with. Empty rows are deleted. Says which rows, from
    /// the first on, the team was in, before that.
    pub fn remove(&mut self, team: u64) -> Vec<usize> {
        let rows = self.clear(team);
        self.drop_empty_rows();
        rows
    }

    fn clear(&mut self, team: u64) -> Vec<usize> {
        let places = self.teams.remove(&team).unwrap_or_default();
        let mut rows: Vec<usize> = places.values().map(|&(row, _)| row).collect();
        for &place in places.values() {
            self.take(place);
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// A team has ended, and its rows are filled: one that is empty is deleted; into one that is not go all processes
    /// of another row for which it has room, and that row is deleted.
    pub fn end(&mut self, team: u64) -> Vec<Move<H>> {
        let rows = self.clear(team);
        let mut moves = Vec::new();
        for row in rows {
            let idle = self.idle(row);
            let fits = |&other: &usize| {
                let size = self.scheduling()[other];
                other != row && size > 0 && size <= idle
            };
            if self.scheduling()[row] > 0
                && let Some(other) = (0..self.rows.len()).find(fits)
            {
                let columns = self.busy_columns(other);
                moves.extend(self.merge(other, &columns, row));
            }
        }
        self.drop_empty_rows();
        moves
    }

    /// Packing, to be called after each sweep of the time slices; it does nothing unless `λ` is above
    /// [`PACKING_THRESHOLD`]. First, the remainder of each team that is not coscheduled goes into the team's key row if
    /// it fits; then every row is deleted whose teams all fit into idle places of other rows.
    pub fn pack(&mut self) -> Vec<Move<H>> {
        if self.idleness() <= PACKING_THRESHOLD {
            return Vec::new();
        }
        let mut moves = Vec::new();
        let teams: Vec<u64> = self.teams().collect();
        for team in teams {
            moves.extend(self.gather(team, 0));
        }
        self.drop_empty_rows();
        let mut row = 0;
        while row < self.rows.len() {
            if let Some(plan) = self.plan_without(row) {
                for (columns, to) in plan {
                    moves.extend(self.merge(row, &columns, to));
                }
                self.drop_empty_rows();
            } else {
                row += 1;
            }
        }
        moves
    }

    /// Another row for each team in `row`, if all find one: (its columns, that row).
    fn plan_without(&self, row: usize) -> Option<Vec<(Vec<usize>, usize)>> {
        let mut idle: Vec<usize> = (0..self.rows.len()).map(|other| self.idle(other)).collect();
        idle[row] = 0;
        let mut subteams: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for column in self.busy_columns(row) {
            if let Some(process) = self.rows[row][column] {
                subteams.entry(process.team).or_default().push(column);
            }
        }
        let mut subteams: Vec<Vec<usize>> = subteams.into_values().collect();
        subteams.sort_by_key(|columns| std::cmp::Reverse(columns.len()));
        let sizes: Vec<usize> = subteams.iter().map(Vec::len).collect();
        let rows = room_for(&sizes, &mut idle, &mut { TRIES })?;
        Some(subteams.into_iter().zip(rows).collect())
    }

    /// Brings a team together in its key row, in columns from `first` on, if there is room for all of its remainder.
    fn gather(&mut self, team: u64, first: usize) -> Vec<Move<H>> {
        let Some(Status::KeyRow(key)) = self.team(team).map(|line| line.status) else { return Vec::new() };
        let free: Vec<usize> = self.free_columns(key).filter(|&column| column >= first).collect();
        let rest: Vec<(usize, usize)> =
            self.teams[&team].values().copied().filter(|&(row, _)| row != key).collect();
        if rest.len() > free.len() {
            return Vec::new();
        }
        self.shift_all(&rest, key, free)
    }

    /// Moves the processes in `columns` of one row to free places of another.
    fn merge(&mut self, row: usize, columns: &[usize], to: usize) -> Vec<Move<H>> {
        let from: Vec<(usize, usize)> = columns.iter().map(|&column| (row, column)).collect();
        let free = self.free_columns(to).collect();
        self.shift_all(&from, to, free)
    }

    /// Moves processes to `free` columns of a row, which are at least as many. A process that can stay in its column does.
    fn shift_all(&mut self, from: &[(usize, usize)], row: usize, mut free: Vec<usize>) -> Vec<Move<H>> {
        let mut moves = Vec::new();
        let mut others = Vec::new();
        for &place in from {
            if let Some(at) = free.iter().position(|&column| column == place.1) {
                free.remove(at);
                moves.extend(self.shift(place, (row, place.1)));
            } else {
                others.push(place);
            }
        }
        for (place, column) in others.into_iter().zip(free) {
            moves.extend(self.shift(place, (row, column)));
        }
        moves
    }

    /// Alternate selection, by each processor on its own: what a host runs in a time slice. If its place is idle, or
    /// its process is not `ready`, that is the next process of its column that is.
    pub fn alternate(&self, host: H, row: usize, mut ready: impl FnMut(Process) -> bool) -> Option<Process> {
        let column = self.hosts.iter().position(|&other| other == host)?;
        let rows = self.rows.len();
        (0..rows).filter_map(|step| self.rows[(row + step) % rows][column]).find(|&process| ready(process))
    }
}

/// A row for each of these parts, largest first, with so much idle in each row; `None` if there is no way, or none is found
/// in [`TRIES`] tries.
fn room_for(parts: &[usize], idle: &mut [usize], tries: &mut u32) -> Option<Vec<usize>> {
    let Some((&part, rest)) = parts.split_first() else { return Some(Vec::new()) };
    for row in 0..idle.len() {
        // Of rows with equally much, one stands for all.
        if idle[row] < part || idle[..row].contains(&idle[row]) {
            continue;
        }
        *tries = tries.checked_sub(1)?;
        idle[row] -= part;
        let rows = room_for(rest, idle, tries);
        idle[row] += part;
        if let Some(mut rows) = rows {
            rows.insert(0, row);
            return Some(rows);
        }
    }
    None
}
