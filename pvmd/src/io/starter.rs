//! Starting daemons: on other hosts by ssh, or beside this one.

use crate::io::driver::Input;
use crate::io::introduction;
use crate::io::process::Limits;
use crate::io::settings::Settings;
use crate::io::tls::Authority;
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::slave::{Fingerprint, ReadyLine, SlaveConfig};
use pvm_wire::{HostIndex, PvmError};
use pvmd_core::event::{Event, StartedHost};
use pvmd_core::hostfile::{HostSpec, Network, SuccessionRule, Via};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{RwLock, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tracing::{info, warn};

/// What a starter may print before it is answered, bytes; and what of its complaints is kept.
const CHATTER_MAX: u64 = 256 * 1024;
const COMPLAINT_MAX: usize = 2000;
/// How long ssh may take to end once the daemon is up.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A step of one task beside all others of the job, with all that the job has on its host.
const SRUN: [&str; 7] =
    ["srun", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--overlap", "--mpi=none", "--quiet"];
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

/// The daemon's command on other hosts, unless something else is set.
pub const DAEMON: &str = "pvmd";

type Failure = (PvmError, String);

/// What any daemon can start others with, if it has the authority: for the time when it is the master.
#[derive(Clone)]
pub struct Tools {
    /// Which host this is: the master of those it starts.
    pub own: HostIndex,
    /// The environment's settings.
    pub settings: Settings,
    /// The command that runs this very program as a daemon.
    pub again: Vec<OsString>,
    /// What daemons on this host have as limits at their start, as this one had.
    pub limits: Limits,
}

/// Starts hosts, several at once.
pub struct Starter {
    authority: Arc<Authority>,
    tools: Tools,
    places: Arc<Semaphore>,
    running: HashMap<HostIndex, AbortHandle>,
    /// Held for reading by each launcher that stays as long as its daemon.
    attached: Arc<RwLock<()>>,
    input: mpsc::Sender<Input>,
}

impl Starter {
    /// A starter that has started nothing yet.
    pub fn new(authority: Authority, tools: Tools, input: mpsc::Sender<Input>) -> Self {
        let places = Arc::new(Semaphore::new(tools.settings.starters));
        let (authority, running, attached) = (Arc::new(authority), HashMap::new(), Arc::default());
        Self { authority, tools, places, running, attached, input }
    }

    /// Starts a host; [`Event::HostStarted`] follows.
    pub fn start(&mut self, index: HostIndex, spec: &HostSpec, address: IpAddr) {
        let job = self.job(index, spec, address);
        let (places, input) = (self.places.clone(), self.input.clone());
        let name = spec.name.clone();
        let task = tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            let result = match job {
                Ok(job) => job.run(&name, address).await,
                Err(failure) => Err(failure),
            };
            let _ = input.send(Event::HostStarted { index, result }.into()).await;
        });
        self.running.insert(index, task.abort_handle());
    }

    /// Brings a daemon that a hoster has started its place; [`Event::HostStarted`] follows.
    pub fn introduce(&mut self, index: HostIndex, spec: &HostSpec, address: SocketAddr, daemon: Fingerprint) {
        let config = self.config(index, spec, address.ip());
        let (authority, timeout, input) =
            (self.authority.clone(), self.tools.settings.start_timeout, self.input.clone());
        let task = tokio::spawn(async move {
            let result = match config {
                Ok(config) => {
                    let meeting = introduction::introduce(&authority, address, daemon, &config);
                    let met = tokio::time::timeout(timeout, meeting).await;
                    let reason =
                        |why: String| (PvmError::CantStart, format!("no introduction to its daemon: {why}"));
                    match met {
                        Ok(Ok(ready)) => started(ready, address.ip()),
                        Ok(Err(error)) => Err(reason(error.to_string())),
                        Err(_) => Err(reason(format!("no answer within {timeout:?}"))),
                    }
                }
                Err(failure) => Err(failure),
            };
            let _ = input.send(Event::HostStarted { index, result }.into()).await;
        });
        self.running.insert(index, task.abort_handle());
    }

    /// Gives up starting a host.
    pub fn abandon(&mut self, index: HostIndex) {
        if let Some(task) = self.running.remove(&index) {
            task.abort();
        }
    }

    /// Waits for the launchers of daemons that have ended: a batch system reports a launcher that is killed.
    pub async fn wait_for_launchers(&self) {
        let _ = tokio::time::timeout(EXIT_TIMEOUT, self.attached.write()).await;
    }

    fn job(&self, index: HostIndex, spec: &HostSpec, address: IpAddr) -> Result<Job, Failure> {
        if let Some(option) = &spec.options.start_options {
            let reason =
                format!("so={option} needs a person to answer, and there is none: use ssh with a key");
            return Err((PvmError::CantStart, reason));
        }
        let config = self.config(index, spec, address)?;
        let line = config.to_line().map_err(|error| (PvmError::DSysErr, error.to_string()))?;
        let via = spec.options.via.unwrap_or_default();
        let command = self.command(via, spec);
        let attached = via.is_of_batch_system().then(|| self.attached.clone());
        Ok(Job {
            attached,
            command,
            line,
            limits: self.tools.limits,
            timeout: self.tools.settings.start_timeout,
        })
    }

    /// What the new daemon is told, secrets included.
    fn config(&self, index: HostIndex, spec: &HostSpec, address: IpAddr) -> Result<SlaveConfig, Failure> {
        let failed = |error| (PvmError::DSysErr, format!("no certificate for it: {error}"));
        let credentials = self.authority.issue(index).map_err(failed)?;
        let local = spec.options.via == Some(Via::Local);
        let (options, settings) = (&spec.options, &self.tools.settings);
        Ok(SlaveConfig {
            protocol: DAEMON_PROTOCOL,
            index,
            master: self.tools.own,
            name: spec.name.clone(),
            authority: credentials.authority,
            certificate: credentials.certificate,
            key: credentials.key,
            address,
            vmid: options.vmid.clone().or_else(|| self.vmid(&spec.name, local)),
            exec_path: options.exec_path.clone(),
            working_directory: options.working_directory.clone(),
            debugger: options.debugger.clone(),
            speed: options.speed,
            debug_mask: settings.debug_mask,
            host_timeout_seconds: settings.host_timeout.as_secs_f64(),
            connect_timeout_seconds: settings.connect_timeout.as_secs_f64(),
            policy: options.policy.unwrap_or(settings.policy).name().to_owned(),
            slice_milliseconds: options.slice,
            slots: options.slots,
            private_network: options.network == Some(Network::Private),
            takes_silent: settings.succession == SuccessionRule::Silent,
        })
    }

    /// A daemon beside this one needs files of its own.
    fn vmid(&self, name: &str, local: bool) -> Option<String> {
        let own = self.tools.settings.place.vmid.clone();
        if !local {
            return own;
        }
        let name = name.replace('/', "_");
        Some(own.map_or_else(|| name.clone(), |own| format!("{own}.{name}")))
    }

    /// What runs a daemon on that host, up to the daemon's own arguments.
    fn command(&self, via: Via, spec: &HostSpec) -> Vec<OsString> {
        let options = &spec.options;
        let words = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
        let mut command = match via {
            Via::Local => return self.tools.again.clone(),
            Via::Ssh => {
                let login = options.login.iter().flat_map(|login| ["-l", login]);
                let rsh = self.tools.settings.rsh.iter().map(String::as_str).chain(login);
                rsh.chain([options.address.as_ref().unwrap_or(&spec.name).as_str()]).map(Into::into).collect()
            }
            Via::Srun => {
                words(&SRUN).into_iter().chain([format!("--nodelist={}", spec.name).into()]).collect()
            }
            Via::Blaunch => words(&["blaunch", &spec.name]),
            Via::Qrsh => words(&["qrsh", "-inherit", &spec.name]),
        };
        match options.daemon.as_ref().or(self.tools.settings.daemon.as_ref()) {
            Some(daemon) => command.push(daemon.into()),
            // Hosts of a batch system have the same files as this one.
            None if via.is_of_batch_system() => command.extend(self.tools.again.iter().cloned()),
            None => command.push(DAEMON.into()),
        }
        command
    }
}

