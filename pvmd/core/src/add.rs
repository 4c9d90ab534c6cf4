//! The master's part of adding hosts: resolve, start, link, tell all, commit.

use super::Core;
use super::addresses::{PeerTo, ReplyTo};
use super::dump::listed;
use super::event::{Action, AddId, Found, StartedHost};
use super::pending::start_up_results;
use super::timers::Timer;
use crate::hostfile::{HostSpec, Via, parse_host};
use pvm_wire::calls::hosts::StartUp;
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::daemon::{AddResult, DaemonMsg, HostEntry, PeerReply};
use pvm_wire::services::StartHost;
use pvm_wire::slave::HostedLine;
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tracing::{info, warn};

/// Who hears how it went.
#[derive(Debug)]
enum Asker {
    /// The hostfile, at the machine's start.
    StartUp,
    /// `pvm_addhosts`, on some host.
    Peer(PeerTo),
}

/// How far one newcomer is.
#[derive(Debug)]
enum Stage {
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
    /// How far it is, for people.
    fn progress(&self) -> String {
        match self {
            Self::Resolving(_) => "its name is being resolved".to_owned(),
            Self::Starting(..) => "its daemon is being started".to_owned(),
            Self::Hosted(_, _, address) => format!("its daemon is being started by the hoster, at {address}"),
            Self::Linking(_) => "its daemon runs, and is being linked".to_owned(),
            Self::Linked(_) => "linked".to_owned(),
            Self::Failed { reason, .. } => format!("failed: {reason}"),
        }
    }

    fn index(&self) -> Option<HostIndex> {
        match self {
            Self::Starting(index, ..) | Self::Hosted(index, ..) => Some(*index),
            Self::Linking(entry) | Self::Linked(entry) => Some(entry.index),
            Self::Resolving(_) | Self::Failed { .. } => None,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Resolving(spec) | Self::Starting(_, spec) | Self::Hosted(_, spec, _) => &spec.name,
            Self::Linking(entry) | Self::Linked(entry) => &entry.name,
            Self::Failed { name, .. } => name,
        }
    }

    fn fail(&mut self, error: PvmError, reason: impl Into<String>) {
        *self = Self::failed(self.name(), error, reason.into());
    }

    fn failed(name: &str, error: PvmError, reason: String) -> Self {
        warn!(name, error = error.name(), reason, "host not added");
        Self::Failed { name: name.to_owned(), error, reason }
    }

    fn settled(&self) -> bool {
        matches!(self, Self::Linked(_) | Self::Failed { .. })
    }
}

/// One operation that adds hosts. There is one at a time, as in PVM.
#[derive(Debug)]
pub(super) struct AddOperation {
    id: AddId,
    asker: Asker,
    stages: Vec<Stage>,
    /// It has not begun: daemons of hosts that have left are still ending.
    is_held: bool,
    /// Set when the new table was told: its serial, and who has not linked up with it yet.
    told: Option<(u64, BTreeSet<HostIndex>)>,
}

impl fmt::Display for AddOperation {
    /// A line for each host.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stage in &self.stages {
            writeln!(out, "adding {}: {}", stage.name(), stage.progress())?;
        }
        if let Some((serial, missing)) = &self.told {
            let hosts = if missing.is_empty() { "-".to_owned() } else { listed(missing) };
            writeln!(out, "host table {serial}: hosts that have not acknowledged it: {hosts}")?;
        }
        Ok(())
    }
}

impl Core {
    /// The hosts of the hostfile, at the machine's start.
    pub(super) fn add_hostfile_hosts(&mut self) {
        let me = self.config.name.clone();
        let hosts = self.config.hostfile.hosts.iter();
        let specs: Vec<_> =
            hosts.filter(|spec| spec.start && spec.name != me).cloned().map(Stage::Resolving).collect();
        if !specs.is_empty() {
            self.begin_add(Asker::StartUp, specs);
        }
    }

