//! Tasks that move, as their libraries do it.

use super::{Machine, Tasks};
use crate::process::{Moving, ProcId, Process, message};
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::calls::moves::{Arrive, Freeze};
use pvm_wire::calls::{Call, Request};
use pvm_wire::codes::{CONTEXT_TC, CONTEXT_TM, Tcx, Tmx};
use pvm_wire::{HostIndex, Message, Reassembler, Tid};

impl<T: Tasks> Machine<T> {
    /// What a process hears about its move; `false` if it is something else.
    pub(super) fn hears_of_move(&mut self, id: ProcId, received: &Message) -> bool {
        let header = &received.header;
        if header.context == CONTEXT_TC {
            let mut reader = BodyReader::new(&received.body);
            match Tcx::from_tag(header.tag) {
                Some(Tcx::Move) => {
                    self.set_moving(id, Moving::Told(Tid::from_raw(reader.int().unwrap_or(0))));
                    self.go_if_possible(id);
                }
                Some(Tcx::Stay) => self.go_on(id),
                Some(Tcx::Moved) => {
                    let (tid, host) = (reader.int().unwrap_or(0), reader.int().unwrap_or(0));
                    self.note_place(id, Tid::from_raw(tid), Tid::from_raw(host).host());
                }
                Some(Tcx::Neighbour) => self.note_neighbour(id, Tid::from_raw(reader.int().unwrap_or(0))),
                Some(Tcx::Luggage) => self.unpack(id, reader.int().unwrap_or(0)),
                _ => return false,
            }
            return true;
        }
        match Tmx::from_tag(header.tag).filter(|_| header.context == CONTEXT_TM) {
            Some(Tmx::Freeze) => {
                if matches!(Freeze::decode_answer(&received.body), Ok(Ok(()))) {
                    self.send_luggage(id);
                } else {
                    self.go_on(id);
                }
            }
            Some(Tmx::Arrive) => {
                if let Ok(Ok(reply)) = Arrive::decode_answer(&received.body) {
                    self.take_place(id, reply.tid);
                }
            }
            _ => return false,
        }
        true
    }

    fn note_neighbour(&mut self, id: ProcId, neighbour: Tid) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.neighbours.insert(neighbour);
        }
    }

    /// A task has moved: a library forgets it as a neighbour, and with it what it has written in shared memory.
    fn note_place(&mut self, id: ProcId, tid: Tid, host: Option<HostIndex>) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.neighbours.remove(&tid) && host == Some(process.host) {
            let text = format!("{:?} has met {tid} before it hears that this has come", process.tid);
            self.fault(text);
        }
    }

    fn set_moving(&mut self, id: ProcId, moving: Moving) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.moving = moving;
        }
    }

    /// A task stays where it is.
    fn go_on(&mut self, id: ProcId) {
        self.set_moving(id, Moving::No);
        self.expect_one_life(id);
    }

    /// A task that was told to move has itself frozen, when it waits for nothing.
    pub(super) fn go_if_possible(&mut self, id: ProcId) {
        let Some(process) = self.processes.get(&id).filter(|process| process.is_at_work()) else { return };
        if let (Moving::Told(successor), Some(tid)) = (process.moving, process.tid)
            && T::can_move(self, tid)
        {
            self.set_moving(id, Moving::Frozen(successor));
            self.say(id, &Freeze {}.message(0));
        }
    }

    /// A task has all that was sent to it, and sends the rest of it to its successor.
    fn send_luggage(&mut self, id: ProcId) {
        let Some(Moving::Frozen(successor)) = self.processes.get(&id).map(|process| process.moving) else {
            return;
        };
        let body = BodyWriter::new().int(id as i32).finish();
        self.say(id, &message(successor, CONTEXT_TC, Tcx::Luggage.tag(), body));
    }

    /// A successor has the luggage of another process: among it the pieces of messages that have not come whole.
    fn unpack(&mut self, id: ProcId, old: i32) {
        let old = ProcId::try_from(old).unwrap_or(0);
        let Some(process) = self.processes.get_mut(&old) else { return };
        let incoming = std::mem::replace(&mut process.incoming, Reassembler::new(1 << 26));
        if let Some(process) = self.processes.get_mut(&id) {
            process.incoming = incoming;
        }
        self.predecessors.insert(id, old);
        self.say(id, &Arrive {}.message(0));
    }

    /// A successor is the task.
    fn take_place(&mut self, id: ProcId, tid: Tid) {
        if let Some(process) = self.processes.get_mut(&id) {
            (process.tid, process.moving) = (Some(tid), Moving::No);
        }
        self.expect_one_life(id);
        self.moved += 1;
        if let Some(old) = self.predecessors.remove(&id) {
            T::succeeded(self, old, id);
        }
    }

    /// A process begins to live as its task, or goes on: no other one may.
    pub(super) fn expect_one_life(&mut self, id: ProcId) {
        let Some(process) = self.processes.get(&id).filter(|process| process.lives_as_its_task()) else {
            return;
        };
        let (tid, host) = (process.tid, process.host);
        let lives = |other: &Process| other.tid == tid && other.lives_as_its_task();
        let mut others = self.processes.iter().filter(|&(&other, process)| other != id && lives(process));
        if let (Some(tid), Some((_, other))) = (tid, others.next()) {
            let text = format!("{tid} lives twice, on host {host} and {}", other.host);
            self.fault(text);
        }
    }
}
