//! What is asked of the queues, and what they answer.

use super::{ClusterRecord, Expected, HostCluster, JobId, JobRecord, JobRequest, QueueRecord, WantedList};
use serde::{Deserialize, Serialize};

/// What a task, or the console, asks of the queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobCall {
    /// Take this job; answered by [`JobAnswer::Submitted`] when it is on disk.
    Submit(Box<JobRequest>),
    /// These jobs. The answer has as many as it has room for, at least one: [`JobCall::rest`] asks for the others.
    List(Vec<JobId>),
    /// The jobs that have not ended and have numbers above this one.
    Live {
        /// The number.
        above: JobId,
    },
    /// The jobs that have ended, the latest first.
    History {
        /// How many of the latest are left out.
        skip: u32,
        /// How many, at most.
        most: u32,
    },
    /// As `List`, when all of these have ended.
    Wait(Vec<JobId>),
    /// End these. Answered by [`JobAnswer::Changed`], as the next two.
    Cancel(Vec<JobId>),
    /// Start nothing more of these.
    Hold(Vec<JobId>),
    /// Start them again.
    Release(Vec<JobId>),
    /// The queues.
    Queues,
    /// Read the file of queues again; answered as `Queues`.
    Reload,
    /// The clusters of the file of queues.
    Clusters,
    /// Lend a job to another machine: it does not run here any more. Answered by `Lent` when that is on disk.
    Lend {
        /// The job.
        job: JobId,
        /// The machine's name here.
        peer: String,
    },
    /// The number of a lent job there.
    NoteLent {
        /// The job.
        job: JobId,
        /// Its number there.
        number: JobId,
    },
    /// A lent job has ended there, or was not taken.
    GiveBack {
        /// The job.
        job: JobId,
        /// How it has ended, if it has.
        record: Option<Box<JobRecord>>,
    },
    /// How many slots are free that no job waits for.
    Room,
    /// The jobs that are lent to a machine, and the first that may be.
    Exchange {
        /// The machine.
        peer: String,
    },
    /// What waits for room that further hosts would have, of all queues or of one.
    Wanted {
        /// The queue.
        queue: Option<String>,
        /// Hosts that the caller can have added. Jobs are admitted as if they were there, for a while.
        expected: Option<Expected>,
    },
    /// The clusters of hosts.
    HostClusters,
}

impl JobCall {
    /// The call for these jobs; without any for all that have not ended.
    pub fn list(ids: Vec<JobId>) -> Self {
        if ids.is_empty() { Self::Live { above: JobId(0) } } else { Self::List(ids) }
    }

    /// The call for the rest of what was asked for, when these have been told and there is more.
    #[must_use]
    pub fn rest(self, told: &[JobRecord]) -> Self {
        match self {
            Self::List(mut ids) | Self::Wait(mut ids) => {
                ids.drain(..told.len().min(ids.len()));
                Self::List(ids)
            }
            Self::Live { above } => Self::Live { above: told.last().map_or(above, |job| job.id) },
            Self::History { skip, most } => {
                let count = told.len() as u32;
                Self::History { skip: skip.saturating_add(count), most: most.saturating_sub(count) }
            }
            other => other,
        }
    }

    /// Asks for jobs until all are told. `None`: an answer is of another kind.
    ///
    /// # Errors
    ///
    /// Those of `ask`.
    pub fn all_jobs<E>(
        mut self,
        mut ask: impl FnMut(Self) -> Result<JobAnswer, E>,
    ) -> Result<Option<Vec<JobRecord>>, E> {
        let mut all = Vec::new();
        loop {
            let JobAnswer::Jobs { jobs, more } = ask(self.clone())? else { return Ok(None) };
            // An answer without any would be followed by the same for ever.
            let more = more && !jobs.is_empty();
            self = self.rest(&jobs);
            all.extend(jobs);
            if !more {
                return Ok(Some(all));
            }
        }
    }
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobAnswer {
    /// It waits, or runs, under this number.
    Submitted(JobId),
    /// Jobs.
    Jobs {
        /// In the order in which they were asked for.
        jobs: Vec<JobRecord>,
        /// Whether there are more, for which there was no room.
        more: bool,
    },
    /// Per job whether anything has changed, or why it cannot.
    Changed(Vec<Result<bool, String>>),
    /// Queues.
    Queues(Vec<QueueRecord>),
    /// Clusters of the file of queues.
    Clusters(Vec<ClusterRecord>),
    /// The job that was lent.
    Lent(Box<JobRequest>),
    /// Free slots.
    Room(u32),
    /// What waits for room.
    Wanted(WantedList),
    /// The call is refused: the reason.
    Refused(String),
    /// Clusters of hosts.
    HostClusters(Vec<HostCluster>),
}
