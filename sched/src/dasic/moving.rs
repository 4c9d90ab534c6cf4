//! What a team, a host or an owner does to the matrix where processes can have their places on any host, and the team table.

use super::live::{Counts, Live, Move, Rules, add, total};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Why an operation was refused. The matrix is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There would be processes and no processor.
    #[error("no processor is left for the processes")]
    NoProcessor,
    /// There is a team of this name.
    #[error("there is a team of this name")]
    TeamExists,
    /// A team has at least one process.
    #[error("a team needs a process")]
    EmptyTeam,
}

impl<T: Clone + Ord + Debug, H: Copy + Ord + Debug> Live<T, H> {
    /// `P'`: the processors of all hosts.
    pub fn processors(&self) -> u64 {
        total(&self.hosts)
    }

    /// The row that a team is in, if all of it has places in one: the team is coscheduled.
    pub fn row_of_all(&self, team: &T) -> Option<usize> {
        match self.own_rows(team)[..] {
            [row] if !self.waiting.contains(team) => Some(row),
            _ => None,
        }
    }

    /// `process-team-vector`: a team's size if it is coscheduled, otherwise its size modulo `P'`.
    pub fn team_vector(&self, team: &T) -> u64 {
        let size = self.teams.get(team).map_or(0, total);
        if self.row_of_all(team).is_some() { size } else { size % self.processors().max(1) }
    }

    /// Where each process is that is to be on another host than before, since this was asked last: nothing under [`Rules::Staying`].
    pub fn take_moves(&mut self) -> Vec<Move<T, H>> {
        std::mem::take(&mut self.moves)
    }

    /// Initial scheduling of a new team that can have its processes on any hosts: the first row with room for all of it, otherwise a new one. A team
    /// larger than `P'` has rows of its own while it fills them; the rest is placed as a team of its size. Says how many processes go to each host.
    pub fn start(&mut self, team: &T, size: u32) -> Result<Counts<H>, Error> {
        if self.teams.contains_key(team) {
            return Err(Error::TeamExists);
        } else if size == 0 {
            return Err(Error::EmptyTeam);
        } else if self.hosts.is_empty() {
            return Err(Error::NoProcessor);
        }
        let mut left = size;
        while left > 0 {
            let part = u64::from(left).min(self.processors()) as u32;
            let row = (0..self.rows.len()).find(|&row| self.idle(row, None) >= u64::from(part));
            let row = row.or_else(|| self.add_row());
            let places = self.first_places(row, part);
            match row {
                Some(row) => self.put(team, row, &places),
                None => drop(self.waiting.insert(team.clone())),
            }
            add(self.teams.entry(team.clone()).or_default(), &places);
            left -= part;
        }
        Ok(self.teams[team].clone())
    }

    /// The first free places of a row, or of one that there could be: this many, if it has them.
    fn first_places(&self, row: Option<usize>, count: u32) -> Counts<H> {
        let mut left = count;
        let mut places = Counts::new();
        for (&host, &processors) in &self.hosts {
            let part = left.min(row.map_or(processors, |row| self.free(row, host)));
            if part > 0 {
                places.insert(host, part);
                left -= part;
            }
        }
        places
    }

    /// A team has ended on all hosts, and the rows that it had are filled.
    pub fn end_team(&mut self, team: &T) {
        let hosts: Vec<H> = self.teams.get(team).into_iter().flat_map(BTreeMap::keys).copied().collect();
        let mut lost = BTreeSet::new();
        for host in hosts {
            lost.extend(self.end(team, host, u32::MAX));
        }
        self.fill(&lost);
    }

    /// Growing: hosts are there with these processors, at least one each, `S` together. Where processes move, the remainder of each team that is not
    /// coscheduled goes to them in the team's key row, if `process-team-vector ≤ S` and they have room for all of it there.
    pub fn join_all(&mut self, hosts: impl IntoIterator<Item = (H, u32)>) {
        let vectors: Vec<(T, u64)> =
            self.teams.keys().map(|team| (team.clone(), self.team_vector(team))).collect();
        let mut joined = BTreeSet::new();
        for (host, processors) in hosts {
            let processors = processors.max(1);
            match self.hosts.get(&host) {
                Some(&known) if known == processors => continue,
                Some(_) => self.leave(host),
                None => {}
            }
            self.hosts.insert(host, processors);
            joined.insert(host);
        }
        let more: u64 = joined.iter().map(|host| u64::from(self.hosts[host])).sum();
        if self.rules == Rules::Moving {
            for (team, _) in vectors.iter().filter(|(_, vector)| *vector <= more) {
                self.gather(team, Some(&joined));
            }
            self.drop_empty_rows();
        }
    }

