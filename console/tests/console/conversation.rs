//! A machine of a test, and conversations with consoles.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// A conversation with a console, in which what is said may depend on what was heard.
pub struct Console {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Arc<Mutex<String>>,
    listener: JoinHandle<()>,
    questions: u32,
}

/// Time limit of one step, generous for a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

impl Console {
    pub fn start(tmp: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pvm"))
            .args(args)
            .current_dir(tmp)
            .env("PVM_TMP", tmp)
            .env("HOME", tmp)
            .env_remove("PVM_VMID")
            .env_remove("PVMSOCK")
            .env_remove("PVM_EXPORT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let heard = Arc::new(Mutex::new(String::new()));
        let (stdin, mut stdout, ear) = (child.stdin.take(), child.stdout.take().unwrap(), Arc::clone(&heard));
        let listener = std::thread::spawn(move || {
            let (mut buffer, mut text) = ([0; 4096], Vec::new());
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                text.extend_from_slice(&buffer[..count]);
                if let Ok(all) = std::str::from_utf8(&text) {
                    all.clone_into(&mut ear.lock().unwrap());
                }
            }
        });
        Self { child, stdin, heard, listener, questions: 0 }
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// What it has printed until now.
    pub fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    /// Waits until it has printed something.
    #[track_caller]
    pub fn hears(&self, what: &str) {
        let end = Instant::now() + LIMIT;
        while !self.heard().contains(what) {
            assert!(Instant::now() < end, "never said: {what}\n{}", self.heard());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A command, and its answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        let before = self.heard().len();
        self.questions += 1;
        let done = format!("answer {} ends", self.questions);
        self.say(line);
        self.say(&format!("echo {done}"));
        self.hears(&format!("\n{done}\n"));
        answer(&self.heard()[before..], line)
    }

    /// Repeats a command until its answer is as it should be, and gives that.
    #[track_caller]
    pub fn becomes(&mut self, line: &str, right: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let answer = self.ask(line);
            if right(&answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{line}: {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Nothing more is said: what it printed, and its exit status.
    pub fn end(mut self) -> (String, i32) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        self.listener.join().unwrap();
        let text = self.heard.lock().unwrap().clone();
        (text, status.code().unwrap_or(-1))
    }
}

/// A console's conversation: what it printed on standard output, and its exit status.
pub fn converse(tmp: &Path, args: &[&str], lines: &[&str]) -> (String, i32) {
    let mut console = Console::start(tmp, args);
    for line in lines {
        console.say(line);
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
