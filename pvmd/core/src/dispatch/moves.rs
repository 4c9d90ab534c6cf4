//! Tasks that move: the requests for it, and what any host does. The host that a task leaves is in [`super::departures`], the one that it comes
//! to in [`super::arrivals`].

use crate::Core;
use crate::addresses::{PeerTo, ReplyTo, Waiter};
use crate::flow::Source;
use crate::holding::{Piece, Said};
use crate::moves::{PATIENCE, Refusal, Stage, Way};
use crate::spawn::SIGKILL;
use crate::tasks::{Movability, Origin, Task};
use crate::timers::Timer;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::CallError;
use pvm_wire::calls::moves as calls;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::coscheduling::TEAM_VARIABLE;
use pvm_wire::daemon::{Attempt, DaemonMsg, MoveMsg, PeerReply, PeerRequest};
use pvm_wire::spawn::{Sink, SpawnRequest, entry};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::sync::Arc;
use tracing::{debug, info};

/// Requests for a move.
impl Core {
    /// A task wants one to move, perhaps itself.
    pub(crate) fn on_move_asked(&mut self, to: ReplyTo, call: &calls::Move) {
        let host = match call.host.host() {
            _ if call.host == Tid::NONE => None,
            Some(host) if self.hosts.contains(host) => Some(host),
            _ => return self.reply_error(to, PvmError::NoHost),
        };
        match self.hosts.place(call.tid).filter(|_| call.tid.is_task()) {
            Some(at) if self.hosts.is_reachable(at) => {
                self.ask(at, PeerRequest::Move { tid: call.tid, to: host }, Waiter::Move(to));
            }
            _ => self.reply_error(to, PvmError::NoTask),
        }
    }

    /// How the move went.
    pub(crate) fn reply_moved(&mut self, to: ReplyTo, result: Result<HostIndex, Refusal>) {
        match result {
            Ok(host) => self.reply_to::<calls::Move>(to, &host.host_tid()),
            Err((error, reason)) => {
                self.reply(to, CallError { code: error.code(), reason }.encode());
            }
        }
    }

    /// A daemon wants a task of this host to move.
    pub(crate) fn on_move_wanted(&mut self, asker: PeerTo, tid: Tid, to: Option<HostIndex>) {
        if to == Some(self.config.index) && self.is_here(tid) {
            return self.answer(asker, PeerReply::Moved { result: Ok(self.config.index) });
        }
        if let Some(arrival) = self.moves.unsettled(tid) {
            return arrival.asked.push((asker, to));
        }
        if let Err(refusal) = self.begin_move(tid, to, Some(asker)) {
            self.answer(asker, PeerReply::Moved { result: Err(refusal) });
        }
    }

    /// Has the successor of a task started on another host.
    pub(crate) fn begin_move(
        &mut self,
        tid: Tid,
        to: Option<HostIndex>,
        asker: Option<PeerTo>,
    ) -> Result<(), Refusal> {
        let own = self.config.index;
        let task = self.tasks.get(tid).filter(|task| !task.manager);
        let task = task.ok_or_else(|| (PvmError::NoTask, "there is no such task".to_owned()))?;
        if let Some(departure) = self.moves.departures.get_mut(&tid) {
            if to.is_some_and(|to| to != departure.to) {
                return Err((PvmError::Already, format!("it is moving to host {}", departure.to)));
            }
            departure.askers.extend(asker);
            return Ok(());
        }
        if self.moves.arrivals.contains_key(&tid) {
            return Err((PvmError::Already, "it has only just moved here".to_owned()));
        }
        self.check_movable(task)?;
        let Some(to) = to else {
            self.seek_room(tid, asker);
            return Ok(());
        };
        let (parent, spawn) = (task.parent, self.successor_of(task)?);
        let attempt = self.moves.depart(tid, own, to, asker);
        info!(task = %tid, %to, "is to move");
        self.set_timer(PATIENCE, Timer::Move(tid));
        let spawn = Box::new(spawn);
        self.ask(to, PeerRequest::Succeed { attempt, parent, spawn }, Waiter::Succeed(attempt));
        Ok(())
    }

