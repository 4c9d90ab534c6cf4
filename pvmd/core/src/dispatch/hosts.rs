//! What happens to hosts, and what follows when one goes.

use crate::addresses::{PeerTo, Waiter};
use crate::decision::Decision;
use crate::effect::Effect;
use crate::event::Action;
use crate::hosts::DELETED;
use crate::master::{END, Master};
use crate::spawn::SIGTERM;
use crate::tasks::Origin;
use crate::{Core, Life};
use pvm_wire::daemon::{DaemonMsg, HostEntry, PeerReply, PeerRequest};
use pvm_wire::{HostIndex, PvmError};
use tracing::{info, warn};

impl Core {
    pub(crate) fn is_master(&self) -> bool {
        self.config.index == HostIndex::MASTER
    }

    /// Has the master's part decide something, if this is the master, and carries out what follows.
    pub(crate) fn master(&mut self, decide: impl FnOnce(&mut Master, &mut Decision<'_>)) {
        self.effects(|core, out| {
            if let Some(master) = &mut core.master {
                let (config, hosts, now) = (&core.config, &core.hosts, core.now);
                decide(master, &mut Decision { config, hosts, now, out });
            }
        });
    }

    /// Master: newcomers are members, which all daemons hear if the table had to be announced.
    pub(crate) fn admit_hosts(&mut self, newcomers: Vec<HostEntry>, serial: Option<u64>) {
        let added: Vec<HostIndex> = newcomers.iter().map(|entry| entry.index).collect();
        for entry in newcomers {
            self.hosts.insert(entry);
        }
        if let Some(serial) = serial {
            self.tell_all(self.hosts.others(), &DaemonMsg::TableCommit { serial, added: added.clone() });
            for &host in &added {
                self.tell_services(host);
                self.effects(|core, out| core.tracers.host_added(host, out));
            }
        }
        if !added.is_empty() {
            self.hosts_added(&added);
        }
    }

    pub(crate) fn newcomer_failed(&mut self, host: HostIndex, reason: &str) {
        let error = PvmError::CantStart;
        self.master(|master, at| master.on_newcomer_failed(host, error, reason, at));
    }

    /// Master: a host that has a link was told to end, or says that it does. The link stays until the daemon closes it.
    fn expect_end(&mut self, host: HostIndex) {
        if self.forget_link(host) {
            self.master(|master, at| master.departures.expect(host, at.out));
        }
    }

    pub(crate) fn on_departure_overdue(&mut self, host: HostIndex) {
        warn!(%host, "its daemon has not ended within {END:?}: no longer waited for");
        self.out.act(Action::Unlink { host });
        self.master(|master, at| master.on_departed(host, at));
    }

    /// Slave: the newcomers are members.
    pub(crate) fn on_table_commit(&mut self, serial: u64, added: &[HostIndex]) {
        if self.hosts.commit(serial) {
            self.hosts_added(added);
        }
    }

    /// Newcomers are members: notifies, and batches in placement.
    pub(crate) fn hosts_added(&mut self, added: &[HostIndex]) {
        for host in added.iter().filter(|&&host| host != self.config.index) {
            info!(%host, name = self.hosts.get(*host).map(|entry| &*entry.name), "host added");
        }
        self.effects(|core, out| {
            core.notifies.hosts_added(added, out);
            let others = added.iter().copied().filter(|&host| host != core.config.index);
            core.observers.hosts_added(others, out);
        });
        self.home(|home, at| home.hosts_added(added, at));
    }

    /// A daemon says that it ends. Its link stands until it has ended.
    pub(crate) fn on_bye(&mut self, host: HostIndex) {
        if self.is_master() && self.hosts.contains(host) {
            self.expect_end(host);
        }
        self.on_host_lost(host, "it ended");
    }

    pub(crate) fn on_peer_lost(&mut self, host: HostIndex, reason: &str) {
        self.on_host_lost(host, reason);
        self.master(|master, at| master.on_departed(host, at));
    }

    pub(crate) fn on_host_lost(&mut self, host: HostIndex, reason: &str) {
        self.forget_link(host);
        if self.is_master() {
            self.remove_host(host, reason);
        } else if host == HostIndex::MASTER {
            self.end(&format!("the master is gone: {reason}"));
        } else {
            self.drop_link(host);
            self.hosts.lose(host);
            let reason = reason.to_owned();
            self.tell(HostIndex::MASTER, DaemonMsg::LinkLost { host, reason });
        }
    }

    /// Master: two slaves have lost sight of each other. One has just said so; if the other is dead, the master notices by
    /// itself.
    pub(crate) fn on_link_lost(&mut self, from: HostIndex, host: HostIndex, reason: &str) {
        if self.is_member_or_newcomer(from) && self.is_member_or_newcomer(host) {
            warn!(%from, %host, reason, "two hosts have lost their link");
            self.ask(host, PeerRequest::Ping, Waiter::LostLink(from));
        }
    }

    /// Master: both live. The younger one goes, for every pair of hosts must be able to talk.
    pub(crate) fn on_both_live(&mut self, a: HostIndex, b: HostIndex) {
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
        self.hosts.contains(host) || self.master.as_ref().is_some_and(|master| master.is_newcomer(host))
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
    pub(crate) fn remove_host(&mut self, host: HostIndex, reason: &str) {
        // A newcomer has not "failed" as a host: for the task that asked, it could not be started.
        self.newcomer_failed(host, reason);
        if !self.hosts.contains(host) {
            self.drop_link(host);
            return self.fail_pending(host);
        }
        let message = DaemonMsg::HostGone { host, reason: reason.to_owned() };
        self.effects(|_, out| out.push(Effect::TellLinked { but: host, message }));
        self.host_gone(host, reason);
        self.master(|master, at| master.forget_table_ack(host, at));
    }

    /// A host is out: nothing of it stays, all subscribers are told.
    pub(crate) fn host_gone(&mut self, host: HostIndex, reason: &str) {
        self.hosts.forget_newcomer(host);
        let Some(entry) = self.hosts.remove(host) else { return self.drop_link(host) };
        info!(%host, name = entry.name, reason, "host gone");
        self.drop_link(host);
        self.effects(|core, out| core.notifies.host_gone(host, out));
        self.observed_host_gone(&entry, reason);
        self.service_host_gone(host);
        self.tracers.host_gone(host);
        self.master(|master, at| master.host_gone(host, at.out));
        self.node.home_gone(host);
        self.home(|home, at| home.host_gone(host, at));
        self.fail_pending(host);
    }

    /// Master: `pvm_delhosts`.
    pub(crate) fn on_delete_hosts(&mut self, to: PeerTo, names: &[String], from: HostIndex) {
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
            self.master(|master, at| master.departures.answer(to, results, chosen, at.out));
        }
    }

    /// Someone wants the machine, or the master wants this daemon, to end.
    pub(crate) fn on_halt(&mut self, from: HostIndex) {
        if self.is_master() {
            self.tell_all(self.hosts.linked(), &DaemonMsg::Halt);
            self.master(|master, at| master.abandon_newcomers(at.out));
            self.end("halted");
        } else if from == HostIndex::MASTER {
            self.end("ended by the master");
        } else {
            warn!(host = %from, "a host that is not the master asks this one to end: ignored");
        }
    }

    /// A signal.
    pub(crate) fn on_terminate(&mut self, reason: &str) {
        if self.is_master() {
            return self.on_halt(HostIndex::MASTER);
        }
        self.end(reason);
    }

    /// Ends this daemon, and all tasks with it but the one that asked for it.
    pub(crate) fn end(&mut self, reason: &str) {
        if self.life != Life::Ending {
            let halting = std::mem::replace(&mut self.life, Life::Ending);
            self.tell_all(self.hosts.linked(), &DaemonMsg::Bye);
            // Children are ended by the driver.
            let others = self.tasks.iter().filter(|task| task.origin != Origin::Child && task.pid > 1);
            let others = others.filter(|task| halting != Life::Halting { by: task.tid });
            let signals = others.map(|task| Action::Signal { pid: task.pid, signal: SIGTERM });
            self.out.actions.extend(signals.collect::<Vec<_>>());
            self.out.act(Action::Exit { reason: reason.to_owned() });
        }
    }
}
