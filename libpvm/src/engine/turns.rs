//! Hints for hosts on which teams of tasks take turns.
//!
//! What goes by daemons carries its sender's epoch there. What goes on direct routes passes by no daemon: so a task that has to
//! wait, after it has sent on them, tells its daemon once to whom.

use super::{Engine, Payload, xdr_header};
use crate::error::{Result, check};
use pvm_wire::Tid;
use pvm_wire::body::{BodyReader, BodyWriter};
use pvm_wire::codes::{CONTEXT_TM, Tmx};

/// Receivers that are told of in one wait.
const RECEIVERS_MAX: usize = 256;

/// Whether anybody wants hints, and about whom.
#[derive(Debug, Default)]
pub(super) struct Turns {
    are_taken: bool,
    sent: Vec<Tid>,
}

impl Turns {
    /// The daemon has told whether turns are taken anywhere.
    pub(super) fn set(&mut self, are_taken: bool) {
        self.are_taken = are_taken;
        self.sent.clear();
    }

    /// Something was sent on a direct route.
    pub(super) fn note(&mut self, dst: Tid) {
        if self.are_taken && self.sent.len() < RECEIVERS_MAX && !self.sent.contains(&dst) {
            self.sent.push(dst);
        }
    }
}

impl Engine {
    /// Names this task's team: tasks that want to run at the same time. What it spawns from now on is of that team, too.
    pub fn join_team(&mut self, name: &str) -> Result<()> {
        self.require_ours()?;
        let answer = self.request(Tmx::Team.tag(), BodyWriter::new().str(name).finish())?;
        check(BodyReader::new(&answer).int()?, &format!("the team {name:?}")).map(drop)
    }

    /// This task is about to wait.
    pub(super) fn tell_waiting(&mut self) -> Result<()> {
        if self.hints.sent.is_empty() {
            return Ok(());
        }
        let sent = std::mem::take(&mut self.hints.sent);
        let body = BodyWriter::new().int(sent.len() as i32).ints(sent.into_iter().map(Tid::raw)).finish();
        self.send_by_daemon(
            Tid::MY_DAEMON,
            xdr_header(Tmx::Waiting.tag(), CONTEXT_TM, 0),
            Payload::Parts(&[&body]),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_noted_while_nobody_wants_it_and_nobody_twice() {
        let mut turns = Turns::default();
        turns.note(Tid::from_bits(0x40001));
        assert!(turns.sent.is_empty());
        turns.set(true);
        (0..1000).for_each(|number| turns.note(Tid::from_bits(0x40001 + number % 2)));
        assert_eq!(turns.sent.len(), 2);
        (0..1000).for_each(|number| turns.note(Tid::from_bits(0x40001 + number)));
        assert_eq!(turns.sent.len(), RECEIVERS_MAX);
        turns.set(false);
        assert!(turns.sent.is_empty());
    }
}
