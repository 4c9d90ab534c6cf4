//! What a daemon's core is told once, at its start.

use crate::hostfile::Hostfile;
use crate::master::REFERENCE_SPEED;
use pvm_sched::policy::Policy;
use pvm_sched::queues::Configuration;
use pvm_wire::HostIndex;
use pvm_wire::daemon::{Blob, HostEntry};
use pvm_wire::encoding::DataSignature;
use pvm_wire::jobs::Stamp;
use pvm_wire::limits::{MAILBOX_BYTES, MAILBOX_ENTRIES, QUEUE_HIGH};
use pvm_wire::owner::Ownership;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// The constants of one daemon's life.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its place in the host table.
    pub index: HostIndex,
    /// The master at its start; itself if it starts a machine.
    pub master: HostIndex,
    /// Its name in the virtual machine.
    pub name: String,
    /// Its architecture, such as `LINUX64`.
    pub arch: String,
    /// `sp=`, if given.
    pub speed: Option<u32>,
    /// The speed if given, else what was measured; 1000 is a reference core. `C_i` is the speed in the host table.
    pub capability: f64,
    /// Cores of the host.
    pub cores: u32,
    /// `P`: tasks above which it asks for no more by itself.
    pub task_target: u32,
    /// Bytes of memory that a task needs, by which `P` is bounded; `None` for what those that run have.
    pub task_memory: Option<u64>,
    /// `P` of queued batches: their tasks that run here at the same time.
    pub slots: u32,
    /// The policy that places batches which name none.
    pub policy: Policy,
    /// Whether nobody else can get at the network between it and others that say so (`net=private`).
    pub private_network: bool,
    /// What is known beforehand of its owner.
    pub owner: Ownership,
    /// Tasks above which it starts none at all (`PvmOutOfRes`).
    pub task_limit: u32,
    /// Address by which other hosts reach this one; tasks bind direct routes to it.
    pub address: Option<IpAddr>,
    /// The hosts to start with, and options for those added later. Empty on slaves.
    pub hostfile: Hostfile,
    /// How long it keeps a link to another slave on which no message goes.
    pub link_idle: Duration,
    /// Seed of the random waits.
    pub seed: u64,
    /// Time of day at the driver's time origin, since 1970 (`pvm_hostsync`).
    pub epoch: Duration,
    /// Debug mask (`-d`), which tasks may change.
    pub debug_mask: u32,
    /// How long a team of tasks has the processor when several take turns; `None` if they do not.
    pub slice: Option<Duration>,
    /// Whether teams take turns by the rows of a matrix that the master has for all hosts.
    pub has_rows: bool,
    /// What it takes on this host to wake another process.
    pub wake_time: Duration,
    /// How daemons are started. The master's.
    pub hosting: Hosting,
    /// How the master is succeeded when it is lost.
    pub succession: Succession,
    /// Hosts up to which the master checks each other host at the full rate.
    pub watched_max: usize,
    /// How long a host may be silent.
    pub host_timeout: Duration,
    /// Bounds of what the daemon keeps in memory.
    pub limits: Limits,
    /// The cluster that it belongs to. The master's: it knows those of other hosts.
    pub cluster: Option<String>,
    /// The queues that jobs are submitted to, and the clusters of hosts. The master's.
    pub queues: Configuration,
    /// What is on disk of earlier jobs. The master's.
    pub saved: Saved,
    /// When jobs were written to this host's disk.
    pub stamp: Option<Stamp>,
}

/// Jobs of an earlier machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The jobs.
    pub jobs: Vec<SavedJob>,
    /// What is known of that machine.
    pub state: Option<SavedState>,
    /// The jobs that stand in the file that is to be written, if these are from another one.
    pub replaces: Option<Vec<u64>>,
}

/// What a file of jobs says of the machine that has written it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// When.
    pub stamp: Stamp,
    /// Whether the machine was halted then.
    pub is_closed: bool,
    /// Names of the hosts that could go on with its jobs.
    pub deputies: Vec<String>,
}

/// A job of an earlier machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedJob {
    /// What was to be written.
    pub bytes: Blob,
    /// Whether a later state of it may be lost. Such a job is held.
    pub is_doubtful: bool,
}

/// How the master is succeeded when it is lost.
#[derive(Clone, Debug)]
pub struct Succession {
    /// Most hosts that hold the master's state, the master included; with 1 the machine ends with its master. The master's.
    pub deputies_max: usize,
    /// Whether of two hosts the other takes the master's place although the master may live, and only be out of reach.
    pub takes_silent: bool,
    /// How long a host waits for another master.
    pub patience: Duration,
    /// The machine's certificate authority, with its key, for the driver of the next master. The master's.
    pub authority: Blob,
}

impl Default for Succession {
    fn default() -> Self {
        let (patience, authority) = (Duration::from_secs(10), Blob::default());
        Self { deputies_max: 1, takes_silent: false, patience, authority }
    }
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

/// What has to be known to start a daemon for this virtual machine. Nothing of it is secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hosting {
    /// The program that runs a command on another host, and its options.
    pub rsh: Vec<String>,
    /// Daemons that one host starts at a time.
    pub width: usize,
    /// Whether hosts that are there start others.
    pub is_shared: bool,
    /// By which a new daemon knows its master: the fingerprint of the machine's authority.
    pub fingerprint: String,
    /// The daemon's command, unless `dx=` says otherwise.
    pub daemon: String,
    /// `PVM_VMID`, unless `id=` says otherwise.
    pub vmid: Option<String>,
    /// Time that a daemon has to start.
    pub timeout: Duration,
}

impl Config {
    /// This host's own speed, if it is the master.
    pub fn own_speed(&self) -> u32 {
        self.speed.unwrap_or(REFERENCE_SPEED)
    }

    /// This host in the host table, if it is the master.
    pub(crate) fn entry(&self) -> HostEntry {
        HostEntry {
            index: self.index,
            name: self.name.clone(),
            arch: self.arch.clone(),
            speed: self.own_speed().cast_signed(),
            capability: self.own_speed().into(),
            task_limit: self.task_limit,
            signature: DataSignature::NATIVE.0,
            cluster: self.cluster.clone().map(|name| self.hostfile.cluster(name)),
            address: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self {
            index: HostIndex::MASTER,
            master: HostIndex::MASTER,
            name: "master".to_owned(),
            arch: "LINUX64".to_owned(),
            speed: None,
            capability: 1000.0,
            cores: 1,
            task_target: 1,
            task_memory: None,
            slots: 1,
            policy: Policy::default(),
            owner: Ownership::default(),
            private_network: false,
            task_limit: 1,
            address: None,
            hostfile: Hostfile::default(),
            link_idle: Duration::from_secs(30),
            seed: 1,
            epoch: Duration::ZERO,
            debug_mask: 0,
            slice: None,
            has_rows: false,
            wake_time: Duration::ZERO,
            hosting: Hosting::default(),
            succession: Succession::default(),
            watched_max: 256,
            host_timeout: Duration::from_secs(3),
            limits: Limits::default(),
            cluster: None,
            queues: Configuration::default(),
            saved: Saved::default(),
            stamp: None,
        }
    }
}
