//! Starting tasks: what the core does about the decisions of home and node.

use crate::Core;
use crate::addresses::{ExecId, QueryId, ReplyTo, SpawnId, Waiter};
use crate::decision::Decision;
use crate::dispatch::moves::started_as;
use crate::effect::{Placement, Started};
use crate::event::{Action, Cookie, Program};
use crate::flow::Source;
use crate::pending::{HostBatches, Query};
use crate::spawn::{ExecTo, Fate, Home, Node, Offer, Order, Placed, SIGKILL, SIGTERM, preset, program};
use crate::tasks::{Item, Origin, Report, Task, Tasks};
use crate::timers::Timer;
use pvm_sched::policy::Policy;
use pvm_wire::batch::{BatchId, BatchMsg};
use pvm_wire::calls::spawn::{BatchList, Batches};
use pvm_wire::codes::{BATCH_TAG, Sm};
use pvm_wire::daemon::{DaemonMsg, PeerRequest};
use pvm_wire::output::OutputEvent;
use pvm_wire::queue::QueueRequest;
use pvm_wire::spawn::{SpawnRequest, flags};
use pvm_wire::turn_rules::TurnRule;
use pvm_wire::{HostIndex, Message, PvmError, Tid};
use tracing::{debug, error, info, warn};

impl Core {
    /// Has the home's part decide something, and carries out what follows.
    pub(crate) fn home<R>(&mut self, decide: impl FnOnce(&mut Home, &mut Decision<'_>) -> R) -> R {
        self.effects(|core, out| {
            let known = (&core.config, &core.hosts, &core.loads, &core.owners);
            let at = &mut Decision::new(known, core.now, out);
            decide(&mut core.home, at)
        })
    }

    /// Has the node's part decide something, and carries out what follows.
    pub(crate) fn node<R>(&mut self, decide: impl FnOnce(&mut Node, &Tasks, &mut Decision<'_>) -> R) -> R {
        self.effects(|core, out| {
            let known = (&core.config, &core.hosts, &core.loads, &core.owners);
            let at = &mut Decision::new(known, core.now, out);
            decide(&mut core.node, &core.tasks, at)
        })
    }
}

/// As home.
impl Core {
    /// A host reports the end of a task of a queued batch.
    pub(crate) fn on_batch_task_ended(&mut self, batch: BatchId, (number, tid): (u32, Tid), fate: Fate) {
        self.home(|home, at| home.on_task_ended(batch, number, tid, fate, at));
    }

    /// TM_SPAWN.
    pub(crate) fn on_spawn(&mut self, spawner: Tid, to: ReplyTo, mut request: SpawnRequest) {
        self.preset(spawner, &mut request);
        let team = self.teams.name_of(self.tasks.get(spawner), spawner);
        self.home(|home, at| home.on_spawn(spawner, to, request, &team, at));
    }

    /// A task asks for a queued batch.
    pub(crate) fn on_queue(&mut self, parent: Tid, to: ReplyTo, mut request: QueueRequest) {
        self.preset(parent, &mut request.spawn);
        let team = self.teams.name_of(self.tasks.get(parent), parent);
        self.home(|home, at| home.on_queue(parent, to, request, &team, at));
    }

    /// What a queue says of its jobs' tasks holds for what these spawn.
    fn preset(&self, spawner: Tid, request: &mut SpawnRequest) {
        if let Some(task) = self.tasks.get(spawner) {
            preset::pass_on(&task.policy, request);
            if task.turns.is_some() {
                TurnRule::set_in(task.turns, &mut request.env);
            }
        }
    }

    pub(crate) fn start_manager(&mut self) {
        let announced = self.announce(|task| {
            task.origin = Origin::Child;
            task.manager = true;
            task.name = "pvm-task-manager".into();
        });
        let Some((tid, cookie)) = announced else { return self.home(Home::no_manager) };
        self.home.manager_starting(tid);
        self.start_processes(vec![cookie], Program { manager: true, ..Program::default() });
    }

    pub(crate) fn end_manager(&mut self, manager: Tid) {
        if let Some(task) = self.tasks.get(manager) {
            self.out.act(Action::Signal { pid: task.pid, signal: SIGTERM });
        }
    }

    /// Hands a batch to its manager.
    pub(crate) fn place(&mut self, manager: Tid, placement: Placement) {
        let Placement { batch, count, nodes, queued, policy, last } = placement;
        let is_node = nodes.iter().any(|node| node.host == self.config.index);
        let own = is_node.then(|| {
            self.node(|node, tasks, at| node.own_application(Offer { manager, batch, queued }, tasks, at))
        });
        let (soft, policy, own) = (!queued, policy.name().to_owned(), own.flatten());
        self.send_batch(manager, &BatchMsg::Place { batch, count, nodes, soft, policy, last, own });
    }

    /// A spawn's task runs: its sinks hear of it.
    pub(crate) fn report_start(&mut self, Started { tid, spawner, parent, trace, output }: Started) {
        self.trace_spawned(trace, tid, parent);
        self.send_output(Source::Daemon, output, tid, OutputEvent::Spawned(spawner.raw()));
    }

    /// A task wants to know of all batches.
    pub(crate) fn on_list_batches(&mut self, to: ReplyTo) {
        let hosts: Vec<HostIndex> = self.hosts.iter().map(|entry| entry.index).collect();
        let id = self.pending.list_batches(to, &hosts);
        for host in hosts {
            self.ask(host, PeerRequest::Batches, Waiter::Batches(id));
        }
    }

    pub(crate) fn on_batches_part(&mut self, from: HostIndex, id: QueryId, part: HostBatches) {
        if let Some(Query { to, found, .. }) = self.pending.add_batches(id, from, part) {
            let mut list = BatchList { batches: Vec::new(), policies: Vec::new() };
            for HostBatches { batches, policies } in found {
                list.batches.extend(batches);
                list.policies.extend(policies);
            }
            self.reply_to::<Batches>(to, &list);
        }
    }

    /// A task cancels a batch, wherever that has its home.
    pub(crate) fn on_cancel_batch(&mut self, to: ReplyTo, id: i32) {
        match Tid::from_raw(id).host().filter(|&home| id > 0 && self.hosts.is_reachable(home)) {
            Some(home) => self.ask(home, PeerRequest::CancelBatch { id }, Waiter::CancelBatch(to)),
            None => self.reply_error(to, PvmError::NotFound),
        }
    }
}

/// As node.
impl Core {
    /// Another daemon (or this one), or the resource manager, has us start tasks.
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
        debug!(?to, ?batch, first, count, file = %spawn.file.display(), "asked to start tasks");
        let order = Order { next: 0, first, parent, succeeds: None, spawn };
        self.node(|node, tasks, at| node.on_exec(to, batch, count, order, tasks, at));
    }

    /// Starts as many tasks of an order as there is room for.
    pub(crate) fn start_tasks(&mut self, id: ExecId) {
        let room = (self.config.task_limit as usize).saturating_sub(self.tasks.running());
        let Some((batch, order, end)) = self.node.take_order(id, room) else { return };
        let by_tasker = self.services.tasker.is_some();
        let cookies = self.announce_some(id, batch, &order, end);
        let count = cookies.len();
        if count > 0 {
            let program = program(&order.spawn);
            if by_tasker {
                self.out.act(Action::Locate { cookies, program });
            } else {
                self.start_processes(cookies, program);
            }
        }
        self.node(|node, tasks, at| node.begun(id, (order, count), by_tasker, tasks, at));
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
        let team = self.teams.of_child(&spawn.env, order.parent, &self.tasks);
        // A resource manager orders tasks for others, and says no more of those than the parent.
        let home = || self.node.home_of(id).or_else(|| Tid::from_raw(order.parent.max(0)).host());
        let tied_to = if spawn.flags & flags::TIED != 0 { home() } else { None };
        let policy = spawn.policy.parse().ok().filter(|policy: &Policy| policy.has_agents());
        let placed = policy.zip(home()).zip(batch);
        let placed =
            placed.map(|((policy, home), batch)| Placed { policy, home, request: SpawnId(batch.number) });
        let (preset, turns) = (preset::named_in(&spawn.env), TurnRule::named_in(&spawn.env));
        let started_as = started_as(spawn);
        let mut cookies = Vec::new();
        for number in order.next..end {
            let announced = self.announce(|task| {
                task.parent = order.parent;
                task.origin = if by_tasker { Origin::Tasker } else { Origin::Child };
                task.output = spawn.output;
                task.trace = spawn.trace;
                task.spawn_flags = spawn.flags;
                task.policy.clone_from(&preset);
                task.turns = turns;
                task.tied_to = tied_to;
                task.succeeds = order.succeeds;
                task.started_as = Some(started_as.clone());
                task.placed = placed;
                task.name.clone_from(&spawn.file);
                let item = batch.filter(|_| queued);
                let item = item.map(|batch| Item { batch, number: order.first + number as u32 });
                task.report = Report::Start { exec: id, number, item };
            });
            let Some((tid, cookie)) = announced else { break };
            if let Some(team) = &team {
                self.enlist(tid, team);
            }
            if let Some(attempt) = order.succeeds {
                self.expect_arrival(attempt, tid);
            }
            cookies.push(cookie);
        }
        if !cookies.is_empty() {
            self.agents_began(placed, cookies.len() as u32);
        }
        cookies
    }

    /// A host is out: the tasks that are tied to it end.
    pub(crate) fn end_tied_tasks(&mut self, host: HostIndex) {
        let tied = self.tasks.iter().filter(|task| task.tied_to == Some(host)).map(|task| task.tid);
        for tid in tied.collect::<Vec<_>>() {
            self.end_tied_task(tid);
        }
    }

    pub(crate) fn end_tied_task(&mut self, tid: Tid) {
        info!(task = %tid, "ends with the host of the task that has spawned it");
        self.signal_task(tid, SIGTERM);
    }

    /// Makes the record and the output stream of a process that is about to be started or adopted.
    pub(crate) fn announce(&mut self, fill: impl FnOnce(&mut Task)) -> Option<(Tid, Cookie)> {
        let announced = self.tasks.announce(&self.hosts.places, fill)?;
        self.node.load.note_running(self.tasks.running());
        Some(announced)
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
                let succeeds = task.succeeds;
                let (exec, job, tied_to) = (task.report.take_start(), task.report.job(), task.tied_to);
                debug!(%tid, pid, path, "task started");
                self.teams(|teams, tasks, at| teams.join(tid, tasks, at));
                self.hold_tasks();
                if succeeds.is_none() {
                    self.trace_started(tid);
                    self.observed_begin(tid);
                    self.output_started(cookie);
                }
                self.exec_result(exec, Ok(tid));
                if let Some(task) = job {
                    self.job_task_started(tid, task);
                }
                if tied_to.is_some_and(|host| !self.hosts.contains(host)) {
                    self.end_tied_task(tid);
                }
                // The move has ended while its process was being started.
                if succeeds.is_some_and(|attempt| self.moves.arrival(attempt).is_none()) {
                    self.signal_task(tid, SIGKILL);
                }
            }
            Err((error, reason)) => {
                let (exec, job, manager) = (task.report.take_start(), task.report.job(), task.manager);
                info!(%tid, file = %task.name.display(), error = error.name(), reason, "task not started");
                self.tasks.outputs.remove(&cookie);
                if let Some(task) = self.tasks.remove(tid) {
                    // A process may have enrolled in its place.
                    self.teams(|teams, tasks, at| teams.task_over(&task, tasks, at));
                    self.agents_ended(&task);
                    if let Some(attempt) = task.succeeds {
                        self.on_successor_ended(attempt, tid, 0);
                    }
                }
                // Who knows its id may watch it: the master does if it was to be in a group.
                self.task_gone(tid);
                if manager {
                    self.home(|home, at| home.on_manager_not_started(tid, &reason, at));
                }
                if let Some(task) = job {
                    self.job_task_not_started(task, (error, reason.clone()));
                }
                self.exec_result(exec, Err((error, reason)));
            }
        }
    }

    /// The fate of a task is known, which the operation that started it may wait for.
    pub(crate) fn exec_result(
        &mut self,
        exec: Option<(ExecId, usize)>,
        result: Result<Tid, (PvmError, String)>,
    ) {
        if let Some((id, number)) = exec {
            self.node(|node, tasks, at| node.settle(id, number, result, tasks, at));
        }
    }

    /// A task has ended here.
    pub(crate) fn report_end(&mut self, task: &Task, status: i32) {
        match task.report {
            Report::Nothing => {}
            Report::Start { exec, number, .. } => {
                let reason = "it ended before it was started".to_owned();
                self.exec_result(Some((exec, number)), Err((PvmError::HostFail, reason)));
            }
            Report::Job(job_task) => self.job_task_ended(task.tid, job_task, status),
            Report::End(Item { batch, number }) | Report::Leaving(Item { batch, number }) => {
                self.out.timers.cancel(Timer::EndGrace(task.tid));
                let leaves = matches!(task.report, Report::Leaving(_));
                let ended = DaemonMsg::BatchTaskEnded { batch, number, tid: task.tid, status, leaves };
                self.tell(batch.home, ended);
            }
        }
    }
}