/// One daemon to start.
struct Job {
    /// Given if the launcher stays as long as the daemon.
    attached: Option<Arc<RwLock<()>>>,
    command: Vec<OsString>,
    /// Its configuration, secrets included: goes through standard input only.
    line: String,
    limits: Limits,
    timeout: Duration,
}

impl Job {
    async fn run(self, name: &str, address: IpAddr) -> Result<StartedHost, Failure> {
        let timeout = self.timeout;
        let answer = tokio::time::timeout(timeout, self.converse(name)).await;
        let cant_start = |reason| (PvmError::CantStart, reason);
        let ready = answer.unwrap_or_else(|_| {
            Err(cant_start(format!("no answer within {timeout:?} (PVM_START_TIMEOUT)")))
        })?;
        started(ready, address)
    }

    /// Runs the command, sends the configuration, waits for the answer.
    async fn converse(self, name: &str) -> Result<ReadyLine, Failure> {
        let program =
            self.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let mut child = self.spawn().map_err(|error| (PvmError::CantStart, explain(&program, &error)))?;
        // Before it has read what makes it start a daemon.
        if let Some(Err(error)) = child.id().map(|id| self.limits.give(id)) {
            info!(program, %error, "it keeps this daemon's own limits");
        }
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let complaint = tokio::spawn(complaints(stderr));
        if let Some(mut stdin) = stdin {
            // A starter that does not listen says why on its other channels.
            let _ = stdin.write_all(self.line.as_bytes()).await;
        }
        let mut chatter = String::new();
        let ready = match stdout {
            Some(stdout) => find_ready(stdout, &mut chatter).await,
            None => None,
        };
        for line in chatter.lines().take(20) {
            info!(host = name, line, "said while it was started");
        }
        let Some(ready) = ready else { return Err(refusal(child, complaint, &chatter, &program).await) };
        tokio::spawn(async move {
            if let Some(attached) = self.attached {
                let _held = attached.read_owned().await;
                let _ = child.wait().await;
            } else if tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
                warn!(program, "does not end although the daemon is up: killed");
            }
        });
        Ok(ready)
    }

    fn spawn(&self) -> io::Result<Child> {
        let (program, args) = self.command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(args).arg("--slave");
        if self.attached.is_some() {
            command.arg("--attached");
            // What is set for this daemon is not meant for that one, which may get all of the environment.
            for variable in NOT_PASSED_ON {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()
    }
}

/// What the daemon says of itself, if it speaks our protocol.
fn started(ready: ReadyLine, address: IpAddr) -> Result<StartedHost, Failure> {
    if ready.protocol != DAEMON_PROTOCOL {
        let reason = format!("its daemon speaks protocol {}, this one {DAEMON_PROTOCOL}", ready.protocol);
        return Err((PvmError::BadVersion, reason));
    }
    Ok(StartedHost {
        arch: ready.arch,
        signature: ready.signature.0,
        capability: ready.capability,
        task_limit: ready.task_limit,
        address: SocketAddr::new(address, ready.port),
    })
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
async fn find_ready(stdout: impl AsyncRead + Unpin, chatter: &mut String) -> Option<ReadyLine> {
    let mut lines = BufReader::new(stdout.take(CHATTER_MAX));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        if let Some(ready) = ReadyLine::parse(text.trim_end()) {
            return Some(ready);
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
    complaint: tokio::task::JoinHandle<String>,
    chatter: &str,
    program: &str,
) -> Failure {
    let status = tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await;
    let status = match status {
        Ok(Ok(status)) if status.success() => "it ended without starting a daemon".to_owned(),
        Ok(Ok(status)) => status.to_string(),
        _ => "it closed its output".to_owned(),
    };
    let said =
        tokio::time::timeout(EXIT_TIMEOUT, complaint).await.ok().and_then(Result::ok).unwrap_or_default();
    let words: Vec<&str> =
        said.lines().chain(chatter.lines()).map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = if words.is_empty() {
        "it printed nothing; expected the line \"pvmd-ready ...\" of a pvmd on that host (is dx= its path?)"
            .to_owned()
    } else {
        words.join("; ")
    };
    (PvmError::CantStart, format!("{program}: {status}: {words}"))
}
