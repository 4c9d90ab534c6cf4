//! The process space with its vectors and the team table (section 3.1), place by place: what [`Live`](super::Live) is compared with.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// A process: the `index`-th of its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its team.
    pub team: u64,
    /// Its number within the team, from 0.
    pub index: u32,
}

/// A place of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot<H> {
    /// The processor, which is the column.
    pub host: H,
    /// The time slice.
    pub row: usize,
}

/// A process goes to another place. Rows are those at the time of the move; if the host stays the same, the move only
/// changes the process's time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move<H> {
    /// The process that moves.
    pub process: Process,
    /// From where.
    pub from: Slot<H>,
    /// To where.
    pub to: Slot<H>,
}

impl<H: PartialEq> Move<H> {
    /// Whether the process changes its host.
    pub fn is_migration(&self) -> bool {
        self.from.host != self.to.host
    }
}

/// The paper's coscheduling status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All of the team is in one row (0 in the paper).
    Coscheduled,
    /// It is not; this is its key row, which holds most of it, the first of equals (n in the paper).
    KeyRow(usize),
}

/// A line of the team table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// How many processes it has.
    pub size: u32,
    /// Whether it is coscheduled.
    pub status: Status,
    /// The rows it is in, and how many of its processes each holds.
    pub rows: BTreeMap<usize, u32>,
}

/// The process space. A host is any `H: Copy + Ord`.
#[derive(Clone, Debug)]
pub struct Matrix<H> {
    pub(super) hosts: Vec<H>,
    /// Row by row, a place per host.
    pub(super) rows: Vec<Vec<Option<Process>>>,
    allocation: Vec<usize>,
    scheduling: Vec<usize>,
    /// The processes of each team, by place: row and column.
    pub(super) teams: BTreeMap<u64, BTreeMap<u32, (usize, usize)>>,
}

impl<H> Default for Matrix<H> {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            rows: Vec::new(),
            allocation: Vec::new(),
            scheduling: Vec::new(),
            teams: BTreeMap::new(),
        }
    }
}

impl<H: Copy + Ord + Debug> Matrix<H> {
    /// A process space on these processors, without processes.
    pub fn new(hosts: impl IntoIterator<Item = H>) -> Self {
        let mut matrix = Self::default();
        matrix.add_columns(hosts);
        matrix
    }

    /// The processors, `P'` of them, in the order of their columns.
    pub fn processors(&self) -> &[H] {
        &self.hosts
    }

    /// `Q'`, the number of time slices.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The processes of a time slice by processor, in the order of [`processors`](Self::processors).
    pub fn row(&self, row: usize) -> &[Option<Process>] {
        self.rows.get(row).map_or(&[], Vec::as_slice)
    }

    /// `allocation-vector`: the number of processes on each processor.
    pub fn allocation(&self) -> &[usize] {
        &self.allocation
    }

    /// `scheduling-vector`: the number of processes in each time slice.
    pub fn scheduling(&self) -> &[usize] {
        &self.scheduling
    }

    /// `idle-vector[row]`: what is free in a time slice, `P' − scheduling-vector[row]`.
    pub fn idle(&self, row: usize) -> usize {
        self.scheduling.get(row).map_or(0, |busy| self.hosts.len() - busy)
    }

    /// `λ`: the part of the process space that is idle. Of no space, 0.
    pub fn idleness(&self) -> f64 {
        let slots = self.hosts.len() * self.rows.len();
        let busy: usize = self.scheduling.iter().sum();
        if slots == 0 { 0.0 } else { (slots - busy) as f64 / slots as f64 }
    }

    /// The teams that there are.
    pub fn teams(&self) -> impl Iterator<Item = u64> {
        self.teams.keys().copied()
    }

    /// A team's line in the table.
    pub fn team(&self, team: u64) -> Option<Team> {
        let places = self.teams.get(&team)?;
        let mut rows = BTreeMap::new();
        for &(row, _) in places.values() {
            *rows.entry(row).or_insert(0) += 1;
        }
        let key = rows.iter().max_by_key(|&(&row, &count)| (count, std::cmp::Reverse(row)))?;
        let status = if rows.len() == 1 { Status::Coscheduled } else { Status::KeyRow(*key.0) };
        Some(Team { size: places.len() as u32, status, rows })
    }

