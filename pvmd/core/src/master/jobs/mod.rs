//! The queues' jobs: which were accepted, where their tasks run, and what has become of them.
//!
//! What depends on the time happens in one step, [`Jobs::advance`], whose command has the time: reports of hosts are noted, jobs that
//! are over are ended, and others start. So deputies that carry out the same commands have the same jobs.
//!
//! A job starts when it is on disk, and is answered for then. A [`Command::SaveJobs`](super::Command) hands what has changed to the
//! driver; one is under way at a time.

mod job;
mod numbers;

use super::Master;
use crate::addresses::PeerTo;
use crate::effect::{Effect, Effects};
use crate::event::Action;
use job::{Ended, Job};
use pvm_sched::queues::{Limits, Queue, Rules, Scheduler};
use pvm_wire::HostIndex;
use pvm_wire::codec;
use pvm_wire::daemon::{Blob, FromMaster, HostEntry, MasterReply};
use pvm_wire::jobs::{
    JOB_TASKS_MAX, JobAnswer, JobCall, JobId, JobRecord, JobRequest, JobState, QueueRecord, TaskReport, Tasks,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tracing::{info, warn};

/// Jobs that have ended and are still known.
const HISTORY: usize = 10_000;
/// While jobs wait the queues look again after this time: their order depends on it.
const LOOK: Duration = Duration::from_secs(10);
/// The same while the tasks of a lost host are about to run again.
const LOST_LOOK: Duration = Duration::from_secs(1);
/// Jobs that have not ended, at most.
const JOBS_MAX: usize = 1_000_000;

/// All jobs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Jobs {
    scheduler: Scheduler<HostIndex>,
    all: BTreeMap<JobId, Job>,
    /// Those that have ended, the earliest first.
    ended: VecDeque<JobId>,
    next: u64,
    /// Jobs that wait for the end of another one, by that.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// What hosts have reported since the last step.
    reports: Vec<(HostIndex, TaskReport)>,
    /// Hosts that are out and had tasks, and when these have ended.
    lost: BTreeMap<HostIndex, Option<u64>>,
    /// After how many milliseconds that is.
    lost_end: u64,
    /// Rigid jobs of which a task has failed: the others are to be ended.
    doomed: BTreeSet<JobId>,
    /// Slots of hosts that are members, or are to be.
    slots: BTreeMap<HostIndex, u32>,
    /// Who waits for the end of jobs.
    waiters: Vec<(PeerTo, Vec<JobId>)>,
    /// Jobs that were submitted and are not on disk, and whom to tell.
    unsaved: BTreeMap<JobId, PeerTo>,
    /// Jobs that are on disk otherwise than they are now.
    changed: BTreeSet<JobId>,
    /// What is being written: its number, and the jobs.
    saving: Option<(u64, BTreeSet<JobId>)>,
    saves: u64,
    /// Whether the next step has something to do.
    is_due: bool,
    /// The time of the last step, in milliseconds since 1970.
    now: u64,
}

impl Jobs {
    /// With what is on disk of an earlier machine.
    pub fn new(queues: Vec<Queue>, saved: &[Blob], lost_end: Duration) -> Self {
        let mut jobs = Self {
            scheduler: Scheduler::new(queues, Rules::default()),
            all: BTreeMap::new(),
            ended: VecDeque::new(),
            next: 1,
            dependents: BTreeMap::new(),
            reports: Vec::new(),
            lost: BTreeMap::new(),
            lost_end: u64::try_from(lost_end.as_millis()).unwrap_or(u64::MAX),
            doomed: BTreeSet::new(),
            slots: BTreeMap::new(),
            waiters: Vec::new(),
            unsaved: BTreeMap::new(),
            changed: BTreeSet::new(),
            saving: None,
            saves: 0,
            is_due: !saved.is_empty(),
            now: 0,
        };
        for bytes in saved {
            match codec::decode::<Job>(&bytes.0) {
                Ok(job) => drop(jobs.all.insert(job.id, job)),
                Err(error) => warn!(%error, "a job on disk cannot be read: left out"),
            }
        }
        for id in jobs.all.keys().copied().collect::<Vec<_>>() {
            jobs.restore(id);
        }
        let mut ended: Vec<(Option<u64>, JobId)> =
            jobs.all.values().filter(|job| job.ended.is_some()).map(|job| (job.ended, job.id)).collect();
        ended.sort_unstable();
        jobs.ended = ended.into_iter().map(|(_, id)| id).collect();
        jobs
    }