/// Between home, managers and nodes.
impl Core {
    pub(crate) fn send_batch(&mut self, to: Tid, message: &BatchMsg) {
        match message.encode() {
            Ok(body) if to == self.config.index.daemon() => {
                let message = Message { src: to, dst: to, body: body.into(), ..Message::default() };
                self.on_batch_message(&message);
            }
            Ok(body) => {
                self.count_batch_message(self.config.index.daemon(), to, message);
                self.send_message(Source::Daemon, to, 0, BATCH_TAG, body);
            }
            Err(error) => error!(%error, "batch message lost"),
        }
    }

    /// A message to this daemon that is not a task's request.
    pub(crate) fn on_system_message(&mut self, message: &Message) {
        if message.header.tag == BATCH_TAG {
            self.on_batch_message(message);
        } else if let Some(what) = Sm::from_tag(message.header.tag) {
            self.on_service_message(what, message);
        } else {
            debug!(src = %message.src, tag = message.header.tag, "message to this daemon dropped");
        }
    }

    fn on_batch_message(&mut self, message: &Message) {
        let src = message.src;
        let decoded = BatchMsg::decode(&message.body);
        if let Ok(said) = &decoded
            && self.is_manager(src)
        {
            self.count_batch_message(src, self.config.index.daemon(), said);
        }
        match decoded {
            // Only the home host's manager (or daemon) speaks for a batch.
            Ok(BatchMsg::TasksHave { batch, queued }) if src.host() == Some(batch.home) => {
                // The master may still be linked with a host that is out, whose vote it needs.
                if batch.home != self.config.index && !self.hosts.is_welcome(batch.home) {
                    return debug!(%src, ?batch, "a host that is out has tasks: ignored");
                }
                let offer = Offer { manager: src, batch, queued };
                self.node(|node, tasks, at| node.on_tasks_have(offer, tasks, at));
            }
            Ok(BatchMsg::TasksNo { batch }) if src.host() == Some(batch.home) => {
                self.node(|node, tasks, at| node.on_tasks_no(src, batch, tasks, at));
            }
            Ok(BatchMsg::Grant { batch, host, n, terms }) => {
                self.home(|home, at| home.on_grant(src, batch, host, n, terms, at));
            }
            Ok(BatchMsg::NoNodes { batch }) => self.home(|home, at| home.on_no_nodes(src, batch, at)),
            Ok(other) => warn!(%src, ?other, "batch message out of place: ignored"),
            Err(error) => warn!(%src, %error, "batch message that cannot be read: ignored"),
        }
    }
}
