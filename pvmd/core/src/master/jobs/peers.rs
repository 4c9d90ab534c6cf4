//! Jobs that go to another virtual machine, and come from one.
//!
//! A program of each machine, the exchange, asks for both machines' sake. A job is lent when that is on disk, so that it does not run here
//! as well, whatever happens; it comes back as it has ended there. The other machine knows a job by its origin, and takes it once.

use super::{Job, Jobs, answer};
use crate::addresses::PeerTo;
use crate::effect::Effects;
use pvm_wire::jobs::{JobAnswer, JobId, JobRecord, JobState, Origin};
use serde::{Deserialize, Serialize};
use tracing::info;

/// Lent jobs that an exchange is told of at a time.
const LENT_MAX: usize = 1000;
/// Jobs that it is offered at a time.
const OFFERED_MAX: usize = 100;

/// An answer that waits until a job is on disk as it is now.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub job: JobId,
    pub to: PeerTo,
    answer: JobAnswer,
    /// Whether it is lent with that: if it cannot be written, it is not.
    lends: bool,
    /// The number of the save that has the job; `None`: one that has not begun.
    pub save: Option<u64>,
}

impl Jobs {
    /// Answers when the job is on disk.
    pub(super) fn answer_when_saved(&mut self, job: JobId, to: PeerTo, answer: JobAnswer) {
        self.hold_back(Pending { job, to, answer, lends: false, save: None });
    }

    fn hold_back(&mut self, pending: Pending) {
        self.changed.insert(pending.job);
        self.pending.push(pending);
    }

    /// A save has ended: the answers that have waited for it.
    pub(super) fn answer_saved(&mut self, serial: u64, failure: Option<&str>, out: &mut Effects) {
        let (ready, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.save == Some(serial));
        self.pending = rest;
        let ready: Vec<Pending> = ready;
        for Pending { job, to, answer: reply, lends, .. } in ready {
            let Some(reason) = failure else {
                answer(to, reply, out);
                continue;
            };
            answer(to, JobAnswer::Refused(not_kept(reason)), out);
            if lends {
                // It is not lent on disk, so nobody there has it.
                self.take_home(job);
                self.refuse_pending(job, reason, out);
            }
        }
    }

    /// What was to be answered of a job is not so any more.
    pub(super) fn refuse_pending(&mut self, job: JobId, reason: &str, out: &mut Effects) {
        for pending in self.pending.extract_if(.., |pending| pending.job == job) {
            answer(pending.to, JobAnswer::Refused(not_kept(reason)), out);
        }
    }

    /// A job is to run on another machine. If it was lent to that one before, the answer is the same.
    pub(super) fn lend(&mut self, to: PeerTo, id: JobId, peer: String, out: &mut Effects) {
        let refuse = |reason: String, out: &mut Effects| answer(to, JobAnswer::Refused(reason), out);
        let Some(job) = self.all.get(&id) else { return refuse(format!("there is no job {id}"), out) };
        let (is_free, request) = (self.may_be_lent(job), Box::new(job.request.clone()));
        let lends = match job.lent_to() {
            Some(other) if other == peer => false,
            Some(other) => return refuse(format!("job {id} is lent to {other}"), out),
            None if is_free => true,
            None => return refuse(format!("job {id} cannot be lent"), out),
        };
        if let Some(job) = self.all.get_mut(&id).filter(|_| lends) {
            info!(job = %id, peer, "lent");
            job.lend(peer);
            self.scheduler.cancel(id.0);
        }
        self.hold_back(Pending { job: id, to, answer: JobAnswer::Lent(request), lends, save: None });
    }

    /// Whether another machine may have a job. One that may have run elsewhere already may not.
    pub(super) fn may_be_lent(&self, job: &Job) -> bool {
        job.may_be_lent() && !self.unsaved.contains_key(&job.id) && !self.earlier.is_uncertain(job.id)
    }

    /// The number of a lent job there.
    pub(super) fn note_lent(&mut self, id: JobId, number: JobId) -> JobAnswer {
        let noted = self.all.get_mut(&id).is_some_and(|job| job.note_lent(number));
        self.changed.extend(noted.then_some(id));
        JobAnswer::Changed(vec![Ok(noted)])
    }

    /// A lent job has ended there; `None`: it was not taken.
    pub(super) fn give_back(&mut self, to: PeerTo, id: JobId, record: Option<&JobRecord>, out: &mut Effects) {
        let lent = self.all.get_mut(&id).filter(|job| job.lent_to().is_some());
        let Some(job) = lent else {
            return answer(to, JobAnswer::Refused(format!("job {id} is not lent")), out);
        };
        match record {
            Some(record) if record.state.has_ended() => {
                info!(job = %id, state = record.state.name(), "has ended on another machine");
                job.returned(record);
            }
            _ => self.take_home(id),
        }
        self.is_due = true;
        self.answer_when_saved(id, to, JobAnswer::Changed(vec![Ok(true)]));
    }