    /// `pvm_addhosts`.
    pub(super) fn on_add_hosts(&mut self, to: PeerTo, hosts: &[String]) {
        if self.adding.is_some() {
            return self.answer(to, PeerReply::Added { results: Err(PvmError::Already.code()) });
        }
        if hosts.is_empty() || hosts.len() > HostIndex::MAX.get() as usize {
            return self.answer(to, PeerReply::Added { results: Err(PvmError::BadParam.code()) });
        }
        let stages = hosts.iter().map(|text| self.parse_newcomer(text)).collect();
        self.begin_add(Asker::Peer(to), stages);
    }

    fn parse_newcomer(&self, text: &str) -> Stage {
        match parse_host(text) {
            Err(reason) => {
                let name = text.split_ascii_whitespace().next().unwrap_or_default().to_owned();
                Stage::Failed { name, error: PvmError::BadParam, reason }
            }
            Ok(spec) => Stage::Resolving(self.config.hostfile.complete(spec)),
        }
    }

    fn begin_add(&mut self, asker: Asker, mut stages: Vec<Stage>) {
        self.refuse_names(&mut stages);
        let id = AddId(self.next_id());
        self.adding = Some(AddOperation { id, asker, stages, is_held: true, told: None });
        self.resume_add();
    }

    /// Looks up the names, if no daemon is still ending: its place may be that of a newcomer.
    pub(super) fn resume_add(&mut self) {
        let has_room = self.departures.is_empty();
        let Some(operation) = self.adding.as_mut().filter(|operation| operation.is_held && has_room) else {
            return;
        };
        operation.is_held = false;
        let id = operation.id;
        let names = operation.stages.iter().filter_map(|stage| match stage {
            Stage::Resolving(spec) if !is_local(spec) => Some(target(spec).to_owned()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            self.on_resolved(id, Vec::new());
        } else {
            self.out.act(Action::Resolve { add: id, names });
        }
    }

    /// A name may stand in the machine once.
    fn refuse_names(&self, stages: &mut [Stage]) {
        let mut names: BTreeSet<String> = self.hosts.iter().map(|entry| entry.name.clone()).collect();
        for stage in stages {
            if let Stage::Resolving(spec) = stage
                && !names.insert(spec.name.clone())
            {
                let reason = format!("{} is in the virtual machine already", spec.name);
                stage.fail(PvmError::DupHost, reason);
            }
        }
    }

    pub(super) fn on_resolved(&mut self, id: AddId, results: Vec<Result<Found, String>>) {
        let Some(mut operation) = self.adding.take_if(|operation| operation.id == id) else { return };
        let mut taken: BTreeSet<IpAddr> =
            self.hosts.iter().filter_map(|entry| entry.address.map(|address| address.ip())).collect();
        taken.extend(self.config.address);
        let mut results = results.into_iter();
        for stage in std::mem::take(&mut operation.stages) {
            let Stage::Resolving(spec) = stage else {
                operation.stages.push(stage);
                continue;
            };
            let address = if is_local(&spec) { None } else { results.next() };
            // As in PVM, a line of the hostfile with this host's own address is about the master, under whatever name.
            let found = address.as_ref().and_then(|found| found.as_ref().ok());
            // Who gives an address with the name may mean another daemon behind one of this host's.
            let is_own = found.is_some_and(|found| {
                Some(found.address) == self.config.address || (found.own && spec.options.address.is_none())
            });
            let address = address.map(|found| found.map(|found| found.address));
            if is_own && !spec.shared_address {
                if matches!(operation.asker, Asker::StartUp) {
                    info!(name = spec.name, "is this host: not started");
                } else {
                    let reason = format!("{} is the master, in the virtual machine already", spec.name);
                    let name = spec.name;
                    operation.stages.push(Stage::Failed { name, error: PvmError::DupHost, reason });
                }
                continue;
            }
            operation.stages.push(self.start_newcomer(spec, address, &mut taken));
        }
        self.adding = Some(operation);
        self.ask_hoster();
        self.advance_add();
    }

    fn start_newcomer(
        &mut self,
        spec: HostSpec,
        address: Option<Result<IpAddr, String>>,
        taken: &mut BTreeSet<IpAddr>,
    ) -> Stage {
        let failed = |error, reason| Stage::failed(&spec.name, error, reason);
        let address = match address {
            None => None,
            Some(Ok(address)) if spec.shared_address || taken.insert(address) => Some(address),
            Some(Ok(address)) => {
                return failed(PvmError::DupHost, format!("{address} is in the virtual machine already"));
            }
            Some(Err(reason)) => return failed(PvmError::NoHost, reason),
        };
        let Some(index) = self.free_host_index() else {
            return failed(PvmError::OutOfRes, "all host indices are in use".to_owned());
        };
        if let (Some(address), Some(_)) = (address, self.services.hoster) {
            info!(host = %index, name = spec.name, %address, "host left to the hoster");
            return Stage::Hosted(index, spec, address);
        }
        let address = address.unwrap_or_else(|| local_address(index));
        info!(host = %index, name = spec.name, %address, "starting a host");
        self.out.act(Action::StartHost { index, spec: spec.clone(), address });
        Stage::Starting(index, spec)
    }

    /// Tells the hoster, if there is one, what it is to start.
    fn ask_hoster(&mut self) {
        let Some(operation) = &self.adding else { return };
        let orders = operation.stages.iter().filter_map(|stage| match stage {
            Stage::Hosted(index, spec, _) => Some((*index, self.order(*index, spec))),
            _ => None,
        });
        let (indices, orders): (Vec<HostIndex>, Vec<StartHost>) = orders.unzip();
        if orders.is_empty() {
            return;
        }
        self.order_hosts(&orders);
        for index in indices {
            self.set_timer(self.config.hosting.timeout, Timer::Hoster(index));
        }
    }

    fn order(&self, index: HostIndex, spec: &HostSpec) -> StartHost {
        let (options, hosting) = (&spec.options, &self.config.hosting);
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

    /// The hoster says what came of it.
    pub(super) fn on_hosted(&mut self, host: Tid, line: &str) {
        let Some(index) = host.host() else { return };
        let Some(stage) = self.newcomer(index) else { return };
        let Stage::Hosted(_, spec, address) = stage else { return };
        let (spec, address) = (spec.clone(), *address);
        match line.lines().find_map(HostedLine::parse) {
            Some(HostedLine { protocol: DAEMON_PROTOCOL, port, fingerprint }) => {
                *stage = Stage::Starting(index, spec.clone());
                let address = SocketAddr::new(address, port);
                self.out.act(Action::Introduce { index, spec, address, fingerprint });
            }
            Some(HostedLine { protocol, .. }) => {
                let reason = format!("its daemon speaks protocol {protocol}, this one {DAEMON_PROTOCOL}");
                self.on_newcomer_failed(index, PvmError::BadVersion, &reason);
            }
            None => {
                let error = PvmError::from_name(line.trim()).unwrap_or(PvmError::CantStart);
                self.on_newcomer_failed(index, error, &format!("the hoster says: {line}"));
            }
        }
    }

    pub(super) fn on_hoster_silent(&mut self, host: HostIndex) {
        self.fail_hosted(|index| index == host, PvmError::CantStart, "the hoster has not answered in time");
    }

    pub(super) fn on_hoster_gone(&mut self) {
        self.fail_hosted(|_| true, PvmError::CantStart, "the hoster is gone");
    }

    pub(super) fn on_hoster_unreadable(&mut self) {
        self.fail_hosted(|_| true, PvmError::DSysErr, "the hoster's answer cannot be read");
    }

    fn fail_hosted(&mut self, which: impl Fn(HostIndex) -> bool, error: PvmError, reason: &str) {
        let stages = self.adding.iter().flat_map(|operation| &operation.stages);
        let waiting = stages.filter_map(|stage| match stage {
            Stage::Hosted(index, ..) if which(*index) => Some(*index),
            _ => None,
        });
        for index in waiting.collect::<Vec<_>>() {
            self.on_newcomer_failed(index, error, reason);
        }
    }

    /// Counts up, so that a new host never has the index of one that was there before (until the wrap).
    fn free_host_index(&mut self) -> Option<HostIndex> {
        (0..HostIndex::MAX.get()).find_map(|_| {
            let index = HostIndex::new(self.next_host)?;
            self.next_host = if index == HostIndex::MAX { 2 } else { self.next_host + 1 };
            let is_used = self.hosts.contains(index)
                || self.links.contains_key(&index)
                || self.departures.contains(index);
            (!is_used).then_some(index)
        })
    }

    pub(super) fn on_host_started(
        &mut self,
        index: HostIndex,
        result: Result<StartedHost, (PvmError, String)>,
    ) {
        let measured = result.as_ref().map_or(0.0, |started| started.capability);
        let given = match self.newcomer(index) {
            Some(Stage::Starting(_, spec)) => spec.options.speed,
            _ => return,
        };
        let speed = self.config.speed_of(given, measured);
        let Some(stage) = self.newcomer(index) else { return };
        let Stage::Starting(_, spec) = stage else { return };
        match result {
            Err((error, reason)) => self.on_newcomer_failed(index, error, &reason),
            Ok(started) => {
                let entry = HostEntry {
                    index,
                    name: spec.name.clone(),
                    arch: started.arch,
                    speed: i32::try_from(speed).unwrap_or(i32::MAX),
                    capability: speed.into(),
                    task_limit: started.task_limit,
                    signature: started.signature,
                    address: Some(started.address),
                };
                *stage = Stage::Linking(entry.clone());
                self.out.act(Action::Link { entry });
            }
        }
    }

    pub(super) fn on_newcomer_linked(&mut self, index: HostIndex) {
        let Some(stage) = self.newcomer(index) else { return };
        if let Stage::Linking(entry) = stage {
            *stage = Stage::Linked(entry.clone());
            self.advance_add();
        }
    }

    /// A host that is not yet a member drops out.
    pub(super) fn on_newcomer_failed(&mut self, index: HostIndex, error: PvmError, reason: &str) {
        let Some(stage) = self.newcomer(index) else { return };
        stage.fail(error, reason);
        self.out.act(Action::AbandonHost { index });
        self.tell(index, DaemonMsg::Halt);
        if let Some(operation) = &mut self.adding
            && operation.told.take().is_some()
        {
            // The others wait for a link with it, or have one: a table without it is told anew.
            let others: Vec<HostIndex> = self.links.keys().copied().filter(|&other| other != index).collect();
            for other in others {
                self.tell(other, DaemonMsg::HostGone { host: index, reason: reason.to_owned() });
            }
        }
        self.advance_add();
    }

    /// When all newcomers are linked or out, tell the table; when all have linked up with it, commit.
    fn advance_add(&mut self) {
        let Some(operation) = &mut self.adding else { return };
        if !operation.stages.iter().all(Stage::settled) {
            return;
        }
        let newcomers: Vec<HostEntry> = operation.newcomers().cloned().collect();
        match &operation.told {
            Some((_, missing)) if !missing.is_empty() => {}
            Some(_) => self.commit_add(),
            None if newcomers.is_empty() => self.commit_add(),
            None => {
                self.table_serial += 1;
                let serial = self.table_serial;
                let hosts: Vec<HostEntry> =
                    self.hosts.iter().cloned().chain(newcomers.iter().cloned()).collect();
                let others = hosts.iter().map(|entry| entry.index).filter(|&host| host != HostIndex::MASTER);
                let others: BTreeSet<HostIndex> = others.collect();
                operation.told = Some((serial, others.clone()));
                for host in others {
                    self.tell(host, DaemonMsg::TableUpdate { serial, hosts: hosts.clone() });
                }
            }
        }
    }

    /// A host has all links of the new table, or could not make one.
    pub(super) fn on_table_ack(&mut self, from: HostIndex, serial: u64, failed: &[(HostIndex, String)]) {
        let Some(operation) = &mut self.adding else { return };
        let Some((told, missing)) = &mut operation.told else { return };
        if *told != serial || !missing.remove(&from) {
            return;
        }
        let Some((host, reason)) = failed.first() else { return self.advance_add() };
        // Of two that cannot reach each other one is a newcomer.
        if self.is_newcomer(from) {
            let reason = format!("it cannot reach host {host}: {reason}");
            self.on_newcomer_failed(from, PvmError::CantStart, &reason);
        } else {
            let reason = format!("host {from} cannot reach it: {reason}");
            self.on_newcomer_failed(*host, PvmError::CantStart, &reason);
        }
    }

    /// A member is out whose links would have been waited for.
    pub(super) fn forget_table_ack(&mut self, host: HostIndex) {
        if let Some(AddOperation { told: Some((_, missing)), .. }) = &mut self.adding
            && missing.remove(&host)
        {
            self.advance_add();
        }
    }

    fn commit_add(&mut self) {
        let Some(operation) = self.adding.take() else { return };
        let added: Vec<HostIndex> = operation.newcomers().map(|entry| entry.index).collect();
        for entry in operation.newcomers() {
            self.hosts.insert(entry.clone());
        }
        if let Some((serial, _)) = operation.told {
            let members: Vec<HostIndex> = self.hosts.iter().map(|entry| entry.index).collect();
            for host in members.into_iter().filter(|&host| host != HostIndex::MASTER) {
                self.tell(host, DaemonMsg::TableCommit { serial, added: added.clone() });
            }
            for &host in &added {
                self.tell_services(host);
                self.tell_tracer(host);
            }
        }
        // The caller's answer comes after every daemon was told, and before the notifies of the next operation.
        if !added.is_empty() {
            self.hosts_added(&added);
        }
        let results: Vec<AddResult> = operation.stages.into_iter().map(Stage::into_result).collect();
        match operation.asker {
            Asker::Peer(to) => self.answer(to, PeerReply::Added { results: Ok(results) }),
            Asker::StartUp => self.started_up(results),
        }
    }

    fn started_up(&mut self, results: Vec<AddResult>) {
        let failures = results.iter().filter_map(failure).collect();
        self.out.act(Action::StartedUp { failures });
        self.start_up = results;
        for to in std::mem::take(&mut self.start_up_waiters) {
            self.reply_to::<StartUp>(to, &start_up_results(&self.start_up));
        }
    }

    /// Whether hosts of the hostfile are being started; [`Action::StartedUp`] follows.
    pub fn is_starting_up(&self) -> bool {
        matches!(self.adding, Some(AddOperation { asker: Asker::StartUp, .. }))
    }

    /// Answers when the hostfile's hosts are settled.
    pub(super) fn on_start_up(&mut self, to: ReplyTo) {
        if self.is_starting_up() {
            self.start_up_waiters.push(to);
        } else {
            self.reply_to::<StartUp>(to, &start_up_results(&self.start_up));
        }
    }

    /// The machine ends while hosts are being added.
    pub(super) fn abandon_newcomers(&mut self) {
        let stages = self.adding.iter().flat_map(|operation| &operation.stages);
        let indices: Vec<HostIndex> = stages.filter_map(Stage::index).collect();
        for index in indices {
            self.out.act(Action::AbandonHost { index });
        }
    }

    /// Whether a host is being added.
    pub(super) fn is_newcomer(&self, index: HostIndex) -> bool {
        let stages = self.adding.iter().flat_map(|operation| &operation.stages);
        stages.filter_map(Stage::index).any(|newcomer| newcomer == index)
    }

    fn newcomer(&mut self, index: HostIndex) -> Option<&mut Stage> {
        self.adding.as_mut()?.stages.iter_mut().find(|stage| stage.index() == Some(index))
    }
}

impl AddOperation {
    fn newcomers(&self) -> impl Iterator<Item = &HostEntry> {
        self.stages.iter().filter_map(|stage| match stage {
            Stage::Linked(entry) => Some(entry),
            _ => None,
        })
    }
}

impl Stage {
    fn into_result(self) -> AddResult {
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

/// Which host could not be added, and why.
fn failure(result: &AddResult) -> Option<String> {
    let AddResult::Failed { name, reason, .. } = result else { return None };
    // Some reasons name the host themselves.
    Some(if reason.starts_with(name.as_str()) { reason.clone() } else { format!("{name}: {reason}") })
}

fn is_local(spec: &HostSpec) -> bool {
    spec.options.via == Some(Via::Local)
}

/// What to look up, and to hand to ssh.
fn target(spec: &HostSpec) -> &str {
    spec.options.address.as_deref().unwrap_or(&spec.name)
}

/// The loopback address of a `via=local` host: one of its own, so that several daemons look like several hosts.
fn local_address(index: HostIndex) -> IpAddr {
    let [_, _, high, low] = index.get().to_be_bytes();
    Ipv4Addr::new(127, 80, high, low).into()
}
