//! Notices of queued batches, and what holds a batch back whose parent does not take them.
//!
//! A parent's library counts what its program takes, and says so from time to time. While too many notices are on their way, no more
//! of the parent's batches is handed out: they have no manager then, as if nothing waited.

use super::home::Home;
use super::state::Event;
use crate::addresses::SpawnId;
use crate::decision::Decision;
use crate::effect::{Effect, Mark};
use pvm_wire::Tid;
use pvm_wire::queue::{BatchEvent, NOTICE, NOTICES_HIGH, NOTICES_LOW};
use tracing::debug;

/// Notices that a task has been sent and has not taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notices {
    pub untaken: u32,
    /// They were too many, and are not few yet.
    pub hold: bool,
}

impl Notices {
    /// One more; whether they are too many from now on.
    pub fn add(&mut self) -> bool {
        self.untaken = self.untaken.saturating_add(1);
        let fills = !self.hold && self.untaken >= NOTICES_HIGH;
        self.hold |= fills;
        fills
    }

    /// The program has taken some; whether they are few again.
    pub fn taken(&mut self, count: u32) -> bool {
        self.untaken = self.untaken.saturating_sub(count);
        let drains = self.hold && self.untaken <= NOTICES_LOW;
        self.hold &= !drains;
        drains
    }
}

impl Home {
    /// Tells the parent of a queued batch what has happened, if it wants to know.
    pub(super) fn tell_parent(&mut self, id: SpawnId, event: BatchEvent, at: &mut Decision<'_>) {
        let Some(spawn) = self.spawns.get(&id) else { return };
        let Some(queue) = spawn.queue() else { return };
        let Some((context, tag)) = queue.notices else { return };
        let (to, body) = (spawn.spawner, event.encode(queue.id));
        at.out.push(Effect::Send { to, mark: Mark { context, tag, wait_id: NOTICE }, body });
        if self.notices.get_mut(&to).is_some_and(Notices::add) {
            debug!(parent = %to, "has more notices than it takes: its batches wait");
            for id in self.queues_of(to) {
                self.step(id, Event::Held, at);
            }
        }
    }

    /// A task's program has taken notices.
    pub fn on_notices_taken(&mut self, parent: Tid, count: u32, at: &mut Decision<'_>) {
        if self.notices.get_mut(&parent).is_some_and(|notices| notices.taken(count)) {
            for id in self.queues_of(parent) {
                self.hand_out(id, 0, at);
            }
        }
    }

    /// Whether nothing may be started because the parent has too many notices to take.
    pub(super) fn is_held(&self, id: SpawnId) -> bool {
        let queued = self.spawns.get(&id).filter(|spawn| spawn.queue().is_some());
        queued.and_then(|spawn| self.notices.get(&spawn.spawner)).is_some_and(|notices| notices.hold)
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
