//! Jobs that go to another virtual machine, and come from one.
//!
//! A program of each machine, the exchange, asks for both machines' sake. A job is lent when that is on disk, so that it does not run here
//! as well, whatever happens; it comes back as it has ended there. The other machine knows a job by its origin, and takes it once.

use super::{Jobs, answer};
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
    /// The number of the save that has the job; `None`: one that has not begun.
    pub save: Option<u64>,
}

impl Jobs {
    /// Answers when the job is on disk.
    pub(super) fn answer_when_saved(&mut self, job: JobId, to: PeerTo, answer: JobAnswer) {
        self.changed.insert(job);
        self.pending.push(Pending { job, to, answer, save: None });
    }

    /// A save has ended: the answers that have waited for it.
    pub(super) fn answer_saved(&mut self, serial: u64, failure: Option<&str>, out: &mut Effects) {
        let (ready, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.save == Some(serial));
        self.pending = rest;
        let ready: Vec<Pending> = ready;
        for Pending { job, to, answer: reply, .. } in ready {
            match failure {
                None => answer(to, reply, out),
                Some(reason) => {
                    if matches!(reply, JobAnswer::Lent(_)) {
                        self.take_home(job);
                    }
                    answer(to, JobAnswer::Refused(format!("the job cannot be kept on disk: {reason}")), out);
                }
            }
        }
    }

    /// A job is to run on another machine. If it was lent to that one before, the answer is the same.
    pub(super) fn lend(&mut self, to: PeerTo, id: JobId, peer: String, out: &mut Effects) {
        let refuse = |reason: String, out: &mut Effects| answer(to, JobAnswer::Refused(reason), out);
        let Some(job) = self.all.get_mut(&id) else { return refuse(format!("there is no job {id}"), out) };
        match job.lent_to() {
            Some(other) if other == peer => {}
            Some(other) => return refuse(format!("job {id} is lent to {other}"), out),
            None if job.may_be_lent() && !self.unsaved.contains_key(&id) => {
                info!(job = %id, peer, "lent");
                job.lend(peer);
                self.scheduler.cancel(id.0);
            }
            None => return refuse(format!("job {id} cannot be lent"), out),
        }
        let request = Box::new(job.request.clone());
        self.answer_when_saved(id, to, JobAnswer::Lent(request));
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
        let others = self.all.values().filter(|job| job.ended.is_none() && job.may_be_lent());
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
        let waits = |job: &super::Job| job.ended.is_none() && job.state() == JobState::Waiting;
        let is_wanted = self.scheduler.waiting() > 0 && self.all.values().any(waits);
        JobAnswer::Room(if is_wanted { 0 } else { self.scheduler.free() })
    }
}
