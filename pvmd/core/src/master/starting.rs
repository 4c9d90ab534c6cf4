//! Which host starts the daemons of newcomers.
//!
//! The master starts up to `width` daemons at a time. Each host whose own daemon was started by ssh starts up to `width` more, so that a
//! thousand logins take the time of a few. A host that starts a daemon sees no secret: the new daemon waits for the master, which gives it
//! its configuration, as if a hoster had started it. If a host fails to start a daemon, the master starts it.

use super::Master;
use super::newcomer::{Newcomer, Stage};
use crate::effect::{Effect, Effects};
use crate::event::{Action, StartFailure, StartedHost};
use crate::timers::Timer;
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::daemon::{FromMaster, HostEntry};
use pvm_wire::slave::HostedLine;
use pvm_wire::{HostIndex, PvmError, tuned};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tracing::info;

/// Pause before a daemon is started again. An sshd that refuses connections because it has too many needs about that long.
const PAUSE: Duration = Duration::from_secs(1);
/// Divides the time limit of a start for attempts by other hosts. The master's own attempt has the whole limit.
const SHARE: u32 = 3;

impl Master {
    /// Starts daemons of newcomers, as many as hosts may start at a time.
    pub(super) fn start_waiting(&mut self, out: &mut Effects) {
        let hosting = &self.settings.hosting;
        let Some(operation) = &mut self.adding else { return };
        let count =
            |is_one: fn(&Stage) -> bool| operation.stages.iter().filter(|stage| is_one(stage)).count();
        let linking = count(|stage| matches!(stage, Stage::Linking(..)));
        if linking >= tuned::LINKING_MAX || count(|stage| matches!(stage, Stage::Waiting(_))) == 0 {
            return;
        }
        let mut room = Room::new(self.seat, hosting.width.max(1), &operation.stages);
        if hosting.is_shared {
            room.add(self.starters.iter().copied().filter(|&host| self.sessions.has(host)));
        }
        for stage in &mut operation.stages {
            let Stage::Waiting(newcomer) = stage else { continue };
            let Some(by) = room.take(newcomer.can_be_started_by_others()) else { continue };
            let Newcomer { index, spec, address, .. } = newcomer.clone();
            info!(host = %index, name = spec.name, %address, %by, "starting a host");
            if by == self.seat {
                out.act(Action::StartHost { index, spec, address });
            } else {
                let (command, timeout) = (newcomer.command(hosting), hosting.timeout / SHARE);
                out.push(Effect::Order(by, FromMaster::StartDaemon { host: index, command, timeout }));
            }
            *stage = Stage::Starting(newcomer.clone(), by);
        }
    }

    /// A host reports the result of a start that it was ordered.
    pub(super) fn on_daemon_started(
        &mut self,
        from: HostIndex,
        index: HostIndex,
        answer: Result<String, String>,
        out: &mut Effects,
    ) {
        let Some(Stage::Starting(newcomer, by)) = self.newcomer(index) else { return };
        if *by != from {
            return;
        }
        let newcomer = newcomer.clone();
        match answer.map(|line| HostedLine::parse(&line).ok_or(line)) {
            Ok(Ok(line)) => self.introduce(&newcomer, &line, out),
            Ok(Err(line)) => self.on_start_failed(index, cant_start(format!("its answer is {line:?}")), out),
            Err(reason) => {
                // Perhaps it cannot log in anywhere.
                self.starters.remove(&from);
                self.on_start_failed(index, cant_start(reason), out);
            }
        }
    }

    /// A daemon waits for the master, which gives it its configuration.
    pub(super) fn introduce(&mut self, of: &Newcomer, line: &HostedLine, out: &mut Effects) {
        let Newcomer { index, spec, address, .. } = of.clone();
        if line.protocol != DAEMON_PROTOCOL {
            let reason = format!("its daemon speaks protocol {}, this one {DAEMON_PROTOCOL}", line.protocol);
            return self.on_newcomer_failed(index, PvmError::BadVersion, &reason, out);
        }
        if let Some(stage) = self.newcomer(index) {
            *stage = Stage::Introducing(of.clone());
        }
        let (address, fingerprint) = (SocketAddr::new(address, line.port), line.fingerprint);
        out.act(Action::Introduce { index, spec, address, fingerprint });
    }

