//! Where tasks live. A task's id says where it was born, and stays its id for life: of those that have moved, this says where they are.
//!
//! The master decides about it; every host has a copy.

use pvm_wire::{HostIndex, Tid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tasks that have moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Places(BTreeMap<Tid, HostIndex>);

impl Places {
    /// What a newcomer is told.
    pub fn of(moved: Vec<(Tid, HostIndex)>) -> Self {
        Self(moved.into_iter().collect())
    }

    /// Where a task lives, or a daemon or service with this id.
    pub fn find(&self, tid: Tid) -> Option<HostIndex> {
        self.0.get(&tid).copied().or_else(|| tid.host())
    }

    /// Whether a task has moved.
    pub fn has(&self, tid: Tid) -> bool {
        self.0.contains_key(&tid)
    }

    /// A task has moved. One that is back where it was born is remembered: other hosts may have something of it.
    pub fn set(&mut self, tid: Tid, host: HostIndex) {
        self.0.insert(tid, host);
    }

    /// A task that had moved has ended; whether that is news.
    pub fn forget(&mut self, tid: Tid) -> bool {
        self.0.remove(&tid).is_some()
    }

    /// A host is out, and the tasks that lived there have ended: those that had moved.
    pub fn host_gone(&mut self, host: HostIndex) -> Vec<Tid> {
        let gone: Vec<Tid> = self.iter().filter(|(_, at)| *at == host).map(|(tid, _)| tid).collect();
        self.0.retain(|_, at| *at != host);
        gone
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Tid, HostIndex)> {
        self.0.iter().map(|(&tid, &host)| (tid, host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_where_it_was_born_until_it_moves() {
        let [one, two] = [1, 2].map(|index| HostIndex::new(index).unwrap());
        let (tid, other) = (one.task(1), one.task(2));
        let mut places = Places::default();
        assert_eq!(places.find(tid), Some(one));
        places.set(tid, two);
        assert_eq!((places.find(tid), places.find(other)), (Some(two), Some(one)));
        assert!(places.has(tid) && !places.has(other));
        assert_eq!(Places::of(places.iter().collect()), places);
        places.set(tid, one);
        assert!(places.has(tid) && places.find(tid) == Some(one), "it is back");
        places.set(other, two);
        assert_eq!(places.host_gone(one), [tid]);
        assert!(places.has(other), "it does not live there");
        assert_eq!(places.host_gone(two), [other]);
        assert!(!places.forget(other));
    }
}
