//! The host table, the links to other daemons, and what follows when a host goes.

use super::addresses::{PeerTo, Waiter};
use super::event::Action;
use super::flow::Source;
use super::spans;
use super::spawn::SIGTERM;
use super::tasks::Origin;
use super::{Core, Life};
use pvm_sched::coscheduling::Epoch;
use pvm_wire::daemon::{DaemonMsg, HostEntry, PeerReply, PeerRequest};
use pvm_wire::limits::REQUEST_MAX;
use pvm_wire::{HostIndex, PvmError, Reassembler};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};

/// Why a host is gone that somebody has deleted.
pub(super) const DELETED: &str = "deleted";

/// The members of the virtual machine.
#[derive(Debug, Default)]
pub(super) struct HostTable(BTreeMap<HostIndex, HostEntry>);

impl HostTable {
    pub fn insert(&mut self, entry: HostEntry) {
        self.0.insert(entry.index, entry);
    }

    pub fn remove(&mut self, host: HostIndex) -> Option<HostEntry> {
        self.0.remove(&host)
    }

    pub fn get(&self, host: HostIndex) -> Option<&HostEntry> {
        self.0.get(&host)
    }

    pub fn contains(&self, host: HostIndex) -> bool {
        self.0.contains_key(&host)
    }

    pub fn by_name(&self, name: &str) -> Option<HostIndex> {
        self.0.values().find(|entry| entry.name == name).map(|entry| entry.index)
    }

    /// By ascending index.
    pub fn iter(&self) -> impl Iterator<Item = &HostEntry> {
        self.0.values()
    }
}

/// A link to another daemon, while it stands.
#[derive(Debug)]
pub(super) struct Link {
    /// Bytes of data on their way.
    pub queued: usize,
    /// Messages of its tasks to this daemon, cut into fragments.
    pub requests: Reassembler,
    /// The epoch of what comes; `None` if it brings nobody onto a processor.
    pub epoch: Option<Epoch>,
    /// The epoch that the other end takes our next messages to have.
    pub told_epoch: Option<Epoch>,
    /// Whether teams take turns at the other end.
    pub takes_turns: bool,
    /// What is logged on its account.
    pub span: tracing::Span,
}

impl Link {
    fn new(host: HostIndex) -> Self {
        let epoch = Some(Epoch::default());
        Self {
            queued: 0,
            requests: Reassembler::new(REQUEST_MAX),
            epoch,
            told_epoch: epoch,
            takes_turns: false,
            span: spans::of_peer(host),
        }
    }
}

/// On a slave: a table it has been told of and is linking up with.
#[derive(Debug, Default)]
pub(super) struct Linking {
    serial: u64,
    hosts: Vec<HostEntry>,
    missing: BTreeSet<HostIndex>,
    failed: Vec<(HostIndex, String)>,
}

impl Core {
    pub(super) fn is_master(&self) -> bool {
        self.config.index == HostIndex::MASTER
    }

    /// Whether messages to this host find a way.
    pub(super) fn is_reachable(&self, host: HostIndex) -> bool {
        host == self.config.index || self.links.contains_key(&host)
    }

    /// Says something to a daemon, this one included. To one that is not there: nothing.
    pub(super) fn tell(&mut self, host: HostIndex, message: DaemonMsg) {
        if host == self.config.index {
            self.out.loopback.push_back(message);
        } else if self.links.contains_key(&host) {
            self.out.act(Action::SendPeer { host, message });
        }
    }

    /// Whether a host's messages count: it is linked, and a member or about to be one. A certificate proves only that it
    /// was once meant to be; a host that is out may still have it.
    pub(super) fn is_heard(&self, host: HostIndex) -> bool {
        let is_expected = || self.linking.hosts.iter().any(|entry| entry.index == host);
        let is_known =
            self.is_master() || host == HostIndex::MASTER || self.hosts.contains(host) || is_expected();
        is_known && self.links.contains_key(&host)
    }

    pub(super) fn on_peer_linked(&mut self, host: HostIndex) {
        self.links.insert(host, Link::new(host));
        if self.teams.scheduler.is_shared() {
            self.tell(host, DaemonMsg::Turns { taken: true });
        }
        if self.is_master() {
            self.on_newcomer_linked(host);
        } else if self.linking.missing.remove(&host) {
            self.acknowledge_table();
        }
    }

    pub(super) fn on_link_failed(&mut self, host: HostIndex, reason: String) {
        if self.is_master() {
            self.on_newcomer_failed(host, PvmError::CantStart, &format!("no link to its daemon: {reason}"));
        } else if self.linking.missing.remove(&host) {
            self.linking.failed.push((host, reason));
            self.acknowledge_table();
        }
    }

