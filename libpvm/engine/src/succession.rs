//! A process that takes the place of a task that moves: its successor.
//!
//! The program is the same, begun again. Before anything of it sees the task, the library waits for what the predecessor sends, and
//! tells the daemon that it has it ([`Arrive`]). From then on this process is the task: its id, its parent, the messages for it. The
//! program gets its own state back when it says what it saves. If anything of that fails, the process ends, and the predecessor goes on.

use super::carried::Carried;
use super::luggage::{Collector, Luggage};
use super::{Engine, manager};
use crate::{Error, Result};
use pvm_wire::calls::enrolment::EnrolReply;
use pvm_wire::calls::moves::Arrive;
use pvm_wire::{HostIndex, Message, PvmError, Tid};

/// How far a process is as a successor.
#[derive(Debug, Default)]
pub(super) enum Succession {
    /// It is none.
    #[default]
    None,
    /// It waits for what this task sends.
    Waiting(Tid, Collector),
    /// It is the task, and the program and the interface have not taken all of this.
    Done(Left),
}

/// What the predecessor has sent, until it is taken.
#[derive(Debug, Default)]
pub(super) struct Left {
    program: Option<Vec<u8>>,
    interface: Option<Vec<u8>>,
}

fn wrong(text: &str) -> Error {
    Error::new(PvmError::BadMsg, text)
}

impl Engine {
    /// Whether this process goes on with a task that has moved.
    pub fn has_moved(&self) -> bool {
        matches!(self.succession, Succession::Done(_))
    }

    /// Whether the program goes on with a task that has moved, and has not taken its state.
    pub(super) fn has_yet_to_take_state(&self) -> bool {
        let is_kept = matches!(&self.succession, Succession::Done(left) if left.program.is_some());
        is_kept || self.identity.succeeds.is_some()
    }

    /// What the program has saved before the task moved; once.
    pub fn take_saved(&mut self) -> Option<Vec<u8>> {
        match &mut self.succession {
            Succession::Done(left) => left.program.take(),
            _ => None,
        }
    }

    /// What the interface has saved before the task moved.
    pub fn take_interface_state(&mut self) -> Option<Vec<u8>> {
        match &mut self.succession {
            Succession::Done(left) => left.interface.take(),
            _ => None,
        }
    }

    /// Takes the place of a task; without it this process is of no use, and ends without a word: the task goes on elsewhere.
    pub(super) fn succeed(&mut self, predecessor: Tid) {
        if self.take_place(predecessor).is_err() {
            std::process::exit(1);
        }
    }

    pub(super) fn take_place(&mut self, predecessor: Tid) -> Result<()> {
        let Some(host) = self.tid().host() else { return Err(wrong("this task is nowhere")) };
        let (luggage, carried) = self.wait_for_luggage(predecessor)?;
        // There is nothing more to say to each other.
        drop(self.peers.remove(predecessor));
        self.neighbours.remove(predecessor);
        self.neighbours.spin_at(self.peers.open_sockets());
        self.automatic.forget(predecessor);
        self.unpack_own(carried, predecessor)?;
        let identity = self.call(&Arrive {})?;
        self.become_task(&identity, predecessor, host)?;
        let Luggage { program, interface } = luggage;
        self.succession = Succession::Done(Left { program: Some(program), interface: Some(interface) });
        Ok(())
    }

    fn wait_for_luggage(&mut self, predecessor: Tid) -> Result<(Luggage, Carried)> {
        self.succession = Succession::Waiting(predecessor, Collector::default());
        loop {
            match &self.succession {
                Succession::Waiting(_, collector) if collector.is_spoilt() => {
                    return Err(wrong("what the task takes along cannot be read"));
                }
                Succession::Waiting(_, collector) if collector.is_complete() => break,
                _ => drop(self.take_in(None)?),
            }
        }
        let Succession::Waiting(_, collector) = std::mem::take(&mut self.succession) else {
            return Err(wrong("nothing is waited for"));
        };
        let (luggage, own) = collector.finish().ok_or_else(|| wrong("a piece is missing"))?;
        Ok((luggage, Carried::decode(&own)?))
    }

    /// A piece of what a task takes along has come.
    pub(super) fn take_luggage(&mut self, message: &Message) {
        if let Succession::Waiting(predecessor, collector) = &mut self.succession
            && message.src == *predecessor
        {
            collector.take(&message.body);
        }
    }

    /// Becomes the task, on this host.
    fn become_task(&mut self, task: &EnrolReply, predecessor: Tid, host: HostIndex) -> Result<()> {
        if task.tid != predecessor {
            return Err(wrong("the daemon names another task"));
        }
        let manager = std::mem::take(&mut self.manager);
        // What the daemon says of the host is the same for all its tasks.
        let EnrolReply { tid, parent, output, trace, fragment_size, scheduler, succeeds, .. } = *task;
        let here = self.identity.clone();
        self.adopt_identity(EnrolReply {
            tid,
            parent,
            output,
            trace,
            fragment_size,
            scheduler,
            succeeds,
            ..here
        });
        self.manager = manager;
        self.places.set(predecessor, Some(host));
        self.neighbours.set_place(predecessor);
        self.watch_collected();
        Ok(())
    }
}

impl manager::Manager {
    /// As another process of the task has known it. The daemon here was not asked for a notice of its exit.
    pub(super) fn resumed(tid: Option<Tid>) -> Self {
        Self::new(tid.map_or(0, Tid::raw))
    }
}
