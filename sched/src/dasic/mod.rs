//! DASIC: coscheduling that grows, shrinks and balances.
//!
//! Lu Sanglu, Xie Li, *A Model for Adaptive Migration and Coscheduling*. The process space is a matrix: its columns are
//! processors, whose number changes as workstations become idle or are taken back by their owners; its rows are time
//! slices, run in turn on all processors at once (Ousterhout's matrix method). A team is a set of processes that
//! communicate, and is coscheduled if all of it is in one row.
//!
//! [`Live`] is this matrix, as the master's daemon and `pvm sim dasic` drive it. Under [`Rules::Moving`] its operations are the paper's, which tests
//! compare with a matrix that has a place for each process, as the paper describes it. Under [`Rules::Staying`], those of the daemons, processes stay on their
//! hosts, but for those that [`Live::gathering`] names. Rows are numbered from 0 here, from 1 in the paper.

mod gathering;
mod live;
#[cfg(test)]
mod matrix;
mod moving;
#[cfg(test)]
mod operations;

pub use live::{Counts, Live, Move, PACKING_THRESHOLD, ROWS_MAX, Rules};
pub use moving::Error;

#[cfg(test)]
mod moving_tests;
#[cfg(test)]
mod small;
#[cfg(test)]
mod tests;
