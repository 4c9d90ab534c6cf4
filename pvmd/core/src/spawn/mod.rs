//! Starting tasks.
//!
//! As *home* of a spawn, the spawner's daemon, this daemon knows what is to become of each task ([`home`]; [`queue`], if the
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

use crate::addresses::SpawnId;
use crate::load::HostLoad;
use crate::tasks::ExecId;
use pvm_wire::HostIndex;
use pvm_wire::batch::BatchId;
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
