//! The rates at which links are checked, and hosts that are silent.

use crate::Core;
use crate::event::Action;
use crate::timers::Timer;
use crate::watching::View;
use pvm_wire::HostIndex;
use pvm_wire::daemon::ToMaster;
use tracing::info;

impl Core {
    /// Adapts links and the rates of their checks to changed members, links and roles. Returns whether something had changed.
    pub(crate) fn settle_watching(&mut self) -> bool {
        if !self.watching.take_stale() || self.life == crate::Life::Ending {
            return false;
        }
        let view = View {
            own: self.config.index,
            master: self.hosts.master(),
            members: self.hosts.members(),
            deputies: self.exchange.deputies(),
        };
        let links: Vec<HostIndex> = self.hosts.links.keys().copied().collect();
        let change = self.watching.settle(view, &links);
        for (host, pace) in change.paces {
            self.out.act(Action::Watch { host, pace });
        }
        if let Some(next) = change.next {
            self.link_to(next);
        }
        for host in change.released {
            self.release_link(host);
        }
        true
    }

    /// A host may be lost, and others with it: all links are checked at the full rate for a while.
    pub(crate) fn alarm(&mut self) {
        if let Some(time) = self.watching.alarm(self.hosts.members()) {
            self.out.timers.cancel(Timer::Alarm);
            self.set_timer(time, Timer::Alarm);
        }
    }

    /// Nothing has come from a host for half of `PVM_HOST_TIMEOUT`.
    pub(crate) fn on_peer_silent(&mut self, host: HostIndex) {
        if !self.watching.is_large(self.hosts.members()) || !self.hosts.links.contains_key(&host) {
            return;
        }
        info!(%host, "silent");
        self.alarm();
        if self.hosts.master().is_some_and(|master| master != host && master != self.config.index) {
            self.tell_master(ToMaster::HostSilent { host });
        }
    }
}
