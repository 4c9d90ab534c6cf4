//! A host's end of the exchange with the master, whichever host that is.
//!
//! What this host says is kept until a master has heard it, and what it hears counts once. So a request that was on its way to a
//! master that is lost is answered once, by the next one. The other end is `master/sessions.rs`.

use super::master::UNTOLD_MAX;
use pvm_wire::daemon::{Blob, DaemonMsg, FromMaster, MasterRequest, ToMaster};
use pvm_wire::limits::GROUP_REQUEST_MAX;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, HostIndex, Reassembler, Tid, group};
use std::collections::{BTreeSet, VecDeque};
use tracing::{debug, warn};

/// Bytes of messages from which on the sender is told at once that they were heard.
const LARGE: usize = 64 * 1024;

/// What this host and the master say to each other.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Number of the last message to the master.
    said: u64,
    /// Those that no master may have heard, and the bytes of their bodies.
    unheard: VecDeque<(u64, ToMaster)>,
    bytes: usize,
    /// Number of the last message of the master.
    heard: u64,
    /// The last number that the master was told.
    told: u64,
    has_heard_much: bool,
    /// The masters that this host has followed so far, counted from the machine's start.
    reign: u64,
    /// The hosts that hold the master's state.
    deputies: Vec<HostIndex>,
    /// Tasks of this host whose end the master wants to know.
    watched: BTreeSet<Tid>,
    /// Messages of this host's tasks to the keeper of groups, cut into fragments.
    requests: Reassembler,
}

impl Exchange {
    pub fn new() -> Self {
        Self {
            said: 0,
            unheard: VecDeque::new(),
            bytes: 0,
            heard: 0,
            told: 0,
            has_heard_much: false,
            reign: 1,
            deputies: Vec::new(),
            watched: BTreeSet::new(),
            requests: Reassembler::new(GROUP_REQUEST_MAX),
        }
    }

    /// Numbers a message to the master.
    pub fn say(&mut self, what: ToMaster) -> DaemonMsg {
        self.said += 1;
        self.bytes += weight(&what);
        self.unheard.push_back((self.said, what.clone()));
        self.told = self.heard;
        DaemonMsg::ToMaster { number: self.said, heard: self.heard, what }
    }

    /// Whether the master's message with this number counts: it is the next one.
    pub fn hear(&mut self, number: u64, what: &FromMaster) -> bool {
        let is_next = number == self.heard + 1;
        if is_next {
            self.heard = number;
            let body = match what {
                FromMaster::Reply { what, .. } => reply_weight(what),
                FromMaster::Keeper { body, .. } => body.0.len(),
                _ => 0,
            };
            self.has_heard_much |= body >= LARGE;
        }
        is_next
    }

    /// The master has heard the messages up to this number.
    pub fn heard_by_master(&mut self, number: u64) {
        while self.unheard.front().is_some_and(|(said, _)| *said <= number) {
            self.bytes -= self.unheard.pop_front().map_or(0, |(_, what)| weight(&what));
        }
    }

    /// What the master is to be told that has said much, and was told nothing.
    pub fn owed(&mut self) -> Option<DaemonMsg> {
        let much = std::mem::take(&mut self.has_heard_much);
        if much || self.heard - self.told >= UNTOLD_MAX { self.acknowledge() } else { None }
    }

    /// What the master is to be told, if it does not know what was heard.
    pub fn acknowledge(&mut self) -> Option<DaemonMsg> {
        (self.heard > self.told).then(|| {
            self.told = self.heard;
            DaemonMsg::HostHeard { number: self.heard }
        })
    }

    /// A host says that it is the master of this reign: what it is to hear, unless another has followed it already.
    pub fn follow(&mut self, reign: u64) -> Option<Vec<DaemonMsg>> {
        if reign <= self.reign {
            return None;
        }
        self.reign = reign;
        let heard = self.heard;
        let again = |(number, what): &(u64, ToMaster)| DaemonMsg::ToMaster {
            number: *number,
            heard,
            what: what.clone(),
        };
        Some(self.unheard.iter().map(again).collect())
    }

