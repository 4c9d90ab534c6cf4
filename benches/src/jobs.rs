//! What has become of the jobs of a workload.

use serde::{Deserialize, Serialize};

/// What is known of a job that has ended. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its place among the orders.
    pub place: usize,
    /// Its number.
    pub id: u64,
    /// Its queue.
    pub queue: String,
    /// Whether it has ended well.
    pub is_done: bool,
    /// When it was submitted.
    pub submitted: u64,
    /// When its first task started.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
}