    /// Shrinking: owners take hosts back. Where processes move, they go one after the other to the processor that has the fewest, in their own row if
    /// there is room; some host has to be left for them. Simple on purpose: packing restores coscheduling later. Where they stay, they have no places
    /// until the hosts join again, and report them.
    pub fn take_back(&mut self, hosts: &[H]) -> Result<(), Error> {
        let gone: BTreeSet<H> = hosts.iter().copied().filter(|host| self.hosts.contains_key(host)).collect();
        if self.rules == Rules::Staying {
            for host in gone {
                self.leave(host);
            }
            return Ok(());
        }
        if !self.teams.is_empty() && gone.len() == self.hosts.len() {
            return Err(Error::NoProcessor);
        }
        let mut allocation: Counts<H> =
            self.hosts.keys().filter(|host| !gone.contains(host)).map(|&host| (host, 0)).collect();
        for (host, count) in &mut allocation {
            *count = self.used.iter().map(|used| used.get(host).copied().unwrap_or(0)).sum();
        }
        for row in 0..self.rows.len() {
            for &host in &gone {
                self.evict(row, host, &mut allocation);
            }
        }
        for &host in &gone {
            let teams: Vec<T> = self.teams_of(host).cloned().collect();
            for team in teams {
                // These had no places.
                let to = allocation.iter().min_by_key(|(_, count)| **count).map_or(host, |(&to, _)| to);
                self.note_move(&team, host, to, self.teams[&team][&host]);
            }
            self.hosts.remove(&host);
        }
        self.drop_empty_rows();
        self.place_waiting();
        Ok(())
    }

    /// The processes of a row on a host go to others, of which this is the allocation.
    fn evict(&mut self, row: usize, host: H, allocation: &mut Counts<H>) {
        let of = |(team, counts): (&T, &Counts<H>)| Some((team.clone(), *counts.get(&host)?));
        let evicted: Vec<(T, u32)> = self.rows[row].iter().filter_map(of).collect();
        for (team, count) in evicted {
            for _ in 0..count {
                // The processors of a host share what it has.
                let of = |(&to, &count): (&H, &u32)| (count / self.hosts[&to], self.free(row, to) == 0);
                let to = allocation.iter().min_by_key(|&entry| of(entry)).map_or(host, |(&to, _)| to);
                let has_place = |&row: &usize| self.free(row, to) > 0;
                let place = std::iter::once(row).chain(0..self.rows.len()).find(has_place);
                self.lift(&team, row, &Counts::from([(host, 1)]));
                match place.or_else(|| self.add_row()) {
                    Some(place) => self.put(&team, place, &Counts::from([(to, 1)])),
                    None => drop(self.waiting.insert(team.clone())),
                }
                self.note_move(&team, host, to, 1);
                *allocation.entry(to).or_insert(0) += 1;
            }
        }
    }

    /// `idle-vector`: what is free in a row, on these hosts if any are named.
    pub(super) fn idle(&self, row: usize, onto: Option<&BTreeSet<H>>) -> u64 {
        self.hosts.keys().map(|&host| u64::from(self.free_of(row, host, onto))).sum()
    }

    fn free_of(&self, row: usize, host: H, onto: Option<&BTreeSet<H>>) -> u32 {
        if onto.is_none_or(|onto| onto.contains(&host)) { self.free(row, host) } else { 0 }
    }

    /// Whether a row has room for processes: on their hosts or, where they move, on any, or on those that are named.
    pub(super) fn has_room(&self, row: usize, counts: &Counts<H>, onto: Option<&BTreeSet<H>>) -> bool {
        match self.rules {
            Rules::Moving => total(counts) <= self.idle(row, onto),
            Rules::Staying | Rules::Unbalanced => self.has_places(row, counts),
        }
    }

    /// Processes that had places in other rows get some in this one, which has room for them: those that can on their hosts, the others on the first
    /// that are free.
    pub(super) fn settle(&mut self, parts: Vec<(T, Counts<H>)>, row: usize, onto: Option<&BTreeSet<H>>) {
        let mut others: BTreeMap<(H, T), u32> = BTreeMap::new();
        for (team, counts) in parts {
            for (host, count) in counts {
                let stay = count.min(self.free_of(row, host, onto));
                if stay > 0 {
                    self.put(&team, row, &Counts::from([(host, stay)]));
                }
                if stay < count {
                    others.insert((host, team.clone()), count - stay);
                }
            }
        }
        let hosts: Vec<H> = self.hosts.keys().copied().filter(|_| !others.is_empty()).collect();
        for ((from, team), mut left) in others {
            for &to in &hosts {
                let part = left.min(self.free_of(row, to, onto));
                if part > 0 {
                    self.put(&team, row, &Counts::from([(to, part)]));
                    self.note_move(&team, from, to, part);
                    left -= part;
                }
            }
        }
    }

    /// Processes of a team are to be on another host.
    fn note_move(&mut self, team: &T, from: H, to: H, processes: u32) {
        let counts = self.teams.entry(team.clone()).or_default();
        super::live::subtract(counts, Some(&Counts::from([(from, processes)])));
        add(counts, &Counts::from([(to, processes)]));
        self.moves.push(Move { team: team.clone(), from, to, processes });
    }
}