    /// A job that was on disk goes on where it was.
    fn restore(&mut self, id: JobId) {
        self.next = self.next.max(id.0 + 1);
        let Some(mut job) = self.all.remove(&id) else { return };
        job.begin_again();
        // What became of the others may have been written later.
        let state = |other: &JobId| self.all.get(other).filter(|job| job.ended.is_some()).map(Job::state);
        let states: BTreeMap<JobId, Option<JobState>> =
            job.after.iter().map(|&other| (other, state(&other))).collect();
        job.after.retain(|other| states.get(other) != Some(&Some(JobState::Done)));
        if let Some((other, _)) =
            states.iter().find(|(_, state)| state.is_some_and(|state| state != JobState::Done))
        {
            job.cancel(&format!("job {other}, for which it waited, has not ended well"));
        }
        if job.ended.is_none() {
            self.changed.insert(id);
            self.note_dependencies(&job);
            if !job.is_over() {
                self.enqueue(&job);
            }
        }
        self.all.insert(id, job);
    }

    fn note_dependencies(&mut self, job: &Job) {
        for &other in &job.after {
            self.dependents.entry(other).or_default().insert(job.id);
        }
    }

    /// Jobs that have not ended.
    pub fn live(&self) -> usize {
        self.all.len() - self.ended.len()
    }

    /// Whether there is something to do in a step.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Whether something is to be written now, or within a while.
    pub fn wants_save(&self) -> Option<Urgency> {
        match () {
            () if self.saving.is_some() || self.changed.is_empty() => None,
            () if self.unsaved.is_empty() => Some(Urgency::Later),
            () => Some(Urgency::Now),
        }
    }

    /// A host has so many slots.
    pub fn note_slots(&mut self, host: HostIndex, slots: u32) {
        self.slots.insert(host, slots);
    }

    /// A host is a member.
    pub fn host_joined(&mut self, entry: &HostEntry) {
        let slots = self.slots.get(&entry.index).copied().unwrap_or(1);
        self.scheduler.host_joined(entry.index, &entry.name, slots, entry.capability);
        self.is_due |= !self.scheduler.is_empty();
    }

    /// A host is out. What it runs has to run again when it has ended there: it may be cut off, and not know that it is out.
    pub fn host_gone(&mut self, host: HostIndex) {
        self.slots.remove(&host);
        self.scheduler.host_gone(host);
        self.waiters.retain(|(to, _)| to.host != host);
        if self.all.values().any(|job| job.ended.is_none() && job.has_given(host)) {
            self.lost.insert(host, None);
            self.is_due = true;
        }
    }

    /// The daemon of a host that is out has ended, and its tasks with it.
    pub fn note_ended(&mut self, host: HostIndex) {
        if let Some(due) = self.lost.get_mut(&host) {
            *due = Some(0);
            self.is_due = true;
        }
    }

    /// What hosts have run that are lost, and have ended their tasks by now, runs again.
    fn replace_lost(&mut self) {
        let end = self.now.saturating_add(self.lost_end);
        self.lost.values_mut().for_each(|due| *due = due.or(Some(end)));
        let ended: Vec<HostIndex> = self
            .lost
            .iter()
            .filter(|(_, due)| due.is_some_and(|due| due <= self.now))
            .map(|(&host, _)| host)
            .collect();
        for host in ended {
            self.lost.remove(&host);
            self.take_back(host);
        }
    }

    fn take_back(&mut self, host: HostIndex) {
        for id in self.all.keys().copied().collect::<Vec<_>>() {
            let Some(job) = self.all.get_mut(&id).filter(|job| job.ended.is_none()) else { continue };
            for ended in job.host_lost(host) {
                self.task_ended(id, ended);
            }
        }
    }

