//! Tasks that leave this host for another.

use crate::Core;
use crate::addresses::{PeerTo, ReplyTo};
use crate::event::{Action, Attachment};
use crate::holding::Piece;
use crate::moves::{Departure, Freeze, PATIENCE, Refusal, Stage};
use crate::spawn::{Node, SIGKILL};
use crate::tasks::{Item, Movability};
use crate::timers::Timer;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::CallError;
use pvm_wire::calls::moves::{self as calls, StayHere};
use pvm_wire::codes::Tcx;
use pvm_wire::daemon::{Attempt, Blob, DaemonMsg, Luggage, MoveMsg, PeerReply, ToMaster};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeSet;
use tracing::{debug, info};

impl Core {
    /// The next host has started the successor, or could not.
    pub(crate) fn on_successor_started(&mut self, attempt: Attempt, result: Result<Tid, Refusal>) {
        let Some(departure) = self.moves.departure(attempt) else {
            if let Ok(successor) = result {
                self.kill(successor, attempt);
            }
            return;
        };
        match result {
            Err(refusal) => self.stay(attempt, refusal),
            Ok(successor) => departure.successor = Some(successor),
        }
    }

    /// The successor has enrolled: the task is told, and goes when it can.
    pub(crate) fn on_successor_ready(&mut self, attempt: Attempt, successor: Tid) {
        let Some(departure) = self.moves.departure(attempt) else { return self.kill(successor, attempt) };
        if matches!(departure.stage, Stage::Starting) {
            (departure.successor, departure.stage) = (Some(successor), Stage::Told);
            self.tell_library(attempt.tid, Tcx::Move, BodyWriter::new().int(successor.raw()));
        }
    }

    /// A task's library says something to its task's daemon about a move.
    fn tell_library(&mut self, tid: Tid, kind: Tcx, body: BodyWriter) {
        let Some(conn) = self.tasks.get(tid).and_then(|task| task.conn) else { return };
        let (header, data) = self.fragment_to_library(tid, kind, &body.finish());
        self.out.act(Action::Send { conn, header, data, with: Attachment::Nothing });
    }

    /// A task says that its program can save its state.
    pub(crate) fn on_movable(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(tid) {
            task.movability = Movability::Movable;
            self.teams.rows.note_change();
        }
        if self.owners.is_own_here() {
            self.move_away(tid);
        }
    }

    /// A task cannot move.
    pub(crate) fn on_stays(&mut self, tid: Tid, StayHere { reason }: StayHere) {
        let Some(departure) = self.moves.departures.get_mut(&tid) else { return };
        departure.again |= departure.is_asked();
        let attempt = departure.attempt;
        self.refuse_move(attempt, (PvmError::SysErr, reason));
    }

    /// A task has sent its last, and waits until nothing is on its way to it any more.
    pub(crate) fn on_freeze(&mut self, tid: Tid, reply: ReplyTo) {
        let hosts: BTreeSet<HostIndex> = self.hosts.iter().map(|entry| entry.index).collect();
        let own = self.config.index;
        let departure = self.moves.departures.get_mut(&tid);
        let Some(departure) = departure.filter(|departure| matches!(departure.stage, Stage::Told)) else {
            return self.reply_error(reply, PvmError::NotFound);
        };
        let (attempt, to) = (departure.attempt, departure.to);
        // It may have spawned a queued batch since it was asked to move.
        if let Some(refusal) = self.tasks.get(tid).and_then(|task| self.check_movable(task).err()) {
            return self.refuse_freezing(attempt, reply, refusal);
        }
        let missing: BTreeSet<HostIndex> = hosts.iter().copied().filter(|&host| host != own).collect();
        let others = missing.clone();
        let is_held_back = self.holding.has_sent(tid);
        let Some(departure) = self.moves.departure(attempt) else { return };
        departure.stage = Stage::Freezing(Freeze { reply, hosts, missing, has_consent: false, is_held_back });
        self.out.timers.cancel(Timer::Move(tid));
        self.set_timer(PATIENCE, Timer::Move(tid));
        self.holding.hold(attempt, to);
        self.tell_master(ToMaster::MoveBegins { attempt, to });
        for host in others {
            self.tell(host, DaemonMsg::Move(attempt, MoveMsg::Hold { to }));
        }
        self.freeze_on(attempt, |_| ());
    }

    /// A task that has sent its last cannot move. No other host has heard of it.
    fn refuse_freezing(&mut self, attempt: Attempt, reply: ReplyTo, refusal: Refusal) {
        let Some(departure) = self.moves.departure(attempt) else { return };
        let (hosts, missing) = (BTreeSet::new(), BTreeSet::new());
        let (has_consent, is_held_back) = (false, false);
        departure.stage = Stage::Freezing(Freeze { reply, hosts, missing, has_consent, is_held_back });
        self.stay(attempt, refusal);
    }

