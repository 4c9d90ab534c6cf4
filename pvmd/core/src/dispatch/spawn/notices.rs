//! As home: notices of queued batches to their parents.

use crate::Core;
use crate::addresses::SpawnId;
use crate::effect::Mark;
use crate::flow::Source;
use crate::spawn::state::Event;
use pvm_wire::Tid;
use pvm_wire::queue::{BatchEvent, NOTICE};
use tracing::debug;

/// As home.
impl Core {
    /// Tells the parent of a queued batch what has happened, if it wants to know.
    pub(crate) fn tell_parent(&mut self, id: SpawnId, event: BatchEvent) {
        let Some(spawn) = self.home.spawns.get(&id) else { return };
        let Some(queue) = spawn.queue() else { return };
        let Some((context, tag)) = queue.notices else { return };
        let (parent, body) = (spawn.spawner, event.encode(queue.id));
        self.send_marked(Source::Daemon, parent, Mark { context, tag, wait_id: NOTICE }, body);
        if self.tasks.get_mut(parent).is_some_and(|task| task.notices.add()) {
            debug!(%parent, "has more notices than it takes: its batches wait");
            for id in self.home.queues_of(parent) {
                self.step(id, Event::Held);
            }
        }
    }

    /// A task's program has taken notices.
    pub(crate) fn on_notices_taken(&mut self, parent: Tid, count: u32) {
        if self.tasks.get_mut(parent).is_some_and(|task| task.notices.taken(count)) {
            for id in self.home.queues_of(parent) {
                self.hand_out(id, 0);
            }
        }
    }

    /// Whether nothing may be started because the parent has too many notices to take.
    pub(crate) fn is_held(&self, id: SpawnId) -> bool {
        let queued = self.home.spawns.get(&id).filter(|spawn| spawn.queue().is_some());
        queued.and_then(|spawn| self.tasks.get(spawn.spawner)).is_some_and(|parent| parent.notices.hold)
    }
}
