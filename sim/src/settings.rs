//! Settings and their numbers on the command line, checked before anything is simulated.

use std::ffi::OsString;

/// No setting makes sense beyond this; times and their sums stay far from the end of what they can be.
const MOST: f64 = 1e9;
/// Nor below this: what rounds to no time at all may never get on.
const LEAST: f64 = 1e-3;

/// A number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text, LEAST)
}

/// A number that may be 0.
pub fn not_negative(text: &str) -> Result<f64, String> {
    number(text, 0.0)
}

/// Parses the words of a command line, which begin with an option. All other settings have their defaults.
pub fn parse<S: clap::Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<S, clap::Error> {
    let command = S::augment_args(clap::Command::new("settings").no_binary_name(true));
    S::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// The settings as without options: each of them must have a default.
pub(crate) fn defaults<S: clap::Args>() -> S {
    parse([""; 0]).expect("every setting has a default")
}

fn number(text: &str, least: f64) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    if (least..=MOST).contains(&value) {
        Ok(value)
    } else {
        Err(format!("it must be from {least} to {MOST}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_can_be() {
        assert_eq!(positive("2.5"), Ok(2.5));
        assert_eq!(not_negative("0"), Ok(0.0));
        assert_eq!(positive("1e9"), Ok(1e9));
    }

    #[test]
    fn numbers_that_cannot() {
        for text in ["0", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "", "x"] {
            assert!(positive(text).is_err(), "{text}");
        }
        assert!(not_negative("-0.1").is_err() && not_negative("nan").is_err());
    }
}
