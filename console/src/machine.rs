//! A virtual machine of one's own: it lives in a temporary folder and ends with its owner.

use crate::cli::MachineArgs;
use crate::daemon::Daemon;
use crate::orphans;
use crate::supervise::{self, Interrupts};
use anyhow::{Context, Result};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// How long the daemon may take to end everything.
const END: Duration = Duration::from_secs(10);
/// Where programs are looked for if `PVM_PATH` does not say; the daemon replaces the variables.
const SEARCH_PATH: &str = "$HOME/pvm3/bin/$PVM_ARCH:$PVM_ROOT/bin/$PVM_ARCH";

/// The hosts of a private machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// This host and further daemons on it, so many together, with these capabilities as far as they are given.
    Local(u16, Vec<u32>),
    /// Those of a hostfile.
    File(PathBuf),
}

impl Hosts {
    /// What the command line asks for; `default` if it says nothing.
    pub fn chosen(args: &MachineArgs, default: Self) -> Self {
        match (&args.hostfile, args.hosts) {
            (Some(file), _) => Self::File(file.clone()),
            (None, Some(count)) => Self::Local(count, Vec::new()),
            (None, None) => default,
        }
    }
}

/// A running private machine.
#[derive(Debug)]
pub struct Machine {
    folder: TempDir,
    name: String,
    daemon: Daemon,
}

impl Machine {
    /// Starts a machine. Programs of its tasks are looked for in `programs` first.
    pub fn start(hosts: &Hosts, programs: Option<&Path>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("pvm-").tempdir().context("no temporary folder")?;
        let name = format!("run{}", std::process::id());
        let mut args: Vec<OsString> = Vec::new();
        match hosts {
            Hosts::File(path) => args.push(path.into()),
            Hosts::Local(count, speeds) => {
                let file = folder.path().join("hostfile");
                std::fs::write(&file, hostfile(*count, speeds))
                    .with_context(|| format!("cannot write {}", file.display()))?;
                args.extend(["-nhost1".into(), file.into()]);
            }
        }
        let mut env = vec![("PVM_TMP", folder.path().into()), ("PVM_VMID", name.clone().into())];
        if let Some(programs) = programs {
            env.push(("PVM_PATH", search_path(programs)));
        }
        if std::env::var_os("PVM_WD").is_none() {
            env.push(("PVM_WD", std::env::current_dir().context("no current folder")?.into()));
        }
        let env: Vec<(&str, &OsStr)> = env.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
        let daemon = Daemon::start(&args, &env)?;
        Ok(Self { folder, name, daemon })
    }

    /// Runs a command as a part of this machine, until it ends; returns its exit code.
    pub fn run(&self, mut command: Command, interrupts: &Interrupts) -> Result<u8> {
        command
            .env("PVM_TMP", self.folder.path())
            .env("PVM_VMID", &self.name)
            .env("PVMSOCK", &self.daemon.address)
            // What the machine in which this process runs may have told it is not for the new one.
            .env_remove("PVMEPID")
            .env_remove(pvm_wire::timeline::VARIABLE)
            .env_remove("PVMCTX");
        if let Some(signal) = interrupts.take() {
            return Ok(supervise::signal_code(signal));
        }
        let mut child = command.spawn().context("cannot start a process")?;
        Ok(supervise::exit_code(supervise::wait(&mut child, interrupts, || ())?))
    }

    /// Ends the machine: its tasks, its daemons, whatever processes they leave, its folder.
    pub fn end(self) {
        self.daemon.terminate();
        self.daemon.wait(END);
        orphans::end();
    }
}

/// Runs this executable with these arguments inside a machine of its own.
pub fn run_inside(hosts: &Hosts, programs: Option<&Path>, args: &[OsString]) -> Result<u8> {
    let interrupts = Interrupts::watch().context("cannot handle signals")?;
    orphans::adopt().context("cannot become the parent of orphaned processes")?;
    let machine = Machine::start(hosts, programs)?;
    let mut command = Command::new(std::env::current_exe().context("cannot find out which program this is")?);
    command.args(args);
    let code = machine.run(command, &interrupts);
    machine.end();
    code
}

/// A hostfile of daemons on this machine.
fn hostfile(count: u16, speeds: &[u32]) -> String {
    let mut text = String::new();
    for number in 1..=count {
        let _ = write!(text, "host{number}");
        if let Some(speed) = speeds.get(usize::from(number) - 1) {
            let _ = write!(text, " sp={speed}");
        }
        text.push_str(if number == 1 { "\n" } else { " via=local\n" });
    }
    text
}

fn search_path(first: &Path) -> OsString {
    let mut path = OsString::from(first);
    path.push(":");
    path.push(std::env::var_os("PVM_PATH").unwrap_or_else(|| SEARCH_PATH.into()));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_is_this_one_and_the_others_are_local() {
        assert_eq!(hostfile(1, &[]), "host1\n");
        assert_eq!(hostfile(3, &[500, 1000]), "host1 sp=500\nhost2 sp=1000 via=local\nhost3 via=local\n");
    }

    #[test]
    fn the_command_line_chooses_the_hosts() {
        let args =
            MachineArgs { hosts: None, hostfile: None, allow_missing: false, here: false, private: false };
        let default = Hosts::Local(4, vec![1, 2]);
        assert_eq!(Hosts::chosen(&args, default.clone()), default);
        let args = MachineArgs { hosts: Some(2), ..args };
        assert_eq!(Hosts::chosen(&args, default.clone()), Hosts::Local(2, vec![]));
        let args = MachineArgs { hosts: None, hostfile: Some("f".into()), ..args };
        assert_eq!(Hosts::chosen(&args, default), Hosts::File("f".into()));
    }

    #[test]
    fn programs_own_folder_comes_first() {
        assert!(search_path(Path::new("/x/y")).to_string_lossy().starts_with("/x/y:"));
    }
}
