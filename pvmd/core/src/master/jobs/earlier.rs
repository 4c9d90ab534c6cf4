//! Jobs of an earlier machine: whether what is on disk here is the last that is known of them.
//!
//! Only the master has its jobs on disk. When it is lost, another host goes on with them, and the file of the first stays as it was. If
//! the machine is started there again, jobs that have ended since must not run again. So the file says which hosts could go on: unless
//! the machine was halted, jobs that had not ended wait until these hosts are members and have said what they have on disk. The
//! latest file counts, by its [`Stamp`].

use super::{Job, Jobs};
use crate::config::{SavedJob, SavedState};
use crate::effect::{Effect, Effects};
use pvm_wire::HostIndex;
use pvm_wire::codec;
use pvm_wire::daemon::{Blob, FromMaster};
use pvm_wire::jobs::{JobId, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};

/// So many numbers are left out where another host may have given some to jobs.
const NUMBERS_APART: u64 = 1000;

/// What is not certain of the jobs that were on disk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Earlier {
    /// Of the file whose jobs these are.
    stamp: Option<Stamp>,
    /// Names of hosts that may have gone on with them.
    awaited: BTreeSet<String>,
    /// The jobs that wait for that.
    jobs: BTreeSet<JobId>,
    /// What hosts have said of their files, before they were members.
    stamps: BTreeMap<HostIndex, Option<Stamp>>,
    /// Jobs of a later file that are on their way.
    coming: BTreeMap<HostIndex, Vec<Blob>>,
}

impl Earlier {
    /// After a machine of which this was saved, on the host of this name.
    pub fn of(state: Option<&SavedState>, own: &str) -> Self {
        let Some(state) = state else { return Self::default() };
        let others = state.deputies.iter().filter(|name| *name != own);
        let awaited = if state.is_closed { BTreeSet::new() } else { others.cloned().collect() };
        Self { stamp: Some(state.stamp), awaited, ..Self::default() }
    }

    /// The next number of a job, where this one would be. Another host may have given some out.
    pub fn next_number(&self, next: u64) -> u64 {
        if self.awaited.is_empty() { next } else { next.saturating_add(NUMBERS_APART) }
    }

    /// Whether a job waits for word of other hosts.
    pub fn is_uncertain(&self, id: JobId) -> bool {
        !self.awaited.is_empty() && self.jobs.contains(&id)
    }

    /// Whether any job does.
    pub fn has_uncertain(&self) -> bool {
        !self.awaited.is_empty() && !self.jobs.is_empty()
    }

    /// Why such a job waits.
    pub fn reason(&self) -> String {
        let hosts: Vec<&str> = self.awaited.iter().map(String::as_str).collect();
        format!(
            "the machine had not been halted, and {} may have gone on with the job: it waits until that host is there (pvm release \
             has it run in any case)",
            hosts.join(" or ")
        )
    }

    pub fn note_job(&mut self, id: JobId) {
        if !self.awaited.is_empty() {
            self.jobs.insert(id);
        }
    }
}

impl Jobs {
    /// What a host has on disk, which is about to be a member.
    pub fn note_stamp(&mut self, host: HostIndex, stamp: Option<Stamp>) {
        if !self.earlier.awaited.is_empty() {
            self.earlier.stamps.insert(host, stamp);
        }
    }

    /// A host is a member: if it may have gone on with the jobs, it has not, or is to tell of them.
    pub fn ask_of_earlier(&mut self, host: HostIndex, name: &str, out: &mut Effects) {
        let theirs = self.earlier.stamps.remove(&host).flatten();
        if !self.earlier.awaited.contains(name) {
            return;
        }
        match (theirs, self.earlier.stamp) {
            (Some(theirs), Some(ours)) if theirs.is_later_than(&ours) => {
                info!(%host, name, "has later jobs on disk");
                self.earlier.coming.insert(host, Vec::new());
                out.push(Effect::Order(host, FromMaster::SendSavedJobs));
            }
            _ => self.word_of(name),
        }
    }

