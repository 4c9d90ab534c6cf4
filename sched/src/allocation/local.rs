//! The baseline of the algorithms: a process runs where it was created.

use super::agent::{Agent, Event, Scene};

/// The policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Agent for Local {
    type Message = ();

    fn on(&mut self, event: Event<()>, scene: &mut Scene<'_, ()>) {
        if let Event::Created { request, count } = event {
            scene.start(request, scene.own, count);
        }
    }
}
