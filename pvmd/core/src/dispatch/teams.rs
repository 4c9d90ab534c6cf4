//! What teams that take turns mean for the tasks of this host and for others, and what is done about the scheduler's decisions.

use crate::Core;
use crate::event::{Action, Work};
use crate::flow::Source;
use crate::teams::{TeamId, is_name, named_in};
use crate::timers::Timer;
use pvm_sched::coscheduling::{self, Decision, Epoch, Reading};
use pvm_wire::body::BodyWriter;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::{HostIndex, PvmError, Tid};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::time::Duration;
use tracing::debug;

impl Core {
    /// The name of a task's team: what it was given, else its own.
    pub(crate) fn team_name(&self, tid: Tid) -> String {
        let named = self.tasks.get(tid).and_then(|task| self.teams.name(task.team));
        named.map_or_else(|| tid.to_string(), str::to_owned)
    }

    /// The name of the team for tasks with this environment and this parent, if they have one.
    pub(crate) fn team_of_child(&self, env: &[OsString], parent: i32) -> Option<String> {
        let inherited = || (parent > 0).then(|| self.team_name(Tid::from_raw(parent)));
        named_in(env).map(str::to_owned).or_else(inherited)
    }

    /// One more task of this team.
    pub(crate) fn enlist(&mut self, tid: Tid, name: &str) {
        let team = self.teams.enlist(name);
        if let Some(task) = self.tasks.get_mut(tid) {
            self.teams.dismiss(std::mem::replace(&mut task.team, team));
        }
    }

