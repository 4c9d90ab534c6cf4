//! The PVM daemon: `core` decides, `io` carries out.
//!
//! [`core`] is a state machine without sockets, processes or a clock: it is handed events and the time, and returns
//! actions. [`io`] turns what happens on sockets, in child processes and on timers into events, and carries the actions
//! out. The same core runs under test in a simulated cluster.
#![deny(unsafe_code)]

pub mod cli;
pub mod core;
pub mod hostfile;
pub mod io;