    pub(super) fn check_movable(&self, task: &Task) -> Result<(), Refusal> {
        let reason = if task.movability == Movability::Fixed {
            "its program has not said how its state is saved (pvm_migratable)"
        } else if task.origin != Origin::Child {
            "it was not started by a daemon"
        } else if task.report.job().is_some() {
            "it is of a job: those begin again elsewhere (pvm submit --restart)"
        } else if self.home.has_queues(task.tid) {
            "it waits for queued batches of its own"
        } else {
            return Ok(());
        };
        Err((PvmError::NotImpl, reason.to_owned()))
    }

    /// Asks the master for a host: it hears of all loads first, and knows what other hosts have just been given. While there is no master
    /// this host chooses by what it knows.
    fn seek_room(&mut self, tid: Tid, asker: Option<PeerTo>) {
        let is_first = !self.moves.seeking.contains_key(&tid);
        self.moves.seeking.entry(tid).or_default().extend(asker);
        match self.hosts.master() {
            Some(master) if is_first => self.ask(master, PeerRequest::Room, Waiter::Room(tid)),
            Some(_) => {}
            None => self.on_no_room_told(tid),
        }
    }

    /// The master does not say which host has room.
    pub(crate) fn on_no_room_told(&mut self, tid: Tid) {
        let host = self.roomiest(self.config.index);
        self.on_room_found(tid, host);
    }

    /// There is a host for a task, or none.
    pub(crate) fn on_room_found(&mut self, tid: Tid, host: Option<HostIndex>) {
        let askers = self.moves.seeking.remove(&tid).unwrap_or_default();
        let begun = match host {
            Some(host) => self.begin_move(tid, Some(host), None),
            None => Err((PvmError::OutOfRes, "there is no other host for it".to_owned())),
        };
        match (begun, self.moves.departures.get_mut(&tid)) {
            (Ok(()), Some(departure)) => departure.askers.extend(askers),
            (begun, _) => {
                let refusal = begun.err().unwrap_or((PvmError::NoTask, "there is no such task".to_owned()));
                debug!(task = %tid, reason = refusal.1, "does not move");
                for asker in askers {
                    self.answer(asker, PeerReply::Moved { result: Err(refusal.clone()) });
                }
                self.hold_tasks();
            }
        }
    }

    /// The host that has most room for a task of another one, without an owner who is there.
    pub(crate) fn roomiest(&mut self, from: HostIndex) -> Option<HostIndex> {
        let hosts = self.hosts.members().indices();
        let hosts = hosts.filter(|&host| host != from && !self.owners.is_here(host));
        self.room.choose(from, hosts.map(|host| (host, self.loads.get(host))))
    }

    /// What is started for a task to go on from: its program, as it was started.
    fn successor_of(&self, task: &Task) -> Result<SpawnRequest, Refusal> {
        let started = task.started_as.as_deref();
        let started =
            started.ok_or_else(|| (PvmError::NotImpl, "nothing is known of its start".to_owned()))?;
        let mut spawn = started.clone();
        (spawn.output, spawn.trace, spawn.count) = (Sink::default(), Sink::default(), 1);
        let team = self.teams.name_of(Some(task), task.tid);
        spawn.env.push(entry(TEAM_VARIABLE, team));
        Ok(spawn)
    }
}

