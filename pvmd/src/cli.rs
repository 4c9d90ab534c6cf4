//! The `pvmd` command.

use crate::allocation::{self, HostsFrom};
use crate::io::address_file::{self, AddressError, AddressFile};
use crate::io::auth::AuthFiles;
use crate::io::calling::Times;
use crate::io::clock::Clock;
use crate::io::dispatcher::Turns;
use crate::io::driver::{self, Driver, INPUT_QUEUE, Input};
use crate::io::family::Mark;
use crate::io::introduction::{Introduced, NewDaemon};
use crate::io::job_store::{self, JobStore};
use crate::io::link::{Links, bind_address};
use crate::io::loan_pool::LoanPool;
use crate::io::log::Log;
use crate::io::owner_hold::Holder;
use crate::io::page::TurnPage;
use crate::io::polling::Polling;
use crate::io::process::{self, Processes, Surroundings};
use crate::io::settings::{self, Place, Settings};
use crate::io::starter::{DAEMON, Starter, Tools};
use crate::io::task_socket::Numbers;
use crate::io::tls::{Authority, Credentials};
use crate::io::{capability, guardian, load, own_host, owner_signs, queues_file, scope, slave, task_socket};
use anyhow::Context;
use clap::Parser;
use pvm_files::FileError;
use pvm_sched::queues::Configuration;
use pvm_wire::HostIndex;
use pvm_wire::codes::{self, DAEMON_PROTOCOL};
use pvm_wire::encoding::DataSignature;
use pvm_wire::slave::{Fingerprint, ReadyLine, SlaveConfig};
use pvm_wire::turn_rules::Means;
use pvmd_core::Saved;
use pvmd_core::hostfile::{HostOptions, Hostfile, Network, SLOTS};
use pvmd_core::{Config, Core, Hosting};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tracing::{info, warn};

/// PVM's name for this kind of machine.
pub const ARCH: &str = if cfg!(target_pointer_width = "64") { "LINUX64" } else { "LINUX" };

/// Exit status for a command line or a hostfile with mistakes.
const MISTAKE: u8 = 2;
/// Exit status if a daemon of this virtual machine runs already.
const RUNNING: u8 = 3;

const EXAMPLES: &str = "Examples:
  pvmd                          start a virtual machine with this host only, in the foreground
  pvmd hosts                    with the hosts of the hostfile `hosts`
  pvmd -nnode0 -d0x4 hosts      with the name node0 and a debug mask
  pvmd --hosts-from slurm       in a Slurm job, with all of its nodes
  PVM_VMID=test pvmd &          start another, independent virtual machine
The first line on standard output is the address of the daemon's socket. `pvm` starts a daemon if none runs.";

/// Start the daemon of a parallel virtual machine on this host
#[derive(Debug, Parser)]
#[command(name = "pvmd", version, after_help = EXAMPLES)]
struct Arguments {
    /// Debug mask: a decimal, octal (0) or hexadecimal (0x) number
    #[arg(short = 'd', value_name = "MASK", value_parser = mask)]
    debug: Option<u32>,
    /// Name of this host in the virtual machine [default: the output of hostname]
    #[arg(short = 'n', value_name = "NAME")]
    name: Option<String>,
    /// Starts a daemon for a master, which is at the other end of standard input.
    #[arg(long, hide = true, conflicts_with_all = ["hostfile", "slave_daemon"])]
    slave: bool,
    /// Is that daemon.
    #[arg(long, hide = true, conflicts_with = "hostfile")]
    slave_daemon: bool,
    /// Starts a daemon for the master of the machine with this authority, which will come for it.
    #[arg(long, hide = true, value_name = "FINGERPRINT", conflicts_with_all = ["hostfile", "slave", "slave_daemon"])]
    hosted: Option<Fingerprint>,
    /// Is that daemon.
    #[arg(long, hide = true, value_name = "FINGERPRINT", conflicts_with_all = ["hostfile", "slave", "slave_daemon"])]
    hosted_daemon: Option<Fingerprint>,
    /// Waits for its daemon's end, and lets go the tasks that it has kept from running.
    #[arg(long, hide = true, value_name = "MEANS")]
    guardian: Option<String>,
    /// Stays attached to what has started it, and ends with it.
    #[arg(long, hide = true, conflicts_with_all = ["hostfile", "hosted", "hosted_daemon"])]
    attached: bool,
    /// Batch system whose allocation the hosts are taken from: auto, none, slurm, lsf, sge or pbs
    /// [default: $PVM_HOSTS_FROM, else auto: that of the job this runs in, unless there is a hostfile]
    #[arg(long, value_name = "SYSTEM")]
    hosts_from: Option<HostsFrom>,
    /// File with the hosts to start [default: $PVMHOSTFILE, else those of the allocation, else this host only]
    hostfile: Option<PathBuf>,
}