    /// Bytes that no master may have heard.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn set_deputies(&mut self, deputies: Vec<HostIndex>) {
        self.deputies = deputies;
    }

    pub fn deputies(&self) -> &[HostIndex] {
        &self.deputies
    }

    /// The deputy that is to take the place of a master that is lost.
    pub fn successor(&self, lost: HostIndex) -> Option<HostIndex> {
        self.deputies.iter().copied().find(|&host| host != lost)
    }

    /// Whether another host can take the place of a master that is lost. A single other deputy is no majority: it takes the place only if
    /// the master is proved to have ended, or may be succeeded while it is silent (`can_succeed`).
    pub fn has_successor(&self, lost: HostIndex, own: HostIndex, can_succeed: bool) -> bool {
        let others: Vec<HostIndex> = self.deputies.iter().copied().filter(|&host| host != lost).collect();
        match others[..] {
            [] => false,
            [other] => other != own || can_succeed,
            _ => true,
        }
    }

    /// The master wants to know when this task of this host ends, which is there.
    pub fn watch(&mut self, tid: Tid) {
        self.watched.insert(tid);
    }

    /// Whether the master wants to know when this task ends.
    pub fn watches(&self, tid: Tid) -> bool {
        self.watched.contains(&tid)
    }

    /// A task of this host has ended: whether the master wants to know.
    pub fn unwatch(&mut self, tid: Tid) -> bool {
        self.requests.forget(tid);
        self.watched.remove(&tid)
    }

    /// Tasks whose end the master wants to know.
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Messages to the keeper that have begun and not ended.
    pub fn partial(&self) -> usize {
        self.requests.len()
    }

    /// A piece of a task's message to the keeper of groups: the message, if it was the last piece.
    pub fn assemble(&mut self, src: Tid, flags: u8, data: bytes::Bytes) -> Option<ToMaster> {
        let header = FragmentHeader { dst: group::keeper(), src, length: data.len() as u32, flags };
        match self.requests.push(&header, data) {
            Ok(Assembled::Partial) => None,
            Ok(Assembled::Stray) => {
                debug!(%src, "continuation of nothing: dropped");
                None
            }
            Ok(Assembled::Whole(message)) => Some(ToMaster::Keeper {
                from: src,
                context: message.header.context,
                tag: message.header.tag,
                body: Blob(message.body.to_vec().into()),
            }),
            Err(error) => {
                warn!(%src, %error, "message to the keeper of groups refused");
                None
            }
        }
    }
}

fn weight(what: &ToMaster) -> usize {
    match what {
        ToMaster::Request { what: MasterRequest::Mailbox { body, .. }, .. }
        | ToMaster::Keeper { body, .. } => body.0.len(),
        _ => 0,
    }
}

fn reply_weight(what: &pvm_wire::daemon::MasterReply) -> usize {
    match what {
        pvm_wire::daemon::MasterReply::Mailbox { body } => body.0.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_master_hears_what_the_last_one_has_not() {
        let mut exchange = Exchange::new();
        let said = |number, heard| DaemonMsg::ToMaster { number, heard, what: ToMaster::Pong { id: number } };
        for id in 1..=3 {
            assert_eq!(exchange.say(ToMaster::Pong { id }), said(id, 0));
        }
        exchange.heard_by_master(1);
        let ping = FromMaster::Ping { id: 1 };
        assert!(exchange.hear(1, &ping) && !exchange.hear(1, &ping) && !exchange.hear(3, &ping));
        assert_eq!(exchange.follow(2), Some(vec![said(2, 1), said(3, 1)]));
        assert_eq!(exchange.follow(2), None, "it is followed already");
        assert_eq!(exchange.owed(), None);
        let body = Blob(vec![0; LARGE].into());
        let large = FromMaster::Keeper { to: Vec::new(), context: 0, tag: 0, body };
        assert!(exchange.hear(2, &large));
        assert_eq!((exchange.owed(), exchange.owed()), (Some(DaemonMsg::HostHeard { number: 2 }), None));
    }
}
