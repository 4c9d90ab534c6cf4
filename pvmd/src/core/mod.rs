//! The daemon's state machine.

mod config;
pub mod event;

pub use config::Config;
use event::{Action, Event, Now};

/// Stub until the next commit.
pub struct Core;
impl Core {
    /// New.
    pub fn new(_config: Config, _now: Now) -> Self { Self }
    /// What follows from the start itself.
    pub fn start(&mut self, _now: Now) -> Vec<Action> { Vec::new() }
    /// Takes an event.
    pub fn handle(&mut self, _event: Event, _now: Now) -> Vec<Action> { Vec::new() }
    /// When to call `handle_timeout`.
    pub fn deadline(&self) -> Option<Now> { None }
    /// Time has come.
    pub fn handle_timeout(&mut self, _now: Now) -> Vec<Action> { Vec::new() }
}
