//! Being started by a master: first a launcher, which ssh waits for, then the daemon itself, which it does not.
//!
//! ```text
//! master ── ssh ── pvmd --slave ── pvmd --slave-daemon
//!        config on stdin ▶       ▶
//!        ◀  ready line  ◀ stdout
//! ```
//!
//! The launcher ends with the ready line; the daemon leaves the session and lives on. A batch system's launcher (`srun`) is
//! attached instead: it stays until the daemon ends, since the batch system kills what a step leaves behind.

use crate::io::family;
use crate::io::settings::Settings;
use anyhow::{Context, bail};
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::encoding::DataSignature;
use pvm_wire::limits::SLAVE_CONFIG_MAX;
use pvm_wire::slave::{Fingerprint, HostedLine, ReadyLine, SlaveConfig, SlaveConfigError};
use pvm_wire::turn_rules::Coscheduling;
use pvmd_core::hostfile::SuccessionRule;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

/// The launcher: reads the configuration, starts the daemon, passes its answer on.
pub fn launch(again: &[OsString], attached: bool) -> anyhow::Result<()> {
    let line = read_line()?;
    let config = match SlaveConfig::from_line(&line) {
        Ok(config) => config,
        Err(SlaveConfigError::Version(_)) => return answer_with_own_version(),
        Err(error) => {
            return Err(error)
                .context("standard input has no configuration; --slave is for the master's use");
        }
    };
    let mut command = daemon(again)?;
    command.arg("--slave-daemon").args(attached.then_some("--attached")).stdin(Stdio::piped());
    match &config.vmid {
        Some(vmid) => command.env("PVM_VMID", vmid),
        None => command.env_remove("PVM_VMID"),
    };
    let mut daemon = pass_on(command, &line, |answer| ReadyLine::parse(answer).is_some())?;
    if attached {
        daemon.wait()?;
    }
    Ok(())
}

/// The launcher for a hoster: there is nothing to read. `PVM_VMID` is the hoster's business, as in PVM.
pub fn launch_hosted(again: &[OsString], authority: Fingerprint) -> anyhow::Result<()> {
    let mut command = daemon(again)?;
    command.arg("--hosted-daemon").arg(authority.to_string()).stdin(Stdio::null());
    pass_on(command, "", |answer| HostedLine::parse(answer).is_some()).map(drop)
}

/// An attached daemon's launcher may be killed alone: the daemon then gets the signal by which daemons end.
pub fn end_with_launcher() -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .context("cannot ask for a signal at the launcher's end")
}

fn daemon(again: &[OsString]) -> anyhow::Result<Command> {
    let (program, args) = again.split_first().context("this program does not know its own name")?;
    let mut command = Command::new(program);
    // A hoster may be a task; its hosts outlive it.
    command.args(args).env_remove(family::VARIABLE).stdout(Stdio::piped());
    Ok(command)
}

/// Starts the daemon, tells it what it is to know, and passes its answer on.
fn pass_on(mut command: Command, line: &str, is_answer: impl Fn(&str) -> bool) -> anyhow::Result<Child> {
    let mut child =
        command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it has ended already, its own message says why.
        let _ = stdin.write_all(line.as_bytes());
    }
    let mut answer = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout.take(4096)).read_line(&mut answer)?;
    }
    if !is_answer(answer.trim_end()) {
        bail!("the daemon did not start ({})", child.wait()?);
    }
    print_line(answer.trim_end())?;
    Ok(child)
}

/// The configuration of a slave's daemon, from its standard input.
pub fn configuration() -> anyhow::Result<SlaveConfig> {
    Ok(SlaveConfig::from_line(&read_line()?)?)
}

/// What the hostfile says about this host goes before what the environment says.
pub fn override_settings(settings: &mut Settings, config: &SlaveConfig) {
    if let Some(path) = &config.exec_path {
        settings.search_path.clone_from(path);
    }
    settings.directory = config.working_directory.clone().or(settings.directory.take());
    settings.debugger = config.debugger.clone().or(settings.debugger.take());
    settings.debug_mask = config.debug_mask;
    if let Ok(timeout) = std::time::Duration::try_from_secs_f64(config.host_timeout_seconds) {
        settings.host_timeout = timeout;
    }
    if let Ok(timeout) = std::time::Duration::try_from_secs_f64(config.connect_timeout_seconds) {
        settings.connect_timeout = timeout;
    }
    settings.watched_max = config.watched_max;
    settings.private_network = config.private_network;
    settings.owner.clone_from(&config.owner);
    settings.set_slice(config.slice_milliseconds);
    settings.set_slots(config.slots);
    settings.policy = config.policy.parse().unwrap_or(settings.policy);
    let means = config.means.unwrap_or(settings.coscheduling.means);
    settings.coscheduling = Coscheduling { means, has_rows: config.has_rows };
    let silent = config.takes_silent;
    settings.succession = if silent { SuccessionRule::Silent } else { SuccessionRule::Proved };
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    let limit = 2 * SLAVE_CONFIG_MAX as u64;
    std::io::stdin().lock().take(limit).read_line(&mut line).context("cannot read standard input")?;
    Ok(line)
}

fn answer_with_own_version() -> anyhow::Result<()> {
    let ready = ReadyLine {
        protocol: DAEMON_PROTOCOL,
        arch: crate::cli::ARCH.to_owned(),
        port: 0,
        signature: DataSignature::NATIVE,
        capability: 1.0,
        task_limit: 0,
    };
    print_line(&ready.to_string())
}

/// One line on standard output, at once.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}
