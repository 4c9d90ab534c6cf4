//! The groups of the virtual machine, kept by the master.
//!
//! To tasks the keeper looks like the original's group server: it has a task id and is found in the mailbox. But it is
//! no process that could die: it lives as long as the virtual machine.

#[cfg(test)]
mod agreement_tests;
mod group;
mod keeper;
#[cfg(test)]
mod tests;

use super::watch;
use crate::effect::{Effect, Effects};
use crate::places::Places;
use keeper::{Answer, Keeper};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, TASK_PROTOCOL, Tc};
use pvm_wire::daemon::Blob;
use pvm_wire::{HostIndex, Tid, group as wire};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use tracing::debug;

/// The keeper, and its exchange of messages with tasks.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Groups {
    keeper: Keeper,
    /// By the number of the change.
    held: BTreeMap<u64, HeldAnswers>,
    changes: u64,
}

/// Answers that wait until hosts have heard of a change.
#[derive(Debug, Serialize, Deserialize)]
struct HeldAnswers {
    missing: usize,
    answers: Vec<Answer>,
}

/// Hosts that have been told of a change, and are to say so.
#[derive(Debug)]
pub(super) struct Change {
    pub number: u64,
    pub hosts: BTreeSet<HostIndex>,
}

impl Groups {
    pub fn new() -> Self {
        Self::default()
    }

    /// Groups, and answers that are held back.
    pub fn counts(&self) -> (usize, usize) {
        (self.keeper.len(), self.held.len())
    }

    /// A message of a task to the keeper. The hosts that are to say when they have heard of a change that follows.
    pub fn on_message(
        &mut self,
        from: Tid,
        (context, tag): (i32, i32),
        body: &[u8],
        places: &Places,
        out: &mut Effects,
    ) -> Option<Change> {
        if context == CONTEXT_TC && tag == Tc::ConReq.tag() {
            deny_route(from, out);
            return None;
        }
        if context != wire::CONTEXT {
            debug!(src = %from, tag, "not a request about groups: dropped");
            return None;
        }
        let known = self.keeper.has(from);
        let answers = self.keeper.handle(from, tag, body);
        if !known && self.keeper.has(from) {
            watch(from, places, out);
        }
        if matches!(tag, wire::tag::JOIN | wire::tag::LEAVE) {
            return self.answer_when_known(answers, places, out);
        }
        for answer in answers {
            send(answer, out);
        }
        None
    }

    /// A task of a parallel job is a member of the job's group before it starts. The hosts that are to say when they have heard of it.
    pub fn enter(
        &mut self,
        tid: Tid,
        name: &str,
        instance: u32,
        places: &Places,
        out: &mut Effects,
    ) -> Option<Change> {
        let known = self.keeper.has(tid);
        let notices = self.keeper.enter(OsStr::new(name), tid, instance);
        if !known && self.keeper.has(tid) {
            watch(tid, places, out);
        }
        self.answer_when_known(notices, places, out)
    }

    /// Sends notices of a change, and the answers once the notices have come to all hosts concerned: a task that learns
    /// from the new member that it has joined knows it from the keeper already.
    fn answer_when_known(
        &mut self,
        answers: Vec<Answer>,
        places: &Places,
        out: &mut Effects,
    ) -> Option<Change> {
        let (notices, answers): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.tag == wire::tag::CHANGED);
        let told = notices.iter().flat_map(|notice| &notice.to).filter_map(|&tid| places.find(tid));
        let hosts: BTreeSet<HostIndex> = told.collect();
        for notice in notices {
            send(notice, out);
        }
        let held = HeldAnswers { missing: hosts.len(), answers };
        if hosts.is_empty() {
            release(held, out);
            return None;
        }
        self.changes += 1;
        self.held.insert(self.changes, held);
        Some(Change { number: self.changes, hosts })
    }

    /// A host has passed on what it was told about groups, or is gone.
    pub fn on_notice_heard(&mut self, change: u64, out: &mut Effects) {
        let Some(held) = self.held.get_mut(&change) else { return };
        held.missing -= 1;
        if held.missing == 0
            && let Some(held) = self.held.remove(&change)
        {
            release(held, out);
        }
    }

    /// A task has ended: it is in no group any more.
    pub fn task_gone(&mut self, tid: Tid, out: &mut Effects) {
        for answer in self.keeper.task_gone(tid) {
            send(answer, out);
        }
    }

    /// A task lives on another host: for its groups that is a change, as members of one host meet in its memory.
    pub fn task_moved(&mut self, tid: Tid, places: &Places, out: &mut Effects) -> Option<Change> {
        let notices = self.keeper.task_moved(tid);
        if notices.is_empty() { None } else { self.answer_when_known(notices, places, out) }
    }

    /// A host is out, with all its tasks.
    pub fn host_gone(&mut self, host: HostIndex, places: &Places, out: &mut Effects) {
        for tid in self.keeper.members_where(|tid| places.find(tid) == Some(host)) {
            self.task_gone(tid, out);
        }
    }
}

fn release(held: HeldAnswers, out: &mut Effects) {
    for answer in held.answers {
        send(answer, out);
    }
}

fn send(Answer { to, tag, body }: Answer, out: &mut Effects) {
    out.push(Effect::OrderTasks { to, context: wire::CONTEXT, tag, body: Blob(body.into()) });
}

/// Tasks that like direct routes ask for one to the keeper, too, and wait for its answer.
fn deny_route(asker: Tid, out: &mut Effects) {
    let body = BodyWriter::new().int(TASK_PROTOCOL).int(1).str("").finish();
    let (to, tag) = (vec![asker], Tc::ConAck.tag());
    out.push(Effect::OrderTasks { to, context: CONTEXT_TC, tag, body: Blob(body.into()) });
}