    /// Slave: the master tells the table that is to be. Newcomers link up with all, the others with newcomers; of two, the
    /// one with the higher index dials. Nobody is a member before all have the links: whoever hears from a member knows it.
    pub(super) fn on_table_update(&mut self, serial: u64, hosts: Vec<HostEntry>) {
        let me = self.config.index;
        let newcomer = !self.hosts.contains(me);
        let missing: BTreeSet<HostIndex> = hosts
            .iter()
            .map(|entry| entry.index)
            .filter(|&index| index != me && !self.links.contains_key(&index))
            .filter(|&index| newcomer || !self.hosts.contains(index))
            .collect();
        for entry in hosts.iter().filter(|entry| entry.index < me && missing.contains(&entry.index)) {
            self.out.act(Action::Link { entry: entry.clone() });
        }
        self.linking = Linking { serial, hosts, missing, failed: Vec::new() };
        self.acknowledge_table();
    }

    fn acknowledge_table(&mut self) {
        if self.linking.missing.is_empty() {
            let (serial, failed) = (self.linking.serial, std::mem::take(&mut self.linking.failed));
            self.tell(HostIndex::MASTER, DaemonMsg::TableAck { serial, failed });
        }
    }

    /// A host that is out need not be waited for, and is not to become a member.
    fn forget_linking(&mut self, host: HostIndex) {
        self.linking.hosts.retain(|entry| entry.index != host);
        self.linking.failed.retain(|(failed, _)| *failed != host);
        if self.linking.missing.remove(&host) {
            self.acknowledge_table();
        }
    }

    /// Slave: the newcomers are members.
    pub(super) fn on_table_commit(&mut self, serial: u64, added: &[HostIndex]) {
        if self.linking.serial != serial {
            return warn!(serial, "commit of a table that was never told: ignored");
        }
        let newcomer = !self.hosts.contains(self.config.index);
        for entry in std::mem::take(&mut self.linking.hosts) {
            if newcomer || added.contains(&entry.index) {
                self.hosts.insert(entry);
            }
        }
        self.hosts_added(added);
    }

    /// Newcomers are members: notifies, and batches in placement.
    pub(super) fn hosts_added(&mut self, added: &[HostIndex]) {
        for host in added.iter().filter(|&&host| host != self.config.index) {
            info!(%host, name = self.hosts.get(*host).map(|entry| &*entry.name), "host added");
        }
        self.notify_hosts_added(added);
        self.observe_newcomers(added);
        self.batches_host_added(added);
    }

    /// A daemon says that it ends. Its link stands until it has ended.
    pub(super) fn on_bye(&mut self, host: HostIndex) {
        if self.is_master() && self.hosts.contains(host) {
            self.expect_end(host);
        }
        self.on_host_lost(host, "it ended");
    }

    pub(super) fn on_peer_lost(&mut self, host: HostIndex, reason: &str) {
        self.on_host_lost(host, reason);
        self.on_departed(host);
    }

    fn on_host_lost(&mut self, host: HostIndex, reason: &str) {
        self.links.remove(&host);
        if self.is_master() {
            self.remove_host(host, reason);
        } else if host == HostIndex::MASTER {
            self.end(&format!("the master is gone: {reason}"));
        } else {
            self.drop_link(host);
            let reason = reason.to_owned();
            self.tell(HostIndex::MASTER, DaemonMsg::LinkLost { host, reason });
        }
    }

    /// Master: two slaves have lost sight of each other. One has just said so; if the other is dead, the master notices by
    /// itself.
    pub(super) fn on_link_lost(&mut self, from: HostIndex, host: HostIndex, reason: &str) {
        if self.is_member_or_newcomer(from) && self.is_member_or_newcomer(host) {
            warn!(%from, %host, reason, "two hosts have lost their link");
            self.ask(host, PeerRequest::Ping, Waiter::LostLink(from));
        }
    }

    /// Master: both live. The younger one goes, for every pair of hosts must be able to talk.
    pub(super) fn on_both_live(&mut self, a: HostIndex, b: HostIndex) {
        if !self.is_member_or_newcomer(a) || !self.is_member_or_newcomer(b) {
            return;
        }
        let younger = match (self.hosts.contains(a), self.hosts.contains(b)) {
            (true, false) => b,
            (false, true) => a,
            _ => a.max(b),
        };
        let other = if younger == a { b } else { a };
        self.dismiss(younger, &format!("it cannot reach host {other}"));
    }

    fn is_member_or_newcomer(&self, host: HostIndex) -> bool {
        self.hosts.contains(host) || self.is_newcomer(host)
    }

