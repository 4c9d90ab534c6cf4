//! Lines that repeat themselves: the first few of a kind are written, the others counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Lines are counted for as long.
const PERIOD: Duration = Duration::from_secs(10);
/// Lines of the same text that are written within a period, and lines that differ only in their numbers.
const EQUAL: u32 = 5;
const ALIKE: u32 = 100;
/// Kinds of lines that are counted at a time; lines of other kinds are all written.
const KINDS: usize = 512;
/// Characters by which lines are compared.
const COMPARED: usize = 500;

/// Lines of the same text but for the numbers in it.
#[derive(Debug)]
struct Kind {
    began: Instant,
    /// The text of the last line, and how many in turn have had it.
    text: String,
    equal: u32,
    written: u32,
    held: u64,
}

/// What repeats itself at the moment.
#[derive(Debug, Default)]
pub struct Repeats {
    kinds: HashMap<String, Kind>,
    due: Option<Instant>,
}

impl Repeats {
    /// Whether a line is to be written. Otherwise it is counted.
    pub fn admits(&mut self, text: &str, now: Instant) -> bool {
        let is_full = self.kinds.len() >= KINDS;
        let text: String = text.chars().take(COMPARED).collect();
        let key = without_numbers(&text);
        if is_full && !self.kinds.contains_key(&key) {
            return true;
        }
        let new = || Kind { began: now, text: text.clone(), equal: 0, written: 0, held: 0 };
        let kind = self.kinds.entry(key).or_insert_with(new);
        if kind.text == text {
            kind.equal += 1;
        } else {
            kind.text = text;
            kind.equal = 1;
        }
        let is_admitted = kind.equal <= EQUAL && kind.written < ALIKE;
        if is_admitted {
            kind.written += 1;
        } else {
            kind.held += 1;
        }
        self.due.get_or_insert(now + PERIOD);
        is_admitted
    }

    /// When [`Repeats::take`] wants to be called.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What is to be said of the lines that were counted: of those whose period is over, or of all.
    pub fn take(&mut self, now: Instant, all: bool) -> Vec<String> {
        let mut said = Vec::new();
        self.kinds.retain(|_, kind| {
            let is_over = all || now.saturating_duration_since(kind.began) >= PERIOD;
            if is_over && kind.held > 0 {
                let Kind { held, text, .. } = kind;
                let times = if *held == 1 { "once more".to_owned() } else { format!("{held} times more") };
                said.push(format!("message repeated {times}, the last: {text}"));
            }
            !is_over
        });
        self.due = self.kinds.values().map(|kind| kind.began + PERIOD).min();
        said.sort_unstable();
        said
    }
}

/// Numbers tell connections, tasks and ports apart, of which there can be many in the same trouble.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_lines_some_are_written_and_the_others_counted() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let written = (0..1000).filter(|_| repeats.admits("no file left", now)).count();
        assert_eq!(written, 5);
        assert!(repeats.admits("something else", now));
        assert_eq!(repeats.due(), Some(now + PERIOD));
        assert_eq!(repeats.take(now, false), [""; 0]);
        let later = now + PERIOD;
        assert_eq!(repeats.take(later, false), ["message repeated 995 times more, the last: no file left"]);
        assert_eq!(repeats.due(), None);
        assert!(repeats.admits("no file left", later));
    }

    #[test]
    fn lines_that_differ_in_numbers_are_one_kind_with_more_patience() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let line = |number: u32| format!("connection {number} closed");
        assert_eq!((1..=101).filter(|&number| repeats.admits(&line(number), now)).count(), 100);
        assert_eq!(repeats.take(now, true), ["message repeated once more, the last: connection 101 closed"]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for number in 0..10_000_u32 {
            let text: String = number.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
            assert!(repeats.admits(&text, now));
        }
        assert!(repeats.kinds.len() <= KINDS);
    }
}
