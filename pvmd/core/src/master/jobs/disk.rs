//! Jobs are written to disk: one that is submitted before its number is told, what changes later together, once in a while.

use super::{Jobs, answer};
use crate::addresses::PeerTo;
use crate::effect::Effects;
use crate::event::Action;
use pvm_wire::codec;
use pvm_wire::daemon::Blob;
use pvm_wire::jobs::{JobAnswer, JobId};

/// When something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Now,
    /// Tasks that end meanwhile run again if the computer loses its power.
    Later,
}

impl Jobs {
    /// Whether something is to be written now, or within a while.
    pub fn wants_save(&self) -> Option<Urgency> {
        match () {
            () if self.saving.is_some() || self.changed.is_empty() => None,
            () if self.unsaved.is_empty() && self.pending.is_empty() => Some(Urgency::Later),
            () => Some(Urgency::Now),
        }
    }

    /// What has changed is written.
    pub(super) fn save(&mut self, now: u64, out: &mut Effects) {
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
        for pending in self.pending.iter_mut().filter(|pending| pending.save.is_none()) {
            pending.save = Some(self.saves);
        }
        out.act(Action::SaveJobs { serial: self.saves, changes });
        self.saving = Some((self.saves, ids));
    }

    /// It was written, or could not be.
    pub(super) fn on_saved(&mut self, serial: u64, failure: Option<&str>, out: &mut Effects) {
        let Some((_, ids)) = self.saving.take_if(|(saving, _)| *saving == serial) else { return };
        self.answer_saved(serial, failure, out);
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
            self.enqueue(&job, job.submitted);
        }
        self.is_due = true;
        answer(to, JobAnswer::Submitted(id), out);
    }
}