    /// `process-team-vector`: a team's size if it is coscheduled, otherwise its size modulo `P'`.
    pub fn team_vector(&self, team: u64) -> usize {
        self.team(team).map_or(0, |line| match line.status {
            Status::Coscheduled => line.size as usize,
            Status::KeyRow(_) => line.size as usize % self.hosts.len().max(1),
        })
    }

    /// Where a process is.
    pub fn find(&self, process: Process) -> Option<Slot<H>> {
        let &(row, column) = self.teams.get(&process.team)?.get(&process.index)?;
        Some(Slot { host: self.hosts[column], row })
    }

    pub(super) fn add_columns(&mut self, hosts: impl IntoIterator<Item = H>) {
        for host in hosts {
            if !self.hosts.contains(&host) {
                self.hosts.push(host);
                self.allocation.push(0);
            }
        }
        for row in &mut self.rows {
            row.resize(self.hosts.len(), None);
        }
    }

    /// A new, empty row behind the others.
    pub(super) fn add_row(&mut self) -> usize {
        self.rows.push(vec![None; self.hosts.len()]);
        self.scheduling.push(0);
        self.rows.len() - 1
    }

    pub(super) fn put(&mut self, process: Process, (row, column): (usize, usize)) {
        debug_assert!(self.rows[row][column].is_none());
        self.rows[row][column] = Some(process);
        self.allocation[column] += 1;
        self.scheduling[row] += 1;
        self.teams.entry(process.team).or_default().insert(process.index, (row, column));
    }

    pub(super) fn take(&mut self, (row, column): (usize, usize)) -> Option<Process> {
        let process = self.rows[row][column].take()?;
        self.allocation[column] -= 1;
        self.scheduling[row] -= 1;
        Some(process)
    }

    pub(super) fn shift(&mut self, from: (usize, usize), to: (usize, usize)) -> Option<Move<H>> {
        let process = self.take(from)?;
        self.put(process, to);
        let slot = |(row, column): (usize, usize)| Slot { host: self.hosts[column], row };
        Some(Move { process, from: slot(from), to: slot(to) })
    }

    /// Deletes rows without processes. The priority of those below rises.
    pub(super) fn drop_empty_rows(&mut self) {
        if self.scheduling.contains(&0) {
            let keep: Vec<bool> = self.scheduling.iter().map(|&busy| busy > 0).collect();
            let mut kept = keep.iter();
            self.rows.retain(|_| kept.next().copied().unwrap_or(true));
            self.scheduling.retain(|&busy| busy > 0);
            self.renew_places();
        }
    }

    /// Deletes columns with their contents.
    pub(super) fn drop_columns(&mut self, gone: &[bool]) {
        for row in &mut self.rows {
            let mut at = 0..;
            row.retain(|_| !gone[at.next().unwrap_or(0)]);
        }
        let mut at = 0..;
        self.hosts.retain(|_| !gone[at.next().unwrap_or(0)]);
        let mut at = 0..;
        self.allocation.retain(|_| !gone[at.next().unwrap_or(0)]);
        self.renew_places();
    }

    fn renew_places(&mut self) {
        for (at, row) in self.rows.iter().enumerate() {
            for (column, process) in row.iter().enumerate() {
                if let Some(process) = process
                    && let Some(places) = self.teams.get_mut(&process.team)
                {
                    places.insert(process.index, (at, column));
                }
            }
        }
    }

    /// The columns that are free in a row.
    pub(super) fn free_columns(&self, row: usize) -> impl Iterator<Item = usize> + use<'_, H> {
        self.rows[row].iter().enumerate().filter(|(_, slot)| slot.is_none()).map(|(column, _)| column)
    }

    /// The places that a row's processes are in.
    pub(super) fn busy_columns(&self, row: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|&column| self.rows[row][column].is_some()).collect()
    }
}
