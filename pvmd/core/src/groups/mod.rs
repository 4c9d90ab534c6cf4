//! The groups of the virtual machine, kept by the master.
//!
//! To tasks the keeper looks like the original's group server: it has a task id and is found in the mailbox. But it is
//! no process that could die: it lives as long as the virtual machine.

mod group;
mod keeper;
#[cfg(test)]
mod tests;

pub(super) use keeper::{Answer, Keeper};

use super::Core;
use super::addresses::Waiter;
use super::flow::Source;
use bytes::Bytes;
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, TASK_PROTOCOL, Tc};
use pvm_wire::daemon::{DaemonMsg, PeerRequest};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::limits::FRAGMENT_SIZE;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, HostIndex, Message, MessageHeader, Tid, group as wire};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{debug, warn};

/// Answers that wait until hosts have heard of a change.
#[derive(Debug)]
pub(super) struct HeldAnswers {
    missing: usize,
    answers: Vec<Answer>,
}

impl Core {
    /// A piece of a message for the keeper of groups.
    pub(super) fn on_group_fragment(&mut self, source: Source, src: Tid, flags: u8, data: Bytes) {
        let header = FragmentHeader { dst: wire::keeper(), src, length: data.len() as u32, flags };
        match self.group_requests.push(&header, data) {
            Ok(Assembled::Partial) => {}
            Ok(Assembled::Stray) => debug!(%src, "continuation of nothing: dropped"),
            Ok(Assembled::Whole(message)) => self.on_group_request(source, &message),
            Err(error) => warn!(%src, %error, "message to the keeper of groups refused"),
        }
    }

    fn on_group_request(&mut self, source: Source, message: &Message) {
        let (from, tag) = (message.src, message.header.tag);
        if message.header.context == CONTEXT_TC && tag == Tc::ConReq.tag() {
            return self.deny_route(source, from);
        }
        if message.header.context != wire::CONTEXT {
            return debug!(src = %from, tag, "not a request about groups: dropped");
        }
        let known = self.groups.has(from);
        let answers = self.groups.handle(from, tag, &message.body);
        if !known && self.groups.has(from) {
            self.watch_owner(from);
        }
        if matches!(tag, wire::tag::JOIN | wire::tag::LEAVE) {
            return self.answer_when_known(answers);
        }
        for answer in answers {
            // Charged to the one who asked: who never reads answers is not read either.
            let source = if answer.to == [from] { source } else { Source::Daemon };
            self.send_as_keeper(source, wire::CONTEXT, answer);
        }
    }

    /// Sends notices of a change, and the answers once the notices have come to all hosts concerned: whoever learns
    /// from the new member that it has joined knows it from the keeper already.
    fn answer_when_known(&mut self, answers: Vec<Answer>) {
        let (notices, answers): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.tag == wire::tag::CHANGED);
        let told = notices.iter().flat_map(|notice| &notice.to).filter_map(|tid| tid.host());
        let hosts: BTreeSet<HostIndex> = told.filter(|&host| host != self.config.index).collect();
        for notice in notices {
            self.send_as_keeper(Source::Daemon, wire::CONTEXT, notice);
        }
        let held = HeldAnswers { missing: hosts.len(), answers };
        if hosts.is_empty() {
            return self.release(held);
        }
        let id = self.next_id();
        self.group_answers.insert(id, held);
        for host in hosts {
            self.ask(host, PeerRequest::Ping, Waiter::GroupNotice(id));
        }
    }

    /// A host has passed on what it was told about groups, or is gone.
    pub(super) fn on_group_notice_heard(&mut self, id: u64) {
        let Some(mut held) = self.group_answers.remove(&id) else { return };
        held.missing -= 1;
        if held.missing == 0 {
            self.release(held);
        } else {
            self.group_answers.insert(id, held);
        }
    }

    fn release(&mut self, held: HeldAnswers) {
        for answer in held.answers {
            self.send_as_keeper(Source::Daemon, wire::CONTEXT, answer);
        }
    }

    /// Tasks that like direct routes ask for one to the keeper, too, and wait for its answer.
    fn deny_route(&mut self, source: Source, asker: Tid) {
        let body = BodyWriter::new().int(TASK_PROTOCOL).int(1).str("").finish();
        let answer = Answer { to: vec![asker], tag: Tc::ConAck.tag(), body };
        self.send_as_keeper(source, CONTEXT_TC, answer);
    }

    /// Whether this is a task of this host, or the keeper of groups.
    pub(super) fn is_here(&self, tid: Tid) -> bool {
        self.tasks.get(tid).is_some() || self.is_master() && tid == wire::keeper()
    }

    /// A task has ended: it is in no group any more.
    pub(super) fn group_member_gone(&mut self, tid: Tid) {
        if !self.is_master() {
            return;
        }
        self.group_requests.forget(tid);
        for answer in self.groups.task_gone(tid) {
            self.send_as_keeper(Source::Daemon, wire::CONTEXT, answer);
        }
    }

    /// A host is out, with all its tasks.
    pub(super) fn group_host_gone(&mut self, host: HostIndex) {
        for tid in self.groups.members_where(|tid| tid.host() == Some(host)) {
            self.group_member_gone(tid);
        }
    }

    /// Sends a message of the keeper: one copy per host.
    fn send_as_keeper(&mut self, source: Source, context: i32, answer: Answer) {
        let src = wire::keeper();
        let mut hosts: BTreeMap<HostIndex, Vec<Tid>> = BTreeMap::new();
        for tid in answer.to {
            if let Some(host) = tid.host() {
                hosts.entry(host).or_default().push(tid);
            }
        }
        let header =
            MessageHeader { encoding: XDR_WORD, tag: answer.tag, context, ..MessageHeader::default() };
        let message = Message { src, dst: Tid::NONE, header, body: answer.body.into() };
        for (header, data) in message.fragments(FRAGMENT_SIZE) {
            for (&host, dsts) in &hosts {
                if host == self.config.index {
                    for &dst in dsts {
                        self.deliver(source, src, dst, header.flags, data.clone());
                    }
                } else {
                    let (dsts, data) = (dsts.clone(), data.clone());
                    let piece = DaemonMsg::Data { src, dsts, flags: header.flags, data };
                    self.send_data(source, host, piece);
                }
            }
        }
    }
}
