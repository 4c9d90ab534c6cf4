//! Starting tasks.
//!
//! As *home* of a spawn, the spawner's daemon, this daemon knows what is to become of each task (`home`; `queue`, if the
//! spawn has returned already), how far the spawn is ([`state`]) and which manager hands out what waits ([`managers`]).
//! As *node* it starts tasks on request ([`node`]), and asks the managers of other tasks' spawns for work ([`pulling`]).

pub(crate) mod home;
pub(crate) mod managers;
pub(crate) mod node;
pub(crate) mod notices;
pub(crate) mod placing;
pub(crate) mod pulling;
pub(crate) mod queue;
pub(crate) mod refusals;
pub(crate) mod state;

pub(crate) use home::Spawn;
pub(crate) use managers::Managers;
pub(crate) use node::{Exec, ExecTo};
pub(crate) use notices::Notices;
pub(crate) use pulling::OpenBatch;
pub(crate) use queue::Queues;

use crate::addresses::{ExecId, SpawnId};
use crate::load::HostLoad;
use managers::QUEUED_AT_ONCE;
use pvm_sched::policy::Policy;
use pvm_wire::batch::BatchId;
use pvm_wire::queue::BatchRecord;
use pvm_wire::{HostIndex, Tid};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

/// Ends a process that can put its affairs in order, and one that cannot.
pub(crate) const SIGTERM: i32 = 15;
pub(crate) const SIGKILL: i32 = 9;

/// What a daemon knows as home of its tasks' spawns.
#[derive(Debug)]
pub(crate) struct Home {
    pub spawns: BTreeMap<SpawnId, Spawn>,
    /// Spawns so far.
    pub count: u64,
    pub queues: Queues,
    pub managers: Managers,
    /// Host that a divided batch was given to last.
    pub last_given: HostIndex,
}

/// What a daemon knows as node, which starts tasks of all homes' spawns.
#[derive(Debug)]
pub(crate) struct Node {
    pub execs: BTreeMap<ExecId, Exec>,
    /// Orders so far.
    pub count: u64,
    pub batches: BTreeMap<BatchId, OpenBatch>,
    pub load: HostLoad,
    random: u64,
}

impl Home {
    pub fn new(own: HostIndex) -> Self {
        let (spawns, queues, managers) = (BTreeMap::new(), Queues::default(), Managers::default());
        Self { spawns, count: 0, queues, managers, last_given: own }
    }

    pub fn is_queued(&self, id: SpawnId) -> bool {
        self.spawns.get(&id).is_some_and(|spawn| spawn.queue().is_some())
    }

    pub fn has_manager(&self, id: SpawnId) -> bool {
        self.spawns.get(&id).is_some_and(|spawn| spawn.state().manager().is_some())
    }

    /// The spawn that this manager hands out.
    pub fn managed_by(&self, manager: Tid) -> Option<SpawnId> {
        let is_its = |(_, spawn): &(&SpawnId, &Spawn)| spawn.state().manager() == Some(manager);
        self.spawns.iter().find(is_its).map(|(&id, _)| id)
    }

    /// Managers that have enrolled, and those on their way.
    pub fn manager_counts(&self) -> (usize, usize) {
        let busy = self.spawns.values().filter(|spawn| spawn.state().manager().is_some()).count();
        (self.managers.idle.len() + busy, self.managers.starting.len())
    }

    /// Queued batches that may have a manager beyond those that have one.
    fn queued_servable(&self) -> usize {
        let queued = self.spawns.values().filter(|spawn| spawn.queue().is_some());
        QUEUED_AT_ONCE.saturating_sub(queued.filter(|spawn| spawn.state().manager().is_some()).count())
    }

    /// Batches that wait for a manager and may have one now.
    pub fn servable(&self) -> usize {
        let waiting = &self.managers.waiting;
        let queued = waiting.iter().filter(|&&id| self.is_queued(id)).count();
        waiting.len() - queued + queued.min(self.queued_servable())
    }

    /// The next batch for an idle manager: the oldest that may have one.
    pub fn next_batch(&mut self) -> Option<SpawnId> {
        let room = self.queued_servable() > 0;
        let next = self.managers.waiting.iter().position(|&id| room || !self.is_queued(id))?;
        self.managers.waiting.remove(next)
    }

    /// The queued batches of a task.
    pub fn queues_of(&self, parent: Tid) -> Vec<SpawnId> {
        let of = |id: &SpawnId| self.spawns.get(id).is_some_and(|spawn| spawn.spawner == parent);
        self.queues.ids.values().copied().filter(of).collect()
    }

    /// The batches of this home, those that have ended first. `machine` is the policy of those that name none.
    pub fn records(&self, machine: Policy) -> Vec<BatchRecord> {
        let live = self.spawns.values().filter_map(|spawn| spawn.record(machine));
        self.queues.ended.iter().cloned().chain(live).collect()
    }

    pub fn next_id(&mut self) -> SpawnId {
        self.count += 1;
        SpawnId(self.count)
    }
}

impl Node {
    pub fn new(seed: u64) -> Self {
        let (execs, batches, load) = (BTreeMap::new(), BTreeMap::new(), HostLoad::default());
        Self { execs, count: 0, batches, load, random: seed | 1 }
    }

    pub fn next_id(&mut self) -> ExecId {
        self.count += 1;
        ExecId(self.count)
    }

    /// The next number of the seeded sequence within the range (xorshift64*).
    pub fn random(&mut self, range: Range<u64>) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        range.start + self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) % (range.end - range.start).max(1)
    }
}

/// `where` of a spawn, split at its first colon: host or architecture, and directory.
pub(crate) fn split_place(place: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let mut parts = place.as_bytes().splitn(2, |&byte| byte == b':').map(OsStr::from_bytes);
    (parts.next().unwrap_or_default(), parts.next())
}
