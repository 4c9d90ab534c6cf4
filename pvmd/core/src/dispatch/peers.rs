//! Requests between daemons: what others ask of this one, and what their answers are for.

use crate::Core;
use crate::addresses::{PeerTo, QueryId, ReplyTo, Waiter};
use crate::answers::encode_added;
use crate::dispatch::certificates;
use crate::event::ConnId;
use crate::master::Master;
use crate::pending::{HostBatches, Query};
use crate::spawn::ExecTo;
use pvm_wire::calls::hosts::{Adding, Clock, DeleteHosts, HostClock, HostStatus};
use pvm_wire::calls::jobs::AskJobs;
use pvm_wire::calls::owner::Owner;
use pvm_wire::calls::spawn::CancelBatch;
use pvm_wire::calls::tasks::{ListTasks, TaskList, TaskRecord, TaskStatus};
use pvm_wire::calls::turns::{History, Rows, Turns};
use pvm_wire::codes::{EXTENSION_VERSION, Sm, task_flags};
use pvm_wire::daemon::{DaemonMsg, MasterReply, PeerReply, PeerRequest, RequestId, ToMaster};
use pvm_wire::{HostIndex, PvmError, Tid};
use tracing::warn;

impl Core {
    /// Asks another daemon (or this one) for something. A host that is not there answers at once, by its absence.
    pub(crate) fn ask(&mut self, host: HostIndex, what: PeerRequest, waiter: Waiter) {
        if !self.hosts.is_reachable(host) {
            return self.on_no_reply(host, waiter);
        }
        let id = self.pending.ask(Some(host), waiter);
        self.tell(host, DaemonMsg::Request { id, what });
    }

    /// Answers another daemon (or this one).
    pub(crate) fn answer(&mut self, to: PeerTo, what: PeerReply) {
        self.tell(to.host, DaemonMsg::Reply { id: to.id, what });
    }

    pub(crate) fn on_peer_request(&mut self, to: PeerTo, what: PeerRequest) {
        match what {
            PeerRequest::Exec { batch, count, first, parent, spawn } => {
                self.on_exec(ExecTo::Peer(to), batch, count, first, parent, *spawn);
            }
            PeerRequest::Tasks { only } => {
                let listed = self.tasks.iter().filter(|task| task.is_shown());
                let tasks = listed.filter(|task| only.is_none_or(|tid| tid == task.tid));
                let tasks = tasks.map(|task| task.record(self.config.index)).collect();
                self.answer(to, PeerReply::Tasks { tasks });
            }
            PeerRequest::TaskStatus { tid } => {
                let alive = self.is_here(tid);
                self.answer(to, PeerReply::TaskStatus { alive });
            }
            PeerRequest::Batches => {
                let batches = self.home.records(self.config.policy);
                let policies = self.home.tallies(&self.agents.sent());
                self.answer(to, PeerReply::Batches { batches, policies });
            }
            PeerRequest::CancelBatch { id } => self.home(|home, at| home.on_cancel(to, id, at)),
            PeerRequest::Turns => self.on_turns_wanted(to),
            PeerRequest::History { since } => {
                let history = self.teams.turns_since(since, self.time_of_day());
                self.answer(to, PeerReply::History { history });
            }
            PeerRequest::Move { tid, to: host } => self.on_move_wanted(to, tid, host),
            PeerRequest::Succeed { attempt, parent, spawn } => {
                self.on_succeed(to, attempt, parent, *spawn);
            }
            PeerRequest::Room => {
                let host = self.roomiest(to.host);
                self.answer(to, PeerReply::Room { host });
            }
            PeerRequest::Ping => self.answer(to, PeerReply::Pong),
            PeerRequest::Adding => {
                let additions = self.master_state().map(Master::additions).unwrap_or_default();
                self.answer(to, PeerReply::Adding { additions });
            }
            PeerRequest::Owner { said } => self.on_owner_wanted(to, said),
            PeerRequest::Rows => self.on_rows_wanted(to),
            PeerRequest::Certify(request) => self.on_certify(to, request),
            PeerRequest::Clock => {
                let microseconds = self.time_of_day().as_micros() as u64;
                self.answer(to, PeerReply::Clock { microseconds });
            }
        }
    }

