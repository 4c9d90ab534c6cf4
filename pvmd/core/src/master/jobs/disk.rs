//! Jobs are written to disk: one that is submitted before its number is told, what changes later together, once in a while.

use super::{Jobs, answer, peers};
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
            () if self.saving.is_some() => None,
            // What starts before it is on disk could run again elsewhere.
            () if self.is_state_new && self.live() > 0 => Some(Urgency::Now),
            () if self.changed.is_empty() => None,
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

    /// The machine is halted: nobody goes on with its jobs.
    pub fn close(&mut self, out: &mut Effects) {
        // While others may know more of them, that does not change.
        self.state.is_closed = !self.earlier.has_uncertain();
        self.changed.extend(self.all.keys().next());
        self.save_all(out);
    }

    /// The same, also while something is being written.
    fn save_all(&mut self, out: &mut Effects) {
        // A machine that never had a job has no file.
        if self.changed.is_empty() && (self.all.is_empty() || !self.is_state_new) {
            return;
        }
        self.is_state_new = false;
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
        let state = self.state.clone();
        out.act(Action::SaveJobs { serial: self.saves, changes, state });
        self.saving = Some((self.saves, ids));
    }

    /// It was written, or could not be.
    pub(super) fn on_saved(&mut self, serial: u64, failure: Option<&str>, out: &mut Effects) {
        let Some((_, ids)) = self.saving.take_if(|(saving, _)| *saving == serial) else { return };
        self.answer_saved(serial, failure, out);
        self.is_state_new |= failure.is_some();
        for id in ids {
            match (self.unsaved.remove(&id), failure) {
                (None, None) => {}
                // Written again, in a while.
                (None, Some(_)) => drop(self.changed.insert(id)),
                (Some(to), Some(reason)) => {
                    self.all.remove(&id);
                    answer(to, JobAnswer::Refused(peers::not_kept(reason)), out);
                    self.refuse_pending(id, reason, out);
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
