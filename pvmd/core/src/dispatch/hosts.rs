//! What happens to hosts, and what follows when one goes.

use crate::event::Action;
use crate::master::{Command, END, Master};
use crate::spawn::SIGTERM;
use crate::spawn::{AgentEvent, number};
use crate::tasks::Origin;
use crate::{Core, Life};
use pvm_wire::HostIndex;
use pvm_wire::daemon::{DaemonMsg, ToMaster};
use tracing::{info, warn};

impl Core {
    /// Master: the daemon of a host that has a link was told to end, or says that it does. The link stays until the daemon closes it, and
    /// the core knows of it as long as the vote of that host may be needed.
    pub(crate) fn expect_end(&mut self, host: HostIndex) {
        if !self.hosts.links.contains_key(&host) {
            self.command(Command::DepartureOverdue(host));
        } else if !self.needs_vote(host) {
            self.forget_link(host);
        }
    }

    /// Whether the master has told this host to end, and its link has not ended yet.
    pub(crate) fn is_departing(&self, host: HostIndex) -> bool {
        self.master_state().is_some_and(|master| master.is_departing(host))
    }

    pub(crate) fn on_departure_overdue(&mut self, host: HostIndex) {
        warn!(%host, "its daemon has not ended within {END:?}: no longer waited for");
        self.out.act(Action::Unlink { host });
        self.command(Command::DepartureOverdue(host));
    }

    /// The newcomers are members.
    pub(crate) fn on_table_commit(&mut self, serial: u64) {
        let Some(added) = self.hosts.commit(serial) else { return };
        if self.is_master() {
            for &host in &added {
                self.tell_services(host);
                self.effects(|core, out| core.tracers.host_added(host, out));
            }
        }
        self.hosts_added(&added);
    }

    /// Newcomers are members: notifies, and batches in placement.
    pub(crate) fn hosts_added(&mut self, added: &[HostIndex]) {
        self.watching.note_change();
        for host in added.iter().filter(|&&host| host != self.config.index) {
            info!(%host, name = self.hosts.get(*host).map(|entry| &*entry.name), "host added");
        }
        self.effects(|core, out| {
            core.moves.hosts_added(added);
            core.notifies.hosts_added(added, |_| true, out);
            let others = added.iter().copied().filter(|&host| host != core.config.index);
            core.observers.hosts_added(others, out);
        });
        self.home(|home, at| home.hosts_added(added, at));
        self.moves_hosts_added(added);
        for &host in added {
            self.agents.tell_all(|_| AgentEvent::Joined(number(host)));
        }
        self.loads_of_members(added);
        self.owners.joined();
        self.pass_owners_on();
        self.report_owner();
    }

    /// A daemon says that it ends. Its link stands until it has ended.
    pub(crate) fn on_bye(&mut self, host: HostIndex) {
        if self.is_master() && self.hosts.contains(host) {
            self.forget_link(host);
            self.note_ended(host);
            self.command(Command::HostEnded(host));
            return self.consider_deputies();
        }
        if self.is_departing(host) {
            // It had the link until now because its vote might be needed.
            self.forget_link(host);
            self.note_ended(host);
            return self.consider_deputies();
        }
        self.on_peer_lost(host, "it ended", true);
    }

    /// A link is broken, or silent for too long.
    pub(crate) fn on_peer_lost(&mut self, host: HostIndex, reason: &str, has_ended: bool) {
        if has_ended {
            self.note_ended(host);
        }
        if self.hosts.master() == Some(host) && !self.is_master() {
            self.forget_link(host);
            return self.on_master_lost(host, reason, has_ended);
        }
        self.on_host_lost(host, reason, has_ended);
    }

    pub(crate) fn on_host_lost(&mut self, host: HostIndex, reason: &str, has_ended: bool) {
        self.forget_link(host);
        if self.is_master() {
            self.hosts.lose(host);
            self.command(Command::HostLost { host, reason: reason.to_owned(), has_ended });
            self.consider_deputies();
        } else if self.hosts.master() == Some(host) {
            self.on_master_lost(host, reason, has_ended);
        } else {
            self.drop_link(host);
            self.hosts.lose(host);
            // Its part of what has not been handed out goes to others at once, whatever the master decides.
            self.home(|home, at| home.node_gone(host, at));
            self.tell_master(ToMaster::LinkLost { host, has_ended, reason: reason.to_owned() });
        }
    }

    /// A host is out: nothing of it stays, all subscribers are told.
    pub(crate) fn host_gone(&mut self, host: HostIndex, reason: &str) {
        self.watching.note_change();
        let Some(entry) = self.hosts.remove(host) else { return self.drop_link(host) };
        info!(%host, name = entry.name, reason, "host gone");
        if !self.needs_vote(host) {
            self.drop_link(host);
        }
        self.effects(|core, out| core.notifies.host_gone(host, &core.hosts.places, out));
        self.observed_host_gone(&entry, reason);
        self.moves_host_gone(host);
        self.service_host_gone(host);
        self.tracers.host_gone(host, &self.hosts.places);
        self.node.home_gone(host);
        self.loads.gone(host);
        self.room.heard(host);
        self.rows.gone(host);
        self.owners.gone(host);
        self.probing_host_gone(host);
        self.end_tied_tasks(host);
        self.agents.tell_all(|_| AgentEvent::Gone(number(host)));
        self.home(|home, at| home.host_gone(host, at));
        for tid in self.hosts.places.host_gone(host) {
            self.forget_moved(tid);
        }
        self.fail_pending(host);
    }

    /// The master: the machine ends.
    pub(crate) fn end_machine(&mut self) {
        self.tell_all(self.hosts.linked(), &DaemonMsg::Halt);
        self.end("halted");
    }

    /// The master wants this daemon to end.
    pub(crate) fn on_halt(&mut self, from: HostIndex) {
        if self.hosts.master() == Some(from) {
            self.end("ended by the master");
        } else {
            warn!(host = %from, "a host that is not the master asks this one to end: ignored");
        }
    }

    /// A signal.
    pub(crate) fn on_terminate(&mut self, reason: &str) {
        if self.is_master() {
            return self.command(Command::Halt);
        }
        self.end(reason);
    }

    /// Ends this daemon, and all tasks with it but the one that asked for it.
    pub(crate) fn end(&mut self, reason: &str) {
        if self.life != Life::Ending {
            let halting = std::mem::replace(&mut self.life, Life::Ending);
            for index in self.master_state().map(Master::newcomers).unwrap_or_default() {
                self.out.act(Action::AbandonHost { index });
            }
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
