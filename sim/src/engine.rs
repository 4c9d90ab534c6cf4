//! The discrete-event engine: a clock, and what happens when.

use std::collections::VecDeque;

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

/// Bits of a digit of a time; a word has one bit for each value of a digit.
const DIGIT: u32 = 6;
/// Digits of a time.
const DIGITS: usize = u64::BITS.div_ceil(DIGIT) as usize;
/// Number of next events for which reading ahead is worth while.
const AHEAD: usize = 256;

/// Pending events. Those of the same time happen in the order in which they were planned.
///
/// They wait in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path problem", JACM 37:2,
/// 1990) with digits of six bits: each in the slot of the first digit in which its time differs from now, and of that
/// digit's value. When nothing is left before a slot, its events move to the slots of their next digit. So an event moves a
/// few times, however many there are; and those of equal times stay in order, as they always are in the same slot.
///
/// There is no way to cancel an event: a model gives what may be overtaken a number, and ignores old ones.
#[derive(Clone, Debug)]
pub struct Engine<E> {
    now: Time,
    happened: u64,
    pending: usize,
    /// The current time.
    due: VecDeque<E>,
    /// By the first digit that differs, the last digit first.
    levels: Vec<Level<E>>,
}

#[derive(Clone, Debug)]
struct Level<E> {
    /// The slots that are not empty.
    filled: u64,
    /// By the digit's value.
    slots: Vec<Vec<(Time, E)>>,
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        let level = || Level { filled: 0, slots: (0..1 << DIGIT).map(|_| Vec::new()).collect() };
        let levels = std::iter::repeat_with(level).take(DIGITS).collect();
        Self { now: 0, happened: 0, pending: 0, due: VecDeque::new(), levels }
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
        self.pending
    }

    /// Whether nothing more happens at this time.
    pub fn is_next_later(&self) -> bool {
        self.due.is_empty()
    }

    /// Plans an event for a time; one in the past happens now.
    pub fn at(&mut self, at: Time, event: E) {
        self.pending += 1;
        self.put(at.max(self.now), event);
    }

    /// Plans an event some time from now.
    pub fn after(&mut self, delay: Time, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// The next event happens.
    pub fn next_event(&mut self) -> Option<E> {
        self.next_event_with(|_| {})
    }

    /// The next event happens; `None` if it is after this time, which ends a run.
    pub fn next_event_until(&mut self, end: Time) -> Option<E> {
        self.next_event().filter(|_| self.now <= end)
    }

    /// The next event happens; `soon` is shown events that come soon, so that a model can read ahead what it will need
    /// for them: a processor waits for many reads that do not depend on each other hardly longer than for one.
    pub fn next_event_with(&mut self, soon: impl FnMut(&E)) -> Option<E> {
        if self.due.is_empty() {
            self.advance(soon)?;
        }
        self.pending -= 1;
        self.happened += 1;
        self.due.pop_front()
    }

    fn put(&mut self, at: Time, event: E) {
        let Some(bit) = (at ^ self.now).checked_ilog2() else { return self.due.push_back(event) };
        let digit = bit / DIGIT;
        let value = (at >> (digit * DIGIT)) as usize % (1 << DIGIT);
        let level = &mut self.levels[digit as usize];
        level.filled |= 1 << value;
        level.slots[value].push((at, event));
    }

    /// Now is when the next event happens. None is due; `None` if there is none at all.
    fn advance(&mut self, mut soon: impl FnMut(&E)) -> Option<()> {
        // Digits that come later differ less: what is in the first of them that has any comes before all others.
        let level = self.levels.iter().position(|level| level.filled > 0)?;
        let first = self.levels[level].filled.trailing_zeros() as usize;
        self.levels[level].filled &= !(1 << first);
        let mut events = std::mem::take(&mut self.levels[level].slots[first]);
        self.now = events.iter().map(|&(at, _)| at).min()?;
        if events.len() <= AHEAD {
            for (_, event) in &events {
                soon(event);
            }
        }
        for (at, event) in events.drain(..) {
            self.put(at, event);
        }
        // It will be needed again, and the slot is still empty: its digit is now's.
        self.levels[level].slots[first] = events;
        Some(())
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

    #[test]
    fn next_events_are_shown_before_they_happen() {
        let mut engine = Engine::new();
        let mut shown = std::collections::BTreeSet::new();
        for event in 0..1000_u64 {
            engine.at(event * event, event);
        }
        let mut seen = 0;
        while let Some(event) = engine.next_event_with(|&event| {
            shown.insert(event);
        }) {
            seen += u32::from(shown.contains(&event));
        }
        assert_eq!(seen, 999, "all but the one that was due at once");
    }

    proptest! {
        /// Times near each other and far apart, some planned while others happen.
        #[test]
        fn events_happen_in_order_and_equal_ones_as_planned(
            plans in proptest::collection::vec((0..64_u32, any::<u64>(), 0..3_usize), 0..200),
        ) {
            let mut engine = Engine::new();
            // Time and number: the order in which they are to happen.
            let (mut expected, mut happened) = (std::collections::BTreeSet::new(), Vec::new());
            for (number, (bits, random, steps)) in plans.into_iter().enumerate() {
                let delay = random >> bits;
                let at = engine.now().saturating_add(delay);
                engine.after(delay, number);
                expected.insert((at, number));
                for _ in 0..steps {
                    prop_assert_eq!(engine.pending(), expected.len());
                    happened.extend(engine.next_event());
                    if let Some((at, number)) = expected.pop_first() {
                        prop_assert_eq!((engine.now(), happened.last()), (at, Some(&number)));
                    }
                }
            }
            let rest: Vec<usize> = std::iter::from_fn(|| engine.next_event()).collect();
            prop_assert_eq!(rest, expected.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
        }
    }
}
