//! Jobs of the queues: calls of tasks, the steps of the master's state, and the tasks that this host runs.

use crate::Core;
use crate::addresses::{ReplyTo, Waiter};
use crate::event::Cookie;
use crate::jobs::JobTask;
use crate::master::{Command, Moment, Urgency};
use crate::spawn::{SIGKILL, SIGTERM, preset};
use crate::tasks::{Origin, Report};
use crate::timers::Timer;
use pvm_wire::calls::turns::{Receiver, TrafficByHost};
use pvm_wire::daemon::{Blob, MasterRequest, ToMaster};
use pvm_wire::jobs::{JobCall, JobId, Stamp, TaskOrder, group_of};
use pvm_wire::turn_rules::TurnRule;
use pvm_wire::{PvmError, Tid, tuned};
use std::time::Duration;

/// Bytes of jobs in one message, about.
const PIECE: usize = 4 << 20;
/// Between two reports of what tasks of jobs have sent.
const TRAFFIC_APART: Duration = Duration::from_secs(1);
/// A task that is to end has this time to put its affairs in order.
const GRACE: Duration = Duration::from_secs(5);
/// And this one if it has to leave the host to its owner.
const GRACE_FOR_OWNER: Duration = Duration::from_secs(1);

/// As the host of the task that calls.
impl Core {
    pub(crate) fn on_job_call(&mut self, to: ReplyTo, call: JobCall) {
        self.ask_master(MasterRequest::Jobs(call), Waiter::Jobs(to));
    }
}

/// As the master.
impl Core {
    /// Has the queues go on if they have something to do, and jobs written to disk that have changed.
    pub(crate) fn tend_jobs(&mut self) {
        let Some(master) = self.master_state() else { return };
        let (is_due, urgency, look) =
            (master.are_jobs_due(), master.jobs_to_save(), master.look_at_jobs_after());
        if is_due {
            self.advance_jobs();
        }
        match urgency {
            Some(Urgency::Now) => self.save_jobs(),
            Some(Urgency::Later) if !self.out.timers.is_set(Timer::SaveJobs) => {
                self.set_timer(tuned::JOB_SAVES_APART, Timer::SaveJobs);
            }
            _ => {}
        }
        if let Some(look) = look
            && !self.out.timers.is_due_by(self.now + look, Timer::AdvanceJobs)
        {
            self.out.timers.cancel(Timer::AdvanceJobs);
            self.set_timer(look, Timer::AdvanceJobs);
        }
    }

    /// A command has been carried out that the queues have proposed themselves.
    pub(crate) fn note_tended(&mut self, command: &Command) {
        match command {
            Command::AdvanceJobs(_) => self.tending.advances = false,
            Command::SaveJobs { .. } => self.tending.saves = false,
            Command::TakeOver { .. } => self.tending = Tending::default(),
            _ => {}
        }
    }

    pub(crate) fn save_jobs(&mut self) {
        let wants = self.master_state().is_some_and(|master| master.jobs_to_save().is_some());
        if wants && !std::mem::replace(&mut self.tending.saves, true) {
            let now = self.milliseconds();
            self.command(Command::SaveJobs { now });
        }
    }

    pub(crate) fn advance_jobs(&mut self) {
        if self.is_master() && !std::mem::replace(&mut self.tending.advances, true) {
            let (now, local_time) = (self.milliseconds(), self.loads.local_time());
            let loads = self.loads.for_queues();
            let owners = self.owners.all().collect();
            self.command(Command::AdvanceJobs(Moment { now, local_time, loads, owners }));
        }
    }

    pub(crate) fn on_jobs_saved(&mut self, serial: u64, failure: Option<String>) {
        self.command(Command::JobsSaved { serial, failure });
    }

    /// Since 1970.
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.time_of_day().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Commands for the queues that are on their way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tending {
    advances: bool,
    saves: bool,
}

/// As node.
impl Core {
    pub(crate) fn on_run_tasks(&mut self, order: TaskOrder) {
        self.jobs.add(order);
        self.start_job_tasks();
    }

    /// Starts as many of the tasks that wait as find slots.
    pub(crate) fn start_job_tasks(&mut self) {
        if self.jobs.waiting() == 0 || self.owners.is_own_here() {
            return;
        }
        loop {
            let others = (self.tasks.queued() as u32).saturating_sub(self.jobs.running());
            let Some(next) = self.jobs.next(self.config.slots, others) else { return };
            let (task, name) = (next.task, next.program.file.clone());
            let (policy, turns) =
                (preset::named_in(&next.program.env), TurnRule::named_in(&next.program.env));
            let announced = if self.tasks.running() < self.config.task_limit as usize {
                self.announce(|record| {
                    record.origin = Origin::Child;
                    record.report = Report::Job(task);
                    record.name = name;
                    record.policy = policy;
                    record.turns = turns;
                })
            } else {
                None
            };
            let Some((tid, cookie)) = announced else {
                let limit = self.config.task_limit;
                let reason =
                    format!("the host has no room for another task: it may have {limit} (PVM_TASK_LIMIT)");
                self.jobs.not_started(task, reason);
                continue;
            };
            self.enlist(tid, &group_of(task.job));
            if let Some(name) = next.group.clone() {
                // Before the process is there, so that the task finds itself a member whatever it does first.
                self.tell_master(ToMaster::JoinGroup { tid, name, instance: task.task });
            }
            self.jobs.begin(&next, tid, self.now);
            self.start_processes(vec![cookie], next.program);
        }
    }

