//! Load vectors: how busy a host is (*Scheduling parallel jobs on clusters*, section 21.6.2).

use serde::{Deserialize, Serialize};

/// The load of a host. Averages are over about 1, 5 and 15 minutes.
///
/// All values are integers, so that two vectors are equal or not, and deputies that are told the same decide the same.
///
/// ```
/// use pvm_wire::loads::LoadVector;
///
/// let load = LoadVector { run_queue: [150, 100, 50], input: Some(1_000), ..LoadVector::default() };
/// assert_eq!(load.unused_for(1_600), Some(600));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadVector {
    /// Processes that run or want to, in hundredths, as the kernel counts them (proc_loadavg(5)).
    pub run_queue: [u32; 3],
    /// The part of all cores that was busy, in thousandths.
    pub cpu: [u16; 3],
    /// The part of all cores that was busy with programs of others than this virtual machine, in thousandths.
    pub others: [u16; 3],
    /// Memory of the host, in bytes.
    pub memory: u64,
    /// Memory that a new program can have, in bytes.
    pub free: u64,
    /// Users that own a terminal.
    pub users: u16,
    /// When one of the terminals last had input, in seconds since 1970; `None` if there is no terminal.
    pub input: Option<u64>,
    /// Tasks that the daemon has started, without task managers.
    pub tasks: u32,
    /// Cores of the host.
    pub cores: u32,
}

impl LoadVector {
    /// Seconds since the last input at a terminal, at a time in seconds since 1970; `None` if there is no terminal.
    pub fn unused_for(&self, now: u64) -> Option<u64> {
        self.input.map(|input| now.saturating_sub(input))
    }
}

/// The load of a host, with its name, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// The host.
    pub host: String,
    /// Its load; `None`: nothing has been heard of it.
    pub load: Option<LoadVector>,
}
