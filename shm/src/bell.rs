//! Wakes a task only if it sleeps, and tells one with many rings which of them to look at.
//!
//! A task that is about to sleep sets a bit in the first page of its own segment, and looks once more whether anything has
//! come. A sender publishes, and then looks whether the receiver sleeps. Between the two steps of each is a fence: so either
//! the one sees the message, or the other sees that it has to ring.
//!
//! A task with many rings asks its senders by another bit to *list* themselves: each sets a bit of a bitmap, behind what it has published. The
//! task then looks at one cache line instead of one for each ring. It clears the bits before it looks at these rings, so each message is
//! in a ring that is looked at or has its bit set.

use crate::memory::{LINE, Memory};

/// The word with the state of the owner.
const STATE: u64 = LINE;
/// It sleeps.
const ASLEEP: u32 = 1;
/// Senders list themselves.
const LISTS: u32 = 2;

/// The bitmap.
const LIST: u64 = 2 * LINE;
const LIST_WORDS: u64 = LINE / 4;

/// Places in the bitmap. A sender whose number is beyond shares one.
pub const PLACES: u32 = 32 * LIST_WORDS as u32;

/// Bytes at the start of a segment that belong to the bell.
pub const BELL_SIZE: u64 = 4096;

fn awake(lists: bool) -> u32 {
    if lists { LISTS } else { 0 }
}

/// The owner is about to sleep. It must look for messages once more before it does.
pub fn doze(own: &impl Memory, lists: bool) {
    own.store(STATE, ASLEEP | awake(lists));
    own.fence();
}

/// The owner is awake. If its senders list themselves from now on, it must look at all rings once.
pub fn wake(own: &impl Memory, lists: bool) {
    own.store(STATE, awake(lists));
    if lists {
        own.fence();
    }
}

/// Whether the task to which something was just published has to be rung; true for one of several senders. A sender has
/// one of the [`PLACES`].
#[inline(always)]
pub fn must_ring(receiver: &impl Memory, place: u32) -> bool {
    receiver.fence();
    let state = receiver.load(STATE);
    state != 0 && list_and_ring(receiver, place, state)
}

#[cold]
fn list_and_ring(receiver: &impl Memory, place: u32, mut state: u32) -> bool {
    if state & LISTS != 0 {
        list(receiver, place);
        // It may have fallen asleep before it could see the bit.
        receiver.fence();
        state = receiver.load(STATE);
    }
    while state & ASLEEP != 0 {
        match receiver.exchange(STATE, state, state & !ASLEEP) {
            Ok(()) => return true,
            Err(found) => state = found,
        }
    }
    false
}

fn list(receiver: &impl Memory, place: u32) {
    let (at, bit) = (LIST + u64::from(place % PLACES / 32) * 4, 1 << (place % 32));
    let mut word = receiver.load(at);
    while word & bit == 0 {
        match receiver.exchange(at, word, word | bit) {
            Ok(()) => return,
            Err(found) => word = found,
        }
    }
}

/// Whether a sender has listed itself.
#[inline]
pub fn is_listed(own: &impl Memory) -> bool {
    (0..LIST_WORDS).any(|index| own.load(LIST + index * 4) != 0)
}

/// Hands over the places that are listed, and clears the list.
pub fn take_listed(own: &impl Memory, mut take: impl FnMut(u32)) {
    for index in 0..LIST_WORDS {
        let at = LIST + index * 4;
        let mut bits = if own.load(at) == 0 { 0 } else { own.swap(at, 0) };
        while bits != 0 {
            take(index as u32 * 32 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    // A sender that has found its bit set has published before.
    own.fence();
}