/// On any host.
impl Core {
    /// A daemon says something about a task that moves.
    pub(crate) fn on_move_message(&mut self, from: HostIndex, attempt: Attempt, what: MoveMsg) {
        // A deputy that was deleted keeps its link for a while, and may not know that it is out. Its moves have ended here.
        if self.hosts.known(from).is_none() {
            return debug!(host = %from, ?attempt, "a host that is out speaks of a move: ignored");
        }
        match what {
            MoveMsg::Ready { successor } => self.on_successor_ready(attempt, successor),
            MoveMsg::Hold { to } if from == attempt.from => {
                self.holding.hold(attempt, to);
                self.tell(from, DaemonMsg::Move(attempt, MoveMsg::Held));
            }
            // Before the master's word that the task lives there, perhaps: then that is waited for.
            MoveMsg::Release if from == attempt.from && self.hosts.place(attempt.tid) != Some(from) => {
                self.holding.release_later(attempt);
            }
            MoveMsg::Release if from == attempt.from => self.release(attempt),
            MoveMsg::Held => self.freeze_on(attempt, |freeze| {
                freeze.missing.remove(&from);
            }),
            MoveMsg::Failed { reason } => self.refuse_move(attempt, (PvmError::HostFail, reason)),
            MoveMsg::Frozen { luggage, hosts } if from == attempt.from => {
                if let Some(arrival) = self.moves.arrival(attempt) {
                    arrival.frozen = Some((*luggage, hosts));
                    self.propose(attempt);
                }
            }
            MoveMsg::Kept { src, flags, data } if from == attempt.from => {
                if let Some(arrival) = self.moves.arrival(attempt) {
                    arrival.kept.push(Piece { src, flags, data: data.0 });
                }
            }
            MoveMsg::KeptAll { luggage } if from == attempt.from => {
                self.no_more_kept(attempt, luggage);
                self.settle_arrival(attempt);
            }
            other => debug!(host = %from, ?attempt, ?other, "word about a move out of place: ignored"),
        }
    }

    /// The master consents to an attempt.
    pub(crate) fn on_move_begun(&mut self, attempt: Attempt) {
        self.freeze_on(attempt, |freeze| freeze.has_consent = true);
    }

    /// The master says that a task does not move.
    pub(crate) fn on_move_refused(&mut self, attempt: Attempt) {
        if let Some(departure) = self.moves.departure(attempt).filter(|departure| departure.refusal.is_none())
        {
            departure.again = true;
        }
        let reason = "the hosts of the machine have changed meanwhile: try again".to_owned();
        self.stay(attempt, (PvmError::HostFail, reason));
        if let Some(arrival) = self.moves.arrival(attempt) {
            let successor = arrival.successor;
            self.moves.arrivals.remove(&attempt.tid);
            self.signal_task(successor, SIGKILL);
        }
    }

    /// The master says that a task lives on another host.
    pub(crate) fn on_moved(&mut self, attempt: Attempt, to: HostIndex) {
        let (tid, own) = (attempt.tid, self.config.index);
        self.hosts.places.set(tid, to);
        let said = self.holding.take_said(tid, to);
        if attempt.from == own {
            self.departed(attempt, to);
        } else if to == own {
            self.arrived(attempt);
        }
        if attempt.from != own && to != own && self.holding.attempt(tid) == Some(attempt) {
            self.release(attempt);
        } else if let Some(over) = self.holding.released_at(tid, to) {
            self.release(over);
        }
        self.effects(|core, out| core.notifies.task_moved(tid, to, out));
        if to != own {
            self.observers.moved(tid, to);
        }
        let listeners: Vec<Tid> =
            self.tasks.iter().filter(|task| task.extended && task.tid != tid).map(|task| task.tid).collect();
        for listener in listeners {
            self.tell_of_place(listener, tid, to);
        }
        for Said { dsts, flags, data, .. } in said {
            self.on_peer_data(to, tid, &dsts, flags, &data);
        }
    }

    /// Tells a task's library where another task lives.
    pub(crate) fn tell_of_place(&mut self, listener: Tid, tid: Tid, host: HostIndex) {
        let body = BodyWriter::new().int(tid.raw()).int(host.host_tid().raw()).finish();
        self.send_message(Source::Daemon, listener, CONTEXT_TC, Tcx::Moved.tag(), body);
    }

    /// A task has ended that had moved. Its subscribers are told, if they were not.
    pub(crate) fn on_moved_task_gone(&mut self, tid: Tid) {
        self.task_gone(tid);
        self.observers.moved_gone(tid);
        self.hosts.places.forget(tid);
        self.forget_moved(tid);
    }

    /// A task has ended that had moved, and may have left something here.
    pub(crate) fn forget_moved(&mut self, tid: Tid) {
        self.tasks.contexts.forget(tid);
        self.home(|home, at| home.parent_gone(tid, at));
    }

