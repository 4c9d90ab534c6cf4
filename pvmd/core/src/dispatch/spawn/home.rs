//! As home of a spawn: what it asks for, which host starts what, and the answer.

use crate::Core;
use crate::addresses::{ReplyTo, SpawnId, Waiter};
use crate::flow::Source;
use crate::spawn::home::{Call, Demand, Kind, Spawn, no_host_for};
use crate::spawn::placing::Placing;
use crate::spawn::split_place;
use crate::spawn::state::{Effect, Event, State};
use crate::teams;
use pvm_sched::placement::{Portion, proportional};
use pvm_wire::batch::{BatchId, Node};
use pvm_wire::calls::CallError;
use pvm_wire::coscheduling::TEAM_VARIABLE;
use pvm_wire::daemon::PeerRequest;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::output::OutputEvent;
use pvm_wire::spawn::{Refusal, SpawnReply, SpawnRequest, entry, flags};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::ffi::OsStr;
use tracing::{debug, info};

/// From the request to the first order.
impl Core {
    /// TM_SPAWN.
    pub(crate) fn on_spawn(&mut self, spawner: Tid, to: ReplyTo, mut request: SpawnRequest) {
        let demand = match self.demand(&request) {
            Ok(demand) => demand,
            Err(error) => return self.reply_error(to, error),
        };
        debug!(count = demand.count, file = %request.file.display(), place = %request.place.display(), "spawns");
        request.flags &= !flags::QUEUED;
        let id = self.home.next_id();
        self.begin_spawn(id, spawner, request, Kind::Call(Call::new(to, demand.count)), demand);
    }

    /// What a request demands, or the error of one that demands what cannot be.
    pub(crate) fn demand(&self, request: &SpawnRequest) -> Result<Demand, CallError> {
        let count = match u32::try_from(request.count) {
            Ok(count) if (1..=BATCH_MAX as u32).contains(&count) => count,
            Ok(0) | Err(_) => return Err(PvmError::BadParam.into()),
            Ok(_) => return Err(PvmError::OutOfRes.into()),
        };
        let policy = match request.policy.as_str() {
            "" => self.config.policy,
            name => {
                let code = PvmError::NotFound.code();
                name.parse().map_err(|error| CallError { code, reason: format!("{error}") })?
            }
        };
        Ok(Demand { count, policy })
    }

    /// Writes a spawn down, and has its tasks started: by one host if it names one and waits for the answer.
    pub(crate) fn begin_spawn(
        &mut self,
        id: SpawnId,
        spawner: Tid,
        mut request: SpawnRequest,
        kind: Kind,
        Demand { count, policy }: Demand,
    ) {
        let hosts = self.chosen_hosts(&request);
        self.complete_environment(&mut request, spawner);
        let names_host = request.flags & (flags::HOST | flags::HOST_COMPLEMENT) == flags::HOST;
        let newcomers = request.flags & (flags::HOST | flags::ARCH) == 0;
        let nowhere = no_host_for(&request);
        let pinned = match (&hosts[..], &kind) {
            (&[host], Kind::Call(_)) if names_host => Some(host),
            _ => None,
        };
        let refused = hosts.is_empty() && matches!(kind, Kind::Call(_));
        let (state, placing) = match pinned {
            Some(_) => (State::Pinned, Placing::default()),
            None if refused => (State::Resting, Placing::default()),
            None => (State::Resting, Placing::new(hosts, newcomers, count, policy)),
        };
        self.home.spawns.insert(id, Spawn::new(spawner, request, state, kind, placing));
        match pinned {
            Some(host) => self.exec_on(id, host, 0, count, None),
            None if refused => self.refuse_items(id, (0, count), None, PvmError::NoHost, &nowhere),
            None => self.hand_out(id, 0),
        }
    }

    /// Adds what tasks are told of where they run and of their team.
    fn complete_environment(&self, request: &mut SpawnRequest, spawner: Tid) {
        if let (_, Some(directory)) = split_place(&request.place) {
            let entry = entry("PVMSPAWNWD", directory);
            request.env.push(entry);
        }
        if teams::named_in(&request.env).is_none() {
            request.env.push(entry(TEAM_VARIABLE, self.team_name(spawner)));
        }
    }

