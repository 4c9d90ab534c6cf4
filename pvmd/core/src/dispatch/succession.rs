//! Commands to the master's state, and how another host takes the place of a master that is lost.

use crate::addresses::Waiter;
use crate::deputy::Deputy;
use crate::effect::{Effect, Effects};
use crate::event::Action;
use crate::links::Link;
use crate::master::{Command, Master};
use crate::spawn::AgentEvent;
use crate::timers::Timer;
use crate::{Core, Life};
use pvm_sched::room::Room;
use pvm_wire::HostIndex;
use pvm_wire::daemon::{Blob, DaemonMsg, PeerRequest};
use std::collections::BTreeSet;
use std::time::Duration;
use tracing::{info, warn};

/// Time after which the log's messages that were not answered are said again.
const TICK: Duration = Duration::from_millis(100);
/// Time that a deputy leaves to each one with a smaller index to take the master's place.
const PRECEDENCE: Duration = Duration::from_millis(300);

/// Commands.
impl Core {
    pub(crate) fn is_master(&self) -> bool {
        self.master_state().is_some()
    }

    /// The master's state, if this is the master.
    pub(crate) fn master_state(&self) -> Option<&Master> {
        self.deputy.as_ref().filter(|deputy| deputy.is_master()).map(Deputy::master)
    }

    /// Has the master's state changed, if this is the master.
    pub(crate) fn command(&mut self, command: Command) {
        if self.is_master() {
            self.out.commands.push_back(command);
        }
    }

    /// Carries out the next command; whether there was one.
    pub(crate) fn next_command(&mut self) -> bool {
        if self.life == Life::Ending {
            // What else is decided is for the next master.
            self.out.commands.clear();
            return false;
        }
        let Some(deputy) = &mut self.deputy else { return false };
        while let Some(command) = self.out.commands.pop_front() {
            deputy.propose(command);
        }
        let Some(command) = deputy.next() else { return false };
        self.obey(command);
        true
    }

    fn obey(&mut self, command: Command) {
        let Some(deputy) = &mut self.deputy else { return };
        let (was_master, before, last) =
            (deputy.is_master(), deputy.deputies().to_vec(), deputy.master().seat());
        let is_take_over = matches!(command, Command::TakeOver { .. });
        let is_appointment = matches!(command, Command::Appoint { .. });
        self.note_tended(&command);
        let Some(deputy) = &mut self.deputy else { return };
        let effects = deputy.carry_out(command);
        let is_master = deputy.is_master();
        if is_take_over {
            return self.on_taken_over(was_master, is_master, last, effects);
        }
        if is_appointment {
            self.begin_configuration(&before);
        }
        if is_master {
            for effect in effects {
                self.carry_out(effect);
            }
            self.tend_jobs();
            self.appoint();
            self.consider_deputies();
        }
    }

    /// Says what the agreement has to say.
    pub(crate) fn flush_log(&mut self) {
        let Some(deputy) = &mut self.deputy else { return };
        let messages = deputy.take_messages();
        if deputy.is_busy() && !self.out.timers.is_set(Timer::Log) {
            self.set_timer(TICK, Timer::Log);
        }
        for (host, message) in messages {
            self.tell(host, message);
        }
    }

    /// Time to say again what was not answered.
    pub(crate) fn on_log_tick(&mut self) {
        if let Some(deputy) = &mut self.deputy {
            deputy.tick();
            self.after_log();
            let waits = self.hosts.master().is_none() && self.life != Life::Ending;
            if waits || self.deputy.as_ref().is_some_and(Deputy::is_busy) {
                self.set_timer(TICK, Timer::Log);
            }
        }
    }

    /// Another deputy says something about the log.
    pub(crate) fn on_log(&mut self, from: HostIndex, configuration: u64, message: &Blob) {
        if let Some(deputy) = &mut self.deputy {
            if deputy.hear(from, configuration, message) {
                self.send_state(&[from]);
            }
            self.after_log();
        }
    }

    fn after_log(&mut self) {
        let Some(deputy) = &mut self.deputy else { return };
        if deputy.is_deposed() {
            return self.end("another host has become the master meanwhile");
        }
        if self.hosts.master().is_none() && deputy.is_to_claim() {
            self.claim();
        }
    }

    fn claim(&mut self) {
        let command = self.take_over();
        if let Some(deputy) = &mut self.deputy {
            deputy.propose(command);
        }
    }

    fn take_over(&self) -> Command {
        Command::TakeOver { by: self.config.index, address: self.config.address }
    }
}

