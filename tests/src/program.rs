//! A process under the eyes of a test: what it prints is collected, awaited and shown when the test fails.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::wait::{self, PATIENCE};

/// A running program. It is killed when this value goes.
pub struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// All it wrote to its standard output.
    pub stdout: String,
    /// All it wrote to its standard error.
    pub stderr: String,
}

impl Program {
    /// Starts it with all three standard streams in our hands.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let name = format!("{command:?}").split_whitespace().last().unwrap_or_default().to_owned();
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (stdout, first) = collect(child.stdout.take());
        let (stderr, second) = collect(child.stderr.take());
        let stdin = child.stdin.take();
        Self { name, child, stdin, stdout, stderr, readers: vec![first, second] }
    }

    /// Runs it to its end, with nothing on its standard input.
    #[track_caller]
    pub fn run(command: &mut Command) -> Ended {
        Self::start(command).end()
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it has written to its standard output until now.
    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    /// What it has written to its standard error until now.
    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Writes to its standard input; a program that has ended does not mind.
    pub fn write(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush());
        }
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The first complete line of its output for which `wanted` has an answer.
    #[track_caller]
    pub fn await_line<T>(&self, what: &str, wanted: impl FnMut(&str) -> Option<T>) -> T {
        let mut found = self.await_lines(what, 1, wanted);
        found.swap_remove(0)
    }

    /// The first `count` complete lines of its output for which `wanted` has an answer.
    #[track_caller]
    pub fn await_lines<T>(
        &self,
        what: &str,
        count: usize,
        mut wanted: impl FnMut(&str) -> Option<T>,
    ) -> Vec<T> {
        let answer = wait::until(PATIENCE, || {
            let stdout = self.stdout();
            let complete = &stdout[..stdout.rfind('\n').map_or(0, |end| end + 1)];
            let found: Vec<T> = complete.lines().filter_map(&mut wanted).take(count).collect();
            (found.len() == count).then_some(found)
        });
        answer.unwrap_or_else(|| {
            panic!("{} never printed {what} ({count} times):\n{}", self.name, self.transcript())
        })
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Closes its standard input, waits for its end, and gives all it wrote.
    #[track_caller]
    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// As [`Self::end`], for a program that needs longer.
    #[track_caller]
    pub fn end_within(mut self, limit: Duration) -> Ended {
        self.close_stdin();
        let status = wait::until(limit, || self.child.try_wait().ok().flatten());
        let Some(status) = status else {
            panic!("{} did not end within {limit:?}:\n{}", self.name, self.transcript());
        };
        // The pipes may be held open by a process it started; what it wrote itself is there after a moment.
        wait::until(Duration::from_secs(1), || {
            self.readers.iter().all(JoinHandle::is_finished).then_some(())
        });
        Ended { status, stdout: self.stdout(), stderr: self.stderr() }
    }

    fn transcript(&self) -> String {
        format!("--- stdout\n{}--- stderr\n{}", self.stdout(), self.stderr())
    }
}

impl Ended {
    /// Fails the test unless the program ended well.
    #[track_caller]
    pub fn expect_success(&self) {
        assert!(self.status.success(), "ended with {}:\n{}{}", self.status, self.stdout, self.stderr);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> (Arc<Mutex<Vec<u8>>>, JoinHandle<()>) {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&collected);
    let reader = thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            sink.lock().expect("no one panics with the lock").extend_from_slice(&piece[..n]);
        }
    });
    (collected, reader)
}

fn text(bytes: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.lock().expect("no one panics with the lock")).into_owned()
}
