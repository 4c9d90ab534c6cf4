//! Rows of the machine's matrix: what this host reports, what it is told, and the clock that hosts agree on, which is the master's.

use super::{Teams, nanos};
use crate::addresses::TeamId;
use crate::tasks::Tasks;
use pvm_sched::coscheduling;
use pvm_sched::dasic::ROWS_MAX;
use pvm_wire::rows::{COLUMN_TEAMS_MAX, Column, Processes, Rows};
use pvm_wire::turn_rules::TurnRule;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Answers of the master about its clock of which the fastest counts.
const ANSWERS: usize = 4;

/// This host's end.
#[derive(Debug, Default)]
pub(crate) struct HostRows {
    /// The processes that take turns are those of the last report, as far as the master wants to know.
    is_settled: bool,
    /// What the master was told last; before that this host takes no part.
    reported: Column,
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
        self.is_settled = false;
    }

    /// The master may have to be told of processes.
    pub fn is_settled(&self) -> bool {
        self.is_settled
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
    /// What the master is to be told, if it does not know it. All teams are for the matrix of the machine, if it `has_rows`, or else those of
    /// which a queue says so.
    pub fn report(&mut self, tasks: &Tasks, cores: u32, has_rows: bool) -> Option<Column> {
        self.rows.is_settled = true;
        let movable = tasks.iter().filter(|task| task.can_be_gathered());
        let column = self.column(&movable.map(|task| task.pid).collect(), cores, has_rows);
        if column.teams.is_empty() {
            // A host without teams needs no clock, and a new master does not tell it so.
            self.rows.count = 0;
        }
        if column.cores == 0 {
            // The master has no rows for it any more. Those that are on their way do not count.
            self.scheduler.give_rows(None);
        }
        let is_news = column != self.rows.reported;
        self.rows.reported.clone_from(&column);
        is_news.then_some(column)
    }

    /// This host's part of the matrix. One whose owner is there has no processors for it.
    fn column(&self, movable: &BTreeSet<i32>, cores: u32, has_rows: bool) -> Column {
        let is_in = |team: TeamId| match self.roster.get(&team).and_then(|listed| listed.turns) {
            Some(TurnRule::Rows) => true,
            Some(TurnRule::Demand) => false,
            Some(TurnRule::None) | None => has_rows,
        };
        let count = |(team, pids, _): (TeamId, &BTreeSet<i32>, bool)| {
            let (count, movable) = (pids.len() as u32, pids.intersection(movable).count() as u32);
            self.name(team).map(|name| (name.to_owned(), Processes { count, movable }))
        };
        let placed = self.scheduler.teams().filter(|&(team, ..)| is_in(team));
        let teams: Vec<(String, Processes)> = placed.filter_map(count).take(COLUMN_TEAMS_MAX).collect();
        if self.is_suspended || teams.is_empty() && !has_rows {
            return Column::default();
        }
        let has_others = self.scheduler.teams().any(|(team, ..)| !is_in(team));
        Column { cores, teams, has_others }
    }

    /// The master tells the rows of this host, which may be the master's.
    pub fn on_rows(&mut self, told: &Rows, is_master: bool, now: Duration) {
        if self.rows.reported.cores == 0 {
            return;
        }
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
        let rows = coscheduling::Rows::new(told.count, slice, told.first, teams);
        self.scheduler.give_rows(rows.map(|rows| rows.with_others(told.others)));
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
