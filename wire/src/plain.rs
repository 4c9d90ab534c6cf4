//! Reasons of the system, as people read them.

use std::fmt::Display;

/// What the standard library appends to a reason of the system's.
const NUMBER: &str = " (os error ";

/// The text without the system's numbers of errors: "No such file or directory", not "No such file or directory (os error 2)".
pub fn plain(error: impl Display) -> String {
    let text = error.to_string();
    let mut parts = text.split(NUMBER);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => out.push_str(rest),
            _ => {
                out.push_str(NUMBER);
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            plain(format_args!("a: {error}: b: {error}")),
            "a: No such file or directory: b: No such file or directory"
        );
        for text in ["", "x (os error", "x (os error y) z", "x (os error 2"] {
            assert_eq!(plain(text), text);
        }
    }
}
