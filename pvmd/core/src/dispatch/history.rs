//! Keeping the history of turns.

use crate::Core;
use crate::teams::TeamId;
use crate::teams::history::Open;
use crate::teams::history::State;
use crate::teams::micros;
use pvm_sched::coscheduling::{Turn, Use};
use pvm_wire::coscheduling::{TeamUse, TurnHistory, TurnSpan};
use std::collections::BTreeMap;

impl Core {
    /// Begins a span if anything has changed. Called when all has been done that an event entails. What has been used before a
    /// change is of the span that it ends, so while that is being read nothing has changed yet.
    pub(crate) fn note_turn(&mut self) {
        if self.teams.scheduler.is_shared() && self.teams.scheduler.is_read() {
            return;
        }
        let state = self.state();
        if self.teams.history.open.as_ref().map(|open| open.state) != state {
            self.begin_span(state);
        }
    }

    /// The spans from this number on; what has not ended ends and goes on.
    pub(crate) fn turns_since(&mut self, number: u64) -> TurnHistory {
        self.begin_span(self.state());
        self.teams.history.since(number)
    }

    fn state(&self) -> Option<State> {
        let scheduler = &self.teams.scheduler;
        let running = if let Turn::Of(team) = scheduler.turn() { Some(team) } else { None };
        scheduler.is_shared().then(|| (running, scheduler.epoch()))
    }

    fn begin_span(&mut self, state: Option<State>) {
        let now = u64::try_from((self.config.epoch + self.now).as_nanos()).unwrap_or(u64::MAX);
        let counters = self.teams.scheduler.counters();
        if let Some(open) = self.teams.history.open.take() {
            let old = counters.old - open.counters.old;
            let unfair = counters.unfair - open.counters.unfair;
            let uses = self.uses_since(&open.used);
            let span = TurnSpan { end: now.max(open.span.begin), old, unfair, uses, ..open.span };
            self.teams.history.push(span);
        }
        let name = |team| self.teams.name(team).unwrap_or_default().to_owned();
        self.teams.history.open = state.map(|state @ (team, epoch)| {
            let (count, origin) = (epoch.count, epoch.origin);
            let span = TurnSpan {
                begin: now,
                end: now,
                team: team.map(name),
                epoch: count,
                origin,
                is_boosted: team.is_some() && self.teams.scheduler.is_boosted(),
                ..TurnSpan::default()
            };
            Open { state, span, counters, used: self.teams.scheduler.totals().clone() }
        });
    }

    /// What teams have had since then, those left out that have not wanted anything.
    fn uses_since(&self, before: &BTreeMap<TeamId, Use>) -> Vec<TeamUse> {
        let since = |(&team, used): (&TeamId, &Use)| {
            let used = used.since(before.get(&team).copied().unwrap_or_default());
            (used != Use::default()).then(|| TeamUse {
                name: self.teams.name(team).unwrap_or_default().to_owned(),
                used: micros(used.time),
                overhead: micros(used.overhead),
                waited: micros(used.waits),
            })
        };
        self.teams.scheduler.totals().iter().filter_map(since).collect()
    }
}
