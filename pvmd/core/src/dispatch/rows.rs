//! Rows of the machine's matrix: between this host and the master.

use crate::Core;
use crate::addresses::PeerTo;
use crate::tasks::Task;
use crate::teams::nanos;
use crate::timers::Timer;
use pvm_sched::dasic::Move;
use pvm_wire::daemon::{DaemonMsg, PeerReply};
use pvm_wire::rows::{Column, Rows, RowsReport};
use pvm_wire::tuned::JOB_REPORTS_APART;
use pvm_wire::{HostIndex, Tid};
use std::time::Duration;
use tracing::debug;

/// Between two questions for the master's clock: clocks that differ by 100 parts in a million are apart by 0.2 ms then.
const CLOCK_APART: Duration = Duration::from_secs(2);

impl Core {
    /// Reports this host's processes to the master, and as the master tells hosts their rows, unless that has just been done. Whether there was anything.
    pub(crate) fn settle_rows(&mut self) -> bool {
        let Some(slice) = self.config.slice else { return false };
        if let Some(master) = self.hosts.master()
            && !self.teams.rows.is_settled()
            && self.hosts.contains(self.config.index)
            && !self.out.timers.is_set(Timer::Column)
            && let Some(column) = self.teams.report(&self.tasks, self.config.cores, self.config.has_rows)
        {
            self.tell(master, DaemonMsg::Column(column));
            self.set_timer(JOB_REPORTS_APART, Timer::Column);
            return true;
        }
        if !self.is_master() || !self.rows.has_changed() || self.out.timers.is_set(Timer::Rows) {
            return false;
        }
        for (host, rows) in self.rows.take_news(slice, self.now) {
            self.tell(host, DaemonMsg::Rows(rows));
        }
        self.set_timer(JOB_REPORTS_APART, Timer::Rows);
        self.sweep_later(slice);
        true
    }

    fn sweep_later(&mut self, slice: Duration) {
        if self.rows.count() > 1 && !self.out.timers.is_set(Timer::Sweep) {
            self.set_timer(slice * self.rows.count(), Timer::Sweep);
        }
    }

    /// As the master: all rows have had their slices.
    pub(crate) fn on_sweep(&mut self) {
        if let Some(slice) = self.config.slice.filter(|_| self.is_master()) {
            self.rows.sweep();
            for Move { team, from, to, processes } in self.rows.gather(self.now) {
                self.tell(from, DaemonMsg::Gather { team, to, count: processes });
            }
            self.sweep_later(slice);
        }
    }

    /// As the master: a host reports its processes.
    pub(crate) fn on_column(&mut self, host: HostIndex, column: Column) {
        if self.is_master() && self.hosts.contains(host) && self.config.slice.is_some() {
            self.rows.heard(host, column);
        }
    }

    /// The master tells the rows of this host.
    pub(crate) fn on_rows(&mut self, rows: &Rows) {
        if self.config.slice.is_some() {
            let is_master = self.is_master();
            self.teams.on_rows(rows, is_master, self.now);
            if !self.out.timers.is_set(Timer::RowClock) {
                self.ask_row_clock();
            }
        }
    }

    /// The master says that tasks of a team are to move to another host, where the rest of the team has its turns with them.
    pub(crate) fn on_gather(&mut self, team: &str, to: HostIndex, count: u32) {
        let is_of_it = |task: &&Task| {
            task.can_be_gathered()
                && !self.moves.is_to_leave(task.tid)
                && self.teams.name_of(Some(task), task.tid) == team
        };
        let tids: Vec<Tid> = self.tasks.iter().filter(is_of_it).map(|task| task.tid).collect();
        for tid in tids.into_iter().take(count as usize) {
            if let Err((error, reason)) = self.begin_move(tid, Some(to), None) {
                debug!(task = %tid, error = error.name(), reason, "does not move to its team");
            }
        }
    }

    /// Asks for the master's clock while rows follow on each other.
    pub(crate) fn ask_row_clock(&mut self) {
        let master = self.hosts.master().filter(|&master| master != self.config.index);
        if let Some(master) = master.filter(|_| self.teams.rows.rotate()) {
            let asked = self.teams.rows.ask(self.now);
            self.tell(master, DaemonMsg::RowClock { asked });
            self.set_timer(CLOCK_APART, Timer::RowClock);
        }
    }

    /// As the master: a host asks for the clock.
    pub(crate) fn on_row_clock(&mut self, host: HostIndex, asked: u64) {
        self.tell(host, DaemonMsg::RowTime { asked, time: nanos(self.now) });
    }

    /// A daemon wants to know the whole matrix.
    pub(crate) fn on_rows_wanted(&mut self, to: PeerTo) {
        let report = self.config.slice.zip(self.master_state()).map(|(slice, master)| RowsReport {
            is_on: self.config.has_rows || master.wants_rows() || self.rows.count() > 0,
            ..self.rows.report(&self.hosts, slice, self.now)
        });
        self.answer(to, PeerReply::Rows { report: report.unwrap_or_default() });
    }

    /// There is another master, which may be this host.
    pub(crate) fn rows_of_new_master(&mut self) {
        self.rows = crate::rows::MasterRows::default();
        self.teams.rows.new_master();
        self.out.timers.cancel(Timer::Column);
    }
}