/// A debug mask, as `-d` takes it.
///
/// # Errors
///
/// A text for people, if it is none.
pub fn mask(text: &str) -> Result<u32, String> {
    settings::debug_mask(text)
        .ok_or_else(|| "expected a number, octal with 0, hexadecimal with 0x".to_owned())
}

/// The whole command line's description.
pub fn command() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

/// The program `pvmd`.
pub fn main() -> ExitCode {
    run(std::env::args_os().skip(1))
}

/// The daemon with these arguments, in an executable of whatever name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    serve(args, Myself::new())
}

/// How this system's programs are run from here.
struct Myself {
    /// This daemon.
    again: Vec<OsString>,
    /// The task manager.
    manager: Vec<OsString>,
}

impl Myself {
    /// An executable named `pvmd` is run again by its name; any other is `pvm`, which needs a word to be another program.
    fn new() -> Self {
        let Ok(own) = std::env::current_exe() else { return Self { again: Vec::new(), manager: Vec::new() } };
        let word = |word: &str| vec![own.clone().into_os_string(), word.into()];
        if own.file_name() != Some("pvmd".as_ref()) {
            return Self { again: word("daemon"), manager: word("task-manager") };
        }
        let manager = own.with_file_name("pvm-task-manager");
        let manager = settings::is_executable(&manager).then(|| vec![manager.into_os_string()]);
        Self { again: vec![own.into_os_string()], manager: manager.unwrap_or_default() }
    }
}

fn serve(args: impl IntoIterator<Item = OsString>, myself: Myself) -> ExitCode {
    process::close_inherited();
    let args = [OsString::from("pvmd")].into_iter().chain(args);
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { MISTAKE } else { 0 });
        }
    };
    if let Some(means) = &arguments.guardian {
        return guardian::run(means);
    }
    match attempt(&arguments, myself) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pvmd: {}", pvm_wire::plain(format_args!("{error:#}")));
            ExitCode::from(status_for(&error))
        }
    }
}

fn status_for(error: &anyhow::Error) -> u8 {
    if error.is::<Mistake>() || error.is::<settings::SettingError>() {
        MISTAKE
    } else if matches!(error.downcast_ref(), Some(AddressError::Running { .. })) {
        RUNNING
    } else {
        1
    }
}

/// What a person has to mend.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Mistake(String);

