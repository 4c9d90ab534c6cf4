//! Gates, at which members of a group wait for each other in shared memory.

use super::Engine;
use super::direct::DONT_ROUTE;
use pvm_shm::{Mapping, Offset, gate};
use pvm_wire::Tid;
use std::sync::Arc;

impl Engine {
    /// The memory of a task of this host, or this one's own. If this task has not mapped it yet, it asks for it after some
    /// calls, and has it some time later.
    pub fn reach(&mut self, tid: Tid) -> Option<Arc<Mapping>> {
        let is_possible = self.neighbours.are_possible() && self.options.route != DONT_ROUTE;
        if !is_possible || tid.host() != self.tid().host() {
            return None;
        }
        self.share();
        if tid == self.tid() {
            return self.neighbours.own().map(|own| own.outbox.memory().clone());
        }
        let memory = self.neighbours.memory(tid);
        if memory.is_none() && self.neighbours.count_sent(tid) {
            // The next call that needs the daemon's answer notices if the daemon does not take it.
            let _ = self.ask_to_meet(tid);
        }
        memory
    }

    /// Opens a gate in this task's own memory: at the place of an old one that is not used any more, if there is one.
    pub fn open_gate(&mut self, old: Option<u64>) -> Option<u64> {
        self.share();
        let outbox = &mut self.neighbours.own()?.outbox;
        let place = old.or_else(|| outbox.take_gate().map(Offset::get))?;
        gate::set(&**outbox.memory(), place);
        Some(place)
    }
}
