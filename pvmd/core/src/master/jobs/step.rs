//! The step of the queues, which alone depends on the time: what hosts have reported counts, jobs that are over are ended, and others
//! start.

use super::job::Ended;
use super::{HISTORY, Job, Jobs, answer, end_tasks};
use crate::effect::{Effect, Effects};
use crate::master::Moment;
use pvm_sched::policy::Policy;
use pvm_sched::queues::Spread;
use pvm_wire::HostIndex;
use pvm_wire::daemon::FromMaster;
use pvm_wire::jobs::{JobId, JobState, TaskEvent, TaskReport, Tasks};
use pvm_wire::spawn::{NETWORK_VARIABLE, POLICY_VARIABLE, entry, split_entry};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use tracing::info;

impl Jobs {
    /// What hosts have reported is noted, jobs that are over are ended, and others start.
    pub(super) fn advance(&mut self, moment: Moment, out: &mut Effects) {
        (self.now, self.is_due) = (self.now.max(moment.now), false);
        self.scheduler.set_local_time(moment.local_time);
        for (host, load) in moment.loads {
            self.scheduler.set_load(host, load);
        }
        self.scheduler.set_owners(&moment.owners);
        self.scheduler.expire(self.now);
        self.note_reports();
        self.replace_lost();
        for id in std::mem::take(&mut self.doomed) {
            if let Some(job) = self.all.get(&id) {
                end_tasks(id, job.hosts_given(), out);
            }
        }
        self.end_jobs(out);
        self.start_jobs(out);
        self.stop_tasks(out);
        for host in moment.owners {
            self.vacate(host, out);
        }
        self.answer_waiters(out);
    }

    fn note_reports(&mut self) {
        for (host, TaskReport { job: id, task, what }) in std::mem::take(&mut self.reports) {
            let is_end = !matches!(what, TaskEvent::Started { .. });
            let is_stopped = is_end && self.stopped.remove(&(id, task));
            let ended = self.all.get_mut(&id).and_then(|job| job.note(host, task, what, is_stopped));
            if let Some(ended) = ended {
                self.task_ended(id, ended);
            }
        }
    }

    pub(super) fn task_ended(&mut self, id: JobId, Ended { host, ran, again, ends_others }: Ended) {
        self.changed.insert(id);
        if ends_others {
            self.doomed.insert(id);
        }
        self.is_due = true;
        let Some(job) = self.all.get(&id) else { return };
        let is_rigid = matches!(job.request.tasks, Tasks::Rigid(_));
        if is_rigid && job.is_over() {
            self.conclude_run(id);
        }
        self.scheduler.task_ended(id.0, host, ran, again && !is_rigid, self.now);
        if again
            && is_rigid
            && let Some(job) = self.all.get(&id).cloned()
        {
            // All of it waits again.
            self.enqueue(&job, self.now);
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
                self.set_held(other);
            }
        }
        over
    }

    fn start_jobs(&mut self, out: &mut Effects) {
        for start in self.scheduler.next(self.now) {
            let id = JobId(start.job);
            let names: Vec<String> = start.parts.iter().map(|(host, _)| self.name(*host)).collect();
            let Some(job) = self.all.get_mut(&id) else { continue };
            let policy = self.scheduler.policy_of(id.0);
            job.set_turns(self.scheduler.turns_of(id.0));
            let spans = self.scheduler.spread(id.0).is_some_and(Spread::spans);
            self.changed.insert(id);
            for ((host, count), name) in start.parts.into_iter().zip(names) {
                let mut order = job.give(host, &name, count, self.now);
                if let Some(policy) = policy {
                    preset_policy(&mut order.program.env, policy);
                }
                if spans {
                    order.program.env.push(entry(NETWORK_VARIABLE, "1"));
                }
                out.push(Effect::Order(host, FromMaster::RunTasks(Box::new(order))));
            }
            self.begin_run(id);
        }
    }

    /// Tasks end for those that preempt them.
    fn stop_tasks(&mut self, out: &mut Effects) {
        for stop in self.scheduler.stops(self.now) {
            let id = JobId(stop.job);
            let Some(job) = self.all.get(&id) else { continue };
            let mut parts = Vec::new();
            for (host, count) in stop.parts {
                let given = job.given_to(host).filter(|&task| !self.stopped.contains(&(id, task)));
                let mut tasks: Vec<u32> = given.collect();
                // The latest have done least.
                parts.push((host, tasks.split_off(tasks.len().saturating_sub(count as usize))));
            }
            self.stop(id, parts, "preempted", out);
        }
    }

    /// The owner of a host is there: tasks that have not started are given back, and those that may begin again end, to do so elsewhere.
    fn vacate(&mut self, host: HostIndex, out: &mut Effects) {
        let on_it: Vec<JobId> =
            self.all.values().filter(|job| job.has_given(host)).map(|job| job.id).collect();
        for id in on_it {
            let Some(job) = self.all.get(&id) else { continue };
            let leaving: Vec<u32> =
                job.leaving(host).filter(|&task| !self.stopped.contains(&(id, task))).collect();
            let is_rigid = matches!(job.request.tasks, Tasks::Rigid(_));
            // A rigid job runs as a whole.
            let others = if is_rigid && !leaving.is_empty() { job.hosts_given() } else { BTreeSet::new() };
            let left =
                |host| job.given_to(host).filter(|&task| !self.stopped.contains(&(id, task))).collect();
            let others = others.into_iter().filter(|&other| other != host).map(|other| (other, left(other)));
            let parts = others.chain([(host, leaving)]).collect();
            self.stop(id, parts, "leaves the host to its owner", out);
        }
    }

    /// Some tasks of a job end, and begin again.
    fn stop(&mut self, id: JobId, parts: Vec<(HostIndex, Vec<u32>)>, why: &str, out: &mut Effects) {
        for (host, tasks) in parts {
            if !tasks.is_empty() {
                info!(job = %id, %host, ?tasks, "{why}");
                self.stopped.extend(tasks.iter().map(|&task| (id, task)));
                out.push(Effect::Order(host, FromMaster::StopTasks { job: id, tasks }));
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

/// A queue's policy takes the place of that of the task, if one has submitted the job.
fn preset_policy(env: &mut Vec<OsString>, policy: Policy) {
    env.retain(|known| split_entry(known).is_none_or(|(name, _)| name != POLICY_VARIABLE));
    env.push(entry(POLICY_VARIABLE, policy.name()));
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