    /// A task's process runs: from now on it takes turns with others. Only our own children do: a program that was started from a
    /// shell is not ours to stop, and the console must always answer.
    pub(crate) fn join_team(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid).filter(|task| task.takes_turns()) else { return };
        let decisions = self.teams.scheduler.join(task.team, task.pid, self.now);
        self.apply(decisions);
    }

    /// It takes no turns any more. Unless its process has ended it is let go.
    pub(crate) fn leave_team(&mut self, (team, pid): (TeamId, i32), has_ended: bool) {
        let decisions = self.teams.scheduler.leave(team, pid, has_ended, self.now);
        self.apply(decisions);
    }

    /// Does what the scheduler has decided.
    fn apply(&mut self, decisions: Vec<Decision<TeamId>>) {
        for decision in decisions {
            match decision {
                Decision::Dispatch { pid, runs } => self.out.act(Action::Dispatch { pid, runs }),
                Decision::Read { pids } => self.out.act(Action::ReadUsage { pids }),
                Decision::Timer { after, timer } => self.set_timer(after, Timer::Coscheduling(timer)),
                Decision::TurnBegan(team) => self.remind(team),
                Decision::Shared(taken) => self.tell_turns(taken),
                Decision::WantsSleeps => self.tell_tasks(),
            }
        }
    }

    /// A timer of the scheduler's.
    pub(crate) fn on_coscheduling(&mut self, timer: coscheduling::Timer) {
        let decisions = self.teams.scheduler.timer(timer, self.now);
        self.apply(decisions);
    }

    /// The driver has looked, and nothing has happened meanwhile.
    pub(crate) fn on_usage(&mut self, work: Vec<Work>, own: Duration, leaves_rest: bool) {
        let decisions = self.teams.scheduler.read(Reading { work, own, leaves_rest }, self.now);
        self.apply(decisions);
    }

    /// A fragment of this many bytes is passed on for a task of this host.
    pub(crate) fn note_carried(&mut self, tid: Tid, bytes: usize) {
        let team = self.turn_taking_team(tid);
        self.teams.scheduler.carried(team, bytes);
    }

    /// A task's team, if it takes turns.
    fn turn_taking_team(&self, tid: Tid) -> Option<TeamId> {
        self.tasks.get(tid).filter(|task| task.takes_turns()).map(|task| task.team)
    }

    /// A task says to which team it belongs.
    pub(crate) fn on_team(&mut self, tid: Tid, name: &str) -> Result<(), PvmError> {
        if !is_name(name) {
            return Err(PvmError::BadParam);
        }
        let Some(task) = self.tasks.get(tid) else { return Ok(()) };
        let (before, pid) = (task.team, task.pid);
        if self.teams.name(before) != Some(name) {
            self.leave_team((before, pid), false);
            self.enlist(tid, name);
            self.join_team(tid);
            if self.are_turns_taken() {
                self.tell_turns_to(tid);
            }
        }
        Ok(())
    }

    /// Tasks that have the turn and wait for other hosts say so again: what they sent in an earlier turn may have been refused.
    fn remind(&mut self, team: TeamId) {
        let waiting = self.tasks.iter().filter(|task| task.takes_turns() && task.team == team);
        let waiting: Vec<(Tid, Tid)> = waiting.filter_map(|task| Some((task.tid, task.awaits?))).collect();
        for (tid, other) in waiting {
            if let Some(host) = other.host() {
                self.tell_epoch(tid, host);
                self.tell(host, DaemonMsg::Waited { tids: vec![other] });
            }
        }
    }

    /// A task sleeps until something comes, or no more.
    pub(crate) fn on_sleep(&mut self, tid: Tid, sleeps: bool) {
        let Some(task) = self.tasks.get(tid).filter(|task| task.takes_turns()) else { return };
        let decisions = self.teams.scheduler.slept(task.team, task.pid, sleeps, self.now);
        self.apply(decisions);
    }

    /// Whether turns are taken here, or where messages of this host's tasks may go.
    pub(crate) fn are_turns_taken(&self) -> bool {
        self.teams.scheduler.is_shared() || self.hosts.links.values().any(|link| link.takes_turns)
    }

    /// They begin or end here.
    fn tell_turns(&mut self, taken: bool) {
        debug!(taken, "teams begin or cease to take turns");
        for host in self.hosts.links.keys().copied().collect::<Vec<_>>() {
            self.tell(host, DaemonMsg::Turns { taken });
        }
        self.tell_tasks();
    }

    /// They begin or end elsewhere.
    pub(crate) fn on_turns(&mut self, host: HostIndex, taken: bool) {
        let Some(link) = self.hosts.links.get_mut(&host) else { return };
        link.takes_turns = taken;
        self.tell_tasks();
    }

    /// Tasks with direct routes have to know: their messages do not pass by here.
    pub(crate) fn tell_tasks(&mut self) {
        let told = (self.are_turns_taken(), self.teams.scheduler.wants_sleeps());
        if std::mem::replace(&mut self.teams.told_tasks, told) == told {
            return;
        }
        let listeners = self.tasks.iter().filter(|task| task.extended && task.conn.is_some());
        let listeners: Vec<Tid> = listeners.map(|task| task.tid).collect();
        for tid in listeners {
            self.tell_turns_to(tid);
        }
    }

    /// Whether turns are taken anywhere, which team's are the task's own, and whether it is to say when it sleeps.
    pub(crate) fn tell_turns_to(&mut self, tid: Tid) {
        let team = self.turn_taking_team(tid).map(TeamId::number);
        let tells = team.is_some() && self.teams.scheduler.wants_sleeps();
        let body = BodyWriter::new()
            .int(i32::from(self.are_turns_taken()))
            .int(team.unwrap_or(0).cast_signed())
            .int(i32::from(tells))
            .finish();
        self.send_message(Source::Daemon, tid, CONTEXT_TC, Tcx::Turns.tag(), body);
    }

    /// A message of a task goes to another host: its epoch goes first, if that is not known there.
    pub(crate) fn tell_epoch(&mut self, src: Tid, host: HostIndex) {
        if !src.is_task() {
            return;
        }
        let has_turn = self.teams.scheduler.has_turn(self.turn_taking_team(src));
        let epoch = has_turn.then(|| self.teams.scheduler.epoch());
        let Some(link) = self.hosts.links.get_mut(&host).filter(|link| link.told_epoch != epoch) else {
            return;
        };
        link.told_epoch = epoch;
        let epoch = epoch.map(|epoch| (epoch.count, epoch.origin));
        self.out.act(Action::SendPeer { host, message: DaemonMsg::Epoch { epoch } });
    }

    /// The next messages from this host have that epoch.
    pub(crate) fn on_epoch(&mut self, host: HostIndex, epoch: Option<(u64, u32)>) {
        if let Some(link) = self.hosts.links.get_mut(&host) {
            link.epoch = epoch.map(|(count, origin)| Epoch { count, origin });
        }
    }

    /// A message for a task has come from another host, or is about to come on a direct route.
    pub(crate) fn on_hint(&mut self, from: HostIndex, dst: Tid) {
        if self.teams.scheduler.is_shared()
            && let Some(task) = self.tasks.get_mut(dst)
        {
            task.awaits = None;
            self.teams.scheduler.heard(task.team, from);
        }
        if let Some(epoch) = self.hosts.links.get(&from).and_then(|link| link.epoch) {
            self.arrived(dst, epoch);
        }
    }

    /// A message of another host with this epoch is for that task.
    pub(crate) fn arrived(&mut self, dst: Tid, epoch: Epoch) {
        let team = self.turn_taking_team(dst);
        let decisions = self.teams.scheduler.arrived(team, epoch, self.now);
        self.apply(decisions);
    }

    /// A task has sent to another host.
    pub(crate) fn note_sent(&mut self, src: Tid, dst: Option<Tid>) {
        if self.teams.scheduler.is_shared()
            && let Some(task) = self.tasks.get_mut(src)
        {
            task.awaits = dst.filter(|dst| dst.is_task());
        }
    }

    /// A task waits, and has sent to these by direct routes: reports that to their hosts, as if the messages had passed by here.
    pub(crate) fn on_waiting(&mut self, tid: Tid, receivers: Vec<Tid>) {
        let mut hosts: BTreeMap<HostIndex, Vec<Tid>> = BTreeMap::new();
        for other in receivers.into_iter().take(BATCH_MAX) {
            let host = other.host().filter(|&host| host != self.config.index && other.is_task());
            if let Some(host) = host {
                hosts.entry(host).or_default().push(other);
            }
        }
        for (host, tids) in hosts {
            self.note_sent(tid, tids.first().copied());
            self.tell_epoch(tid, host);
            self.tell(host, DaemonMsg::Waited { tids });
        }
    }

    /// The teams that take turns, and whose turn it is; for people.
    pub(crate) fn write_turns(&self, out: &mut String) -> fmt::Result {
        let teams = &self.teams;
        for (team, pids, runs) in teams.scheduler.teams() {
            let name = teams.name(team).unwrap_or("-");
            let (state, used) = (if runs { "runs" } else { "waits" }, teams.scheduler.charged(team));
            writeln!(
                out,
                "team {name}: {} processes, {state}, charged {:.3} s",
                pids.len(),
                used.as_secs_f64()
            )?;
        }
        Ok(())
    }
}
