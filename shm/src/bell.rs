//! Wakes a task only if it sleeps.
//!
//! A task that is about to sleep sets a word in the first page of its own segment, and looks once more whether anything has
//! come. A sender publishes, and then looks whether the receiver sleeps. Between the two steps of each is a fence: so either
//! the one sees the message, or the other sees that it has to ring.

use crate::memory::{LINE, Memory};

/// The word that a sleeping task sets.
const ASLEEP: u64 = LINE;

/// Bytes at the start of a segment that belong to the bell.
pub const BELL_SIZE: u64 = 4096;

/// The owner is about to sleep. It must look for messages once more before it does.
pub fn doze(own: &impl Memory) {
    own.store(ASLEEP, 1);
    own.fence();
}

/// The owner is awake.
pub fn wake(own: &impl Memory) {
    own.store(ASLEEP, 0);
}

/// Whether the task to which something was just published has to be rung; true for one of several senders.
#[inline]
pub fn must_ring(receiver: &impl Memory) -> bool {
    receiver.fence();
    receiver.load(ASLEEP) != 0 && receiver.swap(ASLEEP, 0) != 0
}
