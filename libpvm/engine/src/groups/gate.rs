//! Barriers in shared memory.
//!
//! When all members of a group are on one host and can reach the memory of the one at the top of their tree, that one opens a
//! gate there, and sends its place with the release of a barrier. From then on members use the gate, until the group
//! changes: the first member that learns of the change closes the gate, and waiting members begin anew without one. A barrier that was
//! complete before stays so, since the gate has the round.

use super::port::Port;
use super::views::outdates;
use super::{Client, Groups, read_name};
use crate::{Error, Result};
use pvm_shm::Mapping;
use pvm_shm::gate::{Arrival, Gate, Round, SIZE_MAX, State};
use pvm_wire::body::BodyWriter;
use pvm_wire::group::{View, tag};
use pvm_wire::tuned::GATE_STAY;
use pvm_wire::{Message, PvmError};
use std::ffi::OsStr;
use std::sync::Arc;

/// The gate of a group in one epoch.
#[derive(Debug)]
pub struct Meeting {
    epoch: i32,
    gate: Gate,
    is_open: bool,
    /// The place of the gate, if it is this task's.
    own_place: Option<u64>,
}

/// A member's wait in a round of a group's barriers.
struct Wait<'a> {
    name: &'a OsStr,
    view: &'a View,
    gate: Gate,
    round: Round,
}

/// A member at its gate.
#[derive(Debug)]
pub struct Passage {
    view: Arc<View>,
    gate: Gate,
    arrival: Arrival,
}

impl Passage {
    /// Waits at the gate, for a while; whether all have arrived, and none has to be notified.
    pub fn is_passed(&self) -> bool {
        match self.arrival {
            Arrival::Complete { are_absent } => !are_absent,
            Arrival::Early(round) => self.gate.wait(round, GATE_STAY) == State::Over,
            Arrival::Closed => false,
        }
    }
}

impl Groups {
    /// Arrives at the gate of a group whose members have met there before, if all are meant and nothing has changed: notices of changes
    /// have been looked for.
    pub fn arrive_at_gate(&self, name: &OsStr, count: i32) -> Option<Passage> {
        let meeting = self.gates.get(name).filter(|meeting| meeting.is_open)?;
        let view = self.views.get(name).filter(|view| view.epoch == meeting.epoch && view.barriers)?;
        if count != -1 && usize::try_from(count) != Ok(view.members.len()) {
            return None;
        }
        let gate = meeting.gate.clone();
        Some(Passage { view: view.clone(), arrival: gate.arrive(), gate })
    }
}

impl<P: Port> Client<'_, P> {
    /// Opens a gate in this task's memory, if possible. No member waits at an older gate of the group.
    pub fn open_gate(&mut self, name: &OsStr, size: usize) -> Option<u64> {
        u32::try_from(size).ok().filter(|&size| size <= SIZE_MAX)?;
        let old = self.groups.gates.get(name).and_then(|meeting| meeting.own_place);
        self.port.open_gate(old)
    }

    /// From now on members use this gate, as long as their view is valid.
    pub fn note_gate(&mut self, name: &OsStr, view: &View, memory: Arc<Mapping>, at: u64, is_own: bool) {
        let Ok(size) = u32::try_from(view.members.len()) else { return };
        let Ok(gate) = Gate::new(memory, at, size, self.port.wake_time()) else { return };
        if let Ok(own) = self.own() {
            let others = view.members.iter().map(|&(_, tid)| tid).filter(|&tid| tid != own).collect();
            let kept = gate.clone();
            self.port.record(|engine| engine.note_gate(name, kept, others));
        }
        let meeting = Meeting { epoch: view.epoch, gate, is_open: true, own_place: is_own.then_some(at) };
        self.groups.gates.insert(name.to_owned(), meeting);
    }

    /// Waits for all members at their gate: `false` if it was closed before all arrived, `None` if there is none.
    pub fn pass_gate(&mut self, name: &OsStr, view: &View) -> Result<Option<bool>> {
        let meeting = self.groups.gates.get(name).filter(|it| it.is_open && it.epoch == view.epoch);
        let Some(gate) = meeting.map(|meeting| meeting.gate.clone()) else { return Ok(None) };
        let arrival = gate.arrive();
        self.leave_gate(name, view, gate, arrival).map(Some)
    }

    /// Waits at a gate as long as it takes after an arrival; `false` if it was closed before all arrived.
    fn leave_gate(&mut self, name: &OsStr, view: &View, gate: Gate, arrival: Arrival) -> Result<bool> {
        let state = match arrival {
            Arrival::Complete { are_absent } => {
                self.notify_absent(name, view, are_absent)?;
                State::Over
            }
            Arrival::Early(round) => self.wait_at_gate(&Wait { name, view, gate, round })?,
            Arrival::Closed => State::Closed,
        };
        let is_over = state == State::Over;
        if let Some(meeting) = self.groups.gates.get_mut(name) {
            meeting.is_open = is_over;
        }
        Ok(is_over)
    }

    /// Goes on with a barrier that a member has begun at its gate.
    pub fn go_on_with_barrier(&mut self, name: &OsStr, count: i32, passage: Passage) -> Result<()> {
        let Passage { view, gate, arrival } = passage;
        if self.leave_gate(name, &view, gate, arrival)? { Ok(()) } else { self.barrier(name, count) }
    }

    fn wait_at_gate(&mut self, wait: &Wait<'_>) -> Result<State> {
        self.port.let_go();
        let mut state = wait.gate.wait(wait.round, GATE_STAY);
        if state == State::Open {
            state = wait.gate.leave(wait.round);
        }
        while state == State::Open {
            state = self.wait_for_notice(wait)?;
        }
        Ok(state)
    }

    /// Waits for a notice that the gate's state or the group has changed.
    fn wait_for_notice(&mut self, wait: &Wait<'_>) -> Result<State> {
        let keeper = self.server()?.tid;
        let is_notice = |message: &Message| {
            message.header.tag == tag::MOVED && read_name(&message.body).is_some_and(|name| name == wait.name)
        };
        let mut wanted =
            |message: &Message| is_notice(message) || outdates(message, keeper, wait.name, wait.view);
        let received = self.wait(self.until(), &mut wanted);
        if let Ok(Some(message)) = &received {
            if is_notice(message) {
                return Ok(wait.gate.state(wait.round));
            }
            self.forget_view(&message.body);
        }
        let (state, are_absent) = wait.gate.close(wait.round);
        self.notify_absent(wait.name, wait.view, are_absent)?;
        match received {
            _ if state == State::Over => Ok(state),
            Ok(Some(_)) => Ok(state),
            Ok(None) => Err(Error::new(PvmError::SysErr, "the barrier took too long")),
            Err(error) => Err(error),
        }
    }

    /// Notifies the other members that the gate's state has changed, if some of them do not poll it.
    fn notify_absent(&mut self, name: &OsStr, view: &View, are_absent: bool) -> Result<()> {
        if !are_absent {
            return Ok(());
        }
        let own = self.own()?;
        let body = BodyWriter::new().str(name).finish();
        let others = view.members.iter().map(|&(_, tid)| tid).filter(|&tid| tid != own);
        self.port.send_all(&others.collect::<Vec<_>>(), tag::MOVED, &body)
    }
}
