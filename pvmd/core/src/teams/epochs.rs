//! What hosts know of each other's turns: their epochs, and which tasks wait for tasks elsewhere.

use super::Teams;
use super::scheduling::turn_taking;
use crate::addresses::TeamId;
use crate::decision::Decision;
use crate::tasks::Tasks;
use pvm_sched::coscheduling::Epoch;
use pvm_wire::calls::turns as told;
use pvm_wire::coscheduling::Turn;
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::{HostIndex, Tid};
use std::collections::BTreeMap;

/// What is known of turns on a host, while there is a link to it.
#[derive(Debug)]
pub(super) struct Peer {
    /// The epoch of what comes; `None` if it brings nobody onto a processor.
    epoch: Option<Epoch>,
    /// The epoch that the other end takes our next messages to have.
    told_epoch: Option<Epoch>,
    /// Whether teams take turns at the other end.
    takes_turns: bool,
}

impl Teams {
    /// There is a link to a host.
    pub fn linked(&mut self, host: HostIndex, at: &mut Decision<'_>) {
        let epoch = Some(Epoch::default());
        self.peers.insert(host, Peer { epoch, told_epoch: epoch, takes_turns: false });
        if self.scheduler.is_shared() {
            at.out.tell(host, DaemonMsg::Turns { taken: true });
        }
    }

    pub fn unlinked(&mut self, host: HostIndex) {
        self.peers.remove(&host);
    }

    /// Whether turns are taken here, or where messages of this host's tasks may go.
    pub(super) fn are_turns_taken(&self) -> bool {
        self.scheduler.is_shared() || self.peers.values().any(|peer| peer.takes_turns)
    }

    /// They begin or end elsewhere.
    pub fn on_turns(&mut self, host: HostIndex, taken: bool, tasks: &Tasks, at: &mut Decision<'_>) {
        let Some(peer) = self.peers.get_mut(&host) else { return };
        peer.takes_turns = taken;
        self.tell_tasks(tasks, at);
    }

    /// A message of a task goes to another host: its epoch goes first, and the task may wait for an answer.
    pub fn sends(
        &mut self,
        src: Tid,
        host: HostIndex,
        dst: Option<Tid>,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        self.tell_epoch(src, host, tasks, at);
        if self.scheduler.is_shared() && tasks.get(src).is_some() {
            match dst.filter(|dst| dst.is_task()) {
                Some(dst) => self.awaits.insert(src, dst),
                None => self.awaits.remove(&src),
            };
        }
    }

    /// Tells a host the epoch of a task's next messages, if that is not known there.
    fn tell_epoch(&mut self, src: Tid, host: HostIndex, tasks: &Tasks, at: &mut Decision<'_>) {
        if !src.is_task() {
            return;
        }
        let has_turn = self.scheduler.has_turn(turn_taking(tasks.get(src)));
        let epoch = has_turn.then(|| self.scheduler.epoch());
        let Some(peer) = self.peers.get_mut(&host).filter(|peer| peer.told_epoch != epoch) else { return };
        peer.told_epoch = epoch;
        let epoch = epoch.map(|epoch| (epoch.count, epoch.origin));
        at.out.tell(host, DaemonMsg::Epoch { epoch });
    }

    /// The next messages from this host have that epoch.
    pub fn on_epoch(&mut self, host: HostIndex, epoch: Option<(u64, u32)>) {
        if let Some(peer) = self.peers.get_mut(&host) {
            peer.epoch = epoch.map(|(count, origin)| Epoch { count, origin });
        }
    }

    /// A message for a task has come from another host.
    pub fn on_hint(&mut self, from: HostIndex, dst: Tid, tasks: &Tasks, at: &mut Decision<'_>) {
        if self.scheduler.is_shared()
            && let Some(task) = tasks.get(dst)
        {
            self.awaits.remove(&dst);
            self.scheduler.heard(task.team, from);
        }
        if let Some(epoch) = self.peers.get(&from).and_then(|peer| peer.epoch) {
            self.arrived(dst, epoch, tasks, at);
        }
    }

    /// Messages for these tasks are about to come from another host on direct routes.
    pub fn on_hints(&mut self, from: HostIndex, dsts: &[Tid], tasks: &Tasks, at: &mut Decision<'_>) {
        for &dst in dsts {
            self.on_hint(from, dst, tasks, at);
        }
    }

    /// A task has been told the epoch of another host's task on a direct route.
    pub fn on_told_epoch(
        &mut self,
        tid: Tid,
        &told::Epoch { by, count, origin }: &told::Epoch,
        tasks: &Tasks,
        at: &mut Decision<'_>,
    ) {
        let is_elsewhere =
            at.hosts.place(by).is_some_and(|host| host != at.config.index && at.hosts.contains(host));
        let origin = u32::try_from(origin).ok().and_then(HostIndex::new);
        if let Some(origin) = origin.filter(|_| is_elsewhere) {
            let told = Turn { count, ..Turn::default() };
            let count = told.whole_count(self.scheduler.epoch().count);
            self.arrived(tid, Epoch { count, origin: origin.get() }, tasks, at);
        }
    }

    /// A message of another host with this epoch is for that task.
    fn arrived(&mut self, dst: Tid, epoch: Epoch, tasks: &Tasks, at: &mut Decision<'_>) {
        let decisions = self.scheduler.arrived(turn_taking(tasks.get(dst)), epoch, at.now);
        self.apply(decisions, tasks, at);
    }

    /// A task waits, and has sent to these by direct routes: reports that to their hosts, as if the messages had passed by here.
    pub fn on_waiting(&mut self, tid: Tid, receivers: Vec<Tid>, tasks: &Tasks, at: &mut Decision<'_>) {
        let mut hosts: BTreeMap<HostIndex, Vec<Tid>> = BTreeMap::new();
        for other in receivers.into_iter().take(BATCH_MAX) {
            let host = at.hosts.place(other).filter(|&host| host != at.config.index && other.is_task());
            if let Some(host) = host {
                hosts.entry(host).or_default().push(other);
            }
        }
        for (host, tids) in hosts {
            self.sends(tid, host, tids.first().copied(), tasks, at);
            at.out.tell(host, DaemonMsg::Waited { tids });
        }
    }

    /// Tasks that have the turn and wait for other hosts say so again: what they sent in an earlier turn may have been refused.
    pub(super) fn remind(&mut self, team: TeamId, tasks: &Tasks, at: &mut Decision<'_>) {
        for task in tasks.iter().filter(|task| task.takes_turns() && task.team == team) {
            let Some(&other) = self.awaits.get(&task.tid) else { continue };
            if let Some(host) = at.hosts.place(other) {
                self.tell_epoch(task.tid, host, tasks, at);
                at.out.tell(host, DaemonMsg::Waited { tids: vec![other] });
            }
        }
    }
}
