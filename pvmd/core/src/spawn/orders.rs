//! As home: orders to hosts, what comes of them, and the answer to the spawner.

use super::home::Home;
use super::progress::Spawn;
use super::state::{Event, State};
use crate::addresses::{Part, SpawnId, Waiter};
use crate::decision::Decision;
use crate::effect::{Effect, Effects, Started};
use crate::timers::Timer;
use pvm_wire::batch::BatchId;
use pvm_wire::daemon::PeerRequest;
use pvm_wire::spawn::{Refusal, SpawnReply, SpawnRequest};
use pvm_wire::{HostIndex, PvmError, Tid};
use std::time::Duration;
use tracing::{debug, info};

/// How long tasks wait that a host has refused, as its owner is there. By then its home knows that.
const AFTER_REFUSAL: Duration = Duration::from_millis(200);

impl Spawn {
    /// Has a host start some of its tasks.
    pub fn order(
        &self,
        id: SpawnId,
        host: HostIndex,
        (first, count): (u32, u32),
        batch: Option<BatchId>,
        out: &mut Effects,
    ) {
        let (parent, spawn) = (self.parent(), Box::new(self.request.clone()));
        let what = PeerRequest::Exec { batch, count, first, parent, spawn };
        out.push(Effect::Ask(host, what, Waiter::Exec(Part { spawn: id, first, count })));
    }

    /// One of its tasks runs: what reports of it.
    pub fn started(&self, tid: Tid) -> Started {
        let (trace, output) = (self.request.trace, self.request.output);
        Started { tid, spawner: self.spawner, parent: self.parent(), trace, output }
    }
}

impl Home {
    /// A host has started (or failed to start) what it was told to.
    pub fn on_started(
        &mut self,
        from: HostIndex,
        part: Part,
        results: &[i32],
        refusals: Vec<Refusal>,
        at: &mut Decision<'_>,
    ) {
        let Part { spawn: id, first, count } = part;
        let mut results: Vec<i32> = results.iter().copied().take(count as usize).collect();
        results.resize(count as usize, PvmError::DSysErr.code());
        debug!(spawn = id.0, host = %from, first, count, "tasks started");
        self.traffic.started(id, first, &results);
        if let Some(call) = self.spawns.get_mut(&id).and_then(Spawn::call_mut) {
            call.refusals.add_from(from, refusals);
            self.resolve(id, first, &results, at);
        } else {
            self.queued_started(from, id, first, &results, at);
        }
    }

    /// A host starts none of what it was told to, as its owner is there: others are found. The caller of a spawn does not wait until the owner
    /// leaves.
    pub fn on_host_with_owner(&mut self, host: HostIndex, part: Part, at: &mut Decision<'_>) {
        let Part { spawn: id, first, count } = part;
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        if spawn.queue().is_none() {
            spawn.placing.nodes.remove(&host);
            if spawn.placing.nodes.is_empty() {
                let reason = "the owner of the host is there (pvm owner)";
                return self.refuse(part, Some(host), PvmError::OutOfRes, reason, at);
            }
        }
        if spawn.state() == State::Cancelled {
            return self.queued_cancelled(id, count, at);
        }
        spawn.placing.give_back(first, count);
        spawn.placing.refused += count;
        // Not at once: there may be no other host, and this one would be asked for ever.
        at.out.push(Effect::SetTimer(AFTER_REFUSAL, Timer::Refused(id)));
    }

    /// Tasks that hosts have refused, as their owners are there, are handed out again.
    pub fn hand_out_refused(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let refused = std::mem::take(&mut spawn.placing.refused);
        self.hand_out(id, refused, at);
    }

    /// A host has died while it started tasks: those that managers hand out are placed again, pinned ones have failed.
    pub fn on_exec_lost(&mut self, host: HostIndex, part: Part, at: &mut Decision<'_>) {
        let Part { spawn: id, first, count } = part;
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        match spawn.state() {
            State::Pinned => {
                let reason = "the host was lost while it started tasks";
                self.refuse(part, Some(host), PvmError::HostFail, reason, at);
            }
            State::Cancelled => self.queued_cancelled(id, count, at),
            _ => {
                info!(spawn = id.0, %host, count, "tasks of a lost host are placed again");
                spawn.placing.give_back(first, count);
                self.hand_out(id, count, at);
            }
        }
    }

    /// Some of a spawn's tasks are not started.
    pub(super) fn refuse(
        &mut self,
        Part { spawn: id, first, count }: Part,
        host: Option<HostIndex>,
        error: PvmError,
        reason: &str,
        at: &mut Decision<'_>,
    ) {
        if let Some(call) = self.spawns.get_mut(&id).and_then(Spawn::call_mut) {
            call.refusals.note(host, error, count, reason);
        }
        self.resolve(id, first, &vec![error.code(); count as usize], at);
    }

    /// None of those that wait is started.
    pub(super) fn refuse_waiting(
        &mut self,
        id: SpawnId,
        error: PvmError,
        reason: &str,
        at: &mut Decision<'_>,
    ) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        for (first, count) in spawn.placing.take_all() {
            self.refuse(Part { spawn: id, first, count }, None, error, reason, at);
        }
    }

    /// The fate of some tasks of a spawn is known.
    fn resolve(&mut self, id: SpawnId, first: u32, results: &[i32], at: &mut Decision<'_>) {
        let Some(call) = self.spawns.get_mut(&id).and_then(Spawn::call_mut) else { return };
        call.resolve(first, results);
        if call.open == 0 {
            self.finish(id, at);
        } else {
            self.step(id, Event::Settled, at);
        }
    }

    fn finish(&mut self, id: SpawnId, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get_mut(&id) else { return };
        let policy = match spawn.state() {
            State::Pinned => String::new(),
            _ => spawn.placing.policy.name().to_owned(),
        };
        let Some(call) = spawn.call_mut() else { return };
        let (to, refusals) = (call.to, std::mem::take(&mut call.refusals).into_list());
        let mut results: Vec<i32> = std::mem::take(&mut call.results).into_iter().flatten().collect();
        // The good ones first, in their order.
        results.sort_by_key(|result| *result < 0);
        // All at the end: a sink that has seen the end of some tasks must not take them for all, and by now it has been told
        // of every start.
        for &tid in results.iter().filter(|tid| **tid > 0) {
            at.out.push(Effect::ReportStart(spawn.started(Tid::from_raw(tid))));
        }
        at.out.reply::<SpawnRequest>(to, &SpawnReply { results, refusals, policy });
        self.step(id, Event::Over, at);
        if let Some(ended) = self.spawns.remove(&id) {
            self.costs.ended(id, ended.placing.policy);
        }
    }
}
