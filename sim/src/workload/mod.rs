//! Jobs: from traces in the Standard Workload Format, or from the Lublin–Feitelson model.

mod lublin;
mod swf;

pub use lublin::Lublin;
pub use swf::{Error, Reader, TraceError};

/// A rigid parallel job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// When it is submitted, in seconds.
    pub submit: f64,
    /// How long it runs on nodes of speed 1, in seconds.
    pub run: f64,
    /// The user's estimate of its run time, in seconds.
    pub estimate: f64,
    /// Nodes.
    pub width: u32,
    /// Its user, from 0.
    pub user: usize,
}