    pub(crate) fn on_peer_reply(&mut self, from: HostIndex, id: RequestId, what: PeerReply) {
        if let Some(waiter) = self.pending.take(Some(from), id) {
            self.on_answer(from, waiter, what);
        }
    }

    fn on_answer(&mut self, from: HostIndex, waiter: Waiter, what: PeerReply) {
        match (waiter, what) {
            (Waiter::Turns(to), PeerReply::Turns { report }) => self.reply_to::<Turns>(to, &report),
            (Waiter::Turns(to), PeerReply::History { history }) => self.reply_to::<History>(to, &history),
            (Waiter::Mstat(to), PeerReply::Pong) => self.reply_to::<HostStatus>(to, &()),
            (Waiter::MasterLost(other), PeerReply::Pong) => self.tell(other, DaemonMsg::MasterLives),
            (Waiter::Pstat(to), PeerReply::TaskStatus { alive }) => {
                self.reply_done::<TaskStatus>(to, if alive { Ok(()) } else { Err(PvmError::NoTask) });
            }
            (Waiter::HostSync(to), PeerReply::Clock { microseconds }) => {
                let (seconds, micros) = (microseconds / 1_000_000, microseconds % 1_000_000);
                let clock = Clock { seconds: seconds as i32, micros: micros as i32 };
                self.reply_to::<HostClock>(to, &clock);
            }
            (Waiter::Adding(to), PeerReply::Adding { additions }) => self.reply_to::<Adding>(to, &additions),
            (Waiter::Owner(to), PeerReply::Owner { state }) => self.reply_to::<Owner>(to, &state),
            (Waiter::Move(to), PeerReply::Moved { result }) => self.reply_moved(to, result),
            (Waiter::Succeed(attempt), PeerReply::Started { results, refusals, .. }) => {
                let reason = refusals.into_iter().next().map(|refusal| refusal.reason);
                let reason = reason.unwrap_or_else(|| "its successor was not started".to_owned());
                let result = match results.first().copied().unwrap_or(PvmError::SysErr.code()) {
                    code if code > 0 => Ok(Tid::from_raw(code)),
                    code => Err((PvmError::from_code(code).unwrap_or(PvmError::SysErr), reason)),
                };
                self.on_successor_started(attempt, result);
            }
            (Waiter::Room(tid), PeerReply::Room { host }) => self.on_room_found(tid, host),
            (Waiter::Rows(to), PeerReply::Rows { report }) => self.reply_to::<Rows>(to, &report),
            (Waiter::Certificate(to), PeerReply::Certified { result }) => self.reply_certified(to, result),
            (Waiter::Tasks { query, hidden }, PeerReply::Tasks { tasks }) => {
                self.on_tasks_part(from, query, hidden, tasks);
            }
            (Waiter::Batches(query), PeerReply::Batches { batches, policies }) => {
                self.on_batches_part(from, query, HostBatches { batches, policies });
            }
            (Waiter::CancelBatch(to), PeerReply::BatchCancelled { code }) => {
                self.reply_done::<CancelBatch>(to, pvm_wire::error::check(code).map(drop));
            }
            (Waiter::Exec(part), PeerReply::Started { has_owner: true, .. }) => {
                self.home(|home, at| home.on_host_with_owner(from, part, at));
            }
            (Waiter::Exec(part), PeerReply::Started { results, refusals, .. }) => {
                self.home(|home, at| home.on_started(from, part, &results, refusals, at));
            }
            (waiter, _) => {
                warn!(host = %from, ?waiter, "answer of the wrong kind");
                self.on_no_reply(from, waiter);
            }
        }
    }

