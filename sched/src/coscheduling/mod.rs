//! Coscheduling by communication: a message brings its receiver's team onto the processor.
//!
//! *Scheduling parallel jobs on clusters*, section 21.5. The communication layer sees every message and informs the scheduler, so that
//! sending may bring the receiver to run together with the sender. [`Coscheduler`] is one node's scheduler: a driver reports events
//! with the time, and carries out the [`Decision`]s. The daemon and the simulator drive the same one.
//!
//! | module | subject |
//! |---|---|
//! | [`epoch`] | which of two nodes' context switches prevails |
//! | [`accounts`] | what each team has been charged; which has had least |
//! | [`boost`] | whether a message brings its receiver's team onto the processor |
//! | [`usage`] | readings of CPU use, and the daemon's overhead divided among teams |
//! | [`gates`] | when teams take turns, and when the processor has time for all |
//! | [`unneeded`] | where the kernel alone does as well as turns would |
//! | [`choice`] | which teams run besides the one that has the turn |
//! | [`rows`] | turns by the rows of a matrix, at the same time on all hosts |
//! | [`two_phase`] | implicit coscheduling: how long a wait spins before it blocks |

pub mod accounts;
pub mod boost;
pub mod choice;
mod coscheduler;
pub mod epoch;
pub mod gates;
pub mod rows;
pub mod two_phase;
pub mod unneeded;
pub mod usage;

pub use boost::{Arrival, Counters, Node};
pub use coscheduler::{Coscheduler, Decision, Timer, Turn};
pub use epoch::Epoch;
pub use rows::Rows;
pub use two_phase::TwoPhase;
pub use usage::{Reading, Use, Work};

/// A process, by its number in its host's kernel.
pub type ProcessId = i32;
