//! Names that people give to commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Aliases that lead back to themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("alias loop")]
pub struct AliasLoop;

/// The aliases defined.
#[derive(Debug, Default)]
pub struct Aliases {
    meanings: BTreeMap<String, Vec<String>>,
}

impl Aliases {
    /// Defines a name, or gives it a new meaning.
    pub fn define(&mut self, name: String, meaning: Vec<String>) {
        self.meanings.insert(name, meaning);
    }

    /// Forgets a name.
    pub fn forget(&mut self, name: &str) {
        self.meanings.remove(name);
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.meanings.keys().map(String::as_str)
    }

    /// One line for each: the name, a tab, what it stands for.
    pub fn list(&self) -> String {
        let mut text = String::new();
        for (name, words) in &self.meanings {
            let _ = writeln!(text, "{name}\t{}", words.join(" "));
        }
        text
    }

    /// The words with the first replaced by what it stands for, until it stands for itself.
    pub fn expand(&self, mut words: Vec<String>) -> Result<Vec<String>, AliasLoop> {
        // Without a loop no alias is used twice.
        for _ in 0..=self.meanings.len() {
            match words.first().and_then(|name| self.meanings.get(name)) {
                None => return Ok(words),
                Some(meaning) => drop(words.splice(..1, meaning.iter().cloned())),
            }
        }
        Err(AliasLoop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::words::split;

    fn aliases(definitions: &[&str]) -> Aliases {
        let mut aliases = Aliases::default();
        for definition in definitions {
            let mut words = split(definition).unwrap();
            let name = words.remove(0);
            aliases.define(name, words);
        }
        aliases
    }

    fn expand(aliases: &Aliases, line: &str) -> Result<String, AliasLoop> {
        Ok(aliases.expand(split(line).unwrap())?.join("|"))
    }

    #[test]
    fn only_the_first_word_is_replaced() {
        let aliases = aliases(&["all ps -a", "e echo 'a b'"]);
        assert_eq!(expand(&aliases, "all -x all").unwrap(), "ps|-a|-x|all");
        assert_eq!(expand(&aliases, "e").unwrap(), "echo|a b");
        assert_eq!(expand(&aliases, "ps all").unwrap(), "ps|all");
        assert_eq!(expand(&aliases, "").unwrap(), "");
    }

    #[test]
    fn aliases_nest_but_not_for_ever() {
        let mut aliases = aliases(&["a b 1", "b c 2", "x y", "y x", "z z"]);
        assert_eq!(expand(&aliases, "a 3").unwrap(), "c|2|1|3");
        assert_eq!(expand(&aliases, "x"), Err(AliasLoop));
        assert_eq!(expand(&aliases, "z"), Err(AliasLoop));
        aliases.forget("y");
        assert_eq!(expand(&aliases, "x").unwrap(), "y");
    }

    #[test]
    fn the_list_is_sorted_and_tabbed() {
        assert_eq!(aliases(&["y \"echo a\" b", "foo ps -x"]).list(), "foo\tps -x\ny\techo a b\n");
    }
}
