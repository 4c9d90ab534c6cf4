//! What happens to links: they are made for what is to be said, they fail, and they are left.

use crate::Core;
use crate::event::Action;
use crate::flow::Source;
use crate::links::Link;
use crate::master::Command;
use crate::timers::Timer;
use pvm_wire::HostIndex;
use pvm_wire::daemon::DaemonMsg;
use tracing::{debug, warn};

impl Core {
    /// Sends a message to a daemon, which may be this one. To one that is not there: nothing.
    pub(crate) fn tell(&mut self, host: HostIndex, message: DaemonMsg) {
        if host == self.config.index {
            self.out.loopback.push_back(message);
            return;
        }
        let now = self.now;
        if let Some(message) = self.link_to(host).and_then(|link| link.send(message, now)) {
            self.out.act(Action::SendPeer { host, message });
        }
    }

    pub(crate) fn tell_all(&mut self, hosts: Vec<HostIndex>, message: &DaemonMsg) {
        for host in hosts {
            self.tell(host, message.clone());
        }
    }

    /// The link to a host, made if need be; `None` if this daemon can make none.
    pub(crate) fn link_to(&mut self, host: HostIndex) -> Option<&mut Link> {
        if !self.hosts.links.contains_key(&host) && self.hosts.can_be_dialled(host) {
            self.make_link(host);
        }
        self.hosts.links.get_mut(&host)
    }

    fn make_link(&mut self, host: HostIndex) {
        let Some(entry) = self.hosts.known(host).cloned() else { return };
        self.hosts.links.insert(host, Link::making(host, self.now));
        self.watching.note_change();
        self.out.act(Action::Link { entry });
        // What is to be known there of turns goes first.
        self.teams(|teams, _, at| teams.linked(host, at));
    }

    /// A link stands, whichever of the two has dialled.
    pub(crate) fn on_peer_linked(&mut self, host: HostIndex) {
        if !self.is_welcome(host) {
            warn!(%host, "a host that is no member has linked: its link is closed");
            self.out.act(Action::SendPeer { host, message: DaemonMsg::NoMember });
            return self.out.act(Action::Unlink { host });
        }
        if let Some(deputy) = &mut self.deputy {
            deputy.note_alive(host);
        }
        if self.hosts.links.contains_key(&host) {
            self.flush_link(host);
        } else {
            self.hosts.links.insert(host, Link::open(host, self.now));
            self.watching.note_change();
            self.teams(|teams, _, at| teams.linked(host, at));
        }
        if self.is_master() {
            if self.hosts.contains(host) {
                self.appoint();
            } else {
                self.command(Command::NewcomerLinked(host));
            }
        } else if self.leaves_link(host) {
            self.set_timer(self.config.link_idle, Timer::IdleLink(host));
        }
    }

    /// Whether a link with this host is wanted.
    pub(crate) fn is_welcome(&self, host: HostIndex) -> bool {
        self.hosts.is_welcome(host)
            || self.needs_vote(host)
            || self.master_state().is_some_and(|master| master.is_newcomer(host))
    }

    /// Sends what has waited for a link.
    fn flush_link(&mut self, host: HostIndex) {
        let waiting = self.hosts.links.get_mut(&host).map(Link::stand).unwrap_or_default();
        self.out.actions.extend(waiting.into_iter().map(|message| Action::SendPeer { host, message }));
    }

    pub(crate) fn on_link_failed(&mut self, host: HostIndex, reason: &str) {
        if self.is_master() {
            return self.on_host_lost(host, &format!("no link to its daemon: {reason}"), false);
        }
        if self.hosts.links.contains_key(&host) {
            self.on_host_lost(host, reason, false);
        }
    }

    /// A link is gone; whether there was one.
    pub(crate) fn forget_link(&mut self, host: HostIndex) -> bool {
        self.teams.unlinked(host);
        self.out.timers.cancel(Timer::IdleLink(host));
        // Hosts that have joined while the link was being left may have made the other end a neighbour.
        self.watching.note_change();
        self.hosts.links.remove(&host).is_some()
    }

    /// Takes a link down, if there is one, and resumes the sources that were stopped on its account.
    pub(crate) fn drop_link(&mut self, host: HostIndex) {
        if self.forget_link(host) {
            self.out.act(Action::Unlink { host });
        }
        self.tasks.flow.forget(Source::Host(host));
        let places = &self.hosts.places;
        for change in self.tasks.flow.clear_where(|tid| places.find(tid) == Some(host)) {
            self.apply_flow(Some(change));
        }
    }

    /// Whether it is this daemon that leaves the link with that host when it is idle: of two slaves, the one with the lower index.
    fn leaves_link(&self, host: HostIndex) -> bool {
        host > self.config.index && !self.is_kept(host)
    }

    /// Whether a link with that host is kept, used or not: one of the two is the master, or they watch each other.
    fn is_kept(&self, host: HostIndex) -> bool {
        self.is_master() || self.hosts.master() == Some(host) || self.watching.is_neighbour(host)
    }

    /// A link need not be kept any more.
    pub(crate) fn release_link(&mut self, host: HostIndex) {
        if self.hosts.links.contains_key(&host) && self.leaves_link(host) {
            self.out.timers.cancel(Timer::IdleLink(host));
            self.set_timer(self.config.link_idle, Timer::IdleLink(host));
        }
    }

    /// Time to see whether a link is still used.
    pub(crate) fn on_idle_link(&mut self, host: HostIndex) {
        if self.is_kept(host) {
            return;
        }
        let (clear, most) = (self.can_leave(host), self.config.link_idle);
        let Some(link) = self.hosts.links.get_mut(&host) else { return };
        match link.idle(self.now) {
            Some(idle) if idle >= most && clear => {
                link.leave();
                self.out.act(Action::SendPeer { host, message: DaemonMsg::Leave });
            }
            Some(idle) if idle < most => self.set_timer(most.saturating_sub(idle), Timer::IdleLink(host)),
            _ => self.set_timer(most, Timer::IdleLink(host)),
        }
    }

    /// Whether a link may be left now: nothing would be lost, and nobody is stopped on its account.
    fn can_leave(&self, host: HostIndex) -> bool {
        self.hosts.links.get(&host).is_some_and(Link::is_clear)
            && !self.tasks.flow.concerns(host, &self.hosts.places)
    }

    /// The other end asks to leave the link. What it has sent before has come.
    pub(crate) fn on_leave(&mut self, host: HostIndex) {
        let agreed = host < self.config.index && !self.is_kept(host) && self.can_leave(host);
        self.out.act(Action::SendPeer { host, message: DaemonMsg::LeaveAnswer { agreed } });
        if agreed {
            debug!(%host, "link left: it was idle");
            self.drop_link(host);
        }
    }

    /// The other end has agreed to leave the link, and says nothing more on it; or it stays.
    pub(crate) fn on_leave_answer(&mut self, host: HostIndex, agreed: bool) {
        let Some(link) = self.hosts.links.get_mut(&host).filter(|link| link.is_leaving()) else {
            return warn!(%host, "answer to a question that was not asked: ignored");
        };
        if !agreed {
            self.flush_link(host);
            return self.set_timer(self.config.link_idle, Timer::IdleLink(host));
        }
        let (waiting, queued) = (link.stand(), link.queued);
        debug!(%host, "link left: it was idle");
        self.drop_link(host);
        if self.is_master() {
            // It has become the master since it asked: the link is kept now, and nothing but this makes it.
            self.make_link(host);
        }
        for message in waiting {
            self.tell(host, message);
        }
        if let Some(link) = self.hosts.links.get_mut(&host) {
            link.queued += queued;
        }
    }
}
