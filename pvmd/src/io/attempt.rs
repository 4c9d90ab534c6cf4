//! One attempt to start a daemon on another host: a program like ssh is run, which runs the daemon and passes its answer on.

use crate::io::process::Limits;
use pvm_wire::PvmError;
use pvmd_core::event::StartFailure;
use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

/// What a starter may print before it is answered, bytes; and what of its complaints is kept.
const CHATTER_MAX: u64 = 256 * 1024;
const COMPLAINT_MAX: usize = 2000;
/// How long ssh may take to end once the daemon is up.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The exit status of ssh when the connection fails. Other statuses are the remote command's.
const NO_CONNECTION: i32 = 255;

/// Variables that say where this daemon's machine is, and those by which `srun` would divide a host or change output.
const NOT_PASSED_ON: [&str; 9] = [
    "PVM_TMP",
    "PVM_VMID",
    "PVMHOSTFILE",
    "PVM_HOSTS_FROM",
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_LABELIO",
    "SLURM_DISTRIBUTION",
    "SLURM_CPU_BIND",
];

/// One attempt.
pub struct Attempt {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What it reads, secrets included.
    pub input: String,
    /// Given if the program stays as long as the daemon: held for reading meanwhile.
    pub attached: Option<Arc<RwLock<()>>>,
    /// What daemons on this host have as limits.
    pub limits: Limits,
    /// How long it may take.
    pub timeout: Duration,
}

impl Attempt {
    /// Runs the command, and waits for the first line that is an answer.
    pub async fn run<T>(self, host: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, StartFailure> {
        let limit = self.timeout;
        timeout(limit, self.converse(host, parse)).await.unwrap_or_else(|_| {
            Err(StartFailure {
                error: PvmError::CantStart,
                reason: format!("no answer within {limit:?} (PVM_START_TIMEOUT)"),
                is_passing: false,
            })
        })
    }

    async fn converse<T>(self, host: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, StartFailure> {
        let program =
            self.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let mut child = self.spawn().map_err(|error| StartFailure {
            error: PvmError::CantStart,
            reason: explain(&program, &error),
            is_passing: false,
        })?;
        // Before it has read what makes it start a daemon.
        if let Some(Err(error)) = child.id().map(|id| self.limits.give(id)) {
            info!(program, %error, "it keeps this daemon's own limits");
        }
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let complaint = tokio::spawn(complaints(stderr));
        if let Some(mut stdin) = stdin {
            // A starter that does not listen says why on its other channels.
            let _ = stdin.write_all(self.input.as_bytes()).await;
        }
        let mut chatter = String::new();
        let answer = match stdout {
            Some(stdout) => find_answer(stdout, &mut chatter, parse).await,
            None => None,
        };
        for line in chatter.lines().take(20) {
            info!(host, line, "said while it was started");
        }
        let Some(answer) = answer else { return Err(refusal(child, complaint, &chatter, &program).await) };
        tokio::spawn(async move {
            if let Some(attached) = self.attached {
                let _held = attached.read_owned().await;
                let _ = child.wait().await;
            } else if timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
                warn!(program, "does not end although the daemon is up: killed");
            }
        });
        Ok(answer)
    }

    fn spawn(&self) -> io::Result<Child> {
        let (program, args) = self.command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(args);
        if self.attached.is_some() {
            // What is set for this daemon is not meant for that one, which may get all of the environment.
            for variable in NOT_PASSED_ON {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()
    }
}

fn explain(program: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{program}: no such program on this host's path; install it, or name another in PVM_RSH")
        }
        _ => format!("{program}: {}", pvm_wire::plain(error)),
    }
}

/// The first line that is an answer; what else was said is kept.
async fn find_answer<T>(
    stdout: impl AsyncRead + Unpin,
    chatter: &mut String,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let mut lines = BufReader::new(stdout.take(CHATTER_MAX));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        if let Some(answer) = parse(text.trim_end()) {
            return Some(answer);
        }
        chatter.push_str(&text);
        line.clear();
    }
    None
}

/// What a starter writes to its standard error, the last of it; read to the end, so that it never blocks.
async fn complaints(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(COMPLAINT_MAX);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Why the starter ended without an answer, in its own words.
async fn refusal(
    mut child: Child,
    complaint: JoinHandle<String>,
    chatter: &str,
    program: &str,
) -> StartFailure {
    let status = timeout(EXIT_TIMEOUT, child.wait()).await;
    let code = status.as_ref().ok().and_then(|status| status.as_ref().ok()).and_then(ExitStatus::code);
    let status = match status {
        Ok(Ok(status)) if status.success() => "it ended without starting a daemon".to_owned(),
        Ok(Ok(status)) => status.to_string(),
        _ => "it closed its output".to_owned(),
    };
    let said = timeout(EXIT_TIMEOUT, complaint).await.ok().and_then(Result::ok).unwrap_or_default();
    let words: Vec<&str> =
        said.lines().chain(chatter.lines()).map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = if words.is_empty() {
        "it printed nothing; expected the line \"pvmd-ready ...\" of a pvmd on that host (is dx= its path?)"
            .to_owned()
    } else {
        words.join("; ")
    };
    StartFailure {
        error: PvmError::CantStart,
        reason: format!("{program}: {status}: {words}"),
        is_passing: code == Some(NO_CONNECTION),
    }
}
