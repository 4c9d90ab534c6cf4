//! Teams: tasks that want to run at the same time, on all hosts that have some of them.
//!
//! A host with more teams and tasks than cores gives each team the processor in turn, and a message from another host may
//! bring its receiver's team onto it out of turn: [`pvm_sched::epochs`] has the rule. Here is who belongs to which team, when
//! turns begin, and what the driver is to do about it.

use super::calm::Calm;
use super::event::{Action, Work};
use super::flow::Source;
use super::history::History;
use super::tasks::{Origin, Task};
use super::usage::{Meter, Use};
use super::{Core, Timer};
use pvm_sched::epochs::{Arrival, Epoch, Node};
use pvm_wire::body::{BodyError, BodyReader, BodyWriter};
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::coscheduling::{TEAM_NAME_MAX, TEAM_VARIABLE, Turn};
use pvm_wire::daemon::DaemonMsg;
use pvm_wire::limits::BATCH_MAX;
use pvm_wire::spawn::split_entry;
use pvm_wire::{HostIndex, Tid};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::time::Duration;
use tracing::debug;

/// By how many slices a team may be ahead of another when a message is to bring it onto the processor.
const SLACK: u32 = 2;

/// The teams of this host's tasks, and whose turn it is.
#[derive(Debug)]
pub(super) struct Teams {
    /// `None`: turns are never taken.
    pub slice: Option<Duration>,
    pub node: Node<TeamId>,
    names: BTreeMap<String, TeamId>,
    /// Their names, and how many tasks have them.
    roster: BTreeMap<TeamId, (String, usize)>,
    ids: u32,
    /// The processes that take turns.
    members: BTreeMap<TeamId, BTreeSet<i32>>,
    /// How many processes that is.
    count: usize,
    /// Whether turns are taken at present.
    pub is_shared: bool,
    /// What they use of the processor.
    pub meter: Meter,
    /// Whether turns are worth it.
    pub calm: Calm,
    /// What they have used so far.
    used: BTreeMap<TeamId, Use>,
    /// The processor has time left for all, or nobody computes: everybody runs, and it is looked again after a slice.
    pub is_idle: bool,
    /// Number of the slice that runs; timers of others have no effect.
    pub serial: u64,
    /// Teams that run: the one whose turn it is, and those for which cores are left.
    chosen: BTreeSet<TeamId>,
    /// Processes that the driver keeps from running.
    held: BTreeSet<i32>,
    /// Processes of tasks that have said that they sleep.
    pub asleep: BTreeSet<i32>,
    /// The team whose turn it is has slept and woken since it was looked at last: it gives its slot up by itself.
    pub has_woken: bool,
    /// Who uses the slot: the team whose turn it is, unless all its tasks sleep.
    pub user: Option<TeamId>,
    /// What the tasks think: whether turns are taken, and whether they are to say when they sleep.
    told_tasks: (bool, bool),
    /// What the page says, if any task can read it.
    pub shown: Option<Turn>,
    /// What turns there have been.
    pub history: History,
}

/// A team, within one daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TeamId(u32);

impl TeamId {
    /// As tasks know it.
    pub fn number(self) -> u32 {
        Turn::number(self.0)
    }
}

impl Teams {
    pub fn new(slice: Option<Duration>, host: HostIndex) -> Self {
        let slack = slice.unwrap_or_default().saturating_mul(SLACK);
        Self {
            slice,
            node: Node::new(slack).named(host.get()),
            names: BTreeMap::new(),
            roster: BTreeMap::new(),
            ids: 0,
            members: BTreeMap::new(),
            count: 0,
            is_shared: false,
            meter: Meter::default(),
            calm: Calm::default(),
            used: BTreeMap::new(),
            is_idle: false,
            serial: 0,
            chosen: BTreeSet::new(),
            held: BTreeSet::new(),
            asleep: BTreeSet::new(),
            has_woken: false,
            user: None,
            told_tasks: (false, false),
            shown: None,
            history: History::default(),
        }
    }

    /// One task more in the team of this name.
    fn enlist(&mut self, name: &str) -> TeamId {
        let next = TeamId(self.ids + 1);
        let team = *self.names.entry(name.to_owned()).or_insert(next);
        self.ids = self.ids.max(team.0);
        self.roster.entry(team).or_insert_with(|| (name.to_owned(), 0)).1 += 1;
        team
    }