    /// The master has answered.
    pub(crate) fn on_master_reply(&mut self, id: RequestId, what: MasterReply) {
        let Some(waiter) = self.pending.take(None, id) else { return };
        match (waiter, what) {
            (Waiter::AddHosts(to), MasterReply::Added { results }) => self.reply(to, encode_added(results)),
            (Waiter::ServiceAdd(to), MasterReply::Added { results }) => {
                self.answer_service(to, Sm::AddAck, encode_added(results));
            }
            (Waiter::DeleteHosts(to), MasterReply::Deleted { results }) => {
                self.reply_to::<DeleteHosts>(to, &results);
            }
            (Waiter::Mailbox(to), MasterReply::Mailbox { body }) => self.reply(to, body.0.to_vec()),
            (Waiter::Jobs(to), MasterReply::Jobs(answer)) => self.reply_to::<AskJobs>(to, &answer),
            (waiter, _) => {
                warn!(?waiter, "answer of the wrong kind by the master");
                self.on_no_reply(self.config.index, waiter);
            }
        }
    }

    /// The host that was asked is gone.
    pub(crate) fn on_no_reply(&mut self, host: HostIndex, waiter: Waiter) {
        match waiter {
            Waiter::Mstat(to)
            | Waiter::Turns(to)
            | Waiter::Pstat(to)
            | Waiter::HostSync(to)
            | Waiter::Adding(to)
            | Waiter::Owner(to)
            | Waiter::Rows(to)
            | Waiter::Move(to)
            | Waiter::AddHosts(to)
            | Waiter::DeleteHosts(to)
            | Waiter::CancelBatch(to)
            | Waiter::Jobs(to)
            | Waiter::Mailbox(to) => self.reply_error(to, PvmError::HostFail),
            Waiter::Certificate(to) => self.reply_certified(to, Err(certificates::no_master())),
            Waiter::ServiceAdd(to) => {
                self.answer_service(to, Sm::AddAck, PvmError::HostFail.code().to_be_bytes().to_vec());
            }
            Waiter::MasterLost(_) => {}
            Waiter::Room(tid) => self.on_no_room_told(tid),
            Waiter::Succeed(attempt) => {
                let lost = (PvmError::HostFail, format!("host {host} is out"));
                self.on_successor_started(attempt, Err(lost));
            }
            Waiter::Tasks { query, hidden } => self.on_tasks_part(host, query, hidden, Vec::new()),
            Waiter::Batches(query) => self.on_batches_part(host, query, HostBatches::default()),
            Waiter::Exec(part) => self.home(|home, at| home.on_exec_lost(host, part, at)),
        }
    }

    /// Everything that was asked of a host which is gone.
    pub(crate) fn fail_pending(&mut self, host: HostIndex) {
        for waiter in self.pending.take_all(host) {
            self.on_no_reply(host, waiter);
        }
    }

    /// TM_TASK: 0 asks for all hosts, a host's tid for one, a task's tid for itself. Our library can ask for flags that
    /// the original does not have.
    pub(crate) fn on_task_list(&mut self, to: ReplyTo, request: &ListTasks) {
        let knows = request.version == Some(EXTENSION_VERSION);
        self.list_tasks(to, request.which, if knows { 0 } else { task_flags::EXTENDED });
    }

    fn list_tasks(&mut self, to: ReplyTo, which: Tid, hidden: i32) {
        let hosts: Vec<HostIndex> = match self.hosts.place(which) {
            None if which == Tid::NONE => self.hosts.iter().map(|entry| entry.index).collect(),
            Some(host) if self.hosts.contains(host) => vec![host],
            _ => return self.reply_error(to, PvmError::NoHost),
        };
        let only = which.is_task().then_some(which);
        let query = self.pending.list_tasks(to, &hosts);
        for host in hosts {
            self.ask(host, PeerRequest::Tasks { only }, Waiter::Tasks { query, hidden });
        }
    }

    fn on_tasks_part(&mut self, from: HostIndex, query: QueryId, hidden: i32, mut tasks: Vec<TaskRecord>) {
        for task in &mut tasks {
            task.flags &= !hidden;
        }
        if let Some(Query { to, mut found, .. }) = self.pending.add_tasks(query, from, tasks) {
            found.sort_by_key(|task| task.tid);
            self.reply_to::<ListTasks>(to, &TaskList { tasks: found });
        }
    }

    /// A connection whose task may have waited for something is gone.
    pub(crate) fn forget_waiters(&mut self, conn: ConnId) {
        for id in self.pending.withdraw(conn) {
            self.tell_master(ToMaster::Withdraw { id });
        }
    }
}
