//! How far a job is by the model, while the congestion of its links changes.

use super::model::remaining_communication;
use serde::{Deserialize, Serialize};

/// What remains of a job, in any unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Execution time.
    execution: f64,
    /// Communication time under the present flex factor.
    communication: f64,
    ff: f64,
}

impl Progress {
    /// A job that begins: its execution time, and its communication time on free links.
    pub fn new(execution: f64, communication: f64) -> Self {
        Self { execution, communication, ff: 1.0 }
    }

    /// Equation 6's flex factor, as it is now.
    pub fn flex(&self) -> f64 {
        self.ff
    }

    /// The time that remains as things are now.
    pub fn left(&self) -> f64 {
        self.execution + self.communication
    }

    /// After some time the flex factor changes. A job computes and communicates alternately, so both have advanced by the same part.
    pub fn change(&mut self, spent: f64, ff: f64) {
        let left = self.left();
        let part = if left > 0.0 { (spent / left).min(1.0) } else { 1.0 };
        let communicated = self.communication * part;
        self.execution *= 1.0 - part;
        self.communication = remaining_communication(self.communication, communicated, self.ff, ff);
        self.ff = ff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_stretches_what_remains_of_the_communication() {
        let mut job = Progress::new(60.0, 40.0);
        assert!((job.left() - 100.0).abs() < 1e-9);
        // Half of both is done; the other 20 of communication take 40 at half the speed.
        job.change(50.0, 0.5);
        assert!((job.left() - 70.0).abs() < 1e-9 && (job.flex() - 0.5).abs() < 1e-9);
        job.change(35.0, 1.0);
        assert!((job.left() - 25.0).abs() < 1e-9);
        job.change(1e9, 1.0);
        assert!(job.left().abs() < 1e-9, "nothing is left, and never less");
    }
}
