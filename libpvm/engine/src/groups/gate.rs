//! Barriers in shared memory.
//!
//! When all members of a group are on one host and can reach the memory of the one at the top of their tree, that one opens a
//! gate there, and says where when it tells them that a barrier is complete. From then on they meet at the gate, until the group
//! changes: then whoever hears of it closes the gate, and those who wait begin anew as if there were none. What was complete
//! before stays so, since the gate tells which it was.

use super::port::Port;
use super::views::outdates;
use super::{Client, read_name};
use crate::{Error, Result};
use pvm_shm::Mapping;
use pvm_shm::gate::{Arrival, Gate, Round, SIZE_MAX, State};
use pvm_wire::body::BodyWriter;
use pvm_wire::group::{View, tag};
use pvm_wire::tuned::GATE_STAY;
use pvm_wire::{Message, PvmError};
use std::ffi::OsStr;
use std::sync::Arc;

/// Where the members of an epoch meet.
#[derive(Debug)]
pub struct Meeting {
    epoch: i32,
    gate: Gate,
    is_open: bool,
    /// Where the gate is, if it is this task's.
    own_place: Option<u64>,
}

/// A round of a group's barriers, as one of those who wait sees it.
struct Wait<'a> {
    name: &'a OsStr,
    view: &'a View,
    gate: Gate,
    round: Round,
}

impl<P: Port> Client<'_, P> {
    /// Opens a gate in this task's memory, if that can be. All members are known not to be at an older one of theirs.
    pub fn open_gate(&mut self, name: &OsStr, size: usize) -> Option<u64> {
        u32::try_from(size).ok().filter(|&size| size <= SIZE_MAX)?;
        let old = self.groups.gates.get(name).and_then(|meeting| meeting.own_place);
        self.port.open_gate(old)
    }

    /// From now on members meet at this gate, as long as their view holds.
    pub fn note_gate(&mut self, name: &OsStr, view: &View, memory: Arc<Mapping>, at: u64, is_own: bool) {
        let Ok(size) = u32::try_from(view.members.len()) else { return };
        let Ok(gate) = Gate::new(memory, at, size, self.port.wake_time()) else { return };
        let meeting = Meeting { epoch: view.epoch, gate, is_open: true, own_place: is_own.then_some(at) };
        self.groups.gates.insert(name.to_owned(), meeting);
    }

    /// Meets all members at their gate: `false` if it was closed before all came, `None` if there is none.
    pub fn pass_gate(&mut self, name: &OsStr, view: &View) -> Result<Option<bool>> {
        let meeting = self.groups.gates.get(name).filter(|it| it.is_open && it.epoch == view.epoch);
        let Some(gate) = meeting.map(|meeting| meeting.gate.clone()) else { return Ok(None) };
        let state = match gate.arrive() {
            Arrival::Complete { are_absent } => {
                self.tell_absent(name, view, are_absent)?;
                State::Over
            }
            Arrival::Early(round) => self.wait_at_gate(&Wait { name, view, gate, round })?,
            Arrival::Closed => State::Closed,
        };
        let is_over = state == State::Over;
        if let Some(meeting) = self.groups.gates.get_mut(name) {
            meeting.is_open = is_over;
        }
        Ok(Some(is_over))
    }

    fn wait_at_gate(&mut self, wait: &Wait<'_>) -> Result<State> {
        let mut state = wait.gate.wait(wait.round, GATE_STAY);
        if state == State::Open {
            state = wait.gate.leave(wait.round);
        }
        while state == State::Open {
            state = self.wait_afar(wait)?;
        }
        Ok(state)
    }

    /// Waits for word that something has happened at the gate, or that the group has changed.
    fn wait_afar(&mut self, wait: &Wait<'_>) -> Result<State> {
        let keeper = self.server()?.tid;
        let told = |message: &Message| {
            message.header.tag == tag::MOVED && read_name(&message.body).is_some_and(|name| name == wait.name)
        };
        let mut wanted = |message: &Message| told(message) || outdates(message, keeper, wait.name, wait.view);
        let heard = self.wait(self.until(), &mut wanted);
        if let Ok(Some(message)) = &heard {
            if told(message) {
                return Ok(wait.gate.state(wait.round));
            }
            self.forget_view(&message.body);
        }
        let (state, are_absent) = wait.gate.close(wait.round);
        self.tell_absent(wait.name, wait.view, are_absent)?;
        match heard {
            _ if state == State::Over => Ok(state),
            Ok(Some(_)) => Ok(state),
            Ok(None) => Err(Error::new(PvmError::SysErr, "the barrier took too long")),
            Err(error) => Err(error),
        }
    }

    /// Tells the others that something has happened at the gate, if some of them do not look at it.
    fn tell_absent(&mut self, name: &OsStr, view: &View, are_absent: bool) -> Result<()> {
        if !are_absent {
            return Ok(());
        }
        let own = self.port.tid()?;
        let body = BodyWriter::new().str(name).finish();
        let others = view.members.iter().map(|&(_, tid)| tid).filter(|&tid| tid != own);
        self.port.send_all(&others.collect::<Vec<_>>(), tag::MOVED, &body)
    }
}
