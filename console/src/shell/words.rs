//! A command line taken apart, by the console's rules of quoting.

use pvm3::Tid;
use std::iter::Peekable;
use std::str::Chars;

/// A quote that is never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unmatched {0}")]
pub struct Unmatched(pub char);

/// The words of a line: blanks separate, `"`, `'` and backslash quote, `#` at the start of a word begins a comment.
pub fn split(line: &str) -> Result<Vec<String>, Unmatched> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        match rest.peek() {
            None | Some('#') => return Ok(words),
            Some(_) => words.push(word(&mut rest)?),
        }
    }
}

/// A task's id: hexadecimal, with or without its `t`.
pub fn tid(text: &str) -> Option<Tid> {
    let digits = text.strip_prefix('t').unwrap_or(text);
    let bits = u32::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()?;
    Some(Tid::from_bits(bits)).filter(|tid| tid.is_task())
}

fn word(rest: &mut Peekable<Chars<'_>>) -> Result<String, Unmatched> {
    let mut word = String::new();
    while let Some(c) = rest.next_if(|c| !c.is_whitespace()) {
        match c {
            '"' | '\'' => quoted(c, rest, &mut word)?,
            // A backslash at the very end stands for itself.
            '\\' => word.push(rest.next().unwrap_or('\\')),
            _ => word.push(c),
        }
    }
    Ok(word)
}

fn quoted(quote: char, rest: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), Unmatched> {
    while let Some(c) = rest.next() {
        match c {
            _ if c == quote => return Ok(()),
            '\\' if quote == '"' => word.push(rest.next().ok_or(Unmatched(quote))?),
            _ => word.push(c),
        }
    }
    Err(Unmatched(quote))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap()
    }

    #[test]
    fn blanks_separate() {
        assert_eq!(words("  spawn\t-4  prog a\n"), ["spawn", "-4", "prog", "a"]);
        assert!(words(" \t ").is_empty());
    }

    #[test]
    fn quotes_keep_blanks() {
        assert_eq!(words(r#"echo "a b  c" \"x"#), ["echo", "a b  c", "\"x"]);
        assert_eq!(words(r#"add 'h1 dx=/a b'c"d""#), ["add", "h1 dx=/a bcd"]);
        assert_eq!(words(r#""" '' a"#), ["", "", "a"]);
        assert_eq!(words(r#""\"" '\' a\ b \"#), ["\"", "\\", "a b", "\\"]);
    }

    #[test]
    fn comments_begin_at_a_word() {
        assert_eq!(words("echo a#b # the rest \" is gone"), ["echo", "a#b"]);
        assert!(words("# all").is_empty());
        assert_eq!(words(r##"echo \# "#""##), ["echo", "#", "#"]);
    }

    #[test]
    fn task_ids_are_hexadecimal() {
        for text in ["t40002", "40002", "0x40002"] {
            assert_eq!(tid(text), Some(Tid::from_raw(0x40002)));
        }
        for text in ["zz", "", "t", "40000", "80040000", "-1"] {
            assert_eq!(tid(text), None, "{text}");
        }
    }

    #[test]
    fn open_quotes_are_reported() {
        assert_eq!(split("echo \"abc"), Err(Unmatched('"')));
        assert_eq!(split("echo 'abc"), Err(Unmatched('\'')));
        assert_eq!(split("\"\\").unwrap_err().to_string(), "unmatched \"");
    }
}
