//! A virtual machine of its own: own folder for PVM's files, own `PVM_VMID`, own home; nothing of it is left.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::console::Console;
use crate::install::Installation;
use crate::plan::Place;
pub use crate::plan::{NotStarted, Plan};
use crate::process::{self as processes, Process};
use crate::program::Program;
use crate::wait;

/// A running virtual machine. Dropping it kills all of it; [`Machine::finish`] ends it in order and checks that nothing is left.
pub struct Machine {
    pub(crate) installation: Installation,
    pub(crate) library: Installation,
    pub(crate) daemon: Option<Program>,
    pub(crate) socket: PathBuf,
    pub(crate) place: Place,
    // Last, so that the folder is removed when it is not used any more.
    pub(crate) folder: TempDir,
}

impl Machine {
    /// A machine of one host, of this installation.
    #[track_caller]
    pub fn start(installation: &Installation) -> Self {
        Plan::of(installation).start()
    }

    /// The installation that the daemon is of.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Path of the socket, as the daemon printed it.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder for PVM's files on the master.
    pub fn tmp(&self) -> &Path {
        &self.place.tmp
    }

    /// A folder that goes with the machine.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process id of the master's daemon.
    pub fn daemon_pid(&self) -> i32 {
        self.daemon.as_ref().map_or(0, Program::pid)
    }

    /// The standard error of the master's daemon.
    pub fn daemon_stderr(&self) -> String {
        self.daemon.as_ref().map(Program::stderr).unwrap_or_default()
    }

    /// Whether the master's daemon runs.
    pub fn is_alive(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(|daemon| !daemon.has_ended())
    }

    /// A command in the environment of this machine, on the master host, in a home of its own.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.place.command(program.as_ref(), &self.library)
    }

    /// Starts a program as a task (if it makes itself one) on the master host.
    #[track_caller]
    pub fn program<S: AsRef<OsStr>>(&self, program: impl AsRef<Path>, arguments: &[S]) -> Program {
        Program::start(self.command(program).args(arguments))
    }

    /// A console on the master host.
    #[track_caller]
    pub fn console(&self) -> Console {
        Console::start(&mut self.place.command(&self.installation.pvm(), &self.installation))
    }

    /// A console, when the machine has grown to this many hosts.
    #[track_caller]
    pub fn console_with_hosts(&self, count: usize) -> Console {
        let mut console = self.console();
        wait::becomes_true(&format!("{count} hosts"), || console.conf().len() == count);
        console
    }

    /// The log of the master's daemon until now.
    pub fn log(&self) -> String {
        // Hosts on the same machine have a log of their own, under a longer name.
        let logs = files_in(&self.place.tmp).into_iter().filter(|name| name.starts_with("pvml."));
        let log = logs.min_by_key(String::len);
        log.and_then(|name| fs::read(self.place.tmp.join(name)).ok())
            .map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The logs of all daemons that share the master's folder.
    pub fn logs(&self) -> Vec<String> {
        let logs = files_in(&self.place.tmp).into_iter().filter(|name| name.starts_with("pvml."));
        logs.filter_map(|name| fs::read(self.place.tmp.join(name)).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    /// All processes that belong to this machine on any host, the master's daemon included.
    pub fn processes(&self) -> Vec<Process> {
        let mut found: Vec<Process> =
            self.place.marks.iter().flat_map(|mark| processes::with_environment(mark)).collect();
        found.sort_by_key(|process| process.pid);
        found.dedup();
        found
    }

    /// The daemons of slaves, wherever they are.
    pub fn slave_daemons(&self) -> Vec<Process> {
        let is_daemon = |process: &Process| {
            let command = &process.command;
            (command.contains("pvmd") || command.contains("pvm daemon")) && !command.contains("--guardian")
        };
        self.processes().into_iter().filter(|p| is_daemon(p) && p.pid != self.daemon_pid()).collect()
    }

    /// Halts the machine from a console and checks that nothing of it is left: no process on any host, and no file but
    /// the log.
    #[track_caller]
    pub fn finish(mut self) {
        let mut console = self.console();
        console.send("halt");
        console.into_program().end();
        self.expect_nothing_left();
    }

    /// Ends the machine by a signal to the master's daemon, which must end well, and checks that nothing of it is left.
    #[track_caller]
    pub fn terminate(mut self) {
        let daemon = self.daemon.take().expect("the daemon runs until the machine is finished");
        processes::signal(daemon.pid(), Signal::TERM);
        daemon.end().expect_success();
        self.expect_all_gone();
    }

    /// Waits for the end of a machine that was told to end already, and checks that nothing of it is left.
    #[track_caller]
    pub fn expect_nothing_left(&mut self) {
        let daemon = self.daemon.take().expect("the daemon runs until the machine is finished");
        daemon.end();
        self.expect_all_gone();
    }

    #[track_caller]
    fn expect_all_gone(&self) {
        let gone = wait::until(wait::PATIENCE, || self.processes().is_empty().then_some(()));
        assert!(gone.is_some(), "processes left: {:#?}\n{}", self.processes(), self.log());
        // The original leaves sockets of direct routes behind when tasks are killed.
        if self.installation.is_ours && self.library.is_ours {
            let files: Vec<String> =
                files_in(&self.place.tmp).into_iter().filter(|name| !name.starts_with("pvml.")).collect();
            assert!(files.is_empty(), "files left in PVM_TMP: {files:?}");
        }
    }

    pub(crate) fn not_started(self, daemon: Program) -> NotStarted {
        let ended = daemon.end();
        NotStarted { ended, files: files_in(&self.place.tmp), processes: self.processes() }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the daemon\n{}---", self.log());
        }
        self.daemon = None;
        for process in self.processes() {
            processes::signal(process.pid, Signal::KILL);
        }
    }
}

/// The names in a folder.
pub fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}
