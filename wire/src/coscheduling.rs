//! Teams of tasks, by name.

/// Environment variable by which a spawn says to which team its tasks belong; the daemon sets it if the spawner does not.
pub const TEAM_VARIABLE: &str = "PVM_TEAM";

/// Bytes of a team's name.
pub const TEAM_NAME_MAX: usize = 64;
