//! Where tasks live. A task keeps its id when it moves, so the id tells where it was born, and no more.
//!
//! The daemon tells of each task that has moved. Until it does, what is sent to a task that is about to move goes by the daemons, and
//! stays so after the move.

use super::Engine;
use super::peers::Peer;
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet};

/// The tasks that do not live where they were born, this one among them, and those that are about to move.
#[derive(Debug, Default)]
pub(super) struct Places {
    moved: BTreeMap<Tid, HostIndex>,
    leaving: BTreeSet<Tid>,
}

impl Places {
    /// The host on which a task lives.
    #[inline]
    pub(super) fn host_of(&self, tid: Tid) -> Option<HostIndex> {
        if self.moved.is_empty() {
            return tid.host();
        }
        self.moved.get(&tid).copied().or_else(|| tid.host())
    }

    /// The same, as an id.
    pub(super) fn host_tid_of(&self, tid: Tid) -> Tid {
        self.host_of(tid).map_or_else(|| tid.to_host(), HostIndex::host_tid)
    }

    /// A task lives there now; without a host where it was born, if it lives.
    pub(super) fn set(&mut self, tid: Tid, host: Option<HostIndex>) {
        self.leaving.remove(&tid);
        match host.filter(|&host| tid.host() != Some(host)) {
            Some(host) => drop(self.moved.insert(tid, host)),
            None => drop(self.moved.remove(&tid)),
        }
    }

    /// A task is about to move; whether that is new.
    pub(super) fn note_leaving(&mut self, tid: Tid) -> bool {
        self.leaving.insert(tid)
    }

    /// It does not move, or has ended.
    pub(super) fn forget_leaving(&mut self, tid: Tid) {
        self.leaving.remove(&tid);
    }

    /// Whether it is about to move.
    #[inline]
    pub(super) fn is_leaving(&self, tid: Tid) -> bool {
        !self.leaving.is_empty() && self.leaving.contains(&tid)
    }

    /// The tasks that do not live where they were born.
    pub(super) fn moved(&self) -> impl Iterator<Item = (Tid, HostIndex)> {
        self.moved.iter().map(|(&tid, &host)| (tid, host))
    }
}

impl Engine {
    /// The host on which this task lives.
    #[inline]
    pub fn host(&self) -> Option<HostIndex> {
        self.host_of(self.tid())
    }

    /// The host on which a task lives.
    #[inline]
    pub(super) fn host_of(&self, tid: Tid) -> Option<HostIndex> {
        self.places.host_of(tid)
    }

    /// Whether a task lives on this task's host.
    #[inline]
    pub(super) fn is_near(&self, tid: Tid) -> bool {
        self.host_of(tid) == self.host()
    }

    /// The daemon has told where a task lives that has moved. What was agreed with it was agreed for its old place.
    pub(super) fn note_place(&mut self, tid: Tid, host: Option<HostIndex>) {
        self.places.set(tid, host);
        if tid == self.tid() {
            return;
        }
        // All that it has written there is read: rings come before what the daemon has sent.
        self.lose_neighbour(tid);
        // A request for a route is kept for the task as all else, and answered where it lives.
        if matches!(self.peers.get(tid), Some(Peer::Refused | Peer::Granted(_) | Peer::Calling(_))) {
            self.drop_peer(tid);
        }
        self.automatic.forget(tid);
        self.neighbours.forget_asked(tid);
        self.watch_moved(tid);
    }

    /// Forgets that a route was asked for, granted or refused, and takes what need not wait for it any more.
    pub(super) fn drop_peer(&mut self, tid: Tid) {
        for message in self.peers.remove(tid) {
            self.take(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_lives_where_it_was_born_unless_it_has_moved() {
        let [first, second] = [HostIndex::new(1), HostIndex::new(2)];
        let tid = first.unwrap().task(7);
        let mut places = Places::default();
        assert_eq!(places.host_of(tid), first);
        assert!(places.note_leaving(tid) && !places.note_leaving(tid));
        places.set(tid, second);
        assert_eq!((places.host_of(tid), places.is_leaving(tid)), (second, false));
        assert_eq!(places.moved().count(), 1);
        places.set(tid, first);
        assert_eq!((places.host_of(tid), places.moved().count()), (first, 0));
        places.set(tid, second);
        places.set(tid, None);
        assert_eq!((places.host_of(tid), places.moved().count()), (first, 0));
    }
}