    /// Master: a host is out whose daemon can be told to end.
    fn dismiss(&mut self, host: HostIndex, reason: &str) {
        if self.hosts.contains(host) {
            self.tell(host, DaemonMsg::Halt);
            self.expect_end(host);
        }
        self.remove_host(host, reason);
    }

    /// Master: a host is out. All are told.
    pub(super) fn remove_host(&mut self, host: HostIndex, reason: &str) {
        // A newcomer has not "failed" as a host: for the one who asked, it could not be started.
        self.on_newcomer_failed(host, PvmError::CantStart, reason);
        if !self.hosts.contains(host) {
            self.drop_link(host);
            return self.fail_pending(host);
        }
        let others: Vec<HostIndex> = self.links.keys().copied().filter(|&other| other != host).collect();
        for other in others {
            self.tell(other, DaemonMsg::HostGone { host, reason: reason.to_owned() });
        }
        self.host_gone(host, reason);
        self.forget_table_ack(host);
    }

    /// A host is out: nothing of it stays, everyone who asked is told.
    pub(super) fn host_gone(&mut self, host: HostIndex, reason: &str) {
        self.forget_linking(host);
        let Some(entry) = self.hosts.remove(host) else { return self.drop_link(host) };
        info!(%host, name = entry.name, reason, "host gone");
        self.drop_link(host);
        self.notify_host_gone(host);
        self.observed_host_gone(&entry, reason);
        self.service_host_gone(host);
        self.tracer_host_gone(host);
        self.mailbox_host_gone(host);
        self.group_host_gone(host);
        self.batches_host_gone(host);
        self.fail_pending(host);
    }

    /// Takes a link down, if it stands, and lets go whoever was held on its account.
    fn drop_link(&mut self, host: HostIndex) {
        if self.links.remove(&host).is_some() {
            self.out.act(Action::Unlink { host });
        }
        self.flow.forget(Source::Host(host));
        for change in self.flow.clear_where(|tid| tid.host() == Some(host)) {
            self.apply_flow(Some(change));
        }
    }

    /// Master: `pvm_delhosts`.
    pub(super) fn on_delete_hosts(&mut self, to: PeerTo, names: &[String], from: HostIndex) {
        let mut results = Vec::with_capacity(names.len());
        let mut chosen = Vec::new();
        for name in names {
            let host = if name == "." { Some(from) } else { self.hosts.by_name(name) };
            results.push(match host {
                None => PvmError::NoHost.code(),
                Some(HostIndex::MASTER) => PvmError::BadParam.code(),
                Some(host) if chosen.contains(&host) => PvmError::DupHost.code(),
                Some(host) => {
                    chosen.push(host);
                    0
                }
            });
        }
        let is_own = chosen.contains(&to.host);
        if is_own {
            // Answered first: the task that asked is on a host that goes.
            self.answer(to, PeerReply::Deleted { results: results.clone() });
        }
        for &host in &chosen {
            self.dismiss(host, DELETED);
        }
        if !is_own {
            self.answer_deletion(to, results, chosen);
        }
    }

    /// Someone wants the machine, or the master wants this daemon, to end.
    pub(super) fn on_halt(&mut self, from: HostIndex) {
        if self.is_master() {
            let others: Vec<HostIndex> = self.links.keys().copied().collect();
            for host in others {
                self.tell(host, DaemonMsg::Halt);
            }
            self.abandon_newcomers();
            self.end("halted");
        } else if from == HostIndex::MASTER {
            self.end("ended by the master");
        } else {
            warn!(host = %from, "a host that is not the master asks this one to end: ignored");
        }
    }

    /// A signal.
    pub(super) fn on_terminate(&mut self, reason: &str) {
        if self.is_master() {
            return self.on_halt(HostIndex::MASTER);
        }
        self.end(reason);
    }

    /// Ends this daemon, and all tasks with it but the one that asked for it.
    pub(super) fn end(&mut self, reason: &str) {
        if self.life != Life::Ending {
            let halting = std::mem::replace(&mut self.life, Life::Ending);
            let others: Vec<HostIndex> = self.links.keys().copied().collect();
            for host in others {
                self.tell(host, DaemonMsg::Bye);
            }
            // Children are ended by the driver.
            let others = self.tasks.iter().filter(|task| task.origin != Origin::Child && task.pid > 1);
            let others = others.filter(|task| halting != Life::Halting { by: task.tid });
            let signals = others.map(|task| Action::Signal { pid: task.pid, signal: SIGTERM });
            self.out.actions.extend(signals.collect::<Vec<_>>());
            self.out.act(Action::Exit { reason: reason.to_owned() });
        }
    }
}
