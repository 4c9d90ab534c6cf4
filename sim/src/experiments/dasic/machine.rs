//! The hosts of a simulated machine with their owners and processes, and the matrix by which they take turns: the one that the master's daemon has
//! ([`Live`]), driven by the same calls.

use pvm_sched::dasic::{Counts, Error, Live, Move, Rules};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A host, as its own daemon knows it.
#[derive(Clone, Debug)]
struct Host<T> {
    processors: u32,
    has_owner: bool,
    /// Its processes of each team. They wait while the owner is there.
    teams: BTreeMap<T, u32>,
}

/// A machine whose teams are named by any `T`.
#[derive(Clone, Debug)]
pub struct Machine<T> {
    rules: Rules,
    live: Live<T, u32>,
    hosts: BTreeMap<u32, Host<T>>,
    moves: Vec<Move<T, u32>>,
    /// Of each host that takes turns its places by rows.
    columns: BTreeMap<u32, Vec<(usize, T, u32)>>,
    /// The row of each team that is in one as a whole.
    whole: BTreeMap<T, usize>,
}

impl<T: Clone + Ord + Debug> Machine<T> {
    /// A machine without hosts, whose processes are under these rules.
    pub fn new(rules: Rules) -> Self {
        let (hosts, columns, whole) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { rules, live: Live::new(rules), hosts, moves: Vec::new(), columns, whole }
    }

    /// The matrix.
    pub fn matrix(&self) -> &Live<T, u32> {
        &self.live
    }

    /// The row that has all processes of a team.
    pub fn row_of(&self, team: &T) -> Option<usize> {
        self.whole.get(team).copied()
    }

    /// What a processor of a host chooses from in a slice: the places of its row, then those of the following rows, around the end.
    pub fn choices(&self, host: u32, row: usize) -> impl Iterator<Item = (&T, u32)> {
        let column = self.columns.get(&host).map_or(&[][..], Vec::as_slice);
        let (before, after) = column.split_at(column.partition_point(|place| place.0 < row));
        after.iter().chain(before).map(|(_, team, count)| (team, *count))
    }

    /// Processes that have gone to other hosts since this was asked last.
    pub fn take_moves(&mut self) -> Vec<Move<T, u32>> {
        std::mem::take(&mut self.moves)
    }

    /// A host joins, with no processes.
    pub fn join(&mut self, host: u32, processors: u32) {
        self.hosts.insert(host, Host { processors, has_owner: false, teams: BTreeMap::new() });
        self.live.report(host, processors, &BTreeMap::new());
        self.settle();
    }

    /// A host is lost, with its processes.
    pub fn lose(&mut self, host: u32) {
        if self.hosts.remove(&host).is_some() {
            self.live.leave(host);
            self.settle();
        }
    }

    /// Owners come back to their hosts. If there are processes that could go nowhere, that is an error, and no owner has come.
    pub fn owners_come(&mut self, hosts: &[u32]) -> Result<(), Error> {
        if hosts.is_empty() {
            return Ok(());
        }
        self.live.take_back(hosts)?;
        for host in hosts {
            if let Some(host) = self.hosts.get_mut(host) {
                host.has_owner = true;
            }
        }
        self.settle();
        Ok(())
    }

    /// Owners leave their hosts. Each host reports what it has; where processes move that is nothing, and the hosts join together.
    pub fn owners_leave(&mut self, hosts: &[u32]) {
        if hosts.is_empty() {
            return;
        }
        let mut joined = Vec::new();
        for host in hosts {
            if let Some(there) = self.hosts.get_mut(host) {
                there.has_owner = false;
                joined.push((*host, there.processors));
            }
        }
        if self.rules == Rules::Staying {
            for (host, _) in joined {
                self.report(host);
            }
        } else {
            self.live.join_all(joined);
        }
        self.settle();
    }

    /// A team starts on hosts that initial scheduling finds. Says how many of its processes go to each host.
    pub fn start(&mut self, team: &T, size: u32) -> Result<Counts<u32>, Error> {
        let counts = self.live.start(team, size)?;
        for (host, &count) in &counts {
            if let Some(host) = self.hosts.get_mut(host) {
                host.teams.insert(team.clone(), count);
            }
        }
        self.settle();
        Ok(counts)
    }