/// Deputies.
impl Core {
    /// The master: deputies are appointed as hosts come and go.
    pub(crate) fn appoint(&mut self) {
        if self.out.timers.is_set(Timer::Appoint) {
            return;
        }
        let Some(deputy) = &mut self.deputy else { return };
        let links = &self.hosts.links;
        let members = deputy.master().members().indices();
        let live = members.filter(|host| links.get(host).is_some_and(Link::is_open));
        // Enough of them: this is looked at after every command.
        let live = live.take(deputy.master().deputies_max()).collect();
        deputy.propose_deputies(live);
    }

    /// The deputies of the next configuration were just appointed.
    fn begin_configuration(&mut self, before: &[HostIndex]) {
        let Some(deputy) = &mut self.deputy else { return };
        let is_one = deputy.begin_configuration();
        let parting = deputy.take_parting();
        if deputy.is_master() {
            let new: Vec<HostIndex> =
                deputy.deputies().iter().copied().filter(|host| !before.contains(host)).collect();
            self.send_state(&new);
            for &host in before {
                if self.is_departing(host) {
                    // The link ends when the daemon has ended.
                    self.forget_link(host);
                } else if !self.hosts.contains(host) {
                    self.drop_link(host);
                }
            }
        } else if !is_one {
            let is_member = deputy.is_member();
            self.deputy = None;
            if !is_member {
                self.end("the last master has dismissed this host");
            }
        }
        for (host, message) in parting {
            self.tell(host, message);
        }
    }

    /// Whether the master needs a host's vote until there are other deputies, be it a member or not.
    pub(crate) fn needs_vote(&self, host: HostIndex) -> bool {
        self.master_state().is_some_and(|master| master.deputies().contains(&host))
    }

    /// Sends deputies the master's state with which the configuration has begun, and what was decided since.
    fn send_state(&mut self, to: &[HostIndex]) {
        let Some(deputy) = self.deputy.as_ref().filter(|_| !to.is_empty()) else { return };
        match deputy.state() {
            Ok(pieces) => {
                for (&host, piece) in to.iter().flat_map(|host| pieces.iter().map(move |piece| (host, piece)))
                {
                    self.tell(host, piece.clone());
                }
            }
            Err(error) => warn!(%error, "the state cannot be written: these deputies do without"),
        }
    }

    /// The master makes this host a deputy.
    pub(crate) fn on_state(&mut self, configuration: u64, applied: u64, more: bool, piece: &Blob) {
        let is_new = self.deputy.as_ref().is_none_or(|deputy| deputy.configuration() < configuration);
        let log = (configuration, applied);
        if is_new && let Some(deputy) = self.incoming.add(self.config.index, log, more, piece) {
            info!(configuration, "is a deputy");
            self.deputy = Some(deputy);
        }
    }
}

/// Losses.
impl Core {
    /// A daemon says that it ends: it will never act again.
    pub(crate) fn note_ended(&mut self, host: HostIndex) {
        if let Some(deputy) = &mut self.deputy {
            deputy.note_dead(host);
        }
    }

    /// The master: a deputy may be lost. Without a majority of the deputies it cannot decide anything, and another may be elected.
    pub(crate) fn consider_deputies(&mut self) {
        let Some(deputy) = self.deputy.as_mut().filter(|deputy| deputy.is_master()) else { return };
        let links = &self.hosts.links;
        if deputy.has_majority(|host| links.contains_key(&host)) {
            return;
        }
        if deputy.can_elect(self.config.succession.takes_silent) {
            return self.end("a majority of the deputies is lost, and may have another master");
        }
        deputy.go_alone();
    }

    /// The link to the master is lost.
    pub(crate) fn on_master_lost(&mut self, host: HostIndex, reason: &str, has_ended: bool) {
        self.drop_link(host);
        self.hosts.lose(host);
        let can_succeed = has_ended || self.config.succession.takes_silent;
        if !self.exchange.has_successor(host, self.config.index, can_succeed) {
            return self.end(&format!("the master is gone: {reason}"));
        }
        warn!(%host, reason, "the master is lost");
        self.hosts.set_master(None);
        self.watching.note_change();
        self.set_timer(self.config.succession.patience, Timer::Orphan);
        let own = self.config.index;
        let Some(deputy) = &mut self.deputy else {
            // The deputy that would be the next master knows whether the last one lives, and the neighbours may be cut off, too.
            let mut others: BTreeSet<HostIndex> = self.exchange.successor(host).into_iter().collect();
            others.extend(self.watching.neighbours().iter().filter(|&&other| other != host));
            let lost = DaemonMsg::MasterLost { master: host, configuration: None };
            return self.tell_all(others.into_iter().collect(), &lost);
        };
        let (configuration, others) = (Some(deputy.configuration()), deputy.others(host));
        if others.is_empty() {
            let command = self.take_over();
            return if let Some(deputy) = &mut self.deputy {
                deputy.succeed_alone(command);
            };
        }
        let is_majority = deputy.witness(own);
        self.tell_all(others, &DaemonMsg::MasterLost { master: host, configuration });
        if is_majority {
            self.candidate();
        }
    }

