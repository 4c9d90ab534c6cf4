//! Starts a daemon: this executable under another name, so that nothing needs to be installed.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take to print its address.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon started by this process.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// The address of its socket.
    pub address: String,
}

impl Daemon {
    /// Starts a daemon with these arguments and additions to the environment, and waits until it takes tasks.
    pub fn start<S: AsRef<OsStr>>(args: &[S], env: &[(&str, &OsStr)]) -> Result<Self> {
        let executable = std::env::current_exe().context("cannot find out which program this is")?;
        let mut child = Command::new(&executable)
            .arg("daemon")
            .args(args)
            // A task may start a virtual machine of its own, which outlives it.
            .env_remove("PVM_FAMILY")
            .envs(env.iter().copied())
            // A group of its own: the terminal's interrupt key is for people's programs, not for the daemon.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", executable.display()))?;
        let mut address = String::new();
        let line = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut address));
        match line {
            Some(Ok(length)) if length > 0 => Ok(Self { child, address: address.trim_end().to_owned() }),
            _ => bail!("the daemon did not start: {}", exit_reason(&mut child)),
        }
    }

    /// Waits until the daemon has ended; one that does not end within `limit` is killed.
    pub fn wait(mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks the daemon to end.
    pub fn terminate(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

/// Why a daemon has ended: what it wrote to its standard error, else its status.
fn exit_reason(child: &mut Child) -> String {
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.to_string(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                break "it closed its output without its address".to_owned();
            }
        }
    };
    let mut text = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(64 * 1024).read_to_string(&mut text);
    }
    if text.trim().is_empty() { status } else { text.trim().to_owned() }
}
