//! All contenders, ready to be run: a virtual machine of each PVM, compiled programs, Open MPI.

use crate::hyperqueue::HyperQueue;
use crate::part::{Ask, Session};
use crate::remote::Remote;
use crate::uneven::Uneven;
use anyhow::{Context, Result, anyhow, bail, ensure};
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::{Installation, Network, peers};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use tempfile::TempDir;

/// Everything that is measured.
pub struct Lab {
    /// This project.
    pub ours: Side,
    /// The original PVM, if it is installed.
    pub original: Option<Side>,
    /// Hosts with a network between them, if they were asked for and can be had.
    pub remote: Option<Remote>,
    /// Hosts of unequal speed, if they were asked for and can be had.
    pub uneven: Option<Uneven>,
    /// HyperQueue without and with its journal, if it was asked for and is there.
    pub hyperqueue: Vec<HyperQueue>,
    /// Whether there is Open MPI.
    has_mpi: bool,
    /// The program for our Rust interface.
    rust: PathBuf,
    /// The program that submits jobs.
    pub jobs: PathBuf,
    /// The program whose task moves.
    pub moves: PathBuf,
    /// Where the compiled programs are.
    folder: TempDir,
}

/// A measurement that is no comparison side by side.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'t> {
    /// The installation that is measured.
    pub ours: &'t Installation,
    /// The measured programs.
    pub programs: Programs<'t>,
    /// How often everything is run.
    pub rounds: usize,
    /// Whether less is measured.
    pub quick: bool,
    /// The run of the benchmark.
    pub session: &'t Session,
}

/// Measured programs in Rust.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'p> {
    /// The program for our Rust interface.
    pub rust: &'p Path,
    /// How long batches take.
    pub makespan: &'p Path,
    /// Batches of tasks that sleep.
    pub pulling: &'p Path,
    /// A task manager that writes down what it does.
    pub manager: &'p Path,
    /// The program for operations on many hosts.
    pub scale: &'p Path,
    /// The program that submits jobs.
    pub jobs: &'p Path,
    /// A task that moves.
    pub moves: &'p Path,
    /// Teams on workstations.
    pub dasic: &'p Path,
    /// Parallel jobs over clusters.
    pub coallocation: &'p Path,
}

/// Requirements of some parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Several hosts with a network.
    pub hosts: bool,
    /// Hosts of unequal speed.
    pub uneven: bool,
    /// A peer that runs jobs.
    pub jobs: bool,
}

/// Open MPI's programs.
#[derive(Clone, Copy, Debug)]
pub struct Mpi<'l> {
    folder: &'l Path,
}

/// The folder of a machine that runs beside one that is measured.
const ALONE: &str = "alone";

/// A running virtual machine, and the measured programs linked with its library.
pub struct Side {
    machine: Machine,
    /// Where its programs are.
    folder: PathBuf,
    /// The host to spawn on, or - for any.
    place: &'static str,
}

/// The participants of a measurement: the end of the program's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// Two tasks.
    Pair,
    /// Any number.
    Many,
}

/// A job of a program.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The participants.
    pub cast: Cast,
    /// What.
    pub what: &'static str,
    /// The content of the messages.
    pub payload: Payload,
    /// How much longer than others it takes until it is known.
    pub patience: f64,
}

/// How a task of PVM sends.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// `default`, `raw` or `inplace`.
    pub encoding: &'static str,
    /// `allow`, `direct` or, for programs in C, `daemons`.
    pub route: &'static str,
}

impl Way {
    /// The default of programs.
    pub const DEFAULT: Self = Self { encoding: "default", route: "allow" };
    /// Without conversion.
    pub const RAW: Self = Self { encoding: "raw", route: "allow" };
    /// By the daemons alone.
    pub const BY_DAEMONS: Self = Self { encoding: "default", route: "daemons" };
    /// By a connection between the tasks.
    pub const DIRECT: Self = Self { encoding: "default", route: "direct" };
    /// The same, without conversion and without a copy in a buffer.
    pub const IN_PLACE: Self = Self { encoding: "inplace", route: "direct" };
}

/// The content of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Bytes.
    Bytes,
    /// Doubles, which the default encoding converts.
    Doubles,
}

impl Payload {
    /// Its name for the measured programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "byte",
            Self::Doubles => "double",
        }
    }
}

