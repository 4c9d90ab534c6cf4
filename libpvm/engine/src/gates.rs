//! Gates, at which members of a group wait for each other in shared memory, and the ledger of the barriers that they pass.

use super::direct::DONT_ROUTE;
use super::{Engine, groups};
use pvm_shm::gate::Gate;
use pvm_shm::{Mapping, Offset, gate};
use pvm_wire::body::BodyWriter;
use pvm_wire::group::tag;
use pvm_wire::{Message, Tid};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// The gates that this task uses, by group, with the other members.
pub(super) type Gates = BTreeMap<OsString, (Gate, Vec<Tid>)>;

impl Engine {
    /// The memory of a task of this host, or this one's own. If this task has not mapped it yet, it asks for it after some
    /// calls, and has it some time later.
    pub fn reach(&mut self, tid: Tid) -> Option<Arc<Mapping>> {
        let is_possible = self.neighbours.are_possible() && self.options.route != DONT_ROUTE;
        if !is_possible || !self.is_near(tid) {
            return None;
        }
        self.share();
        if tid == self.tid() {
            return self.neighbours.own().map(|own| own.outbox.memory().clone());
        }
        let memory = self.neighbours.memory(tid);
        if memory.is_none() && self.may_be_direct(tid) && self.neighbours.count_sent(tid) {
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

    /// Uses the ledger of barriers in this task's memory, which its daemon reads; `false` if it has none.
    pub fn with_ledger(&mut self, body: impl FnOnce(&Mapping) -> bool) -> bool {
        self.share();
        self.neighbours.own().is_some_and(|own| body(own.outbox.memory()))
    }

    /// From now on this task and the other members of a group meet at this gate.
    pub(super) fn note_gate(&mut self, name: &OsStr, gate: Gate, others: Vec<Tid>) {
        self.gates.insert(name.to_owned(), (gate, others));
    }

    /// This task goes to another host: members that wait for it at gates begin anew without.
    pub(super) fn close_gates(&mut self) {
        for (name, (gate, others)) in std::mem::take(&mut self.gates) {
            let (_, are_absent) = gate.close(gate.round());
            let told = if are_absent { others } else { Vec::new() };
            for dst in told {
                let body = BodyWriter::new().str(&name).finish().into();
                let header = groups::header(tag::MOVED);
                self.inbox.deferred.push_back(Message { src: self.tid(), dst, header, body });
            }
        }
    }
}
