//! What follows from the concerns' decisions.

use crate::Core;
use crate::effect::{Effect, Effects};
use crate::flow::Source;
use crate::moves::Since;
use pvm_wire::calls::notify::NotifyRequest;
use pvm_wire::daemon::ToMaster;
use pvm_wire::{HostIndex, Tid, group};

impl Core {
    /// Has a concern decide something, and carries out what follows.
    pub(crate) fn effects<R>(&mut self, decide: impl FnOnce(&mut Self, &mut Effects) -> R) -> R {
        let mut effects = Effects::default();
        let result = decide(self, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
        result
    }

    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Act(action) => self.out.act(*action),
            Effect::Tell(host, message) => self.tell(host, message),
            Effect::TellMembers(message) => self.tell_all(self.hosts.others(), &message),
            Effect::Send { to, mark, body } => self.send_marked(Source::Daemon, to, mark, body),
            Effect::Ask(host, what, waiter) => self.ask(host, what, waiter),
            Effect::Answer(to, reply) => self.answer(to, reply),
            Effect::Reply(to, body) => self.reply(to, body),
            Effect::SendBatch(to, message) => self.send_batch(to, &message),
            Effect::Place(manager, placement) => self.place(manager, placement),
            Effect::TellAgent(policy, event, batch) => self.agents.tell(policy, event, Some(batch)),
            Effect::StartManager => self.start_manager(),
            Effect::EndManager(manager) => self.end_manager(manager),
            Effect::StartTasks(id) => self.start_tasks(id),
            Effect::ReportStart(started) => self.report_start(started),
            Effect::Signal(tid, signal) => self.signal(tid, signal),
            Effect::SetTimer(after, timer) => self.set_timer(after, timer),
            Effect::CancelTimer(timer) => self.out.timers.cancel(timer),
            Effect::ExpectEnd(host) => self.expect_end(host),
            Effect::DropLink(host) => {
                self.drop_link(host);
                self.fail_pending(host);
            }
            Effect::Alarm => self.alarm(),
            Effect::EndMachine => self.end_machine(),
            // The master's state has made messages of them.
            Effect::Order(..) | Effect::OrderAll(_) | Effect::OrderTasks { .. } | Effect::CloseSession(_) => {
            }
        }
    }

    /// Whether this is a task of this host.
    pub(crate) fn is_here(&self, tid: Tid) -> bool {
        self.tasks.get(tid).is_some()
    }

    /// TM_NOTIFY.
    pub(crate) fn on_notify(&mut self, tid: Tid, request: &NotifyRequest) {
        if let Some(arrival) = self.moves.unsettled(tid) {
            return arrival.since.push(Since::Asked(request.clone()));
        }
        self.effects(|core, out| {
            let (tasks, hosts) = (&core.tasks, &core.hosts);
            let is_there = |tid: Tid| match hosts.place(tid) {
                _ if tid == group::keeper() => true,
                Some(host) if host == core.config.index => tasks.get(tid).is_some(),
                // A deputy that was deleted keeps its link for a while.
                Some(host) => tid.is_task() && hosts.is_welcome(host) && hosts.is_reachable(host),
                None => false,
            };
            let known = (is_there, |host| hosts.contains(host));
            core.notifies.on_request(tid, request, known, &hosts.places, out);
        });
    }

    /// Another daemon has subscribers to one of our tasks.
    pub(crate) fn on_watch_task(&mut self, from: HostIndex, tid: Tid) {
        // What it has sent before its end may come when it is out already.
        if self.hosts.known(from).is_none() {
            return;
        }
        // Until the master says that a task is over that has moved on, the other daemon may not have heard where it went.
        let has_moved_on = self.hosts.places.has(tid) && !self.hosts.lives_here(tid);
        let is_there = self.is_here(tid) || self.moves.is_coming(tid) || has_moved_on;
        self.effects(|core, out| core.notifies.on_watch_task(from, tid, is_there, out));
    }

    /// A task has ended, here or elsewhere.
    pub(crate) fn task_gone(&mut self, tid: Tid) {
        self.effects(|core, out| core.notifies.task_gone(tid, out));
        if self.exchange.unwatch(tid) {
            self.tell_master(ToMaster::TaskGone { tid });
        }
    }
}
