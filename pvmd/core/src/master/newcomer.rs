//! How far a host is that is being added.

use crate::config::Hosting;
use crate::hostfile::{HostSpec, Hostfile, Via, parse_host};
use pvm_wire::daemon::{AddResult, HostEntry};
use pvm_wire::services::StartHost;
use pvm_wire::{HostIndex, PvmError};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use tracing::warn;

/// How far one newcomer is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Stage {
    /// Its address is looked up.
    Resolving(HostSpec),
    /// Its daemon is being started.
    Starting(HostIndex, HostSpec),
    /// The hoster is starting its daemon, at this address.
    Hosted(HostIndex, HostSpec, IpAddr),
    /// Its daemon runs; the link is being made.
    Linking(HostEntry),
    /// Linked to the master.
    Linked(HostEntry),
    /// Out of the race.
    Failed { name: String, error: PvmError, reason: String },
}

impl Stage {
    /// One string given to `pvm_addhosts`.
    pub fn parse(text: &str, hostfile: &Hostfile) -> Self {
        match parse_host(text) {
            Err(reason) => {
                let name = text.split_ascii_whitespace().next().unwrap_or_default().to_owned();
                Self::Failed { name, error: PvmError::BadParam, reason }
            }
            Ok(spec) => Self::Resolving(hostfile.complete(spec)),
        }
    }

    /// How far it is, for people.
    pub fn progress(&self) -> String {
        match self {
            Self::Resolving(_) => "its name is being resolved".to_owned(),
            Self::Starting(..) => "its daemon is being started".to_owned(),
            Self::Hosted(_, _, address) => format!("its daemon is being started by the hoster, at {address}"),
            Self::Linking(_) => "its daemon runs, and is being linked".to_owned(),
            Self::Linked(_) => "linked".to_owned(),
            Self::Failed { reason, .. } => format!("failed: {reason}"),
        }
    }

    pub fn index(&self) -> Option<HostIndex> {
        match self {
            Self::Starting(index, ..) | Self::Hosted(index, ..) => Some(*index),
            Self::Linking(entry) | Self::Linked(entry) => Some(entry.index),
            Self::Resolving(_) | Self::Failed { .. } => None,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Resolving(spec) | Self::Starting(_, spec) | Self::Hosted(_, spec, _) => &spec.name,
            Self::Linking(entry) | Self::Linked(entry) => &entry.name,
            Self::Failed { name, .. } => name,
        }
    }

    pub fn fail(&mut self, error: PvmError, reason: impl Into<String>) {
        *self = Self::failed(self.name(), error, reason.into());
    }

    pub fn failed(name: &str, error: PvmError, reason: String) -> Self {
        warn!(name, error = error.name(), reason, "host not added");
        Self::Failed { name: name.to_owned(), error, reason }
    }

    pub fn settled(&self) -> bool {
        matches!(self, Self::Linked(_) | Self::Failed { .. })
    }

    pub fn into_result(self) -> AddResult {
        match self {
            Self::Linked(entry) => AddResult::Added(entry),
            Self::Failed { name, error, reason } => AddResult::Failed { name, code: error.code(), reason },
            // Never at a commit; said rather than panicked about.
            other => AddResult::Failed {
                name: other.name().to_owned(),
                code: PvmError::DSysErr.code(),
                reason: format!("its addition has not ended: {}", other.progress()),
            },
        }
    }
}

/// What a hoster is to start.
pub(super) fn order(hosting: &Hosting, index: HostIndex, spec: &HostSpec) -> StartHost {
    let options = &spec.options;
    let login = options.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
    let daemon = options.daemon.as_ref().unwrap_or(&hosting.daemon);
    StartHost {
        host: index.host_tid(),
        start_options: options.start_options.clone().unwrap_or_default(),
        target: format!("{login}{}", target(spec)),
        command: format!("{daemon} --hosted {}", hosting.fingerprint),
        vmid: options.vmid.clone().or_else(|| hosting.vmid.clone()).unwrap_or_default(),
    }
}

pub(super) fn is_local(spec: &HostSpec) -> bool {
    spec.options.via == Some(Via::Local)
}

/// What to look up, and to hand to ssh.
pub(super) fn target(spec: &HostSpec) -> &str {
    spec.options.address.as_deref().unwrap_or(&spec.name)
}

/// The loopback address of a `via=local` host: one of its own, so that several daemons look like several hosts.
pub(super) fn local_address(index: HostIndex) -> IpAddr {
    let [_, _, high, low] = index.get().to_be_bytes();
    Ipv4Addr::new(127, 80, high, low).into()
}