    /// The hosts a spawn may use (reference, section 5.1).
    fn chosen_hosts(&self, request: &SpawnRequest) -> Vec<HostIndex> {
        let (place, _) = split_place(&request.place);
        let own = self.hosts.get(self.config.index).map(|entry| OsStr::new(&entry.name));
        let name = if place == "." { own.unwrap_or(place) } else { place };
        let complement = request.flags & flags::HOST_COMPLEMENT != 0;
        self.hosts
            .iter()
            .filter(|entry| {
                let chosen = match request.flags {
                    f if f & flags::HOST != 0 => name == &*entry.name,
                    f if f & flags::ARCH != 0 => place == &*entry.arch,
                    _ => true,
                };
                chosen != complement
            })
            .map(|entry| entry.index)
            .collect()
    }
}

/// What changes a spawn's state, and what follows.
impl Core {
    /// Something has happened to a spawn.
    pub(crate) fn step(&mut self, id: SpawnId, event: Event<'_>) {
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        for effect in spawn.step(event) {
            self.carry_out_step(id, effect);
        }
    }

    fn carry_out_step(&mut self, id: SpawnId, effect: Effect<'_>) {
        match effect {
            Effect::FindManager => self.find_manager(id),
            Effect::LeaveLine => self.leave_line(id),
            Effect::Free(manager) => self.free_manager(manager, id),
            Effect::TellMore(manager, more) => self.tell_more(manager, id, more),
            Effect::Divide => self.divide(id),
            Effect::Refuse { error, reason } => self.refuse_waiting(id, error, reason),
            Effect::Fail(error) => self.fail_waiting(id, error),
            Effect::CloseNodes => self.close_nodes(id),
        }
    }

    /// Has the waiting tasks handed out, `more` of them new, unless the parent has to take its notices first.
    pub(crate) fn hand_out(&mut self, id: SpawnId, more: u32) {
        let waits = self.home.spawns.get(&id).is_some_and(|spawn| spawn.placing.waiting() > 0);
        if waits && !self.is_held(id) {
            self.step(id, Event::TasksWait { more });
        }
    }

    /// What waits cannot be placed.
    pub(crate) fn unplaceable(&mut self, id: SpawnId, error: PvmError, reason: &str) {
        if self.home.is_queued(id) {
            self.step(id, Event::Hopeless(error));
        } else {
            self.step(id, Event::Unplaceable { error, reason });
        }
    }

    /// Tasks that no host's limit allows are divided all the same: they take the places of what has ended meanwhile. For what
    /// finds none the hosts say so.
    fn divide(&mut self, id: SpawnId) {
        let (batch, nodes) = (self.batch_id(id), self.batch_nodes(id));
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        let waiting = spawn.placing.waiting();
        let is_rest = spawn.call_mut().is_some_and(|call| call.open == waiting as usize);
        if waiting == 0 || !is_rest {
            return;
        }
        let portion = |node: &Node| Portion { capability: node.capability, has: 0, limit: u64::MAX };
        let parts = proportional(waiting.into(), &nodes.iter().map(portion).collect::<Vec<_>>());
        let mut orders = Vec::new();
        for (node, n) in nodes.iter().zip(parts) {
            let ranges = spawn.placing.take(node.host, n as u32);
            orders.extend(ranges.into_iter().map(|range| (node.host, range)));
        }
        for (host, (first, count)) in orders {
            self.exec_on(id, host, first, count, Some(batch));
        }
    }

    fn refuse_waiting(&mut self, id: SpawnId, error: PvmError, reason: &str) {
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        for range in spawn.placing.take_all() {
            self.refuse_items(id, range, None, error, reason);
        }
    }
}

