//! The description of a virtual machine for a test, and its start.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::install::Installation;
use crate::machine::Machine;
use crate::network::{Namespace, Network};
use crate::process::Process;
use crate::program::{Ended, Program};
use crate::wait;

/// Where the loader looks for shared libraries first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// P, the tasks that a host asks for by itself: so few that a batch is divided by capability, whichever host is quick to
/// ask, and whatever else runs on this computer.
pub(crate) const TASK_TARGET: &str = "1";

/// The description of a machine.
pub struct Plan<'a> {
    installation: Installation,
    library: Option<Installation>,
    hostfile: Option<String>,
    name: Option<String>,
    paths: Vec<PathBuf>,
    variables: Vec<Variable>,
    network: Option<&'a Network>,
}

/// A variable of the environment, and its value if it is set.
type Variable = (String, Option<OsString>);

/// The environment in which commands run: its own type, since it exists before the machine does.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    variables: Vec<Variable>,
    namespace: Option<Namespace>,
    home: PathBuf,
    pub(crate) tmp: PathBuf,
    /// Folders that only this machine's processes have in their environment.
    pub(crate) marks: Vec<PathBuf>,
}

/// A daemon that did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// How it ended.
    pub ended: Ended,
    /// Files it left in `PVM_TMP`.
    pub files: Vec<String>,
    /// Processes it left.
    pub processes: Vec<Process>,
}

/// A preparation of `PVM_TMP` before the daemon starts.
type Preparation<'p> = &'p dyn Fn(&Path);

impl<'a> Plan<'a> {
    /// A machine whose daemon and console are of this installation, and its tasks' library too.
    pub fn of(installation: &Installation) -> Self {
        Self {
            installation: installation.clone(),
            library: None,
            hostfile: None,
            name: None,
            paths: vec!["/usr/bin".into()],
            variables: Vec::new(),
            network: None,
        }
    }

    /// A machine of one host, `localhost`, for the tests of a crate: as little in its environment as a user has, so that each program
    /// finds its own library, and the host takes as many tasks as by default.
    pub fn plain(installation: &Installation) -> Self {
        let plan = Self::of(installation).name("localhost");
        let plan = [LIBRARY_PATH, "PVM_EXPORT", "PVM_TASK_TARGET"].into_iter().fold(plan, Self::without);
        // The original's library looks there for the daemon.
        if installation.is_ours { plan } else { plan.variable("PVM_ROOT", "/usr/lib/pvm3") }
    }

    /// Tasks get the shared library of another installation.
    #[must_use]
    pub fn library(mut self, installation: &Installation) -> Self {
        self.library = Some(installation.clone());
        self
    }

    /// Text of the hostfile. `@PVMD@` stands for the daemon's path, `@PATH@` for the tasks' search path.
    #[must_use]
    pub fn hostfile(mut self, text: &str) -> Self {
        self.hostfile = Some(text.to_owned());
        self
    }

    /// Hosts `h1` (the master) to `h<count>`, all on this machine and of equal capability.
    #[must_use]
    pub fn local_hosts(self, count: usize) -> Self {
        let lines: Vec<String> = (2..=count).map(|index| format!("h{index}\n")).collect();
        self.name("h1").hostfile(&format!("* via=local sp=1000 ep=@PATH@\nh1\n{}", lines.concat()))
    }

    /// Name of the master host.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// One more folder to look for programs to spawn, before `/usr/bin`.
    #[must_use]
    pub fn path(mut self, folder: &Path) -> Self {
        self.paths.insert(0, folder.to_owned());
        self
    }

