//! Waiting for a child process without forgetting signals or other work.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at the child.
pub const TICK: Duration = Duration::from_millis(10);
/// How long a child may take to end after this process was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Signals that ask this process to end, noted instead of obeyed.
#[derive(Clone, Debug)]
pub struct Interrupts(Arc<AtomicUsize>);

impl Interrupts {
    /// Notes SIGINT, SIGTERM and SIGHUP from now on.
    pub fn watch() -> io::Result<Self> {
        let noted = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(signal, Arc::clone(&noted), signal as usize)?;
        }
        Ok(Self(noted))
    }

    /// The signal that was received since the last call.
    pub fn take(&self) -> Option<i32> {
        match self.0.swap(0, Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

/// Waits for a child, and does `meanwhile` every now and then; while that returns true the child is to end. Signals are
/// passed on; a child that does not end within five seconds of one is killed.
pub fn wait(
    child: &mut Child,
    interrupts: &Interrupts,
    mut meanwhile: impl FnMut() -> bool,
) -> io::Result<ExitStatus> {
    let mut deadline = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = interrupts.take() {
            pass_on(child, signal);
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            child.kill()?;
        }
        if meanwhile() && deadline.is_none() {
            pass_on(child, SIGTERM);
            deadline = Some(Instant::now() + GRACE);
        }
        std::thread::sleep(TICK);
    }
}

fn pass_on(child: &Child, signal: i32) {
    // The terminal sends the interrupt key's signal to the child, too: it must not get it twice.
    if signal == SIGINT && io::stdin().is_terminal() {
        return;
    }
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // Fails only when the child has just ended, which the next look shows.
        let _ = kill_process(pid, signal);
    }
}

/// The status as a shell would have it.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => (code & 0xff) as u8,
        (None, Some(signal)) => signal_code(signal),
        (None, None) => 1,
    }
}

/// The status of a program that a signal has ended.
pub fn signal_code(signal: i32) -> u8 {
    (128 + (signal & 0x7f)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn quiet() -> Interrupts {
        Interrupts(Arc::new(AtomicUsize::new(0)))
    }

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().unwrap()
    }

    #[test]
    fn a_childs_status_is_a_shells() {
        // It goes on when what is done meanwhile is done for the second time.
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", "read word; exit 3"]).stdin(Stdio::piped()).spawn().unwrap();
        let (mut turns, mut word) = (0, child.stdin.take());
        let meanwhile = || {
            turns += 1;
            word.take_if(|_| turns == 2);
            false
        };
        assert_eq!(exit_code(wait(&mut child, &quiet(), meanwhile).unwrap()), 3);
        let status = wait(&mut shell("kill -9 $$"), &quiet(), || false).unwrap();
        assert_eq!(exit_code(status), 137);
    }

    #[test]
    fn signals_are_passed_on() {
        let interrupts = Interrupts(Arc::new(AtomicUsize::new(SIGTERM as usize)));
        let status = wait(&mut shell("exec sleep 30"), &interrupts, || false).unwrap();
        assert_eq!(exit_code(status), 143);
    }

    #[test]
    fn a_child_ends_when_it_is_to() {
        let status = wait(&mut shell("exec sleep 30"), &quiet(), || true).unwrap();
        assert_eq!(exit_code(status), 143);
    }
}
