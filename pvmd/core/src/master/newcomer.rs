//! How far a host is that is being added.

use crate::config::Hosting;
use crate::hostfile::{HostSpec, Hostfile, Via, parse_host};
use pvm_wire::daemon::{AddResult, HostEntry};
use pvm_wire::services::StartHost;
use pvm_wire::{HostIndex, PvmError};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use tracing::warn;

/// A host whose daemon is to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Newcomer {
    pub index: HostIndex,
    pub spec: HostSpec,
    pub address: IpAddr,
    /// Why the first attempt to start its daemon was in vain.
    pub failed: Option<String>,
}

impl Newcomer {
    /// Whether other hosts than the master can start its daemon: the launcher of a batch system, for example, may work on the master's host only.
    pub fn can_be_started_by_others(&self) -> bool {
        self.failed.is_none() && self.is_reached_by_ssh() && self.spec.options.start_options.is_none()
    }

    pub fn is_reached_by_ssh(&self) -> bool {
        self.spec.options.via.unwrap_or_default() == Via::Ssh
    }

    /// The command by which another host starts its daemon.
    pub fn command(&self, hosting: &Hosting) -> Vec<String> {
        let options = &self.spec.options;
        let mut command = self.spec.reached_by(&hosting.rsh);
        if let Some(vmid) = options.vmid.as_ref().or(hosting.vmid.as_ref()) {
            command.extend(["env".to_owned(), format!("PVM_VMID={vmid}")]);
        }
        let daemon = options.daemon.as_ref().unwrap_or(&hosting.daemon);
        command.extend([daemon.clone(), "--hosted".to_owned(), hosting.fingerprint.clone()]);
        command
    }
}

/// How far one newcomer is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Stage {
    /// Its address is looked up.
    Resolving(HostSpec),
    /// Its daemon is to be started when a host has room for that.
    Waiting(Newcomer),
    /// Its daemon is to be started again, in a moment.
    Pausing(Newcomer),
    /// This host, the master or another one, is starting its daemon.
    Starting(Newcomer, HostIndex),
    /// The hoster is starting its daemon.
    Hosted(Newcomer),
    /// Its daemon waits for the master, which brings it its place.
    Introducing(Newcomer),
    /// Its daemon runs; the link is being made. Whether it can start others then.
    Linking(HostEntry, bool),
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
            Self::Waiting(_) => "its daemon is to be started".to_owned(),
            Self::Pausing(_) => "its daemon is to be started again".to_owned(),
            Self::Starting(_, by) => format!("its daemon is being started by host {by}"),
            Self::Hosted(newcomer) => {
                format!("its daemon is being started by the hoster, at {}", newcomer.address)
            }
            Self::Introducing(_) => "its daemon is being told its place".to_owned(),
            Self::Linking(..) => "its daemon runs, and is being linked".to_owned(),
            Self::Linked(_) => "linked".to_owned(),
            Self::Failed { reason, .. } => format!("failed: {reason}"),
        }
    }

    /// The host whose daemon does not run yet, as far as is known.
    pub fn newcomer(&self) -> Option<&Newcomer> {
        match self {
            Self::Waiting(newcomer)
            | Self::Pausing(newcomer)
            | Self::Starting(newcomer, _)
            | Self::Hosted(newcomer)
            | Self::Introducing(newcomer) => Some(newcomer),
            _ => None,
        }
    }

    pub fn index(&self) -> Option<HostIndex> {
        match self {
            Self::Linking(entry, _) | Self::Linked(entry) => Some(entry.index),
            _ => self.newcomer().map(|newcomer| newcomer.index),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Resolving(spec) => &spec.name,
            Self::Linking(entry, _) | Self::Linked(entry) => &entry.name,
            Self::Failed { name, .. } => name,
            _ => self.newcomer().map_or("", |newcomer| &newcomer.spec.name),
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
pub(super) fn order(hosting: &Hosting, Newcomer { index, spec, .. }: &Newcomer) -> StartHost {
    let options = &spec.options;
    let login = options.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
    let daemon = options.daemon.as_ref().unwrap_or(&hosting.daemon);
    StartHost {
        host: index.host_tid(),
        start_options: options.start_options.clone().unwrap_or_default(),
        target: format!("{login}{}", spec.target()),
        command: format!("{daemon} --hosted {}", hosting.fingerprint),
        vmid: options.vmid.clone().or_else(|| hosting.vmid.clone()).unwrap_or_default(),
    }
}

pub(super) fn is_local(spec: &HostSpec) -> bool {
    spec.options.via == Some(Via::Local)
}

/// The loopback address of a `via=local` host: one of its own, so that several daemons look like several hosts.
pub(super) fn local_address(index: HostIndex) -> IpAddr {
    let [_, _, high, low] = index.get().to_be_bytes();
    Ipv4Addr::new(127, 80, high, low).into()
}
