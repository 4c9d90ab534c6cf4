//! Calls of tasks: jobs are submitted, listed and changed.

use super::{JOBS_MAX, Job, Jobs, answer, end_tasks};
use crate::addresses::PeerTo;
use crate::effect::Effects;
use crate::master::Master;
use pvm_sched::queues::{Cluster, Configuration, Demand, HostState, Hours, Limits, Queue, Wanted};
use pvm_wire::HostIndex;
use pvm_wire::jobs::{
    ClusterRecord, Expectation, Expected, JOB_TASKS_MAX, JobAnswer, JobCall, JobId, JobRecord, JobRequest,
    JobState, QueueRecord, Tasks, WantedList, WantedRecord,
};
use pvm_wire::quantity::BANDWIDTH_MAX;
use std::ops::Bound;
use tracing::info;

/// Bytes of records in one answer, about: what daemons and tasks take is several times as much.
const PAGE: usize = 4 << 20;
/// Jobs of which is told that they wait for room.
const WANTED_MAX: usize = 1000;
/// Bytes of the name under which hosts are said to come.
const NAME_MAX: usize = 256;

impl Master {
    /// A task asks something of the queues.
    pub(in crate::master) fn on_job_call(&mut self, to: PeerTo, call: JobCall, out: &mut Effects) {
        let jobs = &mut self.jobs;
        let reply = match call {
            JobCall::Submit(request) => return jobs.submit(to, *request, out),
            JobCall::Wait(ids) => return jobs.wait(to, ids, out),
            JobCall::List(ids) => jobs.list(&ids),
            JobCall::Live { above } => jobs.live_above(above),
            JobCall::History { skip, most } => jobs.history(skip, most),
            JobCall::Cancel(ids) => jobs.change(&ids, |jobs, id| Ok(jobs.cancel(id, "cancelled", out))),
            JobCall::Hold(ids) => jobs.change(&ids, |jobs, id| Ok(jobs.hold(id, true))),
            JobCall::Release(ids) => jobs.change(&ids, |jobs, id| Ok(jobs.hold(id, false))),
            JobCall::Queues => jobs.queues(),
            JobCall::Clusters => jobs.clusters(),
            JobCall::HostClusters => jobs.host_clusters(),
            JobCall::Reload => return jobs.reload(to, out),
            JobCall::Lend { job, peer } => return jobs.lend(to, job, peer, out),
            JobCall::NoteLent { job, number } => jobs.note_lent(job, number),
            JobCall::GiveBack { job, record } => return jobs.give_back(to, job, record.as_deref(), out),
            JobCall::Room => jobs.room(),
            JobCall::Exchange { peer } => jobs.for_exchange(&peer),
            JobCall::Wanted { queue, expected } => jobs.wanted(queue.as_deref(), expected),
        };
        answer(to, reply, out);
    }
}

