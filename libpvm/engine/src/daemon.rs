//! Starting a daemon.

use crate::{Engine, Error, Result, address_file};
use pvm_wire::PvmError;
use pvm_wire::calls::hosts::StartUp;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest address a daemon prints, bytes.
const ADDRESS_MAX: u64 = 4096;

/// The daemon's program: `$PVM_ROOT/lib/pvmd`, else `pvmd` in this program's folder, else the first on `PATH`.
pub fn daemon_program() -> Option<PathBuf> {
    let root = std::env::var_os("PVM_ROOT").map(|root| Path::new(&root).join("lib/pvmd"));
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("pvmd")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates =
        root.into_iter().chain(beside).chain(std::env::split_paths(&path).map(|dir| dir.join("pvmd")));
    candidates.find(|path| path.is_file())
}

/// Starts a daemon with these arguments and returns its address, which programs take from `PVMSOCK`. With `wait`
/// it returns when each host of the hostfile is added or has failed.
pub fn start_daemon<S: AsRef<OsStr>>(args: &[S], wait: bool) -> Result<String> {
    let program = daemon_program().ok_or_else(|| {
        let text = "no program pvmd in $PVM_ROOT/lib, beside this program or on PATH";
        Error::new(PvmError::CantStart, text)
    })?;
    let mut command = Command::new(program);
    command.args(args);
    let address = start_daemon_with(command)?;
    if wait {
        let mut engine = Engine::enrol()?;
        if engine.daemon_is_ours() {
            engine.call(&StartUp {})?;
        }
        engine.exit()?;
    }
    Ok(address)
}

/// Starts a daemon by a command of the caller's, with input and output as a daemon needs them, and returns the
/// address that it prints. Its errors go to this program's standard error.
pub fn start_daemon_with(mut command: Command) -> Result<String> {
    let file = address_file();
    if let Ok(mut engine) = Engine::enrol_as(None, true) {
        engine.disconnect();
        let text = format!("a daemon runs here already ({})", file.display());
        return Err(Error::new(PvmError::DupHost, text));
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot = |text: &str, error| Error::system(PvmError::CantStart, &format!("{text} {program}"), error);
    // A group of its own: the terminal's interrupt is for this program, not for the daemon.
    let command = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot("cannot start the daemon", error))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        let read = BufReader::new(output.take(ADDRESS_MAX)).read_line(&mut line);
        read.map_err(|error| cannot("cannot read the address printed by", error))?;
    }
    let address = line.trim_end();
    if address.is_empty() {
        // Without an address the daemon has ended or is about to.
        let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let text = format!("the daemon {program} gave no address and ended with {status}: see its log");
        return Err(Error::new(PvmError::CantStart, text));
    }
    Ok(address.to_owned())
}
