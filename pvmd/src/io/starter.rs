//! Starting daemons: on other hosts by ssh, or beside this one.

use crate::io::attempt::{Attempt, EXIT_TIMEOUT};
use crate::io::driver::Input;
use crate::io::introduction;
use crate::io::process::Limits;
use crate::io::settings::Settings;
use crate::io::tls::{Authority, TlsError};
use pvm_wire::certificate::{CertificateRequest, Certified};
use pvm_wire::codes::DAEMON_PROTOCOL;
use pvm_wire::slave::{Fingerprint, HostedLine, ReadyLine, SlaveConfig};
use pvm_wire::{HostIndex, PvmError};
use pvmd_core::event::{Event, StartFailure, StartedHost};
use pvmd_core::hostfile::{HostSpec, Network, SuccessionRule, Via};
use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{RwLock, mpsc};
use tokio::task::AbortHandle;

/// A step of one task beside all others of the job, with all that the job has on its host.
const SRUN: [&str; 7] =
    ["srun", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--overlap", "--mpi=none", "--quiet"];
/// The daemon's command on other hosts, unless something else is set.
pub const DAEMON: &str = "pvmd";

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
    running: HashMap<HostIndex, AbortHandle>,
    /// Held for reading by each launcher that stays as long as its daemon.
    attached: Arc<RwLock<()>>,
    input: mpsc::Sender<Input>,
}

impl Starter {
    /// A starter that has started nothing yet.
    pub fn new(authority: Authority, tools: Tools, input: mpsc::Sender<Input>) -> Self {
        let (authority, running, attached) = (Arc::new(authority), HashMap::new(), Arc::default());
        Self { authority, tools, running, attached, input }
    }

    /// Starts a host; [`Event::HostStarted`] follows.
    pub fn start(&mut self, index: HostIndex, spec: &HostSpec, address: IpAddr) {
        let attempt = self.attempt(index, spec, address);
        let name = spec.name.clone();
        self.report(index, async move { started(attempt?.run(&name, ReadyLine::parse).await?, address) });
    }

    /// Brings a daemon that waits for the master its place; [`Event::HostStarted`] follows.
    pub fn introduce(&mut self, index: HostIndex, spec: &HostSpec, address: SocketAddr, daemon: Fingerprint) {
        let config = self.config(index, spec, address.ip());
        let (authority, timeout) = (self.authority.clone(), self.tools.settings.start_timeout);
        self.report(index, async move {
            let config = config?;
            let meeting = introduction::introduce(&authority, address, daemon, &config);
            let why = match tokio::time::timeout(timeout, meeting).await {
                Ok(Ok(ready)) => return started(ready, address.ip()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {timeout:?}"),
            };
            Err(failure(PvmError::CantStart, format!("no introduction to its daemon: {why}")))
        });
    }

    /// Signs a certificate for a server of a task.
    pub fn certify(&self, request: &CertificateRequest) -> Result<Certified, (PvmError, String)> {
        self.authority.certify(&request.names, &request.key).map_err(|error| {
            let code = if matches!(error, TlsError::Key) { PvmError::BadParam } else { PvmError::DSysErr };
            (code, pvm_wire::plain(error))
        })
    }

    fn report(
        &mut self,
        index: HostIndex,
        start: impl Future<Output = Result<StartedHost, StartFailure>> + Send + 'static,
    ) {
        let input = self.input.clone();
        let task = tokio::spawn(async move {
            let result = start.await;
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

    fn attempt(&self, index: HostIndex, spec: &HostSpec, address: IpAddr) -> Result<Attempt, StartFailure> {
        if let Some(option) = &spec.options.start_options {
            let reason =
                format!("so={option} needs a person to answer, and there is none: use ssh with a key");
            return Err(failure(PvmError::CantStart, reason));
        }
        let config = self.config(index, spec, address)?;
        let line = config.to_line().map_err(|error| failure(PvmError::DSysErr, error.to_string()))?;
        let via = spec.options.via.unwrap_or_default();
        let mut command = self.command(via, spec);
        command.push("--slave".into());
        let is_attached = via.is_of_batch_system();
        if is_attached {
            command.push("--attached".into());
        }
        Ok(Attempt {
            command,
            input: line,
            attached: is_attached.then(|| self.attached.clone()),
            limits: self.tools.limits,
            timeout: self.tools.settings.start_timeout,
        })
    }

    /// What the new daemon is told, secrets included.
    fn config(
        &self,
        index: HostIndex,
        spec: &HostSpec,
        address: IpAddr,
    ) -> Result<SlaveConfig, StartFailure> {
        let failed = |error| failure(PvmError::DSysErr, format!("no certificate for it: {error}"));
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
            owner: options.ownership(),
            private_network: options.network == Some(Network::Private),
            watched_max: settings.watched_max,
            takes_silent: settings.succession == SuccessionRule::Silent,
            means: options.coscheduling.map(|coscheduling| coscheduling.means),
            has_rows: settings.coscheduling.has_rows,
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
            Via::Local => Vec::new(),
            Via::Ssh => spec.reached_by(&self.tools.settings.rsh).into_iter().map(Into::into).collect(),
            Via::Srun => {
                let job = options.job.map(|job| format!("--jobid={job}").into());
                let node = format!("--nodelist={}", spec.name).into();
                words(&SRUN).into_iter().chain(job).chain([node]).collect()
            }
            Via::Blaunch => words(&["blaunch", &spec.name]),
            Via::Qrsh => words(&["qrsh", "-inherit", &spec.name]),
        };
        // `PVM_DPATH` is about other computers.
        let usual = self.tools.settings.daemon.as_ref().filter(|_| via != Via::Local);
        match options.daemon.as_ref().or(usual) {
            Some(daemon) => command.push(daemon.into()),
            // Hosts of a batch system have the same files as this one.
            None if via == Via::Local || via.is_of_batch_system() => {
                command.extend(self.tools.again.iter().cloned());
            }
            None => command.push(DAEMON.into()),
        }
        command
    }
}

/// Starts a daemon on another host on behalf of the master; [`Event::DaemonStarted`] follows.
pub fn start_for_master(
    index: HostIndex,
    command: Vec<String>,
    timeout: Duration,
    limits: Limits,
    input: mpsc::Sender<Input>,
) {
    let command = command.into_iter().map(Into::into).collect();
    let attempt = Attempt { command, input: String::new(), attached: None, limits, timeout };
    tokio::spawn(async move {
        let line = attempt.run(&format!("{index}"), HostedLine::parse).await;
        let answer = line.map(|line| line.to_string()).map_err(|failure| failure.reason);
        let _ = input.send(Event::DaemonStarted { index, answer }.into()).await;
    });
}

fn failure(error: PvmError, reason: String) -> StartFailure {
    StartFailure { error, reason, is_passing: false }
}

/// What the daemon says of itself, if it speaks our protocol.
fn started(ready: ReadyLine, address: IpAddr) -> Result<StartedHost, StartFailure> {
    if ready.protocol != DAEMON_PROTOCOL {
        let reason = format!("its daemon speaks protocol {}, this one {DAEMON_PROTOCOL}", ready.protocol);
        return Err(failure(PvmError::BadVersion, reason));
    }
    Ok(StartedHost {
        arch: ready.arch,
        signature: ready.signature.0,
        capability: ready.capability,
        task_limit: ready.task_limit,
        address: SocketAddr::new(address, ready.port),
    })
}
