//! What the master's decisions rest on, from the machine's start.

use crate::config::{Config, Hosting, Limits};
use crate::hostfile::Hostfile;
use pvm_wire::daemon::Blob;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// The speed of a host without `sp=`, as in PVM.
pub(crate) const REFERENCE_SPEED: u32 = 1000;

/// Time in which a daemon ends its tasks.
const TASKS_END: Duration = Duration::from_secs(2);

/// The settings of the host that has started the machine. They go with the master's state.
#[derive(Serialize, Deserialize)]
pub(super) struct Settings {
    /// The hosts to start with, and options for those added later.
    pub hostfile: Hostfile,
    /// What a hoster is told.
    pub hosting: Hosting,
    /// The name of the first master.
    pub name: String,
    /// The master's address.
    pub address: Option<IpAddr>,
    /// `sp=` of the first master.
    speed: Option<u32>,
    /// What it has measured.
    capability: f64,
    /// Bounds of the mailbox.
    pub entries_max: usize,
    pub bytes_max: usize,
    /// Most deputies.
    pub deputies_max: usize,
    /// Hosts up to which the master detects each loss by itself.
    pub watched_max: usize,
    /// How long a host has to answer when another one has lost its link to it.
    pub grace: Duration,
    /// After this time a host that is lost has ended its tasks: it has noticed that it is cut off, and waited for another master.
    pub lost_end: Duration,
    /// The authority's certificate and key, which the next master needs to add hosts.
    pub authority: Blob,
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Settings").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Settings {
    pub fn new(config: &Config) -> Self {
        let Limits { mailbox_entries, mailbox_bytes, .. } = config.limits;
        Self {
            hostfile: config.hostfile.clone(),
            hosting: config.hosting.clone(),
            name: config.name.clone(),
            address: config.address,
            speed: config.speed,
            capability: config.capability,
            entries_max: mailbox_entries,
            bytes_max: mailbox_bytes,
            deputies_max: config.succession.deputies_max,
            watched_max: config.watched_max,
            grace: config.host_timeout / 6,
            lost_end: config.succession.patience + config.host_timeout + TASKS_END,
            authority: config.succession.authority.clone(),
        }
    }

    /// The speed of a host that the master adds: what `pvm_config` reports, and `C_i`. `sp=` decides. If the hostfile gives none at
    /// all, it is what the host has measured, relative to the first master, in hundreds: hosts of one kind are equal.
    pub fn speed_of(&self, given: Option<u32>, measured: f64) -> u32 {
        let has_measured = self.speed.is_none() && !self.hostfile.gives_speeds();
        given.unwrap_or_else(
            || if has_measured { relative(measured, self.capability) } else { REFERENCE_SPEED },
        )
    }
}

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
