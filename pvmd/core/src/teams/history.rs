//! What turns there have been on this host, for timelines.

use crate::teams::TeamId;
use pvm_sched::coscheduling::{Counters, Epoch, Use};
use pvm_wire::coscheduling::{TurnHistory, TurnSpan};
use std::collections::{BTreeMap, VecDeque};

/// Spans that are kept: at twenty a second, of some minutes.
pub(crate) const SPANS_MAX: usize = 4096;
/// Teams that they name in all.
pub(crate) const USES_MAX: usize = 1 << 16;

/// The last turns.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub spans: VecDeque<TurnSpan>,
    /// Teams that they name.
    pub uses: usize,
    /// How many there were before the first of them.
    pub gone: u64,
    pub open: Option<Open>,
}

/// Who has the turn, and since which epoch.
pub(crate) type State = (Option<TeamId>, Epoch);

/// The span that has not ended.
#[derive(Debug)]
pub(crate) struct Open {
    pub state: State,
    pub span: TurnSpan,
    pub counters: Counters,
    /// What each team had had before.
    pub used: BTreeMap<TeamId, Use>,
}

impl History {
    pub fn push(&mut self, span: TurnSpan) {
        self.uses += span.uses.len();
        self.spans.push_back(span);
        while self.spans.len() > SPANS_MAX || self.uses > USES_MAX {
            let Some(gone) = self.spans.pop_front() else { break };
            self.uses -= gone.uses.len();
            self.gone += 1;
        }
    }

    pub fn since(&self, number: u64) -> TurnHistory {
        let known = usize::try_from(number.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        let spans = self.spans.iter().skip(known).cloned().collect();
        TurnHistory { spans, next: self.gone + self.spans.len() as u64 }
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
