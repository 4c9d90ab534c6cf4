//! Whether notices of changed groups may have come: a task that is told so by its daemon's page need not ask the system in every call.

use super::Engine;
use super::groups::Notices;
use pvm_wire::tuned::GROUP_NOTICE_LATE;
use std::time::Instant;

/// What this task knows of the daemon's count of notices.
#[derive(Debug, Default)]
pub(super) struct Changes {
    seen: Option<u64>,
    /// Until when a notice may come that is counted already.
    unsettled: Option<Instant>,
}

impl Changes {
    /// Whether to look for notices, when the daemon has counted this many.
    fn are_possible(&mut self, count: u64, now: impl FnOnce() -> Instant) -> bool {
        if self.seen != Some(count) {
            *self = Self { seen: Some(count), unsettled: Some(now() + GROUP_NOTICE_LATE) };
        } else if let Some(end) = self.unsettled {
            if now() >= end {
                self.unsettled = None;
            }
        } else {
            return false;
        }
        true
    }
}

impl Engine {
    /// Where notices of changed groups may be. The daemon's count is read before the look, so that none is missed. Until this task has
    /// the daemon's page it looks everywhere in every call.
    pub fn notices(&mut self) -> Notices {
        let count = self.hints.group_changes();
        if count.is_none() {
            self.ask_for_page(false);
        }
        if count.is_none_or(|count| self.changes.are_possible(count, Instant::now)) {
            Notices::Anywhere
        } else if self.inbox.has_of_members() {
            Notices::Queued
        } else {
            Notices::Nowhere
        }
    }

    /// Whether there may be any.
    pub fn has_notices(&mut self) -> bool {
        self.notices() != Notices::Nowhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_task_looks_after_a_change_and_a_while_longer() {
        let (mut changes, start) = (Changes::default(), Instant::now());
        let mut look = |count, after| changes.are_possible(count, || start + after);
        assert!(look(0, Duration::ZERO), "there may have been one before");
        assert!(look(0, GROUP_NOTICE_LATE / 2) && look(0, GROUP_NOTICE_LATE));
        assert!(!look(0, GROUP_NOTICE_LATE * 2) && !look(0, GROUP_NOTICE_LATE * 3));
        assert!(
            look(1, GROUP_NOTICE_LATE * 3)
                && look(1, GROUP_NOTICE_LATE * 4)
                && !look(1, GROUP_NOTICE_LATE * 5)
        );
    }
}
