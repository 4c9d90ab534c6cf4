//! As node: starting tasks that a spawn's home, or the resource manager, orders here.

use crate::Core;
use crate::addresses::ExecId;
use crate::event::{Action, Cookie};
use crate::spawn::SIGKILL;
use crate::spawn::node::{Exec, ExecTo, Order, Stage, program};
use crate::spawn::refusals::Refusals;
use crate::tasks::Origin;
use pvm_wire::batch::BatchId;
use pvm_wire::body::BodyWriter;
use pvm_wire::calls::Field;
use pvm_wire::codes::Sm;
use pvm_wire::daemon::PeerReply;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::{PvmError, Tid};
use tracing::{debug, info};

impl Core {
    /// Another daemon (or this one) has us start tasks.
    pub(crate) fn on_exec(
        &mut self,
        to: ExecTo,
        batch: Option<BatchId>,
        count: u32,
        first: u32,
        parent: i32,
        mut spawn: SpawnRequest,
    ) {
        self.tracers.complete(&mut spawn);
        let count = (count as usize).min(BATCH_MAX);
        let id = self.node.next_id();
        debug!(?to, ?batch, first, count, file = %spawn.file.display(), "asked to start tasks");
        let (results, refusals) = (vec![None; count], Refusals::default());
        self.node.execs.insert(id, Exec { to, batch, results, open: count, refusals, stage: Stage::Begun });
        if count == 0 {
            return self.finish_exec(id);
        }
        self.start_some(id, Order { next: 0, first, parent, spawn });
    }

    /// Starts as many tasks of an order as there is room for; if there is none, nothing waits.
    fn start_some(&mut self, id: ExecId, mut order: Order) {
        let Some((batch, count)) = self.node.execs.get(&id).map(|exec| (exec.batch, exec.results.len()))
        else {
            return;
        };
        let limit = self.config.task_limit;
        let room = (limit as usize).saturating_sub(self.running());
        let cookies = self.announce_some(id, batch, &order, count.min(order.next.saturating_add(room)));
        order.next += cookies.len();
        let by_tasker = self.services.tasker.is_some();
        let rest_waits = !by_tasker && !cookies.is_empty();
        let refused = if rest_waits { count } else { order.next }..count;
        if !cookies.is_empty() {
            let program = program(&order.spawn);
            if by_tasker {
                self.out.act(Action::Locate { cookies, program });
            } else {
                self.start_processes(cookies, program);
            }
        }
        if let Some(exec) = self.node.execs.get_mut(&id) {
            exec.stage = match order {
                order if by_tasker => Stage::Handed(Box::new(order)),
                order if rest_waits && order.next < count => Stage::Partly(Box::new(order)),
                _ => Stage::Begun,
            };
        }
        for number in refused {
            let reason = format!("no room for another task: it may have {limit} (PVM_TASK_LIMIT)");
            self.exec_result(id, number, Err((PvmError::OutOfRes, reason)));
        }
    }

    /// Makes the records of an order's next tasks, up to a number.
    fn announce_some(
        &mut self,
        id: ExecId,
        batch: Option<BatchId>,
        order: &Order,
        end: usize,
    ) -> Vec<Cookie> {
        let spawn = &order.spawn;
        let (by_tasker, queued) = (self.services.tasker.is_some(), spawn.flags & flags::QUEUED != 0);
        let team = self.team_of_child(&spawn.env, order.parent);
        let mut cookies = Vec::new();
        for number in order.next..end {
            let announced = self.announce(|task| {
                task.parent = order.parent;
                task.origin = if by_tasker { Origin::Tasker } else { Origin::Child };
                task.output = spawn.output;
                task.trace = spawn.trace;
                task.spawn_flags = spawn.flags;
                task.name.clone_from(&spawn.file);
                task.exec = Some((id, number));
                task.item = batch.filter(|_| queued).map(|batch| (batch, order.first + number as u32));
            });
            let Some((tid, cookie)) = announced else { break };
            if let Some(team) = &team {
                self.enlist(tid, team);
            }
            cookies.push(cookie);
        }
        cookies
    }

    /// The driver has started a process, or could not.
    pub(crate) fn on_process_started(
        &mut self,
        cookie: Cookie,
        result: Result<(i32, String), (PvmError, String)>,
    ) {
        let Some(tid) = self.tasks.by_cookie(cookie) else {
            // Its record is gone already: what was started for it must not stay.
            if let Ok((pid, _)) = result {
                self.out.act(Action::Signal { pid, signal: SIGKILL });
            }
            return;
        };
        let Some(task) = self.tasks.get_mut(tid) else { return };
        match result {
            Ok((pid, path)) => {
                if task.conn.is_some() && task.pid != pid {
                    // What has enrolled meanwhile is a child of what was started.
                    task.origin = Origin::Itself;
                } else {
                    task.pid = pid;
                }
                let exec = task.exec.take();
                debug!(%tid, pid, path, "task started");
                self.join_team(tid);
                self.trace_started(tid);
                self.observed_begin(tid);
                self.output_started(cookie);
                if let Some((exec, number)) = exec {
                    self.exec_result(exec, number, Ok(tid));
                }
            }
            Err((error, reason)) => {
                let (exec, manager) = (task.exec.take(), task.manager);
                info!(%tid, file = %task.name.display(), error = error.name(), reason, "task not started");
                self.tasks.outputs.remove(&cookie);
                if let Some(task) = self.tasks.remove(tid) {
                    // A process may have enrolled in its place.
                    self.leave_team((task.team, task.pid), true);
                    self.teams.dismiss(task.team);
                }
                if manager {
                    self.on_manager_not_started(tid, &reason);
                }
                if let Some((exec, number)) = exec {
                    self.exec_result(exec, number, Err((error, reason)));
                }
            }
        }
    }

    pub(crate) fn exec_result(&mut self, id: ExecId, number: usize, result: Result<Tid, (PvmError, String)>) {
        let Some(exec) = self.node.execs.get_mut(&id) else { return };
        let result = match result {
            Ok(tid) => tid.raw(),
            Err((error, reason)) => {
                exec.refusals.note(Some(self.config.index), error, 1, &reason);
                error.code()
            }
        };
        if let Some(slot @ None) = exec.results.get_mut(number) {
            *slot = Some(result);
            exec.open -= 1;
        }
        if exec.open == 0 {
            self.finish_exec(id);
        } else if let Some(order) = exec.take_rest() {
            self.start_some(id, *order);
        }
    }

    fn finish_exec(&mut self, id: ExecId) {
        let Some(exec) = self.node.execs.remove(&id) else { return };
        let results: Vec<i32> = exec.results.into_iter().flatten().collect();
        match exec.to {
            ExecTo::Peer(to) => {
                let refusals = exec.refusals.into_list();
                self.answer(to, PeerReply::Started { results, refusals });
            }
            ExecTo::Service(to) => {
                let body = results.write(BodyWriter::new()).finish();
                self.answer_service(to, Sm::ExecAck, body);
            }
        }
        if let Some(batch) = exec.batch {
            self.apply_again(batch);
        }
    }
}
