//! Tasks that come to this host from another.

use crate::Core;
use crate::addresses::{PeerTo, ReplyTo};
use crate::flow::Source;
use crate::moves::{Arrival, Since, Way};
use crate::spawn::{ExecTo, Order};
use crate::tasks::{Item, Movability, Report};
use pvm_wire::calls::moves as calls;
use pvm_wire::calls::state::IncidentRequest;
use pvm_wire::daemon::{Attempt, DaemonMsg, Luggage, MoveMsg, PeerReply, ToMaster};
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{PvmError, Tid};
use tracing::{debug, info};

impl Core {
    /// A daemon has the successor of a task of its own started here.
    pub(crate) fn on_succeed(&mut self, to: PeerTo, attempt: Attempt, parent: i32, spawn: SpawnRequest) {
        if self.hosts.known(attempt.from).is_none() {
            let results = vec![PvmError::HostFail.code()];
            return self.answer(to, PeerReply::Started { results, refusals: Vec::new(), has_owner: false });
        }
        debug!(task = %attempt.tid, from = %attempt.from, "its successor is to start here");
        let order = Order { next: 0, first: 0, parent, succeeds: Some(attempt), spawn };
        self.node(|node, tasks, at| node.on_exec(ExecTo::Peer(to), None, 1, order, tasks, at));
    }

    /// A successor has enrolled.
    pub(crate) fn successor_enrolled(&mut self, attempt: Attempt, successor: Tid) {
        self.tell(attempt.from, DaemonMsg::Move(attempt, MoveMsg::Ready { successor }));
    }

    /// The record of a successor was made.
    pub(crate) fn expect_arrival(&mut self, attempt: Attempt, successor: Tid) {
        self.moves.arrivals.insert(attempt.tid, Arrival::new(attempt, successor));
    }

    /// A successor has all that its predecessor had.
    pub(crate) fn on_arrive(&mut self, successor: Tid, reply: ReplyTo) {
        let arrival = self.moves.arrivals.values_mut().find(|arrival| arrival.successor == successor);
        let Some(arrival) = arrival else { return self.reply_error(reply, PvmError::NotFound) };
        arrival.reply = Some(reply);
        let attempt = arrival.attempt;
        self.propose(attempt);
    }

    pub(crate) fn propose(&mut self, attempt: Attempt) {
        if let Some(hosts) = self.moves.arrival(attempt).and_then(Arrival::propose) {
            self.tell_master(ToMaster::Arrived { attempt, hosts });
        }
    }

    /// A successor has ended.
    pub(crate) fn on_successor_ended(&mut self, attempt: Attempt, successor: Tid, status: i32) {
        let arrival = self.moves.arrival(attempt).filter(|arrival| arrival.successor == successor);
        let Some(arrival) = arrival else { return };
        match arrival.way {
            // The master may have answered already that it is the task.
            Way::Proposed => arrival.ended = Some(status),
            _ => self.abandon(attempt, "its successor has ended".to_owned()),
        }
    }

    /// A task does not come: its old host is told, if it is there.
    fn abandon(&mut self, attempt: Attempt, reason: String) {
        self.moves.arrivals.remove(&attempt.tid);
        if self.hosts.contains(attempt.from) {
            self.tell(attempt.from, DaemonMsg::Move(attempt, MoveMsg::Failed { reason }));
        }
    }

    /// The master says that a task lives here.
    pub(crate) fn arrived(&mut self, attempt: Attempt) {
        let Some(arrival) = self.moves.arrival(attempt) else { return };
        arrival.way = Way::Here;
        let (successor, reply, ended) = (arrival.successor, arrival.reply, arrival.ended);
        let (luggage, _) = arrival.frozen.clone().unwrap_or_default();
        match ended {
            None => self.become_task(attempt.tid, successor, &luggage, reply),
            Some(status) => self.arrived_dead(attempt.tid, &luggage, status),
        }
        if !self.hosts.contains(attempt.from) {
            self.no_more_kept(attempt, None);
        }
        self.settle_arrival(attempt);
    }

