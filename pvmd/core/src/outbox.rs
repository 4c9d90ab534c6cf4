//! What a daemon is to do: at once, by its driver or by itself, or at its time.

use super::event::Action;
use super::master::Command;
use super::timers::Timers;
use pvm_wire::daemon::DaemonMsg;
use std::collections::VecDeque;

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// By the driver, in order.
    pub actions: Vec<Action>,
    /// Messages of this daemon to itself that it has not received yet.
    pub loopback: VecDeque<DaemonMsg>,
    /// Commands to the master's state that have not been proposed yet. The master's.
    pub commands: VecDeque<Command>,
    /// At a time of its own.
    pub timers: Timers,
}

impl Outbox {
    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }
}
