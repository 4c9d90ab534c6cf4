//! How tasks are kept from running, and let go: by what the host allows.
//!
//! Before a task is held the [`Guardian`] knows of it, so none stays held when the daemon is no more.

use crate::io::guardian::Guardian;
use crate::io::process::{self, Prompt};
use crate::io::weights::Weights;
use pvm_wire::turn_rules::Means;
use pvmd_core::event::{Event, Work};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::time::Duration;
use tracing::{debug, info, warn};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
const SIGTSTP: i32 = 20;
/// Signals by which a process is asked to end: one that is stopped would not hear of them.
const ENDINGS: [i32; 6] = [1, 2, 3, 6, 9, 15];

/// A way to keep processes from running.
pub trait Dispatcher: Debug + Send {
    /// As people are told.
    fn name(&self) -> &'static str;
    /// Runs only when nobody else wants to from now on, or not at all.
    fn hold(&mut self, pid: i32) -> io::Result<()>;
    /// Runs as before.
    fn free(&mut self, pid: i32) -> io::Result<()>;
    /// It has ended.
    fn forget(&mut self, pid: i32) {
        let _ = pid;
    }
    /// Where it is this that decides who goes before whom: this daemon is to go before those who are not held, or no more.
    fn be_prompt(&mut self, wanted: bool) -> io::Result<()> {
        let _ = wanted;
        Ok(())
    }
}

/// All threads of a held process are in the class that runs when a core has nothing else to do. A team that waits for
/// messages so gives its core up at once, and has it back at once.
#[derive(Debug)]
pub struct Priorities;

impl Dispatcher for Priorities {
    fn name(&self) -> &'static str {
        "priorities"
    }

    fn hold(&mut self, pid: i32) -> io::Result<()> {
        process::set_idle_class(pid, true)
    }

    fn free(&mut self, pid: i32) -> io::Result<()> {
        process::set_idle_class(pid, false)
    }
}

/// A held process is stopped.
#[derive(Debug)]
pub struct Stop;

impl Dispatcher for Stop {
    fn name(&self) -> &'static str {
        "stop"
    }

    fn hold(&mut self, pid: i32) -> io::Result<()> {
        process::signal_process(pid, SIGSTOP)
    }

    fn free(&mut self, pid: i32) -> io::Result<()> {
        process::signal_process(pid, SIGCONT)
    }
}

/// What holds processes by these means, if the host allows them.
pub fn by_means(means: Means) -> Result<Box<dyn Dispatcher>, String> {
    match means {
        Means::Implicit => Err("PVM_COSCHEDULING or the hostfile says so".to_owned()),
        Means::Stop => Ok(Box::new(Stop)),
        Means::Weights => Ok(Box::new(Weights::delegated()?)),
        Means::Auto | Means::Priorities if process::may_change_class() => Ok(Box::new(Priorities)),
        Means::Priorities => Err(NO_WAY_BACK.to_owned()),
        Means::Auto => match Weights::delegated() {
            Ok(weights) => Ok(Box::new(weights)),
            Err(reason) => Err(format!("{NO_WAY_BACK}, and {reason}")),
        },
    }
}

/// Why a host does not allow priorities.
const NO_WAY_BACK: &str =
    "a process once put behind all others could not be taken back (RLIMIT_NICE, CAP_SYS_NICE)";

/// What the driver does about turns.
#[derive(Debug)]
pub struct Turns {
    means: Means,
    /// The command of the guardian.
    guardian: Vec<OsString>,
    active: Option<(Box<dyn Dispatcher>, Guardian)>,
    /// It was found that it cannot be.
    is_given_up: bool,
    held: BTreeSet<i32>,
    /// This daemon is to have a processor at once when it wakes.
    is_prompt: bool,
    prompt: Option<Prompt>,
    /// What this daemon had used of the processor when it had last looked at what others use.
    looked: Duration,
    /// Of whom the guardian knows.
    guarded: BTreeSet<i32>,
    /// Stopped on behalf of the user, who alone can let them go.
    frozen: BTreeSet<i32>,
}

impl Turns {
    /// Nothing happens before the first process has to be held.
    pub fn new(means: Means, myself: &[OsString]) -> Self {
        let guardian = myself.iter().cloned().chain(["--guardian".into()]).collect();
        Self {
            means,
            guardian,
            active: None,
            is_given_up: means == Means::Implicit,
            held: BTreeSet::new(),
            is_prompt: false,
            prompt: None,
            looked: Duration::ZERO,
            guarded: BTreeSet::new(),
            frozen: BTreeSet::new(),
        }
    }

