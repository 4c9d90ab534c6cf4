//! What a centre knows of the hosts: each is asked once, and says by itself what changes then.

use super::agent::Scene;
use std::collections::{BTreeMap, BTreeSet};

/// What each host has said of itself.
#[derive(Clone, Debug)]
pub(super) struct Census<T> {
    known: BTreeMap<usize, T>,
    /// Hosts that were asked and have not answered.
    awaited: BTreeSet<usize>,
}

impl<T> Default for Census<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), awaited: BTreeSet::new() }
    }
}

impl<T> Census<T> {
    /// Asks those of all hosts that are not known.
    pub fn take<M>(&mut self, question: impl Fn() -> M, scene: &mut Scene<'_, M>) {
        if self.known.len() + self.awaited.len() < scene.hosts.len() {
            self.take_of(scene.hosts, question, scene);
        }
    }

    /// Asks those of these hosts that are not known.
    pub fn take_of<M>(&mut self, hosts: &[usize], question: impl Fn() -> M, scene: &mut Scene<'_, M>) {
        for &host in hosts {
            if !self.known.contains_key(&host) && self.awaited.insert(host) {
                scene.send(host, question());
            }
        }
    }

    /// A host speaks for the first time, or again from the beginning.
    pub fn answered(&mut self, host: usize, says: T) -> Option<T> {
        self.awaited.remove(&host);
        self.known.insert(host, says)
    }

    /// A host is gone.
    pub fn gone(&mut self, host: usize) -> Option<T> {
        self.awaited.remove(&host);
        self.known.remove(&host)
    }

    /// Whether all have answered.
    pub fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// What is known, by host.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.known.iter().map(|(&host, says)| (host, says))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.known.values_mut()
    }

    /// Whether nothing was ever asked.
    pub fn is_unused(&self) -> bool {
        self.known.is_empty() && self.awaited.is_empty()
    }

    pub fn get_mut(&mut self, host: usize) -> Option<&mut T> {
        self.known.get_mut(&host)
    }
}