    /// A newcomer's daemon runs, or does not.
    pub(super) fn on_host_started(
        &mut self,
        index: HostIndex,
        result: Result<StartedHost, StartFailure>,
        out: &mut Effects,
    ) {
        let Some(Stage::Starting(newcomer, _) | Stage::Introducing(newcomer)) = self.newcomer(index) else {
            return;
        };
        let (spec, is_starter) = (newcomer.spec.clone(), newcomer.is_reached_by_ssh());
        match result {
            Err(failure) => self.on_start_failed(index, failure, out),
            Ok(started) => {
                let speed = self.settings.speed_of(spec.options.speed, started.capability);
                let entry = HostEntry {
                    index,
                    name: spec.name,
                    arch: started.arch,
                    speed: i32::try_from(speed).unwrap_or(i32::MAX),
                    capability: speed.into(),
                    task_limit: started.task_limit,
                    signature: started.signature,
                    cluster: spec.options.cluster.map(|name| self.settings.hostfile.cluster(name)),
                    address: Some(started.address),
                };
                if let Some(stage) = self.newcomer(index) {
                    *stage = Stage::Linking(entry.clone(), is_starter);
                }
                out.act(Action::Link { entry });
                self.start_waiting(out);
            }
        }
    }

    /// The start of a newcomer's daemon has failed. The master tries again if another host has failed, or once if the failure may be temporary.
    fn on_start_failed(&mut self, index: HostIndex, failure: StartFailure, out: &mut Effects) {
        let (seat, has_hoster) = (self.seat, self.hoster.is_some());
        let Some(stage) = self.newcomer(index) else { return };
        let (mut newcomer, is_own) = match stage {
            Stage::Starting(newcomer, by) => (newcomer.clone(), *by == seat),
            Stage::Introducing(newcomer) => (newcomer.clone(), has_hoster),
            _ => return,
        };
        if newcomer.failed.is_some() || is_own && !failure.is_passing {
            let reason = match newcomer.failed {
                Some(before) if before != failure.reason => {
                    format!("{} (the attempt before: {before})", failure.reason)
                }
                Some(_) => format!("{} (twice)", failure.reason),
                None => failure.reason,
            };
            self.on_newcomer_failed(index, failure.error, &reason, out);
        } else {
            info!(host = %index, name = newcomer.spec.name, failure.reason, "not started: tried again");
            newcomer.failed = Some(failure.reason);
            if is_own {
                *stage = Stage::Pausing(newcomer);
                out.push(Effect::SetTimer(PAUSE, Timer::StartAgain(index)));
            } else {
                *stage = Stage::Waiting(newcomer);
            }
        }
        self.start_waiting(out);
    }

    /// The pause before another attempt is over.
    pub(super) fn on_start_again(&mut self, index: HostIndex, out: &mut Effects) {
        let Some(stage) = self.newcomer(index) else { return };
        if let Stage::Pausing(newcomer) = stage {
            *stage = Stage::Waiting(newcomer.clone());
            self.start_waiting(out);
        }
    }

    /// A host is lost: other hosts start the daemons that it was starting.
    pub(super) fn release_starts(&mut self, lost: HostIndex, out: &mut Effects) {
        self.starters.remove(&lost);
        for stage in self.adding.iter_mut().flat_map(|operation| &mut operation.stages) {
            if let Stage::Starting(newcomer, by) = stage
                && *by == lost
            {
                *stage = Stage::Waiting(newcomer.clone());
            }
        }
        self.start_waiting(out);
    }
}

fn cant_start(reason: String) -> StartFailure {
    StartFailure { error: PvmError::CantStart, reason, is_passing: true }
}

/// Hosts that can start one more daemon.
struct Room {
    seat: HostIndex,
    width: usize,
    /// Daemons that each host is starting.
    under_way: BTreeMap<HostIndex, usize>,
    /// Other hosts than the master that have room, those with the fewest daemons first.
    others: BTreeSet<(usize, HostIndex)>,
}

impl Room {
    fn new(seat: HostIndex, width: usize, stages: &[Stage]) -> Self {
        let mut under_way = BTreeMap::new();
        for stage in stages {
            if let Stage::Starting(_, by) = stage {
                *under_way.entry(*by).or_default() += 1;
            }
        }
        Self { seat, width, under_way, others: BTreeSet::new() }
    }

    fn add(&mut self, hosts: impl Iterator<Item = HostIndex>) {
        let count = |host| self.under_way.get(&host).copied().unwrap_or_default();
        let hosts = hosts.filter(|&host| host != self.seat).map(|host| (count(host), host));
        self.others = hosts.filter(|(count, _)| *count < self.width).collect();
    }

    /// The host that is to start the next daemon: the master while it has room, else another one.
    fn take(&mut self, by_others: bool) -> Option<HostIndex> {
        let own = self.under_way.entry(self.seat).or_default();
        if *own < self.width {
            *own += 1;
            return Some(self.seat);
        }
        let (count, host) = if by_others { self.others.pop_first()? } else { return None };
        if count + 1 < self.width {
            self.others.insert((count + 1, host));
        }
        Some(host)
    }
}
