//! What there is between neighbours when one of them moves.

use super::list::place_of;
use super::{Neighbours, RingState};
use pvm_wire::Tid;

/// How often a task wakes others until it looks at its sockets.
const RUNG_MAX: u32 = 8;

impl Neighbours {
    /// The neighbours.
    pub(in super::super) fn tids(&self) -> Vec<Tid> {
        self.table.iter().map(|neighbour| neighbour.tid).collect()
    }

    /// Those that may open a ring to this task.
    pub(in super::super) fn told(&self) -> Vec<Tid> {
        let told = self.table.iter().filter(|neighbour| neighbour.is_told);
        told.map(|neighbour| neighbour.tid).collect()
    }

    /// A neighbour is to be told that it may open a ring; whether it is one, and was not told.
    pub(in super::super) fn note_told(&mut self, tid: Tid) -> bool {
        let Some(index) = self.find(tid) else { return false };
        self.table.get_mut(index).is_some_and(|neighbour| !std::mem::replace(&mut neighbour.is_told, true))
    }

    /// Rings that are in use, in either direction.
    pub(in super::super) fn open_rings(&self) -> usize {
        let out = self.table.iter().filter(|neighbour| matches!(neighbour.ring_state, RingState::Open(_)));
        let into = self.table.iter().filter(|neighbour| neighbour.reader.is_some() && !neighbour.is_left);
        out.count() + into.count()
    }

    /// This task has another id from now on.
    pub(in super::super) fn set_place(&mut self, own: Tid) {
        self.place = place_of(own);
    }

    /// Whether to ask for a task depends on what is sent from now on.
    pub(in super::super) fn forget_asked(&mut self, tid: Tid) {
        self.asked.remove(&tid);
    }

    /// Whether this task has woken others so often that it looks at its sockets, too: it may send so slowly that it would not for long.
    #[inline]
    pub(in super::super) fn is_look_due(&self) -> bool {
        self.rung >= RUNG_MAX
    }

    /// It looks.
    pub(in super::super) fn look(&mut self) {
        self.rung = 0;
    }
}
