//! As node: batches that this host may ask for tasks, `N_a = P − P_c` at a time (design D6; papers, section 1).

use pvm_sched::pulling::{self};
use pvm_wire::Tid;

/// A batch that this node may ask for work.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    pub manager: Tid,
    pub node: pulling::Node,
    /// Its tasks wait for slots.
    pub queued: bool,
}
