//! Signals by number and by name.

use signal_hook::low_level::signal_name;

/// The greatest signal of Linux.
const LAST: i32 = 64;

/// A word that is no signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: no such signal (a number from 1 to {LAST}, or a name such as TERM)")]
pub struct NoSignal(String);

/// The signal of this number or name: `15`, `TERM`, `SIGTERM`, `term`.
pub fn parse(text: &str) -> Result<i32, NoSignal> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_named =
        |&signal: &i32| signal_name(signal).is_some_and(|full| full.strip_prefix("SIG") == Some(name));
    let number = || text.parse().ok().filter(|number| (1..=LAST).contains(number));
    (1..=LAST).find(is_named).or_else(number).ok_or_else(|| NoSignal(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_numbers_and_names() {
        for text in ["15", "TERM", "SIGTERM", "term", "SigTerm"] {
            assert_eq!(parse(text), Ok(15), "{text}");
        }
        for (text, number) in [("KILL", 9), ("stop", 19), ("usr1", 10), ("40", 40), ("64", 64)] {
            assert_eq!(parse(text), Ok(number), "{text}");
        }
        for text in ["99", "65", "0", "-1", "", "SIG", "bogus", "99999999999"] {
            let refused = parse(text).unwrap_err().to_string();
            assert!(refused.contains("a number from 1 to 64"), "{refused}");
        }
    }
}