    /// Hosts report of tasks.
    pub fn note(&mut self, host: HostIndex, reports: Vec<TaskReport>) {
        self.reports.extend(reports.into_iter().map(|report| (host, report)));
        self.is_due = true;
    }

    /// An answer is not wanted any more.
    pub fn forget_waiter(&mut self, to: PeerTo) {
        self.waiters.retain(|(waiter, _)| *waiter != to);
    }

    /// Another host is the master, with a clock of its own, and has nothing on disk.
    pub fn take_over(&mut self) {
        self.now = 0;
        self.lost.values_mut().for_each(|due| *due = due.filter(|due| *due == 0));
        self.saving = None;
        self.changed = self.all.keys().copied().collect();
        self.is_due |= !self.all.is_empty();
    }

    /// Puts a job's waiting tasks into the queue.
    fn enqueue(&mut self, job: &Job) {
        let (id, queue, user) = (job.id.0, job.queue.clone(), &job.request.user);
        self.scheduler.submit(id, queue, user, job.demand.clone(), job.waiting(), job.submitted);
        self.scheduler.hold(id, job.is_held || job.waits_for_jobs());
    }
}

/// When something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Now,
    /// Tasks that end meanwhile run again if the computer loses its power.
    Later,
}

/// Calls.
impl Jobs {
    fn submit(&mut self, to: PeerTo, request: JobRequest, out: &mut Effects) {
        match self.admit(&request) {
            Err(reason) => answer(to, JobAnswer::Refused(reason), out),
            Ok((queue, demand)) => {
                let id = JobId(self.next);
                self.next += 1;
                info!(job = %id, name = request.name, user = request.user, queue, "submitted");
                let mut job = Job::new(id, request, queue, demand);
                job.after.retain(|id| self.all.get(id).is_some_and(|job| job.ended.is_none()));
                self.note_dependencies(&job);
                self.all.insert(id, job);
                self.changed.insert(id);
                self.unsaved.insert(id, to);
            }
        }
    }

    fn admit(&self, request: &JobRequest) -> Result<(String, pvm_sched::queues::Demand), String> {
        let count = request.tasks.count();
        if count > JOB_TASKS_MAX {
            return Err(format!("a job has {JOB_TASKS_MAX} tasks at most, not {count}"));
        }
        if let Tasks::Array { first, count, .. } = request.tasks
            && first.checked_add(count).is_none()
        {
            return Err(format!("the numbers of tasks end at {}", u32::MAX));
        }
        if self.live() >= JOBS_MAX {
            return Err(format!("the machine has {JOBS_MAX} jobs that have not ended, and takes no more"));
        }
        for id in &request.after {
            match self.all.get(id).map(Job::state) {
                None => return Err(format!("there is no job {id} to wait for")),
                Some(JobState::Failed | JobState::Cancelled) => {
                    return Err(format!("job {id} has not ended well: what waits for it would never start"));
                }
                Some(_) => {}
            }
        }
        let demand = Job::demand(request);
        let queue = request.queue.as_deref();
        self.scheduler.admit(queue, &request.user, &demand).map_err(|refusal| refusal.to_string())
    }

    fn record(&self, job: &Job) -> JobRecord {
        let reason = self.scheduler.reason(job.id.0).map(|reason| reason.to_string());
        job.record(reason.filter(|_| !job.waits_for_jobs()))
    }

    fn list(&self, ids: &[JobId]) -> JobAnswer {
        if ids.is_empty() {
            let live =
                self.all.values().filter(|job| job.ended.is_none() && !self.unsaved.contains_key(&job.id));
            return JobAnswer::Jobs(live.map(|job| self.record(job)).collect());
        }
        match ids.iter().find(|id| !self.all.contains_key(id)) {
            Some(id) => JobAnswer::Refused(format!("there is no job {id}")),
            None => {
                JobAnswer::Jobs(ids.iter().filter_map(|id| Some(self.record(self.all.get(id)?))).collect())
            }
        }
    }