fn attempt(arguments: &Arguments, mut myself: Myself) -> anyhow::Result<()> {
    let mut settings = Settings::from_env()?;
    // A task may have started this daemon, which is not of its family.
    process::mark_by_limit(None);
    if !settings.is_dumpable {
        process::hide_memory();
    }
    if let Some(manager) = &settings.manager {
        myself.manager = vec![manager.clone()];
    }
    if arguments.slave {
        return slave::launch(&myself.again, arguments.attached);
    }
    if let Some(authority) = arguments.hosted {
        return slave::launch_hosted(&myself.again, authority);
    }
    if arguments.slave_daemon || arguments.hosted_daemon.is_some() {
        // Out of the starter's session: its end is not ours. A group leader cannot, and need not.
        let _ = rustix::process::setsid();
    }
    if arguments.slave_daemon && arguments.attached {
        slave::end_with_launcher()?;
    }
    let role = if let Some(authority) = arguments.hosted_daemon {
        Role::Hosted(authority)
    } else if arguments.slave_daemon {
        Role::Slave(Box::new(slave::configuration()?))
    } else {
        settings.debug_mask = arguments.debug.unwrap_or(settings.debug_mask);
        Role::Master(Box::new(master_plan(arguments, &mut settings)?))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(32)
        .build()
        .context("cannot start")?;
    let result = runtime.block_on(live(role, settings, myself));
    // A name that is still being looked up is no reason to wait.
    runtime.shutdown_background();
    result
}

enum Role {
    Master(Box<Plan>),
    Slave(Box<SlaveConfig>),
    /// Not known yet: the master of the machine with this authority brings it a place.
    Hosted(Fingerprint),
}

/// Where it is reported that the daemon is ready.
enum ReportTo {
    /// Whoever started it.
    Stdout,
    /// The master that has brought it its place.
    Master(Introduced),
}

impl ReportTo {
    /// Reports where the daemon can be reached.
    async fn report(self, ready: &ReadyLine) -> anyhow::Result<()> {
        match self {
            Self::Stdout => slave::print_line(&ready.to_string()),
            Self::Master(introduced) => Ok(introduced.answer(ready).await?),
        }
    }
}

/// What a master is told by its command line.
struct Plan {
    name: String,
    hostfile: Hostfile,
    own: HostOptions,
}

fn master_plan(arguments: &Arguments, settings: &mut Settings) -> anyhow::Result<Plan> {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let path = arguments.hostfile.as_ref().or(settings.hostfile.as_ref());
    let mut hostfile = path.map(|path| read_hostfile(path)).transpose()?.unwrap_or_default();
    let hosts_from = arguments.hosts_from.unwrap_or(settings.hosts_from);
    let (mut own_name, mut is_allocated) = (None, false);
    if allocation::is_wanted(hosts_from, path)
        && let Some(mut allocation) =
            allocation::find(hosts_from).map_err(|error| Mistake(error.to_string()))?
    {
        (own_name, is_allocated) = (allocation.own_name.take(), true);
        hostfile = allocation.hostfile(hostfile).map_err(Mistake)?;
    }
    let name = arguments.name.clone().or(own_name).unwrap_or_else(|| node.clone());
    own_host::recognise(&mut hostfile, &name, &node).map_err(|reason| {
        Mistake(path.map(|path| format!("{}: ", path.display())).unwrap_or_default() + &reason)
    })?;
    let own = hostfile.hosts.iter().find(|spec| spec.name == name);
    let mut own = own.map_or_else(|| hostfile.defaults.clone(), |spec| spec.options.clone());
    if is_allocated {
        // The host from which an allocation is used may be outside of it: then it is not there to compute.
        own.slots = own.slots.or(Some(*SLOTS.start()));
    }
    if let Some(path) = &own.exec_path {
        settings.search_path.clone_from(path);
    }
    settings.directory = own.working_directory.clone().or(settings.directory.take());
    settings.debugger = own.debugger.clone().or(settings.debugger.take());
    settings.private_network = own.network == Some(Network::Private);
    settings.owner = own.ownership();
    settings.set_slice(own.slice);
    settings.coscheduling = own.coscheduling.unwrap_or(settings.coscheduling);
    settings.set_slots(own.slots);
    settings.policy = own.policy.unwrap_or(settings.policy);
    settings.succession = own.succession.unwrap_or(settings.succession);
    Ok(Plan { name, hostfile, own })
}

/// The hostfile; a mistake in it starts nothing.
fn read_hostfile(path: &Path) -> anyhow::Result<Hostfile> {
    use std::io::Read;
    let shown = path.display();
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(pvm_wire::limits::HOSTFILE_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Mistake(format!("the hostfile {shown}: {}", pvm_wire::plain(error))))?;
    Hostfile::parse(&bytes).map_err(|mistakes| {
        let lines: Vec<String> =
            mistakes.iter().map(|mistake| format!("{shown}:{}: {}", mistake.line, mistake.reason)).collect();
        Mistake(lines.join("\n")).into()
    })
}

/// The daemon's life.
async fn live(role: Role, mut settings: Settings, myself: Myself) -> anyhow::Result<()> {
    // Before anything is touched that a running daemon uses.
    check_that_none_runs(&settings.place)?;
    let (role, report_to) = introduced(role, settings.start_timeout).await?;
    if let Role::Slave(config) = &role {
        slave::override_settings(&mut settings, config);
    }
    let limits = process::Limits::change();
    let (listener, socket) = listen(&settings.place.tmp)?;
    let address_file = AddressFile::publish(&settings.place, &socket)
        .map_err(|error| with_remedy(&settings.place, error))?;
    let (sender, receiver) = mpsc::channel(INPUT_QUEUE);
    let clock = Clock::start().context("no timer")?;
    let origin = Instant::now();

    let mut identity = Identity::of(role, &settings).await?;
    // The core's time began at `origin`, so its time of day must have, too: hosts compare theirs (`pvm_hostsync`).
    identity.config.epoch = time_of(origin);
    let daemon = identity.index.daemon().bits();
    let log = begin_log(&settings, daemon)?;
    if address_file.is_exposed() {
        let folder = settings.place.tmp.display();
        warn!(%folder, "other users can remove this daemon's files: set PVM_TMP to a folder of your own");
    }
    let _login = scope::enter(settings.scope).await;
    let links = Links::open(
        identity.index,
        identity.bind,
        &identity.credentials,
        Times { silence: settings.host_timeout, patience: settings.connect_timeout },
        clock.clone(),
        sender.clone(),
    )?;
    let port = links.port()?;
    let surroundings = surroundings(&settings, &myself, &socket, limits);
    let processes = Processes::new(surroundings, sender.clone()).context("cannot start a thread")?;
    let is_master = identity.authority.is_some();
    let turns = Turns::new(settings.coscheduling.means, &myself.again);
    let tools = Tools { own: identity.index, settings: settings.clone(), again: myself.again, limits };
    let starter = identity.authority.map(|authority| Starter::new(authority, tools.clone(), sender.clone()));
    let master = identity.config.master;
    let polling = Polling::new(identity.config.wake_time, identity.config.cores);
    let jobs = open_jobs(&mut identity.config, &settings, is_master, sender.clone());
    let core = Core::new(identity.config, Duration::ZERO);
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), socket = %socket.display(), "ready");
    let numbers = Numbers::default();
    tokio::spawn(task_socket::accept(listener, numbers.clone(), sender.clone()));
    tokio::spawn(load::watch(clock.clone(), sender.clone()));
    tokio::spawn(owner_signs::watch(settings.owner.rule.clone(), Mark::own(), sender.clone()));
    if is_master {
        slave::print_line(&socket.display().to_string())?;
    } else {
        report_to.report(&ready_line(port, identity.capability, settings.task_limit)).await?;
    }
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().ok().filter(|_| is_master);
    leave_terminal()?;
    let driver = Driver {
        stderr: stderr.map(Into::into),
        core,
        origin,
        clock,
        input: (sender, receiver),
        auth: AuthFiles::new(&settings.place.tmp),
        numbers,
        processes,
        turns,
        holder: Holder::new(Mark::own()),
        page: TurnPage::default(),
        loan_pool: LoanPool::new(settings.shared_max),
        links,
        starter,
        jobs,
        tools: Box::new(tools),
        master,
        log,
        address_file,
        polling,
        orphan_deadline: (!is_master).then(|| Instant::now() + settings.start_timeout),
    };
    // As a task: each time that the outermost future is woken, tokio asks the system for events first.
    tokio::spawn(driver.run()).await.context("the daemon cannot continue")??;
    Ok(())
}

