//! The PVM daemon: [`pvmd_core`] decides, [`io`] carries out.
//!
//! The core is a state machine without sockets, processes or a clock: it is handed events and the time, and returns
//! actions. [`io`] turns what happens on sockets, in child processes and on timers into events, and carries the actions
//! out. The same core runs under test in a simulated cluster.
#![deny(unsafe_code)]

pub mod allocation;
pub mod cli;
pub mod io;