    fn history(&self, most: u32) -> JobAnswer {
        let latest = self.ended.iter().rev().take(most as usize);
        JobAnswer::Jobs(latest.filter_map(|id| Some(self.record(self.all.get(id)?))).collect())
    }

    fn wait(&mut self, to: PeerTo, ids: Vec<JobId>, out: &mut Effects) {
        if let Some(id) = ids.iter().find(|id| !self.all.contains_key(id)) {
            return answer(to, JobAnswer::Refused(format!("there is no job {id}")), out);
        }
        self.waiters.push((to, ids));
        self.is_due = true;
    }

    /// Changes jobs one by one: per job whether anything has changed, or why it cannot.
    fn change(
        &mut self,
        ids: &[JobId],
        mut change: impl FnMut(&mut Self, JobId) -> Result<bool, String>,
    ) -> JobAnswer {
        let one = |id: &JobId| match self.all.get(id).map(Job::state) {
            None => Err(format!("there is no job {id}")),
            Some(state) if state.has_ended() => Err(format!("job {id} {} already", state.phrase())),
            Some(_) => change(self, *id),
        };
        JobAnswer::Changed(ids.iter().map(one).collect())
    }

    fn hold(&mut self, id: JobId, is_held: bool) -> bool {
        let Some(job) = self.all.get_mut(&id) else { return false };
        let has_changed = std::mem::replace(&mut job.is_held, is_held) != is_held;
        let waits = is_held || job.waits_for_jobs();
        self.scheduler.hold(id.0, waits);
        self.changed.insert(id);
        self.is_due = true;
        has_changed
    }

    fn cancel(&mut self, id: JobId, reason: &str, out: &mut Effects) -> bool {
        let Some(job) = self.all.get_mut(&id) else { return false };
        if !job.cancel(reason) {
            return false;
        }
        info!(job = %id, reason, "cancelled");
        let hosts = job.hosts_given();
        end_tasks(id, hosts, out);
        self.scheduler.cancel(id.0);
        self.changed.insert(id);
        self.is_due = true;
        true
    }

    fn queues(&self) -> JobAnswer {
        let record = |queue: &Queue| {
            let of = |job: &&Job| job.queue == queue.name && job.ended.is_none();
            let jobs: Vec<JobRecord> = self.all.values().filter(of).map(|job| job.record(None)).collect();
            QueueRecord {
                name: queue.name.clone(),
                priority: queue.priority,
                hosts: queue.hosts.clone(),
                limits: limits(queue),
                waiting: jobs.iter().filter(|job| job.waiting > 0).count() as u32,
                running: jobs.iter().map(|job| job.running * job.slots).sum(),
            }
        };
        JobAnswer::Queues(self.scheduler.queues().iter().map(record).collect())
    }
}

/// The step.
impl Jobs {
    /// What hosts have reported is noted, jobs that are over are ended, and others start.
    fn advance(&mut self, now: u64, out: &mut Effects) {
        (self.now, self.is_due) = (self.now.max(now), false);
        self.note_reports();
        self.replace_lost();
        for id in std::mem::take(&mut self.doomed) {
            if let Some(job) = self.all.get(&id) {
                end_tasks(id, job.hosts_given(), out);
            }
        }
        self.end_jobs(out);
        self.start_jobs(out);
        self.answer_waiters(out);
    }

    fn note_reports(&mut self) {
        for (host, TaskReport { job: id, task, what }) in std::mem::take(&mut self.reports) {
            let ended = self.all.get_mut(&id).and_then(|job| job.note(host, task, what));
            if let Some(ended) = ended {
                self.task_ended(id, ended);
            }
        }
    }

    fn task_ended(&mut self, id: JobId, Ended { host, ran, again, ends_others }: Ended) {
        self.changed.insert(id);
        if ends_others {
            self.doomed.insert(id);
        }
        self.is_due = true;
        let Some(job) = self.all.get(&id) else { return };
        let is_rigid = matches!(job.request.tasks, Tasks::Rigid(_));
        self.scheduler.task_ended(id.0, host, ran, again && !is_rigid, self.now);
        if again && is_rigid {
            // All of it waits again.
            let job = job.clone();
            self.enqueue(&job);
        }
    }