fn check_that_none_runs(place: &Place) -> anyhow::Result<()> {
    let running = address_file::running(place).map_err(|error| with_remedy(place, error))?;
    let error = running.map(|socket| AddressError::Running { socket, file: place.address_file() });
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// Jobs on disk, which the core is told at its start if this is the master. A slave has none before it is.
fn open_jobs(
    config: &mut Config,
    settings: &Settings,
    is_master: bool,
    sender: mpsc::Sender<Input>,
) -> JobStore {
    let path = settings.state.join(job_store::file_name(&config.name, settings.place.vmid.as_deref()));
    if !is_master {
        config.stamp = JobStore::peek(&path).map(|(stamp, _)| stamp);
        return JobStore::new(path, sender);
    }
    match JobStore::read(path, sender.clone()) {
        Ok((store, saved)) => {
            config.saved = saved;
            store
        }
        Err(error) => {
            warn!(%error, "the jobs on disk cannot be used: none are accepted");
            JobStore::unusable(&error, sender)
        }
    }
}

/// What a slave says of itself when it is ready.
fn ready_line(port: u16, capability: f64, task_limit: u32) -> ReadyLine {
    let (arch, signature) = (ARCH.to_owned(), DataSignature::NATIVE);
    ReadyLine { protocol: DAEMON_PROTOCOL, arch, port, signature, capability, task_limit }
}

/// A daemon without a place waits for one; whoever started it need not.
async fn introduced(role: Role, limit: Duration) -> anyhow::Result<(Role, ReportTo)> {
    let Role::Hosted(authority) = role else { return Ok((role, ReportTo::Stdout)) };
    let new_daemon = NewDaemon::open(authority)?;
    slave::print_line(&new_daemon.line()?.to_string())?;
    leave_terminal()?;
    let (config, introduced) = new_daemon.wait(limit).await?;
    Ok((Role::Slave(Box::new(config)), ReportTo::Master(introduced)))
}

/// Who this daemon is in the virtual machine.
struct Identity {
    index: HostIndex,
    bind: IpAddr,
    credentials: Credentials,
    /// The master's.
    authority: Option<Authority>,
    capability: f64,
    config: Config,
}

impl Identity {
    async fn of(role: Role, settings: &Settings) -> anyhow::Result<Self> {
        match role {
            Role::Master(plan) => Self::master(*plan, settings).await,
            Role::Slave(config) => Ok(Self::slave(*config, settings)),
            Role::Hosted(_) => anyhow::bail!("this daemon has no place in a virtual machine yet"),
        }
    }

    async fn master(plan: Plan, settings: &Settings) -> anyhow::Result<Self> {
        let authority = Authority::mint()?;
        let credentials = authority.issue(HostIndex::MASTER)?;
        let name = plan.own.address.clone().unwrap_or_else(|| plan.name.clone());
        let address = driver::resolve(name).await.ok();
        // Where the hostfile gives speeds, nothing is compared with this host's.
        let given = plan.own.speed.or(plan.hostfile.gives_speeds().then_some(1000));
        let capability = given.map_or_else(capability::measure, f64::from);
        let clusters = plan.hostfile.clusters().into_keys().collect();
        let queues = queues_file::read(settings.queues.as_deref(), &clusters).map_err(Mistake)?;
        let config = Config {
            name: plan.name,
            speed: plan.own.speed,
            capability,
            address,
            hostfile: plan.hostfile,
            index: HostIndex::MASTER,
            hosting: Hosting {
                rsh: settings.rsh.clone(),
                width: settings.starters,
                is_shared: settings.start_tree,
                fingerprint: authority.fingerprint().to_string(),
                daemon: settings.daemon.clone().unwrap_or_else(|| DAEMON.to_owned()),
                vmid: settings.place.vmid.clone(),
                timeout: settings.start_timeout,
            },
            succession: settings.succession(authority.export()?),
            queues,
            cluster: plan.own.cluster,
            ..common_config(settings)
        };
        let bind = Ipv4Addr::UNSPECIFIED.into();
        Ok(Self {
            index: HostIndex::MASTER,
            bind,
            credentials,
            authority: Some(authority),
            capability,
            config,
        })
    }

    fn slave(slave: SlaveConfig, settings: &Settings) -> Self {
        let capability = slave.speed.map_or_else(capability::measure, f64::from);
        let config = Config {
            name: slave.name,
            speed: slave.speed,
            capability,
            address: Some(slave.address),
            index: slave.index,
            master: slave.master,
            ..common_config(settings)
        };
        let credentials =
            Credentials { authority: slave.authority, certificate: slave.certificate, key: slave.key };
        let bind = bind_address(slave.address);
        Self { index: slave.index, bind, credentials, authority: None, capability, config }
    }
}

/// What time it was then. While both clocks are read the processor may be somebody else's, so the reading that took least counts.
fn time_of(origin: Instant) -> Duration {
    let read = |_| {
        let before = origin.elapsed();
        let time = since_1970().saturating_sub(before);
        (origin.elapsed().saturating_sub(before), time)
    };
    (0..8).map(read).min().unwrap_or_default().1
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What master and slaves have in common; the rest is to be filled in.
fn common_config(settings: &Settings) -> Config {
    let epoch = since_1970();
    Config {
        index: HostIndex::MASTER,
        master: HostIndex::MASTER,
        name: String::new(),
        arch: ARCH.to_owned(),
        speed: None,
        capability: 1000.0,
        cores: settings::cores(),
        task_target: settings.task_target,
        task_memory: settings.task_memory,
        slots: settings.task_slots,
        policy: settings.policy,
        owner: settings.owner.clone(),
        private_network: settings.private_network,
        task_limit: settings.task_limit,
        address: None,
        hostfile: Hostfile::default(),
        link_idle: settings.link_idle,
        seed: epoch.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(32),
        epoch,
        debug_mask: settings.debug_mask,
        slice: (settings.coscheduling.means != Means::Implicit).then_some(settings.slice),
        has_rows: settings.coscheduling.has_rows,
        wake_time: crate::io::wake_time::measure(),
        hosting: Hosting::default(),
        succession: settings.succession(Vec::new()),
        watched_max: settings.watched_max as usize,
        host_timeout: settings.host_timeout,
        limits: settings.limits.clone(),
        cluster: None,
        queues: Configuration::default(),
        saved: Saved::default(),
        stamp: None,
    }
}

/// Tasks that may have knocked and not been let in yet; the system's own bound (`net.core.somaxconn`) is 4096.
const BACKLOG: i32 = 4096;

/// A socket under a name that nobody has: PVM's `pvmtmp<pid>.<n>`.
fn listen(tmp: &Path) -> anyhow::Result<(UnixListener, PathBuf)> {
    for count in 0..10_000 {
        let path = tmp.join(format!("pvmtmp{:06}.{count}", std::process::id()));
        // Nobody else may connect, not even for the moment until the credentials are looked at.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let bound = UnixListener::bind(&path);
        rustix::process::umask(mask);
        match bound {
            Ok(listener) => {
                // Tasks that are spawned together enrol together.
                rustix::net::listen(&listener, BACKLOG).context("cannot wait for tasks")?;
                return Ok((listener, path));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                let path = path.display();
                return Err(error).with_context(|| format!("cannot make the socket {path}{}", remedy(tmp)));
            }
        }
    }
    anyhow::bail!("{}: too many sockets", tmp.display())
}

/// What is wrong with the address file, and what can be done.
fn with_remedy(place: &Place, error: AddressError) -> anyhow::Error {
    match error {
        AddressError::File(FileError::System { path, reason }) => {
            let text = format!("cannot use {}{}", path.display(), remedy(&place.tmp));
            anyhow::Error::from(reason).context(text)
        }
        other => other.into(),
    }
}

/// What can be done about a folder in which no file can be made.
fn remedy(tmp: &Path) -> String {
    let variable = format!("PVM_TMP={}", tmp.display());
    let Ok(folder) = std::fs::metadata(tmp) else {
        return format!(" ({variable}: make this folder, or name another)");
    };
    let flags = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if !folder.is_dir() {
        format!(" ({variable} is not a folder: name another)")
    } else if rustix::fs::access(tmp, flags).is_err() {
        format!(" ({variable}: this user must be able to write there)")
    } else {
        format!(" ({variable}: make room there, or name another folder)")
    }
}

/// A log that cannot be written is a pity, no reason not to serve.
fn begin_log(settings: &Settings, daemon: u32) -> anyhow::Result<Log> {
    let path = settings.place.log_file();
    let log = Log::begin(&path, daemon, settings.log_max).or_else(|error| {
        eprintln!("pvmd: {}: {}: there is no log", path.display(), pvm_wire::plain(&error));
        Log::nowhere(daemon)
    })?;
    log.subscribe(settings.log_filter.as_deref()).map_err(Mistake)?;
    Ok(log)
}

fn surroundings(
    settings: &Settings,
    myself: &Myself,
    socket: &Path,
    limits: process::Limits,
) -> Surroundings {
    let lookup =
        |name: &str| std::env::var(name).ok().or_else(|| (name == "PVM_ARCH").then(|| ARCH.to_owned()));
    let expand = |text: &String| settings::expand(text, lookup);
    Surroundings {
        search: process::search_folders(&settings.search_path, lookup),
        directory: settings.directory.as_ref().map(expand).map(PathBuf::from),
        debugger: settings.debugger.as_ref().map(expand),
        manager: myself.manager.clone(),
        env: vec![
            ("PVMSOCK".to_owned(), socket.display().to_string()),
            (codes::ENROL_VARIABLE.to_owned(), codes::enrol_value(&socket.display().to_string())),
            ("PVM_ARCH".to_owned(), ARCH.to_owned()),
        ],
        limits,
        mark: Mark::own(),
        memory_limits: settings.memory_limits,
        guardian: myself.again.clone(),
    }
}

/// Standard input, output and error lead nowhere from now on: whoever started us need not stay.
fn leave_terminal() -> anyhow::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").context("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null).inspect_err(|error| warn!(%error, "standard error stays open"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_pvms() {
        let arguments = Arguments::try_parse_from(["pvmd", "-d0x10", "-nmaster", "hosts"]).unwrap();
        assert_eq!(arguments.debug, Some(16));
        assert_eq!(arguments.name.as_deref(), Some("master"));
        assert_eq!(arguments.hostfile.as_deref(), Some(Path::new("hosts")));
        for wrong in [&["pvmd", "a", "b"][..], &["pvmd", "-dx"], &["pvmd", "--slave", "hosts"]] {
            assert!(Arguments::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }
}
