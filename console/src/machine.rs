//! A virtual machine of one's own: it lives in a temporary folder and ends with its owner.

use crate::cli::MachineArgs;
use crate::daemon::Daemon;
use crate::orphans;
use crate::supervise::{self, Interrupts};
use anyhow::{Context, Result};
use pvm3::Task;
use pvmd::allocation::{self, HostsFrom};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// How long the daemon may take to end everything.
const END: Duration = Duration::from_secs(10);
/// Where programs are looked for without `PVM_PATH`; the daemon replaces the variables.
pub const SEARCH_PATH: &str = "$HOME/pvm3/bin/$PVM_ARCH:$PVM_ROOT/bin/$PVM_ARCH";

/// The file in a private machine's folder that asks for the logs to be kept, with the names of the hosts.
const KEEP_LOGS: &str = "keep-logs";

/// The hosts of a private machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// This host and further daemons on it, this many together, with the capabilities that are given.
    Local(u16, Vec<u32>),
    /// Those of a hostfile.
    File(PathBuf),
    /// Those of a batch system's allocation, with the options that a hostfile gives them.
    Allocated(HostsFrom, Option<PathBuf>),
}

impl Hosts {
    /// The hosts of the command line; without any, those of the allocation `from` in which this process runs,
    /// else `default`.
    pub fn chosen(args: &MachineArgs, from: HostsFrom, default: Self) -> Self {
        let from = args.hosts_from.unwrap_or(from);
        match (from, &args.hostfile, args.hosts) {
            (_, _, Some(count)) => Self::Local(count, Vec::new()),
            (HostsFrom::Only(_), file, None) => Self::Allocated(from, file.clone()),
            (_, Some(file), None) => Self::File(file.clone()),
            // The daemon reports an allocation that cannot be read.
            (_, None, None) if !matches!(allocation::find(from), Ok(None)) => Self::Allocated(from, None),
            (_, None, None) => default,
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
            Hosts::Allocated(from, path) => {
                args.push(format!("--hosts-from={from}").into());
                args.extend(path.iter().map(Into::into));
            }
            Hosts::Local(count, speeds) => {
                let file = folder.path().join("hostfile");
                std::fs::write(&file, hostfile(*count, speeds))
                    .with_context(|| format!("cannot write {}", file.display()))?;
                args.extend(["-nhost1".into(), file.into()]);
            }
        }
        let mut env = vec![("PVM_TMP", folder.path().into()), ("PVM_VMID", name.clone().into())];
        env.extend(succession(|variable| std::env::var_os(variable)));
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
            // Variables of the machine in which this process runs are not for the new one.
            .env_remove("PVMEPID")
            .env_remove(pvm_wire::timeline::VARIABLE)
            .env_remove("PVMCTX");
        if let Some(signal) = interrupts.take() {
            return Ok(supervise::signal_code(signal));
        }
        let mut child = command.spawn().context("cannot start a process")?;
        Ok(supervise::exit_code(supervise::wait(&mut child, interrupts, || false)?))
    }

    /// Ends the machine: its tasks, its daemons, all processes they leave, its folder. Logs that are to be kept move to
    /// the folder where they would lie if the machine had none of its own.
    pub fn end(self) {
        let Self { folder, name, daemon } = self;
        daemon.terminate();
        daemon.wait(END);
        orphans::end();
        if let Ok(hosts) = std::fs::read_to_string(folder.path().join(KEEP_LOGS)) {
            let target = std::env::var_os("PVM_TMP").map_or_else(|| "/tmp".into(), PathBuf::from);
            eprintln!("{}", keep_logs(folder.path(), &target, &name, &hosts));
        }
    }
}

/// The run inside a private machine ends: the daemons' logs go with it if all went well, else they stay.
pub fn settle_logs(task: &mut Task, clean: bool) {
    // A daemon that cannot be asked keeps its log, which is no harm.
    if !task.daemon_is_ours() || (clean && task.discard_logs().is_ok()) {
        return;
    }
    let hosts: Vec<String> = task.hosts().into_iter().flatten().map(|host| host.name).collect();
    let folder = std::env::var_os("PVM_TMP").map(PathBuf::from).unwrap_or_default();
    // Without it, only the logs on other hosts stay.
    let _ = std::fs::write(folder.join(KEEP_LOGS), hosts.join("\n"));
}