    /// A task stays, or this host knows now where it is: what was kept for it goes there.
    fn release(&mut self, attempt: Attempt) {
        if self.holding.attempt(attempt.tid) != Some(attempt) {
            return;
        }
        let Some(kept) = self.holding.release(attempt.tid) else { return };
        for piece in kept.pieces {
            self.forward(Source::Daemon, attempt.tid, piece);
        }
        self.clear_flow(attempt.tid);
        self.meet_callers(attempt.tid);
        self.look_at_freezing();
    }

    /// Hosts have joined: those that tasks leave ask them, too, to keep what is for these.
    pub(crate) fn moves_hosts_added(&mut self, added: &[HostIndex]) {
        let mut asked = Vec::new();
        for departure in self.moves.departures.values_mut() {
            if let Stage::Freezing(freeze) = &mut departure.stage {
                freeze.hosts.extend(added);
                freeze.missing.extend(added);
                asked.push((departure.attempt, departure.to));
            }
        }
        for (attempt, to) in asked {
            for &host in added {
                self.tell(host, DaemonMsg::Move(attempt, MoveMsg::Hold { to }));
            }
        }
    }

    /// A host is out. What was to come from there or to go there does not, unless the master has said that it has.
    pub(crate) fn moves_host_gone(&mut self, host: HostIndex) {
        let lost = || (PvmError::HostFail, format!("host {host} is out"));
        let departures = self.moves.departures.values().map(|departure| (departure.attempt, departure.to));
        for (attempt, to) in departures.collect::<Vec<_>>() {
            if to == host {
                self.stay(attempt, lost());
            } else {
                self.freeze_on(attempt, |freeze| {
                    freeze.missing.remove(&host);
                });
            }
        }
        let arrivals = self.moves.arrivals.values().filter(|arrival| arrival.attempt.from == host);
        for (attempt, successor, way) in
            arrivals.map(|arrival| (arrival.attempt, arrival.successor, arrival.way)).collect::<Vec<_>>()
        {
            if way == Way::Here {
                self.no_more_kept(attempt, None);
                self.settle_arrival(attempt);
            } else {
                self.moves.arrivals.remove(&attempt.tid);
                self.signal_task(successor, SIGKILL);
            }
        }
        for attempt in self.holding.concerning(host) {
            // The host that a task leaves says itself that the task stays.
            if attempt.from == host {
                self.holding.release(attempt.tid);
                self.clear_flow(attempt.tid);
            }
        }
        self.look_at_freezing();
    }

    /// A freeze waits while this host keeps messages that the task itself has sent. Checks again whether that has ended.
    fn look_at_freezing(&mut self) {
        for waiting in self.moves.freezing() {
            self.freeze_on(waiting, |_| ());
        }
    }

    /// Keeps a piece for a task that moves; gives it back if it can go on.
    pub(crate) fn keep(&mut self, source: Source, dst: Tid, piece: Piece) -> Option<Piece> {
        if self.holding.len() == 0 {
            return Some(piece);
        }
        let flags = piece.flags;
        match self.holding.keep(dst, piece) {
            Err(piece) => Some(piece),
            Ok(bytes) => {
                if bytes > self.config.limits.queue_high {
                    self.tasks.flow.fill(dst);
                    self.hold_back(source, dst, flags);
                }
                None
            }
        }
    }

    /// A piece for a task that was here, or is to be, is passed on or kept. On the host that a task leaves, answers and what other hosts have
    /// sent before they kept it still go to the task.
    pub(crate) fn keep_or_pass_on(&mut self, source: Source, dst: Tid, piece: Piece) -> Option<Piece> {
        match self.holding.attempt(dst) {
            Some(attempt) if attempt.from == self.config.index => return Some(piece),
            Some(_) => return self.keep(source, dst, piece),
            None => {}
        }
        match self.hosts.place(dst).filter(|&host| host != self.config.index && self.hosts.places.has(dst)) {
            Some(host) => {
                debug!(src = %piece.src, %dst, %host, "fragment for a task that has moved: passed on");
                self.send_data(source, host, piece.to(vec![dst]));
                None
            }
            None => Some(piece),
        }
    }
}

/// What a successor's process is started as.
pub(crate) fn started_as(spawn: &SpawnRequest) -> Arc<SpawnRequest> {
    Arc::new(SpawnRequest { traffic: Vec::new(), ..spawn.clone() })
}