    /// The means in use, or that would be.
    pub fn name(&self) -> &'static str {
        match &self.active {
            Some((dispatcher, _)) => dispatcher.name(),
            None if self.is_given_up => "none",
            None => by_means(self.means).map_or("none", |dispatcher| dispatcher.name()),
        }
    }

    /// Whether processes wait for their turn.
    pub fn are_taken(&self) -> bool {
        !self.held.is_empty()
    }

    /// What processes have done, and whether those who are held use what the others leave.
    pub fn usage(&mut self, pids: &[i32]) -> Event {
        let myself = std::process::id().cast_signed();
        let own = process::cpu_time(myself).saturating_sub(self.looked);
        let done = |&pid: &i32| {
            let (time, waits) = process::times(pid);
            Work { time, sleeps: process::sleeps(pid), waits }
        };
        let work = pids.iter().map(done).collect();
        self.looked = process::cpu_time(myself);
        Event::Usage { work, own, leaves_rest: self.means != Means::Stop }
    }

    /// Lets a process run, or keeps it from running. When all is set that is to be, [`Turns::settle`] follows.
    pub fn set(&mut self, pid: i32, runs: bool) {
        let result = if runs { self.free(pid) } else { self.hold(pid) };
        match result {
            Ok(()) => {}
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// When turns change nobody is held for a moment, in which nothing has to be done.
    pub fn settle(&mut self) {
        self.be_prompt(self.are_taken());
    }

    /// Messages decide whose turn it is, so while some are held they must not wait for one themselves. Otherwise whoever works
    /// may go on for a while, so that messages gather.
    fn be_prompt(&mut self, wanted: bool) {
        if std::mem::replace(&mut self.is_prompt, wanted) == wanted {
            return;
        }
        let done = match self.prompt.take() {
            Some(prompt) => prompt.end(),
            None if wanted => Prompt::begin().map(|prompt| self.prompt = Some(prompt)),
            None => Ok(()),
        };
        let among_groups =
            self.active.as_mut().map_or(Ok(()), |(dispatcher, _)| dispatcher.be_prompt(wanted));
        if let Err(error) = done.and(among_groups) {
            debug!(%error, "the kernel does not let this daemon interrupt others");
        }
    }

    fn hold(&mut self, pid: i32) -> io::Result<()> {
        if self.is_given_up {
            return Ok(());
        }
        if self.active.is_none() {
            let dispatcher = by_means(self.means).map_err(io::Error::other)?;
            let guardian = Guardian::start(&self.guardian, dispatcher.name())?;
            info!(means = dispatcher.name(), "teams take turns");
            self.active = Some((dispatcher, guardian));
        }
        let Some((dispatcher, guardian)) = &mut self.active else { return Ok(()) };
        if self.guarded.contains(&pid) {
            guardian.check()?;
        } else {
            guardian.note(pid, true)?;
            self.guarded.insert(pid);
        }
        self.held.insert(pid);
        dispatcher.hold(pid)
    }

    fn free(&mut self, pid: i32) -> io::Result<()> {
        let was_held = self.held.remove(&pid);
        let Some((dispatcher, guardian)) = self.active.as_mut().filter(|_| was_held) else { return Ok(()) };
        if !self.frozen.contains(&pid) || dispatcher.name() != Stop.name() {
            dispatcher.free(pid)?;
        }
        // A class can be given back twice, so the guardian need not hear of each turn; who was continued may be stopped by others.
        if dispatcher.name() == Stop.name() {
            self.guarded.remove(&pid);
            guardian.note(pid, false)?;
        }
        Ok(())
    }

    /// All run from now on, as if there were no turns.
    fn give_up(&mut self, reason: &str) {
        warn!(reason, "teams cannot take turns on this host: all their tasks run");
        self.free_all();
        self.is_given_up = true;
    }

    /// Nothing is held any more.
    pub fn free_all(&mut self) {
        if let Some((dispatcher, _guardian)) = &mut self.active {
            self.guarded.clear();
            for pid in std::mem::take(&mut self.held) {
                // Who has ended needs nothing.
                let _ = dispatcher.free(pid);
            }
        }
        self.be_prompt(false);
        self.active = None;
    }

    /// No process is stopped because it has to wait for its turn: it would look as if others had stopped it.
    pub fn stop_none(&mut self) {
        if self.active.as_ref().is_some_and(|(means, _)| means.name() == Stop.name()) {
            self.free_all();
        }
    }

    /// Sends a signal to a process that may be held; [`Turns::settle`] follows.
    pub fn signal(&mut self, pid: i32, signal: i32) -> io::Result<()> {
        let is_stopped = self.held.contains(&pid)
            && self.active.as_ref().is_some_and(|(means, _)| means.name() == Stop.name());
        match signal {
            SIGSTOP | SIGTSTP => drop(self.frozen.insert(pid)),
            SIGCONT => drop(self.frozen.remove(&pid)),
            _ => {}
        }
        if signal == SIGCONT && is_stopped {
            // Its turn comes.
            return Ok(());
        }
        process::signal_process(pid, signal)?;
        if is_stopped && ENDINGS.contains(&signal) {
            return self.free(pid);
        }
        Ok(())
    }

    /// A process has ended: its id may be somebody else's soon.
    pub fn ended(&mut self, pid: i32) {
        self.frozen.remove(&pid);
        self.held.remove(&pid);
        if self.guarded.remove(&pid)
            && let Some((dispatcher, guardian)) = &mut self.active
        {
            dispatcher.forget(pid);
            // It compares more than the id.
            let _ = guardian.note(pid, false);
        }
        self.be_prompt(self.are_taken());
    }
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