impl Lab {
    /// Starts what is there: ours, of an installation, and all peers.
    pub fn open(ours: &Installation, programs: Programs, needs: Needs) -> Result<Self> {
        let folder = TempDir::with_prefix("pvm-bench-")?;
        let debian = Installation::debian();
        let original =
            debian.as_ref().map(|debian| Side::start(debian, &folder.path().join("original"), None, ""));
        let original = original.transpose()?;
        let has_mpi = is_there("mpicc") && is_there("mpirun");
        if has_mpi {
            Cast::ALL
                .iter()
                .try_for_each(|cast| compile(Command::new("mpicc"), &cast.program("mpi"), folder.path()))?;
        } else {
            peers::unchecked(
                "Open MPI",
                "mpicc or mpirun is missing, of packages openmpi-bin, libopenmpi-dev",
            );
        }
        compile(Command::new("cc"), "limits", folder.path())?;
        let remote = if needs.hosts { Remote::open(ours, debian.as_ref(), folder.path())? } else { None };
        let uneven = if needs.uneven {
            Uneven::open(ours, debian.as_ref(), programs.makespan, folder.path())?
        } else {
            None
        };
        let hyperqueue = if needs.jobs { hyperqueue(folder.path())? } else { Vec::new() };
        let ours = Side::start(ours, &folder.path().join("ours"), None, "")?;
        let [rust, jobs, moves] = [programs.rust, programs.jobs, programs.moves].map(Path::to_owned);
        Ok(Self { ours, original, remote, uneven, hyperqueue, has_mpi, rust, jobs, moves, folder })
    }

    /// Starts ours alone.
    pub fn alone(ours: &Installation, programs: Programs, needs: Needs) -> Result<Self> {
        let folder = TempDir::with_prefix("pvm-bench-")?;
        let remote = if needs.hosts { Remote::open(ours, None, folder.path())? } else { None };
        let uneven =
            if needs.uneven { Uneven::open(ours, None, programs.makespan, folder.path())? } else { None };
        let ours = Side::start(ours, &folder.path().join("ours"), None, "")?;
        Ok(Self {
            ours,
            original: None,
            remote,
            uneven,
            hyperqueue: Vec::new(),
            has_mpi: false,
            rust: programs.rust.to_owned(),
            jobs: programs.jobs.to_owned(),
            moves: programs.moves.to_owned(),
            folder,
        })
    }

    /// The program for our Rust interface, as a task of our machine.
    pub fn rust(&self, way: Way, job: Job, ask: Ask) -> Command {
        self.ours.run(&self.rust, way, job, ask)
    }

    /// The limits' program.
    pub fn limit(&self, what: &str, arguments: &[&OsStr], ask: Ask) -> Command {
        let mut command = Command::new(self.folder.path().join("limits"));
        command.arg(what).arg(ask.seconds.to_string()).args(arguments).args(words(ask.xs));
        command
    }

    /// Open MPI, if it is there.
    pub fn mpi(&self) -> Option<Mpi<'_>> {
        self.has_mpi.then_some(Mpi { folder: self.folder.path() })
    }
}

impl Mpi<'_> {
    /// Its program, with `count` processes.
    pub fn run(&self, processes: u64, job: Job, ask: Ask) -> Command {
        let mut command = Command::new("mpirun");
        // Without effect for other users than root.
        command.args(["--allow-run-as-root", "-n", &processes.to_string()]);
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        if processes > cores || job.what == "spawn" {
            command.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
        }
        self.add_program(&mut command, job, ask);
        command
    }

    /// Adds its program and what it is asked for to a command that runs it in some way.
    pub fn add_program(&self, command: &mut Command, job: Job, ask: Ask) {
        command.arg(self.folder.join(job.cast.program("mpi")));
        command.args([job.what, &job.seconds(ask), job.payload.name()]).args(words(ask.xs));
    }
}

impl Job {
    /// For how long it is done, as a command's argument.
    pub fn seconds(self, ask: Ask) -> String {
        (ask.seconds * self.patience).to_string()
    }
}

impl Cast {
    const ALL: [Self; 2] = [Self::Pair, Self::Many];

    fn program(self, system: &str) -> String {
        format!("{system}_{}", if self == Self::Pair { "pair" } else { "many" })
    }
}