    /// Something has come that the freezing of a task has waited for.
    pub(crate) fn freeze_on(&mut self, attempt: Attempt, note: impl FnOnce(&mut Freeze)) {
        let Some(departure) = self.moves.departure(attempt) else { return };
        let Stage::Freezing(freeze) = &mut departure.stage else { return };
        note(freeze);
        if !freeze.is_complete() || departure.refusal.is_some() {
            return;
        }
        if freeze.is_held_back {
            return self.ask_again(attempt);
        }
        let (reply, hosts, to) = (freeze.reply, freeze.hosts.clone(), departure.to);
        let told = hosts.iter().copied().collect();
        departure.stage = Stage::Frozen { hosts };
        let luggage = Box::new(self.luggage(attempt.tid));
        self.tell(to, DaemonMsg::Move(attempt, MoveMsg::Frozen { luggage, hosts: told }));
        self.reply_to::<calls::Freeze>(reply, &());
    }

    /// This host kept messages that the task itself has sent when the others were asked. Once these are on their way the others are asked
    /// again: their answers then prove that all has come, and is not lost if this host is.
    fn ask_again(&mut self, attempt: Attempt) {
        if self.holding.has_sent(attempt.tid) {
            return;
        }
        let own = self.config.index;
        let Some(departure) = self.moves.departure(attempt) else { return };
        let to = departure.to;
        let Stage::Freezing(freeze) = &mut departure.stage else { return };
        freeze.is_held_back = false;
        freeze.missing = freeze.hosts.iter().copied().filter(|&host| host != own).collect();
        let others = freeze.missing.clone();
        for host in others {
            self.tell(host, DaemonMsg::Move(attempt, MoveMsg::Hold { to }));
        }
        self.freeze_on(attempt, |_| ());
    }

    /// What the next daemon has to know of a task.
    fn luggage(&self, tid: Tid) -> Luggage {
        let Some(task) = self.tasks.get(tid) else { return Luggage::default() };
        Luggage {
            parent: task.parent,
            output: task.output,
            trace: task.trace,
            tied_to: task.tied_to,
            item: task.report.item().map(|Item { batch, number }| (batch, number)),
            subscriptions: self.notifies.subscriptions(tid),
            observes: self.observers.request(tid).map(|request| request.every_end),
            watched: self.exchange.watches(tid),
        }
    }

    /// A task is not to move: at once if the master was not asked, else when it says so.
    pub(crate) fn refuse_move(&mut self, attempt: Attempt, refusal: Refusal) {
        let Some(departure) = self.moves.departure(attempt) else { return };
        if !departure.is_asked() {
            self.stay(attempt, refusal);
        } else if departure.refusal.is_none() {
            departure.refusal = Some(refusal);
            self.tell_master(ToMaster::MoveEnds(attempt));
        }
    }

    /// A task does not move: everything is as before.
    pub(crate) fn stay(&mut self, attempt: Attempt, refusal: Refusal) {
        if self.moves.departure(attempt).is_none() {
            return;
        }
        let Some(departure) = self.moves.departures.remove(&attempt.tid) else { return };
        let is_worth_another = departure.is_worth_another();
        let Departure { to, stage, successor, askers, ended, signals, tried, refusal: before, .. } =
            departure;
        let (error, reason) = before.unwrap_or(refusal);
        info!(task = %attempt.tid, error = error.name(), reason, again = is_worth_another, "does not move");
        self.out.timers.cancel(Timer::Move(attempt.tid));
        if let Some(successor) = successor {
            self.kill(successor, attempt);
        }
        let hosts = match stage {
            Stage::Freezing(Freeze { reply, hosts, .. }) => {
                let refused = CallError { code: error.code(), reason: reason.clone() };
                self.reply(reply, refused.encode());
                hosts
            }
            Stage::Frozen { hosts } => {
                self.tell_library(attempt.tid, Tcx::Stay, BodyWriter::new().str(&reason));
                hosts
            }
            Stage::Told => {
                self.tell_library(attempt.tid, Tcx::Stay, BodyWriter::new().str(&reason));
                BTreeSet::new()
            }
            Stage::Starting => BTreeSet::new(),
        };
        for host in hosts {
            self.tell(host, DaemonMsg::Move(attempt, MoveMsg::Release));
        }
        if !is_worth_another || !self.move_again(attempt.tid, to, tried + 1, &askers) {
            for asker in askers {
                self.answer(asker, PeerReply::Moved { result: Err((error, reason.clone())) });
            }
        }
        for signal in signals {
            self.signal_task(attempt.tid, signal);
        }
        self.hold_tasks();
        if let Some(status) = ended {
            self.end_task_with(attempt.tid, status);
        }
    }