    /// The jobs on this host's disk, for a master that was not the last.
    pub(crate) fn on_saved_read(&mut self, saved: Option<(Stamp, Vec<Blob>)>) {
        let (stamp, jobs) = saved.map_or((None, Vec::new()), |(stamp, jobs)| (Some(stamp), jobs));
        let (mut pieces, mut piece, mut bytes) = (Vec::new(), Vec::new(), 0);
        for job in jobs {
            if bytes > 0 && bytes + job.0.len() > PIECE {
                pieces.push(std::mem::take(&mut piece));
                bytes = 0;
            }
            bytes += job.0.len();
            piece.push(job);
        }
        pieces.push(piece);
        let last = pieces.len() - 1;
        for (number, jobs) in pieces.into_iter().enumerate() {
            self.tell_master(ToMaster::SavedJobs { stamp, jobs, more: number < last });
        }
    }

    /// The process of a job's task runs.
    pub(crate) fn job_task_started(&mut self, tid: Tid, task: JobTask) {
        let time = self.jobs.started(task, self.now);
        if self.jobs.is_ending(task) {
            // Until now there was no process to be told.
            self.signal_task(tid, SIGTERM);
        } else if let Some(time) = time {
            self.set_timer(time, Timer::JobTime(tid));
        }
    }

    /// A task has run for as long as it may.
    pub(crate) fn on_job_time(&mut self, tid: Tid) {
        let Some(Report::Job(task)) = self.tasks.get(tid).map(|task| task.report) else { return };
        if self.jobs.exceeds(task, "it ran longer than it may (--time, max-time)".to_owned()).is_some() {
            self.end_with_grace(tid);
        }
    }

    /// The processes of a task have more memory than they may.
    pub(crate) fn on_over_memory(&mut self, cookie: Cookie, limit: u64) {
        let Some(tid) = self.tasks.by_cookie(cookie) else { return };
        let Some(Report::Job(task)) = self.tasks.get(tid).map(|task| task.report) else { return };
        let limit = format!(
            "its processes had more than {} MiB of memory (--mem, max-memory)",
            limit.div_ceil(1 << 20)
        );
        if self.jobs.exceeds(task, limit).is_some() {
            self.end_with_grace(tid);
        }
    }

    /// A task is to end, and is killed if it does not.
    pub(crate) fn end_with_grace(&mut self, tid: Tid) {
        self.signal_task(tid, SIGTERM);
        let grace = if self.owners.is_own_here() { GRACE_FOR_OWNER } else { GRACE };
        self.set_timer(grace, Timer::EndGrace(tid));
    }

    /// A task that was to end has had its time.
    pub(crate) fn on_end_grace(&mut self, tid: Tid) {
        if self.tasks.get(tid).is_some_and(|task| matches!(task.report, Report::Job(_) | Report::Leaving(_)))
        {
            self.signal_task(tid, SIGKILL);
        }
    }

    /// The master has the tasks of a job ended.
    pub(crate) fn on_end_tasks(&mut self, job: JobId) {
        for tid in self.jobs.end(job) {
            self.end_with_grace(tid);
        }
    }

    /// The master has some tasks of a job ended, which begin again later.
    pub(crate) fn on_stop_tasks(&mut self, job: JobId, tasks: &[u32]) {
        for tid in self.jobs.stop(job, tasks) {
            self.end_with_grace(tid);
        }
    }

    pub(crate) fn job_task_not_started(&mut self, task: JobTask, (error, reason): (PvmError, String)) {
        let reason = if reason.is_empty() { error.name().to_owned() } else { reason };
        self.jobs.not_started(task, reason);
        self.start_job_tasks();
    }

    pub(crate) fn job_task_ended(&mut self, tid: Tid, task: JobTask, status: i32) {
        for timer in [Timer::JobTime(tid), Timer::EndGrace(tid)] {
            self.out.timers.cancel(timer);
        }
        self.jobs.ended(task, status, self.now);
    }

    /// A task says what it has sent to other hosts, which its job is measured by.
    pub(crate) fn on_network_traffic(&mut self, tid: Tid, told: TrafficByHost) {
        let Some(Report::Job(JobTask { job, .. })) = self.tasks.get(tid).map(|task| task.report) else {
            return;
        };
        for Receiver { tid: daemon, bytes } in told.hosts {
            let to = daemon.host().filter(|&to| to != self.config.index && self.hosts.contains(to));
            if let Some(to) = to {
                self.jobs.note_sent(job, to, bytes);
            }
        }
    }

    /// Tells the master of tasks, unless it has been told just now. Whether it has.
    pub(crate) fn settle_jobs(&mut self) -> bool {
        let reports = self.jobs.has_reports() && !self.out.timers.is_set(Timer::JobReports);
        // Before the end of a task: what is said of a job that is over does not count.
        let traffic = self.jobs.has_sent() && (reports || !self.out.timers.is_set(Timer::JobTraffic));
        if traffic {
            let sent = self.jobs.take_sent();
            self.tell_master(ToMaster::JobTraffic { sent });
            self.set_timer(TRAFFIC_APART, Timer::JobTraffic);
        }
        if reports {
            let reports = self.jobs.take_reports();
            self.tell_master(ToMaster::TaskReports { reports });
            self.set_timer(tuned::JOB_REPORTS_APART, Timer::JobReports);
        }
        reports || traffic
    }
}
