//! The groups of the virtual machine, kept by the master.
//!
//! To tasks the keeper looks like the original's group server: it has a task id and is found in the mailbox. But it is
//! no process that could die: it lives as long as the virtual machine.

mod group;
mod keeper;
#[cfg(test)]
mod tests;

use super::watch;
use crate::addresses::Waiter;
use crate::effect::{Effect, Effects};
use crate::flow::Source;
use bytes::Bytes;
use keeper::{Answer, Keeper};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, TASK_PROTOCOL, Tc};
use pvm_wire::daemon::PeerRequest;
use pvm_wire::limits::GROUP_REQUEST_MAX;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, HostIndex, Message, Reassembler, Tid, group as wire};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{debug, warn};

/// The keeper, and its exchange of messages with tasks.
#[derive(Debug)]
pub(crate) struct Groups {
    keeper: Keeper,
    /// Requests, cut into fragments.
    requests: Reassembler,
    /// By the number of the change.
    held: BTreeMap<u64, HeldAnswers>,
    changes: u64,
}

/// Answers that wait until hosts have heard of a change.
#[derive(Debug)]
struct HeldAnswers {
    missing: usize,
    answers: Vec<Answer>,
}

impl Groups {
    pub fn new() -> Self {
        let requests = Reassembler::new(GROUP_REQUEST_MAX);
        Self { keeper: Keeper::default(), requests, held: BTreeMap::new(), changes: 0 }
    }

    /// Groups, and answers that are held back.
    pub fn counts(&self) -> (usize, usize) {
        (self.keeper.len(), self.held.len())
    }

    /// Requests that have begun and not ended.
    pub fn partial(&self) -> usize {
        self.requests.len()
    }

    /// A piece of a message for the keeper.
    pub fn on_fragment(&mut self, source: Source, src: Tid, flags: u8, data: Bytes, out: &mut Effects) {
        let header = FragmentHeader { dst: wire::keeper(), src, length: data.len() as u32, flags };
        match self.requests.push(&header, data) {
            Ok(Assembled::Partial) => {}
            Ok(Assembled::Stray) => debug!(%src, "continuation of nothing: dropped"),
            Ok(Assembled::Whole(message)) => self.on_request(source, &message, out),
            Err(error) => warn!(%src, %error, "message to the keeper of groups refused"),
        }
    }

    fn on_request(&mut self, source: Source, message: &Message, out: &mut Effects) {
        let (from, tag) = (message.src, message.header.tag);
        if message.header.context == CONTEXT_TC && tag == Tc::ConReq.tag() {
            return deny_route(source, from, out);
        }
        if message.header.context != wire::CONTEXT {
            return debug!(src = %from, tag, "not a request about groups: dropped");
        }
        let known = self.keeper.has(from);
        let answers = self.keeper.handle(from, tag, &message.body);
        if !known && self.keeper.has(from) {
            watch(from, out);
        }
        if matches!(tag, wire::tag::JOIN | wire::tag::LEAVE) {
            return self.answer_when_known(answers, out);
        }
        for answer in answers {
            // Charged to the task that asked: one that never reads answers is not read either.
            let source = if answer.to == [from] { source } else { Source::Daemon };
            send(source, answer, out);
        }
    }

    /// Sends notices of a change, and the answers once the notices have come to all hosts concerned: a task that learns
    /// from the new member that it has joined knows it from the keeper already.
    fn answer_when_known(&mut self, answers: Vec<Answer>, out: &mut Effects) {
        let (notices, answers): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.tag == wire::tag::CHANGED);
        let told = notices.iter().flat_map(|notice| &notice.to).filter_map(|tid| tid.host());
        let hosts: BTreeSet<HostIndex> = told.filter(|&host| host != HostIndex::MASTER).collect();
        for notice in notices {
            send(Source::Daemon, notice, out);
        }
        let held = HeldAnswers { missing: hosts.len(), answers };
        if hosts.is_empty() {
            return release(held, out);
        }
        self.changes += 1;
        self.held.insert(self.changes, held);
        for host in hosts {
            out.push(Effect::Ask(host, PeerRequest::Ping, Waiter::GroupNotice(self.changes)));
        }
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
        self.requests.forget(tid);
        for answer in self.keeper.task_gone(tid) {
            send(Source::Daemon, answer, out);
        }
    }

    /// A host is out, with all its tasks.
    pub fn host_gone(&mut self, host: HostIndex, out: &mut Effects) {
        for tid in self.keeper.members_where(|tid| tid.host() == Some(host)) {
            self.task_gone(tid, out);
        }
    }
}

fn release(held: HeldAnswers, out: &mut Effects) {
    for answer in held.answers {
        send(Source::Daemon, answer, out);
    }
}

fn send(source: Source, Answer { to, tag, body }: Answer, out: &mut Effects) {
    out.push(Effect::SendAsKeeper { source, to, context: wire::CONTEXT, tag, body });
}

/// Tasks that like direct routes ask for one to the keeper, too, and wait for its answer.
fn deny_route(source: Source, asker: Tid, out: &mut Effects) {
    let body = BodyWriter::new().int(TASK_PROTOCOL).int(1).str("").finish();
    let (to, tag) = (vec![asker], Tc::ConAck.tag());
    out.push(Effect::SendAsKeeper { source, to, context: CONTEXT_TC, tag, body });
}
