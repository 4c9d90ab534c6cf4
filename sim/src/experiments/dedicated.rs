//! Options of the experiments with dedicated nodes: how the nodes fail, and a trace to take the jobs from.

use crate::settings;
use crate::workload::{Reader, TraceError};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// How nodes fail.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Failures {
    /// Mean time between failures of a node, days; the job that has it begins again. 0 for never
    #[arg(long, default_value_t = 0.0, value_parser = settings::not_negative)]
    pub mtbf: f64,
    /// How long a node is down after a failure, hours
    #[arg(long, default_value_t = 4.0, value_parser = settings::not_negative)]
    pub repair: f64,
}

impl Failures {
    /// The mean time between failures of a node, infinite for never, and how long it is down, in seconds.
    pub fn seconds(self) -> (f64, f64) {
        let mtbf = if self.mtbf > 0.0 { self.mtbf * 86_400.0 } else { f64::INFINITY };
        (mtbf, self.repair.max(0.0) * 3600.0)
    }
}

/// Where jobs come from.
#[derive(Clone, Debug, clap::Args)]
pub struct Source {
    /// Take the jobs from a trace in the Standard Workload Format (plain or gzip), with the load that it has
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// Skip errors in a trace
    #[arg(long)]
    pub lenient: bool,
}

impl Source {
    /// Reads this trace.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(&self, path: &Path) -> Result<Reader<Box<dyn BufRead + Send>>, TraceError> {
        Reader::open(path, self.lenient).map_err(|source| TraceError { path: path.to_owned(), source })
    }
}
