//! The hoster: a task that starts the daemons of newcomers in the master's place.

use super::Master;
use super::newcomer::{Stage, order};
use crate::addresses::ReplyTo;
use crate::effect::{Effect, Effects, Mark};
use crate::services::take_post;
use crate::timers::Timer;
use pvm_wire::calls::roles::BecomeHoster;
use pvm_wire::codes::Sm;
use pvm_wire::services::StartHost;
use pvm_wire::slave::HostedLine;
use pvm_wire::{HostIndex, PvmError, Tid};
use tracing::info;

impl Master {
    /// A task wants to be the hoster, or to be it no more.
    pub(super) fn on_hoster(&mut self, tid: Tid, register: bool, to: ReplyTo, out: &mut Effects) {
        match take_post(&mut self.hoster, tid, register) {
            Ok(()) => out.reply::<BecomeHoster>(to, &()),
            Err(error) => out.refuse(to, error),
        }
    }

    /// Tells the hoster, if there is one, what it is to start.
    pub(super) fn ask_hoster(&mut self, out: &mut Effects) {
        let (Some(operation), Some(hoster)) = (&self.adding, self.hoster) else { return };
        let (hosting, timeout) = (&self.settings.hosting, self.settings.hosting.timeout);
        let orders = operation.stages.iter().filter_map(|stage| match stage {
            Stage::Hosted(newcomer) => Some((newcomer.index, order(hosting, newcomer))),
            _ => None,
        });
        let (indices, orders): (Vec<HostIndex>, Vec<StartHost>) = orders.unzip();
        if orders.is_empty() {
            return;
        }
        let mark = Mark { tag: Sm::StHost.tag(), ..Mark::default() };
        out.send(hoster, mark, StartHost::encode_all(&orders));
        for index in indices {
            out.push(Effect::SetTimer(timeout, Timer::Hoster(index)));
        }
    }

    /// The hoster says what came of it.
    pub(super) fn on_hosted(&mut self, host: Tid, line: &str, out: &mut Effects) {
        let Some(index) = host.host() else { return };
        let Some(Stage::Hosted(newcomer)) = self.newcomer(index) else { return };
        let newcomer = newcomer.clone();
        if let Some(line) = line.lines().find_map(HostedLine::parse) {
            self.introduce(&newcomer, &line, out);
        } else {
            let error = PvmError::from_name(line.trim()).unwrap_or(PvmError::CantStart);
            self.on_newcomer_failed(index, error, &format!("the hoster says: {line}"), out);
        }
    }

    pub(super) fn on_hoster_silent(&mut self, host: HostIndex, out: &mut Effects) {
        let reason = "the hoster has not answered in time";
        self.fail_hosted(|index| index == host, PvmError::CantStart, reason, out);
    }

    /// A task has ended, perhaps the hoster.
    pub(super) fn on_hoster_ended(&mut self, tid: Tid, out: &mut Effects) {
        if self.hoster == Some(tid) {
            info!(%tid, "the hoster is gone");
            self.hoster = None;
            self.fail_hosted(|_| true, PvmError::CantStart, "the hoster is gone", out);
        }
    }

    pub(super) fn on_hoster_unreadable(&mut self, out: &mut Effects) {
        self.fail_hosted(|_| true, PvmError::DSysErr, "the hoster's answer cannot be read", out);
    }

    fn fail_hosted(
        &mut self,
        which: impl Fn(HostIndex) -> bool,
        error: PvmError,
        reason: &str,
        out: &mut Effects,
    ) {
        let stages = self.adding.iter().flat_map(|operation| &operation.stages);
        let waiting = stages.filter_map(|stage| match stage {
            Stage::Hosted(newcomer) if which(newcomer.index) => Some(newcomer.index),
            _ => None,
        });
        for index in waiting.collect::<Vec<_>>() {
            self.on_newcomer_failed(index, error, reason, out);
        }
    }
}
