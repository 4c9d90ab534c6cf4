//! Tasks that move: the master decides whether they live here or there, in the order of its commands.
//!
//! A host asks for consent before a task of its own moves, and the next host says when it has the task. If the old host takes the move back
//! before that, or one of the two is lost, the task does not move. So a task lives on one host, whatever is lost at any time.

use super::Master;
use crate::effect::{Effect, Effects};
use crate::places::Places;
use pvm_wire::daemon::{Attempt, FromMaster};
use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracing::info;

/// Where tasks live, and which may move.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Moves {
    places: Places,
    /// Tasks that may move, and where to.
    moving: BTreeMap<Tid, (Attempt, HostIndex)>,
}

impl Moves {
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// A host is out, with the tasks that lived there. Those that were to come from there or to go there do not move; both hosts know that
    /// when they hear that the other is out.
    pub fn host_gone(&mut self, host: HostIndex) {
        self.places.host_gone(host);
        self.moving.retain(|_, (attempt, to)| attempt.from != host && *to != host);
    }

    /// Takes the consent to an attempt back; where to it was, if it stood.
    fn end(&mut self, attempt: Attempt) -> Option<HostIndex> {
        let (_, to) = *self.moving.get(&attempt.tid).filter(|(known, _)| *known == attempt)?;
        self.moving.remove(&attempt.tid);
        Some(to)
    }
}

impl Master {
    /// Whether a task lives on this host.
    pub(super) fn lives_on(&self, tid: Tid, host: HostIndex) -> bool {
        self.moves.places.find(tid) == Some(host)
    }

    /// A host wants to have a task of its own move.
    pub(super) fn on_move_begins(
        &mut self,
        host: HostIndex,
        attempt: Attempt,
        to: HostIndex,
        out: &mut Effects,
    ) {
        let is_its = attempt.from == host && self.lives_on(attempt.tid, host);
        let answer = if is_its && to != host && self.members.contains(to) && self.members.contains(host) {
            self.moves.moving.insert(attempt.tid, (attempt, to));
            FromMaster::MoveBegun(attempt)
        } else {
            FromMaster::MoveRefused(attempt)
        };
        out.push(Effect::Order(host, answer));
    }

    /// The host that a task was to leave keeps it, unless it has gone.
    pub(super) fn on_move_ends(&mut self, host: HostIndex, attempt: Attempt, out: &mut Effects) {
        if attempt.from == host
            && let Some(to) = self.moves.end(attempt)
        {
            out.push(Effect::Order(host, FromMaster::MoveRefused(attempt)));
            out.push(Effect::Order(to, FromMaster::MoveRefused(attempt)));
        }
    }

    /// A host has all of a task that moves there; these hosts keep what is for it. A host that has joined meanwhile may not: its messages might
    /// come late.
    pub(super) fn on_arrived(
        &mut self,
        host: HostIndex,
        attempt: Attempt,
        hosts: &[HostIndex],
        out: &mut Effects,
    ) {
        let stands = self.moves.moving.get(&attempt.tid) == Some(&(attempt, host));
        let all_keep = self.members.indices().all(|member| hosts.contains(&member));
        if !stands || !all_keep {
            self.moves.end(attempt);
            for told in [host, attempt.from] {
                out.push(Effect::Order(told, FromMaster::MoveRefused(attempt)));
            }
            return;
        }
        info!(task = %attempt.tid, from = %attempt.from, to = %host, "has moved");
        self.moves.moving.remove(&attempt.tid);
        self.moves.places.set(attempt.tid, host);
        out.push(Effect::OrderAll(FromMaster::Moved { attempt, to: host }));
        let change = self.groups.task_moved(attempt.tid, &self.moves.places, out);
        self.ask_of_change(change, out);
    }

    /// A task has ended that had moved. Its host says nothing more of it that would count: where the task lived is forgotten.
    pub(super) fn on_moved_task_gone(&mut self, host: HostIndex, tid: Tid, out: &mut Effects) {
        if self.lives_on(tid, host) && self.moves.places.forget(tid) {
            self.on_task_gone(tid, out);
            out.push(Effect::OrderAll(FromMaster::MovedTaskGone { tid }));
        }
    }
}
