//! The master's part of adding hosts: resolve, start, link, announce to all, commit.

use super::newcomer::{Newcomer, Stage, is_local, local_address};
use super::{HostfileStart, Master, answer};
use crate::addresses::PeerTo;
use crate::answers::start_up_results;
use crate::effect::{Effect, Effects};
use crate::event::{Action, AddId, Found};
use crate::hostfile::HostSpec;
use crate::hosts::Members;
use crate::text::listed;
use pvm_wire::calls::hosts::{Additions, StartUp};
use pvm_wire::daemon::{AddResult, DaemonMsg, FromMaster, HostEntry, HostTable, MasterReply};
use pvm_wire::{HostIndex, PvmError, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use tracing::{error, info};

/// The receiver of the results.
#[derive(Debug, Serialize, Deserialize)]
enum Asker {
    /// The hostfile, at the machine's start.
    StartUp,
    /// `pvm_addhosts`, on some host.
    Peer(PeerTo),
}

/// One operation that adds hosts. There is one at a time, as in PVM.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AddOperation {
    id: AddId,
    asker: Asker,
    pub(super) stages: Vec<Stage>,
    /// Where in `stages` hosts are that have a place in the machine.
    positions: BTreeMap<HostIndex, usize>,
    /// It has not begun: daemons of hosts that have left are still ending.
    is_held: bool,
    /// Set when the newcomers were announced: the table's serial, and the hosts that have not acknowledged it yet.
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

impl Master {
    /// The hosts of the hostfile, at the machine's start.
    pub(super) fn add_hostfile_hosts(&mut self, out: &mut Effects) {
        let hosts = self.settings.hostfile.hosts.iter();
        let hosts = hosts.filter(|spec| spec.start && spec.name != self.settings.name);
        let specs: Vec<_> = hosts.cloned().map(Stage::Resolving).collect();
        if !specs.is_empty() {
            self.start_up = HostfileStart::Running(Vec::new());
            self.begin_add(Asker::StartUp, specs, out);
        }
    }

    /// `pvm_addhosts`.
    pub(super) fn on_add_hosts(&mut self, to: PeerTo, hosts: &[String], out: &mut Effects) {
        if self.adding.is_some() {
            return answer(to, MasterReply::Added { results: Err(PvmError::Already.code()) }, out);
        }
        if hosts.is_empty() || hosts.len() > HostIndex::MAX.get() as usize {
            return answer(to, MasterReply::Added { results: Err(PvmError::BadParam.code()) }, out);
        }
        let mut stages: Vec<Stage> =
            hosts.iter().map(|text| Stage::parse(text, &self.settings.hostfile)).collect();
        for stage in &mut stages {
            if let Stage::Resolving(HostSpec { options, .. }) = &*stage
                && let Some(reason) = options.cluster.as_ref().and_then(|name| self.jobs.refuse_cluster(name))
            {
                stage.fail(PvmError::BadParam, reason);
            }
        }
        self.begin_add(Asker::Peer(to), stages, out);
    }

    fn begin_add(&mut self, asker: Asker, mut stages: Vec<Stage>, out: &mut Effects) {
        refuse_names(&mut stages, &self.members);
        self.adds += 1;
        let id = AddId(self.adds);
        let positions = BTreeMap::new();
        self.adding = Some(AddOperation { id, asker, stages, positions, is_held: true, told: None });
        self.resume_add(out);
    }

    /// Looks up the names, if no daemon is still ending: its place may be that of a newcomer.
    pub(super) fn resume_add(&mut self, out: &mut Effects) {
        let has_room = self.departures.is_empty();
        let Some(operation) = self.adding.as_mut().filter(|operation| operation.is_held && has_room) else {
            return;
        };
        operation.is_held = false;
        let id = operation.id;
        let names = operation.stages.iter().filter_map(|stage| match stage {
            Stage::Resolving(spec) if !is_local(spec) => Some(spec.target().to_owned()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            self.on_resolved(id, Vec::new(), out);
        } else {
            out.act(Action::Resolve { add: id, names });
        }
    }

    pub(super) fn on_resolved(&mut self, id: AddId, results: Vec<Result<Found, String>>, out: &mut Effects) {
        let Some(mut operation) = self.adding.take_if(|operation| operation.id == id) else { return };
        let mut taken: BTreeSet<IpAddr> =
            self.members.iter().filter_map(|entry| entry.address.map(|address| address.ip())).collect();
        taken.extend(self.settings.address);
        let mut results = results.into_iter();
        for stage in std::mem::take(&mut operation.stages) {
            let Stage::Resolving(spec) = stage else {
                operation.stages.push(stage);
                continue;
            };
            let address = if is_local(&spec) { None } else { results.next() };
            // As in PVM, a line of the hostfile with this host's own address is about the master, under whatever name.
            let found = address.as_ref().and_then(|found| found.as_ref().ok());
            // An address given with the name may mean another daemon behind one of this host's.
            let is_own = found.is_some_and(|found| {
                Some(found.address) == self.settings.address || (found.own && spec.options.address.is_none())
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
            let stage = self.place_newcomer(spec, address, &mut taken);
            operation.positions.extend(stage.index().map(|index| (index, operation.stages.len())));
            operation.stages.push(stage);
        }
        self.adding = Some(operation);
        self.ask_hoster(out);
        self.start_waiting(out);
        self.advance_add(out);
    }

    /// Gives a host its place in the machine, in which its daemon is to be started.
    fn place_newcomer(
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
        let is_hosted = address.is_some() && self.hoster.is_some();
        let address = address.unwrap_or_else(|| local_address(index));
        let newcomer = Newcomer { index, spec, address, failed: None };
        if is_hosted {
            info!(host = %index, name = newcomer.spec.name, %address, "host left to the hoster");
            return Stage::Hosted(newcomer);
        }
        Stage::Waiting(newcomer)
    }

    /// Counts up, so that a new host never has the index of one that was there before (until the wrap).
    fn free_host_index(&mut self) -> Option<HostIndex> {
        (0..HostIndex::MAX.get()).find_map(|_| {
            let index = HostIndex::new(self.next_host)?;
            self.next_host = if index == HostIndex::MAX { 2 } else { self.next_host + 1 };
            let is_used =
                self.members.contains(index) || self.sessions.has(index) || self.departures.contains(index);
            (!is_used).then_some(index)
        })
    }

    pub(super) fn on_newcomer_linked(&mut self, index: HostIndex, out: &mut Effects) {
        let Some(stage) = self.newcomer(index) else { return };
        if let Stage::Linking(entry, is_starter) = stage {
            let is_starter = *is_starter;
            *stage = Stage::Linked(entry.clone());
            self.sessions.open(index);
            if is_starter {
                self.starters.insert(index);
            }
            self.start_waiting(out);
            self.advance_add(out);
        }
    }

    /// A host that is not yet a member drops out.
    pub(super) fn on_newcomer_failed(
        &mut self,
        index: HostIndex,
        error: PvmError,
        reason: &str,
        out: &mut Effects,
    ) {
        let Some(stage) = self.newcomer(index) else { return };
        stage.fail(error, reason);
        self.start_waiting(out);
        out.act(Action::AbandonHost { index });
        out.tell(index, DaemonMsg::Halt);
        if let Some(operation) = &mut self.adding
            && operation.told.take().is_some()
        {
            // The others know it: a table without it is announced anew.
            out.push(Effect::CloseSession(index));
            out.push(Effect::OrderAll(FromMaster::HostGone { host: index, reason: reason.to_owned() }));
        }
        self.start_waiting(out);
        self.advance_add(out);
    }

    /// When all newcomers are linked or out, announce them; when all hosts know them, commit.
    fn advance_add(&mut self, out: &mut Effects) {
        let Some(operation) = &self.adding else { return };
        match &operation.told {
            Some((_, missing)) if missing.is_empty() => self.commit_add(out),
            Some(_) => {}
            None if !operation.stages.iter().all(Stage::settled) => {}
            None if operation.newcomers().next().is_none() => self.commit_add(out),
            None => self.announce(out),
        }
    }

    /// Tells all hosts the newcomers, and those the members.
    fn announce(&mut self, out: &mut Effects) {
        let Some(operation) = &mut self.adding else { return };
        let newcomers: Vec<HostEntry> = operation.newcomers().cloned().collect();
        let members: Vec<HostEntry> = self.members.iter().cloned().collect();
        let (Ok(added), Ok(members)) = (HostTable::of(&newcomers), HostTable::of(&members)) else {
            return error!("a table of {} hosts is too long to be sent", members.len() + newcomers.len());
        };
        self.table_serial += 1;
        let serial = self.table_serial;
        let moved: Vec<(Tid, HostIndex)> = self.moves.places().iter().collect();
        let mut update = |host, members, moved| {
            let update = FromMaster::TableUpdate { serial, members, added: added.clone(), moved };
            out.push(Effect::Order(host, update));
        };
        for host in self.members.indices() {
            update(host, HostTable::default(), Vec::new());
        }
        for entry in &newcomers {
            update(entry.index, members.clone(), moved.clone());
        }
        let told = self.members.indices().chain(newcomers.iter().map(|entry| entry.index)).collect();
        operation.told = Some((serial, told));
    }

    /// A host knows the hosts that are to be members.
    pub(super) fn on_table_ack(&mut self, from: HostIndex, serial: u64, out: &mut Effects) {
        if let Some(AddOperation { told: Some((told, missing)), .. }) = &mut self.adding
            && *told == serial
            && missing.remove(&from)
        {
            self.advance_add(out);
        }
    }

    /// A member is out whose acknowledgement would have been waited for.
    pub(super) fn forget_table_ack(&mut self, host: HostIndex, out: &mut Effects) {
        if let Some(AddOperation { told: Some((_, missing)), .. }) = &mut self.adding
            && missing.remove(&host)
        {
            self.advance_add(out);
        }
    }

    fn commit_add(&mut self, out: &mut Effects) {
        let Some(operation) = self.adding.take() else { return };
        let newcomers: Vec<HostEntry> = operation.newcomers().cloned().collect();
        if let Some((serial, _)) = operation.told {
            out.push(Effect::OrderAll(FromMaster::TableCommit { serial }));
            if self.deputies.len() > 1 {
                for entry in &newcomers {
                    let hosts = self.deputies.clone();
                    out.push(Effect::Order(entry.index, FromMaster::Deputies { hosts }));
                }
            }
        }
        for entry in newcomers {
            self.jobs.host_joined(&entry);
            self.jobs.ask_of_earlier(entry.index, &entry.name, out);
            self.members.insert(entry);
        }
        self.jobs.measure_links(out);
        // The caller's answer comes after every daemon was told, and before the notifies of the next operation.
        let results: Vec<AddResult> = operation.stages.into_iter().map(Stage::into_result).collect();
        match operation.asker {
            Asker::Peer(to) => answer(to, MasterReply::Added { results: Ok(results) }, out),
            Asker::StartUp => self.started_up(results, out),
        }
    }

    fn started_up(&mut self, results: Vec<AddResult>, out: &mut Effects) {
        let failures = results.iter().filter_map(failure).collect();
        out.act(Action::StartedUp { failures });
        let list = start_up_results(&results);
        if let HostfileStart::Running(waiters) =
            std::mem::replace(&mut self.start_up, HostfileStart::Over(results))
        {
            for to in waiters {
                out.reply::<StartUp>(to, &list);
            }
        }
    }

    /// Hosts that are being added and whose daemons may run.
    pub fn newcomers(&self) -> Vec<HostIndex> {
        let stages = self.adding.iter().flat_map(|operation| &operation.stages);
        stages.filter_map(Stage::index).collect()
    }

    /// Whether a host is being added, and its daemon may run.
    pub fn is_newcomer(&self, host: HostIndex) -> bool {
        let stage =
            self.adding.as_ref().and_then(|operation| operation.stages.get(operation.position(host)?));
        stage.is_some_and(|stage| stage.index() == Some(host))
    }

    /// No host that is being added is added any more.
    pub(super) fn abandon_add(&mut self, reason: &str, out: &mut Effects) {
        let Some(operation) = &mut self.adding else { return };
        let mut started = Vec::new();
        for stage in &mut operation.stages {
            started.extend(stage.index());
            if !matches!(stage, Stage::Failed { .. }) {
                stage.fail(PvmError::CantStart, reason);
            }
        }
        let was_told = operation.told.take().is_some();
        for host in started {
            out.push(Effect::CloseSession(host));
            if was_told {
                let reason = reason.to_owned();
                out.push(Effect::OrderAll(FromMaster::HostGone { host, reason }));
            }
        }
        self.commit_add(out);
    }

    pub(super) fn newcomer(&mut self, index: HostIndex) -> Option<&mut Stage> {
        let operation = self.adding.as_mut()?;
        let position = operation.position(index)?;
        operation.stages.get_mut(position).filter(|stage| stage.index() == Some(index))
    }
}

impl AddOperation {
    fn position(&self, host: HostIndex) -> Option<usize> {
        self.positions.get(&host).copied()
    }

    pub fn progress(&self) -> Additions {
        let count = |is_counted: fn(&Stage) -> bool| {
            self.stages.iter().filter(|stage| is_counted(stage)).count() as u32
        };
        Additions {
            total: count(|_| true),
            linked: count(|stage| matches!(stage, Stage::Linked(_))),
            failed: count(|stage| matches!(stage, Stage::Failed { .. })),
        }
    }

    fn newcomers(&self) -> impl Iterator<Item = &HostEntry> {
        self.stages.iter().filter_map(|stage| match stage {
            Stage::Linked(entry) => Some(entry),
            _ => None,
        })
    }
}

/// A name may stand in the machine once.
fn refuse_names(stages: &mut [Stage], members: &Members) {
    let mut names: BTreeSet<String> = members.iter().map(|entry| entry.name.clone()).collect();
    for stage in stages {
        if let Stage::Resolving(spec) = stage
            && !names.insert(spec.name.clone())
        {
            let reason = format!("{} is in the virtual machine already", spec.name);
            stage.fail(PvmError::DupHost, reason);
        }
    }
}

/// Which host could not be added, and why.
fn failure(result: &AddResult) -> Option<String> {
    let AddResult::Failed { name, reason, .. } = result else { return None };
    // Some reasons name the host themselves.
    Some(if reason.starts_with(name.as_str()) { reason.clone() } else { format!("{name}: {reason}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::event::StartedHost;
    use crate::master::Command;
    use pvm_sched::queues::{Cluster, Configuration, Queue};
    use pvm_wire::daemon::{MasterRequest, RequestId, ToMaster};

    /// A machine of one host; what follows from its commands, as text.
    struct Trial(Master, u64);

    impl Trial {
        fn new() -> Self {
            let config = Config::for_tests();
            let own = config.entry();
            Self(Master::new(&config, own), 0)
        }

        fn expect(&mut self, command: Command, expected: &[&str]) {
            let effects = self.0.carry_out(command).into_iter().map(|effect| format!("{effect:?}"));
            let effects: Vec<String> = effects.collect();
            let fits = |(effect, start): (&String, &&str)| effect.starts_with(start);
            assert!(effects.len() == expected.len() && effects.iter().zip(expected).all(fits), "{effects:?}");
        }

        fn say(&mut self, what: ToMaster, expected: &[&str]) {
            self.1 += 1;
            let (host, number) = (HostIndex::MASTER, self.1);
            self.expect(Command::Said { host, number, heard: 0, what: what.clone() }, expected);
            self.expect(Command::Said { host, number, heard: 0, what }, &[]);
        }
    }

    #[test]
    fn a_host_is_admitted_when_all_have_its_link() {
        let mut master = Trial::new();
        let index = HostIndex::new(2).unwrap();
        let add = || MasterRequest::AddHosts { hosts: vec!["a via=local".to_owned(), "b sp=no".to_owned()] };
        let request = || ToMaster::Request { id: RequestId(1), what: add() };
        master.say(request(), &["Act(StartHost"]);
        master.say(request(), &["Tell(h1, FromMaster"]);
        let started = StartedHost {
            arch: "LINUX64".to_owned(),
            signature: 0,
            capability: 1000.0,
            task_limit: 1,
            address: "127.0.0.1:1".parse().unwrap(),
        };
        master.expect(Command::HostStarted { index, result: Ok(started) }, &["Act(Link"]);
        master.expect(Command::NewcomerLinked(index), &["Tell(h1, FromMaster", "Tell(h2, FromMaster"]);
        master.say(ToMaster::TableAck { serial: 9, slots: 1, saved: None }, &[]);
        master.say(ToMaster::TableAck { serial: 1, slots: 1, saved: None }, &[]);
        assert!(!master.0.members.contains(index) && master.0.adding().is_some());
        let ack = Command::Said {
            host: index,
            number: 1,
            heard: 1,
            what: ToMaster::TableAck { serial: 1, slots: 1, saved: None },
        };
        // The table at both hosts, then the answer.
        master.expect(ack, &["Tell(h1", "Tell(h2", "Tell(h1, FromMaster { number: 4, heard: 4, what: Reply"]);
        assert!(master.0.members.contains(index) && master.0.adding().is_none());
    }

    #[test]
    fn a_host_is_in_the_cluster_that_its_line_names() {
        let cluster = Cluster { name: "large".to_owned(), ..Cluster::default() };
        let queues = Configuration { queues: vec![Queue::open("default")], clusters: vec![cluster] };
        let config = Config { queues, ..Config::for_tests() };
        let mut master = Trial(Master::new(&config, config.entry()), 0);
        let hosts = ["a via=local cluster=east", "b via=local cluster=large"].map(str::to_owned).to_vec();
        let what = MasterRequest::AddHosts { hosts };
        master.say(ToMaster::Request { id: RequestId(1), what }, &["Act(StartHost"]);
        let operation = master.0.adding.as_ref().expect("a is being added");
        let Stage::Failed { reason, .. } = &operation.stages[1] else { panic!("{operation:?}") };
        assert!(
            reason.starts_with("cluster=large: the file of queues has a cluster of this name"),
            "{reason}"
        );
        let Stage::Starting(newcomer, _) = &operation.stages[0] else { panic!("{operation:?}") };
        assert_eq!(newcomer.spec.options.cluster.as_deref(), Some("east"));
    }
}
