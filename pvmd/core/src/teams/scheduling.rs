//! What the scheduler hears of this host's tasks, and what follows from its decisions.

use super::{Teams, is_name};
use crate::addresses::TeamId;
use crate::decision::Decision;
use crate::effect::{Effect, Mark};
use crate::event::Action;
use crate::tasks::{Task, Tasks};
use crate::timers::Timer;
use pvm_sched::coscheduling::{self, Reading};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::{PvmError, Tid};
use tracing::debug;

impl Teams {
    /// A task's process runs: from now on it takes turns with others. Only our own children do: a program that was started from a
    /// shell is not ours to stop, and the console must always answer.
    pub fn join(&mut self, tid: Tid, tasks: &Tasks, at: &mut Decision<'_>) {
        let Some(task) = tasks.get(tid).filter(|task| task.takes_turns() && !self.is_suspended) else {
            return;
        };
        let decisions = self.scheduler.join(task.team, task.pid, at.now);
        self.rows.note_change();
        self.apply(decisions, tasks, at);
    }

    /// The owner of the host is there, or is not any more: no task of this host takes turns meanwhile.
    pub fn suspend(&mut self, is_suspended: bool, tasks: &Tasks, at: &mut Decision<'_>) {
        if !is_suspended {
            self.is_suspended = false;
        }
        for task in tasks.iter().filter(|task| task.takes_turns()) {
            if is_suspended {
                self.leave((task.team, task.pid), false, tasks, at);
            } else {
                self.join(task.tid, tasks, at);
            }
        }
        self.is_suspended = is_suspended;
        self.rows.note_change();
    }

    /// A process takes no turns any more. Unless it has ended it is let go.
    pub fn leave(
        &mut self,
        (team, pid): (TeamId, i32),
        has_ended: bool,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        let decisions = self.scheduler.leave(team, pid, has_ended, at.now);
        self.rows.note_change();
        self.apply(decisions, tasks, at);
    }

    /// A task is over, and its process has ended.
    pub fn task_over(&mut self, task: &Task, tasks: &Tasks, at: &mut Decision<'_>) {
        self.leave((task.team, task.pid), true, tasks, at);
        self.dismiss(task.team);
        self.awaits.remove(&task.tid);
    }

    /// A task has enrolled: it has to know whether turns are taken.
    pub fn task_enrolled(&self, tid: Tid, tasks: &Tasks, at: &mut Decision<'_>) {
        if self.are_turns_taken() && tasks.get(tid).is_some_and(|task| task.extended) {
            self.tell_task(tid, tasks, at);
        }
    }

    /// A task says to which team it belongs.
    pub fn on_team(
        &mut self,
        tid: Tid,
        name: &str,
        tasks: &mut Tasks,
        at: &mut Decision<'_>,
    ) -> Result<(), PvmError> {
        if !is_name(name) {
            return Err(PvmError::BadParam);
        }
        let Some(task) = tasks.get(tid).filter(|task| self.name(task.team) != Some(name)) else {
            return Ok(());
        };
        self.leave((task.team, task.pid), false, tasks, at);
        if let Some(task) = tasks.get_mut(tid) {
            self.enlist(task, name);
        }
        self.join(tid, tasks, at);
        if self.are_turns_taken() {
            self.tell_task(tid, tasks, at);
        }
        Ok(())
    }

    /// A timer of the scheduler's.
    pub fn on_timer(&mut self, timer: coscheduling::Timer, tasks: &Tasks, at: &mut Decision<'_>) {
        let decisions = self.scheduler.timer(timer, at.now);
        self.apply(decisions, tasks, at);
    }

    /// The driver has looked, and nothing has happened meanwhile.
    pub fn on_usage(&mut self, reading: Reading, tasks: &Tasks, at: &mut Decision<'_>) {
        let decisions = self.scheduler.read(reading, at.now);
        self.apply(decisions, tasks, at);
    }

    /// A task sleeps until something comes, or no more.
    pub fn on_sleep(&mut self, tid: Tid, sleeps: bool, tasks: &Tasks, at: &mut Decision<'_>) {
        let Some(task) = tasks.get(tid).filter(|task| task.takes_turns()) else { return };
        let decisions = self.scheduler.slept(task.team, task.pid, sleeps, at.now);
        self.apply(decisions, tasks, at);
    }

    /// A fragment of this many bytes is passed on for a task of this host, if that is known.
    pub fn carried(&mut self, task: Option<&Task>, bytes: usize) {
        self.scheduler.carried(turn_taking(task), bytes);
    }

    /// Does what the scheduler has decided.
    pub(super) fn apply(
        &mut self,
        decisions: Vec<coscheduling::Decision<TeamId>>,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        for decision in decisions {
            match decision {
                coscheduling::Decision::Dispatch { pid, runs } => at.out.act(Action::Dispatch { pid, runs }),
                coscheduling::Decision::Read { pids } => at.out.act(Action::ReadUsage { pids }),
                coscheduling::Decision::Timer { after, timer } => {
                    at.out.push(Effect::SetTimer(after, Timer::Coscheduling(timer)));
                }
                coscheduling::Decision::TurnBegan(team) => self.remind(team, tasks, at),
                coscheduling::Decision::Shared(taken) => {
                    debug!(taken, "teams begin or cease to take turns");
                    for &host in self.peers.keys() {
                        at.out.tell(host, DaemonMsg::Turns { taken });
                    }
                    self.tell_tasks(tasks, at);
                }
                coscheduling::Decision::WantsSleeps => self.tell_tasks(tasks, at),
            }
        }
    }

    /// Tasks with direct routes have to know of turns: their messages do not pass by here.
    pub(super) fn tell_tasks(&mut self, tasks: &Tasks, at: &mut Decision<'_>) {
        let told = (self.are_turns_taken(), self.scheduler.wants_sleeps());
        if std::mem::replace(&mut self.told_tasks, told) == told {
            return;
        }
        for task in tasks.iter().filter(|task| task.extended && task.conn.is_some()) {
            self.tell_task(task.tid, tasks, at);
        }
    }

    /// Whether turns are taken anywhere, which team's are the task's own, and whether it is to say when it sleeps.
    fn tell_task(&self, tid: Tid, tasks: &Tasks, at: &mut Decision<'_>) {
        let team = turn_taking(tasks.get(tid)).map(TeamId::number);
        let tells = team.is_some() && self.scheduler.wants_sleeps();
        let body = BodyWriter::new()
            .int(i32::from(self.are_turns_taken()))
            .int(team.unwrap_or(0).cast_signed())
            .int(i32::from(tells))
            .finish();
        at.out.send(tid, Mark::new(CONTEXT_TC, Tcx::Turns.tag()), body);
    }
}

/// A task's team, if it takes turns.
pub(super) fn turn_taking(task: Option<&Task>) -> Option<TeamId> {
    task.filter(|task| task.takes_turns()).map(|task| task.team)
}
