//! `pvm run -n N`: copies of one program that are spawned together.

use super::watch::End;
use super::{LOST, Run};
use crate::supervise::{self, exit_code, signal_code};
use anyhow::{Context, Result};
use pvm_wire::timeline::VARIABLE;
use pvm3::{PvmError, Tid};
use signal_hook::consts::{SIGKILL, SIGTERM};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long copies may take to end after they were asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The copies of a run.
#[derive(Debug, Default)]
struct Copies {
    running: BTreeSet<Tid>,
    /// The status of the first that failed.
    status: Option<u8>,
    /// Those that run have been asked to end, and are made to at this time.
    deadline: Option<Instant>,
}

/// Runs `count` copies to their end; the exit code is that of the first copy to fail.
pub fn run(run: &mut Run<'_>, program: &Path, count: u32) -> Result<u8> {
    let mut copies = Copies::start(run, program, count)?;
    let mut signalled = None;
    while !copies.running.is_empty() && !run.cut_off {
        let stops = run.tick();
        copies.take(run);
        if let Some(signal) = run.interrupts.take() {
            signalled.get_or_insert(signal);
            copies.end(run, signal);
        } else if stops || copies.is_overdue() {
            copies.end(run, SIGTERM);
        }
        std::thread::sleep(supervise::TICK);
    }
    let own = if run.stops() || run.cut_off { LOST } else { 0 };
    Ok(signalled.map(signal_code).or(copies.status).unwrap_or(own))
}

impl Copies {
    fn start(run: &mut Run<'_>, program: &Path, count: u32) -> Result<Self> {
        run.task.daemon_is_ours().then_some(()).context("-n needs a daemon of this version")?;
        let own = run.task.tid().raw().to_string();
        let directory = std::env::current_dir().context("no current folder")?;
        let mut spawn = run.task.spawn(program).args(run.args.args().iter().cloned());
        // They have no parent, as a program that is started by hand.
        spawn = spawn.count(count as usize).without_parent().directory(directory);
        if run.trace.is_some() {
            spawn = spawn.env(VARIABLE, own);
        }
        let spawned = spawn.start()?;
        let mut copies = Self { running: spawned.tids.iter().copied().collect(), ..Self::default() };
        if let Some(&error) = spawned.failed.first() {
            let failed = spawned.failed.len();
            let program = program.display();
            run.watch.print(&format!("pvm: {failed} of {count} copies of {program} did not start: {error}"));
            copies.status = Some(if error == PvmError::NoFile { 127 } else { 126 });
            // The others would wait for the missing ones.
            copies.end(run, SIGTERM);
        }
        Ok(copies)
    }

    /// Notes which have ended, and how.
    fn take(&mut self, run: &mut Run<'_>) {
        for end in run.watch.take_ends() {
            match end {
                End::Task { tid, status, intended } if self.running.remove(&tid) => {
                    let code = exit_code(ExitStatus::from_raw(status));
                    if code != 0 && !intended {
                        self.status.get_or_insert(code);
                        run.watch.fail();
                    }
                    if code != 0 && ExitStatus::from_raw(status).code().is_some() {
                        run.watch.print(&format!("[{tid}] ended with status {code}"));
                    }
                }
                End::Task { .. } => {}
                End::Host(host) => {
                    let before = self.running.len();
                    self.running.retain(|tid| tid.to_host() != host);
                    if self.running.len() < before {
                        self.status.get_or_insert(LOST);
                    }
                }
            }
        }
    }

    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sends the running copies a signal, the first time; kills them when the grace period is over.
    fn end(&mut self, run: &mut Run<'_>, signal: i32) {
        let signal = match self.deadline {
            None => {
                self.deadline = Some(Instant::now() + GRACE);
                signal
            }
            Some(_) if self.is_overdue() => {
                self.deadline = Some(Instant::now() + GRACE);
                SIGKILL
            }
            Some(_) => return,
        };
        for &tid in &self.running {
            // A daemon that cannot be asked any more is noticed by the next look.
            let _ = run.task.signal(tid, signal);
        }
    }
}
