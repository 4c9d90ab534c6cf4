//! The options of `ps`.

/// Of which hosts the tasks are listed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Which {
    /// This one.
    #[default]
    Here,
    /// All.
    Everywhere,
    /// The one with this tid.
    Tid(i32),
    /// The one with this name.
    Name(String),
}

/// The options of `ps`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PsOptions {
    /// Of which hosts.
    pub which: Which,
    /// With parent and process.
    pub long: bool,
    /// With the console and half-connected tasks.
    pub special: bool,
}

/// An error in the options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PsSyntax {
    /// There is a word that is no option.
    #[error("ps: {0}: no such option (try \"help ps\")")]
    Unknown(String),
    /// `-h` or `-n` without what it needs.
    #[error("ps: {0} needs a host (try \"help ps\")")]
    Missing(String),
}

/// Reads the words after `ps`; letters can be combined in one word, `-h` and `-n` take the rest of it or the next.
pub fn parse(words: &[String]) -> Result<PsOptions, PsSyntax> {
    let mut options = PsOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let unknown = || PsSyntax::Unknown(word.clone());
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty()).ok_or_else(unknown)?;
        for (at, letter) in letters.char_indices() {
            let mut value = || match &letters[at + 1..] {
                "" => words.next().cloned().ok_or_else(|| PsSyntax::Missing(word.clone())),
                rest => Ok(rest.to_owned()),
            };
            match letter {
                'a' => options.which = Which::Everywhere,
                'l' => options.long = true,
                'x' => options.special = true,
                'n' => {
                    options.which = Which::Name(value()?);
                    break;
                }
                'h' => {
                    let text = value()?;
                    let digits = text.trim_start_matches('t').trim_start_matches("0x");
                    let tid = u32::from_str_radix(digits, 16).map_err(|_| unknown())?;
                    options.which = Which::Tid(tid as i32);
                    break;
                }
                _ => return Err(unknown()),
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::words::split;

    fn ps(line: &str) -> Result<PsOptions, PsSyntax> {
        parse(&split(line).unwrap())
    }

    #[test]
    fn letters_can_be_combined() {
        let all = PsOptions { which: Which::Everywhere, long: true, special: true };
        assert_eq!(ps("-alx").unwrap(), all);
        assert_eq!(ps("-a -x -l").unwrap(), all);
        assert_eq!(ps("").unwrap(), PsOptions::default());
    }

    #[test]
    fn hosts_are_named_by_tid_or_name() {
        for line in ["-h80000", "-h 80000", "-ht80000", "-xh0x80000"] {
            assert_eq!(ps(line).unwrap().which, Which::Tid(0x80000), "{line}");
        }
        let named = ps("-lnalpha -x").unwrap();
        assert_eq!((named.which, named.long, named.special), (Which::Name("alpha".into()), true, true));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(ps("-z"), Err(PsSyntax::Unknown("-z".into())));
        assert_eq!(ps("x"), Err(PsSyntax::Unknown("x".into())));
        assert_eq!(ps("-"), Err(PsSyntax::Unknown("-".into())));
        assert_eq!(ps("-n"), Err(PsSyntax::Missing("-n".into())));
        assert_eq!(ps("-hzz"), Err(PsSyntax::Unknown("-hzz".into())));
    }
}