impl Side {
    /// Compiles the programs and starts the daemon, on the hosts of a network if there is one, with these options for all.
    pub(crate) fn start(
        installation: &Installation,
        folder: &Path,
        network: Option<&Network>,
        options: &str,
    ) -> Result<Self> {
        fs::create_dir_all(folder.join(ALONE))?;
        for cast in Cast::ALL {
            compile_with(installation, &cast.program("pvm"), folder)?;
        }
        // P as it is without a setting, since the machines of tests have another; and room for the largest batch.
        let target = 4 * thread::available_parallelism()?.get();
        let mut plan = Plan::of(installation)
            .variable("PVM_TASK_TARGET", target.to_string())
            .variable("PVM_TASK_LIMIT", "10000");
        if let Some(network) = network {
            let hosts: Vec<String> = (1..network.count()).map(|host| network.line(host, "") + "\n").collect();
            let hosts = format!("* {options}\n{}", hosts.concat());
            plan = plan.network(network).name(&network.address(0)).hostfile(&hosts);
        }
        let machine = match plan.try_start() {
            Ok(machine) => machine,
            Err(failure) => {
                bail!("the daemon of {} does not start: {failure:?}", installation.pvmd().display())
            }
        };
        if let Some(network) = network {
            machine.console_with_hosts(network.count()).quit();
        }
        Ok(Self { machine, folder: folder.to_owned(), place: network.map_or("-", |network| network.name(1)) })
    }

    /// The measured program, as a task of this machine.
    pub fn task(&self, way: Way, job: Job, ask: Ask) -> Command {
        self.run(&self.program(job.cast), way, job, ask)
    }

    /// The measured program, whose tasks may be on any host.
    pub fn anywhere(&self, way: Way, job: Job, ask: Ask) -> Command {
        self.run_at(&self.program(job.cast), way, job, ask, "-")
    }

    /// The measured program. Run with `nothing` as its argument it is no task, and ends at once.
    pub fn program(&self, cast: Cast) -> PathBuf {
        self.folder.join(cast.program("pvm"))
    }

    /// The measured program, whose tasks are on all hosts in turn.
    pub fn everywhere(&self, job: Job, ask: Ask) -> Command {
        self.run_at(&self.program(job.cast), Way::DEFAULT, job, ask, "*")
    }

    /// The console.
    pub fn console(&self) -> PathBuf {
        self.machine.installation().pvm()
    }

    /// Lets a command start a machine of its own, beside this one.
    pub fn add_own_machine(&self, command: &mut Command) {
        let folder = self.folder.join(ALONE);
        self.add_environment(command);
        command.envs(["PVM_TMP", "PVM_STATE", "HOME"].map(|name| (name, &folder)));
    }

    /// Gives a command the environment of this machine.
    pub fn add_environment(&self, command: &mut Command) {
        let own = self.command(&self.folder);
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    }

    /// A command in the environment of this machine.
    pub fn command(&self, program: &Path) -> Command {
        self.machine.command(program)
    }

    fn run(&self, program: &Path, way: Way, job: Job, ask: Ask) -> Command {
        self.run_at(program, way, job, ask, self.place)
    }

    fn run_at(&self, program: &Path, way: Way, job: Job, ask: Ask, place: &str) -> Command {
        let mut command = self.command(program);
        let seconds = job.seconds(ask);
        command
            .args([job.what, &seconds, way.encoding, way.route, job.payload.name(), place])
            .args(words(ask.xs));
        command
    }
}

/// Its server without a journal, and one with it; without a worker's work, an idle server takes nothing from the others.
fn hyperqueue(folder: &Path) -> Result<Vec<HyperQueue>> {
    let Some(version) = HyperQueue::version() else { return Ok(Vec::new()) };
    eprintln!("HyperQueue: {version}");
    let start = |(name, has_journal)| HyperQueue::start(&folder.join(name), has_journal);
    [("hyperqueue", false), ("hyperqueue-journal", true)].into_iter().map(start).collect()
}

pub(crate) fn words(xs: &[u64]) -> impl Iterator<Item = String> {
    xs.iter().map(u64::to_string)
}

/// Starts a daemon.
pub(crate) fn start(plan: Plan) -> Result<Machine> {
    plan.try_start().map_err(|failure| anyhow!("the daemon does not start: {failure:?}"))
}

/// Starts a daemon, and waits until its machine has this number of hosts.
pub(crate) fn start_hosts(plan: Plan, hosts: usize) -> Result<Machine> {
    let machine = start(plan)?;
    machine.console_with_hosts(hosts).quit();
    Ok(machine)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Compiles a measured program of PVM into the folder.
pub(crate) fn compile_with(installation: &Installation, name: &str, folder: &Path) -> Result<()> {
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(installation.include()).arg("-L").arg(installation.library());
    compile(compiler, name, folder)
}

/// Compiles the measured program of this name into the folder.
fn compile(mut compiler: Command, name: &str, folder: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.c"));
    compiler
        .args(["-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(folder.join(name))
        .arg(&source);
    compiler.args(if name.starts_with("pvm") { &["-lgpvm3", "-lpvm3"][..] } else { &[] });
    let output = compiler.output().context("a C compiler is needed")?;
    ensure!(output.status.success(), "{compiler:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
