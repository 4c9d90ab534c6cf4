//! All who are compared, ready to be run: a virtual machine of each PVM, compiled programs, Open MPI.

use anyhow::{Context, Result, bail, ensure};
use pvm_tests::machine::{Machine, Plan};
use pvm_tests::{Installation, peers};
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
    /// The program for Open MPI, if that is installed.
    mpi: Option<PathBuf>,
    /// The program for the machine's limits.
    limits: PathBuf,
    /// The program for our Rust interface.
    rust: PathBuf,
    _folder: TempDir,
}

/// A running virtual machine, and the measured program linked with its library.
pub struct Side {
    machine: Machine,
    program: PathBuf,
}

/// How a task of PVM sends.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// `default`, `raw` or `inplace`.
    pub encoding: &'static str,
    /// `allow` or `direct`.
    pub route: &'static str,
}

impl Way {
    /// What programs do that ask for nothing.
    pub const DEFAULT: Self = Self { encoding: "default", route: "allow" };
    /// Without conversion.
    pub const RAW: Self = Self { encoding: "raw", route: "allow" };
    /// By a connection between the tasks.
    pub const DIRECT: Self = Self { encoding: "default", route: "direct" };
    /// The same, without conversion and without a copy in a buffer.
    pub const IN_PLACE: Self = Self { encoding: "inplace", route: "direct" };
}

/// What messages hold.
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
    /// Starts what is there: ours, of an installation, and all peers; `rust` is the program for our Rust interface.
    pub fn open(ours: &Installation, rust: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix("pvm-bench-")?;
        let original = Installation::debian()
            .map(|original| Side::start(&original, &folder.path().join("pvm-original")))
            .transpose()?;
        let mpi = folder.path().join("mpi");
        let mpi = if is_there("mpicc") && is_there("mpirun") {
            compile(Command::new("mpicc"), "mpi.c", &mpi)?;
            Some(mpi)
        } else {
            peers::unchecked(
                "Open MPI",
                "mpicc or mpirun is missing, of packages openmpi-bin, libopenmpi-dev",
            );
            None
        };
        let limits = folder.path().join("limits");
        compile(Command::new("cc"), "limits.c", &limits)?;
        let ours = Side::start(ours, &folder.path().join("pvm-ours"))?;
        Ok(Self { ours, original, mpi, limits, rust: rust.to_owned(), _folder: folder })
    }

    /// The program for our Rust interface, as a task of our machine.
    pub fn rust(&self, what: &str, way: Way, payload: Payload, xs: &[u64], seconds: f64) -> Command {
        task(&self.ours.machine, &self.rust, what, way, payload, xs, seconds)
    }

    /// The limits' program.
    pub fn limit(&self, what: &str, arguments: &[&str], xs: &[u64], seconds: f64) -> Command {
        let mut command = Command::new(&self.limits);
        command.arg(what).arg(seconds.to_string()).args(arguments).args(words(xs));
        command
    }

    /// Open MPI's program with so many processes, if it is installed.
    pub fn mpi(&self) -> Option<impl Fn(u64, &str, Payload, &[u64], f64) -> Command + use<'_>> {
        let program = self.mpi.as_ref()?;
        Some(move |processes: u64, what: &str, payload: Payload, xs: &[u64], seconds: f64| {
            let mut command = Command::new("mpirun");
            // Without effect for other users than root.
            command.args(["--allow-run-as-root", "-n", &processes.to_string()]);
            if processes > thread::available_parallelism().map_or(1, |cores| cores.get() as u64) {
                command.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
            }
            command.arg(program).arg(what).arg(seconds.to_string()).arg(payload.name()).args(words(xs));
            command
        })
    }
}

impl Side {
    fn start(installation: &Installation, program: &Path) -> Result<Self> {
        let mut command = Command::new("cc");
        command.arg("-I").arg(installation.include()).arg("-L").arg(installation.library());
        compile(command, "pvm.c", program)?;
        // P as it is without a setting; the machines of tests have another.
        let target = 4 * thread::available_parallelism()?.get();
        let plan = Plan::of(installation).variable("PVM_TASK_TARGET", &target.to_string());
        match plan.try_start() {
            Ok(machine) => Ok(Self { machine, program: program.to_owned() }),
            Err(failure) => {
                bail!("the daemon of {} does not start: {failure:?}", installation.pvmd().display())
            }
        }
    }

    /// The measured program, as a task of this machine.
    pub fn task(&self, what: &str, way: Way, payload: Payload, xs: &[u64], seconds: f64) -> Command {
        task(&self.machine, &self.program, what, way, payload, xs, seconds)
    }
}

fn task(
    machine: &Machine,
    program: &Path,
    what: &str,
    way: Way,
    payload: Payload,
    xs: &[u64],
    seconds: f64,
) -> Command {
    let mut command = machine.command(program);
    command.args([what, &seconds.to_string(), way.encoding, way.route, payload.name(), "-"]).args(words(xs));
    command
}

fn words(xs: &[u64]) -> impl Iterator<Item = String> {
    xs.iter().map(u64::to_string)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Compiles one of the measured programs.
fn compile(mut compiler: Command, source: &str, program: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    let links_pvm = source.file_stem().is_some_and(|stem| stem == "pvm");
    compiler.args(["-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program).arg(&source);
    compiler.args(if links_pvm { &["-lgpvm3", "-lpvm3"][..] } else { &[] });
    let output = compiler.output().context("a C compiler is needed")?;
    ensure!(output.status.success(), "{compiler:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