impl Jobs {
    fn submit(&mut self, to: PeerTo, request: JobRequest, out: &mut Effects) {
        if let Some(known) = request.origin.as_ref().and_then(|origin| self.of_origin(origin)) {
            return self.answer_when_saved(known, to, JobAnswer::Submitted(known));
        }
        match self.admit(&request, to.host) {
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

    /// `from` is the host where it is submitted.
    pub(super) fn admit(&self, request: &JobRequest, from: HostIndex) -> Result<(String, Demand), String> {
        let count = request.tasks.count();
        if count > JOB_TASKS_MAX {
            return Err(format!("a job has {JOB_TASKS_MAX} tasks at most, not {count}"));
        }
        if let Tasks::Array { first, count, .. } = request.tasks
            && first.checked_add(count).is_none()
        {
            return Err(format!("the numbers of tasks end at {}", u32::MAX));
        }
        let expectation = request.expectation;
        if expectation.bandwidth > BANDWIDTH_MAX {
            return Err(format!(
                "the bandwidth between two tasks is {BANDWIDTH_MAX} bit/s at most, not {}",
                expectation.bandwidth
            ));
        }
        if matches!(request.tasks, Tasks::Array { .. }) && expectation != Expectation::default() {
            return Err(
                "a bandwidth, an expected run time and a communication time are of parallel programs, whose \
                 tasks start at once: the tasks of an array are independent"
                    .to_owned(),
            );
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
        let home = self.scheduler.cluster_of(from).map(str::to_owned);
        let demand = Demand { home, ..Job::demand(request) };
        let queue = request.queue.as_deref();
        self.scheduler.admit(queue, &request.user, &demand).map_err(|refusal| refusal.to_string())
    }

    fn record(&self, job: &Job) -> JobRecord {
        let reason = match self.scheduler.reason(job.id.0, self.now) {
            Some(_) if self.earlier.is_uncertain(job.id) => Some(self.earlier.reason()),
            reason => reason.map(|reason| reason.to_string()),
        };
        let record = job.record(reason.filter(|_| !job.waits_for_jobs()));
        JobRecord { may_be_lent: self.may_be_lent(job), run: self.run_record(job), ..record }
    }

    pub(super) fn list(&self, ids: &[JobId]) -> JobAnswer {
        match ids.iter().find(|id| !self.all.contains_key(id)) {
            Some(id) => JobAnswer::Refused(format!("there is no job {id}")),
            None => self.page(ids.iter().filter_map(|id| self.all.get(id))),
        }
    }

    fn live_above(&self, above: JobId) -> JobAnswer {
        let behind = self.all.range((Bound::Excluded(above), Bound::Unbounded));
        let jobs = behind.map(|(_, job)| job);
        self.page(jobs.filter(|job| job.ended.is_none() && !self.unsaved.contains_key(&job.id)))
    }

    fn history(&self, skip: u32, most: u32) -> JobAnswer {
        let latest = self.ended.iter().rev().skip(skip as usize).take(most as usize);
        self.page(latest.filter_map(|id| self.all.get(id)))
    }

    /// As many of these as one answer has room for.
    fn page<'a>(&self, all: impl Iterator<Item = &'a Job>) -> JobAnswer {
        let (jobs, more) = self.records_of(all);
        JobAnswer::Jobs { jobs, more }
    }

    /// The records of as many of these as one answer has room for, and whether that is not all.
    pub(super) fn records_of<'a>(&self, all: impl Iterator<Item = &'a Job>) -> (Vec<JobRecord>, bool) {
        let (mut jobs, mut bytes, mut all) = (Vec::new(), 0, all.peekable());
        while let Some(job) = all.next_if(|job| bytes == 0 || bytes + room_of(job) <= PAGE) {
            bytes += room_of(job);
            jobs.push(self.record(job));
        }
        let more = all.peek().is_some();
        (jobs, more)
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
        let is_released = !is_held && self.release_earlier(id);
        let Some(job) = self.all.get_mut(&id) else { return false };
        let has_changed = std::mem::replace(&mut job.is_held, is_held) != is_held || is_released;
        self.set_held(id);
        self.changed.insert(id);
        self.is_due = true;
        has_changed
    }

    pub(super) fn cancel(&mut self, id: JobId, reason: &str, out: &mut Effects) -> bool {
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

    /// The file of queues is read again.
    fn reload(&mut self, to: PeerTo, out: &mut Effects) {
        self.reloading.push(to);
        self.read_queues(out);
    }

    /// It has been read: its queues are there from now on, or those from before if something is wrong with it.
    pub(super) fn configure(&mut self, result: Result<Configuration, String>, out: &mut Effects) {
        let reply = match result {
            Ok(with) => {
                info!(queues = with.queues.len(), clusters = with.clusters.len(), "read the queues again");
                self.scheduler.configure(with);
                self.is_due = true;
                self.queues()
            }
            Err(reason) => JobAnswer::Refused(reason),
        };
        for to in std::mem::take(&mut self.reloading) {
            answer(to, reply.clone(), out);
        }
    }

    fn queues(&self) -> JobAnswer {
        let record = |queue: &Queue| {
            let of = |job: &&Job| job.queue == queue.name && job.ended.is_none();
            let jobs = || self.all.values().filter(of);
            QueueRecord {
                name: queue.name.clone(),
                priority: queue.priority,
                hosts: queue.hosts.clone(),
                limits: properties(queue),
                is_open: self.scheduler.is_open(queue, self.now),
                waiting: jobs().filter(|job| job.waiting() > 0).count() as u32,
                running: jobs().map(Job::slots_in_use).sum(),
            }
        };
        JobAnswer::Queues(self.scheduler.configuration().queues.iter().map(record).collect())
    }

    /// What waits for room; and hosts that can be had, by who asks.
    fn wanted(&mut self, queue: Option<&str>, expected: Option<Expected>) -> JobAnswer {
        if let Some(queue) = queue.filter(|name| self.queue_names().all(|other| other != *name)) {
            return JobAnswer::Refused(format!("there is no queue {queue}"));
        }
        if let Some(Expected { by, hosts, slots }) = expected.filter(|expected| expected.by.len() <= NAME_MAX)
        {
            self.scheduler.expect(by, hosts, slots);
            // The step knows the time.
            self.is_due = true;
        }
        let record = |wanted: Wanted| {
            let Wanted { job, tasks, slots, is_rigid } = wanted;
            WantedRecord { job: JobId(job), tasks, slots, is_rigid }
        };
        let jobs = self.scheduler.wanted(queue, WANTED_MAX, self.now).into_iter().map(record).collect();
        let free = self.scheduler.free_slots().map(|(name, free)| (name.to_owned(), free)).collect();
        JobAnswer::Wanted(WantedList { jobs, free })
    }

    fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.scheduler.configuration().queues.iter().map(|queue| queue.name.as_str())
    }

    fn clusters(&self) -> JobAnswer {
        let record = |cluster: &Cluster| ClusterRecord {
            name: cluster.name.clone(),
            hosts: self.scheduler.hosts_of(cluster).into_iter().map(str::to_owned).collect(),
        };
        JobAnswer::Clusters(self.scheduler.configuration().clusters.iter().map(record).collect())
    }

    fn host_clusters(&self) -> JobAnswer {
        JobAnswer::HostClusters(self.scheduler.clusters())
    }
}

/// Bytes of a job's record, at least, and what it has beside its texts.
fn room_of(job: &Job) -> usize {
    let program = &job.request.program;
    let words = program.args.iter().chain([&program.file, &program.directory]);
    1024 + job.request.name.len() + words.map(|word| word.len() + 9).sum::<usize>()
}

/// The properties and limits of a queue, as its file has them.
fn properties(queue: &Queue) -> Vec<(String, String)> {
    let Limits { time, memory, width, running, running_per_user, waiting, waiting_per_user } = queue.limits;
    let HostState { idle, load, one_parallel } = queue.when;
    let seconds = |milliseconds: u64| format!("{}s", milliseconds / 1000);
    let all = [
        ("aging", queue.aging.map(seconds)),
        ("hours", queue.hours.as_ref().map(Hours::to_string)),
        ("idle", idle.map(|seconds| format!("{seconds}s"))),
        ("max-load", load.map(|load| (f64::from(load) / 1000.0).to_string())),
        ("one-parallel-job-per-host", one_parallel.then(|| true.to_string())),
        ("coallocation", queue.coallocation.map(|strategy| strategy.name().to_ascii_lowercase())),
        ("preempts", (!queue.preempts.is_empty()).then(|| queue.preempts.join(","))),
        ("max-time", time.map(seconds)),
        ("max-memory", memory.map(|bytes| bytes.to_string())),
        ("max-width", width.map(|slots| slots.to_string())),
        ("max-running", running.map(|slots| slots.to_string())),
        ("max-running-per-user", running_per_user.map(|slots| slots.to_string())),
        ("max-waiting", waiting.map(|jobs| jobs.to_string())),
        ("max-waiting-per-user", waiting_per_user.map(|jobs| jobs.to_string())),
        ("policy", queue.policy.map(|policy| policy.to_string())),
        ("turns", queue.turns.map(|rule| rule.name().to_owned())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
