//! What a daemon's core is told once, at its start.

use crate::hostfile::Hostfile;
use pvm_sched::policy::Policy;
use pvm_wire::HostIndex;
use pvm_wire::limits::{MAILBOX_BYTES, MAILBOX_ENTRIES, QUEUE_HIGH};
use std::net::IpAddr;
use std::time::Duration;

/// The constants of one daemon's life.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its place in the host table; [`HostIndex::MASTER`] makes it the master.
    pub index: HostIndex,
    /// Its name in the virtual machine.
    pub name: String,
    /// Its architecture, such as `LINUX64`.
    pub arch: String,
    /// `sp=`, if given.
    pub speed: Option<u32>,
    /// `C_i`: the speed if given, else measured. 1000 is a reference core.
    pub capability: f64,
    /// Cores of the host.
    pub cores: u32,
    /// `P`: tasks above which it asks for no more by itself.
    pub task_target: u32,
    /// `P` of queued batches: their tasks that run here at the same time.
    pub slots: u32,
    /// The policy that places batches which name none.
    pub policy: Policy,
    /// Whether nobody else can get at the network between it and others that say so (`net=private`).
    pub private_network: bool,
    /// Tasks above which it starts none at all (`PvmOutOfRes`).
    pub task_limit: u32,
    /// Address by which other hosts reach this one; tasks bind direct routes to it.
    pub address: Option<IpAddr>,
    /// The hosts to start with, and options for those added later. Empty on slaves.
    pub hostfile: Hostfile,
    /// Seed of the random waits.
    pub seed: u64,
    /// Time without a sign of life after which a host is lost.
    pub host_timeout: Duration,
    /// Time of day at the driver's time origin, since 1970 (`pvm_hostsync`).
    pub epoch: Duration,
    /// Initial debug mask (`-d`).
    pub debug_mask: u32,
    /// How long a team of tasks has the processor when several take turns; `None` if they do not.
    pub slice: Option<Duration>,
    /// What it takes on this host to wake another process.
    pub wake_time: Duration,
    /// What a hoster is told. The master's.
    pub hosting: Hosting,
    /// Bounds of what the daemon keeps in memory.
    pub limits: Limits,
}

/// Bounds of what a daemon keeps in memory; docs/limits.md has what happens when one is reached.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes queued for one task or link above which senders are stopped.
    pub queue_high: usize,
    /// Entries of the mailbox. The master's.
    pub mailbox_entries: usize,
    /// Bytes of messages in the mailbox. The master's.
    pub mailbox_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { queue_high: QUEUE_HIGH, mailbox_entries: MAILBOX_ENTRIES, mailbox_bytes: MAILBOX_BYTES }
    }
}

impl Limits {
    /// Bytes queued below which senders go on.
    pub fn queue_low(&self) -> usize {
        self.queue_high / 4
    }
}

/// What a hoster has to know to start a daemon for this virtual machine. Nothing of it is secret.
#[derive(Clone, Debug, Default)]
pub struct Hosting {
    /// By which a new daemon knows its master: the fingerprint of the machine's authority.
    pub fingerprint: String,
    /// The daemon's command, unless `dx=` says otherwise.
    pub daemon: String,
    /// `PVM_VMID`, unless `id=` says otherwise.
    pub vmid: Option<String>,
    /// Time a hoster has.
    pub timeout: Duration,
}

impl Config {
    /// Speed as `pvm_config` reports it.
    pub fn reported_speed(&self) -> i32 {
        self.speed.map_or(1000, |speed| i32::try_from(speed).unwrap_or(i32::MAX))
    }
}
