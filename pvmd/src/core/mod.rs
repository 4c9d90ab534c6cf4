//! The daemon's state machine.

pub mod event;
