//! How many new messages a receive call may look at.
//!
//! PVM promises no order between messages with different tags, but programs that poll for two tags in turn rely on one: a worker sends
//! DATA, then READY, and the master does not expect to get READY while DATA still waits. The original keeps this order, as one polling call
//! reads about one message. A call that read DATA, which it is not looking for, and then READY would break it.

use super::Wait;
use pvm_wire::Tid;
use std::collections::BTreeSet;
use std::time::Duration;

/// A call that waits no longer than this polls. In `tests/programs/poll_order.c` the original mostly keeps the order of tags up to here; from
/// 5 ms on it mostly does not, from 20 ms on never.
const SHORT: Duration = Duration::from_millis(2);

/// The messages that a call may still look at. Messages that earlier calls have seen are always in reach.
#[derive(Debug, Default)]
pub enum Reach {
    /// All messages.
    #[default]
    All,
    /// One message.
    One,
    /// No more messages.
    None,
    /// The first message of each sender but these.
    FirstOfEach(BTreeSet<Tid>),
}

impl Reach {
    /// The reach of a call that waits this long. A program that waits at the descriptors itself, where the library cannot make one readable
    /// for messages that it has read, has to see all of them: the system would not wake it.
    #[inline]
    pub fn of(wait: Wait, hides_unseen: bool) -> Self {
        match wait {
            Wait::Poll if !hides_unseen => Self::One,
            Wait::For(time) if time <= SHORT && !hides_unseen => Self::FirstOfEach(BTreeSet::new()),
            _ => Self::All,
        }
    }

    /// Whether the call may look at the next message, which is of `src`.
    #[inline]
    pub fn admits(&mut self, src: Tid) -> bool {
        match self {
            Self::All => true,
            Self::One => {
                *self = Self::None;
                true
            }
            Self::None => false,
            Self::FirstOfEach(known) => known.insert(src),
        }
    }

    /// Whether the call need not read any more messages.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tid = Tid::from_bits(0x40001);
    const OTHER: Tid = Tid::from_bits(0x40002);

    #[test]
    fn a_poll_looks_at_one_message() {
        let mut reach = Reach::of(Wait::Poll, false);
        assert!(!reach.is_over() && reach.admits(ONE));
        assert!(reach.is_over() && !reach.admits(OTHER));
    }

    #[test]
    fn a_short_wait_looks_at_one_message_of_each_sender() {
        for time in [Duration::ZERO, SHORT] {
            let mut reach = Reach::of(Wait::For(time), false);
            assert!(reach.admits(ONE) && !reach.admits(ONE) && reach.admits(OTHER));
            assert!(!reach.is_over());
        }
    }

    #[test]
    fn a_long_wait_looks_at_everything() {
        for wait in [Wait::Forever, Wait::For(SHORT + Duration::from_nanos(1))] {
            let mut reach = Reach::of(wait, false);
            assert!(reach.admits(ONE) && reach.admits(ONE) && !reach.is_over());
        }
    }

    #[test]
    fn a_program_that_waits_at_the_descriptors_sees_all_that_was_read() {
        for wait in [Wait::Poll, Wait::For(Duration::ZERO)] {
            let mut reach = Reach::of(wait, true);
            assert!(reach.admits(ONE) && reach.admits(ONE) && !reach.is_over());
        }
    }
}