    /// A lent job waits here again.
    fn take_home(&mut self, id: JobId) {
        let Some(job) = self.all.get_mut(&id) else { return };
        job.take_home();
        self.changed.insert(id);
        self.is_due = true;
        if job.waiting() > 0 {
            let job = job.clone();
            self.enqueue(&job, job.submitted);
        }
    }

    /// The jobs that are lent to a machine, and the oldest that may be.
    pub(super) fn for_exchange(&self, peer: &str) -> JobAnswer {
        let lent = self.all.values().filter(|job| job.ended.is_none() && job.lent_to() == Some(peer));
        let others = self.all.values().filter(|job| job.ended.is_none() && self.may_be_lent(job));
        let (jobs, _) = self.records_of(lent.take(LENT_MAX).chain(others.take(OFFERED_MAX)));
        JobAnswer::Jobs { jobs, more: false }
    }

    /// The job that has come from there, if it has.
    pub(super) fn of_origin(&self, origin: &Origin) -> Option<JobId> {
        let mut all = self.all.values();
        all.find(|job| job.request.origin.as_ref() == Some(origin)).map(|job| job.id)
    }

    /// Slots that are free and that no job of this machine waits for.
    pub(super) fn room(&self) -> JobAnswer {
        let waits = |job: &Job| job.ended.is_none() && job.state() == JobState::Waiting;
        let is_wanted = self.scheduler.waiting() > 0 && self.all.values().any(waits);
        JobAnswer::Room(if is_wanted { 0 } else { self.scheduler.free() })
    }
}

/// Why a call is refused whose job cannot be written.
pub(super) fn not_kept(reason: &str) -> String {
    format!("the job cannot be kept on disk: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use pvm_sched::queues::Queue;
    use pvm_wire::HostIndex;
    use pvm_wire::daemon::RequestId;
    use pvm_wire::jobs::JobRequest;
    use std::time::Duration;

    const ID: JobId = JobId(1);

    fn caller(id: u64) -> PeerTo {
        PeerTo { host: HostIndex::MASTER, id: RequestId(id) }
    }

    /// A machine with a job that waits and is on disk.
    fn jobs() -> Jobs {
        let config = Config { queues: vec![Queue::open("default")].into(), ..Config::for_tests() };
        let mut jobs = Jobs::new(&config, Duration::from_secs(1));
        let request = JobRequest::new("true", "ann", "/");
        let demand = Job::demand(&request);
        let job = Job::new(ID, request, "default".into(), demand);
        jobs.enqueue(&job, 0);
        jobs.all.insert(ID, job);
        jobs
    }

    /// Writes what is to be written, and says how that went.
    fn save(jobs: &mut Jobs, failure: Option<&str>) -> String {
        let mut out = Effects::default();
        jobs.save(1, &mut out);
        jobs.on_saved(jobs.saves, failure, &mut out);
        format!("{out:?}")
    }

    #[test]
    fn a_job_is_lent_when_that_is_on_disk_and_not_before() {
        let (mut jobs, mut out) = (jobs(), Effects::default());
        jobs.lend(caller(1), ID, "b".into(), &mut out);
        assert_eq!(
            (format!("{out:?}"), jobs.all[&ID].state()),
            (format!("{:?}", Effects::default()), JobState::Lent)
        );
        assert!(save(&mut jobs, None).contains("Lent("));
        // The exchange has died and asks again, while nothing can be written: the job may be there already.
        jobs.lend(caller(2), ID, "b".into(), &mut out);
        assert!(save(&mut jobs, Some("full")).contains("full"));
        assert_eq!(jobs.all[&ID].state(), JobState::Lent);
        jobs.lend(caller(3), ID, "c".into(), &mut out);
        assert!(format!("{out:?}").contains("is lent to b"));
    }

    #[test]
    fn a_job_that_cannot_be_written_as_lent_waits_here() {
        let (mut jobs, mut out) = (jobs(), Effects::default());
        jobs.lend(caller(1), ID, "b".into(), &mut out);
        jobs.save(1, &mut out);
        // Another asks behind it: its answer must not come true by a later save.
        jobs.lend(caller(2), ID, "b".into(), &mut out);
        jobs.on_saved(jobs.saves, Some("full"), &mut out);
        assert_eq!((jobs.all[&ID].state(), jobs.all[&ID].waiting()), (JobState::Waiting, 1));
        assert_eq!(format!("{out:?}").matches("cannot be kept on disk: full").count(), 2);
        assert!(jobs.pending.is_empty() && !save(&mut jobs, None).contains("Lent("));
    }
}
