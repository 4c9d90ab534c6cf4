//! What turns there have been on this host, for timelines.

use super::{Teams, micros};
use crate::addresses::TeamId;
use pvm_sched::coscheduling::{Counters, Epoch, Use};
use pvm_wire::coscheduling::{TeamUse, TurnHistory, TurnSpan};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Spans that are kept: at twenty a second, of some minutes.
const SPANS_MAX: usize = 4096;
/// Teams that they name in all.
const USES_MAX: usize = 1 << 16;

/// The last turns.
#[derive(Debug, Default)]
pub(crate) struct History {
    spans: VecDeque<TurnSpan>,
    /// Teams that they name.
    uses: usize,
    /// How many there were before the first of them.
    gone: u64,
    open: Option<Open>,
}

/// The team that has the turn, and its epoch.
type State = (Option<TeamId>, Epoch);

/// The span that has not ended.
#[derive(Debug)]
struct Open {
    state: State,
    span: TurnSpan,
    counters: Counters,
    /// What each team had had before.
    used: BTreeMap<TeamId, Use>,
}

impl History {
    fn push(&mut self, span: TurnSpan) {
        self.uses += span.uses.len();
        self.spans.push_back(span);
        while self.spans.len() > SPANS_MAX || self.uses > USES_MAX {
            let Some(gone) = self.spans.pop_front() else { break };
            self.uses -= gone.uses.len();
            self.gone += 1;
        }
    }

    fn since(&self, number: u64) -> TurnHistory {
        let known = usize::try_from(number.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        let spans = self.spans.iter().skip(known).cloned().collect();
        TurnHistory { spans, next: self.gone + self.spans.len() as u64 }
    }
}

impl Teams {
    /// Starts a span at this time of day if anything has changed. Called when all has been done that an event entails. What has been used before a
    /// change is of the span that it ends, so while that is being read nothing has changed yet.
    pub fn note_turn(&mut self, time: Duration) {
        if self.scheduler.is_shared() && self.scheduler.is_read() {
            return;
        }
        let state = self.state();
        if self.history.open.as_ref().map(|open| open.state) != state {
            self.begin_span(state, time);
        }
    }

    /// The spans from this number on; what has not ended ends and goes on.
    pub fn turns_since(&mut self, number: u64, time: Duration) -> TurnHistory {
        self.begin_span(self.state(), time);
        self.history.since(number)
    }

    fn state(&self) -> Option<State> {
        let scheduler = &self.scheduler;
        scheduler.is_shared().then(|| (scheduler.user(), scheduler.epoch()))
    }

    fn begin_span(&mut self, state: Option<State>, time: Duration) {
        let now = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let counters = self.scheduler.counters();
        if let Some(open) = self.history.open.take() {
            let old = counters.old - open.counters.old;
            let unfair = counters.unfair - open.counters.unfair;
            let uses = self.uses_since(&open.used);
            let span = TurnSpan { end: now.max(open.span.begin), old, unfair, uses, ..open.span };
            self.history.push(span);
        }
        let name = |team| self.name(team).unwrap_or_default().to_owned();
        self.history.open = state.map(|state @ (team, epoch)| {
            let (count, origin) = (epoch.count, epoch.origin);
            let span = TurnSpan {
                begin: now,
                end: now,
                team: team.map(name),
                epoch: count,
                origin,
                is_boosted: team.is_some() && self.scheduler.is_boosted(),
                row: self.scheduler.row(),
                ..TurnSpan::default()
            };
            Open { state, span, counters, used: self.scheduler.totals().clone() }
        });
    }

    /// What teams have had since then, those left out that have not wanted anything.
    fn uses_since(&self, before: &BTreeMap<TeamId, Use>) -> Vec<TeamUse> {
        let since = |(&team, used): (&TeamId, &Use)| {
            let used = used.since(before.get(&team).copied().unwrap_or_default());
            (used != Use::default()).then(|| TeamUse {
                name: self.name(team).unwrap_or_default().to_owned(),
                used: micros(used.time),
                overhead: micros(used.overhead),
                waited: micros(used.waits),
            })
        };
        self.scheduler.totals().iter().filter_map(since).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_spans_are_kept_and_have_their_numbers() {
        let mut history = History::default();
        for epoch in 0..SPANS_MAX as u64 + 10 {
            history.push(TurnSpan { epoch, ..TurnSpan::default() });
        }
        let epochs = |number| -> Vec<u64> {
            let told = history.since(number);
            assert_eq!(told.next, SPANS_MAX as u64 + 10);
            told.spans.iter().map(|span| span.epoch).collect()
        };
        assert_eq!(epochs(0).len(), SPANS_MAX);
        assert_eq!(epochs(0)[0], 10);
        assert_eq!(epochs(SPANS_MAX as u64 + 8), [SPANS_MAX as u64 + 8, SPANS_MAX as u64 + 9]);
        assert!(epochs(u64::MAX).is_empty());
    }
}
