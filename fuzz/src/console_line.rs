//! Lines typed at the console.

use pvm_console::shell::aliases::Aliases;
use pvm_console::shell::{ps, spawn_options, words};

/// Reads each line as the console does; lines that begin with `alias` define what later ones mean.
pub fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut aliases = Aliases::default();
    for line in text.lines().take(100) {
        let Ok(words) = words::split(line) else { continue };
        let Ok(words) = aliases.expand(words) else { continue };
        if let [first, name, meaning @ ..] = &words[..]
            && first == "alias"
        {
            aliases.define(name.clone(), meaning.to_vec());
        }
        let _ = ps::parse(&words);
        let _ = spawn_options::parse(&words);
    }
    let _ = aliases.list();
}