/// Copies a log, for this user alone. Fails if the file exists: it may be another user's.
fn keep_log(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut File::open(from)?, &mut target).map(drop)
}

/// Moves the logs of the daemons on this host; prints where they are, and where those of the other hosts are.
fn keep_logs(from: &Path, to: &Path, name: &str, hosts: &str) -> String {
    let names = std::fs::read_dir(from).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut logs: Vec<String> = names.filter(|name| name.starts_with("pvml.")).collect();
    logs.sort_unstable();
    let is_elsewhere = |host: &&str| !logs.iter().any(|log| log.ends_with(&format!(".{name}.{host}")));
    // The first is the master, which runs here.
    let elsewhere: Vec<&str> = hosts.lines().skip(1).filter(is_elsewhere).collect();
    logs.retain(|log| keep_log(&from.join(log), &to.join(log)).is_ok());
    let mut places: Vec<String> = logs.iter().map(|log| to.join(log).display().to_string()).collect();
    if !elsewhere.is_empty() {
        places.push(format!("pvml.*.{name} in the temporary folder of {}", elsewhere.join(", ")));
    }
    format!("pvm: the daemons' logs are kept: {}", places.join(", "))
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

/// The machine ends with its master unless the user has set `succession`: without the master the user cannot find the machine.
fn succession(variable: impl Fn(&str) -> Option<OsString>) -> Option<(&'static str, OsString)> {
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let is_chosen = ["PVM_SUCCESSION", "PVM_DEPUTIES"].iter().any(is_set);
    (!is_chosen).then(|| ("PVM_SUCCESSION", "off".into()))
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
        let args = MachineArgs {
            hosts: None,
            hostfile: None,
            hosts_from: None,
            allow_missing: false,
            here: false,
            private: false,
        };
        let default = Hosts::Local(4, vec![1, 2]);
        assert_eq!(Hosts::chosen(&args, HostsFrom::None, default.clone()), default);
        let args = MachineArgs { hosts: Some(2), ..args };
        assert_eq!(Hosts::chosen(&args, HostsFrom::None, default.clone()), Hosts::Local(2, vec![]));
        let args = MachineArgs { hosts: None, hostfile: Some("f".into()), ..args };
        assert_eq!(Hosts::chosen(&args, HostsFrom::None, default.clone()), Hosts::File("f".into()));
        let slurm: HostsFrom = "slurm".parse().unwrap();
        let args = MachineArgs { hosts_from: Some(slurm), ..args };
        assert_eq!(Hosts::chosen(&args, HostsFrom::None, default), Hosts::Allocated(slurm, Some("f".into())));
    }

    #[test]
    fn kept_logs_are_named_wherever_they_are() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["pvml.0.run7", "pvml.0.run7.near", "other"] {
            std::fs::write(from.path().join(name), name).unwrap();
        }
        let there = to.path().join("pvml.0.run7.taken");
        std::fs::write(from.path().join("pvml.0.run7.taken"), "new").unwrap();
        std::os::unix::fs::symlink(from.path().join("other"), &there).unwrap();
        let text = keep_logs(from.path(), to.path(), "run7", "master\nnear\nfar");
        let folder = to.path().display();
        let expected = format!(
            "pvm: the daemons' logs are kept: {folder}/pvml.0.run7, {folder}/pvml.0.run7.near, \
             pvml.*.run7 in the temporary folder of far"
        );
        assert_eq!(text, expected);
        assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 3);
        assert_eq!(
            std::fs::read_to_string(from.path().join("other")).unwrap(),
            "other",
            "nothing is overwritten"
        );
    }

    #[test]
    fn a_machine_ends_with_its_master_unless_the_user_wants_another() {
        let given = |name: &'static str, value: &'static str| {
            succession(move |asked| (asked == name).then(|| OsString::from(value)))
        };
        assert_eq!(succession(|_| None), Some(("PVM_SUCCESSION", "off".into())));
        assert_eq!(given("PVM_SUCCESSION", ""), Some(("PVM_SUCCESSION", "off".into())));
        assert_eq!(given("PVM_SUCCESSION", "silent"), None);
        assert_eq!(given("PVM_DEPUTIES", "2"), None);
    }

    #[test]
    fn programs_own_folder_comes_first() {
        assert!(search_path(Path::new("/x/y")).to_string_lossy().starts_with("/x/y:"));
    }
}
