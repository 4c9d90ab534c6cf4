//! Rows of the machine's matrix: what this host reports, what it is told, and the clock that hosts agree on, which is the master's.

use super::{Teams, nanos};
use crate::addresses::TeamId;
use pvm_sched::coscheduling;
use pvm_sched::dasic::ROWS_MAX;
use pvm_wire::rows::{COLUMN_TEAMS_MAX, Column, Rows};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Answers of the master about its clock of which the fastest counts.
const ANSWERS: usize = 4;

/// This host's end.
#[derive(Debug, Default)]
pub(crate) struct HostRows {
    /// The master knows the processes that take turns.
    is_reported: bool,
    /// Rows that this host was told of.
    count: u32,
    /// Its clock when the master was asked last, and has not answered.
    asked: Option<u64>,
    /// Round trips, and by how much the master's clock was ahead then, all in nanoseconds.
    answers: VecDeque<(u64, i64)>,
}

impl HostRows {
    /// The processes that take turns have changed.
    pub fn note_change(&mut self) {
        self.is_reported = false;
    }

    /// The master has to be told of processes.
    pub fn is_report_due(&self) -> bool {
        !self.is_reported
    }

    /// There is another master: it knows nothing, and its clock is another one.
    pub fn new_master(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// Whether rows follow on each other, so that the clock matters.
    pub fn rotate(&self) -> bool {
        self.count > 1
    }

    /// The master is asked for its clock at this time.
    pub fn ask(&mut self, now: Duration) -> u64 {
        *self.asked.insert(nanos(now))
    }
}

impl Teams {
    /// What the master is told. A host whose owner is there has no processors for the matrix.
    pub fn column(&mut self, cores: u32) -> Column {
        self.rows.is_reported = true;
        let count = |(team, pids, _): (TeamId, &BTreeSet<i32>, bool)| {
            self.name(team).map(|name| (name.to_owned(), pids.len() as u32))
        };
        let cores = if self.is_suspended { 0 } else { cores };
        let teams: Vec<(String, u32)> =
            self.scheduler.teams().filter_map(count).take(COLUMN_TEAMS_MAX).collect();
        if teams.is_empty() {
            // A host without teams needs no clock, and a new master does not tell it so.
            self.rows.count = 0;
        }
        Column { cores, teams }
    }

    /// The master tells the rows of this host, which may be the master's.
    pub fn on_rows(&mut self, told: &Rows, is_master: bool, now: Duration) {
        let mut teams: BTreeMap<TeamId, BTreeSet<u32>> = BTreeMap::new();
        for (name, rows) in told.teams.iter().take(COLUMN_TEAMS_MAX) {
            if let Some(&team) = self.names.get(name) {
                teams.insert(team, rows.iter().copied().take(ROWS_MAX).collect());
            }
        }
        if is_master {
            self.scheduler.set_clock(0);
        } else if self.rows.answers.is_empty() {
            self.scheduler.set_clock(ahead(told.time, nanos(now)));
        }
        let slice = Duration::from_nanos(told.slice);
        self.rows.count = told.count;
        self.scheduler.give_rows(coscheduling::Rows::new(told.count, slice, told.first, teams));
    }

    /// The master has answered what its clock says: half of the round trip has gone by since.
    pub fn on_row_time(&mut self, asked: u64, time: u64, now: Duration) {
        if self.rows.asked.take_if(|expected| *expected == asked).is_none() {
            return;
        }
        let round = nanos(now).saturating_sub(asked);
        let answers = &mut self.rows.answers;
        answers.push_back((round, ahead(time.saturating_add(round / 2), nanos(now))));
        if answers.len() > ANSWERS {
            answers.pop_front();
        }
        if let Some(&(_, ahead)) = answers.iter().min_by_key(|(round, _)| round) {
            self.scheduler.set_clock(ahead);
        }
    }
}

fn ahead(time: u64, now: u64) -> i64 {
    time.wrapping_sub(now).cast_signed()
}