    /// This host has lost its master, and hears that others have not.
    pub(crate) fn on_left_out(&mut self, reason: &str) {
        if self.hosts.master().is_none() {
            self.end(reason);
        }
    }

    /// Another host has lost its master. If it is also this host's master, this host asks it. If this host has a newer master already, the
    /// other host will hear from that one, too.
    pub(crate) fn on_witness(&mut self, from: HostIndex, lost: HostIndex, configuration: Option<u64>) {
        if let Some(master) = self.hosts.master().filter(|&master| master == lost && !self.is_master()) {
            self.alarm();
            self.ask(master, PeerRequest::Ping, Waiter::MasterLost(from));
        }
        let Some(deputy) = &mut self.deputy else { return };
        if configuration == Some(deputy.configuration())
            && !deputy.is_master()
            && deputy.witness(from)
            && self.hosts.master().is_none()
        {
            self.candidate();
        }
    }

    /// A majority of the deputies has lost the master: the one with the smallest index is to take its place.
    fn candidate(&mut self) {
        let Some(deputy) = &self.deputy else { return };
        let before =
            deputy.others(deputy.master().seat()).iter().filter(|&&host| host < self.config.index).count();
        if before == 0 {
            self.stand();
        } else if !self.out.timers.is_set(Timer::Candidate) {
            self.set_timer(PRECEDENCE * before as u32, Timer::Candidate);
        }
    }

    /// Stands for election, and again if there is still no master then.
    pub(crate) fn stand(&mut self) {
        let own = self.config.index;
        if self.hosts.master().is_some() {
            return;
        }
        if let Some(deputy) = &mut self.deputy
            && deputy.is_member()
        {
            info!("stands for the master's place");
            deputy.stand();
            self.after_log();
            self.set_timer(PRECEDENCE * 4 + TICK * own.get().min(9), Timer::Candidate);
            if !self.out.timers.is_set(Timer::Log) {
                self.set_timer(TICK, Timer::Log);
            }
        }
    }

    /// No host has taken the place of the master.
    pub(crate) fn on_orphaned(&mut self) {
        if self.hosts.master().is_none() {
            self.end("the master is lost, and no other host has taken its place");
        }
    }

    /// The command by which a host becomes the master, after that one, has been carried out.
    fn on_taken_over(&mut self, was_master: bool, is_master: bool, last: HostIndex, effects: Effects) {
        if was_master && !is_master {
            return self.end("another host has become the master meanwhile");
        }
        if !is_master {
            return;
        }
        self.become_master(last);
        for effect in effects {
            // What is said to hosts has been said.
            if !matches!(effect, Effect::Tell(..)) {
                self.carry_out(effect);
            }
        }
        self.tend_jobs();
        // The deputies that are left, at once; others when those with the smallest indices have linked.
        self.appoint();
        self.set_timer(PRECEDENCE, Timer::Appoint);
    }

    /// This host takes the place of the last master.
    fn become_master(&mut self, last: HostIndex) {
        let own = self.config.index;
        let Some(deputy) = &self.deputy else { return };
        let master = deputy.master();
        let (reign, audience) = (master.reign(), master.audience());
        let (authority, vmid) = master.authority();
        let unheard: Vec<_> = audience.iter().map(|&host| (host, master.unheard(host))).collect();
        for timer in [Timer::Orphan, Timer::Candidate] {
            self.out.timers.cancel(timer);
        }
        self.out.act(Action::BecomeMaster { authority, vmid });
        for (host, messages) in unheard {
            if host != own && !self.reach(host) {
                let reason =
                    if host == last { "it was the master, and is lost" } else { "its link was lost" };
                let has_ended = self.deputy.as_ref().is_some_and(|deputy| deputy.is_dead(host));
                let reason = reason.to_owned();
                self.out.commands.push_back(Command::HostLost { host, reason, has_ended });
                continue;
            }
            self.tell(host, DaemonMsg::NewMaster { reign });
            for message in messages {
                self.tell(host, message);
            }
        }
        self.hosts.set_master(Some(own));
        self.agents.tell_all(|_| AgentEvent::Centre);
        self.loads.new_master();
        self.room = Room::default();
        self.rows_of_new_master();
        self.owners_of_new_master();
        self.watching.note_change();
    }

    /// Links with a member, unless there is a link or it cannot be reached.
    fn reach(&mut self, host: HostIndex) -> bool {
        host == self.config.index || self.link_to(host).is_some()
    }
}
