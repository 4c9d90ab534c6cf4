//! DASIC: coscheduling that grows, shrinks and balances.
//!
//! Lu Sanglu, Xie Li, *A Model for Adaptive Migration and Coscheduling*. The process space is a matrix: its columns are
//! processors, whose number changes as workstations become idle or are taken back by their owners; its rows are time
//! slices, run in turn on all processors at once (Ousterhout's matrix method). A team is a set of processes that
//! communicate, and is coscheduled if all of it is in one row.
//!
//! | source | here |
//! |---|---|
//! | `P'`, `Q'` | [`Matrix::processors`], [`Matrix::rows`] |
//! | `allocation-vector`, `scheduling-vector`, `idle-vector` | [`Matrix::allocation`], [`Matrix::scheduling`], [`Matrix::idle`] |
//! | `λ` | [`Matrix::idleness`] |
//! | team table: size, status, allocated rows | [`Matrix::team`], [`Team`] |
//! | `process-team-vector` | [`Matrix::team_vector`] |
//! | initial scheduling, growing, shrinking | [`Matrix::start`], [`Matrix::grow`], [`Matrix::shrink`] |
//! | filling, packing | [`Matrix::end`], [`Matrix::pack`] |
//! | alternate selection | [`Matrix::alternate`] |
//!
//! Every operation returns what it wants done, process by process, for a live system to carry out. Rows are numbered
//! from 0 here, from 1 in the paper.
//!
//! [`Live`] is the matrix of a machine whose processes do not move between hosts: what the daemons use.

mod live;
mod matrix;
mod operations;

pub use live::{Counts, Live, ROWS_MAX};
pub use matrix::{Matrix, Move, Process, Slot, Status, Team};
pub use operations::{Error, PACKING_THRESHOLD};

#[cfg(test)]
mod small;
#[cfg(test)]
mod tests;
