//! The discrete-event engine: a clock, and what happens when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A time, or a duration, in microseconds from the start. An integer, so that sums do not depend on their order.
pub type Time = u64;

/// Microseconds in a second.
pub const SECOND: Time = 1_000_000;

/// Seconds as a time, rounded; what is negative or no number is 0, what is too large the end of time.
pub fn seconds(s: f64) -> Time {
    libm::round(s * SECOND as f64) as Time
}

/// A time in seconds.
pub fn to_seconds(time: Time) -> f64 {
    time as f64 / SECOND as f64
}

/// Events to come. Those of the same time happen in the order in which they were planned.
///
/// There is no way to cancel an event: a model gives what may be overtaken a number, and ignores old ones.
#[derive(Clone, Debug)]
pub struct Engine<E> {
    now: Time,
    planned: u64,
    happened: u64,
    events: BinaryHeap<Entry<E>>,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap has its greatest on top, which must be the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Self { now: 0, planned: 0, happened: 0, events: BinaryHeap::new() }
    }
}

impl<E> Engine<E> {
    /// Time 0, nothing planned.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time of the event that happened last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events have happened.
    pub fn happened(&self) -> u64 {
        self.happened
    }

    /// How many are to come.
    pub fn pending(&self) -> usize {
        self.events.len()
    }

    /// Plans an event for a time; one in the past happens now.
    pub fn at(&mut self, at: Time, event: E) {
        self.planned += 1;
        self.events.push(Entry { at: at.max(self.now), number: self.planned, event });
    }

    /// Plans an event some time from now.
    pub fn after(&mut self, delay: Time, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// The next event happens.
    pub fn next_event(&mut self) -> Option<E> {
        let entry = self.events.pop()?;
        self.now = entry.at;
        self.happened += 1;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seconds_and_back() {
        assert_eq!(seconds(1.5), 1_500_000);
        assert_eq!(seconds(-1.0), 0);
        assert_eq!(seconds(f64::NAN), 0);
        assert_eq!(seconds(f64::INFINITY), Time::MAX);
        assert!((to_seconds(250_000) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn the_past_is_now() {
        let mut engine = Engine::new();
        engine.at(10, 'a');
        assert_eq!(engine.next_event(), Some('a'));
        engine.at(3, 'b');
        engine.after(Time::MAX, 'c');
        assert_eq!((engine.next_event(), engine.now()), (Some('b'), 10));
        assert_eq!((engine.next_event(), engine.now()), (Some('c'), Time::MAX));
        assert_eq!((engine.next_event(), engine.happened(), engine.pending()), (None, 3, 0));
    }

    proptest! {
        #[test]
        fn events_happen_in_order_and_equal_ones_as_planned(times in proptest::collection::vec(0..20_u64, 0..100)) {
            let mut engine = Engine::new();
            for (number, &time) in times.iter().enumerate() {
                engine.at(time, number);
            }
            let mut expected: Vec<usize> = (0..times.len()).collect();
            expected.sort_by_key(|&number| times[number]);
            let happened: Vec<usize> = std::iter::from_fn(|| engine.next_event()).collect();
            prop_assert_eq!(happened, expected);
        }
    }
}
