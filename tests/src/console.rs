//! The `pvm` console through a pipe.
//!
//! Each command is followed by an `echo` of a mark; what is printed before the mark is the command's output.
//! Prompts and the echo of commands that come through a pipe are removed.

use std::process::Command;

use crate::program::{Ended, Program};
use crate::wait::{self, PATIENCE};

const PROMPT: &str = "pvm> ";

/// A running console.
pub struct Console {
    program: Program,
    commands: usize,
    /// How much of its output is used up.
    read: usize,
}

/// A line of `conf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// Host name.
    pub name: String,
    /// Its tid, in hex as printed.
    pub dtid: String,
    /// Architecture.
    pub arch: String,
    /// Speed as reported.
    pub speed: i32,
    /// Data signature, in hex as printed.
    pub dsig: String,
}

/// A line of `ps -al`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// Host name.
    pub host: String,
    /// Its tid, in hex as printed.
    pub tid: String,
    /// Its parent's tid, or `-`.
    pub parent: String,
    /// Its process id.
    pub pid: i32,
    /// The name of its program, or `-`.
    pub command: String,
}

/// The output of `spawn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// Number of the job, if output was asked for.
    pub job: Option<u32>,
    /// A tid in hex, or the reason of a failure, per task.
    pub tasks: Vec<Result<String, String>>,
}

impl Console {
    /// Starts it and waits until it answers.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let mut console = Self { program: Program::start(command), commands: 0, read: 0 };
        // The original swallows what follows an empty line.
        console.command("echo ready");
        console
    }

    /// Writes a line and waits for nothing.
    pub fn send(&mut self, line: &str) {
        self.program.write(&format!("{line}\n"));
    }

    /// Runs a command and gives what it printed, line by line.
    #[track_caller]
    pub fn command(&mut self, line: &str) -> Vec<String> {
        self.commands += 1;
        let mark = format!("@@{}@@", self.commands);
        self.program.write(&format!("{line}\necho {mark}\n"));
        let read = self.read;
        let answer = wait::until(PATIENCE, || {
            let stdout = self.program.stdout();
            let lines = complete_lines(&stdout[read..]);
            lines.iter().position(|text| without_prompt(text) == mark).map(|end| {
                let output: Vec<String> = lines[..end].iter().map(|text| (*text).to_owned()).collect();
                let used: usize = lines[..=end].iter().map(|text| text.len() + 1).sum();
                (output, read + used)
            })
        });
        let Some((output, used)) = answer else {
            panic!(
                "the console did not answer `{line}`:\n{}\n{}",
                self.program.stdout(),
                self.program.stderr()
            );
        };
        self.read = used;
        let echoes = [line.to_owned(), format!("echo {mark}")];
        let output = output.iter().map(|text| (text.starts_with(PROMPT), without_prompt(text)));
        output
            .filter(|(prompted, text)| {
                !(echoes.iter().any(|echo| echo == text) || *prompted && text.is_empty())
            })
            .map(|(_, text)| text.to_owned())
            .collect()
    }

    /// `conf`
    #[track_caller]
    pub fn conf(&mut self) -> Vec<HostRow> {
        self.command("conf").iter().filter_map(|line| host_row(line)).collect()
    }

    /// `ps -al`
    #[track_caller]
    pub fn tasks(&mut self) -> Vec<TaskRow> {
        self.command("ps -al").iter().filter_map(|line| task_row(line)).collect()
    }

    /// `add`: per host its tid in hex, or the reason it was not added.
    #[track_caller]
    pub fn add(&mut self, hosts: &[&str]) -> Vec<(String, Result<String, String>)> {
        let quoted: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
        let output = self.command(&format!("add {}", quoted.join(" ")));
        let rows = output.iter().skip_while(|line| !line.trim_start().starts_with("HOST ")).skip(1);
        let row = |(host, line): (&&str, &String)| {
            // The original shows the options, too.
            let (name, _) = host.split_once(' ').unwrap_or((host, ""));
            let line = line.trim_start();
            let rest = line.strip_prefix(host.trim()).or_else(|| line.strip_prefix(name)).unwrap_or(line);
            (name.to_owned(), tid_or_reason(rest))
        };
        hosts.iter().zip(rows).map(row).collect()
    }

    /// `delete`: per host what happened.
    #[track_caller]
    pub fn delete(&mut self, hosts: &[&str]) -> Vec<(String, String)> {
        let output = self.command(&format!("delete {}", hosts.join(" ")));
        let rows =
            output.iter().filter_map(|line| two_columns(line)).skip_while(|(name, _)| name != "HOST").skip(1);
        rows.take(hosts.len()).collect()
    }

    /// `spawn` with these words.
    #[track_caller]
    pub fn spawn(&mut self, words: &str) -> Spawned {
        let output = self.command(&format!("spawn {words}"));
        let job = output.iter().find_map(|line| line.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
        let start = output.iter().position(|line| line.ends_with(" successful"));
        let Some(start) = start else { panic!("no answer to `spawn {words}`: {output:#?}") };
        let tasks = output[start + 1..].iter().filter(|line| !line.starts_with('['));
        Spawned { job, tasks: tasks.map(|line| tid_or_reason(line)).collect() }
    }

    /// Waits for a line of output that comes by itself (a job's, or news of hosts).
    #[track_caller]
    pub fn await_line<T>(&self, what: &str, mut wanted: impl FnMut(&str) -> Option<T>) -> T {
        self.program.await_line(what, |line| wanted(without_prompt(line)))
    }

    /// `quit`, and what it printed in all its life.
    #[track_caller]
    pub fn quit(mut self) -> Ended {
        self.send("quit");
        self.program.end()
    }

    /// Its standard output until now.
    pub fn transcript(&self) -> String {
        self.program.stdout()
    }

    /// Its standard error until now.
    pub fn stderr(&self) -> String {
        self.program.stderr()
    }

    /// The process.
    pub fn into_program(self) -> Program {
        self.program
    }
}

fn complete_lines(text: &str) -> Vec<&str> {
    let complete = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    complete.split_terminator('\n').collect()
}

fn without_prompt(mut line: &str) -> &str {
    while let Some(rest) = line.strip_prefix(PROMPT) {
        line = rest;
    }
    line
}

fn host_row(line: &str) -> Option<HostRow> {
    let [name, dtid, arch, speed, dsig] = words(line)?;
    Some(HostRow { name, dtid, arch, speed: speed.parse().ok()?, dsig })
}

fn task_row(line: &str) -> Option<TaskRow> {
    let [host, tid, parent, pid, _flag, command] = words(line)?;
    Some(TaskRow { host, tid, parent, pid: pid.parse().ok()?, command })
}

fn words<const N: usize>(line: &str) -> Option<[String; N]> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    words.try_into().ok()
}

/// A name and the rest of the line.
fn two_columns(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.trim().split_once(char::is_whitespace)?;
    Some((name.to_owned(), rest.trim().to_owned()))
}

fn tid_or_reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    let hex = text.strip_prefix('t').unwrap_or(text);
    if u32::from_str_radix(hex, 16).is_ok() { Ok(hex.to_owned()) } else { Err(text.to_owned()) }
}
