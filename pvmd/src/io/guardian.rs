//! A process that waits for its daemon's end, however that comes, and lets go what the daemon held.
//!
//! The daemon writes a line for each process that it holds or frees; the end of the pipe is the end of the daemon. Another guardian, of
//! a daemon that has started tasks, ends what those have started.

use crate::io::dispatcher::{Dispatcher, by_means};
use crate::io::family::{self, Mark};
use crate::io::process;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

/// The daemon's end.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guardian {
    /// Starts one, which will undo what a dispatcher of this name does.
    pub fn start(command: &[OsString], means: &str) -> io::Result<Self> {
        let (program, args) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(args).arg(means).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipe = child.stdin.take();
        if let Some(pipe) = &pipe {
            // The daemon waits for nobody.
            let flags = rustix::fs::fcntl_getfl(pipe)?;
            rustix::fs::fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?;
        }
        Ok(Self { child, pipe })
    }

    /// Starts one that will end the families of this daemon's tasks. The command is the daemon's.
    pub fn of_families(command: &[OsString], mark: &Mark) -> io::Result<Self> {
        let command: Vec<OsString> = command.iter().cloned().chain(["--guardian".into()]).collect();
        Self::start(&command, &format!("{FAMILIES}{mark}"))
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// A process is about to be held, or was freed.
    pub fn note(&mut self, pid: i32, is_held: bool) -> io::Result<()> {
        let word = if is_held { "hold" } else { "free" };
        let line = format!("{word} {pid}\n");
        // Shorter than what a pipe takes as a whole.
        self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(line.as_bytes())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends with the pipe.
        let _ = self.child.wait();
    }
}

/// What a guardian is for, if not for turns.
const FAMILIES: &str = "families=";

/// The guardian's life.
pub fn run(means: &str) -> ExitCode {
    if let Some(mark) = means.strip_prefix(FAMILIES) {
        return guard_families(&Mark::of(mark));
    }
    let Ok(Ok(mut dispatcher)) = means.parse().map(by_means) else { return ExitCode::from(2) };
    // What ends the daemon is not to end its guardian.
    let _ = rustix::process::setsid();
    process::ignore_endings();
    watch(io::stdin().lock(), &mut *dispatcher);
    ExitCode::SUCCESS
}

/// A daemon that ends by itself leaves nothing to do.
fn guard_families(mark: &Mark) -> ExitCode {
    let _ = rustix::process::setsid();
    process::ignore_endings();
    // Nothing comes but the end.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    family::end_all(mark, &[]);
    ExitCode::SUCCESS
}

/// Reads until the end, then frees what is held. A process is what it was if it has begun at the same time.
fn watch(lines: impl BufRead, dispatcher: &mut dyn Dispatcher) {
    let mut held: BTreeMap<i32, Option<u64>> = BTreeMap::new();
    for line in lines.split(b'\n') {
        let Ok(line) = line else { break };
        let Some((word, pid)) = std::str::from_utf8(&line).ok().and_then(|line| line.split_once(' ')) else {
            continue;
        };
        let Ok(pid) = pid.parse() else { continue };
        if word == "hold" {
            held.insert(pid, process::begun(pid));
        } else {
            held.remove(&pid);
        }
    }
    for (pid, begun) in held {
        if begun.is_some() && process::begun(pid) == begun {
            // Nobody is left who could be told.
            let _ = dispatcher.free(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Freed(Vec<i32>);

    impl Dispatcher for Freed {
        fn name(&self) -> &'static str {
            "freed"
        }

        fn hold(&mut self, _: i32) -> io::Result<()> {
            Ok(())
        }

        fn free(&mut self, pid: i32) -> io::Result<()> {
            self.0.push(pid);
            Ok(())
        }
    }

    #[test]
    fn at_the_end_those_are_freed_that_are_held_and_there() {
        let own = std::process::id();
        let mut freed = Freed::default();
        watch(format!("hold 1\nfree 1\nhold x\n\nhold {own}\nhold 2147483646\n").as_bytes(), &mut freed);
        assert_eq!(freed.0, [own as i32]);
    }
}
