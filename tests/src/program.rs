//! A process under the eyes of a test: what it prints is collected, awaited and shown when the test fails.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::wait::{self, PATIENCE};

/// A running program. It is killed when this value goes.
pub struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Arc<Collected>,
    stderr: Arc<Collected>,
}

/// The output from a pipe.
struct Collected {
    /// Whoever reads holds it from before the pipe is empty until what was in it is here.
    bytes: Mutex<Vec<u8>>,
    /// The same end of the pipe as the reader's.
    pipe: OwnedFd,
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
        let stdout = Collected::of(child.stdout.take().expect("a pipe").into());
        let stderr = Collected::of(child.stderr.take().expect("a pipe").into());
        let stdin = child.stdin.take();
        Self { name, child, stdin, stdout, stderr }
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

    /// Its standard output until now.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Its standard error until now.
    pub fn stderr(&self) -> String {
        self.stderr.text()
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
        // The pipes may be held open by a process it started; what it wrote itself is in them, or has been taken out.
        wait::becomes_true("all that it wrote", || self.stdout.is_all() && self.stderr.is_all());
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

impl Collected {
    /// Reads on as long as there is somebody who could write.
    fn of(pipe: OwnedFd) -> Arc<Self> {
        let collected = Arc::new(Self { bytes: Mutex::default(), pipe });
        let reader = Arc::clone(&collected);
        thread::spawn(move || while reader.read_some() {});
        collected
    }

    /// Takes what is there, as soon as there is something; `false` at the end.
    fn read_some(&self) -> bool {
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        // The lock is not held while waiting.
        if poll(&mut ready, None).is_err() {
            return true;
        }
        let mut bytes = self.bytes();
        let mut piece = [0; 4096];
        match rustix::io::read(&self.pipe, &mut piece) {
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                count > 0
            }
            Err(error) => error == rustix::io::Errno::INTR,
        }
    }

    /// Whether all is here that was written until now.
    fn is_all(&self) -> bool {
        let _reading = self.bytes();
        rustix::io::ioctl_fionread(&self.pipe) == Ok(0)
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().expect("no one panics with the lock")
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}