    fn end_jobs(&mut self, out: &mut Effects) {
        let over = |job: &&Job| job.ended.is_none() && job.is_over() && !self.unsaved.contains_key(&job.id);
        let mut over: VecDeque<JobId> =
            self.changed.iter().filter_map(|id| self.all.get(id)).filter(over).map(|job| job.id).collect();
        while let Some(id) = over.pop_front() {
            let Some(job) = self.all.get_mut(&id).filter(|job| job.ended.is_none()) else { continue };
            job.ended = Some(self.now);
            let state = job.state();
            info!(job = %id, state = state.name(), "ended");
            self.ended.push_back(id);
            over.extend(self.free_dependents(id, state, out));
        }
        while self.ended.len() > HISTORY {
            if let Some(id) = self.ended.pop_front() {
                self.all.remove(&id);
                self.changed.insert(id);
            }
        }
    }

    /// Jobs that wait for one that has ended may start, or are cancelled; those that are over by that.
    fn free_dependents(&mut self, id: JobId, state: JobState, out: &mut Effects) -> Vec<JobId> {
        let mut over = Vec::new();
        for other in self.dependents.remove(&id).unwrap_or_default() {
            self.changed.insert(other);
            if state != JobState::Done {
                self.cancel(other, &format!("job {id}, for which it waited, {}", state.phrase()), out);
                over.push(other);
            } else if let Some(job) = self.all.get_mut(&other) {
                job.after.remove(&id);
                let is_held = job.is_held || job.waits_for_jobs();
                self.scheduler.hold(other.0, is_held);
            }
        }
        over
    }

    fn start_jobs(&mut self, out: &mut Effects) {
        for start in self.scheduler.next(self.now) {
            let id = JobId(start.job);
            let names: Vec<String> = start.parts.iter().map(|(host, _)| self.name(*host)).collect();
            let Some(job) = self.all.get_mut(&id) else { continue };
            self.changed.insert(id);
            for ((host, count), name) in start.parts.into_iter().zip(names) {
                let order = job.give(host, &name, count, self.now);
                out.push(Effect::Order(host, FromMaster::RunTasks(Box::new(order))));
            }
        }
    }

    fn name(&self, host: HostIndex) -> String {
        self.scheduler.host_name(host).unwrap_or_default().to_owned()
    }

    fn answer_waiters(&mut self, out: &mut Effects) {
        for (to, ids) in std::mem::take(&mut self.waiters) {
            let is_open = |id: &JobId| self.all.get(id).is_some_and(|job| job.ended.is_none());
            if ids.iter().any(is_open) {
                self.waiters.push((to, ids));
            } else {
                answer(to, self.list(&ids), out);
            }
        }
    }
}

/// The disk.
impl Jobs {
    /// What has changed is written.
    fn save(&mut self, now: u64, out: &mut Effects) {
        self.now = self.now.max(now);
        if self.saving.is_none() {
            self.save_all(out);
        }
    }

    /// The same, also while something is being written: the machine ends.
    pub fn save_all(&mut self, out: &mut Effects) {
        if self.changed.is_empty() {
            return;
        }
        for id in self.unsaved.keys() {
            if let Some(job) = self.all.get_mut(id).filter(|job| job.submitted == 0) {
                job.submitted = self.now;
            }
        }
        self.saves += 1;
        let ids = std::mem::take(&mut self.changed);
        let change = |id: &JobId| {
            let bytes = self.all.get(id).map(codec::encode).transpose();
            // What cannot be encoded could not be read either.
            (id.0, bytes.ok().flatten().map(|bytes| Blob(bytes.into())))
        };
        let changes = ids.iter().map(change).collect();
        out.act(Action::SaveJobs { serial: self.saves, changes });
        self.saving = Some((self.saves, ids));
    }

