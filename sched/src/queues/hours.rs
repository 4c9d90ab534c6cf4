//! Hours of the week, in which a queue starts jobs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: u16 = 24 * 60;
const WEEK: u16 = 7 * DAY;
/// The first day of 1970 was a Thursday.
const FIRST: u64 = 3 * DAY as u64;

/// Hours of the week, such as `Mon-Fri 18:00-08:00, Sat, Sun`. Hours that end before they begin end on the next day.
///
/// ```
/// use pvm_sched::queues::Hours;
///
/// let night: Hours = "Mon-Fri 18:00-08:00".parse()?;
/// let friday_noon = (24 + 12) * 3_600_000; // 2 January 1970
/// assert!(!night.contain(friday_noon) && night.contain(friday_noon + 7 * 3_600_000));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hours {
    text: String,
    /// Minutes of the week, the end not included.
    spans: Vec<(u16, u16)>,
}

impl Hours {
    /// Whether a time is among them: milliseconds since the beginning of 1970 by local clocks.
    pub fn contain(&self, local: u64) -> bool {
        let minute = ((local / 60_000 + FIRST) % u64::from(WEEK)) as u16;
        self.spans.iter().any(|&(start, end)| start <= minute && minute < end)
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no hours of the week: write \"Mon-Fri 18:00-08:00, Sat, Sun\"");
        let mut spans = Vec::new();
        for part in text.split(',') {
            let words: Vec<&str> = part.split_ascii_whitespace().collect();
            let (days, hours) = match words[..] {
                [word] if word.contains(':') => ((0, 6), word),
                [word] => (range(word, day).ok_or_else(wrong)?, "00:00-24:00"),
                [days, hours] => (range(days, day).ok_or_else(wrong)?, hours),
                _ => return Err(wrong()),
            };
            let hours = range(hours, minute).filter(|(from, to)| hours.contains('-') && from != to);
            add((days, hours.ok_or_else(wrong)?), &mut spans);
        }
        Ok(Self { text: text.trim().to_owned(), spans })
    }
}

/// Two values with `-` between, or one for both.
fn range<T: Copy>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    match text.split_once('-') {
        Some((from, to)) => Some((one(from)?, one(to)?)),
        None => one(text).map(|value| (value, value)),
    }
}

fn day(text: &str) -> Option<u16> {
    DAYS.iter().position(|day| day.eq_ignore_ascii_case(text)).map(|day| day as u16)
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour <= 24 && minute < 60).then_some(hour * 60 + minute).filter(|&minute| minute <= DAY)
}

/// Adds the same hours of some days.
fn add(((first, last), (from, to)): ((u16, u16), (u16, u16)), spans: &mut Vec<(u16, u16)>) {
    let count = (last + 7 - first) % 7;
    for day in (0..=count).map(|day| (first + day) % 7) {
        let start = day * DAY + from;
        let end = day * DAY + to + if to < from { DAY } else { 0 };
        spans.push((start, end.min(WEEK)));
        if end > WEEK {
            spans.push((0, end - WEEK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a time of the week is among the hours.
    fn contain(hours: &str, day: &str, time: &str) -> bool {
        let hours: Hours = hours.parse().unwrap();
        let minutes = u64::from(super::day(day).unwrap() * DAY + minute(time).unwrap());
        // The first Monday was the 5th.
        hours.contain((4 * u64::from(DAY) + minutes) * 60_000)
    }

    #[test]
    fn hours_of_days() {
        let night = "Mon-Fri 18:00-08:00, sat,Sun 00:00-24:00";
        for (day, time) in [("Mon", "18:00"), ("Tue", "07:59"), ("Sat", "03:00"), ("Sun", "23:59")] {
            assert!(contain(night, day, time), "{day} {time}");
        }
        for (day, time) in [("Mon", "00:00"), ("Mon", "17:59"), ("Fri", "08:00"), ("Fri", "12:00")] {
            assert!(!contain(night, day, time), "{day} {time}");
        }
        assert!(contain("22:00-06:00", "Mon", "05:00") && contain("22:00-06:00", "Sun", "23:00"));
        assert!(contain("Sat-Mon", "Sun", "12:00") && !contain("Sat-Mon", "Tue", "00:00"));
        assert!(contain("Sun 20:00-04:00", "Mon", "03:59") && !contain("Sun 20:00-04:00", "Mon", "04:00"));
    }

    #[test]
    fn what_is_no_hours_is_said() {
        for wrong in [
            "",
            "Mon-",
            "Day",
            "8-18",
            "08:00",
            "08:00-08:00",
            "Mon 25:00-26:00",
            "Mon 1 2",
            "Mon 00:60-01:00",
        ] {
            assert!(wrong.parse::<Hours>().is_err_and(|error| error.contains("no hours")), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9:, -]{0,30}", at: u32) {
            if let Ok(hours) = text.parse::<Hours>() {
                hours.contain(u64::from(at) * 1000);
            }
        }
    }
}
