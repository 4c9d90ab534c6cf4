//! Daemons' cores for tests: one that is fed by hand, or a whole machine under virtual time, from one seed.
//!
//! All of them check the core's own state after every event ([`daemon::Daemon`]).
#![forbid(unsafe_code)]

pub mod daemon;
pub mod machine;
pub mod network;
pub mod newcomer;
pub mod process;
mod random;
pub mod recorder;
pub mod turns;

pub use random::Random;
