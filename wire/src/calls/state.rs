//! What daemons report to tasks of this system: their state, and losses.

use super::{answers, requests};
use crate::codes::Tmx;

requests! {
    /// The daemon's whole state as text.
    Dump = Tmx::Dump; {}

    /// All has gone well: the daemons remove their logs when the virtual machine ends.
    DiscardLogs = Tmx::DiscardLogs; {}

    /// The caller is to be told of hosts that are lost and of tasks that signals end ([`crate::incident::Incident`]).
    #[derive(Copy)]
    IncidentRequest = Tmx::Incidents; {
        /// Whether it is to be told of the end of every task.
        every_end: bool,
    }
}

answers! {
    Dump => 0, String, |_| "the daemon's state";
    DiscardLogs => 0, (), |_| "removing the logs";
    IncidentRequest => 0, (), |_| "reports of losses";
}
