//! Scenes: programs that act together on a machine, and what all of them say, made comparable.

use std::process::Command;

use crate::program::{Ended, Program};
use crate::{Machine, wait};

/// A step of a scene.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A program with its arguments and its standard input, to its end. An argument `*end` stands for the word of what was
    /// said before that ends so.
    Run(&'static str, &'static [&'static str], &'static str),
    /// A program that goes on while others begin; its end is awaited at the end of the scene.
    Start(&'static str, &'static [&'static str], &'static str),
    /// A program that is repeated until it prints this; its output is not part of the scene.
    Until(&'static str, &'static [&'static str], &'static str),
    /// The machine has this many tasks, not counting the console that asks.
    Tasks(usize),
    /// A program that goes on has said this.
    Said(&'static str),
    /// More input for the last program started.
    Say(&'static str),
    /// A command to the machine's console, until the console prints this.
    Console(&'static str, &'static str),
    /// The last program started serves for ever: it is ended by a signal.
    Stop,
}

/// Parts of the output that are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blind {
    /// Task ids and contexts, which the daemon gives out, become `TID`.
    Ids,
    /// The order of lines, where several tasks are awaited in whatever order they come.
    Order,
    /// Numbers in lines with this text: times and rates.
    Numbers(&'static str),
    /// Lines of nothing but numbers, as tables of times have them, and empty lines.
    Rows,
    /// Lines with this text, said as often as something was waited for.
    Lines(&'static str),
}

/// A scene by name.
#[derive(Debug)]
pub struct Scene {
    /// The name of what is tried.
    pub name: &'static str,
    /// The steps.
    pub steps: &'static [Step],
    /// The parts that are not compared.
    pub blind: &'static [Blind],
    /// Something that is said if all is well, so that two failures are not taken for success.
    pub says: &'static str,
}

/// Programs of a scene that run.
struct Stage<'a> {
    machine: &'a Machine,
    running: Vec<Program>,
    said: String,
}

impl Scene {
    /// The output of the scene's programs on this machine, made comparable.
    #[track_caller]
    pub fn play(&self, machine: &Machine) -> String {
        let mut stage = Stage { machine, running: Vec::new(), said: String::new() };
        for step in self.steps {
            stage.act(*step);
        }
        let said = stage.end();
        assert!(said.contains(self.says), "{} does not say {:?}:\n{said}", self.name, self.says);
        comparable(&said, self.blind)
    }

    /// The programs that the steps of the scene start.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.steps.iter().filter_map(|step| match step {
            Step::Run(name, ..) | Step::Start(name, ..) | Step::Until(name, ..) => Some(*name),
            Step::Console(command, _) => command.rsplit(' ').next(),
            Step::Tasks(_) | Step::Said(_) | Step::Say(_) | Step::Stop => None,
        })
    }
}

impl Stage<'_> {
    #[track_caller]
    fn act(&mut self, step: Step) {
        match step {
            Step::Run(name, arguments, input) => {
                let mut program = self.start(name, arguments);
                program.write(input);
                let ended = program.end_within(wait::PATIENCE * 2);
                self.take(&ended);
            }
            Step::Start(name, arguments, input) => {
                let mut program = self.start(name, arguments);
                program.write(input);
                self.running.push(program);
            }
            Step::Until(name, arguments, text) => wait::becomes_true(text, || {
                Program::run(self.command(name).args(arguments)).stdout.contains(text)
            }),
            Step::Tasks(count) => {
                let mut console = self.machine.console();
                wait::becomes_true("the tasks", || console.tasks().len() >= count);
                console.quit();
            }
            Step::Said(text) => wait::becomes_true(text, || {
                self.running.iter().any(|program| program.stdout().contains(text))
            }),
            Step::Say(text) => self.running.last_mut().expect("something was started").write(text),
            Step::Console(words, answer) => {
                // The console buffers its output while it writes to a pipe.
                let mut command = self.machine.command("/usr/bin/stdbuf");
                let mut console = Program::start(command.args(["-oL", "/usr/bin/pvm"]));
                console.write(&format!("{words}\n"));
                wait::becomes_true(answer, || console.stdout().contains(answer));
                console.write("quit\n");
                let ended = console.end();
                self.take(&ended);
            }
            Step::Stop => {
                let program = self.running.pop().expect("something was started");
                crate::process::signal(program.pid(), rustix::process::Signal::TERM);
                let ended = program.end();
                self.take(&ended);
            }
        }
    }

    fn command(&self, name: &str) -> Command {
        self.machine.command(format!("/usr/bin/{name}"))
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Program {
        let arguments = arguments.iter().map(|argument| match argument.strip_prefix('*') {
            Some(end) => self.said.split(|c: char| !c.is_alphanumeric()).find(|word| word.ends_with(end)),
            None => Some(*argument),
        });
        let arguments: Option<Vec<&str>> = arguments.collect();
        let arguments = arguments.unwrap_or_else(|| panic!("no such word was said:\n{}", self.said));
        Program::start(self.command(name).args(arguments))
    }

    fn take(&mut self, ended: &Ended) {
        for part in [&ended.stdout, &ended.stderr, "\n", &ended.status.to_string(), "\n"] {
            self.said += part;
        }
    }

    #[track_caller]
    fn end(mut self) -> String {
        for program in std::mem::take(&mut self.running) {
            let ended = program.end_within(wait::PATIENCE * 2);
            self.take(&ended);
        }
        self.said
    }
}

fn comparable(said: &str, blind: &[Blind]) -> String {
    // Which line comes behind a prompt depends on when it comes.
    let mut lines: Vec<String> =
        said.lines().map(|line| line.trim_start_matches("pvm> ").to_owned()).collect();
    for kind in blind {
        match kind {
            Blind::Ids => change(&mut lines, "", without_id),
            Blind::Numbers(text) => change(&mut lines, text, without_number),
            Blind::Rows => lines.retain(|line| !line.bytes().all(is_of_a_row)),
            Blind::Lines(text) => lines.retain(|line| !line.contains(text)),
            Blind::Order => lines.sort_unstable(),
        }
    }
    lines.join("\n")
}

fn is_of_a_row(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b' ' || byte == b'.'
}

/// The replacement of a word that is not compared.
type Change = fn(&str) -> Option<String>;

/// Changes the words of all lines with this text; blanks before a changed word, which fill a column, become one.
fn change(lines: &mut [String], text: &str, change: Change) {
    for line in lines.iter_mut().filter(|line| line.contains(text)) {
        let mut changed = String::new();
        for piece in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let Some(other) = change(word) else {
                changed += piece;
                continue;
            };
            while changed.ends_with("  ") {
                changed.pop();
            }
            changed += &other;
            changed += &piece[word.len()..];
        }
        *line = changed;
    }
}

