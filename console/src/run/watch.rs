//! Losses during a run: hosts, and tasks that were killed by signals.

use crate::cli::RunArgs;
use crate::losses::describe;
use indicatif::MultiProgress;
use pvm3::{Incident, Task, Tid};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The tasks that belong to the run: those whose output was collected; on a private machine all tasks.
#[derive(Clone, Debug)]
pub struct Members(Option<Arc<Mutex<HashSet<Tid>>>>);

impl Members {
    /// A task of the run has sent output.
    pub fn note(&self, tid: Tid) {
        if let Some(known) = &self.0 {
            known.lock().unwrap_or_else(PoisonError::into_inner).insert(tid);
        }
    }

    fn has(&self, tid: Tid) -> bool {
        let Some(known) = &self.0 else { return true };
        known.lock().unwrap_or_else(PoisonError::into_inner).contains(&tid)
    }
}

/// Receives reports of losses, and prints them.
#[derive(Debug)]
pub struct Watch {
    bars: MultiProgress,
    members: Members,
    lost: bool,
    failed: bool,
    has_printed_stop: bool,
    /// Ends of tasks since the last [`Watch::take_ends`].
    ends: Vec<End>,
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself or by a signal.
    Task {
        /// The task.
        tid: Tid,
        /// Its status, as `wait` returns it.
        status: i32,
        /// Whether a task of the machine has sent the signal.
        intended: bool,
    },
    /// All tasks of a host that was lost.
    Host(Tid),
}

impl Watch {
    /// Watches from now on.
    pub fn begin(task: &mut Task, args: &RunArgs, bars: MultiProgress) -> pvm3::Result<Self> {
        // The original's daemon reports nothing.
        if task.daemon_is_ours() {
            task.report_incidents(args.copies.is_some())?;
        }
        let members = Members((!args.machine.private).then(Arc::default));
        let ends = Vec::new();
        Ok(Self { bars, members, lost: false, failed: false, has_printed_stop: false, ends })
    }

    /// Where tasks of the run are to be noted.
    pub fn members(&self) -> Members {
        self.members.clone()
    }

    /// Prints the reports since the last look.
    pub fn look(&mut self, task: &mut Task) -> pvm3::Result<()> {
        if !task.daemon_is_ours() {
            return Ok(());
        }
        for incident in task.incidents()? {
            self.take(incident);
        }
        Ok(())
    }

    fn take(&mut self, incident: Incident) {
        let incident = match incident {
            Incident::TaskEnded { tid, status, intended, .. } => {
                self.ends.push(End::Task { tid, status, intended });
                Some(incident).filter(|_| self.members.has(tid))
            }
            Incident::HostLost { host, name, reason, mut tasks } => {
                self.ends.push(End::Host(host));
                let is_private = self.members.0.is_none();
                tasks.retain(|(tid, _)| self.members.has(*tid));
                let matters = is_private || !tasks.is_empty();
                matters.then_some(Incident::HostLost { host, name, reason, tasks })
            }
        };
        if let Some(text) = incident.as_ref().and_then(describe) {
            self.lost = true;
            let prefix = if matches!(incident, Some(Incident::HostLost { .. })) { "pvm: " } else { "" };
            self.print(&format!("{prefix}{text}"));
        }
    }

    /// A task of the run has ended with an error.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Whether a host or a task was lost.
    pub fn has_losses(&self) -> bool {
        self.lost
    }

    /// Whether anything has gone wrong that may stop the run.
    pub fn has_failed(&self) -> bool {
        self.lost || self.failed
    }

    /// The ends since the last call.
    pub fn take_ends(&mut self) -> Vec<End> {
        std::mem::take(&mut self.ends)
    }

    /// Prints a line, above the bars.
    pub fn print(&self, text: &str) {
        self.bars.suspend(|| eprintln!("{text}"));
    }

    /// Prints once that the run stops because of a loss.
    pub fn print_stop(&mut self) {
        if !std::mem::replace(&mut self.has_printed_stop, true) {
            self.print("pvm: stopping (--on-failure stop)");
        }
    }
}
