//! Reports of losses: hosts that are lost, and tasks that a signal has killed.

use crate::task::Task;
use pvm_engine::Result;
use pvm_engine::Wait;
use pvm_wire::Tid;
use pvm_wire::calls::state::{DiscardLogs, IncidentRequest};
use pvm_wire::codes::{CONTEXT_TC, INCIDENT_TAG};
use pvm_wire::incident::Incident;

/// Losses anywhere in the virtual machine.
impl Task {
    /// From now on the daemons report to this task every host that is lost, with the tasks that ran there, and every task that a signal
    /// has killed; with `every_end`, every task that exits. [`Task::incidents`] returns the reports.
    pub fn report_incidents(&mut self, every_end: bool) -> Result<()> {
        self.engine.call(&IncidentRequest { every_end })
    }

    /// The incidents that have been reported since the last call, in their order. Does not wait.
    pub fn incidents(&mut self) -> Result<Vec<Incident>> {
        let mut choose = |message: &pvm_wire::Message| {
            let header = message.header;
            message.src == Tid::MY_DAEMON && header.context == CONTEXT_TC && header.tag == INCIDENT_TAG
        };
        let mut incidents = Vec::new();
        while let Some(message) = self.engine.fetch(Wait::Poll, &mut choose)? {
            // The daemon is of this version, so the report is valid.
            incidents.extend(Incident::decode(&message.body));
        }
        Ok(incidents)
    }

    /// Has the daemons of this virtual machine remove their logs when it ends.
    pub fn discard_logs(&mut self) -> Result<()> {
        self.engine.call(&DiscardLogs {})
    }
}
