//! The rings to look at, of a task with many rings, whose senders list themselves.

use super::Neighbour;
use pvm_shm::{Mapping, bell};
use pvm_wire::Tid;
use std::collections::VecDeque;

/// Where a task lists itself.
pub(super) fn place_of(tid: Tid) -> u32 {
    tid.local() % bell::PLACES
}

/// The rings to look at, of a task whose senders list themselves.
#[derive(Debug)]
pub(super) struct List {
    /// The neighbours at each place, in order.
    places: Vec<(u32, usize)>,
    /// Those to look at, in turn, and whether each is among them.
    ready: VecDeque<usize>,
    is_ready: Vec<bool>,
}

impl List {
    /// All are looked at once.
    pub(super) fn of(table: &[Neighbour]) -> Self {
        let mut places: Vec<_> =
            table.iter().enumerate().map(|(index, neighbour)| (place_of(neighbour.tid), index)).collect();
        places.sort_unstable();
        Self { places, ready: (0..table.len()).collect(), is_ready: vec![true; table.len()] }
    }

    fn has_record(table: &[Neighbour], index: usize) -> bool {
        let reader = table.get(index).and_then(|neighbour| {
            let reader = neighbour.reader.as_ref().filter(|_| !neighbour.is_left)?;
            Some(reader.is_ready(&*neighbour.memory))
        });
        reader == Some(true)
    }

    pub(super) fn has_ready(&self, table: &[Neighbour]) -> bool {
        self.ready.iter().any(|&index| Self::has_record(table, index))
    }

    /// The first ring with a record; those without are taken off before that.
    pub(super) fn next(&mut self, table: &[Neighbour], own: &Mapping) -> Option<usize> {
        loop {
            while let Some(&index) = self.ready.front() {
                if Self::has_record(table, index) {
                    return Some(index);
                }
                self.drop(index);
            }
            let Self { places, ready, is_ready } = self;
            bell::take_listed(own, |place| {
                let from = places.partition_point(|&(of, _)| of < place);
                for &(_, index) in places[from..].iter().take_while(|&&(of, _)| of == place) {
                    if !std::mem::replace(&mut is_ready[index], true) {
                        ready.push_back(index);
                    }
                }
            });
            if ready.is_empty() {
                return None;
            }
        }
    }

    /// This ring, the first, has had its turn: others come before it, if that is over.
    pub(super) fn pass(&mut self, index: usize, is_over: bool) {
        if is_over && self.ready.front() == Some(&index) {
            self.ready.rotate_left(1);
        }
    }

    /// Nothing is left in this ring.
    pub(super) fn drop(&mut self, index: usize) {
        if self.is_ready.get(index) == Some(&true) {
            self.ready.retain(|&other| other != index);
            self.is_ready[index] = false;
        }
    }
}
