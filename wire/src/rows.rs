//! The matrix of teams and hosts by which teams take turns on all hosts at once: what hosts report, and what they are told.

use serde::{Deserialize, Serialize};

/// Most teams that a host reports; others have no place in the matrix.
pub const COLUMN_TEAMS_MAX: usize = 1024;

/// Most processors of a host that count.
pub const COLUMN_CORES_MAX: u32 = 4096;

/// Most places that a report of the matrix names.
pub const PLACES_MAX: usize = 65_536;

/// What a host reports to the master: its processors, and its processes that take turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its processors; 0: it takes no part, as its owner is there or as it has no team for the matrix of some queues.
    pub cores: u32,
    /// Its teams that are for the matrix, by name.
    pub teams: Vec<(String, Processes)>,
    /// Whether other teams take turns there, too.
    pub has_others: bool,
}

/// The processes that a team has on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// How many there are.
    pub count: u32,
    /// How many of them can move to another host.
    pub movable: u32,
}

/// The rows as one host needs them. Row n mod `count` has the slice number n of the master's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// How many rows there are on all hosts together, that of other teams included.
    pub count: u32,
    /// The row of teams that have no place in any, if they have one of their own; else they are in the first.
    pub others: Option<u32>,
    /// Nanoseconds of a slice.
    pub slice: u64,
    /// The master's clock when this was sent, in nanoseconds.
    pub time: u64,
    /// Number of the first slice for which these rows count.
    pub first: u64,
    /// The host's teams, and the rows in which they have places there.
    pub teams: Vec<(String, Vec<u32>)>,
}

/// The whole matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsReport {
    /// Whether the machine has one (`PVM_COSCHEDULING=dasic` at the master), or a queue for whose jobs it makes one.
    pub is_on: bool,
    /// Microseconds of a slice.
    pub slice: u64,
    /// How many rows there are.
    pub count: u32,
    /// The row that has its slice now; `count`: it is the slice of other teams.
    pub now: u32,
    /// Whether teams outside of the matrix have a slice of their own, after those of the rows.
    pub has_others: bool,
    /// Idle places, in thousandths of all.
    pub idle: u32,
    /// The hosts by name, and their processors.
    pub hosts: Vec<(String, u32)>,
    /// The teams.
    pub teams: Vec<String>,
    /// The processes of teams on hosts, by row; at most [`PLACES_MAX`].
    pub places: Vec<Place>,
}

/// Processes of a team on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The row.
    pub row: u32,
    /// Index of the host.
    pub host: u32,
    /// Index of the team.
    pub team: u32,
    /// How many processes.
    pub processes: u32,
}
