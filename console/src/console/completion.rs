//! Completion by the tab key: commands, aliases, hosts, tasks, options, events and files.

use super::{options, trace};
use crate::shell::help::TOPICS;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::sync::{Arc, Mutex, PoisonError};

/// Words that change while the console runs, as of the last prompt.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The names of aliases.
    pub aliases: Vec<String>,
    /// The names of hosts.
    pub hosts: Vec<String>,
    /// The ids of this host's tasks.
    pub tasks: Vec<String>,
    /// Every command line, the oldest first.
    pub history: Vec<String>,
}

/// The same, for the console and for the thread that reads lines.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Words>>);

impl Shared {
    /// Looks at the words, or changes them.
    pub fn with<T>(&self, what: impl FnOnce(&mut Words) -> T) -> T {
        // Words that a thread left half changed are words all the same.
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The line editor's helper.
pub struct Completion {
    words: Shared,
    files: FilenameCompleter,
}

impl Completion {
    pub fn new(words: Shared) -> Self {
        Self { words, files: FilenameCompleter::new() }
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = self.words.with(|words| candidates(&line[..at], words));
        if let Some(found) = found {
            let pair = |word: String| Pair { display: word.clone(), replacement: word + " " };
            return Ok((start, found.into_iter().map(pair).collect()));
        }
        self.files.complete_path(line, at)
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

/// Where the word to be completed begins, and what it may become; `None` where files belong.
fn candidates(line: &str, words: &Words) -> (usize, Option<Vec<String>>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let (before, begun) = line.split_at(start);
    let mut before = before.split_whitespace();
    let (command, previous) = (before.next(), before.last());
    let commands = || TOPICS.iter().map(|topic| topic.name.to_owned());
    let mut all: Vec<String> = match command {
        None => commands().chain(words.aliases.iter().cloned()).collect(),
        Some("help") => commands().collect(),
        Some("delete" | "mstat") => words.hosts.clone(),
        Some("move") if previous.is_some() => words.hosts.clone(),
        Some("kill" | "move" | "pstat" | "sig") => words.tasks.clone(),
        Some("unalias") => words.aliases.clone(),
        Some("getopt" | "setopt") => options::names().map(str::to_owned).collect(),
        Some("trace") => trace::names().map(str::to_owned).collect(),
        Some("ps") if previous == Some("-n") => words.hosts.clone(),
        Some("spawn") if begun.starts_with('-') => {
            words.hosts.iter().map(|host| format!("-{host}")).collect()
        }
        Some("spawn") => return (start, None),
        Some(_) => Vec::new(),
    };
    all.retain(|word| word.starts_with(begun));
    all.sort();
    (start, Some(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_words() {
        let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let words = Words {
            aliases: list(&["all", "killer"]),
            hosts: list(&["node1", "other"]),
            tasks: list(&["t40002", "t40003"]),
            history: Vec::new(),
        };
        let complete = |line: &str| candidates(line, &words);
        assert_eq!(complete("ki"), (0, Some(list(&["kill", "killer"]))));
        assert_eq!(complete("help conf"), (5, Some(list(&["conf"]))));
        assert_eq!(complete("kill -c t4"), (8, Some(list(&["t40002", "t40003"]))));
        assert_eq!(complete("delete "), (7, Some(list(&["node1", "other"]))));
        assert_eq!(complete("spawn -no"), (6, Some(list(&["-node1"]))));
        assert_eq!(complete("spawn -node1 ./a"), (13, None));
        assert_eq!(complete("ps -n o"), (6, Some(list(&["other"]))));
        assert_eq!(complete("setopt PvmRou"), (7, Some(list(&["PvmRoute"]))));
        assert_eq!(complete("echo k"), (5, Some(Vec::new())));
    }
}