    /// A piece of what a host has on disk.
    pub fn note_saved(
        &mut self,
        (host, name): (HostIndex, &str),
        stamp: Option<Stamp>,
        jobs: Vec<Blob>,
        more: bool,
    ) {
        let Some(coming) = self.earlier.coming.get_mut(&host) else { return };
        coming.extend(jobs);
        if more {
            return;
        }
        let jobs = self.earlier.coming.remove(&host).unwrap_or_default();
        match stamp {
            // The file could be read when its stamp was told, and cannot any more.
            None => warn!(%host, name, "its jobs on disk cannot be read"),
            // Another host may have sent a later one meanwhile.
            Some(stamp) => {
                if self.earlier.stamp.is_none_or(|ours| stamp.is_later_than(&ours)) {
                    self.replace_earlier(stamp, &jobs);
                }
                self.word_of(name);
            }
        }
    }

    /// Nothing more is to be heard of a host.
    fn word_of(&mut self, name: &str) {
        self.earlier.awaited.remove(name);
        if self.earlier.awaited.is_empty() {
            for id in std::mem::take(&mut self.earlier.jobs) {
                self.set_held(id);
            }
            self.is_due = true;
        }
    }

    /// A later file has what has become of the jobs.
    fn replace_earlier(&mut self, stamp: Stamp, jobs: &[Blob]) {
        self.earlier.stamp = Some(stamp);
        for id in std::mem::take(&mut self.earlier.jobs) {
            self.scheduler.cancel(id.0);
            self.all.remove(&id);
            self.changed.insert(id);
        }
        let mut jobs: Vec<Job> = jobs.iter().filter_map(decode).collect();
        self.renumber(&mut jobs);
        // One that was released runs here, whatever became of it there.
        jobs.retain(|job| self.all.get(&job.id).is_none_or(|known| known.ended.is_some()));
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        self.changed.extend(&ids);
        self.all.extend(jobs.into_iter().map(|job| (job.id, job)));
        for id in ids {
            self.next = self.next.max(id.0 + 1);
            if self.all.get(&id).is_some_and(|job| job.ended.is_none()) {
                self.earlier.note_job(id);
                self.restore(id);
            }
        }
        self.sort_ended();
    }

    /// Gives other numbers to those of these jobs whose numbers other jobs have here.
    fn renumber(&mut self, jobs: &mut [Job]) {
        let last = jobs.iter().map(|job| job.id.0).max().unwrap_or(0);
        self.next = self.next.max(last + 1);
        let mut renamed = BTreeMap::new();
        for job in &mut *jobs {
            let is_taken = self.all.get(&job.id).is_some_and(|known| known.submitted != job.submitted);
            if is_taken {
                let id = JobId(self.next);
                self.next += 1;
                warn!(job = %job.id, %id, "another job has its number here: it has a new one");
                renamed.insert(job.id, id);
                job.id = id;
            }
        }
        for job in jobs {
            job.after = job.after.iter().map(|id| *renamed.get(id).unwrap_or(id)).collect();
        }
    }

    /// A job runs in any case.
    pub(super) fn release_earlier(&mut self, id: JobId) -> bool {
        self.earlier.is_uncertain(id) && self.earlier.jobs.remove(&id)
    }
}

impl SavedState {
    /// What a machine saves that goes on after this one, on the host of this name.
    pub(super) fn next(earlier: Option<&Self>, seed: u64, own: &str) -> Self {
        let stamp = earlier.map_or(Stamp { machine: seed, run: 1, reign: 1 }, |earlier| Stamp {
            run: earlier.stamp.run + 1,
            reign: 1,
            ..earlier.stamp
        });
        Self { stamp, is_closed: false, deputies: vec![own.to_owned()] }
    }
}

