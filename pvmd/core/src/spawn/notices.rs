//! Notices of queued batches, and what holds a batch back whose parent does not take them.
//!
//! A parent's library counts what its program takes, and says so from time to time. While too many notices are on their way, no more
//! of the parent's batches is handed out: they have no manager then, as if nothing waited.

use super::state::Event;
use crate::Core;
use crate::addresses::SpawnId;
use crate::effect::Mark;
use crate::flow::Source;
use pvm_wire::Tid;
use pvm_wire::queue::{BatchEvent, NOTICE, NOTICES_HIGH, NOTICES_LOW};
use tracing::debug;

/// Notices that a task has been sent and has not taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notices {
    untaken: u32,
    /// They were too many, and are not few yet.
    hold: bool,
}

impl Notices {
    /// One more; whether they are too many from now on.
    fn add(&mut self) -> bool {
        self.untaken = self.untaken.saturating_add(1);
        let fills = !self.hold && self.untaken >= NOTICES_HIGH;
        self.hold |= fills;
        fills
    }

    /// The program has taken some; whether they are few again.
    fn taken(&mut self, count: u32) -> bool {
        self.untaken = self.untaken.saturating_sub(count);
        let drains = self.hold && self.untaken <= NOTICES_LOW;
        self.hold &= !drains;
        drains
    }
}

/// As home.
impl Core {
    /// Tells the parent of a queued batch what has happened, if it wants to know.
    pub(super) fn tell_parent(&mut self, id: SpawnId, event: BatchEvent) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        let Some(queue) = spawn.queue() else { return };
        let Some((context, tag)) = queue.notices else { return };
        let (parent, body) = (spawn.spawner, event.encode(queue.id));
        self.send_marked(Source::Daemon, parent, Mark { context, tag, wait_id: NOTICE }, body);
        if self.tasks.get_mut(parent).is_some_and(|task| task.notices.add()) {
            debug!(%parent, "has more notices than it takes: its batches wait");
            for id in self.queues_of(parent) {
                self.step(id, Event::Held);
            }
        }
    }

    /// A task's program has taken notices.
    pub(crate) fn on_notices_taken(&mut self, parent: Tid, count: u32) {
        if self.tasks.get_mut(parent).is_some_and(|task| task.notices.taken(count)) {
            for id in self.queues_of(parent) {
                self.hand_out(id, 0);
            }
        }
    }

    /// Whether nothing may be started because the parent has too many notices to take.
    pub(super) fn is_held(&self, id: SpawnId) -> bool {
        let queued = self.spawns.get(&id).filter(|spawn| spawn.queue().is_some());
        queued.and_then(|spawn| self.tasks.get(spawn.spawner)).is_some_and(|parent| parent.notices.hold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_hold_until_few_are_left() {
        let mut notices = Notices::default();
        assert!((1..NOTICES_HIGH).all(|_| !notices.add()));
        assert!(notices.add() && notices.hold);
        assert!(!notices.add(), "said once");
        assert!(!notices.taken(NOTICES_HIGH - NOTICES_LOW) && notices.hold);
        assert!(notices.taken(1) && !notices.hold);
        assert!(!notices.taken(u32::MAX), "who takes more than there are gains nothing");
        assert!((1..NOTICES_HIGH).all(|_| !notices.add()));
    }
}
