//! A machine of a test, and conversations with consoles.

use pvm_tests::{Program, wait};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with a virtual machine that ends with it, also when a test fails.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn address_file(&self) -> PathBuf {
        self.path().join(format!("pvmd.{}", rustix::process::getuid().as_raw()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.address_file().exists() {
            converse(self.path(), &[], &["halt"]);
        }
    }
}

/// A conversation with a console, in which input may depend on earlier output.
pub struct Console {
    program: Program,
    questions: u32,
}

/// `pvm` in a folder that is its home, and has its machine's files.
pub fn pvm(tmp: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvm"));
    command.args(args).current_dir(tmp).env("PVM_TMP", tmp).env("HOME", tmp);
    for name in ["PVM_VMID", "PVMSOCK", "PVM_EXPORT"] {
        command.env_remove(name);
    }
    command
}

impl Console {
    pub fn start(tmp: &Path, args: &[&str]) -> Self {
        Self { program: Program::start(&mut pvm(tmp, args)), questions: 0 }
    }

    pub fn enter(&mut self, line: &str) {
        self.program.write(&format!("{line}\n"));
    }

    /// Everything that the console has printed so far.
    pub fn output(&self) -> String {
        self.program.stdout()
    }

    /// Waits until the console has printed `what`.
    #[track_caller]
    pub fn expect_output(&self, what: &str) {
        assert!(wait::holds(|| self.output().contains(what)), "never said: {what}\n{}", self.output());
    }

    /// A command, and its answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        let before = self.output().len();
        self.questions += 1;
        let done = format!("answer {} ends", self.questions);
        self.enter(line);
        self.enter(&format!("echo {done}"));
        self.expect_output(&format!("\n{done}\n"));
        answer(&self.output()[before..], line)
    }

    /// Repeats a command until its answer is as it should be, and gives that.
    #[track_caller]
    pub fn becomes(&mut self, line: &str, right: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let is_right = wait::holds(|| {
            last = self.ask(line);
            right(&last)
        });
        assert!(is_right, "{line}: {last}");
        last
    }

    /// Ends the input: returns the output and the exit status.
    pub fn end(self) -> (String, i32) {
        let ended = self.program.end();
        (ended.stdout, ended.status.code().unwrap_or(-1))
    }
}

/// A console's conversation: what it printed on standard output, and its exit status.
pub fn converse(tmp: &Path, args: &[&str], lines: &[&str]) -> (String, i32) {
    let mut console = Console::start(tmp, args);
    for line in lines {
        console.enter(line);
    }
    console.end()
}

/// What a command printed, up to the next prompt; without what jobs wrote meanwhile.
pub fn answer(text: &str, command: &str) -> String {
    let is_command = |line: &&str| line.strip_prefix("pvm> ").unwrap_or(line) == command;
    let of_job = |line: &&str| line.starts_with('[') && (line.contains(":t") || line.ends_with("finished"));
    let mut lines = text.lines().skip_while(|line| !is_command(line));
    assert!(lines.next().is_some(), "{command}: {text}");
    let answer = lines.take_while(|line| !line.starts_with("pvm> ")).filter(|line| !of_job(line));
    answer.flat_map(|line| [line, "\n"]).collect()
}
