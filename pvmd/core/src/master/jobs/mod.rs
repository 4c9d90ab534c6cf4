//! The queues' jobs: which were accepted, where their tasks run, and what has become of them.
//!
//! What depends on the time happens in one [`step`], whose command has the time. So deputies that carry out the same commands have the same
//! jobs.
//!
//! A job starts when it is on disk, and is answered for then. A [`Command::SaveJobs`](super::Command) hands what has changed to the
//! driver; one is under way at a time.

mod calls;
mod disk;
mod earlier;
mod forecast;
mod job;
mod links;
mod numbers;
mod peers;
mod step;

use super::{Master, Moment};
use crate::addresses::PeerTo;
use crate::config::{Config, Saved, SavedState};
use crate::effect::{Effect, Effects};
use crate::event::Action;
pub(crate) use disk::Urgency;
use earlier::Earlier;
use forecast::RunTimes;
use job::Job;
use links::Links;
use peers::Pending;
use pvm_sched::queues::{Configuration, Host, LOOK, METER_WINDOW, Rules, Scheduler};
use pvm_wire::daemon::{FromMaster, HostEntry, MasterReply};
use pvm_wire::jobs::{JobAnswer, JobId, JobState, TaskReport};
use pvm_wire::{HostIndex, tuned};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tracing::warn;

/// Jobs that have ended and are still known.
const HISTORY: usize = 10_000;
/// In place of [`LOOK`] while the tasks of a lost host are about to run again.
const LOST_LOOK: Duration = Duration::from_secs(1);
/// Jobs that have not ended, at most.
const JOBS_MAX: usize = 1_000_000;