    /// A successor is the task from now on.
    fn become_task(&mut self, tid: Tid, successor: Tid, luggage: &Luggage, reply: Option<ReplyTo>) {
        if let Some(task) = self.tasks.get_mut(successor) {
            let neighbours = std::mem::take(&mut task.neighbours);
            self.forget_neighbours(successor, neighbours);
        }
        self.notifies.forget(successor);
        let Some(task) = self.tasks.rename(successor, tid) else { return };
        // Its program is the same, and will say so.
        (task.succeeds, task.movability) = (None, Movability::Movable);
        task.tied_to = luggage.tied_to;
        if let Some((batch, number)) = luggage.item {
            task.report = Report::End(Item { batch, number });
        }
        let (output, cookie, is_orphan) =
            (luggage.output, task.cookie, luggage.tied_to.is_some_and(|host| !self.hosts.contains(host)));
        (task.parent, task.output, task.trace) = (luggage.parent, output, luggage.trace);
        if let Some(stream) = cookie.and_then(|cookie| self.tasks.outputs.get_mut(&cookie)) {
            (stream.tid, stream.sink, stream.parent) = (tid, output, luggage.parent);
        }
        if luggage.watched {
            self.exchange.watch(tid);
        }
        if let Some(every_end) = luggage.observes {
            self.effects(|core, out| core.observers.add(tid, IncidentRequest { every_end }, out));
        }
        self.observers.has_come(tid);
        self.observed_begin(tid);
        info!(%tid, "has moved here");
        if let Some((reply, options)) = reply.zip(self.options_of(tid)) {
            self.reply_to::<calls::Arrive>(reply, &options);
        }
        if is_orphan {
            self.end_tied_task(tid);
        }
    }

    /// What a task had subscribed to where it was, and was not told there, it has subscribed to here.
    fn subscribe_again(&mut self, tid: Tid, luggage: &Luggage, since: Vec<Since>) {
        for subscription in &luggage.subscriptions {
            self.on_notify(tid, &subscription.request());
        }
        for since in since {
            match since {
                Since::Asked(request) => self.on_notify(tid, &request),
                Since::Added(hosts) => {
                    self.effects(|core, out| core.notifies.hosts_added(&hosts, |to| to == tid, out));
                }
            }
        }
    }

    /// The process has ended before the master has said that it is the task: the task is over.
    fn arrived_dead(&mut self, tid: Tid, luggage: &Luggage, status: i32) {
        if let Some((batch, number)) = luggage.item {
            let ended = DaemonMsg::BatchTaskEnded { batch, number, tid, status, leaves: false };
            self.tell(batch.home, ended);
        }
        if luggage.watched {
            self.tell_master(ToMaster::TaskGone { tid });
        }
        self.task_gone(tid);
        self.moved_task_gone(tid);
    }

    /// A task has ended that had moved here, perhaps: others forget where it was.
    pub(crate) fn moved_task_gone(&mut self, tid: Tid) {
        if self.hosts.places.has(tid) {
            self.tell_master(ToMaster::MovedTaskGone { tid });
        }
    }

    /// The old host has kept nothing more for a task.
    pub(crate) fn no_more_kept(&mut self, attempt: Attempt, luggage: Option<Box<Luggage>>) {
        let Some(arrival) = self.moves.arrival(attempt) else { return };
        arrival.has_all = true;
        if let (Some((last, _)), Some(luggage)) = (&mut arrival.frozen, luggage) {
            *last = *luggage;
        }
    }

    /// Delivers what was kept for a task that lives here: what its old host has kept comes first.
    pub(crate) fn settle_arrival(&mut self, attempt: Attempt) {
        if !self.moves.arrival(attempt).is_some_and(|arrival| arrival.is_settled()) {
            return;
        }
        let Some(arrival) = self.moves.arrivals.remove(&attempt.tid) else { return };
        let kept = self.holding.release(attempt.tid).map(|kept| kept.pieces).unwrap_or_default();
        for piece in arrival.kept.into_iter().chain(kept) {
            self.deliver(Source::Daemon, attempt.tid, piece);
        }
        self.clear_flow(attempt.tid);
        self.meet_callers(attempt.tid);
        if self.is_here(attempt.tid) {
            let (luggage, _) = arrival.frozen.unwrap_or_default();
            self.subscribe_again(attempt.tid, &luggage, arrival.since);
        }
        for (asker, to) in arrival.asked {
            self.on_move_wanted(asker, attempt.tid, to);
        }
    }
}