/// Orders to hosts, and what comes of them.
impl Core {
    /// Has a host start some of a spawn's tasks.
    pub(crate) fn exec_on(
        &mut self,
        id: SpawnId,
        host: HostIndex,
        first: u32,
        count: u32,
        batch: Option<BatchId>,
    ) {
        let Some(spawn) = self.home.spawns.get(&id) else { return };
        let parent = spawn.parent();
        let what = PeerRequest::Exec { batch, count, first, parent, spawn: spawn.request.clone() };
        self.ask(host, what, Waiter::Exec { spawn: id, first, count });
    }

    /// A host has started (or failed to start) what it was told to.
    pub(crate) fn on_started(
        &mut self,
        from: HostIndex,
        id: SpawnId,
        first: u32,
        count: u32,
        results: &[i32],
        refusals: Vec<Refusal>,
    ) {
        let mut results: Vec<i32> = results.iter().copied().take(count as usize).collect();
        results.resize(count as usize, PvmError::DSysErr.code());
        debug!(spawn = id.0, host = %from, first, count, "tasks started");
        if let Some(call) = self.home.spawns.get_mut(&id).and_then(Spawn::call_mut) {
            call.refusals.add_from(from, refusals);
            self.resolve_items(id, first, &results);
        } else {
            self.queue_started(from, id, first, &results);
        }
    }

    /// A host has died while it started tasks: those that managers hand out are placed again, pinned ones have failed.
    pub(crate) fn on_exec_lost(&mut self, host: HostIndex, id: SpawnId, first: u32, count: u32) {
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        match spawn.state() {
            State::Pinned => {
                let reason = "the host was lost while it started tasks";
                self.refuse_items(id, (first, count), Some(host), PvmError::HostFail, reason);
            }
            State::Cancelled => self.queue_cancelled(id, count),
            _ => {
                info!(spawn = id.0, %host, count, "tasks of a lost host are placed again");
                spawn.placing.give_back(first, count);
                self.hand_out(id, count);
            }
        }
    }

    /// A range of a spawn's tasks (first, count) is not started.
    fn refuse_items(
        &mut self,
        id: SpawnId,
        (first, count): (u32, u32),
        host: Option<HostIndex>,
        error: PvmError,
        reason: &str,
    ) {
        if let Some(call) = self.home.spawns.get_mut(&id).and_then(Spawn::call_mut) {
            call.refusals.note(host, error, count, reason);
        }
        self.resolve_items(id, first, &vec![error.code(); count as usize]);
    }

    /// The fate of some tasks of a spawn is known.
    fn resolve_items(&mut self, id: SpawnId, first: u32, results: &[i32]) {
        let Some(call) = self.home.spawns.get_mut(&id).and_then(Spawn::call_mut) else { return };
        call.resolve(first, results);
        if call.open == 0 {
            self.finish_spawn(id);
        } else {
            self.step(id, Event::Settled);
        }
    }

    fn finish_spawn(&mut self, id: SpawnId) {
        let Some(spawn) = self.home.spawns.get_mut(&id) else { return };
        let (parent, spawner, request) = (spawn.parent(), spawn.spawner, &spawn.request);
        let (trace, output) = (request.trace, request.output);
        let Some(call) = spawn.call_mut() else { return };
        let (to, refusals) = (call.to, std::mem::take(&mut call.refusals).into_list());
        let mut results: Vec<i32> = std::mem::take(&mut call.results).into_iter().flatten().collect();
        // The good ones first, in their order.
        results.sort_by_key(|result| *result < 0);
        // All at the end: a sink that has seen the end of some tasks must not take them for all, and by now it has been told
        // of every start.
        for &tid in results.iter().filter(|tid| **tid > 0) {
            let event = OutputEvent::Spawned(spawner.raw());
            self.trace_spawned(trace, Tid::from_raw(tid), parent);
            self.send_output(Source::Daemon, output, Tid::from_raw(tid), event);
        }
        self.reply_to::<SpawnRequest>(to, &SpawnReply { results, refusals });
        self.step(id, Event::Over);
        self.home.spawns.remove(&id);
    }
}