    /// A team has this number of processes on a host from now on.
    pub fn set(&mut self, host: u32, team: &T, processes: u32) {
        if let Some(there) = self.hosts.get_mut(&host) {
            there.teams.insert(team.clone(), processes);
            there.teams.retain(|_, count| *count > 0);
            self.report(host);
            self.settle();
        }
    }

    /// A team ends on all its hosts.
    pub fn end(&mut self, team: &T) {
        for host in self.hosts.values_mut() {
            host.teams.remove(team);
        }
        self.live.end_team(team);
        self.settle();
    }

    /// All rows have had their slices. Says whether that changed a row.
    pub fn sweep(&mut self) -> bool {
        let has_changed = self.live.sweep();
        if has_changed {
            self.settle();
        }
        has_changed
    }

    /// What the daemon of a host tells the master's.
    fn report(&mut self, host: u32) {
        if let Some(there) = self.hosts.get(&host) {
            let processors = if there.has_owner { 0 } else { there.processors };
            self.live.report(host, processors, &there.teams);
        }
    }

    /// The matrix has changed.
    fn settle(&mut self) {
        for step in self.live.take_moves() {
            if let Some(from) = self.hosts.get_mut(&step.from) {
                let count = from.teams.entry(step.team.clone()).or_insert(0);
                *count = count.saturating_sub(step.processes);
                from.teams.retain(|_, count| *count > 0);
            }
            if let Some(to) = self.hosts.get_mut(&step.to) {
                *to.teams.entry(step.team.clone()).or_insert(0) += step.processes;
            }
            self.moves.push(step);
        }
        let places = |&host: &u32| {
            let column = self.live.column(host).into_iter();
            (host, column.map(|(row, team, count)| (row, team.clone(), count)).collect())
        };
        self.columns = self.live.hosts().keys().map(places).collect();
        // Processes on a host with its owner have no row, and wait.
        let apart =
            |team: &T| self.hosts.values().any(|host| host.has_owner && host.teams.contains_key(team));
        let teams = self.live.rows().iter().flat_map(BTreeMap::keys);
        let whole = teams.filter_map(|team| Some((team.clone(), self.live.row_of_all(team)?)));
        self.whole = whole.filter(|(team, _)| !apart(team)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(rules: Rules) -> Machine<char> {
        let mut machine = Machine::new(rules);
        for host in 1..=3 {
            machine.join(host, 1);
        }
        machine.start(&'A', 2).expect("a new team");
        machine.start(&'B', 2).expect("a new team");
        machine
    }

    fn choices(machine: &Machine<char>, host: u32, row: usize) -> String {
        machine.choices(host, row).map(|(team, _)| team).collect()
    }

    #[test]
    fn a_processor_chooses_from_its_row_and_those_after_it() {
        let machine = machine(Rules::Moving);
        let rows = [(1, 0, "AB"), (1, 1, "BA"), (2, 0, "AB"), (3, 0, ""), (9, 0, "")];
        for (host, row, expected) in rows {
            assert_eq!(choices(&machine, host, row), expected, "host {host} in row {row}");
        }
    }

    #[test]
    fn processes_leave_an_owners_host_or_wait_there() {
        let mut moving = machine(Rules::Moving);
        moving.owners_come(&[1]).expect("two are left");
        let moves = moving.take_moves();
        assert_eq!(
            moves.iter().map(|step| (step.team, step.from, step.to)).collect::<Vec<_>>(),
            [('A', 1, 3), ('B', 1, 3)]
        );
        assert_eq!((moving.row_of(&'A'), moving.row_of(&'B')), (Some(0), Some(1)));
        moving.owners_come(&[2, 3]).expect_err("none would be left");

        let mut staying = machine(Rules::Staying);
        staying.owners_come(&[1]).expect("they wait");
        assert_eq!(
            (staying.take_moves().len(), staying.row_of(&'A'), choices(&staying, 1, 0)),
            (0, None, String::new())
        );
        staying.owners_leave(&[1]);
        assert_eq!((staying.row_of(&'A'), staying.row_of(&'B')), (Some(0), Some(1)));
        staying.end(&'A');
        assert_eq!((staying.row_of(&'A'), staying.row_of(&'B')), (None, Some(0)));
    }
}
