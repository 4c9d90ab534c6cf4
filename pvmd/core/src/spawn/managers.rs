//! As home: the task managers, which hand out what waits of spawns, and the spawns that wait in line for one (design D6).
//!
//! The home daemon holds the truth about its spawners' batches, and carries out what a batch's manager, a process of its own,
//! decides.

use crate::addresses::SpawnId;
use pvm_wire::batch::BatchId;
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Managers kept ready for the next batch.
pub(crate) const IDLE_MANAGERS: usize = 2;
/// Queued batches handed out at the same time; younger ones wait.
pub(crate) const QUEUED_AT_ONCE: usize = 8;
/// Managers that may die in a row before a batch is given up.
pub(crate) const MANAGER_TRIES: u32 = 3;

/// The managers of a home daemon and the batches that wait for one.
#[derive(Debug, Default)]
pub(crate) struct Managers {
    /// Enrolled ones that hand out nothing.
    pub idle: BTreeSet<Tid>,
    /// Processes started that have not enrolled yet.
    pub starting: BTreeSet<Tid>,
    /// Spawns in line for one.
    pub waiting: VecDeque<SpawnId>,
    /// The batches each was told to be done with since it last handed out tasks, and the nodes it may not have told that.
    pub done: BTreeMap<Tid, Vec<(BatchId, BTreeSet<HostIndex>)>>,
    pub deaths: u32,
}