    /// A variable in the environment of daemon, console and programs.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// No such variable in that environment.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.variables.push((name.to_owned(), None));
        self
    }

    /// The master is the first host of this network, and reaches the others by ssh.
    #[must_use]
    pub fn network(mut self, network: &'a Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Starts the daemon and waits until it serves.
    #[track_caller]
    pub fn start(self) -> Machine {
        match self.try_start() {
            Ok(machine) => machine,
            Err(failure) => panic!("the daemon did not start: {failure:#?}"),
        }
    }

    /// Starts the daemon; the error has its output.
    pub fn try_start(self) -> Result<Machine, NotStarted> {
        self.try_start_in(&|_| ())
    }

    /// As [`Self::try_start`], after something was done to the folder for PVM's files.
    pub fn try_start_in(self, prepare: Preparation) -> Result<Machine, NotStarted> {
        let folder = TempDir::with_prefix("pvm-test-").expect("a temporary folder can be made");
        let library = self.library.clone().unwrap_or_else(|| self.installation.clone());
        let place = self.place(folder.path());
        fs::create_dir_all(&place.tmp).expect("a folder for PVM's files can be made");
        fs::create_dir_all(&place.home).expect("a home can be made");
        prepare(&place.tmp);
        let mut command = place.command(&self.installation.pvmd(), &self.installation);
        command.args(self.name.iter().map(|name| format!("-n{name}")));
        command.args(self.write_hostfile(folder.path()));
        let mut daemon = Program::start(&mut command);
        let socket = wait::until(wait::PATIENCE, || {
            let printed =
                daemon.stdout().lines().next().filter(|line| line.starts_with('/')).map(PathBuf::from);
            printed.map(Some).or_else(|| daemon.has_ended().then_some(None))
        });
        let mut machine = Machine {
            installation: self.installation,
            library,
            daemon: None,
            socket: PathBuf::new(),
            place,
            folder,
        };
        match socket.flatten() {
            Some(socket) => {
                machine.socket = socket;
                machine.daemon = Some(daemon);
                Ok(machine)
            }
            None => Err(machine.not_started(daemon)),
        }
    }

    fn write_hostfile(&self, folder: &Path) -> Option<PathBuf> {
        let text = self.hostfile.as_ref()?;
        let path = folder.join("hosts");
        let search = join(&self.paths);
        let text = text.replace("@PVMD@", &display(&self.installation.pvmd())).replace("@PATH@", &search);
        fs::write(&path, text).expect("the hostfile can be written");
        Some(path)
    }

    fn place(&self, folder: &Path) -> Place {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let home = folder.join("home");
        let tmp = folder.join("tmp");
        let mut variables = vec![
            ("HOME".to_owned(), display(&home)),
            ("PVM_TMP".to_owned(), display(&tmp)),
            (
                "PVM_VMID".to_owned(),
                format!("t{}-{}", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)),
            ),
            ("PVM_PATH".to_owned(), join(&self.paths)),
            // The original daemon needs its own library, so its tasks get theirs from the task that spawns them.
            ("PVM_EXPORT".to_owned(), LIBRARY_PATH.to_owned()),
            ("PVM_TASK_TARGET".to_owned(), TASK_TARGET.to_owned()),
            // The original refuses to serve root without it.
            ("PVM_ALLOW_ROOT".to_owned(), "1".to_owned()),
        ];
        if !rustix::process::geteuid().is_root() {
            // Tests look at the open files and the environment of daemons, which only root can do otherwise.
            variables.push(("PVM_DUMPABLE".to_owned(), "1".to_owned()));
        }
        variables.extend(self.installation.root().map(|root| ("PVM_ROOT".to_owned(), display(root))));
        variables.extend(self.network.iter().flat_map(|network| network.variables()));
        let variables = variables.into_iter().map(|(name, value)| (name, Some(value.into())));
        let variables = variables.chain(self.variables.iter().cloned()).collect();
        let marks =
            [folder].into_iter().chain(self.network.map(Network::folder)).map(Path::to_owned).collect();
        Place { variables, namespace: self.network.map(Network::master), home, tmp, marks }
    }
}

impl Place {
    pub(crate) fn command(&self, program: &Path, library: &Installation) -> Command {
        let mut command = match &self.namespace {
            Some(namespace) => namespace.command(program),
            None => Command::new(program),
        };
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            // Tests run in tasks, too, and have to build the same there.
            if text.starts_with("PVM") && !text.starts_with("PVM_TEST_") {
                command.env_remove(name);
            }
        }
        command.env(LIBRARY_PATH, library.library()).current_dir(&self.home);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn join(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| display(path)).collect::<Vec<_>>().join(":")
}