    /// Another attempt for the same wish; whether there can be one.
    fn move_again(&mut self, tid: Tid, to: HostIndex, tried: u32, askers: &[PeerTo]) -> bool {
        let has_begun = self.begin_move(tid, Some(to), None).is_ok();
        if let Some(departure) = self.moves.departures.get_mut(&tid).filter(|_| has_begun) {
            departure.tried = tried;
            departure.askers.extend(askers);
        }
        has_begun
    }

    /// The successor of a task that stays is not needed.
    pub(crate) fn kill(&mut self, successor: Tid, attempt: Attempt) {
        debug!(task = %attempt.tid, %successor, "the successor is not needed");
        self.signal(successor, SIGKILL);
    }

    /// A task has made no call in which it can move.
    pub(crate) fn on_move_overdue(&mut self, tid: Tid) {
        let Some(departure) = self.moves.departures.get(&tid) else { return };
        if departure.is_asked() {
            let reason = format!("its successor has not had all of it within {} s", PATIENCE.as_secs());
            return self.refuse_move(departure.attempt, (PvmError::HostFail, reason));
        }
        let reason = format!(
            "it has made no call in which it can move within {} s, or another task that it talks to has not",
            PATIENCE.as_secs()
        );
        self.refuse_move(departure.attempt, (PvmError::HostFail, reason));
    }

    /// The end of a task that leaves is no end if it lives elsewhere: the master's answer is waited for. Whether it is.
    pub(crate) fn defers_end(&mut self, tid: Tid, status: i32) -> bool {
        let Some(departure) = self.moves.departures.get_mut(&tid) else { return false };
        let attempt = departure.attempt;
        let is_asked = departure.is_asked();
        if is_asked {
            departure.ended = Some(status);
        }
        self.refuse_move(attempt, (PvmError::NoTask, "it has ended".to_owned()));
        is_asked
    }

    /// A signal for a task that may live elsewhere soon; whether it is kept until that is known.
    pub(crate) fn keep_signal(&mut self, tid: Tid, signal: i32) -> bool {
        let departure = self.moves.departures.get_mut(&tid);
        let departure = departure.filter(|departure| departure.is_asked() && departure.ended.is_none());
        departure.map(|departure| departure.signals.push(signal)).is_some()
    }

    /// A task of this host lives elsewhere: nothing of it stays but what was kept for it, which follows it.
    pub(crate) fn departed(&mut self, attempt: Attempt, to: HostIndex) {
        let tid = attempt.tid;
        self.out.timers.cancel(Timer::Move(tid));
        if self.moves.departure(attempt).is_some()
            && let Some(departure) = self.moves.departures.remove(&tid)
        {
            for asker in departure.askers {
                self.answer(asker, PeerReply::Moved { result: Ok(to) });
            }
            for signal in departure.signals {
                self.tell(to, DaemonMsg::Signal { tid, signal });
            }
        }
        let is_connected = self.tasks.get(tid).is_some_and(|task| task.conn.is_some());
        let luggage = is_connected.then(|| Box::new(self.luggage(tid)));
        self.drop_departed(tid);
        for Piece { src, flags, data } in
            self.holding.release(tid).map(|kept| kept.pieces).unwrap_or_default()
        {
            let data = Blob(data);
            self.tell(to, DaemonMsg::Move(attempt, MoveMsg::Kept { src, flags, data }));
        }
        self.tell(to, DaemonMsg::Move(attempt, MoveMsg::KeptAll { luggage }));
        self.clear_flow(tid);
        self.node(Node::on_room);
        self.start_job_tasks();
    }

    fn drop_departed(&mut self, tid: Tid) {
        let Some(mut task) = self.tasks.remove(tid) else { return };
        self.out.timers.cancel(Timer::ExitGrace(tid));
        self.teams(|teams, tasks, at| teams.task_over(&task, tasks, at));
        self.close_connections(&task);
        self.notifies.forget(tid);
        self.effects(|core, out| core.observers.forget(tid, out));
        self.exchange.unwatch(tid);
        self.forget_neighbours(tid, std::mem::take(&mut task.neighbours));
        self.agents_ended(&task);
        // The process that stays behind ends by itself; its output is that of the same task.
        if let Some(stream) = task.cookie.and_then(|cookie| self.tasks.outputs.get_mut(&cookie)) {
            stream.goes_on = true;
        }
    }
}
