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
    /// The speed if given, else what was measured; 1000 is a reference core. `C_i` is the speed in the host table.
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
    /// This host's own speed, if it is the master.
    pub fn own_speed(&self) -> u32 {
        self.speed.unwrap_or(REFERENCE_SPEED)
    }

    /// The speed of a host that the master adds: what `pvm_config` reports, and `C_i`. `sp=` decides. If the hostfile gives none at
    /// all, it is what the host has measured, relative to the master, in hundreds: hosts of one kind are equal.
    pub fn speed_of(&self, given: Option<u32>, measured: f64) -> u32 {
        let has_measured = self.speed.is_none() && !self.hostfile.gives_speeds();
        given.unwrap_or_else(
            || if has_measured { relative(measured, self.capability) } else { REFERENCE_SPEED },
        )
    }
}

/// The speed of a host without `sp=`, as in PVM.
const REFERENCE_SPEED: u32 = 1000;

fn relative(measured: f64, reference: f64) -> u32 {
    // A quotient that is no number becomes the least.
    let tenths = (10.0 * measured / reference).round().max(1.0) as u32;
    tenths.min(10_000) * (REFERENCE_SPEED / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_speed_is_relative_to_the_masters() {
        let speeds = [5907.0, 6100.0, 11_000.0, 2500.0, 1.0].map(|measured| relative(measured, 5907.0));
        assert_eq!(speeds, [1000, 1000, 1900, 400, 100]);
        assert_eq!(
            [f64::NAN, f64::INFINITY, -1.0].map(|wrong| relative(wrong, 1000.0)),
            [100, 1_000_000, 100]
        );
    }
}