    /// One task less.
    pub fn dismiss(&mut self, team: TeamId) {
        let Some((name, tasks)) = self.roster.get_mut(&team) else { return };
        *tasks -= 1;
        if *tasks == 0 {
            self.names.remove(name);
            self.roster.remove(&team);
            self.used.remove(&team);
            self.calm.forget(team);
        }
    }

    /// Its name; `None` for the team of a task that has none.
    pub fn name(&self, team: TeamId) -> Option<&str> {
        self.roster.get(&team).map(|(name, _)| &**name)
    }

    /// Processes of teams have done this, and this daemon that for teams.
    pub fn note_used(&mut self, work: &[(TeamId, Work)], errands: &[(TeamId, Duration)]) {
        for &(team, work) in work {
            let used = self.used.entry(team).or_default();
            used.time += work.time;
            used.waits += work.waits;
        }
        for &(team, time) in errands {
            self.used.entry(team).or_default().errands += time;
        }
    }

    /// What a team has had while teams took turns.
    pub fn used(&self, team: TeamId) -> Use {
        self.used.get(&team).copied().unwrap_or_default()
    }

    /// The same of all.
    pub fn all_used(&self) -> &BTreeMap<TeamId, Use> {
        &self.used
    }

    /// The teams that take turns, their processes, and whether they may run.
    pub fn iter(&self) -> impl Iterator<Item = (TeamId, &BTreeSet<i32>, bool)> {
        self.members.iter().map(|(&team, pids)| (team, pids, !self.is_shared || self.chosen.contains(&team)))
    }

    /// Whether a team's tasks may run.
    pub fn may_run(&self, team: TeamId) -> bool {
        !self.is_shared || !self.members.contains_key(&team) || self.chosen.contains(&team)
    }

    fn join(&mut self, team: TeamId, pid: i32) -> bool {
        // It may use the processor before its first turn.
        self.node.admit(team);
        let is_new = self.members.entry(team).or_default().insert(pid);
        self.count += usize::from(is_new);
        is_new
    }

    /// Whether it was a member.
    fn part(&mut self, team: TeamId, pid: i32) -> bool {
        let Some(pids) = self.members.get_mut(&team) else { return false };
        let was_member = pids.remove(&pid);
        self.asleep.remove(&pid);
        self.count -= usize::from(was_member);
        self.meter.lose(pid, was_member && self.node.running() == Some(team));
        if pids.is_empty() {
            self.members.remove(&team);
            self.node.forget(team);
        }
        was_member
    }

    /// With fewer teams than cores, or as many cores as processes, the kernel does all there is to do.
    fn must_share(&self, cores: usize) -> bool {
        let teams = self.members.len();
        self.slice.is_some() && teams >= 2 && teams >= cores && self.count > cores
    }

    /// Whether the slice of this number is the one that runs.
    pub fn is_slice(&self, serial: u64) -> bool {
        self.is_shared && self.serial == serial
    }

    /// The processes that take turns, each with its team.
    pub fn all(&self) -> impl Iterator<Item = (TeamId, i32)> {
        self.members.iter().flat_map(|(&team, pids)| pids.iter().map(move |&pid| (team, pid)))
    }

    /// Whether all tasks of a team sleep until something comes.
    fn sleeps(&self, team: TeamId) -> bool {
        self.members.get(&team).is_some_and(|pids| pids.is_subset(&self.asleep))
    }

    /// The team whose turn it is, and others as far as they find cores without work. A team that sleeps has the processors at
    /// once when it wakes, and in the meantime the next uses them.
    fn choose(&mut self, cores: usize) -> BTreeSet<TeamId> {
        if self.is_idle {
            return self.members.keys().copied().collect();
        }
        let running = self.node.running();
        let mut others: Vec<TeamId> =
            self.members.keys().copied().filter(|&team| Some(team) != running).collect();
        if running.is_some_and(|team| self.sleeps(team)) {
            others.sort_by_key(|&team| self.node.account(team));
        }
        self.user = None;
        let mut left = cores;
        let mut chosen = BTreeSet::new();
        for team in running.into_iter().chain(others) {
            let size = self.members.get(&team).map_or(0, BTreeSet::len);
            let uses_slot = self.user.is_none() && !self.sleeps(team);
            if uses_slot {
                self.user = Some(team);
            }
            if uses_slot || self.sleeps(team) || size <= left {
                left -= if self.sleeps(team) { 0 } else { size.min(left) };
                chosen.insert(team);
            }
        }
        chosen
    }
}