/// A rate over no measurable time, as C prints it, is a number with a fraction.
fn without_number(word: &str) -> Option<String> {
    if word == "inf" {
        return Some("N.N".to_owned());
    }
    (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())).then(|| "N".to_owned())
}

/// Hexadecimal digits of a task id or context of the first host.
const ID_DIGITS: usize = 5;

/// An id of the first host as hexadecimal or decimal number; names of services begin with one.
fn without_id(word: &str) -> Option<String> {
    let bare = word.strip_prefix("0x").or_else(|| word.strip_prefix('t')).unwrap_or(word);
    let end = bare.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(bare.len());
    let (digits, rest) = bare.split_at(end);
    let of_host = |number: &i64| number >> 18 == 1 && number & 0x3_ffff < 0x8000;
    let hexadecimal = i64::from_str_radix(digits, 16).ok().filter(of_host).filter(|_| end == ID_DIGITS);
    hexadecimal.or_else(|| digits.parse().ok().filter(of_host)).map(|_| format!("TID{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_words_are_made_comparable() {
        let ids = |line: &str| comparable(line, &[Blind::Ids]);
        let said = "i'm t40002, 0x4000a in context 262145 of 800000";
        assert_eq!(ids(said), "i'm TID, TID in context TID of 800000");
        assert_eq!(ids(" 262146 ->  262147"), " TID -> TID");
        assert_eq!(ids("<t4003blmbi0> t80001 t4"), "<TIDlmbi0> t80001 t4");
        let times = [Blind::Numbers("us"), Blind::Rows, Blind::Order];
        assert_eq!(comparable("10 in 0 us (inf MB/s)", &times), "N in N us (N.N MB/s)");
        assert_eq!(comparable("size 10\n  3.25 us for 1\n 1  7.5\n", &times), " N.N us for N\nsize 10");
    }
}