/// What was read at the start.
pub(super) fn read(saved: &[SavedJob]) -> BTreeMap<JobId, Job> {
    let mut all = BTreeMap::new();
    for SavedJob { bytes, is_doubtful } in saved {
        let Some(mut job) = decode(bytes) else { continue };
        // Perhaps it has ended, and must not run again unless somebody wants that.
        job.is_held |= *is_doubtful && job.ended.is_none();
        all.insert(job.id, job);
    }
    all
}

fn decode(bytes: &Blob) -> Option<Job> {
    let warned = |error: &_| warn!(%error, "a job on disk cannot be read: left out");
    codec::decode(&bytes.0).inspect_err(warned).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Saved};
    use crate::master::Moment;
    use pvm_sched::queues::Queue;
    use pvm_wire::daemon::HostEntry;
    use pvm_wire::jobs::{JobAnswer, JobRequest, JobState};
    use std::time::Duration;

    const OTHER: u32 = 2;

    fn job(id: u64) -> Job {
        let request = JobRequest::new("true", "ann", "/");
        let demand = Job::demand(&request);
        let mut job = Job::new(JobId(id), request, "default".into(), demand);
        job.submitted = 5;
        job
    }

    fn blob(job: &Job) -> Blob {
        Blob(codec::encode(job).expect("a job can be encoded").into())
    }

    fn entry(index: HostIndex, name: &str) -> HostEntry {
        Config { index, name: name.to_owned(), ..Config::for_tests() }.entry()
    }

    fn stamp(reign: u64) -> Stamp {
        Stamp { machine: 7, run: 3, reign }
    }

    /// A machine on host `a`, of which this was saved when `a` and `b` could be the master.
    fn jobs_after(is_closed: bool, all: &[&Job]) -> Jobs {
        let saved = all.iter().map(|job| SavedJob { bytes: blob(job), is_doubtful: false });
        let state = SavedState { stamp: stamp(1), is_closed, deputies: vec!["a".into(), "b".into()] };
        let saved = Saved { jobs: saved.collect(), state: Some(state), replaces: None };
        let queues = vec![Queue::open("default")].into();
        let config = Config { name: "a".into(), saved, queues, ..Config::for_tests() };
        let mut jobs = Jobs::new(&config, Duration::from_secs(1));
        jobs.note_slots(HostIndex::MASTER, 2);
        jobs.host_joined(&entry(HostIndex::MASTER, "a"));
        jobs
    }

    fn step(jobs: &mut Jobs) -> Vec<JobState> {
        jobs.advance(
            Moment { now: 9, local_time: 0, loads: Vec::new(), owners: BTreeSet::new() },
            &mut Effects::default(),
        );
        jobs.all.values().map(Job::state).collect()
    }

    fn other() -> HostIndex {
        HostIndex::new(OTHER).expect("an index")
    }

    #[test]
    fn jobs_of_a_machine_that_was_halted_go_on_and_others_wait_for_word() {
        assert_eq!(step(&mut jobs_after(true, &[&job(1)])), [JobState::Running]);
        let mut jobs = jobs_after(false, &[&job(1), &job(2)]);
        assert_eq!(step(&mut jobs), [JobState::Waiting; 2]);
        let JobAnswer::Jobs { jobs: records, .. } = jobs.list(&[JobId(1)]) else { panic!("no jobs") };
        assert!(records[0].reason.contains("b may have gone on with the job"), "{}", records[0].reason);
        // Somebody knows better.
        assert!(jobs.release_earlier(JobId(2)));
        jobs.set_held(JobId(2));
        assert_eq!(step(&mut jobs), [JobState::Waiting, JobState::Running]);
        // The host has nothing later.
        jobs.note_stamp(other(), Some(stamp(1)));
        jobs.ask_of_earlier(other(), "b", &mut Effects::default());
        assert_eq!(step(&mut jobs), [JobState::Running; 2]);
    }

    #[test]
    fn the_jobs_of_a_host_that_has_gone_on_with_them_count() {
        let mut jobs = jobs_after(false, &[&job(1), &job(2), &job(3)]);
        assert!(jobs.release_earlier(JobId(3)));
        jobs.set_held(JobId(3));
        jobs.note_stamp(other(), Some(stamp(2)));
        let mut out = Effects::default();
        jobs.ask_of_earlier(other(), "b", &mut out);
        assert!(format!("{out:?}").contains("SendSavedJobs"), "{out:?}");
        assert_eq!(step(&mut jobs)[..2], [JobState::Waiting; 2], "its answer is under way");
        // There 1 has ended, 2 was forgotten, 9 was submitted.
        let mut ended = job(1);
        ended.cancel("there");
        ended.ended = Some(8);
        jobs.note_saved((other(), "b"), Some(stamp(2)), vec![blob(&ended)], true);
        jobs.note_saved((other(), "b"), Some(stamp(2)), vec![blob(&job(9)), blob(&job(3))], false);
        assert_eq!(jobs.all.keys().map(|id| id.0).collect::<Vec<_>>(), [1, 3, 9]);
        assert_eq!(step(&mut jobs), [JobState::Cancelled, JobState::Running, JobState::Running]);
        assert!(jobs.next > 1000 && jobs.changed.contains(&JobId(2)), "it is to be removed from the file");
    }

    #[test]
    fn no_job_is_lost_whose_number_another_has() {
        let mut jobs = jobs_after(false, &[&job(1)]);
        assert_eq!(jobs.next, 1002);
        // A job that was submitted here has the number 5, too.
        let mut submitted = job(5);
        submitted.submitted = 77;
        jobs.all.insert(JobId(5), submitted);
        jobs.note_stamp(other(), Some(stamp(2)));
        jobs.ask_of_earlier(other(), "b", &mut Effects::default());
        let mut waits = job(6);
        waits.after.insert(JobId(5));
        let mut ended = job(2000);
        ended.cancel("there");
        ended.ended = Some(8);
        let theirs = [&job(5), &waits, &ended].map(blob).to_vec();
        jobs.note_saved((other(), "b"), Some(stamp(2)), theirs, false);
        assert_eq!(jobs.all.keys().map(|id| id.0).collect::<Vec<_>>(), [5, 6, 2000, 2001]);
        assert_eq!(jobs.all[&JobId(6)].after.first(), Some(&JobId(2001)));
        assert_eq!((jobs.all[&JobId(5)].submitted, jobs.next), (77, 2002));
    }

    #[test]
    fn a_released_job_that_runs_is_not_begun_again() {
        let mut jobs = jobs_after(false, &[&job(1)]);
        assert!(jobs.release_earlier(JobId(1)));
        jobs.set_held(JobId(1));
        assert_eq!(step(&mut jobs), [JobState::Running]);
        jobs.note_stamp(other(), Some(stamp(2)));
        jobs.ask_of_earlier(other(), "b", &mut Effects::default());
        jobs.note_saved((other(), "b"), Some(stamp(2)), vec![blob(&job(1))], false);
        assert_eq!((step(&mut jobs), jobs.all[&JobId(1)].waiting()), (vec![JobState::Running], 0));
    }

    #[test]
    fn a_file_that_cannot_be_read_leaves_jobs_waiting() {
        let mut jobs = jobs_after(false, &[&job(1)]);
        jobs.note_stamp(other(), Some(stamp(2)));
        jobs.ask_of_earlier(other(), "b", &mut Effects::default());
        jobs.note_saved((other(), "b"), None, Vec::new(), false);
        assert_eq!(step(&mut jobs), [JobState::Waiting]);
    }

    #[test]
    fn a_job_of_which_a_later_state_may_be_lost_runs_no_more_by_itself() {
        let saved = [SavedJob { bytes: blob(&job(1)), is_doubtful: true }];
        assert_eq!(read(&saved).values().map(Job::state).collect::<Vec<_>>(), [JobState::Held]);
    }
}