    /// It was written, or could not be.
    fn on_saved(&mut self, serial: u64, failure: Option<&str>, out: &mut Effects) {
        let Some((_, ids)) = self.saving.take_if(|(saving, _)| *saving == serial) else { return };
        for id in ids {
            match (self.unsaved.remove(&id), failure) {
                (None, None) => {}
                // Written again, in a while.
                (None, Some(_)) => drop(self.changed.insert(id)),
                (Some(to), Some(reason)) => {
                    self.all.remove(&id);
                    answer(to, JobAnswer::Refused(format!("the job cannot be kept on disk: {reason}")), out);
                }
                (Some(to), None) => self.accept(id, to, out),
            }
        }
    }

    fn accept(&mut self, id: JobId, to: PeerTo, out: &mut Effects) {
        let Some(job) = self.all.get(&id).cloned() else { return };
        if job.is_over() {
            // It was cancelled meanwhile, with a job for which it would have waited.
            self.changed.insert(id);
        } else {
            self.enqueue(&job);
        }
        self.is_due = true;
        answer(to, JobAnswer::Submitted(id), out);
    }
}

fn answer(to: PeerTo, what: JobAnswer, out: &mut Effects) {
    super::answer(to, MasterReply::Jobs(what), out);
}

fn end_tasks(job: JobId, hosts: BTreeSet<HostIndex>, out: &mut Effects) {
    for host in hosts {
        out.push(Effect::Order(host, FromMaster::EndTasks { job }));
    }
}

/// The limits of a queue, as its file has them.
fn limits(queue: &Queue) -> Vec<(String, String)> {
    let Limits { time, memory, width, running, running_per_user, waiting, waiting_per_user } = queue.limits;
    let seconds = time.map(|time| format!("{}s", time / 1000));
    let all = [
        ("max-time", seconds),
        ("max-memory", memory.map(|bytes| bytes.to_string())),
        ("max-width", width.map(|slots| slots.to_string())),
        ("max-running", running.map(|slots| slots.to_string())),
        ("max-running-per-user", running_per_user.map(|slots| slots.to_string())),
        ("max-waiting", waiting.map(|jobs| jobs.to_string())),
        ("max-waiting-per-user", waiting_per_user.map(|jobs| jobs.to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

impl Master {
    /// A task asks something of the queues.
    pub(super) fn on_job_call(&mut self, to: PeerTo, call: JobCall, out: &mut Effects) {
        let jobs = &mut self.jobs;
        let reply = match call {
            JobCall::Submit(request) => return jobs.submit(to, *request, out),
            JobCall::Wait(ids) => return jobs.wait(to, ids, out),
            JobCall::List(ids) => jobs.list(&ids),
            JobCall::History(most) => jobs.history(most),
            JobCall::Cancel(ids) => jobs.change(&ids, |jobs, id| Ok(jobs.cancel(id, "cancelled", out))),
            JobCall::Hold(ids) => jobs.change(&ids, |jobs, id| Ok(jobs.hold(id, true))),
            JobCall::Release(ids) => jobs.change(&ids, |jobs, id| Ok(jobs.hold(id, false))),
            JobCall::Queues => jobs.queues(),
        };
        answer(to, reply, out);
    }

    /// The time has come for the queues' next step.
    pub(super) fn on_jobs_due(&mut self, now: u64, out: &mut Effects) {
        self.jobs.advance(now, out);
    }

    pub(super) fn on_save_jobs(&mut self, now: u64, out: &mut Effects) {
        self.jobs.save(now, out);
    }

    pub(super) fn on_jobs_saved(&mut self, serial: u64, failure: Option<&str>, out: &mut Effects) {
        if let Some(reason) = failure {
            warn!(reason, "jobs cannot be written to disk");
        }
        self.jobs.on_saved(serial, failure, out);
    }

    /// Whether the queues have something to do.
    pub fn are_jobs_due(&self) -> bool {
        self.jobs.is_due()
    }

    /// When the queues look again although nothing has happened.
    pub fn look_at_jobs_after(&self) -> Option<Duration> {
        match () {
            () if !self.jobs.lost.is_empty() => Some(LOST_LOOK),
            () if self.jobs.scheduler.waiting() > 0 => Some(LOOK),
            () => None,
        }
    }

    /// When jobs are to be written.
    pub fn jobs_to_save(&self) -> Option<Urgency> {
        self.jobs.wants_save()
    }
}