/// The team that an environment names.
pub(super) fn named_in(env: &[OsString]) -> Option<&str> {
    let values = env.iter().filter_map(|entry| split_entry(entry)).filter(|(name, _)| *name == TEAM_VARIABLE);
    values.filter_map(|(_, value)| value.to_str()).find(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= TEAM_NAME_MAX && !name.contains(char::is_control)
}

impl Core {
    /// The name of a task's team: what it was given, else its own.
    pub(super) fn team_name(&self, tid: Tid) -> String {
        let named = self.tasks.get(tid).and_then(|task| self.teams.name(task.team));
        named.map_or_else(|| tid.to_string(), str::to_owned)
    }

    /// The name of the team for tasks with this environment and this parent, if they have one.
    pub(super) fn team_of_child(&self, env: &[OsString], parent: i32) -> Option<String> {
        let inherited = || (parent > 0).then(|| self.team_name(Tid::from_raw(parent)));
        named_in(env).map(str::to_owned).or_else(inherited)
    }

    /// One more task of this team.
    pub(super) fn enlist(&mut self, tid: Tid, name: &str) {
        let team = self.teams.enlist(name);
        if let Some(task) = self.tasks.get_mut(tid) {
            self.teams.dismiss(std::mem::replace(&mut task.team, team));
        }
    }

    /// A task's process runs: from now on it takes turns with others. Only our own children do: who was started from a shell
    /// is not ours to stop, and the console must always answer.
    pub(super) fn join_team(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(tid).filter(|task| takes_turns(task)) else { return };
        let (team, pid) = (task.team, task.pid);
        if self.teams.slice.is_some() && self.teams.join(team, pid) {
            self.reconsider();
        }
    }

    /// It takes no turns any more. Unless its process has ended it is let go.
    pub(super) fn part_team(&mut self, (team, pid): (TeamId, i32), has_ended: bool) {
        if !self.teams.part(team, pid) {
            return;
        }
        if self.teams.held.remove(&pid) && !has_ended {
            self.actions.push(Action::Dispatch { pid, runs: true });
        }
        self.reconsider();
    }

    /// A task says to which team it belongs. 0, or less if that cannot be.
    pub(super) fn on_team(&mut self, tid: Tid, body: &[u8]) -> Result<i32, BodyError> {
        let name = BodyReader::new(body).str()?;
        if !is_name(name) {
            return Ok(pvm_wire::PvmError::BadParam.code());
        }
        let Some(task) = self.tasks.get(tid) else { return Ok(0) };
        let (before, pid) = (task.team, task.pid);
        if self.teams.name(before) != Some(name) {
            self.part_team((before, pid), false);
            self.enlist(tid, name);
            self.join_team(tid);
            if self.are_turns_taken() {
                self.tell_turns_to(tid);
            }
        }
        Ok(0)
    }

    /// Members have come or gone: turns may have to begin, or to end, or somebody else's turn may have come.
    fn reconsider(&mut self) {
        let cores = self.config.cores as usize;
        match (self.teams.is_shared, self.teams.must_share(cores)) {
            (false, true) => self.begin_turns(),
            (true, false) => self.end_turns(),
            (true, true) if self.teams.node.running().is_none() => self.next_turn(),
            (true, true) => self.steer(),
            (false, false) => {}
        }
    }

    fn begin_turns(&mut self) {
        debug!(teams = self.teams.members.len(), processes = self.teams.count, "teams take turns");
        self.teams.is_shared = true;
        self.teams.meter = Meter::new(self.now);
        self.teams.calm.begin();
        self.read_usage();
        self.next_turn();
        self.tell_turns(true);
    }

    fn end_turns(&mut self) {
        debug!("no turns any more");
        self.time_passed();
        self.teams.is_shared = false;
        self.teams.is_idle = false;
        self.teams.node.dispatch(None);
        self.teams.chosen.clear();
        self.teams.asleep.clear();
        let held = std::mem::take(&mut self.teams.held);
        self.actions.extend(held.into_iter().map(|pid| Action::Dispatch { pid, runs: true }));
        self.tell_turns(false);
    }

    pub(super) fn next_turn(&mut self) {
        self.turn_of_others(None);
    }

    /// The turn of the team that has used least, this one left out if there is another.
    pub(super) fn turn_of_others(&mut self, left_out: Option<TeamId>) {
        self.time_passed();
        self.teams.is_idle = false;
        let teams: Vec<TeamId> = self.teams.members.keys().copied().collect();
        let node = &mut self.teams.node;
        node.forget_savings();
        let next = node.turn(&teams, |team| Some(team) != left_out).or(left_out);
        node.slice_ended(next);
        self.begin_slice();
        self.remind();
    }

    /// Those whose turn it is and who wait for other hosts say so again: what they sent in an earlier turn may have been refused.
    fn remind(&mut self) {
        let running = self.teams.node.running();
        let waiting = self.tasks.iter().filter(|task| takes_turns(task) && Some(task.team) == running);
        let waiting: Vec<(Tid, Tid)> = waiting.filter_map(|task| Some((task.tid, task.awaits?))).collect();
        for (tid, other) in waiting {
            if let Some(host) = other.host() {
                self.tell_epoch(tid, host);
                self.tell(host, DaemonMsg::Waited { tids: vec![other] });
            }
        }
    }

    pub(super) fn begin_slice(&mut self) {
        let Some(slice) = self.teams.slice else { return };
        self.teams.serial += 1;
        self.set_timer(slice, Timer::Slice(self.teams.serial));
        self.look_later(slice);
        self.steer();
    }

    /// A task sleeps until something comes, or no more.
    pub(super) fn on_sleep(&mut self, tid: Tid, sleeps: bool) {
        let Some(task) = self.tasks.get(tid).filter(|task| takes_turns(task)) else { return };
        let (team, pid) = (task.team, task.pid);
        if !self.stops_others() {
            return;
        }
        self.teams.has_woken |= !sleeps && self.teams.node.running() == Some(team);
        self.time_passed();
        let asleep = &mut self.teams.asleep;
        if if sleeps { asleep.insert(pid) } else { asleep.remove(&pid) } {
            self.steer();
        }
    }

    /// Has the driver do what was decided: first those who run are let go, then the others stopped.
    fn steer(&mut self) {
        let teams = &mut self.teams;
        teams.chosen = teams.choose(self.config.cores as usize);
        for (team, pids) in &teams.members {
            if teams.chosen.contains(team) {
                let freed = pids.iter().filter(|pid| teams.held.remove(pid));
                self.actions.extend(freed.map(|&pid| Action::Dispatch { pid, runs: true }));
            }
        }
        for (team, pids) in &teams.members {
            if !teams.chosen.contains(team) {
                let stopped = pids.iter().filter(|pid| teams.held.insert(**pid));
                self.actions.extend(stopped.map(|&pid| Action::Dispatch { pid, runs: false }));
            }
        }
    }

    /// Whether turns are taken here, or where messages of this host's tasks may go.
    pub(super) fn are_turns_taken(&self) -> bool {
        self.teams.is_shared || self.links.values().any(|link| link.takes_turns)
    }

    /// They begin or end here.
    fn tell_turns(&mut self, taken: bool) {
        for host in self.links.keys().copied().collect::<Vec<_>>() {
            self.tell(host, DaemonMsg::Turns { taken });
        }
        self.tell_tasks();
    }

    /// They begin or end elsewhere.
    pub(super) fn on_turns(&mut self, host: HostIndex, taken: bool) {
        let Some(link) = self.links.get_mut(&host) else { return };
        link.takes_turns = taken;
        self.tell_tasks();
    }

    /// Tasks with direct routes have to know: their messages do not pass by here.
    pub(super) fn tell_tasks(&mut self) {
        let told = (self.are_turns_taken(), self.stops_others());
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
    pub(super) fn tell_turns_to(&mut self, tid: Tid) {
        let team = self.tasks.get(tid).filter(|task| takes_turns(task)).map(|task| task.team.number());
        let tells = team.is_some() && self.stops_others();
        let body = BodyWriter::new()
            .int(i32::from(self.are_turns_taken()))
            .int(team.unwrap_or(0).cast_signed())
            .int(i32::from(tells))
            .finish();
        self.send_message(Source::Daemon, tid, CONTEXT_TC, Tcx::Turns.tag(), body);
    }

    /// A message of a task goes to another host: its epoch goes before it, if that is not known there. Whoever runs out of
    /// turn, on a core that has nothing else to do, brings nobody onto a processor.
    pub(super) fn tell_epoch(&mut self, src: Tid, host: HostIndex) {
        if !src.is_task() {
            return;
        }
        let team = self.tasks.get(src).filter(|task| takes_turns(task)).map(|task| task.team);
        let is_free = !self.teams.is_shared || self.teams.is_idle;
        let has_turn = is_free || team.is_none() || team == self.teams.node.running();
        let epoch = has_turn.then(|| self.teams.node.epoch());
        let Some(link) = self.links.get_mut(&host).filter(|link| link.told_epoch != epoch) else { return };
        link.told_epoch = epoch;
        let epoch = epoch.map(|epoch| (epoch.count, epoch.origin));
        self.actions.push(Action::SendPeer { host, message: DaemonMsg::Epoch { epoch } });
    }

    /// The next messages from this host have that epoch.
    pub(super) fn on_epoch(&mut self, host: HostIndex, epoch: Option<(u64, u32)>) {
        if let Some(link) = self.links.get_mut(&host) {
            link.epoch = epoch.map(|(count, origin)| Epoch { count, origin });
        }
    }

    /// A message for a task has come from another host, or is about to come on a direct route.
    pub(super) fn on_hint(&mut self, from: HostIndex, dst: Tid) {
        if self.teams.is_shared
            && let Some(task) = self.tasks.get_mut(dst)
        {
            task.awaits = None;
            self.teams.calm.hear(task.team, from);
        }
        if let Some(epoch) = self.links.get(&from).and_then(|link| link.epoch) {
            self.arrived(dst, epoch);
        }
    }

    /// A message of another host with this epoch is for that task.
    pub(super) fn arrived(&mut self, dst: Tid, epoch: Epoch) {
        if !self.teams.is_shared || self.teams.is_idle {
            return self.teams.node.follow(epoch);
        }
        let Some(team) = self.tasks.get(dst).filter(|task| takes_turns(task)).map(|task| task.team) else {
            return;
        };
        self.time_passed();
        if self.teams.node.arrived(team, epoch, false) == Arrival::Switch {
            self.read_usage();
            self.begin_slice();
        }
    }

    /// A task has sent to another host.
    pub(super) fn note_sent(&mut self, src: Tid, dst: Option<Tid>) {
        if self.teams.is_shared
            && let Some(task) = self.tasks.get_mut(src)
        {
            task.awaits = dst.filter(|dst| dst.is_task());
        }
    }

    /// A task waits, and has sent to these by direct routes: their hosts are told, as if the messages had passed by here.
    pub(super) fn on_waiting(&mut self, tid: Tid, body: &[u8]) -> Result<(), BodyError> {
        let mut reader = BodyReader::new(body);
        let count = reader.count(4)?.min(BATCH_MAX);
        let mut hosts: BTreeMap<HostIndex, Vec<Tid>> = BTreeMap::new();
        for other in reader.ints(count)?.into_iter().map(Tid::from_raw) {
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
        Ok(())
    }

    /// Who takes turns, and whose turn it is; for people.
    pub(super) fn write_turns(&self, out: &mut String) -> fmt::Result {
        let teams = &self.teams;
        for (team, pids, runs) in teams.iter() {
            let name = teams.name(team).unwrap_or("-");
            let (state, used) = (if runs { "runs" } else { "waits" }, teams.node.account(team));
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

pub(super) fn takes_turns(task: &Task) -> bool {
    task.origin == Origin::Child && !task.manager && task.pid > 1 && task.ended.is_none()
}
