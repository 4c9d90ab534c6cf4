//! Notices of queued batches, and what holds a batch back whose parent does not take them.
//!
//! A parent's library counts what its program takes, and says so from time to time. While too many notices are on their way, no more
//! of the parent's batches is handed out: they have no manager then, as if nothing waited.

use pvm_wire::queue::{NOTICES_HIGH, NOTICES_LOW};

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