/// All jobs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Jobs {
    scheduler: Scheduler<HostIndex>,
    all: BTreeMap<JobId, Job>,
    /// What is not certain of jobs of an earlier machine.
    earlier: Earlier,
    /// What is written beside the jobs.
    state: SavedState,
    /// Whether the file does not say yet what `state` does: that a machine goes on with its jobs, and which hosts could.
    is_state_new: bool,
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
    /// Tasks that end for others, and begin again.
    stopped: BTreeSet<(JobId, u32)>,
    /// What is known of the run times of programs.
    run_times: RunTimes,
    /// Links whose bandwidths are measured.
    links: Links,
    /// Slots of hosts that are members, or are to be.
    slots: BTreeMap<HostIndex, u32>,
    /// Callers of `Wait`, and the jobs whose end they wait for.
    waiters: Vec<(PeerTo, Vec<JobId>)>,
    /// Callers of `Reload`.
    reloading: Vec<PeerTo>,
    /// Answers that wait until jobs are on disk as they are.
    pending: Vec<Pending>,
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
    pub fn new(config: &Config, lost_end: Duration) -> Self {
        let Saved { jobs: saved, state, replaces } = &config.saved;
        let mut jobs = Self {
            scheduler: Scheduler::new(config.queues.clone(), Rules::default()),
            all: earlier::read(saved),
            earlier: Earlier::of(state.as_ref(), &config.name),
            state: SavedState::next(state.as_ref(), config.seed, &config.name),
            is_state_new: true,
            ended: VecDeque::new(),
            next: 1,
            dependents: BTreeMap::new(),
            reports: Vec::new(),
            lost: BTreeMap::new(),
            lost_end: u64::try_from(lost_end.as_millis()).unwrap_or(u64::MAX),
            doomed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            run_times: RunTimes::default(),
            links: Links::new(config.hostfile.unmeasured_links()),
            slots: BTreeMap::new(),
            waiters: Vec::new(),
            reloading: Vec::new(),
            pending: Vec::new(),
            unsaved: BTreeMap::new(),
            changed: BTreeSet::new(),
            saving: None,
            saves: 0,
            is_due: !saved.is_empty(),
            now: 0,
        };
        jobs.scheduler.set_links(config.hostfile.clusters());
        for id in jobs.all.keys().copied().collect::<Vec<_>>() {
            if jobs.all.get(&id).is_some_and(|job| job.ended.is_none()) {
                jobs.earlier.note_job(id);
            }
            jobs.restore(id);
        }
        if let Some(before) = replaces {
            jobs.changed.extend(before.iter().map(|&id| JobId(id)).chain(jobs.all.keys().copied()));
        }
        jobs.next = jobs.earlier.next_number(jobs.next);
        jobs.sort_ended();
        jobs.recall_run_times();
        jobs
    }

    /// Those that have ended, the earliest first.
    fn sort_ended(&mut self) {
        let mut ended: Vec<(Option<u64>, JobId)> =
            self.all.values().filter(|job| job.ended.is_some()).map(|job| (job.ended, job.id)).collect();
        ended.sort_unstable();
        self.ended = ended.into_iter().map(|(_, id)| id).collect();
    }

    /// The hosts that could go on with the jobs.
    pub fn note_deputies(&mut self, names: Vec<String>) {
        if self.state.deputies != names {
            self.state.deputies = names;
            self.is_state_new = true;
        }
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
            if job.waiting() > 0 {
                self.enqueue(&job, job.submitted);
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

    /// The number of slots of a host is known.
    pub fn note_slots(&mut self, host: HostIndex, slots: u32) {
        self.slots.insert(host, slots);
    }

    /// A host is a member.
    pub fn host_joined(&mut self, entry: &HostEntry) {
        let slots = self.slots.get(&entry.index).copied().unwrap_or(1);
        let HostEntry { index, name, arch, capability, cluster, .. } = entry.clone();
        let cluster = cluster.map(|cluster| cluster.name);
        self.links.host_joined(index, cluster.clone());
        self.scheduler.host_joined(index, Host { name, arch, capability, slots, cluster });
        self.is_due |= !self.scheduler.is_empty();
    }

    /// A host is out. What it runs has to run again when it has ended there: it may be cut off, and not know that it is out.
    pub fn host_gone(&mut self, host: HostIndex) {
        self.slots.remove(&host);
        self.links.host_gone(host);
        self.scheduler.host_gone(host);
        self.waiters.retain(|(to, _)| to.host != host);
        self.reloading.retain(|to| to.host != host);
        self.pending.retain(|pending| pending.to.host != host);
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
            for task in job.given_to(host) {
                self.stopped.remove(&(id, task));
            }
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
        self.reloading.retain(|waiter| *waiter != to);
        self.pending.retain(|pending| pending.to != to);
    }

    /// Another host is the master, with a clock of its own, and has nothing on disk.
    pub fn take_over(&mut self, reign: u64, out: &mut Effects) {
        self.state.stamp.reign = reign;
        self.is_state_new = true;
        if !self.reloading.is_empty() {
            self.read_queues(out);
        }
        self.now = 0;
        self.lost.values_mut().for_each(|due| *due = due.filter(|due| *due == 0));
        self.saving = None;
        self.pending.iter_mut().for_each(|pending| pending.save = None);
        self.changed = self.all.keys().copied().collect();
        self.is_due |= !self.all.is_empty();
    }

    /// The file of queues is to be read.
    fn read_queues(&self, out: &mut Effects) {
        out.act(Action::ReadQueues { clusters: self.scheduler.cluster_names() });
    }

    /// Why a host cannot be in a cluster of this name, if it cannot.
    pub fn refuse_cluster(&self, name: &str) -> Option<String> {
        let is_taken = self.scheduler.configuration().has_cluster(name);
        is_taken.then(|| {
            format!(
                "cluster={name}: the file of queues has a cluster of this name; give one of them another name"
            )
        })
    }

    /// Puts a job's waiting tasks into the queue, where it ages since this time.
    fn enqueue(&mut self, job: &Job, since: u64) {
        let (id, queue, user) = (job.id.0, job.queue.clone(), &job.request.user);
        self.scheduler.submit(id, queue, user, job.demand.clone(), job.waiting(), since);
        let is_held = job.is_held || job.waits_for_jobs() || self.earlier.is_uncertain(job.id);
        self.scheduler.hold(id, is_held);
    }

    /// Whether the scheduler may start a job, as it is now.
    fn set_held(&mut self, id: JobId) {
        let Some(job) = self.all.get(&id) else { return };
        let is_held = job.is_held || job.waits_for_jobs() || self.earlier.is_uncertain(id);
        self.scheduler.hold(id.0, is_held);
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

impl Master {
    /// The time has come for the queues' next step.
    pub(super) fn on_jobs_due(&mut self, moment: Moment, out: &mut Effects) {
        self.jobs.advance(moment, out);
    }

    pub(super) fn on_queues_read(&mut self, result: Result<Configuration, String>, out: &mut Effects) {
        self.jobs.configure(result, out);
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

    /// Whether there is a queue for whose jobs the machine has a matrix.
    pub fn wants_rows(&self) -> bool {
        self.jobs.scheduler.wants_rows()
    }

    /// When the queues look again although nothing has happened.
    pub fn look_at_jobs_after(&self) -> Option<Duration> {
        match () {
            () if !self.jobs.lost.is_empty() => Some(LOST_LOOK),
            // A job that waits for the rest of another one does so no longer.
            () if self.jobs.scheduler.waiting() > 0 && self.jobs.scheduler.is_any_ending(self.jobs.now) => {
                Some(tuned::JOB_ENDING)
            }
            () if self.jobs.scheduler.measures() => Some(METER_WINDOW),
            () if self.jobs.scheduler.waiting() > 0 || self.jobs.scheduler.expects() => Some(LOOK),
            () => None,
        }
    }

    /// When jobs are to be written.
    pub fn jobs_to_save(&self) -> Option<Urgency> {
        self.jobs.wants_save()
    }
}
