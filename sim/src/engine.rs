//! The discrete-event engine: a clock, and what happens when.

use radix_heap::RadixHeapMap;
use std::cmp::Reverse;

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
/// They wait in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path problem", JACM 37:2,
/// 1990): nothing is planned before now, so an event costs the same however many there are.
///
/// There is no way to cancel an event: a model gives what may be overtaken a number, and ignores old ones.
#[derive(Clone, Debug)]
pub struct Engine<E> {
    now: Time,
    planned: u64,
    happened: u64,
    /// By time and number.
    events: RadixHeapMap<Reverse<(Time, u64)>, E>,
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Self { now: 0, planned: 0, happened: 0, events: RadixHeapMap::new() }
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
        self.events.push(Reverse((at.max(self.now), self.planned)), event);
    }

    /// Plans an event some time from now.
    pub fn after(&mut self, delay: Time, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// The next event happens.
    pub fn next_event(&mut self) -> Option<E> {
        let (Reverse((at, _)), event) = self.events.pop()?;
        self.now = at;
        self.happened += 1;
        Some(event)
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
