//! What this host says about teams that take turns.

use crate::Core;
use crate::addresses::{PeerTo, ReplyTo, Waiter};
use crate::event::Action;
use crate::flow::Source;
use crate::tasks::{Activity, Task};
use crate::teams::{micros, nanos};
use pvm_sched::coscheduling::TwoPhase;
use pvm_wire::calls::turns as calls;
use pvm_wire::codes::{CONTEXT_TC, Tcx};
use pvm_wire::coscheduling::{Sent, TaskReport, TeamReport, TurnsReport, Why};
use pvm_wire::daemon::{PeerReply, PeerRequest};
use pvm_wire::tuned::REMOTE_WAKINGS;
use pvm_wire::{PvmError, Tid};
use std::collections::BTreeMap;
use std::time::Duration;

impl Core {
    /// A task says how long it spins, and what it has sent.
    pub(crate) fn on_activity(&mut self, tid: Tid, told: &calls::Activity) {
        let spin = Some(Duration::from_nanos(told.spin.max(0).unsigned_abs().into()));
        let sent = Sent { messages: told.messages, bytes: told.bytes };
        if let Some(task) = self.tasks.get_mut(tid) {
            task.activity = Activity { spin, sent, is_asked: false };
        }
    }

    /// Asks the tasks. The present report does not wait for them, as they may compute: the next one has their answers. A task that has
    /// not answered is not asked again.
    fn ask_activities(&mut self) {
        let asked =
            self.tasks.iter().filter(|task| task.extended && task.conn.is_some() && !task.activity.is_asked);
        let asked: Vec<Tid> = asked.filter(|task| is_shown(task)).map(|task| task.tid).collect();
        for tid in asked {
            self.send_message(Source::Daemon, tid, CONTEXT_TC, Tcx::Activity.tag(), Vec::new());
            if let Some(task) = self.tasks.get_mut(tid) {
                task.activity.is_asked = true;
            }
        }
    }

    /// A task wants to know of turns on a host.
    pub(crate) fn ask_of_turns(&mut self, to: ReplyTo, host: Tid, what: PeerRequest) {
        match host.host().filter(|&index| self.hosts.contains(index)) {
            None => self.reply_error(to, PvmError::NoHost),
            Some(index) => self.ask(index, what, Waiter::Turns(to)),
        }
    }

    /// A daemon wants to know: only the driver can look at processes.
    pub(crate) fn on_turns_wanted(&mut self, to: PeerTo) {
        self.ask_activities();
        let pids = self.tasks.iter().filter(|task| is_shown(task)).map(|task| task.pid).collect();
        self.out.act(Action::ReadTimes { host: to.host, id: to.id, pids });
    }

    /// It has looked, and nothing has happened meanwhile.
    pub(crate) fn on_times(
        &mut self,
        to: PeerTo,
        means: &str,
        daemon_spin: Duration,
        times: &[(Duration, Duration)],
    ) {
        let mut teams: BTreeMap<String, TeamReport> = BTreeMap::new();
        let scheduler = &self.teams.scheduler;
        let shown = self.tasks.iter().filter(|task| is_shown(task));
        for (task, (used, waited)) in shown.zip(times) {
            let name = self.teams.name_of(Some(task), task.tid);
            let team = teams.entry(name.clone()).or_insert_with(|| TeamReport {
                name,
                runs: scheduler.may_run(task.team),
                overhead: micros(
                    scheduler.totals().get(&task.team).map_or(Duration::ZERO, |total| total.overhead),
                ),
                ..TeamReport::default()
            });
            team.waited = team.waited.saturating_add(micros(*waited));
            let Activity { spin, sent, .. } = task.activity;
            team.tasks.push(TaskReport { tid: task.tid, used: micros(*used), spin: spin.map(nanos), sent });
        }
        let counters = scheduler.counters();
        let factor = if self.config.cores > 1 { TwoPhase::FACTOR } else { 0 };
        let spin = TwoPhase::new(self.config.wake_time, factor).spin();
        let report = TurnsReport {
            means: means.to_owned(),
            slice: self.config.slice.map_or(0, micros),
            wake: nanos(self.config.wake_time),
            spin: nanos(spin),
            far_spin: nanos(spin * REMOTE_WAKINGS),
            daemon_spin: nanos(daemon_spin),
            is_shared: scheduler.is_shared(),
            why: if self.owners.is_own_here() { Why::Owner } else { scheduler.why() },
            row: scheduler.row(),
            epoch: scheduler.epoch().count,
            switches: counters.switches,
            old: counters.old,
            unfair: counters.unfair,
            adopted: counters.adopted,
            boost: micros(counters.boost),
            teams: teams.into_values().collect(),
        };
        self.answer(to, PeerReply::Turns { report });
    }
}

fn is_shown(task: &Task) -> bool {
    !task.manager && task.pid > 1
}
